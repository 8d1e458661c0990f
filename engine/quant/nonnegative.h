/* nonnegative.h -- which values of a graph are never negative, so that a symmetric grid
 * may use all of its codes on one side: the unsigned activations of OpenVINO.
 *
 *     clamps with a lower limit of 0 or more (Relu, Clip)      never negative
 *     outputs with a record whose grid begins at 0             never negative
 *     operators that preserve nonnegative values (traits       when all of their data
 *     PASSIVE, POOLING, NONNEGATIVE: MaxPool, Add, Concat)     inputs are nonnegative
 *     constants                                                by their data
 *     graph inputs and everything else                         may be negative
 *
 * MQBench searches for the nearest quantizer breadth-first and backwards, through any
 * operator: add(unsigned, pool(signed)) counts as unsigned there, and so does
 * pool(conv(unsigned)).  Here every path counts, and none leads through a convolution;
 * the walk goes forwards once, so it is linear.
 * Source   docs/evidence/openvino.md#unsigned-activations */
#ifndef QG_ENGINE_QUANT_NONNEGATIVE_H
#define QG_ENGINE_QUANT_NONNEGATIVE_H

#include "engine/quant/tqc.h"

/* (*out)[value id] is 1 where the value cannot be negative.  g is normalized; its nodes
 * may have records or not.  *out lies in a; QG_ENOMEM is the only failure. */
QG_NODISCARD qg_status qg_nonnegative_values(const qg_graph *g, qg_arena *a,
                                             uint8_t **out);

/* One step of that walk: whether all that n computes cannot be negative, before a
 * record rounds it.  is: [values], set for what n reads. */
bool qg_nonnegative_node(const qg_node *n, const uint8_t *is);
/* Its start: sets is[value id] for constants. */
void qg_nonnegative_constants(const qg_graph *g, uint8_t *is);

#endif

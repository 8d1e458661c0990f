/* requantize.h -- on which grid a value lies at an endpoint, and where integers of one
 * grid are needed on another: a requantization.
 *
 * Grid     scheme and parameters of the endpoint's dominator, whether the endpoint
 *          rounds or is silent; none when nobody rounds there (float, switched off,
 *          not calibrated)
 * Counted  a requantization is
 *
 *     again    a consumer rounds what its producer rounded, on another grid
 *     moved    a node that only moves values (MaxPool, Reshape, Concat) reads data on
 *              another grid than it gives out
 *     summed   an element-wise sum (Add, Sub, Max) reads an operand on another grid
 *              than its first one
 *
 *          What a kernel does anyway between accumulator and output is not counted.
 * instead  stand-ins for endpoints as in exec/plan.h, NULL for none: "what would it be
 *          if these had scales of their own".
 * Source   what the runtimes do: TFLite puts RESCALE-like QUANTIZE operators there,
 *          TensorRT reformat layers, OpenVINO FakeQuantize pairs. */
#ifndef QG_ENGINE_ANALYSIS_REQUANTIZE_H
#define QG_ENGINE_ANALYSIS_REQUANTIZE_H

#include "engine/quant/tqc.h"

/* At the inputs of all nodes. */
size_t qg_requantizations(const qg_graph *g, const qg_tqc *const *instead);

#endif

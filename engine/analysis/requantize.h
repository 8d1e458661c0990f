/* requantize.h -- the grid of a value at an endpoint, and the places where integers of
 * one grid are needed on another: requantizations.
 *
 * Grid     scheme and parameters of the endpoint's dominator, whether the endpoint
 *          itself is active or overlapped; none without a quantizer (float, switched
 *          off, not calibrated)
 * Counted  a requantization is
 *
 *     again    a consumer quantizes the quantized output of its producer, on another
 *              grid
 *     moved    a node that only moves values (MaxPool, Reshape, Concat) reads data on a
 *              grid other than that of its output
 *     summed   an element-wise sum (Add, Sub, Max) reads an operand on another grid
 *              than its first one
 *
 *          The requantization from accumulator to output, part of every kernel, is not
 *          counted.
 * instead  substitutes for endpoints as in exec/plan.h, NULL for none: to evaluate
 *          separate scales for them.
 * Source   the runtimes: TFLite puts RESCALE-like QUANTIZE operators there, TensorRT
 *          reformat layers, OpenVINO FakeQuantize pairs. */
#ifndef QG_ENGINE_ANALYSIS_REQUANTIZE_H
#define QG_ENGINE_ANALYSIS_REQUANTIZE_H

#include "engine/quant/tqc.h"

/* At the inputs of all nodes. */
size_t qg_requantizations(const qg_graph *g, const qg_tqc *const *instead);

/* Endpoints at which activations are rounded. */
size_t qg_rounding_points(const qg_quant *q);

#endif

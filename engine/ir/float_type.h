/* float_type.h -- a graph whose file has float16 or bfloat16, computed in float32.
 *
 * Quantization (records, observers, kernels, formats) works on float32.  A graph of
 * 16-bit floats is widened before, and narrowed again in the copy that is written:
 *
 *     QG_TRY(qg_graph_to_float32(g, &changed));   // then qg_infer
 *     ... passes ...
 *     QG_TRY(qg_graph_to_float_type(copy));
 *
 * Widened   constants, inputs, outputs and inner values of 16 bits become float32, and
 *           their Casts, which have nothing left to do, are removed.  Nothing is
 *           rounded to 16 bits any more.
 * Kept      control-flow nodes with their bodies, and nodes that cannot compute in
 *           float32 (a bit cast): Casts around them keep their types.
 * Marks     graph->float_type, value->file_dtype, node->stays_float32 describe the
 *           file; quant.json has them as "floats".
 * Narrowed  nodes without mark compute in float_type; Casts are where the types meet,
 *           as before and after QuantizeLinear, whose scales stay float32. */
#ifndef QG_ENGINE_IR_FLOAT_TYPE_H
#define QG_ENGINE_IR_FLOAT_TYPE_H

#include "engine/ir/graph.h"

/* g is inferred and normalized.  *changed: there was something to widen; then types of
 * values are right, the graph is normalized, and what inference keeps is out of date.
 * QG_EUNSUPPORTED when a Cast is needed and the graph's opset has none. */
QG_NODISCARD qg_status qg_graph_to_float32(qg_graph *g, bool *changed);

/* The reverse, by the marks; a graph without float_type is left as it is.  Float32
 * constants are rounded to the type, half to even.  Ends normalized. */
QG_NODISCARD qg_status qg_graph_to_float_type(qg_graph *g);

#endif

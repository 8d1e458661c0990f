/* quant.h -- the quantizers of QONNX, which Brevitas writes and FINN and hls4ml read.
 *
 *     q = round(clamp(x / scale + zeropt, low, high))
 *     y = (q - zeropt) scale
 *
 *     operator        inputs                       attributes
 *     Quant,          x, scale, zeropt,            signed, narrow, rounding_mode
 *     IntQuant        bitwidth (all float32)
 *     BipolarQuant, Trunc, FloatQuant              refused: they have no record
 *
 * Limits   signed: -2^(b-1) + narrow to 2^(b-1) - 1; else 0 to 2^b - 1 - narrow
 * Scales   one, or one per channel, with dims that broadcast: [8, 1, 1, 1]
 * Rounding ROUND half to even, HALF_UP half away from zero, HALF_DOWN half toward zero,
 *          CEIL, FLOOR; UP and DOWN, away from and toward zero, have no record.  The
 *          zero point is added before: modes that are not the same at every whole
 *          number (ROUND of an odd zero point, HALF_UP, HALF_DOWN) then round ties
 *          otherwise than a record, which adds it behind.
 * Domains  qonnx.custom_op.general; finn.custom_op.general and onnx.brevitas, of older
 *          files
 * Source   fastmachinelearning/qonnx 1.0.0, docs/qonnx-custom-ops/quant_op and
 *          custom_op/general/quant.py */
#ifndef QG_ENGINE_FORMATS_QONNX_QUANT_H
#define QG_ENGINE_FORMATS_QONNX_QUANT_H

#include "engine/formats/grid_record.h"

/* The operators of QONNX; the last row has name NULL.  Registered only while its
 * files are read (qg_quantizers_import): no other graph may hold them. */
extern const qg_op qg_qonnx_operators[];

/* One of the operators above. */
bool qg_is_qonnx(const qg_op *op);

/* The grid of such a node; *why as in qg_grid_of_linear (quantize_linear.h). */
QG_NODISCARD qg_status qg_grid_of_qonnx(qg_graph *g, const qg_node *n,
                                        qg_grid_record *out, const char **why);

/* Why no Quant has the grid of t; NULL: one has, up to qg_qonnx_ties. */
const char *qg_qonnx_fault(const qg_tqc *t);

/* What a Quant computes otherwise than t, at ties; NULL: nothing. */
const char *qg_qonnx_ties(const qg_tqc *t);

/* out = Quant(x) on the grid of t, which has no fault; g imports the domain
 * afterwards.  x has a known rank. */
QG_NODISCARD qg_status qg_qonnx_add_quant(qg_graph *g, const qg_tqc *t, qg_value *x,
                                          qg_value *out);

#endif

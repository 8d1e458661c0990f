/* explicit_pads.h -- pools and convolutions whose padding runtimes derive otherwise
 * than ONNX defines it, or refuse: files for them have the padding itself.
 *
 *     QG_TRY(qg_graph_clone(e->quant->graph, &e->graph));
 *     QG_TRY(qg_export_explicit_pads(e, e->graph, false));
 *
 * Pools        auto_pad SAME_* with dilations, or with strides beyond the window, where
 *              ONNX Runtime derives other pads, or negative ones, and refuses the node;
 *              auto_pad VALID with ceil_mode, which the formula of VALID does not have
 * Conv         auto_pad SAME_* with dilations, which ONNX Runtime refuses; OpenVINO
 *              derives its padding as ONNX does
 * Transposed   auto_pad or output_shape: ONNX Runtime and OpenVINO make fewer elements
 *              than input x stride where the window is smaller than the stride, and
 *              OpenVINO puts the odd element of the padding at the other end
 *
 * Source   MaxPool-12, AveragePool-19, LpPool-18 and ConvTranspose-11 of the ONNX
 *          operator pages; measured with onnxruntime 1.31.1 and OpenVINO 2026.4.1 */
#ifndef QG_ENGINE_FORMATS_EXPLICIT_PADS_H
#define QG_ENGINE_FORMATS_EXPLICIT_PADS_H

#include "engine/formats/format.h"

/* The value of the attribute; "NOTSET" without it. */
const char *qg_auto_pad_word(const qg_node *n);

/* Whether n is such a node and dims that decide the padding are open. */
bool qg_has_open_pads(const qg_node *n);

/* For build, before nodes are added: nodes of g and of its bodies get `pads` and, when
 * transposed, `output_padding`.  A row that changes results for nodes whose dims are
 * open, and for pools that keep auto_pad since their padding is as wide as the kernel,
 * which ONNX Runtime refuses; takes_wide: the reader of the file does not. */
QG_NODISCARD qg_status qg_export_explicit_pads(qg_export *e, qg_graph *g,
                                               bool takes_wide);

#endif

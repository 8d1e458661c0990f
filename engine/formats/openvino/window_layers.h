/* window_layers.h -- convolutions and pools as layers of OpenVINO IR.  Private to
 * engine/formats/openvino. */
#ifndef QG_ENGINE_FORMATS_OPENVINO_WINDOW_LAYERS_H
#define QG_ENGINE_FORMATS_OPENVINO_WINDOW_LAYERS_H

#include "engine/formats/openvino/layers.h"

/* Rows of Conv, ConvTranspose, MaxPool and AveragePool. */
QG_NODISCARD qg_status qg_ir_convolution(qg_ir *ir, const qg_node *n,
                                         const qg_ir_row *r);
QG_NODISCARD qg_status qg_ir_deconvolution(qg_ir *ir, const qg_node *n,
                                           const qg_ir_row *r);
QG_NODISCARD qg_status qg_ir_pool(qg_ir *ir, const qg_node *n, const qg_ir_row *r);

#endif

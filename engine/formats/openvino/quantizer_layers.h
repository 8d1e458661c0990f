/* quantizer_layers.h -- operators that quantize, as layers of OpenVINO IR.  Private to
 * engine/formats/openvino. */
#ifndef QG_ENGINE_FORMATS_OPENVINO_QUANTIZER_LAYERS_H
#define QG_ENGINE_FORMATS_OPENVINO_QUANTIZER_LAYERS_H

#include "engine/formats/openvino/layers.h"

/* The operator is OpenVINO's own: the same inputs. */
QG_NODISCARD qg_status qg_ir_fake_quantize(qg_ir *ir, const qg_node *n,
                                           const qg_ir_row *r);

/* DequantizeLinear: y = (Convert(x) - zero point) * scale in float32; without the
 * Subtract where every zero point is 0.  QG_EUNSUPPORTED for grids that
 * qg_grid_of_linear refuses, and for blocks. */
QG_NODISCARD qg_status qg_ir_dequantize(qg_ir *ir, const qg_node *n,
                                        const qg_ir_row *r);

#endif

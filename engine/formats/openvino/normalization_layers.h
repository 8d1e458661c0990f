/* normalization_layers.h -- normalizations and attention, which OpenVINO IR has in
 * other parts: MVN, products and sums, ScaledDotProductAttention.  Private to
 * engine/formats/openvino.
 *
 * Source: OpenVINO documentation, MVN-6, GroupNormalization-12,
 * ScaledDotProductAttention-13; ONNX LayerNormalization-17, GroupNormalization-18 and
 * -21, InstanceNormalization, RMSNormalization-23, Attention-23. */
#ifndef QG_ENGINE_FORMATS_OPENVINO_NORMALIZATION_LAYERS_H
#define QG_ENGINE_FORMATS_OPENVINO_NORMALIZATION_LAYERS_H

#include "engine/formats/openvino/layers.h"

/* Rows of the table of operators.  QG_EUNSUPPORTED when an output besides the first is
 * read. */
QG_NODISCARD qg_status qg_ir_layer_norm(qg_ir *ir, const qg_node *n,
                                        const qg_ir_row *r);
QG_NODISCARD qg_status qg_ir_rms_norm(qg_ir *ir, const qg_node *n, const qg_ir_row *r);
QG_NODISCARD qg_status qg_ir_instance_norm(qg_ir *ir, const qg_node *n,
                                           const qg_ir_row *r);
QG_NODISCARD qg_status qg_ir_group_norm(qg_ir *ir, const qg_node *n,
                                        const qg_ir_row *r);
/* Without caches and softcap; causal only where queries and keys are as many. */
QG_NODISCARD qg_status qg_ir_attention(qg_ir *ir, const qg_node *n, const qg_ir_row *r);

#endif

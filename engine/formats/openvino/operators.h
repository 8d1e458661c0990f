/* operators.h -- the operators of ONNX as layers of OpenVINO IR.  Private to
 * engine/formats/openvino.
 *
 * One row per operator.  Most are one layer with the same inputs; attributes of ONNX
 * are often inputs there, and shapes are constants, since all are known.
 *
 * Source: OpenVINO documentation, operation sets 1 to 11; ONNX operators. */
#ifndef QG_ENGINE_FORMATS_OPENVINO_OPERATORS_H
#define QG_ENGINE_FORMATS_OPENVINO_OPERATORS_H

#include "engine/formats/openvino/network.h"

/* The layers of a node, outputs bound.  QG_EUNSUPPORTED names node, operator and the
 * unsupported detail. */
QG_NODISCARD qg_status qg_ir_node(qg_ir *ir, const qg_node *n);

/* Operator number i of the table, and its layer in *layer, NULL where it becomes
 * several; NULL behind the last one. */
const char *qg_ir_layer_name(size_t i, const char **layer);

#endif

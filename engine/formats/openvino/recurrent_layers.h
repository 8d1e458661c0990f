/* recurrent_layers.h -- RNN, GRU and LSTM as sequence layers of OpenVINO IR.  Private
 * to engine/formats/openvino.
 *
 *              ONNX                          layer
 *     X        [time, batch, in]             [batch, time, in]
 *     states   [dirs, batch, hidden]         [batch, dirs, hidden]
 *     Y        [time, dirs, batch, hidden]   [batch, dirs, time, hidden]
 *     W, R     the same, gates z r h of GRU, i o f c of LSTM; the layer has f i c o
 *     B        of the input and of the       their sum; of the hidden gate of a GRU
 *              state, one behind the other   with linear_before_reset both
 *     lengths  may be absent                 are there
 *
 * With layout 1, X and the states have the layer's order.
 * Source: OpenVINO documentation, RNNSequence-5, GRUSequence-5, LSTMSequence-5; ONNX
 * RNN, GRU and LSTM-14. */
#ifndef QG_ENGINE_FORMATS_OPENVINO_RECURRENT_LAYERS_H
#define QG_ENGINE_FORMATS_OPENVINO_RECURRENT_LAYERS_H

#include "engine/formats/openvino/layers.h"

/* Rows of the table of operators.  QG_EUNSUPPORTED for peepholes, coupled gates, and
 * functions that the layer does not have or that differ between the directions. */
QG_NODISCARD qg_status qg_ir_rnn(qg_ir *ir, const qg_node *n, const qg_ir_row *r);
QG_NODISCARD qg_status qg_ir_gru(qg_ir *ir, const qg_node *n, const qg_ir_row *r);
QG_NODISCARD qg_status qg_ir_lstm(qg_ir *ir, const qg_node *n, const qg_ir_row *r);

#endif

/* parts.c -- what builders of operators have in common: activations, operands. */
#include "engine/formats/tflite/operators.h"

/* --- activations --- */

static qg_status clip(qg_tflite_builder *b, qg_value *x, float low, float high,
                      qg_value *y)
{
    qg_value *in[3] = { x };
    qg_tflite_node n = { .op = "Clip", .in = in, .n_in = 3 };
    QG_TRY(qg_tflite_float_constant(b, "low", low, &in[1]));
    QG_TRY(qg_tflite_float_constant(b, "high", high, &in[2]));
    return qg_tflite_add(b, &n, &y, 1);
}

qg_status qg_tflite_activate(qg_tflite_builder *b, int32_t activation, qg_value *x,
                             qg_value *y)
{
    switch (activation) {
    case QG_TFLITE_RELU:
        return qg_tflite_add(b, &(qg_tflite_node){ .op = "Relu", .in = &x, .n_in = 1 },
                             &y, 1);
    case QG_TFLITE_RELU_N1_TO_1:
        return clip(b, x, -1, 1, y);
    case QG_TFLITE_RELU6:
        return clip(b, x, 0, 6, y);
    default:
        return qg_tflite_fail(b, QG_EUNSUPPORTED,
                              "activation %d, expected NONE, RELU, RELU_N1_TO_1 or "
                              "RELU6",
                              activation);
    }
}

qg_status qg_tflite_compute(qg_tflite_builder *b, const qg_tflite_node *n,
                            qg_tflite_value *v, int32_t activation, qg_value *y)
{
    qg_value *x;
    if (activation == QG_TFLITE_NO_ACTIVATION)
        return qg_tflite_add(b, n, &y, 1);
    QG_TRY(qg_tflite_silent(b, v, "unclamped", &x));
    QG_TRY(qg_tflite_add(b, n, &x, 1));
    return qg_tflite_activate(b, activation, x, y);
}

qg_status qg_tflite_finish(qg_tflite_builder *b, const qg_tflite_node *n,
                           qg_tflite_value *v, enum qg_tflite_layout layout,
                           int32_t activation)
{
    qg_value *y;
    QG_TRY(qg_tflite_lead(b, v, layout, &y));
    return qg_tflite_compute(b, n, v, activation, y);
}

/* --- forms of operands --- */

qg_status qg_tflite_check_axis(qg_tflite_builder *b, int64_t axis, int32_t rank,
                               int64_t *out)
{
    if (axis < -rank || axis >= rank)
        return qg_tflite_fail(b, QG_EMODEL, "axis %lld of a tensor of rank %d",
                              (long long)axis, rank);
    *out = axis < 0 ? axis + rank : axis;
    return QG_OK;
}

/* Element-wise operators broadcast one element in any form. */
static bool is_single(const qg_tflite_value *v)
{
    return qg_tensor_count(&v->type) == 1 && v->type.rank <= 4;
}

enum qg_tflite_layout qg_tflite_pick(qg_tflite_builder *b, uint32_t first)
{
    bool any = false, all = b->value[b->op->out[0]].type.rank == 4;
    for (uint32_t k = first; k < b->op->n_in; k++) {
        const qg_tflite_value *v = &b->value[b->op->in[k]];
        bool has = v->form[QG_TFLITE_NCHW] && !v->constant;
        any |= has;
        all &= has || is_single(v) || (v->constant && v->type.rank <= 4);
    }
    return any && all ? QG_TFLITE_NCHW : QG_TFLITE_PLAIN;
}

qg_status qg_tflite_operand(qg_tflite_builder *b, uint32_t k,
                            enum qg_tflite_layout layout, qg_value **out)
{
    qg_tflite_value *v;
    QG_TRY(qg_tflite_input(b, k, &v));
    bool plain = !v->constant && !v->form[layout] && is_single(v);
    return qg_tflite_form(b, v, plain ? QG_TFLITE_PLAIN : layout, out);
}

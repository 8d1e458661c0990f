/* functions.c -- functions of each element, softmax and means. */
#include "engine/formats/tflite/operators.h"

/* One operator of ONNX on all inputs, in whichever form they have. */
static qg_status elementwise(qg_tflite_builder *b, qg_tflite_node *n)
{
    qg_value *in[2];
    qg_tflite_value *v;
    enum qg_tflite_layout layout = qg_tflite_pick(b, 0);
    QG_TRY(qg_tflite_output(b, 0, &v));
    for (uint32_t k = 0; k < b->op->n_in; k++)
        QG_TRY(qg_tflite_operand(b, k, layout, &in[k]));
    n->in = in;
    n->n_in = b->op->n_in;
    return qg_tflite_finish(b, n, v, layout, b->op->options.activation);
}

#define ELEMENTWISE(name, onnx)                                                        \
    qg_status qg_tflite_build_##name(qg_tflite_builder *b)                             \
    {                                                                                  \
        qg_tflite_node n = { .op = onnx };                                             \
        return elementwise(b, &n);                                                     \
    }
ELEMENTWISE(add, "Add")
ELEMENTWISE(sub, "Sub")
ELEMENTWISE(mul, "Mul")
ELEMENTWISE(maximum, "Max")
ELEMENTWISE(minimum, "Min")
ELEMENTWISE(logistic, "Sigmoid")
ELEMENTWISE(tanh, "Tanh")
ELEMENTWISE(hard_swish, "HardSwish")
ELEMENTWISE(prelu, "PRelu")
ELEMENTWISE(identity, "Identity")
ELEMENTWISE(div, "Div")
ELEMENTWISE(exp, "Exp")
ELEMENTWISE(neg, "Neg")
ELEMENTWISE(log, "Log")
ELEMENTWISE(sqrt, "Sqrt")
ELEMENTWISE(pow, "Pow")
ELEMENTWISE(abs, "Abs")
ELEMENTWISE(ceil, "Ceil")
ELEMENTWISE(floor, "Floor")

qg_status qg_tflite_build_gelu(qg_tflite_builder *b)
{
    qg_tflite_node n = { .op = "Gelu" };
    QG_TRY(qg_tflite_attr_text(b, &n, "approximate",
                               b->op->options.approximate ? "tanh" : "none"));
    return elementwise(b, &n);
}

/* Between the two there is no rounding. */
qg_status qg_tflite_build_squared_difference(qg_tflite_builder *b)
{
    qg_value *in[2], *d;
    qg_tflite_value *v;
    enum qg_tflite_layout layout = qg_tflite_pick(b, 0);
    qg_tflite_node sub = { .op = "Sub", .in = in, .n_in = 2 };
    QG_TRY(qg_tflite_output(b, 0, &v));
    QG_TRY(qg_tflite_operand(b, 0, layout, &in[0]));
    QG_TRY(qg_tflite_operand(b, 1, layout, &in[1]));
    QG_TRY(qg_tflite_silent(b, v, "difference", &d));
    QG_TRY(qg_tflite_add(b, &sub, &d, 1));
    qg_tflite_node mul = {
        .op = "Mul", .in = (qg_value *[]){d, d},
              .n_in = 2
    };
    return qg_tflite_finish(b, &mul, v, layout, QG_TFLITE_NO_ACTIVATION);
}

static qg_status clamp_alone(qg_tflite_builder *b, int32_t activation)
{
    qg_value *x, *y;
    qg_tflite_value *v;
    enum qg_tflite_layout layout = qg_tflite_pick(b, 0);
    QG_TRY(qg_tflite_output(b, 0, &v));
    QG_TRY(qg_tflite_operand(b, 0, layout, &x));
    QG_TRY(qg_tflite_lead(b, v, layout, &y));
    return qg_tflite_activate(b, activation, x, y);
}

qg_status qg_tflite_build_relu(qg_tflite_builder *b)
{
    return clamp_alone(b, QG_TFLITE_RELU);
}

qg_status qg_tflite_build_relu6(qg_tflite_builder *b)
{
    return clamp_alone(b, QG_TFLITE_RELU6);
}

qg_status qg_tflite_build_relu_n1_to_1(qg_tflite_builder *b)
{
    return clamp_alone(b, QG_TFLITE_RELU_N1_TO_1);
}

qg_status qg_tflite_build_leaky_relu(qg_tflite_builder *b)
{
    qg_tflite_node n = { .op = "LeakyRelu" };
    QG_TRY(qg_tflite_attr_float(b, &n, "alpha", b->op->options.factor));
    return elementwise(b, &n);
}

/* --- rows --- */

qg_status qg_tflite_build_softmax(qg_tflite_builder *b)
{
    qg_value *x;
    qg_tflite_value *v;
    qg_tflite_node n = { .op = "Softmax", .in = &x, .n_in = 1 };
    if (b->op->options.factor != 1.0f)
        return qg_tflite_fail(b, QG_EUNSUPPORTED, "beta %g, expected 1",
                              (double)b->op->options.factor);
    QG_TRY(qg_tflite_output(b, 0, &v));
    QG_TRY(qg_tflite_operand(b, 0, QG_TFLITE_PLAIN, &x));
    QG_TRY(qg_tflite_attr_int(b, &n, "axis", -1));
    return qg_tflite_finish(b, &n, v, QG_TFLITE_PLAIN, QG_TFLITE_NO_ACTIVATION);
}

/* Over height and width, with the axes kept: runtimes have a kernel for this case. */
static qg_status global_mean(qg_tflite_builder *b, qg_tflite_value *x,
                             qg_tflite_value *v)
{
    qg_value *in;
    qg_tflite_node node = { .op = "GlobalAveragePool", .in = &in, .n_in = 1 };
    QG_TRY(qg_tflite_form(b, x, QG_TFLITE_NCHW, &in));
    return qg_tflite_finish(b, &node, v, QG_TFLITE_NCHW, QG_TFLITE_NO_ACTIVATION);
}

/* In nchw where what is left has the same order as in plain, and where axes 2 and 3 of
 * the file, which are no height and width, would look like them. */
qg_status qg_tflite_build_mean(qg_tflite_builder *b)
{
    int64_t axis[QG_MAX_RANK];
    size_t n;
    qg_value *in[2];
    qg_tflite_value *x, *v;
    qg_tflite_node node = { .op = "ReduceMean", .in = in, .n_in = 2 };
    bool keep = b->op->options.keep_dims;
    uint32_t set = 0;
    QG_TRY(qg_tflite_input(b, 0, &x));
    QG_TRY(qg_tflite_output(b, 0, &v));
    QG_TRY(qg_tflite_integers(b, 1, QG_MAX_RANK, axis, &n));
    for (size_t i = 0; i < n; i++) {
        QG_TRY(qg_tflite_check_axis(b, axis[i], x->type.rank, &axis[i]));
        set |= 1u << axis[i];
    }
    bool pair = n == 2 && x->type.rank == 4, picture = pair && set == 0x6;
    if (picture && keep)
        return global_mean(b, x, v);
    bool first =
        (x->form[QG_TFLITE_NCHW] && (keep || picture)) || (keep && pair && set == 0xc);
    enum qg_tflite_layout layout = first ? QG_TFLITE_NCHW : QG_TFLITE_PLAIN;
    for (size_t i = 0; i < n && first; i++)
        axis[i] = qg_tflite_axis(layout, axis[i]);
    QG_TRY(qg_tflite_form(b, x, layout, &in[0]));
    QG_TRY(qg_tflite_int_constant(b, "axes", n, axis, &in[1]));
    QG_TRY(qg_tflite_attr_int(b, &node, "keepdims", keep));
    return qg_tflite_finish(b, &node, v, keep ? layout : QG_TFLITE_PLAIN,
                            QG_TFLITE_NO_ACTIVATION);
}

#include "engine/formats/tflite/operators.h"

#include <string.h>

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

static qg_status activate(qg_tflite_builder *b, int32_t activation, qg_value *x,
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
    return activate(b, activation, x, y);
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

/* --- functions of each element --- */

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
    static qg_status build_##name(qg_tflite_builder *b)                                \
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

/* Between the two there is no rounding. */
static qg_status build_squared_difference(qg_tflite_builder *b)
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
    return activate(b, activation, x, y);
}

static qg_status build_relu(qg_tflite_builder *b)
{
    return clamp_alone(b, QG_TFLITE_RELU);
}

static qg_status build_relu6(qg_tflite_builder *b)
{
    return clamp_alone(b, QG_TFLITE_RELU6);
}

static qg_status build_relu_n1_to_1(qg_tflite_builder *b)
{
    return clamp_alone(b, QG_TFLITE_RELU_N1_TO_1);
}

static qg_status build_leaky_relu(qg_tflite_builder *b)
{
    qg_tflite_node n = { .op = "LeakyRelu" };
    QG_TRY(qg_tflite_attr_float(b, &n, "alpha", b->op->options.factor));
    return elementwise(b, &n);
}

/* --- rows --- */

static qg_status build_softmax(qg_tflite_builder *b)
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

/* In nchw where what is left has the same order as in plain. */
static qg_status build_mean(qg_tflite_builder *b)
{
    int64_t axis[QG_MAX_RANK];
    size_t n;
    qg_value *in[2];
    qg_tflite_value *x, *v;
    qg_tflite_node node = { .op = "ReduceMean", .in = in, .n_in = 2 };
    bool keep = b->op->options.keep_dims, picture = true;
    QG_TRY(qg_tflite_input(b, 0, &x));
    QG_TRY(qg_tflite_output(b, 0, &v));
    QG_TRY(qg_tflite_integers(b, 1, QG_MAX_RANK, axis, &n));
    for (size_t i = 0; i < n; i++) {
        QG_TRY(qg_tflite_check_axis(b, axis[i], x->type.rank, &axis[i]));
        picture &= axis[i] == 1 || axis[i] == 2;
    }
    bool first = x->form[QG_TFLITE_NCHW] && (keep || (picture && n == 2));
    enum qg_tflite_layout layout = first ? QG_TFLITE_NCHW : QG_TFLITE_PLAIN;
    for (size_t i = 0; i < n && first; i++)
        axis[i] = qg_tflite_axis(layout, axis[i]);
    QG_TRY(qg_tflite_form(b, x, layout, &in[0]));
    QG_TRY(qg_tflite_int_constant(b, "axes", n, axis, &in[1]));
    QG_TRY(qg_tflite_attr_int(b, &node, "keepdims", keep));
    return qg_tflite_finish(b, &node, v, keep ? layout : QG_TFLITE_PLAIN,
                            QG_TFLITE_NO_ACTIVATION);
}

/* --- the table --- */

enum {
    MAY_LACK = 1,  /* options */
    SAME_GRID = 2, /* inputs and outputs have one grid: the kernel moves codes */
    CONVERTS = 4   /* codes and floats may meet */
};

/* roles, one letter for each input, the last repeats: x, w, b have a grid when output
 * 0 has one (b: without rules for equal grids); i: indices and the like. */
static const struct row {
    int32_t code;
    const char *name;
    int32_t options;
    unsigned flags;
    const char *roles;
    uint32_t min_in, max_in, max_out; /* UINT32_MAX: any number */
    qg_tflite_build *build;
} rows[] = {
  /* clang-format off */
#define KIND(k) QG_TFLITE_OPTIONS_##k
#define ANY UINT32_MAX
    { 0, "ADD", KIND(ADD), MAY_LACK, "x", 2, 2, 1, build_add },
    { 1, "AVERAGE_POOL_2D", KIND(POOL), SAME_GRID, "x", 1, 1, 1,
      qg_tflite_build_average_pool },
    { 2, "CONCATENATION", KIND(CONCAT), 0, "x", 1, ANY, 1, qg_tflite_build_concat },
    { 3, "CONV_2D", KIND(CONV), 0, "xwb", 2, 3, 1, qg_tflite_build_conv },
    { 4, "DEPTHWISE_CONV_2D", KIND(DEPTHWISE), 0, "xwb", 2, 3, 1,
      qg_tflite_build_depthwise },
    { 6, "DEQUANTIZE", KIND(NONE), CONVERTS, "x", 1, 1, 1, build_identity },
    { 9, "FULLY_CONNECTED", KIND(DENSE), 0, "xwb", 2, 3, 1, qg_tflite_build_dense },
    { 14, "LOGISTIC", KIND(NONE), 0, "x", 1, 1, 1, build_logistic },
    { 17, "MAX_POOL_2D", KIND(POOL), SAME_GRID, "x", 1, 1, 1,
      qg_tflite_build_max_pool },
    { 18, "MUL", KIND(MUL), MAY_LACK, "x", 2, 2, 1, build_mul },
    { 19, "RELU", KIND(NONE), 0, "x", 1, 1, 1, build_relu },
    { 20, "RELU_N1_TO_1", KIND(NONE), 0, "x", 1, 1, 1, build_relu_n1_to_1 },
    { 21, "RELU6", KIND(NONE), 0, "x", 1, 1, 1, build_relu6 },
    { 22, "RESHAPE", KIND(NONE), SAME_GRID, "xi", 1, 2, 1, qg_tflite_build_reshape },
    { 23, "RESIZE_BILINEAR", KIND(RESIZE_BILINEAR), SAME_GRID, "xi", 2, 2, 1,
      qg_tflite_build_bilinear },
    { 25, "SOFTMAX", KIND(SOFTMAX), 0, "x", 1, 1, 1, build_softmax },
    { 28, "TANH", KIND(NONE), 0, "x", 1, 1, 1, build_tanh },
    { 34, "PAD", KIND(NONE), SAME_GRID, "xi", 2, 2, 1, qg_tflite_build_pad },
    { 36, "GATHER", KIND(GATHER), MAY_LACK | SAME_GRID, "xi", 2, 2, 1,
      qg_tflite_build_gather },
    { 39, "TRANSPOSE", KIND(NONE), SAME_GRID, "xi", 2, 2, 1,
      qg_tflite_build_transpose },
    { 40, "MEAN", KIND(REDUCER), MAY_LACK, "xi", 2, 2, 1, build_mean },
    { 41, "SUB", KIND(SUB), MAY_LACK, "x", 2, 2, 1, build_sub },
    { 43, "SQUEEZE", KIND(NONE), SAME_GRID, "x", 1, 1, 1, qg_tflite_build_reshape },
    { 45, "STRIDED_SLICE", KIND(STRIDED_SLICE), SAME_GRID, "xi", 4, 4, 1,
      qg_tflite_build_strided_slice },
    { 49, "SPLIT", KIND(SPLIT), SAME_GRID, "ix", 2, 2, ANY, qg_tflite_build_split },
    { 54, "PRELU", KIND(NONE), 0, "x", 2, 2, 1, build_prelu },
    { 55, "MAXIMUM", KIND(NONE), SAME_GRID, "x", 2, 2, 1, build_maximum },
    { 57, "MINIMUM", KIND(NONE), SAME_GRID, "x", 2, 2, 1, build_minimum },
    { 60, "PADV2", KIND(NONE), SAME_GRID, "xix", 3, 3, 1, qg_tflite_build_pad },
    { 65, "SLICE", KIND(NONE), SAME_GRID, "xi", 3, 3, 1, qg_tflite_build_slice },
    { 67, "TRANSPOSE_CONV", KIND(TRANSPOSE_CONV), 0, "iwxb", 3, 4, 1,
      qg_tflite_build_transpose_conv },
    { 70, "EXPAND_DIMS", KIND(NONE), SAME_GRID, "xi", 2, 2, 1,
      qg_tflite_build_reshape },
    { 83, "PACK", KIND(PACK), SAME_GRID, "x", 1, ANY, 1, qg_tflite_build_pack },
    { 88, "UNPACK", KIND(UNPACK), SAME_GRID, "x", 1, 1, ANY, qg_tflite_build_unpack },
    { 97, "RESIZE_NEAREST_NEIGHBOR", KIND(RESIZE_NEAREST), SAME_GRID, "xi", 2, 2, 1,
      qg_tflite_build_nearest },
    { 98, "LEAKY_RELU", KIND(LEAKY_RELU), 0, "x", 1, 1, 1, build_leaky_relu },
    { 99, "SQUARED_DIFFERENCE", KIND(NONE), 0, "x", 2, 2, 1, build_squared_difference },
    { 102, "SPLIT_V", KIND(SPLIT_V), SAME_GRID, "xi", 3, 3, ANY,
      qg_tflite_build_split_v },
    { 114, "QUANTIZE", KIND(NONE), CONVERTS, "x", 1, 1, 1, build_identity },
    { 117, "HARD_SWISH", KIND(NONE), 0, "x", 1, 1, 1, build_hard_swish },
    { 126, "BATCH_MATMUL", KIND(BATCH_MATMUL), MAY_LACK, "x", 2, 2, 1,
      qg_tflite_build_matmul },
#undef ANY
#undef KIND
  /* clang-format on */
};

static const struct row *row_of(int32_t code)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].code == code)
            return &rows[i];
    return NULL;
}

static char role_of(const struct row *r, uint32_t k)
{
    size_t n = strlen(r->roles);
    return r->roles[k < n ? k : n - 1];
}

/* --- what all operators have in common --- */

enum { CUSTOM = 32 };

static qg_status find_row(qg_tflite_builder *b, const struct row **out)
{
    const char *custom = b->op->custom ? b->op->custom : "";
    *out = row_of(b->op->code);
    b->op_name = *out ? (*out)->name : "?";
    if (*out)
        return QG_OK;
    if (b->op->code == CUSTOM)
        return qg_fail(b->ctx, QG_EUNSUPPORTED,
                       "import: operator %u: custom operator '%.100s', expected a "
                       "builtin one",
                       b->at, custom);
    if (b->op->code < 0)
        return qg_fail(b->ctx, QG_EMODEL,
                       "import: operator %u: its code is none of the file's", b->at);
    return qg_fail(b->ctx, QG_EUNSUPPORTED,
                   "import: operator %u: builtin operator %d, expected one of "
                   "docs/from-tflite.md",
                   b->at, b->op->code);
}

static qg_status check_slots(qg_tflite_builder *b, const struct row *r)
{
    uint32_t n_in = b->op->n_in, n_out = b->op->n_out;
    if (n_in < r->min_in || n_in > r->max_in)
        return qg_tflite_fail(b, QG_EMODEL, "%u inputs, expected %u to %u", n_in,
                              r->min_in, r->max_in);
    if (n_out < 1 || n_out > r->max_out)
        return qg_tflite_fail(b, QG_EMODEL, "%u outputs, expected 1 to %u", n_out,
                              r->max_out);
    return QG_OK;
}

/* Options of another kind belong to no kernel; those of operators without any are not
 * read. */
static qg_status check_options(qg_tflite_builder *b, const struct row *r,
                               qg_tflite_operator *op)
{
    bool lacks = op->options.kind == QG_TFLITE_OPTIONS_NONE && r->flags & MAY_LACK;
    if (op->options.kind != r->options && r->options != QG_TFLITE_OPTIONS_NONE &&
        !lacks)
        return qg_tflite_fail(b, QG_EMODEL, "options of kind %d, expected %d",
                              op->options.kind, r->options);
    if (op->options.kind != r->options)
        op->options = (qg_tflite_options){ 0 };
    return QG_OK;
}

static bool same_grid(const qg_tflite_value *a, const qg_tflite_value *v)
{
    if (!a->grid || !v->grid)
        return a->grid == v->grid;
    return qg_scheme_same(&a->grid->scheme, &v->grid->scheme) &&
           a->grid->param.n == v->grid->param.n &&
           a->grid->param.scale[0] == v->grid->param.scale[0] &&
           a->grid->param.offset[0] == v->grid->param.offset[0];
}

/* Every input and output against output 0. */
static qg_status check_grid(qg_tflite_builder *b, const struct row *r,
                            const qg_tflite_value *v, char role)
{
    const qg_tflite_value *y = &b->value[b->op->out[0]];
    if (r->flags & CONVERTS || role == 'i')
        return QG_OK;
    if (!v->grid != !y->grid)
        return qg_tflite_fail(
            b, QG_EUNSUPPORTED,
            "tensor %d is %s and output 0 is %s: a hybrid operator, expected all "
            "quantized or all float",
            (int)(v - b->value), qg_dtype_name(v->codes), qg_dtype_name(y->codes));
    if (r->flags & SAME_GRID && !same_grid(v, y))
        return qg_tflite_fail(
            b, QG_EUNSUPPORTED,
            "tensor %d has another scale or zero point than output 0, "
            "expected the same",
            (int)(v - b->value));
    return QG_OK;
}

static qg_status check_slots_of(qg_tflite_builder *b, const struct row *r)
{
    qg_tflite_value *v;
    for (uint32_t k = 0; k < b->op->n_out; k++) {
        QG_TRY(qg_tflite_output(b, k, &v));
        QG_TRY(check_grid(b, r, v, 'x'));
    }
    for (uint32_t k = 0; k < b->op->n_in; k++) {
        if (!qg_tflite_has_input(b, k) && role_of(r, k) == 'b')
            continue;
        QG_TRY(qg_tflite_input(b, k, &v));
        QG_TRY(check_grid(b, r, v, role_of(r, k)));
    }
    return QG_OK;
}

static qg_status check_and_build(qg_tflite_builder *b, qg_tflite_operator *op)
{
    const struct row *r;
    QG_TRY(find_row(b, &r));
    QG_TRY(check_slots(b, r));
    QG_TRY(check_options(b, r, op));
    QG_TRY(check_slots_of(b, r));
    return r->build(b);
}

qg_status qg_tflite_operator_build(qg_tflite_builder *b)
{
    qg_tflite_operator op = *b->op;
    b->op = &op;
    qg_status s = check_and_build(b, &op);
    b->op = NULL;
    return s;
}

#include "engine/formats/tflite/operators.h"

#include <string.h>

enum {
    MAY_LACK = 1,  /* options */
    SAME_GRID = 2, /* inputs and outputs have one grid: the kernel moves codes */
    CONVERTS = 4,  /* codes and floats may meet */
    FLOATS = 8     /* their arithmetic on codes is not modelled */
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
    { 0, "ADD", KIND(ADD), MAY_LACK, "x", 2, 2, 1, qg_tflite_build_add },
    { 1, "AVERAGE_POOL_2D", KIND(POOL), SAME_GRID, "x", 1, 1, 1,
      qg_tflite_build_average_pool },
    { 2, "CONCATENATION", KIND(CONCAT), 0, "x", 1, ANY, 1, qg_tflite_build_concat },
    { 3, "CONV_2D", KIND(CONV), 0, "xwb", 2, 3, 1, qg_tflite_build_conv },
    { 4, "DEPTHWISE_CONV_2D", KIND(DEPTHWISE), 0, "xwb", 2, 3, 1,
      qg_tflite_build_depthwise },
    { 6, "DEQUANTIZE", KIND(NONE), CONVERTS, "x", 1, 1, 1, qg_tflite_build_identity },
    { 8, "FLOOR", KIND(NONE), FLOATS, "x", 1, 1, 1, qg_tflite_build_floor },
    { 9, "FULLY_CONNECTED", KIND(DENSE), 0, "xwb", 2, 3, 1, qg_tflite_build_dense },
    { 14, "LOGISTIC", KIND(NONE), 0, "x", 1, 1, 1, qg_tflite_build_logistic },
    { 17, "MAX_POOL_2D", KIND(POOL), SAME_GRID, "x", 1, 1, 1,
      qg_tflite_build_max_pool },
    { 18, "MUL", KIND(MUL), MAY_LACK, "x", 2, 2, 1, qg_tflite_build_mul },
    { 19, "RELU", KIND(NONE), 0, "x", 1, 1, 1, qg_tflite_build_relu },
    { 20, "RELU_N1_TO_1", KIND(NONE), 0, "x", 1, 1, 1, qg_tflite_build_relu_n1_to_1 },
    { 21, "RELU6", KIND(NONE), 0, "x", 1, 1, 1, qg_tflite_build_relu6 },
    { 22, "RESHAPE", KIND(NONE), SAME_GRID, "xi", 1, 2, 1, qg_tflite_build_reshape },
    { 23, "RESIZE_BILINEAR", KIND(RESIZE_BILINEAR), SAME_GRID, "xi", 2, 2, 1,
      qg_tflite_build_bilinear },
    { 25, "SOFTMAX", KIND(SOFTMAX), 0, "x", 1, 1, 1, qg_tflite_build_softmax },
    { 28, "TANH", KIND(NONE), 0, "x", 1, 1, 1, qg_tflite_build_tanh },
    { 34, "PAD", KIND(NONE), SAME_GRID, "xi", 2, 2, 1, qg_tflite_build_pad },
    { 36, "GATHER", KIND(GATHER), MAY_LACK | SAME_GRID, "xi", 2, 2, 1,
      qg_tflite_build_gather },
    { 39, "TRANSPOSE", KIND(NONE), SAME_GRID, "xi", 2, 2, 1,
      qg_tflite_build_transpose },
    { 40, "MEAN", KIND(REDUCER), MAY_LACK, "xi", 2, 2, 1, qg_tflite_build_mean },
    { 41, "SUB", KIND(SUB), MAY_LACK, "x", 2, 2, 1, qg_tflite_build_sub },
    { 42, "DIV", KIND(DIV), MAY_LACK | FLOATS, "x", 2, 2, 1, qg_tflite_build_div },
    { 43, "SQUEEZE", KIND(NONE), SAME_GRID, "x", 1, 1, 1, qg_tflite_build_reshape },
    { 45, "STRIDED_SLICE", KIND(STRIDED_SLICE), SAME_GRID, "xi", 4, 4, 1,
      qg_tflite_build_strided_slice },
    { 47, "EXP", KIND(NONE), FLOATS, "x", 1, 1, 1, qg_tflite_build_exp },
    { 49, "SPLIT", KIND(SPLIT), SAME_GRID, "ix", 2, 2, ANY, qg_tflite_build_split },
    { 54, "PRELU", KIND(NONE), 0, "x", 2, 2, 1, qg_tflite_build_prelu },
    { 55, "MAXIMUM", KIND(NONE), SAME_GRID, "x", 2, 2, 1, qg_tflite_build_maximum },
    { 57, "MINIMUM", KIND(NONE), SAME_GRID, "x", 2, 2, 1, qg_tflite_build_minimum },
    { 59, "NEG", KIND(NONE), FLOATS, "x", 1, 1, 1, qg_tflite_build_neg },
    { 60, "PADV2", KIND(NONE), SAME_GRID, "xix", 3, 3, 1, qg_tflite_build_pad },
    { 65, "SLICE", KIND(NONE), SAME_GRID, "xi", 3, 3, 1, qg_tflite_build_slice },
    { 67, "TRANSPOSE_CONV", KIND(TRANSPOSE_CONV), 0, "iwxb", 3, 4, 1,
      qg_tflite_build_transpose_conv },
    { 70, "EXPAND_DIMS", KIND(NONE), SAME_GRID, "xi", 2, 2, 1,
      qg_tflite_build_reshape },
    { 73, "LOG", KIND(NONE), FLOATS, "x", 1, 1, 1, qg_tflite_build_log },
    { 75, "SQRT", KIND(NONE), FLOATS, "x", 1, 1, 1, qg_tflite_build_sqrt },
    { 78, "POW", KIND(NONE), FLOATS, "x", 2, 2, 1, qg_tflite_build_pow },
    { 83, "PACK", KIND(PACK), SAME_GRID, "x", 1, ANY, 1, qg_tflite_build_pack },
    { 88, "UNPACK", KIND(UNPACK), SAME_GRID, "x", 1, 1, ANY, qg_tflite_build_unpack },
    { 97, "RESIZE_NEAREST_NEIGHBOR", KIND(RESIZE_NEAREST), SAME_GRID, "xi", 2, 2, 1,
      qg_tflite_build_nearest },
    { 98, "LEAKY_RELU", KIND(LEAKY_RELU), 0, "x", 1, 1, 1, qg_tflite_build_leaky_relu },
    { 99, "SQUARED_DIFFERENCE", KIND(NONE), 0, "x", 2, 2, 1,
      qg_tflite_build_squared_difference },
    { 101, "ABS", KIND(NONE), FLOATS, "x", 1, 1, 1, qg_tflite_build_abs },
    { 102, "SPLIT_V", KIND(SPLIT_V), SAME_GRID, "xi", 3, 3, ANY,
      qg_tflite_build_split_v },
    { 104, "CEIL", KIND(NONE), FLOATS, "x", 1, 1, 1, qg_tflite_build_ceil },
    { 114, "QUANTIZE", KIND(NONE), CONVERTS, "x", 1, 1, 1, qg_tflite_build_identity },
    { 117, "HARD_SWISH", KIND(NONE), 0, "x", 1, 1, 1, qg_tflite_build_hard_swish },
    { 126, "BATCH_MATMUL", KIND(BATCH_MATMUL), MAY_LACK, "x", 2, 2, 1,
      qg_tflite_build_matmul },
    { 130, "BROADCAST_TO", KIND(NONE), SAME_GRID, "xi", 2, 2, 1,
      qg_tflite_build_broadcast },
    { 150, "GELU", KIND(GELU), MAY_LACK | FLOATS, "x", 1, 1, 1, qg_tflite_build_gelu },
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
    if (r->flags & FLOATS && v->grid)
        return qg_tflite_fail(b, QG_EUNSUPPORTED,
                              "tensor %d is quantized, expected float32",
                              (int)(v - b->value));
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

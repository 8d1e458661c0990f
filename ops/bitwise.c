/* bitwise.c -- BitShift, BitwiseAnd, Or, Xor, Not on integers.
 * Source: the ONNX operator page of the same name.
 *
 * BitShift-11 takes unsigned integers in ONNX and all of them here; the others since
 * 18. Outputs are indices or masks to a backend ('s'): they are never quantized. */
#include "ops/families.h"

#include "ops/util_broadcast.h"

#define ROW2(id, suffix, T, expr)                                                      \
    static void id##_##suffix(const void *a, int64_t sa, const void *b, int64_t sb,    \
                              void *y, size_t n)                                       \
    {                                                                                  \
        enum { WIDTH = 8 * sizeof(T) };                                                \
        (void)sizeof(char[WIDTH]);                                                     \
        QG_ROW2_BODY(T, T, T, expr)                                                    \
    }

/* clang-format off */
#define TABLE(id) static const qg_row2 id##_rows[QG_NDTYPE] = { QG_ENTRIES_INT(id) };

/* A shift beyond the width leaves only the sign, a left shift leaves 0.  A negative
 * amount counts as beyond the width.  Shifts are computed in uint64_t, where they are
 * defined. */
QG_EACH_UNSIGNED(ROW2, left, z < WIDTH ? (uint64_t)x << z : 0)
QG_EACH_SIGNED(ROW2, left, z >= 0 && z < WIDTH ? (uint64_t)x << z : 0)
TABLE(left)
QG_EACH_UNSIGNED(ROW2, right, z < WIDTH ? x >> z : 0)
QG_EACH_SIGNED(ROW2, right, z >= 0 && z < WIDTH ? x >> z : x < 0 ? -1 : 0)
TABLE(right)

#define LOGICAL(id, expr) QG_EACH_INT(ROW2, id, expr) TABLE(id)
LOGICAL(and, x & z)
LOGICAL(or, x | z)
LOGICAL(xor, x ^ z)
/* clang-format on */

/* qg_binary_infer and _run read the first member; opset 11 and later have no broadcast
 * attribute. */
typedef struct shift_param {
    qg_binary_param binary;
    int right;
} shift_param;

/* direction has no default. */
static qg_status shift_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    static const char *const directions[] = { "LEFT", "RIGHT", NULL };
    if (!qg_attr_has(n, "direction"))
        return qg_node_fail(ctx, QG_EMODEL, "prepare", n, "direction is missing");
    return qg_attr_choice(ctx, n, "direction", directions, 0,
                          &((shift_param *)param)->right);
}

/* Broadcasts like every operator since opset 7. */
static qg_status infer(const qg_call *k)
{
    QG_TRY(qg_check_type(k, 0, QG_DT_INTS));
    QG_TRY(qg_check_same_type(k, 1, 1));
    return qg_binary_infer(k, k->in[0]->dtype);
}

static qg_status shift_run(const qg_call *k)
{
    const shift_param *p = k->param;
    return qg_binary_run_rows(k, p->right ? right_rows : left_rows);
}

static qg_status and_run(const qg_call *k) { return qg_binary_run_rows(k, and_rows); }
static qg_status or_run(const qg_call *k) { return qg_binary_run_rows(k, or_rows); }
static qg_status xor_run(const qg_call *k) { return qg_binary_run_rows(k, xor_rows); }

static qg_status not_infer(const qg_call *k)
{
    QG_TRY(qg_check_type(k, 0, QG_DT_INTS));
    return qg_infer_same(k);
}

/* By bytes: the complement does not depend on the width. */
static qg_status not_run(const qg_call *k)
{
    const size_t n = qg_elements(k->in[0]) * qg_element_size(k->in[0]->dtype);
    const uint8_t *x = k->in[0]->u8;
    uint8_t *y = k->out[0]->u8;
    QG_IVDEP for (size_t i = 0; i < n; i++) y[i] = (uint8_t)~x[i];
    return QG_OK;
}

#define TRAITS (QG_OP_ELEMENTWISE | QG_OP_PURE)
#define ROW(onnx, first, id, par, prep)                                                \
    {                                                                                  \
        .name = onnx, .since = first, .min_in = 2, .max_in = 2, .min_out = 1,          \
        .max_out = 1, .in_roles = "s", .out_roles = "s", .traits = TRAITS,             \
        .param_size = sizeof(par), .prepare = prep, .infer = infer, .run = id##_run,   \
        .in_place = 3                                                                  \
    }

/* clang-format off */
const qg_op qg_ops_bitwise[] = {
    ROW("BitShift",   11, shift, shift_param, shift_prepare),
    ROW("BitwiseAnd", 18, and, qg_binary_param, qg_binary_prepare),
    ROW("BitwiseOr",  18, or,  qg_binary_param, qg_binary_prepare),
    ROW("BitwiseXor", 18, xor, qg_binary_param, qg_binary_prepare),
    { .name = "BitwiseNot", .since = 18, .min_in = 1, .max_in = 1, .min_out = 1,
      .max_out = 1, .in_roles = "s", .out_roles = "s", .traits = TRAITS,
      .infer = not_infer, .run = not_run, .in_place = 1 },
    { 0 },
};
/* clang-format on */

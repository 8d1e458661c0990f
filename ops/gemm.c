/* gemm.c -- MatMul and Gemm.
 *
 * Gemm   Y [M, N] = alpha * A' B' + beta * C, C broadcast to [M, N] from the right.
 * Types  float16 and bfloat16 in float32; integers modulo 2^bits, for Gemm with alpha
 *        and beta of 0 or 1 only.
 * Source: ONNX MatMul-1, 9, 13; Gemm-1, 6, 7, 9, 11, 13.  Before 7 Gemm had
 * `broadcast`; without it C already had the shape of Y, which is a special case.
 *
 * Slots  MatMul data and weight: either input may be constant, usually the second. Gemm
 * data, weight, bias. */
#include "ops/families.h"

#include "engine/accel/kernels.h"
#include "ops/util_backward.h"
#include "ops/util_broadcast.h"
#include "ops/util_cast.h"
#include "ops/util_lower.h"
#include "ops/util_matmul.h"

#define TYPES (QG_DT_FLOATS | QG_DT_INDEX | QG_DT(U32) | QG_DT(U64))
#define HALF  (QG_DT(F16) | QG_DT(BF16))
#define WHOLE (QG_DT(I32) | QG_DT(U32) | QG_DT(U64))

typedef struct gemm_param {
    float alpha, beta;
    bool trans_a, trans_b;
} gemm_param;

/* c = a b with p's factors, in the common type of all three. */
static void multiply(const qg_gemm_problem *p, const qg_tensor *a, const qg_tensor *b,
                     qg_tensor *c, const int64_t at[3])
{
    if (a->dtype == QG_F32)
        qg_ref_gemm_f32(p, a->f32 + at[0], b->f32 + at[1], c->f32 + at[2]);
    else if (a->dtype == QG_F64)
        qg_ref_gemm_f64(p, a->f64 + at[0], b->f64 + at[1], c->f64 + at[2]);
    else
        qg_ref_gemm_i64(p, a->i64 + at[0], b->i64 + at[1], c->i64 + at[2]);
}

/* Both have the same type; integers as in ONNX since 9. */
static qg_status infer_matmul(const qg_call *k)
{
    QG_TRY(qg_check_type(k, 0, TYPES));
    QG_TRY(qg_check_same_type(k, 1, 1));
    return qg_matmul_infer(k, 0, 1, k->in[0]->dtype);
}

/* Batches one after the other. */
static qg_status matmul(const qg_call *k)
{
    qg_matmul p;
    qg_matmul_of(k->in[0], k->in[1], &p);
    qg_gemm_problem g = qg_matmul_gemm(&p);
    for (int64_t i = 0; i < p.batch; i++) {
        int64_t at[3] = { 0, 0, i * p.m * p.n };
        qg_matmul_at(&p, i, &at[0], &at[1]);
        multiply(&g, k->in[0], k->in[1], k->out[0], at);
    }
    return QG_OK;
}

static qg_status matmul_whole(const qg_call *k)
{
    return qg_run_as(k, WHOLE, QG_I64, matmul);
}

static qg_status run_matmul(const qg_call *k)
{
    return qg_run_as(k, HALF, QG_F32, matmul_whole);
}

/* Vectors use the reference definition. */
static qg_status compile_matmul(qg_compile *c, qg_kernel **out)
{
    qg_matmul p;
    *out = NULL;
    if (c->in[0]->rank < 2 || c->in[1]->rank < 2)
        return QG_OK;
    qg_matmul_of(c->in[0], c->in[1], &p);
    qg_gemm_problem g = qg_matmul_gemm(&p);
    return qg_accel_matmul(c, &g, -1, out);
}

/* Any value but 0 transposes. */
static qg_status prepare_gemm(qg_ctx *ctx, const qg_node *node, void *param)
{
    gemm_param *p = param;

    QG_TRY(qg_attr_float(ctx, node, "alpha", 1, &p->alpha));
    QG_TRY(qg_attr_float(ctx, node, "beta", 1, &p->beta));
    QG_TRY(qg_attr_flag(ctx, node, "transA", false, &p->trans_a));
    return qg_attr_flag(ctx, node, "transB", false, &p->trans_b);
}

/* Unknown extents may broadcast. */
static bool stretches(int64_t from, int64_t to)
{
    return from == to || from == 1 || from < 0 || to < 0;
}

/* C broadcasts to [m, n]. */
static qg_status check_addend(const qg_call *k, int64_t m, int64_t n)
{
    const qg_tensor *c = qg_in(k, 2);
    QG_TRY(qg_check_rank(k, 2, 0, 2));
    int64_t width = c && c->rank > 0 ? c->dim[c->rank - 1] : 1;
    int64_t height = c && c->rank > 1 ? c->dim[0] : 1;
    if (stretches(width, n) && stretches(height, m))
        return QG_OK;
    return qg_infer_fail(
        k, QG_EMODEL, "C is [%lld, %lld], expected it to stretch to [%lld, %lld]",
        (long long)height, (long long)width, (long long)m, (long long)n);
}

/* The inner extents must agree; C broadcasts to the result. */
static qg_status infer_gemm(const qg_call *k)
{
    const gemm_param *p = k->param;
    bool whole = !(QG_DT_FLOATS >> k->in[0]->dtype & 1);
    QG_TRY(qg_check_type(k, 0, TYPES));
    QG_TRY(qg_check_same_type(k, 1, 2));
    QG_TRY(qg_check_rank(k, 0, 2, 2));
    QG_TRY(qg_check_rank(k, 1, 2, 2));
    if (whole && ((p->alpha != 0 && p->alpha != 1) || (p->beta != 0 && p->beta != 1)))
        return qg_infer_fail(k, QG_EUNSUPPORTED,
                             "alpha %g and beta %g on integers, expected 0 or 1",
                             (double)p->alpha, (double)p->beta);
    int64_t dim[2] = { qg_in_dim(k, 0, p->trans_a), qg_in_dim(k, 1, !p->trans_b) };
    QG_TRY(qg_check_dim(k, 1, p->trans_b, qg_in_dim(k, 0, !p->trans_a)));
    QG_TRY(check_addend(k, dim[0], dim[1]));
    return qg_infer_dims(k, k->in[0]->dtype, 2, dim);
}

/* For shapes accepted by infer; nothing to do without C. */
static qg_gemm_problem gemm_problem(const qg_call *k)
{
    const gemm_param *p = k->param;
    const qg_tensor *a = k->in[0], *b = k->in[1], *c = qg_in(k, 2), *y = k->out[0];
    return (qg_gemm_problem){
        .m = y->dim[0],
        .n = y->dim[1],
        .k = a->dim[!p->trans_a],
        .lda = a->dim[1],
        .ldb = b->dim[1],
        .ldc = y->dim[1],
        .trans_a = p->trans_a,
        .trans_b = p->trans_b,
        .alpha = (double)p->alpha,
        .beta = c ? (double)p->beta : 0,
    };
}

/* Y starts as C and the product is added to it. */
static qg_status gemm(const qg_call *k)
{
    qg_gemm_problem g = gemm_problem(k);
    if (g.beta != 0)
        qg_stretch(qg_in(k, 2), k->out[0]);
    multiply(&g, k->in[0], k->in[1], k->out[0], (const int64_t[]){ 0, 0, 0 });
    return QG_OK;
}

/* A bias with beta other than 1 uses the reference definition. */
static qg_status compile_gemm(qg_compile *c, qg_kernel **out)
{
    qg_call k = qg_compile_call(c);
    qg_gemm_problem g = gemm_problem(&k);
    bool bias = qg_in(&k, 2) != NULL;
    *out = NULL;
    if (bias && g.beta != 1)
        return QG_OK;
    return qg_accel_matmul(c, &g, bias ? 2 : -1, out);
}

static qg_status gemm_whole(const qg_call *k)
{
    return qg_run_as(k, WHOLE, QG_I64, gemm);
}

static qg_status run_gemm(const qg_call *k)
{
    return qg_run_as(k, HALF, QG_F32, gemm_whole);
}

/* --- gradients ------------------------------------------------------------------- */

/* to += g B' and to += A' g for each pair of matrices; both as they are stored. */
static void matmul_by_a(const qg_matmul *p, const float *g, const float *b, float *to)
{
    const qg_gemm_problem q = { .m = p->m,
                                .n = p->k,
                                .k = p->n,
                                .lda = p->n,
                                .ldb = p->n,
                                .ldc = p->k,
                                .trans_b = true,
                                .alpha = 1,
                                .beta = 1 };
    qg_ref_gemm_f32(&q, g, b, to);
}

static void matmul_by_b(const qg_matmul *p, const float *a, const float *g, float *to)
{
    const qg_gemm_problem q = { .m = p->k,
                                .n = p->n,
                                .k = p->m,
                                .lda = p->k,
                                .ldb = p->n,
                                .ldc = p->n,
                                .trans_a = true,
                                .alpha = 1,
                                .beta = 1 };
    qg_ref_gemm_f32(&q, a, g, to);
}

static void clear(qg_tensor *t)
{
    if (t)
        memset(t->data, 0, qg_elements(t) * sizeof *t->f32);
}

/* A matrix that several products read gets the sum. */
static qg_status matmul_backward(const qg_backward *b)
{
    const float *x = b->call->in[0]->f32, *w = b->call->in[1]->f32;
    qg_matmul p;
    qg_matmul_of(b->call->in[0], b->call->in[1], &p);
    clear(b->in[0]);
    clear(b->in[1]);
    for (int64_t i = 0; i < p.batch; i++) {
        const float *g = b->out[0]->f32 + i * p.m * p.n;
        int64_t at[2];
        qg_matmul_at(&p, i, &at[0], &at[1]);
        if (b->in[0])
            matmul_by_a(&p, g, w + at[1], b->in[0]->f32 + at[0]);
        if (b->in[1])
            matmul_by_b(&p, x + at[0], g, b->in[1]->f32 + at[1]);
    }
    return QG_OK;
}

/* Y = alpha A' B': A' gets alpha g B'^T, and A its transpose where it is stored so; B
 * likewise. */
static void gemm_by_a(const qg_gemm_problem *y, const float *g, const float *b,
                      float *to)
{
    const bool t = y->trans_a;
    const qg_gemm_problem q = { .m = t ? y->k : y->m,
                                .n = t ? y->m : y->k,
                                .k = y->n,
                                .lda = t ? y->ldb : y->n,
                                .ldb = t ? y->n : y->ldb,
                                .ldc = t ? y->m : y->k,
                                .trans_a = t && y->trans_b,
                                .trans_b = t || !y->trans_b,
                                .alpha = y->alpha };
    qg_ref_gemm_f32(&q, t ? b : g, t ? g : b, to);
}

static void gemm_by_b(const qg_gemm_problem *y, const float *a, const float *g,
                      float *to)
{
    const bool t = y->trans_b;
    const qg_gemm_problem q = { .m = t ? y->n : y->k,
                                .n = t ? y->k : y->n,
                                .k = y->m,
                                .lda = t ? y->n : y->lda,
                                .ldb = t ? y->lda : y->n,
                                .ldc = t ? y->k : y->n,
                                .trans_a = t || !y->trans_a,
                                .trans_b = t && y->trans_a,
                                .alpha = y->alpha };
    qg_ref_gemm_f32(&q, t ? g : a, t ? a : g, to);
}

static qg_status gemm_backward(const qg_backward *b)
{
    const qg_gemm_problem y = gemm_problem(b->call);
    const qg_tensor *g = b->out[0];
    if (b->in[0])
        gemm_by_a(&y, g->f32, b->call->in[1]->f32, b->in[0]->f32);
    if (b->in[1])
        gemm_by_b(&y, b->call->in[0]->f32, g->f32, b->in[1]->f32);
    return qg_in(b->call, 2) && b->in[2] ? qg_backward_sum(b, g, y.beta, b->in[2])
                                         : QG_OK;
}

/* Rows of B when it is stored transposed, else its columns. */
static int gemm_weight_axis(const qg_node *node)
{
    const gemm_param *p = node->param;
    return p->trans_b ? 0 : 1;
}

/* Kernels take one scale for a constant batch of matrices. */
static int matmul_weight_axis(const qg_node *node)
{
    const qg_value *w = node->in[1];
    return w && w->constant && w->constant->rank != 2 ? -1 : qg_matmul_axis(node);
}

/* Constant weights make a dense layer. */
static qg_kernel_use use_of(const qg_lower *l)
{
    return !l->in[1].constant || l->in[1].constant->rank != 2 ? QG_USE_MATMUL
           : l->in[1].stored.n > 1                            ? QG_USE_DENSE_CHANNEL
                                                              : QG_USE_DENSE;
}

static qg_status lower_matmul(qg_lower *l)
{
    return qg_lower_product(l, "IntMatMul", use_of(l), l->node->in[1]->type.rank - 1,
                            1);
}

static qg_status lower_gemm(qg_lower *l)
{
    const gemm_param *p = l->node->param;
    const qg_value *bias = l->node->n_in > 2 ? l->node->in[2] : NULL;
    const qg_tensor *y = &l->node->out[0]->type;
    if (p->alpha != 1 || (bias && p->beta != 1))
        return qg_lower_refuse(l, "alpha is %g and beta %g, expected 1",
                               (double)p->alpha, (double)p->beta);
    if (bias && bias->type.rank == 1 && y->rank == 2 && bias->type.dim[0] != y->dim[1])
        return qg_lower_refuse(l, "in2 has %lld elements, expected %lld",
                               (long long)bias->type.dim[0], (long long)y->dim[1]);
    return qg_lower_product(l, "IntMatMul", use_of(l), gemm_weight_axis(l->node), 1);
}

#define MATMUL(opset)                                                                  \
    {                                                                                  \
        .name = "MatMul", .since = (opset), .min_in = 2, .max_in = 2, .min_out = 1,    \
        .max_out = 1, .in_roles = "dw",                                                \
        .traits = QG_OP_COMPUTE | QG_OP_PURE | QG_OP_BATCH_FIRST,                      \
        .infer = infer_matmul, .run = run_matmul, .compile = compile_matmul,           \
        .weight_axis = matmul_weight_axis, .lower = lower_matmul,                      \
        .backward = matmul_backward                                                    \
    }
#define GEMM(opset, least)                                                             \
    {                                                                                  \
        .name = "Gemm", .since = (opset), .min_in = (least), .max_in = 3,              \
        .min_out = 1, .max_out = 1, .in_roles = "dwb",                                 \
        .traits = QG_OP_COMPUTE | QG_OP_PURE | QG_OP_BATCH_FIRST,                      \
        .param_size = sizeof(gemm_param), .prepare = prepare_gemm,                     \
        .infer = infer_gemm, .run = run_gemm, .compile = compile_gemm,                 \
        .weight_axis = gemm_weight_axis, .lower = lower_gemm,                          \
        .backward = gemm_backward                                                      \
    }
/* clang-format off */
const qg_op qg_ops_gemm[] = {
    MATMUL(1),
    MATMUL(9),
    MATMUL(13),
    GEMM(1, 3),
    GEMM(7, 3),
    GEMM(9, 3),
    GEMM(11, 2),
    GEMM(13, 2),
    { 0 },
};
/* clang-format on */

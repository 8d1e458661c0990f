/* qlinear.c -- products of stored integers: ConvInteger, MatMulInteger, QLinearConv,
 * QLinearMatMul.
 *
 *     acc = sum (a - a_zero) * (b - b_zero)     int32, wraps
 *     y   = requantized acc                     the QLinear forms
 *
 * The requantization is the ONNX Runtime row of number/requant.h: the zero point is
 * added after the rounding, not before.  Scales must be finite and above 0.
 * Source: ONNX ConvInteger-10, MatMulInteger-10, QLinearConv-10, QLinearMatMul-10, 21;
 * docs/evidence/integers.md#onnx-runtime.
 *
 * Slots   scales are 'f', zero points 's'; the operators quantize internally
 * (QUANTIZER), so backends do not quantize them. */
#include "ops/families.h"

#include <assert.h>

#include "engine/number/requant.h"
#include "ops/util_axis.h"
#include "ops/util_cast.h"
#include "ops/util_conv.h"
#include "ops/util_matmul.h"

/* Parameters of one operand: a scale and a zero point for all, or one per channel. */
typedef struct quant {
    const float *scale;  /* [n_scale] */
    const int32_t *zero; /* [n_zero] */
    int64_t n_scale, n_zero;
} quant;

static const int32_t no_zero = 0;

/* scale_slot SIZE_MAX: no scale. */
static qg_status quant_of(const qg_call *k, size_t scale_slot, size_t zero_slot,
                          quant *q)
{
    const qg_tensor *s = NULL, *z;
    if (scale_slot != SIZE_MAX)
        QG_TRY(qg_cast_view(k->ctx, k->scratch, qg_in(k, scale_slot), QG_F32, &s));
    QG_TRY(qg_cast_view(k->ctx, k->scratch, qg_in(k, zero_slot), QG_I32, &z));
    *q = (quant){ s ? s->f32 : NULL, z ? z->i32 : &no_zero, s ? qg_tensor_count(s) : 0,
                  z ? qg_tensor_count(z) : 1 };
    return QG_OK;
}

/* A parameter input has one element or one of the given counts (-1: not known). */
static qg_status check_count(const qg_call *k, size_t slot, int64_t a, int64_t b)
{
    const qg_tensor *t = qg_in(k, slot);
    int64_t n = t ? qg_tensor_count(t) : 1;
    if (n == 1 || n == a || n == b || n < 0 || a < 0 || b < 0)
        return QG_OK;
    return qg_infer_fail(k, QG_EMODEL, "input %zu has %lld values, expected 1 or %lld",
                         slot, (long long)n, (long long)a);
}

/* Valid scale types since 21. */
#define SCALES (QG_DT(F32) | QG_DT_HALVES)

/* Checks that all listed inputs have a type of the mask. */
static qg_status check_slots(const qg_call *k, const size_t *slot, size_t n,
                             uint64_t mask)
{
    for (size_t i = 0; i < n; i++)
        QG_TRY(qg_check_type(k, slot[i], mask));
    return QG_OK;
}

/* ONNX's operators as ONNX Runtime computes them on every processor. */
static const qg_requant_rule rule = { .scheme = QG_SCHEME_FLOAT_RNE,
                                      .factor = QG_FACTOR_F32,
                                      .zero = QG_ZERO_AFTER,
                                      .accumulator = 32 };

/* Requantization into the output, cached for the last scales. */
typedef struct requantizer {
    qg_code_range range;
    qg_scales scales; /* 0: none yet */
    qg_requant r;
} requantizer;

static requantizer requantizer_of(const qg_call *k, const quant *y)
{
    return (requantizer){ .range = qg_code_range_of(k->out[0]->dtype, y->zero[0]) };
}

/* Stores one sum as element `at` of the output; adjacent elements usually have the same
 * scales. */
static qg_status requantize(const qg_call *k, requantizer *q, qg_scales s, int32_t acc,
                            int64_t at)
{
    if (s.x != q->scales.x || s.w != q->scales.w || s.y != q->scales.y || s.x == 0) {
        QG_TRY(qg_requant_prepare(k->ctx, k->node->name, &rule, s, q->range, &q->r));
        q->scales = s;
    }
    int32_t code = qg_requant_one(&q->r, acc);
    if (k->out[0]->dtype == QG_I8)
        k->out[0]->i8[at] = (int8_t)code;
    else
        k->out[0]->u8[at] = (uint8_t)code;
    return QG_OK;
}

/* --- convolution --------------------------------------------------------------- */

static const qg_conv_slots integer_slots = { 0, 1, SIZE_MAX, false };
static const qg_conv_slots qlinear_slots = { 0, 3, 8, false };

/* Zero points of the weights may be per output channel. */
static qg_status infer_conv_integer(const qg_call *k)
{
    QG_TRY(check_slots(k, (size_t[]){ 0, 1, 2, 3 }, 4, QG_DT_BYTES));
    QG_TRY(check_count(k, 2, 1, 1));
    QG_TRY(check_count(k, 3, qg_in_dim(k, 1, 0), 1));
    return qg_conv_infer(k, k->param, integer_slots, QG_I32);
}

/* Scale and zero point of the weights per channel, the others per tensor. */
static qg_status infer_qlinear_conv(const qg_call *k)
{
    int64_t channels = qg_in_dim(k, 3, 0);
    QG_TRY(check_slots(k, (size_t[]){ 0, 2, 3, 5, 7 }, 5, QG_DT_BYTES));
    QG_TRY(check_slots(k, (size_t[]){ 1, 4, 6 }, 3, SCALES));
    QG_TRY(qg_check_type(k, 8, QG_DT(I32)));
    for (size_t slot = 1; slot < 8; slot++)
        if (slot != 3)
            QG_TRY(check_count(k, slot, slot == 4 || slot == 5 ? channels : 1, 1));
    return qg_conv_infer(k, k->param, qlinear_slots,
                         k->in[7] ? k->in[7]->dtype : k->in[0]->dtype);
}

/* The accumulators into `acc`. */
static qg_status accumulate(const qg_call *k, qg_conv_slots s, const quant *qx,
                            const quant *qw, int32_t *acc, qg_conv_problem *p)
{
    const qg_tensor *x, *w, *bias = qg_in(k, s.bias);
    QG_TRY(qg_conv_problem_of(k, k->param, s, p));
    QG_TRY(qg_cast_view(k->ctx, k->scratch, k->in[s.x], QG_I32, &x));
    QG_TRY(qg_cast_view(k->ctx, k->scratch, k->in[s.weight], QG_I32, &w));
    qg_conv_zero zero = { qx->zero[0], qw->zero, qw->n_zero };
    qg_ref_conv_i32(p, &zero, x->i32, w->i32, bias ? bias->i32 : NULL, acc);
    return QG_OK;
}

/* The accumulators are the result. */
static qg_status run_conv_integer(const qg_call *k)
{
    quant x, w;
    qg_conv_problem p;
    QG_TRY(quant_of(k, SIZE_MAX, 2, &x));
    QG_TRY(quant_of(k, SIZE_MAX, 3, &w));
    return accumulate(k, integer_slots, &x, &w, k->out[0]->i32, &p);
}

/* Accumulators first, then each is requantized with its channel's factor. */
static qg_status run_qlinear_conv(const qg_call *k)
{
    quant x, w, y;
    qg_conv_problem p;
    qg_tensor *out = k->out[0];
    QG_TRY(quant_of(k, 1, 2, &x));
    QG_TRY(quant_of(k, 4, 5, &w));
    QG_TRY(quant_of(k, 6, 7, &y));
    int64_t n = qg_tensor_count(out), space = qg_dims_product(out, 2, out->rank);
    int32_t *acc = QG_NEWN(k->scratch, (size_t)n, int32_t);
    if (!acc)
        return qg_nomem(k->ctx);
    QG_TRY(accumulate(k, qlinear_slots, &x, &w, acc, &p));
    requantizer q = requantizer_of(k, &y);
    for (int64_t i = 0; i < n; i++) {
        int64_t c = w.n_scale == 1 ? 0 : i / space % p.out_channels;
        qg_scales s = { x.scale[0], w.scale[c], y.scale[0] };
        QG_TRY(requantize(k, &q, s, acc[i], i));
    }
    return QG_OK;
}

/* --- matrix product ------------------------------------------------------------ */

/* a with a_zero per row, b with b_zero per column. */
static qg_status infer_product(const qg_call *k, size_t a, size_t b, qg_dtype d)
{
    QG_TRY(qg_matmul_infer(k, a, b, d));
    int32_t ra = k->in[a]->rank, rb = k->in[b]->rank;
    if (ra < 0 || rb < 0)
        return QG_OK;
    int64_t rows = ra > 1 ? k->in[a]->dim[ra - 2] : 1;
    int64_t columns = rb > 1 ? k->in[b]->dim[rb - 1] : 1;
    int64_t all_rows =
        qg_tensor_known(k->in[a]) ? qg_dims_product(k->in[a], 0, ra - 1) : -1;
    QG_TRY(check_count(k, 2, a == 0 && b == 1 ? rows : 1, all_rows));
    if (b == 1)
        return check_count(k, 3, columns, columns);
    QG_TRY(check_count(k, 1, rows, all_rows));
    QG_TRY(check_count(k, 4, columns, columns));
    QG_TRY(check_count(k, 5, columns, columns));
    QG_TRY(check_count(k, 6, 1, 1));
    return check_count(k, 7, 1, 1);
}

static qg_status infer_matmul_integer(const qg_call *k)
{
    QG_TRY(check_slots(k, (size_t[]){ 0, 1, 2, 3 }, 4, QG_DT_BYTES));
    return infer_product(k, 0, 1, QG_I32);
}

static qg_status infer_qlinear_matmul(const qg_call *k)
{
    QG_TRY(check_slots(k, (size_t[]){ 0, 2, 3, 5, 7 }, 5, QG_DT_BYTES));
    QG_TRY(check_slots(k, (size_t[]){ 1, 4, 6 }, 3, SCALES));
    return infer_product(k, 0, 3, k->in[7]->dtype);
}

/* t - zero as int64; `run` consecutive elements share a zero point (rows of a), or the
 * points repeat every n_zero elements (columns of b, run 1). */
static qg_status centred(const qg_call *k, const qg_tensor *t, const quant *q,
                         int64_t run, int64_t **out)
{
    int64_t n = qg_tensor_count(t);
    const qg_tensor *wide;
    QG_TRY(qg_cast_view(k->ctx, k->scratch, t, QG_I64, &wide));
    int64_t *v = QG_NEWN(k->scratch, (size_t)n, int64_t);
    if (!v)
        return qg_nomem(k->ctx);
    for (int64_t i = 0; i < n; i++)
        v[i] = wide->i64[i] - q->zero[i / run % q->n_zero];
    *out = v;
    return QG_OK;
}

/* All accumulators of in[0] times in[b_slot], modulo 2^32 when read as such. */
static qg_status multiply(const qg_call *k, size_t b_slot, const quant *qa,
                          const quant *qb, qg_matmul *p, int64_t **out)
{
    const qg_tensor *a = k->in[0], *b = k->in[b_slot];
    int64_t *x, *w, at, bt;
    qg_matmul_of(a, b, p);
    QG_TRY(centred(k, a, qa, p->k > 0 ? p->k : 1, &x));
    QG_TRY(centred(k, b, qb, 1, &w));
    int64_t *acc = QG_NEWN(k->scratch, (size_t)qg_tensor_count(k->out[0]), int64_t);
    if (!acc)
        return qg_nomem(k->ctx);
    qg_gemm_problem g = qg_matmul_gemm(p);
    for (int64_t i = 0; i < p->batch; i++) {
        qg_matmul_at(p, i, &at, &bt);
        qg_ref_gemm_i64(&g, x + at, w + bt, acc + i * p->m * p->n);
    }
    *out = acc;
    return QG_OK;
}

/* Modulo 2^32, as int32 accumulators of the runtimes. */
static qg_status run_matmul_integer(const qg_call *k)
{
    quant a, b;
    qg_matmul p;
    int64_t *acc;
    QG_TRY(quant_of(k, SIZE_MAX, 2, &a));
    QG_TRY(quant_of(k, SIZE_MAX, 3, &b));
    QG_TRY(multiply(k, 1, &a, &b, &p, &acc));
    for (int64_t i = 0; i < qg_tensor_count(k->out[0]); i++)
        k->out[0]->i32[i] = (int32_t)(uint64_t)acc[i];
    return QG_OK;
}

/* A factor per row and column; usually one for all. */
static qg_status run_qlinear_matmul(const qg_call *k)
{
    quant a, b, y;
    qg_matmul p;
    int64_t *acc;
    qg_tensor *out = k->out[0];
    QG_TRY(quant_of(k, 1, 2, &a));
    QG_TRY(quant_of(k, 4, 5, &b));
    QG_TRY(quant_of(k, 6, 7, &y));
    QG_TRY(multiply(k, 3, &a, &b, &p, &acc));
    requantizer q = requantizer_of(k, &y);
    for (int64_t i = 0; i < qg_tensor_count(out); i++) {
        qg_scales s = { a.scale[i / p.n % a.n_scale], b.scale[i % p.n % b.n_scale],
                        y.scale[0] };
        QG_TRY(requantize(k, &q, s, (int32_t)(uint64_t)acc[i], i));
    }
    return QG_OK;
}

static const qg_op_codes conv_codes = { "Conv", 11, "xszxszSZb" };
static const qg_op_codes matmul_codes = { "MatMul", 13, "xszxszSZ" };

/* The operands are already integers, with their own scales and zero points. */
#define TRAITS (QG_OP_COMPUTE | QG_OP_QUANTIZER | QG_OP_PURE | QG_OP_BATCH_FIRST)
/* clang-format off */
const qg_op qg_ops_qlinear[] = {
    { .name = "ConvInteger", .since = 10, .min_in = 2, .max_in = 4, .min_out = 1,
      .max_out = 1, .in_roles = "dwss", .traits = TRAITS,
      .param_size = sizeof(qg_conv_param), .prepare = qg_conv_read,
      .infer = infer_conv_integer, .run = run_conv_integer,
      .weight_axis = qg_conv_axis },
    { .name = "QLinearConv", .since = 10, .min_in = 8, .max_in = 9, .min_out = 1,
      .max_out = 1, .in_roles = "dfswfsfsb", .traits = TRAITS,
      .param_size = sizeof(qg_conv_param), .prepare = qg_conv_read,
      .infer = infer_qlinear_conv, .run = run_qlinear_conv,
      .weight_axis = qg_conv_axis, .codes = &conv_codes },
    { .name = "MatMulInteger", .since = 10, .min_in = 2, .max_in = 4, .min_out = 1,
      .max_out = 1, .in_roles = "dwss", .traits = TRAITS, .infer = infer_matmul_integer,
      .run = run_matmul_integer, .weight_axis = qg_matmul_axis },
    { .name = "QLinearMatMul", .since = 10, .min_in = 8, .max_in = 8, .min_out = 1,
      .max_out = 1, .in_roles = "dfswfsfs", .traits = TRAITS,
      .infer = infer_qlinear_matmul, .run = run_qlinear_matmul,
      .weight_axis = qg_matmul_axis, .codes = &matmul_codes },
    { .name = "QLinearMatMul", .since = 21, .min_in = 8, .max_in = 8, .min_out = 1,
      .max_out = 1, .in_roles = "dfswfsfs", .traits = TRAITS,
      .infer = infer_qlinear_matmul, .run = run_qlinear_matmul,
      .weight_axis = qg_matmul_axis, .codes = &matmul_codes },
    { 0 },
};
/* clang-format on */

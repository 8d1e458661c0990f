/* integer_matmul.c -- IntMatMul(a, b, bias) of domain "quantgraph": numpy's matmul with
 * transA and transB (0), which exchange the last two axes of an operand.
 *
 *     acc = bias[n] + sum over k of (a - z_a) (b - z_b[n])
 *     y   = acc through the row's requantization with s_a, s_b[n], s_y
 *     or, out0_type float32: f32(acc k[n]) + bias[n]; form fma: fma(acc, k[n], bias[n])
 *
 * b has one grid, or one per column of the product; bias as IntConv's.
 * products pairs: number/integer_sum.h, each row a picture of one place.
 * Source: docs/evidence/integers.md#runtimes. */
#include "ops/families.h"

#include "engine/number/integer_sum.h"
#include "ops/util_axis.h"
#include "ops/util_cast.h"
#include "ops/util_integer.h"
#include "ops/util_integer_kernel.h"
#include "ops/util_matmul.h"

typedef struct int_matmul_param {
    qg_recipe recipe;
    bool transposed[2];
} int_matmul_param;

static qg_status prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    int_matmul_param *p = param;
    QG_TRY(qg_recipe_read(ctx, n, &p->recipe));
    QG_TRY(qg_attr_flag(ctx, n, "transA", false, &p->transposed[0]));
    return qg_attr_flag(ctx, n, "transB", false, &p->transposed[1]);
}

/* Shape of operand `slot` as the product reads it; a vector has nothing to exchange. */
static qg_tensor seen(const qg_call *k, size_t slot)
{
    const int_matmul_param *p = k->param;
    qg_tensor t = *k->in[slot];
    if (!p->transposed[slot] || t.rank < 2)
        return t;
    int64_t rows = t.dim[t.rank - 2];
    t.dim[t.rank - 2] = t.dim[t.rank - 1];
    t.dim[t.rank - 1] = rows;
    return t;
}

/* The call with those shapes in place of the operands. */
static qg_status infer_dims(const qg_call *k, qg_dtype d)
{
    qg_tensor a = seen(k, 0), b = seen(k, 1);
    const qg_tensor *in[3] = { &a, &b, qg_in(k, 2) };
    qg_call call = *k;
    call.in = in;
    return qg_matmul_infer(&call, 0, 1, d);
}

/* Columns of the product; -1: not known. */
static int64_t columns(const qg_call *k)
{
    qg_tensor b = seen(k, 1);
    return b.rank < 0 ? -1 : b.rank == 1 ? 1 : b.dim[b.rank - 1];
}

static qg_status infer(const qg_call *k)
{
    const int_matmul_param *p = k->param;
    const qg_recipe *r = &p->recipe;
    uint64_t wide = r->row.requant.accumulator == 64 ? QG_DT(I64) : 0;
    qg_tensor a = seen(k, 0);
    qg_requant one;
    QG_TRY(qg_integer_check_in(k, r, 0, 1));
    QG_TRY(qg_integer_check_in(k, r, 1, columns(k)));
    QG_TRY(qg_integer_check_form(k, r, 1 << QG_FORM_PLAIN | 1 << QG_FORM_FMA));
    QG_TRY(qg_check_type(k, 2, QG_DT(I32) | wide | (r->out.codes ? 0 : QG_DT(F32))));
    QG_TRY(qg_check_vector(k, 2, columns(k)));
    for (uint32_t c = 0; c < r->in[1].n; c++)
        QG_TRY(qg_integer_requant(k, r, &r->in[1], c, &one));
    if (r->row.products == QG_PRODUCTS_PAIRS && r->row.requant.accumulator == 64)
        return qg_infer_fail(k, QG_EUNSUPPORTED,
                             "products pairs with 64-bit sums, expected exact ones");
    if (a.rank > 0 && a.dim[a.rank - 1] > 0)
        QG_TRY(qg_integer_check_exact(k, &r->in[0], &r->in[1], a.dim[a.rank - 1]));
    return infer_dims(k, r->out.dtype);
}

/* Operand `slot` without its zero points, as doubles, its axes exchanged if asked. */
static qg_status centred(const qg_call *k, size_t slot, double **out)
{
    const int_matmul_param *p = k->param;
    const qg_tensor *t = k->in[slot];
    qg_stored s = p->recipe.in[slot];
    double *plain;
    s.axis = t->rank - (p->transposed[slot] && t->rank > 1 ? 2 : 1);
    QG_TRY(qg_integer_centred(k, t, &s, &plain));
    *out = plain;
    if (!p->transposed[slot] || t->rank < 2)
        return QG_OK;
    int64_t rows = t->dim[t->rank - 2], width = t->dim[t->rank - 1];
    QG_TRY(qg_integer_sums(k, t, out));
    for (int64_t i = 0; i < qg_tensor_count(t); i++) {
        int64_t first = i / (rows * width) * (rows * width), at = i - first;
        (*out)[first + at % width * rows + at / width] = plain[i];
    }
    return QG_OK;
}

/* Raw codes as int32 from centred doubles: their zero points are added again. */
static qg_status raw(const qg_call *k, size_t slot, int64_t n_column,
                     const double *centred_codes, int32_t **out)
{
    const qg_stored *s = &((const int_matmul_param *)k->param)->recipe.in[slot];
    size_t n = qg_elements(k->in[slot]);
    *out = QG_NEWN(k->scratch, n, int32_t);
    if (!*out)
        return qg_nomem(k->ctx);
    for (size_t i = 0; i < n; i++)
        (*out)[i] =
            (int32_t)centred_codes[i] + s->zero[s->n > 1 ? i % (size_t)n_column : 0];
    return QG_OK;
}

/* One product of matrices by saturating pairs. */
static qg_status pairs(const qg_call *k, const qg_matmul *m, const double *a,
                       const double *b, double *acc)
{
    const qg_recipe *r = &((const int_matmul_param *)k->param)->recipe;
    const qg_stored *w = &r->in[1];
    size_t n = (size_t)m->n, rows = (size_t)m->m, depth = (size_t)m->k;
    int32_t *x, *y, *zero = QG_NEWN(k->scratch, n, int32_t);
    int32_t *sum = QG_NEWN(k->scratch, n * rows, int32_t);
    if (!zero || !sum)
        return qg_nomem(k->ctx);
    QG_TRY(raw(k, 0, m->k, a, &x));
    QG_TRY(raw(k, 1, m->n, b, &y));
    for (size_t i = 0; i < n; i++)
        zero[i] = w->zero[w->n > 1 ? i : 0];
    qg_int_sum s = {
        .groups = 1,
        .batches = m->m,
        .in_channels = m->k,
        .out_channels = m->n,
        .height = 1,
        .width = 1,
        .out_height = 1,
        .out_width = 1,
        .kernel_height = 1,
        .kernel_width = 1,
        .stride = {1,               1           },
        .dilation = { 1,              1           },
        .w = { .batch = 1,     .channel = n},
        .x = { .batch = depth, .channel = 1},
        .zero_x = r->in[0].zero[0],
        .zero_w = zero,
        .pairs = true
    };
    for (int64_t i = 0; i < m->batch; i++) {
        int64_t at, bt;
        qg_matmul_at(m, i, &at, &bt);
        s.x.data = x + at;
        s.w.data = y + bt;
        qg_int_sum_run(&s, sum);
        for (size_t j = 0; j < n * rows; j++)
            acc[(size_t)i * n * rows + j] = sum[j];
    }
    return QG_OK;
}

/* Exact sums: integers below 2^53. */
static void products(const qg_matmul *m, const double *a, const double *b, double *acc)
{
    qg_gemm_problem g = qg_matmul_gemm(m);
    for (int64_t i = 0; i < m->batch; i++) {
        int64_t at, bt;
        qg_matmul_at(m, i, &at, &bt);
        qg_ref_gemm_f64(&g, a + at, b + bt, acc + i * m->m * m->n);
    }
}

static qg_status run(const qg_call *k)
{
    const int_matmul_param *p = k->param;
    const qg_recipe *r = &p->recipe;
    const qg_tensor *bias = qg_in(k, 2), *whole;
    qg_tensor a = seen(k, 0), b = seen(k, 1);
    double *x, *w, *acc;
    qg_matmul m;
    if (qg_elements(k->out[0]) == 0)
        return QG_OK;
    qg_matmul_of(&a, &b, &m);
    QG_TRY(centred(k, 0, &x));
    QG_TRY(centred(k, 1, &w));
    QG_TRY(qg_integer_sums(k, k->out[0], &acc));
    if (r->row.products == QG_PRODUCTS_PAIRS && m.k > 0)
        QG_TRY(pairs(k, &m, x, w, acc));
    else
        products(&m, x, w, acc);
    bool real = bias && bias->dtype == QG_F32;
    QG_TRY(qg_cast_view(k->ctx, k->scratch, real ? NULL : bias, QG_F64, &whole));
    for (size_t i = 0; whole && i < qg_elements(k->out[0]); i++)
        acc[i] += whole->f64[i % (size_t)m.n];
    qg_integer_tail t = { .bias = real ? bias->f32 : NULL,
                          .per_channel = r->in[1].n > 1,
                          .fma = r->row.form == QG_FORM_FMA };
    QG_TRY(qg_integer_requants(k, r, &r->in[1], &t.r));
    qg_integer_finish(k, &t, m.n, 1, acc);
    return QG_OK;
}

/* Nothing is transposed in a batch. */
static qg_status compile(qg_compile *c, qg_kernel **out)
{
    const int_matmul_param *p = c->node->param;
    qg_call k = qg_compile_call(c);
    qg_tensor a = seen(&k, 0), b = seen(&k, 1);
    qg_matmul m;
    *out = NULL;
    if (b.rank < 2 || a.rank < 2 || (p->transposed[0] && a.rank != 2) ||
        (b.rank > 2 && (p->transposed[0] || p->transposed[1])) ||
        qg_tensor_count(c->out[0]) == 0)
        return QG_OK;
    qg_matmul_of(&a, &b, &m);
    qg_gemm_problem g = qg_matmul_gemm(&m);
    g.trans_a = p->transposed[0];
    g.trans_b = p->transposed[1];
    qg_integer_product product = { .recipe = &p->recipe,
                                   .gemm = &g,
                                   .channels = m.n,
                                   .inner = g.trans_b ? m.k : 1,
                                   .period = m.n };
    return qg_integer_compile(c, &product, out);
}

/* clang-format off */
const qg_op qg_ops_integer_matmul[] = {
    { .name = "IntMatMul", .domain = "quantgraph", .since = 1, .min_in = 2, .max_in = 3,
      .min_out = 1, .max_out = 1, .in_roles = "dwb",
      .traits = QG_OP_COMPUTE | QG_OP_QUANTIZER | QG_OP_PURE | QG_OP_BATCH_FIRST,
      .param_size = sizeof(int_matmul_param), .prepare = prepare, .infer = infer,
      .run = run, .compile = compile, .weight_axis = qg_matmul_axis },
    { 0 },
};
/* clang-format on */

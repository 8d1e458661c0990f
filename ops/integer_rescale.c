/* integer_rescale.c -- IntQuantize, IntDequantize, IntRescale of domain "quantgraph":
 * between floats and codes, and from one grid to another.
 *
 *     IntQuantize(x)     form divide, reciprocal, add-half or levels; vector8: whole
 *                        groups of 8 elements by the reciprocal, half to even, else
 *                        a quotient in double, half away from zero; limited to
 *                        out0_low, out0_high
 *     IntDequantize(x)   form multiply: f32((q - z) s); fma: fma(q, s, f32(-z s)); one
 *                        grid, or one per channel; vector8: one grid, in whole groups
 *                        of 8 elements f32(f32(q s) + f32(-z s)), else multiply
 *     IntRescale(x)      q - z_x through the row's requantization; form vector16:
 *                        whole groups of 16 elements through fix-double-up
 *
 * Elements of groups are counted in plain order.
 *
 * Arithmetic: number/integer_rescale.h, number/requant.h.
 * Source: docs/evidence/integers.md#runtimes. */
#include "ops/families.h"

#include <math.h>

#include "engine/accel/finish.h"
#include "engine/number/integer_rescale.h"
#include "ops/util_axis.h"
#include "ops/util_integer.h"
#include "ops/util_integer_table.h"

/* -- IntQuantize ------------------------------------------------------------------ */

enum { VECTOR8 = 8, VECTOR16 = 16 };

static bool by_eights(const qg_recipe *r) { return r->row.form == QG_FORM_VECTOR8; }

static qg_status quantizer_of(const qg_call *k, qg_affine_quantizer *out)
{
    const qg_recipe *r = k->param;
    return qg_affine_quantizer_prepare(k->ctx, &r->row, qg_integer_grid(&r->out),
                                       qg_integer_range(r), out);
}

static qg_status infer_quantize(const qg_call *k)
{
    const qg_recipe *r = k->param;
    qg_affine_quantizer q;
    QG_TRY(qg_check_type(k, 0, QG_DT(F32)));
    QG_TRY(qg_integer_check_codes(k, r));
    QG_TRY(quantizer_of(k, &q));
    return qg_infer_dims(k, r->out.dtype, k->in[0]->rank, k->in[0]->dim);
}

/* 256 elements are whole groups. */
static qg_status run_quantize(const qg_call *k)
{
    const qg_tensor *x = k->in[0], *y = k->out[0];
    qg_affine_quantizer q;
    int32_t codes[256];
    size_t n = qg_elements(x);
    QG_TRY(quantizer_of(k, &q));
    for (size_t at = 0; at < n; at += 256) {
        size_t count = n - at < 256 ? n - at : 256;
        qg_affine_quantizer_codes(&q, x->f32 + at, codes, count);
        qg_codes_store(y->dtype, codes, y->data, at, count);
    }
    return QG_OK;
}

static qg_status run_plain(const qg_kernel *kernel, const qg_call *k)
{
    (void)kernel;
    return k->node->op->run(k);
}

/* The definition, in plain order. */
static qg_status compile_plain(qg_compile *c, qg_kernel **out)
{
    qg_kernel *k = QG_NEW(c->arena, qg_kernel);
    if (!k)
        return qg_nomem(c->ctx);
    *k = (qg_kernel){ .run = run_plain, .name = "groups in plain order" };
    *out = k;
    return QG_OK;
}

/* The loops for this quantizer; *out NULL: the definition. */
static qg_status compile_quantize(qg_compile *c, qg_kernel **out)
{
    qg_call k = qg_compile_call(c);
    qg_affine_quantizer q;
    *out = NULL;
    if (by_eights(c->node->param) && qg_elements(c->in[0]) % VECTOR8 != 0)
        return compile_plain(c, out);
    QG_TRY(quantizer_of(&k, &q));
    if (by_eights(c->node->param)) /* whole groups */
        q.form = QG_FORM_RECIPROCAL;
    return qg_accel_quantize(c, &q, out);
}

/* -- IntDequantize ---------------------------------------------------------------- */

static qg_status infer_dequantize(const qg_call *k)
{
    const qg_recipe *r = k->param;
    if (r->in[0].n > 1 && k->in[0]->rank >= 0 && r->in[0].axis >= k->in[0]->rank)
        return qg_infer_fail(k, QG_EMODEL, "in0_axis is %d, expected below rank %d",
                             (int)r->in[0].axis, (int)k->in[0]->rank);
    QG_TRY(qg_integer_check_in(k, r, 0, qg_in_dim(k, 0, r->in[0].axis)));
    uint64_t groups = r->in[0].n == 1 ? UINT64_C(1) << QG_FORM_VECTOR8 : 0;
    QG_TRY(qg_integer_check_form(
        k, r, UINT64_C(1) << QG_FORM_MULTIPLY | 1 << QG_FORM_FMA | groups));
    if (r->out.codes)
        return qg_infer_fail(k, QG_EMODEL, "out0_type is %s, expected float32",
                             qg_dtype_name(r->out.dtype));
    return qg_infer_dims(k, QG_F32, k->in[0]->rank, k->in[0]->dim);
}

static qg_status run_dequantize(const qg_call *k)
{
    const qg_recipe *r = k->param;
    const qg_stored *s = &r->in[0];
    bool fma = r->row.form == QG_FORM_FMA;
    qg_around a = s->n > 1 ? qg_around_axis(k->in[0], s->axis) : (qg_around){ 1, 1, 1 };
    size_t n = qg_elements(k->in[0]);
    size_t whole = by_eights(r) ? n / VECTOR8 * VECTOR8 : 0;
    double *q;
    QG_TRY(qg_integer_centred(k, k->in[0], s, &q));
    for (size_t i = 0; i < n; i++) {
        size_t c = s->n > 1 ? i / (size_t)a.inner % s->n : 0;
        float scale = s->scale[c], zero = (float)s->zero[c], code = (float)q[i] + zero;
        k->out[0]->f32[i] = fma         ? fmaf(code, scale, -zero * scale)
                            : i < whole ? code * scale + -zero * scale
                                        : (float)q[i] * scale;
    }
    return QG_OK;
}

/* -- IntRescale ------------------------------------------------------------------- */

static qg_status rescale_of(const qg_call *k, qg_rescale *out)
{
    const qg_recipe *r = k->param;
    qg_rescale_spec spec = { &r->row, qg_integer_grid(&r->in[0]),
                             qg_integer_grid(&r->out), qg_integer_range(r) };
    if (!r->row.requant.accumulator)
        return qg_infer_fail(k, QG_EMODEL, "scheme is missing, expected it");
    return qg_rescale_prepare(k->ctx, &spec, out);
}

static qg_status infer_rescale(const qg_call *k)
{
    const qg_recipe *r = k->param;
    qg_rescale one;
    QG_TRY(qg_integer_check_in(k, r, 0, 1));
    QG_TRY(qg_integer_check_codes(k, r));
    QG_TRY(rescale_of(k, &one));
    return qg_infer_dims(k, r->out.dtype, k->in[0]->rank, k->in[0]->dim);
}

static void rescale_codes(const void *state, const int32_t *x, int32_t *y, size_t n)
{
    qg_rescale_codes(state, x, y, n);
}

/* Groups, and the elements behind them. */
static qg_status run_groups(const qg_call *k, qg_rescale *r)
{
    const qg_tensor *x = k->in[0], *y = k->out[0];
    size_t n = qg_elements(x), whole = n / VECTOR16 * VECTOR16;
    int32_t *codes = QG_NEWN(k->scratch, n, int32_t);
    if (!codes)
        return qg_nomem(k->ctx);
    qg_codes_load(x->dtype, x->data, 0, codes, n);
    qg_rescale_codes(r, codes + whole, codes + whole, n - whole);
    r->r.scheme = QG_SCHEME_FIX_DOUBLE_UP;
    qg_rescale_codes(r, codes, codes, whole);
    qg_codes_store(y->dtype, codes, y->data, 0, n);
    return QG_OK;
}

static bool by_groups(const qg_recipe *r) { return r->row.form == QG_FORM_VECTOR16; }

static qg_status run_rescale(const qg_call *k)
{
    qg_rescale r;
    QG_TRY(rescale_of(k, &r));
    if (by_groups(k->param))
        return run_groups(k, &r);
    qg_integer_map(k, rescale_codes, &r);
    return QG_OK;
}

/* 256 codes are whole groups. */
static qg_status compile_rescale(qg_compile *c, qg_kernel **out)
{
    bool rest = qg_elements(c->in[0]) % VECTOR16 != 0;
    return by_groups(c->node->param) && rest ? compile_plain(c, out)
                                             : qg_integer_compile_codes(c, out);
}

/* Form multiply. */
static qg_status run_dequantize_bytes(const qg_kernel *kernel, const qg_call *k)
{
    const qg_stored *s = &((const qg_recipe *)k->param)->in[0];
    qg_dequantize_fn *loop = qg_dequantize_loop(s->dtype);
    (void)kernel;
    loop(s->zero[0], s->scale[0], k->in[0]->data, k->out[0]->f32,
         qg_elements(k->in[0]));
    return QG_OK;
}

/* A scale per channel makes results depend on the place. */
static qg_status compile_dequantize(qg_compile *c, qg_kernel **out)
{
    const qg_recipe *r = c->node->param;
    *out = NULL;
    if (r->in[0].n != 1)
        return QG_OK;
    if (by_eights(r) && qg_elements(c->in[0]) % VECTOR8 != 0)
        return compile_plain(c, out);
    if (r->row.form != QG_FORM_MULTIPLY || !QG_DT_HAS(QG_DT_BYTES, c->in[0]->dtype))
        return qg_integer_compile_codes(c, out);
    qg_kernel *k = QG_NEW(c->arena, qg_kernel);
    if (!k)
        return qg_nomem(c->ctx);
    *k = (qg_kernel){ .run = run_dequantize_bytes, .name = "dequantize" };
    k->in_layout[0] = k->out_layout = c->in_layout[0];
    *out = k;
    return QG_OK;
}

#define ROW(onnx, kind, compiled, more)                                                \
    {                                                                                  \
        .name = onnx, .domain = "quantgraph", .since = 1, .min_in = 1, .max_in = 1,    \
        .min_out = 1, .max_out = 1, .in_roles = "d",                                   \
        .traits = QG_OP_QUANTIZER | QG_OP_PURE | QG_OP_BATCH_FIRST | (more),           \
        .param_size = sizeof(qg_recipe), .prepare = qg_integer_prepare,                \
        .infer = infer_##kind, .run = run_##kind, .compile = compiled                  \
    }
const qg_op qg_ops_integer_rescale[] = {
    ROW("IntQuantize", quantize, compile_quantize, QG_OP_ELEMENTWISE | QG_OP_MONOTONE),
    ROW("IntDequantize", dequantize, compile_dequantize, QG_OP_MONOTONE),
    ROW("IntRescale", rescale, compile_rescale, QG_OP_ELEMENTWISE),
    { 0 },
};

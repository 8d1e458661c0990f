/* integer_rescale.c -- IntQuantize, IntDequantize, IntRescale of domain "quantgraph":
 * between floats and codes, and from one grid to another.
 *
 *     IntQuantize(x)     form divide: x / s; reciprocal: x f32(1 / s); rounded, + z,
 *                        limited to out0_low, out0_high
 *     IntDequantize(x)   f32((q - z) s); one grid, or one per channel
 *     IntRescale(x)      q - z_x through the row's requantization
 *
 * Arithmetic: number/integer_rescale.h, number/requant.h.
 * Source: docs/evidence/integers.md#runtimes. */
#include "ops/families.h"

#include "engine/number/integer_rescale.h"
#include "ops/util_axis.h"
#include "ops/util_integer.h"

/* -- IntQuantize ------------------------------------------------------------------ */

enum { QUANTIZE_FORMS = 1 << QG_FORM_DIVIDE | 1 << QG_FORM_RECIPROCAL };

static qg_status infer_quantize(const qg_call *k)
{
    const qg_recipe *r = k->param;
    QG_TRY(qg_check_type(k, 0, QG_DT(F32)));
    QG_TRY(qg_integer_check_codes(k, r));
    QG_TRY(qg_integer_check_form(k, r, QUANTIZE_FORMS));
    return qg_infer_dims(k, r->out.dtype, k->in[0]->rank, k->in[0]->dim);
}

static qg_status run_quantize(const qg_call *k)
{
    const qg_recipe *r = k->param;
    const float *x = k->in[0]->f32;
    bool reciprocal = r->row.form == QG_FORM_RECIPROCAL;
    float scale = r->out.scale[0];
    qg_quantizer q = { reciprocal, (uint8_t)r->row.rounding,
                       reciprocal ? 1.0f / scale : scale, qg_integer_range(r) };
    int32_t codes[256];
    size_t n = qg_elements(k->in[0]);
    for (size_t at = 0; at < n; at += 256) {
        size_t count = n - at < 256 ? n - at : 256;
        qg_quantizer_codes(&q, x + at, codes, count);
        qg_codes_store(r->out.dtype, codes, k->out[0]->data, at, count);
    }
    return QG_OK;
}

/* -- IntDequantize ---------------------------------------------------------------- */

static qg_status infer_dequantize(const qg_call *k)
{
    const qg_recipe *r = k->param;
    QG_TRY(qg_integer_check_in(k, r, 0, qg_in_dim(k, 0, r->in[0].axis)));
    QG_TRY(qg_integer_check_form(k, r, 1 << QG_FORM_PLAIN | 1 << QG_FORM_MULTIPLY));
    if (r->out.codes)
        return qg_infer_fail(k, QG_EMODEL, "out0_type is %s, expected float32",
                             qg_dtype_name(r->out.dtype));
    return qg_infer_dims(k, QG_F32, k->in[0]->rank, k->in[0]->dim);
}

static qg_status run_dequantize(const qg_call *k)
{
    const qg_stored *s = &((const qg_recipe *)k->param)->in[0];
    qg_around a = s->n > 1 ? qg_around_axis(k->in[0], s->axis) : (qg_around){ 1, 1, 1 };
    size_t n = qg_elements(k->in[0]);
    double *q;
    QG_TRY(qg_integer_centred(k, k->in[0], s, &q));
    for (size_t i = 0; i < n; i++) {
        size_t c = s->n > 1 ? i / (size_t)a.inner % s->n : 0;
        k->out[0]->f32[i] = (float)q[i] * s->scale[c];
    }
    return QG_OK;
}

/* -- IntRescale ------------------------------------------------------------------- */

static qg_status infer_rescale(const qg_call *k)
{
    const qg_recipe *r = k->param;
    qg_requant one;
    QG_TRY(qg_integer_check_in(k, r, 0, 1));
    QG_TRY(qg_integer_check_codes(k, r));
    QG_TRY(qg_integer_check_form(k, r, 1 << QG_FORM_PLAIN));
    QG_TRY(qg_integer_requant(k, r, NULL, 0, &one));
    return qg_infer_dims(k, r->out.dtype, k->in[0]->rank, k->in[0]->dim);
}

/* From one grid to another. */
typedef struct rescale {
    int32_t zero;
    qg_requant r;
} rescale;

static void rescale_codes(const void *state, const int32_t *x, int32_t *y, size_t n)
{
    const rescale *s = state;
    for (size_t i = 0; i < n; i++)
        y[i] = qg_requant_one(&s->r, x[i] - s->zero);
}

static qg_status run_rescale(const qg_call *k)
{
    const qg_recipe *r = k->param;
    rescale s = { .zero = r->in[0].zero[0] };
    QG_TRY(qg_integer_requant(k, r, NULL, 0, &s.r));
    qg_integer_map(k, rescale_codes, &s);
    return QG_OK;
}

#define ROW(onnx, kind, more)                                                          \
    {                                                                                  \
        .name = onnx, .domain = "quantgraph", .since = 1, .min_in = 1, .max_in = 1,    \
        .min_out = 1, .max_out = 1, .in_roles = "d",                                   \
        .traits = QG_OP_QUANTIZER | QG_OP_PURE | QG_OP_ELEMENTWISE |                   \
                  QG_OP_BATCH_FIRST | (more),                                          \
        .param_size = sizeof(qg_recipe), .prepare = qg_integer_prepare,                \
        .infer = infer_##kind, .run = run_##kind                                       \
    }
const qg_op qg_ops_integer_rescale[] = {
    ROW("IntQuantize", quantize, QG_OP_MONOTONE),
    ROW("IntDequantize", dequantize, QG_OP_MONOTONE),
    ROW("IntRescale", rescale, 0),
    { 0 },
};

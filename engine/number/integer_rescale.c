#include "engine/number/integer_rescale.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/core/num.h"
#include "engine/number/round.h"

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* One message for all refusals: from, to, and the types that the runtime accepts. */
static qg_status refuse(qg_ctx *ctx, const qg_rescale_spec *s, const char *expected)
{
    return qg_fail(ctx, QG_EUNSUPPORTED,
                   "integer rescale: %s, %s: %s (%g, %d) -> %s (%g, %d), expected %s",
                   s->runtime, s->isa, qg_dtype_name(s->x.dtype), (double)s->x.scale,
                   (int)s->x.zero, qg_dtype_name(s->y.dtype), (double)s->y.scale,
                   (int)s->y.zero, expected);
}

/* Only TFLite's uint8 kernel rescales while it concatenates. */
static qg_status prepare_concat(qg_ctx *ctx, const qg_rescale_spec *s, qg_rescale *r)
{
    bool tflite = starts_with(s->runtime, "tflite") || starts_with(s->runtime, "cmsis");
    if (!tflite || s->y.dtype != QG_U8 || s->x.dtype != QG_U8)
        return refuse(ctx, s, "the output's scale and zero point on every input");
    r->how = QG_RESCALE_AFFINE;
    r->k = s->x.scale * (1.0f / s->y.scale);
    r->plus = -(float)s->x.zero * r->k;
    if (!isfinite(r->k) || !isfinite(255 * r->k))
        return refuse(ctx, s, "a finite ratio of scales");
    return QG_OK;
}

/* XNNPACK's convert takes ratios in [2^-8, 2^7]; the delegate leaves the rest to the
 * built-in kernel, and so does this. */
static qg_status prepare_requant(qg_ctx *ctx, const qg_rescale_spec *s, qg_rescale *r)
{
    float ratio = s->x.scale / s->y.scale;
    bool delegate = strcmp(s->runtime, "tflite-xnnpack") == 0;
    bool taken = ratio >= 0x1p-8f && ratio <= 0x1p7f && s->x.dtype == s->y.dtype;
    const char *runtime = delegate && !taken ? "tflite-builtin" : s->runtime;
    const qg_requant_rule *rule = qg_requant_find(runtime, s->isa, QG_USE_RESCALE);
    if (!rule)
        return refuse(ctx, s, "a runtime with use rescale in the table");
    r->how = QG_RESCALE_REQUANT;
    return qg_requant_prepare(ctx, "rescale", rule,
                              (qg_scales){ s->x.scale, 1, s->y.scale }, r->r.range,
                              &r->r);
}

qg_status qg_rescale_prepare(qg_ctx *ctx, const qg_rescale_spec *spec, qg_rescale *out)
{
    QG_TRY(qg_grid_check(ctx, "integer rescale", "input", spec->x));
    QG_TRY(qg_grid_check(ctx, "integer rescale", "output", spec->y));
    qg_rescale r = { .how = QG_RESCALE_COPY, .zero_x = spec->x.zero };
    r.r.range = qg_code_range_of(spec->y.dtype, spec->y.zero);
    bool as_table = strcmp(spec->runtime, "onnxruntime") == 0;
    if (spec->use == QG_RESCALE_CONCAT && qg_grid_same(spec->x, spec->y)) {
        *out = r;
        return QG_OK;
    }
    QG_TRY(spec->use == QG_RESCALE_CONCAT && !as_table
               ? prepare_concat(ctx, spec, &r)
               : prepare_requant(ctx, spec, &r));
    *out = r;
    return QG_OK;
}

/* 2^31 is beyond every code, and limiting to it keeps the conversion defined. */
static int32_t affine_one(const qg_rescale *r, int32_t q)
{
    const qg_code_range *to = &r->r.range;
    float v = qg_round_f32(QG_ROUND_HALF_AWAY, (float)q * r->k + r->plus);
    int64_t y = (int64_t)fminf(fmaxf(v, -0x1p31f), 0x1p31f) + to->zero;
    return (int32_t)qg_clamp_i64(y, to->lo, to->hi);
}

void qg_rescale_codes(const qg_rescale *r, const int32_t *x, int32_t *y, size_t n)
{
    assert(n == 0 || (x && y));
    for (size_t i = 0; i < n; i++) {
        if (r->how == QG_RESCALE_COPY)
            y[i] = x[i];
        else if (r->how == QG_RESCALE_AFFINE)
            y[i] = affine_one(r, x[i]);
        else
            y[i] = qg_requant_one(&r->r, (int64_t)x[i] - r->zero_x);
    }
}

/* -- from float -------------------------------------------------------------------- */

static const struct {
    const char *runtime;
    bool reciprocal;
    qg_rounding rounding;
    /* Runtimes that divide, and runtimes that multiply by the reciprocal; the two
     * differ in the last code. */
} quantizers[] = {
    {"tflite-reference", false, QG_ROUND_HALF_AWAY},
    { "tflite-micro",    false, QG_ROUND_HALF_AWAY},
    { "tflite-builtin",  true,  QG_ROUND_HALF_EVEN},
    { "tflite-xnnpack",  true,  QG_ROUND_HALF_EVEN},
    { "xnnpack",         true,  QG_ROUND_HALF_EVEN},
    { "onnxruntime",     false, QG_ROUND_HALF_EVEN},
};

qg_status qg_quantizer_prepare(qg_ctx *ctx, const char *runtime, qg_grid y,
                               qg_quantizer *out)
{
    QG_TRY(qg_grid_check(ctx, "integer quantize", "output", y));
    for (size_t i = 0; i < sizeof quantizers / sizeof quantizers[0]; i++)
        if (strcmp(quantizers[i].runtime, runtime) == 0) {
            *out = (qg_quantizer){ quantizers[i].reciprocal, quantizers[i].rounding,
                                   quantizers[i].reciprocal ? 1.0f / y.scale : y.scale,
                                   qg_code_range_of(y.dtype, y.zero) };
            return QG_OK;
        }
    return qg_fail(
        ctx, QG_EUNSUPPORTED,
        "integer quantize: runtime '%s' is not known, expected one listed in "
        "docs/fixed-point.md",
        runtime);
}

void qg_quantizer_codes(const qg_quantizer *q, const float *x, int32_t *y, size_t n)
{
    assert(n == 0 || (x && y));
    float lo = (float)(q->range.lo - q->range.zero);
    float hi = (float)(q->range.hi - q->range.zero);
    for (size_t i = 0; i < n; i++) {
        float v = q->reciprocal ? x[i] * q->scale : x[i] / q->scale;
        v = v > lo ? v : lo; /* NaN too */
        v = v < hi ? v : hi;
        y[i] = (int32_t)qg_round_f32((qg_rounding)q->rounding, v) + q->range.zero;
    }
}

/* -- concat ------------------------------------------------------------------------ */

static qg_status axis_of(qg_ctx *ctx, int32_t axis, int32_t rank, int32_t *out)
{
    if (rank < 1 || rank > QG_INTEGER_RANK || axis < -rank || axis >= rank)
        return qg_fail(ctx, QG_EMODEL,
                       "integer concat: axis %d of rank %d, expected within the rank",
                       (int)axis, (int)rank);
    *out = axis < 0 ? axis + rank : axis;
    return QG_OK;
}

/* Sums the extents along the axis; all others must be equal to those of input 0. */
qg_status qg_int_concat_dims(qg_ctx *ctx, int32_t axis, const qg_int_concat_input *in,
                             size_t n, qg_int_dims *out)
{
    assert(n >= 1);
    qg_int_dims d = in[0].dims;
    QG_TRY(axis_of(ctx, axis, d.rank, &axis));
    d.dim[axis] = 0;
    for (size_t k = 0; k < n; k++) {
        bool fits = in[k].dims.rank == d.rank;
        for (int32_t i = 0; fits && i < d.rank; i++)
            fits =
                in[k].dims.dim[i] >= 0 && (i == axis || in[k].dims.dim[i] == d.dim[i]);
        if (!fits || !qg_add_i64(d.dim[axis], in[k].dims.dim[axis], &d.dim[axis]))
            return qg_fail(ctx, QG_EMODEL,
                           "integer concat: input %zu does not fit the first, expected "
                           "equal dims except along axis %d",
                           k, (int)axis);
    }
    *out = d;
    return QG_OK;
}

enum { CHUNK = 256 };

/* Where one input's blocks go: each of `block` elements, `pitch` apart in y. */
struct placement {
    size_t blocks, block, pitch, first;
};

static void place(const qg_rescale *r, const qg_int_concat_input *in, qg_dtype type,
                  void *y, struct placement p)
{
    assert(p.block <= p.pitch && p.first + p.block <= p.pitch);
    int32_t codes[CHUNK];
    for (size_t k = 0; k < p.blocks; k++)
        for (size_t at = 0; at < p.block; at += CHUNK) {
            size_t n = p.block - at < CHUNK ? p.block - at : CHUNK;
            qg_codes_load(in->grid.dtype, in->data, k * p.block + at, codes, n);
            qg_rescale_codes(r, codes, codes, n);
            qg_codes_store(type, codes, y, p.first + k * p.pitch + at, n);
        }
}

/* Product of dim[from .. to): checked by qg_int_concat_dims, so it cannot overflow. */
static size_t extent(const qg_int_dims *d, int32_t from, int32_t to)
{
    size_t n = 1;
    for (int32_t i = from; i < to; i++)
        n *= (size_t)d->dim[i];
    return n;
}

qg_status qg_int_concat_run(qg_ctx *ctx, const qg_int_concat_spec *spec,
                            const qg_int_concat_input *in, size_t n, void *y)
{
    assert(n >= 1);
    qg_int_dims d;
    int32_t axis;
    QG_TRY(qg_int_concat_dims(ctx, spec->axis, in, n, &d));
    QG_TRY(axis_of(ctx, spec->axis, d.rank, &axis));
    struct placement p = { .blocks = extent(&d, 0, axis),
                           .pitch = extent(&d, axis, d.rank) };
    for (size_t k = 0; k < n; k++) {
        qg_rescale r;
        qg_rescale_spec one = { spec->runtime, spec->isa, QG_RESCALE_CONCAT, in[k].grid,
                                spec->y };
        QG_TRY(qg_rescale_prepare(ctx, &one, &r));
        p.block = extent(&in[k].dims, axis, d.rank);
        place(&r, &in[k], spec->y.dtype, y, p);
        p.first += p.block;
    }
    return QG_OK;
}

#include "engine/number/openvino_fq.h"

#include <assert.h>
#include <math.h>

#include "engine/number/round.h"

static const char *const form_names[QG_NOPENVINO] = {
#define X(id, text, meaning) text,
    QG_OPENVINO_MAP(X)
#undef X
};

const char *qg_openvino_form_name(qg_openvino_form f) { return form_names[f]; }

/* The limits that meet in one element. */
struct limits {
    float il, ih, ol, oh;
};

static float rint32(float x) { return qg_round_f32(QG_ROUND_HALF_EVEN, x); }

/* ngraph's reference kernel, each step in float32; fused: aarch64 contracts the last
 * one. */
static float reference(float x, struct limits k, float steps, bool fused)
{
    if (x <= fminf(k.il, k.ih))
        return k.ol;
    if (x > fmaxf(k.il, k.ih))
        return k.oh;
    float t = (x - k.il) / (k.ih - k.il);
    t = rint32(t * steps) / steps;
    return fused ? fmaf(t, k.oh - k.ol, k.ol) : t * (k.oh - k.ol) + k.ol;
}

/* The JIT kernel; `binary` is its path for two levels, which rounds by a threshold. */
static float plugin(float x, struct limits k, float steps, bool binary)
{
    float scale = steps / (k.ih - k.il), shift = -(k.il * scale);
    float cropped = fmaxf(fminf(x, k.ih), k.il);
    if (isnan(x))
        cropped = k.il;
    float t = rint32(cropped * scale + shift);
    if (binary) {
        if (isnan(x))
            return k.oh;
        t = rint32(fmaf(cropped, scale, -k.il * steps / (k.ih - k.il)));
    }
    return fmaf(t, (k.oh - k.ol) / steps, k.ol);
}

/* -- low precision transformations: the output limits pass through an integer grid - */

/* The properties of the output limits of all channels (low precision
 * transformations). */
struct precision {
    bool is_signed, zero_point;
};

/* The properties of one channel's output limits
 * (docs/evidence/openvino.md#low-precision-transformations).  1e-6 and 0.002
 * are the tolerances of low precision transformations. */
static void look(struct precision *p, int32_t levels, float low, float high)
{
    bool differ = (low < 0) != (high < 0);
    if (fabsf(low) < 1e-6f && fabsf(high) < 1e-6f)
        return;
    if (!differ || fabsf(low) < 1e-6f) {
        p->zero_point = p->zero_point || fabsf(low) >= 1e-6f;
        return;
    }
    bool even = levels == 16 || levels == 256;
    float expected = even ? -(float)levels / (float)(levels - 2) : -1.0f;
    p->is_signed = true;
    if (fabsf((low / high - expected) / expected) > 0.002f)
        p->zero_point = true;
}

/* Other numbers of levels are left in float. */
static bool transforms(int32_t levels)
{
    return levels == 15 || levels == 16 || levels == 255 || levels == 256;
}

/* Limits as they come back from scale and shift on the integer grid. */
static struct limits through_grid(struct limits k, struct precision p, int32_t levels)
{
    bool symmetric = p.is_signed && !p.zero_point;
    bool odd = levels == 15 || levels == 255;
    float max = levels == 16 ? 15 : 255, min = 0;
    if (symmetric) {
        max = levels > 16 ? 127 : 7;
        min = odd ? -max : -max - 1;
    }
    float scale = (k.oh - k.ol) / (max - min);
    float shift = p.zero_point ? (min * k.oh - max * k.ol) / (k.oh - k.ol) : 0;
    k.ol = (min - shift) * scale;
    k.oh = (max - shift) * scale;
    return k;
}

/* -- broadcasting ----------------------------------------------------------------- */

/* Strides of a limit over the dims of x. */
struct view {
    const float *value;
    size_t stride[QG_INTEGER_RANK];
};

/* Right-aligned; a dim of 1 stands still. */
static qg_status view_make(qg_ctx *ctx, const qg_int_dims *x,
                           const qg_openvino_limit *limit, struct view *out)
{
    const qg_int_dims *d = &limit->dims;
    size_t step = 1;
    struct view v = { .value = limit->value };
    bool fits = d->rank >= 0 && d->rank <= x->rank && x->rank <= QG_INTEGER_RANK;
    for (int32_t i = fits ? d->rank - 1 : -1; i >= 0; i--) {
        int32_t at = i + x->rank - d->rank;
        fits = fits && (d->dim[i] == 1 || d->dim[i] == x->dim[at]);
        v.stride[at] = d->dim[i] == 1 ? 0 : step;
        step *= (size_t)d->dim[i];
    }
    if (!fits)
        return qg_fail(ctx, QG_EMODEL,
                       "fake quantize: a limit of rank %d does not broadcast to the "
                       "input, expected dims of 1 or the input's",
                       (int)d->rank);
    *out = v;
    return QG_OK;
}

static float value_at(const struct view *v, const int64_t *at, int32_t rank)
{
    assert(v->value && rank <= QG_INTEGER_RANK);
    size_t offset = 0;
    for (int32_t i = 0; i < rank; i++)
        offset += (size_t)at[i] * v->stride[i];
    return v->value[offset];
}

static struct limits limits_at(const struct view v[4], const int64_t *at, int32_t rank)
{
    return (struct limits){ value_at(&v[0], at, rank), value_at(&v[1], at, rank),
                            value_at(&v[2], at, rank), value_at(&v[3], at, rank) };
}

/* Counts the index up, the last axis fastest. */
static void next(const qg_int_dims *d, int64_t *at)
{
    for (int32_t i = d->rank - 1; i >= 0 && ++at[i] == d->dim[i]; i--)
        at[i] = 0;
}

/* The dims come from a tensor that exists: the product fits. */
static size_t elements(const qg_int_dims *d)
{
    size_t n = 1;
    for (int32_t i = 0; i < d->rank; i++)
        n *= (size_t)d->dim[i];
    return n;
}

/* -- the operator ----------------------------------------------------------------- */

struct job {
    const qg_openvino_fq *fq;
    struct view view[4];
    struct precision precision;
    float steps;
};

static float one(const struct job *j, float x, struct limits k)
{
    assert(j->fq->levels >= 2);
    int32_t levels = j->fq->levels;
    switch (j->fq->form) {
    case QG_OPENVINO_REFERENCE:
        return reference(x, k, j->steps, false);
    case QG_OPENVINO_REFERENCE_AARCH64:
        return reference(x, k, j->steps, true);
    case QG_OPENVINO_CPU_LPT:
        if (transforms(levels))
            k = through_grid(k, j->precision, levels);
        return plugin(x, k, j->steps, levels == 2);
    case QG_OPENVINO_CPU:
        return plugin(x, k, j->steps, levels == 2);
    default:
        return plugin(x, k, j->steps, false);
    }
}

/* Refuses limits that the plugin handles wrongly, and examines all output limits. */
static qg_status plugin_check(qg_ctx *ctx, struct job *j, const qg_int_dims *dims)
{
    const qg_int_dims *ol = &j->fq->output_low.dims, *oh = &j->fq->output_high.dims;
    bool same = ol->rank == oh->rank;
    for (int32_t i = 0; same && i < ol->rank; i++)
        same = ol->dim[i] == oh->dim[i];
    if (j->fq->form == QG_OPENVINO_CPU_LPT && !same)
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "fake quantize: output limits of different shapes with low "
                       "precision transformations, expected one shape");
    int64_t at[QG_INTEGER_RANK] = { 0 };
    for (size_t i = 0, n = elements(dims); i < n; i++, next(dims, at)) {
        struct limits k = limits_at(j->view, at, dims->rank);
        if (!(k.il < k.ih))
            return qg_fail(ctx, QG_EUNSUPPORTED,
                           "fake quantize: input limits %g and %g in the CPU plugin, "
                           "expected low below high",
                           (double)k.il, (double)k.ih);
        look(&j->precision, j->fq->levels, k.ol, k.oh);
    }
    return QG_OK;
}

qg_status qg_openvino_fq_run(qg_ctx *ctx, const qg_openvino_fq *fq,
                             const qg_int_dims *dims, const float *x, float *y)
{
    if (fq->levels < 2)
        return qg_fail(ctx, QG_EMODEL, "fake quantize: %d levels, expected 2 or more",
                       (int)fq->levels);
    struct job j = { .fq = fq, .steps = (float)(fq->levels - 1) };
    QG_TRY(view_make(ctx, dims, &fq->input_low, &j.view[0]));
    QG_TRY(view_make(ctx, dims, &fq->input_high, &j.view[1]));
    QG_TRY(view_make(ctx, dims, &fq->output_low, &j.view[2]));
    QG_TRY(view_make(ctx, dims, &fq->output_high, &j.view[3]));
    if (fq->form >= QG_OPENVINO_CPU)
        QG_TRY(plugin_check(ctx, &j, dims));
    int64_t at[QG_INTEGER_RANK] = { 0 };
    for (size_t i = 0, n = elements(dims); i < n; i++, next(dims, at))
        y[i] = one(&j, x[i], limits_at(j.view, at, dims->rank));
    return QG_OK;
}

/* -- conversions ------------------------------------------------------------------ */

static double clip(double v, double lo, double hi) { return fmin(fmax(v, lo), hi); }

qg_status qg_openvino_from_affine(qg_ctx *ctx, const char *what, qg_affine a,
                                  qg_openvino_range *out)
{
    double scale = fabs(a.scale), n = (double)a.qmax - (double)a.qmin;
    if (!isfinite(scale) || scale == 0 || !isfinite(a.zero))
        return qg_fail(ctx, QG_ENUMERIC,
                       "convert to FakeQuantize: %s: scale %g, zero point %g, expected "
                       "finite and a scale other than 0",
                       what, a.scale, a.zero);
    if (!(n >= 1) || n >= 0x1p32)
        return qg_fail(ctx, QG_ECONFIG,
                       "convert to FakeQuantize: %s: range [%lld, %lld], expected 2 to "
                       "2^32 levels",
                       what, (long long)a.qmin, (long long)a.qmax);
    double qmin = (double)a.qmin, qmax = (double)a.qmax;
    double zero = clip(qg_round_f64(QG_ROUND_HALF_EVEN, a.zero), qmin, qmax);
    qg_openvino_range r = { .levels = a.qmax - a.qmin + 1 };
    r.high = (qmax - zero) * (scale * n) / n;
    r.low = r.high - scale * n;
    r.low32 = (float)r.low;
    r.high32 = (float)r.high;
    double below = fabs((double)r.low32 - (qmin - zero) * scale);
    double above = fabs((double)r.high32 - (qmax - zero) * scale);
    r.residual = fmax(below, above); /* linear in between */
    r.ties_differ = fmod(zero - qmin, 2) != 0;
    *out = r;
    return QG_OK;
}

/* The zero point is where the line through both ends crosses zero, in steps. */
qg_status qg_openvino_to_affine(qg_ctx *ctx, const char *what, double low, double high,
                                qg_affine *a, double *residual)
{
    double qmin = (double)a->qmin, qmax = (double)a->qmax;
    if (!isfinite(low) || !isfinite(high) || !(low < high) || !(qmin < qmax))
        return qg_fail(ctx, QG_ENUMERIC,
                       "convert from FakeQuantize: %s: range [%g, %g] on [%g, %g], "
                       "expected both in order and finite",
                       what, low, high, qmin, qmax);
    a->scale = (high - low) / (qmax - qmin);
    a->zero = (qmin * high - qmax * low) / (high - low);
    *residual = a->scale * fabs(a->zero - qg_round_f64(QG_ROUND_HALF_EVEN, a->zero));
    return QG_OK;
}

qg_affine qg_openvino_full_range(qg_affine half, double *low, double *high)
{
    assert(half.qmin > INT64_MIN / 4 && half.qmax < INT64_MAX / 4);
    *low = ((double)half.qmin - half.zero) * half.scale;
    *high = ((double)half.qmax - half.zero) * half.scale;
    half.qmin *= 2;
    half.qmax = 2 * half.qmax + 1;
    return half;
}

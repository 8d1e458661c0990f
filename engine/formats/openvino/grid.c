#include "engine/formats/openvino/grid.h"

#include <assert.h>
#include <math.h>

/* Limits are written as float32, so zero may miss its code by rounding. */
static const double zero_tolerance = 0.01; /* steps */

static qg_affine affine_of(const qg_scheme *s, const qg_qparam *p, size_t c)
{
    double zero = p->offset ? (double)p->offset[c] : 0;
    return (qg_affine){ (double)p->scale[c], zero, s->qmin, s->qmax };
}

qg_status qg_openvino_limits_of(qg_ctx *ctx, const char *what, const qg_scheme *s,
                                const qg_qparam *p, qg_arena *a,
                                qg_openvino_limits *out)
{
    assert(s->policy & QG_LINEAR && !(s->policy & (QG_BLOCK | QG_DYNAMIC)));
    assert(p->n > 0 && p->scale);
    if (s->qmax - s->qmin >= QG_OPENVINO_LEVELS)
        return qg_fail(ctx, QG_ECONFIG,
                       "convert to FakeQuantize: %s: range [%lld, %lld], expected at "
                       "most %d levels",
                       what, (long long)s->qmin, (long long)s->qmax,
                       QG_OPENVINO_LEVELS);
    qg_openvino_limits l = { .levels = (int32_t)(s->qmax - s->qmin + 1),
                             .axis = s->axis,
                             .n = p->n,
                             .low = QG_NEWN(a, p->n, float),
                             .high = QG_NEWN(a, p->n, float) };
    if (!l.low || !l.high)
        return qg_nomem(ctx);
    for (size_t c = 0; c < p->n; c++) {
        qg_openvino_range r;
        QG_TRY(qg_openvino_from_affine(ctx, what, affine_of(s, p, c), &r));
        l.low[c] = r.low32;
        l.high[c] = r.high32;
    }
    *out = l;
    return QG_OK;
}

/* --- back --- */

/* The code of zero, counted from the low end. */
static qg_status find_zero(qg_ctx *ctx, const char *what, const qg_openvino_limits *l,
                           size_t c, int32_t *out)
{
    double low = (double)l->low[c], high = (double)l->high[c];
    double zero = -low / (high - low) * (l->levels - 1), code = rint(zero);
    bool ok = isfinite(low) && isfinite(high) && low < high && code >= 0 &&
              code <= l->levels - 1 && fabs(zero - code) <= zero_tolerance;
    if (!ok)
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "convert from FakeQuantize: %s: %d levels from %g to %g, "
                       "expected a grid that holds 0",
                       what, (int)l->levels, low, high);
    *out = (int32_t)code;
    return QG_OK;
}

static bool gives(qg_affine a, float low, float high)
{
    qg_openvino_range r;
    return qg_openvino_from_affine(NULL, "", a, &r) == QG_OK && r.low32 == low &&
           r.high32 == high;
}

/* The scale that was written, if there is one that gives these limits. */
static float find_scale(const qg_openvino_limits *l, size_t c, int32_t zero)
{
    float low = l->low[c], high = l->high[c];
    float middle = (float)(((double)high - (double)low) / (l->levels - 1));
    float candidate[] = { middle, nextafterf(middle, 0), nextafterf(middle, INFINITY) };
    for (size_t i = 0; i < 3; i++)
        if (gives((qg_affine){ (double)candidate[i], zero, 0, l->levels - 1 }, low,
                  high))
            return candidate[i];
    return middle;
}

/* The convention of the file comment; zero is that of all channels, or -1. */
static void name_codes(int32_t levels, int32_t zero, qg_scheme *s)
{
    while (s->bits < 32 && (INT64_C(1) << s->bits) < levels)
        s->bits++;
    int32_t full = 1 << s->bits, middle = levels == full ? full / 2 : full / 2 - 1;
    bool centred = levels >= full - 1 && zero == middle;
    s->qmin = centred ? -middle : 0;
    s->qmax = s->qmin + levels - 1;
    s->policy =
        (uint16_t)(s->policy | (centred || zero == 0 ? QG_SYMMETRIC : QG_ASYMMETRIC));
}

qg_status qg_openvino_grid_of(qg_ctx *ctx, const char *what,
                              const qg_openvino_limits *l, qg_arena *a, qg_scheme *s,
                              qg_qparam *p)
{
    assert(l->n > 0 && (l->axis >= 0 || l->n == 1));
    if (l->levels < 2 || l->levels > QG_OPENVINO_LEVELS)
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "convert from FakeQuantize: %s: %d levels, expected 2 to %d",
                       what, (int)l->levels, QG_OPENVINO_LEVELS);
    float *scale = QG_NEWN(a, l->n, float);
    int32_t *offset = QG_NEWN(a, l->n, int32_t), common = -1;
    if (!scale || !offset)
        return qg_nomem(ctx);
    for (size_t c = 0; c < l->n; c++) {
        QG_TRY(find_zero(ctx, what, l, c, &offset[c]));
        scale[c] = find_scale(l, c, offset[c]);
        if (!(scale[c] > 0))
            return qg_fail(ctx, QG_EUNSUPPORTED,
                           "convert from FakeQuantize: %s: step %g, expected above 0",
                           what, (double)scale[c]);
        common = c == 0 || common == offset[c] ? offset[c] : -1;
    }
    qg_scheme r = { .policy = (uint16_t)(QG_LINEAR | (l->axis < 0 ? QG_PER_TENSOR
                                                                  : QG_PER_CHANNEL)),
                    .rounding = QG_ROUND_HALF_EVEN_LEVEL,
                    .bits = 2,
                    .axis = (int16_t)l->axis };
    name_codes(l->levels, common, &r);
    for (size_t c = 0; c < l->n && r.policy & QG_SYMMETRIC; c++)
        offset[c] = 0;
    *s = r;
    *p = (qg_qparam){ l->n, scale, offset };
    return QG_OK;
}

qg_scheme qg_openvino_widened(const qg_scheme *s)
{
    static const uint8_t bits[] = { 4, 8, 16 };
    qg_scheme w = *s;
    if (!(s->policy & QG_SYMMETRIC))
        return w;
    for (size_t i = 0; i < sizeof bits; i++) {
        int64_t full = INT64_C(1) << bits[i], levels = s->qmax - s->qmin + 1;
        int64_t low = s->qmin < 0 ? -full / 2 : 0;
        if (s->qmin < low || s->qmax > low + full - 1)
            continue;
        if (levels < full - 1) {
            w.bits = bits[i];
            w.qmin = low;
            w.qmax = low + full - 1;
        }
        return w;
    }
    return w;
}

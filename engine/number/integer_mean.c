#include "engine/number/integer_mean.h"

#include <assert.h>
#include <math.h>

/* 1 / n goes into the multiplier, which is cut, not rounded; 2^k keeps its bits. */
static qg_multiplier divided(qg_multiplier r, int64_t n)
{
    int k = 63 - __builtin_clzll((unsigned long long)n);
    if (k > 32)
        k = 32;
    if (k > 31 + r.shift)
        k = 31 + r.shift;
    return (qg_multiplier){ (int32_t)(((int64_t)r.m << k) / n), r.shift - k };
}

qg_status qg_mean_prepare(qg_ctx *ctx, const char *what, const qg_requant_rule *rule,
                          const qg_mean *m, qg_code_range range, qg_requant *out)
{
    assert(m->n >= 1);
    qg_scales s = { m->x, m->floor_multiplier ? 1 : (float)m->n, m->y };
    QG_TRY(qg_requant_prepare(ctx, what, rule, s, range, out));
    if (!m->floor_multiplier)
        return QG_OK;
    if (rule->scheme != QG_SCHEME_FIX_DOUBLE &&
        rule->scheme != QG_SCHEME_FIX_DOUBLE_UP && rule->scheme != QG_SCHEME_FIX_SINGLE)
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "requantize: %s: floor-multiplier with %s, expected fix-double, "
                       "fix-double-up or fix-single",
                       what, qg_requant_scheme_name((qg_requant_scheme)rule->scheme));
    out->m = divided(out->m, m->n);
    return QG_OK;
}

qg_mean_float qg_mean_float_of(const qg_mean *m, int32_t zero_x, qg_code_range range)
{
    float k = m->x / m->y / (float)m->n;
    float middle = (float)(zero_x * m->n) * k;
    return (qg_mean_float){ k, (float)range.zero - middle, range };
}

int32_t qg_mean_float_one(const qg_mean_float *m, int64_t sum)
{
    float scaled = (float)sum * m->k;
    float v = rintf(scaled + m->w);
    v = fminf(fmaxf(v, (float)m->range.lo), (float)m->range.hi);
    return (int32_t)v;
}

int32_t qg_mean_zero(const qg_mean *m, int32_t zero_x, int32_t zero_y)
{
    float middle = (float)zero_x * m->x / m->y;
    float moved = middle > 0 ? middle + 0.5f : middle - 0.5f;
    float limit = 0x7fffff00; /* the difference fits int32 for every zero_y */
    return zero_y - (int32_t)fminf(fmaxf(moved, -limit), limit);
}

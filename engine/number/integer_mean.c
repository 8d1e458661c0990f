#include "engine/number/integer_mean.h"

#include <assert.h>

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

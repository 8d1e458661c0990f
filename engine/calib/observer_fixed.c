/* observer_fixed.c -- the scale that an operator prescribes, whatever the data.
 *
 * TFLite's Softmax stores steps of 1/256 from code -128 up; a rule sets this with
 * `step` and `zero`, the code that means 0 counted from 1 at the lowest one (a
 * parameter of 0 is one that is not given).  Source:
 * docs/evidence/integers.md#prescribed-grids. */
#include <assert.h>
#include <math.h>

#include "engine/calib/derive.h"

/* Symmetric schemes have code 0 there whatever `zero` is: a rule may be for both. */
static qg_status check_zero(qg_ctx *ctx, const qg_observe *o)
{
    const double zero = o->setting->value[QG_PARAM_ZERO];
    const long long low = o->scheme->qmin, codes = o->scheme->qmax - low + 1;
    bool symmetric = (o->scheme->policy & QG_SYMMETRIC) != 0;
    if (zero == 0 && !symmetric)
        return qg_fail(ctx, QG_ECONFIG,
                       "zero is not given, expected the place of the code that means "
                       "0, from 1 for code %lld to %lld for code %lld",
                       low, codes, low + codes - 1);
    if (zero > (double)codes)
        return qg_fail(ctx, QG_ECONFIG,
                       "zero is code %.0f of %lld, expected an existing code", zero,
                       codes);
    return QG_OK;
}

static qg_status check(qg_ctx *ctx, const qg_observe *o)
{
    if (o->setting->value[QG_PARAM_STEP] == 0)
        return qg_fail(ctx, QG_ECONFIG,
                       "step is not given, expected step=NUMBER, the scale");
    return o->scheme->policy & QG_FLOATING ? QG_OK : check_zero(ctx, o);
}

static qg_status pick(qg_ctx *ctx, const qg_observe *o, const qg_distribution *d,
                      qg_arena *scratch, qg_found *out)
{
    bool symmetric = (o->scheme->policy & QG_SYMMETRIC) != 0;
    int64_t zero = symmetric ? 0 : (int64_t)qg_observe_value(o, QG_PARAM_ZERO);
    (void)ctx;
    (void)d;
    (void)scratch;
    assert(symmetric || zero >= 1);
    out->is_param = true;
    *out->scale = (float)qg_observe_value(o, QG_PARAM_STEP);
    *out->offset = symmetric ? 0 : (int32_t)(o->scheme->qmin + zero - 1);
    return QG_OK;
}

const qg_observer qg_observer_fixed = {
    .name = "fixed",
    .summary = "the scale is step; on asymmetric grids zero is the place of the code "
               "that means 0, from 1 at the lowest: 1 of int8 is code -128, 129 code 0",
    .source = "docs/evidence/integers.md#prescribed-grids",
    .per_channel = true,
    .passes = 1,
    .blind = true,
    .value = {[QG_PARAM_MIN_SCALE] = 1e-8,
              [QG_PARAM_STEP] = (double)NAN,
              [QG_PARAM_ZERO] = (double)NAN},
    .check = check,
    .pick = pick,
};

/* --- constant --- */

static qg_status constant_pick(qg_ctx *ctx, const qg_observe *o,
                               const qg_distribution *d, qg_arena *scratch,
                               qg_found *out)
{
    (void)ctx;
    (void)o;
    (void)d;
    (void)scratch;
    out->is_param = true;
    *out->scale = 1;
    *out->offset = 0;
    return QG_OK;
}

const qg_observer qg_observer_constant = {
    .name = "constant",
    .summary = "scale 1: the format without scaling",
    .source = "docs/evidence/observers.md#ppq-constant-and-floating",
    .per_channel = true,
    .passes = 1,
    .policy = QG_FLOATING,
    .value = { [QG_PARAM_MIN_SCALE] = 1e-8 },
    .blind = true,
    .pick = constant_pick,
};

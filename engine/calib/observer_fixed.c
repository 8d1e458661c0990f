/* observer_fixed.c -- the scale that an operator prescribes, whatever the data.
 *
 * TFLite's Softmax stores steps of 1/256 from code -128 up; a rule sets this with
 * `step` and `zero`, the code that means 0 counted from the lowest one.  Source:
 * docs/evidence/integers.md#prescribed-grids. */
#include <assert.h>

#include "engine/calib/derive.h"

/* Symmetric schemes have their 0 in the middle. */
static qg_status pick(qg_ctx *ctx, const qg_observe *o, const qg_distribution *d,
                      qg_arena *scratch, qg_found *out)
{
    int64_t zero = (int64_t)qg_observe_value(o, QG_PARAM_ZERO);
    int64_t offset = o->scheme->qmin + zero - 1;
    (void)d;
    (void)scratch;
    assert(zero >= 1 && out->scale && out->offset);
    if (o->scheme->policy & QG_SYMMETRIC)
        offset = 0;
    if (offset > o->scheme->qmax)
        return qg_fail(
            ctx, QG_ECONFIG, "zero is code %lld of %lld, expected an existing code",
            (long long)zero, (long long)(o->scheme->qmax - o->scheme->qmin + 1));
    out->is_param = true;
    *out->scale = (float)qg_observe_value(o, QG_PARAM_STEP);
    *out->offset = (int32_t)offset;
    return QG_OK;
}

const qg_observer qg_observer_fixed = {
    .name = "fixed",
    .summary = "the scale prescribed by the rule (step, zero)",
    .source = "docs/evidence/integers.md#prescribed-grids",
    .per_channel = true,
    .passes = 1,
    .blind = true,
    .value = {[QG_PARAM_MIN_SCALE] = 1e-8,
              [QG_PARAM_STEP] = 1.0 / 256,
              [QG_PARAM_ZERO] = 1},
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

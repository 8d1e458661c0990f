#include "engine/quant/aimet.h"

#include <assert.h>
#include <math.h>

#include "engine/number/round.h"

/* The range is the data's fault (QG_ENUMERIC), the rest the caller's options. */
static qg_status spec_check(qg_ctx *ctx, const char *what, const qg_aimet_spec *spec,
                            double min, double max)
{
    if (spec->bits < 2 || spec->bits > 32 || !(spec->min_range > 0))
        return qg_fail(ctx, QG_ECONFIG,
                       "encode: %s: %d bits, smallest range %g, expected 2 to 32 bits "
                       "and a range above 0",
                       what, spec->bits, spec->min_range);
    if (!isfinite(min) || !isfinite(max) || min > max)
        return qg_fail(ctx, QG_ENUMERIC,
                       "encode: %s: range [%g, %g], expected finite and in order", what,
                       min, max);
    return QG_OK;
}

/* The offset is rounded first and the range moved to it, so that zero is a code. */
static qg_aimet_encoding asymmetric(double min, double max, double steps)
{
    qg_aimet_encoding e = { .delta = (max - min) / steps };
    double zero = qg_round_f64(QG_ROUND_HALF_AWAY, -min / e.delta);
    e.offset = -fmin(fmax(zero, 0), steps);
    e.min = e.delta * e.offset;
    e.max = max - min + e.min;
    return e;
}

/* An odd number of steps leaves one more below zero than above; delta covers the
 * larger side with the smaller half. */
static qg_aimet_encoding symmetric(double min, double max, double steps)
{
    double above = floor(steps / 2);
    qg_aimet_encoding e = { .delta = fmax(-min, max) / above };
    e.offset = -ceil(steps / 2);
    e.min = e.offset * e.delta;
    e.max = above * e.delta;
    return e;
}

/* The range is widened to hold zero and to at least min_range, at its upper end. */
qg_status qg_aimet_encode(qg_ctx *ctx, const char *what, const qg_aimet_spec *spec,
                          double min, double max, qg_aimet_encoding *out)
{
    QG_TRY(spec_check(ctx, what, spec, min, max));
    min = fmin(min, 0);
    max = fmax(fmax(max, 0), min + spec->min_range);
    double steps = ldexp(1, spec->bits) - 1;
    if (spec->symmetric && spec->strict)
        steps -= 1;
    bool one_sided = spec->symmetric && spec->may_be_unsigned && min >= 0;
    *out = spec->symmetric && !one_sided ? symmetric(min, max, steps)
                                         : asymmetric(min, max, steps);
    return QG_OK;
}

double qg_aimet_quantize(const qg_aimet_encoding *e, double x)
{
    assert(e->delta > 0);
    double clamped = fmin(fmax(x, e->min), e->max);
    return qg_round_f64(QG_ROUND_HALF_AWAY, clamped / e->delta - e->offset);
}

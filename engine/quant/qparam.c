/* qparam.c -- scales and offsets: how many a tensor needs, and which a range gives. */
#include "engine/quant/fake.h"

#include <assert.h>
#include <float.h>
#include <math.h>

#include "engine/quant/fake_kernel.h"

/* The smallest power of two that is not below v > 0.  Exact, unlike ceil(log2(v)). */
static double power_of_2_above(double v)
{
    int exponent;
    double mantissa = frexp(v, &exponent); /* [0.5, 1) */
    return ldexp(1.0, mantissa == 0.5 ? exponent - 1 : exponent);
}

/* Limited to the range, so that the offset itself is a code; PPQ does not (D01). */
static int32_t offset_of(const qg_scheme *s, double low, double scale, unsigned quirks)
{
    double steps = rint(-low / scale);
    if (quirks & QG_RANGE_PPQ_OFFSET)
        return (int32_t)fmin(fmax(steps, INT32_MIN), INT32_MAX);
    double offset =
        fmin(fmax(steps + (double)s->qmin, (double)s->qmin), (double)s->qmax);
    return (int32_t)fmin(offset, INT32_MAX); /* unsigned 32-bit ranges */
}

/* Symmetric codes that begin at 0 cover [0, high]: nothing below zero has a code. */
static double width_of(const qg_scheme *s, double low, double high, unsigned quirks)
{
    bool from_zero =
        s->qmin >= 0 && !(s->policy & QG_FLOATING) && !(quirks & QG_RANGE_PPQ_UNSIGNED);
    if (!(s->policy & QG_SYMMETRIC))
        return high - low;
    return from_zero ? high : 2 * fmax(-low, high);
}

/* The largest scale with which every value of the grid, and its width, is finite in
 * float32: a mask of the lowest float has a range that two steps can exceed. */
static double most_scale(const qg_scheme *s)
{
    if (s->policy & QG_FLOATING)
        return FLT_MAX;
    double most = FLT_MAX / ((double)s->qmax - (double)s->qmin) * (1 - FLT_EPSILON);
    return s->policy & QG_POWER_OF_2 ? ldexp(1, ilogb(most)) : most;
}

/* The least scale where the range has none of its own: 1e-8, as in PPQ.  Zeros have at
 * least that one, since the steps of biases are multiples of it. */
static double least_scale(double width, double given)
{
    const double preset = 1e-8;
    return given > 0 && (width > 0 || given > preset) ? given : preset;
}

void qg_scheme_from_range(const qg_scheme *s, qg_range r, float *scale, int32_t *offset)
{
    assert(r.low <= r.high && isfinite(r.low) && isfinite(r.high));
    const double low = fmin(r.low, 0), high = fmax(r.high, 0);
    bool symmetric = (s->policy & QG_SYMMETRIC) != 0;
    double width = width_of(s, low, high, r.quirks);
    double top = s->policy & QG_FLOATING ? qg_floating_top(s) : 0;
    double unrounded = width / (top > 0 ? 2 * top : (double)s->qmax - (double)s->qmin);
    unrounded = fmin(fmax(unrounded, least_scale(width, r.min_scale)), FLT_MAX);
    assert(unrounded > 0);
    double chosen = unrounded;
    if (r.quirks & QG_RANGE_MX && top > 0 && width > 0)
        chosen = fmax(ldexp(1, ilogb(width / 2) - ilogb(top)), 0x1p-127);
    else if (s->policy & QG_POWER_OF_2)
        chosen = fmin(power_of_2_above(unrounded), 0x1p127);
    double divisor = r.quirks & QG_RANGE_PPQ_POW2_OFFSET ? unrounded : chosen;
    chosen = fmin(chosen, most_scale(s));
    *scale = (float)chosen;
    *offset = symmetric ? 0 : offset_of(s, low, divisor, r.quirks);
}

int64_t qg_scheme_param_count(const qg_scheme *s, const qg_tensor *x)
{
    if (s->policy & QG_PER_TENSOR)
        return 1;
    if (s->axis < 0 || s->axis >= x->rank)
        return -1;
    if (s->policy & QG_PER_CHANNEL)
        return x->dim[s->axis];
    if (s->block < 1)
        return -1;
    qg_tensor blocks = *x;
    blocks.dim[s->axis] =
        x->dim[s->axis] / s->block + (x->dim[s->axis] % s->block != 0);
    return qg_tensor_count(&blocks);
}

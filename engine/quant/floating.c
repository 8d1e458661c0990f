/* floating.c -- low-bit floating point grids.  Source:
 * docs/evidence/grids.md#floating-grids; OCP 8-bit
 * floating point and microscaling (MX) formats, revision 1.0. */
#include <assert.h>
#include <math.h>

#include "engine/quant/fake_rows.h"

/* The bits left by sign and exponent. */
static int mantissa_of(const qg_scheme *s) { return s->bits - s->exponent_bits - 1; }

/* The kernel forms 1.5 * 2^(23 - mantissa) * 2^exponent, which must be finite. */
bool qg_floating_quick(const qg_floating *p)
{
    int highest = ilogbf(fmaxf(-p->low, p->high));
    return p->rounding == QG_ROUND_HALF_EVEN && !p->ppq_ties && p->mantissa <= 20 &&
           highest + 24 - p->mantissa <= 127 && p->least >= -126;
}

static void defined(const qg_floating *p, const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = qg_floating_define(p, x[i]);
}

/* The largest number has all exponent and mantissa bits set; qmax excludes the codes a
 * format reserves for infinity and NaN.  exponent_bits 8 is bfloat16's, whose top
 * exponent float32 lacks as well. */
double qg_floating_top(const qg_scheme *s)
{
    assert(s->exponent_bits >= 1 && s->exponent_bits <= 8 && mantissa_of(s) >= 0);
    int half = 1 << (s->exponent_bits - 1);
    int most = s->variant & QG_FLOAT_FNUZ ? half - 1 : half;
    double top = ldexp(2 - ldexp(1, -mantissa_of(s)), most > 127 ? 127 : most);
    return s->qmax == INT64_MAX ? top : fmin((double)s->qmax, top);
}

/* Grids are symmetric but for their limits: the top of the mirrored scheme, negated. */
static double bottom_of(const qg_scheme *s)
{
    qg_scheme mirrored = *s;
    mirrored.qmax = s->qmin <= -INT64_MAX ? INT64_MAX : -s->qmin;
    return -qg_floating_top(&mirrored);
}

/* least: 1 - bias, the bias being 2^(e-1) - 1, and one more under FNUZ. */
void qg_floating_init(qg_floating *p, const qg_scheme *s, float scale)
{
    assert((s->policy & QG_FLOATING) && s->exponent_bits >= 1 && s->exponent_bits <= 8);
    assert(s->exponent_bits < s->bits && scale > 0 && isfinite(scale));
    int half = 1 << (s->exponent_bits - 1);
    *p = (qg_floating){
        .scale = scale,
        .low = (float)bottom_of(s),
        .high = (float)qg_floating_top(s),
        .mantissa = mantissa_of(s),
        .least = s->variant & QG_FLOAT_FNUZ ? 1 - half : 2 - half,
        .nan = qg_nan_at((qg_nan)s->nan, 0),
        .rounding = (qg_rounding)s->rounding,
        .ppq_ties = (s->variant & QG_FLOAT_PPQ_TIES) != 0,
        .run = defined,
    };
    if (qg_floating_quick(p))
        p->run = qg_fake_row_best()->floating;
}

/* u counted in steps of 2^(exponent - mantissa), every operation but the rounding being
 * exact in double. */
float qg_floating_code(const qg_floating *p, float x)
{
    assert(p->scale > 0);
    float u = (isnan(x) ? qg_nan_value(p->nan) : x) / p->scale;
    u = u < p->low ? p->low : u > p->high ? p->high : u;
    if (isnan(u) || u == 0)
        return u + 0.0f;
    assert(u >= p->low && u <= p->high);
    int exponent = ilogbf(u);
    bool normal = exponent >= p->least;
    int step = (normal ? exponent : p->least) - p->mantissa;
    double t = ldexp((double)u, -step);
    if (p->ppq_ties && normal) {
        double size = fabs(t), whole = floor(size);
        t = copysign(whole + qg_round_f64(p->rounding, size - whole), t);
    } else {
        t = qg_round_f64(p->rounding, t);
    }
    float v = (float)ldexp(t, step);
    v = v < p->low ? p->low : v > p->high ? p->high : v;
    return v + 0.0f;
}

float qg_floating_define(const qg_floating *p, float x)
{
    return qg_floating_code(p, x) * p->scale;
}

#include "engine/device/grid.h"

#include <math.h>
#include <string.h>

#include "engine/core/num.h"
#include "engine/quant/fake_kernel.h"

/* Scales nearer than this are one scale that was found in float32 elements. */
#define SAME_SCALE 2e-6
/* ... that the trace gives. */
#define SAME_GIVEN 2e-7
/* Small elements of their own cause from which a float format with half the scale is
 * ruled out: each would lie between two steps with a probability of one half, so that
 * none of 12 does with one below 0.1 %. */
enum { FINE = 12 };

bool qg_grid_same_step(double x, double y) { return fabs(x - y) <= SAME_SCALE * x; }

bool qg_grid_same_seen(const qg_seen *x, const qg_seen *y)
{
    double same = x->zero_known && y->zero_known ? SAME_GIVEN : SAME_SCALE;
    return fabs(x->step - y->step) <= same * x->step;
}

static bool is_whole(double x) { return fabs(x - nearbyint(x)) < SAME_SCALE; }

bool qg_grid_is_common_step(double step) { return is_whole(log2(step)); }

/* --- float formats --- */

/* The scales of a float format of which all observed elements are numbers. */
typedef struct bounds {
    double least, most;
} bounds;

/* Elements that a format with half the scale could have between its steps: those below
 * the smallest normal number. */
static unsigned fine_elements(const qg_floating *f, const qg_seen *o)
{
    unsigned n = 0;
    for (int k = 1; k < QG_SEEN_NEAR && k < 1 << (f->mantissa < 5 ? f->mantissa : 5);
         k++)
        n += o->near[k];
    return n;
}

/* The greatest scale by the step; the least one by the greatest element, or the same
 * where smaller scales are ruled out. */
static bounds scales_of(const qg_scheme *s, const qg_seen *o)
{
    qg_floating f;
    qg_floating_init(&f, s, 1);
    double most = ldexp(o->step, f.mantissa - f.least), least = most;
    double peak = fmax(o->high / (double)f.high, o->low / (double)f.low) * o->step;
    bool ruled_out = fine_elements(&f, o) >= FINE;
    while (!ruled_out && peak > 0 && least / 2 >= peak * (1 - SAME_SCALE))
        least /= 2;
    return (bounds){ least, most };
}

bool qg_grid_decides_float(const qg_scheme *s, const qg_seen *o)
{
    bounds b = scales_of(s, o);
    return b.least >= b.most;
}

static bool matches_float(const qg_scheme *s, double scale, const qg_seen *o)
{
    bounds b = scales_of(s, o);
    return is_whole(log2(b.most / scale)) && scale <= b.most * (1 + SAME_SCALE) &&
           scale >= b.least * (1 - SAME_SCALE);
}

/* Of the scales within the bounds the one that is nearest to the record's. */
static double nearest_float(const qg_scheme *s, double scale, const qg_seen *o)
{
    bounds b = scales_of(s, o);
    double x = b.most * exp2(nearbyint(log2(scale / b.most)));
    return fmin(fmax(x, b.least), b.most);
}

/* --- grids --- */

/* The trace has codes of the other sign: its own type is evidence, too. */
static bool other_sign(const qg_scheme *s, const qg_seen *o)
{
    return o->zero_known &&
           ((o->sign > 0 && s->qmin < 0) || (o->sign < 0 && s->qmin >= 0));
}

/* The observed zero point as a code of the scheme's type. */
static int64_t zero_by(const qg_scheme *s, const qg_seen *o)
{
    int64_t half = (int64_t)1 << (s->bits - 1);
    if (o->sign > 0 && s->qmin < 0)
        return o->zero - half;
    return o->sign < 0 && s->qmin >= 0 ? o->zero + half : o->zero;
}

bool qg_grid_matches(const qg_tqc *t, const qg_seen *o)
{
    const qg_scheme *s = &qg_tqc_root(t)->scheme;
    qg_qparam p = qg_tqc_param(t);
    if (p.n != 1)
        return false;
    double ratio = o->step / (double)p.scale[0];
    if (s->policy & QG_FLOATING)
        return !o->zero_known && matches_float(s, (double)p.scale[0], o);
    if (other_sign(s, o))
        return false;
    double same = o->zero_known ? SAME_GIVEN : SAME_SCALE;
    bool coarser = !o->zero_known && o->levels < 64 && ratio > 1.5;
    if (fabs(ratio - (coarser ? nearbyint(ratio) : 1)) > same * ratio)
        return false;
    int64_t zero = p.offset ? p.offset[0] : 0;
    if (o->zero_known)
        return zero_by(s, o) == zero;
    return o->low * nearbyint(ratio) + (double)zero >= (double)s->qmin &&
           o->high * nearbyint(ratio) + (double)zero <= (double)s->qmax;
}

/* The codes of the trace in a linear scheme. */
static bool fits_codes(const qg_scheme *s, const qg_seen *o)
{
    const double low = (double)s->qmin, high = (double)s->qmax;
    if (o->high - o->low > high - low)
        return false;
    if (!o->zero_known)
        return !(s->policy & QG_SYMMETRIC) || (o->low >= low && o->high <= high);
    int64_t zero = zero_by(s, o);
    return !other_sign(s, o) && o->low + (double)zero >= low &&
           o->high + (double)zero <= high && (zero == 0 || !(s->policy & QG_SYMMETRIC));
}

static bool fits_float(const qg_scheme *s, const qg_seen *o)
{
    qg_floating f;
    qg_floating_init(&f, s, 1);
    double most = ldexp(o->step, f.mantissa - f.least);
    double peak = fmax(o->high / (double)f.high, o->low / (double)f.low) * o->step;
    return !o->zero_known && o->bits <= (unsigned)f.mantissa + 1 &&
           peak <= most * (1 + SAME_SCALE);
}

bool qg_grid_fits(const qg_tqc *root, const qg_seen *o)
{
    const qg_scheme *s = &root->scheme;
    if (s->policy & QG_POWER_OF_2 && !qg_grid_is_common_step(o->step))
        return false;
    return s->policy & QG_FLOATING ? fits_float(s, o) : fits_codes(s, o);
}

bool qg_grid_is_usual(const qg_tqc *root, const qg_seen *o)
{
    const qg_scheme *s = &root->scheme;
    if (qg_tqc_is_prescribed(root))
        return qg_grid_matches(root, o);
    if (!qg_grid_fits(root, o))
        return false;
    if (s->policy & QG_FLOATING)
        return true;
    int64_t middle = s->qmin < 0 ? 0 : (int64_t)1 << (s->bits - 1);
    bool few = 8 * fmax(o->high - o->low, 1) < (double)(s->qmax - s->qmin);
    return !few && (s->policy & QG_POWER_OF_2 || !qg_grid_is_common_step(o->step)) &&
           (s->policy & QG_SYMMETRIC || !o->zero_known || zero_by(s, o) != middle);
}

/* Zero point of a scheme without a known one: the real range stays where the backend
 * has it, as far as the observed elements fit. */
static int64_t guess_zero(const qg_scheme *s, qg_qparam p, const qg_seen *o)
{
    double low = (double)p.scale[0] * (double)(s->qmin - (p.offset ? p.offset[0] : 0));
    double zero = nearbyint((double)s->qmin - low / o->step);
    zero = fmin(fmax(zero, (double)s->qmin - o->low), (double)s->qmax - o->high);
    return (int64_t)fmin(fmax(zero, (double)s->qmin), (double)s->qmax);
}

/* A grid as a rule gives it. */
typedef struct grid {
    double scale;
    int64_t zero, low, high; /* codes */
    bool own_range;          /* other codes than the scheme's */
    bool own_policy;         /* other symmetry */
} grid;

/* The observed grid, in codes of the scheme where it has the zero point. */
static grid grid_of(const qg_tqc *root, const qg_seen *o)
{
    const qg_scheme *s = &root->scheme;
    qg_qparam p = qg_tqc_param(root);
    grid g = { .scale = o->step, .low = s->qmin, .high = s->qmax };
    g.zero = o->zero_known ? zero_by(s, o) : guess_zero(s, p, o);
    if (s->policy & QG_FLOATING)
        g.scale = nearest_float(s, (double)p.scale[0], o);
    else if (other_sign(s, o) ||
             (s->policy & QG_SYMMETRIC && o->zero_known && g.zero != 0)) {
        int64_t half = (int64_t)1 << (s->bits - 1); /* all codes, as in the trace */
        int64_t low = o->sign > 0 || (o->sign == 0 && s->qmin >= 0) ? 0 : -half;
        g = (grid){ g.scale, o->zero, low, low + 2 * half - 1, true, true };
    } else if (s->policy & QG_SYMMETRIC && !o->zero_known && o->low >= 0 &&
               o->high > (double)s->qmax && o->high <= (double)(s->qmax - s->qmin))
        g = (grid){ g.scale, 0, 0, s->qmax - s->qmin, true, false };
    return g;
}

bool qg_grid_can_hold(const qg_tqc *root, const qg_seen *o)
{
    if (qg_tqc_param(root).n != 1)
        return false;
    grid g = grid_of(root, o);
    qg_param_limit step = qg_observer_param_limit(QG_PARAM_STEP);
    qg_param_limit zero = qg_observer_param_limit(QG_PARAM_ZERO);
    return g.scale >= step.least && g.scale <= step.most && g.zero >= g.low &&
           g.zero <= g.high && (double)(g.zero - g.low + 1) <= zero.most;
}

const char *qg_grid_setting(qg_arena *a, const qg_tqc *root, const qg_seen *o)
{
    grid g = grid_of(root, o);
    char step[QG_NUM_TEXT];
    const char *more = "";
    if (g.own_range)
        more = qg_arena_printf(a, ", range: [%lld, %lld]%s%s%s", (long long)g.low,
                               (long long)g.high,
                               g.own_policy ? ", policy: [per-tensor, linear, " : "",
                               !g.own_policy ? ""
                               : g.zero      ? "asymmetric"
                                             : "symmetric",
                               g.own_policy ? "]" : "");
    qg_num_f32(step, (float)g.scale);
    return more ? qg_arena_printf(a, "{observer: fixed, step: %s, zero: %lld%s}", step,
                                  (long long)(g.zero - g.low + 1), more)
                : NULL;
}

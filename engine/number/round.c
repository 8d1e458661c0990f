#include "engine/number/round.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* The fraction of |x|, and whether its integer part is odd. */
enum { BELOW, TIE_EVEN, TIE_ODD, ABOVE };

#define B(c) (1u << (c))
#define TIE  (B(TIE_EVEN) | B(TIE_ODD))
#define ALL  (B(BELOW) | TIE | B(ABOVE))

/* For positive and negative x, the remainders that make the result
 * step away from zero.  Everything below asks this table. */
static const struct {
    uint8_t away[2]; /* [x < 0] */
} rule[QG_NROUNDING] = {
    [QG_ROUND_HALF_EVEN] = { { B(TIE_ODD) | B(ABOVE), B(TIE_ODD) | B(ABOVE) } },
    [QG_ROUND_HALF_UP] = { { TIE | B(ABOVE), B(ABOVE) } },
    [QG_ROUND_HALF_DOWN] = { { B(ABOVE), TIE | B(ABOVE) } },
    [QG_ROUND_HALF_TOWARD_ZERO] = { { B(ABOVE), B(ABOVE) } },
    [QG_ROUND_HALF_AWAY] = { { TIE | B(ABOVE), TIE | B(ABOVE) } },
    [QG_ROUND_NEAR_INT] = { { TIE | B(ABOVE), TIE | B(ABOVE) } },
    [QG_ROUND_UP] = { { ALL, 0 } },
    [QG_ROUND_DOWN] = { { 0, ALL } },
    [QG_ROUND_HALF_EVEN_LEVEL] = { { B(TIE_ODD) | B(ABOVE), B(TIE_ODD) | B(ABOVE) } },
};

static const char *const text[QG_NROUNDING] = {
#define X(id, name, meaning) [QG_ROUND_##id] = name,
    QG_ROUNDING_MAP(X)
#undef X
};

const char *qg_rounding_name(qg_rounding r)
{
    assert(r < QG_NROUNDING);
    return text[r];
}

int qg_rounding_named(const char *name)
{
    for (int r = 0; r < QG_NROUNDING; r++)
        if (strcmp(text[r], name) == 0)
            return r;
    return -1;
}

static const struct {
    const char *text;
    float value;
} nan_rule[QG_NNAN] = {
#define X(id, name, number) [QG_NAN_##id] = { name, number },
    QG_NAN_MAP(X)
#undef X
};

const char *qg_nan_name(qg_nan n)
{
    assert(n < QG_NNAN);
    return nan_rule[n].text;
}

int qg_nan_named(const char *name)
{
    for (int r = 0; r < QG_NNAN; r++)
        if (strcmp(nan_rule[r].text, name) == 0)
            return r;
    return -1;
}

qg_nan qg_nan_at(qg_nan n, int64_t zero)
{
    if (n != QG_NAN_WRAP)
        return n;
    return zero < 0 ? QG_NAN_HIGHEST : QG_NAN_LOWEST;
}

float qg_nan_value(qg_nan n)
{
    assert(n < QG_NNAN);
    return nan_rule[n].value;
}

/* Whether |x| is rounded up to the next integer: by the table above. */
static bool away(qg_rounding r, bool negative, int rest)
{
    assert(r < QG_NROUNDING);
    return rule[r].away[negative] >> rest & 1u;
}

/* x - trunc(x) is exact: both have the sign of x and the second is the nearer to 0. */
double qg_round_f64(qg_rounding r, double x)
{
    double whole = trunc(x), part = fabs(x - whole);
    if (!(part > 0)) /* integers, infinities (their part is NaN), NaN */
        return whole;
    int rest = part < 0.5                  ? BELOW
               : part > 0.5                ? ABOVE
               : ((int64_t)whole & 1) != 0 ? TIE_ODD
                                           : TIE_EVEN;
    return away(r, x < 0, rest) ? whole + copysign(1.0, x) : whole;
}

/* A float is a double, and an integer next to a float is a float: nothing is lost. */
float qg_round_f32(qg_rounding r, float x) { return (float)qg_round_f64(r, x); }

/* whole + part / unit, part < unit, both magnitudes of a number of this sign. */
static int64_t rounded(qg_rounding r, bool negative, uint64_t whole, uint64_t part,
                       uint64_t unit)
{
    if (part != 0) {
        int rest = part < unit - part   ? BELOW
                   : part > unit - part ? ABOVE
                   : (whole & 1) != 0   ? TIE_ODD
                                        : TIE_EVEN;
        whole += away(r, negative, rest);
    }
    return negative ? (int64_t)(0 - whole) : (int64_t)whole;
}

/* The magnitude: INT64_MIN has one too. */
static uint64_t size_of(int64_t v) { return v < 0 ? 0 - (uint64_t)v : (uint64_t)v; }

int64_t qg_round_shift(qg_rounding r, int64_t v, unsigned shift)
{
    assert(shift <= 62);
    uint64_t size = size_of(v), unit = UINT64_C(1) << shift;
    return rounded(r, v < 0, size >> shift, size & (unit - 1), unit);
}

int64_t qg_round_quotient(qg_rounding r, int64_t v, int64_t n)
{
    assert(n >= 1);
    uint64_t size = size_of(v), unit = (uint64_t)n;
    return rounded(r, v < 0, size / unit, size % unit, unit);
}

/* integer_exp.c -- gemmlowp's exponential and reciprocal, rounding for rounding.
 *
 * Every constant and the order of every operation is part of the result: this is
 * meant to give the runtime's bits, not the best approximation. */
#include "engine/number/integer_exp.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "engine/number/requant.h"
#include "engine/number/round.h"

/* exp(x) for x in [-1/4, 0), Q(0): a polynomial of fourth degree around -1/8. */
static int32_t exp_quarter(int32_t x)
{
    const int32_t exp_eighth = 1895147668, third = 715827883;
    x += 1 << 28;
    int32_t x2 = qg_high_mul(x, x);
    int32_t x3 = qg_high_mul(x2, x), x4 = qg_high_mul(x2, x2);
    int32_t p = qg_high_mul(qg_shift_away(x4, 2) + x3, third) + x2;
    return exp_eighth + qg_high_mul(exp_eighth, x + qg_shift_away(p, 1));
}

/* exp(a) = exp(remainder in [-1/4, 0)) times exp(-2^k) for each bit k set in the
 * rest. */
int32_t qg_exp_negative(int32_t a, int integer_bits)
{
    static const struct {
        int exponent;
        int32_t factor; /* exp(-2^exponent) in Q(0) */
    } parts[] = {
        {-2,  1672461947},
        { -1, 1302514674},
        { 0,  790015084 },
        { 1,  290630308 },
        { 2,  39332535  },
        { 3,  720401    },
        { 4,  242       }
    };
    assert(a <= 0 && integer_bits >= 2 && integer_bits <= 8);
    if (a == 0)
        return INT32_MAX;
    int fraction_bits = 31 - integer_bits;
    int32_t quarter = 1 << (fraction_bits - 2);
    int32_t rest = (a & (quarter - 1)) - quarter;
    int32_t y = exp_quarter(qg_shift_left_sat(rest, integer_bits));
    int64_t whole = (int64_t)rest - a; /* a multiple of a quarter */
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (integer_bits > parts[i].exponent &&
            (whole >> (fraction_bits + parts[i].exponent) & 1))
            y = qg_high_mul(y, parts[i].factor);
    if (integer_bits > 5 && a < -(1 << (36 - integer_bits)))
        return 0;
    return y;
}

/* About 2 / (1 + a) in Q(2): three Newton steps. */
static int32_t two_over_one_plus(int32_t a)
{
    assert(a >= 0);
    int32_t half = (int32_t)qg_round_shift(QG_ROUND_HALF_UP, (int64_t)a + INT32_MAX, 1);
    int32_t x = 1515870810 + qg_high_mul(half, -1010580540);
    for (int i = 0; i < 3; i++) {
        int32_t error = (1 << 29) - qg_high_mul(half, x);
        x += qg_shift_left_sat(qg_high_mul(x, error), 2);
    }
    return x;
}

/* 1 / (1 + a) is half of 2 / (1 + a), and Q(2) to Q(0) is two bits: one shift is
 * left. */
int32_t qg_one_over_one_plus(int32_t a)
{
    assert(a >= 0);
    return qg_shift_left_sat(two_over_one_plus(a), 1);
}

/* (1 - a) / (1 + a) = 2 / (1 + a) - 1; in Q(2) one is 2^29. */
int32_t qg_one_minus_over_one_plus(int32_t a)
{
    return qg_shift_left_sat(two_over_one_plus(a) - (1 << 29), 2);
}

/* By symmetry: the exponential takes only arguments below zero. */
int32_t qg_logistic_fixed(int32_t a, int integer_bits)
{
    if (a == 0)
        return 1 << 30;
    int32_t negative = a > 0 ? -a : a;
    int32_t p = qg_one_over_one_plus(qg_exp_negative(negative, integer_bits));
    return a > 0 ? p : INT32_MAX - p;
}

/* tanh(a) = (1 - e) / (1 + e) with e = exp(-2a). */
int32_t qg_tanh_fixed(int32_t a, int integer_bits)
{
    if (a == 0)
        return 0;
    int32_t negative = a > 0 ? -a : a; /* one integer bit more: 2 a */
    int32_t t = qg_one_minus_over_one_plus(qg_exp_negative(negative, integer_bits + 1));
    return a < 0 ? -t : t;
}

/* TFLite's kScaledDiffIntegerBits and kAccumulationIntegerBits. */
enum { INTEGER_BITS = 5, SUM_BITS = 12 };

/* Differences below diff_min have an exponential of 0 in Q(0) and are left out of
 * the sum, as in TFLite's CalculateInputRadius.  31 = 2^INTEGER_BITS - 1. */
qg_status qg_int_softmax_prepare(qg_ctx *ctx, qg_requant_scheme scheme, float scale,
                                 float beta, int bits, qg_int_softmax *out)
{
    assert(bits == 8 || bits == 16);
    bool single = scheme == QG_SCHEME_FIX_SINGLE;
    if (!single && scheme != QG_SCHEME_FIX_DOUBLE)
        return qg_fail(
            ctx, QG_EUNSUPPORTED,
            "integer softmax: scheme '%s', expected fix-double or fix-single",
            qg_requant_scheme_name(scheme));
    double real = (double)beta * (double)scale * 0x1p26;
    if (!isfinite(real) || !(real > 1))
        return qg_fail(ctx, QG_ENUMERIC,
                       "integer softmax: beta %g, scale %g, expected a finite product "
                       "above 2^-26",
                       (double)beta, (double)scale);
    real = fmin(real, single ? 0x1p30 - 1 : 0x1p31 - 1);
    qg_int_softmax s = { .m = qg_q31_of(real), .bits = bits, .single = single };
    s.diff_min = -(int32_t)floor(31 * 0x1p26 / ldexp(1, s.m.shift));
    *out = s;
    return QG_OK;
}

/* exp(difference) in Q(0); 0 below diff_min. */
static int32_t exp_of(const qg_int_softmax *s, int32_t difference)
{
    if (s->exp)
        return s->exp[-difference];
    if (difference < s->diff_min)
        return 0;
    int32_t scaled = s->single ? qg_scale_single(difference, s->m)
                               : qg_scale_double(difference, s->m);
    return qg_exp_negative(scaled, INTEGER_BITS);
}

void qg_int_softmax_keep(qg_int_softmax *s, int32_t exp[256])
{
    s->exp = NULL;
    for (int32_t i = 0; i < 256; i++)
        exp[i] = exp_of(s, -i);
    s->exp = exp;
}

static int32_t largest_of(const int32_t *x, size_t n)
{
    int32_t largest = x[0];
    assert(n >= 1);
    for (size_t i = 1; i < n; i++)
        largest = x[i] > largest ? x[i] : largest;
    return largest;
}

/* Exponentials in y, and their sum in Q(12). */
static uint64_t exps_of(const qg_int_softmax *s, const int32_t *x, int32_t *y, size_t n)
{
    const int32_t largest = largest_of(x, n);
    uint64_t sum = 0;
    if (s->exp)
        for (size_t i = 0; i < n; i++)
            y[i] = s->exp[largest - x[i]];
    else
        for (size_t i = 0; i < n; i++)
            y[i] = exp_of(s, x[i] - largest);
    for (size_t at = 0, piece; at < n; at += piece) {
        uint32_t part = 0; /* at most 4096 times 2^19 */
        piece = n - at < 4096 ? n - at : 4096;
        for (size_t i = 0; i < piece; i++)
            part += ((uint32_t)y[at + i] + (1 << (SUM_BITS - 1))) >> SUM_BITS;
        sum += part;
    }
    return sum;
}

/* From exponentials to codes above the lowest, in place.  scale, y and their product
 * shifted by 31 are below 2^31, and so is half of 2^shift for shift < 32. */
static void scaled(uint32_t scale, unsigned shift, int32_t most, int32_t *y, size_t n)
{
    const uint32_t half = UINT32_C(1) << (shift - 1);
    for (size_t i = 0; i < n; i++) {
        uint64_t product = (uint64_t)scale * (uint32_t)y[i];
        uint32_t v = (uint32_t)((product + (UINT64_C(1) << 30)) >> 31);
        int32_t q = (int32_t)((v + half) >> shift);
        y[i] = q < most ? q : most;
    }
}

/* Exponentials and the reciprocal are not negative: halves upward are halves away from
 * zero in every shift. */
qg_status qg_int_softmax_row(qg_ctx *ctx, const qg_int_softmax *s, const int32_t *x,
                             int32_t *y, size_t n)
{
    uint64_t sum = exps_of(s, x, y, n);
    if (sum > INT32_MAX)
        return qg_fail(
            ctx, QG_EUNSUPPORTED,
            "integer softmax: a row of %zu overflows the sum, expected fewer "
            "than 4096 large elements",
            n);
    int zeros = 31 - qg_log2_floor_u32((uint32_t)sum);
    uint32_t scale = (uint32_t)qg_one_over_one_plus(
        (int32_t)((int64_t)(sum << zeros) - (INT64_C(1) << 31)));
    unsigned shift = (unsigned)(SUM_BITS - zeros + 31 - s->bits);
    int32_t low = -(1 << (s->bits - 1));
    if (shift < 32)
        scaled(scale, shift, -low - low - 1, y, n);
    else /* below half of a code */
        memset(y, 0, n * sizeof *y);
    for (size_t i = 0; i < n; i++)
        y[i] += low;
    return QG_OK;
}

qg_status qg_int_softmax_table_make(qg_ctx *ctx, qg_grid x, qg_grid y, size_t n,
                                    qg_int_softmax_table *out)
{
    assert(n >= 1);
    QG_TRY(qg_grid_check(ctx, "integer softmax", "input", x));
    QG_TRY(qg_grid_check(ctx, "integer softmax", "output", y));
    double scale = (double)x.scale;
    double shift = fmax(0, (double)logf(FLT_MAX / (float)n) - 5) / scale;
    for (int i = 0; i < 256; i++)
        out->e[i] = (float)exp((i - 255 + shift) * scale);
    out->top = floorf(1.0f / y.scale);
    out->zero = y.zero;
    out->hi = qg_code_range_of(y.dtype, y.zero).hi;
    return QG_OK;
}

bool qg_int_softmax_table_is_exact(float scale, float least, int64_t n)
{
    float whole = floorf(1 / scale);
    assert(scale > 0 && least > 0);
    return n != 1 && whole <= floorf(1 / least) &&
           fabs((double)whole * (double)scale - 1) <= 0x1p-23;
}

/* rint(v) + zero, not above the highest code, for v >= 0; most = hi - zero <= 2^16, for
 * which the two sums round half to even.  A product that overflowed becomes -2^31 as
 * in cvtss2si, and the sum is modulo 2^32. */
static inline int32_t table_code(const qg_int_softmax_table *t, float v, float most)
{
    float rounded = ((v < most ? v : most) + 0x1.8p23f) - 0x1.8p23f;
    int32_t q = v < 0x1p31f ? (int32_t)rounded : INT32_MIN;
    q = (int32_t)((uint32_t)q + (uint32_t)t->zero);
    return q < t->hi ? q : t->hi;
}

void qg_int_softmax_table_row(const qg_int_softmax_table *t, const int32_t *x,
                              int32_t *y, size_t n)
{
    enum { PIECE = 64 }; /* so that all but the look-up is vector code */
    int32_t largest = largest_of(x, n);
    float sum = 0, most = (float)(t->hi - t->zero), e[PIECE];
    for (size_t i = 0; i < n; i++)
        sum += t->e[255 + x[i] - largest];
    for (size_t at = 0, piece; at < n; at += piece) {
        piece = n - at < PIECE ? n - at : PIECE;
        for (size_t i = 0; i < piece; i++)
            e[i] = t->e[255 + x[at + i] - largest];
        for (size_t i = 0; i < piece; i++)
            y[at + i] = table_code(t, e[i] * t->top / sum, most);
    }
}

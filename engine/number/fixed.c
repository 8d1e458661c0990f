/* fixed.c -- the arithmetic of fixed.h; every rounding goes through number/round.h.
 *
 * Products are formed in int64_t, where two int32_t always fit, so nothing overflows
 * before the shift.  The sources get the same results with 32-bit instructions and
 * nudges; here the exact product is rounded once and the tie is named. */
#include "engine/number/fixed.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/number/round.h"

int64_t qg_clamp_i64(int64_t v, int64_t lo, int64_t hi)
{
    assert(lo <= hi);
    return v < lo ? lo : v > hi ? hi : v;
}

/* frexp gives real = fraction * 2^shift with 1/2 <= fraction < 1.  Rounding may
 * carry to 2^31, which becomes 2^30 and one more shift. */
qg_multiplier qg_q31_of(double real)
{
    assert(real >= 0 && isfinite(real));
    int shift = 0;
    double fraction = frexp(real, &shift);
    int64_t m = (int64_t)qg_round_f64(QG_ROUND_HALF_AWAY, fraction * 0x1p31);
    if (m == INT64_C(1) << 31) {
        m = INT64_C(1) << 30;
        shift++;
    }
    if (real == 0 || shift < QG_MIN_LEFT_SHIFT)
        return (qg_multiplier){ 0, 0 };
    return (qg_multiplier){ (int32_t)m, shift };
}

/* Builds with TFLITE_SINGLE_ROUNDING limit the shift to 30, so that 31 - shift stays
 * a right shift. */
qg_multiplier qg_q31_of_single(double real)
{
    qg_multiplier r = qg_q31_of(real);
    return r.shift > 30 ? (qg_multiplier){ INT32_MAX, 30 } : r;
}

/* 0x7fff0000 is where adding half a step would carry into the sign bit. */
qg_multiplier qg_q15_of(qg_multiplier q31)
{
    assert(q31.m >= 0);
    int32_t m = q31.m < 0x7fff0000 ? (q31.m + 0x8000) >> 16 : 0x7fff;
    return (qg_multiplier){ m, q31.shift };
}

static uint32_t float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The exponent field of a normal float32 is the floor of its logarithm plus 127. */
int qg_log2_floor(float x)
{
    assert(isnormal(x) && x > 0);
    return (int)(float_bits(x) >> 23) - 127;
}

int qg_log2_floor_u32(uint32_t x)
{
    assert(x > 0);
    int n = 0;
    while (x >>= 1)
        n++;
    return n;
}

/* real = 1.mantissa * 2^e = (2^23 + mantissa) * 2^(e - 23). */
qg_multiplier qg_m24_of(float real)
{
    int32_t mantissa = (int32_t)(float_bits(real) & 0x7fffffu) | 0x800000;
    return (qg_multiplier){ mantissa, 23 - qg_log2_floor(real) };
}

/* -2^31 squared is the one product whose high half does not fit. */
int32_t qg_high_mul(int32_t a, int32_t b)
{
    if (a == INT32_MIN && b == INT32_MIN)
        return INT32_MAX;
    return (int32_t)qg_round_shift(QG_ROUND_HALF_UP, (int64_t)a * b, 31);
}

int16_t qg_high_mul16(int16_t a, int16_t b)
{
    int64_t product = qg_round_shift(QG_ROUND_HALF_UP, (int64_t)a * b, 15);
    return (int16_t)(product > INT16_MAX ? INT16_MAX : product);
}

int32_t qg_shift_away(int32_t x, int e)
{
    assert(e >= 0 && e <= 31);
    return (int32_t)qg_round_shift(QG_ROUND_HALF_AWAY, x, (unsigned)e);
}

int32_t qg_shift_left_sat(int32_t x, int e)
{
    assert(e >= 0 && e <= 31);
    return (int32_t)qg_clamp_i64((int64_t)x * (INT64_C(1) << e), INT32_MIN, INT32_MAX);
}

/* Through unsigned: a shift that loses bits is defined there and undefined for
 * int32_t. */
int32_t qg_shift_left(int32_t x, int e)
{
    assert(e >= 0 && e <= 31);
    return (int32_t)((uint32_t)x << e);
}

/* The high multiply that both double roundings begin with; *right is the remaining
 * shift. */
static int32_t multiply_first(int32_t x, qg_multiplier r, unsigned *right)
{
    assert(r.shift >= QG_MIN_LEFT_SHIFT && r.shift <= QG_MAX_LEFT_SHIFT && r.m >= 0);
    *right = r.shift < 0 ? (unsigned)-r.shift : 0;
    return qg_high_mul(qg_shift_left(x, r.shift > 0 ? r.shift : 0), r.m);
}

int32_t qg_scale_double(int32_t x, qg_multiplier r)
{
    unsigned right;
    int32_t h = multiply_first(x, r, &right);
    return (int32_t)qg_round_shift(QG_ROUND_HALF_AWAY, h, right);
}

int32_t qg_scale_double_up(int32_t x, qg_multiplier r)
{
    unsigned right;
    int32_t h = multiply_first(x, r, &right);
    return (int32_t)qg_round_shift(QG_ROUND_HALF_UP, h, right);
}

int32_t qg_scale_single(int32_t x, qg_multiplier r)
{
    assert(r.shift >= QG_MIN_LEFT_SHIFT && r.shift <= 30 && r.m >= 0);
    int64_t product = (int64_t)x * r.m;
    return (int32_t)qg_round_shift(QG_ROUND_HALF_UP, product, (unsigned)(31 - r.shift));
}

/* x| < 2^47 and a multiplier below 2^15 keep the product within 62 bits. */
int64_t qg_scale_reduced(int64_t x, qg_multiplier r)
{
    assert(x > -(INT64_C(1) << 47) && x < INT64_C(1) << 47);
    assert(r.shift >= QG_MIN_LEFT_SHIFT && r.shift <= 15);
    int64_t product = x * qg_q15_of(r).m;
    return qg_round_shift(QG_ROUND_HALF_UP, product, (unsigned)(15 - r.shift));
}

int64_t qg_scale_mantissa(int64_t x, qg_multiplier r)
{
    assert(x > -(INT64_C(1) << 38) && x < INT64_C(1) << 38 && r.shift >= 0);
    if (r.shift > 62)
        return 0; /* the factor is below 2^-39, so the exact result is below one half */
    return qg_round_shift(QG_ROUND_HALF_UP, x * r.m, (unsigned)r.shift);
}

float qg_round_add_half(float x) { return truncf(x + copysignf(0.5f, x)); }

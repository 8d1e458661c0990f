#include "engine/number/format.h"

#include <assert.h>
#include <math.h>

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* The exponent is rebased by a multiplication, which also normalizes subnormals. */
float qg_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;
    if (rest >= 0x0f800000) /* exponent 31: infinity and NaN */
        return float_of(sign | 0x7f800000 | (rest & 0x007fffff));
    return float_of(sign | bits_of(float_of(rest) * 0x1p112f));
}

/* The constants are float32 bit patterns of the borders between NaN, overflow,
 * normal and subnormal.  Adding 0xfff plus the lowest kept bit before cutting 13
 * bits rounds half to even; 0x38000000 is the difference of the exponent biases, 127
 * - 15, in place. */
uint16_t qg_f32_to_f16(float f)
{
    uint32_t bits = bits_of(f), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (rest >= 0x477ff000) /* 65520, half way beyond the largest value */
        return (uint16_t)(sign | 0x7c00);
    if (rest < 0x38800000) /* below 2^-14: the sum rounds to a multiple of 2^-24 */
        return (uint16_t)(sign | (bits_of(float_of(rest) + 0.5f) - bits_of(0.5f)));
    rest += 0xfff + (rest >> 13 & 1);
    return (uint16_t)(sign | (rest - 0x38000000) >> 13);
}

/* A small format with sign: 2^(code - bias) times 1.mantissa. */
typedef struct small_format {
    int bias, mantissa;
    unsigned sign, largest; /* sign bit; code of the largest finite value */
    int nan, infinity;      /* codes without sign; -1: has none */
    bool unsigned_zero;     /* FNUZ: the code of -0 is the only NaN */
} small_format;

/* bias, mantissa bits, sign bit, largest finite code, NaN, infinity, FNUZ. */
static const small_format *format_of(qg_dtype d)
{
    static const small_format e4m3fn = { 7, 3, 0x80, 0x7e, 0x7f, -1, false };
    static const small_format e4m3fnuz = { 8, 3, 0x80, 0x7f, 0x80, -1, true };
    static const small_format e5m2 = { 15, 2, 0x80, 0x7b, 0x7e, 0x7c, false };
    static const small_format e5m2fnuz = { 16, 2, 0x80, 0x7f, 0x80, -1, true };
    static const small_format e2m1 = { 1, 1, 0x08, 0x07, -1, -1, false };
    switch (d) {
    case QG_F8E4M3FN:
        return &e4m3fn;
    case QG_F8E4M3FNUZ:
        return &e4m3fnuz;
    case QG_F8E5M2:
        return &e5m2;
    case QG_F8E5M2FNUZ:
        return &e5m2fnuz;
    default:
        assert(d == QG_F4E2M1);
        return &e2m1;
    }
}

/* The magnitude of a code without sign. */
static float magnitude(const small_format *s, unsigned code)
{
    unsigned one = 1u << s->mantissa, low = code & (one - 1), exponent = code / one;
    int shift = (int)(exponent ? exponent : 1) - s->bias - s->mantissa;
    return ldexpf((float)(exponent ? low + one : low), shift);
}

/* NaN is one code under FNUZ, and in E5M2 and E4M3FN the codes above the largest
 * finite one, but for infinity. */
float qg_small_to_f32(qg_dtype d, uint8_t v)
{
    assert((unsigned)d < QG_NDTYPE);
    if (d == QG_F8E8M0)
        return v == 0xff ? NAN : ldexpf(1, v - 127);
    const small_format *s = format_of(d);
    unsigned code = v & (s->sign - 1);
    if (s->unsigned_zero
            ? v == s->sign
            : s->nan >= 0 && (int)code > (int)s->largest && (int)code != s->infinity)
        return NAN;
    float f = (int)code == s->infinity ? INFINITY : magnitude(s, code);
    return v & s->sign ? -f : f;
}

/* 2^k rounded up; see the header for values without such a power. */
static uint8_t e8m0_of(float f, bool saturate)
{
    int exponent;
    if (isnan(f) || f < 0)
        return 0xff;
    if (isinf(f))
        return saturate ? 0xfe : 0xff;
    if (f == 0)
        return saturate ? 0 : 0xff;
    exponent = frexpf(f, &exponent) == 0.5f ? ilogbf(f) : ilogbf(f) + 1;
    if (exponent > 127)
        return saturate ? 0xfe : 0xff;
    if (exponent < -127)
        return saturate ? 0 : 0xff;
    return (uint8_t)(exponent + 127);
}

/* Code of a finite magnitude, rounded half to even; may exceed the largest. */
static unsigned rounded(const small_format *s, float f)
{
    int lowest = 1 - s->bias, exponent = f > 0 ? ilogbf(f) : lowest;
    if (exponent < lowest)
        exponent = lowest;
    /* nearbyint rounds half to even: the library never changes the rounding mode. */
    unsigned steps = (unsigned)nearbyintf(ldexpf(f, s->mantissa - exponent));
    return ((unsigned)(exponent - lowest) << s->mantissa) + steps;
}

uint8_t qg_small_of_f32(qg_dtype d, float f, bool saturate)
{
    assert((unsigned)d < QG_NDTYPE);
    if (d == QG_F8E8M0)
        return e8m0_of(f, saturate);
    const small_format *s = format_of(d);
    unsigned sign = signbit(f) ? s->sign : 0, code = s->largest + 1;
    if (isnan(f))
        return (uint8_t)(s->unsigned_zero ? s->sign
                         : s->nan >= 0    ? sign | (unsigned)s->nan
                                          : s->sign);
    if (fabsf(f) < 0x1p20f)
        code = rounded(s, fabsf(f));
    if (code <= s->largest)
        return (uint8_t)(code || !s->unsigned_zero ? sign | code : 0);
    if (saturate || s->nan < 0)
        return (uint8_t)(sign | s->largest);
    if (s->infinity >= 0)
        return (uint8_t)(sign | (unsigned)s->infinity);
    return (uint8_t)(s->unsigned_zero ? s->sign : sign | (unsigned)s->nan);
}

/* format.h -- float16, bfloat16, float8, float4 and the float8 exponent, one value at a
 * time, to float32 and back.
 *
 * To float32 every value is exact.  From float32 the result is rounded half to even,
 * also into the subnormal range.
 * Source: IEEE 754 binary16; OCP 8-bit floating point specification 1.0; Graphcore and
 * AMD, "8-bit numerical formats" (FNUZ); OCP microscaling formats 1.0 (E2M1, E8M0);
 * ONNX Cast-25 for values that do not fit.
 *
 *     format       bits s e m  bias  largest  infinity  NaN
 *     float16         1 5 10     15    65504  yes       yes
 *     bfloat16        1 8 7     127  3.4e38   yes       yes
 *     E4M3FN          1 4 3       7      448  no        yes
 *     E4M3FNUZ        1 4 3       8      240  no        80
 *     E5M2            1 5 2      15    57344  yes       yes
 *     E5M2FNUZ        1 5 2      16    57344  no        80
 *     E2M1            1 2 1       1        6  no        no
 *     E8M0            0 8 0     127    2^127  no        ff */
#ifndef QG_ENGINE_NUMBER_FORMAT_H
#define QG_ENGINE_NUMBER_FORMAT_H

#include <string.h>

#include "engine/number/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* bfloat16 is the upper half of a float32. */
static inline float qg_bf16_to_f32(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Overflow gives infinity; a NaN stays a NaN, made quiet. */
static inline uint16_t qg_f32_to_bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Field i of an array of 4- or 2-bit fields, packed as in dtype.h; the value's upper
 * bits are ignored by _set, which leaves the neighbours alone.
 * bits is 4 or 2; the caller bounds i. */
static inline unsigned qg_packed_get(const void *data, unsigned bits, size_t i)
{
    unsigned per = 8 / bits, shift = (unsigned)(i % per) * bits;
    return ((const uint8_t *)data)[i / per] >> shift & ((1u << bits) - 1);
}

static inline void qg_packed_set(void *data, unsigned bits, size_t i, unsigned value)
{
    unsigned per = 8 / bits, shift = (unsigned)(i % per) * bits;
    unsigned mask = ((1u << bits) - 1) << shift;
    uint8_t *at = (uint8_t *)data + i / per;
    *at = (uint8_t)((*at & ~mask) | (value << shift & mask));
}

/* Exact, NaN payloads included; the other way a NaN becomes
 * the quiet 0x7e00 with its sign. */
QG_API float qg_f16_to_f32(uint16_t h);
QG_API uint16_t qg_f32_to_f16(float f); /* overflow: infinity */

/* The formats of at most 8 bits: F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F4E2M1 (in
 * the low four bits) and F8E8M0; any other type is asserted against.
 *
 * From float32, a value that is too large (also infinity) gives the largest finite
 * value when `saturate` is set, else infinity where the format has one, else NaN.
 * F4E2M1 has neither: it always saturates and takes NaN to -0, as ONNX's tests do.
 * F8E8M0 holds powers of two only: it rounds up; zero, values that are too small and
 * negative values give 2^-127 when saturating, else NaN. */
QG_API float qg_small_to_f32(qg_dtype d, uint8_t v);
QG_API uint8_t qg_small_of_f32(qg_dtype d, float f, bool saturate);

#ifdef __cplusplus
}
#endif

#endif

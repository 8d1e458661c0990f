/* policy.h -- the kind of a grid: the policy bitmap, and the scheme built on it.
 *
 * Source   docs/evidence/ppq-behaviour.md#policies: 18 legal bitmaps; BLOCK is ours, a
 *          third granularity with the same rules, which adds nine.
 *
 * Legal     exactly one of PER_TENSOR, PER_CHANNEL, BLOCK; of LINEAR, FLOATING; of
 * SYMMETRIC, ASYMMETRIC; FLOATING only with SYMMETRIC and POWER_OF_2 and not DYNAMIC;
 * rounding half-even-level only with LINEAR and at most QG_LEVELS levels.  POWER_OF_2
 * and DYNAMIC are otherwise free. The usual 8 bits: weights {
 * PER_CHANNEL | LINEAR | SYMMETRIC, bits 8, axis 0, [-127, 127] }, activations {
 * PER_TENSOR | LINEAR | ASYMMETRIC, bits 8, axis -1, [0, 255] }.
 *
 * Typical schemes:
 *
 *     8-bit weights       per-channel linear symmetric        8 [-127, 127] axis 0
 *     8-bit activations   per-tensor linear asymmetric        8 [0, 255]
 *     power-of-2 device   per-tensor linear symmetric pow2    8 [-128, 127]
 *     4-bit groups        block linear asymmetric             4 [0, 15], block 32
 *     E4M3                per-tensor floating symmetric pow2  8, 4 exponent bits */
#ifndef QG_ENGINE_QUANT_POLICY_H
#define QG_ENGINE_QUANT_POLICY_H

#include <stdbool.h>

#include "engine/core/status.h"
#include "engine/number/round.h"

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
#define QG_POLICY_MAP(X)                                                       \
    X(PER_TENSOR,  0x001, "per-tensor",  "one scale and offset")               \
    X(PER_CHANNEL, 0x002, "per-channel", "one scale and offset per index of the axis") \
    X(LINEAR,      0x004, "linear",      "uniform integer grid")               \
    X(FLOATING,    0x008, "floating",    "low-bit floating point grid")        \
    X(SYMMETRIC,   0x010, "symmetric",   "offset is 0")                        \
    X(ASYMMETRIC,  0x020, "asymmetric",  "offset in use")                      \
    X(POWER_OF_2,  0x040, "power-of-2",  "scale is 2^k")                       \
    X(DYNAMIC,     0x080, "dynamic",     "scale from each tensor at run time") \
    X(BLOCK,       0x100, "block",       "one scale and offset per block of the axis")
/* clang-format on */

enum qg_policy_bit {
#define X(id, bit, text, meaning) QG_##id = bit,
    QG_POLICY_MAP(X)
#undef X
};

/* Variants, the first two of FLOATING, the last of LINEAR; 0 is the OCP reading of E
 * and M, rounded half-even as IEEE does. */
enum qg_float_variant {
    QG_FLOAT_FNUZ = 1,     /* exponent bias one higher, one zero: E4M3FNUZ, E5M2FNUZ */
    QG_FLOAT_PPQ_TIES = 2, /* quirk: PPQ rounds the unsigned rest of the mantissa alone,
                            * so half-even sends every tie toward zero (D38) */
    QG_RANGE_WIDE = 4,     /* quirk: the range may exceed the bits, as PPQ's +-2^29 of
                            * 30 bits do */
};

/* Bits of a scheme. */
enum { QG_LEAST_BITS = 2, QG_MOST_BITS = 32 };

/* Most levels under half-even-level: float32 represents all of them exactly, and no
 * integer kernel of OpenVINO has more. */
enum { QG_LEVELS = 65536 };

/* The properties that determine the grid apart from the parameters.  Two endpoints with
 * equal schemes round the same value the same way (PPQ's is_same_scheme). */
typedef struct qg_scheme {
    uint16_t policy;       /* sum of qg_policy_bit */
    uint8_t rounding;      /* qg_rounding */
    uint8_t bits;          /* QG_LEAST_BITS to QG_MOST_BITS */
    uint8_t exponent_bits; /* 1..8 under FLOATING, at most 23 of mantissa; else 0 */
    uint8_t variant;       /* sum of qg_float_variant */
    int16_t axis;          /* >= 0 under PER_CHANNEL and BLOCK, else -1 */
    int32_t block;         /* elements per block along axis; 0 unless BLOCK */
    uint8_t nan;           /* qg_nan: what becomes of a NaN */
    int64_t qmin, qmax;    /* steps, inclusive; FLOATING: limits of x / scale, where
                         * +-INT64_MAX means those of the format */
} qg_scheme;

/* QG_ECONFIG with the broken rule and its field: "range [-128, 128] does not fit 8
 * bits, expected within [-128, 127]".  `what` begins the message. */
QG_NODISCARD QG_API qg_status qg_scheme_check(qg_ctx *ctx, const char *what,
                                              const qg_scheme *s);
/* Field by field; parameters are not part of it. */
QG_API bool qg_scheme_same(const qg_scheme *a, const qg_scheme *b);
/* The rules of the file comment; unknown bits are illegal. */
QG_API bool qg_policy_legal(uint32_t policy);

QG_API const char *qg_float_variant_name(uint32_t bit);   /* "fnuz" */
QG_API uint32_t qg_float_variant_named(const char *text); /* 0 when unknown */
QG_API const char *qg_policy_bit_name(uint32_t bit);      /* "per-tensor" */
QG_API uint32_t qg_policy_bit_named(const char *text);    /* 0 when unknown */
/* Advice in place of a property that other tools declare and none implements: for
 * "exponential", which PPQ's bit 0x08 was called before it became FLOATING, "floating,
 * or linear with power-of-2: nothing is computed under exponential".
 * NULL: there is none. */
QG_API const char *qg_policy_instead(const char *text);

/* "per-tensor linear symmetric": bits in table order.
 * Returns `text`. */
enum { QG_POLICY_TEXT = 96 };
QG_API const char *qg_policy_text(uint32_t policy, char text[QG_POLICY_TEXT]);

#ifdef __cplusplus
}
#endif

#endif

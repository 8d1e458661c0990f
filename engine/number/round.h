/* round.h -- rounding to integers: the only implementation in the project.
 *
 * Source   docs/evidence/grids.md#rounding; values 0..6 are PPQ's enum, DOWN our
 *          eighth.
 *          HALF_EVEN_LEVEL is HALF_EVEN for a number; a grid (quant/fake.h) applies it
 *          to levels counted from its low end, as OpenVINO does.
 *          Ties are decided on the exact value: x + 0.5 is never formed in float32, so
 *          0.49999997 rounds to 0 and 8388609 to itself in every half mode.
 *
 * Every tie in the project is broken by a named mode from this table; no code rounds
 * by adding 0.5 or by a cast.
 *
 *                          2.5  -2.5   3.5   2.1  -2.9
 *     half-even             2    -2     4     2    -3
 *     half-up               3    -2     4     2    -3
 *     half-down             2    -3     3     2    -3
 *     half-toward-zero      2    -2     3     2    -3
 *     half-away-from-zero   3    -3     4     2    -3     (near-int alike)
 *     up                    3    -2     4     3    -2
 *     down                  2    -3     3     2    -3 */
#ifndef QG_ENGINE_NUMBER_ROUND_H
#define QG_ENGINE_NUMBER_ROUND_H

#include <stdint.h>

#include "engine/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
#define QG_ROUNDING_MAP(X)                                                     \
    /* id               text                   on a tie, or always        */   \
    X(HALF_EVEN,        "half-even",           "to the even neighbour")        \
    X(HALF_UP,          "half-up",             "toward +infinity")             \
    X(HALF_DOWN,        "half-down",           "toward -infinity")             \
    X(HALF_TOWARD_ZERO, "half-toward-zero",    "toward zero")                  \
    X(HALF_AWAY,        "half-away-from-zero", "away from zero")               \
    X(NEAR_INT,         "near-int",            "away from zero (C round, in PPQ)") \
    X(UP,               "up",                  "always ceil")                  \
    X(DOWN,             "down",                "always floor")                 \
    X(HALF_EVEN_LEVEL,  "half-even-level",     "to the even level (OpenVINO)")
/* clang-format on */

/* Values are written into snapshots by name, never by number. */
typedef enum qg_rounding {
#define X(id, text, meaning) QG_ROUND_##id,
    QG_ROUNDING_MAP(X)
#undef X
        QG_NROUNDING
} qg_rounding;

/* The code that a quantizer makes of NaN.  The runtimes differ, because a comparison
 * with NaN is false and C leaves its conversion to an integer open. */
/* clang-format off */
#define QG_NAN_MAP(X)                                                          \
    /* id       text       a NaN is rounded as if it were */                   \
    X(KEEP,    "keep",    NAN)                                                 \
    X(LOWEST,  "lowest",  -INFINITY)                                           \
    X(ZERO,    "zero",    0)                                                   \
    X(HIGHEST, "highest", INFINITY)                                            \
    X(WRAP,    "wrap",    -INFINITY) /* see qg_nan_at */
/* clang-format on */

/* KEEP: the value stays NaN, so that a fault of the network stays visible. */
typedef enum qg_nan {
#define X(id, text, value) QG_NAN_##id,
    QG_NAN_MAP(X)
#undef X
        QG_NNAN
} qg_nan;

QG_API const char *qg_nan_name(qg_nan n);  /* "lowest" */
QG_API int qg_nan_named(const char *text); /* the rule, or -1 */
QG_API float qg_nan_value(qg_nan n);       /* the number that takes its place */
/* The rule for codes with this zero point.  WRAP: a NaN becomes the least int32, which
 * wraps when a zero point below 0 is added: highest, else lowest. */
QG_API qg_nan qg_nan_at(qg_nan n, int64_t zero);

QG_API const char *qg_rounding_name(qg_rounding r); /* "half-even" */
QG_API int qg_rounding_named(const char *text);     /* the mode, or -1 */

/* NaN, infinities and -0 pass through.
 * The result is exact: every float of magnitude 2^23 and more is an integer already. */
QG_API float qg_round_f32(qg_rounding r, float x);
QG_API double qg_round_f64(qg_rounding r, double x);

/* Rounds v / 2^shift, 0 <= shift <= 62, exactly.
 * UP and DOWN are ceil and floor of the exact quotient. */
QG_API int64_t qg_round_shift(qg_rounding r, int64_t v, unsigned shift);

/* Rounds v / n, n >= 1, exactly. */
QG_API int64_t qg_round_quotient(qg_rounding r, int64_t v, int64_t n);

#ifdef __cplusplus
}
#endif

#endif

/* random_requant.h -- numbers, scales and requantizations for tests that compare fast
 * loops with the definition. */
#ifndef QG_TESTS_SUPPORT_RANDOM_REQUANT_H
#define QG_TESTS_SUPPORT_RANDOM_REQUANT_H

#include <math.h>

#include "engine/core/rng.h"
#include "engine/number/requant.h"

static inline int64_t among(qg_rng *r, int64_t low, int64_t high)
{
    return low + (int64_t)(qg_rng_next(r) % (uint64_t)(high - low + 1));
}

static inline float scale(qg_rng *r)
{
    return ldexpf((float)among(r, 64, 127), -(int)among(r, 6, 14));
}

enum { N_TUPLES = 9 };

/* Number i of the roundings that runtimes have. */
static inline qg_requant_rule rule_of(size_t i)
{
    static const struct {
        qg_requant_scheme scheme;
        qg_factor factor;
        qg_zero_place zero;
    } tuples[N_TUPLES] = {
        {QG_SCHEME_FIX_DOUBLE,     QG_FACTOR_DOUBLE,        QG_ZERO_AFTER },
        { QG_SCHEME_FIX_DOUBLE_UP, QG_FACTOR_DOUBLE,        QG_ZERO_AFTER },
        { QG_SCHEME_FIX_SINGLE,    QG_FACTOR_DOUBLE,        QG_ZERO_AFTER },
        { QG_SCHEME_DOUBLE_AWAY,   QG_FACTOR_DOUBLE,        QG_ZERO_AFTER },
        { QG_SCHEME_FLOAT_RNE,     QG_FACTOR_F32,           QG_ZERO_AFTER },
        { QG_SCHEME_FLOAT_RNE,     QG_FACTOR_F32,           QG_ZERO_INSIDE},
        { QG_SCHEME_FLOAT_RNE,     QG_FACTOR_F32,           QG_ZERO_FUSED },
        { QG_SCHEME_FLOAT_AWAY,    QG_FACTOR_THEN_MULTIPLY, QG_ZERO_AFTER },
        { QG_SCHEME_FIX_MANTISSA,  QG_FACTOR_F32,           QG_ZERO_AFTER },
    };
    return (qg_requant_rule){ .scheme = (uint8_t)tuples[i].scheme,
                              .factor = (uint8_t)tuples[i].factor,
                              .zero = (uint8_t)tuples[i].zero,
                              .accumulator = 32 };
}

#endif

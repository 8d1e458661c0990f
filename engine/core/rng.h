/* rng.h -- the only randomness: SplitMix64, seeded by the caller.
 * Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
 * 2014.
 *
 * A state is a value: copy it to repeat a stream, add to the seed for another.
 * Passes take their seed from the pipeline and tests print theirs, so every run can
 * be repeated.  Not for secrets. */
#ifndef QG_ENGINE_CORE_RNG_H
#define QG_ENGINE_CORE_RNG_H

#include <stdint.h>

/* { seed } is a valid start, zero included: the sequence visits all 2^64 states. */
typedef struct qg_rng {
    uint64_t state; /* grows by a constant each step */
} qg_rng;

/* 64 bits; the constants are the increment and the mixing of the paper (its variant
 * 13). */
static inline uint64_t qg_rng_next(qg_rng *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Uniform in [0, 1), 24 bits. */
static inline float qg_rng_float(qg_rng *r)
{
    return (float)(qg_rng_next(r) >> 40) * 0x1p-24f;
}

/* Uniform in [low, high); rounding may give `high` itself. */
static inline float qg_rng_range(qg_rng *r, float low, float high)
{
    return low + (high - low) * qg_rng_float(r);
}

/* Uniform in [0, n), n > 0; the bias is below n / 2^64. */
static inline uint64_t qg_rng_below(qg_rng *r, uint64_t n)
{
    return qg_rng_next(r) % n;
}

#endif

/* wide.h -- an exact sum of doubles: adding in any order gives the same bits.
 *
 * A sum is one two's-complement integer of 640 bits that counts units of 2^-298, the
 * square of the smallest float32.  Sums of float32 and of their squares, each computed
 * in double in any order, are multiples of that unit; up to 2^64 of the largest squares
 * fit.  So partial sums of samples, shards and machines can be merged in any order.
 *
 * Why 640 bits: the largest sum, 2^64 squares of 2^256, needs 2^320 and a sign; the
 * smallest part is 2^-298.  A sum of squares of ordinary activations uses two or three
 * of the ten words; the rest is zeros, or ones when it is negative.
 *
 * Cost     an addition is some ten integer additions; it happens once per channel and
 *          sample, not per element.
 *
 * Source   Kulisch, "Computer Arithmetic and Validity", 2008, 8 (long accumulator)
 *
 *     qg_wide w = { { 0 } };
 *     qg_wide_add(&w, 1e30);
 *     qg_wide_add(&w, 1.0);
 *     qg_wide_add(&w, -1e30);
 *     qg_wide_value(&w) == 1.0 */
#ifndef QG_ENGINE_NUMBER_WIDE_H
#define QG_ENGINE_NUMBER_WIDE_H

#include <stdint.h>

enum {
    QG_WIDE_WORDS = 10,
    QG_WIDE_UNIT = -298, /* a sum counts 2^QG_WIDE_UNIT */
};

/* Zeroed it is 0.  Little end first; the last word carries the sign. */
typedef struct qg_wide {
    uint64_t word[QG_WIDE_WORDS];
} qg_wide;

/* x: finite, a multiple of the unit, below 2^330 in size (asserted). */
void qg_wide_add(qg_wide *w, double x);

/* w += x. */
void qg_wide_merge(qg_wide *w, const qg_wide *x);

/* The nearest double, ties to even. */
double qg_wide_value(const qg_wide *w);

#endif

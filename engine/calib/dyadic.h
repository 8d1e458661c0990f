/* dyadic.h -- a histogram whose bins are a power of two wide and double on demand.
 *
 *     bin i holds (i - bins / 2) * 2^exponent <= x < (i + 1 - bins / 2) * 2^exponent
 *
 * The axis is signed and 0 is an edge.  The exponent is the least at which all counted
 * values fit: a function of the values, not of their order.  Doubling the width adds
 * neighbours, floor(floor(x / w) / 2) = floor(x / 2w), and is exact.
 * Hence merging is exactly associative and commutative.
 *
 * A histogram of 16 bins, exponent -1, after 0, 1, 2, 3 and -3.9; the next value, 5,
 * doubles the width:
 *
 *     edge    -4  -3.5  ...  0  0.5  1  1.5  2  2.5  3  3.5  4
 *     count      1            1    0  1    0  1    0  1    0
 *
 *     edge    -8  ...  -4  -3  ...  0  1  2  3  4  5  6
 *     count              1            1  1  1  1  0  1
 *
 * Costs:
 *
 *     adding a histogram at the same exponent   one addition per bin in use
 *     widening                                  once over the bins in use; a range that
 *                                               doubles k times costs k of them
 *     quantiles                                 once over the bins
 *
 * Units    exponent: log2 of the tensor's own unit; count: elements
 * Owner    count is the caller's
 * Source   docs/evidence/observers.md#streaming */
#ifndef QG_ENGINE_CALIB_DYADIC_H
#define QG_ENGINE_CALIB_DYADIC_H

#include "engine/calib/histogram.h"

enum {
    QG_DYADIC_LEAST = -120, /* exponents below are not used: 2^-120 is as good as 0 */
    QG_DYADIC_MOST = 127,
};

/* count [bins], bins a power of two, at least 16.  Without counts the exponent is
 * qg_dyadic_least(bins). */
typedef struct qg_dyadic {
    int32_t exponent;
    uint32_t bins;
    uint64_t *count;
} qg_dyadic;

/* Exponent of an empty histogram: bins of any size then cover the same axis. */
int qg_dyadic_least(uint32_t bins);

/* Zeroed counts in the arena; QG_ENOMEM. */
QG_NODISCARD qg_status qg_dyadic_new(qg_ctx *ctx, qg_arena *a, uint32_t bins,
                                     qg_dyadic *out);

/* The least exponent at which low and high (finite) lie within the bins. */
int qg_dyadic_exponent(float low, float high, uint32_t bins);

/* Adds neighbours until the exponent is this; a smaller exponent changes nothing. */
void qg_dyadic_widen(qg_dyadic *h, int exponent);

/* h += x; x has at least as many bins (asserted) and is folded where it has more. */
void qg_dyadic_merge(qg_dyadic *h, const qg_dyadic *x);

/* The same, where only counts [first, end) of x exist. */
void qg_dyadic_add(qg_dyadic *h, const qg_dyadic *x, uint32_t first, uint32_t end);

/* The bin of a finite value; the histogram must be wide enough (asserted). */
uint32_t qg_dyadic_bin(const qg_dyadic *h, float x);

/* First and one past the last bin with a count; equal when it is empty. */
void qg_dyadic_span(const qg_dyadic *h, uint32_t *first, uint32_t *end);

/* Number of elements. */
uint64_t qg_dyadic_total(const qg_dyadic *h);

/* Left edge of bin i (0 .. bins); exact. */
double qg_dyadic_edge(const qg_dyadic *h, uint32_t i);

/* The value below which `fraction` of the elements lie, interpolated linearly within a
 * bin; at a fraction of 0 and 1 the outer edges of the counted bins.  Not empty
 * (asserted). */
double qg_dyadic_quantile(const qg_dyadic *h, double fraction);

/* As edges and counts, from 0 on: |x|, negative bins mirrored; folded until at most
 * `most` bins remain up to the last one that is not empty.  For the calibrators.
 * top: the largest |x| that was counted.  Elements equal to it belong to the bin that
 * ends there, as in numpy.histogram: data clipped to [-4, 4] have no bin above 4.
 * QG_EDATA when it is empty or holds more than 2^53 elements, QG_ENOMEM. */
QG_NODISCARD qg_status qg_dyadic_absolute(qg_ctx *ctx, qg_arena *a, const qg_dyadic *h,
                                          double top, size_t most, qg_histogram *out);

#endif

/* metric.h -- error metrics of a rounded array against the real one.
 *
 * One qg_error holds the sums of one sample; every metric is read from it.  Means over
 * samples are the caller's: PPQ averages the metric of each sample.
 *
 * Order    element i goes to lane i modulo 8, lanes are added pairwise: the same bits
 *          with any instruction set.  Arrays of one sample must be added in the same
 *          pieces, of a multiple of 8 elements except the last, to give the same bits.
 * Source   docs/evidence/ppq-behaviour.md#metrics
 *
 *     qg_error e = { 0 };
 *     qg_error_add(&e, real, rounded, n);
 *     double noise = qg_error_nsr(&e);          // 0: the same arrays */
#ifndef QG_ENGINE_QUANT_METRIC_H
#define QG_ENGINE_QUANT_METRIC_H

#include "engine/quant/fake.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { QG_ERROR_LANES = 8 };

/* r: real, p: rounded ("predicted"), d = p - r, each taken in double. */
typedef struct qg_error {
    uint64_t count;                 /* elements so far */
    double noise[QG_ERROR_LANES];   /* sum of d * d */
    double signal[QG_ERROR_LANES];  /* sum of r * r */
    double power[QG_ERROR_LANES];   /* sum of p * p */
    double dot[QG_ERROR_LANES];     /* sum of r * p */
    double largest[QG_ERROR_LANES]; /* of |d|; NaN counts as 0 */
} qg_error;

/* Adds n elements; e starts as { 0 }. */
QG_API void qg_error_add(qg_error *e, const float *real, const float *rounded,
                         size_t n);

/* clang-format off */
#define QG_METRIC_MAP(X)                                                       \
    /* name     better  meaning */                                             \
    X(nsr,      lower,  "noise to signal: sum d^2 / (sum r^2 + 1e-7)")         \
    X(mse,      lower,  "sum d^2 / n")                                         \
    X(cosine,   higher, "sum r p / (|r| |p|), each length at least 1e-8")      \
    X(max,      lower,  "largest |d|")
/* clang-format on */

/* Of an empty sample: 0, also for cosine.  NaN in, NaN out (except for max). */
#define X(name, better, meaning) QG_API double qg_error_##name(const qg_error *e);
QG_METRIC_MAP(X)
#undef X

/* A row of the map as data, for tools that take the metric's name. */
typedef struct qg_metric {
    const char *name, *meaning;
    double (*value)(const qg_error *e);
    bool higher_is_better; /* how to sort */
} qg_metric;

QG_API const qg_metric *
qg_metric_named(const char *name); /* "nsr", or its old name "snr"; NULL: unknown */

/* The signal-to-noise ratio in decibels, -10 log10 of nsr.  Infinite where there is no
 * noise. */
QG_API double qg_error_decibel(const qg_error *e);

/* The number of elements whose rounded x / scale lies outside of the grid, before it is
 * clamped.  NaN does not.  Not for DYNAMIC (QG_ESTATE): use qg_tensor_ranges first. */
QG_NODISCARD QG_API qg_status qg_saturated(qg_ctx *ctx, const char *what,
                                           const qg_scheme *s, const qg_qparam *p,
                                           const qg_tensor *x, uint64_t *count);

#ifdef __cplusplus
}
#endif

#endif

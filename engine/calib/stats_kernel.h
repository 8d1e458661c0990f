/* stats_kernel.h -- the inner loops of statistics, on arrays without shape.
 *
 * One text (stats_body.h) is compiled per instruction set; a row of the table each.
 * All rows give the same bits: extremes and counts do not depend on order, and sums
 * have a fixed one, whatever the layout of memory:
 *
 *     lane l of channel c sums its elements at positions l, l + 8, l + 16, ... in order
 *
 * where positions count the elements of one channel within one index of the axes
 * before the channel axis.  Every product of two float32 is exact in double, so fused
 * multiply-add would make no difference.
 *
 * Cost      0.2 ns per element for a run, 0.4 with channels innermost, 0.6 for bins, on
 *           a core with AVX-512; extremes alone 0.1.
 *
 * Private to engine/calib and its tests. */
#ifndef QG_ENGINE_CALIB_STATS_KERNEL_H
#define QG_ENGINE_CALIB_STATS_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    QG_STATS_LANES = 8,
    QG_STATS_TABLES = 4, /* counters that take turns, so that equal neighbours do not
                          * wait for each other */
};

/* Statistics of one tensor; arrays are [channels], sums [LANES][channels].  Begins as
 * low = +inf, high = -inf, zeros elsewhere. */
typedef struct qg_stats_sums {
    size_t channels;
    float *low, *high;
    float *bad;     /* 0; NaN once a NaN or an infinity was met */
    uint32_t *zero; /* elements equal to 0 */
    double *sum, *square;
} qg_stats_sums;

/* How values become bins: floor(x / width) + half. */
typedef struct qg_stats_axis {
    float width, inverse; /* powers of two; inverse = 1 / width */
    int32_t half;
    size_t stride; /* counters between two tables */
} qg_stats_axis;

typedef struct qg_stats_row {
    const char *isa;
    bool (*supported)(void);
    /* n elements of channel c, one after the other; the first is at position 0. */
    void (*run)(const qg_stats_sums *s, size_t c, const float *x, size_t n);
    /* The same without sums: low, high, bad and zero only. */
    void (*extent)(const qg_stats_sums *s, size_t c, const float *x, size_t n);
    /* n positions of all channels; channels are innermost. */
    void (*last)(const qg_stats_sums *s, const float *x, size_t n);
    /* Counts n finite elements that all fit the axis. */
    void (*bin)(const qg_stats_axis *a, const float *x, size_t n, uint32_t *count);
} qg_stats_row;

/* Rows from the plainest to the fastest; the first is always supported. */
const qg_stats_row *const *qg_stats_rows(size_t *n);
const qg_stats_row *qg_stats_row_best(void); /* the last one that the CPU supports */

extern const qg_stats_row qg_stats_row_plain;
#if defined(__x86_64__)
extern const qg_stats_row qg_stats_row_avx2, qg_stats_row_avx512;
#endif

#endif

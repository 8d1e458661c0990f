/* stats_body.h -- source of the statistics kernels, compiled per instruction set.
 *
 * Include it in one .c file after defining TARGET, the attribute that selects the
 * instruction set (empty: the build's own).  Loops are written so that compilers turn
 * them into vector code; nothing depends on whether they do.
 *
 * NaN      comparisons are false for it, so it never becomes an extreme; v - v is 0
 *          for finite v and NaN for the rest
 * floor    (int) truncates toward zero; x < k * width, both exact, selects the elements
 *          to step down */
#ifndef QG_ENGINE_CALIB_STATS_BODY_H
#define QG_ENGINE_CALIB_STATS_BODY_H

#include "engine/calib/stats_kernel.h"

#define INLINE static inline __attribute__((always_inline))

enum { WIDE = 16, PIECE = 512 };

/* Extremes of a run in lanes side by side; the tail goes to the lanes it falls on. */
typedef struct extremes {
    float low[WIDE], high[WIDE], bad[WIDE];
    uint32_t zero[WIDE];
} extremes;

INLINE void extremes_begin(const qg_stats_sums *s, size_t c, extremes *e)
{
    for (int j = 0; j < WIDE; j++) {
        e->low[j] = s->low[c];
        e->high[j] = s->high[c];
        e->bad[j] = 0;
        e->zero[j] = 0;
    }
}

INLINE void extremes_add(extremes *e, const float *x, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        float v = x[j];
        e->low[j] = v < e->low[j] ? v : e->low[j];
        e->high[j] = v > e->high[j] ? v : e->high[j];
        e->bad[j] += v - v;
        e->zero[j] += v == 0;
    }
}

INLINE void extremes_end(const qg_stats_sums *s, size_t c, const extremes *e)
{
    for (int j = 0; j < WIDE; j++) {
        s->low[c] = e->low[j] < s->low[c] ? e->low[j] : s->low[c];
        s->high[c] = e->high[j] > s->high[c] ? e->high[j] : s->high[c];
        s->bad[c] += e->bad[j];
        s->zero[c] += e->zero[j];
    }
}

TARGET static void extent(const qg_stats_sums *s, size_t c, const float *x, size_t n)
{
    extremes e;
    size_t i = 0;
    extremes_begin(s, c, &e);
    for (; i + WIDE <= n; i += WIDE)
        extremes_add(&e, x + i, WIDE);
    extremes_add(&e, x + i, n - i);
    extremes_end(s, c, &e);
}

INLINE void sums_add(double *sum, double *square, const float *x, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        double v = (double)x[j];
        sum[j] += v;
        square[j] += v * v;
    }
}

TARGET static void run(const qg_stats_sums *s, size_t c, const float *x, size_t n)
{
    double sum[QG_STATS_LANES], square[QG_STATS_LANES];
    size_t i = 0;
    extent(s, c, x, n);
    for (size_t j = 0; j < QG_STATS_LANES; j++) {
        sum[j] = s->sum[j * s->channels + c];
        square[j] = s->square[j * s->channels + c];
    }
    for (; i + QG_STATS_LANES <= n; i += QG_STATS_LANES)
        sums_add(sum, square, x + i, QG_STATS_LANES);
    sums_add(sum, square, x + i, n - i);
    for (size_t j = 0; j < QG_STATS_LANES; j++) {
        s->sum[j * s->channels + c] = sum[j];
        s->square[j * s->channels + c] = square[j];
    }
}

/* One position: channels are independent of each other. */
INLINE void position(const qg_stats_sums *s, double *restrict sum,
                     double *restrict square, const float *restrict x)
{
    float *restrict low = s->low, *restrict high = s->high, *restrict bad = s->bad;
    uint32_t *restrict zero = s->zero;
    for (size_t c = 0; c < s->channels; c++) {
        float v = x[c];
        low[c] = v < low[c] ? v : low[c];
        high[c] = v > high[c] ? v : high[c];
        bad[c] += v - v;
        zero[c] += v == 0;
        sum[c] += (double)v;
        square[c] += (double)v * (double)v;
    }
}

TARGET static void last(const qg_stats_sums *s, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t lane = i % QG_STATS_LANES * s->channels;
        position(s, s->sum + lane, s->square + lane, x + i * s->channels);
    }
}

INLINE void indices(const qg_stats_axis *a, const float *x, size_t n, int32_t *at)
{
    const float width = a->width, inverse = a->inverse;
    const int32_t half = a->half;
    for (size_t i = 0; i < n; i++) {
        int32_t k = (int32_t)(x[i] * inverse);
        at[i] = k - (x[i] < (float)k * width) + half;
    }
}

TARGET static void bin(const qg_stats_axis *a, const float *x, size_t n,
                       uint32_t *count)
{
    int32_t at[PIECE];
    uint32_t *one = count + a->stride, *two = one + a->stride, *three = two + a->stride;
    for (size_t done = 0; done < n; done += PIECE) {
        size_t m = n - done < PIECE ? n - done : PIECE, i = 0;
        indices(a, x + done, m, at);
        for (; i + QG_STATS_TABLES <= m; i += QG_STATS_TABLES) {
            count[at[i]]++;
            one[at[i + 1]]++;
            two[at[i + 2]]++;
            three[at[i + 3]]++;
        }
        for (; i < m; i++)
            count[at[i]]++;
    }
}

#endif

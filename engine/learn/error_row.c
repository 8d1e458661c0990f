#include "engine/learn/error_row.h"

#include <stdbool.h>

enum { LANES = QG_ERROR_LANES };

#define INLINE static inline __attribute__((always_inline))

/* n elements, LANES of them or fewer. */
INLINE void add_some(const float *y, const float *f, const double *w, double by,
                     float *g, size_t n, double *sum)
{
    for (size_t j = 0; j < n; j++) {
        const double d = (double)y[j] - (double)f[j], weight = w ? w[j] : 1;
        sum[j] += weight * d * d;
        if (g)
            g[j] = (float)(2 * by * weight * d);
    }
}

/* With constant NULLs, so that the loop has no branch. */
INLINE double row(const float *y, const float *f, const double *w, double by,
                  float *restrict g, size_t n)
{
    double sum[LANES] = { 0 }, total = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        add_some(y + i, f + i, w ? w + i : NULL, by, g ? g + i : NULL, LANES, sum);
    add_some(y + i, f + i, w ? w + i : NULL, by, g ? g + i : NULL, n - i, sum);
    for (int j = 0; j < LANES; j++)
        total += sum[j];
    return total;
}

#define ROW(name)                                                                      \
    static double name(const float *y, const float *f, const double *w, double by,     \
                       float *g, size_t n)                                             \
    {                                                                                  \
        if (w)                                                                         \
            return g ? row(y, f, w, by, g, n) : row(y, f, w, by, NULL, n);             \
        return g ? row(y, f, NULL, by, g, n) : row(y, f, NULL, by, NULL, n);           \
    }

ROW(row_plain)
#if defined(__x86_64__)
__attribute__((target("avx2"))) ROW(row_avx2) __attribute__((target("avx512f")))
ROW(row_avx512)
#endif

    double qg_error_row(const float *y, const float *f, const double *w, double by,
                        float *g, size_t n)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return row_avx512(y, f, w, by, g, n);
    if (__builtin_cpu_supports("avx2"))
        return row_avx2(y, f, w, by, g, n);
#endif
    return row_plain(y, f, w, by, g, n);
}

double qg_power_row(const float *f, const double *w, size_t n)
{
    double sum[LANES] = { 0 }, total = 0;
    for (size_t i = 0; i < n; i++)
        sum[i % LANES] += (w ? w[i] : 1) * (double)f[i] * (double)f[i];
    for (int j = 0; j < LANES; j++)
        total += sum[j];
    return total;
}

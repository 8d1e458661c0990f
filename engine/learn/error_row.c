#include "engine/learn/error_row.h"

enum { LANES = QG_ROW_LANES };

/* What is read, and where the gradient goes.  f: NULL, 0. */
typedef struct arrays {
    const float *y, *f;
    const double *w;
    float *g;
} arrays;

/* Elements i .. i + n - 1, LANES of them or fewer. */
static inline __attribute__((always_inline)) void
add_some(const arrays *a, double by, size_t i, size_t n, double *sum)
{
    const float *y = a->y + i, *f = a->f ? a->f + i : NULL;
    const double *w = a->w ? a->w + i : NULL;
    float *restrict g = a->g ? a->g + i : NULL;
    for (size_t j = 0; j < n; j++) {
        const double d = (double)y[j] - (f ? (double)f[j] : 0), weight = w ? w[j] : 1;
        sum[j] += weight * d * d;
        if (g)
            g[j] = (float)(2 * by * weight * d);
    }
}

/* With constant NULLs, so that the loop has no branch. */
static inline __attribute__((always_inline)) double row(const arrays *a, double by,
                                                        size_t n)
{
    double sum[LANES] = { 0 }, total = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        add_some(a, by, i, LANES, sum);
    add_some(a, by, i, n - i, sum);
    for (int j = 0; j < LANES; j++)
        total += sum[j];
    return total;
}

#define ROW(name)                                                                      \
    static double name(const float *y, const float *f, const double *w, double by,     \
                       float *g, size_t n)                                             \
    {                                                                                  \
        if (!f)                                                                        \
            return w ? row(&(arrays){ y, NULL, w, NULL }, by, n)                       \
                     : row(&(arrays){ y, NULL, NULL, NULL }, by, n);                   \
        if (w)                                                                         \
            return g ? row(&(arrays){ y, f, w, g }, by, n)                             \
                     : row(&(arrays){ y, f, w, NULL }, by, n);                         \
        return g ? row(&(arrays){ y, f, NULL, g }, by, n)                              \
                 : row(&(arrays){ y, f, NULL, NULL }, by, n);                          \
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
    return qg_error_row(f, NULL, w, 0, NULL, n);
}

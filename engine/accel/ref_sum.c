#include "engine/accel/ref_sum.h"

#include <assert.h>
#include <math.h>

/* Columns of a block begin at 128 and are halved while they reach further than n; the
 * saved space goes to the terms. */
int64_t qg_ref_slice(int64_t n, int64_t k)
{
    int64_t columns = 128, terms = 128;
    assert(n >= 0 && k >= 0);
    for (; n < k && columns > 16 && columns / 2 >= n; columns /= 2)
        terms *= 2;
    return terms;
}

/* Halves of four, each from left to right. */
static float of_four_rows(const float l[QG_REF_LANES])
{
    return (((l[0] + l[1]) + l[2]) + l[3]) + (((l[4] + l[5]) + l[6]) + l[7]);
}

static float of_two_rows(const float l[QG_REF_LANES])
{
    return ((l[0] + l[2]) + (l[4] + l[6])) + ((l[1] + l[3]) + (l[5] + l[7]));
}

static float of_one_row(const float l[QG_REF_LANES])
{
    return ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]));
}

float qg_ref_fold(const float lane[QG_REF_LANES], int64_t row, int64_t rows)
{
    assert(row >= 0 && row < rows);
    if (row < rows / 4 * 4)
        return of_four_rows(lane);
    return row < rows / 2 * 2 ? of_two_rows(lane) : of_one_row(lane);
}

/* The text of both ways to have fmaf: as an instruction, in vectors, and by the C
 * library. */
#define FUSED_ROW(name)                                                                \
    static void name(float *restrict sum, const float *restrict x, int64_t step,       \
                     float w, int64_t n)                                               \
    {                                                                                  \
        if (step == 1)                                                                 \
            for (int64_t i = 0; i < n; i++)                                            \
                sum[i] = __builtin_fmaf(x[i], w, sum[i]);                              \
        else                                                                           \
            for (int64_t i = 0; i < n; i++)                                            \
                sum[i] = __builtin_fmaf(x[i * step], w, sum[i]);                       \
    }

FUSED_ROW(fused_row)

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) FUSED_ROW(fused_row_avx2)
#endif

    static void plain_row(float *restrict sum, const float *restrict x, int64_t step,
                          float w, int64_t n)
{
    if (step == 1)
        for (int64_t i = 0; i < n; i++)
            sum[i] += x[i] * w;
    else
        for (int64_t i = 0; i < n; i++)
            sum[i] += x[i * step] * w;
}

void qg_ref_add_row(bool fused, float *sum, const float *x, int64_t step, float w,
                    int64_t n)
{
    if (!fused) {
        plain_row(sum, x, step, w, n);
        return;
    }
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        fused_row_avx2(sum, x, step, w, n);
        return;
    }
#endif
    fused_row(sum, x, step, w, n);
}

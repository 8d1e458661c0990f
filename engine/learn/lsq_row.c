#include "engine/learn/lsq_row.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { LANES = QG_LSQ_LANES };

typedef float lanes
    __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));
typedef int32_t masks __attribute__((vector_size(LANES * sizeof(float)), aligned(4)));

static const lanes ones = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };

/* The product is exact in double: 24 bits by 17. */
static float least_from(double border)
{
    const float f = (float)border;
    return (double)f < border ? nextafterf(f, INFINITY) : f;
}

bool qg_lsq_borders_of(double step, double qmin, double qmax, qg_lsq_borders *b)
{
    *b = (qg_lsq_borders){ least_from(qmin * step), -least_from(-(qmax * step)) };
    return (double)(float)step == step && qmin >= -0x1p16 && qmax <= 0x1p16;
}

/* Pairwise. */
static double folded(float lane[LANES])
{
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return (double)lane[0];
}

#define TARGET
#define NAME(f) f##_plain
#include "engine/learn/lsq_row_body.h"
#undef TARGET
#undef NAME

#if defined(__x86_64__)
#define TARGET  __attribute__((target("avx2")))
#define NAME(f) f##_avx2
#include "engine/learn/lsq_row_body.h"
#undef TARGET
#undef NAME

#define TARGET  __attribute__((target("avx512f,avx512dq")))
#define NAME(f) f##_avx512
#include "engine/learn/lsq_row_body.h"
#undef TARGET
#undef NAME
#endif

double qg_lsq_row(const qg_lsq_borders *b, const float *x, const float *y, float *g,
                  size_t n)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        return row_avx512(b, x, y, g, n);
    if (__builtin_cpu_supports("avx2"))
        return row_avx2(b, x, y, g, n);
#endif
    return row_plain(b, x, y, g, n);
}

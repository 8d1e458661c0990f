/* stats_avx512.c -- statistics for x86-64 with AVX-512. */
#include "engine/calib/stats_kernel.h"

#if defined(__x86_64__)
#if defined(__clang__)
#define TARGET __attribute__((target("avx512f,avx512dq"), min_vector_width(512)))
#else
#define TARGET __attribute__((target("avx512f,avx512dq,prefer-vector-width=512")))
#endif
#include "engine/calib/stats_body.h"

static bool supported(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
}

const qg_stats_row qg_stats_row_avx512 = {
    "AVX-512", supported, run, extent, last, bin
};
#endif

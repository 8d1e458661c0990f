/* stats_avx2.c -- statistics for x86-64 with AVX2. */
#include "engine/calib/stats_kernel.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#include "engine/calib/stats_body.h"

static bool supported(void) { return __builtin_cpu_supports("avx2"); }

const qg_stats_row qg_stats_row_avx2 = { "AVX2", supported, run, extent, last, bin };
#endif

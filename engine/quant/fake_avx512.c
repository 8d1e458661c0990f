/* fake_avx512.c -- the kernels for x86-64 with AVX-512. */
#include "engine/quant/fake_rows.h"

#if defined(__x86_64__)
#if defined(__clang__)
#define TARGET __attribute__((target("avx512f"), min_vector_width(512)))
#else
#define TARGET __attribute__((target("avx512f,prefer-vector-width=512")))
#endif
#define FUSED 1
#include "engine/quant/fake_body.h"

static bool supported(void) { return __builtin_cpu_supports("avx512f"); }

const qg_fake_row qg_fake_row_avx512 = { "AVX-512", supported, fused,   once,
                                         divided,   each,      floating };
#endif

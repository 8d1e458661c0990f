/* util_vector_avx512.c -- the loops for x86-64 with AVX-512. */
#include "ops/util_vector_rows.h"

#if defined(__x86_64__)
#if defined(__clang__)
#define TARGET __attribute__((target("avx512f"), min_vector_width(512)))
#else
#define TARGET __attribute__((target("avx512f,prefer-vector-width=512")))
#endif
#define REGISTER 16
#include "ops/util_vector_body.h"

static bool supported(void) { return __builtin_cpu_supports("avx512f"); }

const qg_vector_row qg_vector_avx512 = ROW("AVX-512");
#endif

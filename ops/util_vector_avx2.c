/* util_vector_avx2.c -- the loops for x86-64 with AVX2. */
#include "ops/util_vector_rows.h"

#if defined(__x86_64__)
#define TARGET   __attribute__((target("avx2")))
#define REGISTER 8
#include "ops/util_vector_body.h"

static bool supported(void) { return __builtin_cpu_supports("avx2"); }

const qg_vector_row qg_vector_avx2 = ROW("AVX2");
#endif

/* util_span_avx512.c -- the row for x86-64 with AVX-512. */
#include "ops/util_span.h"

#if defined(__x86_64__)
#if defined(__clang__)
#define TARGET __attribute__((target("avx512f"), min_vector_width(512)))
#else
#define TARGET __attribute__((target("avx512f,prefer-vector-width=512")))
#endif
#include "ops/util_span_body.h"

static bool supported(void) { return __builtin_cpu_supports("avx512f"); }

extern const qg_span_row qg_span_row_avx512;
const qg_span_row qg_span_row_avx512 = { "AVX-512", supported, ROW_FUNCTIONS };
#endif

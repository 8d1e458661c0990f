/* util_span_avx2.c -- the row for x86-64 with AVX2. */
#include "ops/util_span.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#include "ops/util_span_body.h"

static bool supported(void) { return __builtin_cpu_supports("avx2"); }

extern const qg_span_row qg_span_row_avx2;
const qg_span_row qg_span_row_avx2 = { "AVX2", supported, ROW_FUNCTIONS };
#endif

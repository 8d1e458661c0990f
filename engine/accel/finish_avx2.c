/* finish_avx2.c -- the loops for x86-64 with AVX2. */
#include "engine/accel/finish_rows.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#include "engine/accel/finish_body.h"

static bool supported(void) { return __builtin_cpu_supports("avx2"); }

const qg_finish_row qg_finish_avx2 = ROW("AVX2");
#endif

/* finish_avx512.c -- the loops for x86-64 with AVX-512. */
#include "engine/accel/finish_rows.h"

#if defined(__x86_64__)
#if defined(__clang__)
#define TARGET                                                                         \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"), min_vector_width(512)))
#else
#define TARGET                                                                         \
    __attribute__((                                                                    \
        target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512")))
#endif
#include "engine/accel/finish_body.h"

static bool supported(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

const qg_finish_row qg_finish_avx512 = ROW("AVX-512");
#endif

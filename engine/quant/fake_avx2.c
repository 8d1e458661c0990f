/* fake_avx2.c -- the kernels for x86-64 with AVX2. */
#include "engine/quant/fake_rows.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2,fma")))
#define FUSED  1
#include "engine/quant/fake_body.h"

static bool supported(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

const qg_fake_row qg_fake_row_avx2 = { "AVX2",  supported, fused,   once,
                                       divided, each,      floating };
#endif

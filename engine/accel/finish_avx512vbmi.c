/* finish_avx512vbmi.c -- the loops for x86-64 with AVX-512 and VBMI, whose permutations
 * of bytes look up 64 codes at a time. */
#include "engine/accel/finish_rows.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#define TARGET                                                                         \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi"),            \
                   min_vector_width(512)))
#else
#define TARGET                                                                         \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,"             \
                          "prefer-vector-width=512")))
#endif

/* A permutation reads 128 bytes by 7 bits of an index; the eighth selects the half. */
static TARGET void look_up_permuted(const uint8_t table[256], const uint8_t *x,
                                    uint8_t *y, size_t n)
{
    __m512i part[4];
    for (int i = 0; i < 4; i++)
        part[i] = _mm512_loadu_si512(table + 64 * i);
    for (size_t at = 0; at < n; at += 64) {
        __mmask64 in = n - at < 64 ? (UINT64_C(1) << (n - at)) - 1 : ~UINT64_C(0);
        __m512i codes = _mm512_maskz_loadu_epi8(in, x + at);
        __m512i low = _mm512_permutex2var_epi8(part[0], codes, part[1]);
        __m512i high = _mm512_permutex2var_epi8(part[2], codes, part[3]);
        __m512i both = _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(codes), high);
        _mm512_mask_storeu_epi8(y + at, in, both);
    }
}

#define LOOK_UP look_up_permuted
#include "engine/accel/finish_body.h"

static bool supported(void)
{
    return qg_finish_avx512.supported() && __builtin_cpu_supports("avx512vbmi");
}

const qg_finish_row qg_finish_avx512vbmi = ROW("AVX-512 with VBMI");
#endif

#include "engine/accel/ref_sum.h"

#include <assert.h>
#include <math.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define UNROLLED    _Pragma("clang loop unroll(full)")
#define BY_FOUR     _Pragma("clang loop unroll_count(4)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#define UNROLLED    _Pragma("GCC unroll 8")
#define BY_FOUR     _Pragma("GCC unroll 4")
#endif

/* Columns of a block begin at 128 and are halved while they reach further than n; the
 * saved space goes to the terms. */
int64_t qg_ref_slice(int64_t n, int64_t k)
{
    int64_t columns = 128, terms = 128;
    assert(n >= 0 && k >= 0);
    for (; n < k && columns > 16 && columns / 2 >= n; columns /= 2)
        terms *= 2;
    return terms;
}

/* Halves of four, each from left to right. */
static float of_four_rows(const float l[QG_REF_LANES])
{
    return (((l[0] + l[1]) + l[2]) + l[3]) + (((l[4] + l[5]) + l[6]) + l[7]);
}

static float of_two_rows(const float l[QG_REF_LANES])
{
    return ((l[0] + l[2]) + (l[4] + l[6])) + ((l[1] + l[3]) + (l[5] + l[7]));
}

static float of_one_row(const float l[QG_REF_LANES])
{
    return ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]));
}

float qg_ref_fold(const float lane[QG_REF_LANES], int64_t row, int64_t rows)
{
    assert(row >= 0 && row < rows);
    if (row < rows / 4 * 4)
        return of_four_rows(lane);
    return row < rows / 2 * 2 ? of_two_rows(lane) : of_one_row(lane);
}

float qg_ref_dot(const float *a, const float *b, int64_t k, int64_t row, int64_t rows)
{
    float lane[QG_REF_LANES] = { 0 };
    int64_t i = 0;
    for (; i + QG_REF_LANES <= k; i += QG_REF_LANES)
        for (int j = 0; j < QG_REF_LANES; j++)
            lane[j] += a[i + j] * b[i + j];
    for (int j = 0; i < k; i++, j++)
        lane[j] += a[i] * b[i];
    return qg_ref_fold(lane, row, rows);
}

/* The text of both ways to have fmaf: as an instruction, in vectors, and by the C
 * library. */
#define FUSED_ROW(name)                                                                \
    static void name(float *restrict sum, const float *restrict x, int64_t step,       \
                     float w, int64_t n)                                               \
    {                                                                                  \
        if (step == 1)                                                                 \
            for (int64_t i = 0; i < n; i++)                                            \
                sum[i] = __builtin_fmaf(x[i], w, sum[i]);                              \
        else                                                                           \
            for (int64_t i = 0; i < n; i++)                                            \
                sum[i] = __builtin_fmaf(x[i * step], w, sum[i]);                       \
    }

FUSED_ROW(fused_row)

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) FUSED_ROW(fused_row_avx2)
#endif

/* Products and sums rounded apart. */
#define PLAIN_ROW(name)                                                                \
    static void name(float *restrict sum, const float *restrict x, int64_t step,       \
                     float w, int64_t n)                                               \
    {                                                                                  \
        if (step == 1)                                                                 \
            for (int64_t i = 0; i < n; i++)                                            \
                sum[i] += x[i] * w;                                                    \
        else                                                                           \
            for (int64_t i = 0; i < n; i++)                                            \
                sum[i] += x[i * step] * w;                                             \
    }

    PLAIN_ROW(plain_row)

#if defined(__x86_64__)
        __attribute__((target("avx2"))) PLAIN_ROW(plain_row_avx2)
#endif

            void qg_ref_add_row(bool fused, float *sum, const float *x, int64_t step,
                                float w, int64_t n)
{
#if defined(__x86_64__)
    if (!fused && __builtin_cpu_supports("avx2")) {
        plain_row_avx2(sum, x, step, w, n);
        return;
    }
#endif
    if (!fused) {
        plain_row(sum, x, step, w, n);
        return;
    }
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        fused_row_avx2(sum, x, step, w, n);
        return;
    }
#endif
    fused_row(sum, x, step, w, n);
}

/* With constant arguments, so that the loop has no branch. */
static inline __attribute__((always_inline)) void add_terms(const qg_ref_terms *t,
                                                            int terms, bool begins,
                                                            bool adds, float *to,
                                                            int64_t n)
{
    const float *const x[QG_REF_TERMS] = { t->x[0], t->x[1], t->x[2], t->x[3] };
    const float w[QG_REF_TERMS] = { t->w[0], t->w[1], t->w[2], t->w[3] };
    const float *before = t->part;
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        float v = begins ? 0 : before[i];
        for (int k = 0; k < terms; k++)
            v += x[k][i] * w[k];
        to[i] = adds ? to[i] + v : v;
    }
}

/* Whole slices of four and of one term, as kernels of 3 x 3 have them; all others. */
#define ADD_TERMS(name)                                                                \
    static void name(const qg_ref_terms *t, int64_t n)                                 \
    {                                                                                  \
        const bool whole = t->begins && t->ends;                                       \
        if (whole && t->n_term == QG_REF_TERMS && t->first)                            \
            add_terms(t, QG_REF_TERMS, true, false, t->sum, n);                        \
        else if (whole && t->n_term == QG_REF_TERMS)                                   \
            add_terms(t, QG_REF_TERMS, true, true, t->sum, n);                         \
        else if (whole && t->n_term == 1 && !t->first)                                 \
            add_terms(t, 1, true, true, t->sum, n);                                    \
        else                                                                           \
            add_terms(t, t->n_term, t->begins, t->ends && !t->first,                   \
                      t->ends ? t->sum : t->part, n);                                  \
    }

ADD_TERMS(add_terms_plain)
#if defined(__x86_64__)
__attribute__((target("avx2"))) ADD_TERMS(add_terms_avx2)
    __attribute__((target("avx512f"))) ADD_TERMS(add_terms_avx512)
#endif

        void qg_ref_add_terms(const qg_ref_terms *t, int64_t n)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        add_terms_avx512(t, n);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        add_terms_avx2(t, n);
        return;
    }
#endif
    add_terms_plain(t, n);
}

static void sum_slab(const qg_ref_slab *s, float *sum)
{
    for (int64_t i = 0; i < s->rows; i++, sum += s->ld_sum) {
        for (int64_t j = 0; j < s->columns; j++)
            sum[j] = 0;
        for (int64_t t = 0; t < s->terms; t++)
            qg_ref_add_row(true, sum, s->b + t * s->ldb, 1,
                           s->a[i * s->a_row + t * s->a_term], s->columns);
    }
}

#if defined(__x86_64__)
/* Tiles whose sums stay in registers: up to six rows of two vectors.  The last columns
 * of a row are in a masked vector. */
enum { TILE_ROWS = 6, VECTOR = 8 };

#define AVX2 __attribute__((target("avx2,fma")))

/* Of a tile's first row and column. */
typedef struct tile_at {
    const float *a, *b;
    const float *before; /* NULL: none */
    float *sum;
} tile_at;

static tile_at tile_of(const qg_ref_slab *s, int64_t i, int64_t j, float *sum)
{
    return (tile_at){ .a = s->a + i * s->a_row,
                      .b = s->b + j,
                      .before = s->before ? s->before + i * s->ld_before + j : NULL,
                      .sum = sum + i * s->ld_sum + j };
}

/* A constant number of rows. */
static inline __attribute__((always_inline)) AVX2 void sum_rows(const qg_ref_slab *s,
                                                                int rows, tile_at at)
{
    const float *a = at.a, *b = at.b;
    __m256 low[TILE_ROWS], high[TILE_ROWS];
    UNROLLED
    for (int i = 0; i < rows; i++)
        low[i] = high[i] = _mm256_setzero_ps();
    BY_FOUR
    for (int64_t t = 0; t < s->terms; t++, a += s->a_term, b += s->ldb) {
        const __m256 x0 = _mm256_loadu_ps(b), x1 = _mm256_loadu_ps(b + VECTOR);
        UNROLLED
        for (int i = 0; i < rows; i++) {
            const __m256 w = _mm256_broadcast_ss(a + i * s->a_row);
            low[i] = _mm256_fmadd_ps(x0, w, low[i]);
            high[i] = _mm256_fmadd_ps(x1, w, high[i]);
        }
    }
    if (at.before) {
        UNROLLED
        for (int i = 0; i < rows; i++, at.before += s->ld_before) {
            low[i] = _mm256_add_ps(low[i], _mm256_loadu_ps(at.before));
            high[i] = _mm256_add_ps(high[i], _mm256_loadu_ps(at.before + VECTOR));
        }
    }
    UNROLLED
    for (int i = 0; i < rows; i++) {
        _mm256_storeu_ps(at.sum + i * s->ld_sum, low[i]);
        _mm256_storeu_ps(at.sum + i * s->ld_sum + VECTOR, high[i]);
    }
}

static AVX2 void sum_tile(const qg_ref_slab *s, int rows, tile_at at)
{
#define TILE(n)                                                                        \
    case n:                                                                            \
        sum_rows(s, n, at);                                                            \
        break
    switch (rows) {
        TILE(1);
        TILE(2);
        TILE(3);
        TILE(4);
        TILE(5);
        TILE(TILE_ROWS);
    }
#undef TILE
}

/* One row, n < 2 VECTOR columns. */
static AVX2 void last_columns(const qg_ref_slab *s, int n, tile_at at)
{
    const int second = n > VECTOR ? VECTOR : 0;
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i in0 = _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane);
    const __m256i in1 = _mm256_cmpgt_epi32(_mm256_set1_epi32(n - VECTOR), lane);
    const float *a = at.a, *b = at.b;
    __m256 low = _mm256_setzero_ps(), high = low;
    for (int64_t t = 0; t < s->terms; t++, a += s->a_term, b += s->ldb) {
        const __m256 x0 = _mm256_maskload_ps(b, in0), w = _mm256_broadcast_ss(a);
        const __m256 x1 = _mm256_maskload_ps(b + second, in1);
        low = _mm256_fmadd_ps(x0, w, low);
        high = _mm256_fmadd_ps(x1, w, high);
    }
    if (at.before) {
        low = _mm256_add_ps(low, _mm256_maskload_ps(at.before, in0));
        high = _mm256_add_ps(high, _mm256_maskload_ps(at.before + second, in1));
    }
    _mm256_maskstore_ps(at.sum, in0, low);
    if (second)
        _mm256_maskstore_ps(at.sum + VECTOR, in1, high);
}

static void sum_slab_avx2(const qg_ref_slab *s, float *sum)
{
    for (int64_t j = 0, n; j < s->columns; j += n) {
        n = s->columns - j < 2 * VECTOR ? s->columns - j : 2 * VECTOR;
        const bool whole = n == 2 * VECTOR;
        for (int64_t i = 0, rows; i < s->rows; i += rows) {
            rows = !whole ? 1 : s->rows - i < TILE_ROWS ? s->rows - i : TILE_ROWS;
            if (whole)
                sum_tile(s, (int)rows, tile_of(s, i, j, sum));
            else
                last_columns(s, (int)n, tile_of(s, i, j, sum));
        }
    }
}

enum { WIDE_ROWS = 8, WIDE = 16 };

/* Two vectors of columns, or their first ones; whole: all of both. */
typedef struct wide_columns {
    __mmask16 low, high;
    bool whole;
} wide_columns;

#define AVX512 __attribute__((target("avx512f")))

/* A tile of a constant number of rows; whether it is whole is constant, too. */
static inline __attribute__((always_inline)) AVX512 void
wide_tile(const qg_ref_slab *s, int rows, wide_columns in, tile_at at)
{
    const float *a = at.a, *b = at.b;
    __m512 low[WIDE_ROWS], high[WIDE_ROWS];
    UNROLLED
    for (int i = 0; i < rows; i++)
        low[i] = high[i] = _mm512_setzero_ps();
    for (int64_t t = 0; t < s->terms; t++, a += s->a_term, b += s->ldb) {
        const __m512 x0 =
            in.whole ? _mm512_loadu_ps(b) : _mm512_maskz_loadu_ps(in.low, b);
        const __m512 x1 = in.whole ? _mm512_loadu_ps(b + WIDE)
                                   : _mm512_maskz_loadu_ps(in.high, b + WIDE);
        UNROLLED
        for (int i = 0; i < rows; i++) {
            const __m512 w = _mm512_set1_ps(a[i * s->a_row]);
            low[i] = _mm512_fmadd_ps(x0, w, low[i]);
            high[i] = _mm512_fmadd_ps(x1, w, high[i]);
        }
    }
    if (at.before) {
        UNROLLED
        for (int i = 0; i < rows; i++, at.before += s->ld_before) {
            low[i] = _mm512_add_ps(low[i], _mm512_maskz_loadu_ps(in.low, at.before));
            high[i] = _mm512_add_ps(high[i],
                                    _mm512_maskz_loadu_ps(in.high, at.before + WIDE));
        }
    }
    UNROLLED
    for (int i = 0; i < rows; i++, at.sum += s->ld_sum) {
        _mm512_mask_storeu_ps(at.sum, in.low, low[i]);
        _mm512_mask_storeu_ps(at.sum + WIDE, in.high, high[i]);
    }
}

/* The same with at most a vector of columns. */
static inline __attribute__((always_inline)) AVX512 void
narrow_tile(const qg_ref_slab *s, int rows, wide_columns in, tile_at at)
{
    const float *a = at.a, *b = at.b;
    __m512 part[WIDE_ROWS];
    UNROLLED
    for (int i = 0; i < rows; i++)
        part[i] = _mm512_setzero_ps();
    for (int64_t t = 0; t < s->terms; t++, a += s->a_term, b += s->ldb) {
        const __m512 x = _mm512_maskz_loadu_ps(in.low, b);
        UNROLLED
        for (int i = 0; i < rows; i++)
            part[i] = _mm512_fmadd_ps(x, _mm512_set1_ps(a[i * s->a_row]), part[i]);
    }
    if (at.before) {
        UNROLLED
        for (int i = 0; i < rows; i++, at.before += s->ld_before)
            part[i] = _mm512_add_ps(part[i], _mm512_maskz_loadu_ps(in.low, at.before));
    }
    UNROLLED
    for (int i = 0; i < rows; i++)
        _mm512_mask_storeu_ps(at.sum + i * s->ld_sum, in.low, part[i]);
}

/* As many rows as a call has at most, of two vectors. */
static AVX512 void tile_of_eight(const qg_ref_slab *s, tile_at at)
{
    const wide_columns all = { 0xffff, 0xffff, true };
    wide_tile(s, WIDE_ROWS, all, at);
}

static AVX512 void part_of_tile(const qg_ref_slab *s, int rows, wide_columns in,
                                tile_at at)
{
#define TILE(n)                                                                        \
    case n:                                                                            \
        if (in.high)                                                                   \
            wide_tile(s, n, in, at);                                                   \
        else                                                                           \
            narrow_tile(s, n, in, at);                                                 \
        break
    switch (rows) {
        TILE(1);
        TILE(2);
        TILE(3);
        TILE(4);
        TILE(5);
        TILE(6);
        TILE(7);
        TILE(8);
    }
#undef TILE
}

/* Columns j and on, n of them or all of a tile. */
static void sum_columns_avx512(const qg_ref_slab *s, int64_t j, int64_t n, float *sum)
{
    const wide_columns in = { .low = (__mmask16)(n < WIDE ? (1u << n) - 1 : 0xffffu),
                              .high = (__mmask16)(n >= 2 * WIDE ? 0xffffu
                                                  : n > WIDE    ? (1u << (n - WIDE)) - 1
                                                                : 0) };
    for (int64_t i = 0, rows; i < s->rows; i += rows) {
        const tile_at at = tile_of(s, i, j, sum);
        rows = s->rows - i < WIDE_ROWS ? s->rows - i : WIDE_ROWS;
        if (rows == WIDE_ROWS && n >= 2 * WIDE)
            tile_of_eight(s, at);
        else
            part_of_tile(s, (int)rows, in, at);
    }
}

static void sum_slab_avx512(const qg_ref_slab *s, float *sum)
{
    for (int64_t j = 0; j < s->columns; j += 2 * WIDE)
        sum_columns_avx512(s, j, s->columns - j, sum);
}
#endif

void qg_ref_sum_slab(const qg_ref_slab *s, float *sum)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        sum_slab_avx512(s, sum);
        return;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        sum_slab_avx2(s, sum);
        return;
    }
#endif
    sum_slab(s, sum);
}

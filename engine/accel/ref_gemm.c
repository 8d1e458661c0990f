#include "engine/accel/accel.h"

#include <assert.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "engine/accel/ref_sum.h"

/* Columns per pass: a row of sums stays in the nearest cache.  Lanes of a dot product:
 * two vectors of four doubles. */
enum { CHUNK = QG_REF_CHUNK, LANES = 8 };

#define REAL    double
#define SUM     double
#define NAME(f) f##_f64
#include "engine/accel/ref_gemm_body.h"
#undef REAL
#undef SUM
#undef NAME

/* Unsigned sums wrap without being undefined. */
#define REAL    int64_t
#define SUM     uint64_t
#define NAME(f) f##_i64
#include "engine/accel/ref_gemm_body.h"
#undef REAL
#undef SUM
#undef NAME

/* --- float32: sums in the order of ref_sum.h --- */

/* c[i], i < rows: products of one vector with stored rows of ld. */
static void dots(const qg_gemm_problem *p, const float *vector, const float *stored,
                 int64_t ld, int64_t rows, float *c)
{
    for (int64_t i = 0; i < rows; i++) {
        float sum = qg_ref_dot(vector, stored + i * ld, p->k, i, rows);
        c[i] = p->beta != 0 ? sum + c[i] : sum;
    }
}

/* One row times n columns; b has rows of ld. */
static void single_row(const qg_gemm_problem *p, const float *a, const float *b,
                       int64_t ld, int64_t n, float *c)
{
    float part[CHUNK];
    for (int64_t first = 0, width; first < n; first += width, b += width, c += width) {
        width = n - first < CHUNK ? n - first : CHUNK;
        for (int64_t k = 0, end; k < p->k; k = end) {
            bool adds = k > 0 || p->beta != 0;
            end = k + qg_ref_row_slice(p->k, k);
            for (int64_t j = 0; j < width; j++)
                part[j] = 0;
            for (int64_t i = k; i < end; i++)
                qg_ref_add_row(false, part, b + i * ld, 1, a[i], width);
            for (int64_t j = 0; j < width; j++)
                c[j] = adds ? part[j] + c[j] : part[j];
        }
    }
}

/* Terms k .. k + terms of columns first .. first + n. */
typedef struct slab {
    int64_t k, terms, first, n;
    const float *b; /* rows of ld elements, from the first term and column on */
    int64_t ld;
} slab;

/* Whole squares of TURNED columns and terms; *columns and *terms: how far they reach.
 * LINE terms of all columns before the next ones: lines of the cache are read once. */
enum { TURNED = 4, LINE = 16 };
#if defined(__x86_64__)
static void turn_square(const float *from, int64_t ld, float *to, int64_t pitch)
{
    __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + ld);
    __m128 c = _mm_loadu_ps(from + 2 * ld), d = _mm_loadu_ps(from + 3 * ld);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(to, a);
    _mm_storeu_ps(to + pitch, b);
    _mm_storeu_ps(to + 2 * pitch, c);
    _mm_storeu_ps(to + 3 * pitch, d);
}

static void turn_squares(const float *from, int64_t ld, const slab *s, float *to,
                         int64_t *columns, int64_t *terms)
{
    *columns = s->n / TURNED * TURNED;
    *terms = s->terms / TURNED * TURNED;
    for (int64_t line = 0; line < *terms; line += LINE) {
        const int64_t end = line + LINE < *terms ? line + LINE : *terms;
        for (int64_t j = 0; j < *columns; j += TURNED)
            for (int64_t k = line; k < end; k += TURNED)
                turn_square(from + j * ld + k, ld, to + k * s->n + j, s->n);
    }
}
#else
static void turn_squares(const float *from, int64_t ld, const slab *s, float *to,
                         int64_t *columns, int64_t *terms)
{
    (void)from, (void)ld, (void)s, (void)to;
    *columns = *terms = 0;
}
#endif

/* b of the slab, stored by columns, as rows in `turned`. */
static void turn(const qg_gemm_problem *p, const float *b, slab *s, float *turned)
{
    const float *from = b + s->first * p->ldb + s->k;
    int64_t columns, terms;
    assert(s->terms * s->n <= QG_REF_GATHERED);
    turn_squares(from, p->ldb, s, turned, &columns, &terms);
    for (int64_t j = 0; j < s->n; j++)
        for (int64_t k = j < columns ? terms : 0; k < s->terms; k++)
            turned[k * s->n + j] = from[j * p->ldb + k];
    s->b = turned;
    s->ld = s->n;
}

/* Whether c becomes the sums as they are. */
static bool is_plain(const qg_gemm_problem *p, const slab *s)
{
    return s->k == 0 && p->beta == 0 && (float)p->alpha == 1;
}

/* The slab's part of a row of c. */
static void merge(const qg_gemm_problem *p, const slab *s, const float *part, float *to)
{
    const float alpha = (float)p->alpha, beta = (float)p->beta;
    if (s->k)
        qg_ref_add_row(true, to, part, 1, alpha, s->n);
    else if (p->beta == 0)
        for (int64_t j = 0; j < s->n; j++)
            to[j] = part[j] * alpha;
    else if (alpha == 1 && beta == 1) /* what fmaf gives, without a call */
        for (int64_t j = 0; j < s->n; j++)
            to[j] = part[j] + to[j];
    else
        for (int64_t j = 0; j < s->n; j++)
            to[j] = __builtin_fmaf(part[j], alpha, to[j] * beta);
}

static void add_slab(const qg_gemm_problem *p, const slab *s, const float *a, float *c)
{
    float part[QG_REF_ROWS * CHUNK];
    qg_ref_slab rows = { .terms = s->terms,
                         .columns = s->n,
                         .a_row = p->trans_a ? 1 : p->lda,
                         .a_term = p->trans_a ? p->lda : 1,
                         .b = s->b,
                         .ldb = s->ld,
                         .ld_sum = is_plain(p, s) ? p->ldc : s->n };
    for (int64_t i = 0; i < p->m; i += rows.rows) {
        rows.rows = p->m - i < QG_REF_ROWS ? p->m - i : QG_REF_ROWS;
        rows.a = a + i * rows.a_row + s->k * rows.a_term;
        float *to = c + i * p->ldc + s->first;
        qg_ref_sum_slab(&rows, is_plain(p, s) ? to : part);
        for (int64_t r = 0; !is_plain(p, s) && r < rows.rows; r++)
            merge(p, s, part + r * s->n, to + r * p->ldc);
    }
}

static void fused(const qg_gemm_problem *p, const float *a, const float *b, float *c)
{
    float turned[QG_REF_GATHERED];
    int64_t slice = qg_ref_slice(p->trans_a ? p->k : p->n, p->k);
    int64_t room = QG_REF_GATHERED / slice < CHUNK ? QG_REF_GATHERED / slice : CHUNK;
    for (slab s = { .first = 0 }; s.first < p->n; s.first += s.n) {
        s.n = p->n - s.first < room ? p->n - s.first : room;
        for (s.k = 0; s.k < p->k; s.k += s.terms) {
            s.terms = p->k - s.k < slice ? p->k - s.k : slice;
            s.b = b + s.k * p->ldb + s.first;
            s.ld = p->ldb;
            if (p->trans_b)
                turn(p, b, &s, turned);
            add_slab(p, &s, a, c);
        }
    }
}

/* No terms: the present value times beta. */
static void without_terms(const qg_gemm_problem *p, float *c)
{
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++)
            c[i * p->ldc + j] = p->beta != 0 ? (float)p->beta * c[i * p->ldc + j] : 0;
}

void qg_ref_gemm_f32(const qg_gemm_problem *p, const float *a, const float *b, float *c)
{
    bool plain = (float)p->alpha == 1 && (p->beta == 0 || (float)p->beta == 1);
    if (p->k == 0)
        without_terms(p, c);
    else if (plain && p->m == 1 && !p->trans_a && p->trans_b)
        dots(p, a, b, p->ldb, p->n, c);
    else if (plain && p->m == 1 && !p->trans_a)
        single_row(p, a, b, p->ldb, p->n, c);
    else if (plain && p->n == 1 && p->ldb == 1 && p->ldc == 1 && !p->trans_a)
        dots(p, b, a, p->lda, p->m, c);
    else if (plain && p->n == 1 && p->ldb == 1 && p->ldc == 1)
        single_row(p, b, a, p->lda, p->m, c);
    else
        fused(p, a, b, c);
}

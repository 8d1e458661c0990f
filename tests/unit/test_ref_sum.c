/* accel/ref_sum.h: slices, trees and fused rows; a product against the order written
 * out term by term.  That it is ONNX Runtime's: tests/scripts/test_sum_order.py. */
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

#include "engine/accel/accel.h"
#include "engine/accel/ref_sum.h"
#include "engine/core/rng.h"

enum { SEED = 4, LONGEST = 700, CELLS = 4096 };

static void slices_grow_when_columns_are_few(void **state)
{
    (void)state;
    static const int64_t n[] = { 1000, 129, 65, 64, 33, 32, 17, 16, 1 };
    static const int64_t terms[] = { 128, 128, 128, 256, 256, 512, 512, 1024, 1024 };
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        assert_int_equal(qg_ref_slice(n[i], 2000), terms[i]);
    assert_int_equal(qg_ref_slice(20, 20), 128); /* not more columns than terms */
    assert_int_equal(qg_ref_row_slice(9, 0), 4);
    assert_int_equal(qg_ref_row_slice(7, 4), 2);
    assert_int_equal(qg_ref_row_slice(7, 6), 1);
}

/* 2^24 + 1 is 2^24: who meets whom shows. */
static void trees_differ_by_row(void **state)
{
    (void)state;
    const float big = 0x1p24f;
    const float lane[] = { big, 1, 1, -big, 0, 0, 0, 0 };
    const float pairs[] = { big, 1, -big, 1, 0, 0, 0, 0 };
    assert_cmp_f64(qg_ref_fold(lane, 3, 7), ==, 0);  /* ((big + 1) + 1) - big */
    assert_cmp_f64(qg_ref_fold(lane, 6, 7), ==, 1);  /* (big + 1) + (1 - big) */
    assert_cmp_f64(qg_ref_fold(pairs, 4, 7), ==, 2); /* (big - big) + (1 + 1) */
    assert_cmp_f64(qg_ref_fold(pairs, 0, 1), ==, 1);
}

/* In vectors or by the C library, with and without gaps. */
static void rows_are_fused(void **state)
{
    (void)state;
    qg_rng rng = { SEED };
    float x[3 * 100], sum[100], want[100];
    for (int64_t step = 1; step <= 3; step++)
        for (int64_t n = 0; n <= 100; n += 7) {
            float w = qg_rng_range(&rng, -1, 1);
            for (int64_t i = 0; i < 300; i++)
                x[i] = qg_rng_range(&rng, -1, 1);
            for (int64_t i = 0; i < n; i++) {
                sum[i] = qg_rng_range(&rng, -1, 1);
                want[i] = (float)fmaf(x[i * step], w, sum[i]);
            }
            qg_ref_add_row(true, sum, x, step, w, n);
            assert_memory_equal(sum, want, (size_t)n * sizeof *sum);
        }
}

enum { ROWS = 9, TERMS = 5, COLUMNS = 40, WIDE = COLUMNS + 3, GAP = 2 };

/* The operands of a slab of any rows and columns. */
typedef struct slab_case {
    float a[ROWS * TERMS], b[TERMS * WIDE], before[ROWS * COLUMNS];
} slab_case;

static float slab_element(const slab_case *c, const qg_ref_slab *s, int64_t i,
                          int64_t j)
{
    float sum = 0;
    for (int64_t t = 0; t < TERMS; t++)
        sum = fmaf(c->b[t * WIDE + j], c->a[t * ROWS + i], sum);
    return s->before ? sum + c->before[i * s->ld_before + j] : sum;
}

/* ld_before: -1 without values before the sums. */
static void try_slab(const slab_case *c, int64_t rows, int64_t n, int64_t ld_before)
{
    float sum[ROWS * (COLUMNS + GAP)] = { 0 };
    const int64_t ld = n + GAP;
    const qg_ref_slab s = { .rows = rows,
                            .terms = TERMS,
                            .columns = n,
                            .a = c->a,
                            .a_row = 1,
                            .a_term = ROWS,
                            .b = c->b,
                            .ldb = WIDE,
                            .ld_sum = ld,
                            .before = ld_before < 0 ? NULL : c->before,
                            .ld_before = ld_before };
    qg_ref_sum_slab(&s, sum);
    for (int64_t i = 0; i < rows * ld; i++) { /* behind the columns of a row, too */
        float want = i % ld < n ? slab_element(c, &s, i / ld, i % ld) : 0;
        assert_cmp_f64(sum[i], ==, want);
    }
}

/* Whole tiles, single rows and columns that are left over; added to nothing, to one row
 * and to rows of their own. */
static void slabs_are_rows(void **state)
{
    (void)state;
    qg_rng rng = { SEED };
    static slab_case c;
    float *all = c.a;
    for (size_t i = 0; i < sizeof c / sizeof *all; i++)
        all[i] = qg_rng_range(&rng, -1, 1);
    for (int64_t rows = 1; rows <= ROWS; rows++)
        for (int64_t n = 1; n <= COLUMNS; n++) {
            try_slab(&c, rows, n, -1);
            try_slab(&c, rows, n, 0);
            try_slab(&c, rows, n, COLUMNS);
        }
}

/* One element in the order of the definition. */
static float element(const qg_gemm_problem *p, const float *a, const float *b,
                     int64_t i, int64_t j)
{
    int64_t ak = p->trans_a ? p->lda : 1, ai = p->trans_a ? 1 : p->lda;
    int64_t bk = p->trans_b ? 1 : p->ldb, bj = p->trans_b ? p->ldb : 1;
    int64_t slice = qg_ref_slice(p->trans_a ? p->k : p->n, p->k);
    float total = 0;
    for (int64_t k = 0; k < p->k;) {
        float sum = 0;
        int64_t begin = k;
        for (; k < p->k && k < begin + slice; k++)
            sum = fmaf(a[i * ai + k * ak], b[k * bk + j * bj], sum);
        total = begin ? total + sum : sum;
    }
    return total;
}

static void products_keep_the_order(void **state)
{
    (void)state;
    static const int64_t k[] = { 1, 5, 128, 129, 300, LONGEST }, n[] = { 2, 5 };
    static float a[CELLS], b[CELLS], c[64];
    qg_rng rng = { SEED };
    for (int i = 0; i < CELLS; i++) {
        a[i] = qg_rng_range(&rng, -1, 1);
        b[i] = qg_rng_range(&rng, -1, 1);
    }
    for (int t = 0; t < 4; t++)
        for (size_t q = 0; q < 12; q++) {
            qg_gemm_problem p = { .m = 3,
                                  .n = n[q % 2],
                                  .k = k[q / 2],
                                  .trans_a = t & 1,
                                  .trans_b = t >> 1,
                                  .alpha = 1 };
            p.lda = p.trans_a ? p.m : p.k;
            p.ldb = p.trans_b ? p.k : p.n;
            p.ldc = p.n;
            qg_ref_gemm_f32(&p, a, b, c);
            for (int64_t i = 0; i < p.m * p.n; i++)
                assert_cmp_f64(c[i], ==, element(&p, a, b, i / p.n, i % p.n));
        }
}

/* No terms: nothing is read, C stays or becomes 0. */
static void empty_sums_are_zero(void **state)
{
    (void)state;
    float c[2] = { 3, 4 };
    qg_gemm_problem p = { .m = 1, .n = 2, .ldc = 2, .ldb = 2, .alpha = 1, .beta = 1 };
    qg_ref_gemm_f32(&p, NULL, NULL, c);
    assert_cmp_f64(c[0], ==, 3);
    assert_cmp_f64(c[1], ==, 4);
    p.beta = 0;
    qg_ref_gemm_f32(&p, NULL, NULL, c);
    assert_cmp_f64(c[0], ==, 0);
    assert_cmp_f64(c[1], ==, 0);
}

QG_TEST_MAIN(cmocka_unit_test(slices_grow_when_columns_are_few),
             cmocka_unit_test(trees_differ_by_row), cmocka_unit_test(rows_are_fused),
             cmocka_unit_test(slabs_are_rows),
             cmocka_unit_test(products_keep_the_order),
             cmocka_unit_test(empty_sums_are_zero))

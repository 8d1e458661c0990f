/* Histograms of doubling width: bins by definition, growth, merging, quantiles. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/core/rng.h"
#include "engine/calib/dyadic.h"

static int open_context(void **state)
{
    *state = qg_ctx_new(qg_alloc_libc);
    return *state ? 0 : -1;
}

static int close_context(void **state)
{
    qg_ctx_free(*state);
    return 0;
}

static void add(qg_dyadic *h, float x)
{
    qg_dyadic_widen(h, qg_dyadic_exponent(x, x, h->bins));
    h->count[qg_dyadic_bin(h, x)]++;
}

static void the_exponent_is_the_least_that_holds_both(void **state)
{
    (void)state;
    static const struct {
        float low, high;
        int exponent;
    } row[] = {
        {0,          0,        -120},
        { 0,         1,        -11 }, /* 1 needs bins up to 2 */
        { 0,         0.99f,    -12 },
        { -1,        0,        -12 }, /* -1 is the left edge of the first bin */
        { -1,        1,        -11 },
        { -1.01f,    0,        -11 },
        { -3.5f,     100,      -5  },
        { 0,         1e-38f,   -120},
        { 0,         3e38f,    116 },
        { -0x1p127f, 0x1p127f, 116 },
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        assert_int_equal(qg_dyadic_exponent(row[i].low, row[i].high, 8192),
                         row[i].exponent);
    assert_int_equal(qg_dyadic_exponent(0, 0, 256), -115);
}

/* Whatever the order and the split, counts are those of floor(x / width). */
static void merging_in_any_order_gives_the_definition(void **state)
{
    enum { N = 400, ROUNDS = 60 };
    qg_ctx *ctx = *state;
    qg_rng rng = { 7 };
    for (int round = 0; round < ROUNDS; round++) {
        qg_dyadic part[3], folded;
        float x[N], low = 0, high = 0;
        for (int k = 0; k < 3; k++)
            assert_ok(ctx, qg_dyadic_new(ctx, ctx->arena, 64, &part[k]));
        assert_ok(ctx, qg_dyadic_new(ctx, ctx->arena, 16, &folded));
        for (int i = 0; i < N; i++) {
            float size = ldexpf(1, (int)qg_rng_below(&rng, 30) - 25);
            x[i] = qg_rng_range(&rng, -size, size);
            low = fminf(low, x[i]);
            high = fmaxf(high, x[i]);
            add(&part[qg_rng_below(&rng, 3)], x[i]);
        }
        unsigned first = (unsigned)qg_rng_below(&rng, 3);
        for (unsigned k = 1; k < 3; k++)
            qg_dyadic_merge(&part[first], &part[(first + k) % 3]);
        const qg_dyadic *h = &part[first];
        qg_dyadic_merge(&folded, h);
        assert_int_equal(h->exponent, qg_dyadic_exponent(low, high, 64));
        assert_int_equal(folded.exponent, qg_dyadic_exponent(low, high, 16));
        uint64_t want[64] = { 0 }, coarse[16] = { 0 };
        for (int i = 0; i < N; i++) {
            want[(int)floor(ldexp(x[i], -h->exponent)) + 32]++;
            coarse[(int)floor(ldexp(x[i], -folded.exponent)) + 8]++;
        }
        assert_memory_equal(h->count, want, sizeof want);
        assert_memory_equal(folded.count, coarse, sizeof coarse);
        assert_int_equal(qg_dyadic_total(h), N);
    }
}

static void quantiles_are_spread_within_a_bin(void **state)
{
    qg_ctx *ctx = *state;
    qg_dyadic h;
    assert_ok(ctx, qg_dyadic_new(ctx, ctx->arena, 16, &h));
    for (int i = 0; i < 4; i++)
        add(&h, (float)i); /* bins of width 0.5: [-4, 4) */
    assert_int_equal(h.exponent, -1);
    assert_cmp_f64(qg_dyadic_quantile(&h, 0), ==, 0);
    assert_cmp_f64(qg_dyadic_quantile(&h, 0.25), ==, 0.5);
    assert_cmp_f64(qg_dyadic_quantile(&h, 0.375), ==, 1.25);
    assert_cmp_f64(qg_dyadic_quantile(&h, 1), ==, 3.5);
}

static void absolute_mirrors_and_folds(void **state)
{
    qg_ctx *ctx = *state;
    qg_dyadic h;
    qg_histogram g;
    assert_ok(ctx, qg_dyadic_new(ctx, ctx->arena, 16, &h));
    assert_fails(ctx, qg_dyadic_absolute(ctx, ctx->arena, &h, 3.9, 8, &g), QG_EDATA,
                 "histogram: 0 elements, expected 1 to 2^53");
    static const float x[] = { -3.9f, -0.25f, 0.25f, 1, 2.5f };
    for (int i = 0; i < 5; i++)
        add(&h, x[i]);
    assert_ok(ctx, qg_dyadic_absolute(ctx, ctx->arena, &h, 3.9, 8, &g));
    static const int64_t fine[] = { 2, 0, 1, 0, 0, 1, 0, 1 };
    assert_int_equal(g.bins, 8);
    assert_memory_equal(g.count, fine, sizeof fine);
    assert_cmp_f64(g.edge[0], ==, 0);
    assert_cmp_f64(g.edge[1], ==, 0.5);
    assert_cmp_f64(g.edge[8], ==, 4);
    assert_ok(ctx, qg_dyadic_absolute(ctx, ctx->arena, &h, 3.9, 3, &g));
    static const int64_t coarse[] = { 3, 2 };
    assert_int_equal(g.bins, 2);
    assert_memory_equal(g.count, coarse, sizeof coarse);
    assert_cmp_f64(g.edge[2], ==, 4);
}

/* As numpy.histogram: the last bin holds its right edge. */
static void the_largest_value_has_no_bin_of_its_own(void **state)
{
    qg_ctx *ctx = *state;
    qg_dyadic h;
    qg_histogram g;
    static const float x[] = { 4, 4, 3.9f, -4, 1 };
    static const int64_t fine[] = { 0, 1, 0, 4 }, one[] = { 5 };
    assert_ok(ctx, qg_dyadic_new(ctx, ctx->arena, 16, &h));
    for (int i = 0; i < 5; i++)
        add(&h, x[i]);
    assert_ok(ctx, qg_dyadic_absolute(ctx, ctx->arena, &h, 4, 4, &g));
    assert_int_equal(g.bins, 4);
    assert_memory_equal(g.count, fine, sizeof fine);
    assert_cmp_f64(g.edge[4], ==, 4);
    assert_ok(ctx, qg_dyadic_absolute(ctx, ctx->arena, &h, 4, 1, &g));
    assert_int_equal(g.bins, 1);
    assert_memory_equal(g.count, one, sizeof one);
    assert_cmp_f64(g.edge[1], ==, 4);
    assert_ok(ctx, qg_dyadic_absolute(ctx, ctx->arena, &h, 4.5, 8, &g));
    assert_int_equal(g.bins, 5); /* something larger may be in the bin from 4 on */
}

#define T(f) cmocka_unit_test_setup_teardown(f, open_context, close_context)

QG_TEST_MAIN(T(the_exponent_is_the_least_that_holds_both),
             T(merging_in_any_order_gives_the_definition),
             T(quantiles_are_spread_within_a_bin), T(absolute_mirrors_and_folds),
             T(the_largest_value_has_no_bin_of_its_own))

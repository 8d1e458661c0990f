/* calib/kl.h: numbers by hand, the fast search against the definition, wrong
 * input. */
#include "tests/support/calibration.h"

#include <math.h>

#include "engine/core/rng.h"
#include "engine/calib/kl.h"

static qg_histogram counted(const fixture *f, size_t bins, const int64_t *count)
{
    qg_histogram h;
    assert_ok(f->ctx, qg_histogram_new(f->ctx, f->arena, bins, (double)bins, &h));
    for (size_t j = 0; j < bins; j++)
        h.count[j] = count[j];
    return h;
}

static bool near(double a, double b) { return fabs(a - b) <= 1e-12; }

/* Bins 4 2 1 1 in two levels.  i = 2: p = 4 4, q = 4 2 of 6.  i = 4: p as it is,
 * q = 3 3 1 1. */
static void divergences_by_hand(void **state)
{
    const fixture *f = *state;
    qg_histogram h = counted(f, 4, (int64_t[]){ 4, 2, 1, 1 });
    qg_kl k = { QG_KL_NVIDIA, 2, 2, 2 };
    double d[2], two = 0.5 * log(0.5 / (4 / 6.0)) + 0.5 * log(0.5 / (2 / 6.0));
    double four = 0.5 * log(4 / 3.0) + 0.25 * log(2 / 3.0);
    qg_range_choice c;
    k.variant = QG_KL_SEED; /* eps moves each by about 1e-6 */
    assert_ok(f->ctx, qg_kl_search_plain(f->ctx, f->arena, &k, &h, d, &c));
    assert_cmp_f64(fabs(d[0] - two), <, 1e-6);
    assert_cmp_f64(fabs(d[1] - four), <, 1e-6);
    assert_int_equal(c.index, four <= two ? 4 : 2);
    assert_cmp_f64(c.high, ==, (double)c.index);
    /* The zero bin takes its neighbour's count: 2 2 1 1 needs no rounding. */
    k.variant = QG_KL_NVIDIA;
    assert_ok(f->ctx, qg_kl_search_plain(f->ctx, f->arena, &k, &h, d, &c));
    assert_true(near(d[1], 0));
    assert_int_equal(c.index, 4);
    assert_int_equal(h.count[0], 4);
}

static void last_minimum_wins(void **state)
{
    const fixture *f = *state;
    qg_histogram h = counted(f, 6, (int64_t[]){ 3, 3, 0, 0, 0, 0 });
    qg_kl k = { QG_KL_NVIDIA, 2, 2, 1 };
    qg_range_choice plain, fast;
    assert_ok(f->ctx, qg_kl_search_plain(f->ctx, f->arena, &k, &h, NULL, &plain));
    assert_ok(f->ctx, qg_kl_search(f->ctx, f->arena, &k, &h, NULL, &fast));
    assert_int_equal(plain.index, 6);
    assert_int_equal(fast.index, 6);
    assert_cmp_f64(plain.loss, ==, fast.loss);
}

/* Sparse and dense counts, even and falling, few and many levels, every variant and
 * stride; what is passed over when nobody asks for divergences changes no choice. */
static void fast_search_equals_the_definition(void **state)
{
    const fixture *f = *state;
    enum { BINS = 96 };
    for (uint64_t seed = 1; seed <= 600; seed++) {
        qg_rng rng = { seed };
        int64_t count[BINS];
        double plain[BINS], fast[BINS];
        uint32_t sparse = 1 + qg_rng_below(&rng, 4), fall = qg_rng_below(&rng, 3);
        for (size_t j = 0; j < BINS; j++)
            count[j] = qg_rng_below(&rng, sparse + 1)
                           ? (int64_t)qg_rng_below(&rng, 1 + (1000 >> (fall * j / 12)))
                           : 0;
        count[1] += 1;
        qg_histogram h = counted(f, BINS, count);
        qg_kl k = { (qg_kl_variant)(seed % 3), 1 + qg_rng_below(&rng, 40),
                    1 + qg_rng_below(&rng, 40), 1 + qg_rng_below(&rng, 3) };
        qg_range_choice a, b, c;
        assert_ok(f->ctx, qg_kl_search_plain(f->ctx, f->arena, &k, &h, plain, &a));
        assert_ok(f->ctx, qg_kl_search(f->ctx, f->arena, &k, &h, fast, &b));
        assert_ok(f->ctx, qg_kl_search(f->ctx, f->arena, &k, &h, NULL, &c));
        assert_int_equal(c.index, b.index);
        assert_cmp_f64(c.loss, ==, b.loss);
        assert_cmp_f64(c.high, ==, b.high);
        for (size_t i = 0; i < qg_kl_candidates(&k, BINS); i++)
            if (!(plain[i] == fast[i] || near(plain[i], fast[i])))
                fail_msg("seed %d, candidate %zu: %.17g and %.17g", (int)seed, i,
                         plain[i], fast[i]);
        if (a.index != b.index || a.loss != b.loss)
            fail_msg("seed %d: chose %zu and %zu", (int)seed, a.index, b.index);
        qg_arena_reset(f->arena);
    }
}

/* What fits the levels without rounding has PPQ's divergence 0 at all bins. */
static void ppq_crushes_zero_and_takes_the_first(void **state)
{
    const fixture *f = *state;
    qg_histogram h = counted(f, 8, (int64_t[]){ 900, 1, 5, 5, 2, 2, 0, 0 });
    double d[2];
    qg_range_choice c;
    assert_ok(f->ctx, qg_kl_ppq(f->ctx, f->arena, &h, 4, d, &c));
    assert_cmp_f64(fabs(d[1]), <, 1e-7);
    assert_cmp_f64(d[0], >, 0.001);
    assert_int_equal(c.index, 8);
    assert_cmp_f64(c.high, ==, 8);
    assert_fails(f->ctx, qg_kl_ppq(f->ctx, f->arena, &h, 3, d, &c), QG_ECONFIG,
                 "ppq-kl: 3 levels on 8 bins, expected a divisor of the bins above 0");
}

static void ncnn_shares_bins_between_groups(void **state)
{
    const fixture *f = *state;
    qg_histogram h = counted(f, 4, (int64_t[]){ 2, 1, 1, 0 });
    float d[2];
    qg_range_choice c;
    assert_ok(f->ctx, qg_kl_ncnn(f->ctx, f->arena, &h, 2, d, &c));
    /* t = 3: groups [0, 1.5) and [1.5, 3) hold 2.5 / 4 and 1.5 / 4. */
    double a = 0.625 / 1.5, b = 0.375 / 1.5, e = 1e-4;
    double p[] = { 0.5, 0.25, 0.25 }, q[] = { a, (a + b) / 2, b }, sum = 0;
    for (int j = 0; j < 3; j++)
        sum += (p[j] + e) * log((p[j] + e) / (q[j] + e));
    assert_cmp_f64(fabs((double)d[1] - sum), <, 1e-6);
    assert_int_equal(c.index, d[1] < d[0] ? 3 : 2);
    assert_cmp_f64(c.high, ==, (double)c.index + 0.5);
    assert_fails(f->ctx, qg_kl_ncnn(f->ctx, f->arena, &h, 4, d, &c), QG_ECONFIG,
                 "ncnn-kl: 4 levels, expected 2 to 3");
}

static void wrong_input_is_refused(void **state)
{
    const fixture *f = *state;
    qg_kl k = { QG_KL_SEED, 2, 5, 1 };
    qg_range_choice c = { .index = 77 };
    qg_histogram h = counted(f, 4, (int64_t[]){ 4, 2, 1, 1 });
    assert_fails(f->ctx, qg_kl_search(f->ctx, f->arena, &k, &h, NULL, &c), QG_ECONFIG,
                 "seed-kl: 2 levels, start 5, stride 1, expected 1 to 4");
    k = (qg_kl){ QG_KL_NVIDIA, 2, 2, 1 };
    h.count[2] = -1;
    assert_fails(f->ctx, qg_kl_search(f->ctx, f->arena, &k, &h, NULL, &c), QG_EDATA,
                 "nvidia-kl: bin 2: count -1 after a total of 6, expected counts >= 0");
    h = counted(f, 4, (int64_t[]){ 9, 0, 0, 0 });
    assert_fails(f->ctx, qg_kl_search(f->ctx, f->arena, &k, &h, NULL, &c), QG_EDATA,
                 "nvidia-kl: all counts are in the bin of zero");
    assert_int_equal(c.index, 77);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

QG_TEST_MAIN(TEST(divergences_by_hand), TEST(last_minimum_wins),
             TEST(fast_search_equals_the_definition),
             TEST(ppq_crushes_zero_and_takes_the_first),
             TEST(ncnn_shares_bins_between_groups), TEST(wrong_input_is_refused))

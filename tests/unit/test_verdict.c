/* Whether a change of losses counts as a gain: engine/learn/verdict.h. */
#include <math.h>

#include "engine/core/rng.h"
#include "engine/learn/verdict.h"
#include "tests/support/test.h"

enum { N = 8 };

static bool better(const double *after)
{
    static const double before[N] = { 1, 2, 3, 4, 1, 2, 3, 4 };
    return qg_is_better(before, after, N, QG_ONE_IN_SIX);
}

static void clear_gains_count(void **state)
{
    (void)state;
    assert_true(better((double[N]){ .9, 1.9, 2.8, 3.7, .8, 1.9, 2.7, 3.8 }));
    assert_false(better((double[N]){ 1.1, 2, 3, 4, 1, 2, 3, 4 }));
    assert_false(better((double[N]){ 1, 2, 3, 4, 1, 2, 3, 4 }));
}

/* Mean 5 % less, but the standard error of the logarithms is larger. */
static void gains_by_chance_do_not_count(void **state)
{
    (void)state;
    assert_false(better((double[N]){ 1.5, 1.2, 4, 3, .7, 2.6, 2, 4 }));
    assert_false(better((double[N]){ 1.2, 2.4, 3.6, 4.8, 1.2, 2.4, 3.6, .1 }));
}

static void nan_is_never_better(void **state)
{
    (void)state;
    assert_false(better((double[N]){ 0, 0, 0, 0, 0, 0, 0, NAN }));
    assert_false(
        qg_is_better((double[2]){ 0, 0 }, (double[2]){ 0, 0 }, 2, QG_ONE_IN_SIX));
}

static void one_sample_must_gain_a_fifth(void **state)
{
    (void)state;
    assert_true(qg_is_better((double[1]){ 1 }, (double[1]){ 0.79 }, 1, QG_ONE_IN_SIX));
    assert_false(qg_is_better((double[1]){ 1 }, (double[1]){ 0.81 }, 1, QG_ONE_IN_SIX));
}

/* Logarithms of about 0.35 and 0.1: 1.8 standard errors. */
static void two_samples_must_agree(void **state)
{
    (void)state;
    assert_false(
        qg_is_better((double[2]){ 1, 1 }, (double[2]){ .7, .92 }, 2, QG_ONE_IN_SIX));
    assert_true(
        qg_is_better((double[2]){ 1, 1 }, (double[2]){ .7, .89 }, 2, QG_ONE_IN_SIX));
}

/* Changes that mean nothing: one standard error is exceeded by 16 % of them, and the
 * mean must be less as well. */
static void noise_is_seldom_a_gain(void **state)
{
    qg_rng r = { 5 };
    int gains = 0;
    (void)state;
    for (int turn = 0; turn < 1000; turn++) {
        double before[N], after[N];
        for (int i = 0; i < N; i++) {
            before[i] = (double)qg_rng_range(&r, 1, 2);
            after[i] = (double)qg_rng_range(&r, 1, 2);
        }
        gains += qg_is_better(before, after, N, QG_ONE_IN_SIX);
    }
    assert_cmp_int(gains, <, 220);
    assert_cmp_int(gains, >, 100);
}

/* The network's chance: 5 %, which two samples seldom give. */
static void a_network_needs_more(void **state)
{
    double before[N], after[N];
    qg_rng r = { 6 };
    int gains = 0;
    (void)state;
    for (int turn = 0; turn < 1000; turn++) {
        for (int i = 0; i < N; i++) {
            before[i] = (double)qg_rng_range(&r, 1, 2);
            after[i] = (double)qg_rng_range(&r, 1, 2);
        }
        gains += qg_is_better(before, after, N, QG_ONE_IN_TWENTY);
    }
    assert_cmp_int(gains, <, 75);
    assert_cmp_int(gains, >, 25);
    assert_false(
        qg_is_better((double[2]){ 1, 1 }, (double[2]){ .7, .89 }, 2, QG_ONE_IN_TWENTY));
    assert_false(
        qg_is_better((double[1]){ 1 }, (double[1]){ .7 }, 1, QG_ONE_IN_TWENTY));
    assert_true(qg_is_better((double[1]){ 1 }, (double[1]){ .6 }, 1, QG_ONE_IN_TWENTY));
}

/* Two judge, six taught: these make a gain clear that the judges show as well. */
static void samples_that_taught_have_a_part(void **state)
{
    const double before[N] = { 1, 2, 3, 4, 1, 2, 3, 4 };
    const double gain[N] = { .9, 1.9, 1, 1.5, .4, .6, 1.2, 1.1 };
    const double none[N] = { 1.1, 2, 1, 1.5, .4, .6, 1.2, 1.1 };
    const double other[N] = { .9, 1.9, 3.3, 3.9, 1.2, 1.9, 3, 4 };
    (void)state;
    assert_true(qg_is_network_better(before, gain, 2, N));
    assert_false(qg_is_network_better(before, gain, 2, 2));
    assert_false(qg_is_network_better(before, none, 2, N));
    assert_false(qg_is_network_better(before, other, 2, N));
    assert_false(qg_is_network_better(before, gain, 0, N));
}

/* The two that judge do not agree. */
static void what_taught_counts_a_third(void **state)
{
    const double before[N] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    const double after[N] = { 1.3, .6, .8, .75, .8, .75, .8, .75 };
    (void)state;
    assert_true(qg_is_better(before, after, N, QG_ONE_IN_TWENTY));
    assert_false(qg_is_network_better(before, after, 2, N));
}

static void every_fourth_sample_judges(void **state)
{
    (void)state;
    for (size_t n = 1; n < 40; n++) {
        size_t judges = 0, both = 0;
        for (size_t i = 0; i < n; i++) {
            judges += qg_judges((qg_tune_samples){ .n = n }, i);
            both += qg_judges((qg_tune_samples){ .n = n }, i) &&
                    qg_teaches((qg_tune_samples){ .n = n }, i);
        }
        assert_cmp_int(judges, ==, n < 4 ? n : n / 4);
        assert_cmp_int(qg_n_judges((qg_tune_samples){ .n = n }), ==, judges);
        assert_cmp_int(both, ==, n < 4 ? n : 0);
    }
}

static void a_holdout_judges_alone(void **state)
{
    (void)state;
    for (size_t n = 2; n < 12; n++) {
        const qg_tune_samples s = { .n = n, .holdout = n / 2, .mixed = 3 };
        for (size_t i = 0; i < n; i++) {
            assert_cmp_int(qg_judges(s, i), ==, i >= n - n / 2);
            assert_cmp_int(qg_teaches(s, i), ==, i < n - n / 2);
        }
        assert_cmp_int(qg_n_judges(s), ==, n / 2);
    }
}

static void what_is_not_finite_is_worse(void **state)
{
    (void)state;
    const double fine[] = { 1, 2, 3, 4 }, wrong[] = { 1, 2, 3, NAN };
    const double beyond[] = { INFINITY, 2, 3, 4 };
    assert_true(qg_is_better(wrong, fine, 4, QG_ONE_IN_TWENTY));
    assert_true(qg_is_better(beyond, fine, 4, QG_ONE_IN_TWENTY));
    assert_false(qg_is_better(fine, wrong, 4, QG_ONE_IN_SIX));
    assert_false(qg_is_better(wrong, wrong, 4, QG_ONE_IN_SIX));
}

/* Six are classified well and stay so, two had been wrong. */
static void classes_have_differences(void **state)
{
    const double before[N] = { .001, .002, .001, .003, .002, .001, 1.9, 2.1 };
    const double after[N] = { .02, .03, .02, .04, .03, .02, .3, .2 };
    const double one[N] = { .02, .03, .02, .04, .03, .02, .3, 2.2 };
    (void)state;
    assert_false(qg_is_better(before, after, N, QG_ONE_IN_TWENTY));
    assert_false(qg_is_classifier_better(before, one, N));
    assert_false(qg_is_classifier_better(after, before, N));
    assert_false(qg_is_classifier_better(before, before, N));
    assert_false(qg_is_classifier_better(before, (double[N]){ NAN }, N));
    assert_false(qg_is_classifier_better((double[1]){ 1 }, (double[1]){ .7 }, 1));
    assert_true(qg_is_classifier_better((double[1]){ 1 }, (double[1]){ .6 }, 1));
    const double many[N] = { .001, 1.9, .002, 2.1, .003, 1.8, 1.7, 2.1 };
    const double most[N] = { .02, .3, .03, .4, .04, .2, .5, .3 };
    assert_false(qg_is_better(many, most, N, QG_ONE_IN_TWENTY));
    assert_true(qg_is_classifier_better(many, most, N));
}

QG_TEST_MAIN(cmocka_unit_test(classes_have_differences),
             cmocka_unit_test(what_is_not_finite_is_worse),
             cmocka_unit_test(samples_that_taught_have_a_part),
             cmocka_unit_test(what_taught_counts_a_third),
             cmocka_unit_test(clear_gains_count),
             cmocka_unit_test(a_holdout_judges_alone),
             cmocka_unit_test(gains_by_chance_do_not_count),
             cmocka_unit_test(nan_is_never_better),
             cmocka_unit_test(one_sample_must_gain_a_fifth),
             cmocka_unit_test(two_samples_must_agree),
             cmocka_unit_test(noise_is_seldom_a_gain),
             cmocka_unit_test(a_network_needs_more),
             cmocka_unit_test(every_fourth_sample_judges))

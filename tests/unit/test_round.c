/* number/round.h: the truth table of all modes, and exactness everywhere else. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/core/rng.h"
#include "engine/number/round.h"

/* clang-format off */
/* Source: docs/evidence/grids.md#rounding. */
static const float tie[] =          { -2.5f, -1.5f, -0.5f, 0.5f, 1.5f, 2.5f };
static const float rounded[QG_NROUNDING][6] = {
    [QG_ROUND_HALF_EVEN]        = { -2, -2,  0, 0, 2, 2 },
    [QG_ROUND_HALF_UP]          = { -2, -1,  0, 1, 2, 3 },
    [QG_ROUND_HALF_DOWN]        = { -3, -2, -1, 0, 1, 2 },
    [QG_ROUND_HALF_TOWARD_ZERO] = { -2, -1,  0, 0, 1, 2 },
    [QG_ROUND_HALF_AWAY]        = { -3, -2, -1, 1, 2, 3 },
    [QG_ROUND_NEAR_INT]         = { -3, -2, -1, 1, 2, 3 },
    [QG_ROUND_UP]               = { -2, -1,  0, 1, 2, 3 },
    [QG_ROUND_DOWN]             = { -3, -2, -1, 0, 1, 2 },
    [QG_ROUND_HALF_EVEN_LEVEL]  = { -2, -2,  0, 0, 2, 2 },
};
/* clang-format on */

#define EACH_MODE(r) (qg_rounding r = 0; r < QG_NROUNDING; r++)

static void ties_follow_the_table(void **state)
{
    (void)state;
    for
        EACH_MODE(r)
    for (int i = 0; i < 6; i++) {
        assert_cmp_f64(qg_round_f32(r, tie[i]), ==, rounded[r][i]);
        assert_cmp_f64(qg_round_f64(r, tie[i]), ==, rounded[r][i]);
        assert_cmp_f64(qg_round_shift(r, (int64_t)(tie[i] * 2), 1), ==, rounded[r][i]);
    }
}

static void neighbours_of_ties_are_not_ties(void **state)
{
    (void)state;
    for
        EACH_MODE(r)
    for (int i = 0; i < 6; i++) {
        float up = nextafterf(tie[i], 9), down = nextafterf(tie[i], -9);
        float above = r == QG_ROUND_DOWN ? floorf(up) : ceilf(up);
        float below = r == QG_ROUND_UP ? ceilf(down) : floorf(down);
        assert_cmp_f64(qg_round_f32(r, up), ==, above);
        assert_cmp_f64(qg_round_f32(r, down), ==, below);
    }
    for
        EACH_MODE(r)
        { /* where x + 0.5 in float32 goes wrong */
            float up = r == QG_ROUND_UP;
            assert_cmp_f64(qg_round_f32(r, 0.49999997f), ==, up);
            assert_cmp_f64(qg_round_f64(r, 0.49999999999999994), ==, up);
            assert_cmp_f64(qg_round_f32(r, -0.49999997f), ==,
                           -(float)(r == QG_ROUND_DOWN));
        }
}

static void integers_and_specials_pass(void **state)
{
    (void)state;
    static const float same[] = { 8388608.0f, 8388609.0f, -8388609.0f, 16777215.0f,
                                  1e30f,      -3.0f,      INFINITY,    -INFINITY };
    for
        EACH_MODE(r)
        {
            for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
                assert_cmp_f64(qg_round_f32(r, same[i]), ==, same[i]);
                assert_cmp_f64(qg_round_f64(r, same[i]), ==, same[i]);
            }
            assert_true(isnan(qg_round_f32(r, NAN)));
            assert_true(isnan(qg_round_f64(r, NAN)));
            assert_true(signbit(qg_round_f32(r, -0.0f)));
            assert_false(signbit(qg_round_f32(r, 0.0f)));
        }
    assert_cmp_f64(qg_round_f64(QG_ROUND_HALF_EVEN, 4503599627370495.5), ==, 0x1p52);
}

/* Every mode, on values whose float form is exact, three ways. */
static void integers_round_as_doubles_do(void **state)
{
    (void)state;
    qg_rng rng = { 11 };
    for (int i = 0; i < 200000; i++) {
        unsigned shift = 1 + (unsigned)qg_rng_below(&rng, 20);
        int64_t v = (int64_t)(qg_rng_next(&rng) >> (16 + qg_rng_below(&rng, 40)));
        v = i & 1 ? -v : v;
        double x = ldexp((double)v, -(int)shift);
        for
            EACH_MODE(r)
        assert_cmp_f64((double)qg_round_shift(r, v, shift), ==, qg_round_f64(r, x));
    }
}

static void library_functions_agree(void **state)
{
    (void)state;
    qg_rng rng = { 12 };
    for (int i = 0; i < 200000; i++) {
        uint32_t bits = (uint32_t)qg_rng_next(&rng);
        float x;
        memcpy(&x, &bits, sizeof x);
        if (isnan(x))
            continue;
        assert_cmp_f64(qg_round_f32(QG_ROUND_HALF_EVEN, x), ==, rintf(x));
        assert_cmp_f64(qg_round_f32(QG_ROUND_HALF_AWAY, x), ==, roundf(x));
        assert_cmp_f64(qg_round_f32(QG_ROUND_UP, x), ==, ceilf(x));
        assert_cmp_f64(qg_round_f32(QG_ROUND_DOWN, x), ==, floorf(x));
        assert_cmp_f64(qg_round_f32(QG_ROUND_HALF_UP, x), ==, (float)floor(x + 0.5));
        assert_cmp_f64(qg_round_f32(QG_ROUND_HALF_DOWN, x), ==, (float)ceil(x - 0.5));
    }
}

static void shifts_reach_the_ends(void **state)
{
    (void)state;
    for
        EACH_MODE(r)
        {
            assert_int_equal(qg_round_shift(r, INT64_MIN, 0), INT64_MIN);
            assert_int_equal(qg_round_shift(r, INT64_MAX, 0), INT64_MAX);
            assert_int_equal(qg_round_shift(r, INT64_MIN, 62), -2);
            assert_int_equal(qg_round_shift(r, INT64_MAX, 62),
                             r == QG_ROUND_DOWN ? 1 : 2);
            assert_int_equal(qg_round_shift(r, 0, 62), 0);
        }
}

static void names_read_back(void **state)
{
    (void)state;
    for
        EACH_MODE(r)
    assert_int_equal(qg_rounding_named(qg_rounding_name(r)), r);
    assert_string_equal(qg_rounding_name(QG_ROUND_HALF_AWAY), "half-away-from-zero");
    assert_int_equal(qg_rounding_named("half-odd"), -1);
}

static void nan_rules_have_a_number(void **state)
{
    (void)state;
    assert_true(isnan(qg_nan_value(QG_NAN_KEEP)));
    assert_cmp_f64(qg_nan_value(QG_NAN_LOWEST), ==, -INFINITY);
    assert_cmp_f64(qg_nan_value(QG_NAN_ZERO), ==, 0);
    assert_cmp_f64(qg_nan_value(QG_NAN_HIGHEST), ==, INFINITY);
    for (qg_nan n = 0; n < QG_NNAN; n++)
        assert_int_equal(qg_nan_named(qg_nan_name(n)), n);
    assert_int_equal(qg_nan_named("low"), -1);
}

QG_TEST_MAIN(cmocka_unit_test(ties_follow_the_table),
             cmocka_unit_test(neighbours_of_ties_are_not_ties),
             cmocka_unit_test(integers_and_specials_pass),
             cmocka_unit_test(integers_round_as_doubles_do),
             cmocka_unit_test(library_functions_agree),
             cmocka_unit_test(shifts_reach_the_ends), cmocka_unit_test(names_read_back),
             cmocka_unit_test(nan_rules_have_a_number))

/* qg_scheme_from_range against numbers of docs/evidence/grids.md#range-to-scale. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/core/rng.h"
#include "engine/quant/fake.h"

enum {
    SYM = QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC,
    ASYM = QG_PER_TENSOR | QG_LINEAR | QG_ASYMMETRIC,
    POW2 = QG_POWER_OF_2,
    FLOATING = QG_PER_TENSOR | QG_FLOATING | QG_SYMMETRIC | QG_POWER_OF_2
};
enum { PPQ = QG_RANGE_PPQ_OFFSET | QG_RANGE_PPQ_POW2_OFFSET };

/* clang-format off */
static const struct {
    uint16_t policy;
    int64_t qmin, qmax;
    double low, high, scale;
    int32_t offset, ppq_offset;
} golden[] = {
    { SYM,        -128, 127, -1, 1,       0.00784313725490196,    0,    0 },
    { SYM,        -128, 127, 0.5, 3,      0.023529411764705882,   0,    0 },
    { SYM,        0, 255,    0, 4,        0.01568627450980392,    0,    0 },
    { SYM,        0, 255,    -1, 4,       0.01568627450980392,    0,    0 },
    { SYM,        0, 15,     0.5, 3,      0.2,                    0,    0 },
    { SYM | POW2, 0, 255,    0, 4,        0.015625 * 2,           0,    0 },
    { SYM,        -127, 127, -1, 1,       0.007874015748031496,   0,    0 },
    { SYM,        -127, 127, -0.3, 6,     0.047244094488188976,   0,    0 },
    { ASYM,       0, 255,    -1, 1,       0.00784313725490196,    128,  128 },
    { ASYM,       0, 255,    -2, 1,       0.011764705882352941,   170,  170 },
    { ASYM,       0, 255,    0.5, 3,      0.011764705882352941,   0,    0 },
    { ASYM,       0, 255,    -3, -1,      0.011764705882352941,   255,  255 },
    { ASYM,       0, 255,    -0.3, 6,     0.024705882352941175,   12,   12 },
    { ASYM,       0, 255,    0, 0,        1e-08,                  0,    0 },
    { SYM,        -128, 127, -1e-9, 1e-9, 1e-08,                  0,    0 },
    { ASYM,       -128, 127, -1, 1,       0.00784313725490196,    0,    128 },
    { SYM | POW2, -128, 127, -1, 1,       0.015625,               0,    0 },
    { SYM | POW2, -128, 127, 0, 0,        1.4901161193847656e-08, 0,    0 },
    { ASYM | POW2, 0, 255,   -2, 1,       0.015625,               128,  170 },
    { ASYM | POW2, 0, 255,   -0.3, 6,     0.03125,                10,   12 },
};
/* clang-format on */

static qg_scheme scheme(uint16_t policy, int64_t qmin, int64_t qmax)
{
    return (qg_scheme){
        .policy = policy, .bits = 8, .axis = -1, .qmin = qmin, .qmax = qmax
    };
}

static void table_holds_with_and_without_quirks(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        qg_scheme s = scheme(golden[i].policy, golden[i].qmin, golden[i].qmax);
        float scale;
        int32_t offset;
        qg_scheme_from_range(&s, (qg_range){ golden[i].low, golden[i].high, 0, 0 },
                             &scale, &offset);
        assert_cmp_f64(scale, ==, (float)golden[i].scale);
        assert_int_equal(offset, golden[i].offset);
        qg_scheme_from_range(&s, (qg_range){ golden[i].low, golden[i].high, 1e-8, PPQ },
                             &scale, &offset);
        assert_cmp_f64(scale, ==, (float)golden[i].scale);
        assert_int_equal(offset, golden[i].ppq_offset);
    }
}

/* Zero is on the grid, the offset within the range, the range within a step of it. */
static void any_range_gives_a_usable_grid(void **state)
{
    (void)state;
    static const uint16_t policies[] = { SYM, ASYM, SYM | POW2, ASYM | POW2 };
    qg_rng rng = { 5 };
    for (int i = 0; i < 20000; i++) {
        bool is_signed = i & 4;
        qg_scheme s =
            scheme(policies[i & 3], is_signed ? -128 : 0, is_signed ? 127 : 255);
        double size = ldexp(1, (int)qg_rng_below(&rng, 240) - 120);
        double low = qg_rng_range(&rng, -1, 1) * size;
        double high = low + qg_rng_float(&rng) * size;
        float scale;
        int32_t offset;
        qg_scheme_from_range(&s, (qg_range){ low, high, 1e-38, 0 }, &scale, &offset);
        assert_cmp_f64(scale, >, 0);
        assert_true(isfinite(scale));
        assert_in_range(offset - s.qmin, 0, s.qmax - s.qmin);
        double top = ((double)s.qmax - offset) * scale;
        double bottom = ((double)s.qmin - offset) * scale;
        if (s.policy & QG_ASYMMETRIC) {
            assert_cmp_f64(top, >, high - scale);
            assert_cmp_f64(bottom, <, low + scale);
        }
        if (s.policy & QG_POWER_OF_2)
            assert_cmp_f64(scale, ==, ldexpf(1, ilogbf(scale)));
    }
}

/* PPQ's arithmetic spends half of an unsigned symmetric grid on values below zero. */
static void ppq_spreads_an_unsigned_grid_over_both_signs(void **state)
{
    (void)state;
    qg_scheme s = scheme(SYM, 0, 255);
    float scale;
    int32_t offset;
    qg_scheme_from_range(&s, (qg_range){ 0, 4, 0, QG_RANGE_PPQ_UNSIGNED }, &scale,
                         &offset);
    assert_cmp_f64(scale, ==, 8 / 255.0f);
    assert_int_equal(offset, 0);
}

static void the_widest_ranges_stay_finite(void **state)
{
    (void)state;
    static const uint16_t policies[] = { SYM, ASYM, SYM | POW2, ASYM | POW2 };
    for (int i = 0; i < 4; i++) {
        qg_scheme s = scheme(policies[i], -1, 0);
        float scale;
        int32_t offset;
        qg_scheme_from_range(&s, (qg_range){ -3.4e38, 3.4e38, 0, 0 }, &scale, &offset);
        assert_true(isfinite(scale));
        s = scheme(policies[i], 0, UINT32_MAX);
        s.bits = 32;
        qg_scheme_from_range(&s, (qg_range){ -3.4e38, 0, 0, PPQ }, &scale, &offset);
        assert_true(isfinite(scale));
        assert_cmp_int(offset, >=, 0);
    }
}

/* FLOATING: the power of two that avoids clipping, or the MX rule. */
static void floating_scales_are_powers_of_2(void **state)
{
    (void)state;
    static const struct {
        double high;
        float fits, mx;
    } rows[] = {
        {6,      1,        1        },
        { 5,     1,        1        },
        { 4,     1,        1        },
        { 7,     2,        1        },
        { 3,     0.5f,     0.5f     },
        { 0,     0x1p-26f, 0x1p-26f },
        { 1e-30, 0x1p-26f, 0x1p-102f}
    };
    qg_scheme s = scheme(FLOATING, -6, 6);
    s.bits = 4;
    s.exponent_bits = 2;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        float scale;
        int32_t offset;
        qg_scheme_from_range(&s, (qg_range){ -rows[i].high, 0, 0, 0 }, &scale, &offset);
        assert_cmp_f64(scale, ==, rows[i].fits);
        assert_int_equal(offset, 0);
        qg_scheme_from_range(&s, (qg_range){ 0, rows[i].high, 0, QG_RANGE_MX }, &scale,
                             &offset);
        assert_cmp_f64(scale, ==, rows[i].mx);
        assert_int_equal(offset, 0);
    }
}

static void a_format_without_limits_has_its_own(void **state)
{
    (void)state;
    qg_scheme s = scheme(FLOATING, -INT64_MAX, INT64_MAX); /* E3M4 up to 31 */
    s.exponent_bits = 3;
    float scale;
    int32_t offset;
    qg_scheme_from_range(&s, (qg_range){ -31, 0, 0, 0 }, &scale, &offset);
    assert_cmp_f64(scale, ==, 1);
    qg_scheme_from_range(&s, (qg_range){ 0, 31.1, 0, 0 }, &scale, &offset);
    assert_cmp_f64(scale, ==, 2);
}

static void parameters_are_counted(void **state)
{
    (void)state;
    qg_tensor x;
    qg_tensor_init(&x, QG_F32, 3, (int64_t[]){ 4, 6, 10 });
    qg_scheme s = scheme(SYM, -128, 127);
    assert_int_equal(qg_scheme_param_count(&s, &x), 1);
    s.policy = QG_PER_CHANNEL | QG_LINEAR | QG_SYMMETRIC;
    s.axis = 1;
    assert_int_equal(qg_scheme_param_count(&s, &x), 6);
    s.axis = 3;
    assert_int_equal(qg_scheme_param_count(&s, &x), -1);
    s.policy = QG_BLOCK | QG_LINEAR | QG_SYMMETRIC;
    s.axis = 2;
    s.block = 4;
    assert_int_equal(qg_scheme_param_count(&s, &x), 4 * 6 * 3);
    s.block = INT32_MAX;
    assert_int_equal(qg_scheme_param_count(&s, &x), 4 * 6);
}

QG_TEST_MAIN(cmocka_unit_test(table_holds_with_and_without_quirks),
             cmocka_unit_test(any_range_gives_a_usable_grid),
             cmocka_unit_test(ppq_spreads_an_unsigned_grid_over_both_signs),
             cmocka_unit_test(the_widest_ranges_stay_finite),
             cmocka_unit_test(floating_scales_are_powers_of_2),
             cmocka_unit_test(a_format_without_limits_has_its_own),
             cmocka_unit_test(parameters_are_counted))

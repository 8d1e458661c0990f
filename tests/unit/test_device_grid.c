/* qg_grid_*: what observed multiples of a step tell about the scale of a float
 * format. */
#include "tests/support/test.h"

#include "engine/device/grid.h"

static const qg_scheme E4M3 = { .policy = QG_PER_TENSOR | QG_FLOATING | QG_SYMMETRIC |
                                          QG_POWER_OF_2,
                                .bits = 8,
                                .exponent_bits = 4,
                                .axis = -1,
                                .qmin = -448,
                                .qmax = 448 };

/* Multiples of 2^-11, the subnormal step of scale 1/4, up to `high` of them; bits of
 * near: multiples 1 to 15, and -1 to -15 from bit 16 on. */
static qg_seen observed(double high, uint32_t near)
{
    qg_seen o = { .kind = QG_SEEN_CODES, .step = 0x1p-11, .high = high, .levels = 64 };
    for (int k = 1; k < QG_SEEN_NEAR; k++)
        o.near[k] = (uint16_t)((near >> (k - 1) & 1) + (near >> (k + 15) & 1));
    return o;
}

static void many_small_elements_decide(void **state)
{
    (void)state;
    qg_seen o = observed(1000, 0x007f007f);
    assert_true(qg_grid_decides_float(&E4M3, &o));
    o = observed(1000, 0x00050003); /* 1, 2, -1, -3: as likely by chance as 1 in 38 */
    assert_false(qg_grid_decides_float(&E4M3, &o));
    o = observed(1000, 0x7f00); /* 9 .. 15: half the scale has these, too */
    assert_false(qg_grid_decides_float(&E4M3, &o));
}

/* 448 * 2^9 steps are the largest number of scale 1/4; half the scale lacks it. */
static void a_large_element_decides(void **state)
{
    (void)state;
    qg_seen o = observed(448.0 * 512, 0);
    assert_true(qg_grid_decides_float(&E4M3, &o));
    o = observed(448.0 * 256, 0);
    assert_false(qg_grid_decides_float(&E4M3, &o));
    o = observed(0, 0);
    o.low = -448.0 * 512;
    assert_true(qg_grid_decides_float(&E4M3, &o));
}

static void a_record_matches_within_the_bounds(void **state)
{
    (void)state;
    static const float scale[] = { 0.5f, 0.25f, 0.125f, 0.0625f, 0.2f };
    static const bool matches[] = { false, true, true, false, false };
    qg_seen o = observed(448.0 * 256, 0);
    for (size_t i = 0; i < sizeof matches; i++) {
        float s = scale[i];
        int32_t zero = 0;
        qg_tqc t = { .scheme = E4M3, .scale = &s, .offset = &zero, .nparam = 1 };
        t.up = &t;
        print_message("scale %g\n", (double)s);
        assert_int_equal(qg_grid_matches(&t, &o), matches[i]);
    }
}

static void powers_of_two_are_common(void **state)
{
    (void)state;
    assert_true(qg_grid_is_common_step(0.125));
    assert_true(qg_grid_is_common_step(4));
    assert_false(qg_grid_is_common_step(0.12));
    assert_true(qg_grid_same_step(0.1, 0.1 + 1e-8));
    assert_false(qg_grid_same_step(0.1, 0.1001));
}

/* A linear scheme, and a trace of codes low .. high around a zero point. */
typedef struct linear {
    int64_t qmin, qmax;
    uint16_t symmetry;
    int32_t zero;
    int sign;
    double low, high;
    bool fits, usual;
} linear;

static void expect_codes(const linear *c)
{
    float scale = 0.1f;
    int32_t zero = 0;
    qg_tqc t = {
        .observer = { .name = "minmax" }, .scale = &scale, .offset = &zero, .nparam = 1
    };
    qg_seen o = { .kind = QG_SEEN_CODES, .step = 0.1, .zero_known = true };
    t.scheme.policy = (uint16_t)(QG_PER_TENSOR | QG_LINEAR | c->symmetry);
    t.scheme.bits = c->qmax > 255 ? 16 : 8;
    t.scheme.axis = -1;
    t.scheme.qmin = c->qmin;
    t.scheme.qmax = c->qmax;
    t.up = &t;
    o.zero = c->zero;
    o.sign = c->sign;
    o.low = c->low;
    o.high = c->high;
    assert_int_equal(qg_grid_fits(&t, &o), c->fits);
    assert_int_equal(qg_grid_is_usual(&t, &o), c->usual);
}

static void codes_fit_their_scheme(void **state)
{
    (void)state;
    static const uint16_t S = QG_SYMMETRIC, A = QG_ASYMMETRIC;
    const linear cases[] = {
        {-128,    127,   S, 0,    -1, -100,  120,  true,  true },
        { -127,   127,   S, 0,    -1, -128,  120,  false, false},
        { -128,   127,   S, 7,    -1, -100,  120,  false, false},
        { -128,   127,   S, 0,    1,  -100,  120,  false, false}, /* unsigned */
        { -128,   127,   A, -128, -1, 0,     250,  true,  true },
        { -128,   127,   A, 0,    -1, -100,  120,  true,  false},
        { -128,   127,   A, -128, -1, 0,     9,    true,  false}, /* few codes */
        { -128,   127,   S, 0,    -1, -3000, 3000, false, false}, /* 16 bits */
        { -32768, 32767, S, 0,    -1, -100,  100,  true,  false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        expect_codes(&cases[i]);
    }
}

/* The record has scale 0.1 and this offset; what a rule says, "!": does not say; can:
 * the group can have it. */
typedef struct setting {
    int64_t qmin, qmax;
    uint16_t symmetry;
    int32_t offset;
    qg_seen o;
    bool can;
    const char *text;
} setting;

#define CODES(step_, sign_, zero_, low_, high_)                                        \
    {                                                                                  \
        .kind = QG_SEEN_CODES, .step = step_, .zero_known = true, .sign = sign_,       \
        .zero = zero_, .low = low_, .high = high_, .levels = 100                       \
    }
#define STEPS(step_, low_, high_)                                                      \
    {                                                                                  \
        .kind = QG_SEEN_CODES, .step = step_, .low = low_, .high = high_,              \
        .levels = 100                                                                  \
    }
#define ALL(low, high, policy)                                                         \
    ", range: [" low ", " high "], policy: [per-tensor, linear, " policy "]}"

/* clang-format off */
static const setting settings[] = {
    /* zero: of a rule counts from 1 at the lowest code. */
    { -128, 127, QG_ASYMMETRIC, 0, CODES(0.5, -1, 3, -100, 100), true,
      "{observer: fixed, step: 0.5, zero: 132}" },
    { -128, 127, QG_SYMMETRIC, 0, CODES(0.5, -1, 0, -100, 100), true,
      "{observer: fixed, step: 0.5, zero: 129}" },
    { -128, 127, QG_ASYMMETRIC, 0, CODES(0.5, -1, 127, -100, 0), true,
      "{observer: fixed, step: 0.5, zero: 256}" },
    { -128, 127, QG_ASYMMETRIC, 0, CODES(0.5, -1, 128, -100, 0), false, NULL },
    { -128, 127, QG_ASYMMETRIC, 0, CODES(0.5, -1, -128, 0, 100), true,
      "{observer: fixed, step: 0.5, zero: 1}" },
    { -128, 127, QG_ASYMMETRIC, 0, CODES(0.5, -1, -129, 0, 100), false, NULL },
    { -128, 127, QG_ASYMMETRIC, 0, CODES(1e-44, -1, 0, 0, 100), false, NULL },
    { -128, 127, QG_ASYMMETRIC, 0, CODES(1e39, -1, 0, 0, 100), false, NULL },
    /* A zero point in a symmetric scheme, and codes of the other sign. */
    { -128, 127, QG_SYMMETRIC, 0, CODES(0.5, -1, 5, -100, 100), true,
      "{observer: fixed, step: 0.5, zero: 134" ALL("-128", "127", "asymmetric") },
    { -128, 127, QG_ASYMMETRIC, 0, CODES(0.5, 1, 128, -100, 100), true,
      "{observer: fixed, step: 0.5, zero: 129" ALL("0", "255", "asymmetric") },
    { -128, 127, QG_SYMMETRIC, 0, CODES(0.5, 1, 0, 0, 200), true,
      "{observer: fixed, step: 0.5, zero: 1" ALL("0", "255", "symmetric") },
    { 0, 255, QG_ASYMMETRIC, 0, CODES(0.5, -1, -3, -100, 100), true,
      "{observer: fixed, step: 0.5, zero: 126" ALL("-128", "127", "asymmetric") },
    /* More steps above 0 than a symmetric scheme has, none below. */
    { -128, 127, QG_SYMMETRIC, 0, STEPS(0.5, 0, 127), true,
      "!range" },
    { -128, 127, QG_SYMMETRIC, 0, STEPS(0.5, 0, 128), true,
      "{observer: fixed, step: 0.5, zero: 1, range: [0, 255]}" },
    { -128, 127, QG_SYMMETRIC, 0, STEPS(0.5, 0, 256), true, "!range" },
    { -128, 127, QG_SYMMETRIC, 0, STEPS(0.5, -1, 128), true, "!range" },
    { -128, 127, QG_SYMMETRIC, 0, STEPS(0.5, 0, 255), true,
      "{observer: fixed, step: 0.5, zero: 1, range: [0, 255]}" },
    /* The real range stays where the record has it, -10 and up, if all steps fit. */
    { 0, 255, QG_ASYMMETRIC, 100, STEPS(0.2, -20, 100), true,
      "{observer: fixed, step: 0.2, zero: 51}" },
    { 0, 255, QG_ASYMMETRIC, 100, STEPS(0.2, -60, 100), true,
      "{observer: fixed, step: 0.2, zero: 61}" },
    { 0, 255, QG_ASYMMETRIC, 100, STEPS(0.2, 0, 230), true,
      "{observer: fixed, step: 0.2, zero: 26}" },
    { 0, 255, QG_ASYMMETRIC, 0, STEPS(0.2, 10, 100), true,
      "{observer: fixed, step: 0.2, zero: 1}" },
};
/* clang-format on */

static void rules_give_the_observed_grid(void **state)
{
    qg_arena *a = qg_arena_new(qg_alloc_libc);
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const setting *c = &settings[i];
        float scale = 0.1f;
        int32_t offset = c->offset;
        qg_tqc t = { .scale = &scale, .offset = &offset, .nparam = 1 };
        t.up = &t;
        t.scheme.policy = (uint16_t)(QG_PER_TENSOR | QG_LINEAR | c->symmetry);
        t.scheme.bits = 8;
        t.scheme.qmin = c->qmin;
        t.scheme.qmax = c->qmax;
        assert_int_equal(qg_grid_can_hold(&t, &c->o), c->can);
        const char *text = c->text ? qg_grid_setting(a, &t, &c->o) : NULL;
        if (text && *c->text == '!') /* a symmetric scheme does not look at zero */
            assert_null(strstr(text, c->text + 1));
        else if (text)
            assert_string_equal(text, c->text);
        t.nparam = 2;
        assert_false(qg_grid_can_hold(&t, &c->o));
    }
    qg_arena_free(a);
}

/* A record of scale 0.5 and this offset, of int8 or uint8. */
static void linear_records_match(void **state)
{
    /* clang-format off */
    static const struct {
        int64_t qmin;
        int32_t offset;
        qg_seen o;
        size_t levels; /* 0: many */
        bool matches;
    } rows[] = {
        { -128, 3, CODES(0.5, -1, 3, 0, 9), 0, true },
        { -128, 4, CODES(0.5, -1, 3, 0, 9), 0, false },
        { -128, 3, CODES(0.5, 0, 3, 0, 9), 0, true },
        { 0, 3, CODES(0.5, 0, 3, 0, 9), 0, true },
        { 0, 3, CODES(0.5, 1, 3, 0, 9), 0, true },
        { 0, 3, CODES(0.5, -1, 3, 0, 9), 0, false },
        { -128, 3, CODES(0.5, 1, 131, 0, 9), 0, false },
        { -128, 3, CODES(0.5000005, -1, 3, 0, 9), 0, false },
        { -128, 3, CODES(0.50000005, -1, 3, 0, 9), 0, true },
        { -128, 3, STEPS(0.5000005, 0, 9), 0, true },
        { -128, 3, STEPS(0.500005, 0, 9), 0, false },
        { -128, 107, STEPS(0.5, -10, 20), 0, true },
        { -128, 108, STEPS(0.5, -10, 20), 0, false },
        { -128, -118, STEPS(0.5, -10, 20), 0, true },
        { -128, -119, STEPS(0.5, -10, 20), 0, false },
        /* Few codes, all of which are multiples of two or three. */
        { -128, 0, STEPS(1, -10, 20), 63, true },
        { -128, 0, STEPS(1, -10, 20), 64, false },
        { -128, 0, STEPS(1.5, -10, 42), 10, true },
        { -128, 0, STEPS(1.5, -10, 43), 10, false },
        { -128, 0, STEPS(0.75, -10, 20), 10, false },
        { -128, 0, CODES(1, -1, 0, -10, 20), 10, false },
    };
    /* clang-format on */
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        float scale = 0.5f;
        int32_t offset = rows[i].offset;
        qg_seen o = rows[i].o;
        qg_tqc t = { .scale = &scale, .offset = &offset, .nparam = 1 };
        t.up = &t;
        t.scheme.policy = QG_PER_TENSOR | QG_LINEAR | QG_ASYMMETRIC;
        t.scheme.bits = 8;
        t.scheme.qmin = rows[i].qmin;
        t.scheme.qmax = rows[i].qmin + 255;
        o.levels = rows[i].levels ? rows[i].levels : o.levels;
        if (qg_grid_matches(&t, &o) != rows[i].matches)
            fail_msg("row %zu: %s", i, rows[i].matches ? "no match" : "a match");
        t.nparam = 2;
        assert_false(qg_grid_matches(&t, &o));
    }
}

/* Powers of two alone; elements with a bit more than the mantissa; few codes. */
static void schemes_have_such_elements(void **state)
{
    qg_tqc t = { .scheme = E4M3 };
    qg_seen o = observed(15, 0);
    (void)state;
    t.up = &t;
    o.bits = 4;
    assert_true(qg_grid_fits(&t, &o));
    assert_true(qg_grid_is_usual(&t, &o));
    o.bits = 5;
    assert_false(qg_grid_fits(&t, &o));
    o.bits = 4;
    o.step = 0.12;
    assert_false(qg_grid_fits(&t, &o));
    t.scheme = (qg_scheme){ .policy = QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC,
                            .bits = 8,
                            .qmin = -128,
                            .qmax = 127 };
    o = (qg_seen){ .kind = QG_SEEN_CODES, .step = 0.12, .high = 32 };
    assert_true(qg_grid_is_usual(&t, &o));
    o.high = 31; /* fewer than an eighth of the codes */
    assert_false(qg_grid_is_usual(&t, &o));
    o.high = 32;
    o.step = 0.125;
    assert_false(qg_grid_is_usual(&t, &o));
    t.scheme.policy |= QG_POWER_OF_2;
    assert_true(qg_grid_is_usual(&t, &o));
}

/* Given by a trace to 2e-7, found in elements to 2e-6. */
static void steps_are_the_same_within_their_errors(void **state)
{
    qg_seen x = { .step = 1 }, y = { .step = 1 + 1e-6 };
    (void)state;
    assert_true(qg_grid_same_seen(&x, &y));
    x.zero_known = true;
    assert_true(qg_grid_same_seen(&x, &y));
    y.zero_known = true;
    assert_false(qg_grid_same_seen(&x, &y));
    y.step = 1 + 1e-7;
    assert_true(qg_grid_same_seen(&x, &y));
    y.step = 1 + 3e-6;
    y.zero_known = false;
    assert_false(qg_grid_same_seen(&x, &y));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_small_elements_decide),
        cmocka_unit_test(a_large_element_decides),
        cmocka_unit_test(a_record_matches_within_the_bounds),
        cmocka_unit_test(powers_of_two_are_common),
        cmocka_unit_test(codes_fit_their_scheme),
        cmocka_unit_test(rules_give_the_observed_grid),
        cmocka_unit_test(linear_records_match),
        cmocka_unit_test(schemes_have_such_elements),
        cmocka_unit_test(steps_are_the_same_within_their_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What hypotheses about a device compute from points and exact values: lines through
 * codes (device/line.h), roundings (device/rounding.h), names of graphs. */
#include <math.h>

#include "engine/device/line.h"
#include "engine/device/profiles.h"
#include "engine/device/rounding.h"
#include "tests/support/session.h"

enum { MOST = 64 };

/* --- lines ----------------------------------------------------------------------- */

/* The number of fewest digits, three at least, both ends included. */
static void short_numbers(void **state)
{
    static const double rows[][3] = {
        {0.11,         0.13,        0.12       },
        { 0.1,         0.2,         0.15       },
        { 1.0,         1.001,       1.0        },
        { 0.999,       1.0,         1.0        },
        { 0.04711,     0.04717,     0.04714    },
        { 1234.2,      1234.8,      1234.5     },
        { 0.123456781, 0.123456789, 0.123456785},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const double got = qg_line_shortest(rows[i][0], rows[i][1]);
        if (!(got >= rows[i][0] && got <= rows[i][1]))
            fail_msg("row %zu: %.12g is outside", i, got);
        if (fabs(got - rows[i][2]) > 1e-12)
            fail_msg("row %zu: %.12g, expected %.12g", i, got, rows[i][2]);
    }
    assert_cmp_f64(qg_line_shortest(1. / 3, 1. / 3), ==, 1. / 3); /* no digits do */
}

/* Scales r / (q +- 1/2) of every point between the ends: 1 is code 10, 2 code 20. */
static void scales_that_give_all_codes(void **state)
{
    double real[] = { 1, 2, 50, -50, 0 }, code[] = { 10, 20, 100, 0, 77 }, low, high;
    qg_points p = { real, code, 5, 0, 100 };
    (void)state;
    assert_true(qg_line_scales(&p, 0, &low, &high));
    assert_cmp_f64(fabs(low - 2 / 20.5), <, 1e-12);
    assert_cmp_f64(fabs(high - 2 / 19.5), <, 1e-12);
    code[2] = 99; /* not at an end: 50 would be code 500 */
    assert_false(qg_line_scales(&p, 0, &low, &high));
    code[2] = 100;
    code[3] = 1; /* nor -50 code 1 */
    assert_false(qg_line_scales(&p, 0, &low, &high));
    real[0] = -1; /* below a zero point of 30: 1 is 10 codes */
    code[3] = 0;
    code[1] = 50;
    code[0] = 20;
    assert_true(qg_line_scales(&p, 30, &low, &high));
    assert_cmp_f64(fabs(low - 2 / 20.5), <, 1e-12);
    assert_false(qg_line_scales(&p, 31, &low, &high));
    p.n = 0; /* nothing bounds it */
    assert_false(qg_line_scales(&p, 0, &low, &high));
    p.n = 1;
    code[0] = 30; /* no least one */
    assert_false(qg_line_scales(&p, 30, &low, &high));
}

static void lines_are_found(void **state)
{
    qg_rng r = { 21 };
    (void)state;
    for (int turn = 0; turn < 60; turn++) {
        double real[MOST], code[MOST], scale, zero;
        const double is = (double)qg_rng_range(&r, 0.01f, 2);
        const double at = (double)qg_rng_below(&r, 200);
        for (size_t i = 0; i < MOST; i++) {
            real[i] = (double)qg_rng_range(&r, -200, 300) * is;
            code[i] = fmax(0, fmin(255, rint(real[i] / is) + at));
        }
        const qg_points p = { real, code, MOST, 0, 255 };
        assert_true(qg_line_fit(&p, &scale, &zero));
        assert_cmp_f64(zero, ==, at);
        assert_cmp_f64(fabs(scale / is - 1), <, 0.02);
        for (size_t i = 0; i < MOST; i++)
            assert_cmp_f64(fmax(0, fmin(255, rint(real[i] / scale) + zero)), ==,
                           code[i]);
    }
}

/* Far from 0 on one side the line's zero point is off by one now and then, which the
 * bounds of the scale notice: every code is given. */
static void zero_points_are_tried_beside_the_line(void **state)
{
    enum { FEW = 10 };
    qg_rng r = { 5 };
    (void)state;
    for (int turn = 0; turn < 200; turn++) {
        double real[FEW], code[FEW], scale, zero;
        for (size_t i = 0; i < FEW; i++) {
            real[i] = (double)qg_rng_range(&r, 20, 60);
            code[i] = rint(real[i]) + 7;
        }
        const qg_points p = { real, code, FEW, 0, 255 };
        assert_true(qg_line_fit(&p, &scale, &zero));
        for (size_t i = 0; i < FEW; i++)
            assert_cmp_f64(rint(real[i] / scale) + zero, ==, code[i]);
    }
}

/* Three points between the ends, of different reals, that rise, near enough to 0. */
static void lines_need_points(void **state)
{
    double real[] = { 0, 1, 2, 9 }, code[] = { 5, 6, 7, 9 }, scale, zero;
    qg_points p = { real, code, 4, 0, 9 };
    (void)state;
    assert_true(qg_line_fit(&p, &scale, &zero));
    assert_cmp_f64(fabs(scale - 1.07), <, 1e-12); /* 2 / 2.5 to 2 / 1.5: the middle */
    assert_cmp_f64(zero, ==, 5);
    code[2] = 9;
    assert_false(qg_line_fit(&p, &scale, &zero));
    code[2] = 0;
    assert_false(qg_line_fit(&p, &scale, &zero));
    code[2] = 4; /* falls */
    code[1] = 4.5;
    assert_false(qg_line_fit(&p, &scale, &zero));
    real[0] = real[1] = real[2] = 1;
    assert_false(qg_line_fit(&p, &scale, &zero));
    for (size_t i = 0; i < 4; i++) {
        real[i] = (double)i;
        code[i] = 999990 + (double)i;
    }
    p.low = 0;
    p.high = 2e6;
    assert_true(qg_line_fit(&p, &scale, &zero));
    assert_cmp_f64(zero, ==, 999990);
    for (size_t i = 0; i < 4; i++)
        code[i] += 20;
    assert_false(qg_line_fit(&p, &scale, &zero));
}

/* Fewer than 12 codes between the ends, each counted once. */
static void few_codes_leave_a_line_open(void **state)
{
    double real[MOST] = { 0 }, code[MOST];
    (void)state;
    for (size_t i = 0; i < MOST; i++)
        code[i] = (double)(i % 13); /* 1 to 11 between 0 and 12 */
    qg_points p = { real, code, MOST, 0, 12 };
    assert_true(qg_line_is_open(&p));
    p.high = 13;
    assert_false(qg_line_is_open(&p));
    p.n = 12; /* 0 to 11 */
    assert_true(qg_line_is_open(&p));
    p.low = -1;
    assert_false(qg_line_is_open(&p));
}

/* --- roundings ------------------------------------------------------------------- */

/* half-even, half-away, half-up, down, up, toward zero, toward code 0 */
static void each_rounding(void **state)
{
    static const struct {
        double q;
        int32_t zero;
        double want[QG_N_ROUNDING_TRIED];
    } rows[] = {
        {2.5,        0,  { 2, 3, 3, 2, 3, 2, 2 }       },
        { 3.5,       0,  { 4, 4, 4, 3, 4, 3, 3 }       },
        { -2.5,      0,  { -2, -3, -2, -3, -2, -2, -2 }},
        { 2.3,       0,  { 2, 2, 2, 2, 3, 2, 2 }       },
        { 2.7,       0,  { 3, 3, 3, 2, 3, 2, 2 }       },
        { -2.7,      0,  { -3, -3, -3, -3, -2, -2, -2 }},
        { 5.5,       7,  { 6, 6, 6, 5, 6, 6, 5 }       },
        { -5.5,      -7, { -6, -6, -5, -6, -5, -6, -5 }},
        { 3,         0,  { 3, 3, 3, 3, 3, 3, 3 }       },
        { 3 - 1e-10, 0,  { 3, 3, 3, 3, 3, 3, 3 }       },
        { 3 + 1e-10, 0,  { 3, 3, 3, 3, 3, 3, 3 }       },
        { 3 - 1e-8,  0,  { 3, 3, 3, 2, 3, 2, 2 }       },
        { 3 + 1e-8,  0,  { 3, 3, 3, 3, 4, 3, 3 }       },
        { 0.4,       0,  { 0, 0, 0, 0, 1, 0, 0 }       },
        { 9.5,       0,  { 9, 9, 9, 9, 9, 9, 9 }       },
        { 200,       0,  { 9, 9, 9, 9, 9, 9, 9 }       },
        { -9.5,      0,  { -8, -8, -8, -8, -8, -8, -8 }},
    };
    const qg_stored limits = { .low = -8, .high = 9 };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double got[QG_N_ROUNDING_TRIED];
        qg_round_each(&limits, rows[i].q, rows[i].zero, got);
        for (size_t k = 0; k < QG_N_ROUNDING_TRIED; k++)
            if (got[k] != rows[i].want[k])
                fail_msg("%g: %s gives %g, expected %g", rows[i].q,
                         qg_rounding_tried[k].name, got[k], rows[i].want[k]);
    }
}

/* --- names of graphs ------------------------------------------------------------- */

static void key_of(qg_ctx *ctx, const char *nodes, char key[QG_HASH_TEXT])
{
    char text[256];
    qg_model m;
    (void)snprintf(text, sizeof text, "graph {\n x = input f32[2]\n %s}", nodes);
    ctx->registry = &qg_ops_registry;
    model_of_text(ctx, text, &m);
    assert_ok(ctx, qg_fit_key(ctx, m.graph, key));
    qg_graph_free(m.graph);
}

/* Ids of rows are for people; everything else counts. */
static void keys_leave_rows_out(void **state)
{
    char plain[QG_HASH_TEXT], row[QG_HASH_TEXT], other[QG_HASH_TEXT];
    key_of(*state, "y = Relu(x) z=1\n output y\n", plain);
    key_of(*state, "y = Relu(x) row=\"sums\" z=1\n output y\n", row);
    assert_string_equal(row, plain);
    key_of(*state, "y = Relu(x) row=\"\" z=1\n output y\n", row);
    assert_string_equal(row, plain);
    key_of(*state, "y = Relu(x) row=\"sums\" z=2\n output y\n", other);
    assert_string_not_equal(other, plain);
    key_of(*state, "y = Relu(x) rows=\"sums\" z=1\n output y\n", other);
    assert_string_not_equal(other, plain);
}

QG_TEST_MAIN(cmocka_unit_test(short_numbers),
             cmocka_unit_test(scales_that_give_all_codes),
             cmocka_unit_test(lines_are_found), cmocka_unit_test(lines_need_points),
             cmocka_unit_test(zero_points_are_tried_beside_the_line),
             cmocka_unit_test(few_codes_leave_a_line_open),
             cmocka_unit_test(each_rounding), WITH_CTX(keys_leave_rows_out))

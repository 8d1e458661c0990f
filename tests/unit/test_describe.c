/* Words of reports on schemes, values, origins, states and how sure scales are. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/calib/calibrate.h"
#include "engine/report/describe.h"
#include "tests/support/endpoints.h"

/* clang-format off */
static const struct {
    qg_scheme s;
    const char *text; /* before the policy, or behind it */
} scheme_row[] = {
    { { .bits = 8, .qmin = -128, .qmax = 127, .axis = -1 }, "8 bits [-128, 127] " },
    { { .bits = 8, .qmin = -INT64_MAX, .qmax = INT64_MAX, .axis = -1 }, "8 bits " },
    { { .bits = 8, .qmin = 0, .qmax = INT64_MAX, .axis = -1 },
      "8 bits [0, 9223372036854775807] " },
    { { .bits = 8, .qmin = -INT64_MAX, .qmax = 5, .axis = -1 },
      "8 bits [-9223372036854775807, 5] " },
    { { .bits = 4, .qmin = 0, .qmax = 15, .axis = 0 }, ", axis 0" },
    { { .bits = 4, .qmin = 0, .qmax = 15, .axis = 1, .block = 32 },
      ", axis 1, blocks of 32" },
    { { .bits = 8, .exponent_bits = 4, .qmin = -448, .qmax = 448, .axis = -1 },
      "8 bits, 4 of them exponent [-448, 448] " },
};
/* clang-format on */

static void schemes_are_described(void **state)
{
    char text[QG_SCHEME_TEXT];
    (void)state;
    for (size_t i = 0; i < sizeof scheme_row / sizeof *scheme_row; i++) {
        qg_scheme s = scheme_row[i].s;
        s.policy = QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC;
        const char *at = strstr(qg_scheme_text(&s, text), scheme_row[i].text);
        const bool behind = scheme_row[i].text[0] == ',';
        if (!at || (behind ? strcmp(at, scheme_row[i].text) != 0 : at != text))
            fail_msg("row %zu: %s", i, text);
        assert_int_equal(strstr(text, "axis") != NULL, s.axis >= 0);
        assert_int_equal(strstr(text, "blocks") != NULL, s.block > 0);
    }
}

static void values_have_a_kind(void **state)
{
    const qg_tensor t = { .dtype = QG_F32 };
    (void)state;
    assert_string_equal(qg_value_kind(&(qg_value){ .constant = &t, .is_input = true }),
                        "constant");
    assert_string_equal(
        qg_value_kind(&(qg_value){ .is_input = true, .is_output = true }),
        "input of the network");
    assert_string_equal(qg_value_kind(&(qg_value){ .is_output = true }),
                        "output of the network");
    assert_string_equal(qg_value_kind(&(qg_value){ 0 }), "inner value");
}

/* The last row of an id counts; rules come before fusions, these before sharing. */
static void origins_are_found(void **state)
{
    qg_rule rule[] = { { .origin = { .id = "a", .line = 1 } },
                       { .origin = { .id = "b", .line = 2 } },
                       { .origin = { .id = "a", .line = 3 } } };
    qg_fusion fusion[] = { { .origin = { .id = "f", .line = 4 } },
                           { .origin = { .id = "b", .line = 5 } } };
    qg_sharing sharing[] = { { .origin = { .id = "s", .line = 6 } },
                             { .origin = { .id = "f", .line = 7 } } };
    const qg_backend b = {
        .rule = {.at = rule,     .n = 3},
        .fusion = { .at = fusion,  .n = 2},
        .sharing = { .at = sharing, .n = 2}
    };
    static const struct {
        const char *id, *kind;
        uint32_t line; /* 0: none */
    } row[] = {
        {"a",  "rule",    3},
        { "b", "rule",    2},
        { "f", "fusion",  4},
        { "s", "sharing", 6},
        { "x", "sharing", 0}
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const char *kind;
        const qg_origin *o = qg_origin_named(&b, row[i].id, &kind);
        assert_int_equal(o ? o->line : 0, row[i].line);
        if (o)
            assert_string_equal(kind, row[i].kind);
    }
}

/* --- how sure scales are --- */

/* Errors of n scales named "s0", "s1", ...; what the report says of them. */
static void assert_sure(qg_ctx *ctx, const double *error, size_t n, uint64_t samples,
                        const char *text)
{
    static const char *const name[] = { "s0", "s1", "s2" };
    qg_certainty c = { 0 };
    qg_report *r;
    for (size_t i = 0; i < n; i++)
        qg_certainty_add(&c, error[i], name[i]);
    assert_int_equal(c.scales, n);
    assert_ok(ctx, qg_report_new(ctx, "test", &r));
    assert_ok(ctx, qg_report_certainty(r, "sure", &c, samples));
    const qg_cell *cell = qg_report_fact(r, "sure");
    assert_string_equal(cell ? cell->text : "", text);
    qg_report_free(r);
}

static void certainty_is_told(void **state)
{
    qg_ctx *ctx = *state;
    const double u = QG_UNCERTAIN;
    char text[256];
    assert_sure(ctx, NULL, 0, 5, "");
    assert_sure(ctx, (double[]){ 0, 0 }, 2, 5,
                "not known: all samples gave the same ranges, expected samples that "
                "differ");
    assert_sure(ctx, (double[]){ INFINITY }, 1, 1,
                "not known from 1 sample, expected several");
    assert_sure(ctx, (double[]){ 0, INFINITY }, 2, 0,
                "not known from 0 samples, expected several");
    (void)snprintf(text, sizeof text, "standard error of 1 scale at most %.1f %% (s0)",
                   100 * u);
    assert_sure(ctx, (double[]){ u }, 1, 5, text); /* not above it */
    assert_sure(
        ctx, (double[]){ 0.001, 0.002, 0.002 }, 3, 5,
        "standard error of 3 scales at most 0.2 % (s1)"); /* the first of equals */
    (void)snprintf(text, sizeof text,
                   "low: 1 of 2 scales depends on few samples (standard error above "
                   "%.0f %%, most s1 with %.1f %%), expected more samples",
                   100 * u, 200 * u);
    assert_sure(ctx, (double[]){ u, 2 * u }, 2, 5, text);
    (void)snprintf(text, sizeof text,
                   "low: 2 of 2 scales depend on few samples (standard error above "
                   "%.0f %%, most s0 with %.1f %%), expected more samples",
                   100 * u, 300 * u);
    assert_sure(ctx, (double[]){ 3 * u, 2 * u }, 2, 5, text);
    (void)snprintf(text, sizeof text,
                   "low: 1 of 1 scale depends on few samples (standard error above "
                   "%.0f %%, most s0 with %.1f %%), expected more samples",
                   100 * u, 200 * u);
    assert_sure(ctx, (double[]){ 2 * u }, 1, 5, text);
}

static void states_are_counted(void **state)
{
    bench b;
    qg_report *r;
    (void)state;
    bench_open(&b, 3, 0);
    bench_activate(&b, b.t[1], 0.5f);
    assert_ok(b.ctx, qg_report_new(b.ctx, "test", &r));
    assert_ok(b.ctx, qg_report_states(r, b.q));
    const qg_table *t = qg_report_table_named(r, "states");
    assert_int_equal(qg_table_rows(t), 2);
    assert_string_equal(qg_table_cell(t, 0, "state")->text,
                        qg_tqc_state_name(QG_TQC_INITIAL));
    assert_cmp_f64(qg_table_cell(t, 0, "endpoints")->number, ==, 2);
    assert_string_equal(qg_table_cell(t, 1, "state")->text,
                        qg_tqc_state_name(QG_TQC_ACTIVATED));
    assert_cmp_f64(qg_table_cell(t, 1, "endpoints")->number, ==, 1);
    qg_report_free(r);
    bench_close(&b);
}

/* The worst scale and the largest number of parts, wherever they are in the list. */
static void confidence_is_that_of_the_worst(void **state)
{
    bench b;
    (void)state;
    bench_open(&b, 3, 0);
    for (int worst = 0; worst < 3; worst++) {
        qg_settled s[3];
        qg_report *r;
        char at[QG_ENDPOINT_TEXT];
        for (int i = 0; i < 3; i++)
            s[i] = (qg_settled){ .tqc = b.t[i],
                                 .error = i == worst ? 0.5 : 0.25,
                                 .after = i == worst ? 8 : 4 };
        const qg_snapshot_info info = { .settled = s, .n_settled = 3 };
        assert_ok(b.ctx, qg_report_new(b.ctx, "test", &r));
        assert_ok(b.ctx, qg_report_confidence(r, &info));
        assert_cmp_f64(qg_report_fact(r, "settled_after")->number, ==, 8);
        assert_cmp_f64(qg_report_fact(r, "uncertain")->number, ==, 3);
        assert_non_null(
            strstr(qg_report_fact(r, "confidence")->text, qg_tqc_text(b.t[worst], at)));
        qg_report_free(r);
        assert_ok(b.ctx, qg_report_new(b.ctx, "test", &r));
        assert_ok(b.ctx, qg_report_confidence(r, &(qg_snapshot_info){ 0 }));
        assert_null(qg_report_fact(r, "settled_after"));
        qg_report_free(r);
    }
    bench_close(&b);
}

QG_TEST_MAIN(cmocka_unit_test(schemes_are_described),
             cmocka_unit_test(values_have_a_kind), cmocka_unit_test(origins_are_found),
             WITH_CTX(certainty_is_told), cmocka_unit_test(states_are_counted),
             cmocka_unit_test(confidence_is_that_of_the_worst))

/* Error budgets (analysis/causes.h) of a Gemm of two outputs whose errors are computed
 * by hand: by place and by mechanism. */
#include <math.h>

#include "engine/analysis/causes.h"
#include "engine/core/file.h"
#include "tests/support/scratch.h"
#include "tests/support/session.h"

/* x = (0.4, 5), w = 1.3 of the unit matrix, b = (0.25, 0): y = (0.77, 6.5). */
static const char network[] =
    "graph {\n x = input f32[1,2]\n w = const f32[2,2] [1.3, 0, 0, 1.3]\n"
    " b = const f32[2] [0.25, 0]\n y = Gemm(x, w, b)\n output y\n}";

typedef struct fixture {
    qg_ctx *ctx;
    qg_model m;
    qg_quant *q;
    qg_tqc *at[3]; /* of x, w, b */
    char data[SCRATCH_PATH];
    double y[2]; /* of the float network */
    qg_report *r;
} fixture;

static fixture f;

/* One sample of two numbers as .npy; of either sign. */
static void write_data(float sign)
{
    const float x[] = { sign * 0.4f, sign * 5 };
    char head[128 + sizeof x];
    memset(head, ' ', 128);
    memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
    static const char text[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, "
                               "2), }";
    memcpy(head + 10, text, sizeof text - 1);
    head[127] = '\n';
    memcpy(head + 128, x, sizeof x);
    assert_ok(f.ctx, qg_file_write(f.ctx, f.data, head, sizeof head));
    f.y[0] = (double)sign * 1.3 * 0.4 + 0.25;
    f.y[1] = (double)sign * 6.5;
}

/* Input k in steps of `scale`, from qmin to qmax around `zero`. */
static void quantize(uint32_t k, qg_scheme s, float scale, int32_t zero)
{
    const qg_node *n = f.m.graph->node.at[0];
    assert_ok(f.ctx, qg_quant_add(f.q, (qg_node *)n, false, k, &s, &f.at[k]));
    assert_ok(f.ctx, qg_tqc_set_param(f.q, f.at[k], 1, &scale, &zero));
    assert_ok(f.ctx, qg_tqc_set_state(f.q, f.at[k], QG_TQC_ACTIVATED));
}

static qg_scheme codes(int64_t low, int64_t high)
{
    const uint16_t symmetry = low == -high ? QG_SYMMETRIC : QG_ASYMMETRIC;
    return (qg_scheme){ .policy = (uint16_t)(QG_PER_TENSOR | QG_LINEAR | symmetry),
                        .bits = 8,
                        .axis = -1,
                        .qmin = low,
                        .qmax = high };
}

static int setup(void **state)
{
    f = (fixture){ .ctx = qg_ctx_new(qg_alloc_libc) };
    f.ctx->registry = &qg_ops_registry;
    model_of_text(f.ctx, network, &f.m);
    assert_ok(f.ctx, qg_quant_new(f.m.graph, NULL, &f.q));
    f.m.quant = f.q;
    (void)scratch_path(f.data, "causes.npy");
    write_data(1);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    qg_report_free(f.r);
    qg_graph_free(f.m.graph);
    qg_ctx_free(f.ctx);
    return unlink(f.data);
}

static void analyse(const char *metric)
{
    const qg_metric *by;
    qg_analyse_options o;
    qg_analyse_options_init(&o, sizeof o);
    o.work.data = f.data;
    o.work.jobs = 1;
    assert_ok(f.ctx, qg_measure_by(f.ctx, metric, &by));
    assert_ok(f.ctx, qg_analyse_causes(&f.m, &o, by, &f.r));
}

/* Row k of the table: what the causes of a mask remove together beyond its parts. */
static void expect(size_t row, const char *budget, const char *cause, double removes)
{
    const qg_table *t = qg_report_table_named(f.r, "causes");
    assert_string_equal(qg_table_cell(t, row, "budget")->text, budget);
    assert_string_equal(qg_table_cell(t, row, "cause")->text, cause);
    const double got = qg_table_cell(t, row, "removes")->number;
    const double want = removes / (f.y[0] * f.y[0] + f.y[1] * f.y[1]);
    if (fabs(got - want) > 1e-3 * fabs(want) + 1e-6)
        fail_msg("%s: %s removes %g, expected %g", budget, cause, got, want);
}

/* Squared errors with the causes of a mask (1, 2, 4) off, rows in the order of the
 * report: single ones, pairs, all three, their sum. */
static void expect_budget(size_t first, const char *budget, const char *const name[3],
                          const double e[8])
{
    static const unsigned order[] = { 1, 2, 4, 3, 5, 6 };
    double sum = 0;
    for (size_t k = 0; k < 6; k++) {
        char text[64];
        const unsigned m = order[k], one = m & (~m + 1), two = m ^ one;
        const char *a = name[one >> 1], *b = two ? name[two >> 1] : "";
        const double alone = e[0] - e[one];
        const double more = two ? e[0] - e[m] - alone - (e[0] - e[two]) : alone;
        (void)snprintf(text, sizeof text, "%s%s%s", a, two ? " x " : "", b);
        expect(first + k, budget, text, more);
        sum += more;
    }
    char text[64];
    (void)snprintf(text, sizeof text, "%s x %s x %s", name[0], name[1], name[2]);
    expect(first + 6, budget, text, e[0] - e[7] - sum);
    expect(first + 7, budget, "sum", e[0] - e[7]);
}

static const char *const places[] = { "weights", "activations", "bias" };
static const char *const mechanisms[] = { "rounding", "clipping", "sharing" };

static double square(double a, double b)
{
    return (a - f.y[0]) * (a - f.y[0]) + (b - f.y[1]) * (b - f.y[1]);
}

/* x becomes (0, 2), w 1, b (0, 0): 0.25 is half of a step. */
static void expect_errors(void)
{
    const double by_place[8] = { square(0, 2),    square(0, 2.6),
                                 square(0.4, 5),  square(0.52, 6.5),
                                 square(0.25, 2), square(0.25, 2.6),
                                 square(0.65, 5), 0 };
    const double rounding = square(0.77, 2.6), clipping = square(0, 5);
    const double by_mechanism[8] = { square(0, 2), rounding, clipping, 0,
                                     square(0, 2), rounding, clipping, 0 };
    expect_budget(0, "place", places, by_place);
    expect_budget(8, "mechanism", mechanisms, by_mechanism);
}

static void symmetric_codes(void **state)
{
    (void)state;
    quantize(0, codes(-2, 2), 1, 0);
    quantize(1, codes(-8, 8), 1, 0);
    quantize(2, codes(-8, 8), 0.5f, 0);
    analyse(NULL);
    expect_errors();
    assert_string_equal(qg_report_fact(f.r, "output")->text, "y");
    assert_cmp_f64(qg_report_fact(f.r, "error")->number, >, 0.48);
    assert_cmp_f64(fabs(qg_report_fact(f.r, "left")->number), <, 1e-9);
    const qg_table *t = qg_report_table_named(f.r, "causes");
    assert_int_equal(qg_table_rows(t), 16);
    for (size_t b = 0; b < 16; b += 8) { /* shares sum to all of it */
        double all = 0;
        for (size_t k = 0; k < 7; k++)
            all += qg_table_cell(t, b + k, "share")->number;
        assert_cmp_f64(fabs(all - 1), <, 1e-9);
        assert_cmp_f64(fabs(qg_table_cell(t, b + 7, "share")->number - 1), <, 1e-9);
    }
}

/* Codes 0 to 5 around 3: -3 to 2. */
static void codes_around_a_zero_point(void **state)
{
    (void)state;
    quantize(0, codes(0, 5), 1, 3);
    quantize(1, codes(-8, 8), 1, 0);
    quantize(2, codes(-8, 8), 0.5f, 0);
    analyse(NULL);
    expect_errors();
}

/* 20 bits: steps are divided by less than 4096, so that zero points fit. */
static void wide_codes_around_a_zero_point(void **state)
{
    qg_scheme s = codes(0, 1000002);
    (void)state;
    s.bits = 20;
    quantize(0, s, 1, 1000000);
    quantize(1, codes(-8, 8), 1, 0);
    quantize(2, codes(-8, 8), 0.5f, 0);
    analyse(NULL);
    expect_errors();
}

static void expect_mechanisms(double none, double rounding, double clipping)
{
    const double e[8] = { none, rounding, clipping, 0, none, rounding, clipping, 0 };
    expect_budget(8, "mechanism", mechanisms, e);
}

/* The other end of the range: x becomes (0, -2). */
static void ends_below(void **state)
{
    (void)state;
    write_data(-1);
    quantize(0, codes(-2, 2), 1, 0);
    analyse(NULL);
    expect_mechanisms(square(0.25, -2.6), square(-0.27, -2.6), square(0.25, -6.5));
}

/* Three bits of mantissa, up to 448: in steps of 2 / 448, 0.4 is 89.6, which becomes
 * 88, and 5 is 1120, which without an end becomes 1152. */
static void floating_grids(void **state)
{
    const qg_scheme s = { .policy = QG_PER_TENSOR | QG_FLOATING | QG_SYMMETRIC,
                          .bits = 8,
                          .exponent_bits = 4,
                          .axis = -1,
                          .qmin = -448,
                          .qmax = 448 };
    (void)state;
    for (int sign = 1; sign >= -1; sign -= 2) {
        const double unit = 2. / 448, low = sign * 1.3 * 88 * unit + 0.25;
        qg_report_free(f.r);
        f.r = NULL;
        write_data((float)sign);
        if (sign == 1)
            quantize(0, s, (float)unit, 0);
        analyse(NULL);
        expect_mechanisms(square(low, sign * 2.6), square(f.y[0], sign * 2.6),
                          square(low, sign * 1.3 * 1152 * unit));
    }
}

/* A metric of which more is better: what is removed is what it rises by, to 1. */
static void similarities_rise(void **state)
{
    (void)state;
    quantize(0, codes(-2, 2), 1, 0); /* y = (0.25, 2.6) */
    analyse("cosine");
    const double is = (0.77 * 0.25 + 6.5 * 2.6) /
                      sqrt((0.77 * 0.77 + 6.5 * 6.5) * (0.25 * 0.25 + 2.6 * 2.6));
    const qg_table *t = qg_report_table_named(f.r, "causes");
    assert_cmp_f64(is, <, 0.9998);
    assert_cmp_f64(fabs(qg_report_fact(f.r, "error")->number - is), <, 1e-6);
    for (size_t b = 7; b < 16; b += 8)
        assert_cmp_f64(fabs(qg_table_cell(t, b, "removes")->number - (1 - is)), <,
                       1e-6);
}

/* Of nothing that is rounded there is no error, and no share of it. */
static void no_error_has_no_causes(void **state)
{
    (void)state;
    quantize(0, codes(-100, 100), 1e-3f, 0);
    assert_ok(f.ctx, qg_tqc_set_state(f.q, f.at[0], QG_TQC_INITIAL));
    analyse(NULL);
    const qg_table *t = qg_report_table_named(f.r, "causes");
    for (size_t k = 0; k < 16; k++) {
        assert_cmp_f64(qg_table_cell(t, k, "removes")->number, ==, 0);
        assert_cmp_f64(qg_table_cell(t, k, "share")->number, ==, 0);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
QG_TEST_MAIN(TEST(symmetric_codes), TEST(codes_around_a_zero_point),
             TEST(wide_codes_around_a_zero_point), TEST(ends_below),
             TEST(floating_grids), TEST(similarities_rise),
             TEST(no_error_has_no_causes))

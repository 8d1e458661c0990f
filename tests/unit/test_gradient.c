/* quant/gradient.h: every derivative against central differences of the
 * straight-through definition in float64. */
#include "tests/support/test.h"

#include <math.h>
#include <stdbool.h>

#include "engine/core/rng.h"
#include "engine/quant/gradient.h"

enum { SEED = 17 };

/* What is held still while the arguments move: R(v) - v and, for TQT, ceil(p) - p. */
struct held {
    double residual, ceiling;
};

/* The float64 definition of each method with those held. */
static double definition(const qg_learned_grid *g, double x, struct held h)
{
    double n = g->qmin, m = g->qmax, p = g->parameter, b = g->offset;
    switch (g->method) {
    case QG_LEARNED_STE:
        return p * (fmin(fmax(x / p + h.residual + b, n), m) - b);
    case QG_LEARNED_LSQ:
    case QG_LEARNED_LSQ_PLUS:
        return p * (fmin(fmax((x - b) / p, n), m) + h.residual) + b;
    case QG_LEARNED_TQT: {
        double s = exp2(p + h.ceiling) / fmax(-n, m + 1);
        return s * fmin(fmax(x / s + h.residual, n), m);
    }
    default:
        return fmin(fmax(x, n < 0 ? -p : 0), p) + h.residual;
    }
}

static struct held hold(const qg_learned_grid *g, double x)
{
    struct held h = { 0, ceil(g->parameter) - g->parameter };
    double s = qg_learned_step(g), v = x / s;
    if (g->method == QG_LEARNED_LSQ || g->method == QG_LEARNED_LSQ_PLUS)
        v = fmin(fmax((x - g->offset) / s, g->qmin), g->qmax);
    h.residual = rint(v) - v;
    if (g->method == QG_LEARNED_PACT)
        h.residual = qg_learned_at(g, x).y -
                     fmin(fmax(x, g->qmin < 0 ? -g->parameter : 0), g->parameter);
    return h;
}

static qg_learned_grid random_grid(qg_learned method, qg_rng *rng)
{
    int bits = 2 + (int)qg_rng_below(rng, 7);
    bool is_signed = qg_rng_below(rng, 2);
    qg_learned_grid g = { .method = method, .qmax = (1 << bits) - 1 };
    if (is_signed) {
        g.qmin = -(1 << (bits - 1));
        g.qmax = (1 << (bits - 1)) - 1;
    }
    if (method == QG_LEARNED_PACT && is_signed)
        g.qmin = -g.qmax;
    g.parameter = (double)qg_rng_range(rng, 0.05f, 0.5f);
    if (method == QG_LEARNED_TQT)
        g.parameter = (double)qg_rng_range(rng, -3, 3);
    if (method == QG_LEARNED_LSQ_PLUS)
        g.offset = (double)qg_rng_range(rng, -1, 1);
    if (method == QG_LEARNED_STE)
        g.offset = (double)qg_rng_below(rng, 4);
    return g;
}

/* Far from the places where the derivative jumps: ends of the range. */
static bool smooth(const qg_learned_grid *g, double x)
{
    double s = qg_learned_step(g), v = x / s;
    if (g->method == QG_LEARNED_LSQ_PLUS)
        v = (x - g->offset) / s;
    if (g->method == QG_LEARNED_STE)
        v += g->offset;
    if (g->method == QG_LEARNED_TQT || g->method == QG_LEARNED_STE)
        return fabs(v - g->qmin) > 0.51 && fabs(v - g->qmax) > 0.51;
    double low = g->method == QG_LEARNED_PACT && g->qmin < 0 ? -g->qmax : g->qmin;
    return fabs(v - low) > 1e-3 && fabs(v - g->qmax) > 1e-3;
}

static void near(double got, double want, int method, int round)
{
    if (fabs(got - want) > 1e-5 * fmax(1, fabs(want)))
        fail_msg("%s, round %d (seed %d): %.9g, numeric %.9g",
                 qg_learned_name((qg_learned)method), round, SEED, got, want);
}

static void derivatives_match_central_differences(void **state)
{
    (void)state;
    const double h = 1e-6;
    qg_rng rng = { SEED };
    for (int method = 0; method < QG_NLEARNED; method++)
        for (int round = 0; round < 4000; round++) {
            qg_learned_grid g = random_grid((qg_learned)method, &rng), up = g, down = g;
            double reach = qg_learned_step(&g) * (g.qmax + 4);
            double x = (double)qg_rng_range(&rng, -1, 1) * reach;
            if (!smooth(&g, x))
                continue;
            struct held k = hold(&g, x);
            qg_learned_one e = qg_learned_at(&g, x);
            near(e.y, definition(&g, x, k), method, round);
            near(e.dx, (definition(&g, x + h, k) - definition(&g, x - h, k)) / (2 * h),
                 method, round);
            up.parameter += h;
            down.parameter -= h;
            double slope = (definition(&up, x, k) - definition(&down, x, k)) / (2 * h);
            if (method != QG_LEARNED_STE)
                near(e.dparameter, slope, method, round);
            up = down = g;
            up.offset += h;
            down.offset -= h;
            slope = (definition(&up, x, k) - definition(&down, x, k)) / (2 * h);
            if (method == QG_LEARNED_LSQ_PLUS)
                near(e.doffset, slope, method, round);
        }
}

/* Eight partial sums, as the header states. */
static double sum_of(const double part[8])
{
    return ((part[0] + part[4]) + (part[2] + part[6])) +
           ((part[1] + part[5]) + (part[3] + part[7]));
}

/* Arrays are their elements, channel by channel; factor reaches the parameters only. */
static void arrays_are_sums_of_elements(void **state)
{
    (void)state;
    enum { OUTER = 3, CHANNELS = 4, INNER = 70, N = OUTER * CHANNELS * INNER };
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_rng rng = { SEED };
    for (int method = 0; method < QG_NLEARNED; method++) {
        qg_learned_grid grid[CHANNELS];
        float x[N], g[N], y[N], gx[N];
        double parameter[CHANNELS], offset[CHANNELS], want[CHANNELS][8] = { 0 };
        for (int c = 0; c < CHANNELS; c++)
            grid[c] = random_grid((qg_learned)method, &rng);
        for (int i = 0; i < N; i++) {
            x[i] = qg_rng_range(&rng, -2, 2);
            g[i] = qg_rng_range(&rng, -1, 1);
        }
        qg_learned_layer l = { OUTER, CHANNELS, INNER, grid };
        assert_ok(ctx, qg_learned_forward(ctx, "test", &l, x, y));
        assert_ok(ctx, qg_learned_backward(
                           ctx, "test", &l, x, g,
                           &(qg_learned_gradients){ 0.5, gx, parameter, offset }));
        for (int i = 0; i < N; i++) {
            int c = i / INNER % CHANNELS;
            qg_learned_one e = qg_learned_at(&grid[c], (double)x[i]);
            assert_cmp_f64(y[i], ==, (float)e.y);
            assert_cmp_f64(gx[i], ==, (float)((double)g[i] * e.dx));
            want[c][i % INNER % 8] += (double)g[i] * e.dparameter;
        }
        for (int c = 0; c < CHANNELS; c++)
            assert_cmp_f64(parameter[c], ==, sum_of(want[c]) * 0.5);
        /* Without parameters: the mask of LSQ. */
        float alone[N];
        qg_learned_gradients only_x = { 1, alone, NULL, NULL };
        assert_ok(ctx, qg_learned_backward(ctx, "test", &l, x, g, &only_x));
        assert_memory_equal(alone, gx, sizeof gx);
        /* Without the offset, and in place: the fast way of LSQ. */
        qg_learned_gradients in_place = { 0.5, g, parameter, NULL };
        assert_ok(ctx, qg_learned_backward(ctx, "test", &l, x, g, &in_place));
        for (int c = 0; c < CHANNELS; c++)
            assert_cmp_f64(parameter[c], ==, sum_of(want[c]) * 0.5);
        assert_memory_equal(g, gx, sizeof gx);
    }
    qg_ctx_free(ctx);
}

/* The mask has the bits of the quotient at the borders and beside them. */
static void masks_agree_at_borders(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_rng rng = { SEED };
    for (int i = 0; i < 100000; i++) {
        const float s =
            ldexpf(qg_rng_range(&rng, 1, 2), (int)qg_rng_below(&rng, 40) - 20);
        const double most = (double)(1 + qg_rng_below(&rng, 1 << 16));
        const qg_learned_grid grid = { QG_LEARNED_LSQ, -most, most, (double)s, 0 };
        const qg_learned_layer l = { 1, 1, 3, &grid };
        const float at = (float)(most * (double)s), g[3] = { 1, 1, 1 };
        const float x[3] = { at, nextafterf(at, 0), nextafterf(at, INFINITY) };
        float got[3];
        qg_learned_gradients only_x = { 1, got, NULL, NULL };
        assert_ok(ctx, qg_learned_backward(ctx, "test", &l, x, g, &only_x));
        for (int j = 0; j < 3; j++)
            assert_cmp_f64(got[j], ==, qg_learned_at(&grid, (double)x[j]).dx);
    }
    qg_ctx_free(ctx);
}

static void borders_count_as_inside(void **state)
{
    (void)state;
    qg_learned_grid lsq = { QG_LEARNED_LSQ, -8, 7, 0.5, 0 };
    assert_cmp_f64(qg_learned_at(&lsq, 3.5).dx, ==, 1);
    assert_cmp_f64(qg_learned_at(&lsq, 3.5).dparameter, ==, 0);
    assert_cmp_f64(qg_learned_at(&lsq, 3.75).dparameter, ==, 7);
    qg_learned_grid pact = { QG_LEARNED_PACT, 0, 15, 0.5, 0 };
    assert_cmp_f64(qg_learned_at(&pact, 0.5).dparameter, ==, 1);
    assert_cmp_f64(qg_learned_at(&pact, 0.5).dx, ==, 0);
    assert_cmp_f64(qg_learned_at(&pact, 0).dx, ==, 0);
    assert_true(isnan(qg_learned_at(&lsq, NAN).y));
    assert_cmp_f64(qg_learned_at(&lsq, NAN).dx, ==, 0);
}

static void bad_grids_are_refused(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_learned_grid g = { QG_LEARNED_LSQ, -8, 7, 0, 0 };
    assert_fails(
        ctx, qg_learned_check(ctx, "w", &g), QG_ENUMERIC,
        "learned grid: w: lsq parameter 0, offset 0, expected finite and a step "
        "above 0");
    g = (qg_learned_grid){ QG_LEARNED_LSQ, 1, 7, 1, 0 };
    assert_fails(ctx, qg_learned_check(ctx, "w", &g), QG_ENUMERIC, "codes [1, 7]");
    g = (qg_learned_grid){ QG_LEARNED_TQT, -8, 7, 2000, 0 };
    assert_fails(ctx, qg_learned_check(ctx, "w", &g), QG_ENUMERIC,
                 "tqt parameter 2000");
    float x = 0;
    qg_learned_layer l = { 1, 1, 1, &g };
    assert_fails(ctx, qg_learned_forward(ctx, "w", &l, &x, &x), QG_ENUMERIC, "tqt");
    for (int m = 0; m < QG_NLEARNED; m++)
        assert_int_equal(qg_learned_named(qg_learned_name((qg_learned)m)), m);
    assert_int_equal(qg_learned_named("?"), -1);
    qg_ctx_free(ctx);
}

QG_TEST_MAIN(cmocka_unit_test(derivatives_match_central_differences),
             cmocka_unit_test(arrays_are_sums_of_elements),
             cmocka_unit_test(masks_agree_at_borders),
             cmocka_unit_test(borders_count_as_inside),
             cmocka_unit_test(bad_grids_are_refused))

/* quant/nncf.h: properties, refusals, and the factor that the published gradient lacks.
 * The numbers are in tests/data/vectors/nncf_*.json. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/core/rng.h"
#include "engine/quant/nncf.h"

enum { SEED = 3, N = 4000 };

/* sum g[i] y(x[i]; scale) in double, with the rounding residual of every element held
 * at what it is for scale0: what straight-through means. */
static double held_loss(double scale, double scale0, qg_levels l, const float *x,
                        const float *g)
{
    double low0 = scale0 * l.low / l.high, step0 = (scale0 - low0) / (l.count - 1);
    double low = scale * l.low / l.high, step = (scale - low) / (l.count - 1);
    double sum = 0;
    for (int i = 0; i < N; i++) {
        double v = fmin(fmax((double)x[i], low0), scale0) / step0, held = rint(v) - v;
        double y = fmin(fmax((double)x[i], low), scale);
        sum += (double)g[i] * (y / step + held) * step;
    }
    return sum;
}

static double numeric(qg_levels l, double scale, const float *x, const float *g)
{
    double h = 1e-7;
    return (held_loss(scale + h, scale, l, x, g) -
            held_loss(scale - h, scale, l, x, g)) /
           (2 * h);
}

static double analytic(qg_ctx *ctx, qg_levels l, float scale, qg_nncf_grad grad,
                       const float *x, const float *g)
{
    qg_nncf_range range = qg_nncf_range_symmetric(scale, QG_NNCF_EPS, l);
    qg_nncf q = { .levels = l,
                  .grad = grad,
                  .outer = 1,
                  .channels = 1,
                  .inner = N,
                  .range = &range };
    double sum;
    qg_nncf_gradients out = { .range = &sum };
    assert_ok(ctx, qg_nncf_backward(ctx, "test", &q, x, g, &out));
    return sum;
}

/* Only a tenth of the values is clipped, so that the error inside counts. */
static void draw(float *x, float *g)
{
    qg_rng rng = { SEED };
    for (int i = 0; i < N; i++) {
        x[i] = qg_rng_range(&rng, -1.1f, 1.1f);
        g[i] = qg_rng_range(&rng, 0, 1);
    }
}

/* The corrected gradient is the derivative; the published one is not, unless alpha is
 * 0. */
static void exact_gradient_is_the_derivative(void **state)
{
    (void)state;
    static const struct {
        int bits;
        bool is_signed, narrow;
    } grid[] = {
        {8,  true,  false},
        { 8, true,  true },
        { 8, false, false},
        { 4, true,  false},
        { 4, true,  true },
        { 2, true,  false},
        { 3, true,  true },
        { 4, false, false}
    };
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    static float x[N], g[N];
    draw(x, g);
    for (size_t k = 0; k < sizeof grid / sizeof grid[0]; k++) {
        qg_levels l =
            qg_nncf_levels_symmetric(grid[k].bits, grid[k].is_signed, grid[k].narrow);
        double want = numeric(l, 1, x, g);
        double exact = analytic(ctx, l, 1, QG_NNCF_GRAD_EXACT, x, g);
        double published = analytic(ctx, l, 1, QG_NNCF_GRAD_PUBLISHED, x, g);
        assert_cmp_f64(fabs(exact - want), <, 1e-3 * fmax(1, fabs(want)));
        bool agree = fabs(published - want) < 1e-3 * fmax(1, fabs(want));
        if (grid[k].is_signed && grid[k].bits < 8)
            assert_false(agree);
        if (!grid[k].is_signed) {
            assert_true(agree);
            assert_cmp_f64(exact, ==, published);
        }
    }
    qg_ctx_free(ctx);
}

/* The lowest one of an asymmetric grid. */
static void narrow_gives_up_a_level(void **state)
{
    (void)state;
    for (int bits = 2; bits <= 16; bits++) {
        const qg_levels all = qg_nncf_levels_asymmetric(bits, false),
                        narrow = qg_nncf_levels_asymmetric(bits, true);
        assert_int_equal(all.low, 0);
        assert_int_equal(all.count, 1 << bits);
        assert_int_equal(narrow.low, 1);
        assert_int_equal(narrow.high, all.high);
        assert_int_equal(narrow.count, all.count - 1);
    }
}

static void zero_is_exact_in_the_new_formula(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_rng rng = { SEED };
    qg_levels l = qg_nncf_levels_asymmetric(8, false);
    int residues = 0;
    for (int i = 0; i < 2000; i++) {
        qg_nncf_range r = qg_nncf_range_asymmetric(
            qg_rng_range(&rng, -2, -0.1f), qg_rng_range(&rng, 2.1f, 4), QG_NNCF_EPS, l);
        qg_nncf q = { .levels = l, .outer = 1, .channels = 1, .inner = 1, .range = &r };
        float x = 0, y;
        assert_ok(ctx, qg_nncf_forward(ctx, "test", &q, &x, &y));
        assert_cmp_f64(y, ==, 0);
        q.formula = QG_NNCF_OLD;
        assert_ok(ctx, qg_nncf_forward(ctx, "test", &q, &x, &y));
        residues += y != 0;
    }
    assert_cmp_int(residues, >, 0); /* the old one leaves some */
    qg_ctx_free(ctx);
}

/* Tuning moves one border outwards and puts zero on a level. */
static void tuning_widens_and_aligns(void **state)
{
    (void)state;
    qg_rng rng = { SEED };
    for (int i = 0; i < 5000; i++) {
        float low = qg_rng_range(&rng, -2, 2), range = qg_rng_range(&rng, 0.1f, 3), z;
        qg_nncf_range r = qg_nncf_tune((qg_nncf_range){ low, range }, 256, &z);
        float high = fmaxf(low + range, 0);
        assert_cmp_f64(r.low, <=, fminf(low, 0));
        assert_cmp_f64(r.low + r.range, >=, high - 1e-6f);
        assert_true(r.low == fminf(low, 0) || fabsf(r.low + r.range - high) < 1e-6f);
        assert_in_range((int)z, 0, 255);
        if (z > 0 && z < 255)
            assert_cmp_f64(fabsf(-r.low / r.range * 255 - z), <, 1e-3f);
    }
}

/* Per channel with one range is per tensor, any layout. */
static void channels_are_independent(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    static float x[N], g[N], each[N], whole[N];
    double sums[5], total = 0, sum;
    draw(x, g);
    qg_levels l = qg_nncf_levels_symmetric(4, true, false);
    qg_nncf_range r[5];
    for (int c = 0; c < 5; c++)
        r[c] = qg_nncf_range_symmetric(0.7f, QG_NNCF_EPS, l);
    qg_nncf q = { .levels = l, .outer = 8, .channels = 5, .inner = N / 40, .range = r };
    assert_ok(ctx, qg_nncf_backward(
                       ctx, "test", &q, x, g,
                       &(qg_nncf_gradients){ .each_range = each, .range = sums }));
    q.outer = q.channels = 1;
    q.inner = N;
    assert_ok(ctx, qg_nncf_backward(
                       ctx, "test", &q, x, g,
                       &(qg_nncf_gradients){ .each_range = whole, .range = &sum }));
    assert_memory_equal(each, whole, sizeof each);
    for (int c = 0; c < 5; c++)
        total += sums[c];
    assert_cmp_f64(fabs(total - sum), <, 1e-9 * N);
    qg_ctx_free(ctx);
}

/* The LoRA class keeps the longer side: 4 bits, scale 1 and -1. */
static void signed_scale_selects_the_end(void **state)
{
    (void)state;
    qg_levels l = qg_nncf_levels_symmetric(4, true, false);
    qg_nncf_range up = qg_nncf_range_signed(1, QG_NNCF_EPS, l);
    qg_nncf_range down = qg_nncf_range_signed(-1, QG_NNCF_EPS, l);
    assert_cmp_f64(up.low, ==, -1);
    assert_cmp_f64(up.range, ==, 1.875f);
    assert_cmp_f64(down.low, ==, -0.875f);
    assert_cmp_f64(down.range, ==, 1.875f);
    assert_cmp_f64(qg_nncf_range_signed(0, QG_NNCF_EPS, l).range, >, 0);
}

static void unified_zero_points_agree(void **state)
{
    (void)state;
    qg_rng rng = { SEED };
    float low[300], high[300];
    for (int c = 0; c < 300; c++) {
        low[c] = qg_rng_range(&rng, -2, -0.5f);
        high[c] = qg_rng_range(&rng, 0.5f, 2);
    }
    qg_nncf_tune_borders(low, high, 300, 8, true);
    double z = -(double)low[0] / ((double)high[0] - (double)low[0]) * 255;
    assert_cmp_f64(fabs(z - rint(z)), <, 1e-3);
    for (int c = 1; c < 300; c++) {
        double zc = -(double)low[c] / ((double)high[c] - (double)low[c]) * 255;
        assert_cmp_f64(fabs(zc - z), <, 1e-3);
    }
}

static void bad_ranges_are_refused(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_levels l = qg_nncf_levels_symmetric(8, true, false);
    qg_nncf_range r = { 0, 0 };
    qg_nncf q = { .levels = l, .outer = 1, .channels = 1, .inner = 1, .range = &r };
    float x = 1, low = 0, high = INFINITY;
    int32_t levels;
    assert_fails(ctx, qg_nncf_forward(ctx, "w", &q, &x, &x), QG_ENUMERIC,
                 "fake quantize: w: low 0, range 0 of channel 0, expected finite");
    qg_nncf_ptq p = { .bits = 8, .symmetric = true };
    assert_fails(ctx, qg_nncf_ptq_range(ctx, &p, 1, &low, &high, &levels), QG_ENUMERIC,
                 "quantizer range: channel 0: [0, inf], expected finite");
    p = (qg_nncf_ptq){ .bits = 8, .half = true };
    assert_fails(ctx, qg_nncf_ptq_range(ctx, &p, 1, &low, &low, &levels), QG_ECONFIG,
                 "half range only for symmetric");
    assert_int_equal(qg_nncf_grad_named("exact"), QG_NNCF_GRAD_EXACT);
    assert_int_equal(qg_nncf_grad_named("nncf"), QG_NNCF_GRAD_PUBLISHED);
    assert_int_equal(qg_nncf_grad_named("other"), -1);
    qg_ctx_free(ctx);
}

QG_TEST_MAIN(cmocka_unit_test(exact_gradient_is_the_derivative),
             cmocka_unit_test(zero_is_exact_in_the_new_formula),
             cmocka_unit_test(narrow_gives_up_a_level),
             cmocka_unit_test(tuning_widens_and_aligns),
             cmocka_unit_test(channels_are_independent),
             cmocka_unit_test(signed_scale_selects_the_end),
             cmocka_unit_test(unified_zero_points_agree),
             cmocka_unit_test(bad_ranges_are_refused))

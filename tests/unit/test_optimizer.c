/* Adam and momentum (learn/optimizer.h): steps by hand, the schedule, the way back. */
#include <math.h>

#include "engine/learn/optimizer.h"
#include "tests/support/test.h"

enum { N = 19 }; /* no whole number of vectors */

static qg_optimized made(qg_ctx *ctx, const char *name, double rate)
{
    const qg_optimizer *by = qg_optimizers;
    while (by->name && strcmp(by->name, name) != 0)
        by++;
    assert_non_null(by->name);
    qg_optimized s = qg_optimized_new(ctx->arena, by, N, rate);
    assert_non_null(s.p);
    assert_int_equal(s.n, N);
    assert_int_equal(s.v != NULL, by->adaptive);
    for (size_t i = 0; i < N; i++)
        s.p[i] = (double)i;
    return s;
}

static double cosine(size_t t, size_t n)
{
    return (1 + cos(3.14159265358979323846 * (double)(t - 1) / (double)n)) / 2;
}

/* The formulas of the header; the first step goes by the rate, whatever g is. */
static void adam_is_as_published(void **state)
{
    qg_optimized s = made(*state, "adam", 0.5);
    double g[N], m[N] = { 0 }, v[N] = { 0 }, p[N];
    memcpy(p, s.p, sizeof p);
    for (size_t t = 1; t <= 5; t++) {
        for (size_t i = 0; i < N; i++) {
            g[i] = ((double)i - 9.5) * (double)t * (t == 3 ? -1 : 1);
            m[i] = 0.9 * m[i] + 0.1 * g[i];
            v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
            p[i] -= 0.5 * cosine(t, 5) * (m[i] / (1 - pow(0.9, (double)t))) /
                    (sqrt(v[i] / (1 - pow(0.999, (double)t))) + 1e-8);
        }
        qg_optimizer_step(&s, g, t, 5);
        for (size_t i = 0; i < N; i++)
            assert_cmp_f64(fabs(s.p[i] - p[i]), <, 1e-9);
        if (t == 1)
            assert_cmp_f64(fabs(s.p[0] - 0.5), <, 1e-8); /* g < 0 */
    }
}

static void momentum_is_as_published(void **state)
{
    qg_optimized s = made(*state, "sgd", 2);
    double g[N];
    for (size_t i = 0; i < N; i++)
        g[i] = (double)i + 1;
    qg_optimizer_step(&s, g, 1, 2); /* m = g */
    for (size_t i = 0; i < N; i++)
        assert_cmp_f64(fabs(s.p[i] + (double)i + 2), <, 1e-12);
    qg_optimizer_step(&s, g, 2, 2); /* m = 1.9 g, half of the rate */
    for (size_t i = 0; i < N; i++)
        assert_cmp_f64(fabs(s.p[i] + 2.9 * (double)i + 3.9), <, 1e-12);
}

/* No gradient, only the way back: 2 x 0.25 of it, then that at half of the rate. */
static void decay_goes_back_to_the_start(void **state)
{
    static const double none[N] = { 0 };
    float start[N];
    qg_optimized s = made(*state, "adam", 2);
    for (size_t i = 0; i < N; i++)
        start[i] = (float)i + 8;
    s.start = start;
    s.decay = 0.25;
    qg_optimizer_step(&s, none, 1, 2);
    for (size_t i = 0; i < N; i++)
        assert_cmp_f64(fabs(s.p[i] - ((double)i + 4)), <, 1e-12);
    qg_optimizer_step(&s, none, 2, 2);
    for (size_t i = 0; i < N; i++)
        assert_cmp_f64(fabs(s.p[i] - ((double)i + 5)), <, 1e-12);
    s.decay = 0;
    s.start = NULL;
    qg_optimizer_step(&s, none, 1, 2);
    assert_cmp_f64(fabs(s.p[0] - 5), <, 1e-12);
}

static void rows_end_with_no_name(void **state)
{
    (void)state;
    assert_string_equal(qg_optimizers[0].name, "adam");
    assert_cmp_f64(qg_optimizers[0].rate_factor, ==, 1);
    assert_string_equal(qg_optimizers[1].name, "sgd");
    assert_cmp_f64(qg_optimizers[1].rate_factor, >, 1);
    assert_null(qg_optimizers[2].name);
}

QG_TEST_MAIN(WITH_CTX(adam_is_as_published), WITH_CTX(momentum_is_as_published),
             WITH_CTX(decay_goes_back_to_the_start),
             cmocka_unit_test(rows_end_with_no_name))

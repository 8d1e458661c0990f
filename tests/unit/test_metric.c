/* quant/metric.h: values worked out by hand, order of sums, saturation. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/core/rng.h"
#include "engine/quant/metric.h"

static bool near(double a, double b) { return fabs(a - b) <= 1e-12 * fabs(b); }

static void values_by_hand(void **state)
{
    (void)state;
    static const float real[] = { 3, 4, 0 }, rounded[] = { 3, 3, 2 };
    qg_error e = { 0 };
    qg_error_add(&e, real, rounded, 3);
    assert_true(near(qg_error_nsr(&e), 5 / (25 + 1e-7)));
    assert_true(near(qg_error_mse(&e), 5.0 / 3));
    assert_true(near(qg_error_cosine(&e), 21 / (5 * sqrt(22))));
    assert_cmp_f64(qg_error_max(&e), ==, 2);
    assert_true(near(qg_error_decibel(&e), 10 * log10((25 + 1e-7) / 5)));
}

static void edges(void **state)
{
    (void)state;
    static const float zero[4], bad[] = { 1, NAN, 1, 1 };
    qg_error none = { 0 }, same = { 0 }, nan = { 0 };
    assert_cmp_f64(qg_error_mse(&none), ==, 0);
    assert_cmp_f64(qg_error_nsr(&none), ==, 0);
    qg_error_add(&same, zero, zero, 4);
    assert_cmp_f64(qg_error_nsr(&same), ==, 0);
    assert_cmp_f64(qg_error_cosine(&same), ==, 0);
    qg_error_add(&nan, bad, zero, 4);
    assert_true(isnan(qg_error_mse(&nan)));
    assert_cmp_f64(qg_error_max(&nan), ==, 1);
}

static void pieces_give_the_bits_of_the_whole(void **state)
{
    (void)state;
    enum { N = 1003 };
    static float real[N], rounded[N];
    qg_rng rng = { 3 };
    for (int i = 0; i < N; i++) {
        real[i] = qg_rng_range(&rng, -5, 5);
        rounded[i] = rintf(real[i]);
    }
    qg_error whole = { 0 }, pieces = { 0 };
    qg_error_add(&whole, real, rounded, N);
    for (int i = 0; i < N; i += 64)
        qg_error_add(&pieces, real + i, rounded + i, N - i < 64 ? (size_t)(N - i) : 64);
    assert_memory_equal(&whole, &pieces, sizeof whole);
}

static void metrics_have_names(void **state)
{
    (void)state;
    assert_ptr_equal(qg_metric_named("nsr")->value, qg_error_nsr);
    assert_ptr_equal(qg_metric_named("snr"), qg_metric_named("nsr")); /* its old name */
    assert_true(qg_metric_named("cosine")->higher_is_better);
    assert_false(qg_metric_named("mse")->higher_is_better);
    assert_null(qg_metric_named("psnr"));
}

static void saturation_counts_what_is_clamped(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    float v[] = { 127.4f, 127.6f, -128.5f, -128.6f, NAN, INFINITY, 449, 0 };
    float scale[] = { 1, 1 };
    qg_tensor x;
    uint64_t n = 99;
    qg_tensor_init(&x, QG_F32, 2, (int64_t[]){ 4, 2 });
    x.f32 = v;
    qg_scheme s = { .policy = QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC,
                    .bits = 8,
                    .axis = -1,
                    .qmin = -128,
                    .qmax = 127 };
    qg_qparam p = { 1, scale, NULL };
    assert_ok(ctx, qg_saturated(ctx, "t", &s, &p, &x, &n));
    assert_int_equal(n, 4); /* 127.6 rounds to 128, -128.5 to the even -128 */
    s.policy ^= QG_PER_TENSOR | QG_PER_CHANNEL;
    s.axis = 1;
    scale[1] = 1000;
    p.n = 2;
    assert_ok(ctx, qg_saturated(ctx, "t", &s, &p, &x, &n));
    assert_int_equal(n, 2); /* 449 in column 0, infinity in column 1 */
    s.policy |= QG_DYNAMIC;
    assert_fails(ctx, qg_saturated(ctx, "t", &s, &p, &x, &n), QG_ESTATE,
                 "t: the policy is dynamic, expected parameters");
    s = (qg_scheme){ .policy =
                         QG_PER_TENSOR | QG_FLOATING | QG_SYMMETRIC | QG_POWER_OF_2,
                     .bits = 8,
                     .exponent_bits = 4,
                     .axis = -1,
                     .qmin = -448,
                     .qmax = 448 };
    p.n = 1;
    assert_ok(ctx, qg_saturated(ctx, "t", &s, &p, &x, &n));
    assert_int_equal(n, 2);
    qg_ctx_free(ctx);
}

QG_TEST_MAIN(cmocka_unit_test(values_by_hand), cmocka_unit_test(edges),
             cmocka_unit_test(pieces_give_the_bits_of_the_whole),
             cmocka_unit_test(metrics_have_names),
             cmocka_unit_test(saturation_counts_what_is_clamped))

/* calib/mse.h, calib/aciq.h: the golden losses of docs/evidence/observers.md,
 * PPQ MSE observer; the tables of ACIQ, optima by their definition. */
#include "tests/support/calibration.h"

#include <math.h>

#include "engine/core/rng.h"
#include "engine/calib/aciq.h"
#include "engine/calib/mse.h"

static qg_histogram eight(const fixture *f, bool even)
{
    qg_histogram h;
    assert_ok(f->ctx, qg_histogram_new(f->ctx, f->arena, 8, 8, &h));
    for (size_t j = 0; j < 8; j++)
        h.count[j] = even ? 1 : (int64_t)j + 1;
    return h;
}

static void ppq_losses_of_the_specification(void **state)
{
    const fixture *f = *state;
    qg_histogram rising = eight(f, false), even = eight(f, true);
    assert_cmp_f64(
        fabs(qg_mse_ppq_loss(&rising, (qg_mse_grid){ 0, 2, 4 }) - 4.41666666666666667),
        <, 1e-12);
    assert_cmp_f64(
        fabs(qg_mse_ppq_loss(&rising, (qg_mse_grid){ 2, 3, 6 }) - 1.15104166666666667),
        <, 1e-12);
    assert_cmp_f64(qg_mse_ppq_loss(&even, (qg_mse_grid){ 0, 1, 8 }), ==, 0.0625);
}

/* The best of all grids by looking at each, for both searches. */
static void ppq_search_finds_the_least(void **state)
{
    const fixture *f = *state;
    qg_histogram h;
    qg_range_choice c;
    assert_ok(f->ctx, qg_histogram_new(f->ctx, f->arena, 64, 6.4, &h));
    for (size_t j = 0; j < 64; j++)
        h.count[j] = (int64_t)(1e6 * exp(-(double)j / 5));
    double least = qg_mse_ppq_loss(&h, (qg_mse_grid){ 0, 17, 68 });
    for (size_t step = 1; step <= 16; step++)
        least = fmin(least, qg_mse_ppq_loss(&h, (qg_mse_grid){ 0, step, 4 * step }));
    assert_ok(f->ctx, qg_mse_ppq(f->ctx, &h, 4, true, &c));
    assert_cmp_f64(c.loss, ==, least);
    assert_int_equal(c.index % 4, 0);
    assert_cmp_int(c.index, <, 64);
    assert_cmp_f64(fabs(c.high - (double)c.index * 0.1), <, 1e-12);
    assert_cmp_f64(c.low, ==, -c.high);
    for (size_t j = 0; j <= 64; j++)
        h.edge[j] -= 3.2; /* now starts below zero count */
    assert_ok(f->ctx, qg_mse_ppq(f->ctx, &h, 4, false, &c));
    assert_cmp_f64(c.loss, <=, least);
    assert_cmp_f64(c.low, <=, 0);
    assert_cmp_f64(c.low, <, c.high);
    assert_fails(f->ctx, qg_mse_ppq(f->ctx, &h, 0, true, &c), QG_ECONFIG,
                 "ppq-mse: 0 levels");
}

/* More levels than bins: only the min-max like candidate is left. */
static void ppq_has_one_candidate_for_many_bits(void **state)
{
    const fixture *f = *state;
    qg_histogram h = eight(f, true);
    qg_range_choice c;
    assert_ok(f->ctx, qg_mse_ppq(f->ctx, &h, 256, true, &c));
    assert_int_equal(c.index, 256);
    assert_cmp_f64(c.high, ==, 256);
}

/* Centers 0.5 .. 7.5, 2 bits: codes -1, 0, 1, so amax itself and zero. */
static void nvidia_errors_by_hand(void **state)
{
    const fixture *f = *state;
    qg_histogram h = eight(f, true);
    qg_mse m = { 2, false, 3 };
    qg_range_choice c;
    double loss[5];
    assert_ok(f->ctx, qg_mse_nvidia(f->ctx, f->arena, &m, &h, loss, &c));
    double want = 0; /* amax 3.5: 0.5 and 1.5 become 0 */
    for (double x = 0.5; x < 8; x++)
        want += x < 1.75 ? x * x : (x - 3.5) * (x - 3.5);
    assert_cmp_f64(fabs(loss[0] - want / 8), <, 1e-6);
    for (size_t i = 0; i < 5; i++)
        assert_cmp_f64(c.loss, <=, loss[i]);
    assert_cmp_f64(c.high, ==, (double)c.index + 0.5);
    assert_cmp_f64(c.low, ==, -c.high);
    m.start = 8;
    assert_fails(f->ctx, qg_mse_nvidia(f->ctx, f->arena, &m, &h, loss, &c), QG_ECONFIG,
                 "nvidia-mse: 2 bits, start 8, expected 2 to 16 and a start below 8");
    m.start = 3;
    h.edge[8] = 0x1p63;
    assert_ok(f->ctx, qg_mse_nvidia(f->ctx, f->arena, &m, &h, loss, &c));
    h.edge[8] = 0x1.1p63;
    assert_fails(f->ctx, qg_mse_nvidia(f->ctx, f->arena, &m, &h, loss, &c), QG_ENUMERIC,
                 "squares are beyond float32, expected at most 9.22337e+18");
}

/* Mean squared error of ACIQ's model. */
static double modelled(qg_aciq_shape shape, int bits, double a)
{
    double q = erfc(a / sqrt(2)) / 2, phi = exp(-a * a / 2) / sqrt(2 * acos(-1));
    double clip =
        shape == QG_ACIQ_LAPLACE ? 2 * exp(-a) : 2 * ((1 + a * a) * q - a * phi);
    return clip + a * a / (3 * ldexp(1, 2 * bits));
}

static void aciq_is_least(void **state)
{
    const fixture *f = *state;
    double threshold;
    for (int shape = 0; shape < 2; shape++)
        for (int bits = 1; bits <= 10; bits++) {
            qg_aciq_shape s = (qg_aciq_shape)shape;
            double a = qg_aciq_alpha(s, bits), least = modelled(s, bits, a);
            assert_cmp_f64(least, <, modelled(s, bits, a * 1.01));
            assert_cmp_f64(least, <, modelled(s, bits, a * 0.99));
        }
    assert_cmp_f64(fabs(qg_aciq_alpha(QG_ACIQ_LAPLACE, 24) +
                        log(qg_aciq_alpha(QG_ACIQ_LAPLACE, 24)) - log(3) - 48 * log(2)),
                   <, 1e-12);
    assert_ok(f->ctx, qg_aciq_threshold(f->ctx, QG_ACIQ_GAUSS, 4, 2, &threshold));
    assert_cmp_f64(fabs(threshold - 2 * 2.5591364), <, 1e-6);
    assert_fails(f->ctx, qg_aciq_threshold(f->ctx, QG_ACIQ_GAUSS, 25, 2, &threshold),
                 QG_ECONFIG, "aciq: 25 bits, expected 1 to 24");
    assert_fails(f->ctx, qg_aciq_threshold(f->ctx, QG_ACIQ_GAUSS, 8, NAN, &threshold),
                 QG_ENUMERIC, "aciq: a distribution of scale nan");
}

static void ncnn_guesses_sigma(void **state)
{
    const fixture *f = *state;
    float t;
    assert_ok(f->ctx, qg_aciq_ncnn(f->ctx, 4, 802816, 8, false, &t));
    assert_cmp_f64(t, ==, 3.2521138191223145f);
    assert_ok(f->ctx, qg_aciq_ncnn(f->ctx, 2.5f, 27, 8, false, &t));
    assert_cmp_f64(t, ==, 4.128255367279053f);
    assert_ok(f->ctx, qg_aciq_ncnn(f->ctx, 2.5f, 27, 8, true, &t));
    assert_cmp_f64(t, ==, 2.5f);
    assert_fails(f->ctx, qg_aciq_ncnn(f->ctx, 1, 1, 8, false, &t), QG_ENUMERIC,
                 "ncnn aciq: largest value 1 of 1 samples");
    assert_fails(f->ctx, qg_aciq_ncnn(f->ctx, 1, 9, 9, false, &t), QG_ECONFIG,
                 "ncnn aciq: 9 bits, expected 2 to 8");
}

/* The quick search chooses as if every candidate had been tried: histograms of several
 * shapes, even and uneven bins, signed and not. */
static void nvidia_search_is_the_exhaustive_one(void **state)
{
    const fixture *f = *state;
    qg_rng rng = { 77 };
    for (int round = 0; round < 60; round++) {
        size_t bins = 130 + qg_rng_below(&rng, 900);
        qg_mse m = { 4 + (int)qg_rng_below(&rng, 8), round % 3 == 0,
                     1 + qg_rng_below(&rng, 100) };
        qg_histogram h;
        qg_range_choice c;
        assert_ok(f->ctx, qg_histogram_new(f->ctx, f->arena, bins, 3, &h));
        for (size_t j = 0; j < bins; j++) {
            double shape = round % 2 ? exp(-(double)j / 60) : 1.0 / (double)(1 + j);
            h.count[j] = (int64_t)(shape * 1e5 * (double)qg_rng_below(&rng, 100) / 100);
            h.edge[j + 1] += round % 5 ? 0 : (double)j * (double)j * 1e-6;
        }
        double *loss = QG_NEWN(f->arena, bins, double);
        assert_ok(f->ctx, qg_mse_nvidia(f->ctx, f->arena, &m, &h, loss, &c));
        size_t best = 0;
        for (size_t i = 1; i < bins - m.start; i++)
            best = loss[i] < loss[best] ? i : best;
        if (c.index != m.start + best || c.loss != loss[best])
            fail_msg("round %d: bin %zu of loss %g, expected %zu of %g", round, c.index,
                     c.loss, m.start + best, loss[best]);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

QG_TEST_MAIN(TEST(ppq_losses_of_the_specification), TEST(ppq_search_finds_the_least),
             TEST(ppq_has_one_candidate_for_many_bits), TEST(nvidia_errors_by_hand),
             TEST(nvidia_search_is_the_exhaustive_one), TEST(aciq_is_least),
             TEST(ncnn_guesses_sigma))

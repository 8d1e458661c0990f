/* Where scales of weights start (learn/weight_grid.h): against a search of 4000 scales,
 * cases by hand, and which weights have a grid of their own. */
#include <math.h>

#include "engine/core/rng.h"
#include "engine/learn/weight_grid.h"
#include "tests/support/test.h"

enum { CHANNELS = 3, INNER = 11, OUTER = 2, MOST = 1001 };

/* One weight, one step; w as [OUTER, CHANNELS, INNER] or one channel of n. */
typedef struct fixture {
    qg_value value;
    qg_value *in[1];
    qg_node node;
    qg_tqc root;
    qg_tape_step step[2];
    qg_tape_weight weight[2];
    qg_tape t;
    float w[MOST], scale[CHANNELS];
    int32_t offset[CHANNELS];
} fixture;

static fixture f;

static void make(int32_t rank, const int64_t *dim, int32_t qmin, int32_t qmax)
{
    f = (fixture){
        .scale = {1, 1, 1}
    };
    f.in[0] = &f.value;
    f.node = (qg_node){ .in = f.in, .n_in = 1 };
    f.root = (qg_tqc){ .state = QG_TQC_ACTIVATED, .node = &f.node, .up = &f.root };
    f.root.scheme = (qg_scheme){
        .policy = QG_LINEAR | QG_SYMMETRIC, .axis = 1, .qmin = qmin, .qmax = qmax
    };
    f.step[0] = (qg_tape_step){ .root = &f.root,
                                .learned = true,
                                .n = rank == 3 ? CHANNELS : 1,
                                .scale = f.scale };
    f.step[1] = f.step[0];
    f.weight[0] = (qg_tape_weight){ .value = &f.value, .role = 'w', .step = 0 };
    qg_tensor_init(&f.weight[0].now, QG_F32, rank, dim);
    f.weight[0].now.f32 = f.w;
    f.weight[1] = f.weight[0];
    f.weight[1].step = 1;
    f.t = (qg_tape){ .n_weight = 2, .n_step = 2, .weight = f.weight, .step = f.step };
}

static void make_channels(int32_t qmin, int32_t qmax)
{
    make(3, (int64_t[]){ OUTER, CHANNELS, INNER }, qmin, qmax);
}

static void make_one(int64_t n, int32_t qmin, int32_t qmax) { make(1, &n, qmin, qmax); }

static float scale_of(size_t c) { return qg_weight_grid_scale(&f.t, &f.weight[0], c); }

/* Element by element, as the header has it. */
static double error_of(size_t c, double s)
{
    const bool one = f.step[0].n == 1;
    const size_t n = one ? (size_t)f.weight[0].now.dim[0] : (size_t)OUTER * INNER;
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t at = one ? i : (i / INNER * CHANNELS + c) * INNER + i % INNER;
        const double low = (double)f.root.scheme.qmin - (double)f.offset[c];
        const double high = (double)f.root.scheme.qmax - (double)f.offset[c];
        const double q = fmax(low, fmin(high, rint((double)f.w[at] / s)));
        sum += ((double)f.w[at] - s * q) * ((double)f.w[at] - s * q);
    }
    return sum;
}

/* What fits the codes of a scale best: sum w q / sum q^2. */
static double fitted(size_t c, double s)
{
    double wq = 0, qq = 0;
    for (size_t i = 0; i < (size_t)OUTER * INNER; i++) {
        const double w = (double)f.w[(i / INNER * CHANNELS + c) * INNER + i % INNER];
        const double q = fmax(-4, fmin(3, rint(w / s)));
        wq += w * q;
        qq += q * q;
    }
    return wq / qq;
}

static double least_error(size_t c)
{
    double least = INFINITY;
    for (int i = 1200; i <= 4000; i++) /* far finer than 0.02 */
        least = fmin(least, error_of(c, (double)f.scale[c] * i / 4000));
    return least;
}

static void draw(qg_rng *r, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float a = qg_rng_range(r, -1, 1), b = qg_rng_range(r, -1, 1);
        f.w[i] = a * b * fabsf(a);
    }
}

/* Each channel covers its largest weight, as calibration does. */
static void cover(double codes)
{
    for (size_t i = 0; i < (size_t)OUTER * CHANNELS * INNER; i++) {
        float *s = &f.scale[i / INNER % CHANNELS];
        *s = i < (size_t)CHANNELS * INNER && i % INNER == 0 ? 0 : *s;
        *s = fmaxf(*s, (float)((double)fabsf(f.w[i]) / codes));
    }
}

/* A gain of a quarter at least, else the scale stays. */
static void finds_the_least_error(void **state)
{
    qg_rng r = { 2 };
    int moved = 0, stayed = 0;
    (void)state;
    for (int turn = 0; turn < 20; turn++) {
        make_channels(-4, 3);
        draw(&r, (size_t)OUTER * CHANNELS * INNER);
        cover(turn % 2 ? 4 : 3);
        for (size_t c = 0; c < CHANNELS; c++) {
            const double was = error_of(c, (double)f.scale[c]);
            const double s = (double)scale_of(c), least = least_error(c);
            moved += s != (double)f.scale[c];
            stayed += s == (double)f.scale[c];
            if (s != (double)f.scale[c])
                assert_cmp_f64(error_of(c, s), <=, 0.75 * was);
            else
                assert_cmp_f64(least, >=, 0.6 * was);
            if (least < 0.6 * was)
                assert_cmp_f64(error_of(c, s), <, 1.1 * least);
            if (s != (double)f.scale[c]) /* no codes change any more */
                assert_float_equal(s, fitted(c, s), 1e-6 * s);
        }
    }
    assert_cmp_int(moved, >, 15);
    assert_cmp_int(stayed, >, 15);
}

/* Two codes apart: 0.155 is one step only at the last of the scales that are tried,
 * and its mean with the weight that is clipped is best for these codes. */
static void goes_on_to_the_last_scale(void **state)
{
    (void)state;
    make_one(MOST, -1, 1);
    for (size_t i = 0; i < MOST; i++)
        f.w[i] = i ? 0.155f : 1;
    assert_float_equal(scale_of(0), (1 + 1000 * 0.155) / 1001, 1e-7);
    for (size_t i = 0; i < MOST; i++) /* nor further: at 0.28 it would be */
        f.w[i] = i ? 0.145f : 1;
    assert_cmp_f64(scale_of(0), ==, 1);
}

/* Codes -1 to 1, errors of calibration 4 x 0.2^2 = 0.16, which a scale of 0.84 leaves
 * 0.16^2 + 4 x 0.04^2 = 0.032 of; (1 + 4 x 0.8) / 5 is 0.84. */
static void codes_give_their_best_scale(void **state)
{
    (void)state;
    make_one(5, -1, 1);
    for (size_t i = 0; i < 5; i++)
        f.w[i] = i == 1 ? -1 : 0.8f;
    assert_float_equal(scale_of(0), 0.84, 1e-7);
    f.w[1] = -0.8f; /* all alike: exactly */
    assert_float_equal(scale_of(0), 0.8, 1e-7);
}

/* x weights of 1, the others of 1 - d: the best scale leaves the share x / n of the
 * error, whatever d is. */
static void a_quarter_is_the_least_gain(void **state)
{
    (void)state;
    make_one(20, -1, 1); /* 1 / 20 of d^2 (n - 1) is left */
    for (size_t i = 0; i < 20; i++)
        f.w[i] = i < 1 ? 1 : 0.9f;
    assert_cmp_f64(scale_of(0), <, 1);
    for (size_t i = 0; i < 20; i++) /* 14 / 20 */
        f.w[i] = i < 14 ? 1 : 0.9f;
    assert_float_equal(scale_of(0), 1 - 0.1 * 6 / 20, 1e-6);
    make_one(4, -1, 1); /* 3 / 4, and no rounding anywhere: no more than a quarter */
    for (size_t i = 0; i < 4; i++)
        f.w[i] = i < 3 ? 1 : 0.75f;
    assert_cmp_f64(scale_of(0), ==, 1);
    make_one(20, -1, 1);
    for (size_t i = 0; i < 20; i++) /* 16 / 20 */
        f.w[i] = i < 16 ? 1 : 0.9f;
    assert_cmp_f64(scale_of(0), ==, 1);
}

static void zeros_and_exact_weights_keep_their_scale(void **state)
{
    (void)state;
    make_one(9, -4, 3);
    f.scale[0] = 0.7f;
    assert_cmp_f64(scale_of(0), ==, 0.7f);
    for (size_t i = 0; i < 9; i++)
        f.w[i] = (float)((int)i % 8 - 4) * 0.7f;
    assert_cmp_f64(scale_of(0), ==, 0.7f);
    make_one(2, -1, 1); /* all codes are 0 at any scale: nothing to fit */
    f.w[0] = f.w[1] = 0.001f;
    assert_cmp_f64(scale_of(0), ==, 1);
}

/* Codes 0 to 3 around zero point 1: -1 to 2.  0.3 below counts as one step of it. */
static void codes_are_around_the_zero_point(void **state)
{
    static float scale = 1;
    (void)state;
    make_one(5, 0, 3);
    f.root.nparam = 1;
    f.root.scale = &scale;
    f.root.offset = f.offset;
    f.offset[0] = 1;
    for (size_t i = 0; i < 5; i++)
        f.w[i] = i < 2 ? -0.8f : 1.6f;
    assert_float_equal(scale_of(0), 0.8, 1e-7);
    f.offset[0] = 0;
    for (size_t i = 0; i < 5; i++)
        f.w[i] = i < 2 ? 2.4f : 1.6f;
    assert_float_equal(scale_of(0), 0.8, 1e-7);
    f.offset[0] = 1; /* no more than two steps: of 1.2 */
    for (size_t i = 0; i < 5; i++)
        f.w[i] = 2.4f;
    assert_float_equal(scale_of(0), 1.2, 1e-7);
}

/* Weights below zero, codes above it: no scale fits, and none becomes negative. */
static void scales_stay_positive(void **state)
{
    (void)state;
    make_one(4, 1, 3);
    for (size_t i = 0; i < 4; i++)
        f.w[i] = -1;
    assert_cmp_f64(scale_of(0), ==, 0.3f);
    make_one(2, 1, 1); /* what fits best is a scale of 0 */
    f.w[0] = -1;
    f.w[1] = 1;
    assert_cmp_f64(scale_of(0), ==, 0.3f);
}

/* 1, 1/2 or 1/4 of it, whichever is best, without a least gain. */
static void powers_of_two_stay_such(void **state)
{
    static const float w[] = { 1, 0.5f, 0.25f, 0.9f }, want[] = { 1, 0.5f, 0.25f, 1 };
    (void)state;
    for (int k = 0; k < 4; k++) {
        make_one(7, -1, 1);
        f.root.scheme.policy |= QG_POWER_OF_2;
        for (size_t i = 0; i < 7; i++)
            f.w[i] = w[k];
        assert_cmp_f64(scale_of(0), ==, want[k]);
    }
    f.w[0] = 0.55f; /* 0.5: 6 x 0.4^2 + 0.05^2, 1: 6 x 0.1^2 + 0.45^2 */
    assert_cmp_f64(scale_of(0), ==, 1);
    for (size_t i = 0; i < 7; i++) /* code 0 with all three: none is better */
        f.w[i] = 0.001f;
    assert_cmp_f64(scale_of(0), ==, 1);
}

static bool is_own(void) { return qg_weight_grid_is_own(&f.t, &f.weight[0]); }

static void grids_of_their_own(void **state)
{
    qg_value other = { 0 };
    (void)state;
    make_one(5, -4, 3);
    assert_true(is_own());
    f.weight[1].step = 0; /* a second weight on the same grid */
    assert_false(is_own());
    f.weight[1].step = QG_NONE;
    assert_true(is_own());
    f.t.n_weight = 1;
    assert_true(is_own());
    f.step[0].learned = false;
    assert_false(is_own());
    f.step[0].learned = true;
    f.root.scheme.policy = QG_DYNAMIC;
    assert_false(is_own());
    f.root.scheme.policy = QG_LINEAR;
    f.in[0] = &other; /* the root is that of an activation */
    assert_false(is_own());
    f.in[0] = &f.value;
    f.weight[0].step = QG_NONE;
    assert_false(is_own());
}

QG_TEST_MAIN(cmocka_unit_test(finds_the_least_error),
             cmocka_unit_test(goes_on_to_the_last_scale),
             cmocka_unit_test(codes_give_their_best_scale),
             cmocka_unit_test(a_quarter_is_the_least_gain),
             cmocka_unit_test(zeros_and_exact_weights_keep_their_scale),
             cmocka_unit_test(codes_are_around_the_zero_point),
             cmocka_unit_test(scales_stay_positive),
             cmocka_unit_test(powers_of_two_stay_such),
             cmocka_unit_test(grids_of_their_own))

/* What a block learns (learn/parameters.h), on tapes by hand: which arrays, their units
 * and rates, and what a step of plain descent, p -= rate g, makes of each. */
#include <float.h>
#include <math.h>

#include "engine/learn/parameters.h"
#include "tests/support/test.h"

/* w: more than two parts, one scale; gain, bias: on no grid. */
enum { W = 2500, G = 3, STEPS = 3, WEIGHTS = 3 };

typedef struct fixture {
    qg_ctx *ctx;
    qg_value value[3], *in[3];
    qg_node node;
    qg_tqc root[STEPS], *tout[1], out;
    qg_tape tape[2], *list[2];
    qg_tape_weight *weight[2]; /* in the arena, where one too far is noticed */
    qg_tape_step *step[2];
    qg_tapes tapes;
    qg_tune_method method;
    qg_parameters p;
    float *now[WEIGHTS], *start[WEIGHTS], *grad[2][WEIGHTS];
    float scale[STEPS][2], first[STEPS][2], of_out;
    double step_grad[2][STEPS][2], border_grad[2][STEPS][2];
    int32_t offset[2];
} fixture;

static fixture f;

static const char roles[WEIGHTS] = { 'w', 'b', 'g' };
static const int64_t sizes[WEIGHTS] = { W, G, G };

static float *room(size_t n) { return QG_NEWN(f.ctx->arena, n, float); }

static void make_weights(size_t k)
{
    f.weight[k] = QG_NEWN(f.ctx->arena, WEIGHTS, qg_tape_weight);
    for (size_t i = 0; i < WEIGHTS; i++) {
        qg_tape_weight *w = &f.weight[k][i];
        *w =
            (qg_tape_weight){ .value = &f.value[0], .role = roles[i], .step = QG_NONE };
        qg_tensor_init(&w->now, QG_F32, 1, &sizes[i]);
        w->start = w->grad = w->now;
        f.now[i] = k ? f.now[i] : room((size_t)sizes[i]);
        f.start[i] = k ? f.start[i] : room((size_t)sizes[i]);
        f.grad[k][i] = room((size_t)sizes[i]);
        w->now.f32 = f.now[i];
        w->start.f32 = f.start[i];
        w->grad.f32 = f.grad[k][i];
    }
    f.weight[k][0].step = 0;
}

/* Step 0: of the weight; 1, 2: of activations with one scale, and with two. */
static void make_steps(size_t k)
{
    f.step[k] = QG_NEWN(f.ctx->arena, STEPS, qg_tape_step);
    for (size_t i = 0; i < STEPS; i++)
        f.step[k][i] = (qg_tape_step){ .root = &f.root[i],
                                       .learned = true,
                                       .n = i == 2 ? 2 : 1,
                                       .scale = f.scale[i],
                                       .start = f.first[i],
                                       .grad = f.step_grad[k][i],
                                       .border_grad = f.border_grad[k][i] };
}

static int setup(void **state)
{
    static const qg_tensor constant;
    qg_ctx_free(f.ctx); /* of a row before */
    f = (fixture){ .ctx = qg_ctx_new(qg_alloc_libc) };
    f.value[0].constant = &constant;
    for (size_t i = 0; i < STEPS; i++) {
        f.in[i] = &f.value[i];
        f.root[i] = (qg_tqc){ .node = &f.node, .slot = (uint32_t)i, .up = &f.root[i] };
        f.root[i].state = QG_TQC_ACTIVATED;
        f.root[i].scheme = (qg_scheme){ .policy = QG_LINEAR | QG_SYMMETRIC,
                                        .axis = i == 2 ? 0 : -1,
                                        .qmin = -128,
                                        .qmax = 127 };
        for (size_t c = 0; c < 2; c++)
            f.scale[i][c] = f.first[i][c] = 0.5f + (float)(i + c);
    }
    f.node = (qg_node){ .in = f.in, .n_in = 3, .tout = f.tout, .n_out = 1 };
    for (size_t k = 0; k < 2; k++) {
        make_weights(k);
        make_steps(k);
        f.list[k] = &f.tape[k];
        f.tape[k] = (qg_tape){ .ctx = f.ctx,
                               .n_weight = WEIGHTS,
                               .n_step = STEPS,
                               .weight = f.weight[k],
                               .step = f.step[k] };
    }
    for (size_t i = 0; i < WEIGHTS; i++)
        for (int64_t e = 0; e < sizes[i]; e++)
            f.now[i][e] = f.start[i][e] = (float)e / 100 - 10;
    f.tapes = (qg_tapes){ .ctx = f.ctx, .n = 2, .tape = f.list };
    f.method = (qg_tune_method){ .pace = 1 };
    f.p = (qg_parameters){ .ctx = f.ctx,
                           .arena = f.ctx->arena,
                           .tapes = &f.tapes,
                           .method = &f.method,
                           .optimizer = &qg_optimizers[1],
                           .rate = 0.25 };
    *state = &f;
    return f.ctx == NULL;
}

static int teardown(void **state)
{
    (void)state;
    qg_ctx_free(f.ctx);
    f.ctx = NULL;
    return 0;
}

static void choose(void) { assert_ok(f.ctx, qg_parameters_of(&f.p, &f.tape[0])); }

/* One update from the gradients of tape k, the first of `steps`. */
static void learn(size_t k, size_t t, size_t steps)
{
    assert_ok(f.ctx, qg_parameters_add(&f.p, &f.tape[k]));
    assert_ok(f.ctx, qg_parameters_step(&f.p, t, steps));
    qg_parameters_store(&f.p);
}

static bool near(double got, double want)
{
    return fabs(got - want) <= 2e-6 * (1 + fabs(want));
}

#define assert_near(got, want)                                                         \
    do {                                                                               \
        if (!near((double)(got), (double)(want)))                                      \
            fail_msg("%s: %.9g, expected %.9g", #got, (double)(got), (double)(want));  \
    } while (0)

/* --- which arrays ---------------------------------------------------------------- */

/* Elements of each that are learned: w, b, g, and the three steps. */
static void methods_choose(void **state)
{
    static const struct {
        bool weights, biases, steps, rounding;
        size_t arrays;
        bool w, b, g, step, step_of_w;
    } rows[] = {
        {false,  false, false, false, 0, false, false, false, false, false},
        { true,  false, false, false, 2, true,  false, true,  false, false},
        { false, true,  false, false, 1, false, true,  false, false, false},
        { false, false, true,  false, 3, false, false, false, true,  true },
        { true,  true,  true,  false, 6, true,  true,  true,  true,  true },
        { false, false, false, true,  1, true,  false, false, false, false},
        { false, true,  true,  true,  4, true,  true,  false, true,  false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        void *again = NULL;
        assert_int_equal(setup(&again), 0);
        f.method.weights = rows[i].weights;
        f.method.biases = rows[i].biases;
        f.method.steps = rows[i].steps;
        f.method.rounding = rows[i].rounding;
        f.step[0][0].learned = !rows[i].weights || rows[i].steps;
        f.now[0][0] = -10.2f; /* between two codes */
        choose();
        assert_int_equal(f.p.array.n, rows[i].arrays);
        for (size_t k = 0; k < WEIGHTS; k++)
            f.grad[0][k][0] = 10;
        for (size_t k = 0; k < STEPS; k++)
            f.step_grad[0][k][0] = 0.1;
        f.scale[0][0] = 0.5f;
        qg_parameters_store(&f.p);
        learn(0, 1, 4);
        assert_int_equal(fabsf(f.now[0][0] + 10.2f) > 1e-2f, rows[i].w);
        assert_int_equal(f.now[1][0] != -10, rows[i].b);
        assert_int_equal(f.now[2][0] != -10, rows[i].g);
        assert_int_equal(f.scale[1][0] != 1.5f, rows[i].step);
        assert_int_equal(f.scale[0][0] != 0.5f, rows[i].step_of_w);
    }
}

/* Steps that are not learned stay; a grid that is not linear has no rounding, and its
 * weight learns freely where weights do. */
static void grids_that_do_not_learn(void **state)
{
    (void)state;
    f.method = (qg_tune_method){ .steps = true, .rounding = true, .pace = 1 };
    f.step[0][1].learned = false;
    f.root[0].scheme.policy = QG_DYNAMIC;
    choose();
    assert_int_equal(f.p.array.n, 2); /* steps 0 and 2 */
    assert_false(f.weight[0][0].on_grid);
    f.p.array.n = f.p.part.n = 0;
    f.weight[0][0].step = QG_NONE;
    f.method.weights = true;
    choose();
    assert_int_equal(f.p.array.n, 4); /* w, gain, and the same steps */
}

/* --- weights --------------------------------------------------------------------- */

/* In units of the step, 0.5: w -= rate 0.5^2 g, with the mean of two gradients, of
 * different tapes. */
static void weights_move_in_units_of_their_step(void **state)
{
    (void)state;
    f.method.weights = true;
    f.step[0][0].learned = false;
    choose();
    for (size_t e = 0; e < W; e++) {
        f.grad[0][0][e] = (float)e;
        f.grad[1][0][e] = 3 * (float)e + 2;
    }
    assert_ok(f.ctx, qg_parameters_add(&f.p, &f.tape[0]));
    learn(1, 1, 2);
    for (size_t e = 0; e < W; e++)
        assert_near(f.now[0][e],
                    (double)f.start[0][e] - 0.25 * 0.25 * (2 * (double)e + 1));
    for (size_t e = 0; e < W; e++) /* sums begin anew: m = 0.9 m + g */
        f.grad[0][0][e] = 8;
    learn(0, 2, 2);
    for (size_t e = 0; e < W; e++)
        assert_near(f.now[0][e],
                    (double)f.start[0][e] -
                        0.25 * 0.25 * (1.45 * (2 * (double)e + 1) + 0.5 * 8));
}

/* The mean of the scales where a weight has one for each channel. */
static void the_unit_is_the_mean_of_the_scales(void **state)
{
    (void)state;
    f.method.weights = true;
    f.step[0][0].learned = false;
    f.weight[0][0].step = 2; /* 2.5 and 3.5 */
    f.step[0][2].learned = false;
    choose();
    f.grad[0][0][7] = 1;
    learn(0, 1, 1);
    assert_near(f.now[0][7], (double)f.start[0][7] - 0.25 * 9);
}

/* A quarter of the root mean square, the step of what the node gives, or 0.001. */
static void units_of_biases(void **state)
{
    static const struct {
        float size, out;
        double unit;
        bool used;
    } rows[] = {
        {8,  1, 2,    true },
        { 8, 3, 3,    true },
        { 0, 3, 3,    true },
        { 8, 3, 2,    false},
        { 0, 0, 1e-3, true },
        { 0, 3, 1e-3, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        void *again = NULL;
        assert_int_equal(setup(&again), 0);
        for (size_t e = 0; e < G; e++) /* mean square: size^2 */
            f.now[1][e] = f.start[1][e] = rows[i].size * (e == 0   ? 0
                                                          : e == 1 ? 1
                                                                   : -sqrtf(2));
        f.of_out = rows[i].out;
        f.out = (qg_tqc){ .up = &f.out, .nparam = rows[i].out > 0, .scale = &f.of_out };
        f.out.state = QG_TQC_ACTIVATED;
        f.tout[0] = &f.out;
        qg_use use = { &f.node, 2 };
        f.value[0].use.at = &use;
        f.value[0].use.n = rows[i].used;
        f.method.biases = true;
        choose();
        f.grad[0][1][1] = -1;
        learn(0, 1, 1);
        const double moved = (double)f.now[1][1] - (double)f.start[1][1];
        assert_cmp_f64(fabs(moved - 0.25 * rows[i].unit * rows[i].unit), <,
                       1e-6 * (double)(rows[i].size + 0.01f));
    }
}

/* Adam: a first step of the rate; half of the rate of that back where weights learn. */
static void weights_go_back_and_biases_beside_them(void **state)
{
    (void)state;
    for (int weights = 0; weights < 2; weights++) {
        void *again = NULL;
        assert_int_equal(setup(&again), 0);
        f.method.biases = true;
        f.method.weights = weights;
        f.step[0][0].learned = false;
        f.p.optimizer = &qg_optimizers[0];
        choose();
        f.grad[0][0][3] = f.grad[0][1][1] = 5;
        learn(0, 1, 1);
        const double unit = 9.99 / 4, by = weights ? 0.25 * (1 - 0.5 * 0.25) : 0.25;
        assert_cmp_f64(fabs((double)(f.start[1][1] - f.now[1][1]) - by * unit), <,
                       1e-4);
        assert_near(f.start[0][3] - f.now[0][3], weights ? by * 0.5 : 0);
    }
}

/* --- steps ----------------------------------------------------------------------- */

/* p = ln(s / start): p -= rate g s, where that of activations has the pace. */
static void steps_move_by_their_logarithm(void **state)
{
    (void)state;
    f.method = (qg_tune_method){ .steps = true, .pace = 4 };
    choose();
    f.step_grad[0][0][0] = 0.4;
    f.step_grad[0][1][0] = -0.2;
    f.step_grad[0][2][0] = 0.1;
    f.step_grad[0][2][1] = -0.2;
    learn(0, 1, 2);
    assert_near(f.scale[0][0], 0.5 * exp(-0.25 * 0.4 * 0.5));
    assert_near(f.scale[1][0], 1.5 * exp(0.2 * 1.5));
    assert_near(f.scale[2][0], 2.5 * exp(-0.1 * 2.5));
    assert_near(f.scale[2][1], 3.5 * exp(0.2 * 3.5));
    /* The scale now, not at the start; gradients of the other tape. */
    const double s = (double)f.scale[1][0];
    f.step_grad[1][1][0] = 0.1;
    learn(1, 2, 2);
    assert_near(f.scale[1][0],
                1.5 * exp(0.2 * 1.5 + 0.5 * (0.9 * 0.2 * 1.5 - 0.1 * s)));
}

/* Within e^3, and positive and finite. */
static void steps_have_limits(void **state)
{
    (void)state;
    f.method = (qg_tune_method){ .steps = true, .pace = 1 };
    f.scale[0][0] = f.first[0][0] = FLT_MIN;
    f.scale[2][0] = f.first[2][0] = FLT_MAX;
    choose();
    f.step_grad[0][0][0] = 1e39;
    f.step_grad[0][1][0] = 1e6;
    f.step_grad[0][2][0] = -1e6;
    f.step_grad[0][2][1] = -1e6;
    learn(0, 1, 2);
    assert_cmp_f64(f.scale[0][0], ==, FLT_MIN);
    assert_near(f.scale[1][0], 1.5 * exp(-3));
    assert_cmp_f64(f.scale[2][0], ==, FLT_MAX);
    assert_near(f.scale[2][1], 3.5 * exp(3));
}

/* Halfway between two at first: 0.5 ln 2 = 0.35 to either, without the pace. */
static void powers_of_two_jump(void **state)
{
    static const double moves[] = { 0.3, 0.4, 1.0, 1.1 }, up[] = { 1, 2, 2, 4 },
                        down[] = { 1, 0.5, 0.5, 0.25 };
    (void)state;
    for (int k = 0; k < 4; k++) {
        void *again = NULL;
        assert_int_equal(setup(&again), 0);
        f.method = (qg_tune_method){ .steps = true, .pace = 4 };
        for (size_t i = 1; i < STEPS; i++) {
            f.root[i].scheme.policy |= QG_POWER_OF_2;
            f.scale[i][0] = f.first[i][0] = 0.5f;
        }
        choose();
        qg_parameters_store(&f.p);
        assert_cmp_f64(f.scale[1][0], ==, 0.5);
        f.step_grad[0][1][0] = -moves[k] * 8; /* rate 0.25, scale 0.5 */
        f.step_grad[0][2][0] = moves[k] * 8;
        learn(0, 1, 2);
        assert_cmp_f64(f.scale[1][0], ==, 0.5 * up[k]);
        assert_cmp_f64(f.scale[2][0], ==, 0.5 * down[k]);
    }
}

static void shift(qg_step_gradient g, int32_t zero)
{
    f.method = (qg_tune_method){ .steps = true, .pace = 2 };
    f.root[1].scheme.policy = QG_LINEAR | QG_ASYMMETRIC;
    f.root[1].scheme.qmin = 4;
    f.root[1].scheme.qmax = 44; /* half of the range: 20 steps */
    f.scale[1][0] = f.first[1][0] = 0.5f;
    f.offset[0] = zero;
    for (size_t k = 0; k < 2; k++) {
        f.step[k][1].shifts = true;
        f.step[k][1].offset = f.offset;
        f.tape[k].gradient = g;
    }
    choose();
    qg_parameters_store(&f.p);
    assert_int_equal(f.offset[0], zero);
}

/* B = s (c - z) in units of 10; p -= 0.5 g 10, B moves by 10 times that, and z the
 * other way by B / s. */
static void borders_move_the_zero_point(void **state)
{
    static const qg_step_gradient both[] = { QG_STEP_GRADIENT_LSQ_PLUS,
                                             QG_STEP_GRADIENT_NNCF_ASYMMETRIC };
    static const struct {
        double grad;
        int32_t want;
    } rows[] = {
        {0.03,    13}, /* B - 1.5: 3 steps */
        { -0.03,  7 },
        { 0.0049, 10},
        { 0.0051, 11},
        { -0.06,  4 },
        { -0.07,  4 },
        { 0.34,   44},
        { 0.35,   44},
        { 0.331,  43},
    };
    (void)state;
    for (size_t k = 0; k < 2 * sizeof rows / sizeof rows[0]; k++) {
        void *again = NULL;
        assert_int_equal(setup(&again), 0);
        shift(both[k % 2], 10);
        f.border_grad[0][1][0] = rows[k / 2].grad;
        learn(0, 1, 2);
        if (f.offset[0] != rows[k / 2].want)
            fail_msg("%g: zero point %d, expected %d", rows[k / 2].grad, f.offset[0],
                     rows[k / 2].want);
    }
}

/* With B as it is and a scale twice as large the zero point is half as far from the
 * code of the border: 10 becomes 5, or 4 + (10 - 4) / 2. */
static void borders_stay_when_steps_grow(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        void *again = NULL;
        assert_int_equal(setup(&again), 0);
        shift(k ? QG_STEP_GRADIENT_NNCF_ASYMMETRIC : QG_STEP_GRADIENT_LSQ_PLUS, 10);
        f.step_grad[0][1][0] = -log(2) / (0.5 * 0.5);
        learn(0, 1, 2);
        assert_near(f.scale[1][0], 1);
        assert_int_equal(f.offset[0], k ? 7 : 5);
    }
}

/* --- means and the result -------------------------------------------------------- */

/* The bias, whose unit is 1, without a schedule: of a million steps. */
static void learn_bias(double grad, size_t t)
{
    f.grad[0][1][0] = (float)grad;
    learn(0, t, 1000000);
}

static void make_bias(void)
{
    static qg_use use;
    for (size_t e = 0; e < G; e++)
        f.now[1][e] = f.start[1][e] = 0;
    f.of_out = 1;
    f.out = (qg_tqc){ .up = &f.out, .nparam = 1, .scale = &f.of_out };
    f.out.state = QG_TQC_ACTIVATED;
    f.tout[0] = &f.out;
    use = (qg_use){ &f.node, 2 };
    f.value[0].use.at = &use;
    f.value[0].use.n = 1;
    f.method.biases = true;
    choose();
}

/* m and with it the moves: -1, -0.9 ..., from 0: p is -0.25, -0.475, -0.6775. */
static void the_result_is_the_mean(void **state)
{
    (void)state;
    make_bias();
    learn_bias(1, 1);
    assert_near(f.now[1][0], -0.25);
    qg_parameters_begin_mean(&f.p);
    assert_int_equal(f.p.n_mean, 0);
    qg_parameters_store_mean(&f.p); /* of no step */
    assert_cmp_f64(f.now[1][0], ==, 0);
    learn_bias(0, 2);
    assert_near(f.now[1][0], -0.475);
    qg_parameters_keep_mean(&f.p);
    learn_bias(0, 3);
    assert_near(f.now[1][0], -0.6775);
    assert_int_equal(f.p.n_mean, 2);
    qg_parameters_store_mean(&f.p);
    assert_near(f.now[1][0], -0.57625);
    qg_parameters_store(&f.p); /* the mean has not replaced it */
    assert_near(f.now[1][0], -0.6775);
    f.weight[0][2].on_grid = true;
    qg_parameters_finish(&f.p);
    assert_near(f.now[1][0], -0.57625);
    assert_false(f.weight[0][2].on_grid);
    qg_parameters_take(&f.p, 0.5);
    assert_near(f.now[1][0], -0.288125);
    qg_parameters_take(&f.p, 0);
    assert_cmp_f64(f.now[1][0], ==, 0);
    qg_parameters_return_to_kept(&f.p);
    qg_parameters_take(&f.p, 1);
    assert_near(f.now[1][0], -0.475);
}

/* Without qg_parameters_begin_mean: of all steps. */
static void means_begin_with_the_first_step(void **state)
{
    (void)state;
    make_bias();
    learn_bias(1, 1);
    learn_bias(0, 2);
    qg_parameters_store_mean(&f.p);
    assert_near(f.now[1][0], -0.3625);
}

/* --- roundings ------------------------------------------------------------------- */

/* Codes of 0.5: 0.3 / 0.5 is 0.6: up; 0.2 / 0.5 is 0.4: down; moved to the other by a
 * gradient, of the last step whatever the mean is. */
static void roundings_end_on_codes(void **state)
{
    (void)state;
    f.method.rounding = true;
    f.now[0][0] = f.now[0][1] = 0.3f;
    f.now[0][2] = f.now[0][3] = 0.2f;
    f.now[0][2000] = 0.3f; /* beyond one part: as the second */
    f.grad[0][0][2000] = 20;
    choose();
    assert_true(f.weight[0][0].on_grid);
    assert_false(f.weight[0][1].on_grid);
    qg_parameters_store(&f.p);
    assert_cmp_f64(fabs((double)f.now[0][1] - 0.3), <, 0.0006);
    f.grad[0][0][1] = 20;
    f.grad[0][0][3] = -20;
    learn(0, 1, 100);
    assert_cmp_f64(f.now[0][2000], ==, f.now[0][1]);
    qg_parameters_store_mean(&f.p);
    qg_parameters_keep_mean(&f.p); /* none of roundings */
    f.grad[0][0][1] = f.grad[0][0][3] = f.grad[0][0][2000] = 0;
    qg_parameters_return_to_kept(&f.p);
    qg_parameters_finish(&f.p);
    assert_cmp_f64(f.now[0][0], ==, 0.5);
    assert_cmp_f64(f.now[0][1], ==, 0);
    assert_cmp_f64(f.now[0][2], ==, 0);
    assert_cmp_f64(f.now[0][3], ==, 0.5);
    assert_false(f.weight[0][0].on_grid);
}

/* The penalty moves what no gradient does, after a fifth of the steps. */
static void penalties_begin_after_a_fifth(void **state)
{
    (void)state;
    f.method.rounding = true;
    f.now[0][0] = 0.3f;
    choose();
    qg_parameters_store(&f.p);
    const float before = f.now[0][0];
    learn(0, 1, 10);
    learn(0, 2, 10);
    assert_cmp_f64(f.now[0][0], ==, before);
    learn(0, 3, 10);
    for (size_t t = 4; t <= 9; t++)
        learn(0, t, 10);
    assert_cmp_f64(f.now[0][0], >, before + 0.01f);
}

/* --- grids of weights ------------------------------------------------------------ */

/* Three codes: 0.4 everywhere is one step of 0.4; only of role w. */
static void scales_of_weights_start_at_their_best(void **state)
{
    (void)state;
    f.method.weights = true;
    for (size_t e = 0; e < W; e++)
        f.now[0][e] = f.now[2][e % G] = 0.4f;
    f.root[0].scheme.qmin = f.root[1].scheme.qmin = -1;
    f.root[0].scheme.qmax = f.root[1].scheme.qmax = 1;
    f.weight[0][2].step = 1;
    f.weight[0][2].value = &f.value[1];
    f.scale[1][0] = 0.5f;
    choose();
    assert_near(f.scale[0][0], 0.4);
    assert_cmp_f64(f.scale[1][0], ==, 0.5);
    f.method = (qg_tune_method){ .biases = true, .steps = true };
    f.p.array.n = f.p.part.n = 0;
    f.scale[0][0] = 0.5f;
    choose();
    assert_cmp_f64(f.scale[0][0], ==, 0.5); /* weights that stay: so do scales */
}

/* ln(0.4 / 0.5) is where such a scale begins. */
static void steps_begin_at_the_scale_as_it_is(void **state)
{
    (void)state;
    f.method = (qg_tune_method){ .steps = true, .pace = 1 };
    f.scale[0][0] = 0.4f;
    choose();
    qg_parameters_store(&f.p);
    assert_near(f.scale[0][0], 0.4);
    qg_parameters_take(&f.p, 0);
    assert_near(f.scale[0][0], 0.4);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
QG_TEST_MAIN(TEST(methods_choose), TEST(grids_that_do_not_learn),
             TEST(weights_move_in_units_of_their_step),
             TEST(the_unit_is_the_mean_of_the_scales), TEST(units_of_biases),
             TEST(weights_go_back_and_biases_beside_them),
             TEST(steps_move_by_their_logarithm), TEST(steps_have_limits),
             TEST(powers_of_two_jump), TEST(borders_move_the_zero_point),
             TEST(borders_stay_when_steps_grow), TEST(the_result_is_the_mean),
             TEST(means_begin_with_the_first_step), TEST(roundings_end_on_codes),
             TEST(penalties_begin_after_a_fifth),
             TEST(scales_of_weights_start_at_their_best),
             TEST(steps_begin_at_the_scale_as_it_is))

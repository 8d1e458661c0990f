/* What a tune has done to the outputs (learn/judgement.h), from lanes by hand: each
 * output has one element, which is 1 in float, so that the noise of 1 + e is e^2. */
#include <math.h>

#include "engine/learn/judgement.h"
#include "tests/support/session.h"

enum { N = 8, VALUES = 16, CLASSES = 3 };

typedef struct fixture {
    qg_ctx *ctx;
    qg_model m;
    qg_stream s;
    const qg_tensor *at[QG_NLANE][VALUES * N];
    qg_tensor tensor[QG_NLANE][VALUES * N];
    float data[QG_NLANE][VALUES * N][CLASSES];
} fixture;

static fixture f;

static int setup(void **state)
{
    f = (fixture){ .ctx = qg_ctx_new(qg_alloc_libc) };
    f.ctx->registry = &qg_ops_registry;
    model_of_text(
        f.ctx,
        "graph {\n x = input f32[1]\n y = Neg(x)\n s = Shape(x)\n z = Exp(x)\n"
        " output y, s, z\n}",
        &f.m);
    assert_cmp_int(f.m.graph->value.n, <=, VALUES);
    f.s = (qg_stream){ .ctx = f.ctx, .graph = f.m.graph, .room = N };
    f.s.sample.n = N;
    for (int lane = 0; lane < QG_NLANE; lane++)
        f.s.at[lane] = f.at[lane];
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    qg_graph_free(f.m.graph);
    qg_ctx_free(f.ctx);
    return 0;
}

static const qg_value *output(size_t k) { return f.m.graph->output.at[k]; }

/* n elements of a lane of an output. */
static float *put(enum qg_lane lane, size_t k, size_t sample, int64_t n)
{
    const size_t at = output(k)->id * N + sample;
    qg_tensor_init(&f.tensor[lane][at], QG_F32, 1, &n);
    f.tensor[lane][at].f32 = f.data[lane][at];
    f.at[lane][at] = &f.tensor[lane][at];
    return f.data[lane][at];
}

/* What lies behind the samples of an output must not be looked at. */
static void put_behind(void)
{
    for (int lane = 0; lane < QG_NLANE; lane++)
        *put((enum qg_lane)lane, 1, 0, 1) = 1;
}

/* Noise of output k, of those that judge first, then of the others. */
static void noise(size_t k, const double *before, const double *after)
{
    size_t judge = 0, other = qg_n_judges(f.s.sample);
    put_behind();
    for (size_t i = 0; i < f.s.sample.n; i++) {
        const size_t j = qg_judges(f.s.sample, i) ? judge++ : other++;
        *put(QG_LANE_FLOAT, k, i, 1) = 1;
        *put(QG_LANE_BEFORE, k, i, 1) = 1 + (float)sqrt(before[j]);
        *put(QG_LANE_NOW, k, i, 1) = 1 - (float)sqrt(after[j]);
    }
}

static qg_judgement judged(void)
{
    qg_judgement j = { 0 };
    assert_ok(f.ctx, qg_judge_outputs(&f.s, f.ctx->arena, &j));
    return j;
}

static bool near(double got, double want) { return fabs(got - want) < 1e-5; }

static const double ones[N] = { 1, 1, 1, 1, 1, 1, 1, 1 };
static const double half[N] = { .5, .6, .5, .6, .5, .6, .5, .6 };
static const double tiny[N] = { .1, .11, .1, .11, .1, .11, .1, .11 };
static const double other[N] = { .2, .19, .2, .19, .2, .19, .2, .19 };

/* Noise of the worst output, over the two samples that judge; s is no float. */
static void less_noise_is_better(void **state)
{
    (void)state;
    noise(0, ones, half);
    noise(2, tiny, tiny);
    qg_judgement j = judged();
    assert_true(j.better);
    assert_null(j.worse);
    assert_true(near(j.noise[0], 1) && near(j.noise[1], 0.55));
    noise(0, half, ones);
    j = judged();
    assert_false(j.better);
    assert_ptr_equal(j.worse, output(0));
    assert_true(near(j.noise[0], 0.55) && near(j.noise[1], 1));
}

/* Clearly worse: not better, whatever the others gain.  The first of two is named. */
static void no_output_may_be_clearly_worse(void **state)
{
    (void)state;
    noise(0, ones, half);
    noise(2, tiny, other);
    qg_judgement j = judged();
    assert_false(j.better);
    assert_ptr_equal(j.worse, output(2));
    noise(0, half, ones);
    assert_ptr_equal(judged().worse, output(0));
}

/* One of the judges of z gains as much as the other loses: nothing clear, but the worst
 * output has more noise; with as much it may be better. */
static void the_worst_may_not_have_more(void **state)
{
    static const double was[N] = { 2, 2, 2, 2, 2, 2, 2, 2 };
    static const double more[N] = { 3, 1.01, 2, 2, 2, 2, 2, 2 };
    static const double less[N] = { 3, 0.99, 2, 2, 2, 2, 2, 2 };
    (void)state;
    noise(0, ones, tiny);
    noise(2, was, more);
    qg_judgement j = judged();
    assert_null(j.worse);
    assert_true(near(j.noise[0], 2) && near(j.noise[1], 2.005));
    assert_false(j.better);
    noise(2, was, less);
    assert_true(near(judged().noise[1], 1.995));
    noise(2, was, was);
    assert_true(judged().better);
}

/* With samples that taught it is clear; a holdout judges alone (test_verdict). */
static void others_count_unless_there_is_a_holdout(void **state)
{
    static const double before[N] = { 1, 2, 3, 4, 1, 2, 3, 4 };
    static const double gain[N] = { .9, 1.9, 1, 1.5, .4, .6, 1.2, 1.1 };
    (void)state;
    noise(0, before, gain);
    noise(2, before, gain);
    assert_true(judged().better);
    f.s.sample.holdout = 2;
    noise(0, before, gain);
    noise(2, before, gain);
    assert_false(judged().better);
}

/* One of those that taught, the first, has lost what the others gained. */
static void each_of_the_others_counts(void **state)
{
    static const double gain[N] = { .8, .8, .8, .8, .8, .8, .8, .8 };
    static const double lost[N] = { .8, .8, 100, .8, .8, .8, .8, .8 };
    (void)state;
    noise(0, ones, gain);
    noise(2, ones, gain);
    assert_true(judged().better);
    noise(0, ones, lost);
    assert_false(judged().better);
}

/* Fewer than four: each of them counts alike. */
static void few_samples_all_judge(void **state)
{
    static const double gain[N] = { .7, .8, .8 };
    (void)state;
    f.s.sample.n = 3;
    noise(0, ones, gain);
    noise(2, ones, gain);
    const qg_judgement j = judged();
    assert_true(j.better);
    assert_true(near(j.noise[0], 1) && near(j.noise[1], 2.3 / 3));
}

/* Of zeros no noise is known; nor of what a lane does not have. */
static void outputs_without_a_signal_do_not_count(void **state)
{
    qg_judgement j;
    (void)state;
    noise(0, ones, half);
    noise(2, half, ones);
    for (size_t i = 0; i < N; i++)
        *put(QG_LANE_FLOAT, 2, i, 1) = 0;
    j = judged();
    assert_true(j.better);
    assert_null(j.worse);
    assert_true(near(j.noise[0], 1));
    noise(2, half, ones);
    for (size_t i = 0; i < N; i++)
        f.at[QG_LANE_FLOAT][output(2)->id * N + i] = NULL;
    j = judged();
    assert_true(j.better);
    assert_true(near(j.noise[1], 0.55));
}

static void what_is_no_number_is_worse(void **state)
{
    qg_judgement j;
    (void)state;
    noise(0, ones, half);
    noise(2, tiny, tiny);
    *put(QG_LANE_BEFORE, 0, 3, 1) = NAN;
    j = judged();
    assert_true(j.better);
    assert_true(isnan(j.noise[0]) && near(j.noise[1], 0.55));
    *put(QG_LANE_BEFORE, 2, 3, 1) = NAN; /* the first NaN stays */
    assert_true(isnan(judged().noise[0]));
    noise(0, ones, half);
    noise(2, tiny, tiny);
    *put(QG_LANE_NOW, 2, 7, 1) = NAN;
    j = judged();
    assert_false(j.better);
    assert_true(isnan(j.noise[1]) && near(j.noise[0], 1));
    noise(0, ones, half);
    noise(2, tiny, tiny);
    *put(QG_LANE_NOW, 0, 7, 1) = NAN;
    assert_true(isnan(judged().noise[1]));
}

/* --- classes --- */

static void logits(enum qg_lane lane, size_t k, size_t i, float a, float b, float c)
{
    float *at = put(lane, k, i, CLASSES);
    at[0] = a, at[1] = b, at[2] = c;
}

/* Scores of y: the float network is sure of 0, before of nothing. */
static void make_classes(void)
{
    for (size_t i = 0; i < N; i++) {
        const float sure = qg_judges(f.s.sample, i) ? 2 : 0;
        logits(QG_LANE_FLOAT, 0, i, 2, 0, 0);
        logits(QG_LANE_BEFORE, 0, i, 0, 0, (float)i / 8);
        logits(QG_LANE_NOW, 0, i, sure, 0, 0);
        logits(QG_LANE_FLOAT, 2, i, 1, 0, 0);
        logits(QG_LANE_BEFORE, 2, i, 1, 1, 0);
        logits(QG_LANE_NOW, 2, i, 1, 0.5f, 0);
    }
}

static double kd(const qg_loss *l, size_t k, enum qg_lane lane, size_t i)
{
    const qg_value *v = output(k);
    return qg_loss_of_classes(l, qg_stream_value(&f.s, v, lane, i),
                              qg_stream_value(&f.s, v, QG_LANE_FLOAT, i), i, NULL);
}

/* The sum over outputs, the mean of the two that judge. */
static void divergences_are_added_up(void **state)
{
    const qg_loss loss = { .kind = QG_LOSS_KD };
    qg_judgement j = {
        .loss = {9, 9}
    };
    double want[2] = { 0, 0 };
    (void)state;
    make_classes();
    assert_ok(f.ctx, qg_judge_classes(&f.s, &loss, f.ctx->arena, &j));
    for (size_t i = 3; i < N; i += 4) {
        want[0] +=
            (kd(&loss, 0, QG_LANE_BEFORE, i) + kd(&loss, 2, QG_LANE_BEFORE, i)) / 2;
        want[1] += (kd(&loss, 0, QG_LANE_NOW, i) + kd(&loss, 2, QG_LANE_NOW, i)) / 2;
    }
    assert_cmp_f64(want[1], >, 0);
    assert_true(near(j.loss[0], want[0]) && near(j.loss[1], want[1]));
    assert_true(j.better);
    const qg_tensor **now = f.s.at[QG_LANE_NOW];
    f.s.at[QG_LANE_NOW] = f.s.at[QG_LANE_BEFORE];
    f.s.at[QG_LANE_BEFORE] = now;
    assert_ok(f.ctx, qg_judge_classes(&f.s, &loss, f.ctx->arena, &j));
    assert_true(near(j.loss[0], want[1]) && near(j.loss[1], want[0]));
    assert_false(j.better);
}

/* Of the first output alone: -ln q of its label, and how often it is the largest. */
static void labels_are_those_of_the_first_output(void **state)
{
    const int64_t label[N] = { 1, 1, 1, 0, 1, 1, 1, 2 };
    const qg_loss loss = {
        QG_LOSS_LABELS, {label, 1, "labels.npy"},
         NULL
    };
    qg_judgement j = { 0 };
    (void)state;
    make_classes();
    assert_ok(f.ctx, qg_judge_classes(&f.s, &loss, f.ctx->arena, &j));
    const double a = log(2 + exp(3. / 8)), b = log(2 + exp(7. / 8)) - 7. / 8;
    assert_true(near(j.loss[0], (a + b) / 2));
    assert_true(near(j.loss[1], (log(exp(2) + 2) - 2 + log(exp(2) + 2)) / 2));
    assert_ok(f.ctx, qg_judge_labels(&f.s, &loss, f.ctx->arena, &j));
    assert_cmp_f64(j.top1[0], ==, 0.5); /* 2 and 2: of sample 7 */
    assert_cmp_f64(j.top1[1], ==, 0.5); /* 0 and 0: of sample 3 */
    logits(QG_LANE_NOW, 0, 7, 0, 1, 2);
    assert_ok(f.ctx, qg_judge_labels(&f.s, &loss, f.ctx->arena, &j));
    assert_cmp_f64(j.top1[1], ==, 1);
    const int64_t none[N] = { 1, 1, 1, 3, 1, 1, 1, 2 };
    const qg_loss wrong = {
        QG_LOSS_LABELS, {none, 1, "labels.npy"},
         NULL
    };
    assert_fails(
        f.ctx, qg_judge_labels(&f.s, &wrong, f.ctx->arena, &j), QG_EDATA,
        "tune: labels: labels.npy: 3 (number 1), expected a class from 0 to 2");
}

/* The first of three is right. */
static void all_of_few_samples_have_labels(void **state)
{
    const int64_t label[N] = { 0, 1, 1 };
    const qg_loss loss = {
        QG_LOSS_LABELS, {label, 1, "labels.npy"},
         NULL
    };
    qg_judgement j = { 0 };
    (void)state;
    f.s.sample.n = 3;
    make_classes();
    assert_ok(f.ctx, qg_judge_classes(&f.s, &loss, f.ctx->arena, &j));
    const double right = log(exp(2) + 2) - 2, wrong = log(exp(2) + 2);
    assert_true(near(j.loss[1], (right + 2 * wrong) / 3));
    assert_ok(f.ctx, qg_judge_labels(&f.s, &loss, f.ctx->arena, &j));
    assert_true(near(j.top1[1], 1. / 3));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
QG_TEST_MAIN(TEST(less_noise_is_better), TEST(no_output_may_be_clearly_worse),
             TEST(the_worst_may_not_have_more),
             TEST(others_count_unless_there_is_a_holdout),
             TEST(outputs_without_a_signal_do_not_count),
             TEST(what_is_no_number_is_worse), TEST(each_of_the_others_counts),
             TEST(few_samples_all_judge), TEST(all_of_few_samples_have_labels),
             TEST(divergences_are_added_up), TEST(labels_are_those_of_the_first_output))

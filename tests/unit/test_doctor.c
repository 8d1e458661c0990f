/* calib/doctor.h: data made wrong on purpose, one warning each; and data that are right
 * give none. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/core/rng.h"
#include "engine/calib/doctor.h"

enum { SAMPLES = 6, CHANNELS = 3, SIDE = 12, COUNT = CHANNELS * SIDE * SIDE };

typedef struct fixture {
    qg_ctx *ctx;
    qg_arena *arena;
    qg_findings f;
    float x[SAMPLES][COUNT];
    qg_look look[SAMPLES];
    qg_input_kind kind;
} fixture;

static const int64_t plain[] = { 1, CHANNELS, SIDE, SIDE },
                     last[] = { 1, SIDE, SIDE, CHANNELS };

/* Smooth pictures whose channels differ: waves of other phase and height. */
static float pixel(size_t sample, size_t c, size_t y, size_t x)
{
    double phase = 0.3 * (double)sample + 1.7 * (double)c;
    return (float)(0.5 + 0.15 * (double)c +
                   0.2 * sin(phase + 0.35 * (double)x + 0.2 * (double)y));
}

static int begin(void **state)
{
    static fixture f;
    memset(&f, 0, sizeof f);
    f.ctx = qg_ctx_new(qg_alloc_libc);
    f.arena = qg_arena_new(qg_alloc_libc);
    f.f = (qg_findings){ .ctx = f.ctx, .arena = f.arena };
    for (size_t s = 0; s < SAMPLES; s++)
        for (size_t i = 0; i < COUNT; i++)
            f.x[s][i] = pixel(s, i / (SIDE * SIDE), i / SIDE % SIDE, i % SIDE);
    *state = &f;
    return 0;
}

static int end(void **state)
{
    fixture *f = *state;
    qg_arena_free(f->arena);
    qg_ctx_free(f->ctx);
    return 0;
}

static void judge_inputs(fixture *f, const int64_t *dim)
{
    qg_tensor t;
    qg_tensor_init(&t, QG_F32, 4, dim);
    f->kind = qg_input_kind_of("image", &t);
    for (size_t s = 0; s < SAMPLES; s++) {
        t.f32 = f->x[s];
        qg_look_at(&t, f->kind.channels, &f->look[s]);
    }
    f->f.found.n = 0;
    assert_ok(f->ctx, qg_judge_input(&f->f, &f->kind, f->look, SAMPLES));
}

/* Exactly one finding: this kind, sample and text. */
static void expect_one(const fixture *f, enum qg_finding_kind kind, size_t sample,
                       const char *text)
{
    if (f->f.found.n != 1)
        fail_msg("%zu findings, expected 1: %s", f->f.found.n,
                 f->f.found.n ? f->f.found.at[0].what : "");
    const qg_finding *g = &f->f.found.at[0];
    assert_string_equal(qg_finding_name(g->kind), qg_finding_name(kind));
    assert_int_equal(g->sample, sample);
    if (!strstr(g->what, text))
        fail_msg("'%s' lacks '%s'", g->what, text);
}

static void good_data_give_nothing(void **state)
{
    fixture *f = *state;
    judge_inputs(f, plain);
    assert_int_equal(f->f.found.n, 0);
}

static void constant_samples(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < COUNT; i++)
        f->x[4][i] = 0.25f;
    judge_inputs(f, plain);
    expect_one(f, QG_FINDING_CONSTANT, 4, "all 432 elements are 0.25");
    assert_string_equal(f->f.found.at[0].where, "image");
}

/* One finding of an input, not one of each sample; a copy of a constant sample is no
 * duplicate beside it. */
static void constant_inputs(void **state)
{
    fixture *f = *state;
    memset(f->x[2], 0, sizeof f->x[2]);
    memset(f->x[4], 0, sizeof f->x[4]);
    judge_inputs(f, plain);
    expect_one(f, QG_FINDING_CONSTANT, 2,
               "all 432 elements are equal (0) here and in 1 other sample, expected "
               "different values");
    memset(f->x[1], 0, sizeof f->x[1]); /* most of them: what is left is no outlier */
    memset(f->x[5], 0, sizeof f->x[5]);
    judge_inputs(f, plain);
    expect_one(f, QG_FINDING_CONSTANT, 1, "here and in 3 other samples");
    memset(f->x, 0, sizeof f->x);
    judge_inputs(f, plain);
    expect_one(f, QG_FINDING_CONSTANT, 0, "here and in 5 other samples");
}

static void duplicates(void **state)
{
    fixture *f = *state;
    memcpy(f->x[5], f->x[1], sizeof f->x[5]);
    judge_inputs(f, plain);
    expect_one(f, QG_FINDING_DUPLICATE, 5, "identical to sample 1");
    memcpy(f->x[3], f->x[1], sizeof f->x[3]);
    judge_inputs(f, plain);
    expect_one(f, QG_FINDING_DUPLICATE, 3,
               "identical to sample 1 here and in 1 other sample");
    f->x[3][COUNT - 1] += 2e-3f;
    f->x[5][COUNT - 1] += 1e-3f; /* nearly is not the same */
    judge_inputs(f, plain);
    assert_int_equal(f->f.found.n, 0);
}

static void not_finite(void **state)
{
    fixture *f = *state;
    f->x[2][7] = NAN;
    f->x[2][8] = -INFINITY;
    f->x[2][9] = NAN;
    judge_inputs(f, plain);
    expect_one(f, QG_FINDING_NOT_FINITE, 2, "2 NaN and 1 infinities, expected");
    f->x[5][0] = INFINITY;
    judge_inputs(f, plain);
    expect_one(f, QG_FINDING_NOT_FINITE, 2,
               "2 NaN and 1 infinities here and in 1 other sample");
}

/* One picture of 0..255 among pictures of 0..1, and the other way round. */
static void scaled_differently(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < COUNT; i++)
        f->x[3][i] *= 255;
    judge_inputs(f, plain);
    expect_one(f, QG_FINDING_RANGE, 3, "scaled differently");
    for (size_t s = 0; s < SAMPLES; s++)
        for (size_t i = 0; i < COUNT; i++)
            f->x[s][i] *= s == 3 ? 1 / 255.f : 255;
    judge_inputs(f, plain);
    expect_one(f, QG_FINDING_RANGE, 3, "scaled differently");
}

/* The same pictures in the other order of memory. */
static void layouts(void **state)
{
    fixture *f = *state;
    judge_inputs(f, last); /* planes read as interleaved */
    expect_one(f, QG_FINDING_LAYOUT, SIZE_MAX,
               "data seem to have channels first, expected channels last");
    for (size_t s = 0; s < SAMPLES; s++)
        for (size_t i = 0; i < COUNT; i++)
            f->x[s][i] =
                pixel(s, i % CHANNELS, i / CHANNELS / SIDE, i / CHANNELS % SIDE);
    judge_inputs(f, last);
    assert_int_equal(f->f.found.n, 0);
    judge_inputs(f, plain);
    expect_one(f, QG_FINDING_LAYOUT, SIZE_MAX,
               "data seem to have channels last, expected channels first");
}

/* --- values --- */

static qg_watch watched(fixture *f, bool spread, double scale, int dead)
{
    qg_watch w, part[2];
    qg_tensor t;
    qg_tensor_init(&t, QG_F32, 4, plain);
    for (int k = 0; k < 2; k++)
        assert_ok(f->ctx, qg_watch_begin(f->ctx, f->arena, &t, spread, &part[k]));
    assert_ok(f->ctx, qg_watch_begin(f->ctx, f->arena, &t, spread, &w));
    qg_rng rng = { 8 };
    for (size_t s = 0; s < SAMPLES; s++) {
        for (size_t i = 0; i < COUNT; i++) {
            float v = (float)(((double)qg_rng_below(&rng, 2001) / 1000 - 1) * scale);
            f->x[s][i] = (int)(i / (SIDE * SIDE)) == dead ? 0 : v;
        }
        t.f32 = f->x[s];
        qg_watch_see(&part[s % 2], s, &t);
    }
    qg_watch_merge(&w, &part[1]);
    qg_watch_merge(&w, &part[0]);
    return w;
}

static void dead_channels(void **state)
{
    fixture *f = *state;
    qg_watch w = watched(f, false, 1, -1);
    assert_ok(f->ctx, qg_judge_channels(&f->f, &w, "y"));
    assert_int_equal(f->f.found.n, 0);
    w = watched(f, false, 1, 1);
    assert_ok(f->ctx, qg_judge_channels(&f->f, &w, "y"));
    expect_one(f, QG_FINDING_DEAD, SIZE_MAX, "1 of 3 channels are constant (1)");
}

/* A uniform distribution over +-1 has variance 1/3. */
static void scale_of_the_first_layer(void **state)
{
    fixture *f = *state;
    const float mean[CHANNELS] = { 0 }, third = 1.f / 3,
                variance[CHANNELS] = { third, third, third },
                bias[CHANNELS] = { 0.5f, -0.5f, 0.5f };
    qg_expected normal = { .layer = "bn", .mean = mean, .variance = variance, .n = 3 };
    qg_expected biased = { .layer = "conv", .bias = bias, .n = 3 };
    qg_watch w = watched(f, true, 1, -1);
    assert_ok(f->ctx, qg_judge_scale(&f->f, &normal, &w, "y"));
    assert_ok(f->ctx, qg_judge_scale(&f->f, &biased, &w, "y"));
    assert_int_equal(f->f.found.n, 0);
    w = watched(f, true, 255, -1);
    assert_ok(f->ctx, qg_judge_scale(&f->f, &normal, &w, "y"));
    expect_one(f, QG_FINDING_RANGE, SIZE_MAX,
               "times that expected by the variance of bn");
    f->f.found.n = 0;
    assert_ok(f->ctx, qg_judge_scale(&f->f, &biased, &w, "y"));
    expect_one(f, QG_FINDING_RANGE, SIZE_MAX,
               "times that expected by the bias of conv");
    f->f.found.n = 0;
    w = watched(f, true, 1 / 255., -1);
    assert_ok(f->ctx, qg_judge_scale(&f->f, &normal, &w, "y"));
    expect_one(f, QG_FINDING_RANGE, SIZE_MAX, "0..255 instead of 0..1?");
    f->f.found.n = 0;
    w = watched(f, true, 0, -1); /* a constant tells nothing about the scale */
    assert_ok(f->ctx, qg_judge_scale(&f->f, &normal, &w, "y"));
    assert_int_equal(f->f.found.n, 0);
}

static void samples_that_stand_alone(void **state)
{
    fixture *f = *state;
    const char *const name[] = { "x", "y", "z" };
    static const float top[3][SAMPLES] = {
        {1,  1, 5, 1, 2, 1},
        { 3, 3, 2, 3, 1, 3},
        { 1, 1, 9, 2, 2, 2}
    };
    qg_watch w[3];
    for (int k = 0; k < 3; k++) {
        w[k] = (qg_watch){ .sample = SIZE_MAX };
        for (size_t s = SAMPLES; s-- > 0;) /* the order is no matter */
            qg_watch_note(&w[k], s, top[k][s]);
    }
    assert_ok(f->ctx, qg_judge_alone(&f->f, w, name, 3, SAMPLES));
    expect_one(f, QG_FINDING_ALONE, 2,
               "5 in this sample, at most 2 in all others (the same at 2");
    assert_string_equal(f->f.found.at[0].where, "x");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

QG_TEST_MAIN(TEST(good_data_give_nothing), TEST(constant_samples),
             TEST(constant_inputs), TEST(duplicates), TEST(not_finite),
             TEST(scaled_differently), TEST(layouts), TEST(dead_channels),
             TEST(scale_of_the_first_layer), TEST(samples_that_stand_alone))

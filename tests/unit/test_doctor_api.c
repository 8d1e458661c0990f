/* qg_model_doctor and the end of quantize: the demo model with data made wrong. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/api/qg.h"
#include "engine/core/file.h"
#include "engine/data/npy.h"

static const char *const MODEL = "configs/models/digits.onnx";
static const char *const CALIB = "configs/data/digits_calib.npy";

typedef struct fixture {
    qg_ctx *ctx;
    qg_arena *arena;
    const qg_tensor *x; /* [64, 1, 8, 8], ours to write */
    char path[32];
} fixture;

static int begin(void **state)
{
    static fixture f;
    memcpy(f.path, "/tmp/qg_doctor_XXXXXX", 22);
    assert_int_equal(qg_open(NULL, &f.ctx), QG_OK);
    f.arena = qg_arena_new(qg_alloc_libc);
    assert_ok(f.ctx, qg_npy_load(f.ctx, f.arena, CALIB, &f.x));
    int file = mkstemp(f.path);
    *state = &f;
    return file < 0 ? -1 : close(file);
}

static int end(void **state)
{
    fixture *f = *state;
    qg_arena_free(f->arena);
    qg_close(f->ctx);
    return unlink(f->path);
}

static float *sample(fixture *f, int64_t i) { return f->x->f32 + i * 64; }

static const char *answer(fixture *f, unsigned jobs)
{
    qg_model *m;
    qg_report *r;
    qg_doctor_options o;
    qg_doctor_options_init(&o, sizeof o);
    char npy[64];
    (void)snprintf(npy, sizeof npy, "%s.npy", f->path);
    o.work.data = npy;
    o.work.jobs = jobs;
    assert_ok(f->ctx, qg_npy_save(f->ctx, npy, f->x));
    assert_ok(f->ctx, qg_model_open(f->ctx, MODEL, NULL, &m));
    assert_ok(f->ctx, qg_model_doctor(m, &o, &r));
    const char *text = qg_arena_strdup(f->arena, qg_report_json(r));
    qg_report_free(r);
    qg_model_close(m);
    assert_int_equal(unlink(npy), 0);
    return text;
}

/* Exactly these kinds of warnings, and one that contains `text`. */
static void expect(const char *json, const char *kind, const char *text)
{
    for (const char *p = json; (p = strstr(p, "\"kind\": \"")); p++)
        if (strncmp(p + 9, kind, strlen(kind)) != 0)
            fail_msg("another kind than %s: %s", kind, json);
    if (!strstr(json, kind) || !strstr(json, text))
        fail_msg("no %s with '%s': %s", kind, text, json);
}

static void good_data_give_nothing(void **state)
{
    const char *json = answer(*state, 2);
    if (!strstr(json, "\"found\": 0") || strstr(json, "warnings"))
        fail_msg("%s", json);
}

static void nan_is_a_warning_here(void **state)
{
    fixture *f = *state;
    sample(f, 9)[5] = NAN;
    const char *json = answer(f, 2);
    expect(json, "not-finite", "1 NaN and 0 infinities");
    assert_non_null(strstr(json, "\"sample\": 9"));
}

static void all_of_another_scale(void **state)
{
    fixture *f = *state;
    for (int64_t i = 0; i < 64 * 64; i++)
        f->x->f32[i] *= 255;
    expect(answer(f, 2), "range", "times that expected by the variance of");
}

/* Seen in the input and behind it; workers do not matter. */
static void one_sample_alone(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 64; i++)
        sample(f, 33)[i] *= 5;
    const char *one = answer(f, 1), *three = answer(f, 3);
    expect(one, "alone", "in all others");
    assert_non_null(strstr(one, "\"sample\": 33"));
    assert_string_equal(one, three);
}

static void quantize_ends_with_what_it_saw(void **state)
{
    fixture *f = *state;
    qg_model *m;
    qg_report *r;
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    char npy[64];
    (void)snprintf(npy, sizeof npy, "%s.npy", f->path);
    o.backend = "trt-int8";
    o.work.data = npy;
    o.observer = "ppq-kl"; /* two passes, one look */
    memcpy(sample(f, 7), sample(f, 3), 64 * sizeof(float));
    assert_ok(f->ctx, qg_npy_save(f->ctx, npy, f->x));
    assert_ok(f->ctx, qg_model_open(f->ctx, MODEL, NULL, &m));
    assert_ok(f->ctx, qg_model_quantize(m, &o, &r));
    expect(qg_report_json(r), "duplicate", "identical to sample 3");
    assert_non_null(strstr(qg_report_json(r), "\"passes_over_samples\": 2"));
    qg_report_free(r);
    qg_model_close(m);
    for (int64_t i = 0; i < 64 * 64; i++)
        f->x->f32[i] *= 255;
    sample(f, 7)[0] += 1; /* it is no copy */
    assert_ok(f->ctx, qg_npy_save(f->ctx, npy, f->x));
    assert_ok(f->ctx, qg_model_open(f->ctx, MODEL, NULL, &m));
    assert_ok(f->ctx, qg_model_quantize(m, &o, &r));
    expect(qg_report_json(r), "range", "times that expected by the variance of");
    qg_report_free(r);
    qg_model_close(m);
    assert_int_equal(unlink(npy), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

QG_TEST_MAIN(TEST(good_data_give_nothing), TEST(nan_is_a_warning_here),
             TEST(all_of_another_scale), TEST(one_sample_alone),
             TEST(quantize_ends_with_what_it_saw))

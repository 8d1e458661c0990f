/* Compare on the demo model: what it says of a variant is what quantizing with that
 * backend alone says; the model stays as it is; workers do not show. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "engine/api/qg.h"
#include "engine/core/file.h"
#include "tests/support/scratch.h"

static const char *const MODEL = "configs/models/digits.onnx";
static const char *const CALIB = "configs/data/digits_calib.npy";

typedef struct fixture {
    qg_ctx *ctx;
    qg_model *m;
    char path[SCRATCH_PATH];
    const char *patch;
} fixture;

static int setup(void **state)
{
    static fixture f;
    static const char text[] = "rules:\n"
                               "  - id: wide\n"
                               "    match: {trait: compute}\n"
                               "    set: {platform: fp32}\n";
    f.patch = scratch_path(f.path, "patch.yaml");
    assert_int_equal(qg_open(NULL, &f.ctx), QG_OK);
    assert_ok(f.ctx, qg_model_open(f.ctx, MODEL, NULL, &f.m));
    assert_ok(f.ctx, qg_file_write(f.ctx, f.patch, text, sizeof text - 1));
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    qg_model_close(f->m);
    qg_close(f->ctx);
    return remove(f->patch);
}

static qg_report *compare(fixture *f, unsigned jobs)
{
    static const char *const backend[] = { "trt-int8", "ncnn-int8" };
    qg_report *r = NULL;
    qg_compare_options o;
    qg_compare_options_init(&o, sizeof o);
    o.backend = backend;
    o.n_backend = 2;
    o.policy = &f->patch;
    o.n_policy = 1;
    o.work.data = CALIB;
    o.work.samples = 6;
    o.work.jobs = jobs;
    assert_ok(f->ctx, qg_model_compare(f->m, &o, &r));
    assert_false(qg_model_is_quantized(f->m));
    return r;
}

/* From `from` on, so that times are left out. */
static const char *after(qg_report *r, const char *from)
{
    const char *at = strstr(qg_report_json(r), from);
    assert_non_null(at);
    return at;
}

static void workers_do_not_show(void **state)
{
    qg_report *one = compare(*state, 1), *three = compare(*state, 3);
    assert_string_equal(after(one, "\"errors\""), after(three, "\"errors\""));
    qg_report_free(one);
    qg_report_free(three);
}

/* The error of the only output as `analyse` gives it. */
static void errors_are_those_of_one_backend_alone(void **state)
{
    fixture *f = *state;
    qg_report *all = compare(f, 2), *one = NULL;
    qg_model *m;
    qg_quantize_options q;
    qg_analyse_options a;
    qg_quantize_options_init(&q, sizeof q);
    q.backend = "ncnn-int8";
    q.work.data = CALIB;
    q.work.samples = 6;
    qg_analyse_options_init(&a, sizeof a);
    a.work.data = CALIB;
    a.work.samples = 6;
    assert_ok(f->ctx, qg_model_open(f->ctx, MODEL, NULL, &m));
    assert_ok(f->ctx, qg_model_quantize(m, &q, NULL));
    assert_ok(f->ctx, qg_model_analyse(m, &a, &one));
    double want = strtod(strstr(qg_report_json(one), "\"error\":") + 8, NULL);
    const char *row = strstr(after(all, "\"errors\""), "\"ncnn-int8\"");
    double got = strtod(strstr(row, "\"error\":") + 8, NULL);
    assert_cmp_f64(want, >, 0);
    assert_cmp_f64(fabs(got - want), <=, 1e-3 * want); /* other float reference */
    qg_report_free(one);
    qg_report_free(all);
    qg_model_close(m);
}

/* With every compute node in float there is nothing left to round. */
static void a_patch_is_one_more_variant(void **state)
{
    qg_report *r = compare(*state, 1);
    const char *json = qg_report_json(r), *row = strstr(json, "trt-int8 + qg_");
    assert_non_null(row);
    assert_non_null(strstr(json, "ncnn-int8 + qg_"));
    assert_non_null(strstr(row, "\"rounding_points\": 0"));
    assert_non_null(strstr(after(r, "\"group_differences\""), "\"not_in\""));
    assert_null(strstr(qg_report_text(r), "group differences"));
    qg_report_free(r);
}

static void snapshots_and_missing_backends_are_refused(void **state)
{
    fixture *f = *state;
    static const char *const backend[] = { "trt-int8", "trt-int9" };
    qg_report *r = NULL;
    qg_compare_options o;
    qg_compare_options_init(&o, sizeof o);
    o.work.data = CALIB;
    assert_fails(f->ctx, qg_model_compare(f->m, &o, &r), QG_ECONFIG,
                 "compare: no backend given, expected at least one");
    o.backend = backend;
    o.n_backend = 2;
    assert_int_not_equal(qg_model_compare(f->m, &o, &r), QG_OK);
    assert_non_null(strstr(qg_ctx_message(f->ctx), "trt-int9"));
    assert_null(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_do_not_show),
        cmocka_unit_test(errors_are_those_of_one_backend_alone),
        cmocka_unit_test(a_patch_is_one_more_variant),
        cmocka_unit_test(snapshots_and_missing_backends_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

/* qg_model_trace, _diverge, _fit, _probe, _infer_backend and qg_trace_diff under the
 * sanitizers, on the demo model. */
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "engine/api/qg.h"
#include "engine/data/npy.h"
#include "tests/support/scratch.h"

static const char MODEL[] = "configs/models/digits.onnx";
static const char DATA[] = "configs/data/digits_calib.npy";
enum { SAMPLES = 3 };

typedef struct fixture {
    qg_ctx *ctx;
    qg_model *m;
    char folder[SCRATCH_PATH], dump[SCRATCH_PATH + 16];
} fixture;

static qg_workload work(void)
{
    return (qg_workload){ .data = DATA, .samples = SAMPLES };
}

static void write_trace(fixture *f, const char *profile, const char *path)
{
    qg_trace_options o;
    qg_report *r;
    qg_trace_options_init(&o, sizeof o);
    o.work = work();
    o.profile = profile;
    assert_ok(f->ctx, qg_model_trace(f->m, &o, path, &r));
    assert_int_equal(qg_table_rows(qg_report_table_named(r, "arrays")), 14);
    qg_report_free(r);
}

static int begin(void **state)
{
    static fixture f;
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = "tflite-int8";
    o.work = work();
    scratch_path(f.folder, "device");
    assert_int_equal(mkdir(f.folder, 0777), 0);
    (void)snprintf(f.dump, sizeof f.dump, "%s/dump.npz", f.folder);
    assert_int_equal(qg_open(NULL, &f.ctx), QG_OK);
    assert_ok(f.ctx, qg_model_open(f.ctx, MODEL, NULL, &f.m));
    assert_ok(f.ctx, qg_model_quantize(f.m, &o, NULL));
    write_trace(&f, "tflite-xnnpack", f.dump);
    *state = &f;
    return 0;
}

static int end(void **state)
{
    fixture *f = *state;
    qg_model_close(f->m);
    qg_close(f->ctx);
    return scratch_remove(f->folder);
}

static double number(const qg_report *r, const char *name)
{
    double x = -1;
    assert_true(qg_report_number(r, name, &x));
    return x;
}

static void test_diverge(void **state)
{
    fixture *f = *state;
    qg_diverge_options o;
    qg_report *r;
    qg_diverge_options_init(&o, sizeof o);
    o.work = work();
    o.profile = "tflite-xnnpack";
    assert_ok(f->ctx, qg_model_diverge(f->m, &o, f->dump, &r));
    assert_cmp_int((int)number(r, "differing"), ==, 0);
    qg_report_free(r);
    o.profile = NULL;
    o.explain = 2;
    assert_ok(f->ctx, qg_model_diverge(f->m, &o, f->dump, &r));
    const qg_table *t = qg_report_table_named(r, "nodes");
    assert_cmp_int((int)number(r, "differing"), ==, (int)qg_table_rows(t));
    assert_string_equal(qg_table_cell(t, 0, "node")->text, "relu0");
    t = qg_report_table_named(r, "hypotheses");
    assert_cmp_int((int)qg_table_rows(t), >, 0);
    assert_string_equal(qg_table_cell(t, 0, "cause")->text, "requantization");
    qg_report_free(r);
    o.end_to_end = true;
    assert_ok(f->ctx, qg_model_diverge(f->m, &o, f->dump, &r));
    assert_null(qg_report_table_named(r, "hypotheses"));
    qg_report_free(r);
}

static void test_a_folder_is_a_trace(void **state)
{
    fixture *f = *state;
    char path[SCRATCH_PATH + 16];
    qg_diverge_options o;
    qg_report *r;
    (void)snprintf(path, sizeof path, "%s/folder", f->folder);
    write_trace(f, NULL, path);
    qg_diverge_options_init(&o, sizeof o);
    o.work = work();
    assert_ok(f->ctx, qg_model_diverge(f->m, &o, path, &r));
    assert_cmp_int((int)number(r, "differing"), ==, 0);
    qg_report_free(r);
    o.work.samples = SAMPLES + 1;
    assert_fails(f->ctx, qg_model_diverge(f->m, &o, path, &r), QG_EDATA, "3 samples");
}

/* An input in the floats of its samples, which its quantizer rounds: they are no codes
 * of another grid, and lie beside those of their own. */
static void test_floats_as_they_are_fed(void **state)
{
    fixture *f = *state;
    char path[SCRATCH_PATH + 16], image[SCRATCH_PATH + 32];
    qg_diverge_options o;
    const qg_tensor *all;
    qg_report *r;
    (void)snprintf(path, sizeof path, "%s/floats", f->folder);
    (void)snprintf(image, sizeof image, "%s/image.npy", path);
    write_trace(f, NULL, path);
    assert_ok(f->ctx, qg_npy_load(f->ctx, f->ctx->arena, DATA, &all));
    qg_tensor some = *all, shifted;
    some.dim[0] = SAMPLES;
    assert_ok(f->ctx, qg_npy_save(f->ctx, image, &some));
    qg_diverge_options_init(&o, sizeof o);
    o.work = work();
    assert_ok(f->ctx, qg_model_diverge(f->m, &o, path, &r));
    assert_cmp_int((int)number(r, "differing"), ==, 0);
    assert_null(qg_report_table_named(r, "off_the_grid"));
    assert_null(qg_report_table_named(r, "grids"));
    qg_report_free(r);
    shifted = some;
    assert_ok(f->ctx, qg_tensor_alloc(f->ctx, f->ctx->arena, &shifted));
    for (int64_t i = 0; i < qg_tensor_count(&some); i++)
        shifted.f32[i] = some.f32[i] + 0.01f;
    assert_ok(f->ctx, qg_npy_save(f->ctx, image, &shifted));
    assert_ok(f->ctx, qg_model_diverge(f->m, &o, path, &r));
    assert_cmp_int((int)number(r, "differing"), ==, 2);
    assert_non_null(qg_report_table_named(r, "off_the_grid"));
    qg_report_free(r);
}

static void test_fit_and_its_profile(void **state)
{
    fixture *f = *state;
    char yaml[SCRATCH_PATH + 16];
    qg_diverge_options o;
    qg_report *r;
    (void)snprintf(yaml, sizeof yaml, "%s/mine.yaml", f->folder);
    qg_diverge_options_init(&o, sizeof o);
    o.work = work();
    assert_ok(f->ctx, qg_model_fit(f->m, &o, f->dump, yaml, &r));
    assert_string_equal(qg_report_fact(r, "composed_explains")->text,
                        "14 of 14 values");
    assert_non_null(
        strstr(qg_report_fact(r, "not_told_apart")->text, "tflite-xnnpack"));
    qg_report_free(r);
    o.profile = yaml;
    assert_ok(f->ctx, qg_model_diverge(f->m, &o, f->dump, &r));
    assert_cmp_int((int)number(r, "differing"), ==, 0);
    qg_report_free(r);
}

static void test_probe(void **state)
{
    fixture *f = *state;
    char path[SCRATCH_PATH + 16];
    qg_probe_options o;
    qg_report *r;
    (void)snprintf(path, sizeof path, "%s/probe.npy", f->folder);
    qg_probe_options_init(&o, sizeof o);
    o.work.samples = 1;
    o.between = "tflite-reference,tflite-xnnpack";
    assert_ok(f->ctx, qg_model_probe(f->m, &o, path, &r));
    assert_cmp_int((int)number(r, "told_apart"), >, 0);
    qg_report_free(r);
    o.between = "tflite-reference";
    assert_fails(f->ctx, qg_model_probe(f->m, &o, path, &r), QG_ECONFIG,
                 "expected two profiles");
    (void)snprintf(path, sizeof path, "%s/probe.npz", f->folder);
    o.between = "tflite-reference,tflite-xnnpack";
    assert_ok(f->ctx, qg_model_probe(f->m, &o, path, &r)); /* an array per input */
    qg_report_free(r);
    (void)snprintf(path, sizeof path, "%s/probe.bin", f->folder);
    assert_fails(f->ctx, qg_model_probe(f->m, &o, path, &r), QG_EUNSUPPORTED, ".npy");
}

/* Other samples than those of the dump. */
static void test_premise(void **state)
{
    fixture *f = *state;
    qg_diverge_options o;
    qg_report *r;
    qg_diverge_options_init(&o, sizeof o);
    o.work = work();
    o.work.data = "configs/data/digits_test.npy";
    o.profile = "tflite-xnnpack";
    assert_ok(f->ctx, qg_model_diverge(f->m, &o, f->dump, &r));
    assert_non_null(strstr(qg_report_fact(r, "fault")->text, "these samples"));
    assert_cmp_int((int)number(r, "differing"), ==, 1);
    qg_report_free(r);
    assert_ok(f->ctx, qg_model_fit(f->m, &o, f->dump, NULL, &r));
    assert_non_null(strstr(qg_report_fact(r, "fault")->text, "these samples"));
    qg_report_free(r);
}

static void test_diff(void **state)
{
    fixture *f = *state;
    qg_report *r;
    char path[SCRATCH_PATH + 16];
    (void)snprintf(path, sizeof path, "%s/reference.npz", f->folder);
    write_trace(f, "tflite-reference", path);
    assert_ok(f->ctx, qg_trace_diff(f->ctx, f->dump, f->dump, &r));
    assert_cmp_int((int)number(r, "identical"), ==, 1);
    qg_report_free(r);
    assert_ok(f->ctx, qg_trace_diff(f->ctx, f->dump, path, &r));
    assert_cmp_int((int)number(r, "identical"), ==, 0);
    assert_cmp_int((int)qg_table_rows(qg_report_table_named(r, "differences")), >, 0);
    qg_report_free(r);
    assert_fails(f->ctx, qg_trace_diff(f->ctx, f->dump, "none.npz", &r), QG_EIO,
                 "none.npz");
}

/* The float network, the dump of the quantized one, and one base: every other one
 * takes the same way. */
static void test_infer(void **state)
{
    fixture *f = *state;
    qg_model *m;
    qg_report *r;
    qg_infer_options o;
    char path[SCRATCH_PATH + 16];
    (void)snprintf(path, sizeof path, "%s/mine.yaml", f->folder);
    qg_infer_options_init(&o, sizeof o);
    o.work = work();
    o.from = "trt-int8";
    assert_fails(f->ctx, qg_model_infer_backend(f->m, &o, f->dump, path, &r), QG_ESTATE,
                 "not quantized");
    assert_ok(f->ctx, qg_model_open(f->ctx, MODEL, NULL, &m));
    assert_ok(f->ctx, qg_model_infer_backend(m, &o, f->dump, path, &r));
    assert_cmp_int((int)number(r, "arrays"), ==, 14);
    assert_cmp_int((int)qg_table_rows(qg_report_table_named(r, "changes")), >, 0);
    assert_cmp_int((int)number(r, "undecided_endpoints"), <,
                   (int)number(r, "endpoints"));
    qg_report_free(r);
    o.from = "no-such";
    assert_fails(f->ctx, qg_model_infer_backend(m, &o, f->dump, NULL, &r), QG_ECONFIG,
                 "no-such");
    qg_model_close(m);
}

static void write_text(const char *folder, const char *name, const char *text)
{
    char path[SCRATCH_PATH + 64];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_int_equal(fputs(text, out) < 0, 0);
    assert_int_equal(fclose(out), 0);
}

static bool is_there(const char *folder, const char *name)
{
    char path[SCRATCH_PATH + 64];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

/* A trace replaces the files that the trace.json of its folder lists, of whatever form
 * that is, and leaves others; a file of no trace is never replaced. */
static void test_earlier_traces(void **state)
{
    fixture *f = *state;
    static const struct earlier {
        const char *json;
        bool lists; /* old.npy */
    } row[] = {
        {"{\"arrays\": [{\"file\": \"old.npy\"}]}",                        true },
        { "{\"arrays\": [1, {\"file\": 2}, {}, {\"file\": \"old.npy\"}]}", true },
        { "{\"arrays\": [{\"file\": \"older.npy\"}]}",                     false},
        { "{\"arrays\": {\"file\": \"old.npy\"}}",                         false},
        { "{\"arrays\": []}",                                              false},
        { "{\"array\": [{\"file\": \"old.npy\"}]}",                        false},
        { "[{\"file\": \"old.npy\"}]",                                     false},
        { "{\"arrays\": [{\"file\": \"old.npy\"}]",                        false},
        { "",                                                              false},
    };
    char folder[SCRATCH_PATH];
    scratch_path(folder, "earlier");
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        assert_int_equal(mkdir(folder, 0700), 0);
        write_text(folder, "old.npy", "old");
        write_text(folder, "kept.npy", "kept");
        write_text(folder, "trace.json", row[i].json);
        qg_trace_options o;
        qg_trace_options_init(&o, sizeof o);
        o.work = work();
        const qg_status s = qg_model_trace(f->m, &o, folder, NULL);
        const bool json = i < 7; /* else trace.json is of no trace */
        assert_int_equal(s, json ? QG_OK : QG_EIO);
        assert_int_equal(is_there(folder, "old.npy"), !row[i].lists);
        assert_true(is_there(folder, "kept.npy"));
        assert_int_equal(scratch_remove(folder), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_diverge),
        cmocka_unit_test(test_a_folder_is_a_trace),
        cmocka_unit_test(test_earlier_traces),
        cmocka_unit_test(test_floats_as_they_are_fed),
        cmocka_unit_test(test_fit_and_its_profile),
        cmocka_unit_test(test_probe),
        cmocka_unit_test(test_premise),
        cmocka_unit_test(test_diff),
        cmocka_unit_test(test_infer),
    };
    return cmocka_run_group_tests(tests, begin, end);
}

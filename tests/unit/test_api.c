/* The public header on the demo model: quantize, save, load, run, evaluate, analyse. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/api/qg.h"
#include "engine/core/file.h"

static const char *const MODEL = "configs/models/digits.onnx";
static const char *const CALIB = "configs/data/digits_calib.npy";
static const char *const TEST = "configs/data/digits_test.npy";
static const char *const LABELS = "configs/data/digits_labels.npy";

typedef struct fixture {
    qg_ctx *ctx;
    char dir[32];
} fixture;

static int setup(void **state)
{
    static fixture f;
    memcpy(f.dir, "/tmp/qg_api_XXXXXX", 19);
    assert_non_null(mkdtemp(f.dir));
    assert_int_equal(qg_open(NULL, &f.ctx), QG_OK);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    char command[64];
    (void)snprintf(command, sizeof command, "rm -rf %s", f->dir);
    qg_close(f->ctx);
    return system(command);
}

static const char *below(const fixture *f, const char *name)
{
    return qg_path_join(f->ctx->arena, f->dir, name);
}

static qg_model *quantized(fixture *f, const char *backend, unsigned jobs)
{
    qg_model *m;
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = backend;
    o.work.data = CALIB;
    o.work.jobs = jobs;
    assert_ok(f->ctx, qg_model_open(f->ctx, MODEL, NULL, &m));
    assert_false(qg_model_is_quantized(m));
    assert_ok(f->ctx, qg_model_quantize(m, &o, NULL));
    assert_true(qg_model_is_quantized(m));
    return m;
}

static void assert_same_file(fixture *f, const char *a, const char *b)
{
    char *x, *y;
    size_t n, m;
    assert_ok(f->ctx,
              qg_file_text(f->ctx, f->ctx->arena,
                           (qg_file_request){ "read", below(f, a), SIZE_MAX }, &x, &n));
    assert_ok(f->ctx,
              qg_file_text(f->ctx, f->ctx->arena,
                           (qg_file_request){ "read", below(f, b), SIZE_MAX }, &y, &m));
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
}

static void workers_write_the_same_snapshot(void **state)
{
    fixture *f = *state;
    static const char *const folder[] = { "one", "two", "three" };
    for (unsigned jobs = 1; jobs <= 3; jobs++) {
        qg_model *m = quantized(f, "trt-int8", jobs);
        assert_ok(f->ctx, qg_model_save(m, below(f, folder[jobs - 1])));
        qg_model_close(m);
    }
    assert_same_file(f, "one/quant.json", "two/quant.json");
    assert_same_file(f, "one/quant.json", "three/quant.json");
    assert_same_file(f, "one/model.onnx", "two/model.onnx");
}

static void snapshot_survives_load_and_save(void **state)
{
    fixture *f = *state;
    static const char *const backend[] = { "trt-int8", "ncnn-int8", "openvino-int8" };
    for (size_t i = 0; i < 3; i++) {
        qg_model *m = quantized(f, backend[i], 1);
        assert_ok(f->ctx, qg_model_save(m, below(f, "first")));
        qg_model_close(m);
        assert_ok(f->ctx, qg_model_open(f->ctx, below(f, "first"), NULL, &m));
        assert_ok(f->ctx, qg_model_save(m, below(f, "second")));
        qg_model_close(m);
        assert_same_file(f, "first/quant.json", "second/quant.json");
        assert_same_file(f, "first/model.onnx", "second/model.onnx");
    }
}

static double evaluated(fixture *f, qg_model *m, const char *fact)
{
    qg_run_options o;
    qg_report *r;
    double x = NAN;
    qg_run_options_init(&o, sizeof o);
    o.work.data = TEST;
    assert_ok(f->ctx, qg_model_evaluate(m, &o, LABELS, &r));
    assert_true(qg_report_number(r, fact, &x));
    qg_report_free(r);
    return x;
}

static void accuracy_is_kept(void **state)
{
    fixture *f = *state;
    qg_model *m = quantized(f, "trt-int8", 0);
    assert_cmp_f64(evaluated(f, m, "float_top1"), >=, 0.98);
    assert_cmp_f64(fabs(evaluated(f, m, "difference")), <=, 0.01);
    assert_cmp_f64(evaluated(f, m, "agreement"), >=, 0.98);
    qg_model_close(m);
}

/* Loaded and freshly quantized models compute the same bits. */
static void loaded_model_computes_the_same(void **state)
{
    fixture *f = *state;
    qg_run_options o;
    qg_model *m = quantized(f, "trt-int8", 0);
    qg_run_options_init(&o, sizeof o);
    o.work.data = TEST;
    o.work.samples = 16;
    assert_ok(f->ctx, qg_model_run(m, &o, below(f, "fresh"), NULL));
    assert_ok(f->ctx, qg_model_save(m, below(f, "snap")));
    qg_model_close(m);
    assert_ok(f->ctx, qg_model_open(f->ctx, below(f, "snap"), NULL, &m));
    o.work.jobs = 3;
    assert_ok(f->ctx, qg_model_run(m, &o, below(f, "loaded"), NULL));
    qg_model_close(m);
    assert_same_file(f, "fresh/logits.npy", "loaded/logits.npy");
}

static void errors_have_a_place(void **state)
{
    fixture *f = *state;
    static const char *const by[] = { "graph", "layer" };
    qg_model *m = quantized(f, "trt-int8", 0);
    qg_analyse_options o;
    qg_report *r;
    qg_analyse_options_init(&o, sizeof o);
    for (size_t i = 0; i < 2; i++) {
        o.work.data = TEST;
        o.work.samples = 4;
        o.by = by[i];
        assert_ok(f->ctx, qg_model_analyse(m, &o, &r));
        assert_non_null(strstr(qg_report_text(r), "errors"));
        assert_non_null(strstr(qg_report_json(r), "\"errors\""));
        qg_report_free(r);
    }
    o.by = "endpoint";
    assert_fails(f->ctx, qg_model_analyse(m, &o, &r), QG_ECONFIG,
                 "analyse by 'endpoint': expected graph, layer or cause");
    qg_model_close(m);
}

static void misuse_is_told(void **state)
{
    fixture *f = *state;
    qg_run_options o;
    qg_model *m;
    qg_run_options_init(&o, sizeof o);
    o.work.data = TEST;
    o.mode = "simulate";
    assert_ok(f->ctx, qg_model_open(f->ctx, MODEL, NULL, &m));
    assert_fails(f->ctx, qg_model_run(m, &o, NULL, NULL), QG_ESTATE,
                 "mode simulate: the model is not quantized");
    o.mode = "flaot";
    assert_fails(f->ctx, qg_model_run(m, &o, NULL, NULL), QG_ECONFIG, "mode 'flaot'");
    assert_fails(f->ctx, qg_model_save(m, below(f, "x")), QG_ESTATE, "not quantized");
    qg_model_close(m);
    const char *shape = "image=0x1";
    qg_model_options mo;
    qg_model_options_init(&mo, sizeof mo);
    mo.shape = &shape;
    mo.n_shape = 1;
    assert_fails(f->ctx, qg_model_open(f->ctx, MODEL, &mo, &m), QG_ECONFIG,
                 "shape: 'image=0x1'");
    shape = NULL;
    assert_fails(f->ctx, qg_model_open(f->ctx, MODEL, &mo, &m), QG_ECONFIG,
                 "shape: NULL, expected");
    qg_quantize_options q;
    qg_quantize_options_init(&q, sizeof q);
    q.backend = "trt-int8";
    q.work.data = TEST;
    q.set = &shape;
    q.n_set = 1;
    assert_ok(f->ctx, qg_model_open(f->ctx, MODEL, NULL, &m));
    assert_fails(f->ctx, qg_model_quantize(m, &q, NULL), QG_ECONFIG,
                 "quantize: set[0]: NULL, expected a text");
    qg_model_close(m);
}

QG_TEST_MAIN(
    cmocka_unit_test_setup_teardown(workers_write_the_same_snapshot, setup, teardown),
    cmocka_unit_test_setup_teardown(snapshot_survives_load_and_save, setup, teardown),
    cmocka_unit_test_setup_teardown(accuracy_is_kept, setup, teardown),
    cmocka_unit_test_setup_teardown(loaded_model_computes_the_same, setup, teardown),
    cmocka_unit_test_setup_teardown(errors_have_a_place, setup, teardown),
    cmocka_unit_test_setup_teardown(misuse_is_told, setup, teardown))

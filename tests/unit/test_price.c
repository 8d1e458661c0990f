/* Price on the demo model, which has one Add and one Concat to align: what it says
 * about separating a group is what quantizing without that sharing rule gives. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "engine/api/qg.h"
#include "engine/core/file.h"
#include "tests/support/scratch.h"

static const char *const MODEL = "configs/models/digits.onnx";
static const char *const CALIB = "configs/data/digits_calib.npy";

static qg_ctx *open_ctx(void)
{
    qg_ctx *ctx;
    assert_int_equal(qg_open(NULL, &ctx), QG_OK);
    return ctx;
}

static qg_model *quantized(qg_ctx *ctx, const char *patch)
{
    qg_model *m;
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = "trt-int8";
    o.work.data = CALIB;
    o.work.samples = 8;
    o.policy = &patch;
    o.n_policy = patch != NULL;
    assert_ok(ctx, qg_model_open(ctx, MODEL, NULL, &m));
    assert_ok(ctx, qg_model_quantize(m, &o, NULL));
    return m;
}

static qg_report *price(qg_ctx *ctx, qg_model *m, unsigned jobs)
{
    qg_report *r = NULL;
    qg_price_options o;
    qg_price_options_init(&o, sizeof o);
    o.work.data = CALIB;
    o.work.samples = 6;
    o.work.jobs = jobs;
    assert_ok(ctx, qg_model_price(m, &o, &r));
    return r;
}

/* A number of the row of `group`. */
static double cell(qg_report *r, const char *group, const char *column)
{
    const char *row = strstr(qg_report_json(r), group);
    assert_non_null(row);
    const char *at = strstr(row, column);
    assert_non_null(at);
    return strtod(strchr(at, ':') + 1, NULL);
}

static void separating_is_quantizing_without_the_rule(void **state)
{
    static const char text[] = "sharing:\n"
                               "  - id: concat-inputs\n"
                               "    match: {op: Concat}\n"
                               "    align: none\n";
    qg_ctx *ctx = open_ctx();
    double network, requantizations, before;
    char path[SCRATCH_PATH];
    const char *patch = scratch_path(path, "patch.yaml");
    (void)state;
    assert_ok(ctx, qg_file_write(ctx, patch, text, sizeof text - 1));
    qg_model *m = quantized(ctx, NULL), *apart = quantized(ctx, patch);
    qg_report *r = price(ctx, m, 2), *s = price(ctx, apart, 1);
    assert_true(qg_report_number(r, "requantizations", &before));
    assert_true(qg_report_number(s, "network", &network));
    assert_true(qg_report_number(s, "requantizations", &requantizations));
    assert_cmp_f64(cell(r, "concat0.out0", "\"network_if_separate\""), ==, network);
    assert_cmp_f64(cell(r, "concat0.out0", "\"requantizations\""), ==,
                   requantizations - before);
    assert_cmp_f64(requantizations, >, before);
    assert_null(strstr(qg_report_json(s), "concat-inputs"));
    qg_report_free(r);
    qg_report_free(s);
    qg_model_close(apart);
    qg_model_close(m);
    qg_close(ctx);
    assert_int_equal(remove(patch), 0);
}

/* From the file it says the same, whatever the number of workers. */
static void a_snapshot_says_the_same(void **state)
{
    char path[SCRATCH_PATH];
    const char *folder = scratch_path(path, "snapshot");
    qg_ctx *ctx = open_ctx();
    qg_model *m = quantized(ctx, NULL), *again;
    (void)state;
    assert_ok(ctx, qg_model_save(m, folder));
    assert_ok(ctx, qg_model_open(ctx, folder, NULL, &again));
    qg_report *r = price(ctx, m, 1), *s = price(ctx, again, 3);
    assert_string_equal(qg_report_json(r), qg_report_json(s));
    assert_cmp_f64(cell(r, "concat0.out0", "\"parts\""), ==, 3);
    qg_report_free(r);
    qg_report_free(s);
    qg_model_close(again);
    qg_model_close(m);
    qg_close(ctx);
    assert_int_equal(scratch_remove(folder), 0);
}

/* joint is the error that the group alone causes. */
static void the_joint_error_is_that_of_sensitivity(void **state)
{
    qg_ctx *ctx = open_ctx();
    qg_model *m = quantized(ctx, NULL);
    qg_report *r = price(ctx, m, 1), *s = NULL;
    qg_sensitivity_options o;
    (void)state;
    qg_sensitivity_options_init(&o, sizeof o);
    o.work.data = CALIB;
    o.work.samples = 6;
    o.by = "group";
    assert_ok(ctx, qg_model_sensitivity(m, &o, &s));
    assert_cmp_f64(cell(r, "conv2.out0", "\"joint\""), ==,
                   cell(s, "conv2.out0", "\"error\""));
    qg_report_free(r);
    qg_report_free(s);
    qg_model_close(m);
    qg_close(ctx);
}

static void a_float_model_is_refused(void **state)
{
    qg_ctx *ctx = open_ctx();
    qg_model *m;
    qg_report *r = NULL;
    qg_price_options o;
    (void)state;
    qg_price_options_init(&o, sizeof o);
    assert_ok(ctx, qg_model_open(ctx, MODEL, NULL, &m));
    assert_fails(ctx, qg_model_price(m, &o, &r), QG_ESTATE,
                 "price: configs/models/digits.onnx is not quantized, expected a "
                 "snapshot of qg quantize");
    assert_null(r);
    qg_model_close(m);
    qg_close(ctx);
}

QG_TEST_MAIN(cmocka_unit_test(separating_is_quantizing_without_the_rule),
             cmocka_unit_test(a_snapshot_says_the_same),
             cmocka_unit_test(the_joint_error_is_that_of_sensitivity),
             cmocka_unit_test(a_float_model_is_refused))

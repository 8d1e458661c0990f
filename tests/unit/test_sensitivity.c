/* Sensitivity on the demo model: partial runs give the same answer as whole ones, for
 * any number of workers, and what it says of one row is what a mute map says. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "engine/api/qg.h"
#include "tests/support/scratch.h"

static const char *const MODEL = "configs/models/digits.onnx";
static const char *const CALIB = "configs/data/digits_calib.npy";
static const char *const TEST = "configs/data/digits_test.npy";

typedef struct fixture {
    qg_ctx *ctx;
    qg_model *m;
} fixture;

static int setup(void **state)
{
    static fixture f;
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = "trt-int8";
    o.work.data = CALIB;
    o.work.samples = 4;
    o.observer = "minmax"; /* no outliers are cut off: more bits help */
    assert_int_equal(qg_open(NULL, &f.ctx), QG_OK);
    assert_ok(f.ctx, qg_model_open(f.ctx, MODEL, NULL, &f.m));
    assert_ok(f.ctx, qg_model_quantize(f.m, &o, NULL));
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    qg_model_close(f->m);
    qg_close(f->ctx);
    return 0;
}

typedef struct ask {
    const char *by, *direction, *metric;
    bool whole, reference;
    unsigned jobs;
} ask;

static qg_report *answer(const fixture *f, ask a)
{
    qg_report *r = NULL;
    qg_sensitivity_options o;
    qg_sensitivity_options_init(&o, sizeof o);
    o.work.data = CALIB;
    o.work.samples = 5;
    o.by = a.by;
    o.direction = a.direction;
    o.metric = a.metric;
    o.whole = a.whole;
    o.work.jobs = a.jobs;
    o.work.reference_kernels = a.reference;
    assert_ok(f->ctx, qg_model_sensitivity(f->m, &o, &r));
    return r;
}

/* Behind the fact that tells how much was run. */
static const char *rows(qg_report *r)
{
    const char *at = strstr(qg_report_json(r), "\"errors\"");
    assert_non_null(at);
    return at;
}

static void partial_runs_give_the_same_rows(void **state)
{
    static const char *const by[] = { "node", "endpoint", "group" };
    static const char *const direction[] = { "only", "all-but" };
    static const char *const metric[] = { "nsr", "cosine" };
    for (int i = 0; i < 12; i++) {
        ask a = { .by = by[i % 3],
                  .direction = direction[i / 3 % 2],
                  .metric = metric[i / 6],
                  .reference = i == 7,
                  .jobs = 1 };
        qg_report *one = answer(*state, a);
        a.jobs = 3;
        qg_report *three = answer(*state, a);
        a.whole = true;
        qg_report *whole = answer(*state, a);
        assert_string_equal(qg_report_json(one), qg_report_json(three));
        assert_string_equal(rows(one), rows(whole));
        double part, all;
        assert_true(qg_report_number(one, "nodes_run", &part));
        assert_true(qg_report_number(whole, "nodes_run", &all));
        assert_cmp_f64(part, >, 0);
        assert_cmp_f64(part, <, 0.8);
        assert_cmp_f64(all, >, 0.8);
        qg_report_free(one);
        qg_report_free(three);
        qg_report_free(whole);
    }
}

/* The two directions are two sides of the same network. */
static void everything_quantized_is_the_same_error(void **state)
{
    double only, all_but;
    qg_report *a = answer(*state, (ask){ .jobs = 2 });
    qg_report *b = answer(*state, (ask){ .direction = "all-but", .jobs = 2 });
    assert_true(qg_report_number(a, "all_quantized", &only));
    assert_true(qg_report_number(b, "all_quantized", &all_but));
    assert_cmp_f64(only, >, 0);
    assert_cmp_f64(only, ==, all_but);
    qg_report_free(a);
    qg_report_free(b);
}

/* The patch is quantized with as anybody would, and gives the error that was
 * promised. */
static void check_proposal(const fixture *f, const char *patch, double promised)
{
    qg_model *m;
    qg_report *r = NULL;
    qg_quantize_options q;
    qg_analyse_options a;
    qg_quantize_options_init(&q, sizeof q);
    q.backend = "trt-int8";
    q.work.data = CALIB;
    q.work.samples = 5;
    q.observer = "minmax";
    q.policy = &patch;
    q.n_policy = 1;
    qg_analyse_options_init(&a, sizeof a);
    a.work.data = CALIB;
    a.work.samples = 5;
    assert_ok(f->ctx, qg_model_open(f->ctx, MODEL, NULL, &m));
    assert_ok(f->ctx, qg_model_quantize(m, &q, NULL));
    assert_ok(f->ctx, qg_model_analyse(m, &a, &r));
    double error = strtod(strstr(qg_report_json(r), "\"error\":") + 8, NULL);
    assert_cmp_f64(fabs(error - promised), <=, 1e-4 * promised);
    qg_report_free(r);
    qg_model_close(m);
}

static void proposals_meet_their_budget(void **state)
{
    const fixture *f = *state;
    char path[SCRATCH_PATH], trial[SCRATCH_PATH];
    const char *patch = scratch_path(path, "patch.yaml");
    static const char *const by[] = { "node", "endpoint", "group", "node" };
    double budget;
    qg_report *plain = answer(f, (ask){ .jobs = 1 });
    assert_true(qg_report_number(plain, "all_quantized", &budget));
    qg_report_free(plain);
    budget *= 0.4;
    for (int i = 0; i < 4; i++) {
        qg_report *r = NULL;
        double error, rows_raised;
        qg_sensitivity_options o;
        qg_sensitivity_options_init(&o, sizeof o);
        o.work.data = CALIB;
        o.work.samples = 5;
        o.by = by[i];
        o.holdout = TEST;
        o.proposal = (qg_proposal_options){ .patch = patch,
                                            .budget = budget,
                                            .bits = i == 3 ? 16 : 0 };
        assert_ok(f->ctx, qg_model_sensitivity(f->m, &o, &r));
        assert_true(qg_report_number(r, "error_with_proposal", &error));
        assert_true(qg_report_number(r, "rows_raised", &rows_raised));
        assert_cmp_f64(error, <=, budget);
        assert_cmp_f64(rows_raised, >=, 1);
        assert_cmp_f64(rows_raised, <, 17);
        check_proposal(f, patch, error);
        qg_report_free(r);
    }
    assert_int_equal(remove(patch), 0);
    assert_int_not_equal(remove(scratch_path(trial, "patch.yaml.trial")), 0);
}

static void budgets_that_cannot_be_met_are_refused(void **state)
{
    const fixture *f = *state;
    qg_report *r = NULL;
    char path[SCRATCH_PATH];
    const char *patch = scratch_path(path, "none.yaml");
    qg_sensitivity_options o;
    qg_sensitivity_options_init(&o, sizeof o);
    o.work.data = CALIB;
    o.work.samples = 3;
    o.proposal = (qg_proposal_options){ .patch = patch, .budget = 1e-9, .bits = 9 };
    assert_fails(f->ctx, qg_model_sensitivity(f->m, &o, &r), QG_ENUMERIC,
                 "propose: budget 1e-09: ");
    assert_null(r);
    assert_int_not_equal(remove(patch), 0);
    o.proposal.budget = 0.9;
    assert_ok(f->ctx, qg_model_sensitivity(f->m, &o, &r));
    assert_non_null(strstr(qg_report_text(r), "none: within the budget"));
    qg_report_free(r);
    o.direction = "all-but";
    assert_fails(f->ctx, qg_model_sensitivity(f->m, &o, &r), QG_ECONFIG,
                 "propose: expected direction only");
}

static void wrong_words_are_named(void **state)
{
    qg_report *r = NULL;
    qg_ctx *ctx;
    qg_model *m;
    qg_sensitivity_options o;
    (void)state;
    assert_int_equal(qg_open(NULL, &ctx), QG_OK);
    assert_ok(ctx, qg_model_open(ctx, MODEL, NULL, &m));
    qg_sensitivity_options_init(&o, sizeof o);
    o.work.data = CALIB;
    assert_fails(ctx, qg_model_sensitivity(m, &o, &r), QG_ESTATE,
                 "sensitivity: configs/models/digits.onnx is not quantized, expected a "
                 "snapshot of qg quantize");
    qg_quantize_options q;
    qg_quantize_options_init(&q, sizeof q);
    q.backend = "trt-int8";
    q.work.data = CALIB;
    q.work.samples = 1;
    assert_ok(ctx, qg_model_quantize(m, &q, NULL));
    o.by = "layer";
    assert_fails(ctx, qg_model_sensitivity(m, &o, &r), QG_ECONFIG,
                 "sensitivity: by 'layer': expected node, endpoint or group");
    o.by = NULL;
    o.direction = "both";
    assert_fails(ctx, qg_model_sensitivity(m, &o, &r), QG_ECONFIG,
                 "sensitivity: direction 'both': expected only or all-but");
    assert_null(r);
    qg_model_close(m);
    qg_close(ctx);
}

/* A weight that stays float is that of the float network, not the one that was learned:
 * learned roundings show in the rows of the weights alone. */
static void learned_weights_are_their_own_rows(void **state)
{
    const fixture *f = *state;
    const ask endpoints = { .by = "endpoint", .direction = "only", .jobs = 1 };
    size_t other = 0;
    qg_tune_options o;
    qg_tune_options_init(&o, sizeof o);
    o.work = (qg_workload){ .data = CALIB, .samples = 8, .jobs = 1 };
    o.method = "adaround";
    o.steps = 20;
    qg_report *before = answer(f, endpoints);
    assert_ok(f->ctx, qg_model_tune(f->m, &o, NULL));
    qg_report *after = answer(f, endpoints);
    const qg_table *a = qg_report_table_named(before, "errors"),
                   *b = qg_report_table_named(after, "errors");
    assert_int_equal(qg_table_rows(a), qg_table_rows(b));
    for (size_t i = 0; i < qg_table_rows(a); i++)
        for (size_t k = 0; k < qg_table_rows(b); k++) {
            const char *name = qg_table_cell(a, i, "name")->text;
            if (strcmp(name, qg_table_cell(b, k, "name")->text) != 0)
                continue;
            double error = qg_table_cell(a, i, "error")->number,
                   now = qg_table_cell(b, k, "error")->number;
            if (strcmp(qg_table_cell(a, i, "what")->text, "BAKED") == 0)
                other += error != now;
            else
                assert_cmp_f64(error, ==, now);
        }
    assert_cmp_int(other, >, 3);
    qg_report_free(before);
    qg_report_free(after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(partial_runs_give_the_same_rows),
        cmocka_unit_test(everything_quantized_is_the_same_error),
        cmocka_unit_test(proposals_meet_their_budget),
        cmocka_unit_test(budgets_that_cannot_be_met_are_refused),
        cmocka_unit_test(wrong_words_are_named),
        cmocka_unit_test(learned_weights_are_their_own_rows), /* learns */
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

/* What a run may change: selectors by error, mixed precision on both sides of a value,
 * and switching endpoints off and on again. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "engine/session/session.h"
#include "engine/core/file.h"
#include "tests/support/scratch.h"

static const char *const MODEL = "configs/models/digits.onnx";
static const char *const CALIB = "configs/data/digits_calib.npy";

typedef struct fixture {
    qg_ctx *ctx;
    qg_model *m;
} fixture;

static qg_status quantize(fixture *f, const char *set)
{
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = "trt-int8";
    o.work.data = CALIB;
    o.work.samples = 4;
    o.set = &set;
    o.n_set = set != NULL;
    assert_int_equal(qg_open(NULL, &f->ctx), QG_OK);
    assert_ok(f->ctx, qg_model_open(f->ctx, MODEL, NULL, &f->m));
    return qg_model_quantize(f->m, &o, NULL);
}

static void drop(fixture *f)
{
    qg_model_close(f->m);
    qg_close(f->ctx);
}

static double error_of(fixture *f)
{
    qg_report *r = NULL;
    qg_analyse_options o;
    qg_analyse_options_init(&o, sizeof o);
    o.work.data = CALIB;
    o.work.samples = 4;
    assert_ok(f->ctx, qg_model_analyse(f->m, &o, &r));
    double e = strtod(strstr(qg_report_json(r), "\"error\":") + 8, NULL);
    qg_report_free(r);
    return e;
}

static const qg_tqc *tqc(const fixture *f, const char *node, bool is_output)
{
    const qg_node *n = qg_graph_node(f->m->graph, node);
    assert_non_null(n);
    return is_output ? n->tout[0] : n->tin[0];
}

/* --- by error --- */

/* The report in a file, and "errors=FILE <rest>" in `set`. */
static void write_report(const char *report, const char *rest, char set[256])
{
    char path[SCRATCH_PATH];
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    const char *file = scratch_path(path, "report.json");
    assert_ok(ctx, qg_file_write(ctx, file, report, strlen(report)));
    (void)snprintf(set, 256, "errors=%s %s", file, rest);
    qg_ctx_free(ctx);
}

static void check_refused(const char *report, const char *rest, const char *message)
{
    fixture f;
    char set[256];
    write_report(report, rest, set);
    assert_int_equal(quantize(&f, set), QG_ECONFIG);
    if (!strstr(qg_ctx_message(f.ctx), message))
        fail_msg("message '%s' lacks '%s'", qg_ctx_message(f.ctx), message);
    drop(&f);
}

#define BY_ERROR "above=0.5 platform=fp32"

static void nodes_above_an_error(void **state)
{
    static const char report[] = "{\"report\": \"sensitivity\", \"by\": \"node\","
                                 " \"errors\": [{\"name\": \"gemm1\", \"error\": 0.7},"
                                 " {\"name\": \"conv0\", \"error\": 0.5},"
                                 " {\"name\": \"relu6\", \"error\": null}]}";
    fixture f;
    char set[256], path[SCRATCH_PATH];
    (void)state;
    write_report(report, BY_ERROR, set);
    assert_ok(f.ctx, quantize(&f, set));
    assert_int_equal(qg_graph_node(f.m->graph, "gemm1")->platform, QG_PLATFORM_FP32);
    assert_int_equal(qg_graph_node(f.m->graph, "relu6")->platform, QG_PLATFORM_FP32);
    assert_int_equal(qg_graph_node(f.m->graph, "conv0")->platform,
                     QG_PLATFORM_QUANTIZED);
    drop(&f);
    check_refused(report, "bits=4", "errors and above: expected both or none");
    check_refused(report, BY_ERROR " node=conv0",
                  "expected no `node` in the same selector");
    check_refused("{\"by\": \"node\", \"errors\": []}", BY_ERROR,
                  "has an error above 0.5, expected at least one");
    check_refused("{\"by\": \"group\", \"errors\": []}", BY_ERROR,
                  "is by group, expected a report of qg sensitivity --by node");
    assert_int_equal(remove(scratch_path(path, "report.json")), 0);
}

/* --- mixed precision --- */

typedef struct watcher {
    const qg_node *producer, *consumer;
    float made[4], read[4], twice[4];
    int rounded;
} watcher;

/* The first elements as the producer gives them out and as the consumer reads them. */
static qg_status see(void *ud, qg_ctx *ctx, size_t sample, const qg_hook_point *at,
                     qg_tensor *value)
{
    watcher *w = ud;
    qg_tensor plain = *value;
    (void)sample;
    if (at->endpoint.slot != 0 || !at->rounded)
        return QG_OK;
    qg_tensor_set_plain(&plain);
    QG_TRY(qg_tensor_alloc(ctx, ctx->arena, &plain));
    qg_tensor_copy(value, &plain);
    if (at->endpoint.node == w->producer && at->endpoint.is_output)
        memcpy(w->made, plain.f32, sizeof w->made);
    if (at->endpoint.node == w->consumer && !at->endpoint.is_output)
        memcpy(w->read, plain.f32, sizeof w->read);
    w->rounded +=
        at->endpoint.node == (at->endpoint.is_output ? w->producer : w->consumer);
    return QG_OK;
}

/* 8 bits where it is made, 4 where it is read: the second rounding rounds what the
 * first one left, element by element. */
static void both_sides_of_a_value_round(void **state)
{
    fixture f;
    qg_plan *p;
    qg_run *run;
    float *x;
    (void)state;
    assert_ok(f.ctx, quantize(&f, "node=conv1 slot=in0 bits=4"));
    const qg_node *consumer = qg_graph_node(f.m->graph, "conv1");
    watcher w = { .producer = consumer->in[0]->def, .consumer = consumer };
    const qg_tqc *read = tqc(&f, "conv1", false);
    assert_int_equal(read->state, QG_TQC_ACTIVATED);
    assert_int_equal(read->scheme.bits, 4);
    assert_int_equal(w.producer->tout[0]->scheme.bits, 8);
    qg_plan_options o = { .mode = QG_MODE_SIMULATE,
                          .quant = f.m->quant,
                          .watch_all = true };
    assert_ok(f.ctx, qg_plan_new(f.ctx, f.m->graph, &o, &p));
    assert_ok(f.ctx, qg_run_new(f.ctx, p, &run));
    qg_tensor in = f.m->graph->input.at[0]->type;
    assert_ok(f.ctx, qg_tensor_alloc(f.ctx, f.ctx->arena, &in));
    x = in.f32;
    for (int64_t i = 0; i < qg_tensor_count(&in); i++)
        x[i] = (float)(i * 37 % 101) / 101;
    const qg_tensor *ins[] = { &in };
    qg_hook hook = { see, &w };
    assert_ok(f.ctx, qg_run_execute(run, ins, &hook, 1, 0));
    assert_int_equal(w.rounded, 2);
    qg_tensor made, twice;
    qg_tensor_init(&made, QG_F32, 1, (int64_t[]){ 4 });
    twice = made;
    made.data = w.made;
    twice.data = w.twice;
    qg_qparam param = qg_tqc_param(read);
    assert_ok(f.ctx,
              qg_fake_quantize(f.ctx, "test", &read->scheme, &param, &made, &twice));
    assert_memory_equal(w.twice, w.read, sizeof w.read);
    assert_memory_not_equal(w.made, w.read, sizeof w.read);
    qg_run_free(run);
    qg_plan_free(p);
    drop(&f);
}

/* --- switching --- */

static void what_is_switched_off_comes_back(void **state)
{
    static const char *const word[] = { "deactivated", "dequantized" };
    static const qg_tqc_state want[] = { QG_TQC_DEACTIVATED, QG_TQC_DEQUANTIZED };
    char path[SCRATCH_PATH];
    const char *folder = scratch_path(path, "snapshot");
    (void)state;
    for (int i = 0; i < 2; i++) {
        fixture f;
        qg_model *again;
        char set[64];
        size_t changed, n = 0;
        assert_ok(f.ctx, quantize(&f, NULL));
        double before = error_of(&f);
        (void)snprintf(set, sizeof set, "slot=in*,out* state=%s", word[i]);
        assert_ok(f.ctx, qg_model_switch(f.m, set, &changed));
        for (size_t k = 0; k < f.m->quant->tqc.n; k++)
            n += f.m->quant->tqc.at[k]->state == want[i];
        assert_int_equal(changed, n);
        assert_cmp_int(n, >, 20);
        assert_cmp_f64(error_of(&f), ==, 0); /* all of it off: the float network */
        assert_ok(f.ctx, qg_model_save(f.m, folder));
        assert_ok(f.ctx, qg_model_open(f.ctx, folder, NULL, &again));
        fixture loaded = { f.ctx, again };
        assert_cmp_f64(error_of(&loaded), ==, 0);
        assert_ok(f.ctx,
                  qg_model_switch(again, "state=restored slot=in*,out*", &changed));
        assert_int_equal(changed, n);
        assert_cmp_f64(error_of(&loaded), ==, before);
        assert_ok(f.ctx,
                  qg_model_switch(again, "slot=in*,out* state=restored", &changed));
        assert_int_equal(changed, 0);
        qg_model_close(again);
        drop(&f);
    }
    assert_int_equal(scratch_remove(folder), 0);
}

/* It is calibrated first, so it has a scale to come back to. */
static void set_state_while_quantizing(void **state)
{
    fixture f;
    size_t changed;
    (void)state;
    assert_ok(f.ctx, quantize(&f, "node=gemm1 slot=out0 state=deactivated"));
    assert_int_equal(tqc(&f, "gemm1", true)->state, QG_TQC_DEACTIVATED);
    assert_int_equal(qg_tqc_param(tqc(&f, "gemm1", true)).n, 1);
    assert_ok(f.ctx, qg_model_switch(f.m, "node=gemm1 state=restored", &changed));
    assert_int_equal(changed, 1);
    assert_int_equal(tqc(&f, "gemm1", true)->state, QG_TQC_ACTIVATED);
    assert_fails(
        f.ctx, qg_model_switch(f.m, "node=gemm9 state=restored", NULL), QG_ECONFIG,
        "switch: 'node=gemm9 state=restored': node 'gemm9' does not exist, did you "
        "mean 'gemm0', expected a node of the rewritten graph");
    assert_fails(f.ctx,
                 qg_model_switch(f.m, "value=logits,lgits state=restored", &changed),
                 QG_ECONFIG, "value 'lgits' does not exist, did you mean 'logits'");
    assert_fails(f.ctx, qg_model_switch(f.m, "op=Sigmoid state=restored", &changed),
                 QG_ECONFIG,
                 "switch: 'op=Sigmoid state=restored': the selector matches no "
                 "quantized endpoint, expected at least one");
    assert_fails(f.ctx, qg_model_switch(f.m, "node=gemm1 state=fp32", NULL), QG_ECONFIG,
                 "expected state=deactivated, state=dequantized or state=restored");
    drop(&f);
}

QG_TEST_MAIN(cmocka_unit_test(nodes_above_an_error),
             cmocka_unit_test(both_sides_of_a_value_round),
             cmocka_unit_test(what_is_switched_off_comes_back),
             cmocka_unit_test(set_state_while_quantizing))

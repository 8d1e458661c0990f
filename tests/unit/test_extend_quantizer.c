/* Quantization functions of a host: one that calls the library's own gives its bits. */
#include "tests/support/test.h"

#include <math.h>
#include <stdatomic.h>

#include "engine/quant/endpoint.h"
#include "engine/quant/quantizer.h"
#include "engine/quant/tqc.h"
#include "engine/snapshot/model.h"
#include "tests/support/host.h"

static const char *const MODEL = "graph \"g\" {\n"
                                 "  opset 17\n"
                                 "  x = input f32[1,3,8,8]\n"
                                 "  w = const f32[4,3,3,3] seed(3)\n"
                                 "  v = const f32[2,4,3,3] seed(7)\n"
                                 "  c = Conv conv(x, w)\n"
                                 "  a = Sigmoid act(c)\n"
                                 "  y = Conv last(a, v)\n"
                                 "  output y\n"
                                 "}\n";

/* ud counts calls: several threads call. */
static qg_status as_library(void *ud, qg_ctx *ctx, const qg_scheme *scheme,
                            const qg_qparam *p, const qg_tensor *x, qg_tensor *y)
{
    atomic_fetch_add((atomic_int *)ud, 1);
    return qg_fake_quantize(ctx, "host", scheme, p, x, y);
}

/* Truncates, one scale; strides are equal and without gaps. */
static qg_status truncated(void *ud, qg_ctx *ctx, const qg_scheme *scheme,
                           const qg_qparam *p, const qg_tensor *x, qg_tensor *y)
{
    (void)ud;
    if (p->n != 1)
        return qg_fail(ctx, QG_EUNSUPPORTED, "%zu scales, expected one", p->n);
    for (int64_t i = 0; i < qg_tensor_count(x); i++) {
        double q = trunc((double)x->f32[i] / (double)p->scale[0]);
        q = fmin(fmax(q, (double)scheme->qmin), (double)scheme->qmax);
        y->f32[i] = (float)(q * (double)p->scale[0]);
    }
    return QG_OK;
}

static void add(host *h, const char *name, void *ud)
{
    qg_host_quantizer q;
    qg_host_quantizer_init(&q, sizeof q);
    q.name = name;
    q.run = ud ? as_library : truncated;
    q.ud = ud;
    assert_ok(h->ctx, qg_add_quantizer(h->ctx, &q));
}

static const char *const ALL = "op=Conv,Sigmoid quantizer=own";

static void calling_the_librarys_own_changes_no_bit(void **state)
{
    host *h = *state;
    atomic_int calls = 0;
    size_t n, k;
    add(h, "own", &calls);
    const char *path = host_model(h, "m.onnx", MODEL);
    qg_model *plain = host_quantize(h, path, "trt-int8", NULL, 1);
    const char *expected = host_run(h, plain, NULL, "y", &n);
    qg_model_close(plain);
    for (unsigned jobs = 1; jobs <= 4; jobs += 3) {
        qg_model *m = host_quantize(h, path, "trt-int8", ALL, jobs);
        int before = atomic_load(&calls);
        const char *got = host_run(h, m, NULL, "y", &k);
        assert_int_equal(n, k);
        assert_memory_equal(got, expected, n);
        /* 2 weights; in each of 4 samples x, the Sigmoid and y, twice: a run of little
         * work also looks for NaN that rounding hides */
        assert_int_equal(atomic_load(&calls) - before, 2 + 2 * 4 * 3);
        qg_model_close(m);
    }
}

/* Weights too: what stands on the grid is what the function gave. */
static void another_function_gives_other_values(void **state)
{
    host *h = *state;
    size_t n, k;
    add(h, "cut", NULL);
    const char *path = host_model(h, "m.onnx", MODEL);
    qg_model *m = host_quantize(h, path, "trt-int8", "op=Sigmoid quantizer=cut", 1);
    const char *cut = host_run(h, m, NULL, "y", &n);
    qg_tqc *t = qg_tqc_named(m->graph, "act.out0");
    qg_tqc_record record = { .size = sizeof record };
    qg_tqc_get(t, &record);
    assert_string_equal(record.quantizer, "cut");
    assert_ok(h->ctx, qg_model_set_quantizer(m, t, NULL));
    const qg_journal_entry *last = &m->quant->journal.at[m->quant->journal.n - 1];
    assert_string_equal(last->field, "quantizer");
    assert_string_equal(last->old_value, "cut");
    assert_string_equal(last->new_value, "none");
    assert_string_equal(last->by, "host");
    const char *plain = host_run(h, m, NULL, "y", &k);
    assert_int_equal(n, k);
    assert_memory_not_equal(cut, plain, n);
    qg_tqc *w = qg_tqc_named(m->graph, "conv.in1");
    assert_ok(h->ctx, qg_model_set_quantizer(m, w, "cut"));
    qg_run_options o;
    qg_run_options_init(&o, sizeof o);
    o.work.data = "random:1";
    assert_fails(h->ctx, qg_model_run(m, &o, NULL, NULL), QG_EUNSUPPORTED,
                 "conv.in1: 4 scales, expected one");
    qg_model_close(m);
}

/* Nothing overlaps an input that another function than its producer's rounds. */
static void an_input_with_its_own_function_rounds(void **state)
{
    host *h = *state;
    atomic_int calls = 0;
    size_t n;
    add(h, "own", &calls);
    qg_model *m = host_quantize(h, host_model(h, "m.onnx", MODEL), "trt-int8",
                                "op=Conv slot=input quantizer=own", 1);
    qg_tqc_record record = { .size = sizeof record };
    qg_tqc_get(qg_model_find_tqc(m, "last.in0"), &record);
    assert_string_equal(qg_tqc_state_name(record.state), "ACTIVATED");
    int before = atomic_load(&calls);
    (void)host_run(h, m, NULL, "y", &n);
    /* in each of 4 samples the inputs of both convolutions, and again for NaN */
    assert_cmp_int(atomic_load(&calls) - before, ==, 2 * 4 * 2);
    qg_model_close(m);
}

/* Each row of a sensitivity by partial runs is that of whole runs. */
static void partial_runs_round_the_same_way(void **state)
{
    host *h = *state;
    atomic_int calls = 0;
    char *text[2];
    add(h, "own", &calls);
    add(h, "cut", NULL);
    qg_model *m = host_quantize(h, host_model(h, "m.onnx", MODEL), "trt-int8",
                                "slot=output quantizer=cut", 1);
    for (int whole = 0; whole < 2; whole++) {
        qg_sensitivity_options o;
        qg_report *r = NULL;
        qg_sensitivity_options_init(&o, sizeof o);
        o.work.data = "random:4";
        o.by = "endpoint";
        o.whole = whole;
        assert_ok(h->ctx, qg_model_sensitivity(m, &o, &r));
        const char *json = strstr(qg_report_json(r), "\"errors\"");
        assert_non_null(json);
        text[whole] = qg_arena_strdup(h->ctx->arena, json);
        qg_report_free(r);
    }
    assert_string_equal(text[0], text[1]);
    qg_model_close(m);
}

static void snapshots_open_where_it_is_registered(void **state)
{
    host *h = *state;
    atomic_int calls = 0;
    size_t n, k;
    qg_ctx *other;
    qg_model *back;
    add(h, "cut", NULL);
    const char *path = host_model(h, "m.onnx", MODEL), *folder = host_path(h, "snap");
    qg_model *m = host_quantize(h, path, "trt-int8", "op=Sigmoid quantizer=cut", 1);
    const char *expected = host_run(h, m, NULL, "y", &n);
    assert_ok(h->ctx, qg_model_save(m, folder));
    back = host_open(h, folder);
    const char *got = host_run(h, back, NULL, "y", &k);
    assert_int_equal(n, k);
    assert_memory_equal(got, expected, n);
    qg_report *r = NULL;
    assert_ok(h->ctx, qg_model_diff(m, back, &r));
    double identical = 0;
    assert_true(qg_report_number(r, "identical", &identical));
    assert_cmp_f64(identical, ==, 1);
    qg_report_free(r);
    qg_model_close(back);
    qg_model_close(m);
    const char *json = host_read(h, host_path(h, "snap/quant.json"), &n);
    assert_non_null(strstr(json, "\"quantizer\""));
    assert_int_equal(qg_open(NULL, &other), QG_OK);
    assert_fails(other, qg_model_open(other, folder, NULL, &m), QG_EUNSUPPORTED,
                 "act.in0: quantizer 'cut': unknown");
    qg_close(other);
    add(h, "own", &calls);
    m = host_quantize(h, path, "trt-int8", NULL, 1);
    assert_ok(h->ctx, qg_model_save(m, host_path(h, "plain")));
    json = host_read(h, host_path(h, "plain/quant.json"), &n);
    assert_null(strstr(json, "quantizer\""));
    qg_model_close(m);
}

static void exports_report_it_or_refuse(void **state)
{
    host *h = *state;
    static const char *const formats[] = { "onnx-qdq", "onnx-qoperator", "openvino-fq",
                                           "openvino-ir", "ppq-json" };
    add(h, "cut", NULL);
    qg_model *m = host_quantize(h, host_model(h, "m.onnx", MODEL), "trt-int8",
                                "op=Sigmoid quantizer=cut", 1);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        qg_format_options o;
        qg_report *r = NULL;
        qg_format_options_init(&o, sizeof o);
        o.format = formats[i];
        assert_ok(h->ctx, qg_model_export(m, &o, host_path(h, "out.xml"), &r));
        const char *text = qg_report_json(r);
        if (!strstr(text, "quantization function cut of the host"))
            fail_msg("%s: no loss in %s", formats[i], text);
        qg_report_free(r);
        o.strict = true;
        assert_int_equal(qg_model_export(m, &o, host_path(h, "strict.xml"), NULL),
                         QG_EUNSUPPORTED);
    }
    qg_model_close(m);
}

/* --- rules and faults --- */

static const char RULES[] = "name: mine\n"
                            "extends: trt-int8\n"
                            "rules:\n"
                            "  - {id: cut, match: {op: Sigmoid, slot: output}, set: "
                            "{quantizer: cut}, why: a test, source: a test}\n"
                            "  - {id: back, match: {op: Conv, slot: output}, set: "
                            "{quantizer: none}, why: a test, source: a test}\n";

static void rules_name_it(void **state)
{
    host *h = *state;
    qg_quantize_options o;
    qg_report *r = NULL;
    const char *path = host_model(h, "m.onnx", MODEL);
    assert_ok(h->ctx,
              qg_add_config(h->ctx, "backends/mine.yaml", RULES, sizeof RULES - 1));
    qg_model *m = host_open(h, path);
    qg_quantize_options_init(&o, sizeof o);
    o.backend = "mine";
    o.work.data = "random:4";
    assert_fails(h->ctx, qg_model_quantize(m, &o, NULL), QG_ECONFIG,
                 "backends/mine.yaml:4: ");
    assert_non_null(strstr(qg_ctx_message(h->ctx), "quantizer 'cut': unknown"));
    qg_model_close(m);
    add(h, "cut", NULL);
    m = host_quantize(h, path, "mine", NULL, 1);
    assert_string_equal(qg_tqc_named(m->graph, "act.out0")->quantizer->name, "cut");
    assert_null(qg_tqc_named(m->graph, "last.out0")->quantizer);
    qg_model_close(m);
    assert_ok(h->ctx, qg_backend_page(h->ctx, "mine", &r));
    assert_non_null(strstr(qg_report_text(r), "quantizer: cut"));
    qg_report_free(r);
}

static qg_status without_memory(void *ud, qg_ctx *ctx, const qg_scheme *scheme,
                                const qg_qparam *p, const qg_tensor *x, qg_tensor *y)
{
    QG_TRY(qg_fake_quantize(ctx, ud, scheme, p, x, y));
    qg_tensor_scalar(y, QG_I64);
    y->data = NULL;
    return QG_OK;
}

/* It gets the elements; where they lie and what they are stays the library's. */
static void the_tensor_itself_is_not_the_hosts(void **state)
{
    host *h = *state;
    qg_host_quantizer q;
    size_t n, k;
    qg_host_quantizer_init(&q, sizeof q);
    q.name = "own";
    q.run = without_memory;
    q.ud = "own";
    assert_ok(h->ctx, qg_add_quantizer(h->ctx, &q));
    const char *path = host_model(h, "m.onnx", MODEL);
    qg_model *plain = host_quantize(h, path, "trt-int8", NULL, 1);
    const char *expected = host_run(h, plain, NULL, "y", &n);
    qg_model_close(plain);
    qg_model *m = host_quantize(h, path, "trt-int8", ALL, 1);
    const char *got = host_run(h, m, NULL, "y", &k);
    assert_int_equal(n, k);
    assert_memory_equal(got, expected, n);
    qg_model_close(m);
}

static void what_is_wrong_is_refused(void **state)
{
    host *h = *state;
    qg_host_quantizer q;
    qg_host_quantizer_init(&q, sizeof q);
    q.name = "none";
    q.run = truncated;
    assert_fails(h->ctx, qg_add_quantizer(h->ctx, &q), QG_ECONFIG,
                 "the name is in use");
    q.name = "cut";
    q.run = NULL;
    assert_fails(h->ctx, qg_add_quantizer(h->ctx, &q), QG_ECONFIG, "run is NULL");
    add(h, "cut", NULL);
    q.run = truncated;
    assert_fails(h->ctx, qg_add_quantizer(h->ctx, &q), QG_ECONFIG,
                 "the name is in use");
    qg_model *m = host_open(h, host_model(h, "m.onnx", MODEL));
    assert_fails(h->ctx, qg_model_set_quantizer(m, NULL, "cut"), QG_ESTATE,
                 "set quantizer");
    qg_model_close(m);
    m = host_quantize(h, host_path(h, "m.onnx"), "trt-int8", NULL, 1);
    qg_tqc *t = qg_tqc_named(m->graph, "act.out0");
    assert_fails(h->ctx, qg_model_set_quantizer(m, t, "cutt"), QG_EUNSUPPORTED,
                 "act.out0: quantizer 'cutt': unknown");
    qg_model_close(m);
}

QG_TEST_MAIN(WITH_HOST(calling_the_librarys_own_changes_no_bit),
             WITH_HOST(another_function_gives_other_values),
             WITH_HOST(an_input_with_its_own_function_rounds),
             WITH_HOST(partial_runs_round_the_same_way),
             WITH_HOST(snapshots_open_where_it_is_registered),
             WITH_HOST(exports_report_it_or_refuse), WITH_HOST(rules_name_it),
             WITH_HOST(the_tensor_itself_is_not_the_hosts),
             WITH_HOST(what_is_wrong_is_refused))

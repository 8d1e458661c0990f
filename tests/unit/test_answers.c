/* explain, diff, dump, list and qg_nearest under the sanitizers, on the demo model;
 * what they say is tested by tests/scripts/test_cli_verbs.py. */
#include "tests/support/test.h"

#include "engine/session/session.h"
#include "engine/report/report.h"
#include "engine/quant/tqc_text.h"
#include "tests/support/faulty.h"

typedef struct fixture {
    qg_ctx *ctx;
    qg_model *trt, *ncnn, *bare;
} fixture;

static qg_model *model(qg_ctx *ctx, const char *backend)
{
    qg_model *m = NULL;
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = backend;
    o.work.data = "random:2";
    o.work.jobs = 1;
    assert_ok(ctx, qg_model_open(ctx, "configs/models/digits.onnx", NULL, &m));
    if (backend)
        assert_ok(ctx, qg_model_quantize(m, &o, NULL));
    return m;
}

static int setup(void **state)
{
    static fixture f;
    assert_int_equal(qg_open(NULL, &f.ctx), QG_OK);
    f.trt = model(f.ctx, "trt-int8");
    f.ncnn = model(f.ctx, "ncnn-int8");
    f.bare = model(f.ctx, NULL);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    qg_model_close(f->trt);
    qg_model_close(f->ncnn);
    qg_model_close(f->bare);
    qg_close(f->ctx);
    return 0;
}

static void show_and_free(qg_report *r)
{
    assert_true(*qg_report_text(r));
    assert_true(*qg_report_json(r));
    qg_report_free(r);
}

static void explain(fixture *f, qg_model *m, const char *name)
{
    qg_report *r = NULL;
    assert_ok(f->ctx, qg_model_explain(m, name, &r));
    show_and_free(r);
}

static void every_name_is_explained(void **state)
{
    fixture *f = *state;
    char name[QG_ENDPOINT_TEXT];
    qg_model *const models[] = { f->trt, f->ncnn };
    for (size_t i = 0; i < 2; i++) {
        const qg_model *m = models[i];
        for (size_t k = 0; k < m->graph->node.n; k++)
            explain(f, models[i], m->graph->node.at[k]->name);
        for (size_t k = 0; k < m->graph->value.n; k++)
            explain(f, models[i], m->graph->value.at[k]->name);
        for (size_t k = 0; k < m->quant->tqc.n; k++)
            explain(f, models[i], qg_tqc_text(m->quant->tqc.at[k], name));
    }
}

/* Every member, and nobody else, has a paragraph. */
static void a_group_is_explained(void **state)
{
    fixture *f = *state;
    const qg_quant *q = f->trt->quant;
    for (size_t i = 0; i < q->tqc.n; i++) {
        char name[QG_ENDPOINT_TEXT + 8] = "group:", at[QG_ENDPOINT_TEXT], want[256];
        qg_report *r = NULL;
        const qg_tqc *t = q->tqc.at[i];
        (void)qg_tqc_text(t, name + 6);
        assert_ok(f->ctx, qg_model_explain(f->trt, name, &r));
        for (size_t k = 0; k < q->tqc.n; k++) {
            (void)snprintf(want, sizeof want, "{\"endpoint\": \"%s\", \"value\"",
                           qg_tqc_text(q->tqc.at[k], at));
            bool member = qg_tqc_root(q->tqc.at[k]) == qg_tqc_root(t);
            assert_int_equal(strstr(qg_report_json(r), want) != NULL, member);
        }
        qg_report_free(r);
    }
}

static void unknown_names_are_refused_with_the_nearest(void **state)
{
    fixture *f = *state;
    qg_report *r = NULL;
    static const struct {
        const char *name, *message;
    } bad[] = {
  /* clang-format off */
        { "conv00", "no such node, value or endpoint in configs/models/digits.onnx" },
        { "conv00", "did you mean 'conv0'" },
        { "cnv0.out0", "did you mean 'conv0.out0'" },
        { "conv0.in3", "node 'conv0' (Conv): has no in3" },
        { "conv0.out1", "has no out1" },
        { "conv0.in-1", "no such node, value" },
        { "conv0.in", "no such node, value" },
        { "conv0.in99999999999999999999", "no such node, value" },
        { ".in0", "no such node, value" },
        { "group:conv0", "'group:conv0': no such endpoint is quantized" },
        { "group:conv0.out7", "expected a member of a group, as in group:Conv_3.out0" },
        { "", "no such node, value" },
  /* clang-format on */
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_fails(f->ctx, qg_model_explain(f->trt, bad[i].name, &r), QG_ECONFIG,
                     bad[i].message);
    assert_fails(f->ctx, qg_model_explain(f->bare, "conv0", &r), QG_ESTATE,
                 "not quantized");
    assert_null(r);
}

/* The pipeline ends where it is told to: nothing is calibrated behind `fuse`. */
static void a_pipeline_stops_where_it_is_told(void **state)
{
    fixture *f = *state;
    qg_model *m;
    qg_report *r = NULL;
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = "trt-int8";
    o.stop_after = "fuse";
    assert_ok(f->ctx, qg_model_open(f->ctx, "configs/models/digits.onnx", NULL, &m));
    assert_ok(f->ctx, qg_model_quantize(m, &o, NULL));
    assert_ok(f->ctx, qg_model_dump(m, &r));
    assert_non_null(strstr(qg_report_text(r), "overlapped"));
    assert_null(strstr(qg_report_text(r), "activated"));
    qg_report_free(r);
    qg_model_close(m);
    o.stop_after = "fusion";
    assert_ok(f->ctx, qg_model_open(f->ctx, "configs/models/digits.onnx", NULL, &m));
    assert_fails(f->ctx, qg_model_quantize(m, &o, NULL), QG_ECONFIG,
                 "stop after 'fusion': pipeline default has no such pass");
    qg_model_close(m);
}

static double number(const qg_report *r, const char *name)
{
    double x = -1;
    assert_true(qg_report_number(r, name, &x));
    return x;
}

/* What is only in the first is only in the second the other way round. */
static void diff_is_symmetric(void **state)
{
    fixture *f = *state;
    qg_model *const models[] = { f->trt, f->ncnn, f->bare };
    for (size_t i = 0; i < 9; i++) {
        qg_report *there = NULL, *back = NULL;
        assert_ok(f->ctx, qg_model_diff(models[i / 3], models[i % 3], &there));
        assert_ok(f->ctx, qg_model_diff(models[i % 3], models[i / 3], &back));
        assert_cmp_f64(number(there, "nodes_only_in_first"), ==,
                       number(back, "nodes_only_in_second"));
        assert_cmp_f64(number(there, "nodes_changed"), ==,
                       number(back, "nodes_changed"));
        assert_cmp_f64(number(there, "endpoints_changed"), ==,
                       number(back, "endpoints_changed"));
        assert_int_equal(number(there, "endpoints_changed") == 0, i / 3 == i % 3);
        assert_int_equal(number(there, "identical"), i / 3 == i % 3);
        show_and_free(there);
        show_and_free(back);
    }
}

static void unknown_topics_are_refused_with_the_nearest(void **state)
{
    fixture *f = *state;
    qg_report *r = NULL;
    assert_fails(f->ctx, qg_list(f->ctx, "pases", &r), QG_ECONFIG,
                 "list: 'pases': no such topic, expected one of `qg list topics`, did "
                 "you mean 'passes'");
    assert_null(r);
}

static void nearest_is_the_first_with_fewest_edits(void **state)
{
    (void)state;
    const char *const word[] = { "quantize", "run", "rune" };
    assert_string_equal(qg_nearest("quantise", word, 3), "quantize");
    assert_string_equal(qg_nearest("ruen", word, 3), "run"); /* a tie */
    assert_string_equal(qg_nearest("rum", word, 3), "run");
    assert_null(qg_nearest("xyzzy", word, 3));
    assert_null(qg_nearest("run", word, 0));
}

/* --- memory --- */

static qg_status ask_explain(fixture *f, qg_report **r)
{
    return qg_model_explain(f->trt, "conv0", r);
}

static qg_status ask_diff(fixture *f, qg_report **r)
{
    return qg_model_diff(f->trt, f->ncnn, r);
}

static qg_status ask_dump(fixture *f, qg_report **r)
{
    return qg_model_dump(f->trt, r);
}

static qg_status ask_list(fixture *f, qg_report **r)
{
    return qg_list(f->ctx, "ops", r);
}

typedef struct question {
    fixture *f;
    qg_status (*ask)(fixture *f, qg_report **r);
} question;

static qg_status ask_with(qg_alloc alloc, void *ud)
{
    const question *q = ud;
    qg_report *r = NULL;
    qg_alloc kept = q->f->ctx->alloc;
    q->f->ctx->alloc = alloc;
    qg_status s = q->ask(q->f, &r);
    assert_int_equal(s == QG_OK, r != NULL);
    if (r && (!*qg_report_text(r) || !*qg_report_json(r)))
        s = QG_ENOMEM;
    qg_report_free(r);
    q->f->ctx->alloc = kept;
    return s;
}

static void questions_survive_without_memory(void **state)
{
    static qg_status (*const ask[])(fixture *, qg_report **) = { ask_explain, ask_diff,
                                                                 ask_dump, ask_list };
    for (size_t i = 0; i < sizeof ask / sizeof ask[0]; i++) {
        question q = { *state, ask[i] };
        every_request_may_fail(ask_with, &q, 4);
    }
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_name_is_explained),
        TEST(a_group_is_explained),
        TEST(a_pipeline_stops_where_it_is_told),
        TEST(unknown_names_are_refused_with_the_nearest),
        TEST(diff_is_symmetric),
        TEST(unknown_topics_are_refused_with_the_nearest),
        TEST(nearest_is_the_first_with_fewest_edits),
        TEST(questions_survive_without_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

/* Passes of a host stand where they ask to, and are reported like those of the
 * build. */
#include "tests/support/test.h"

#include <sys/stat.h>

#include "engine/pass/pass.h"
#include "engine/quant/endpoint.h"
#include "engine/quant/tqc.h"
#include "engine/snapshot/model.h"
#include "tests/support/host.h"

static const char *const MODEL = "graph \"g\" {\n"
                                 "  opset 17\n"
                                 "  x = input f32[1,3,8,8]\n"
                                 "  w = const f32[4,3,3,3] seed(3)\n"
                                 "  c = Conv conv(x, w)\n"
                                 "  n = Neg first(c)\n"
                                 "  m = Neg second(n)\n"
                                 "  y = Relu act(m)\n"
                                 "  output y\n"
                                 "}\n";

static void add_pipeline(host *h, const char *name, const char *passes)
{
    char text[512], path[64];
    (void)snprintf(text, sizeof text, "name: %s\nwhy: a test\npasses: [%s]\n", name,
                   passes);
    (void)snprintf(path, sizeof path, "pipelines/%s.yaml", name);
    assert_ok(h->ctx, qg_add_config(h->ctx, path, text, strlen(text)));
    (void)snprintf(text, sizeof text, "name: %s\nextends: trt-int8\npipeline: %s\n",
                   name, name);
    (void)snprintf(path, sizeof path, "backends/%s.yaml", name);
    assert_ok(h->ctx, qg_add_config(h->ctx, path, text, strlen(text)));
}

static qg_status add(host *h, const char *name, const char *before, const char *after,
                     qg_status (*run)(void *, qg_pass_env *, qg_model *))
{
    qg_host_pass p;
    qg_host_pass_init(&p, sizeof p);
    p.name = name;
    p.summary = "a pass of a test";
    p.before = before;
    p.after = after;
    p.run = run;
    return qg_add_pass(h->ctx, &p);
}

/* --- one like `bake` --- */

static qg_status bake(void *ud, qg_pass_env *env, qg_model *m)
{
    size_t changes = 0;
    (void)ud;
    for (size_t i = 0; i < m->quant->tqc.n; i++) {
        qg_tqc *t = m->quant->tqc.at[i];
        if (!qg_tqc_is_constant(t) ||
            (t->state != QG_TQC_ACTIVATED && t->state != QG_TQC_PASSIVE))
            continue;
        QG_TRY(qg_tqc_set_state(m->quant, t,
                                t->state == QG_TQC_ACTIVATED ? QG_TQC_BAKED
                                                             : QG_TQC_PASSIVE_BAKED));
        changes++;
    }
    qg_pass_count(env, changes);
    return QG_OK;
}

#define MOST                                                                           \
    "dispatch, rules, fuse, passive, simplify, calibrate-parameters, "                 \
    "calibrate-activations, align, derive-passive"

static void one_like_a_shipped_one_gives_the_same_records(void **state)
{
    host *h = *state;
    assert_ok(h->ctx, add(h, "my-bake", NULL, "derive-passive", bake));
    add_pipeline(h, "mine", MOST); /* my-bake comes in behind derive-passive */
    assert_ok(h->ctx, add(h, "named-bake", NULL, NULL, bake));
    const char *path = host_model(h, "m.onnx", MODEL);
    qg_model *mine = host_quantize(h, path, "mine", NULL, 1);
    qg_model *theirs = host_quantize(h, path, "trt-int8", NULL, 1);
    assert_int_equal(mine->quant->tqc.n, theirs->quant->tqc.n);
    for (size_t i = 0; i < mine->quant->tqc.n; i++) {
        const qg_tqc *t = mine->quant->tqc.at[i], *u = theirs->quant->tqc.at[i];
        qg_qparam p = qg_tqc_param(t), q = qg_tqc_param(u);
        assert_int_equal(t->state, u->state);
        assert_int_equal(qg_tqc_root(t)->id, qg_tqc_root(u)->id);
        assert_int_equal(p.n, q.n);
        if (p.n)
            assert_memory_equal(p.scale, q.scale, p.n * sizeof *p.scale);
    }
    assert_int_equal(qg_tqc_named(mine->graph, "conv.in1")->state, QG_TQC_BAKED);
    const qg_journal_entry *last = &mine->quant->journal.at[mine->quant->journal.n - 1];
    assert_string_equal(last->by, "my-bake");
    qg_model_close(mine);
    qg_model_close(theirs);
    host_assert_listed(h, "passes", "my-bake");
}

/* --- places --- */

typedef struct trace {
    const char *name[16];
    size_t n;
} trace;

static qg_status note(void *ud, qg_pass_env *env, qg_model *m)
{
    trace *t = ud;
    (void)m;
    t->name[t->n++] = env->at_work->name;
    return QG_OK;
}

/* The passes of the report, in order. */
static void assert_order(host *h, const char *backend, const char *const *name)
{
    qg_report *r = NULL;
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = backend;
    o.work.data = "random:2";
    qg_model *m = host_open(h, host_model(h, "m.onnx", MODEL));
    assert_ok(h->ctx, qg_model_quantize(m, &o, &r));
    const char *at = strstr(qg_report_json(r), "\"passes\"");
    for (; at && *name; name++) {
        char quoted[64];
        (void)snprintf(quoted, sizeof quoted, "\"%s\"", *name);
        at = strstr(at, quoted);
        if (!at)
            fail_msg("%s is not in its place", *name);
    }
    qg_report_free(r);
    qg_model_close(m);
}

static void passes_stand_where_they_ask_to(void **state)
{
    host *h = *state;
    static const char *const order[] = { "dispatch", "a",    "b", "rules", "d",
                                         "c",        "fuse", "e", "bake",  NULL };
    static const char *const named[] = { "dispatch", "rules", "bake", "a", NULL };
    trace seen = { .n = 0 };
    qg_host_pass p;
    qg_host_pass_init(&p, sizeof p);
    p.run = note;
    p.ud = &seen;
#define ADD(n, b, a)                                                                   \
    (p.name = (n), p.before = (b), p.after = (a), qg_add_pass(h->ctx, &p))
    assert_ok(h->ctx, ADD("a", NULL, "dispatch"));
    assert_ok(h->ctx, ADD("b", NULL, "a")); /* beside one that was added */
    assert_ok(h->ctx, ADD("c", NULL, "rules"));
    assert_ok(h->ctx, ADD("d", NULL, "rules")); /* later ones stand nearer */
    assert_ok(h->ctx, ADD("e", "bake", NULL));
    add_pipeline(h, "all", MOST ", bake");
    add_pipeline(h, "named",
                 "dispatch, rules, calibrate-parameters, "
                 "calibrate-activations, bake, a");
    assert_order(h, "all", order);
    assert_int_equal(seen.n, 5);
    seen.n = 0;
    assert_order(h, "named", named);
    assert_int_equal(seen.n, 5); /* a where it is named, and once */
}

static void wrong_places_are_refused(void **state)
{
    host *h = *state;
    assert_fails(h->ctx, add(h, "a", "simplfy", NULL, note), QG_ECONFIG,
                 "add pass a: before 'simplfy': no such pass, did you mean 'simplify'");
    assert_fails(h->ctx, add(h, "a", NULL, "bka", note), QG_ECONFIG, "after 'bka'");
    assert_fails(h->ctx, add(h, "a", "bake", "fuse", note), QG_ECONFIG,
                 "before and after are both set");
    assert_fails(h->ctx, add(h, "bake", NULL, NULL, note), QG_ECONFIG,
                 "the name is in use");
    assert_fails(h->ctx, add(h, "all", NULL, NULL, note), QG_ECONFIG,
                 "the name is in use");
    assert_fails(h->ctx, add(h, "a", NULL, NULL, NULL), QG_ECONFIG, "run is NULL");
}

/* --- edits --- */

/* Two negations in a row say nothing. */
static qg_status drop_pairs(void *ud, qg_pass_env *env, qg_model *m)
{
    qg_node *first = qg_graph_node(m->graph, "first");
    qg_node *second = qg_graph_node(m->graph, "second");
    (void)ud;
    QG_TRY(qg_model_replace_value(m, second->out[0], first->in[0]));
    QG_TRY(qg_pass_miss(env, "pair", first, "its output is still read"));
    QG_TRY(qg_model_remove_node(m, second));
    QG_TRY(qg_model_remove_node(m, first));
    QG_TRY(qg_pass_match(env, "pair"));
    qg_pass_count(env, 2);
    return QG_OK;
}

static void edits_change_the_graph_and_are_covered(void **state)
{
    host *h = *state;
    struct stat st;
    qg_quantize_options o;
    qg_report *r = NULL;
    qg_host_pass p;
    qg_host_pass_init(&p, sizeof p);
    p.name = "drop-pairs";
    p.before = "dispatch";
    p.edits = true;
    p.run = drop_pairs;
    assert_ok(h->ctx, qg_add_pass(h->ctx, &p));
    qg_quantize_options_init(&o, sizeof o);
    o.backend = "trt-int8";
    o.work.data = "random:2";
    o.dump_after = "drop-pairs";
    o.dump_dir = host_path(h, "dump");
    qg_model *m = host_open(h, host_model(h, "m.onnx", MODEL));
    assert_ok(h->ctx, qg_model_quantize(m, &o, &r));
    assert_int_equal(m->graph->node.n, 2);
    assert_null(qg_graph_node(m->graph, "first"));
    /* the convolution and the Relu have met */
    assert_int_equal(qg_tqc_named(m->graph, "conv.out0")->state, QG_TQC_OVERLAPPED);
    const char *text = qg_report_text(r);
    assert_non_null(strstr(text, "drop-pairs/pair"));
    assert_non_null(strstr(text, "first: its output is still read"));
    qg_report_free(r);
    qg_model_close(m);
    char file[128];
    for (int i = 1; i < 30; i++) {
        (void)snprintf(file, sizeof file, "%s/%02d-drop-pairs.txt", o.dump_dir, i);
        if (stat(file, &st) == 0)
            break;
    }
    assert_int_equal(stat(file, &st), 0);
    o.dump_after = NULL;
    o.stop_after = "drop-pairs";
    m = host_open(h, host_path(h, "m.onnx"));
    assert_ok(h->ctx, qg_model_quantize(m, &o, NULL));
    assert_int_equal(m->graph->node.n, 2);
    qg_model_close(m);
}

/* A node that was added behind a value goes on reading it. */
static qg_status insert_relu(void *ud, qg_pass_env *env, qg_model *m)
{
    const qg_node *act = qg_graph_node(m->graph, "act");
    qg_value *c = qg_graph_value(m->graph, "c"), *v;
    qg_node *n;
    (void)ud, (void)env;
    QG_TRY(qg_graph_add_value(m->graph, "extra", &v));
    QG_TRY(qg_graph_add_node(m->graph,
                             &(qg_node_spec){ .name = "extra",
                                              .op = act->op,
                                              .opset = act->opset,
                                              .n_in = 1,
                                              .in = &c,
                                              .n_out = 1,
                                              .out = &v },
                             &n));
    return qg_model_replace_value(m, c, v);
}

/* Inputs, outputs and the end of building are not in its hands. */
static qg_status change_frame(void *ud, qg_pass_env *env, qg_model *m)
{
    const int64_t dim[] = { 3 };
    (void)ud, (void)env;
    assert_fails(m->ctx, qg_model_add_input(m, "more", QG_F32, 1, dim), QG_ESTATE,
                 "a pass is running");
    assert_fails(m->ctx, qg_model_add_output(m, "c"), QG_ESTATE, "a pass is running");
    assert_fails(m->ctx, qg_model_finish(m), QG_ESTATE, "a pass is running");
    return QG_OK;
}

static void the_frame_stays(void **state)
{
    host *h = *state;
    qg_host_pass p;
    qg_host_pass_init(&p, sizeof p);
    p.name = "frame";
    p.before = "dispatch";
    p.edits = true;
    p.run = change_frame;
    assert_ok(h->ctx, qg_add_pass(h->ctx, &p));
    qg_model *m = host_quantize(h, host_model(h, "m.onnx", MODEL), "trt-int8", NULL, 1);
    assert_int_equal(m->graph->input.n, 1);
    assert_int_equal(m->graph->output.n, 1);
    qg_model_close(m);
}

static void nodes_are_put_in_between(void **state)
{
    host *h = *state;
    qg_host_pass p;
    qg_host_pass_init(&p, sizeof p);
    p.name = "insert";
    p.before = "dispatch";
    p.edits = true;
    p.run =
        insert_relu; /* counts nothing: order and shapes are made anew all the same */
    assert_ok(h->ctx, qg_add_pass(h->ctx, &p));
    qg_model *m = host_quantize(h, host_model(h, "m.onnx", MODEL), "trt-int8", NULL, 1);
    const qg_node *extra = qg_graph_node(m->graph, "extra");
    assert_string_equal(extra->in[0]->name, "c");
    assert_ptr_equal(qg_graph_node(m->graph, "first")->in[0], extra->out[0]);
    assert_int_equal(extra->out[0]->type.rank, 4);
    qg_model_close(m);
}

/* --- faults --- */

static qg_status edit_anyway(void *ud, qg_pass_env *env, qg_model *m)
{
    (void)ud, (void)env;
    return qg_model_remove_node(m, qg_graph_node(m->graph, "act"));
}

static qg_status silent(void *ud, qg_pass_env *env, qg_model *m)
{
    (void)ud, (void)env, (void)m;
    return QG_EDATA;
}

static void assert_run_fails(void (*prepare)(host *h), qg_status status,
                             const char *text)
{
    void *state;
    host_setup(&state);
    host *h = state;
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = "trt-int8";
    o.work.data = "random:2";
    prepare(h);
    qg_model *m = host_open(h, host_model(h, "m.onnx", MODEL));
    assert_fails(h->ctx, qg_model_quantize(m, &o, NULL), status, text);
    qg_model_close(m);
    assert_int_equal(host_teardown(&state), 0);
}

static void add_editor(host *h)
{
    assert_ok(h->ctx, add(h, "editor", "dispatch", NULL, edit_anyway));
}

static void add_adder(host *h)
{
    assert_ok(h->ctx, add(h, "adder", "dispatch", NULL, insert_relu));
}

static void add_silent(host *h)
{
    assert_ok(h->ctx, add(h, "silent", "dispatch", NULL, silent));
}

static void add_late(host *h)
{
    qg_host_pass p;
    qg_host_pass_init(&p, sizeof p);
    p.name = "late";
    p.after = "rules";
    p.edits = true;
    p.run = drop_pairs;
    assert_ok(h->ctx, qg_add_pass(h->ctx, &p));
}

static void add_reader(host *h)
{
    qg_host_pass p;
    qg_host_pass_init(&p, sizeof p);
    p.name = "reader";
    p.before = "dispatch";
    p.edits = true;
    p.run = edit_anyway;
    assert_ok(h->ctx, qg_add_pass(h->ctx, &p));
}

/* Slots of the convolution, which has two operands and needs both. */
static qg_status edit_slots(void *ud, qg_pass_env *env, qg_model *m)
{
    const int *slot = ud;
    qg_node *n = qg_model_find_node(m, "conv");
    (void)env;
    return *slot < 0
               ? qg_model_set_input(m, n, (size_t) - *slot - 1, NULL)
               : qg_model_set_input(m, n, (size_t)*slot, qg_model_find_value(m, "w"));
}

static int edited; /* slot; -1 - slot: to be absent */

static void add_slots(host *h)
{
    qg_host_pass p;
    qg_host_pass_init(&p, sizeof p);
    p.name = "slots";
    p.before = "dispatch";
    p.edits = true;
    p.run = edit_slots;
    p.ud = &edited;
    assert_ok(h->ctx, qg_add_pass(h->ctx, &p));
}

static void slots_of_edits_exist(void **state)
{
    (void)state;
    edited = 2;
    assert_run_fails(add_slots, QG_EMODEL, "(Conv): input 2 cannot be set, expected a");
    edited = -1;
    assert_run_fails(add_slots, QG_EMODEL,
                     "(Conv): input 0 cannot be absent, expected");
    edited = -2;
    assert_run_fails(add_slots, QG_EMODEL,
                     "(Conv): input 1 cannot be absent, expected");
}

static void faults_are_named(void **state)
{
    (void)state;
    assert_run_fails(add_editor, QG_ESTATE, "expected a running pass with `edits`");
    assert_run_fails(add_adder, QG_ESTATE, "expected a running pass with `edits`");
    assert_run_fails(add_silent, QG_EDATA, "pass silent: the host's function failed");
    assert_run_fails(add_late, QG_ESTATE, "expected a place before pass rules");
    assert_run_fails(add_reader, QG_EMODEL, "its output 'y' is still read");
}

QG_TEST_MAIN(WITH_HOST(one_like_a_shipped_one_gives_the_same_records),
             WITH_HOST(passes_stand_where_they_ask_to),
             WITH_HOST(wrong_places_are_refused),
             WITH_HOST(edits_change_the_graph_and_are_covered),
             WITH_HOST(the_frame_stays), WITH_HOST(nodes_are_put_in_between),
             cmocka_unit_test(slots_of_edits_exist), cmocka_unit_test(faults_are_named))

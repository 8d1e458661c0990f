/* Cuts: which nodes and values of a graph are in them. */
#include "tests/support/test.h"

#include "engine/ir/check.h"
#include "engine/ir/cut.h"
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/ir/text.h"
#include "ops/families.h"

static const char text[] = "graph \"g\" {\n"
                           "  ir 8\n"
                           "  opset 17\n"
                           "  x = input float32[N,4]\n"
                           "  i = input int64[2]\n"
                           "  w = const float32[4] [1.0, 2.0, 3.0, 4.0]\n"
                           "  k = const int64[2] [2, 2]\n"
                           "  a = Add(x, w)\n"
                           "  unread = Relu(x)\n"
                           "  p, q = Split(a, k) axis=1\n"
                           "  b = Mul(a, w)\n"
                           "  c = Add(b, w)\n"
                           "  d = Concat(p, q, c) axis=1\n"
                           "  e = Clip(d, _, top)\n"
                           "  top = const float32[] [6.0]\n"
                           "  f = Relu(e)\n"
                           "  j = Add(i, i)\n"
                           "  output f, j\n"
                           "}\n";

typedef struct fixture {
    qg_ctx *ctx;
    qg_graph *g;
    uint8_t stop[64];
    qg_cut c;
} fixture;

static int open_fixture(void **state)
{
    static fixture f;
    qg_text_source source = { .name = "g", .text = text, .size = sizeof text - 1 };
    f = (fixture){ .ctx = qg_ctx_new(qg_alloc_libc) };
    f.ctx->registry = &qg_ops_registry;
    assert_ok(f.ctx, qg_text_parse(f.ctx, &source, &f.g));
    assert_ok(f.ctx, qg_graph_normalize(f.g));
    qg_graph_value(f.g, "x")->open = 1; /* N stays open */
    assert_ok(f.ctx, qg_infer(f.g, NULL, 0));
    f.c = (qg_cut){ .from = f.g, .stop = f.stop };
    *state = &f;
    return 0;
}

static int close_fixture(void **state)
{
    fixture *f = *state;
    qg_graph_free(f->g);
    qg_ctx_free(f->ctx);
    return 0;
}

static void stop_at(fixture *f, const char *name)
{
    f->stop[qg_graph_value(f->g, name)->id] = 1;
}

/* Names of the inputs and nodes of the cut before `target`. */
static void assert_cut(fixture *f, const char *target, const char *in,
                       const char *nodes)
{
    char have[128] = "";
    f->c.target = qg_graph_value(f->g, target);
    assert_ok(f->ctx, qg_cut_make(f->ctx, &f->c));
    assert_ok(f->ctx, qg_check_graph(f->ctx, f->c.graph, QG_CHECK_ALL));
    assert_int_equal(f->c.n_in, f->c.graph->input.n);
    for (size_t i = 0; i < f->c.n_in; i++) {
        const qg_value *v = f->c.graph->input.at[i];
        assert_string_equal(v->name, f->c.in[i]->name);
        strcat(strcat(have, i ? " " : ""), v->name);
    }
    assert_string_equal(have, in);
    *have = '\0';
    for (size_t i = 0; i < f->c.n_node; i++)
        strcat(strcat(have, i ? " " : ""), f->c.node[i]->name);
    assert_string_equal(have, nodes);
    assert_int_equal(f->c.graph->node.n, f->c.n_node);
    assert_int_equal(f->c.graph->output.n, 1);
    assert_string_equal(f->c.graph->output.at[0]->name, target);
    assert_int_equal(f->c.graph->ir_version, 8);
    assert_int_equal(qg_graph_opset(f->c.graph, ""), 17);
}

static void cuts_hold_what_the_target_needs(void **state)
{
    fixture *f = *state;
    assert_cut(f, "f", "x", "a p b c d e f");
    assert_null(qg_graph_node(f->c.graph, "e")->in[1]); /* left out */
    assert_non_null(qg_graph_node(f->c.graph, "e")->in[2]);
    qg_graph_free(f->c.graph);
    assert_cut(f, "a", "x", "a"); /* the first node */
    qg_graph_free(f->c.graph);
    assert_cut(f, "j", "i", "j"); /* the last one */
    qg_graph_free(f->c.graph);
}

/* The target is computed although it is known. */
static void cuts_end_at_known_values(void **state)
{
    fixture *f = *state;
    stop_at(f, "a");
    stop_at(f, "c");
    assert_cut(f, "c", "a", "b c");
    qg_graph_free(f->c.graph);
    assert_cut(f, "d", "a c", "p d");
    qg_graph_free(f->c.graph);
    stop_at(f, "p"); /* q is computed beside it */
    assert_cut(f, "d", "a p c", "p d");
    const qg_node *split = f->c.graph->node.at[0];
    assert_string_not_equal(split->out[0]->name, "p");
    assert_int_equal(split->out[0]->use.n, 0);
    assert_string_equal(split->out[1]->name, "q");
    assert_int_equal(split->out[1]->use.n, 1);
    qg_graph_free(f->c.graph);
}

/* Constants are shared among readers, unless the caller changes them. */
static qg_status twice(void *ud, qg_graph *g, const qg_node *n, uint32_t slot,
                       const qg_tensor **out)
{
    qg_tensor *t;
    QG_TRY(qg_tensor_clone(g->ctx, g->arena, n->in[slot]->constant, &t));
    for (int64_t i = 0; t->dtype == QG_F32 && i < qg_tensor_count(t); i++)
        t->f32[i] *= 2;
    *out = t;
    ++*(int *)ud;
    return QG_OK;
}

static void constants_may_change(void **state)
{
    fixture *f = *state;
    int calls = 0;
    stop_at(f, "a");
    assert_cut(f, "c", "a", "b c");
    const qg_value *w = qg_graph_node(f->c.graph, "b")->in[1];
    assert_ptr_equal(w, qg_graph_node(f->c.graph, "c")->in[1]);
    assert_ptr_equal(w->constant, qg_graph_value(f->g, "w")->constant);
    assert_null(w->type.data);
    assert_int_equal(w->type.dim[0], 4);
    qg_graph_free(f->c.graph);
    f->c.constant = twice;
    f->c.ud = &calls;
    assert_cut(f, "c", "a", "b c");
    assert_int_equal(calls, 2);
    w = qg_graph_node(f->c.graph, "b")->in[1];
    assert_ptr_not_equal(w, qg_graph_node(f->c.graph, "c")->in[1]);
    assert_cmp_f64(w->constant->f32[3], ==, 8);
    qg_graph_free(f->c.graph);
}

/* Dims that the graph leaves open come from the caller, others do not; float32 inputs
 * get the type. */
static void inputs_have_types(void **state)
{
    fixture *f = *state;
    const qg_tensor *dims[64] = { 0 };
    qg_value *x = qg_graph_value(f->g, "x");
    qg_tensor known, other;
    x->type.dim[0] = -1;
    qg_tensor_init(&known, QG_F32, 2, (int64_t[]){ 7, 4 });
    qg_tensor_init(&other, QG_I64, 1, (int64_t[]){ 9 });
    dims[x->id] = &known;
    dims[qg_graph_value(f->g, "i")->id] = &other; /* which is known */
    f->c.dims = dims;
    assert_cut(f, "a", "x", "a");
    assert_int_equal(f->c.graph->input.at[0]->type.dim[0], 7);
    assert_int_equal(f->c.graph->input.at[0]->type.dtype, QG_F32);
    assert_int_equal(f->c.graph->output.at[0]->type.dim[0], 7);
    qg_graph_free(f->c.graph);
    assert_cut(f, "j", "i", "j");
    assert_int_equal(f->c.graph->input.at[0]->type.dim[0], 2);
    qg_graph_free(f->c.graph);
    f->c.real = QG_F64;
    assert_cut(f, "j", "i", "j");
    assert_int_equal(f->c.graph->input.at[0]->type.dtype, QG_I64);
    qg_graph_free(f->c.graph);
    assert_cut(f, "unread", "x", "unread");
    assert_int_equal(f->c.graph->input.at[0]->type.dtype, QG_F64);
    assert_int_equal(f->c.graph->output.at[0]->type.dtype, QG_F64);
    qg_graph_free(f->c.graph);
    f->c.target = qg_graph_value(f->g, "a"); /* float64 and float32 */
    assert_int_not_equal(qg_cut_make(f->ctx, &f->c), QG_OK);
    assert_null(f->c.graph);
}

#define WITH_FIXTURE(test)                                                             \
    cmocka_unit_test_setup_teardown(test, open_fixture, close_fixture)

QG_TEST_MAIN(WITH_FIXTURE(cuts_hold_what_the_target_needs),
             WITH_FIXTURE(cuts_end_at_known_values), WITH_FIXTURE(constants_may_change),
             WITH_FIXTURE(inputs_have_types))

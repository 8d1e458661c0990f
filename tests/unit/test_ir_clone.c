/* Copies of graphs: everything is in them, nothing is shared with the original. */
#include "tests/support/test.h"

#include "engine/ir/check.h"
#include "engine/ir/text.h"
#include "tests/support/graphs.h"

/* Attributes of every type, captures, bodies within bodies. */
static const char text[] =
    "graph \"all of it\" {\n"
    "  ir 10\n"
    "  opset 13\n"
    "  opset test 1\n"
    "  x = input float32[N,3,?,H=8]\n"
    "  flag = input bool[]\n"
    "  k = const int64[2] [1, -9223372036854775808]\n"
    "  odd = const float32[4] [-0.0, 0x7fc00001, inf, 1e-45]\n"
    "  c float32[N=2,?] = Conv@11(x, odd, _) on fp32 \"why not\" group=2 on=1.5\n"
    "  p, _, q bool[...] = Split(k)\n"
    "  () = test::Custom tail(p, q) t=uint8[2] [1, 2] f=floats [] s=\"a\\tb\" "
    "l=[\"\", \"c\"] i=[1, 2] e=[1.0, 2.5]\n"
    "  y = If i(flag | p, k as k2) then=graph \"b\" {\n"
    "    p = outer ?[...]\n"
    "    k2 = outer int64[2]\n"
    "    w = const float32[1] [3.0]\n"
    "    r = If j(p | k2) then=graph \"inner\" {\n"
    "      k2 = outer int64[2]\n"
    "      s = Relu@11(k2)\n"
    "      output s\n"
    "    }\n"
    "    output r\n"
    "  } list=[graph \"\" {\n"
    "  }, graph \"c\" {\n"
    "    u = const float32[1] [4.0]\n"
    "    output u\n"
    "  }]\n"
    "  output y, c\n"
    "}\n";

static qg_graph *parsed(qg_ctx *ctx)
{
    qg_text_source source = { .name = "g", .text = text, .size = sizeof text - 1 };
    qg_graph *g = NULL;
    ctx->registry = &toy_registry;
    assert_ok(ctx, qg_text_parse(ctx, &source, &g));
    return g;
}

static void assert_prints(qg_ctx *ctx, const qg_graph *g)
{
    char *print;
    size_t size;
    assert_ok(ctx, qg_check_graph(ctx, g, QG_CHECK_ALL));
    assert_ok(ctx, qg_text_print(g, NULL, ctx->arena, &print, &size));
    assert_string_equal(print, text);
}

/* What the text does not show. */
static void mark(qg_graph *g)
{
    qg_value *x = qg_graph_value(g, "x"), *y = qg_graph_value(g, "y");
    qg_tensor *declared = QG_NEW(g->arena, qg_tensor);
    qg_tensor_init(declared, QG_F32, 2, (int64_t[]){ 5, -1 });
    x->open = 9;
    x->file_dtype = QG_F16;
    y->declared = declared;
    g->float_type = QG_BF16;
    g->next_name = 77;
    qg_graph_node(g, "c")->file_unnamed = 6;
    qg_graph_node(g, "tail")->stays_float32 = true;
}

static void assert_marks(const qg_graph *g)
{
    const qg_value *x = qg_graph_value(g, "x"), *y = qg_graph_value(g, "y");
    assert_int_equal(x->open, 9);
    assert_int_equal(x->file_dtype, QG_F16);
    assert_null(x->declared);
    assert_int_equal(y->open, 0);
    assert_int_equal(y->file_dtype, QG_NODTYPE);
    assert_int_equal(y->declared->dim[0], 5);
    assert_int_equal(y->declared->dim[1], -1);
    assert_int_equal(g->float_type, QG_BF16);
    assert_int_equal(g->next_name, 77);
    assert_int_equal(g->ir_version, 10);
    assert_int_equal(qg_graph_node(g, "c")->file_unnamed, 6);
    assert_false(qg_graph_node(g, "c")->stays_float32);
    assert_int_equal(qg_graph_node(g, "tail")->file_unnamed, 0);
    assert_true(qg_graph_node(g, "tail")->stays_float32);
    assert_int_equal(qg_graph_node(g, "tail")->platform, QG_PLATFORM_NONE);
    assert_null(qg_graph_node(g, "tail")->reason);
    assert_int_equal(*(int64_t *)qg_graph_node(g, "c")->param, 2); /* prepared */
}

/* The original is freed first: a part that is still in its arena would be seen. */
static void clones_stand_alone(void **state)
{
    qg_ctx *ctx = *state;
    qg_graph *g = parsed(ctx), *copy = NULL;
    const qg_value *k = qg_graph_value(g, "k");
    mark(g);
    assert_ok(ctx, qg_graph_clone(g, &copy));
    assert_ptr_not_equal(qg_graph_value(copy, "k")->constant, k->constant);
    assert_null(qg_graph_value(copy, "x")->constant);
    assert_prints(ctx, g);
    qg_graph_free(g);
    assert_prints(ctx, copy);
    assert_marks(copy);
    qg_graph_free(copy);
}

static void shares_borrow_constants(void **state)
{
    qg_ctx *ctx = *state;
    qg_graph *g = parsed(ctx), *copy = NULL;
    mark(g);
    assert_ok(ctx, qg_graph_share(g, &copy));
    for (size_t i = 0; i < g->value.n; i++)
        assert_ptr_equal(copy->value.at[i]->constant, g->value.at[i]->constant);
    assert_prints(ctx, copy);
    assert_marks(copy);
    qg_graph_free(copy);
    qg_graph_free(g);
}

/* A node with its bodies, to values of other names. */
static void nodes_are_copied_with_their_bodies(void **state)
{
    qg_ctx *ctx = *state;
    qg_graph *g = parsed(ctx), *to = NULL;
    const qg_node *i = qg_graph_node(g, "i");
    qg_value *v[3], *out;
    char *print;
    size_t size;
    assert_ok(ctx, qg_graph_new(ctx, "to", &to));
    assert_ok(ctx, qg_graph_add_value(to, "cond", &v[0]));
    assert_ok(ctx, qg_graph_add_value(to, "p", &v[1]));
    assert_ok(ctx, qg_graph_add_value(to, "k", &v[2]));
    assert_ok(ctx, qg_graph_add_value(to, "z", &out));
    assert_ok(ctx, qg_graph_copy_node(to, i, v, &out));
    qg_graph_free(g);
    assert_int_equal(to->node.n, 1);
    const qg_node *n = to->node.at[0];
    assert_string_equal(n->name, "i");
    assert_ptr_equal(n->in[2], v[2]);
    assert_ptr_equal(out->def, n);
    assert_int_equal(n->n_capture, 2);
    assert_string_equal(n->capture[0], "p");
    assert_string_equal(n->capture[1], "k2");
    assert_int_equal(n->n_attr, 2);
    const qg_graph *then = n->attr[0].graphs[0];
    assert_string_equal(then->name, "b");
    assert_ptr_equal(then->owner, n);
    assert_cmp_f64(qg_graph_value(then, "w")->constant->f32[0], ==, 3);
    const qg_node *j = qg_graph_node(then, "j");
    assert_string_equal(j->attr[0].graphs[0]->name, "inner");
    assert_int_equal(j->attr[0].graphs[0]->node.n, 1);
    assert_int_equal(n->attr[1].count, 2);
    assert_cmp_f64(qg_graph_value(n->attr[1].graphs[1], "u")->constant->f32[0], ==, 4);
    assert_ok(ctx, qg_text_print(to, NULL, ctx->arena, &print, &size));
    qg_graph_free(to);
}

QG_TEST_MAIN(WITH_CTX(clones_stand_alone), WITH_CTX(shares_borrow_constants),
             WITH_CTX(nodes_are_copied_with_their_bodies))

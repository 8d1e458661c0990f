/* Blocks of a graph (learn/block.h): where they end, what they accumulate, which nodes
 * of them lead to an output. */
#include "engine/learn/block.h"
#include "tests/support/session.h"

/* Node i of `nodes` is named in the order of the text; fused: "from>to" joins the
 * output of one value's producer to that of another's, which rounds instead.  want:
 * "first-end:compute", with "!" where a node stops learning. */
typedef struct cuts {
    const char *nodes, *fused;
    size_t depth;
    const char *want;
} cuts;

static const char head[] =
    "graph {\n x = input f32[2,2]\n w = const f32[2,2] ramp(-1, 1)\n"
    " axis = const i64[] [0]\n";

/* A residual around the second product: block.h. */
#define RESIDUAL                                                                       \
    "a = MatMul(x, w)\n r = Relu(a)\n b = MatMul(r, w)\n s = Add(r, b)\n"              \
    " y = MatMul(s, w)\n output y\n"
#define CHAIN(last)                                                                    \
    "a = MatMul(x, w)\n b = Relu(a)\n c = Neg(b)\n d = MatMul(c, w)\n" last "\n"

#define SPLIT                                                                          \
    "a = MatMul(x, w)\n r, t = Split(a) axis=0 num_outputs=2\n b = MatMul(r, w)\n"     \
    " c = MatMul(t, w)\n y = Add(b, c)\n output y\n"

/* clang-format off */
static const cuts rows[] = {
    { RESIDUAL, NULL, 1, "0-2:1 2-4:1 4-5:1" },
    { RESIDUAL, NULL, 2, "0-4:2 4-5:1" },
    { RESIDUAL, NULL, 3, "0-5:3" },
    { RESIDUAL, NULL, 9, "0-5:3" },
    /* The last one of equal cuts; the last block takes all that follows. */
    { CHAIN("output d"), NULL, 1, "0-3:1 3-4:1" },
    { CHAIN("e = Relu(d)\n y = Neg(e)\n output y"), NULL, 1, "0-3:1 3-6:1" },
    /* An earlier cut that fewer values cross. */
    { "a = MatMul(x, w)\n b = Neg(a)\n c = MatMul(a, w)\n y = Add(b, c)\n output y\n",
      NULL, 1, "0-1:1 1-4:1" },
    /* No end before the first product, though fewer values cross there. */
    { "n = Neg(x)\n a = MatMul(n, w)\n b = MatMul(a, w)\n y = Add(b, n)\n output y\n",
      NULL, 1, "0-2:1 2-4:1" },
    /* The network's input crosses as long as somebody reads it. */
    { "a = MatMul(x, w)\n b = Add(a, x)\n c = Relu(b)\n d = MatMul(c, w)\n"
      " y = Add(d, c)\n output y\n", NULL, 1, "0-3:1 3-5:1" },
    { "a = MatMul(x, w)\n b = Relu(a)\n c = Add(b, x)\n d = MatMul(c, w)\n"
      " y = Add(d, b)\n output y\n", NULL, 1, "0-3:1 3-5:1" },
    /* Neither integers nor constants count: behind s only b crosses. */
    { "a = MatMul(x, w)\n b = Relu(a)\n s = Shape(b)\n c = MatMul(b, w)\n"
      " d = Reshape(c, s)\n output d\n", NULL, 1, "0-3:1 3-5:1" },
    /* a is rounded behind Split, where two values cross instead of one. */
    { SPLIT, NULL, 1, "0-1:1 1-3:1 3-5:1" },
    { SPLIT, "a>r", 1, "0-2:1 2-3:1 3-5:1" },
    /* A fusion that leaves no place to end. */
    { "a = MatMul(x, w)\n b = MatMul(a, w)\n c = MatMul(b, w)\n output c\n", "a>b", 1,
      "0-2:2 2-3:1" },
    /* No gradient: a block of its own, wherever it is. */
    { "a = MatMul(x, w)\n z = CumSum(a, axis)\n b = MatMul(z, w)\n output b\n", NULL, 3,
      "0-1:1 1-2:0! 2-3:1" },
    { "z = CumSum(x, axis)\n b = MatMul(z, w)\n output b\n", NULL, 3, "0-1:0! 1-2:1" },
    { "a = MatMul(x, w)\n b = MatMul(a, w)\n z = CumSum(b, axis)\n"
      " y = CumSum(z, axis)\n output y\n", NULL, 2, "0-2:2 2-3:0! 3-4:0!" },
    /* Shapes have none, and end nothing. */
    { "a = MatMul(x, w)\n s = Shape(a)\n b = Relu(a)\n output b, s\n", NULL, 1,
      "0-3:1" },
};
/* clang-format on */

static qg_value *named(qg_graph *g, const char *name, size_t length)
{
    for (size_t i = 0; i < g->value.n; i++)
        if (strlen(g->value.at[i]->name) == length &&
            memcmp(g->value.at[i]->name, name, length) == 0)
            return g->value.at[i];
    fail_msg("no value %s", name);
    return NULL;
}

static qg_graph *parsed(qg_ctx *ctx, const char *nodes, qg_model *m)
{
    char text[1024];
    assert_cmp_int(snprintf(text, sizeof text, "%s %s}\n", head, nodes), <,
                   sizeof text);
    ctx->registry = &qg_ops_registry;
    model_of_text(ctx, text, m);
    return m->graph;
}

static void fuse(qg_ctx *ctx, qg_graph *g, const char *fused)
{
    const qg_scheme s = { .policy = QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC,
                          .bits = 8,
                          .axis = -1,
                          .qmin = -128,
                          .qmax = 127 };
    qg_quant *q;
    qg_tqc *from, *to;
    const qg_value *a = named(g, fused, 1), *b = named(g, fused + 2, 1);
    assert_ok(ctx, qg_quant_new(g, NULL, &q));
    assert_ok(ctx, qg_quant_add(q, a->def, true, a->def_slot, &s, &from));
    assert_ok(ctx, qg_quant_add(q, b->def, true, b->def_slot, &s, &to));
    assert_ok(ctx, qg_tqc_join(q, from, to));
}

static void text_of(const qg_graph *g, const qg_block *b, size_t n, char *text)
{
    for (size_t i = 0; i < n; i++) {
        if (b[i].stop)
            assert_ptr_equal(b[i].stop, g->node.at[b[i].first]);
        text += sprintf(text, "%s%zu-%zu:%zu%s", i ? " " : "", b[i].first, b[i].end,
                        b[i].compute, b[i].stop ? "!" : "");
    }
}

static void blocks_end_where_least_leads_on(void **state)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qg_ctx *ctx = *state;
        qg_model m;
        qg_block *b;
        size_t n;
        char text[256];
        qg_graph *g = parsed(ctx, rows[i].nodes, &m);
        if (rows[i].fused)
            fuse(ctx, g, rows[i].fused);
        assert_ok(ctx, qg_blocks_of(ctx, g, rows[i].depth, ctx->arena, &b, &n));
        text_of(g, b, n, text);
        if (strcmp(text, rows[i].want) != 0)
            fail_msg("row %zu: %s, expected %s", i, text, rows[i].want);
        qg_graph_free(g);
    }
}

/* b is read by c alone, which leads nowhere; Split has a part that nobody reads. */
static void wanted_is_what_leads_to_an_output(void **state)
{
    static const uint8_t want[] = { 1, 1, 0, 0, 1, 1 };
    static const uint8_t inside[] = { 0, 1, 0, 0, 1, 0 };
    qg_ctx *ctx = *state;
    qg_model m;
    const qg_graph *g =
        parsed(ctx,
               "a = MatMul(x, w)\n r, t = Split(a) axis=0 num_outputs=2\n"
               " b = Neg(t)\n c = Neg(b)\n d = Relu(r)\n e = Neg(d)\n"
               " output d, e\n",
               &m);
    const qg_block b = { .first = 1, .end = 5 };
    const uint8_t *wanted = qg_block_wanted(g, ctx->arena);
    assert_int_equal(g->node.n, sizeof want);
    assert_memory_equal(wanted, want, sizeof want);
    assert_memory_equal(qg_block_part(g, &b, wanted, ctx->arena), inside,
                        sizeof inside);
    qg_graph_free(m.graph);
}

/* An output that nobody reads inside counts by itself; a node without one does not. */
static void outputs_count_without_readers(void **state)
{
    static const uint8_t want[] = { 1, 0, 1 };
    qg_ctx *ctx = *state;
    qg_model m;
    const qg_graph *g = parsed(
        ctx,
        "a = Neg(x)\n b = Neg(a)\n c, _ = Split(a) axis=0 num_outputs=2\n output c\n",
        &m);
    assert_memory_equal(qg_block_wanted(g, ctx->arena), want, sizeof want);
    qg_graph_free(m.graph);
}

QG_TEST_MAIN(WITH_CTX(blocks_end_where_least_leads_on),
             WITH_CTX(wanted_is_what_leads_to_an_output),
             WITH_CTX(outputs_count_without_readers))

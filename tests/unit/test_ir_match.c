/* The matcher: structure, operand order, conditions, near misses, overlap, cost. */
#include "tests/support/test.h"

#include "engine/ir/edit.h"
#include "engine/ir/match.h"
#include "engine/ir/text.h"
#include "tests/support/graphs.h"

typedef struct bed {
    qg_ctx *ctx;
    qg_graph *g;
    qg_matches m;
} bed;

static bed bed_new(const char *text)
{
    bed b = { .ctx = qg_ctx_new(qg_alloc_libc) };
    qg_text_source source = { .text = text, .size = strlen(text) };
    b.ctx->registry = &toy_registry;
    assert_ok(b.ctx, qg_text_parse(b.ctx, &source, &b.g));
    assert_ok(b.ctx, qg_graph_normalize(b.g));
    return b;
}

static void bed_free(bed *b)
{
    qg_graph_free(b->g);
    qg_ctx_free(b->ctx);
}

/* "c r; c2 r2 ! c3: c.out0 ..." : matches, then near misses. */
static const char *report(bed *b, const qg_pattern *p, enum qg_match_mode mode)
{
    char *text = qg_arena_strdup(b->ctx->arena, "");
    assert_ok(b->ctx, qg_match_pattern(b->g, p, mode, b->ctx->arena, &b->m));
    for (size_t i = 0; i < b->m.match.n; i++)
        for (size_t k = 0; k < p->n_node; k++)
            text = qg_arena_printf(b->ctx->arena, "%s%s%s", text,
                                   k   ? " "
                                   : i ? "; "
                                       : "",
                                   b->m.match.at[i].node[k]->name);
    for (size_t i = 0; i < b->m.miss.n; i++)
        text = qg_arena_printf(b->ctx->arena, "%s! %s: %s", text,
                               b->m.miss.at[i].at->name, b->m.miss.at[i].condition);
    return text;
}

#define assert_matches(text, pattern, mode, expected)                                  \
    do {                                                                               \
        bed bed_ = bed_new(text);                                                      \
        assert_string_equal(report(&bed_, (pattern), (mode)), (expected));             \
        bed_free(&bed_);                                                               \
    } while (0)

/* compute -> activation, the value between them read by nobody else */
static const char *const activations[] = { "Relu", "Sigmoid" };
static const qg_pattern_edge from_0 = { 0, QG_SLOT_ANY, QG_SLOT_ANY };
static const uint32_t both[] = { 0, 1 };
#define EDGES(...)                                                                     \
    (const qg_pattern_edge[]) { __VA_ARGS__ }
/* clang-format off */
static const qg_pattern_node fuse_nodes[] = {
    { .name = "c", .traits = QG_OP_COMPUTE },
    { .name = "a", .op = activations, .n_op = 2, .in = &from_0, .n_in = 1 },
};
static const qg_pattern_where fuse_where[] = {
    { .node = 0, .is_output = true, .test = QG_WHERE_CONSUMERS, .wanted = 1 },
    { .node = 0, .is_output = true, .test = QG_WHERE_GRAPH_OUTPUT, .wanted = 0 },
};
static const qg_pattern_group fuse_platform = { .node = both, .n = 2 };
static const qg_pattern fuse = {
    .id = "compute-activation", .node = fuse_nodes, .n_node = 2,
    .where = fuse_where, .n_where = 2,
    .same_platform = &fuse_platform, .n_same_platform = 1,
};
/* clang-format on */

static void chains_match_in_order(void **state)
{
    (void)state;
    assert_matches("graph { c1 = Conv(x, w); c2 = Conv(c1, w); s = Sigmoid(c1)\n"
                   " r = Relu(c2); lone = Relu(x) }",
                   &fuse, QG_MATCH_APART,
                   "c2 r! c1: c.out0 has 2 consumers, expected 1");
}

static void near_misses_say_what_is_the_case(void **state)
{
    (void)state;
    assert_matches("graph { c = Conv(x, w); r = Relu(c); output c, r }", &fuse,
                   QG_MATCH_APART,
                   "! c: c.out0 is a graph output, expected not a graph "
                   "output");
    assert_matches("graph { c = Conv(x, w) on quantized; r = Relu(c) on fp32 }", &fuse,
                   QG_MATCH_APART,
                   "! r: a runs on fp32 and c on quantized, expected the "
                   "same platform");
    /* two failed conditions are no near miss */
    assert_matches("graph { c = Conv(x, w); r = Relu(c); q = Add(c, c); output c }",
                   &fuse, QG_MATCH_APART, "");
}

/* swish: conv -> sigmoid -> mul, and conv -> mul in any order */
static const char *const sigmoid[] = { "Sigmoid" }, *const mul[] = { "Mul" };
/* clang-format off */
static const qg_pattern_node swish_nodes[] = {
    { .name = "c", .traits = QG_OP_COMPUTE },
    { .name = "s", .op = sigmoid, .n_op = 1, .in = &from_0, .n_in = 1 },
    { .name = "m", .op = mul, .n_op = 1, .in = EDGES({ 0, 0, 0 }, { 1, 0, 1 }),
      .n_in = 2 },
};
/* clang-format on */
static const qg_pattern swish = { .id = "swish", .node = swish_nodes, .n_node = 3 };

static void branches_match_in_any_operand_order(void **state)
{
    (void)state;
    assert_matches("graph { c = Conv(x, w); s = Sigmoid(c); m = Mul(c, s) }", &swish,
                   QG_MATCH_APART, "c s m");
    assert_matches("graph { c = Conv(x, w); s = Sigmoid(c); m = Mul(s, c) }", &swish,
                   QG_MATCH_APART, "c s m");
    assert_matches("graph { c = Conv(x, w); s = Sigmoid(c); m = Mul(s, s) }", &swish,
                   QG_MATCH_APART, "");
    assert_matches("graph { c = Conv(x, w); d = Conv(x, w); s = Sigmoid(d)\n"
                   "m = Mul(s, c) }",
                   &swish, QG_MATCH_APART, "");
}

static void slots_count_where_order_matters(void **state)
{
    (void)state;
    static const char *const reshape[] = { "Reshape" };
    qg_pattern_edge edge = { 0, 1, 0 };
    /* clang-format off */
    qg_pattern_node nodes[] = {
        { .name = "s" },
        { .name = "r", .op = reshape, .n_op = 1, .in = &edge, .n_in = 1 },
    };
    /* clang-format on */
    qg_pattern p = { .id = "p", .node = nodes, .n_node = 2 };
    static const char text[] = "graph { a, b = Split(x); r = Reshape(b, a)\n"
                               "q = Reshape(a, b) }";
    assert_matches(text, &p, QG_MATCH_ALL, "a r"); /* node a makes b, in slot 0 */
    edge.slot = 1;
    assert_matches(text, &p, QG_MATCH_ALL, "a q");
    nodes[1].commutative = true;
    assert_matches(text, &p, QG_MATCH_ALL, "a r; a q");
    edge = (qg_pattern_edge){ 0, 2, QG_SLOT_ANY };
    assert_matches(text, &p, QG_MATCH_ALL, "");
}

static void two_edges_need_two_slots(void **state)
{
    (void)state;
    static const char *const add[] = { "Add" };
    /* clang-format off */
    const qg_pattern_node nodes[] = {
        { .name = "s" },
        { .name = "a", .op = add, .n_op = 1, .n_in = 2,
          .in = EDGES({ 0, QG_SLOT_ANY, QG_SLOT_ANY }, { 0, 1, 0 }) },
    };
    /* clang-format on */
    const qg_pattern p = { .id = "p", .node = nodes, .n_node = 2 };
    static const char text[] = "graph { a, b = Split(x); one = Add(a, x)\n"
                               "two = Add(b, a); twice = Add(b, b) }";
    assert_matches(text, &p, QG_MATCH_ALL, "a two; a twice");
}

static void matches_may_be_kept_apart(void **state)
{
    (void)state;
    static const char *const relu[] = { "Relu" };
    /* clang-format off */
    const qg_pattern_node nodes[] = {
        { .name = "a", .op = relu, .n_op = 1 },
        { .name = "b", .op = relu, .n_op = 1, .in = &from_0, .n_in = 1 },
    };
    /* clang-format on */
    const qg_pattern p = { .id = "p", .node = nodes, .n_node = 2 };
    static const char text[] =
        "graph { p = Relu(x); q = Relu(p); r = Relu(q); s = Relu(r) }";
    assert_matches(text, &p, QG_MATCH_APART, "p q; r s");
    assert_matches(text, &p, QG_MATCH_ALL, "p q; q r; r s");
}

/* Two relus into one add: the same nodes in swapped roles are one match. */
static void symmetric_matches_count_once(void **state)
{
    (void)state;
    /* clang-format off */
    const qg_pattern_node nodes[] = {
        { .name = "a", .op = activations, .n_op = 1 },
        { .name = "b", .op = activations, .n_op = 1 },
        { .name = "sum", .traits = QG_OP_JOIN, .n_in = 2,
          .in = EDGES({ 0, -1, -1 }, { 1, -1, -1 }) },
    };
    /* clang-format on */
    const qg_pattern p = { .id = "p", .node = nodes, .n_node = 3 };
    assert_matches("graph { p = Relu(x); q = Relu(x); s = Add(p, q); t = Add(p, p) }",
                   &p, QG_MATCH_ALL, "p q s");
}

static bool group_is_one(const void *ud, const qg_node *n, char text[QG_CONDITION_TEXT])
{
    int64_t group = 0;
    if (qg_attr_int(NULL, n, "group", 1, &group) == QG_OK && group == *(const int *)ud)
        return true;
    (void)snprintf(text, QG_CONDITION_TEXT, "group is %lld, expected 1",
                   (long long)group);
    return false;
}

static void callers_bring_conditions(void **state)
{
    (void)state;
    const int one = 1;
    const qg_pattern_node node = {
        .name = "c", .traits = QG_OP_COMPUTE, .holds = group_is_one, .ud = &one
    };
    const qg_pattern_where constant = {
        .node = 0, .role = 'w', .wanted = 1, .test = QG_WHERE_CONSTANT
    };
    const qg_pattern p = {
        .id = "p", .node = &node, .n_node = 1, .where = &constant, .n_where = 1
    };
    assert_matches(
        "graph { opset 13; w = const f32[1] [1]; c = Conv(x, w)\n"
        "d = Conv(x, w) group=4; e = Conv(w, x); f = Conv(w, x) group=2 }",
        &p, QG_MATCH_APART,
        "c! d: c: group is 4, expected 1! e: c.in1 is not constant, expected "
        "constant");
}

static void absent_endpoints_are_named(void **state)
{
    (void)state;
    const qg_pattern_node node = { .name = "c", .traits = QG_OP_COMPUTE };
    const qg_pattern_where bias = { .node = 0, .slot = 2, .test = QG_WHERE_CONSTANT };
    const qg_pattern p = {
        .id = "p", .node = &node, .n_node = 1, .where = &bias, .n_where = 1
    };
    assert_matches("graph { c = Conv(x, w); d = Conv(x, w, b) }", &p, QG_MATCH_APART,
                   "d! c: c.in2 is absent, expected a value");
}

static void senseless_patterns_are_refused(void **state)
{
    (void)state;
    const qg_pattern_edge to_1 = { 1, -1, -1 }, far = { 7, -1, -1 };
    /* clang-format off */
    const qg_pattern_node cycle[] = { { .name = "a", .in = &to_1, .n_in = 1 },
                                      { .name = "b", .in = &from_0, .n_in = 1 } };
    const qg_pattern_node apart[] = { { .name = "a" }, { .name = "b" } };
    const qg_pattern_node nowhere = { .name = "a", .in = &far, .n_in = 1 };
    const struct {
        const qg_pattern_node *node;
        size_t n;
        const char *message;
    } bad[] = {
        { cycle, 2, "pattern 'p': node 'a': the edges form a cycle" },
        { apart, 2, "pattern 'p': node 'b': other nodes are not connected" },
        { &nowhere, 1, "pattern 'p': node 'a': an edge without a source" },
        { cycle, 0, "pattern 'p': 0 nodes, expected 1 to 16" },
    };
    /* clang-format on */
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const qg_pattern p = { .id = "p", .node = bad[i].node, .n_node = bad[i].n };
        assert_fails(ctx, qg_pattern_check(ctx, &p), QG_ECONFIG, bad[i].message);
    }
    qg_ctx_free(ctx);
}

/* Siblings below one producer with very many readers: the search gives up, and says so,
 * instead of trying all pairs. */
static void wide_fans_are_given_up(void **state)
{
    (void)state;
    toy t = toy_new();
    /* clang-format off */
    const qg_pattern_node nodes[] = {
        { .name = "s", .op = sigmoid, .n_op = 1, .in = EDGES({ 1, -1, -1 }),
          .n_in = 1 },
        { .name = "c" },
        { .name = "r", .op = activations, .n_op = 1, .in = EDGES({ 1, -1, -1 }),
          .n_in = 1 },
        { .name = "m", .op = mul, .n_op = 1, .in = EDGES({ 2, -1, -1 }, { 0, -1, -1 }),
          .n_in = 2 },
    };
    const qg_pattern_node siblings[] = {
        { .name = "c" },
        { .name = "s", .op = mul, .n_op = 1, .in = &from_0, .n_in = 1 },
        { .name = "r", .op = activations, .n_op = 1, .in = &from_0, .n_in = 1 },
    };
    /* clang-format on */
    const qg_pattern bounded = { .id = "p", .node = nodes, .n_node = 4 };
    const qg_pattern open = { .id = "p", .node = siblings, .n_node = 3 };
    qg_matches m;
    toy_node(&t, "Identity", "root", "in", "x");
    for (int i = 0; i < QG_PATTERN_STEPS + 10; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "y%d", i);
        toy_node(&t, "Sigmoid", NULL, "x", name);
    }
    toy_node(&t, "Relu", "r", "x", "z");
    toy_node(&t, "Mul", "m", "z, y7", "product");
    assert_ok(t.ctx, qg_match_pattern(t.g, &bounded, QG_MATCH_APART, t.ctx->arena, &m));
    assert_int_equal(m.match.n, 1); /* backwards from the product it is cheap */
    assert_int_equal(m.miss.n, 0);
    assert_ok(t.ctx, qg_match_pattern(t.g, &open, QG_MATCH_APART, t.ctx->arena, &m));
    assert_int_equal(m.match.n, 0);
    assert_string_equal(m.miss.at[0].at->name, "r");
    assert_string_equal(m.miss.at[0].condition,
                        "too many ways to match, expected at most 4096 steps");
    toy_free(&t);
}

QG_TEST_MAIN(cmocka_unit_test(chains_match_in_order),
             cmocka_unit_test(near_misses_say_what_is_the_case),
             cmocka_unit_test(branches_match_in_any_operand_order),
             cmocka_unit_test(slots_count_where_order_matters),
             cmocka_unit_test(two_edges_need_two_slots),
             cmocka_unit_test(matches_may_be_kept_apart),
             cmocka_unit_test(symmetric_matches_count_once),
             cmocka_unit_test(callers_bring_conditions),
             cmocka_unit_test(absent_endpoints_are_named),
             cmocka_unit_test(senseless_patterns_are_refused),
             cmocka_unit_test(wide_fans_are_given_up))

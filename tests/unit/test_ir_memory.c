/* Every allocation fails once, and once and for good: a status, no leak, no crash. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "engine/ir/check.h"
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/ir/match.h"
#include "engine/ir/text.h"
#include "tests/support/graphs.h"

typedef struct faulty {
    long left;   /* requests that still succeed */
    bool sticky; /* after the first failure all others fail as well */
    long live;
} faulty;

static void *faulty_get(void *ud, size_t size)
{
    faulty *f = ud;
    if (f->left == 0 && f->sticky)
        return NULL;
    if (f->left-- == 0)
        return NULL;
    f->live++;
    return malloc(size);
}

static void faulty_drop(void *ud, void *p)
{
    ((faulty *)ud)->live -= p != NULL;
    free(p);
}

static const char text[] =
    "graph \"g\" { opset 13; opset test 1; x = input f32[N,3]; b = input bool[]\n"
    "k = const i64[2] [1, -1]; big = const f32[40] seed(3); unused = const f32[1] [0]\n"
    "y = Reshape(x, dims); dims = Add(s, k); s = Shape(x)\n"
    "c = Conv(y, big) group=2; r = Relu(c); q = Relu(c)\n"
    "i = If(b | r) then=graph { r = outer; t = Relu(r); output t } a=[\"p\", \"q\"]\n"
    "() = test::Custom n(q) t=u8[3] [1, 2, 3] f=[1.0]; output i, r }";

static qg_status match(qg_ctx *ctx, const qg_graph *g)
{
    static const qg_pattern_edge edge = { 0, QG_SLOT_ANY, QG_SLOT_ANY };
    /* clang-format off */
    static const qg_pattern_node nodes[] = {
        { .name = "c", .traits = QG_OP_COMPUTE },
        { .name = "a", .traits = QG_OP_ACTIVATION, .in = &edge, .n_in = 1 },
    };
    /* clang-format on */
    static const qg_pattern_where where = { .node = 0, .is_output = true, .wanted = 1 };
    const qg_pattern p = {
        .id = "p", .node = nodes, .n_node = 2, .where = &where, .n_where = 1
    };
    qg_matches m;
    return qg_match_pattern(g, &p, QG_MATCH_ALL, ctx->arena, &m);
}

static qg_status work_on(qg_ctx *ctx, qg_graph *g, qg_text_table *table)
{
    qg_graph *copy = NULL;
    qg_value *v = NULL;
    qg_text_source source = { .table = table };
    char *print;
    size_t removed;
    QG_TRY(qg_graph_normalize(g));
    QG_TRY(qg_infer(g, NULL, 0));
    QG_TRY(qg_check_graph(ctx, g, QG_CHECK_ALL));
    QG_TRY(match(ctx, g));
    QG_TRY(qg_edit_add_constant(g, "made", qg_graph_value(g, "k")->constant, &v));
    QG_TRY(qg_edit_grow_inputs(g, qg_graph_node(g, "n"), 3));
    QG_TRY(qg_edit_set_input(g, qg_graph_node(g, "n"), 2, v));
    QG_TRY(qg_text_print(g, table, ctx->arena, &print, &source.size));
    source.text = print;
    QG_TRY(qg_text_parse(ctx, &source, &copy));
    qg_graph_free(copy);
    QG_TRY(qg_graph_clone(g, &copy));
    qg_graph_free(copy);
    return qg_graph_sweep(g, &removed);
}

static qg_status everything(faulty *f)
{
    qg_alloc alloc = { faulty_get, faulty_drop, f };
    qg_ctx *ctx = qg_ctx_new(alloc);
    qg_graph *g = NULL;
    qg_text_table *table = NULL;
    qg_text_source source = { .text = text, .size = sizeof text - 1 };
    if (!ctx)
        return QG_ENOMEM;
    ctx->registry = &toy_registry;
    qg_status s = qg_text_table_new(ctx, &table);
    if (s == QG_OK)
        s = qg_text_parse(ctx, &source, &g);
    if (s == QG_OK)
        s = work_on(ctx, g, table);
    if (s != QG_OK && s != QG_ENOMEM)
        print_error("%s\n", qg_ctx_message(ctx));
    qg_text_table_free(table);
    qg_graph_free(g);
    qg_ctx_free(ctx);
    return s;
}

static void every_failure_is_a_status(void **state)
{
    (void)state;
    faulty all = { .left = 1000000 };
    assert_int_equal(everything(&all), QG_OK);
    assert_int_equal(all.live, 0);
    long total = 1000000 - all.left;
    assert_in_range(total, 20, 100000);
    for (int sticky = 0; sticky < 2; sticky++)
        for (long k = 0; k < total; k++) {
            faulty f = { .left = k, .sticky = sticky };
            assert_int_equal(everything(&f), QG_ENOMEM);
            assert_int_equal(f.live, 0);
        }
}

QG_TEST_MAIN(cmocka_unit_test(every_failure_is_a_status))

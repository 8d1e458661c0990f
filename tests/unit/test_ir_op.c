/* Rows of operators: which one an opset has, what messages say of them, how nodes move
 * from one to the next. */
#include "tests/support/test.h"

#include "engine/ir/edit.h"
#include "engine/ir/text.h"
#include "engine/ir/upgrade.h"

static qg_status rename_attr(qg_graph *g, qg_node *n, int64_t opset);
static qg_status add_node(qg_graph *g, qg_node *n, int64_t opset);

#define ROW(n, d, s, u)                                                                \
    {                                                                                  \
        .name = (n), .domain = (d), .since = (s), .until = (u), .min_in = 1,           \
        .max_in = 2, .min_out = 1, .max_out = 1                                        \
    }

static const qg_op first[] = { ROW("Map", NULL, 6, 0),    ROW("Map", "", 1, 0),
                               ROW("Map", "", 9, 0),      ROW("Map", "other", 7, 0),
                               ROW("Mat", NULL, 1, 0),    ROW("Gone", NULL, 7, 8),
                               ROW("Gone", NULL, 10, 11), { 0 } };
static const qg_op second[] = { ROW("Newer", NULL, 9, 0),  ROW("Newer", NULL, 12, 0),
                                ROW("Far", NULL, 1, 0),    ROW("Far", NULL, 20, 0),
                                ROW("Map", "last", 30, 0), { 0 } };
static const qg_op *const families[] = { first, second };
static const qg_upgrade upgrades[] = {
    {"Map",   1, NULL, rename_attr },
    { "Map",   6, NULL, NULL },
    { "Gone",      7, "Newer", add_node },
    { "Newer",    9, NULL, NULL },
    { "Far",   1, NULL, NULL },
    { 0}
};
static const qg_registry registry = { .family = families,
                                      .n_family = 2,
                                      .upgrade = upgrades };

static void the_newest_row_counts(void **state)
{
    static const struct {
        const char *domain, *name;
        int64_t opset;
        int since; /* 0: none */
    } row[] = {
        {NULL,       "Map",  1,   1 },
        { "",        "Map",  5,   1 },
        { "ai.onnx", "Map",  6,   6 },
        { NULL,      "Map",  8,   6 },
        { NULL,      "Map",  9,   9 },
        { NULL,      "Map",  99,  9 },
        { NULL,      "Map",  0,   0 },
        { "other",   "Map",  99,  7 },
        { "other",   "Map",  6,   0 },
        { "none",    "Map",  9,   0 },
        { NULL,      "Gone", 6,   0 },
        { NULL,      "Gone", 7,   7 },
        { NULL,      "Gone", 8,   7 },
        { NULL,      "Gone", 9,   0 },
        { NULL,      "Gone", 11,  10},
        { NULL,      "Gone", 12,  0 },
        { NULL,      "Ma",   9,   0 },
        { NULL,      "Maps", 9,   0 },
        { NULL,      "Far",  19,  1 },
        { NULL,      "Far",  100, 20},
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const qg_op *op =
            qg_op_find(&registry, row[i].domain, row[i].name, row[i].opset);
        if ((op ? op->since : 0) != row[i].since)
            fail_msg("row %zu: %d", i, op ? op->since : 0);
    }
    assert_null(qg_op_find(NULL, NULL, "Map", 9));
    assert_int_equal(qg_op_newest(&registry, "Map")->since, 30); /* in any domain */
    assert_int_equal(qg_op_newest(&registry, "Gone")->since, 10);
    assert_null(qg_op_newest(&registry, "None"));
    assert_null(qg_op_newest(NULL, "Map"));
    assert_int_equal(qg_op_next(&registry, "Map", 0)->since, 1);
    assert_int_equal(qg_op_next(&registry, "Map", 1)->since, 6);
    assert_int_equal(qg_op_next(&registry, "Map", 6)->since, 9); /* not 7 of `other` */
    assert_null(qg_op_next(&registry, "Map", 9));
    assert_null(qg_op_next(NULL, "Map", 1));
    assert_ptr_equal(qg_op_upgrade(&registry, &first[1]), &upgrades[0]);
    assert_ptr_equal(qg_op_upgrade(&registry, &first[0]), &upgrades[1]);
    assert_null(qg_op_upgrade(&registry, &first[2]));
    assert_null(qg_op_upgrade(NULL, &first[0]));
}

static void versions_are_told(void **state)
{
    char text[QG_OP_VERSIONS];
    (void)state;
    assert_string_equal(qg_op_versions(&registry, "", "Gone", text),
                        ", known for opset 7 to 8, 10 to 11");
    assert_string_equal(qg_op_versions(&registry, NULL, "Map", text),
                        ", known for opset 6 and later, 1 and later, 9 and later");
    assert_string_equal(qg_op_versions(&registry, "other", "Map", text),
                        ", known for opset 7 and later");
    assert_string_equal(qg_op_versions(&registry, NULL, "None", text), "");
    assert_string_equal(qg_op_versions(NULL, NULL, "Map", text), "");
}

/* Rows that do not fit are left out whole. */
static void many_versions_are_cut_at_a_row(void **state)
{
    enum { N = 40 };
    static qg_op many[N + 1];
    static const qg_op *const family[] = { many };
    const qg_registry r = { .family = family, .n_family = 1 };
    char text[QG_OP_VERSIONS], want[1024] = ", known for opset";
    size_t rows = 0;
    (void)state;
    for (int i = 0; i < N; i++)
        many[i] = (qg_op)ROW("Map", NULL, 101, 0);
    (void)qg_op_versions(&r, NULL, "Map", text);
    /* 32 bytes, then 15 each, as long as the longest one, 64, still has room */
    for (size_t n = 0; n + 64 <= QG_OP_VERSIONS; rows++) {
        strcat(want, rows ? ", 101 and later" : " 101 and later");
        n = strlen(want);
    }
    assert_string_equal(text, want);
}

static void rows_are_compared(void **state)
{
    static const char *const names[] = { "Far", "Map" };
    qg_op op = ROW("Map", NULL, 6, 0);
    (void)state;
    assert_true(qg_op_alike(&op, &first[0]));
    assert_false(qg_op_alike(&op, &first[1]));
    op.since = 7;
    assert_false(qg_op_alike(&op, &first[3]));
    op.domain = "other";
    assert_true(qg_op_alike(&op, &first[3]));
    op.name = "Mat";
    assert_false(qg_op_alike(&op, &first[3]));
    assert_true(qg_op_is_named(&first[0], names, 2));
    assert_false(qg_op_is_named(&first[0], names, 1));
    assert_false(qg_op_is_named(&first[4], names, 2));
    op.name = "Map";
    op.opaque = true;
    assert_false(qg_op_is_named(&op, names, 2));
}

static void slots_have_letters(void **state)
{
    static const qg_op_codes codes = { .slots = "xszSZxsz" };
    const qg_op conv = { .in_roles = "dwb" }, plain = { .in_roles = "" }, none = { 0 };
    (void)state;
    assert_int_equal(qg_op_in_role(&conv, 0), 'd');
    assert_int_equal(qg_op_in_role(&conv, 2), 'b');
    assert_int_equal(qg_op_in_role(&conv, 3), 'b'); /* the last one goes on */
    assert_int_equal(qg_op_in_role(&plain, 1), 'd');
    assert_int_equal(qg_op_out_role(&none, 0), 'd');
    assert_int_equal(qg_op_slot_of(&conv, 'b'), 2);
    assert_int_equal(qg_op_slot_of(&conv, 'd'), 0);
    assert_int_equal(qg_op_slot_of(&conv, 'g'), -1);
    assert_int_equal(qg_op_slot_of(&conv, '\0'), -1);
    assert_int_equal(qg_op_slot_of(&none, 'd'), 0);
    assert_int_equal(qg_op_code_slot(&codes, 4), 'Z');
    assert_int_equal(qg_op_code_slot(&codes, 7), 'z');
    assert_int_equal(qg_op_code_slot(&codes, 8), 'x'); /* the last three repeat */
    assert_int_equal(qg_op_code_slot(&codes, 9), 's');
    assert_int_equal(qg_op_code_slot(&codes, 13), 'z');
    for (unsigned bit = 0; bit < QG_NTRAIT; bit++)
        assert_int_equal(qg_trait_named(qg_trait_name(bit)), 1u << bit);
    assert_int_equal(qg_trait_named("no such"), 0);
}

static void families_are_added(void **state)
{
    static const qg_op more[] = { ROW("More", NULL, 3, 0), { 0 } };
    qg_ctx *ctx = *state;
    const qg_registry *r = qg_registry_with(&registry, more, ctx->arena);
    assert_int_equal(r->n_family, 3);
    assert_ptr_equal(qg_op_find(r, NULL, "More", 3), more);
    assert_ptr_equal(qg_op_find(r, NULL, "Map", 9), &first[2]);
    assert_ptr_equal(qg_op_find(r, NULL, "Newer", 12), &second[1]);
    assert_ptr_equal(r->upgrade, upgrades);
    assert_null(qg_op_find(&registry, NULL, "More", 3));
}

/* --- upgrades --- */

static qg_status rename_attr(qg_graph *g, qg_node *n, int64_t opset)
{
    qg_attr *a = QG_NEWN(g->arena, n->n_attr, qg_attr);
    memcpy(a, n->attr, n->n_attr * sizeof *a);
    assert_int_equal(opset, 10);
    for (size_t i = 0; i < n->n_attr; i++)
        if (strcmp(a[i].name, "old") == 0)
            a[i].name = "new";
    n->attr = a;
    return QG_OK;
}

/* A node of the new opset, which no step may see again. */
static qg_status add_node(qg_graph *g, qg_node *n, int64_t opset)
{
    qg_value *v;
    qg_node *made;
    QG_TRY(qg_graph_add_value(g, "made", &v));
    return qg_graph_add_node(g,
                             &(qg_node_spec){ .op = &second[0],
                                              .opset = opset,
                                              .in = n->in,
                                              .out = &v,
                                              .n_in = 1,
                                              .n_out = 1 },
                             &made);
}

static qg_graph *parsed(qg_ctx *ctx, const char *text)
{
    qg_text_source source = { .name = "g", .text = text, .size = strlen(text) };
    qg_graph *g = NULL;
    ctx->registry = &registry;
    assert_ok(ctx, qg_text_parse(ctx, &source, &g));
    return g;
}

static void nodes_move_row_by_row(void **state)
{
    qg_ctx *ctx = *state;
    qg_graph *g = parsed(ctx, "graph \"g\" {\n  ir 3\n  opset 7\n  opset other 7\n"
                              "  x = input float32[2]\n"
                              "  a = Map@1(x) old=1 consumed_inputs=[0]\n"
                              "  b = Map@6(x) consumed_inputs=[0]\n"
                              "  c = Gone@7(x)\n  d = other::Map(x)\n"
                              "  e = Mat@1(x)\n  f = Far@1(x)\n  h = Map@11(x)\n"
                              "  output a, b, c, d, e, f, h\n}\n");
    char *text;
    size_t size;
    assert_ok(ctx, qg_graph_upgrade(g, 10));
    assert_ok(ctx, qg_graph_normalize(g));
    assert_ok(ctx, qg_text_print(g, NULL, ctx->arena, &text, &size));
    assert_string_equal(text, "graph \"g\" {\n  ir 5\n  opset 10\n  opset other 7\n"
                              "  x = input float32[2]\n"
                              "  a = Map(x) new=1\n"
                              "  b = Map(x) consumed_inputs=[0]\n"
                              "  c = Newer(x)\n  d = other::Map(x)\n"
                              "  e = Mat(x)\n  f = Far(x)\n"
                              "  h = Map@11(x)\n"
                              "  made = Newer Newer_0(x)\n"
                              "  output a, b, c, d, e, f, h\n}\n");
    assert_int_equal(qg_graph_node(g, "a")->op->since, 9);
    assert_int_equal(qg_graph_node(g, "f")->op->since, 1);
    assert_int_equal(qg_graph_node(g, "d")->op->since, 7);
    qg_graph_free(g);
}

/* The versions of OP_SET_ID_VERSION_MAP; never lower than before. */
static void files_get_the_version_of_their_opset(void **state)
{
    static const struct {
        int64_t opset, had, ir;
    } row[] = {
        {8,   3,  3 },
        { 9,  3,  4 },
        { 10, 3,  5 },
        { 11, 3,  6 },
        { 12, 3,  7 },
        { 14, 3,  7 },
        { 15, 3,  8 },
        { 18, 3,  8 },
        { 19, 3,  9 },
        { 20, 3,  9 },
        { 21, 3,  10},
        { 22, 3,  10},
        { 23, 3,  11},
        { 24, 3,  12},
        { 25, 3,  13},
        { 9,  7,  7 },
        { 13, 7,  7 },
        { 15, 13, 13},
    };
    qg_ctx *ctx = *state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        qg_graph *g = parsed(ctx, "graph { opset 8; x = input f32[2]; y = Mat(x)\n"
                                  "output y }");
        g->ir_version = row[i].had;
        assert_ok(ctx, qg_graph_upgrade(g, row[i].opset));
        if (g->ir_version != row[i].ir || g->node.at[0]->opset != row[i].opset ||
            qg_graph_opset(g, "") != row[i].opset)
            fail_msg("row %zu: %d", i, (int)g->ir_version);
        assert_ok(ctx, qg_graph_upgrade(g, 1)); /* never down */
        assert_int_equal(qg_graph_opset(g, ""), row[i].opset);
        assert_int_equal(g->ir_version, row[i].ir);
        qg_graph_free(g);
    }
}

/* No step leads on, or only one to a row that is newer than the opset. */
static void no_way_is_an_error(void **state)
{
    static const struct {
        const char *node;
        int64_t opset;
        bool ok;
    } row[] = {
        {"Far@1",    19, true },
        { "Far@1",   20, true },
        { "Gone@7",  8,  true },
        { "Gone@7",  9,  true },
        { "Gone@7",  12, true },
        { "Gone@10", 11, true },
        { "Gone@10", 13, false}
    };
    qg_ctx *ctx = *state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char text[128];
        (void)snprintf(text, sizeof text,
                       "graph { opset 7; x = input f32[2]; y = %s(x); output y }",
                       row[i].node);
        qg_graph *g = parsed(ctx, text);
        if (row[i].ok)
            assert_ok(ctx, qg_graph_upgrade(g, row[i].opset));
        else
            assert_fails(ctx, qg_graph_upgrade(g, row[i].opset), QG_EUNSUPPORTED,
                         "export: node 'y' (Gone): opset 10 cannot be rewritten to "
                         "opset 13, expected an operator with the same meaning there");
        assert_int_equal(g->node.at[0]->opset, row[i].ok ? row[i].opset : 10);
        qg_graph_free(g);
    }
}

QG_TEST_MAIN(cmocka_unit_test(the_newest_row_counts),
             cmocka_unit_test(versions_are_told),
             cmocka_unit_test(many_versions_are_cut_at_a_row),
             cmocka_unit_test(rows_are_compared), cmocka_unit_test(slots_have_letters),
             WITH_CTX(families_are_added), WITH_CTX(nodes_move_row_by_row),
             WITH_CTX(files_get_the_version_of_their_opset),
             WITH_CTX(no_way_is_an_error))

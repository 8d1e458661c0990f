/* How a target computes nodes, by rows of a made-up file; conversions that remain; and
 * where a finding is in the files. */
#include "tests/support/lint_rows.h"

#include <sys/stat.h>

#include "tests/support/scratch.h"

static const char *const relu[] = { "Relu" }, *const add[] = { "Add" },
                         *const neg[] = { "Neg" };
static const qg_condition codes = { .predicate = QG_PREDICATE_INPUT_CODES },
                          fused = { .predicate = QG_PREDICATE_AFTER_FUSED },
                          last = { .predicate = QG_PREDICATE_NETWORK_OUTPUT,
                                   .is_not = true };

/* Sums on codes; clamps and chains of them part of the kernel before, but not at the
 * end; negations move codes. */
static qg_lint_kernel kernels[] = {
    {.origin = { .id = "move" },
     .node = { .op = neg, .n_op = 1 },
     .as = QG_FATE_MOVES                                  },
    { .origin = { .id = "sum" },
     .node = { .op = add, .n_op = 1 },
     .as = QG_FATE_INTEGER,
     .when = { &codes, 1 } },
    { .origin = { .id = "sum-2" },
     .node = { .op = add, .n_op = 1 },
     .as = QG_FATE_INTEGER,
     .when = { &fused, 1 } },
    { .origin = { .id = "clamp" },
     .node = { .op = relu, .n_op = 1 },
     .as = QG_FATE_FUSED,
     .when = { &last, 1 } },
    { .origin = { .id = "beside" },
     .node = { .op = relu, .n_op = 1 },
     .as = QG_FATE_OTHER                              },
};
static const qg_lint_target target = {
    .name = "t", .kernel = {kernels, 5, 5}
};

static qg_lint decided(fixture *f, const char *body, const char *records)
{
    const char *text = qg_arena_printf(f->arena, "graph { opset 17; %s }", body);
    const qg_text_source source = { .name = "g", .text = text, .size = strlen(text) };
    qg_graph *g = NULL;
    qg_quant *q;
    f->ctx->registry = &qg_ops_registry;
    assert_ok(f->ctx, qg_text_parse(f->ctx, &source, &g));
    assert_ok(f->ctx, qg_graph_normalize(g));
    assert_ok(f->ctx, qg_infer(g, NULL, 0));
    assert_ok(f->ctx, qg_quant_new(g, NULL, &q));
    add_records(f->ctx, q, records);
    qg_lint l = {
        .ctx = f->ctx, .arena = f->arena, .graph = g, .quant = q, .target = &target
    };
    assert_ok(f->ctx, qg_lint_place(&l));
    assert_ok(f->ctx, qg_lint_decide(&l));
    return l;
}

static void drop(const qg_lint *l) { qg_graph_free((qg_graph *)l->graph); }

static const qg_lint_node *node(const qg_lint *l, const char *name)
{
    return &l->node[qg_graph_node(l->graph, name)->id];
}

static void assert_fate(const qg_lint *l, const char *name, qg_fate fate,
                        const char *row, const char *why)
{
    const qg_lint_node *n = node(l, name);
    assert_int_equal(n->fate, fate);
    assert_string_equal(n->row ? n->row->origin.id : "-", row);
    assert_string_equal(n->why, why);
    assert_int_equal(n->failed != NULL, *why != 0);
}

#define BODY                                                                           \
    "x = input f32[4]; u = input f32[4]; a = Add(x, u); r = Relu(a); s = Relu(r)\n"    \
    "b = Add(s, u); n = Neg(b); m = Sigmoid(n); e = Relu(m); k = Shape(x)\noutput e, " \
    "k"

static void rows_decide_in_their_order(void **state)
{
    fixture *f = *state;
    qg_lint l = decided(f, BODY, "");
    assert_fate(&l, "r", QG_FATE_FUSED, "clamp", "");
    assert_fate(&l, "s", QG_FATE_FUSED, "clamp", "");
    assert_fate(&l, "e", QG_FATE_OTHER, "beside",
                ""); /* an output; fused does not fit */
    assert_fate(&l, "n", QG_FATE_MOVES, "move", "");
    assert_fate(&l, "b", QG_FATE_INTEGER, "sum-2", ""); /* the first row does not fit */
    assert_fate(&l, "a", QG_FATE_BLOCKED, "sum", "sum: 'input-codes' must hold");
    assert_fate(&l, "m", QG_FATE_NONE, "-", "");
    assert_fate(&l, "k", QG_FATE_NONE, "-", ""); /* shapes are not counted */
    static const struct {
        qg_fate fate;
        size_t count;
    } want[] = {
        {QG_FATE_FUSED,    2},
        { QG_FATE_OTHER,   1},
        { QG_FATE_MOVES,   1},
        { QG_FATE_INTEGER, 1},
        { QG_FATE_BLOCKED, 1},
        { QG_FATE_NONE,    1}
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_int_equal(l.count[want[i].fate], want[i].count);
    drop(&l);
    l = decided(f, BODY, "a.i0=u0.5/0 a.i1=u0.5/0");
    assert_fate(&l, "a", QG_FATE_INTEGER, "sum", "");
    drop(&l);
    kernels[1].when.at = &last; /* a condition that must not hold */
    l = decided(f, "x = input f32[4]; a = Add(x, x); output a", "");
    assert_fate(&l, "a", QG_FATE_BLOCKED, "sum", "sum: 'network-output' must not hold");
    kernels[1].when.at = &codes;
    drop(&l);
}

static const char sums[] =
    "x = input f32[4]; u = input f32[4]; a = Add(x, u); b = Add(a, a)\n"
    "c = Sigmoid(a); output b, c";
#define INPUTS "a.i0=u0.5/0 a.i1=u0.5/0 "
/* clang-format off */
static const struct {
    const char *body, *records;
    size_t to_codes, to_floats, between;
} row[] = {
    { sums, "", 0, 0, 0 },
    /* x, u and a, whose kernel stores floats */
    { sums, INPUTS "b.i0=u0.5/0 b.i1=u0.5/0", 3, 0, 0 },
    /* a is made in codes, which c reads as floats; b leaves the network */
    { sums, INPUTS "b.i0=u0.5/0 b.i1=u0.5/0 a.o0=u0.5/0 b.o0=u1/0", 2, 2, 0 },
    /* its second reader has another grid */
    { sums, INPUTS "b.i0=u0.5/0 b.i1=u0.25/0 a.o0=u0.5/0", 2, 1, 1 },
    /* a float node reads codes of x */
    { "x = input f32[4]; c = Sigmoid(x); output c", "c.i0=u0.5/0", 1, 1, 0 },
    /* constants are stored as they are to be */
    { "x = input f32[4]; k = const f32[4] fill(1.0); a = Add(x, k); output a", INPUTS,
      1, 0, 0 },
};
/* clang-format on */

/* Values at which codes become floats, floats codes, or codes others. */
static void conversions_are_counted_once_a_value(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        qg_lint l = decided(f, row[i].body, row[i].records);
        const qg_lint_conversions *c = &l.conversions;
        if (c->to_codes != row[i].to_codes || c->to_floats != row[i].to_floats ||
            c->between_grids != row[i].between)
            fail_msg("row %zu: %zu, %zu, %zu", i, c->to_codes, c->to_floats,
                     c->between_grids);
        drop(&l);
    }
}

/* --- places --- */

static void put(const char *folder, const char *name, const char *text)
{
    char path[2 * SCRATCH_PATH];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    (void)fputs(text, f);
    (void)fclose(f);
}

/* Two nodes and one record; the URI escapes what is no plain letter. */
static void findings_have_places(void **state)
{
    static const char whole[] = "{\"nodes\": [\n{},\n{}],\n\"tqcs\": [\n\n{}]}";
    fixture *f = *state;
    char folder[SCRATCH_PATH], want[2 * SCRATCH_PATH];
    qg_lint_places p;
    qg_lint l = decided(f, "x = input f32[4]; a = Relu(x); b = Relu(a); output b",
                        "a.i0=u0.5/0");
    assert_ok(f->ctx, qg_lint_find_places(&l, &p)); /* no path */
    assert_null(p.uri);
    l.path = "bytes";
    assert_ok(f->ctx, qg_lint_find_places(&l, &p)); /* the name of no file */
    assert_null(p.uri);
    l.path = scratch_path(folder, "a b%\xc3\xa9~_");
    assert_int_equal(mkdir(folder, 0755), 0);
    assert_fails(f->ctx, qg_lint_find_places(&l, &p), QG_EIO, "lint: ");
    put(folder, "quant.json", whole);
    assert_ok(f->ctx, qg_lint_find_places(&l, &p));
    (void)snprintf(want, sizeof want,
                   "file:///tmp/qg_%ld_a%%20b%%25%%C3%%A9~_/quant.json",
                   (long)getpid());
    assert_string_equal(p.uri, want);
    assert_int_equal(p.node_line[0], 2);
    assert_int_equal(p.node_line[1], 3);
    assert_int_equal(p.tqc_line[0], 6);
    put(folder, "quant.json", "{\"nodes\": [{}], \"tqcs\": [{}, {}]}");
    assert_ok(f->ctx, qg_lint_find_places(&l, &p)); /* of another network */
    assert_null(p.node_line);
    assert_null(p.tqc_line);
    l.path = "tests/unit/test_lint_fates.c"; /* a file has no lines of nodes */
    assert_ok(f->ctx, qg_lint_find_places(&l, &p));
    assert_string_equal(p.uri, "tests/unit/test_lint_fates.c");
    assert_null(p.node_line);
    assert_int_equal(scratch_remove(folder), 0);
    drop(&l);
}

#define T(test) cmocka_unit_test_setup_teardown(test, begin, end)

QG_TEST_MAIN(T(rows_decide_in_their_order), T(conversions_are_counted_once_a_value),
             T(findings_have_places))

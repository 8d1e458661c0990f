/* `qg diff` of two graphs or their records: each field that differs has a row, what is
 * equal has none. */
#include "tests/support/test.h"

#include "engine/api/qg_report.h"
#include "engine/ir/edit.h"
#include "engine/ir/text.h"
#include "engine/report/describe.h"
#include "engine/snapshot/model.h"
#include "ops/families.h"

typedef struct fixture {
    qg_ctx *ctx;
    qg_model m[2];
    qg_report *r;
} fixture;

static int open_fixture(void **state)
{
    static fixture f;
    f = (fixture){ .ctx = qg_ctx_new(qg_alloc_libc) };
    f.ctx->registry = &qg_ops_registry;
    *state = &f;
    return f.ctx == NULL;
}

static int close_fixture(void **state)
{
    fixture *f = *state;
    qg_ctx_free(f->ctx);
    return 0;
}

/* The body of graph k. */
static void parse(fixture *f, int k, const char *body)
{
    const char *text = qg_arena_printf(
        f->ctx->arena, "graph \"g\" { opset 17; x = input f32[1,4]\n%s }", body);
    qg_text_source source = { .name = "g", .text = text, .size = strlen(text) };
    f->m[k] = (qg_model){ .ctx = f->ctx, .path = k ? "second" : "first" };
    assert_ok(f->ctx, qg_text_parse(f->ctx, &source, &f->m[k].graph));
    assert_ok(f->ctx, qg_graph_normalize(f->m[k].graph));
}

static void drop(fixture *f)
{
    qg_report_free(f->r);
    qg_graph_free(f->m[0].graph);
    qg_graph_free(f->m[1].graph);
}

static void compare(fixture *f)
{
    assert_ok(f->ctx, qg_model_diff(&f->m[0], &f->m[1], &f->r));
}

/* Rows of a table as "a|b|c;", numbers with four digits, "-" where there is none. */
static void assert_rows(const fixture *f, const char *table, const char *want)
{
    const qg_table *t = qg_report_table_named(f->r, table);
    char have[2048] = "";
    for (size_t i = 0; i < qg_table_rows(t); i++)
        for (size_t k = 0; k < qg_table_columns(t); k++) {
            const qg_cell *c = qg_table_cell(t, i, qg_table_column(t, k));
            char one[256];
            if (c->kind == QG_CELL_TEXT)
                (void)snprintf(one, sizeof one, "%s", c->text);
            else if (c->kind == QG_CELL_FLOATS)
                (void)snprintf(one, sizeof one, "%g", (double)c->floats[0]);
            else if (c->kind == QG_CELL_NONE)
                (void)snprintf(one, sizeof one, "-");
            else
                (void)snprintf(one, sizeof one, "%.4g", c->number);
            strcat(strcat(have, one), k + 1 < qg_table_columns(t) ? "|" : ";");
        }
    assert_string_equal(have, want);
}

static void assert_number(const fixture *f, const char *name, double want)
{
    const qg_cell *c = qg_report_fact(f->r, name);
    assert_non_null(c);
    if (c->number != want)
        fail_msg("%s: %g, expected %g", name, c->number, want);
}

/* identical, same_structure, same_constants; whether there is a note with this text. */
static void assert_same(const fixture *f, bool all, bool structure, bool constants,
                        const char *note)
{
    const qg_cell *c = qg_report_fact(f->r, "note");
    assert_number(f, "identical", all);
    assert_number(f, "same_structure", structure);
    assert_number(f, "same_constants", constants);
    if ((note != NULL) != (c != NULL) || (note && !strstr(c->text, note)))
        fail_msg("note: %s", c ? c->text : "none");
}

/* --- graphs --- */

/* clang-format off */
static const struct {
    const char *first, *second, *rows;
    int only_first, only_second, changed;
} node_row[] = {
    { "y = Relu n(x); output y", "y = Relu n(x); output y", "", 0, 0, 0 },
    { "y = Relu n(x); output y", "y = Neg n(x); output y", "n|operator|Relu|Neg;", 0,
      0, 1 },
    { "y = Relu n(x); output y", "z = Relu n(x); output z", "n|outputs|y|z;", 0, 0, 1 },
    { "y = Add n(x, x); output y", "u = input f32[4]; y = Add n(x, u); output y",
      "n|inputs|x, x|x, u;", 0, 0, 1 },
    { "y = Clip n(x, _, k); k = const f32[] [1.0]; output y",
      "y = Clip n(x, k); k = const f32[] [1.0]; output y", "n|inputs|x, -, k|x, k;",
      0, 0, 1 },
    { "y = Relu n(x); output y", "y = Relu m(x); output y",
      "n|node|Relu|-;m|node|-|Relu;", 1, 1, 0 },
    { "y = Relu n(x) on fp32; output y", "y = Relu n(x); output y",
      "n|platform|fp32|none;", 0, 0, 1 },
    { "y = Flatten n(x) axis=1; output y", "y = Flatten n(x) axis=0; output y",
      "n|axis|1|0;", 0, 0, 1 },
    { "y = Flatten n(x) axis=1; output y", "y = Flatten n(x); output y",
      "n|axis|1|-;", 0, 0, 1 },
    { "y = Flatten n(x); output y", "y = Flatten n(x) axis=1; output y",
      "n|axis|-|1;", 0, 0, 1 },
    { "y = Transpose n(x) perm=[0, 1]; output y",
      "y = Transpose n(x) perm=[1, 0]; output y", "n|perm|0, 1|1, 0;", 0, 0, 1 },
    { "y = LeakyRelu n(x) alpha=0.5; output y",
      "y = LeakyRelu n(x) alpha=0.25; output y", "n|alpha|0.5|0.25;", 0, 0, 1 },
    { "y = Gelu@20 n(x) approximate=\"none\"; output y",
      "y = Gelu@20 n(x) approximate=\"tanh\"; output y", "n|approximate|none|tanh;",
      0, 0, 1 },
    { "y = Flatten n(x) axis=1; output y", "y = Flatten n(x) axis=1; output y", "",
      0, 0, 0 },
};
/* clang-format on */

static void nodes_differ_by_field(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < sizeof node_row / sizeof *node_row; i++) {
        bool same = !*node_row[i].rows;
        parse(f, 0, node_row[i].first);
        parse(f, 1, node_row[i].second);
        compare(f);
        assert_rows(f, "nodes", node_row[i].rows);
        assert_number(f, "nodes_only_in_first", node_row[i].only_first);
        assert_number(f, "nodes_only_in_second", node_row[i].only_second);
        assert_number(f, "nodes_changed", node_row[i].changed);
        assert_same(f, same, same, true, NULL);
        assert_string_equal(qg_report_fact(f->r, "first")->text, "first");
        assert_string_equal(qg_report_fact(f->r, "second")->text, "second");
        drop(f);
    }
}

/* The four tables come last, in their order. */
static void facts_come_first(void **state)
{
    static const char *const last[] = { "nodes", "constants", "endpoints", "scales" };
    fixture *f = *state;
    const qg_table *table;
    const char *name;
    size_t n = 0;
    parse(f, 0, "y = Relu n(x); output y");
    parse(f, 1, "y = Relu n(x); output y");
    compare(f);
    while (qg_report_entry(f->r, n, NULL, NULL, NULL))
        n++;
    for (size_t i = 0; i < n; i++) {
        assert_true(qg_report_entry(f->r, i, &name, NULL, &table));
        assert_int_equal(table != NULL, i + 4 >= n);
        if (i + 4 >= n)
            assert_string_equal(name, last[i + 4 - n]);
        if (i == 0)
            assert_string_equal(name, "first");
    }
    drop(f);
}

/* clang-format off */
static const struct {
    const char *first, *second, *rows;
    bool structure, constants;
    const char *note;
} constant_row[] = {
    { "f32[2] [3.0, 4.0]", "f32[2] [3.0, 4.5]", "k|2|1|0.1;", true, false, NULL },
    { "f32[2] [3.0, 4.0]", "f32[2] [6.0, 8.0]", "k|2|2|1;", true, false, NULL },
    { "i64[2] [1, 2]", "i64[2] [2, 2]", "k|2|1|-;", true, false, NULL },
    { "i8[2] [1, 2]", "i8[2] [1, 3]", "k|2|1|-;", true, false, NULL },
    { "f32[2] [3.0, 4.0]", "f32[2] [3.0, 4.0]", "", true, true, NULL },
    { "f32[2] [3.0, 4.0]", "f32[1,2] [3.0, 5.0]", "", false, true,
      "nodes are equal; types, bodies or opsets differ" },
    { "i64[2] [1, 2]", "i32[2] [1, 3]", "", false, true, "types" },
    { "i4[2] [1, 2]", "i4[2] [1, 3]", "", true, false,
      "constants of bodies, or of less than a byte, differ" },
};
/* clang-format on */

/* Elements are compared by their bytes; the change is relative to the first. */
static void constants_differ_by_element(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < sizeof constant_row / sizeof *constant_row; i++) {
        const char *body[2] = { constant_row[i].first, constant_row[i].second };
        bool same = constant_row[i].structure && constant_row[i].constants;
        for (int k = 0; k < 2; k++)
            parse(f, k,
                  qg_arena_printf(f->ctx->arena,
                                  "k = const %s; y = Identity n(k); output y",
                                  body[k]));
        compare(f);
        assert_rows(f, "nodes", "");
        assert_rows(f, "constants", constant_row[i].rows);
        assert_number(f, "constants_changed", *constant_row[i].rows != 0);
        assert_same(f, same, constant_row[i].structure, constant_row[i].constants,
                    constant_row[i].note);
        drop(f);
    }
}

/* --- records --- */

static const qg_scheme int8 = { .policy = QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC,
                                .bits = 8,
                                .qmin = -128,
                                .qmax = 127,
                                .axis = -1 };

static qg_tqc *record(fixture *f, int k, uint32_t slot, const qg_scheme *s)
{
    qg_quant *q = f->m[k].quant;
    qg_tqc *t;
    assert_ok(f->ctx,
              qg_quant_add(q, qg_graph_node(q->graph, "n"), false, slot, s, &t));
    return t;
}

static void begin_records(fixture *f)
{
    for (int k = 0; k < 2; k++) {
        parse(f, k, "u = input f32[4]; y = Add n(x, u); output y");
        assert_ok(f->ctx, qg_quant_new(f->m[k].graph, NULL, &f->m[k].quant));
    }
}

/* clang-format off */
static const struct {
    qg_scheme s;
    const char *rows;
} scheme_row[] = {
    { { .bits = 8, .qmin = -128, .qmax = 127, .axis = -1 }, "" },
    { { .bits = 7, .qmin = -128, .qmax = 127, .axis = -1 }, "n.in0|bits|8|7;" },
    { { .bits = 8, .qmin = -127, .qmax = 127, .axis = -1 },
      "n.in0|range|[-128, 127]|[-127, 127];" },
    { { .bits = 8, .qmin = -128, .qmax = 126, .axis = -1 },
      "n.in0|range|[-128, 127]|[-128, 126];" },
    { { .bits = 8, .qmin = -128, .qmax = 127, .axis = 0 }, "n.in0|axis|-|0;" },
    { { .bits = 8, .qmin = -128, .qmax = 127, .axis = -1, .block = 32 },
      "n.in0|block|-|32;" },
    { { .bits = 8, .qmin = -128, .qmax = 127, .axis = -1, .exponent_bits = 4 },
      "n.in0|exponent_bits|-|4;" },
};
/* clang-format on */

static void schemes_differ_by_field(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < sizeof scheme_row / sizeof *scheme_row; i++) {
        qg_scheme second = scheme_row[i].s;
        second.policy = int8.policy;
        begin_records(f);
        record(f, 0, 0, &int8);
        record(f, 1, 0, &int8)->scheme = second;
        compare(f);
        assert_rows(f, "endpoints", scheme_row[i].rows);
        assert_rows(f, "scales", "");
        assert_number(f, "endpoints_in_both", 1);
        assert_number(f, "endpoints_changed", *scheme_row[i].rows != 0);
        assert_number(f, "dominators_changed", 0);
        assert_same(f, !*scheme_row[i].rows, true, true, NULL);
        drop(f);
    }
}

static void endpoints_may_be_in_one_alone(void **state)
{
    fixture *f = *state;
    begin_records(f);
    record(f, 0, 0, &int8);
    record(f, 1, 1, &int8);
    compare(f);
    assert_rows(f, "endpoints", "n.in0|endpoint|INITIAL|-;n.in1|endpoint|-|INITIAL;");
    assert_number(f, "endpoints_in_both", 0);
    assert_number(f, "endpoints_changed", 2);
    assert_same(f, false, true, true, NULL);
    drop(f);
}

static void calibrated(fixture *f, int k, float scale, int32_t offset)
{
    qg_quant *q = f->m[k].quant;
    qg_tqc *t = record(f, k, 0, &int8);
    assert_ok(f->ctx, qg_tqc_set_param(q, t, 1, &scale, &offset));
    assert_ok(f->ctx, qg_tqc_set_state(q, t, QG_TQC_ACTIVATED));
}

static void scales_differ_relatively(void **state)
{
    static const struct {
        float scale;
        int32_t offset;
        const char *rows;
        double largest;
    } row[] = {
        {0.5f,    0,  "",                        0   },
        { 0.5f,   3,  "n.in0|0|0.5|0.5|1;",      0   },
        { 0.25f,  0,  "n.in0|0.5|0.5|0.25|0;",   0.5 },
        { 0.625f, -1, "n.in0|0.25|0.5|0.625|1;", 0.25}
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        begin_records(f);
        calibrated(f, 0, 0.5f, 0);
        calibrated(f, 1, row[i].scale, row[i].offset);
        compare(f);
        assert_rows(f, "endpoints", "");
        assert_rows(f, "scales", row[i].rows);
        assert_number(f, "scales_changed", *row[i].rows != 0);
        assert_number(f, "largest_scale_difference", row[i].largest);
        assert_same(f, !*row[i].rows, true, true, NULL);
        drop(f);
    }
}

#define WITH_FIXTURE(test)                                                             \
    cmocka_unit_test_setup_teardown(test, open_fixture, close_fixture)

QG_TEST_MAIN(WITH_FIXTURE(nodes_differ_by_field), WITH_FIXTURE(facts_come_first),
             WITH_FIXTURE(constants_differ_by_element),
             WITH_FIXTURE(schemes_differ_by_field),
             WITH_FIXTURE(endpoints_may_be_in_one_alone),
             WITH_FIXTURE(scales_differ_relatively))

/* The page and the JSON of qg_report. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/report/report.h"
#include "engine/core/json.h"

struct fixture {
    qg_ctx *ctx;
    qg_report *r;
};

static struct fixture make(void)
{
    struct fixture f = { qg_ctx_new(qg_alloc_libc), NULL };
    assert_ok(f.ctx, qg_report_new(f.ctx, "test", &f.r));
    return f;
}

static void drop(struct fixture *f)
{
    qg_report_free(f->r);
    qg_ctx_free(f->ctx);
}

static void add(struct fixture *f, const char *name, qg_cell cell)
{
    assert_ok(f->ctx, qg_report_add(f->r, name, cell));
}

static qg_table *table(struct fixture *f, const char *name, const char *columns)
{
    qg_table *t = NULL;
    assert_ok(f->ctx, qg_report_table(f->r, name, columns, &t));
    return t;
}

static void cell(struct fixture *f, qg_table *t, qg_cell c)
{
    assert_ok(f->ctx, qg_table_add(f->r, t, c));
}

static void facts_are_aligned_and_shortened(void **state)
{
    (void)state;
    struct fixture f = make();
    add(&f, "model", qg_cell_text("a.onnx"));
    add(&f, "float_top1", qg_cell_percent(0.98331));
    add(&f, "drop", qg_cell_percent(0.0000123));
    add(&f, "none_lost", qg_cell_percent(0));
    add(&f, "noise", qg_cell_number(0.000123456));
    add(&f, "samples", qg_cell_count(599));
    add(&f, "identical", qg_cell_bool(false));
    add(&f, "stats", qg_cell_text(NULL));
    assert_string_equal(qg_report_text(f.r), "model       a.onnx\n"
                                             "float top1  98.33 %\n"
                                             "drop        0.00123 %\n"
                                             "none lost   0.00 %\n"
                                             "noise       0.0001235\n"
                                             "samples     599\n"
                                             "identical   no\n"
                                             "stats       -\n");
    assert_string_equal(qg_report_json(f.r), "{\n"
                                             "  \"report\": \"test\",\n"
                                             "  \"model\": \"a.onnx\",\n"
                                             "  \"float_top1\": 0.98331,\n"
                                             "  \"drop\": 0.0000123,\n"
                                             "  \"none_lost\": 0.0,\n"
                                             "  \"noise\": 0.000123456,\n"
                                             "  \"samples\": 599,\n"
                                             "  \"identical\": false,\n"
                                             "  \"stats\": null\n"
                                             "}\n");
    drop(&f);
}

static void tables_have_aligned_columns_and_no_spaces_at_the_end(void **state)
{
    (void)state;
    struct fixture f = make();
    add(&f, "nodes", qg_cell_count(2));
    qg_table *t = table(&f, "worst_first", "node_name noise note");
    cell(&f, t, qg_cell_text("conv_\xc3\xa9"));
    cell(&f, t, qg_cell_number(0.5));
    cell(&f, t, qg_cell_text("x"));
    cell(&f, t, qg_cell_text("a"));
    cell(&f, t, qg_cell_number(12.25));
    cell(&f, t, qg_cell_text("longer"));
    (void)table(&f, "empty", "a b");
    assert_string_equal(qg_report_text(f.r), "nodes  2\n"
                                             "\n"
                                             "worst first\n"
                                             "  node name  noise  note\n"
                                             "  conv_\xc3\xa9       0.5  x\n"
                                             "  a          12.25  longer\n"
                                             "\n"
                                             "empty: none\n");
    assert_string_equal(
        qg_report_json(f.r),
        "{\n"
        "  \"report\": \"test\",\n"
        "  \"nodes\": 2,\n"
        "  \"worst_first\": [\n"
        "    {\"node_name\": \"conv_\xc3\xa9\", \"noise\": 0.5, \"note\": \"x\"},\n"
        "    {\"node_name\": \"a\", \"noise\": 12.25, \"note\": \"longer\"}\n"
        "  ],\n"
        "  \"empty\": []\n"
        "}\n");
    drop(&f);
}

static void numbers_that_json_lacks_are_null(void **state)
{
    (void)state;
    struct fixture f = make();
    const float list[] = { 1.0f, INFINITY, 0.1f, -2.0f };
    add(&f, "a", qg_cell_number((double)NAN));
    add(&f, "b", qg_cell_percent((double)-INFINITY));
    add(&f, "c", qg_cell_floats(list, 4));
    add(&f, "d", qg_cell_floats(list, 3));
    add(&f, "e", qg_cell_floats(NULL, 0));
    add(&f, "f", qg_cell_ints((const int32_t[]){ -128, 16777217, 3, 0 }, 4));
    assert_string_equal(qg_report_text(f.r), "a  nan\n"
                                             "b  -inf %\n"
                                             "c  4 values from -2.0 to inf\n"
                                             "d  1.0, inf, 0.1\n"
                                             "e  none\n"
                                             "f  4 values from -128 to 16777217\n");
    assert_string_equal(qg_report_json(f.r), "{\n"
                                             "  \"report\": \"test\",\n"
                                             "  \"a\": null,\n"
                                             "  \"b\": null,\n"
                                             "  \"c\": [1.0, null, 0.1, -2.0],\n"
                                             "  \"d\": [1.0, null, 0.1],\n"
                                             "  \"e\": [],\n"
                                             "  \"f\": [-128, 16777217, 3, 0]\n"
                                             "}\n");
    drop(&f);
}

static void long_facts_are_wrapped_at_the_page_width(void **state)
{
    (void)state;
    struct fixture f = make();
    char text[400] = "";
    while (strlen(text) < 360)
        strcat(text, "wordy ");
    add(&f, "why", qg_cell_text(text));
    const char *page = qg_report_text(f.r);
    size_t lines = 0, words = 0;
    for (const char *at = page; *at; at += strcspn(at, "\n") + 1, lines++) {
        size_t n = strcspn(at, "\n");
        assert_cmp_int(n, <=, QG_PAGE_WIDTH);
        assert_cmp_int(n, >, 0);
        assert_int_not_equal(at[n - 1], ' ');
        assert_memory_equal(at, lines ? "     wordy" : "why  wordy", 10);
        for (size_t i = 0; i < n; i++)
            words += at[i] == 'w' && at[i + 1] == 'o';
    }
    assert_int_equal(words, 60);
    assert_int_equal(lines, 5); /* 13 words of 5 letters in 83 columns */
    drop(&f);
}

static void records_are_paragraphs(void **state)
{
    (void)state;
    struct fixture f = make();
    qg_table *t = table(&f, "rules", "id why file_line");
    t->records = true;
    cell(&f, t, qg_cell_text("defaults"));
    cell(&f, t, qg_cell_text(""));
    cell(&f, t, qg_cell_text("x.yaml:3"));
    assert_string_equal(qg_report_text(f.r), "rules\n"
                                             "  defaults\n"
                                             "    why\n"
                                             "    file line  x.yaml:3\n");
    drop(&f);
}

static void hostile_texts_cannot_steer_the_terminal_or_break_json(void **state)
{
    (void)state;
    struct fixture f = make();
    add(&f, "name", qg_cell_text("a\x1b[2J\"\n\xff\xc0\xaf"));
    assert_ok(f.ctx, qg_report_addf(f.r, "made", "%s", "\xed\xa0\x80\tz"));
    add(&f, "page", qg_cell_page("one\r\ntwo"));
    assert_string_equal(qg_report_text(f.r), "name  a?[2J\"????\n"
                                             "made  ????z\n"
                                             "one?\ntwo\n");
    const qg_json *v = NULL;
    const char *json = qg_report_json(f.r);
    qg_json_source from = { "doc", json, strlen(json) };
    assert_ok(f.ctx, qg_json_parse(f.ctx, f.ctx->arena, &from, &v));
    assert_string_equal(qg_json_get(v, "page")->text, "one?\ntwo");
    drop(&f);
}

static void formatted_texts_of_any_length_are_kept(void **state)
{
    (void)state;
    struct fixture f = make();
    char text[5000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_ok(f.ctx, qg_report_addf(f.r, "long", "<%s>", text));
    assert_int_equal(strlen(f.r->fact.at[0].value.text), sizeof text + 1);
    drop(&f);
}

static void numbers_are_found_by_name(void **state)
{
    (void)state;
    struct fixture f = make();
    double x = -1;
    add(&f, "text", qg_cell_text("1"));
    add(&f, "share", qg_cell_percent(0.25));
    (void)table(&f, "rows", "a");
    assert_true(qg_report_number(f.r, "share", &x));
    assert_cmp_f64(x, ==, 0.25);
    assert_false(qg_report_number(f.r, "text", &x));
    assert_false(qg_report_number(f.r, "rows", &x));
    assert_false(qg_report_number(f.r, "absent", &x));
    assert_cmp_f64(x, ==, 0.25);
    drop(&f);
}

QG_TEST_MAIN(cmocka_unit_test(facts_are_aligned_and_shortened),
             cmocka_unit_test(tables_have_aligned_columns_and_no_spaces_at_the_end),
             cmocka_unit_test(numbers_that_json_lacks_are_null),
             cmocka_unit_test(long_facts_are_wrapped_at_the_page_width),
             cmocka_unit_test(records_are_paragraphs),
             cmocka_unit_test(hostile_texts_cannot_steer_the_terminal_or_break_json),
             cmocka_unit_test(formatted_texts_of_any_length_are_kept),
             cmocka_unit_test(numbers_are_found_by_name))

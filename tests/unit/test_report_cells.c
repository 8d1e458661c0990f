/* Reports cell by cell: what a program reads is what the page and the JSON show. */
#include "tests/support/models.h"

#include "engine/core/json.h"
#include "engine/report/report.h"

static qg_report *made(qg_ctx *ctx)
{
    qg_report *r;
    qg_table *t;
    const float scale[] = { 0.5F, 0.25F };
    assert_ok(ctx, qg_report_new(ctx, "test", &r));
    assert_ok(ctx, qg_report_add(r, "count", qg_cell_count(3)));
    assert_ok(ctx, qg_report_table(r, "rows", "name share", &t));
    assert_ok(ctx, qg_table_cells(r, t, qg_cell_text("a"), qg_cell_percent(0.5)));
    assert_ok(ctx, qg_table_cells(r, t, qg_cell_text("b"), (qg_cell){ 0 }));
    assert_ok(ctx, qg_report_table(r, "nothing", "name", &t));
    assert_ok(ctx, qg_report_add(r, "scales", qg_cell_floats(scale, 2)));
    return r;
}

static void entries_come_in_order(void **state)
{
    qg_report *r = made(*state);
    static const char *const names[] = { "count", "rows", "nothing", "scales" };
    const char *name;
    const qg_cell *value;
    const qg_table *table;
    size_t i = 0;
    for (; qg_report_entry(r, i, &name, &value, &table); i++) {
        assert_string_equal(name, names[i]);
        assert_int_equal(value == NULL, i == 1 || i == 2);
        assert_int_equal(table == NULL, i == 0 || i == 3);
    }
    assert_int_equal(i, 4);
    assert_true(qg_report_entry(r, 0, NULL, NULL, NULL));
    qg_report_free(r);
}

static void facts_are_found_by_name(void **state)
{
    qg_report *r = made(*state);
    const qg_cell *c = qg_report_fact(r, "count");
    assert_int_equal(c->kind, QG_CELL_COUNT);
    assert_cmp_f64(c->number, ==, 3);
    c = qg_report_fact(r, "scales");
    assert_int_equal(c->kind, QG_CELL_FLOATS);
    assert_int_equal(c->n, 2);
    assert_cmp_f64(c->floats[1], ==, 0.25);
    assert_null(qg_report_fact(r, "rows"));
    assert_null(qg_report_fact(r, "none"));
    assert_null(qg_report_table_named(r, "count"));
    assert_null(qg_report_table_named(r, "none"));
    qg_report_free(r);
}

static void cells_are_found_by_row_and_column(void **state)
{
    qg_report *r = made(*state);
    const qg_table *t = qg_report_table_named(r, "rows");
    assert_int_equal(qg_table_rows(t), 2);
    assert_int_equal(qg_table_columns(t), 2);
    assert_string_equal(qg_table_column(t, 1), "share");
    assert_null(qg_table_column(t, 2));
    assert_string_equal(qg_table_cell(t, 0, "name")->text, "a");
    assert_cmp_f64(qg_table_cell(t, 0, "share")->number, ==, 0.5);
    assert_string_equal(qg_table_cell(t, 1, "name")->text, "b");
    assert_int_equal(qg_table_cell(t, 1, "share")->kind, QG_CELL_NONE);
    assert_null(qg_table_cell(t, 2, "name"));
    assert_null(qg_table_cell(t, 0, "none"));
    t = qg_report_table_named(r, "nothing");
    assert_int_equal(qg_table_rows(t), 0);
    assert_null(qg_table_cell(t, 0, "name"));
    qg_report_free(r);
}

/* --- against the JSON of real reports --- */

static void assert_cell(const qg_json *v, const qg_cell *c)
{
    assert_non_null(v);
    assert_non_null(c);
    switch (v->type) {
    case QG_JSON_NUMBER:
        assert_cmp_f64(v->number, ==, c->number);
        return;
    case QG_JSON_TEXT:
        assert_string_equal(v->text, c->text);
        return;
    case QG_JSON_BOOL:
        assert_int_equal(v->truth, c->number != 0);
        return;
    case QG_JSON_ARRAY:
        assert_int_equal(v->count, c->n);
        return;
    default:
        assert_int_equal(v->type, QG_JSON_NULL);
    }
}

static void assert_table(const qg_json *rows, const qg_table *t)
{
    assert_int_equal(rows->count, qg_table_rows(t));
    for (size_t i = 0; i < rows->count; i++)
        for (size_t k = 0; k < qg_table_columns(t); k++) {
            const char *column = qg_table_column(t, k);
            assert_cell(qg_json_get(&rows->item[i], column),
                        qg_table_cell(t, i, column));
        }
}

static void assert_json(qg_ctx *ctx, qg_report *r)
{
    const char *name, *text = qg_report_json(r);
    const qg_cell *value;
    const qg_table *table;
    const qg_json *root;
    qg_json_source from = { "report", text, strlen(text) };
    size_t i = 0;
    assert_ok(ctx, qg_json_parse(ctx, ctx->arena, &from, &root));
    for (; qg_report_entry(r, i, &name, &value, &table); i++)
        if (table)
            assert_table(qg_json_get(root, name), table);
        else
            assert_cell(qg_json_get(root, name), value);
    assert_int_equal(i + 1, root->count); /* and the title */
}

static void cells_are_those_of_the_json(void **state)
{
    qg_ctx *ctx = *state;
    qg_report *r;
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = "trt-int8";
    o.work.data = "random:2";
    qg_model *m = open_model(ctx, "configs/models/digits.onnx");
    assert_ok(ctx, qg_model_quantize(m, &o, &r));
    assert_json(ctx, r);
    qg_report_free(r);
    assert_ok(ctx, qg_model_explain(m, "conv0", &r));
    assert_json(ctx, r);
    qg_report_free(r);
    assert_ok(ctx, qg_list(ctx, "observers", &r));
    assert_json(ctx, r);
    assert_cmp_int(qg_table_rows(qg_report_table_named(r, "observers")), >, 10);
    assert_non_null(
        strstr(qg_report_json(r), "\"percentile 0.9999, min-scale 1e-08\""));
    const qg_table *none = qg_report_table_named(r, "observer");
    assert_null(none);
    assert_cmp_int(qg_table_rows(none), ==, 0);
    assert_cmp_int(qg_table_columns(none), ==, 0);
    assert_null(qg_table_column(none, 0));
    assert_null(qg_table_cell(none, 0, "observer"));
    qg_report_free(r);
    qg_model_close(m);
}

QG_TEST_MAIN(WITH_LIBRARY(entries_come_in_order), WITH_LIBRARY(facts_are_found_by_name),
             WITH_LIBRARY(cells_are_found_by_row_and_column),
             WITH_LIBRARY(cells_are_those_of_the_json))

/* The page of a lint target, from a made-up file: every cell of kernels and rules. */
#include "tests/support/host.h"
#include "tests/support/test.h"

#include "engine/core/file.h"
#include "engine/report/report.h"

static const char target[] = "name: little\n"
                             "title: a made-up target\n"
                             "kernels:\n"
                             "  - id: clamp\n"
                             "    match: {op: [Relu, Clip]}\n"
                             "    as: fused\n"
                             "    when: [{after: [Conv, Gemm]}, {not: read-once}]\n"
                             "    why: because\n"
                             "    source: somewhere\n"
                             "  - id: any\n"
                             "    match: {trait: [activation, join]}\n"
                             "    why: of traits\n"
                             "    source: elsewhere\n"
                             "rules:\n"
                             "  - id: steps\n"
                             "    match: {slot: [in0, weight]}\n"
                             "    at: endpoint\n"
                             "    when: [rounds, {bits-above: 8}]\n"
                             "    level: error\n"
                             "    why: of the width\n"
                             "    source: there\n"
                             "    remedy: fewer bits\n"
                             "    fix: {set: {bits: 8}}\n"
                             "  - id: nodes\n"
                             "    match: {op: Add}\n"
                             "    when: [quantized]\n"
                             "    why: of nodes\n"
                             "    source: here\n"
                             "    remedy: none\n"
                             "  - id: refused\n"
                             "    refused-by: tflite\n"
                             "    why: of the file\n"
                             "    source: format\n"
                             "    remedy: another\n";

/* Columns by name, cells by row; "" for an empty one. */
/* clang-format off */
static const struct {
    const char *table, *column, *cell[3];
} page[] = {
    { "kernels", "id", { "clamp", "any" } },
    { "kernels", "of", { "Relu, Clip", "activation, join" } },
    { "kernels", "as", { "fused", "integer" } },
    { "kernels", "carries", { "no", "no" } },
    { "kernels", "when", { "after Conv or Gemm, not read-once", "" } },
    { "kernels", "why", { "because", "of traits" } },
    { "kernels", "source", { "somewhere", "elsewhere" } },
    { "rules", "id", { "steps", "nodes", "refused" } },
    { "rules", "level", { "error", "warning", "warning" } },
    { "rules", "at_each", { "endpoint", "node", "network" } },
    { "rules", "of", { "in0, weight", "Add", "" } },
    { "rules", "when",
      { "rounds, bits-above 8", "quantized", "refused-by tflite" } },
    { "rules", "remedy", { "fewer bits", "none", "another" } },
    { "rules", "why", { "of the width", "of nodes", "of the file" } },
    { "rules", "source", { "there", "here", "format" } },
};
/* clang-format on */

static const qg_table *table_of(const qg_report *r, const char *name)
{
    const qg_cell *value;
    const qg_table *table;
    const char *found;
    for (size_t i = 0; qg_report_entry(r, i, &found, &value, &table); i++)
        if (table && strcmp(found, name) == 0)
            return table;
    fail_msg("no table %s", name);
    return NULL;
}

static void every_row_is_shown(void **state)
{
    host *h = *state;
    qg_report *r;
    h->ctx->config_dir = h->dir;
    assert_ok(h->ctx, qg_directory_make(h->ctx, host_path(h, "lint")));
    assert_ok(h->ctx, qg_file_write(h->ctx, host_path(h, "lint/little.yaml"), target,
                                    sizeof target - 1));
    assert_ok(h->ctx, qg_target_page(h->ctx, "little", &r));
    for (size_t i = 0; i < sizeof page / sizeof *page; i++) {
        const qg_table *t = table_of(r, page[i].table);
        size_t rows = page[i].cell[2] ? 3 : 2;
        assert_int_equal(qg_table_rows(t), rows);
        assert_true(t->records); /* too wide for lines */
        for (size_t k = 0; k < rows; k++) {
            const qg_cell *c = qg_table_cell(t, k, page[i].column);
            const char *text = c && c->text ? c->text : "";
            if (strcmp(text, page[i].cell[k]) != 0)
                fail_msg("%s of row %zu of %s: '%s', expected '%s'", page[i].column, k,
                         page[i].table, text, page[i].cell[k]);
        }
    }
    assert_non_null(strstr(qg_report_text(r), "a made-up target"));
    qg_report_free(r);
    assert_int_not_equal(qg_target_page(h->ctx, "no-such-target", &r), QG_OK);
}

QG_TEST_MAIN(WITH_HOST(every_row_is_shown))

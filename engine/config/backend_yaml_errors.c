/* backend_yaml_errors.c -- selectors by measured error: which nodes a report of
 * `qg sensitivity --json` says are worse than a limit. */
#include <assert.h>

#include "engine/config/backend_yaml_parts.h"
#include "engine/core/json.h"

enum { REPORT_LIMIT = 256 << 20 }; /* bytes: a million rows and more */

/* Names of the rows above the limit; a row whose error is null counts as above it: the
 * report has it for NaN and infinity. */
static qg_status pick(const qg_backend_reader *r, const qg_json *rows, double limit,
                      qg_node_match *m)
{
    const char **name = QG_NEWN(r->arena, rows->count, const char *);
    if (!name)
        return qg_nomem(r->ctx);
    for (size_t i = 0; i < rows->count; i++) {
        const qg_json *row = &rows->item[i];
        if (row->type != QG_JSON_OBJECT)
            return qg_json_fail(r->ctx, QG_ECONFIG, row, "expected an object");
        const qg_json *error = qg_json_get(row, "error");
        double x = 0;
        bool unknown = error && error->type == QG_JSON_NULL;
        if (!unknown)
            QG_TRY(qg_json_f64(r->ctx, row, "error", &x));
        if (unknown || x > limit)
            QG_TRY(qg_json_text(r->ctx, row, "name", &name[m->n_node++]));
    }
    m->node = name;
    return QG_OK;
}

qg_status qg_read_errors(const qg_backend_reader *r, const qg_yaml *y, const char *what,
                         qg_node_match *m)
{
    const qg_yaml *errors = qg_yaml_get(y, "errors"), *above = qg_yaml_get(y, "above");
    const qg_json *report, *rows;
    const char *path, *by;
    double limit;
    assert(errors && above);
    if (m->n_node)
        return qg_yaml_fail(r->ctx, errors, what,
                            "errors: it chooses nodes, expected no `node` beside it");
    QG_TRY(qg_yaml_text(r->ctx, errors, what, &path));
    QG_TRY(qg_yaml_number(r->ctx, above, what, 0, 1e30, &limit));
    QG_TRY(qg_json_read(r->ctx, r->arena, path, REPORT_LIMIT, &report));
    if (report->type != QG_JSON_OBJECT)
        return qg_json_fail(r->ctx, QG_ECONFIG, report, "expected a report");
    QG_TRY(qg_json_text(r->ctx, report, "by", &by));
    if (strcmp(by, "node") != 0)
        return qg_yaml_fail(r->ctx, errors, what,
                            "errors: %s is by %s, expected a report of qg sensitivity "
                            "--by node",
                            path, by);
    QG_TRY(qg_json_member(r->ctx, report, "errors", QG_JSON_ARRAY, &rows));
    QG_TRY(pick(r, rows, limit, m));
    if (m->n_node == 0)
        return qg_yaml_fail(r->ctx, above, what,
                            "above: no node in %s has an error above %g, expected at "
                            "least one",
                            path, limit);
    return QG_OK;
}

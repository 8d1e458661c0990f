/* diff.c -- qg_trace_diff: two traces, array by array. */
#include <math.h>
#include <string.h>

#include "engine/device/trace.h"
#include "engine/report/report.h"

typedef struct difference {
    uint64_t differ, of;
    double most;
} difference;

static const qg_trace_array *same_name(const qg_trace *t, const qg_trace_array *a)
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->array[i].value, a->value) == 0)
            return &t->array[i];
    return NULL;
}

/* One sample of both, in x[0] and x[1]. */
static qg_status compare_sample(qg_ctx *ctx, const qg_trace_data *data, size_t sample,
                                double *const *x, difference *out)
{
    size_t n = data[0].array->count;
    for (int k = 0; k < 2; k++)
        QG_TRY(qg_trace_sample(ctx, &data[k], sample, x[k]));
    for (size_t i = 0; i < n; i++) {
        double apart = x[0][i] == x[1][i] ? 0 : fabs(x[0][i] - x[1][i]);
        out->differ += apart > 0;
        out->most = fmax(out->most, apart);
    }
    out->of += n;
    return QG_OK;
}

/* Numbers as stored, whatever their type (on_one_grid compares the grids); no
 * difference is too small.  Samples that only one trace has are not compared;
 * report_array notes them. */
static qg_status compare(qg_ctx *ctx, const qg_trace *const *t,
                         const qg_trace_array *const *a, qg_arena *scratch,
                         difference *out)
{
    qg_trace_data data[2] = { { .npy.fd = -1 }, { .npy.fd = -1 } };
    size_t n = a[0]->samples < a[1]->samples ? a[0]->samples : a[1]->samples;
    double *x[2];
    qg_status s = QG_OK;
    for (int k = 0; k < 2 && s == QG_OK; k++) {
        x[k] = QG_NEWN(scratch, a[0]->count, double);
        s = x[k] ? qg_trace_load(ctx, t[k], a[k], &data[k]) : qg_nomem(ctx);
    }
    for (size_t i = 0; i < n && s == QG_OK; i++)
        s = compare_sample(ctx, data, i, x, out);
    for (int k = 0; k < 2; k++)
        qg_trace_unload(&data[k]);
    return s;
}

/* The same numbers in another order of axes are other values, */
static bool ordered_alike(const qg_trace_array *a, const qg_trace_array *b)
{
    const size_t axes = (size_t)a->n_axis * sizeof *a->axis;
    return a->channels_last == b->channels_last && a->n_axis == b->n_axis &&
           memcmp(a->axis, b->axis, axes) == 0;
}

/* as they are on another grid. */
static bool on_one_grid(const qg_trace_array *a, const qg_trace_array *b)
{
    return a->grid == b->grid &&
           (!a->grid || ((float)a->scale == (float)b->scale && a->zero == b->zero));
}

/* Equal dims of a sample, but for those of 1; of as many elements. */
static bool sized_alike(const qg_trace_array *a, const qg_trace_array *b)
{
    int32_t k = 1;
    for (int32_t i = 1; i < a->type.rank; i++) {
        if (a->type.dim[i] == 1)
            continue;
        while (k < b->type.rank && b->type.dim[k] == 1)
            k++;
        if (k == b->type.rank || b->type.dim[k++] != a->type.dim[i])
            return false;
    }
    return true;
}

/* Why elements cannot be compared; NULL: they can. */
static const char *obstacle(const qg_trace_array *a, const qg_trace_array *b)
{
    return !b                                                   ? "only in the first"
           : b->count != a->count                               ? "other dims"
           : !ordered_alike(a, b)                               ? "other layout"
           : !sized_alike(a, b)                                 ? "other dims"
           : qg_trace_holds_codes(a) != qg_trace_holds_codes(b) ? "codes and floats"
                                                                : NULL;
}

/* A row for an array of the first that differs or has no equal in the second. */
static qg_status report_array(qg_ctx *ctx, const qg_trace *const *t,
                              const qg_trace_array *a, qg_report *r, qg_table *rows,
                              bool *same)
{
    difference d = { 0, 0, 0 };
    const qg_trace_array *both[] = { a, same_name(t[1], a) };
    const char *why = obstacle(a, both[1]);
    if (!why) {
        qg_arena *scratch = qg_arena_new(ctx->alloc);
        qg_status s = scratch ? compare(ctx, t, both, scratch, &d) : qg_nomem(ctx);
        qg_arena_free(scratch);
        QG_TRY(s);
    }
    bool equal =
        !why && both[1]->samples == a->samples && !d.differ && on_one_grid(a, both[1]);
    *same = *same && equal;
    if (equal)
        return QG_OK;
    const char *what = why                              ? why
                       : both[1]->samples != a->samples ? "other number of samples"
                       : !d.differ                      ? "grid"
                       : on_one_grid(a, both[1])        ? "elements"
                                                        : "elements, grid";
    return qg_table_cells(r, rows, qg_cell_text(a->value), qg_cell_text(what),
                          qg_cell_count((size_t)d.differ), qg_cell_count((size_t)d.of),
                          qg_cell_number(d.most));
}

static qg_status fill(qg_ctx *ctx, const qg_trace *const *t, qg_report *r)
{
    bool same = true;
    qg_table *rows;
    QG_TRY(qg_report_add(r, "arrays", qg_cell_count(t[0]->n)));
    QG_TRY(qg_report_table(r, "differences", "value what differ of most", &rows));
    for (size_t i = 0; i < t[0]->n; i++)
        QG_TRY(report_array(ctx, t, &t[0]->array[i], r, rows, &same));
    for (size_t i = 0; i < t[1]->n; i++) {
        if (same_name(t[0], &t[1]->array[i]))
            continue;
        same = false;
        QG_TRY(qg_table_cells(r, rows, qg_cell_text(t[1]->array[i].value),
                              qg_cell_text("only in the second"), qg_cell_count(0),
                              qg_cell_count(0), qg_cell_number(0)));
    }
    return qg_report_add(r, "identical", qg_cell_bool(same));
}

qg_status qg_trace_diff(qg_ctx *ctx, const char *first, const char *second,
                        qg_report **report)
{
    qg_trace *t[2] = { NULL, NULL };
    qg_report *r = NULL;
    qg_status s = qg_trace_open(ctx, first, &t[0]);
    if (s == QG_OK)
        s = qg_trace_open(ctx, second, &t[1]);
    if (s == QG_OK)
        s = qg_report_new(ctx, "diff", &r);
    if (s == QG_OK)
        s = fill(ctx, (const qg_trace *const *)t, r);
    qg_trace_close(t[0]);
    qg_trace_close(t[1]);
    return qg_report_end(s, r, report);
}

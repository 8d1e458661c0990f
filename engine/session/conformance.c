#include "engine/session/conformance.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "engine/report/report.h"
#include "engine/core/file.h"
#include "engine/exec/run.h"
#include "engine/onnx/data.h"
#include "engine/onnx/import.h"
#include "ops/util_cast.h"

enum { DEPTH = 4, MAX_SLOTS = 256 };

static const double RTOL = 1e-3, ATOL = 1e-7, BF16_RTOL = 0x1p-6;

typedef struct test {
    const qg_conformance_options *o;
    qg_ctx *ctx; /* its own: memory goes with the test */
    const char *folder;
    qg_graph *graph;
} test;

/* The largest error of one output. */
typedef struct worst {
    double excess; /* |got - expected| - tolerance; > 0 fails */
    double got, expected;
    int64_t at;
} worst;

static double excess(qg_dtype d, double got, double want)
{
    double rtol = d == QG_BF16 ? BF16_RTOL : RTOL;
    if (got == want || (isnan(got) && isnan(want)))
        return 0;
    double e = fabs(got - want) - (ATOL + rtol * fabs(want));
    return e == e ? e : INFINITY; /* one of them is NaN, or both are infinite */
}

/* Element i, exact for comparison: whole numbers beyond 2^53 differ as integers. */
static double compare_at(const qg_tensor *got, const qg_tensor *want, int64_t i,
                         worst *w)
{
    double x = 0, y = 0, e;
    int64_t v = 0, u = 0;
    qg_cast_side from = { got->dtype, got->data, i },
                 to = { want->dtype, want->data, i };
    qg_cast(from, (qg_cast_side){ QG_F64, &x, 0 }, 1, true);
    qg_cast(to, (qg_cast_side){ QG_F64, &y, 0 }, 1, true);
    if (qg_dtype_kind_of(got->dtype) == QG_KIND_FLOAT) {
        e = excess(got->dtype, x, y);
    } else {
        qg_cast(from, (qg_cast_side){ QG_I64, &v, 0 }, 1, true);
        qg_cast(to, (qg_cast_side){ QG_I64, &u, 0 }, 1, true);
        e = v == u ? 0 : fabs(x - y) + 1;
    }
    if (e > w->excess)
        *w = (worst){ e, x, y, i };
    return e;
}

/* "[0,3,1]" of a plain position. */
static const char *place(const qg_tensor *t, int64_t at, char text[QG_SHAPE_TEXT])
{
    int64_t index[QG_MAX_RANK];
    size_t n = 1;
    for (int32_t i = t->rank - 1; i >= 0; i--) {
        index[i] = at % t->dim[i];
        at /= t->dim[i];
    }
    text[0] = '[';
    for (int32_t i = 0; i < t->rank; i++)
        n += (size_t)snprintf(text + n, QG_SHAPE_TEXT - n, "%s%lld", i ? "," : "",
                              (long long)index[i]);
    (void)snprintf(text + n, QG_SHAPE_TEXT - n, "]");
    return text;
}

static qg_status compare(test *t, const qg_value *v, const qg_tensor *got,
                         const qg_tensor *want)
{
    char a[QG_SHAPE_TEXT], b[QG_SHAPE_TEXT];
    worst w = { 0, 0, 0, 0 };
    int64_t wrong = 0, n = qg_tensor_count(want);
    if (got->dtype != want->dtype || !qg_same_dims(got, want))
        return qg_fail(t->ctx, QG_EDATA, "output '%s' is %s, expected %s", v->name,
                       qg_tensor_text(got, a), qg_tensor_text(want, b));
    for (int64_t i = 0; i < n; i++)
        wrong += compare_at(got, want, i, &w) > 0;
    if (wrong == 0)
        return QG_OK;
    return qg_fail(t->ctx, QG_EDATA,
                   "output '%s': %lld of %lld elements differ, largest error %g at %s: "
                   "%.9g, expected %.9g",
                   v->name, (long long)wrong, (long long)n, fabs(w.got - w.expected),
                   place(want, w.at, a), w.got, w.expected);
}

/* data/input_<i>.pb, as it is. */
static qg_status load(test *t, const char *data, const char *kind, size_t i,
                      const qg_tensor **out)
{
    char name[48];
    (void)snprintf(name, sizeof name, "%s_%zu.pb", kind, i);
    char *path = qg_path_join(t->ctx->arena, data, name);
    return path ? qg_onnx_read_tensor(t->ctx, t->ctx->arena, path, out)
                : qg_nomem(t->ctx);
}

static qg_status execute(test *t, const qg_tensor *const *in, const char *data,
                         qg_plan *plan, qg_run **run)
{
    const qg_tensor *want;
    QG_TRY(qg_run_new(t->ctx, plan, run));
    QG_TRY(qg_run_execute(*run, in, NULL, 0, 0));
    for (size_t i = 0; i < t->graph->output.n; i++) {
        QG_TRY(load(t, data, "output", i, &want));
        QG_TRY(compare(t, t->graph->output.at[i], qg_run_output(*run, i), want));
    }
    return QG_OK;
}

static qg_status run_set(test *t, const char *data)
{
    qg_tensor shape[MAX_SLOTS];
    const qg_tensor *in[MAX_SLOTS];
    qg_plan *plan = NULL;
    qg_run *run = NULL;
    if (t->graph->input.n > MAX_SLOTS)
        return qg_fail(t->ctx, QG_EUNSUPPORTED, "%zu inputs, expected at most %d",
                       t->graph->input.n, (int)MAX_SLOTS);
    for (size_t i = 0; i < t->graph->input.n; i++) {
        QG_TRY(load(t, data, "input", i, &in[i]));
        shape[i] = *in[i];
        shape[i].data = NULL;
    }
    qg_plan_options o = { .reference = t->o->reference, .input = shape };
    qg_status s = qg_plan_new(t->ctx, t->graph, &o, &plan);
    if (s == QG_OK)
        s = execute(t, in, data, plan, &run);
    qg_run_free(run);
    qg_plan_free(plan);
    return s;
}

/* All data sets; a test without any proves nothing. */
static qg_status run_sets(test *t)
{
    const char **name;
    size_t n, sets = 0;
    char *model = qg_path_join(t->ctx->arena, t->folder, "model.onnx");
    if (!model)
        return qg_nomem(t->ctx);
    QG_TRY(qg_onnx_import(t->ctx, model, NULL, &t->graph));
    QG_TRY(qg_directory_list(t->ctx, t->ctx->arena, t->folder, &name, &n));
    for (size_t i = 0; i < n; i++) {
        if (strncmp(name[i], "test_data_set_", 14) != 0)
            continue;
        char *data = qg_path_join(t->ctx->arena, t->folder, name[i]);
        QG_TRY(data ? run_set(t, data) : qg_nomem(t->ctx));
        sets++;
    }
    return sets
               ? QG_OK
               : qg_fail(t->ctx, QG_EDATA, "no test_data_set_*, expected at least one");
}

static qg_status judge(const test *t, qg_status s, qg_conformance_count *count)
{
    if (s == QG_OK) {
        count->passed++;
        return QG_OK;
    }
    count->unsupported += s == QG_EUNSUPPORTED;
    count->failed += s != QG_EUNSUPPORTED;
    return t->o->tell(t->o->ud, t->folder, s, qg_ctx_message(t->ctx));
}

static qg_status run_test(qg_ctx *ctx, const char *folder,
                          const qg_conformance_options *o, qg_conformance_count *count)
{
    test t = { .o = o, .ctx = qg_ctx_new(ctx->alloc), .folder = folder };
    if (!t.ctx)
        return qg_nomem(ctx);
    t.ctx->registry = o->registry;
    qg_status found = run_sets(&t);
    qg_status s = found == QG_ENOMEM ? qg_nomem(ctx) /* no verdict about the model */
                                     : judge(&t, found, count);
    qg_graph_free(t.graph);
    qg_ctx_free(t.ctx);
    return s;
}

static qg_status search(qg_ctx *ctx, const char *folder,
                        const qg_conformance_options *o, int depth,
                        qg_conformance_count *count)
{
    const char **name;
    size_t n;
    char *model = qg_path_join(ctx->arena, folder, "model.onnx");
    if (!model)
        return qg_nomem(ctx);
    if (access(model, R_OK) == 0)
        return run_test(ctx, folder, o, count);
    QG_TRY(qg_directory_list(ctx, ctx->arena, folder, &name, &n));
    for (size_t i = 0; i < n && depth > 0; i++) {
        char *inner = qg_path_join(ctx->arena, folder, name[i]);
        if (!inner)
            return qg_nomem(ctx);
        if (qg_is_directory(inner))
            QG_TRY(search(ctx, inner, o, depth - 1, count));
    }
    return QG_OK;
}

qg_status qg_conformance_run(qg_ctx *ctx, const char *folder,
                             const qg_conformance_options *o,
                             qg_conformance_count *count)
{
    qg_conformance_count c = { 0, 0, 0 };
    QG_TRY(search(ctx, folder, o, DEPTH, &c));
    if (c.passed + c.failed + c.unsupported == 0)
        return qg_fail(ctx, QG_EDATA, "conformance: %s: no model.onnx, expected tests",
                       folder);
    count->passed += c.passed;
    count->failed += c.failed;
    count->unsupported += c.unsupported;
    return QG_OK;
}

/* --- as a report --- */

typedef struct listing {
    qg_report *r;
    qg_table *t;
} listing;

static qg_status put_verdict(void *ud, const char *folder, qg_status s,
                             const char *message)
{
    listing *l = ud;
    bool unsupported = s == QG_EUNSUPPORTED;
    return qg_table_cells(l->r, l->t, qg_cell_text(folder),
                          qg_cell_text(unsupported ? "unsupported" : "failed"),
                          qg_cell_text(message));
}

static qg_status report_all(qg_ctx *ctx, const char *const *folder, size_t n,
                            qg_report *r)
{
    listing l = { .r = r };
    qg_conformance_count c = { 0, 0, 0 };
    qg_conformance_options o = { .registry = ctx->registry,
                                 .tell = put_verdict,
                                 .ud = &l };
    QG_TRY(qg_report_table(r, "not_passed", "test verdict message", &l.t));
    l.t->records = true;
    for (size_t i = 0; i < n; i++)
        QG_TRY(qg_conformance_run(ctx, folder[i], &o, &c));
    QG_TRY(qg_report_add_quiet(r, "passed", qg_cell_count(c.passed)));
    QG_TRY(qg_report_add_quiet(r, "failed", qg_cell_count(c.failed)));
    QG_TRY(qg_report_add_quiet(r, "unsupported", qg_cell_count(c.unsupported)));
    char line[96];
    (void)snprintf(line, sizeof line, "%zu passed, %zu failed, %zu unsupported",
                   c.passed, c.failed, c.unsupported);
    return qg_report_add(r, "summary", qg_cell_page(line));
}

qg_status qg_conformance(qg_ctx *ctx, const char *const *folder, size_t n,
                         qg_report **report)
{
    qg_report *r;
    QG_TRY(qg_report_new(ctx, "conformance", &r));
    return qg_report_end(report_all(ctx, folder, n, r), r, report);
}

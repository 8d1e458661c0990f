/* trace.c -- qg_model_trace: the values of a run as a trace (docs/trace.md): a folder
 * of .npy files with trace.json, or an archive of these. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "engine/core/folder.h"
#include "engine/core/json.h"
#include "engine/core/vec.h"
#include "engine/session/sink.h"

QG_OPTIONS_INIT(qg_trace_options)

enum { JSON_LIMIT = 64 << 20 }; /* of the trace.json of a folder that is there */

/* The files of a folder become one archive, and end with the folder's work copy.  The
 * archive replaces `path` when it is complete. */
static qg_status pack(const qg_sink *k, const char *path)
{
    qg_npz_writer w;
    const char *json = qg_path_join(k->arena, k->dumps_in, QG_TRACE_JSON);
    if (!json)
        return qg_nomem(k->ctx);
    QG_TRY(qg_npz_create(k->ctx, path, false, &w));
    qg_status s = qg_npz_add_copy(&w, QG_TRACE_JSON, json);
    for (size_t i = 0; i < k->n_column && s == QG_OK; i++) {
        const char *file = qg_sink_file(k, i, k->arena);
        s = file ? qg_npz_add_copy(&w, qg_path_base(file), file) : qg_nomem(k->ctx);
    }
    if (s == QG_OK)
        s = qg_npz_commit(&w);
    qg_npz_abandon(&w);
    return s;
}

/* A trace has one array per value: those whose shape differs from sample to sample, as
 * behind a NonMaxSuppression, move to left[0 .. *n). */
static qg_status leave_out(qg_sink *k, const char ***left, size_t *n)
{
    size_t kept = 0, all = k->n_column;
    const char **name = *left = QG_NEWN(k->arena, all, const char *);
    if (!name)
        return qg_nomem(k->ctx);
    *n = 0;
    for (size_t i = 0; i < all; i++) {
        if (k->column[i].apart) {
            name[(*n)++] = k->name[i];
            qg_column_abandon(&k->column[i]);
            continue;
        }
        k->column[kept] = k->column[i];
        k->value[kept] = k->value[i];
        k->name[kept++] = k->name[i];
    }
    k->n_column = kept;
    return kept ? QG_OK
                : qg_fail(k->ctx, QG_EUNSUPPORTED,
                          "trace: value '%s' and all others: their shapes differ from "
                          "sample to sample, expected samples of one shape",
                          name[0]);
}

/* The report of `qg trace`; *out is freed by the caller. */
static qg_status describe(const qg_sink *k, const char *path, const char *const *left,
                          size_t n_left, qg_report **out)
{
    qg_report *r;
    qg_table *t;
    QG_TRY(qg_report_new(k->ctx, "trace", &r));
    qg_status s =
        qg_report_add(r, "mode", qg_cell_text(qg_run_mode_name(k->exe->mode)));
    if (s == QG_OK)
        s = qg_report_program(r, k->exe);
    if (s == QG_OK)
        s = qg_report_add(r, "samples", qg_cell_count(k->n));
    if (s == QG_OK)
        s = qg_report_add(r, "written", qg_cell_text(path));
    if (s == QG_OK)
        s = qg_report_table(r, "arrays", "value type file", &t);
    for (size_t i = 0; i < k->n_column && s == QG_OK; i++) {
        char shape[QG_SHAPE_TEXT];
        const char *file = qg_sink_file(k, i, r->arena);
        s = qg_table_cells(
            r, t, qg_cell_text(k->name[i]),
            qg_cell_text(qg_tensor_text(&k->column[i].npy.sample, shape)),
            qg_cell_made(file ? qg_path_base(file) : NULL));
    }
    if (s == QG_OK && n_left)
        s = qg_report_table(r, "left_out", "value why", &t);
    for (size_t i = 0; i < n_left && s == QG_OK; i++)
        s = qg_table_cells(r, t, qg_cell_text(left[i]),
                           qg_cell_text("its shape differs from sample to sample"));
    return qg_report_end(s, r, out);
}

static bool is_archive(const char *path) { return qg_path_ends_in(path, ".npz"); }

/* What one call opens, and closes whatever happens. */
typedef struct tracing {
    const qg_trace_options *o;
    const char *path;
    qg_executable exe;
    qg_plan *plan;
    qg_api_feed feed;
    qg_sink sink;
    qg_arena *arena; /* of the folder */
    qg_folder folder;
    bool begun; /* the folder */
} tracing;

/* A file needs its folder; a trace that is a folder makes its own, as snapshots do. */
static qg_status check_parent(tracing *t, qg_ctx *ctx)
{
    size_t n = (size_t)(qg_path_base(t->path) - t->path);
    const char *parent = qg_arena_strndup(t->arena, t->path, n);
    if (!parent)
        return qg_nomem(ctx);
    return n == 0 || qg_is_directory(parent)
               ? QG_OK
               : qg_fail(ctx, QG_EIO, "write: %.400s: %s", t->path, strerror(ENOENT));
}

/* The arrays of a trace would lie among the files of a snapshot. */
static qg_status expect_no_snapshot(tracing *t, qg_ctx *ctx)
{
    const char *json = qg_path_join(t->arena, t->path, "quant.json");
    if (!json)
        return qg_nomem(ctx);
    return access(json, F_OK) != 0
               ? QG_OK
               : qg_fail(ctx, QG_EIO,
                         "trace: write %.300s: is a snapshot, expected another folder",
                         t->path);
}

/* The folder is a work folder beside an archive, or the trace itself. */
static qg_status begin_folder(tracing *t)
{
    qg_ctx *ctx = t->exe.model->ctx;
    const char *target = t->path;
    t->arena = qg_arena_new(ctx->alloc);
    if (!t->arena)
        return qg_nomem(ctx);
    QG_TRY(is_archive(t->path) ? check_parent(t, ctx) : expect_no_snapshot(t, ctx));
    if (is_archive(t->path))
        target = qg_arena_printf(t->arena, "%s.parts", t->path);
    if (!target)
        return qg_nomem(ctx);
    QG_TRY(qg_folder_begin(ctx, t->arena, target, &t->folder));
    t->begun = true;
    return QG_OK;
}

/* --- a folder that is there --- */

typedef QG_VEC(const char *) names;

/* Whether the earlier trace of the folder, root, lists the file. */
static bool lists(const qg_json *root, const char *file)
{
    const qg_json *all =
        root && root->type == QG_JSON_OBJECT ? qg_json_get(root, "arrays") : NULL;
    for (size_t i = 0; all && all->type == QG_JSON_ARRAY && i < all->count; i++) {
        const qg_json *name = all->item[i].type == QG_JSON_OBJECT
                                  ? qg_json_get(&all->item[i], "file")
                                  : NULL;
        if (name && name->type == QG_JSON_TEXT && strcmp(name->text, file) == 0)
            return true;
    }
    return false;
}

/* The description of the trace in the folder; NULL: there is none that can be read. */
static qg_status read_earlier(tracing *t, qg_ctx *ctx, const qg_json **out)
{
    const char *path = qg_path_join(t->arena, t->folder.target, QG_TRACE_JSON);
    *out = NULL;
    if (!path)
        return qg_nomem(ctx);
    if (access(path, F_OK) != 0)
        return QG_OK;
    qg_status s = qg_json_read(ctx, t->arena, path, JSON_LIMIT, out);
    return qg_is_nomem(s) ? s : QG_OK;
}

/* Files of the new trace and of the one that it replaces: others stay, and a file of
 * the same name that is of no trace is not replaced. */
static qg_status own_files(tracing *t, qg_ctx *ctx, names *own)
{
    const char **name;
    size_t n;
    QG_TRY(qg_directory_list(ctx, t->arena, t->folder.work, &name, &n));
    for (size_t i = 0; i < n; i++)
        QG_TRY(qg_vec_push(ctx, t->arena, own, name[i]));
    if (!t->folder.known)
        return QG_OK;
    const qg_json *root;
    QG_TRY(read_earlier(t, ctx, &root));
    QG_TRY(qg_directory_list(ctx, t->arena, t->folder.target, &name, &n));
    for (size_t i = 0; i < n; i++) {
        bool old =
            root && (strcmp(name[i], QG_TRACE_JSON) == 0 || lists(root, name[i]));
        bool clash = false;
        for (size_t k = 0; k < own->n && !old; k++)
            clash |= strcmp(own->at[k], name[i]) == 0;
        if (clash)
            return qg_fail(ctx, QG_EIO,
                           "trace: write %.300s: holds '%.100s', a file of no trace, "
                           "expected another folder",
                           t->path, name[i]);
        if (old)
            QG_TRY(qg_vec_push(ctx, t->arena, own, name[i]));
    }
    return QG_OK;
}

static qg_status commit(tracing *t, qg_ctx *ctx)
{
    names own = { 0 };
    QG_TRY(own_files(t, ctx, &own));
    return qg_folder_commit(&t->folder, own.at, own.n);
}

/* Order matters: the folder must exist before the sink makes its columns in it, and
 * shapes are checked before any file appears.  An archive leaves the folder to be
 * abandoned; otherwise the folder becomes the trace. */
static qg_status write_trace(tracing *t, qg_report **report)
{
    qg_sink *k = &t->sink;
    const char *glob = t->o->select ? t->o->select : "*", **left;
    size_t n_left;
    QG_TRY(qg_executable_feed(&t->exe, &t->o->work, &t->feed));
    QG_TRY(qg_sink_make(k, &t->exe, t->feed.feed.n));
    QG_TRY(begin_folder(t));
    QG_TRY(qg_sink_dumps(k, glob, t->folder.work));
    QG_TRY(qg_sink_plan(k, &t->o->work, &t->feed.feed, &t->plan));
    QG_TRY(qg_sink_run(k, t->plan, &t->feed.feed, &t->o->work));
    QG_TRY(leave_out(k, &left, &n_left));
    QG_TRY(qg_sink_commit(k));
    if (is_archive(t->path))
        QG_TRY(pack(k, t->path));
    if (report)
        QG_TRY(describe(k, t->path, left, n_left, report));
    if (!is_archive(t->path))
        QG_TRY(commit(t, t->exe.model->ctx));
    return qg_sink_warn(k, t->plan, &t->feed.feed, &t->o->work);
}

/* All parts begin as zeros, and closing accepts one that was not opened.  The mode is
 * integer unless one is given: a device computes on codes. */
qg_status qg_model_trace(qg_model *m, const qg_trace_options *given, const char *path,
                         qg_report **report)
{
    qg_trace_options o;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_trace_options, given, &o));
    QG_TRY(qg_workload_check(m->ctx, &o.work));
    if (qg_path_ends_in(path, ".npy"))
        return qg_fail(m->ctx, QG_ECONFIG,
                       "trace: write %.300s: one array, expected a name that ends in "
                       ".npz, or a folder",
                       path);
    const char *integer = qg_run_mode_name(QG_RUN_INTEGER);
    qg_mode_request mode = { .mode = o.mode ? o.mode : integer, .profile = o.profile };
    tracing t = { .o = &o, .path = path };
    QG_TRY(qg_executable_make(m, &mode, &t.exe));
    qg_report *made = NULL;
    qg_status s = write_trace(&t, report ? &made : NULL);
    qg_sink_close(&t.sink);
    if (t.begun)
        qg_folder_abandon(&t.folder);
    qg_arena_free(t.arena);
    qg_feed_close(&t.feed);
    qg_plan_free(t.plan);
    qg_executable_free(&t.exe);
    return qg_report_end(s, made, report);
}

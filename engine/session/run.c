/* run.c -- qg_model_run: outputs of every sample, stacked, in order of samples. */
#include "engine/core/hash.h"
#include "engine/data/column.h"
#include "engine/session/session.h"

#include <pthread.h>

#include "engine/core/clock.h"
#include "engine/core/file.h"
#include "engine/core/hash.h"
#include "engine/quant/backend.h"

QG_OPTIONS_INIT(qg_run_options)

/* Outputs of a sample that finished before its turn. */
typedef struct waiting {
    qg_arena *arena;
    qg_tensor *value; /* [columns] */
} waiting;

typedef struct sink {
    qg_ctx *ctx;
    qg_arena *arena;
    pthread_mutex_t lock;
    qg_column *column;
    const char **name;         /* [columns] of the values */
    size_t n_column, n_output; /* outputs first, then dumped values */
    waiting *slot;             /* [samples] */
    size_t n, next;            /* samples, and the one whose turn it is */
    const qg_executable *exe;
    qg_names *taken;     /* paths of columns */
    uint32_t *dumped;    /* [values that are executed] column index plus one, 0: not
                          * dumped */
    size_t strange;      /* the first sample with an output that is not finite; or n */
    const char *made[2]; /* folders that were not there before; NULL: none */
} sink;

/* Bytes of a name before the hash that stands for its rest: names of files have at most
 * 255 bytes. */
enum { LONGEST_NAME = 200, HASH_DIGITS = 12 };

/* Every character outside A-Za-z0-9._- becomes '_'; the end of a long name becomes a
 * hash of all of it. */
static qg_status file_name(sink *k, const char *folder, const char *name,
                           const char **out)
{
    char hash[QG_HASH_TEXT];
    size_t n = strlen(name);
    char *safe = qg_arena_strndup(k->arena, name, n < LONGEST_NAME ? n : LONGEST_NAME);
    for (char *p = safe; p && *p; p++)
        if (!((*p >= 'A' && *p <= 'Z') || (*p >= 'a' && *p <= 'z') ||
              (*p >= '0' && *p <= '9') || *p == '.' || *p == '_' || *p == '-'))
            *p = '_';
    if (safe && n > LONGEST_NAME) {
        QG_TRY(qg_hash_bytes(k->ctx, name, n, hash));
        safe = qg_arena_printf(k->arena, "%s-%.*s", safe, HASH_DIGITS, hash);
    }
    *out = safe ? qg_path_join(k->arena, folder, safe) : NULL;
    return *out ? QG_OK : qg_nomem(k->ctx);
}

/* --- writing --- */

static qg_status put_sample(sink *k, waiting *w)
{
    qg_status s = QG_OK;
    for (size_t i = 0; i < k->n_column && s == QG_OK; i++)
        if (w->value[i].data)
            s = qg_column_put(k->ctx, k->arena, &k->column[i], &w->value[i]);
    qg_arena_free(w->arena);
    *w = (waiting){ 0 };
    return s;
}

/* Writes the samples that are next in order; later ones wait. */
static qg_status flush(sink *k)
{
    qg_status s = QG_OK;
    for (; s == QG_OK && k->next < k->n && k->slot[k->next].arena; k->next++)
        s = put_sample(k, &k->slot[k->next]);
    return s;
}

static qg_status keep(qg_ctx *ctx, waiting *w, size_t i, const qg_tensor *t)
{
    w->value[i] = *t;
    w->value[i].data = NULL;
    qg_tensor_set_plain(&w->value[i]);
    QG_TRY(qg_tensor_alloc(ctx, w->arena, &w->value[i]));
    qg_tensor_copy(t, &w->value[i]);
    return QG_OK;
}

static qg_status begin_waiting(qg_ctx *ctx, const sink *k, waiting *w)
{
    if (w->arena)
        return QG_OK;
    w->arena = qg_arena_new(ctx->alloc);
    w->value = w->arena ? QG_NEWN(w->arena, k->n_column, qg_tensor) : NULL;
    return w->value ? QG_OK : qg_nomem(ctx);
}

/* --- callbacks of the drive --- */

typedef struct worker {
    const sink *k;
    waiting w;
} worker;

static qg_status make_worker(void *ud, qg_ctx *ctx, void **state)
{
    worker *w = QG_NEW(ctx->arena, worker);
    if (!w)
        return qg_nomem(ctx);
    w->k = ud;
    *state = w;
    return QG_OK;
}

static void end_worker(void *ud, void *state)
{
    (void)ud;
    qg_arena_free(((worker *)state)->w.arena);
}

static qg_status see(void *state, qg_ctx *ctx, size_t sample, const qg_hook_point *at,
                     qg_tensor *value)
{
    worker *w = state;
    (void)sample;
    const qg_value *v = at->endpoint.is_output ? qg_endpoint_value(at->endpoint) : NULL;
    if (!v || !w->k->dumped[v->id])
        return QG_OK;
    QG_TRY(begin_waiting(ctx, w->k, &w->w));
    return keep(ctx, &w->w, w->k->dumped[v->id] - 1, value);
}

static qg_status done(void *ud, qg_ctx *ctx, void *state, size_t sample,
                      const qg_run *r)
{
    sink *k = ud;
    worker *w = state;
    bool finite = true;
    for (size_t i = 0; i < k->exe->graph->output.n; i++)
        finite = finite && qg_tensor_is_finite(qg_run_output(r, i));
    if (k->n_column)
        QG_TRY(begin_waiting(ctx, k, &w->w));
    for (size_t i = 0; i < k->n_output; i++)
        QG_TRY(keep(ctx, &w->w, i, qg_run_output(r, i)));
    (void)pthread_mutex_lock(&k->lock);
    k->strange = !finite && sample < k->strange ? sample : k->strange;
    k->slot[sample] = w->w;
    w->w = (waiting){ 0 };
    qg_status s = flush(k);
    if (s != QG_OK) /* the sink's context is shared: pass its message on */
        (void)snprintf(ctx->message, sizeof ctx->message, "%s", k->ctx->message);
    (void)pthread_mutex_unlock(&k->lock);
    return s;
}

/* --- columns --- */

/* Makes the folder, and remembers to take it back when nothing is written. */
static qg_status make_folder(sink *k, const char *path, size_t which)
{
    bool known = qg_is_directory(path);
    QG_TRY(qg_directory_make(k->ctx, path));
    k->made[which] = known ? NULL : path;
    return QG_OK;
}

/* Names that become the same file get "_2", "_3", ... in their order. */
static qg_status add_column(sink *k, const char *folder, const char *name)
{
    const char *path, *unique;
    uint32_t id;
    QG_TRY(file_name(k, folder, name, &path));
    unique = path;
    for (int i = 2;
         unique && qg_names_find(k->taken, unique, strlen(unique)) != QG_NONE; i++)
        unique = qg_arena_printf(k->arena, "%s_%d", path, i);
    if (!unique || qg_names_add(k->taken, unique, strlen(unique), &id) != QG_OK)
        return qg_nomem(k->ctx);
    k->name[k->n_column] = name;
    k->column[k->n_column++].path = unique;
    return QG_OK;
}

/* The computed value that is dumped for v; NULL: none. */
static const qg_value *dump_of(const qg_executable *e, const char *glob,
                               const qg_value *v)
{
    const qg_value *at = qg_glob(glob, v->name) ? qg_executable_value(e, v) : NULL;
    return at && at->def ? at : NULL;
}

/* Values of the model that are one value of the program are written once. */
static qg_status add_dumps(sink *k, const char *glob, const char *folder)
{
    const qg_graph *g = k->exe->model->graph;
    const char *below = qg_path_join(k->arena, folder, "dump");
    if (!below)
        return qg_nomem(k->ctx);
    size_t before = k->n_column;
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v = dump_of(k->exe, glob, g->value.at[i]);
        if (!v || k->dumped[v->id])
            continue;
        QG_TRY(add_column(k, below, g->value.at[i]->name));
        k->dumped[v->id] = (uint32_t)k->n_column;
    }
    if (k->n_column == before)
        return qg_fail(k->ctx, QG_ECONFIG, "dump '%s': matches no value", glob);
    return make_folder(k, below, 1);
}

static qg_status sink_make(sink *k, const qg_executable *e, const qg_run_options *o,
                           size_t samples, const char *folder)
{
    const qg_graph *g = e->graph;
    k->ctx = e->model->ctx;
    k->exe = e;
    k->n = k->strange = samples;
    k->column = QG_NEWN(k->arena, g->output.n + e->model->graph->value.n, qg_column);
    k->name = QG_NEWN(k->arena, g->output.n + e->model->graph->value.n, const char *);
    k->slot = QG_NEWN(k->arena, samples, waiting);
    k->dumped = QG_NEWN(k->arena, g->value.n, uint32_t);
    k->taken = qg_names_new(k->ctx->alloc);
    if (!k->column || !k->name || !k->slot || !k->dumped || !k->taken)
        return qg_nomem(k->ctx);
    if (!folder)
        return QG_OK;
    QG_TRY(make_folder(k, folder, 0));
    for (size_t i = 0; i < g->output.n; i++)
        QG_TRY(add_column(k, folder, g->output.at[i]->name));
    k->n_output = g->output.n;
    return o->dump ? add_dumps(k, o->dump, folder) : QG_OK;
}

static void sink_close(sink *k)
{
    for (size_t i = 0; k->slot && i < k->n; i++)
        qg_arena_free(k->slot[i].arena);
    for (size_t i = 0; i < k->n_column; i++)
        qg_column_abandon(&k->column[i]);
    for (size_t i = 2; i-- > 0;)
        if (k->made[i])
            qg_directory_remove(k->made[i]);
    qg_names_free(k->taken);
    qg_arena_free(k->arena);
}

static qg_status sink_commit(sink *k)
{
    for (size_t i = 0; i < k->n_column; i++)
        QG_TRY(qg_column_commit(&k->column[i]));
    return QG_OK;
}

/* --- the report --- */

/* The files of --dump: their names are not always those of the values. */
static qg_status fill_dumps(const sink *k, qg_report *r)
{
    qg_table *t;
    if (k->n_column == k->n_output)
        return QG_OK;
    QG_TRY(qg_report_table(r, "dumps", "name file", &t));
    for (size_t i = k->n_output; i < k->n_column; i++) {
        const qg_column *c = &k->column[i];
        QG_TRY(qg_table_add(r, t, qg_cell_text(k->name[i])));
        QG_TRY(qg_table_addf(r, t, "%s.%s", c->path, c->apart ? "npz" : "npy"));
    }
    return QG_OK;
}

static qg_status fill_report(const qg_plan *p, const sink *k, double seconds,
                             qg_report *r)
{
    qg_table *t;
    const qg_plan_report *pr = &p->report;
    const qg_graph *g = k->exe->graph;
    double ratio = pr->lower_bound ? (double)pr->bytes / (double)pr->lower_bound : 1;
    QG_TRY(qg_report_add(r, "mode", qg_cell_text(qg_run_mode_name(k->exe->mode))));
    QG_TRY(qg_report_program(r, k->exe));
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(k->n)));
    QG_TRY(qg_report_add(r, "seconds", qg_cell_number(seconds)));
    QG_TRY(qg_report_add(r, "plan_bytes", qg_cell_count(pr->bytes)));
    QG_TRY(qg_report_add(r, "plan_lower_bound", qg_cell_count(pr->lower_bound)));
    QG_TRY(qg_report_add(r, "plan_ratio", qg_cell_number(ratio)));
    QG_TRY(qg_report_add(r, "rounded_bytes_per_sample", qg_cell_count(pr->rounded)));
    QG_TRY(qg_report_add(r, "kernels", qg_cell_count(pr->kernels)));
    QG_TRY(qg_report_table(r, "outputs", "name type file", &t));
    for (size_t i = 0; i < g->output.n; i++) {
        char shape[QG_SHAPE_TEXT];
        const qg_tensor *type = &p->tensor.at[p->output[i]].type;
        QG_TRY(qg_table_cells(r, t, qg_cell_text(g->output.at[i]->name),
                              qg_cell_text(qg_tensor_text(type, shape))));
        if (k->n_output)
            QG_TRY(qg_table_addf(r, t, "%s.%s", k->column[i].path,
                                 k->column[i].apart ? "npz" : "npy"));
        else
            QG_TRY(qg_table_add(r, t, (qg_cell){ 0 }));
    }
    return fill_dumps(k, r);
}

static qg_status describe(const qg_plan *p, const sink *k, double seconds,
                          qg_report **out)
{
    qg_report *r;
    QG_TRY(qg_report_new(k->ctx, "run", &r));
    return qg_report_end(fill_report(p, k, seconds, r), r, out);
}

/* --- all together --- */

/* Searches only where an output is not finite; a NaN that rounding hides is known from
 * the calibration data. */
static qg_status warn_not_finite(const qg_executable *e, const qg_run_options *o,
                                 const qg_feed *feed, size_t sample)
{
    qg_model *m = e->model;
    qg_strange strange = { 0 };
    qg_finite_request r = { .mode = e->mode,
                            .feed = feed,
                            .first = sample,
                            .reference = o->work.reference_kernels };
    if (e->mode == QG_RUN_INTEGER)
        return QG_OK;
    if (sample < feed->n)
        QG_TRY(qg_model_strange(m, &r, m->graph->arena, &strange));
    if (strange.not_finite)
        qg_warn(m->ctx, "%s", strange.not_finite);
    else if (e->mode == QG_RUN_SIMULATE && m->info.manifest.not_finite)
        qg_warn(m->ctx, "when it was quantized: %s", m->info.manifest.not_finite);
    return QG_OK;
}

static qg_status drive(const qg_executable *e, const qg_run_options *o,
                       const char *folder, const qg_plan *p, qg_api_feed *f, sink *k)
{
    QG_TRY(sink_make(k, e, o, f->feed.n, folder));
    qg_drive d = { .plan = p,
                   .feed = &f->feed,
                   .n = f->feed.n,
                   .jobs = o->work.jobs,
                   .ud = k,
                   .begin = make_worker,
                   .end = end_worker,
                   .see = folder && o->dump ? see : NULL,
                   .done = done,
                   .progress = &o->work.progress,
                   .stage = "run" };
    QG_TRY(qg_drive_run(k->ctx, &d));
    QG_TRY(sink_commit(k));
    return warn_not_finite(e, o, &f->feed, k->strange);
}

/* A plan that shows the nodes whose outputs are to be dumped. */
static qg_status plan_for(const qg_executable *e, const qg_run_options *o,
                          const qg_feed *feed, qg_plan **out)
{
    const qg_graph *g = e->model->graph;
    uint8_t *watch = o->dump ? QG_NEWN(g->arena, e->graph->node.n, uint8_t) : NULL;
    if (o->dump && !watch)
        return qg_nomem(e->model->ctx);
    for (size_t i = 0; o->dump && i < g->value.n; i++) {
        const qg_value *v = dump_of(e, o->dump, g->value.at[i]);
        if (v)
            watch[v->def->id] = 1;
    }
    return qg_executable_plan(e, o->work.reference_kernels, feed, watch, out);
}

qg_status qg_model_run(qg_model *m, const qg_run_options *given, const char *folder,
                       qg_report **report)
{
    qg_run_options o;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_run_options, given, &o));
    QG_TRY(qg_workload_check(m->ctx, &o.work));
    qg_mode_request mode = { o.mode, o.profile, o.require_integer, o.codes, false };
    qg_executable e;
    QG_TRY(qg_executable_make(m, &mode, &e));
    qg_plan *p = NULL;
    qg_api_feed f = { 0 };
    sink k = { .arena = qg_arena_new(m->ctx->alloc) };
    double start = qg_clock_seconds();
    qg_status s = k.arena ? QG_OK : qg_nomem(m->ctx);
    (void)pthread_mutex_init(&k.lock, NULL);
    if (s == QG_OK)
        s = qg_executable_feed(&e, &o.work, &f);
    if (s == QG_OK)
        s = plan_for(&e, &o, &f.feed, &p);
    if (s == QG_OK)
        s = drive(&e, &o, folder, p, &f, &k);
    if (s == QG_OK && report)
        s = describe(p, &k, qg_clock_seconds() - start, report);
    sink_close(&k);
    (void)pthread_mutex_destroy(&k.lock);
    qg_feed_close(&f);
    qg_plan_free(p);
    qg_executable_free(&e);
    return s;
}

#include "engine/session/sink.h"

#include <math.h>

#include "engine/core/hash.h"
#include "engine/core/json.h"
#include "engine/data/data.h"
#include "engine/ir/tensor_memory.h"
#include "engine/quant/backend.h"
#include "ops/util_cast.h"

/* Bytes of a name before the hash that stands for its rest: names of files have at most
 * 255 bytes. */
enum { LONGEST_NAME = 200, HASH_DIGITS = 12 };

enum { MOST_OPEN = 64 }; /* columns whose files stay open */

/* Every character outside A-Za-z0-9._- becomes '_'; the end of a long name becomes a
 * hash of all of it. */
static qg_status file_name(qg_sink *k, const char *folder, const char *name,
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
        qg_hash_bytes(name, n, hash);
        safe = qg_arena_printf(k->arena, "%s-%.*s", safe, HASH_DIGITS, hash);
    }
    *out = safe ? qg_path_join(k->arena, folder, safe) : NULL;
    return *out ? QG_OK : qg_nomem(k->ctx);
}

/* --- writing --- */

/* Of many columns each file is open while it is written only. */
static qg_status put_value(qg_sink *k, size_t i, const qg_tensor *t)
{
    QG_TRY(qg_column_put(k->ctx, k->arena, &k->column[i], t));
    if (k->n_column > MOST_OPEN)
        qg_column_pause(&k->column[i]);
    return QG_OK;
}

/* Writes all columns of a finished sample and frees it, also after a failure.  A dumped
 * value without data was not seen in this sample, and its column has no entry. */
static qg_status put_sample(qg_sink *k, qg_waiting *w)
{
    qg_status s = QG_OK;
    for (size_t i = 0; i < k->n_column && s == QG_OK; i++)
        if (w->value[i].data)
            s = put_value(k, i, &w->value[i]);
    qg_arena_free(w->arena);
    *w = (qg_waiting){ 0 };
    return s;
}

/* Writes the samples that are next in order; later ones wait.  The caller holds the
 * lock: one thread at a time writes. */
static qg_status flush(qg_sink *k)
{
    qg_status s = QG_OK;
    for (; s == QG_OK && k->next < k->n && k->slot[k->next].arena; k->next++)
        s = put_sample(k, &k->slot[k->next]);
    return s;
}

/* A plain copy of t as column i of a sample, of a type that files have, in the arena of
 * that sample: values of a run are overwritten by its next sample. */
static qg_status keep(qg_ctx *ctx, qg_waiting *w, size_t i, const qg_tensor *t)
{
    const qg_tensor *as;
    qg_tensor plain = *t;
    plain.data = NULL;
    qg_tensor_set_plain(&plain);
    QG_TRY(qg_tensor_alloc(ctx, w->arena, &plain));
    qg_tensor_copy(t, &plain);
    QG_TRY(qg_cast_view(ctx, w->arena, &plain, qg_npy_dtype(t->dtype), &as));
    w->value[i] = *as;
    return QG_OK;
}

/* The arena of a sample, made by whatever is kept first: a hook or the end of the run.
 * Values begin as zeros: data NULL. */
static qg_status begin_waiting(qg_ctx *ctx, const qg_sink *k, qg_waiting *w)
{
    if (w->arena)
        return QG_OK;
    w->arena = qg_arena_new(ctx->alloc);
    w->value = w->arena ? QG_NEWN(w->arena, k->n_column, qg_tensor) : NULL;
    return w->value ? QG_OK : qg_nomem(ctx);
}

/* --- callbacks of the drive --- */

/* State of one worker: the sample at hand, until `done` passes it to the sink. */
typedef struct worker {
    const qg_sink *k;
    qg_waiting w;
} worker;

/* qg_drive.begin.  The state lives in the arena of ctx. */
static qg_status make_worker(void *ud, qg_ctx *ctx, void **state)
{
    worker *w = QG_NEW(ctx->arena, worker);
    if (!w)
        return qg_nomem(ctx);
    w->k = ud;
    *state = w;
    return QG_OK;
}

/* qg_drive.end.  After a failure in the middle of a sample its copies are still
 * here. */
static void end_worker(void *ud, void *state)
{
    (void)ud;
    qg_arena_free(((worker *)state)->w.arena);
}

/* qg_drive.see: keeps a dumped value.  A rounded output is seen twice, before and
 * after; the second copy replaces the first, so that the file has what the next node
 * reads. */
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

/* qg_drive.done: adds the outputs, moves the sample to its slot, and writes all samples
 * whose turn it is.  Copies are made outside of the lock, files are written inside:
 * columns are not thread-safe. */
static qg_status done(void *ud, qg_ctx *ctx, void *state, size_t sample,
                      const qg_run *r)
{
    qg_sink *k = ud;
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
    w->w = (qg_waiting){ 0 };
    qg_status s = flush(k);
    if (s != QG_OK) /* the sink's context is shared: pass its message on */
        (void)snprintf(ctx->message, sizeof ctx->message, "%s", k->ctx->message);
    (void)pthread_mutex_unlock(&k->lock);
    return s;
}

/* --- columns --- */

/* Makes the folder, and remembers to take it back when nothing is written.  `path` is
 * borrowed until qg_sink_close. */
static qg_status make_folder(qg_sink *k, const char *path, size_t which)
{
    bool known = qg_is_directory(path);
    QG_TRY(qg_directory_make(k->ctx, path));
    k->made[which] = known ? NULL : path;
    return QG_OK;
}

/* Names that become the same file get "_2", "_3", ... in their order.  Names are not
 * owned: the graph and the model outlive the sink.  The arrays have room for every
 * output and every value (qg_sink_make). */
static qg_status add_column(qg_sink *k, const char *folder, const char *name,
                            const qg_value *value)
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
    k->value[k->n_column] = value;
    k->column[k->n_column++].path = unique;
    return QG_OK;
}

/* The computed value that is dumped for v; NULL: none.  Inputs and constants of the
 * program have no producer: they are not dumped. */
static const qg_value *dump_of(const qg_executable *e, const char *glob,
                               const qg_value *v)
{
    const qg_value *at = qg_glob(glob, v->name) ? qg_executable_value(e, v) : NULL;
    return at && at->def ? at : NULL;
}

qg_status qg_sink_outputs(qg_sink *k, const char *folder)
{
    const qg_graph *g = k->exe->graph;
    QG_TRY(make_folder(k, folder, 0));
    for (size_t i = 0; i < g->output.n; i++)
        QG_TRY(add_column(k, folder, g->output.at[i]->name, NULL));
    k->n_output = g->output.n;
    return QG_OK;
}

/* Values of the model that are one value of the program are written once. */
qg_status qg_sink_dumps(qg_sink *k, const char *glob, const char *folder)
{
    const qg_graph *g = k->exe->model->graph;
    size_t before = k->n_column;
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v = dump_of(k->exe, glob, g->value.at[i]);
        if (!v || k->dumped[v->id])
            continue;
        QG_TRY(add_column(k, folder, g->value.at[i]->name, g->value.at[i]));
        k->dumped[v->id] = (uint32_t)k->n_column;
    }
    if (k->n_column == before)
        return qg_fail(k->ctx, QG_ECONFIG, "dump '%s': matches no value", glob);
    k->dumps_in = folder;
    return make_folder(k, folder, 1);
}

/* Whether a column will be an archive is known when its samples are. */
qg_status qg_sink_spare(const qg_sink *k, const qg_data *d)
{
    const char *lost = NULL;
    if (!d || !k->n_column)
        return QG_OK;
    const char **path = QG_NEWN(k->arena, 2 * k->n_column, const char *);
    if (!path)
        return qg_nomem(k->ctx);
    for (size_t i = 0; i < 2 * k->n_column; i++) {
        path[i] = qg_arena_printf(k->arena, "%s.%s", k->column[i / 2].path,
                                  i % 2 ? "npz" : "npy");
        if (!path[i])
            return qg_nomem(k->ctx);
    }
    QG_TRY(qg_data_find_file(k->ctx, d, path, 2 * k->n_column, &lost));
    return lost ? qg_fail(k->ctx, QG_ECONFIG,
                          "run: write %.500s: it is a file that is read, expected "
                          "another folder",
                          lost)
                : QG_OK;
}

/* After a failure the parts that were not made are NULL, which qg_sink_close
 * accepts. */
qg_status qg_sink_make(qg_sink *k, const qg_executable *e, size_t samples)
{
    const qg_graph *g = e->graph;
    size_t most = g->output.n + e->model->graph->value.n;
    k->ctx = e->model->ctx;
    (void)pthread_mutex_init(&k->lock, NULL);
    k->exe = e;
    k->n = k->strange = samples;
    k->arena = qg_arena_new(k->ctx->alloc);
    if (!k->arena)
        return qg_nomem(k->ctx);
    k->column = QG_NEWN(k->arena, most, qg_column);
    k->name = QG_NEWN(k->arena, most, const char *);
    k->value = QG_NEWN(k->arena, most, const qg_value *);
    k->slot = QG_NEWN(k->arena, samples, qg_waiting);
    k->dumped = QG_NEWN(k->arena, g->value.n, uint32_t);
    k->taken = qg_names_new(k->ctx->alloc);
    return k->column && k->name && k->value && k->slot && k->dumped && k->taken
               ? QG_OK
               : qg_nomem(k->ctx);
}

/* Columns first, then the folders, which are removed only when they are empty: the last
 * one made may lie within the other. */
void qg_sink_close(qg_sink *k)
{
    if (!k->ctx)
        return;
    for (size_t i = 0; k->slot && i < k->n; i++)
        qg_arena_free(k->slot[i].arena);
    for (size_t i = 0; i < k->n_column; i++)
        qg_column_abandon(&k->column[i]);
    for (size_t i = 2; i-- > 0;)
        if (k->made[i])
            qg_directory_remove(k->made[i]);
    qg_names_free(k->taken);
    qg_arena_free(k->arena);
    (void)pthread_mutex_destroy(&k->lock);
}

/* --- running --- */

/* Hooks are set on nodes, not values: `see` selects among the outputs of a node.  The
 * array `watch` must outlive the plan and lies in the sink's arena. */
qg_status qg_sink_plan(const qg_sink *k, const qg_workload *work, const qg_feed *feed,
                       qg_plan **out)
{
    const qg_graph *g = k->exe->graph;
    uint8_t *watch = QG_NEWN(k->arena, g->node.n, uint8_t);
    if (!watch)
        return qg_nomem(k->ctx);
    for (size_t i = 0; i < g->value.n; i++)
        if (k->dumped[i])
            watch[g->value.at[i]->def->id] = 1;
    return qg_executable_plan(k->exe, work, feed, k->dumps_in ? watch : NULL, out);
}

/* Every sample of the feed once: the sink was made for as many. */
qg_status qg_sink_run(qg_sink *k, const qg_plan *p, const qg_feed *feed,
                      const qg_workload *work)
{
    qg_drive d = { .plan = p,
                   .feed = feed,
                   .n = feed->n,
                   .jobs = work->jobs,
                   .ud = k,
                   .begin = make_worker,
                   .end = end_worker,
                   .see = k->dumps_in ? see : NULL,
                   .done = done,
                   .progress = &work->progress,
                   .stage = "run" };
    return qg_drive_run(k->ctx, &d);
}

/* What is hidden in many samples is not searched for, not even in some of them. */
qg_status qg_sink_warn(const qg_sink *k, const qg_plan *p, const qg_feed *feed,
                       const qg_workload *work)
{
    qg_model *m = k->exe->model;
    const bool known = k->exe->mode != QG_RUN_FLOAT && m->info.manifest.not_finite;
    if (k->exe->program && k->exe->program->options.float_inputs)
        return QG_OK; /* floats for inputs in codes, which the network does not take */
    if (k->strange == feed->n && !known && !qg_search_is_little(p, feed->n))
        return QG_OK;
    return qg_model_warn_not_finite(m, k->exe->mode, work, feed, k->strange);
}

/* --- trace.json --- */

/* The grid of a value: that of its codes, or the one its floats were rounded to;
 * false: it has none, or one per channel. */
static bool grid_of(const qg_sink *k, const qg_value *v, double *scale, int32_t *zero)
{
    const qg_program *p = k->exe->program;
    const qg_tqc *t = p ? NULL : qg_producer_tqc(v);
    if (p && p->stored[v->id].codes && p->stored[v->id].n == 1) {
        *scale = (double)p->stored[v->id].scale[0];
        *zero = p->stored[v->id].zero[0];
        return true;
    }
    if (k->exe->mode != QG_RUN_SIMULATE || !t || !qg_tqc_rounds(t) ||
        !(t->scheme.policy & QG_LINEAR) || (t->scheme.policy & QG_DYNAMIC))
        return false;
    qg_qparam q = qg_tqc_param(t);
    if (q.n != 1)
        return false;
    *scale = (double)q.scale[0];
    *zero = q.offset[0];
    return true;
}

/* Scales are written as the shortest text of the float: a reader gets the same bits. */
static void put_grid(qg_json_writer *w, const qg_sink *k, const qg_value *v)
{
    double scale;
    int32_t zero;
    if (!grid_of(k, v, &scale, &zero)) {
        qg_json_put_null(w, "grid");
        return;
    }
    qg_json_put_object_line(w, "grid");
    qg_json_put_f32(w, "scale", (float)scale);
    qg_json_put_int(w, "zero", zero);
    qg_json_put_end(w);
}

/* One entry of "arrays".  The shape is that of the file: samples first.  Type and dims
 * are those of the first sample; only stacked columns have one shape. */
static void put_array(qg_json_writer *w, const qg_sink *k, size_t i,
                      const char *endpoint, const char *file)
{
    const qg_value *v = k->value[i];
    const qg_tensor *t = &k->column[i].npy.sample;
    qg_json_put_object(w, NULL);
    qg_json_put_text(w, "value", v->name);
    if (v->def)
        qg_json_put_text(w, "endpoint", endpoint);
    else
        qg_json_put_null(w, "endpoint");
    qg_json_put_text(w, "file", file);
    qg_json_put_text(w, "type", qg_dtype_name(t->dtype));
    qg_json_put_array(w, "shape");
    qg_json_put_int(w, NULL, (int64_t)k->column[i].count);
    for (int d = 0; d < t->rank; d++)
        qg_json_put_int(w, NULL, t->dim[d]);
    qg_json_put_end(w);
    qg_json_put_text(w, "layout", "model");
    put_grid(w, k, v);
    qg_json_put_end(w);
}

/* The whole document, without outputs and values of several shapes: a trace has one
 * array for each dumped value. */
static qg_status put_trace(const qg_sink *k, FILE *f)
{
    qg_json_writer w;
    qg_json_begin(&w, k->ctx, f);
    qg_json_put_object(&w, NULL);
    qg_json_put_text(&w, "format", QG_TRACE_FORMAT);
    qg_json_put_int(&w, "version", QG_TRACE_VERSION);
    qg_json_put_text(&w, "producer", "qg " QG_VERSION);
    qg_json_put_text(&w, "mode", qg_run_mode_name(k->exe->mode));
    qg_json_put_int(&w, "samples", (int64_t)k->n);
    qg_json_put_array(&w, "arrays");
    for (size_t i = k->n_output; i < k->n_column; i++) {
        if (k->column[i].apart)
            continue;
        const qg_value *v = k->value[i];
        const char *file = qg_sink_file(k, i, k->arena), *endpoint = "";
        if (v->def)
            endpoint =
                qg_endpoint_full_text(k->arena, qg_output_at(v->def, v->def_slot));
        if (!file || !endpoint)
            return qg_nomem(k->ctx);
        put_array(&w, k, i, endpoint, qg_path_base(file));
    }
    qg_json_put_end(&w);
    qg_json_put_end(&w);
    return qg_json_done(&w);
}

/* Leaves w open: its file appears with those of the columns, as the last one. */
static qg_status write_trace(const qg_sink *k, qg_writer *w)
{
    const char *path = qg_path_join(k->arena, k->dumps_in, QG_TRACE_JSON);
    if (!path)
        return qg_nomem(k->ctx);
    QG_TRY(qg_writer_open(k->ctx, path, w));
    return put_trace(k, w->stream);
}

/* A failure leaves no file behind.  Abandoning after a commit has no effect. */
qg_status qg_sink_commit(qg_sink *k)
{
    qg_writer trace = { 0 };
    qg_status s = k->dumps_in ? write_trace(k, &trace) : QG_OK;
    if (s == QG_OK)
        s = qg_columns_commit(k->ctx, k->arena, k->column, k->n_column,
                              k->dumps_in ? &trace : NULL);
    if (k->dumps_in)
        qg_writer_abandon(&trace);
    return s;
}

const char *qg_sink_file(const qg_sink *k, size_t i, qg_arena *a)
{
    const qg_column *c = &k->column[i];
    return qg_arena_printf(a, "%s.%s", c->path, c->apart ? "npz" : "npy");
}

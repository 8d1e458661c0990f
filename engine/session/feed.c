#include "engine/session/session.h"

#include <assert.h>
#include <string.h>

#include "engine/data/data.h"
#include "engine/core/hash.h"
#include "engine/session/source.h"

/* The tensors of one sample in the worker's arena, filled. */
static qg_status fetch(void *ud, qg_ctx *ctx, qg_arena *a, size_t sample,
                       const qg_tensor **in)
{
    const qg_api_feed *f = ud;
    size_t n = f->graph->input.n;
    qg_tensor *x = QG_NEWN(a, n, qg_tensor), **out = QG_NEWN(a, n, qg_tensor *);
    if (!x || !out)
        return qg_nomem(ctx);
    for (size_t i = 0; i < n; i++) {
        qg_data_shape(f->data, sample, i, &x[i]);
        QG_TRY(qg_tensor_alloc(ctx, a, &x[i]));
        out[i] = &x[i];
        in[i] = &x[i];
    }
    return qg_data_fetch(ctx, f->data, sample, a, out);
}

/* Sets feed.shape where the graph leaves dims open and all samples agree on them. */
static qg_status common_shape(qg_model *m, qg_api_feed *f)
{
    const size_t n = f->graph->input.n;
    if (qg_graph_inputs_are_known(f->graph))
        return QG_OK;
    qg_tensor *shape = QG_NEWN(m->graph->arena, n, qg_tensor);
    if (!shape)
        return qg_nomem(m->ctx);
    for (size_t i = 0; i < n; i++)
        if (!qg_data_common_shape(f->data, i, &shape[i]))
            return QG_OK;
    f->feed.shape = shape;
    return QG_OK;
}

/* --- given samples --- */

bool qg_workload_has_samples(const qg_workload *work)
{
    return work->data || work->array || work->source;
}

static qg_status check_given(qg_ctx *ctx, const qg_workload *work)
{
    int given = (work->data != NULL) + (work->array != NULL) + (work->source != NULL);
    if (given == 0)
        return qg_fail(ctx, QG_ECONFIG,
                       "data: none given, expected a file, a folder, random:N, arrays "
                       "or a source");
    return given == 1
               ? QG_OK
               : qg_fail(ctx, QG_ECONFIG,
                         "data: %d of data, array and source are given, expected "
                         "one of them",
                         given);
}

/* (*out)[inputs]: the array of each, in the graph's arena. */
static qg_status arrays_by_input(const qg_model *m, const qg_workload *work,
                                 const qg_tensor *const **out)
{
    const qg_graph *g = m->graph;
    const qg_tensor **array = QG_NEWN(g->arena, g->input.n, const qg_tensor *);
    if (!array)
        return qg_nomem(m->ctx);
    for (size_t i = 0; i < work->n_array; i++) {
        size_t k;
        QG_TRY(qg_input_named(m->ctx, g, "arrays", work->array[i].input, &k));
        if (array[k])
            return qg_fail(m->ctx, QG_EDATA,
                           "data: arrays: two for input '%.1000s', expected one",
                           g->input.at[k]->name);
        array[k] = &work->array[i].value;
    }
    for (size_t k = 0; k < g->input.n; k++)
        if (!array[k])
            return qg_fail(m->ctx, QG_EDATA,
                           "data: arrays: none for input '%.1000s', expected one for "
                           "every input",
                           g->input.at[k]->name);
    *out = array;
    return QG_OK;
}

/* --- the feed --- */

static qg_status open_data(qg_model *m, const qg_workload *work, qg_api_feed *out)
{
    QG_TRY(qg_model_expect_finished(m, "samples"));
    qg_data_request request = { .input = out->graph->input.at,
                                .n_input = out->graph->input.n,
                                .limit = work->samples,
                                .nan = out->takes_nan };
    if (work->array)
        QG_TRY(arrays_by_input(m, work, &request.array));
    QG_TRY(
        qg_data_open(m->ctx, work->data ? work->data : "arrays", &request, &out->data));
    out->feed = (qg_feed){
        .n = qg_data_count(out->data), .fetch = fetch, .ud = out, .from = work->data
    };
    QG_TRY(common_shape(m, out));
    return qg_feed_warn_scale(m, work, out);
}

/* The feed points to *out, which therefore must stay where it is. */
qg_status qg_feed_open(qg_model *m, const qg_workload *work, qg_api_feed *out)
{
    assert(m->graph);
    QG_TRY(check_given(m->ctx, work));
    if (!out->graph)
        out->graph = m->graph;
    if (!work->source)
        return open_data(m, work, out);
    qg_hosted_request request = { .graph = out->graph,
                                  .work = work,
                                  .nan = out->takes_nan };
    QG_TRY(qg_hosted_open(m->ctx, &request, &out->hosted));
    out->feed = qg_hosted_feed(out->hosted);
    return QG_OK;
}

void qg_feed_close(qg_api_feed *f)
{
    qg_data_close(f->data);
    qg_hosted_close(f->hosted);
}

qg_workload qg_feed_again(const qg_api_feed *f, const qg_workload *work)
{
    qg_workload again = *work;
    if (f->hosted)
        again.source = qg_hosted_again(f->hosted);
    return again;
}

/* --- where samples came from --- */

/* Of every array its input, type, dims and elements, in order of the model's inputs. */
static qg_status hash_arrays(const qg_model *m, const qg_workload *work,
                             char text[QG_HASH_TEXT])
{
    const qg_tensor *const *array;
    char shape[QG_SHAPE_TEXT];
    size_t bytes;
    qg_hash h;
    QG_TRY(arrays_by_input(m, work, &array));
    qg_hash_begin(&h);
    for (size_t k = 0; k < m->graph->input.n; k++) {
        const char *name = m->graph->input.at[k]->name;
        bool fits = qg_dtype_bytes(array[k]->dtype, (uint64_t)qg_tensor_count(array[k]),
                                   &bytes);
        assert(fits); /* qg_feed_open has checked it */
        qg_hash_add(&h, name, strlen(name) + 1);
        (void)qg_tensor_text(array[k], shape);
        qg_hash_add(&h, shape, strlen(shape) + 1);
        qg_hash_add(&h, array[k]->data, fits ? bytes : 0);
    }
    qg_hash_end(&h, text);
    return QG_OK;
}

qg_status qg_workload_origin(const qg_model *m, const qg_workload *work, qg_arena *a,
                             const char **name, const char **sha256)
{
    char text[QG_HASH_TEXT] = "";
    const char *path = work->data;
    *name = work->source ? "source" : work->array ? "arrays" : NULL;
    *sha256 = NULL;
    if (path && !(*name = qg_arena_strdup(a, qg_path_base(path))))
        return qg_nomem(m->ctx);
    if (work->array)
        QG_TRY(hash_arrays(m, work, text));
    else if (path && !qg_is_directory(path) && !strchr(path, ':'))
        QG_TRY(qg_hash_file(m->ctx, path, text));
    if (*text && !(*sha256 = qg_arena_strdup(a, text)))
        return qg_nomem(m->ctx);
    return QG_OK;
}

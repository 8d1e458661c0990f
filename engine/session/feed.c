#include "engine/session/session.h"

#include <assert.h>
#include <string.h>

#include "engine/data/data.h"
#include "engine/core/hash.h"

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
    const size_t n = m->graph->input.n;
    bool open = false;
    for (size_t i = 0; i < n; i++)
        open = open || !qg_tensor_known(&m->graph->input.at[i]->type);
    if (!open)
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

/* The feed points to *out, which therefore must stay where it is. */
qg_status qg_feed_open(qg_model *m, const qg_workload *work, qg_api_feed *out)
{
    QG_TRY(qg_model_expect_finished(m, "samples"));
    assert(m->graph);
    qg_data_request request = { .input = m->graph->input.at,
                                .n_input = m->graph->input.n,
                                .limit = work->samples,
                                .nan = out->takes_nan };
    if (!work->data)
        return qg_fail(m->ctx, QG_ECONFIG,
                       "data: none given, expected a file, a folder "
                       "or random:N");
    QG_TRY(qg_data_open(m->ctx, work->data, &request, &out->data));
    out->graph = m->graph;
    out->feed = (qg_feed){ .n = qg_data_count(out->data), .fetch = fetch, .ud = out };
    return common_shape(m, out);
}

void qg_feed_close(qg_api_feed *f)
{
    qg_data_close(f->data);
    f->data = NULL;
}

qg_status qg_data_hash(qg_ctx *ctx, qg_arena *a, const char *spec, const char **out)
{
    char text[QG_HASH_TEXT];
    *out = NULL;
    if (!spec || qg_is_directory(spec) || strchr(spec, ':'))
        return QG_OK;
    QG_TRY(qg_hash_file(ctx, spec, text));
    *out = qg_arena_strdup(a, text);
    return *out ? QG_OK : qg_nomem(ctx);
}

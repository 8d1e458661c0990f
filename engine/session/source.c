#include "engine/session/source.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "engine/core/suggest.h"
#include "engine/data/data.h"
#include "engine/session/spool.h"

struct qg_hosted {
    qg_hosted_request request;
    qg_ctx *ctx; /* that it was opened with */
    qg_arena *arena;
    qg_source source; /* of the host */
    qg_source again;
    pthread_mutex_t lock; /* one fetch at a time */
    size_t n;
    qg_spool *spool;  /* NULL: the source is called again */
    qg_tensor *shape; /* [inputs] of all samples so far; NULL: not wanted, or they
                       * differ */
};

/* One sample at work. */
struct qg_inputs {
    qg_hosted *h;
    qg_ctx *ctx;
    qg_arena *arena;
    size_t sample;
    const qg_tensor **in; /* [inputs] NULL: not set */
    size_t set;
    qg_status status; /* first failure of a set, even if the host ignored it */
};

enum { WHAT_TEXT = 64 };

static const char *what_of(size_t sample, char text[WHAT_TEXT])
{
    (void)snprintf(text, WHAT_TEXT, "source: sample %zu", sample);
    return text;
}

/* --- settings of the host --- */

qg_status qg_input_named(qg_ctx *ctx, const qg_graph *g, const char *what,
                         const char *name, size_t *out)
{
    char text[QG_SUGGEST_TEXT];
    size_t n = g->input.n;
    if (!name && n != 1)
        return qg_fail(ctx, QG_EDATA,
                       "data: %s: an array without a name for a model with %zu inputs, "
                       "expected a name",
                       what, n);
    qg_suggest near = qg_suggest_for(name ? name : "");
    for (size_t k = 0; k < n; k++) {
        if (!name || strcmp(g->input.at[k]->name, name) == 0) {
            *out = k;
            return QG_OK;
        }
        qg_suggest_try(&near, g->input.at[k]->name);
    }
    return qg_fail(ctx, QG_EDATA, "data: %s: the model has no input '%.1000s'%s", what,
                   name, qg_suggest_text(&near, text));
}

qg_ctx *qg_inputs_ctx(qg_inputs *inputs) { return inputs->ctx; }

/* Floats become those of the input, as those of files do: a network of float16 is
 * calibrated in float32. */
static bool is_other_float(const qg_value *v, const qg_tensor *x)
{
    return x->dtype != v->type.dtype && qg_data_convertible(x->dtype, v->type.dtype) &&
           qg_dtype_kind_of(x->dtype) == QG_KIND_FLOAT;
}

static qg_status element_fails(const qg_inputs *s, const qg_value *v,
                               const qg_tensor *x, qg_dtype type, int64_t at)
{
    return qg_fail(s->ctx, QG_EDATA,
                   "data: source: sample %zu of input '%.1000s': element %lld is %.9g, "
                   "expected a value that %s holds",
                   s->sample, v->name, (long long)at, qg_tensor_f64(x, at),
                   qg_dtype_name(type));
}

static qg_status convert(const qg_inputs *s, const qg_value *v, const qg_tensor *x,
                         qg_tensor *out)
{
    const unsigned allow = s->h->request.nan ? QG_DATA_NAN : 0u;
    int64_t bad;
    qg_tensor_init(out, v->type.dtype, x->rank, x->dim);
    QG_TRY(qg_tensor_alloc(s->ctx, s->arena, out));
    return qg_data_convert(x, out, allow, &bad)
               ? QG_OK
               : element_fails(s, v, x, v->type.dtype, bad);
}

static qg_status check_type(const qg_inputs *s, const qg_value *v, const qg_tensor *x)
{
    char what[WHAT_TEXT], have[QG_SHAPE_TEXT], want[QG_SHAPE_TEXT];
    QG_TRY(qg_data_check_array(s->ctx, what_of(s->sample, what), v->name, x));
    bool fits =
        (x->dtype == v->type.dtype || is_other_float(v, x)) && x->rank == v->type.rank;
    for (int i = 0; fits && i < x->rank; i++)
        fits = v->type.dim[i] < 0 || v->type.dim[i] == x->dim[i];
    if (fits)
        return QG_OK;
    return qg_fail(s->ctx, QG_EDATA,
                   "data: %s: the array for input '%.1000s' is %s, expected %s", what,
                   v->name, qg_tensor_text(x, have), qg_tensor_text(&v->type, want));
}

static qg_status set_input(qg_inputs *s, const char *name, const qg_tensor *x,
                           bool borrow)
{
    char what[WHAT_TEXT];
    size_t k;
    const qg_graph *g = s->h->request.graph;
    QG_TRY(qg_input_named(s->ctx, g, what_of(s->sample, what), name, &k));
    const char *input = g->input.at[k]->name;
    if (s->in[k])
        return qg_fail(s->ctx, QG_EDATA, "data: %s: input '%.1000s' is set twice", what,
                       input);
    QG_TRY(check_type(s, g->input.at[k], x));
    if (!s->h->request.nan && qg_data_find_nan(x) >= 0)
        return qg_fail(s->ctx, QG_EDATA,
                       "data: source: sample %zu of input '%.1000s' contains NaN",
                       s->sample, input);
    const qg_value *v = g->input.at[k];
    int64_t beyond = qg_data_find_beyond(x, v->file_dtype);
    if (beyond >= 0)
        return element_fails(s, v, x, v->file_dtype, beyond);
    const bool other = is_other_float(v, x);
    qg_tensor *kept = borrow || other ? QG_NEW(s->arena, qg_tensor) : NULL;
    if (!borrow && !other)
        QG_TRY(qg_tensor_clone(s->ctx, s->arena, x, &kept));
    if (!kept)
        return qg_nomem(s->ctx);
    if (other)
        QG_TRY(convert(s, v, x, kept));
    else if (borrow)
        *kept = *x;
    s->in[k] = kept;
    s->set++;
    return QG_OK;
}

/* A failure is kept: a source that goes on all the same gives no sample. */
static qg_status set_or_keep(qg_inputs *s, const char *name, const qg_tensor *x,
                             bool borrow)
{
    if (s->status == QG_OK)
        s->status = set_input(s, name, x, borrow);
    return s->status;
}

qg_status qg_inputs_set(qg_inputs *inputs, const char *name, const qg_tensor *x)
{
    return set_or_keep(inputs, name, x, false);
}

qg_status qg_inputs_borrow(qg_inputs *inputs, const char *name, const qg_tensor *x)
{
    return set_or_keep(inputs, name, x, true);
}

/* --- one sample --- */

/* A status that is none of ours cannot be handed on. */
static qg_status source_fails(qg_ctx *ctx, qg_status s, size_t sample)
{
    bool known = s > QG_OK && s < QG_NSTATUS;
    if (known && *qg_ctx_message(ctx))
        return s;
    return qg_fail(
        ctx, known ? s : QG_EDATA,
        "data: source: sample %zu: fetch failed with status %d and no message", sample,
        (int)s);
}

static qg_status check_set(const qg_inputs *s)
{
    const qg_graph *g = s->h->request.graph;
    for (size_t k = 0; k < g->input.n; k++)
        if (!s->in[k])
            return qg_fail(s->ctx, QG_EDATA,
                           "data: source: sample %zu: input '%.1000s' is not set, "
                           "expected every input",
                           s->sample, g->input.at[k]->name);
    return QG_OK;
}

/* Calls the host.  *set: the number of inputs it provided; 0: none, which is a failure
 * only if the sample is known to exist. */
static qg_status ask(qg_inputs *s)
{
    qg_hosted *h = s->h;
    memset(s->in, 0, h->request.graph->input.n * sizeof *s->in);
    s->ctx->message[0] = '\0';
    (void)pthread_mutex_lock(&h->lock);
    qg_status status = h->source.fetch(h->source.ud, s->sample, s);
    (void)pthread_mutex_unlock(&h->lock);
    if (s->status != QG_OK)
        return s->status;
    if (status != QG_OK)
        return source_fails(s->ctx, status, s->sample);
    return s->set ? check_set(s) : QG_OK;
}

static qg_status fetch(void *ud, qg_ctx *ctx, qg_arena *a, size_t sample,
                       const qg_tensor **in)
{
    qg_hosted *h = ud;
    qg_inputs s = { .h = h, .ctx = ctx, .arena = a, .sample = sample, .in = in };
    if (h->spool)
        return qg_spool_get(ctx, h->spool, a, sample, in);
    QG_TRY(ask(&s));
    return check_set(&s);
}

/* --- all samples once --- */

/* Largest number of samples; 0: all. */
static size_t most_of(const qg_hosted *h)
{
    size_t limit = h->request.work->samples, count = h->source.count;
    return !count || (limit && limit < count) ? limit : count;
}

/* shape: of the first sample, and then only as long as all have it. */
static void agree(qg_hosted *h, const qg_inputs *s)
{
    for (size_t k = 0; h->shape && k < h->request.graph->input.n; k++) {
        const qg_tensor *t = s->in[k];
        if (s->sample == 0)
            qg_tensor_init(&h->shape[k], t->dtype, t->rank, t->dim);
        else if (!qg_same_dims(&h->shape[k], t))
            h->shape = NULL;
    }
}

static qg_status scan_one(qg_hosted *h, qg_inputs *s, bool *more)
{
    QG_TRY(ask(s));
    *more = s->set > 0 || h->source.count;
    if (!*more)
        return QG_OK;
    QG_TRY(check_set(s));
    agree(h, s);
    return h->spool ? qg_spool_put(s->ctx, h->spool, s->in) : QG_OK;
}

static qg_status scan(qg_hosted *h, qg_arena *scratch)
{
    size_t most = most_of(h);
    bool more = true;
    if (h->source.one_shot)
        QG_TRY(qg_spool_open(h->ctx, h->request.graph, &h->spool));
    for (h->n = 0; more && (!most || h->n < most); h->n += more) {
        QG_TRY(qg_ctx_step(h->ctx, &h->request.work->progress, "samples", h->n, most));
        qg_arena_reset(scratch);
        qg_inputs s = { .h = h, .ctx = h->ctx, .arena = scratch, .sample = h->n };
        s.in = QG_NEWN(scratch, h->request.graph->input.n, const qg_tensor *);
        if (!s.in)
            return qg_nomem(h->ctx);
        QG_TRY(scan_one(h, &s, &more));
    }
    return h->n ? QG_OK
                : qg_fail(h->ctx, QG_EDATA,
                          "data: source: sample 0: nothing is set, expected at least "
                          "one sample");
}

/* --- the same samples once more --- */

static qg_status fetch_again(void *ud, size_t sample, qg_inputs *s)
{
    qg_hosted *h = ud;
    QG_TRY(qg_spool_get(s->ctx, h->spool, s->arena, sample, s->in));
    s->set = h->request.graph->input.n;
    return QG_OK;
}

const qg_source *qg_hosted_again(const qg_hosted *h) { return &h->again; }

/* --- some of the samples --- */

static qg_status fetch_of_subset(void *ud, qg_ctx *ctx, qg_arena *a, size_t sample,
                                 const qg_tensor **in)
{
    const qg_subset *s = ud;
    return s->whole->fetch(s->whole->ud, ctx, a, s->index[sample], in);
}

static qg_status set_of_subset(void *ud, size_t sample, qg_inputs *in)
{
    const qg_subset *s = ud;
    QG_TRY(fetch_of_subset(ud, in->ctx, in->arena, sample, in->in));
    in->set = s->n_input;
    return QG_OK;
}

void qg_subset_open(qg_subset *s)
{
    s->feed = (qg_feed){
        .n = s->n,
        .shape = s->whole->shape,
        .fetch = fetch_of_subset,
        .ud = s,
        .from = s->whole->from,
    };
    s->source = (qg_source){ .fetch = set_of_subset, .ud = s, .count = s->n };
}

/* --- open and close --- */

static qg_status prepare(qg_hosted *h)
{
    const qg_graph *g = h->request.graph;
    for (size_t k = 0; k < g->input.n; k++)
        if (g->input.at[k]->type.rank < 0)
            return qg_fail(
                h->ctx, QG_EDATA,
                "data: source: input '%.1000s' has no known rank, expected one "
                "(--shape NAME=DIMxDIMx... gives it)",
                g->input.at[k]->name);
    bool open = !qg_graph_inputs_are_known(g);
    h->n = most_of(h);
    if (h->source.count && !h->source.one_shot && !open)
        return QG_OK;
    h->shape = open ? QG_NEWN(h->arena, g->input.n, qg_tensor) : NULL;
    qg_arena *scratch = qg_arena_new(h->ctx->alloc);
    qg_status s = !scratch || (open && !h->shape) ? qg_nomem(h->ctx) : scan(h, scratch);
    qg_arena_free(scratch);
    return s;
}

qg_status qg_hosted_open(qg_ctx *ctx, const qg_hosted_request *request, qg_hosted **out)
{
    const qg_source *source = request->work->source;
    if (!source->fetch)
        return qg_fail(ctx, QG_ECONFIG, "data: source: it has no fetch");
    qg_arena *a = qg_arena_new(ctx->alloc);
    qg_hosted *h = a ? QG_NEW(a, qg_hosted) : NULL;
    if (!h) {
        qg_arena_free(a);
        return qg_nomem(ctx);
    }
    *h = (qg_hosted){ .request = *request, .ctx = ctx, .arena = a, .source = *source };
    (void)pthread_mutex_init(&h->lock, NULL);
    qg_status s = prepare(h);
    if (s != QG_OK) {
        qg_hosted_close(h);
        return s;
    }
    h->again = (qg_source){ .fetch = h->spool ? fetch_again : source->fetch,
                            .ud = h->spool ? h : source->ud,
                            .count = h->n };
    *out = h;
    return QG_OK;
}

void qg_hosted_close(qg_hosted *h)
{
    if (!h)
        return;
    qg_spool_close(h->spool);
    (void)pthread_mutex_destroy(&h->lock);
    qg_arena_free(h->arena);
}

qg_feed qg_hosted_feed(qg_hosted *h)
{
    return (qg_feed){ .n = h->n, .shape = h->shape, .fetch = fetch, .ud = h };
}

#include "engine/calib/collect.h"

#include <assert.h>
#include <string.h>

#include "engine/quant/backend.h"

qg_status qg_collector_open(qg_ctx *ctx, qg_stats *s, qg_collector *out)
{
    pthread_mutex_t *lock =
        qg_arena_raw(s->arena, s->value.n ? s->value.n : 1, sizeof *lock);
    uint64_t *nan = QG_NEWN(s->arena, s->value.n, uint64_t);
    if (!lock || !nan)
        return qg_nomem(ctx);
    for (size_t i = 0; i < s->value.n; i++) {
        (void)pthread_mutex_init(&lock[i], NULL);
        nan[i] = UINT64_MAX;
    }
    *out = (qg_collector){ .stats = s, .lock = lock, .nan = nan, .n = s->value.n };
    return QG_OK;
}

void qg_collector_close(qg_collector *c)
{
    for (size_t i = 0; i < c->n; i++)
        (void)pthread_mutex_destroy(&c->lock[i]);
    *c = (qg_collector){ 0 };
}

qg_status qg_collector_see(const qg_collector *c, qg_ctx *ctx, size_t i,
                           uint64_t sample, const qg_tensor *x, qg_arena *scratch)
{
    qg_stats_value *v = c->stats->value.at[i];
    qg_stats_seen seen;
    assert(i < c->n);
    if (qg_tensor_count(x) == 0)
        return QG_OK;
    qg_arena_reset(scratch);
    QG_TRY(qg_stats_look(ctx, v, x, scratch, &seen));
    if (c->finite && seen.nans)
        return qg_fail(ctx, QG_ENUMERIC,
                       "statistics: '%.1000s': sample %llu gives a NaN or an infinity, "
                       "expected finite numbers",
                       v->name, (unsigned long long)sample);
    bool nan = false;
    for (size_t k = 0; seen.nans && k < v->channels; k++)
        nan = nan || seen.nans[k];
    (void)pthread_mutex_lock(&c->lock[i]);
    if (nan && sample < c->nan[i])
        c->nan[i] = sample;
    qg_status s = qg_stats_add(ctx, v, sample, &seen, scratch);
    (void)pthread_mutex_unlock(&c->lock[i]);
    return s;
}

/* --- every value of a graph --- */

static bool has_statistics(const qg_value *v)
{
    return !v->constant && v->type.dtype == QG_F32 && (v->def || v->is_input);
}

qg_status qg_collect_values(const qg_graph *g, const char *by_channel, qg_stats *out)
{
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v = g->value.at[i];
        unsigned holds = QG_STATS_MOMENTS | QG_STATS_HISTOGRAM;
        qg_stats_value *made;
        if (!has_statistics(v))
            continue;
        if (by_channel && qg_glob(by_channel, v->name))
            holds |= QG_STATS_BY_CHANNEL;
        QG_TRY(qg_stats_add_value(out, v->name, &v->type, qg_stats_axis_of(&v->type),
                                  holds, &made));
    }
    return QG_OK;
}

/* A run: the endpoint at which each value is observed. */
struct qg_collect_run {
    const qg_collect *c;
    qg_arena *arena;
    uint64_t first; /* sample of the feed that is sample 0 of the drive */
    size_t done;    /* samples of all pieces so far */
    qg_collector collector;
    uint32_t *index; /* [values] position in the statistics, or QG_NONE */
    uint8_t *watch;  /* [nodes] */
    qg_plan *plan;
};

typedef struct qg_collect_run run;

typedef struct worker {
    const run *r;
    qg_arena *scratch;
} worker;

static qg_status worker_begin(void *ud, qg_ctx *ctx, void **state)
{
    worker *w = QG_NEW(ctx->arena, worker);
    if (!w || !(w->scratch = qg_arena_new(ctx->alloc)))
        return qg_nomem(ctx);
    w->r = ud;
    *state = w;
    return QG_OK;
}

static void worker_end(void *ud, void *state)
{
    (void)ud;
    qg_arena_free(((worker *)state)->scratch);
}

/* A value is seen once: at its producer, or at its first reader. */
static bool is_place_of(const qg_hook_point *at, const qg_value *v)
{
    if (v->def)
        return at->endpoint.is_output;
    const qg_use *first = v->use.at;
    assert(v->use.n > 0);
    return qg_endpoint_same(at->endpoint, qg_input_at(first->node, first->slot));
}

static qg_status worker_see(void *state, qg_ctx *ctx, size_t sample,
                            const qg_hook_point *at, qg_tensor *value)
{
    const worker *w = state;
    const run *r = w->r;
    const qg_value *v = qg_endpoint_value(at->endpoint);
    uint32_t i = v && qg_value_is_in(r->c->graph, v) ? r->index[v->id] : QG_NONE;
    if (i == QG_NONE || !is_place_of(at, v))
        return QG_OK;
    return qg_collector_see(&r->collector, ctx, i, r->first + sample, value,
                            w->scratch);
}

/* The feed from r->first on. */
static qg_status fetch(void *ud, qg_ctx *ctx, qg_arena *a, size_t sample,
                       const qg_tensor **in)
{
    const run *r = ud;
    const qg_feed *feed = r->c->feed;
    return feed->fetch(feed->ud, ctx, a, (size_t)r->first + sample, in);
}

/* Which nodes are watched, and for which values. */
static qg_status prepare(qg_ctx *ctx, run *r)
{
    const qg_collect *c = r->c;
    const qg_graph *g = c->graph;
    r->index = QG_NEWN(r->arena, g->value.n, uint32_t);
    r->watch = QG_NEWN(r->arena, g->node.n, uint8_t);
    if (!r->index || !r->watch)
        return qg_nomem(ctx);
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v = g->value.at[i];
        r->index[i] = qg_names_find(c->stats->names, v->name, strlen(v->name));
        const qg_node *n = v->def ? v->def : v->use.n ? v->use.at[0].node : NULL;
        if (r->index[i] != QG_NONE && n)
            r->watch[n->id] = 1;
    }
    qg_plan_options o = { .mode = QG_MODE_FLOAT,
                          .input = c->feed->shape,
                          .watch = r->watch,
                          .executable = true,
                          .reference = c->reference };
    QG_TRY(qg_plan_new(ctx, g, &o, &r->plan));
    return qg_collector_open(ctx, c->stats, &r->collector);
}

qg_status qg_collect_open(qg_ctx *ctx, const qg_collect *c, qg_collect_run **out)
{
    assert(c->graph && c->stats && c->feed);
    qg_arena *a = qg_arena_new(ctx->alloc);
    run *r = a ? QG_NEW(a, run) : NULL;
    if (!r) {
        qg_arena_free(a);
        return qg_nomem(ctx);
    }
    *r = (run){ .c = c, .arena = a };
    qg_status s = prepare(ctx, r);
    if (s == QG_OK)
        *out = r;
    else
        qg_collect_close(r);
    return s;
}

void qg_collect_close(qg_collect_run *r)
{
    if (!r)
        return;
    qg_collector_close(&r->collector);
    qg_plan_free(r->plan);
    qg_arena_free(r->arena);
}

qg_status qg_collect_samples(qg_ctx *ctx, qg_collect_run *r, uint64_t first,
                             uint64_t end)
{
    const qg_collect *c = r->c;
    assert(first <= end && end <= c->feed->n);
    qg_feed feed = { .n = (size_t)(end - first), .fetch = fetch, .ud = r };
    qg_drive d = { .plan = r->plan,
                   .feed = &feed,
                   .n = feed.n,
                   .jobs = c->jobs,
                   .ud = r,
                   .begin = worker_begin,
                   .end = worker_end,
                   .see = worker_see,
                   .progress = c->progress,
                   .stage = c->stage,
                   .before = r->done,
                   .total = c->feed->n };
    r->first = first;
    QG_TRY(qg_drive_run(ctx, &d));
    r->done += feed.n;
    return qg_stats_mark(c->stats, first, end);
}

uint64_t qg_collect_nan(const qg_collect_run *r)
{
    uint64_t first = UINT64_MAX;
    for (size_t i = 0; i < r->collector.n; i++)
        first = r->collector.nan[i] < first ? r->collector.nan[i] : first;
    return first;
}

/* The largest tensor may be copied, and its counters are next to it.  Of the inputs two
 * samples are there (ahead.h), as stored and as float32. */
size_t qg_collect_bytes(const qg_collect_run *r)
{
    const qg_graph *g = r->c->graph;
    int64_t most = 0, inputs = 0;
    for (size_t i = 0; i < g->input.n; i++)
        inputs += qg_tensor_known(&g->input.at[i]->type)
                      ? qg_tensor_count(&g->input.at[i]->type)
                      : 0;
    for (size_t i = 0; i < g->value.n; i++) {
        int64_t n = qg_tensor_count(&g->value.at[i]->type);
        most = n > most ? n : most;
    }
    return r->plan->report.bytes + (size_t)(most + 4 * inputs) * sizeof(float) +
           (size_t)QG_STATS_BINS * 32;
}

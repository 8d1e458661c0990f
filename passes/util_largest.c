#include "passes/util_largest.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>

#include "engine/exec/drive.h"
#include "engine/calib/observer.h"

/* Shared by all workers: the observer minmax per channel. */
typedef struct search {
    qg_pass_env *env;
    const uint8_t *wanted;
    qg_observe *observe; /* [nodes] channels 0: not requested */
    size_t *offset;      /* [nodes] of its state in a block */
    size_t bytes;        /* of a block */
    char *total;
    pthread_mutex_t lock; /* of total */
} search;

typedef struct worker {
    search *s;
    char *state;
    qg_arena *scratch;
} worker;

/* Offset of each requested node, the same in all blocks. */
static void begin_states(const search *s, char *state)
{
    for (size_t i = 0; i < s->env->graph->node.n; i++)
        if (s->observe[i].channels)
            s->observe[i].observer->begin(&s->observe[i], state + s->offset[i]);
}

static qg_status worker_begin(void *ud, qg_ctx *ctx, void **out)
{
    search *s = ud;
    worker *w = QG_NEW(ctx->arena, worker);
    if (!w)
        return qg_nomem(ctx);
    *w = (worker){ .s = s,
                   .state = qg_arena_get(ctx->arena, 1, s->bytes),
                   .scratch = qg_arena_new(ctx->alloc) };
    if (!w->state || !w->scratch) {
        qg_arena_free(w->scratch);
        return qg_nomem(ctx);
    }
    begin_states(s, w->state);
    *out = w;
    return QG_OK;
}

static int axis_of(const search *s, size_t node, const qg_tensor *y)
{
    return s->wanted[node] == QG_LARGEST_LAST ? y->rank - 1 : 1;
}

/* Float runs do not quantize, so the hook is called once per output. */
static qg_status worker_see(void *state, qg_ctx *ctx, size_t sample,
                            const qg_hook_point *at, qg_tensor *value)
{
    worker *w = state;
    const search *s = w->s;
    uint32_t node = at->endpoint.node->id;
    if (!at->endpoint.is_output || at->endpoint.slot != 0 ||
        !s->observe[node].channels || qg_tensor_count(value) == 0)
        return QG_OK;
    assert(value->rank >= 2 &&
           (size_t)value->dim[axis_of(s, node, value)] == s->observe[node].channels);
    qg_arena_reset(w->scratch);
    const qg_observe *o = &s->observe[node];
    return o->observer->see(ctx, o, w->state + s->offset[node], sample, value,
                            w->scratch);
}

static void worker_end(void *ud, void *state)
{
    search *s = ud;
    worker *w = state;
    (void)pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->env->graph->node.n; i++)
        if (s->observe[i].channels)
            s->observe[i].observer->merge(&s->observe[i], s->total + s->offset[i],
                                          w->state + s->offset[i]);
    (void)pthread_mutex_unlock(&s->lock);
    qg_arena_free(w->scratch);
}

/* Lays out the states of all requested nodes in one block. */
static qg_status prepare(search *s, qg_arena *a)
{
    static const qg_observer_setting setting = { .name = "minmax" };
    const qg_graph *g = s->env->graph;
    s->observe = QG_NEWN(a, g->node.n, qg_observe);
    s->offset = QG_NEWN(a, g->node.n, size_t);
    if (!s->observe || !s->offset)
        return qg_nomem(s->env->ctx);
    for (size_t i = 0; i < g->node.n; i++) {
        if (!s->wanted[i])
            continue;
        const qg_tensor *type = &g->node.at[i]->out[0]->type;
        const int axis = axis_of(s, i, type);
        qg_scheme *channels = QG_NEW(a, qg_scheme);
        assert(type->rank >= 2 && type->dim[axis] > 0);
        if (!channels)
            return qg_nomem(s->env->ctx);
        *channels = (qg_scheme){ .policy = QG_PER_CHANNEL | QG_LINEAR | QG_SYMMETRIC,
                                 .bits = 8,
                                 .axis = (int8_t)axis };
        s->observe[i] = (qg_observe){ .observer = &qg_observer_minmax,
                                      .scheme = channels,
                                      .setting = &setting,
                                      .channels = (size_t)type->dim[axis],
                                      .samples = qg_pass_samples(s->env) };
        s->offset[i] = s->bytes;
        s->bytes += (qg_observe_bytes(&s->observe[i]) + 15) / 16 * 16;
    }
    s->total = qg_arena_get(a, 1, s->bytes);
    if (!s->total)
        return qg_nomem(s->env->ctx);
    begin_states(s, s->total);
    return QG_OK;
}

/* The lock and the plan are released on success and failure. */
static qg_status run_samples(search *s)
{
    qg_pass_env *env = s->env;
    qg_plan_options o = { .mode = QG_MODE_FLOAT,
                          .input = env->feed->shape,
                          .watch = s->wanted,
                          .reference = true };
    qg_plan *plan;
    QG_TRY(qg_plan_new(env->ctx, env->graph, &o, &plan));
    qg_drive d = { .plan = plan,
                   .feed = env->feed,
                   .n = qg_pass_samples(env),
                   .jobs = env->options.jobs,
                   .ud = s,
                   .begin = worker_begin,
                   .end = worker_end,
                   .see = worker_see,
                   .progress = env->progress,
                   .stage = env->at_work->name };
    (void)pthread_mutex_init(&s->lock, NULL);
    qg_status status = qg_drive_run(env->ctx, &d);
    (void)pthread_mutex_destroy(&s->lock);
    qg_plan_free(plan);
    return status;
}

/* max(|low|, |high|) of each channel. */
static qg_status read_largest(const search *s, size_t node, qg_arena *a, float **out)
{
    size_t n = s->observe[node].channels;
    qg_found f = { .low = QG_NEWN(a, n, double), .high = QG_NEWN(a, n, double) };
    float *largest = QG_NEWN(a, n, float);
    if (!f.low || !f.high || !largest)
        return qg_nomem(s->env->ctx);
    QG_TRY(qg_observer_minmax.finish(s->env->ctx, &s->observe[node],
                                     s->total + s->offset[node], a, &f));
    for (size_t c = 0; c < n; c++)
        largest[c] = (float)fmax(fabs(f.low[c]), fabs(f.high[c]));
    *out = largest;
    return QG_OK;
}

size_t qg_pass_samples(const qg_pass_env *env)
{
    size_t n = env->feed ? env->feed->n : 0;
    return env->options.samples && env->options.samples < n ? env->options.samples : n;
}

qg_status qg_largest_outputs(qg_pass_env *env, const uint8_t *wanted, qg_arena *a,
                             float ***largest)
{
    search s = { .env = env, .wanted = wanted };
    float **row = QG_NEWN(a, env->graph->node.n, float *);
    if (!row)
        return qg_nomem(env->ctx);
    if (qg_pass_samples(env) == 0)
        return qg_fail(env->ctx, QG_EDATA,
                       "%s: there are no samples, expected calibration data",
                       env->at_work->name);
    QG_TRY(prepare(&s, a));
    QG_TRY(run_samples(&s));
    for (size_t i = 0; i < env->graph->node.n; i++)
        if (wanted[i])
            QG_TRY(read_largest(&s, i, a, &row[i]));
    *largest = row;
    return QG_OK;
}

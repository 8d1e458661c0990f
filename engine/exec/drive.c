#include "engine/exec/drive.h"

#include <assert.h>

#include "engine/exec/meter.h"
#include "engine/exec/pool.h"

/* Shared by all workers. */
typedef struct driver {
    const qg_drive *d;
    qg_ahead *ahead;
    qg_meter meter;
} driver;

typedef struct worker {
    qg_run *run;
    qg_sample sample; /* the one it computes */
    void *state;      /* the caller's */
} worker;

/* Takes a worker that was made half way: pool calls end for everything that begin has
 * set. */
static void worker_free(void *ud, void *state)
{
    const driver *v = ud;
    worker *w = state;
    if (w->state && v->d->end)
        v->d->end(v->d->ud, w->state);
    qg_run_free(w->run);
    qg_arena_free(w->sample.arena);
}

static qg_status worker_make(void *ud, qg_ctx *ctx, void **state)
{
    const qg_drive *d = ((driver *)ud)->d;
    assert(d && d->plan);
    worker *w = QG_NEW(ctx->arena, worker);
    if (!w)
        return qg_nomem(ctx);
    *state = w; /* released by worker_free, however far we come */
    w->sample.arena = qg_arena_new(ctx->alloc);
    if (!w->sample.arena)
        return qg_nomem(ctx);
    QG_TRY(qg_run_new(ctx, d->plan, &w->run));
    return d->begin ? d->begin(d->ud, ctx, &w->state) : QG_OK;
}

/* One sample from taking it to done. */
static qg_status work_one(driver *v, qg_ctx *ctx, worker *w, size_t sample)
{
    const qg_drive *d = v->d;
    qg_hook hook = { .see = d->see, .ud = w->state };
    QG_TRY(qg_ahead_take(v->ahead, ctx, sample, &w->sample));
    QG_TRY(qg_run_execute(w->run, w->sample.in, &hook, d->see ? 1 : 0, sample));
    if (d->done)
        QG_TRY(d->done(d->ud, ctx, w->state, sample, w->run));
    return qg_meter_add(&v->meter, ctx, 1);
}

static qg_status work(void *ud, qg_ctx *ctx, void *state, size_t sample)
{
    driver *v = ud;
    qg_status s = work_one(v, ctx, state, sample);
    if (s != QG_OK && v->d->failed)
        v->d->failed(v->d->ud, sample);
    return s;
}

qg_status qg_drive_run(qg_ctx *ctx, const qg_drive *d)
{
    assert(d->plan && (d->n == 0 || d->feed));
    driver v = { .d = d };
    if (d->n == 0)
        return QG_OK;
    unsigned workers = qg_pool_workers(d->jobs, d->n);
    QG_TRY(qg_ahead_open(ctx, d->feed, d->n, d->plan->graph->input.n,
                         d->n > workers ? workers : 0, &v.ahead));
    qg_meter_begin(&v.meter, d->progress, d->stage, d->total ? d->total : d->n);
    v.meter.done = d->before;
    qg_job job = { .n = d->n,
                   .workers = d->jobs,
                   .begin = worker_make,
                   .work = work,
                   .end = worker_free,
                   .ud = &v,
                   .meter = &v.meter };
    qg_status s = qg_pool_run(ctx, &job);
    qg_meter_end(&v.meter);
    qg_ahead_close(v.ahead);
    return s;
}

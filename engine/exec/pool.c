#define _GNU_SOURCE /* sched_getaffinity */
#include "engine/exec/pool.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { MAX_WORKERS = 256 };

typedef struct pool {
    const qg_job *job;
    atomic_size_t next, first_bad; /* first_bad: lowest failing index so far */
} pool;

typedef struct worker {
    pool *pool;
    qg_ctx *ctx;
    qg_status status;
    size_t bad; /* index that failed here */
    pthread_t thread;
} worker;

/* The affinity mask, not the machine: a container or taskset may allow fewer. */
unsigned qg_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int n = CPU_COUNT(&set);
    return n < 1 ? 1 : (unsigned)n;
}

unsigned qg_pool_workers(unsigned asked, size_t n)
{
    unsigned workers = asked ? asked : qg_cores();
    workers = workers > MAX_WORKERS ? MAX_WORKERS : workers;
    return workers > n ? (unsigned)n : workers;
}

/* *at = min(*at, value), whatever other threads do meanwhile. */
static void lower(atomic_size_t *at, size_t value)
{
    size_t seen = atomic_load(at);
    while (value < seen && !atomic_compare_exchange_weak(at, &seen, value))
        continue;
}

/* Indices above a failed one are skipped, those below still run: the lowest wins. */
static void work_through(worker *w, void *state)
{
    const qg_job *job = w->pool->job;
    for (;;) {
        size_t i = atomic_fetch_add(&w->pool->next, 1);
        if (i >= job->n || i > atomic_load(&w->pool->first_bad))
            return;
        qg_status s = job->work(job->ud, w->ctx, state, i);
        if (s != QG_OK) {
            w->status = s;
            w->bad = i;
            lower(&w->pool->first_bad, i);
            return;
        }
    }
}

/* A worker whose begin fails takes no index; its status counts like that of index 0. */
static void *worker_main(void *arg)
{
    worker *w = arg;
    const qg_job *job = w->pool->job;
    void *state = NULL;
    if (job->begin)
        w->status = job->begin(job->ud, w->ctx, &state);
    if (w->status == QG_OK)
        work_through(w, state);
    if (job->end && state)
        job->end(job->ud, state);
    return NULL;
}

/* Whether a takes precedence over b: cancellation by the caller precedes failures,
 * which may follow from it; of failures, that of the lowest index. */
static bool goes_before(const worker *a, const worker *b)
{
    bool x = a->status == QG_ECANCELED, y = b->status == QG_ECANCELED;
    return x != y ? x : a->bad < b->bad;
}

/* The status and message to report, out of those of all workers. */
static qg_status verdict(qg_ctx *ctx, const worker *w, unsigned n)
{
    assert(n > 0);
    const worker *worst = NULL;
    for (unsigned k = 0; k < n; k++)
        if (w[k].status != QG_OK && (!worst || goes_before(&w[k], worst)))
            worst = &w[k];
    if (!worst)
        return QG_OK;
    (void)snprintf(ctx->message, sizeof ctx->message, "%s", worst->ctx->message);
    return worst->status;
}

/* When a thread cannot be made the others do its work: fewer workers, the same
 * result. */
static unsigned start(worker *w, unsigned n)
{
    unsigned started = 1; /* worker 0 is the calling thread */
    while (started < n &&
           pthread_create(&w[started].thread, NULL, worker_main, &w[started]) == 0)
        started++;
    return started;
}

/* Contexts are forked before any thread starts and freed after the last has ended. */
qg_status qg_pool_run(qg_ctx *ctx, const qg_job *job)
{
    assert(job->n == 0 || job->work);
    unsigned n = qg_pool_workers(job->workers, job->n);
    if (n == 0)
        return QG_OK;
    pool p = { .job = job };
    atomic_init(&p.next, 0);
    atomic_init(&p.first_bad, SIZE_MAX);
    worker *w = ctx->alloc.get(ctx->alloc.ud, n * sizeof *w);
    if (!w)
        return qg_nomem(ctx);
    qg_status s = QG_OK;
    unsigned forked = 0;
    for (; forked < n && s == QG_OK; forked++) {
        w[forked] = (worker){ .pool = &p, .ctx = qg_ctx_fork(ctx), .bad = SIZE_MAX };
        s = w[forked].ctx ? QG_OK : qg_nomem(ctx);
    }
    if (s == QG_OK) {
        unsigned started = start(w, n);
        (void)worker_main(&w[0]);
        for (unsigned k = 1; k < started; k++)
            (void)pthread_join(w[k].thread, NULL);
        s = verdict(ctx, w, n);
    }
    for (unsigned k = 0; k < forked; k++)
        qg_ctx_free(w[k].ctx);
    ctx->alloc.drop(ctx->alloc.ud, w);
    return s;
}

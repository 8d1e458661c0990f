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

/* Looks at the state of a job before a thread sleeps: some hundred microseconds, longer
 * than most steps that one thread computes alone. */
enum { LOOKS = 1 << 13 };

/* qg_team.gate: threads at work besides the caller, whether it is too late to join
 * them, and the number of the job. */
#define CLOSED (UINT64_C(1) << 31)
#define JOB    (UINT64_C(1) << 32)

typedef struct member {
    qg_team *team;
    qg_ctx *ctx;
    qg_status status;
    size_t bad; /* index that failed here */
    pthread_t thread;
} member;

/* Members 1 .. started - 1 are threads that wait for jobs.  Posting, joining and
 * leaving a job take no lock: threads that look for a job see it at once, and only
 * those that sleep need `lock`. */
struct qg_team {
    qg_ctx *ctx;
    unsigned forked, started;
    const qg_job *job;       /* of the current job; read by those that joined it */
    atomic_size_t next;      /* index that nobody has taken */
    atomic_size_t first_bad; /* lowest failing index so far */
    _Atomic uint64_t gate;   /* see JOB */
    atomic_uint asleep;      /* threads that wait for `called` */
    atomic_bool waits;       /* the caller waits for `ended` */
    atomic_bool stop;
    pthread_mutex_t lock;         /* of those that sleep */
    pthread_cond_t called, ended; /* a job, or `stop`; the last one at work ended */
    member member[];              /* [forked]; [0]: the calling thread */
};

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

unsigned qg_pool_share(unsigned asked, size_t n)
{
    const unsigned workers = qg_pool_workers(asked, n);
    return workers > 0 ? qg_pool_workers(asked, SIZE_MAX) / workers : 1;
}

/* *at = min(*at, value), whatever other threads do meanwhile. */
static void lower(atomic_size_t *at, size_t value)
{
    size_t seen = atomic_load(at);
    while (value < seen && !atomic_compare_exchange_weak(at, &seen, value))
        continue;
}

/* Indices above a failed one are skipped, those below still run: the lowest wins. */
static void work_through(member *m, void *state)
{
    qg_team *t = m->team;
    const qg_job *job = t->job;
    for (;;) {
        size_t i = atomic_fetch_add(&t->next, 1);
        if (i >= job->n || i > atomic_load(&t->first_bad))
            return;
        qg_status s = job->work(job->ud, m->ctx, state, i);
        if (s != QG_OK) {
            m->status = s;
            m->bad = i;
            lower(&t->first_bad, i);
            return;
        }
    }
}

/* A worker whose begin fails takes no index; its status counts like that of index 0. */
static void take_part(member *m)
{
    const qg_job *job = m->team->job;
    void *state = NULL;
    m->ctx->watch = job->meter ? qg_meter_watch(job->meter) : m->team->ctx->watch;
    if (job->begin)
        m->status = job->begin(job->ud, m->ctx, &state);
    if (m->status == QG_OK)
        work_through(m, state);
    if (job->end && state)
        job->end(job->ud, state);
}

/* --- waiting --- */

/* A hint to the core that this is a loop of looks. */
static void look_again(void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#endif
}

static bool is_posted(qg_team *t, uint64_t seen)
{
    return atomic_load(&t->gate) / JOB != seen;
}

/* Until a job after number `seen` is there; false: none will come. */
static bool wait_for_job(qg_team *t, uint64_t seen)
{
    for (int i = 0; i < LOOKS && !t->stop && !is_posted(t, seen); i++)
        look_again();
    if (is_posted(t, seen))
        return true;
    (void)pthread_mutex_lock(&t->lock);
    atomic_fetch_add(&t->asleep, 1); /* before the look: post has the opposite order */
    while (!t->stop && !is_posted(t, seen))
        (void)pthread_cond_wait(&t->called, &t->lock);
    atomic_fetch_sub(&t->asleep, 1);
    (void)pthread_mutex_unlock(&t->lock);
    return is_posted(t, seen);
}

static void leave_job(qg_team *t)
{
    if (atomic_fetch_sub(&t->gate, 1) % JOB != CLOSED + 1 || !atomic_load(&t->waits))
        return;
    (void)pthread_mutex_lock(&t->lock);
    (void)pthread_cond_signal(&t->ended);
    (void)pthread_mutex_unlock(&t->lock);
}

/* The newest job, which stays open until all that joined it have left; false: it is
 * closed. */
static bool join_job(qg_team *t, uint64_t *number)
{
    const uint64_t gate = atomic_fetch_add(&t->gate, 1);
    *number = gate / JOB;
    if (!(gate & CLOSED))
        return true;
    leave_job(t);
    return false;
}

static void *member_main(void *arg)
{
    member *m = arg;
    qg_team *t = m->team;
    uint64_t seen = 0;
    while (wait_for_job(t, seen)) {
        if (!join_job(t, &seen))
            continue;
        take_part(m);
        leave_job(t);
    }
    return NULL;
}

static void post(qg_team *t, const qg_job *job)
{
    for (unsigned k = 0; k < t->forked; k++) {
        t->member[k].status = QG_OK;
        t->member[k].bad = SIZE_MAX;
    }
    atomic_store(&t->next, 0);
    atomic_store(&t->first_bad, SIZE_MAX);
    t->job = job;
    atomic_fetch_add(&t->gate, JOB - CLOSED); /* it is closed: opens it */
    if (atomic_load(&t->asleep) == 0)
        return;
    (void)pthread_mutex_lock(&t->lock);
    (void)pthread_mutex_unlock(&t->lock);
    (void)pthread_cond_broadcast(&t->called);
}

/* Threads at work end; all others are too late. */
static void close_job(qg_team *t)
{
    atomic_fetch_or(&t->gate, CLOSED);
    for (int i = 0; i < LOOKS && atomic_load(&t->gate) % JOB != CLOSED; i++)
        look_again();
    if (atomic_load(&t->gate) % JOB == CLOSED)
        return;
    (void)pthread_mutex_lock(&t->lock);
    /* Before the look: leave_job has the opposite order. */
    atomic_store(&t->waits, true);
    while (atomic_load(&t->gate) % JOB != CLOSED)
        (void)pthread_cond_wait(&t->ended, &t->lock);
    atomic_store(&t->waits, false);
    (void)pthread_mutex_unlock(&t->lock);
}

/* --- results --- */

/* Whether a takes precedence over b: cancellation by the caller precedes failures,
 * which may follow from it; of failures, that of the lowest index. */
static bool goes_before(const member *a, const member *b)
{
    bool x = a->status == QG_ECANCELED, y = b->status == QG_ECANCELED;
    return x != y ? x : a->bad < b->bad;
}

/* The status and message to report, out of those of all workers. */
static qg_status verdict(qg_ctx *ctx, const member *m, unsigned n)
{
    assert(n > 0);
    const member *worst = NULL;
    for (unsigned k = 0; k < n; k++)
        if (m[k].status != QG_OK && (!worst || goes_before(&m[k], worst)))
            worst = &m[k];
    if (!worst)
        return QG_OK;
    (void)snprintf(ctx->message, sizeof ctx->message, "%s", worst->ctx->message);
    return worst->status;
}

/* --- teams --- */

qg_status qg_team_run(qg_team *t, qg_ctx *ctx, const qg_job *job)
{
    assert(job->n == 0 || job->work);
    if (job->n == 0)
        return QG_OK;
    post(t, job);
    take_part(&t->member[0]);
    close_job(t);
    return verdict(ctx, t->member, t->forked);
}

void qg_team_free(qg_team *t)
{
    if (!t)
        return;
    (void)pthread_mutex_lock(&t->lock);
    t->stop = true;
    (void)pthread_mutex_unlock(&t->lock);
    (void)pthread_cond_broadcast(&t->called);
    for (unsigned k = 1; k < t->started; k++)
        (void)pthread_join(t->member[k].thread, NULL);
    for (unsigned k = 0; k < t->forked; k++)
        qg_ctx_free(t->member[k].ctx);
    (void)pthread_cond_destroy(&t->called);
    (void)pthread_cond_destroy(&t->ended);
    (void)pthread_mutex_destroy(&t->lock);
    t->ctx->alloc.drop(t->ctx->alloc.ud, t);
}

/* Contexts are forked before any thread starts.  When a thread cannot be made the
 * others do its work: fewer workers, the same result. */
static qg_status fill(qg_team *t, unsigned workers)
{
    for (; t->forked < workers; t->forked++) {
        t->member[t->forked] = (member){ .team = t, .ctx = qg_ctx_fork(t->ctx) };
        if (!t->member[t->forked].ctx)
            return qg_nomem(t->ctx);
    }
    t->started = 1;
    while (t->started < workers &&
           pthread_create(&t->member[t->started].thread, NULL, member_main,
                          &t->member[t->started]) == 0)
        t->started++;
    return QG_OK;
}

qg_status qg_team_new(qg_ctx *ctx, unsigned workers, qg_team **out)
{
    assert(workers > 0);
    qg_team *t = ctx->alloc.get(ctx->alloc.ud, sizeof *t + workers * sizeof *t->member);
    if (!t)
        return qg_nomem(ctx);
    *t = (qg_team){ .ctx = ctx, .gate = CLOSED };
    (void)pthread_mutex_init(&t->lock, NULL);
    (void)pthread_cond_init(&t->called, NULL);
    (void)pthread_cond_init(&t->ended, NULL);
    qg_status s = fill(t, workers);
    if (s == QG_OK)
        *out = t;
    else
        qg_team_free(t);
    return s;
}

qg_status qg_pool_run(qg_ctx *ctx, const qg_job *job)
{
    qg_team *t;
    unsigned workers = qg_pool_workers(job->workers, job->n);
    if (workers == 0)
        return QG_OK;
    QG_TRY(qg_team_new(ctx, workers, &t));
    qg_status s = qg_team_run(t, ctx, job);
    qg_team_free(t);
    return s;
}

/* Samples read ahead: the right ones, each once, no more than there is room for, and
 * nobody waits for another one's sample. */
#include "tests/support/test.h"

#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "engine/core/rng.h"
#include "engine/exec/ahead.h"
#include "engine/exec/pool.h"
#include "tests/support/faulty.h"

enum { N = 200, BAD = 57 };

/* A feed whose sample i is the number i, after a while; who looked, and how often. */
typedef struct source {
    atomic_int begun[N], done[N];
    atomic_int all;  /* fetches that began */
    bool fails;      /* at sample BAD */
    size_t hold, on; /* sample `hold` waits for sample `on`, unless they are equal */
    qg_ahead *ahead;
} source;

/* Whether x becomes at least n within some seconds. */
static bool becomes(const atomic_int *x, int n)
{
    const struct timespec pause = { 0, 1000000 };
    for (int i = 0; i < 10000 && atomic_load(x) < n; i++)
        (void)nanosleep(&pause, NULL);
    return atomic_load(x) >= n;
}

static qg_status fetch(void *ud, qg_ctx *ctx, qg_arena *a, size_t i,
                       const qg_tensor **in)
{
    source *s = ud;
    qg_rng rng = { i };
    atomic_fetch_add(&s->begun[i], 1);
    atomic_fetch_add(&s->all, 1);
    qg_tensor *t = QG_NEW(a, qg_tensor);
    int64_t dim[] = { 1 };
    if (!t)
        return qg_nomem(ctx);
    for (uint32_t k = qg_rng_below(&rng, 16); k > 0; k--)
        (void)sched_yield();
    if (i == s->hold && s->hold != s->on && !becomes(&s->done[s->on], 1))
        return qg_fail(ctx, QG_EIO, "sample %zu never came", s->on);
    if (s->fails && i == BAD)
        return qg_fail(ctx, QG_EDATA, "sample %zu is bad", i);
    qg_tensor_init(t, QG_F32, 1, dim);
    QG_TRY(qg_tensor_alloc(ctx, a, t));
    t->f32[0] = (float)i;
    in[0] = t;
    atomic_fetch_add(&s->done[i], 1);
    return QG_OK;
}

static qg_status begin(void *ud, qg_ctx *ctx, void **state)
{
    (void)ud;
    qg_sample *mine = QG_NEW(ctx->arena, qg_sample);
    if (!mine || !(mine->arena = qg_arena_new(ctx->alloc)))
        return qg_nomem(ctx);
    *state = mine;
    return QG_OK;
}

static void end(void *ud, void *state)
{
    (void)ud;
    qg_arena_free(((qg_sample *)state)->arena);
}

/* The sample is still there after others were read. */
static qg_status work(void *ud, qg_ctx *ctx, void *state, size_t i)
{
    source *s = ud;
    qg_sample *mine = state;
    QG_TRY(qg_ahead_take(s->ahead, ctx, i, mine));
    (void)sched_yield();
    return mine->in[0]->f32[0] == (float)i
               ? QG_OK
               : qg_fail(ctx, QG_EMODEL, "sample %zu is another one", i);
}

static qg_status drive(qg_ctx *ctx, source *s, size_t n, unsigned jobs, unsigned slots)
{
    qg_feed feed = { .n = n, .fetch = fetch, .ud = s };
    QG_TRY(qg_ahead_open(ctx, &feed, n, 1, slots, &s->ahead));
    qg_job job = { n, jobs, begin, work, end, s, NULL };
    qg_status status = qg_pool_run(ctx, &job);
    qg_ahead_close(s->ahead);
    return status;
}

static void every_worker_gets_its_sample(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    for (unsigned jobs = 1; jobs <= 4; jobs++)
        for (unsigned slots = 0; slots <= 5; slots++) {
            source s = { .all = 0 };
            assert_ok(ctx, drive(ctx, &s, N, jobs, slots));
            for (size_t i = 0; i < N; i++)
                assert_int_equal(atomic_load(&s.begun[i]), 1);
        }
    qg_ctx_free(ctx);
}

static void the_next_is_read_while_one_is_held(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    source s = { .all = 0 };
    qg_feed feed = { .n = N, .fetch = fetch, .ud = &s };
    qg_sample mine = { .arena = qg_arena_new(qg_alloc_libc) };
    const struct timespec pause = { 0, 20000000 };
    assert_ok(ctx, qg_ahead_open(ctx, &feed, N, 1, 3, &s.ahead));
    for (size_t i = 0; i < 5; i++) {
        assert_ok(ctx, qg_ahead_take(s.ahead, ctx, i, &mine));
        assert_true(becomes(&s.done[i + 3], 1)); /* nobody asked for it */
        (void)nanosleep(&pause, NULL);
        assert_int_equal(atomic_load(&s.begun[i + 4]), 0); /* there is no room */
        assert_cmp_f64(mine.in[0]->f32[0], ==, (float)i);
    }
    qg_ahead_close(s.ahead);
    assert_int_equal(atomic_load(&s.all), 8);
    qg_arena_free(mine.arena);
    qg_ctx_free(ctx);
}

/* Sample 1 is not there before 2 is: whoever wants 2 reads it, whatever the reader is
 * at. */
static void nobody_waits_for_another_sample(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    for (unsigned slots = 0; slots <= 2; slots++) {
        source s = { .hold = 1, .on = 2 };
        assert_ok(ctx, drive(ctx, &s, 8, 2, slots));
    }
    qg_ctx_free(ctx);
}

static void a_failure_is_that_of_the_sample(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    for (unsigned jobs = 1; jobs <= 3; jobs++)
        for (unsigned slots = 0; slots <= 3; slots++) {
            source s = { .fails = true };
            assert_fails(ctx, drive(ctx, &s, N, jobs, slots), QG_EDATA,
                         "sample 57 is bad");
        }
    qg_ctx_free(ctx);
}

static qg_status open_and_close(qg_alloc alloc, void *ud)
{
    qg_feed feed = { .fetch = fetch, .ud = ud };
    qg_ahead *h = NULL;
    qg_ctx *ctx = qg_ctx_new(alloc);
    if (!ctx)
        return QG_ENOMEM;
    qg_status s = qg_ahead_open(ctx, &feed, 0, 1, 3, &h);
    if (s == QG_OK)
        qg_ahead_close(h);
    qg_ctx_free(ctx);
    return s;
}

static void memory_that_is_not_there_is_told(void **state)
{
    (void)state;
    source s = { .all = 0 };
    every_request_may_fail(open_and_close, &s, 6);
}

QG_TEST_MAIN(cmocka_unit_test(every_worker_gets_its_sample),
             cmocka_unit_test(the_next_is_read_while_one_is_held),
             cmocka_unit_test(nobody_waits_for_another_sample),
             cmocka_unit_test(a_failure_is_that_of_the_sample),
             cmocka_unit_test(memory_that_is_not_there_is_told))

/* The allocator of the host: all of our memory comes from it and goes back to it, and
 * when it has no more the answer is QG_ENOMEM. */
#include "tests/support/test.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/support/scratch.h"
#include "tests/support/verbs.h"

/* Called from many threads. */
typedef struct host {
    atomic_long calls, live;
    atomic_long foreign; /* pointers dropped that were never got */
    atomic_long refused;
    long fail_at; /* -1: never */
    bool sticky;  /* and all later requests */
} host;

/* In front of every block. */
enum { FRONT = 32 };
static const uint64_t OURS = UINT64_C(0x1d8af066b5a70be3);

static void *get(void *ud, size_t size)
{
    host *h = ud;
    long call = atomic_fetch_add(&h->calls, 1);
    if (h->fail_at >= 0 && (h->sticky ? call >= h->fail_at : call == h->fail_at)) {
        atomic_fetch_add(&h->refused, 1);
        return NULL;
    }
    char *p = malloc(size + FRONT);
    if (!p)
        return NULL;
    memset(p, 0xA5, size + FRONT); /* not zeroed: nobody may count on it */
    memcpy(p, &OURS, sizeof OURS);
    atomic_fetch_add(&h->live, 1);
    return p + FRONT;
}

static void drop(void *ud, void *block)
{
    host *h = ud;
    char *p = block ? (char *)block - FRONT : NULL;
    if (!p || memcmp(p, &OURS, sizeof OURS) != 0) {
        atomic_fetch_add(&h->foreign, 1);
        return;
    }
    atomic_fetch_sub(&h->live, 1);
    free(p);
}

static qg_status open_with(host *h, qg_ctx **out)
{
    qg_open_options o;
    qg_open_options_init(&o, sizeof o);
    o.alloc = (qg_alloc){ get, drop, h };
    return qg_open(&o, out);
}

static void assert_balanced(const host *h, const char *what)
{
    if (h->live || h->foreign)
        fail_msg("%s: %ld blocks kept, %ld foreign ones dropped, of %ld requests", what,
                 (long)h->live, (long)h->foreign, (long)h->calls);
}

static void every_verb_gives_back_what_it_got(void **state)
{
    char output[SCRATCH_PATH];
    (void)state;
    for (const verb_row *v = verbs; v->name; v++)
        for (unsigned jobs = 1; jobs <= 4; jobs += 3) {
            host h = { .fail_at = -1 };
            qg_ctx *ctx;
            qg_report *r = NULL;
            assert_int_equal(open_with(&h, &ctx), QG_OK);
            qg_model *m = verb_model(ctx, v);
            qg_workload w = { .data = VERB_DATA, .samples = 4, .jobs = jobs };
            assert_ok(ctx, v->ask(m, &w, scratch_path(output, "allocator"), &r));
            assert_cmp_int(strlen(qg_report_text(r)), >, 0);
            assert_cmp_int(strlen(qg_report_json(r)), >, 0);
            qg_report_free(r);
            qg_model_close(m);
            qg_close(ctx);
            assert_cmp_int(h.calls, >, 40);
            assert_balanced(&h, v->name);
            if (v->writes)
                assert_int_equal(scratch_remove(output), 0);
        }
}

/* --- no more memory --- */

static qg_status run_and_save(qg_model *m, const qg_workload *w, const char *folder)
{
    qg_run_options run;
    qg_quantize_options quantize;
    qg_report *r = NULL;
    qg_quantize_options_init(&quantize, sizeof quantize);
    quantize.work = *w;
    quantize.backend = "trt-int8";
    QG_TRY(qg_model_quantize(m, &quantize, &r));
    qg_report_free(r);
    qg_run_options_init(&run, sizeof run);
    run.work = *w;
    r = NULL;
    QG_TRY(qg_model_run(m, &run, NULL, &r));
    qg_report_free(r);
    return qg_model_save(m, folder);
}

static qg_status session(host *h, unsigned jobs, const char *folder)
{
    qg_ctx *ctx;
    qg_model *m = NULL;
    qg_workload w = { .data = VERB_DATA, .samples = 3, .jobs = jobs };
    QG_TRY(open_with(h, &ctx));
    qg_status s = qg_model_open(ctx, VERB_MODEL, NULL, &m);
    if (s == QG_OK)
        s = run_and_save(m, &w, folder);
    if (s != QG_OK && !*qg_ctx_message(ctx))
        fail_msg("request %ld failed: no message", h->fail_at);
    qg_model_close(m);
    qg_close(ctx);
    return s;
}

/* All of the first requests, then ever fewer.  How many there are depends on when
 * threads meet: one that is not made cannot fail. */
static void a_failing_request_is_out_of_memory(void **state)
{
    char folder[SCRATCH_PATH];
    struct stat st;
    (void)state;
    (void)scratch_path(folder, "allocator_none");
    for (int sticky = 0; sticky < 2; sticky++)
        for (unsigned jobs = 1; jobs <= 3; jobs += 2) {
            host count = { .fail_at = -1 };
            assert_int_equal(session(&count, jobs, folder), QG_OK);
            assert_int_equal(scratch_remove(folder), 0);
            long all = atomic_load(&count.calls);
            assert_cmp_int(all, >, 200);
            for (long at = 0; at < all; at += at < 40 ? 1 : 1 + at / 24) {
                host h = { .fail_at = at, .sticky = sticky };
                qg_status s = session(&h, jobs, folder);
                if (s != (h.refused ? QG_ENOMEM : QG_OK) || (jobs == 1 && !h.refused))
                    fail_msg("request %ld of %ld failed: %s", at, all,
                             qg_status_name(s));
                assert_balanced(&h, "out of memory");
                if (!h.refused)
                    assert_int_equal(scratch_remove(folder), 0);
                if (stat(folder, &st) == 0)
                    fail_msg("request %ld of %ld failed: left %s", at, all, folder);
            }
        }
}

/* The calls of h before and after quantizing. */
static qg_status quantize(host *h, long *first, long *last)
{
    qg_ctx *ctx;
    qg_model *m = NULL;
    qg_report *r = NULL;
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = "trt-int8";
    o.work = (qg_workload){ .data = VERB_DATA, .samples = 1, .jobs = 1 };
    assert_int_equal(open_with(h, &ctx), QG_OK);
    assert_ok(ctx, qg_model_open(ctx, VERB_MODEL, NULL, &m));
    *first = atomic_load(&h->calls);
    qg_status s = qg_model_quantize(m, &o, &r);
    *last = atomic_load(&h->calls);
    qg_report_free(r);
    qg_model_close(m);
    qg_close(ctx);
    return s;
}

/* The report is made last; every single one of its requests counts. */
static void a_report_that_fails_is_given_back(void **state)
{
    enum { REPORT = 24 };
    long first, last, x, y;
    host count = { .fail_at = -1 };
    (void)state;
    assert_int_equal(quantize(&count, &first, &last), QG_OK);
    assert_cmp_int(last - first, >, REPORT);
    for (long at = last - REPORT; at < last; at++) {
        host h = { .fail_at = at };
        assert_int_equal(quantize(&h, &x, &y), QG_ENOMEM);
        assert_balanced(&h, "quantize");
    }
}

/* One without the other would free what somebody else allocated. */
static void half_an_allocator_is_refused(void **state)
{
    qg_open_options o;
    qg_ctx *ctx = NULL;
    (void)state;
    qg_open_options_init(&o, sizeof o);
    o.alloc.get = qg_alloc_libc.get;
    assert_int_equal(qg_open(&o, &ctx), QG_ECONFIG);
    o.alloc = (qg_alloc){ .drop = qg_alloc_libc.drop };
    assert_int_equal(qg_open(&o, &ctx), QG_ECONFIG);
    assert_null(ctx);
}

QG_TEST_MAIN(cmocka_unit_test(half_an_allocator_is_refused),
             cmocka_unit_test(a_report_that_fails_is_given_back),
             cmocka_unit_test(every_verb_gives_back_what_it_got),
             cmocka_unit_test(a_failing_request_is_out_of_memory))

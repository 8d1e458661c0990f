/* Contexts: messages, extensions, refusals, limits of memory. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "engine/core/clock.h"

/* --- messages --- */

/* A name that would push the reason out of the message is cut, others are not. */
static void long_names_are_cut(void **state)
{
    enum { LONG = 5000, MOST = sizeof((qg_ctx *)0)->message / 8 };
    qg_ctx *ctx = *state;
    char name[LONG + 1];
    memset(name, 'n', LONG);
    name[LONG] = '\0';
    assert_int_equal(qg_fail(ctx, QG_EIO, "%s: 100%% %d of %.1000s", name, 7, name),
                     QG_EIO);
    assert_int_equal(strlen(qg_ctx_message(ctx)), 2 * MOST + strlen(": 100% 7 of "));
    assert_non_null(strstr(qg_ctx_message(ctx), "n: 100% 7 of n"));
    name[2000] = '\0'; /* it fits whole, twice but once cut at 1000 */
    (void)qg_fail(ctx, QG_EIO, "%s|%.1000s", name, name);
    assert_int_equal(strlen(qg_ctx_message(ctx)), 3001);
    (void)qg_fail(ctx, QG_EIO, "%.10s|%s", name, "end");
    assert_string_equal(qg_ctx_message(ctx), "nnnnnnnnnn|end");
}

/* Exactly the room, and one byte more. */
static void messages_fill_their_room(void **state)
{
    enum { ROOM = sizeof((qg_ctx *)0)->message };
    qg_ctx *ctx = *state;
    char *name = malloc(ROOM + 1);
    memset(name, 'n', ROOM);
    name[ROOM - 1] = '\0';
    (void)qg_fail(ctx, QG_EIO, "%s", name);
    assert_int_equal(strlen(qg_ctx_message(ctx)), ROOM - 1);
    name[ROOM - 1] = 'n';
    name[ROOM] = '\0';
    (void)qg_fail(ctx, QG_EIO, "%s", name);
    assert_int_equal(strlen(qg_ctx_message(ctx)), ROOM / 8);
    free(name);
}

static void messages_may_quote_the_last_one(void **state)
{
    qg_ctx *ctx = *state;
    (void)qg_fail(ctx, QG_EIO, "first %f", -NAN);
    assert_string_equal(qg_ctx_message(ctx), "first nan"); /* without a sign */
    (void)qg_fail(ctx, QG_EIO, "second: %s", qg_ctx_message(ctx));
    assert_string_equal(qg_ctx_message(ctx), "second: first nan");
    assert_int_equal(qg_fail(NULL, QG_EIO, "nobody"), QG_EIO);
    assert_string_equal(qg_ctx_message(NULL), "");
}

static void hosts_get_a_message(void **state)
{
    qg_ctx *ctx = *state;
    (void)qg_fail(ctx, QG_EIO, "old");
    qg_host_begin(ctx);
    assert_int_equal(qg_host_end(ctx, QG_OK, "pass", "p"), QG_OK);
    assert_string_equal(qg_ctx_message(ctx), "");
    assert_fails(ctx, qg_host_end(ctx, QG_EMODEL, "pass", "p"), QG_EMODEL,
                 "pass p: the host's function failed with status");
    (void)qg_fail(ctx, QG_EMODEL, "its own");
    assert_int_equal(qg_host_end(ctx, QG_EMODEL, "pass", "p"), QG_EMODEL);
    assert_string_equal(qg_ctx_message(ctx), "its own");
    for (int odd = 0; odd < 2; odd++) {
        qg_status s = (qg_status)(odd ? (int)QG_NSTATUS : -1);
        (void)qg_fail(ctx, QG_EMODEL, "its own");
        assert_fails(ctx, qg_host_end(ctx, s, "operator", "o"), QG_ECONFIG,
                     odd ? "operator o: the host's function failed"
                         : "status -1 and no");
    }
}

/* --- extensions --- */

static void extensions_keep_their_order(void **state)
{
    qg_ctx *ctx = *state;
    int a, b, c;
    assert_null(qg_ctx_added(ctx, QG_ADDED_PASS, "a"));
    assert_ok(ctx, qg_ctx_add(ctx, QG_ADDED_PASS, "a", &a));
    assert_ok(ctx, qg_ctx_add(ctx, QG_ADDED_PASS, "b", &b));
    assert_ok(ctx, qg_ctx_add(ctx, QG_ADDED_OBSERVER, "a", &c));
    assert_ptr_equal(qg_ctx_added(ctx, QG_ADDED_PASS, "a"), &a);
    assert_ptr_equal(qg_ctx_added(ctx, QG_ADDED_PASS, "b"), &b);
    assert_ptr_equal(qg_ctx_added(ctx, QG_ADDED_OBSERVER, "a"), &c);
    assert_null(qg_ctx_added(ctx, QG_ADDED_OBSERVER, "b"));
    assert_string_equal(ctx->added[QG_ADDED_PASS]->name, "a");
    assert_string_equal(ctx->added[QG_ADDED_PASS]->next->name, "b");
    assert_null(ctx->added[QG_ADDED_PASS]->next->next);
}

static void write_log(void *ud, enum qg_log_level level, const char *text)
{
    (void)level;
    strcat(strcat(ud, text), ";");
}

static void forks_take_after_their_parent(void **state)
{
    qg_ctx *ctx = *state;
    char logged[64] = "";
    int a;
    ctx->log = (qg_log){ write_log, logged, QG_LOG_INFO };
    ctx->limits = (qg_limits){ 3, 4 };
    ctx->registry = (const void *)logged;
    assert_ok(ctx, qg_ctx_add(ctx, QG_ADDED_CONFIG, "a", &a));
    const char *name = qg_intern(ctx, "name");
    qg_ctx *fork = qg_ctx_fork(ctx);
    assert_int_equal(fork->limits.nodes, 3);
    assert_int_equal(fork->limits.ratio, 4);
    assert_ptr_equal(fork->registry, ctx->registry);
    assert_ptr_equal(fork->names, ctx->names);
    assert_ptr_equal(fork->parent, ctx);
    assert_ptr_equal(qg_ctx_added(fork, QG_ADDED_CONFIG, "a"), &a);
    qg_log_to(fork, QG_LOG_INFO, "%s", "at");
    qg_log_to(fork, QG_LOG_DEBUG, "%s", "above");
    qg_warn(ctx, "%f", -NAN);
    assert_string_equal(logged, "at;nan;");
    qg_ctx_free(fork);
    assert_ptr_equal(qg_intern(ctx, "name"), name); /* the names are the parent's */
    assert_ptr_equal(qg_internn(ctx, "names", 4), name);
    assert_int_equal(ctx->limits.nodes, 3);
    qg_ctx *fresh = qg_ctx_new(qg_alloc_libc);
    assert_int_equal(fresh->limits.nodes, QG_MOST_NODES);
    assert_int_equal(fresh->limits.ratio, QG_MOST_RATIO);
    qg_log_to(fresh, QG_LOG_WARNING, "nobody listens");
    qg_ctx_free(fresh);
}

/* --- refusals --- */

static void refusals_are_told_from_failures(void **state)
{
    static const struct {
        qg_status s, left;
    } row[] = {
        {QG_OK,            QG_OK       },
        { QG_EUNSUPPORTED, QG_OK       },
        { QG_EMODEL,       QG_OK       },
        { QG_ECONFIG,      QG_OK       },
        { QG_ENOMEM,       QG_ENOMEM   },
        { QG_EMEMORY,      QG_EMEMORY  },
        { QG_EIO,          QG_EIO      },
        { QG_ECANCELED,    QG_ECANCELED}
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        assert_int_equal(qg_refusal(row[i].s), row[i].left);
}

static int step(void *ud, const char *stage, size_t done, size_t n)
{
    assert_string_equal(stage, "work");
    assert_int_equal(done, 2);
    assert_int_equal(n, 3);
    return *(int *)ud;
}

static qg_status ask(void *ud, qg_ctx *ctx)
{
    ++*(int *)ud;
    return qg_ctx_canceled(ctx, "watch");
}

static void callers_can_end_the_work(void **state)
{
    qg_ctx *ctx = *state;
    int answer = 0, asked = 0;
    qg_progress p = { step, &answer };
    assert_ok(ctx, qg_ctx_step(ctx, NULL, "work", 2, 3));
    assert_ok(ctx, qg_ctx_step(ctx, &(qg_progress){ 0 }, "work", 2, 3));
    assert_ok(ctx, qg_ctx_step(ctx, &p, "work", 2, 3));
    answer = 1;
    assert_fails(ctx, qg_ctx_step(ctx, &p, "work", 2, 3), QG_ECANCELED,
                 "work: cancelled by the caller");
    assert_ok(ctx, qg_ctx_go_on(ctx));
    ctx->watch = (qg_cancel_watch){ ask, &asked };
    ctx->asked = 0;
    assert_fails(ctx, qg_ctx_go_on(ctx), QG_ECANCELED, "watch: cancelled");
    assert_cmp_f64(ctx->asked, >, qg_clock_seconds() - 10);
    ctx->asked = qg_clock_seconds() + 100; /* not again so soon */
    assert_ok(ctx, qg_ctx_go_on(ctx));
    assert_int_equal(asked, 1);
}

/* --- memory --- */

static void a_budget_counts_to_its_limit(void **state)
{
    enum { LIMIT = 1000, FRONT = 16 }; /* a size in front of each block */
    qg_budget *b = qg_budget_new(qg_alloc_libc, LIMIT);
    qg_alloc a = qg_budget_alloc(b);
    size_t request = 7, held = 7;
    (void)state;
    assert_int_equal(qg_budget_limit(b), LIMIT);
    assert_false(qg_budget_refused(b, &request, &held));
    assert_true(qg_budget_fits(b, LIMIT));
    assert_false(qg_budget_fits(b, LIMIT + 1));
    unsigned char *p = a.get(a.ud, 500 - FRONT), *q = a.get(a.ud, 500 - FRONT);
    assert_non_null(p);
    assert_non_null(q); /* exactly full */
    memset(p, 1, 500 - FRONT);
    memset(q, 2, 500 - FRONT);
    assert_true(qg_budget_fits(b, 0));
    assert_false(qg_budget_fits(b, 1));
    assert_null(a.get(a.ud, 1));
    assert_true(qg_budget_refused(b, &request, &held));
    assert_int_equal(request, 1);
    assert_int_equal(held, LIMIT);
    a.drop(a.ud, p);
    a.drop(a.ud, NULL);
    assert_true(qg_budget_fits(b, 500));
    assert_false(qg_budget_fits(b, 501));
    assert_null(a.get(a.ud, 501 - FRONT));
    assert_null(a.get(a.ud, SIZE_MAX)); /* the sum with the front wraps */
    assert_null(a.get(a.ud, SIZE_MAX - FRONT + 1));
    assert_true(qg_budget_fits(b, 500)); /* a refusal takes nothing */
    a.drop(a.ud, q);
    assert_true(qg_budget_fits(b, LIMIT));
    qg_budget_free(b);
    qg_budget_free(NULL);
}

static void *none(void *ud, size_t size)
{
    (void)ud, (void)size;
    return NULL;
}

static void what_the_machine_refuses_is_not_counted(void **state)
{
    qg_budget *b = qg_budget_new(qg_alloc_libc, 1000);
    size_t request, held;
    (void)state;
    ((qg_alloc *)b)->get = none; /* that of the allocator below, its first member */
    assert_null(qg_budget_alloc(b).get(b, 100));
    assert_false(qg_budget_refused(b, &request, &held));
    assert_true(qg_budget_fits(b, 1000));
    ((qg_alloc *)b)->get = qg_alloc_libc.get;
    qg_budget_free(b);
    assert_null(qg_budget_new((qg_alloc){ none, NULL, NULL }, 5));
}

static void the_message_names_the_limit(void **state)
{
    qg_ctx *ctx = *state;
    assert_fails(ctx, qg_nomem(ctx), QG_ENOMEM, "out of memory");
    assert_false(qg_memory_unplaced(ctx, QG_ENOMEM));
    assert_int_equal(qg_nomem(NULL), QG_ENOMEM);
    ctx->budget = qg_budget_new(qg_alloc_libc, 3000000);
    qg_alloc a = qg_budget_alloc(ctx->budget);
    assert_fails(ctx, qg_nomem(ctx), QG_ENOMEM, "out of memory"); /* not by the limit */
    void *p = a.get(a.ud, 1000000);
    assert_null(a.get(a.ud, 2500000));
    assert_fails(
        ctx, qg_nomem(ctx), QG_EMEMORY,
        "memory: 2.5 MB more than the 1.0 MB in use, expected at most 3.0 MB in "
        "all (--max-mem)");
    assert_true(qg_memory_unplaced(ctx, QG_EMEMORY));
    assert_false(qg_memory_unplaced(ctx, QG_EMODEL));
    assert_false(qg_memory_unplaced(NULL, QG_EMEMORY));
    (void)qg_fail(ctx, QG_EMEMORY, "run: memory: it has a place");
    assert_false(qg_memory_unplaced(ctx, QG_EMEMORY));
    a.drop(a.ud, p);
    qg_budget_free(ctx->budget);
    ctx->budget = NULL;
}

QG_TEST_MAIN(WITH_CTX(long_names_are_cut), WITH_CTX(messages_fill_their_room),
             WITH_CTX(messages_may_quote_the_last_one), WITH_CTX(hosts_get_a_message),
             WITH_CTX(extensions_keep_their_order),
             WITH_CTX(forks_take_after_their_parent),
             WITH_CTX(refusals_are_told_from_failures),
             WITH_CTX(callers_can_end_the_work),
             cmocka_unit_test(a_budget_counts_to_its_limit),
             cmocka_unit_test(what_the_machine_refuses_is_not_counted),
             WITH_CTX(the_message_names_the_limit))

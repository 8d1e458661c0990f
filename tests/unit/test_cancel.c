/* Work that the caller ends: every verb, at three steps (QG_ALL=1: seven), with one
 * worker and four. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "tests/support/scratch.h"
#include "tests/support/verbs.h"

/* Counts its calls that tell of something new, and wants to end at one of them.  Others
 * only ask, as often as time passes. */
typedef struct caller {
    size_t calls, end_at; /* end_at 0: never */
    size_t done;
    bool ended;
    char stage[32];
} caller;

static int step(void *ud, const char *stage, size_t done, size_t total)
{
    caller *c = ud;
    if (c->ended)
        fail_msg("%s: asked again after the end", stage);
    if (total)
        assert_cmp_int(done, <=, total);
    if (done == 0 || (done == c->done && strcmp(stage, c->stage) == 0))
        return 0;
    c->done = done;
    c->ended = ++c->calls == c->end_at;
    (void)snprintf(c->stage, sizeof c->stage, "%s", stage);
    return c->ended;
}

typedef struct outcome {
    qg_status status;
    size_t calls;
} outcome;

static bool exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

/* The verb on a freshly opened model.  After success what it wrote is removed; after an
 * end there must be nothing, and the message names the stage. */
static outcome ask(qg_ctx *ctx, const verb_row *v, unsigned jobs, size_t end_at)
{
    char output[SCRATCH_PATH], want[64];
    caller c = { .end_at = end_at };
    qg_report *r = NULL;
    qg_model *m = verb_model(ctx, v);
    qg_workload w = {
        .data = VERB_DATA, .samples = 6, .jobs = jobs, .progress = {step, &c}
    };
    qg_status s = v->ask(m, &w, scratch_path(output, "cancel"), &r);
    if (end_at) {
        (void)snprintf(want, sizeof want, "%s: cancelled by the caller", c.stage);
        if (s != QG_ECANCELED || strcmp(qg_ctx_message(ctx), want) != 0 || r)
            fail_msg("%s, %u workers, step %zu: %s '%s', expected '%s'", v->name, jobs,
                     end_at, qg_status_name(s), qg_ctx_message(ctx), want);
        if (exists(output))
            fail_msg("%s, %u workers, step %zu: left %s", v->name, jobs, end_at,
                     output);
    } else {
        if (s != QG_OK)
            fail_msg("%s: %s", v->name, qg_ctx_message(ctx));
        assert_int_equal(exists(output), v->writes);
        if (v->writes)
            assert_int_equal(scratch_remove(output), 0);
    }
    qg_report_free(r);
    qg_model_close(m);
    return (outcome){ s, c.calls };
}

static void every_verb_ends_at_any_step(void **state)
{
    qg_ctx *ctx;
    (void)state;
    assert_int_equal(qg_open(NULL, &ctx), QG_OK);
    for (const verb_row *v = verbs; v->name; v++)
        for (unsigned jobs = 1; jobs <= 4; jobs += 3) {
            size_t all = ask(ctx, v, jobs, 0).calls;
            const size_t at[] = { 1, all / 2, all, 2, all / 4, all - 2, all - 1 };
            assert_cmp_int(all, >=, 6);
            for (size_t i = 0; i < (getenv("QG_ALL") ? 7 : 3); i++)
                assert_int_equal(ask(ctx, v, jobs, at[i]).calls, at[i]);
            if (jobs > 1)
                assert_int_equal(ask(ctx, v, jobs, 0).calls, all);
        }
    qg_close(ctx);
}

/* --- from within a source --- */

/* Gives up when the caller has ended, as a host would. */
typedef struct host {
    caller caller;
    float image[28 * 28];
    qg_tensor x;
} host;

static qg_status fetch(void *ud, size_t index, qg_inputs *inputs)
{
    host *h = ud;
    if (index >= 6)
        return QG_OK;
    return h->caller.ended ? qg_fail(qg_inputs_ctx(inputs), QG_EIO, "camera is off")
                           : qg_inputs_borrow(inputs, NULL, &h->x);
}

/* Also while samples are counted; failures that follow from the end are not told. */
static void an_end_goes_before_failures_that_follow(void **state)
{
    qg_ctx *ctx;
    (void)state;
    assert_int_equal(qg_open(NULL, &ctx), QG_OK);
    for (size_t end_at = 1; end_at <= 10; end_at++)
        for (unsigned jobs = 1; jobs <= 4; jobs++) {
            host h = { .caller = { .end_at = end_at } };
            qg_model *m = NULL;
            qg_run_options o;
            assert_ok(ctx, qg_model_open(ctx, VERB_MODEL, NULL, &m));
            qg_tensor_init(&h.x, QG_F32, 4, (const int64_t[]){ 1, 1, 8, 8 });
            h.x.f32 = h.image;
            qg_source source = { .fetch = fetch, .ud = &h };
            qg_run_options_init(&o, sizeof o);
            o.work = (qg_workload){
                .source = &source, .jobs = jobs, .progress = {step, &h.caller}
            };
            assert_fails(ctx, qg_model_run(m, &o, NULL, NULL), QG_ECANCELED,
                         ": cancelled by the caller");
            qg_model_close(m);
        }
    qg_close(ctx);
}

QG_TEST_MAIN(cmocka_unit_test(every_verb_ends_at_any_step),
             cmocka_unit_test(an_end_goes_before_failures_that_follow))

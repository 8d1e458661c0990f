/* The driver of observers, without a pass: the turnstile, merging, several passes over
 * the data, what it reports and what it refuses. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/calib/calibrate.h"
#include "engine/exec/ahead.h"
#include "engine/ir/infer.h"
#include "engine/ir/text.h"
#include "ops/families.h"

enum { SAMPLES = 40, SIZE = 64, ENDPOINTS = 3 };

static const char *const observers[ENDPOINTS] = { "ort-moving-average", "ppq-kl",
                                                  "minmax" };

typedef struct fixture {
    qg_ctx *ctx;
    qg_graph *graph;
    qg_tqc *endpoint[ENDPOINTS]; /* r.in0, r.out0, s.out0 */
    qg_feed feed;
    qg_calibrate c;
    qg_calibrated found;
    size_t bad;            /* this sample and all behind it have a NaN */
    size_t reported, last; /* calls with a new number, and that number */
    qg_progress progress;
} fixture;

/* The largest element of a sample; neither rising nor falling with its index. */
static float largest(size_t sample) { return 1 + (float)(sample * 7 % SAMPLES); }

static qg_status fetch(void *ud, qg_ctx *ctx, qg_arena *a, size_t sample,
                       const qg_tensor **in)
{
    const fixture *f = ud;
    qg_tensor *t = QG_NEW(a, qg_tensor);
    *t = f->graph->input.at[0]->type;
    QG_TRY(qg_tensor_alloc(ctx, a, t));
    for (int k = 0; k < SIZE; k++)
        t->f32[k] = largest(sample) * (float)(2 * k - SIZE + 2) / SIZE;
    if (sample >= f->bad)
        t->f32[0] = NAN;
    in[0] = t;
    return QG_OK;
}

static int progress(void *ud, const char *stage, size_t done, size_t n)
{
    assert_string_equal(stage, "calibrate");
    assert_cmp_int(done, <=, n);
    assert_int_equal(n, SAMPLES);
    fixture *f = ud;
    f->reported += done > 0 && done != f->last;
    f->last = done;
    return 0;
}

static int open_fixture(void **state)
{
    static fixture room;
    static const qg_scheme scheme = { .policy =
                                          QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC,
                                      .bits = 8,
                                      .qmin = -128,
                                      .qmax = 127,
                                      .axis = -1 };
    fixture *f = &room;
    const char *text = "graph { x = input f32[64]\n"
                       "r = Relu(x)\ns = Sigmoid(r)\noutput s }";
    qg_text_source source = { .name = "g", .text = text, .size = strlen(text) };
    *f = (fixture){ .ctx = qg_ctx_new(qg_alloc_libc), .bad = SIZE_MAX };
    f->ctx->registry = &qg_ops_registry;
    assert_ok(f->ctx, qg_text_parse(f->ctx, &source, &f->graph));
    assert_ok(f->ctx, qg_infer(f->graph, NULL, 0));
    f->progress = (qg_progress){ progress, f };
    f->feed = (qg_feed){ .n = SAMPLES, .fetch = fetch, .ud = f };
    f->c = (qg_calibrate){ .graph = f->graph,
                           .endpoint = f->endpoint,
                           .n_endpoint = ENDPOINTS,
                           .feed = &f->feed,
                           .samples = SAMPLES,
                           .jobs = 1,
                           .progress = &f->progress,
                           .stage = "calibrate",
                           .arena = f->graph->arena };
    assert_ok(f->ctx, qg_quant_new(f->graph, NULL, &f->c.quant));
    for (int i = 0; i < ENDPOINTS; i++) {
        qg_observer_setting setting = { .name = observers[i] };
        assert_ok(f->ctx, qg_quant_add(f->c.quant, f->graph->node.at[i / 2], i > 0, 0,
                                       &scheme, &f->endpoint[i]));
        assert_ok(f->ctx, qg_tqc_set_observer(f->c.quant, f->endpoint[i], &setting));
    }
    *state = f;
    return 0;
}

static int close_fixture(void **state)
{
    fixture *f = *state;
    qg_graph_free(f->graph);
    qg_ctx_free(f->ctx);
    return 0;
}

static void scales_are_those_of_the_samples_in_order(void **state)
{
    fixture *f = *state;
    double average = (double)largest(0);
    for (size_t i = 1; i < SAMPLES; i++)
        average += 0.01 * ((double)largest(i) - average);
    assert_ok(f->ctx, qg_calibrate_run(f->ctx, &f->c, &f->found));
    for (int i = 0; i < ENDPOINTS; i++)
        assert_int_equal(f->endpoint[i]->state, QG_TQC_ACTIVATED);
    assert_float_equal(f->endpoint[0]->scale[0], average * 2 / 255, 1e-6);
    assert_float_equal(f->endpoint[2]->scale[0], 2.0 / 255, 1e-6); /* of a Sigmoid */
}

static void workers_change_nothing(void **state)
{
    fixture *f = *state;
    float scale[ENDPOINTS];
    assert_ok(f->ctx, qg_calibrate_run(f->ctx, &f->c, &f->found));
    for (int i = 0; i < ENDPOINTS; i++)
        scale[i] = f->endpoint[i]->scale[0];
    double low = f->found.settled.at[0].low;
    (void)close_fixture(state);
    (void)open_fixture(state);
    f = *state;
    f->c.jobs = 3;
    assert_ok(f->ctx, qg_calibrate_run(f->ctx, &f->c, &f->found));
    for (int i = 0; i < ENDPOINTS; i++)
        assert_memory_equal(&scale[i], f->endpoint[i]->scale, sizeof scale[i]);
    assert_cmp_f64(low, ==, f->found.settled.at[0].low);
}

static void reports_what_was_at_work(void **state)
{
    fixture *f = *state;
    assert_ok(f->ctx, qg_calibrate_run(f->ctx, &f->c, &f->found));
    assert_int_equal(f->found.changed, ENDPOINTS);
    assert_int_equal(f->found.observers.n, ENDPOINTS);
    for (int i = 0; i < ENDPOINTS; i++) {
        const qg_observer_use *u = &f->found.observers.at[i];
        assert_string_equal(u->observer, observers[i]);
        assert_int_equal(u->endpoints, 1);
        assert_int_equal(u->passes, i == 1 ? 2 : 1);
        assert_int_equal(u->ordered, i == 0);
    }
    assert_int_equal(f->reported, 2 * SAMPLES); /* ppq-kl needs a second pass */
    assert_int_equal(f->found.settled.n, 1);    /* minmax alone reads statistics */
    assert_ptr_equal(f->found.settled.at[0].tqc, f->endpoint[2]);
}

/* Workers that wait for a turn are let go, and the lowest sample is named. */
static void the_first_bad_sample_is_reported(void **state)
{
    fixture *f = *state;
    f->bad = 11;
    f->c.jobs = 3;
    assert_fails(f->ctx, qg_calibrate_run(f->ctx, &f->c, &f->found), QG_ENUMERIC,
                 "calibrate: r.in0: sample 11 of input 'x' gives a NaN or an infinity");
    assert_int_equal(f->found.changed, 0);
}

static void refuses_what_gives_no_scale(void **state)
{
    fixture *f = *state;
    f->c.samples = 0;
    assert_fails(f->ctx, qg_calibrate_run(f->ctx, &f->c, &f->found), QG_EDATA,
                 "calibrate: there are 3 endpoints and no samples");
    f->c.n_endpoint = 0;
    assert_ok(f->ctx, qg_calibrate_run(f->ctx, &f->c, &f->found));
    assert_int_equal(f->found.observers.n, 0);
}

static bool serves(const qg_observer *o, const qg_scheme *s)
{
    return !o->blind && (s->policy & o->policy) == o->policy;
}

/* The scale that an observer gives the output of the Relu on codes [qmin, qmax]. */
static float scale_of(void **state, const qg_observer *o, int64_t qmin, int64_t qmax)
{
    (void)open_fixture(state);
    fixture *f = *state;
    qg_tqc *t = f->endpoint[1];
    qg_observer_setting setting = { .name = o->name };
    qg_scheme s = t->scheme;
    s.qmin = qmin;
    s.qmax = qmax;
    assert_ok(f->ctx, qg_tqc_set_scheme(f->c.quant, t, &s));
    assert_ok(f->ctx, qg_tqc_set_observer(f->c.quant, t, &setting));
    assert_ok(f->ctx, qg_calibrate_run(f->ctx, &f->c, &f->found));
    assert_int_equal(t->nparam, 1);
    assert_int_equal(t->offset[0], 0);
    float scale = t->scale[0];
    (void)close_fixture(state);
    return scale;
}

/* Codes from 0 on have twice the resolution of signed ones, whichever observer found
 * the range.  PPQ's arithmetic does not use it, but for isotone, which reads qmax. */
static void unsigned_codes_halve_the_step(void **state)
{
    size_t served = 0, all = 0;
    for (size_t k = 0; qg_observers[k]; k++, all++) {
        const qg_observer *o = qg_observers[k];
        qg_scheme s = { .policy = QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC };
        if (!serves(o, &s))
            continue;
        served++;
        float with_sign = scale_of(state, o, -128, 127);
        float without = scale_of(state, o, 0, 255);
        print_message("%s: %g, unsigned %g\n", o->name, (double)with_sign,
                      (double)without);
        if (strncmp(o->name, "ppq-", 4) == 0 && strcmp(o->name, "ppq-isotone") != 0) {
            assert_cmp_f64(without, ==, with_sign);
            continue;
        }
        assert_cmp_f64(without, >, 0.45 * (double)with_sign);
        assert_cmp_f64(without, <, 0.65 * (double)with_sign);
    }
    assert_cmp_int(served, >=, 28);
    assert_cmp_int(served, <, all);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_fixture, close_fixture)
QG_TEST_MAIN(TEST(scales_are_those_of_the_samples_in_order),
             TEST(workers_change_nothing), TEST(reports_what_was_at_work),
             TEST(the_first_bad_sample_is_reported), TEST(refuses_what_gives_no_scale),
             cmocka_unit_test(unsigned_codes_halve_the_step))

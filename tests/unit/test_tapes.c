/* Copies of a tape that work together (learn/tapes.h): rounds, their order, failures,
 * what they share. */
#include <pthread.h>

#include "engine/learn/tapes.h"
#include "tests/support/session.h"

enum { SAMPLES = 7, MOST = 32 };

/* What was done, "w" ork, "d" one, "a" fter, with the sample, in the order in which it
 * was begun; fails: the kind and sample that fails. */
typedef struct fixture {
    qg_ctx *ctx;
    qg_model m;
    qg_tapes t;
    pthread_mutex_t lock;
    pthread_t caller;
    char kind[MOST], fails;
    size_t sample[MOST], n, at;
} fixture;

static fixture f;

static void open_tapes(size_t n)
{
    qg_quant *q;
    uint8_t part[1] = { 1 };
    const qg_tape_options o = { .part = part, .learns = true };
    f = (fixture){ .ctx = qg_ctx_new(qg_alloc_libc), .caller = pthread_self() };
    pthread_mutex_init(&f.lock, NULL);
    f.ctx->registry = &qg_ops_registry;
    model_of_text(f.ctx,
                  "graph {\n x = input f32[2,2]\n w = const f32[2,2] ramp(-1, 1)\n"
                  " y = MatMul(x, w)\n output y\n}",
                  &f.m);
    assert_ok(f.ctx, qg_quant_new(f.m.graph, NULL, &q));
    assert_ok(f.ctx, qg_tapes_new(f.ctx, f.m.graph, q, &o, n, &f.t));
}

static void close_tapes(void)
{
    qg_tapes_free(&f.t);
    assert_null(f.t.tape);
    assert_int_equal(f.t.n, 0);
    qg_tapes_free(&f.t); /* of nothing */
    qg_graph_free(f.m.graph);
    qg_ctx_free(f.ctx);
    pthread_mutex_destroy(&f.lock);
}

static qg_status note(char kind, qg_tape *tape, size_t i)
{
    pthread_mutex_lock(&f.lock);
    assert_cmp_int(f.n, <, MOST);
    f.kind[f.n] = kind;
    f.sample[f.n++] = i;
    pthread_mutex_unlock(&f.lock);
    assert_ptr_equal(tape, f.t.tape[i % f.t.n]);
    return f.fails == kind && i == f.at ? qg_fail(tape->ctx, QG_EDATA, "%zu fails", i)
                                        : QG_OK;
}

static qg_status work(void *ud, qg_tape *tape, size_t i)
{
    assert_ptr_equal(ud, &f);
    if (f.t.n > 1)
        assert_ptr_not_equal(tape->ctx, f.ctx); /* of the thread */
    return note('w', tape, i);
}

static qg_status done(void *ud, qg_tape *tape, size_t i)
{
    assert_ptr_equal(ud, &f);
    assert_ptr_equal(tape->ctx, f.ctx);
    assert_true(pthread_equal(pthread_self(), f.caller));
    return note('d', tape, i);
}

static qg_status after(void *ud, qg_tape *tape, size_t i)
{
    assert_ptr_equal(ud, &f);
    return note('a', tape, i);
}

/* The n entries from `first` on are of this kind and of samples from `sample` on, in
 * any order or in order. */
static size_t expect(size_t first, char kind, size_t sample, size_t n, bool ordered)
{
    size_t sum = 0;
    for (size_t k = 0; k < n; k++) {
        assert_int_equal(f.kind[first + k], kind);
        sum += f.sample[first + k];
        if (ordered)
            assert_int_equal(f.sample[first + k], sample + k);
    }
    assert_int_equal(sum, n * sample + n * (n - 1) / 2);
    return first + n;
}

static void rounds_are_in_order(void **state)
{
    const qg_tapes_work all = { SAMPLES, work, done, after, &f };
    (void)state;
    for (size_t tapes = 1; tapes <= 3; tapes++) {
        size_t at = 0;
        open_tapes(tapes);
        assert_ok(f.ctx, qg_tapes_run(&f.t, &all));
        for (size_t i = 0; i < SAMPLES; i += tapes) {
            const size_t n = SAMPLES - i < tapes ? SAMPLES - i : tapes;
            at = expect(at, 'w', i, n, tapes == 1);
            at = expect(at, 'd', i, n, true);
            at = expect(at, 'a', i, n, tapes == 1);
        }
        assert_int_equal(f.n, at);
        for (size_t k = 0; k < tapes; k++)
            assert_ptr_equal(f.t.tape[k]->ctx, f.ctx);
        close_tapes();
    }
}

static void done_and_after_may_be_missing(void **state)
{
    const qg_tapes_work alone = { 3, work, NULL, NULL, &f },
                        none = { 0, work, done, after, &f };
    (void)state;
    open_tapes(2);
    assert_ok(f.ctx, qg_tapes_run(&f.t, &none));
    assert_int_equal(f.n, 0);
    assert_ok(f.ctx, qg_tapes_run(&f.t, &alone));
    (void)expect(expect(0, 'w', 0, 2, false), 'w', 2, 1, true);
    assert_int_equal(f.n, 3);
    close_tapes();
}

/* Of two tapes; sample 2 is in the second round. */
static void failures_end_the_run(void **state)
{
    static const struct {
        char kind;
        size_t begun; /* at most */
        const char *message;
    } rows[] = {
        {'w',  8,  "2 fails"},
        { 'd', 9,  "2 fails"},
        { 'a', 12, "2 fails"}
    };
    const qg_tapes_work all = { SAMPLES, work, done, after, &f };
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        open_tapes(2);
        f.fails = rows[k].kind;
        f.at = 2;
        assert_fails(f.ctx, qg_tapes_run(&f.t, &all), QG_EDATA, rows[k].message);
        assert_cmp_int(f.n, >=, rows[k].begun - 1);
        assert_cmp_int(f.n, <=, rows[k].begun);
        for (size_t i = 0; i < 2; i++)
            assert_ptr_equal(f.t.tape[i]->ctx, f.ctx);
        close_tapes();
    }
}

static qg_status no(void *ud, qg_ctx *ctx)
{
    (void)ud;
    return qg_ctx_canceled(ctx, "test");
}

static void a_caller_may_end_it(void **state)
{
    const qg_tapes_work all = { SAMPLES, work, done, after, &f };
    (void)state;
    open_tapes(1);
    f.ctx->watch = (qg_cancel_watch){ .ask = no };
    assert_fails(f.ctx, qg_tapes_run(&f.t, &all), QG_ECANCELED, "test");
    assert_int_equal(f.n, 0);
    close_tapes();
}

/* Weights are those of the first; a thread for each, unless there is one. */
static void the_first_leads(void **state)
{
    const qg_tapes_work all = { SAMPLES, work, done, after, &f };
    (void)state;
    open_tapes(1);
    assert_null(f.t.team);
    assert_null(f.t.tape[0]->leader);
    close_tapes();
    open_tapes(3);
    assert_non_null(f.t.team);
    assert_int_equal(f.t.n, 3);
    assert_ptr_equal(f.t.ctx, f.ctx);
    for (size_t k = 0; k < 3; k++) {
        assert_int_equal(f.t.tape[k]->place, k);
        assert_ptr_equal(f.t.tape[k]->leader, k ? f.t.tape[0] : NULL);
        assert_ptr_equal(f.t.tape[k]->weight[0].now.data,
                         f.t.tape[0]->weight[0].now.data);
    }
    qg_tapes_dismiss(&f.t);
    assert_null(f.t.team);
    assert_int_equal(f.t.n, 1);
    assert_int_equal(f.t.tape[0]->n_weight, 1);
    assert_ok(f.ctx, qg_tapes_run(&f.t, &all)); /* still works */
    assert_int_equal(f.n, 3 * SAMPLES);
    close_tapes();
}

QG_TEST_MAIN(cmocka_unit_test(rounds_are_in_order),
             cmocka_unit_test(done_and_after_may_be_missing),
             cmocka_unit_test(failures_end_the_run),
             cmocka_unit_test(a_caller_may_end_it), cmocka_unit_test(the_first_leads))

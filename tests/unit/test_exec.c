/* The executor: plans against the definition, memory, hooks, workers. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "engine/core/rng.h"
#include "engine/exec/drive.h"
#include "engine/exec/pool.h"
#include "ops/families.h"
#include "tests/support/graphs.h"

enum { C = 8, SIDE = 12, OUT = SIDE - 2 };

/* x -> Conv -> Relu -> Conv(c2) -> Add(c2, relu) -> Sigmoid -> y, and the Relu as z. */
static toy residual(void)
{
    toy t = toy_new();
    qg_rng rng = { 5 };
    float w[C * C * 9], b[C];
    t.ctx->registry = &qg_ops_registry;
    toy_input(&t, "x", QG_F32, 4, (int64_t[]){ 1, C, SIDE, SIDE });
    for (size_t i = 0; i < C * C * 9; i++)
        w[i] = qg_rng_range(&rng, -0.3f, 0.3f);
    toy_constant(&t, "w1", QG_F32, 4, (int64_t[]){ C, C, 3, 3 }, w);
    toy_constant(&t, "w2", QG_F32, 4, (int64_t[]){ C, C, 1, 1 }, w);
    for (size_t i = 0; i < C; i++)
        b[i] = qg_rng_range(&rng, -1, 1);
    toy_constant(&t, "b", QG_F32, 1, (int64_t[]){ C }, b);
    toy_node(&t, "Conv", "conv1", "x, w1, b", "c1");
    toy_node(&t, "Relu", "relu1", "c1", "r1");
    toy_node(&t, "Conv", "conv2", "r1, w2", "c2");
    toy_node(&t, "Add", "add", "c2, r1", "a");
    toy_node(&t, "Sigmoid", "sigmoid", "a", "y");
    toy_output(&t, "y");
    return t;
}

static void fill(qg_tensor *x, uint64_t seed)
{
    qg_rng rng = { seed };
    for (int64_t i = 0; i < qg_tensor_count(x); i++)
        x->f32[i] = qg_rng_range(&rng, -1, 1);
}

static const qg_tensor *run_once(toy *t, const qg_plan *p, qg_run **r, uint64_t seed)
{
    qg_tensor x = t->g->input.at[0]->type;
    assert_ok(t->ctx, qg_tensor_alloc(t->ctx, t->ctx->arena, &x));
    fill(&x, seed);
    const qg_tensor *in[] = { &x };
    if (!*r)
        assert_ok(t->ctx, qg_run_new(t->ctx, p, r));
    assert_ok(t->ctx, qg_run_execute(*r, in, NULL, 0, 0));
    return qg_run_output(*r, 0);
}

static qg_plan *plan_of(toy *t, qg_plan_options o)
{
    qg_plan *p = NULL;
    assert_ok(t->ctx, qg_plan_new(t->ctx, t->g, &o, &p));
    return p;
}

static void assert_close(const qg_tensor *a, const qg_tensor *b, float tolerance)
{
    assert_true(qg_same_dims(a, b));
    for (int64_t i = 0; i < qg_tensor_count(a); i++)
        if (!(fabsf(a->f32[i] - b->f32[i]) <= tolerance))
            fail_msg("element %lld: %g against %g", (long long)i, (double)a->f32[i],
                     (double)b->f32[i]);
}

static void kernels_agree_with_definition(void **state)
{
    (void)state;
    toy t = residual();
    qg_plan *fast = plan_of(&t, (qg_plan_options){ 0 });
    qg_plan *slow = plan_of(&t, (qg_plan_options){ .reference = true });
    qg_run *a = NULL, *b = NULL;
    for (uint64_t seed = 1; seed < 5; seed++)
        assert_close(run_once(&t, fast, &a, seed), run_once(&t, slow, &b, seed), 1e-5f);
    assert_int_equal(slow->report.kernels, 0);
    assert_int_equal(fast->report.kernels, QG_HAVE_DNNL ? 2 : 0);
    assert_cmp_int(fast->report.bytes, <=, fast->report.lower_bound * 11 / 10);
    qg_run_free(a);
    qg_run_free(b);
    qg_plan_free(fast);
    qg_plan_free(slow);
    toy_free(&t);
}

static void second_run_gives_the_same_bits(void **state)
{
    (void)state;
    toy t = residual();
    qg_plan *p = plan_of(&t, (qg_plan_options){ 0 });
    qg_run *r = NULL;
    float first[C * OUT * OUT];
    memcpy(first, run_once(&t, p, &r, 9)->f32, sizeof first);
    (void)run_once(&t, p, &r, 10);
    assert_memory_equal(run_once(&t, p, &r, 9)->f32, first, sizeof first);
    qg_run_free(r);
    qg_plan_free(p);
    toy_free(&t);
}

typedef struct seen {
    size_t calls, outputs;
    float relu_min;
} seen;

static qg_status look(void *ud, qg_ctx *ctx, size_t sample, const qg_hook_point *at,
                      qg_tensor *value)
{
    seen *s = ud;
    (void)ctx, (void)sample;
    s->calls++;
    s->outputs += at->endpoint.is_output;
    for (int64_t i = 0; at->endpoint.is_output && i < qg_tensor_count(value); i++)
        if (strcmp(at->endpoint.node->name, "relu1") == 0)
            s->relu_min = fminf(s->relu_min, value->f32[i]);
    return QG_OK;
}

static void watching_changes_no_bits(void **state)
{
    (void)state;
    toy t = residual();
    qg_plan *plain = plan_of(&t, (qg_plan_options){ 0 });
    qg_plan *open = plan_of(&t, (qg_plan_options){ .watch_all = true });
    qg_run *a = NULL, *b = NULL;
    const qg_tensor *want = run_once(&t, plain, &a, 3);
    assert_ok(t.ctx, qg_run_new(t.ctx, open, &b));
    seen s = { 0 };
    qg_hook hook = { look, &s };
    qg_tensor x = t.g->input.at[0]->type;
    assert_ok(t.ctx, qg_tensor_alloc(t.ctx, t.ctx->arena, &x));
    fill(&x, 3);
    const qg_tensor *in[] = { &x };
    assert_ok(t.ctx, qg_run_execute(b, in, &hook, 1, 0));
    assert_memory_equal(qg_run_output(b, 0)->f32, want->f32, C * OUT * OUT * 4);
    assert_int_equal(s.outputs, 5);
    assert_int_equal(s.calls, 5 + 3 + 1 + 2 + 2 + 1); /* outputs, then each input */
    assert_cmp_f64(s.relu_min, ==, 0);
    qg_run_free(a);
    qg_run_free(b);
    qg_plan_free(plain);
    qg_plan_free(open);
    toy_free(&t);
}

static void wrong_input_is_named(void **state)
{
    (void)state;
    toy t = residual();
    qg_plan *p = plan_of(&t, (qg_plan_options){ 0 });
    qg_run *r;
    qg_tensor x;
    assert_ok(t.ctx, qg_run_new(t.ctx, p, &r));
    qg_tensor_init(&x, QG_F32, 4, (int64_t[]){ 1, C, SIDE, SIDE + 1 });
    const qg_tensor *in[] = { &x };
    assert_fails(t.ctx, qg_run_execute(r, in, NULL, 0, 0), QG_EDATA,
                 "run: input 'x': is float32[1,8,12,13], expected float32[1,8,12,12]");
    qg_run_free(r);
    qg_plan_free(p);
    toy_free(&t);
}

/* A value in several slots of a node is not overwritten while a slot still reads it:
 * against a plan that keeps every value. */
static void repeated_input_keeps_its_value(void **state)
{
    static const char *const node[][2] = {
        {"Sum",    "t, t, t"   },
        { "Sum",   "t, u, t"   },
        { "Sum",   "u, t, t"   },
        { "Mean",  "t, t, t"   },
        { "Max",   "t, u, t, u"},
        { "PRelu", "t, t"      },
    };
    (void)state;
    for (size_t i = 0; i < sizeof node / sizeof *node; i++) {
        toy t = toy_new();
        qg_run *a = NULL, *b = NULL;
        t.ctx->registry = &qg_ops_registry;
        toy_input(&t, "x", QG_F32, 1, (int64_t[]){ C });
        toy_node(&t, "Exp", "exp", "x", "t");
        toy_node(&t, "Sigmoid", "sigmoid", "x", "u");
        toy_node(&t, node[i][0], "join", node[i][1], "y");
        toy_output(&t, "y");
        qg_plan *tight = plan_of(&t, (qg_plan_options){ 0 });
        qg_plan *roomy = plan_of(&t, (qg_plan_options){ .keep_all = true });
        assert_memory_equal(run_once(&t, tight, &a, 7)->f32,
                            run_once(&t, roomy, &b, 7)->f32, C * sizeof(float));
        qg_run_free(a);
        qg_run_free(b);
        qg_plan_free(tight);
        qg_plan_free(roomy);
        toy_free(&t);
    }
}

/* --- partial runs --- */

/* Whatever node changes, running its downstream cone from cached activations gives the
 * bits of the full run. */
static void partial_equals_full(void **state)
{
    (void)state;
    toy t = residual();
    qg_plan *base = plan_of(&t, (qg_plan_options){ .keep_all = true });
    qg_run *whole = NULL;
    float want[C * OUT * OUT];
    uint32_t all = base->report.nodes;
    memcpy(want, run_once(&t, base, &whole, 4)->f32, sizeof want);
    for (size_t i = 0; i < t.g->node.n; i++) {
        uint8_t changed[8] = { 0 };
        qg_run *part;
        changed[i] = 1;
        qg_plan *p = plan_of(&t, (qg_plan_options){ .base = base, .changed = changed });
        bool everything = i == 0 || (i == 1 && base->report.absorbed); /* conv1 again */
        assert_cmp_int(p->report.nodes, <=, all);
        assert_int_equal(everything, p->report.nodes == all);
        assert_ok(t.ctx, qg_run_new(t.ctx, p, &part));
        (void)run_once(&t, base, &whole, 5); /* another sample in between */
        (void)run_once(&t, base, &whole, 4);
        assert_ok(t.ctx, qg_run_execute_from(part, whole, NULL, 0, 0));
        assert_memory_equal(qg_run_output(part, 0)->f32, want, sizeof want);
        qg_run_free(part);
        qg_plan_free(p);
    }
    qg_run_free(whole);
    qg_plan_free(base);
    toy_free(&t);
}

/* --- workers --- */

typedef struct table {
    float sum[32];
    const toy *t;
} table;

static qg_status fetch(void *ud, qg_ctx *ctx, qg_arena *a, size_t sample,
                       const qg_tensor **in)
{
    const table *tab = ud;
    qg_tensor *x = QG_NEW(a, qg_tensor);
    if (!x)
        return qg_nomem(ctx);
    *x = tab->t->g->input.at[0]->type;
    QG_TRY(qg_tensor_alloc(ctx, a, x));
    fill(x, sample);
    in[0] = x;
    return QG_OK;
}

static qg_status done(void *ud, qg_ctx *ctx, void *state, size_t sample,
                      const qg_run *r)
{
    table *tab = ud;
    (void)ctx, (void)state;
    for (int64_t i = 0; i < C * OUT * OUT; i++)
        tab->sum[sample] += qg_run_output(r, 0)->f32[i];
    return QG_OK;
}

static void workers_do_not_show(void **state)
{
    (void)state;
    toy t = residual();
    qg_plan *p = plan_of(&t, (qg_plan_options){ 0 });
    table one = { .t = &t }, three = { .t = &t };
    for (int k = 0; k < 2; k++) {
        table *tab = k ? &three : &one;
        qg_feed feed = { .n = 32, .fetch = fetch, .ud = tab };
        qg_drive d = { .plan = p,
                       .feed = &feed,
                       .n = 32,
                       .jobs = k ? 3 : 1,
                       .ud = tab,
                       .done = done };
        assert_ok(t.ctx, qg_drive_run(t.ctx, &d));
    }
    assert_memory_equal(one.sum, three.sum, sizeof one.sum);
    qg_plan_free(p);
    toy_free(&t);
}

/* An output that is a constant needs no memory. */
static void nothing_alive_takes_nothing(void **state)
{
    (void)state;
    const float one = 1;
    toy t = toy_new();
    t.ctx->registry = &qg_ops_registry;
    toy_constant(&t, "k", QG_F32, 0, NULL, &one);
    toy_node(&t, "Neg", "neg", "k", "y");
    toy_output(&t, "y");
    qg_plan *p = plan_of(&t, (qg_plan_options){ 0 });
    assert_int_equal(p->report.bytes, 0);
    assert_int_equal(p->report.lower_bound, 0);
    qg_plan_free(p);
    toy_free(&t);
}

static qg_status fail_late(void *ud, qg_ctx *ctx, void *state, size_t index)
{
    (void)ud, (void)state;
    return index >= 5 ? qg_fail(ctx, QG_EDATA, "index %zu", index) : QG_OK;
}

static void lowest_failure_is_reported(void **state)
{
    (void)state;
    for (unsigned workers = 1; workers < 5; workers++) {
        qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
        qg_job job = { .n = 100, .workers = workers, .work = fail_late };
        assert_fails(ctx, qg_pool_run(ctx, &job), QG_EDATA, "index 5");
        qg_ctx_free(ctx);
    }
}

QG_TEST_MAIN(cmocka_unit_test(kernels_agree_with_definition),
             cmocka_unit_test(second_run_gives_the_same_bits),
             cmocka_unit_test(watching_changes_no_bits),
             cmocka_unit_test(wrong_input_is_named),
             cmocka_unit_test(repeated_input_keeps_its_value),
             cmocka_unit_test(partial_equals_full),
             cmocka_unit_test(workers_do_not_show),
             cmocka_unit_test(lowest_failure_is_reported),
             cmocka_unit_test(nothing_alive_takes_nothing))

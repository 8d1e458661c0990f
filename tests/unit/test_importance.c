/* How much an error of an inner value changes the outputs (learn/importance.h):
 * products with constants, whose derivatives are these constants. */
#include <math.h>

#include "engine/learn/importance.h"
#include "tests/support/session.h"

enum { MOST = 5, VALUES = 16 };

typedef struct fixture {
    qg_model m;
    qg_quant *q;
    qg_tape *t;
    qg_block block[4];
    qg_stream s;
    qg_tensor x[MOST];
    float data[MOST][3];
    const qg_tensor *at[QG_NLANE][VALUES * MOST];
    qg_importance got;
} fixture;

static fixture f;

/* y = b0, 4 b1; blocks of one node each. */
static const char steady[] =
    "graph {\n x = input f32[2]\n k = const f32[2] [2, 3]\n m = const f32[2] [1, 4]\n"
    " a = Mul(x, k)\n b = Relu(a)\n s = Shape(b)\n y = Mul(b, m)\n output y, s\n}";
static const char open_dims[] =
    "graph {\n x = input f32[N]\n k = const f32[1] [2]\n m = const f32[1] [1]\n"
    " a = Mul(x, k)\n b = Relu(a)\n s = Shape(b)\n y = Mul(b, m)\n output y, s\n}";

static const qg_value *named(const char *name)
{
    for (size_t i = 0; i < f.m.graph->value.n; i++)
        if (strcmp(f.m.graph->value.at[i]->name, name) == 0)
            return f.m.graph->value.at[i];
    fail_msg("no value %s", name);
    return NULL;
}

static const double *weight(const char *name) { return f.got.weight[named(name)->id]; }

static void make(qg_ctx *ctx, const char *text, size_t samples)
{
    static const uint8_t part[4] = { 1, 1, 1, 1 };
    f = (fixture){ 0 };
    ctx->registry = &qg_ops_registry;
    model_of_text(ctx, text, &f.m);
    assert_cmp_int(f.m.graph->value.n, <=, VALUES);
    assert_int_equal(f.m.graph->node.n, 4);
    for (size_t i = 0; i < 4; i++)
        f.block[i] = (qg_block){ .first = i, .end = i + 1 };
    f.s = (qg_stream){ .ctx = ctx, .graph = f.m.graph, .block = f.block, .room = MOST };
    f.s.n_block = 4;
    f.s.sample.n = samples;
    for (int lane = 0; lane < QG_NLANE; lane++)
        f.s.at[lane] = f.at[lane];
    assert_ok(ctx, qg_quant_new(f.m.graph, NULL, &f.q));
    const qg_tape_options o = { .part = part,
                                .learns = true,
                                .watched = qg_importance_watched(&f.s, ctx->arena) };
    assert_ok(ctx, qg_tape_new(ctx, f.m.graph, f.q, &o, &f.t));
    f.t->rounds = false;
}

static void put(size_t sample, int64_t n, float a, float b)
{
    f.data[sample][0] = a;
    f.data[sample][1] = b;
    qg_tensor_init(&f.x[sample], QG_F32, 1, &n);
    f.x[sample].f32 = f.data[sample];
    f.at[QG_LANE_FLOAT][named("x")->id * MOST + sample] = &f.x[sample];
}

static void compute(qg_ctx *ctx)
{
    assert_ok(ctx, qg_importance_of(&f.s, f.t, (qg_rng){ 5 }, ctx->arena, &f.got));
}

static void release(void)
{
    qg_tape_free(f.t);
    qg_graph_free(f.m.graph);
}

static void expect(const char *name, double first, double second)
{
    assert_non_null(weight(name));
    if (fabs(weight(name)[0] - first) > 1e-6 || fabs(weight(name)[1] - second) > 1e-6)
        fail_msg("%s: %g, %g, expected %g, %g", name, weight(name)[0], weight(name)[1],
                 first, second);
}

/* |y|^2 is 4 + 144 of the first sample, 4 of the second, whose Relu lets nothing of the
 * second element through. */
static void squares_are_added_up(void **state)
{
    (void)state;
    make(*state, steady, 2);
    put(0, 2, 1, 1);
    put(1, 2, 1, -1);
    compute(*state);
    expect("y", 1. / 148 + 1. / 4, 1. / 148 + 1. / 4);
    expect("b", 1. / 148 + 1. / 4, 16. / 148 + 16. / 4);
    expect("a", 1. / 148 + 1. / 4, 16. / 148);
    assert_null(weight("x")); /* no result of a block */
    assert_null(weight("k"));
    assert_null(weight("s")); /* gets no gradient */
    release();
}

/* Of five the fourth judges. */
static void samples_that_judge_do_not_count(void **state)
{
    (void)state;
    make(*state, steady, 5);
    for (size_t i = 0; i < 5; i++)
        put(i, 2, i == 3 ? 7 : 1, 1);
    compute(*state);
    expect("y", 4. / 148, 4. / 148);
    release();
}

/* No signal, no gradient: the first sample, or a later one. */
static void values_without_a_gradient_weigh_alike(void **state)
{
    (void)state;
    for (size_t zero = 0; zero < 2; zero++) {
        make(*state, steady, 2);
        put(zero, 2, 0, 0);
        put(1 - zero, 2, 1, 1);
        compute(*state);
        assert_null(weight("y"));
        assert_null(weight("b"));
        release();
    }
}

static void so_do_values_of_other_dims(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 2; n++) {
        make(*state, open_dims, 3);
        put(0, 2, 1, 1);
        put(1, n, 1, 1);
        put(2, 2, 1, 1);
        compute(*state);
        assert_int_equal(weight("b") == NULL, n == 1);
        if (n == 2)
            expect("b", 3. / 8, 3. / 8);
        release();
    }
}

/* Results that another block reads, and outputs of the network. */
static void outputs_of_blocks_are_watched(void **state)
{
    qg_ctx *ctx = *state;
    make(ctx, steady, 1);
    const uint8_t *watched = qg_importance_watched(&f.s, ctx->arena);
    static const char *const names[] = { "x", "k", "a", "b", "s", "y" };
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(watched[named(names[i])->id], i >= 2);
    f.block[0].end = 2; /* a is read within its block */
    f.block[1] = (qg_block){ .first = 2, .end = 4 };
    watched = qg_importance_watched(&f.s, ctx->arena);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(watched[named(names[i])->id], i >= 3);
    f.block[0].end = 1; /* b begins a block, in which it is read */
    f.block[1] = (qg_block){ .first = 1, .end = 4 };
    watched = qg_importance_watched(&f.s, ctx->arena);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(watched[named(names[i])->id], i == 2 || i >= 4);
    release();
}

static qg_status no(void *ud, qg_ctx *ctx)
{
    (void)ud;
    return qg_ctx_canceled(ctx, "test");
}

static void a_caller_may_end_it(void **state)
{
    qg_ctx *ctx = *state;
    make(ctx, steady, 1);
    put(0, 2, 1, 1);
    ctx->watch = (qg_cancel_watch){ .ask = no };
    assert_fails(ctx, qg_importance_of(&f.s, f.t, (qg_rng){ 5 }, ctx->arena, &f.got),
                 QG_ECANCELED, "test");
    release();
}

QG_TEST_MAIN(WITH_CTX(squares_are_added_up), WITH_CTX(samples_that_judge_do_not_count),
             WITH_CTX(values_without_a_gradient_weigh_alike),
             WITH_CTX(so_do_values_of_other_dims),
             WITH_CTX(outputs_of_blocks_are_watched), WITH_CTX(a_caller_may_end_it))

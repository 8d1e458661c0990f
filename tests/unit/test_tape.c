/* A tape of the whole demo network: forward gives the bits of mode simulate with the
 * reference kernels, backward the slope of the loss along random directions. */
#include <math.h>

#include "engine/api/qg.h"
#include "engine/core/rng.h"
#include "engine/exec/run.h"
#include "engine/learn/segment.h"
#include "engine/learn/tape_state.h"
#include "engine/snapshot/model.h"
#include "tests/support/test.h"

typedef struct fixture {
    qg_ctx *ctx;
    qg_model *m;
    qg_tape *t;
    qg_tensor x, y_grad;
    float image[1 * 28 * 28];
} fixture;

static const char *const BACKENDS[] = { "trt-int8", "ort-int8", "tflite-int8" };
static fixture f;

/* nodes: how many are in the part; SIZE_MAX: all. */
static void open_part(const char *backend, size_t nodes)
{
    qg_quantize_options o;
    qg_quantize_options_init(&o, sizeof o);
    o.backend = backend;
    o.work.data = "configs/data/digits_calib.npy";
    o.work.samples = 8;
    assert_int_equal(qg_open(NULL, &f.ctx), QG_OK);
    assert_ok(f.ctx, qg_model_open(f.ctx, "configs/models/digits.onnx", NULL, &f.m));
    assert_ok(f.ctx, qg_model_quantize(f.m, &o, NULL));
    uint8_t *part = QG_NEWN(f.ctx->arena, f.m->graph->node.n, uint8_t);
    for (size_t i = 0; i < f.m->graph->node.n; i++)
        part[i] = i < nodes;
    assert_ok(f.ctx,
              qg_tape_new(f.ctx, f.m->graph, f.m->quant,
                          &(qg_tape_options){ .part = part, .learns = true }, &f.t));
    assert_cmp_int(f.t->n_in, ==, 1);
    assert_cmp_int(f.t->n_out, >=, 1);
    qg_rng r = { 7 };
    qg_tensor_init(&f.x, QG_F32, f.t->in[0]->type.rank, f.t->in[0]->type.dim);
    f.x.f32 = f.image;
    const int64_t n = qg_tensor_count(&f.x);
    assert_cmp_int(n, <=, (int64_t)(sizeof f.image / sizeof f.image[0]));
    for (int64_t i = 0; i < n; i++)
        f.image[i] = (float)qg_rng_below(&r, 1000) / 1000;
}

static void open_one(const char *backend) { open_part(backend, SIZE_MAX); }

static void close_one(void)
{
    qg_tape_free(f.t);
    qg_model_close(f.m);
    qg_close(f.ctx);
}

static void forward(void)
{
    const qg_tensor *in[] = { &f.x };
    assert_ok(f.ctx, qg_tape_forward(f.t, in));
}

static void test_forward_is_mode_simulate(void **state)
{
    (void)state;
    for (size_t b = 0; b < sizeof BACKENDS / sizeof BACKENDS[0]; b++) {
        qg_plan *p;
        qg_run *r;
        open_one(BACKENDS[b]);
        const qg_plan_options o = { .mode = QG_MODE_SIMULATE,
                                    .quant = f.m->quant,
                                    .reference = true };
        const qg_tensor *in[] = { &f.x };
        assert_ok(f.ctx, qg_plan_new(f.ctx, f.m->graph, &o, &p));
        assert_ok(f.ctx, qg_run_new(f.ctx, p, &r));
        assert_ok(f.ctx, qg_run_execute(r, in, NULL, 0, 0));
        forward();
        const qg_tensor *want = qg_run_output(r, 0), *got = qg_tape_output(f.t, 0);
        for (int64_t i = 0; i < qg_tensor_count(want); i++)
            assert_cmp_f64(got->f32[i], ==, want->f32[i]);
        qg_run_free(r);
        qg_plan_free(p);
        close_one();
    }
}

/* The loss is the sum of the outputs times fixed random factors. */
static double loss(qg_rng r)
{
    double sum = 0;
    forward();
    const qg_tensor *y = qg_tape_output(f.t, 0);
    for (int64_t i = 0; i < qg_tensor_count(y); i++)
        sum += (double)y->f32[i] * ((double)qg_rng_below(&r, 2001) - 1000) / 1000;
    return sum;
}

static void backward(qg_rng r)
{
    const qg_tensor *y = qg_tape_output(f.t, 0), *grad[1];
    float values[64];
    qg_tensor g;
    qg_tensor_init(&g, QG_F32, y->rank, y->dim);
    g.f32 = values;
    for (int64_t i = 0; i < qg_tensor_count(y); i++)
        values[i] = (float)(((double)qg_rng_below(&r, 2001) - 1000) / 1000);
    grad[0] = &g;
    assert_ok(f.ctx, qg_tape_backward(f.t, grad));
}

/* Along a random direction of one weight, in float: rounding would hide the slope. */
static void test_slopes_of_weights(void **state)
{
    const qg_rng g = { 99 };
    qg_rng r = { 5 };
    (void)state;
    open_one("trt-int8");
    f.t->rounds = false;
    (void)loss(g);
    backward(g);
    assert_cmp_int(f.t->n_weight, >, 3);
    for (size_t w = 0; w < f.t->n_weight; w++) {
        qg_tape_weight *at = &f.t->weight[w];
        const int64_t n = qg_tensor_count(&at->now);
        const float step = 1e-4f;
        double slope = 0, size = 0;
        float *d = QG_NEWN(f.ctx->arena, n, float);
        for (int64_t i = 0; i < n; i++) {
            d[i] = (float)qg_rng_below(&r, 1000) / 1000 - 0.5f;
            slope += (double)d[i] * (double)at->grad.f32[i];
            size += (double)(d[i] * d[i]) * (double)(at->grad.f32[i] * at->grad.f32[i]);
            at->now.f32[i] = at->start.f32[i] + step * d[i];
        }
        const double above = loss(g);
        for (int64_t i = 0; i < n; i++)
            at->now.f32[i] = at->start.f32[i] - step * d[i];
        const double below = loss(g);
        for (int64_t i = 0; i < n; i++)
            at->now.f32[i] = at->start.f32[i];
        const double want = (above - below) / (2 * (double)step);
        if (fabs(slope - want) > 2e-2 * (sqrt(size) + fabs(want)) + 1e-4)
            fail_msg("%s: slope %g, expected %g", at->value->name, slope, want);
        (void)loss(g);
    }
    close_one();
}

/* A wider or narrower step: the gradient is that of LSQ, whose sign is that of the
 * mean squared error's slope for weights. */
static void test_steps_are_learned(void **state)
{
    const qg_rng g = { 3 };
    size_t learned = 0;
    (void)state;
    open_one("trt-int8");
    (void)loss(g);
    backward(g);
    for (size_t i = 0; i < f.t->n_step; i++) {
        const qg_tape_step *s = &f.t->step[i];
        double size = 0;
        for (size_t c = 0; c < s->n; c++)
            size += fabs(s->grad[c]);
        learned += s->learned;
        if (s->learned != (size > 0))
            fail_msg("%s: learned %d, gradient %g", s->root->name, s->learned, size);
    }
    assert_cmp_int(learned, >, 5);
    close_one();
}

/* The step that rounds output 0. */
static qg_tape_step *step_of_output(void)
{
    const qg_tqc *t = qg_producer_tqc(f.t->out[0]);
    for (size_t i = 0; t && i < f.t->n_step; i++)
        if (f.t->step[i].root == qg_tqc_root(t))
            return &f.t->step[i];
    return NULL;
}

/* Which elements of output 0 are no multiples of the step. */
static size_t off_grid(const qg_tape_step *s, bool *off)
{
    const qg_tensor *y = qg_tape_output(f.t, 0);
    size_t n = 0;
    for (int64_t i = 0; i < qg_tensor_count(y); i++) {
        const double v = (double)y->f32[i] / (double)s->scale[0];
        off[i] = fabs(v - rint(v)) > 1e-4;
        n += off[i];
    }
    return n;
}

/* The first part whose output rounds and has enough elements. */
static qg_tape_step *open_rounding_part(void)
{
    for (size_t nodes = 1; nodes < 12; nodes++) {
        open_part("trt-int8", nodes);
        forward();
        qg_tape_step *s = f.t->n_out == 1 ? step_of_output() : NULL;
        if (s && s->learned && s->n == 1 &&
            qg_tensor_count(qg_tape_output(f.t, 0)) > 500)
            return s;
        close_one();
    }
    fail_msg("no such part");
    return NULL;
}

/* About half of the elements are not rounded (0 is on the grid in any case); these give
 * nothing to the step; the same number draws the same elements. */
static void test_dropped_roundings(void **state)
{
    enum { MOST = 16 * 28 * 28 };
    static bool off[MOST], again[MOST];
    static float values[MOST];
    const qg_tensor *grad[1];
    qg_tensor g;
    qg_rng r = { 11 };
    (void)state;
    const qg_tape_step *s = open_rounding_part();
    const qg_tensor *y = qg_tape_output(f.t, 0);
    const size_t n = (size_t)qg_tensor_count(y);
    assert_cmp_int(n, <=, MOST);
    assert_cmp_int(off_grid(s, off), ==, 0);
    f.t->drop = 5;
    forward();
    y = qg_tape_output(f.t, 0); /* of this pass */
    const size_t dropped = off_grid(s, off);
    assert_cmp_int(dropped, >, n / 10);
    assert_cmp_int(dropped, <, n * 6 / 10);
    qg_tensor_init(&g, QG_F32, y->rank, y->dim);
    g.f32 = values;
    grad[0] = &g;
    for (size_t i = 0; i < n; i++)
        values[i] = qg_rng_range(&r, -1, 1);
    assert_ok(f.ctx, qg_tape_backward(f.t, grad));
    const double want = s->grad[0];
    forward();
    assert_cmp_int(off_grid(s, again), ==, dropped);
    assert_memory_equal(off, again, n);
    for (size_t i = 0; i < n; i++)
        values[i] = off[i] ? 0 : values[i];
    assert_ok(f.ctx, qg_tape_backward(f.t, grad));
    assert_cmp_f64(want, !=, 0);
    assert_cmp_f64(s->grad[0], ==, want);
    f.t->drop = 6;
    forward();
    (void)off_grid(s, again);
    assert_memory_not_equal(off, again, n);
    f.t->drop = 0;
    forward();
    assert_cmp_int(off_grid(s, off), ==, 0);
    close_one();
}

/* A second tape of the fixture's part, which recomputes and watches every second
 * value. */
static qg_tape *recomputing(void)
{
    qg_tape *t;
    const qg_graph *g = f.m->graph;
    uint8_t *part = QG_NEWN(f.ctx->arena, g->node.n, uint8_t);
    uint8_t *watched = QG_NEWN(f.ctx->arena, g->value.n, uint8_t);
    memset(part, 1, g->node.n);
    for (size_t i = 0; i < g->value.n; i += 2)
        watched[i] = 1;
    assert_ok(f.ctx, qg_tape_new(f.ctx, f.m->graph, f.m->quant,
                                 &(qg_tape_options){ .part = part,
                                                     .learns = true,
                                                     .recomputes = true,
                                                     .watched = watched },
                                 &t));
    assert_cmp_int(t->state->n_segment, >, 1);
    return t;
}

static void expect_same(const qg_tensor *got, const qg_tensor *want)
{
    assert_int_equal(got != NULL, want != NULL);
    if (!got)
        return;
    assert_true(qg_same_dims(got, want));
    assert_memory_equal(got->f32, want->f32,
                        (size_t)qg_tensor_count(want) * sizeof *want->f32);
}

static void expect_same_gradients(const qg_tape *got, const qg_tape *want)
{
    expect_same(qg_tape_output(got, 0), qg_tape_output(want, 0));
    expect_same(qg_tape_input_grad(got, 0), qg_tape_input_grad(want, 0));
    for (size_t i = 0; i < want->n_weight; i++)
        expect_same(&got->weight[i].grad, &want->weight[i].grad);
    for (size_t i = 0; i < want->n_step; i++)
        assert_memory_equal(got->step[i].grad, want->step[i].grad,
                            want->step[i].n * sizeof *want->step[i].grad);
    for (size_t i = 0; i < f.m->graph->value.n; i += 2)
        expect_same(qg_tape_value_grad(got, f.m->graph->value.at[i]),
                    qg_tape_value_grad(want, f.m->graph->value.at[i]));
}

/* Twice, so that the second pass meets what the first left; with roundings that are
 * drawn, and without. */
static void test_recomputed(void **state)
{
    (void)state;
    for (size_t b = 0; b < sizeof BACKENDS / sizeof BACKENDS[0]; b++) {
        open_one(BACKENDS[b]);
        qg_tape *keeps = f.t, *again = recomputing();
        for (uint64_t drop = 0; drop < 3; drop++) {
            qg_tape *both[] = { keeps, again };
            for (int k = 0; k < 2; k++) {
                f.t = both[k];
                f.t->drop = drop;
                forward();
                f.t->drop = 0;
                backward((qg_rng){ 3 });
            }
            expect_same_gradients(again, keeps);
        }
        qg_tape_free(again);
        f.t = keeps;
        close_one();
    }
}

/* Eight nodes of cost 10, each value 1 byte; a value of 100 bytes is not cut. */
static void test_plan(void **state)
{
    const double cost[8] = { 10, 10, 10, 10, 10, 10, 10, 10 };
    qg_span span[8];
    size_t *end, n;
    qg_arena *a = qg_arena_new(qg_alloc_libc);
    for (size_t i = 0; i < 8; i++)
        span[i] = (qg_span){ i, i + 1, 1 };
    const qg_segment_list list = { 8, 8, cost, span };
    assert_ok(*state, qg_segments_plan(*state, a, &list, &end, &n));
    assert_cmp_int(n, ==, 8);
    span[2].bytes = 100;
    assert_ok(*state, qg_segments_plan(*state, a, &list, &end, &n));
    assert_cmp_int(n, >, 2);
    for (size_t i = 0; i < n; i++)
        assert_cmp_int(end[i], !=, 3);
    assert_cmp_int(end[n - 1], ==, 8);
    const qg_segment_list none = { 8, 0, cost, span };
    assert_ok(*state, qg_segments_plan(*state, a, &none, &end, &n));
    assert_cmp_int(n, ==, 8);
    qg_arena_free(a);
}

QG_TEST_MAIN(cmocka_unit_test(test_dropped_roundings),
             cmocka_unit_test(test_forward_is_mode_simulate), WITH_CTX(test_plan),
             cmocka_unit_test(test_recomputed),
             cmocka_unit_test(test_slopes_of_weights),
             cmocka_unit_test(test_steps_are_learned))

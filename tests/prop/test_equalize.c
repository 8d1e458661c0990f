/* Whatever equalize does, the float network computes what it did: random networks, both
 * levels, biases and activations counted or not.  Seeds are printed. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "engine/exec/drive.h"
#include "engine/config/backend_yaml.h"
#include "engine/config/override.h"
#include "engine/ir/text.h"
#include "ops/families.h"
#include "passes/passes.h"
#include "tests/support/random_graph.h"

enum { GRAPHS = 150 };

static qg_status fetch(void *ud, qg_ctx *ctx, qg_arena *a, size_t sample,
                       const qg_tensor **in)
{
    const qg_graph *g = ud;
    for (size_t i = 0; i < g->input.n; i++) {
        qg_rng rng = { 77 + sample + 100 * i };
        qg_tensor *t = QG_NEW(a, qg_tensor);
        *t = g->input.at[i]->type;
        QG_TRY(qg_tensor_alloc(ctx, a, t));
        for (int64_t k = 0; k < qg_tensor_count(t); k++)
            t->f32[k] = qg_rng_range(&rng, -1, 1);
        in[i] = t;
    }
    return QG_OK;
}

/* Every output for sample 0, in the context's arena. */
static qg_tensor **run_float(qg_ctx *ctx, qg_graph *g)
{
    qg_plan_options o = { .mode = QG_MODE_FLOAT, .reference = true };
    const qg_tensor *in[8];
    qg_plan *plan;
    qg_run *run;
    qg_tensor **out = QG_NEWN(ctx->arena, g->output.n, qg_tensor *);
    assert_cmp_int(g->input.n, <=, 8);
    assert_ok(ctx, qg_plan_new(ctx, g, &o, &plan));
    assert_ok(ctx, qg_run_new(ctx, plan, &run));
    assert_ok(ctx, fetch(g, ctx, ctx->arena, 0, in));
    assert_ok(ctx, qg_run_execute(run, in, NULL, 0, 0));
    for (size_t i = 0; i < g->output.n; i++)
        assert_ok(ctx,
                  qg_tensor_clone(ctx, ctx->arena, qg_run_output(run, i), &out[i]));
    qg_run_free(run);
    qg_plan_free(plan);
    return out;
}

/* Against the largest value of the output: 1e-4, as the pass promises. */
static void expect_same(const qg_tensor *a, const qg_tensor *b, uint64_t seed)
{
    double largest = 1;
    assert_int_equal(a->dtype, b->dtype);
    assert_true(qg_same_dims(a, b));
    if (a->dtype != QG_F32)
        return; /* indices may swap where values are equal but for the last bit */
    for (int64_t i = 0; i < qg_tensor_count(a); i++)
        largest = fmax(largest, fabs((double)a->f32[i]));
    for (int64_t i = 0; i < qg_tensor_count(a); i++)
        if (!(fabs((double)a->f32[i] - (double)b->f32[i]) <= 1e-4 * largest)) {
            print_error("seed %llu: %g, was %g\n", (unsigned long long)seed,
                        (double)b->f32[i], (double)a->f32[i]);
            fail();
        }
}

/* The number of layers that were changed. */
static uint32_t try_one(uint64_t seed, const char *setting)
{
    static const char *const canonical[] = { "fold-constants", "fuse-batchnorm",
                                             "fuse-bias", "sweep" };
    static const char *const name[] = { "equalize" };
    const char *dir = QG_CONFIG_DIR "/backends";
    static char text[QG_RANDOM_GRAPH_TEXT];
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_backend *backend;
    qg_graph *g;
    ctx->registry = &qg_ops_registry;
    random_graph(seed, text);
    qg_text_source source = { .name = "g", .text = text, .size = strlen(text) };
    assert_ok(ctx, qg_text_parse(ctx, &source, &g));
    assert_ok(ctx, qg_backend_load(ctx, ctx->arena, "int8-base",
                                   (qg_search){ .dir = &dir, .n = 1 }, &backend));
    assert_ok(ctx, qg_backend_set(ctx, ctx->arena, setting, backend));
    qg_feed feed = { .n = 2, .fetch = fetch, .ud = g };
    qg_pass_env env = { .ctx = ctx, .graph = g, .backend = backend, .feed = &feed };
    assert_ok(ctx, qg_pass_run_all(&env, qg_passes, canonical, 4));
    qg_tensor **before = run_float(ctx, g);
    env.options.setting = backend->setting.at;
    env.options.n_setting = backend->setting.n;
    assert_ok(ctx, qg_pass_run_all(&env, qg_passes, name, 1));
    uint32_t changed = env.changed;
    qg_tensor **after = run_float(ctx, g);
    for (size_t i = 0; i < g->output.n; i++)
        expect_same(before[i], after[i], seed);
    qg_graph_free(g);
    qg_ctx_free(ctx);
    return changed;
}

static void outputs_stay(void **state)
{
    (void)state;
    static const char *const setting[] = {
        "pass=equalize level=1 iterations=3 threshold=0",
        "pass=equalize level=2 iterations=3 threshold=0 bias=yes",
        "pass=equalize level=2 iterations=10 activations=yes",
    };
    uint32_t changed = 0;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++)
        changed += try_one(seed, setting[seed % 3]);
    assert_cmp_int(changed, >, GRAPHS / 10); /* the generator makes layers in a row */
}

QG_TEST_MAIN(cmocka_unit_test(outputs_stay))

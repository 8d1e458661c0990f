/* Blocks (docs/evidence/ppq-behaviour.md#blocks); what bias-correct gives by hand. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/exec/drive.h"
#include "engine/config/backend_yaml.h"
#include "engine/config/override.h"
#include "engine/ir/text.h"
#include "ops/families.h"
#include "passes/passes.h"
#include "passes/util_blocks.h"

/* --- blocks --- */

static const char *const chain =
    "c0 = Conv(x, w)\nr0 = Relu(c0)\nc1 = Conv(r0, w)\nr1 = Relu(c1)\n"
    "c2 = Conv(r1, w)\nr2 = Relu(c2)\nc3 = Conv(r2, w)\nr3 = Relu(c3)\n"
    "c4 = Conv(r3, w)\nr4 = Relu(c4)\noutput r4 }";
static const char *const residual =
    "c1 = Conv(x, w)\nr1 = Relu(c1)\nc2 = Conv(r1, w)\nadd = Add(c2, r1)\n"
    "r2 = Relu(add)\nc3 = Conv(r2, w)\noutput c3 }";
static const char *const fork = "c1 = Conv(x, w)\nc2 = Conv(c1, w)\nc3 = Conv(c1, w)\n"
                                "output c2, c3 }";
static const char *const twice = "c1 = Conv(x, w)\ns = Add(c1, c1)\nc2 = Conv(s, w)\n"
                                 "output c2 }";

static const struct {
    const char *const *body;
    int limit;
    const char *blocks;
    size_t last; /* the node that is listed last; 0: none */
} golden[] = {
    {&chain,     1, "[c0 r0][c1 r1][c2 r2][c3 r3][c4 r4]",  0},
    { &chain,    4, "[c0 r0 c1 r1 c2][c3 r3 c4 r4]",        0},
    { &chain,    5, "[c0 r0 c1 r1 c2 r2][c3 r3 c4 r4]",     0},
    { &chain,    0, "[c0][c1][c2][c3][c4]",                 0},
    { &residual, 1, "[c1 r1][c2][c3]",                      0},
    { &residual, 2, "[c1 r1][c2][c3]",                      0},
    { &residual, 3, "[c1 r1 c2 add][c3]",                   0},
    { &residual, 4, "[c1 r1 c2 add r2][c3]",                0},
    { &residual, 5, "[c1 r1 c2 add r2 c3]",                 0},
    { &residual, 6, "[c1 r1 c2 add r2 c3]",                 0},
    { &fork,     1, "[c1][c2][c3]",                         0},
    { &fork,     9, "[c1][c2][c3]",                         0},
    { &twice,    4, "[c1 s c2]",                            0},
    { &chain,    4, "[c0 r0 c1 r1 c2][c4 r4][c3 r3 c4 r4]", 6}, /* D34 */
};

static qg_graph *parse(qg_ctx *ctx, const char *head, const char *body)
{
    qg_graph *g;
    const char *text = qg_arena_printf(ctx->arena, "%s%s", head, body);
    qg_text_source source = { .name = "g", .text = text, .size = strlen(text) };
    assert_ok(ctx, qg_text_parse(ctx, &source, &g));
    return g;
}

static void blocks_are_those_of_the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
        ctx->registry = &qg_ops_registry;
        qg_graph *g = parse(ctx,
                            "graph { x = input f32[1,4,4,4]\n"
                            "w = const f32[4,4,1,1] seed(1)\n",
                            *golden[i].body);
        for (size_t k = 0; k < g->node.n; k++)
            g->node.at[k]->platform = QG_PLATFORM_QUANTIZED;
        uint8_t last[16] = { 0 };
        assert_in_range(g->node.n, 1, sizeof last);
        last[golden[i].last] = golden[i].last > 0;
        qg_blocks blocks = { 0 };
        assert_ok(ctx, qg_blocks_find(g, last, golden[i].limit, g->arena, &blocks));
        const char *text = "";
        for (size_t b = 0; b < blocks.n; b++)
            for (size_t k = 0; k < blocks.at[b].n; k++)
                text = qg_arena_printf(ctx->arena, "%s%s%s%s", text, k ? " " : "[",
                                       blocks.at[b].node[k]->name,
                                       k + 1 < blocks.at[b].n ? "" : "]");
        assert_string_equal(text, golden[i].blocks);
        qg_graph_free(g);
        qg_ctx_free(ctx);
    }
}

/* --- corrections --- */

typedef struct fixture {
    qg_ctx *ctx;
    qg_graph *graph;
    qg_backend *backend;
    qg_feed feed;
    qg_pass_env env;
} fixture;

/* Sample k is k + 1 everywhere. */
static qg_status fetch(void *ud, qg_ctx *ctx, qg_arena *a, size_t sample,
                       const qg_tensor **in)
{
    const qg_graph *g = ud;
    qg_tensor *t = QG_NEW(a, qg_tensor);
    *t = g->input.at[0]->type;
    QG_TRY(qg_tensor_alloc(ctx, a, t));
    for (int64_t k = 0; k < qg_tensor_count(t); k++)
        t->f32[k] = (float)(sample + 1);
    in[0] = t;
    return QG_OK;
}

static void run_passes(fixture *f, const char *const *name, size_t n)
{
    f->env.options.setting = f->backend->setting.at;
    f->env.options.n_setting = f->backend->setting.n;
    assert_ok(f->ctx, qg_pass_run_all(&f->env, qg_passes, name, n));
}

/* Every endpoint that is rounded gets scale 1; outputs do not round.  A node called
 * `last` is listed last. */
static void open_fixture(fixture *f, const char *body, const char *setting)
{
    static const char *const first[] = { "dispatch", "rules", "keep-float" };
    static const char *const second[] = { "bias-correct" };
    const char *dir = QG_CONFIG_DIR "/backends";
    const float one = 1;
    *f = (fixture){ .ctx = qg_ctx_new(qg_alloc_libc) };
    f->ctx->registry = &qg_ops_registry;
    f->graph = parse(f->ctx, "graph { x = input f32[1,1,2,2]\n", body);
    qg_search search = { .dir = &dir, .n = 1 };
    assert_ok(f->ctx,
              qg_backend_load(f->ctx, f->ctx->arena, "int8-base", search, &f->backend));
    assert_ok(f->ctx, qg_backend_set(f->ctx, f->ctx->arena,
                                     "slot=weight policy=per-tensor,linear,symmetric",
                                     f->backend));
    assert_ok(f->ctx, qg_backend_set(f->ctx, f->ctx->arena, "slot=output state=fp32",
                                     f->backend));
    f->feed = (qg_feed){ .n = 3, .fetch = fetch, .ud = f->graph };
    f->env = (qg_pass_env){
        .ctx = f->ctx, .graph = f->graph, .backend = f->backend, .feed = &f->feed
    };
    run_passes(f, first, 3);
    const qg_node *last = qg_graph_node(f->graph, "last");
    if (last)
        assert_ok(f->ctx,
                  qg_vec_push(f->ctx, f->graph->arena, &f->env.listed_last, last));
    if (setting)
        assert_ok(f->ctx, qg_backend_set(f->ctx, f->ctx->arena, setting, f->backend));
    f->env.quant->author = "test";
    for (size_t i = 0; i < f->env.quant->tqc.n; i++) {
        qg_tqc *t = f->env.quant->tqc.at[i];
        if (t->state != QG_TQC_INITIAL)
            continue;
        assert_ok(f->ctx, qg_tqc_set_param(f->env.quant, t, 1, &one, NULL));
        assert_ok(f->ctx, qg_tqc_set_state(f->env.quant, t, QG_TQC_ACTIVATED));
    }
    run_passes(f, second, 1);
}

static void expect_bias(const fixture *f, const char *node, float want)
{
    for (size_t i = 0; i < f->graph->node.n; i++) {
        const qg_node *n = f->graph->node.at[i];
        if (strcmp(n->name, node) == 0)
            assert_float_equal(n->in[2]->constant->f32[0], want, 1e-6f);
    }
}

/* Of bias-correct: keep-float has rows, too. */
static const qg_coverage *last_row(const fixture *f)
{
    assert_cmp_int(f->env.coverage.n, >, 0);
    return &f->env.coverage.at[f->env.coverage.n - 1];
}

/* The bias of the float network beside the one of the node; NAN: none. */
static float bias_before(const fixture *f, const char *node)
{
    const qg_node *n = qg_graph_node(f->graph, node);
    const char *name = qg_arena_printf(f->ctx->arena, "%s" QG_UNTUNED, n->in[2]->name);
    const qg_value *v = qg_graph_value(f->graph, name);
    return v ? v->constant->f32[0] : NAN;
}

static void close_fixture(fixture *f)
{
    qg_graph_free(f->graph);
    qg_ctx_free(f->ctx);
}

/* 1.25 x + 2 becomes 1 x + 2: over x = 1, 2, 3 the mean lacks 0.5. */
static void a_bias_takes_the_mean_error(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f,
                 "w = const f32[1,1,1,1] [1.25]\nb = const f32[1] [2.0]\n"
                 "y = Conv(x, w, b)\noutput y }",
                 NULL);
    expect_bias(&f, "y", 2.5f);
    assert_float_equal(bias_before(&f, "y"), 2, 0);
    assert_int_equal(f.env.changed, 1);
    assert_int_equal(last_row(&f)->matched, 1);
    close_fixture(&f);
}

/* Gemm adds beta * bias: the same shift is 0.25 of a bias that counts twice. */
static void beta_counts(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f,
                 "two = const i64[2] [4, 1]\nw = const f32[1,1] [1.25]\n"
                 "b = const f32[1] [2.0]\nr = Reshape(x, two)\n"
                 "y = Gemm(r, w, b) beta=2.0\noutput y }",
                 NULL);
    expect_bias(&f, "y", 2.25f);
    close_fixture(&f);
}

/* C of one number per row is no bias, also where there are as many rows as columns. */
static void rows_are_no_channels(void **state)
{
    (void)state;
    fixture f;
    open_fixture(
        &f,
        "two = const i64[2] [2, 2]\nw = const f32[2,2] [1.25, 1.25, 1.25, 1.25]\n"
        "c = const f32[2,1] [2.0, 3.0]\nr = Reshape(x, two)\n"
        "y = Gemm(r, w, c)\noutput y }",
        NULL);
    expect_bias(&f, "y", 2.0f);
    assert_int_equal(f.env.changed, 0);
    assert_int_equal(last_row(&f)->near_miss.n, 1);
    assert_non_null(strstr(last_row(&f)->near_miss.at[0].condition,
                           "a float constant per channel"));
    close_fixture(&f);
}

static const char *const three =
    "w = const f32[1,1,1,1] [1.25]\nv = const f32[1,1,1,1] [1.0]\n"
    "b1 = const f32[1] [0.0]\nb2 = const f32[1] [0.0]\nb3 = const f32[1] [0.0]\n"
    "c1 = Conv(x, w, b1)\nc2 = Conv(c1, v, b2)\nc3 = Conv(c2, v, b3)\noutput c3 }";

/* The inputs of c2 and c3 would round the correction away again. */
static const char *const in_pieces = "pass=bias-correct block=0";

/* Three layers corrected at once for one error overshoot: all three are put back. */
static void a_block_that_gets_worse_is_put_back(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, three, NULL);
    expect_bias(&f, "c1", 0);
    expect_bias(&f, "c2", 0);
    expect_bias(&f, "c3", 0);
    assert_true(isnan(bias_before(&f, "c1")));
    assert_int_equal(f.env.changed, 0);
    assert_int_equal(last_row(&f)->near_miss.n, 1);
    assert_non_null(
        strstr(last_row(&f)->near_miss.at[0].condition, "expected at most"));
    close_fixture(&f);
}

/* One layer at a time: c1 lacks 0.5.  What c2 reads, 1.5, 2.5 and 3.5, is rounded to 2,
 * 2 and 4, a sixth more in the mean; so is what c3 reads of what c2 gives then. */
static void blocks_are_corrected_one_by_one(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, three, in_pieces);
    expect_bias(&f, "c1", 0.5f);
    expect_bias(&f, "c2", -1.f / 6);
    expect_bias(&f, "c3", -1.f / 6);
    assert_float_equal(bias_before(&f, "c2"), 0, 0);
    assert_int_equal(f.env.changed, 3);
    assert_int_equal(last_row(&f)->matched, 3);
    assert_int_equal(last_row(&f)->near_miss.n, 0);
    close_fixture(&f);
}

/* Blocks [y] and [last y]: over x = 1, 2, 3 the first gives 2.5, as the input of y is
 * rounded.  The second lacks mean(1.5625 x + 2) - mean(x + 2.5) = 0.625: the float side
 * keeps the bias that it had. */
static void overlapping_blocks_aim_at_the_float_network(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f,
                 "w = const f32[1,1,1,1] [1.25]\nb = const f32[1] [2.0]\n"
                 "last = Conv(x, w)\ny = Conv(last, w, b)\noutput y }",
                 NULL);
    expect_bias(&f, "y", 3.125f);
    assert_float_equal(bias_before(&f, "y"), 2, 0);
    close_fixture(&f);
}

/* A bias that two layers read is corrected for each of them. */
static void shared_biases_part(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f,
                 "w = const f32[1,1,1,1] [1.25]\nv = const f32[1,1,1,1] [0.75]\n"
                 "b = const f32[1] [2.0]\nc1 = Conv(x, w, b)\nc2 = Conv(x, v, b)\n"
                 "output c1, c2 }",
                 NULL);
    expect_bias(&f, "c1", 2.5f);
    expect_bias(&f, "c2", 1.5f);
    assert_float_equal(bias_before(&f, "c1"), 2, 0);
    assert_float_equal(bias_before(&f, "c2"), 2, 0);
    close_fixture(&f);
}

QG_TEST_MAIN(cmocka_unit_test(blocks_are_those_of_the_table),
             cmocka_unit_test(a_bias_takes_the_mean_error),
             cmocka_unit_test(beta_counts), cmocka_unit_test(rows_are_no_channels),
             cmocka_unit_test(a_block_that_gets_worse_is_put_back),
             cmocka_unit_test(blocks_are_corrected_one_by_one),
             cmocka_unit_test(overlapping_blocks_aim_at_the_float_network),
             cmocka_unit_test(shared_biases_part))

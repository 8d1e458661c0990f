/* The driver: order, analyses, the verifier behind every pass, coverage. */
#include "tests/support/test.h"

#include "engine/ir/edit.h"
#include "engine/ir/text.h"
#include "engine/pass/pass.h"
#include "ops/families.h"

static qg_status nothing(qg_pass_env *env)
{
    (void)env;
    return QG_OK;
}

/* Leaves a node whose output nobody makes. */
static qg_status vandal(qg_pass_env *env)
{
    qg_node *n = env->graph->node.at[0];
    n->out[0]->def_slot = 5;
    env->changed = 1;
    return QG_OK;
}

static qg_status report(qg_pass_env *env)
{
    const qg_node *n = env->graph->node.at[0];
    QG_TRY(qg_pass_matched(env, "p"));
    QG_TRY(qg_pass_matched(env, "p"));
    QG_TRY(qg_pass_matched(env, "q"));
    return qg_pass_near_miss(env, "p", n, "out0 has %d consumers, expected 1", 3);
}

/* Removes the second of two Relus; ids have a gap until the driver normalizes. */
static qg_status shorten(qg_pass_env *env)
{
    qg_node *n = env->graph->node.at[1];
    QG_TRY(qg_edit_replace_value(env->graph, n->out[0], n->in[0]));
    qg_edit_remove_node(env->graph, n);
    env->changed = 1;
    return QG_OK;
}

static const qg_pass idle = {
    .name = "idle", .summary = "does nothing", .needs = QG_A_TOPO, .run = nothing
};
static const qg_pass wants_tqc = {
    .name = "wants-tqc", .summary = "needs", .needs = QG_A_TQC, .run = nothing
};
static const qg_pass breaks = {
    .name = "vandal", .summary = "breaks", .needs = QG_A_TOPO, .run = vandal
};
static const qg_pass reports = {
    .name = "reports", .summary = "reports", .needs = QG_A_TOPO, .run = report
};
static const qg_pass shortens = { .name = "shortens",
                                  .summary = "edits",
                                  .needs = QG_A_TOPO | QG_A_SHAPE,
                                  .breaks = QG_A_TOPO | QG_A_SHAPE,
                                  .run = shorten };

/* Counts up by what it is told. */
static qg_status step(qg_pass_env *env)
{
    env->changed =
        (uint32_t)(10 * qg_pass_value(env, "tens") + qg_pass_value(env, "ones"));
    return QG_OK;
}

static const qg_pass_param step_param[] = {
    {"tens", "ten each", 1, 0, 9 },
    { "ones",     "one each", 2, 0, 9 },
    { 0    }
};
static const qg_pass steps = { .name = "steps",
                               .summary = "counts",
                               .needs = QG_A_TOPO,
                               .run = step,
                               .param = step_param };
static const qg_pass *const all[] = { &idle,     &wants_tqc, &breaks, &reports,
                                      &shortens, &steps,     NULL };

typedef struct fixture {
    qg_ctx *ctx;
    qg_graph *graph;
    qg_pass_env env;
    char dumped[64];
} fixture;

static qg_status dump(void *ud, const qg_pass_env *env, const char *pass)
{
    fixture *f = ud;
    (void)env;
    strcat(f->dumped, pass);
    strcat(f->dumped, " ");
    return QG_OK;
}

static void open_fixture(fixture *f)
{
    static const char text[] = "graph { x = input f32[2]; a = Relu(x); b = Relu(a)\n"
                               "output b }";
    qg_text_source source = { .text = text, .size = sizeof text - 1 };
    *f = (fixture){ .ctx = qg_ctx_new(qg_alloc_libc) };
    f->ctx->registry = &qg_ops_registry;
    assert_ok(f->ctx, qg_text_parse(f->ctx, &source, &f->graph));
    f->env = (qg_pass_env){ .ctx = f->ctx, .graph = f->graph, .dump = dump, .ud = f };
}

static void close_fixture(fixture *f)
{
    qg_graph_free(f->graph);
    qg_ctx_free(f->ctx);
}

static qg_status run(fixture *f, const char *a, const char *b)
{
    const char *const name[] = { a, b };
    return qg_pass_run_all(&f->env, all, name, b ? 2 : 1);
}

static void passes_run_in_order_and_are_recorded(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    assert_ok(f.ctx, run(&f, "shortens", "idle"));
    assert_string_equal(f.dumped, "shortens idle ");
    assert_int_equal(f.env.result.n, 2);
    assert_int_equal(f.env.result.at[0].changed, 1);
    assert_int_equal(f.env.result.at[1].changed, 0);
    assert_cmp_f64(f.env.result.at[0].seconds, >=, 0);
    assert_int_equal(f.graph->node.n, 1); /* normalized */
    assert_string_equal(f.graph->output.at[0]->name, "b");
    assert_true(f.env.valid & QG_A_TOPO);
    assert_false(f.env.valid & QG_A_SHAPE); /* dropped, made again when needed */
    close_fixture(&f);
}

static void unknown_passes_run_nothing(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    assert_fails(f.ctx, run(&f, "idle", "shorten"), QG_ECONFIG,
                 "pipeline: unknown pass 'shorten', did you mean 'shortens'");
    assert_int_equal(f.env.result.n, 0);
    close_fixture(&f);
}

static void needs_are_checked(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    assert_fails(f.ctx, run(&f, "wants-tqc", NULL), QG_ECONFIG,
                 "pipeline: pass wants-tqc needs TQCs, expected pass rules before it");
    close_fixture(&f);
}

static void settings_reach_their_pass(void **state)
{
    (void)state;
    fixture f;
    const qg_pass_setting set[] = {
        {"steps",  "tens", 3, "p.yaml", 1},
        { "idle",  "run",  0, "p.yaml", 2},
        { "steps", "tens", 4, "--set",  1}
    };
    open_fixture(&f);
    assert_ok(f.ctx, run(&f, "steps", "idle"));
    assert_int_equal(f.env.result.at[0].changed, 12); /* the defaults */
    f.env.options.setting = set;
    f.env.options.n_setting = 3;
    assert_ok(f.ctx, run(&f, "steps", "idle"));
    assert_int_equal(f.env.result.at[2].changed, 42); /* the last word counts */
    assert_string_equal(f.dumped, "steps idle steps ");
    close_fixture(&f);
}

static void wrong_settings_run_nothing(void **state)
{
    (void)state;
    static const struct {
        qg_pass_setting set;
        const char *message;
    } row[] = {
        {{ "step", "tens", 3, "p.yaml", 7 },
         "p.yaml:7: passes: 'step' is not a pass of the pipeline, did you mean "
          "'steps', "
          "expected a pass of it"                                    },
        { { "shortens", "run", 0, "p.yaml", 7 },
         "p.yaml:7: passes: 'shortens' is not a pass of the pipeline"},
        { { "steps", "tenz", 3, "--set", 1 },
         "--set:1: passes: steps has no parameter 'tenz', did you mean 'tens', "
          "expected run or one of `qg list passes`"                  },
        { { "steps", "ones", 10, "p.yaml", 7 },
         "p.yaml:7: passes: steps: ones is 10, expected 0 to 9"      },
        { { "idle", "run", 2, "p.yaml", 7 },
         "p.yaml:7: passes: idle: run is 2, expected 0 to 1"         },
    };
    fixture f;
    open_fixture(&f);
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        f.env.options.setting = &row[i].set;
        f.env.options.n_setting = 1;
        assert_fails(f.ctx, run(&f, "idle", "steps"), QG_ECONFIG, row[i].message);
        assert_int_equal(f.env.result.n, 0);
    }
    close_fixture(&f);
}

/* In any build: each pass is verified, or the last one only, which then stands for all
 * passes before it. */
static void the_verifier_names_the_pass(void **state)
{
    (void)state;
    static const struct {
        qg_pass_verify verify;
        const char *message;
        size_t ran; /* passes before the error */
    } row[] = {
        {QG_VERIFY_EACH,  "pass vandal: verify: rule ",       0},
        { QG_VERIFY_LAST, "passes up to idle: verify: rule ", 2},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        fixture f;
        open_fixture(&f);
        f.env.options.verify = row[i].verify;
        assert_fails(f.ctx, run(&f, "vandal", "idle"), QG_ESTATE, row[i].message);
        assert_cmp_int(f.env.result.n, ==, row[i].ran);
        close_fixture(&f);
    }
}

static void coverage_counts_by_pass_and_pattern(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    assert_ok(f.ctx, run(&f, "reports", "reports"));
    assert_int_equal(f.env.coverage.n, 2);
    const qg_coverage *p = &f.env.coverage.at[0];
    assert_string_equal(p->pass, "reports");
    assert_string_equal(p->pattern, "p");
    assert_int_equal(p->matched, 4);
    assert_int_equal(p->near_miss.n, 2);
    assert_string_equal(p->near_miss.at[0].node, "a");
    assert_string_equal(p->near_miss.at[0].condition,
                        "out0 has 3 consumers, expected 1");
    assert_int_equal(f.env.coverage.at[1].matched, 2);
    close_fixture(&f);
}

QG_TEST_MAIN(cmocka_unit_test(passes_run_in_order_and_are_recorded),
             cmocka_unit_test(unknown_passes_run_nothing),
             cmocka_unit_test(needs_are_checked),
             cmocka_unit_test(settings_reach_their_pass),
             cmocka_unit_test(wrong_settings_run_nothing),
             cmocka_unit_test(the_verifier_names_the_pass),
             cmocka_unit_test(coverage_counts_by_pass_and_pattern))

/* What every backend decides on one fixed graph: tests/backends/fixed.txt against
 * tests/backends/<backend>.json.  Scales are left out: they belong to other tests. */
#include "tests/support/test.h"

#include "engine/core/file.h"
#include "engine/core/rng.h"
#include "engine/exec/drive.h"
#include "engine/config/backend_yaml.h"
#include "engine/config/pipeline_yaml.h"
#include "engine/ir/text.h"
#include "engine/quant/tqc_text.h"
#include "ops/families.h"
#include "passes/passes.h"

static const char *const backends = QG_CONFIG_DIR "/backends";
static const char *const pipelines = QG_CONFIG_DIR "/pipelines";

static qg_status fetch(void *ud, qg_ctx *ctx, qg_arena *a, size_t sample,
                       const qg_tensor **in)
{
    const qg_graph *g = ud;
    qg_rng rng = { sample + 1 };
    qg_tensor *t = QG_NEW(a, qg_tensor);
    *t = g->input.at[0]->type;
    QG_TRY(qg_tensor_alloc(ctx, a, t));
    for (int64_t k = 0; k < qg_tensor_count(t); k++)
        t->f32[k] = qg_rng_range(&rng, -1, 1);
    in[0] = t;
    return QG_OK;
}

static const char *endpoint_json(qg_ctx *ctx, const qg_quant *q, const qg_tqc *t)
{
    char at[QG_ENDPOINT_TEXT], policy[QG_POLICY_TEXT], axis[16] = "";
    const qg_scheme *s = &t->scheme;
    const qg_tqc *root = qg_tqc_root(t);
    const char *line =
        qg_arena_printf(ctx->arena, "  {\"at\": \"%s\", \"state\": \"%s\"",
                        qg_tqc_text(t, at), qg_tqc_state_word(t->state));
    if (root != t)
        line = qg_arena_printf(ctx->arena, "%s, \"dominator\": \"%s\"", line,
                               qg_tqc_text(root, at));
    if (s->axis >= 0)
        (void)snprintf(axis, sizeof axis, ", \"axis\": %d", s->axis);
    return qg_arena_printf(
        ctx->arena,
        "%s, \"bits\": %d, \"range\": [%d, %d], \"policy\": \"%s\"%s, "
        "\"rounding\": \"%s\", \"observer\": \"%s\", \"rule\": \"%s\"}",
        line, s->bits, (int)s->qmin, (int)s->qmax, qg_policy_text(s->policy, policy),
        axis, qg_rounding_name(s->rounding), t->observer.name, qg_tqc_rule_id(q, t));
}

static const char *decide(qg_ctx *ctx, const char *name)
{
    qg_backend *b;
    qg_pipeline p;
    qg_graph *g;
    char *text;
    size_t size;
    assert_ok(ctx, qg_backend_load(ctx, ctx->arena, name,
                                   (qg_search){ .dir = &backends, .n = 1 }, &b));
    assert_ok(ctx, qg_pipeline_load(ctx, ctx->arena, b->pipeline,
                                    (qg_search){ .dir = &pipelines, .n = 1 }, &p));
    assert_ok(ctx, qg_file_text(
                       ctx, ctx->arena,
                       (qg_file_request){ "read", "tests/backends/fixed.txt", 1 << 16 },
                       &text, &size));
    qg_text_source source = { .name = "fixed.txt", .text = text, .size = size };
    assert_ok(ctx, qg_text_parse(ctx, &source, &g));
    qg_feed feed = { .n = 2, .fetch = fetch, .ud = g };
    qg_pass_env env = { .ctx = ctx, .graph = g, .backend = b, .feed = &feed };
    for (size_t i = 0; i < b->setting.n; i++)
        assert_ok(ctx, qg_vec_push(ctx, ctx->arena, &p.setting, b->setting.at[i]));
    env.options.setting = p.setting.at;
    env.options.n_setting = p.setting.n;
    assert_ok(ctx, qg_pass_run_all(&env, qg_passes, p.pass, p.n));
    const char *json = qg_arena_printf(ctx->arena,
                                       "{\"format\": \"quantgraph/1\", "
                                       "\"backend\": \"%s\", \"graph\": "
                                       "\"fixed\", \"tqcs\": [\n",
                                       name);
    for (size_t i = 0; i < env.quant->tqc.n; i++)
        json = qg_arena_printf(ctx->arena, "%s%s%s\n", json,
                               endpoint_json(ctx, env.quant, env.quant->tqc.at[i]),
                               i + 1 < env.quant->tqc.n ? "," : "");
    qg_graph_free(g);
    return qg_arena_printf(ctx->arena, "%s]}\n", json);
}

static void every_backend_decides_as_written(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    const char **name;
    size_t n, size;
    int differ = 0;
    ctx->registry = &qg_ops_registry;
    ctx->config_dir = QG_CONFIG_DIR;
    qg_search search = { .dir = &backends, .n = 1 };
    assert_ok(ctx, qg_config_names(ctx, ctx->arena, search, &name, &n));
    for (size_t i = 0; i < n; i++) {
        const char *path =
            qg_arena_printf(ctx->arena, "tests/backends/%s.json", name[i]);
        const char *got = decide(ctx, name[i]);
        char *want = "";
        qg_status s = qg_file_text(
            ctx, ctx->arena, (qg_file_request){ "read", path, 1 << 20 }, &want, &size);
        if (s == QG_OK && strcmp(want, got) == 0)
            continue;
        (void)fprintf(stderr, "%s differs; now it is\n%s", path, got); /* long */
        differ++;
    }
    assert_int_equal(differ, 0);
    qg_ctx_free(ctx);
}

QG_TEST_MAIN(cmocka_unit_test(every_backend_decides_as_written))

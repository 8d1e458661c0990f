/* Milliseconds per pass on chains of 1,000, 10,000 and 100,000 nodes: each pass should
 * cost ten times more per row, not a hundred times.  Prints, asserts nothing. */
#include <stdio.h>
#include <string.h>

#include "engine/io/backend_yaml.h"
#include "engine/ir/text.h"
#include "ops/families.h"
#include "passes/passes.h"

/* Blocks of Conv, Relu, Add, MaxPool(1), Concat-free: five nodes each. */
static qg_status build(qg_ctx *ctx, size_t nodes, qg_graph **out)
{
    size_t room = nodes * 64 + 512, n;
    char *text = qg_arena_get(ctx->arena, 1, room);
    if (!text)
        return QG_ENOMEM;
    n = (size_t)snprintf(text, room,
                         "graph {\nv0 = input f32[1,4,2,2]\n"
                         "w = const f32[4,4,1,1] seed(1)\n");
    size_t blocks = nodes / 5;
    for (size_t i = 0; i < blocks; i++)
        n += (size_t)snprintf(text + n, room - n,
                              "c%zu = Conv(v%zu, w)\nr%zu = Relu(c%zu)\n"
                              "a%zu = Add(r%zu, c%zu)\nk%zu = Relu(a%zu)\n"
                              "v%zu = Identity(k%zu)\n",
                              i, i, i, i, i, i, i, i, i, i + 1, i);
    n += (size_t)snprintf(text + n, room - n, "output v%zu\n}\n", blocks);
    qg_text_source source = { .name = "chain", .text = text, .size = n };
    return qg_text_parse(ctx, &source, out);
}

static void activate(qg_pass_env *env)
{
    const float one = 1;
    env->quant->author = "bench";
    for (size_t i = 0; i < env->quant->tqc.n; i++) {
        qg_tqc *t = env->quant->tqc.at[i];
        if (t->state == QG_TQC_INITIAL &&
            qg_tqc_set_param(env->quant, t, 1, &one, NULL) == QG_OK)
            (void)!qg_tqc_set_state(env->quant, t, QG_TQC_ACTIVATED);
    }
}

static qg_status measure(size_t nodes)
{
    static const char *const dir = QG_CONFIG_DIR "/backends";
    static const char *const first[] = { "fold-constants",
                                         "fuse-batchnorm",
                                         "fuse-bias",
                                         "sweep",
                                         "dispatch",
                                         "rules",
                                         "fuse",
                                         "passive",
                                         "fuse-late",
                                         "simplify",
                                         "calibrate-parameters" };
    static const char *const second[] = { "align", "derive-passive", "bake" };
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_backend *b;
    qg_graph *g;
    ctx->registry = &qg_ops_registry;
    QG_TRY(qg_backend_load(ctx, ctx->arena, "int8-base", (qg_search){ &dir, 1 }, &b));
    QG_TRY(build(ctx, nodes, &g));
    qg_pass_env env = { .ctx = ctx, .graph = g, .backend = b };
    qg_status s = qg_pass_run_all(&env, qg_passes, first, sizeof first / sizeof *first);
    if (s == QG_OK) {
        activate(&env);
        s = qg_pass_run_all(&env, qg_passes, second, sizeof second / sizeof *second);
    }
    if (s != QG_OK)
        printf("%s\n", qg_ctx_message(ctx));
    printf("%zu nodes:", nodes);
    for (size_t i = 0; i < env.result.n; i++)
        printf(" %s %.1f", env.result.at[i].name, env.result.at[i].seconds * 1e3);
    printf(" ms\n");
    qg_graph_free(g);
    qg_ctx_free(ctx);
    return s;
}

int main(void)
{
    for (size_t n = 1000; n <= 100000; n *= 10)
        if (measure(n) != QG_OK)
            return 1;
    return 0;
}

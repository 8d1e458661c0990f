/* ncnn-format-gemm -- rewrites fully connected nodes in the form of ncnn's
 * InnerProduct: weight [outputs, inputs], alpha in the weight, beta in the bias.
 * Source   docs/evidence/ppq-behaviour.md#platform-passes. */
#include <assert.h>

#include "passes/passes.h"
#include "passes/util_attr.h"
#include "passes/vendor/util_gemm.h"

/* Only nodes that will be quantized: float nodes stay unchanged. */
static qg_status format(qg_pass_env *env, qg_node *n)
{
    static const float one = 1;
    static const int64_t yes = 1;
    static const qg_attr plain[] = {
        {"alpha",   QG_ATTR_FLOAT, 1, .floats = &one},
        { "beta",   QG_ATTR_FLOAT, 1, .floats = &one},
        { "transB", QG_ATTR_INT,   1, .ints = &yes  }
    };
    qg_gemm gemm;
    QG_TRY(qg_gemm_read(env->ctx, n, &gemm));
    if (gemm.alpha == 1 && gemm.beta == 1 && gemm.transposed_b)
        return QG_OK;
    if (!n->in[1]->constant || (n->n_in > 2 && n->in[2] && !n->in[2]->constant))
        return qg_pass_near_miss(env, "inner-product", n,
                                 "its weight or bias is computed, expected constants");
    QG_TRY(qg_gemm_rewrite(env->graph, n, 1, gemm.alpha, !gemm.transposed_b));
    QG_TRY(qg_gemm_rewrite(env->graph, n, 2, gemm.beta, false));
    env->changed++;
    QG_TRY(qg_pass_matched(env, "inner-product"));
    return qg_node_set_attrs(env->graph, n, plain, 3);
}

static qg_status run(qg_pass_env *env)
{
    for (size_t i = 0; i < env->graph->node.n; i++) {
        qg_node *n = env->graph->node.at[i];
        assert(!n->dead);
        if (n->platform == QG_PLATFORM_QUANTIZED && qg_is_gemm(n))
            QG_TRY(format(env, n));
    }
    return QG_OK;
}

const qg_pass qg_pass_ncnn_format_gemm = {
    .name = "ncnn-format-gemm",
    .summary = "convert fully connected weights to ncnn's layout",
    .needs = QG_A_TOPO | QG_A_SHAPE,
    .breaks = QG_A_TOPO | QG_A_SHAPE,
    .run = run,
};

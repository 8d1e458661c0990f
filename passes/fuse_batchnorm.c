/* fuse-batchnorm -- BatchNormalization and kin go into the Conv, Gemm or MatMul before.
 *
 *     Conv(x, w, b) --v--> BatchNormalization      Conv(x, k w, k b + s)
 *
 * k and s come from op->affine; the sums are made in double and rounded once.  Only
 * when v has no other consumer and is no graph output.  A normalization that stands
 * alone stays what it is. */
#include "engine/ir/edit.h"
#include "passes/passes.h"
#include "passes/util_fold.h"

static qg_status fuse(qg_pass_env *env, qg_node *bn)
{
    const char *why = "";
    qg_node *compute = qg_fold_producer(bn, 0, &why);
    size_t n = compute ? qg_fold_channels(compute, bn, &why) : 0;
    if (n == 0)
        return qg_pass_near_miss(env, "batchnorm", bn, "%s", why);
    double *scale = QG_NEWN(env->graph->arena, 2 * n, double);
    if (!scale)
        return qg_nomem(env->ctx);
    if (bn->op->affine(env->ctx, bn, n, scale, scale + n) != QG_OK)
        return qg_pass_near_miss(env, "batchnorm", bn,
                                 "has statistics that are not constant");
    QG_TRY(qg_fold_affine(env->graph, compute, n, scale, scale + n));
    qg_edit_absorb(env->graph, compute, bn);
    env->changed++;
    return qg_pass_matched(env, "batchnorm");
}

static qg_status run(qg_pass_env *env)
{
    qg_graph *g = env->graph;
    for (size_t i = 0; i < g->node.n; i++) {
        qg_node *n = g->node.at[i];
        if (!n->dead && qg_node_has(n, QG_OP_NORMALIZE) && n->op->affine)
            QG_TRY(fuse(env, n));
    }
    return QG_OK;
}

const qg_pass qg_pass_fuse_batchnorm = {
    .name = "fuse-batchnorm",
    .summary = "multiply BatchNormalization into the weights before it",
    .needs = QG_A_TOPO | QG_A_SHAPE,
    .breaks = QG_A_TOPO | QG_A_SHAPE,
    .run = run,
};

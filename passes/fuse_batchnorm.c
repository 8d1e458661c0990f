/* fuse-batchnorm -- a normalization with fixed statistics moves into weight and bias of
 * the compute node before it:
 *     scale * (w x + b) + shift  ==  (scale w) x + (scale b + shift)
 * Any rank.  What can not be moved stays, with a near miss that says why. */
#include "passes/passes.h"
#include "passes/util_absorb.h"

static qg_status run(qg_pass_env *env)
{
    qg_graph *g = env->graph;
    for (size_t i = 0; i < g->node.n; i++) {
        qg_node *n = g->node.at[i];
        bool done;
        if (!n->dead && qg_node_has(n, QG_OP_NORMALIZE) && n->op->affine && n->n_in > 0)
            QG_TRY(qg_absorb(env, "compute-batchnorm", n, 0, &done));
    }
    return QG_OK;
}

const qg_pass qg_pass_fuse_batchnorm = {
    .name = "fuse-batchnorm",
    .summary = "multiply normalizations into the weights before them",
    .needs = QG_A_TOPO | QG_A_SHAPE,
    .breaks = QG_A_TOPO | QG_A_SHAPE,
    .run = run,
};

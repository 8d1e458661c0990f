/* fuse-batchnorm -- a normalization with fixed statistics moves into weight and bias of
 * the compute node before it:
 *     scale * (w x + b) + shift  ==  (scale w) x + (scale b + shift)
 * Any rank.  What can not be moved stays, with a near miss that says why.  A sum with a
 * constant behind it, which fuse-bias could not reach before, goes along.
 * PPQ makes the compute node anew and lists it last (D34). */
#include "engine/quant/quirk.h"
#include "passes/passes.h"
#include "passes/util_absorb.h"

/* The compute node's new output feeds a sum: the same again, unless it is PPQ's
 * turn. */
static qg_status take_sum(qg_pass_env *env, const qg_value *y)
{
    bool ppq = env->backend && (env->backend->quirks & QG_QUIRK(PPQ_BIAS_ADD_RANK));
    qg_node *n = !ppq && y->use.n == 1 ? y->use.at[0].node : NULL;
    bool done;
    if (!n || !qg_node_has(n, QG_OP_JOIN) || !n->op->affine || n->n_in != 2)
        return QG_OK;
    const qg_value *other = n->in[1 - y->use.at[0].slot];
    return other && other->constant
               ? qg_absorb(env, "compute-bias", n, y->use.at[0].slot, &done)
               : QG_OK;
}

static qg_status run(qg_pass_env *env)
{
    qg_graph *g = env->graph;
    bool ppq = env->backend && (env->backend->quirks & QG_QUIRK(PPQ_BATCHNORM_BETA));
    for (size_t i = 0; i < g->node.n; i++) {
        qg_node *n = g->node.at[i];
        bool done = false;
        qg_value *y = n->n_out > 0 ? n->out[0] : NULL;
        if (!n->dead && qg_node_has(n, QG_OP_NORMALIZE) && n->op->affine && n->n_in > 0)
            QG_TRY(qg_absorb(env, "compute-batchnorm", n, 0, &done));
        if (done && y) {
            y->def->listed_last = ppq;
            QG_TRY(take_sum(env, y));
        }
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

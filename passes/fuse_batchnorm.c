/* fuse-batchnorm -- a normalization with fixed statistics moves into weight and bias of
 * the compute node before it:
 *     scale * (w x + b) + shift  ==  (scale w) x + (scale b + shift)
 * Any rank.  What can not be moved stays, with a near miss that says why.  A sum with a
 * constant behind it, which fuse-bias could not reach before, goes along.
 * PPQ makes the compute node anew and lists it last (D34). */
#include "passes/passes.h"
#include "passes/util_absorb.h"

/* What quirks change. */
typedef struct behaviours {
    struct merge {
        qg_absorb_beta *beta_of;
        /* NULL: the compute node stays where it is. */
        qg_status (*settle)(qg_pass_env *env, const qg_node *made);
    } merge;
    qg_status (*take_sum)(qg_pass_env *env, const qg_value *y); /* NULL: not */
} behaviours;

static qg_status ppq_beta_of(qg_ctx *ctx, const qg_node *n, float *beta)
{
    (void)ctx;
    (void)n;
    *beta = 1;
    return QG_OK;
}

static qg_status ppq_list_last(qg_pass_env *env, const qg_node *made)
{
    return qg_vec_push(env->ctx, env->graph->arena, &env->listed_last, made);
}

/* The compute node's new output feeds a sum: the same again. */
static qg_status take_sum(qg_pass_env *env, const qg_value *y)
{
    qg_node *n = y->use.n == 1 ? y->use.at[0].node : NULL;
    bool done;
    if (!n || !qg_node_has(n, QG_OP_JOIN) || !n->op->affine || n->n_in != 2)
        return QG_OK;
    const qg_value *other = n->in[1 - y->use.at[0].slot];
    return other && other->constant ? qg_absorb(env, "compute-bias", qg_absorb_beta_of,
                                                n, y->use.at[0].slot, &done)
                                    : QG_OK;
}

static const behaviours ordinary = {
    .merge = { .beta_of = qg_absorb_beta_of },
    .take_sum = take_sum,
};

static const qg_quirk_row quirk[] = {
    QG_SWAP(
        PPQ_BATCHNORM_BETA,
        "D34: folding BatchNormalization into Gemm does not look at beta; a node that "
        "takes one in comes last",
        QG_PPQ "IR/morph.py GraphMerger.fuse_bn", behaviours, merge,
        { .beta_of = ppq_beta_of, .settle = ppq_list_last }),
    QG_SWAP(PPQ_BIAS_ADD_RANK,
            "a sum behind a compute node that took a normalization in stays",
            QG_PPQ "IR/morph.py GraphMerger.fuse_bn", behaviours, take_sum, NULL),
    { 0 },
};

static qg_status run(qg_pass_env *env)
{
    qg_graph *g = env->graph;
    behaviours how = ordinary;
    qg_pass_quirks(env, &how);
    for (size_t i = 0; i < g->node.n; i++) {
        qg_node *n = g->node.at[i];
        bool done = false;
        qg_value *y = n->n_out > 0 ? n->out[0] : NULL;
        if (!n->dead && qg_node_has(n, QG_OP_NORMALIZE) && n->op->affine && n->n_in > 0)
            QG_TRY(qg_absorb(env, "compute-batchnorm", how.merge.beta_of, n, 0, &done));
        if (done && y && how.merge.settle)
            QG_TRY(how.merge.settle(env, y->def));
        if (done && y && how.take_sum)
            QG_TRY(how.take_sum(env, y));
    }
    return QG_OK;
}

const qg_pass qg_pass_fuse_batchnorm = {
    .name = "fuse-batchnorm",
    .summary = "multiply normalizations into the weights before them",
    .needs = QG_A_TOPO | QG_A_SHAPE,
    .breaks = QG_A_TOPO | QG_A_SHAPE,
    .run = run,
    .quirk = quirk,
};

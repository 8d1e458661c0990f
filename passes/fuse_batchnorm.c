/* fuse-batchnorm -- folds a normalization with fixed statistics into weight and bias of
 * the preceding compute node:
 *     scale * (w x + b) + shift  ==  (scale w) x + (scale b + shift)
 * Any rank.  A normalization that cannot be folded stays, with a near miss that gives
 * the reason.  A following sum with a constant, which fuse-bias could not reach before,
 * is folded as well. PPQ creates a new compute node, lists it last and does not visit
 * it again (D34); it computes in float32.  Not reproduced: PPQ also folds across an
 * output of the network, which then has no producer. */
#include "passes/passes.h"
#include "passes/util_absorb.h"
#include "passes/util_batchnorm.h"

/* Behaviours that quirks replace. */
typedef struct behaviours {
    struct merge {
        qg_status (*beta_of)(qg_ctx *ctx, const qg_node *n,
                             float *beta);                          /* NULL: its */
        bool (*may_take)(const qg_pass_env *env, const qg_node *p); /* NULL: it may */
        /* NULL: the compute node stays where it is. */
        qg_status (*settle)(qg_pass_env *env, const qg_node *made);
    } merge;
    /* NULL: in double */
    qg_status (*fold)(qg_graph *g, const qg_node *n, const qg_tensor *weight, int axis,
                      const qg_tensor *bias, qg_tensor *out[2]);
    qg_status (*take_sum)(qg_pass_env *env, const qg_value *y); /* NULL: never */
} behaviours;

static qg_status ppq_beta_of(qg_ctx *ctx, const qg_node *n, float *beta)
{
    (void)ctx;
    (void)n;
    *beta = 1;
    return QG_OK;
}

/* PPQ searches for pairs once, and a node that has absorbed one is in no further
 * pair. */
static bool ppq_may_take(const qg_pass_env *env, const qg_node *p)
{
    for (size_t i = 0; i < env->listed_last.n; i++)
        if (env->listed_last.at[i] == p)
            return false;
    return true;
}

static qg_status ppq_list_last(qg_pass_env *env, const qg_node *made)
{
    return qg_vec_push(env->ctx, env->graph->arena, &env->listed_last, made);
}

/* The compute node's new output feeds a sum: fold that too. */
static qg_status take_sum(qg_pass_env *env, const qg_value *y)
{
    qg_node *n = y->use.n == 1 ? y->use.at[0].node : NULL;
    bool done;
    if (!n || !qg_node_has(n, QG_OP_JOIN) || !n->op->affine || n->n_in != 2)
        return QG_OK;
    const qg_value *other = n->in[1 - y->use.at[0].slot];
    return other && other->constant ? qg_absorb(env, "compute-bias", &qg_absorb_exactly,
                                                n, y->use.at[0].slot, &done)
                                    : QG_OK;
}

static const behaviours ordinary = { .take_sum = take_sum };

static const qg_quirk_row quirk[] = {
    QG_SWAP(
        PPQ_BATCHNORM_BETA,
        "D34: folding BatchNormalization into Gemm ignores beta; a node that absorbs "
        "one is listed last and absorbs no other",
        QG_PPQ "IR/morph.py GraphMerger.fuse_bn", behaviours, merge,
        { .beta_of = ppq_beta_of, .may_take = ppq_may_take, .settle = ppq_list_last }),
    QG_SWAP(PPQ_BATCHNORM_FLOAT32,
            "BatchNormalization is folded into weights in float32, rounding each step",
            QG_PPQ "IR/morph.py GraphMerger.fuse_bn", behaviours, fold,
            qg_batchnorm_float32),
    QG_SWAP(PPQ_BIAS_ADD_RANK,
            "a sum after a compute node that absorbed a normalization stays",
            QG_PPQ "IR/morph.py GraphMerger.fuse_bn", behaviours, take_sum, NULL),
    { 0 },
};

/* One normalization. */
static qg_status take(qg_pass_env *env, const behaviours *how, qg_node *n)
{
    qg_absorb_how absorb = qg_absorb_exactly;
    const qg_node *p = n->in[0] ? n->in[0]->def : NULL;
    const qg_value *y = n->n_out > 0 ? n->out[0] : NULL;
    bool done;
    if (p && how->merge.may_take && !how->merge.may_take(env, p))
        return QG_OK;
    absorb.fold = how->fold;
    if (how->merge.beta_of)
        absorb.beta_of = how->merge.beta_of;
    QG_TRY(qg_absorb(env, "compute-batchnorm", &absorb, n, 0, &done));
    if (done && y && how->merge.settle)
        QG_TRY(how->merge.settle(env, y->def));
    return done && y && how->take_sum ? how->take_sum(env, y) : QG_OK;
}

static qg_status run(qg_pass_env *env)
{
    qg_graph *g = env->graph;
    behaviours how = ordinary;
    qg_pass_quirks(env, &how);
    for (size_t i = 0; i < g->node.n; i++) {
        qg_node *n = g->node.at[i];
        if (!n->dead && qg_node_has(n, QG_OP_NORMALIZE) && n->op->affine && n->n_in > 0)
            QG_TRY(take(env, &how, n));
    }
    return QG_OK;
}

const qg_pass qg_pass_fuse_batchnorm = {
    .name = "fuse-batchnorm",
    .summary = "fold normalizations into the preceding weights",
    .needs = QG_A_TOPO | QG_A_SHAPE,
    .breaks = QG_A_TOPO | QG_A_SHAPE,
    .run = run,
    .quirk = quirk,
};

/* simplify -- overlaps an input that would requantize its producer's value on the same
 * grid.  Per slot (PPQ's defect D21: only the first of two slots that read the same
 * value). */

#include "passes/passes.h"

/* Behaviours that quirks replace. */
typedef struct behaviours {
    bool (*is_redundant)(const qg_use *u, const qg_tqc *producer);
} behaviours;

/* Not yet decided otherwise, and the same grid.  A function of the host may do
 * anything to values on the grid: only values that the same function quantized need no
 * second call. */
static bool is_redundant(const qg_use *u, const qg_tqc *producer)
{
    const qg_tqc *t = qg_input_tqc(u->node, u->slot);
    return t && t->state == QG_TQC_INITIAL &&
           (!t->quantizer || t->quantizer == qg_tqc_root(producer)->quantizer) &&
           qg_scheme_same(&t->scheme, &producer->scheme);
}

/* Except where an earlier slot of the same node reads the same value. */
static bool ppq_is_redundant(const qg_use *u, const qg_tqc *producer)
{
    for (uint32_t k = 0; k < u->slot; k++)
        if (u->node->in[k] == u->node->in[u->slot])
            return false;
    return is_redundant(u, producer);
}

static const behaviours ordinary = { .is_redundant = is_redundant };

static const qg_quirk_row quirk[] = {
    QG_SWAP(PPQ_FIRST_SLOT_ONLY,
            "D21: of two slots that read the same value only the first is simplified",
            QG_PPQ "quantization/optim/refine.py QuantizeSimplifyPass", behaviours,
            is_redundant, ppq_is_redundant),
    { 0 },
};

/* Every consumer of the value, in order of node id. */
static qg_status simplify_value(qg_pass_env *env, const behaviours *how,
                                const qg_value *v, qg_tqc *producer)
{
    for (size_t i = 0; i < v->use.n; i++) {
        const qg_use *u = &v->use.at[i];
        qg_tqc *t = qg_input_tqc(u->node, u->slot);
        if (!how->is_redundant(u, producer))
            continue;
        if (qg_tqc_root(producer) == t)
            continue; /* a passive node made the consumer the dominator */
        QG_TRY(qg_tqc_join(env->quant, t, producer));
        env->changed++;
    }
    return QG_OK;
}

/* Values whose producer quantizes, or is overlapped under an active quantizer. */
static qg_status run(qg_pass_env *env)
{
    qg_graph *g = env->graph;
    behaviours how = ordinary;
    qg_pass_quirks(env, &how);
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v = g->value.at[i];
        qg_tqc *t = qg_producer_tqc(v);
        const qg_tqc *root = t ? qg_tqc_root(t) : NULL;
        if (root && root->state != QG_TQC_FP32 && root->state != QG_TQC_SOI &&
            root->derive == QG_DERIVE_NONE)
            QG_TRY(simplify_value(env, &how, v, t));
    }
    return QG_OK;
}

const qg_pass qg_pass_simplify = {
    .name = "simplify",
    .summary = "overlap inputs that would repeat the quantization of their producer",
    .needs = QG_A_TOPO | QG_A_TQC,
    .run = run,
    .quirk = quirk,
};

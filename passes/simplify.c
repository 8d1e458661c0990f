/* simplify -- a consumer that would round again what its producer rounded, on the same
 * grid, keeps silent.  Per slot (PPQ's defect D21: only the first of two slots that
 * read the same value). */
#include "engine/quant/quirk.h"

#include "passes/passes.h"

/* Not yet decided otherwise, and the same grid. */
static bool is_redundant(const qg_tqc *t, const qg_tqc *producer)
{
    return t && t->state == QG_TQC_INITIAL &&
           qg_scheme_same(&t->scheme, &producer->scheme);
}

/* An earlier slot of the same node reads the same value. */
static bool is_repeated(const qg_use *u)
{
    for (uint32_t k = 0; k < u->slot; k++)
        if (u->node->in[k] == u->node->in[u->slot])
            return true;
    return false;
}

/* Every consumer of the value, in order of node id. */
static qg_status simplify_value(qg_pass_env *env, const qg_value *v, qg_tqc *producer)
{
    bool first_only = (env->quant->quirks & QG_QUIRK(PPQ_FIRST_SLOT_ONLY)) != 0;
    for (size_t i = 0; i < v->use.n; i++) {
        const qg_use *u = &v->use.at[i];
        qg_tqc *t = qg_input_tqc(u->node, u->slot);
        if (!is_redundant(t, producer) || (first_only && is_repeated(u)))
            continue;
        if (qg_tqc_root(producer) == t)
            continue; /* a passive node made the consumer lead */
        QG_TRY(qg_tqc_join(env->quant, t, producer));
        env->changed++;
    }
    return QG_OK;
}

/* Values whose producer rounds, or is silent under one that does. */
static qg_status run(qg_pass_env *env)
{
    qg_graph *g = env->graph;
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v = g->value.at[i];
        qg_tqc *t = qg_producer_tqc(v);
        const qg_tqc *root = t ? qg_tqc_root(t) : NULL;
        if (root && root->state != QG_TQC_FP32 && root->state != QG_TQC_SOI &&
            root->derive == QG_DERIVE_NONE)
            QG_TRY(simplify_value(env, v, t));
    }
    return QG_OK;
}

const qg_pass qg_pass_simplify = {
    .name = "simplify",
    .summary = "inputs that would repeat the rounding of their producer keep silent",
    .needs = QG_A_TOPO | QG_A_TQC,
    .run = run,
};

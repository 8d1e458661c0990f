/* passive -- the outputs of a node that only moves values follow its input and are not
 * requantized. */

#include "passes/passes.h"

/* The whole group of t must be able to become overlapped under the dominator. */
static bool can_follow(const qg_tqc *t, const qg_tqc *leader)
{
    const qg_tqc *root = qg_tqc_root(t), *lead = qg_tqc_root(leader);
    bool moves = root->state == QG_TQC_OVERLAPPED ||
                 qg_tqc_may_move(root->state, root->saved, QG_TQC_OVERLAPPED);
    return root != lead && moves && lead->state != QG_TQC_FP32 &&
           lead->state != QG_TQC_SOI && lead->derive == QG_DERIVE_NONE;
}

/* Behaviours that quirks replace. */
typedef struct behaviours {
    bool (*has_source)(const qg_node *n); /* whether its outputs can follow the input */
} behaviours;

static bool has_source(const qg_node *n) { return n->n_in > 0; }

/* The input comes from a node of the same platform. */
static bool ppq_has_source(const qg_node *n)
{
    const qg_node *p = n->n_in > 0 && n->in[0] ? n->in[0]->def : NULL;
    return p && p->platform == n->platform;
}

static const behaviours ordinary = { .has_source = has_source };

static const qg_quirk_row quirk[] = {
    QG_SWAP(PPQ_PASSIVE_PRODUCER,
            "a passive node whose input has no quantized producer gets two scales",
            QG_PPQ "quantization/optim/refine.py QuantizeFusionPass", behaviours,
            has_source, ppq_has_source),
    { 0 },
};

/* Output by output; an output that cannot follow is a near miss and does not affect the
 * others. */
static qg_status follow(qg_pass_env *env, qg_node *n)
{
    qg_tqc *in = qg_input_tqc(n, 0);
    for (uint32_t k = 0; k < n->n_out; k++) {
        qg_tqc *out = qg_output_tqc(n, k);
        if (!in || !out)
            continue;
        if (!can_follow(out, in)) {
            if (qg_tqc_root(out) != qg_tqc_root(in))
                QG_TRY(qg_pass_near_miss(env, "output-follows-input", n,
                                         "in0 is %s and out%u is %s, expected both to "
                                         "be quantized",
                                         qg_tqc_state_word(in->state), (unsigned)k,
                                         qg_tqc_state_word(out->state)));
            continue;
        }
        QG_TRY(qg_tqc_join(env->quant, out, in));
        QG_TRY(qg_pass_matched(env, "output-follows-input"));
        env->changed++;
    }
    return QG_OK;
}

static qg_status run(qg_pass_env *env)
{
    qg_graph *g = env->graph;
    behaviours how = ordinary;
    qg_pass_quirks(env, &how);
    for (size_t i = 0; i < g->node.n; i++) {
        qg_node *n = g->node.at[i];
        if (n->platform == QG_PLATFORM_QUANTIZED && how.has_source(n) &&
            qg_backend_is_passive(env->backend, n->op))
            QG_TRY(follow(env, n));
    }
    return QG_OK;
}

const qg_pass qg_pass_passive = {
    .name = "passive",
    .summary = "make outputs of nodes that only move values follow the input",
    .needs = QG_A_TOPO | QG_A_TQC,
    .run = run,
    .quirk = quirk,
};

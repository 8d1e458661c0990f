/* nxp-input-rounding -- the host quantizes values that enter the quantized part,
 * rounding ties down: endpoints that read a value without a quantized producer use
 * half-down. PPQ also changes constants, which have no producer (D57: quirk
 * ppq-nxp-rounds-constants).
 * Source   docs/evidence/ppq-behaviour.md#platform-passes. */

#include "passes/passes.h"

/* Behaviours that quirks replace. */
typedef struct behaviours {
    bool (*reads)(const qg_tqc *t);
    bool (*comes_from_outside)(const qg_value *v);
} behaviours;

static bool reads(const qg_tqc *t) { return !t->is_output; }

/* Of two slots that read the same value, the first. */
static bool ppq_reads(const qg_tqc *t)
{
    for (uint32_t k = 0; !t->is_output && k < t->slot; k++)
        if (t->node->in[k] == t->node->in[t->slot])
            return false;
    return reads(t);
}

/* Not produced by a quantized node. */
static bool ppq_comes_from_outside(const qg_value *v)
{
    return !v->def || v->def->platform != QG_PLATFORM_QUANTIZED;
}

/* Supplied by the host. */
static bool comes_from_outside(const qg_value *v)
{
    return !v->constant && (!v->def || v->def->platform != QG_PLATFORM_QUANTIZED);
}

static const behaviours ordinary = { .reads = reads,
                                     .comes_from_outside = comes_from_outside };

static const qg_quirk_row quirk[] = {
    QG_SWAP(PPQ_FIRST_SLOT_ONLY,
            "D21: of two slots that read the same value only the first uses half-down",
            QG_PPQ "quantization/optim/refine.py NxpInputRoundingRefinePass",
            behaviours, reads, ppq_reads),
    QG_SWAP(PPQ_ROUND_CONSTANTS,
            "D57: the rounding of inputs is also applied to weights and biases",
            QG_PPQ "quantization/optim/refine.py NxpInputRoundingRefinePass",
            behaviours, comes_from_outside, ppq_comes_from_outside),
    { 0 },
};

static qg_status run(qg_pass_env *env)
{
    qg_quant *q = env->quant;
    behaviours how = ordinary;
    qg_pass_quirks(env, &how);
    for (size_t i = 0; i < q->tqc.n; i++) {
        qg_tqc *t = q->tqc.at[i];
        qg_scheme s = t->scheme;
        if (!how.reads(t) || !how.comes_from_outside(qg_tqc_value(t)) ||
            s.rounding == QG_ROUND_HALF_DOWN)
            continue;
        s.rounding = QG_ROUND_HALF_DOWN;
        QG_TRY(qg_tqc_set_scheme(q, t, &s));
        env->changed++;
    }
    return QG_OK;
}

const qg_pass qg_pass_nxp_input_rounding = {
    .name = "nxp-input-rounding",
    .summary = "use half-down rounding for values supplied by the host",
    .needs = QG_A_TQC,
    .run = run,
    .quirk = quirk,
};

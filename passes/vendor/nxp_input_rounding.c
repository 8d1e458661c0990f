/* nxp-input-rounding -- what comes from outside of the quantized part is rounded by the
 * host, which sends ties down: endpoints that read a value which no quantized node
 * makes round half-down.
 * PPQ also changes constants, which nobody makes (D57: quirk ppq-nxp-rounds-constants).
 * Source   spec/ppq.md 7.17, NxpInputRounding. */
#include <assert.h>

#include "engine/quant/quirk.h"
#include "passes/passes.h"

/* D21: of two slots that read one value PPQ sees the first. */
static bool is_overlooked(const qg_pass_env *env, const qg_tqc *t)
{
    bool first_only = (env->quant->quirks & QG_QUIRK(PPQ_FIRST_SLOT_ONLY)) != 0;
    for (uint32_t k = 0; first_only && k < t->slot; k++)
        if (t->node->in[k] == t->node->in[t->slot])
            return true;
    return false;
}

/* Read from the host, or, with the quirk, from anywhere but a quantized node. */
static bool comes_from_outside(const qg_pass_env *env, const qg_tqc *t)
{
    const qg_value *v = qg_tqc_value(t);
    assert(v);
    if (t->is_output || (v->def && v->def->platform == QG_PLATFORM_QUANTIZED) ||
        is_overlooked(env, t))
        return false;
    return !v->constant || (env->quant->quirks & QG_QUIRK(PPQ_ROUND_CONSTANTS)) != 0;
}

static qg_status run(qg_pass_env *env)
{
    qg_quant *q = env->quant;
    for (size_t i = 0; i < q->tqc.n; i++) {
        qg_tqc *t = q->tqc.at[i];
        qg_scheme s = t->scheme;
        if (!comes_from_outside(env, t) || s.rounding == QG_ROUND_HALF_DOWN)
            continue;
        s.rounding = QG_ROUND_HALF_DOWN;
        QG_TRY(qg_tqc_set_scheme(q, t, &s));
        env->changed++;
    }
    return QG_OK;
}

const qg_pass qg_pass_nxp_input_rounding = {
    .name = "nxp-input-rounding",
    .summary = "what the host hands in is rounded half-down",
    .needs = QG_A_TQC,
    .run = run,
};

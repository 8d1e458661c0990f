/* bake -- marks calibrated constants as lying on their grid: ACTIVATED -> BAKED,
 * PASSIVE -> PASSIVE_BAKED.
 *
 * The graph keeps the float values: a plan rounds baked constants once, while it is
 * compiled, so a value that two endpoints read on two grids is rounded to each, and
 * unbaking loses nothing. */
#include "passes/passes.h"

#include <assert.h>

/* Overlapped constants and those that still wait for a scale stay as they are: they do
 * not round. */
static qg_status run(qg_pass_env *env)
{
    assert(env->quant);
    qg_quant *q = env->quant;
    for (size_t i = 0; i < q->tqc.n; i++) {
        qg_tqc *t = q->tqc.at[i];
        if (!qg_tqc_is_constant(t) ||
            (t->state != QG_TQC_ACTIVATED && t->state != QG_TQC_PASSIVE))
            continue;
        QG_TRY(qg_tqc_set_state(
            q, t, t->state == QG_TQC_ACTIVATED ? QG_TQC_BAKED : QG_TQC_PASSIVE_BAKED));
        env->changed++;
    }
    return QG_OK;
}

const qg_pass qg_pass_bake = {
    .name = "bake",
    .summary = "mark calibrated constants as quantized",
    .needs = QG_A_TQC,
    .run = run,
};

/* rules -- creates the TQC of every endpoint of a quantized node, from the backend's
 * rules. */
#include "engine/pass/rules.h"
#include "passes/passes.h"

/* TQCs are created only here and when a snapshot is loaded. */
static qg_status run(qg_pass_env *env)
{
    if (env->quant)
        return qg_fail(env->ctx, QG_ESTATE,
                       "pass rules: the graph has TQCs already, expected none");
    qg_quant *q;
    QG_TRY(qg_quant_new(env->graph, env->backend, &q));
    q->quirks = env->backend->quirks;
    QG_TRY(qg_rules_apply(q));
    env->quant = q;
    env->changed = (uint32_t)q->tqc.n;
    return QG_OK;
}

const qg_pass qg_pass_rules = {
    .name = "rules",
    .summary =
        "create the records of quantized nodes' endpoints from the backend's rules",
    .needs = QG_A_TOPO | QG_A_SHAPE,
    .run = run,
    .quirk = qg_rules_quirks,
};

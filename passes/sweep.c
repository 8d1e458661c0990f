/* sweep -- nodes and values that no graph output needs are removed. */
#include "engine/ir/edit.h"
#include "passes/passes.h"

static qg_status run(qg_pass_env *env)
{
    size_t removed = 0;
    QG_TRY(qg_graph_sweep(env->graph, &removed));
    env->changed += (uint32_t)removed;
    return QG_OK;
}

const qg_pass qg_pass_sweep = {
    .name = "sweep",
    .summary = "remove what no output needs",
    .needs = 0,
    .breaks = QG_A_TOPO | QG_A_SHAPE,
    .run = run,
};

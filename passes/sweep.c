/* sweep -- removes nodes and values that no graph output needs. */
#include "engine/ir/edit.h"
#include "passes/passes.h"

static qg_status run(qg_pass_env *env)
{
    size_t removed;
    QG_TRY(qg_graph_sweep(env->graph, &removed));
    env->changed = removed > UINT32_MAX ? UINT32_MAX : (uint32_t)removed;
    return QG_OK;
}

const qg_pass qg_pass_sweep = {
    .name = "sweep",
    .summary = "remove dead code",
    .needs = QG_A_TOPO,
    .breaks = QG_A_SHAPE, /* it renumbers what inference kept by id */
    .run = run,
};

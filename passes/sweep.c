/* sweep -- removes nodes and values that no graph output needs, except for the float
 * values of learned constants, which errors refer to. */
#include "engine/ir/edit.h"
#include "passes/passes.h"
#include "passes/util_copies.h"

/* Behaviours that quirks replace. */
typedef struct behaviours {
    qg_status (*before)(qg_pass_env *env); /* NULL: nothing */
} behaviours;

static const qg_quirk_row quirk[] = {
    QG_SWAP(PPQ_IDENTITY_LATE, "nodes that only pass their input on are removed here",
            QG_PPQ "api/interface.py format_graph", behaviours, before, qg_drop_copies),
    { 0 },
};

static qg_status run(qg_pass_env *env)
{
    size_t removed;
    behaviours how = { 0 };
    qg_pass_quirks(env, &how);
    if (how.before)
        QG_TRY(how.before(env));
    QG_TRY(qg_graph_sweep_dead(env->graph, &removed));
    env->changed = removed > UINT32_MAX ? UINT32_MAX : (uint32_t)removed;
    return QG_OK;
}

const qg_pass qg_pass_sweep = {
    .name = "sweep",
    .summary = "remove dead code",
    .needs = QG_A_TOPO,
    .breaks = QG_A_SHAPE, /* it renumbers the ids under which inference stores its
                           * results */
    .run = run,
    .quirk = quirk,
};

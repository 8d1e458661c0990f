/* fold-constants -- values that shape inference could compute become constants.
 *
 * Graph outputs stay computed: the interface keeps its producers.  Nodes that nobody
 * reads any more are left to `sweep`. */
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "passes/passes.h"

static qg_status run(qg_pass_env *env)
{
    qg_graph *g = env->graph;
    const qg_tensor *const *known;
    QG_TRY(qg_infer_known(g, &known));
    for (size_t i = 0; i < g->value.n; i++) {
        qg_value *v = g->value.at[i];
        qg_tensor *copy; /* what inference keeps dies with the next edit */
        if (!v->def || v->is_output || v->constant || !known[v->id])
            continue;
        QG_TRY(qg_tensor_clone(env->ctx, g->arena, known[v->id], &copy));
        QG_TRY(qg_edit_make_constant(g, v, copy));
        env->changed++;
    }
    return QG_OK;
}

const qg_pass qg_pass_fold_constants = {
    .name = "fold-constants",
    .summary = "compute once what does not depend on the inputs",
    .needs = QG_A_TOPO | QG_A_SHAPE,
    .breaks = QG_A_TOPO,
    .run = run,
};

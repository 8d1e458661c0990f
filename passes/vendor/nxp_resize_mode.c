/* nxp-resize-mode -- the NPU resizes by taking the nearest element with half-pixel
 * centres (of two equally near ones the lower), whatever the model specifies; quantized
 * Resize nodes get these attributes, so that simulation and calibration match the
 * device.
 * Source   docs/evidence/ppq-behaviour.md#platform-passes. */
#include <assert.h>

#include "passes/passes.h"
#include "passes/util_attr.h"

static qg_status run(qg_pass_env *env)
{
    qg_graph *g = env->graph;
    for (size_t i = 0; i < g->node.n; i++) {
        qg_node *n = g->node.at[i];
        assert(n->op);
        if (n->platform != QG_PLATFORM_QUANTIZED || !n->op->nearest)
            continue;
        QG_TRY(qg_node_set_attrs(g, n, n->op->nearest, n->op->n_nearest));
        env->changed++;
    }
    return QG_OK;
}

const qg_pass qg_pass_nxp_resize_mode = {
    .name = "nxp-resize-mode",
    .summary = "set Resize to nearest, as computed by the NPU",
    .needs = QG_A_TOPO,
    .breaks = QG_A_SHAPE,
    .run = run,
};

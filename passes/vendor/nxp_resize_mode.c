/* nxp-resize-mode -- the NPU resizes by taking the nearest element with half-pixel
 * centres, of two equally near ones the lower, whatever the model asks for: quantized
 * Resize nodes are made to say so, so that simulation and calibration see what the
 * device computes.
 * Source   spec/ppq.md 7.17, NXPResizeModeChange. */
#include <assert.h>

#include "passes/passes.h"
#include "passes/util_attr.h"

static qg_status run(qg_pass_env *env)
{
    static const char *const name[] = { "mode", "coordinate_transformation_mode",
                                        "nearest_mode" };
    const qg_new_attr nearest[] = {
        {name[0],  QG_ATTR_STRING, .s = "nearest"           },
        { name[1], QG_ATTR_STRING, .s = "half_pixel"        },
        { name[2], QG_ATTR_STRING, .s = "round_prefer_floor"}
    };
    qg_graph *g = env->graph;
    for (size_t i = 0; i < g->node.n; i++) {
        qg_node *n = g->node.at[i];
        assert(n->op);
        if (n->platform != QG_PLATFORM_QUANTIZED ||
            n->op != qg_op_find(env->ctx->registry, NULL, "Resize", n->opset))
            continue;
        QG_TRY(qg_node_set_attrs(g, n, nearest, n->opset < 11 ? 1 : 3));
        env->changed++;
    }
    return QG_OK;
}

const qg_pass qg_pass_nxp_resize_mode = {
    .name = "nxp-resize-mode",
    .summary = "Resize takes the nearest element, as the NPU does",
    .needs = QG_A_TOPO,
    .breaks = QG_A_SHAPE,
    .run = run,
};

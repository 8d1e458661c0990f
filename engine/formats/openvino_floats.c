/* openvino_floats.c -- operators in float that OpenVINO's reader of ONNX files takes
 * otherwise than ONNX defines them. */
#include "engine/formats/openvino_plugin.h"

static bool is_one_of(const qg_node *n, const char *const *names, size_t count)
{
    return !n->op->domain && qg_op_is_named(n->op, names, count);
}

/* --- reductions --- */

/* With the attribute that became an input in opset 18. */
static bool has_reductions(const qg_graph *g)
{
    static const char *const names[] = { "ReduceL1", "ReduceLogSum",
                                         "ReduceLogSumExp" };
    for (size_t i = 0; i < g->node.n; i++)
        if (is_one_of(g->node.at[i], names, sizeof names / sizeof *names) &&
            qg_attr_has(g->node.at[i], "axes"))
            return true;
    return false;
}

int64_t qg_plugin_opset(const qg_graph *g, int64_t opset)
{
    const int64_t wrong = 13, right = 18;
    bool found = has_reductions(g);
    for (const qg_graph *body = g->bodies; body && !found; body = body->next_body)
        found = has_reductions(body);
    return found && opset >= wrong && opset < right ? right : opset;
}

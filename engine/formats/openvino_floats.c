/* openvino_floats.c -- operators in float that OpenVINO's reader of ONNX files takes
 * otherwise than ONNX defines them. */
#include "engine/formats/openvino_plugin.h"

#include <string.h>

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

/* Without axes, which noop_with_empty_axes takes for none: it gives the input, or its
 * logarithm. */
static bool reduces_nothing(const qg_node *n)
{
    static const char *const names[] = { "ReduceL1", "ReduceL2", "ReduceLogSum" };
    const qg_attr *noop = qg_attr_find(n, "noop_with_empty_axes");
    const qg_tensor *axes = n->n_in > 1 && n->in[1] ? n->in[1]->constant : NULL;
    return is_one_of(n, names, sizeof names / sizeof *names) && noop &&
           noop->type == QG_ATTR_INT && noop->ints[0] &&
           (n->n_in < 2 || !n->in[1] || (axes && qg_tensor_count(axes) == 0));
}

/* --- recurrent layers --- */

static bool is_zero(const qg_tensor *t)
{
    int64_t k = 0, n = t ? qg_tensor_count(t) : 0;
    while (k < n && qg_tensor_f64(t, k) == 0)
        k++;
    return t && k == n;
}

static bool has_ignored_gates(const qg_node *n)
{
    static const char *const name = "LSTM";
    enum { PEEPHOLES = 7 };
    const qg_attr *couple = qg_attr_find(n, "input_forget");
    const qg_value *p = n->n_in > PEEPHOLES ? n->in[PEEPHOLES] : NULL;
    return is_one_of(n, &name, 1) &&
           ((couple && couple->type == QG_ATTR_INT && couple->ints[0]) ||
            (p && !is_zero(p->constant)));
}

/* --- pools --- */

/* The first axis along which a window is larger than the padded data, as ceil_mode
 * allows, of pools that keep their pads in the file (openvino_plugin.c writes larger
 * ones for the others); -1: there is none.  OpenVINO does not load such a file. */
static int axis_cut_off(const qg_node *n)
{
    static const char *const names[] = { "AveragePool", "LpPool" };
    const qg_attr *kernel = qg_attr_find(n, "kernel_shape");
    const qg_attr *counted = qg_attr_find(n, "count_include_pad");
    if (!is_one_of(n, names, 2) || !kernel || kernel->type != QG_ATTR_INTS ||
        (is_one_of(n, names, 1) && !(counted && counted->ints[0])) ||
        qg_attr_has(n, "auto_pad"))
        return -1;
    for (size_t k = 0, axes = kernel->count; k < axes; k++) {
        const int64_t x = n->in[0]->type.rank == (int32_t)axes + 2
                              ? n->in[0]->type.dim[k + 2]
                              : -1,
                      reach =
                          (kernel->ints[k] - 1) * qg_attr_at(n, "dilations", k, 1) + 1;
        if (x >= 0 && reach > x + qg_attr_at(n, "pads", k, 0) +
                                  qg_attr_at(n, "pads", k + axes, 0))
            return (int)k + 2;
    }
    return -1;
}

/* --- lint and losses --- */

const char *qg_plugin_reads_apart(const qg_node *n)
{
    return reduces_nothing(n) ? "without axes and with noop_with_empty_axes its reader "
                                "of ONNX leaves out the absolute value, or takes the "
                                "logarithm; expected axes"
           : has_ignored_gates(n) ? "it ignores input_forget and peepholes; expected "
                                    "neither"
                                  : NULL;
}

qg_status qg_plugin_lose(qg_export *e)
{
    for (size_t i = 0; i < e->quant->graph->node.n; i++) {
        const qg_node *n = e->quant->graph->node.at[i];
        const char *why = qg_plugin_reads_apart(n);
        const int axis = axis_cut_off(n);
        if (axis >= 0)
            return qg_node_fail(e->ctx, QG_EUNSUPPORTED, "export", n,
                                "a window that is larger than the padded extent of "
                                "axis %d, which OpenVINO refuses, expected a smaller "
                                "one, or count_include_pad 0",
                                axis);
        if (why)
            QG_TRY(
                qg_export_lose_node(e, n, "OpenVINO computes something else: ", why));
    }
    return QG_OK;
}

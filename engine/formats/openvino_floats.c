/* openvino_floats.c -- operators in float that OpenVINO's reader of ONNX files takes
 * otherwise than ONNX defines them. */
#include "engine/formats/openvino_plugin.h"

#include <string.h>

/* --- reductions --- */

/* With the attribute that became an input in opset 18. */
static bool has_reductions(const qg_graph *g)
{
    static const char *const names[] = { "ReduceL1", "ReduceLogSum",
                                         "ReduceLogSumExp" };
    for (size_t i = 0; i < g->node.n; i++)
        if (qg_node_is_onnx(g->node.at[i], names, sizeof names / sizeof *names) &&
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
    return qg_node_is_onnx(n, names, sizeof names / sizeof *names) && noop &&
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
    return qg_node_is_onnx(n, &name, 1) &&
           ((couple && couple->type == QG_ATTR_INT && couple->ints[0]) ||
            (p && !is_zero(p->constant)));
}

static bool is_word(const qg_node *n, const char *name, const char *word)
{
    const qg_attr *a = qg_attr_find(n, name);
    return a && a->type == QG_ATTR_STRING && strcmp(a->strings[0], word) == 0;
}

static const char *const recurrent[] = { "LSTM", "GRU", "RNN" };

/* With activations that its cells do not have. */
static bool has_other_cells(const qg_node *n)
{
    static const char *const known[] = { "Sigmoid", "Tanh", "Relu" };
    const qg_attr *a = qg_attr_find(n, "activations");
    bool other = false;
    if (!qg_node_is_onnx(n, recurrent, 3) || !a || a->type != QG_ATTR_STRINGS)
        return false;
    for (size_t i = 0; i < a->count && !other; i++) {
        size_t k = 0;
        while (k < 3 && strcmp(a->strings[i], known[k]) != 0)
            k++;
        other = k == 3;
    }
    return other;
}

/* Whether its second direction has activations of its own. */
static bool has_other_ways(const qg_node *n)
{
    const qg_attr *a = qg_attr_find(n, "activations");
    bool other = false;
    if (!qg_node_is_onnx(n, recurrent, 3) || !a || a->type != QG_ATTR_STRINGS ||
        !is_word(n, "direction", "bidirectional"))
        return false;
    for (size_t i = 0, half = a->count / 2; i < half; i++)
        other |= strcmp(a->strings[i], a->strings[i + half]) != 0;
    return other;
}

/* --- images --- */

static bool resizes_apart(const qg_node *n)
{
    static const char *const name = "Resize";
    return qg_node_is_onnx(n, &name, 1) &&
           ((is_word(n, "mode", "cubic") &&
             (qg_attr_at(n, "exclude_outside", 0, 0) != 0)) ||
            (qg_attr_at(n, "antialias", 0, 0) != 0) ||
            is_word(n, "keep_aspect_ratio_policy", "not_larger") ||
            is_word(n, "keep_aspect_ratio_policy", "not_smaller"));
}

/* By maxima, or with as many samples as a region has elements, which some of its
 * kernels count otherwise. */
static bool takes_other_samples(const qg_node *n)
{
    static const char *const name = "RoiAlign";
    return qg_node_is_onnx(n, &name, 1) &&
           (is_word(n, "mode", "max") || !(qg_attr_at(n, "sampling_ratio", 0, 0) != 0));
}

static bool has_even_window(const qg_node *n)
{
    static const char *const name = "LRN";
    const qg_attr *a = qg_attr_find(n, "size");
    return qg_node_is_onnx(n, &name, 1) && a && a->type == QG_ATTR_INT &&
           a->ints[0] % 2 == 0;
}

const char *qg_plugin_refuses(const qg_node *n)
{
    static const char *const none[] = { "Det", "MaxUnpool" };
    static const char *const pad = "Pad", *const resize = "Resize";
    const char *place = "coordinate_transformation_mode";
    if (qg_node_is_onnx(n, none, 2))
        return "OpenVINO does not read the operator, expected another one";
    if (has_other_cells(n))
        return "OpenVINO refuses its activations, expected Sigmoid, Tanh or Relu";
    if (qg_node_is_onnx(n, &pad, 1) && is_word(n, "mode", "wrap"))
        return "OpenVINO refuses mode wrap, expected constant, edge or reflect";
    if (qg_node_is_onnx(n, &resize, 1) && (is_word(n, place, "half_pixel_symmetric") ||
                                           is_word(n, place, "tf_crop_and_resize")))
        return "OpenVINO refuses its coordinate_transformation_mode, expected another "
               "one";
    return NULL;
}

/* --- pools --- */

/* How an extent of a pool that rounds up can be read otherwise. */
typedef struct rounding_up {
    int64_t in, window; /* of data and padding, -1 where it is open; of the kernel */
    bool open;
    bool behind; /* the last window may begin behind the data */
} rounding_up;

static rounding_up axis_of(const qg_node *n, size_t k, size_t axes)
{
    const int64_t x = n->in[0]->type.dim[k + 2], y = n->out[0]->type.dim[k + 2],
                  begin = qg_attr_at(n, "pads", k, 0),
                  end = qg_attr_at(n, "pads", k + axes, 0),
                  kernel = qg_attr_find(n, "kernel_shape")->ints[k],
                  window = (kernel - 1) * qg_attr_at(n, "dilations", k, 1) + 1;
    const bool behind = qg_attr_at(n, "strides", k, 1) + end > window;
    return (rounding_up){ x < 0 ? -1 : x + begin + end, window, x < 0 || y < 1,
                          behind };
}

/* Whether dims are open, so that the file rounds up, and OpenVINO then gives a MaxPool,
 * or an average of a Pad, more windows than ONNX, or an LpPool something else in the
 * last one. */
static bool rounds_up_apart(const qg_node *n)
{
    static const char *const maximum = "MaxPool", *const norm = "LpPool";
    bool open = false, behind = false, strided = false;
    const size_t axes =
        qg_plugin_rounds_up(n) ? qg_attr_find(n, "kernel_shape")->count : 0;
    for (size_t k = 0; k < axes; k++) {
        const rounding_up r = axis_of(n, k, axes);
        open |= r.open;
        behind |= r.behind;
        strided |= qg_attr_at(n, "strides", k, 1) > 1;
    }
    bool counts = qg_node_is_onnx(n, &maximum, 1) || qg_plugin_counts_pads(n);
    return open && ((behind && counts) ||
                    ((behind || strided) && qg_node_is_onnx(n, &norm, 1)));
}

/* The first axis along which a window is larger than the padded data, as ceil_mode
 * allows, of pools that are written so since other dims are open; -1: there is none.
 * OpenVINO does not load such a file. */
static int axis_cut_off(const qg_node *n)
{
    bool open = false;
    int axis = -1;
    const size_t axes =
        qg_plugin_rounds_up(n) ? qg_attr_find(n, "kernel_shape")->count : 0;
    for (size_t k = 0; k < axes; k++) {
        const rounding_up r = axis_of(n, k, axes);
        open |= r.open;
        if (axis < 0 && r.in >= 0 && r.window > r.in)
            axis = (int)k + 2;
    }
    return open ? axis : -1;
}

/* --- lint and losses --- */

const char *qg_plugin_reads_apart(const qg_node *n)
{
    if (reduces_nothing(n))
        return "without axes and with noop_with_empty_axes its reader of ONNX leaves "
               "out "
               "the absolute value, or takes the logarithm; expected axes";
    if (has_ignored_gates(n))
        return "it ignores input_forget and peepholes; expected neither";
    if (qg_node_is_onnx(n, recurrent, 3) && (qg_attr_at(n, "layout", 0, 0) != 0))
        return "it gives outputs with layout 1 other dims; expected layout 0";
    if (has_other_ways(n))
        return "it takes the activations of one direction for both; expected the same "
               "ones, or a node for each";
    if (rounds_up_apart(n))
        return "ceil_mode with open dims gives windows behind the data, or other last "
               "ones; expected ceil_mode 0, or dims that are known, as with --shape";
    if (resizes_apart(n))
        return "it ignores antialias, exclude_outside and keep_aspect_ratio_policy; "
               "expected none of them";
    if (takes_other_samples(n))
        return "it takes other samples; expected mode avg and a sampling_ratio";
    return has_even_window(n) ? "its window has another extent; expected an odd size"
                              : NULL;
}

static qg_status lose_all(qg_export *e, const qg_graph *g)
{
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        const char *why = qg_plugin_reads_apart(n), *fault = qg_plugin_refuses(n);
        const int axis = axis_cut_off(n);
        if (fault)
            return qg_node_fail(e->ctx, QG_EUNSUPPORTED, "export", n, "%s", fault);
        if (axis >= 0)
            return qg_node_fail(e->ctx, QG_EUNSUPPORTED, "export", n,
                                "a window that is larger than the padded extent of "
                                "axis %d, which OpenVINO refuses, expected a smaller "
                                "one, or known dims",
                                axis);
        if (why)
            QG_TRY(
                qg_export_lose_node(e, n, "OpenVINO computes something else: ", why));
    }
    return QG_OK;
}

qg_status qg_plugin_lose(qg_export *e)
{
    const qg_graph *from = e->quant->graph;
    QG_TRY(lose_all(e, from));
    for (const qg_graph *body = from->bodies; body; body = body->next_body)
        QG_TRY(lose_all(e, body));
    return QG_OK;
}

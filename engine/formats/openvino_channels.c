/* openvino_channels.c -- constants per channel in front of a rounding that the CPU
 * plugin of OpenVINO computes with that of the first channel: the questions of
 * openvino_plugin.h about them. */
#include "engine/formats/openvino_plugin.h"
#include "engine/ir/infer.h"

static bool is_open(const qg_graph *g, const qg_value *v)
{
    bool open = qg_graph_is_open(g);
    for (int32_t k = 0; k < v->type.rank; k++)
        open |= v->type.dim[k] < 0;
    return open;
}

/* Whether v, of dims, goes to the dims of Reshape nodes alone, which OpenVINO writes
 * without a shape that is read.  so: of the values of later nodes. */
static bool is_for_reshape(const uint8_t *so, const qg_value *v)
{
    static const char *const reshape = "Reshape";
    static const char *const moving[] = { "Gather",  "Slice", "Concat",  "Unsqueeze",
                                          "Squeeze", "Cast",  "Identity" };
    bool all = !v->is_output;
    for (size_t i = 0; all && i < v->use.n; i++) {
        const qg_node *n = v->use.at[i].node;
        all = (qg_node_is_onnx(n, &reshape, 1) && v->use.at[i].slot == 1) ||
              (qg_node_is_onnx(n, moving, sizeof moving / sizeof *moving) &&
               so[n->out[0]->id]);
    }
    return all;
}

qg_status qg_plugin_reads_shapes(const qg_graph *g, qg_arena *scratch, bool *reads)
{
    static const char *const names[] = { "Size", "Expand", "GRU", "LSTM", "RNN" };
    static const char *const shape = "Shape";
    uint8_t *so = QG_NEWN(scratch, g->value.n, uint8_t);
    *reads = false;
    if (!so)
        return qg_nomem(g->ctx);
    for (size_t i = g->node.n; i-- > 0;) {
        const qg_node *n = g->node.at[i];
        const qg_value *v = n->n_out ? n->out[0] : NULL;
        if (v)
            so[v->id] = is_for_reshape(so, v);
        *reads |= qg_node_is_onnx(n, names, sizeof names / sizeof *names) ||
                  (v && qg_node_is_onnx(n, &shape, 1) && !so[v->id]);
    }
    return QG_OK;
}

static bool differs(const qg_tensor *t)
{
    return t && t->dtype == QG_F32 && qg_tensor_count(t) > 1;
}

/* Whether n adds a bias per channel to a product. */
static bool adds_bias(const qg_node *n)
{
    static const char *const names[] = { "Conv", "ConvTranspose", "Gemm" };
    return qg_node_is_onnx(n, names, sizeof names / sizeof *names) && n->n_in > 2 &&
           n->in[2] && differs(n->in[2]->constant);
}

/* Whether the plugin computes a function of v in the kernel that makes v. */
static bool is_fused(const qg_value *v, bool shapes)
{
    return v->def && v->use.n == 1 && !v->is_output && !shapes &&
           qg_node_has(v->def, QG_OP_COMPUTE | QG_OP_ACTIVATION | QG_OP_NORMALIZE);
}

/* The constant with which n computes element by element, *v: what with; NULL: none. */
static const qg_tensor *constant_of(const qg_node *n, const char *const *names,
                                    size_t count, const qg_value **v)
{
    if (!qg_node_is_onnx(n, names, count) || n->n_in != 2 || !n->in[0] || !n->in[1])
        return NULL;
    const uint32_t slot = n->in[0]->constant ? 1 : 0;
    *v = n->in[slot];
    return (*v)->constant ? NULL : n->in[1 - slot]->constant;
}

/* Whether n computes with a constant per channel in a kernel of its own. */
static bool is_apart(const qg_node *n, bool shapes)
{
    static const char *const names[] = { "Mul", "Div", "Add", "Sub" };
    const qg_value *v;
    return differs(constant_of(n, names, 4, &v)) && !is_fused(v, shapes);
}

/* Whether n divides a sum with a constant by one per channel: transformations make
 * other limits of the two, whatever the dims are. */
static bool divides_sum(const qg_node *n)
{
    static const char *const div = "Div", *const sums[] = { "Add", "Sub" };
    const qg_value *v, *inner;
    return differs(constant_of(n, &div, 1, &v)) && v->def &&
           constant_of(v->def, sums, 2, &inner);
}

bool qg_plugin_takes_first_channel(const qg_graph *g, const qg_node *n, bool shapes)
{
    static const char *const expand = "Expand";
    if (!n->n_out || !n->out[0] || n->out[0]->type.rank < 2)
        return false;
    if (!is_open(g, n->out[0]))
        return divides_sum(n);
    if (qg_node_is_onnx(n, &expand, 1))
        return n->in[0] && differs(n->in[0]->constant);
    return (shapes && adds_bias(n)) || is_apart(n, shapes);
}

/* openvino_channels.c -- constants per channel in front of a rounding that the CPU
 * plugin of OpenVINO computes with that of the first channel: the questions of
 * openvino_plugin.h about them. */
#include "engine/formats/openvino_edits.h"
#include "engine/formats/openvino_plugin.h"
#include "engine/formats/quantize_linear.h"
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

/* Limits of a quantizer differ along one axis at most. */
static bool is_along_one_axis(const qg_tensor *t)
{
    int axes = 0;
    for (int32_t k = 0; t && k < t->rank; k++)
        axes += t->dim[k] > 1;
    return axes == 1;
}

/* Whether n has a factor or a summand per channel. */
static bool has_channels(const qg_node *n)
{
    static const char *const names[] = { "Mul", "Div", "Add", "Sub" };
    const qg_value *v;
    const qg_tensor *k = constant_of(n, names, 4, &v);
    return qg_node_has(n, QG_OP_NORMALIZE) || (differs(k) && is_along_one_axis(k));
}

/* Whether the constants of n differ along another axis than the channels of the product
 * that n computes with. */
static bool is_aside(const qg_node *n)
{
    static const char *const names[] = { "Mul", "Div", "Add", "Sub" }, *const maps[] = {
        "Conv", "ConvTranspose"
    };
    const qg_value *v;
    const qg_tensor *k = constant_of(n, names, 4, &v);
    if (!differs(k) || !v->def || !qg_node_has(v->def, QG_OP_COMPUTE))
        return false;
    const int32_t rank = n->out[0]->type.rank;
    const int32_t channels = qg_node_is_onnx(v->def, maps, 2) ? 1 : rank - 1;
    for (int32_t i = 0; i < k->rank; i++)
        if (k->dim[i] > 1 && i + rank - k->rank != channels)
            return true;
    return false;
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

/* Maps of one element. */
static bool is_single(const qg_value *v)
{
    bool single = v->type.rank > 2;
    for (int32_t k = 2; k < v->type.rank; k++)
        single &= v->type.dim[k] == 1;
    return single;
}

static bool stays_in_place(const qg_node *n)
{
    return qg_node_has(n, QG_OP_ELEMENTWISE | QG_OP_ACTIVATION | QG_OP_NORMALIZE);
}

/* A way from a quantizer, in a copy of the graph g. */
typedef struct way {
    const qg_graph *g;
    bool shapes;   /* are read: qg_plugin_reads_shapes */
    bool channels; /* a constant per channel was met */
    bool moves;    /* a node that pools or moves elements */
} way;

enum { FAR = 16 }; /* nodes that are looked through */

/* The node of g that n copies; n itself when the file alone has it. */
static const qg_node *original(const way *w, const qg_node *n)
{
    return n->id < w->g->node.n ? w->g->node.at[n->id] : n;
}

static bool ends(const qg_node *n)
{
    return qg_node_has(n, QG_OP_COMPUTE | QG_OP_QUANTIZER) || qg_plugin_is_barrier(n);
}

/* --- down: limits of its output --- */

/* Whether a constant per channel computes with v; sets w->moves when it is pooled or
 * moved before. */
static bool feeds_channels(way *w, const qg_value *v, int left)
{
    for (size_t i = 0; left > 0 && i < v->use.n; i++) {
        const qg_node *n = v->use.at[i].node;
        if (v->use.at[i].slot == 0 && qg_is_dequantize_linear(n)) {
            if (feeds_channels(w, n->out[0], left - 1))
                return true;
            continue;
        }
        if (ends(n) || !n->n_out || !n->out[0])
            continue;
        if (has_channels(original(w, n)))
            return true;
        if (!feeds_channels(w, n->out[0], left - 1))
            continue;
        w->moves |= !stays_in_place(n);
        return true;
    }
    return false;
}

/* --- up: limits of its input --- */

static bool takes(way w, const qg_value *v, int left);

/* Through the operands of n; a function of several values ends the way. */
static bool goes_on(way w, const qg_node *n, int left)
{
    size_t operands = 0;
    for (uint32_t k = 0; k < n->n_in; k++)
        operands += n->in[k] && !n->in[k]->constant && n->in[k]->type.dtype == QG_F32;
    if (operands > 1 &&
        (stays_in_place(n) || !qg_node_has(n, QG_OP_JOIN | QG_OP_PASSIVE)))
        return false;
    for (uint32_t k = 0; k < n->n_in; k++)
        if (n->in[k] && takes(w, n->in[k], left - 1))
            return true;
    return false;
}

static bool takes(way w, const qg_value *v, int left)
{
    static const char *const expand = "Expand";
    const qg_node *n = v->def;
    if (!n || v->constant || left == 0 || v->type.rank < 2 || v->type.dtype != QG_F32 ||
        qg_node_has(n, QG_OP_QUANTIZER) || qg_plugin_is_barrier(n))
        return false;
    static const char *const turned = "ConvTranspose";
    const qg_node *from = original(&w, n);
    const bool open = is_open(w.g, v);
    w.moves |= is_aside(from) || qg_node_is_onnx(n, &turned, 1);
    if (w.channels && (w.moves || open || is_single(v)))
        return true;
    if (qg_node_has(n, QG_OP_COMPUTE))
        return open && w.shapes && adds_bias(from);
    if (qg_node_is_onnx(n, &expand, 1))
        return open && from->in[0] && differs(from->in[0]->constant);
    w.channels |= has_channels(from);
    w.moves |= !stays_in_place(n);
    return (w.channels && (w.moves || open || is_single(v))) || divides_sum(from) ||
           goes_on(w, n, left);
}

bool qg_plugin_takes_first_channel(const qg_graph *g, const qg_node *quantizer,
                                   bool shapes)
{
    way w = { .g = g, .shapes = shapes };
    w.channels = feeds_channels(&w, quantizer->out[0], FAR);
    return takes(w, quantizer->in[0], FAR);
}

/* Whether n gives the channels of a map another order. */
static bool orders_channels(const qg_node *n)
{
    static const char *const name = "Gather";
    return qg_node_is_onnx(n, &name, 1) && n->in[1] && n->in[1]->constant &&
           n->in[1]->type.rank == 1 && qg_attr_at(n, "axis", 0, 0) == 1;
}

/* Whether n joins parts of one split of channels. */
static bool joins_split(const qg_node *n)
{
    static const char *const join = "Concat", *const split = "Split";
    const qg_node *from = n->n_in > 1 && n->in[0] ? n->in[0]->def : NULL;
    if (!qg_node_is_onnx(n, &join, 1) || !from || !qg_node_is_onnx(from, &split, 1) ||
        qg_attr_at(n, "axis", 0, 0) != 1)
        return false;
    for (uint32_t k = 1; k < n->n_in; k++)
        if (!n->in[k] || n->in[k]->def != from)
            return false;
    return true;
}

/* Whether n turns a map for a convolution of single elements: false where it moves the
 * channels from the end, and the convolution is a product of rows. */
static bool turns_map(const qg_node *n, const qg_node *reader)
{
    static const char *const name = "Transpose";
    const qg_tensor *w = reader->in[1] ? &reader->in[1]->type : NULL;
    if (!qg_node_is_onnx(n, &name, 1) || n->out[0]->type.rank != 4 || !w ||
        w->rank != 4 || w->dim[2] != 1 || w->dim[3] != 1)
        return false;
    bool plain = qg_attr_at(n, "perm", 1, 2) == 3 && qg_attr_at(n, "perm", 2, 1) == 1;
    for (size_t k = 0; k < 4; k++)
        plain &= qg_attr_at(reader, "pads", k, 0) == 0 &&
                 (k > 1 || qg_attr_at(reader, "strides", k, 1) == 1);
    return !plain;
}

bool qg_plugin_moves_into_weights(const qg_node *n)
{
    static const char *const product = "Conv";
    if (n->n_out != 1 || !n->out[0] || n->out[0]->type.rank < 3 ||
        n->out[0]->type.dtype != QG_F32)
        return false;
    if (orders_channels(n) || joins_split(n))
        return true;
    for (size_t i = 0; i < n->out[0]->use.n; i++) {
        const qg_node *reader = n->out[0]->use.at[i].node;
        if (qg_node_is_onnx(reader, &product, 1) && turns_map(n, reader))
            return true;
    }
    return false;
}

#include "engine/formats/openvino_plugin.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "engine/formats/explicit_pads.h"
#include "engine/formats/fake_quantize.h"
#include "engine/formats/openvino_edits.h"
#include "engine/formats/quantize_linear.h"
#include "engine/ir/edit.h"

enum {
    CODE_BITS = 8,
    CHAIN = 16 /* nodes behind a maximum that are looked through */
};

/* --- codes --- */

static bool rounds(const qg_tqc *t) { return t && qg_tqc_rounds(t); }

/* With one constant operand. */
static bool is_by_constant(const qg_node *n)
{
    return n->n_in == 2 && qg_node_has(n, QG_OP_ELEMENTWISE) &&
           (n->in[0] && n->in[1] && (n->in[0]->constant || n->in[1]->constant));
}

/* Whether the transformations move codes through n: surely, or perhaps. */
static bool carries(const qg_node *n, bool surely)
{
    float low, high;
    if (qg_plugin_is_barrier(n))
        return false;
    if (qg_node_has(n, QG_OP_PASSIVE) || qg_node_clamps(n, &low, &high))
        return true;
    if (surely || qg_node_has(n, QG_OP_COMPUTE | QG_OP_NORMALIZE | QG_OP_ACTIVATION))
        return false;
    return !qg_node_has(n, QG_OP_ELEMENTWISE) || is_by_constant(n);
}

/* Whether n reads codes; of several operands before it they come with the first. */
static bool reads_codes(const qg_node *n, bool surely)
{
    while (n) {
        const qg_value *first = NULL;
        for (uint32_t k = 0; k < n->n_in; k++) {
            const qg_value *v = n->in[k];
            if (!v || v->constant || v->type.dtype != QG_F32)
                continue;
            if (rounds(qg_input_tqc(n, k)) || rounds(qg_producer_tqc(v)))
                return true;
            first = first ? first : v;
        }
        n = first ? first->def : NULL;
        if (n && !carries(n, surely))
            return false;
    }
    return false;
}

/* --- maxima --- */

static bool is_maximum(const qg_node *n)
{
    static const char *const names[] = { "ReduceMax", "ReduceMin", "GlobalMaxPool" };
    return qg_node_is_onnx(n, names, sizeof names / sizeof *names);
}

/* Rounds to codes of one grid that the plugin has integer kernels for. */
static bool is_plain(const qg_tqc *t)
{
    const uint16_t other = QG_PER_CHANNEL | QG_BLOCK | QG_DYNAMIC | QG_FLOATING;
    return t && qg_tqc_rounds(t) && !(t->scheme.policy & other) &&
           t->scheme.bits <= CODE_BITS && t->visibility != QG_EXPORT_INTERNAL;
}

/* A node of one data input that gives its values, in another shape or fewer. */
static bool moves(const qg_node *n, uint32_t slot)
{
    return slot == 0 && n->n_out == 1 && n->out[0] &&
           (is_maximum(n) || qg_node_has(n, QG_OP_PASSIVE));
}

/* The one grid on which v is read; NULL: there is none, or others read v too. */
static const qg_tqc *grid_read(const qg_value *v, int depth)
{
    const qg_tqc *all = qg_producer_tqc(v);
    if (is_plain(all))
        return all;
    all = NULL;
    for (size_t i = 0; i < v->use.n && !v->is_output; i++) {
        const qg_use *u = &v->use.at[i];
        const qg_tqc *t = qg_input_tqc(u->node, u->slot);
        if (!is_plain(t))
            t = depth > 0 && moves(u->node, u->slot)
                    ? grid_read(u->node->out[0], depth - 1)
                    : NULL;
        if (!t || (all && !qg_onnx_same_grid(all, t)))
            return NULL;
        all = t;
    }
    return all;
}

/* The grid of a maximum that is rounded, in front of it and not behind. */
static const qg_tqc *grid_of_maximum(const qg_node *n)
{
    return is_maximum(n) && n->out[0] && n->in[0] && !n->in[0]->constant
               ? grid_read(n->out[0], CHAIN)
               : NULL;
}

const qg_tqc *qg_plugin_before_maximum(const qg_node *n)
{
    const qg_tqc *t = grid_of_maximum(n), *in = t ? qg_input_tqc(n, 0) : NULL;
    if (!t || (is_plain(in) && qg_onnx_same_grid(in, t)))
        return NULL;
    return qg_plugin_behind_maximum(n->in[0], t) ? NULL : t;
}

bool qg_plugin_behind_maximum(const qg_value *v, const qg_tqc *t)
{
    for (int k = 0; k <= CHAIN && v->def; k++) {
        const qg_tqc *grid = grid_of_maximum(v->def);
        if (grid)
            return qg_onnx_same_grid(grid, t);
        if (!moves(v->def, 0) || !v->def->n_in || !v->def->in[0])
            return false;
        v = v->def->in[0];
    }
    return false;
}

/* Of one value that is no constant, or a Concat, before whose operands the
 * transformations put the quantizer behind it. */
static bool is_function(const qg_node *n)
{
    static const char *const name = "Concat";
    size_t data = 0;
    for (uint32_t k = 0; k < n->n_in; k++)
        data += n->in[k] && !n->in[k]->constant;
    if (qg_node_is_onnx(n, &name, 1))
        return true;
    return data == 1 && n->n_out == 1 && n->out[0] && !is_maximum(n) &&
           qg_node_has(n, QG_OP_ELEMENTWISE | QG_OP_ACTIVATION);
}

/* Whether output 0 of such a node, of floats, is rounded behind functions of one value
 * or a Concat, which the plugin computes in the same wrong kernel. */
static bool mapped_maximum(const qg_node *n)
{
    const qg_value *v = is_maximum(n) && !reads_codes(n, true) ? n->out[0] : NULL;
    bool mapped = false;
    for (int k = 0; v && k < CHAIN && !grid_read(v, 0); k++) {
        if (v->use.n != 1 || v->is_output || !is_function(v->use.at[0].node))
            return false;
        v = v->use.at[0].node->out[0];
        mapped = true;
    }
    return mapped && v && grid_read(v, 0);
}

/* --- transposed convolutions --- */

/* Element k of an attribute of one number per axis. */
/* Whether the plugin's integer kernel is known to be right along an axis: `data` is the
 * extent of the input, -1 where it is open. */
static bool turns_right(const qg_node *n, size_t k, size_t axes, int64_t kernel,
                        int64_t data)
{
    const int64_t most = 4; /* elements of a kernel */
    int64_t stride = qg_attr_at(n, "strides", k, 1),
            begin = qg_attr_at(n, "pads", k, 0),
            end = qg_attr_at(n, "pads", k + axes, 0);
    bool pads = begin == end && (begin == 0 || (begin == 1 && kernel >= 3));
    return qg_attr_at(n, "dilations", k, 1) == 1 && stride <= 2 && stride <= kernel &&
           kernel <= most && data >= kernel && pads;
}

bool qg_plugin_turns_wrong(const qg_node *n)
{
    static const char *const name = "ConvTranspose";
    const qg_tensor *w = n->n_in > 1 && n->in[1] ? &n->in[1]->type : NULL;
    const qg_attr *automatic = qg_attr_find(n, "auto_pad");
    if (!qg_node_is_onnx(n, &name, 1) || !w)
        return false;
    if (qg_attr_has(n, "output_shape") ||
        (automatic && automatic->type == QG_ATTR_STRING &&
         strncmp(automatic->strings[0], "SAME", 4) == 0))
        return true;
    size_t axes = w->rank > 2 ? (size_t)w->rank - 2 : 0;
    const qg_tensor *x = &n->in[0]->type;
    for (size_t k = 0; k < axes; k++)
        if (x->rank != w->rank ||
            !turns_right(n, k, axes, w->dim[k + 2], x->dim[k + 2]))
            return true;
    return false;
}

/* --- convolutions in groups --- */

bool qg_plugin_groups_wrong(const qg_node *n)
{
    static const char *const name = "Conv";
    const qg_tensor *w = n->n_in > 1 && n->in[1] ? &n->in[1]->type : NULL;
    const qg_attr *group = qg_attr_find(n, "group");
    const qg_tensor *y = n->n_out && n->out[0] ? &n->out[0]->type : NULL;
    return qg_node_is_onnx(n, &name, 1) && w && y && w->rank == 4 && y->rank == 4 &&
           group && group->type == QG_ATTR_INT && group->ints[0] > 1 &&
           w->dim[1] == 1 && w->dim[0] > group->ints[0] && y->dim[3] == 1 &&
           qg_attr_at(n, "strides", 1, 1) > 1;
}

/* --- products --- */

bool qg_plugin_batched_column(const qg_node *n)
{
    static const char *const name = "MatMul";
    const qg_tensor *w = n->n_in > 1 && n->in[1] ? n->in[1]->constant : NULL;
    if (!qg_node_is_onnx(n, &name, 1) || !w || w->rank < 3 || w->dim[w->rank - 1] != 1)
        return false;
    return qg_tensor_count(w) > w->dim[w->rank - 2];
}

bool qg_plugin_weight_stays_float(const qg_node *n)
{
    return qg_plugin_turns_wrong(n) || qg_plugin_groups_wrong(n) ||
           qg_plugin_batched_column(n);
}

/* --- pads --- */

/* Elements of the constant or attribute that gives the pads. */
static const int64_t *pads_of(const qg_node *n, size_t *count)
{
    const qg_attr *a = qg_attr_find(n, "pads");
    const qg_tensor *t = n->n_in > 1 && n->in[1] ? n->in[1]->constant : NULL;
    *count = a && a->type == QG_ATTR_INTS ? a->count
             : t && t->dtype == QG_I64    ? (size_t)qg_tensor_count(t)
                                          : 0;
    return a && a->type == QG_ATTR_INTS ? a->ints : t && *count ? t->i64 : NULL;
}

static float pad_value(const qg_node *n)
{
    const qg_attr *a = qg_attr_find(n, "value");
    const qg_value *v = n->n_in > 2 ? n->in[2] : NULL;
    const qg_tensor *t = v ? v->constant : NULL;
    if (t && t->dtype == QG_F32 && qg_tensor_count(t) == 1)
        return t->f32[0];
    return a && a->type == QG_ATTR_FLOAT ? a->floats[0] : v ? NAN : 0;
}

/* Whether the axis of input 0 that pad k is of is known to have several elements. */
static bool is_long(const qg_node *n, size_t k)
{
    const qg_tensor *x = &n->in[0]->type;
    const qg_value *axes = n->n_in > 3 ? n->in[3] : NULL;
    const qg_tensor *t = axes ? axes->constant : NULL;
    int64_t axis = (int64_t)k;
    if (axes)
        axis = t && (int64_t)k < qg_tensor_count(t) ? qg_tensor_i64(t, (int64_t)k)
                                                    : x->rank;
    axis += axis < 0 ? x->rank : 0;
    return axis >= 0 && axis < x->rank && x->dim[axis] > 1;
}

/* Along one axis alone: the transformations write the constant as a code, and take the
 * dims of scales, which are 1, for that axis where it has one element. */
bool qg_plugin_pads_wrong(const qg_node *n)
{
    static const char *const name = "Pad";
    const qg_attr *mode = qg_attr_find(n, "mode");
    size_t count, padded = 0, at = 0;
    if (!qg_node_is_onnx(n, &name, 1) ||
        (mode && mode->type == QG_ATTR_STRING && strcmp(mode->strings[0], "constant")))
        return false;
    const int64_t *pad = pads_of(n, &count);
    for (size_t k = 0; pad && k < count / 2; k++) {
        bool here = pad[k] != 0 || pad[k + count / 2] != 0;
        padded += here;
        at = here ? k : at;
    }
    return padded == 1 && (pad_value(n) != 0 || !is_long(n, at)) &&
           reads_codes(n, false);
}

/* --- pools --- */

bool qg_plugin_rounds_up(const qg_node *n)
{
    static const char *const names[] = { "MaxPool", "AveragePool", "LpPool" };
    const qg_attr *kernel = qg_attr_find(n, "kernel_shape");
    return qg_node_is_onnx(n, names, sizeof names / sizeof *names) &&
           (qg_attr_at(n, "ceil_mode", 0, 0) != 0) &&
           strcmp(qg_auto_pad_word(n), "NOTSET") == 0 && kernel &&
           kernel->type == QG_ATTR_INTS &&
           n->in[0]->type.rank == (int32_t)kernel->count + 2;
}

bool qg_plugin_counts_pads(const qg_node *n)
{
    static const char *const name = "AveragePool";
    const qg_attr *pads = qg_attr_find(n, "pads");
    bool pad = strncmp(qg_auto_pad_word(n), "SAME", 4) == 0;
    for (size_t k = 0; pads && pads->type == QG_ATTR_INTS && k < pads->count; k++)
        pad |= pads->ints[k] != 0;
    return qg_node_is_onnx(n, &name, 1) &&
           (qg_attr_at(n, "count_include_pad", 0, 0) != 0) && pad;
}

/* Whether input k of n are codes, perhaps moved or joined, of which the lowest is 0. */
static bool begins_at_zero(const qg_node *n, uint32_t k, int depth)
{
    enum { JOIN = CHAIN / 2 }; /* operands of operands: more would be too many */
    static const char *const join = "Concat";
    const qg_value *v = n->in[k];
    const qg_tqc *t = qg_input_tqc(n, k);
    t = rounds(t) ? t : qg_producer_tqc(v);
    if (rounds(t)) {
        qg_qparam p = qg_tqc_param(t);
        return p.n == 1 && (p.offset ? p.offset[0] : 0) == t->scheme.qmin;
    }
    const qg_node *from = v->def;
    const bool joins = qg_node_is_onnx(from, &join, 1);
    bool all = from && depth > 0 && (joins || moves(from, 0));
    for (uint32_t i = 0; all && i < (joins ? from->n_in : 1); i++)
        all = from->in[i] && begins_at_zero(from, i, depth - (joins ? JOIN : 1));
    return all;
}

bool qg_plugin_counts_codes(const qg_node *n)
{
    return qg_plugin_counts_pads(n) && reads_codes(n, false) &&
           !begins_at_zero(n, 0, CHAIN);
}

/* --- strides --- */

/* Whether n is a convolution whose strides the plugin moves to nodes before it, pads or
 * not. */
static bool moves_strides(const qg_node *n)
{
    static const char *const name = "Conv";
    const qg_tensor *w = n->n_in > 1 && n->in[1] ? &n->in[1]->type : NULL;
    const qg_attr *group = qg_attr_find(n, "group");
    bool grouped = group && group->type == QG_ATTR_INT && group->ints[0] != 1,
         strided = false;
    if (!qg_node_is_onnx(n, &name, 1) || grouped || !w)
        return false;
    for (int32_t k = 2; k < w->rank; k++) {
        if (w->dim[k] != 1)
            return false;
        strided |= qg_attr_at(n, "strides", (size_t)k - 2, 1) > 1;
    }
    return strided;
}

/* --- products --- */

/* A product of at most two dims with a constant. */
static bool is_product(const qg_node *n)
{
    static const char *const names[] = { "MatMul", "Gemm" };
    return qg_node_is_onnx(n, names, sizeof names / sizeof *names) &&
           n->in[0]->type.rank == 2 && n->in[1]->constant;
}

/* Whether the plugin joins n, of several rows, and a product before it. */
static bool is_chained(const qg_node *n)
{
    return is_product(n) && n->in[0]->type.dim[0] != 1 && n->in[0]->type.dim[1] > 0 &&
           qg_plugin_is_behind(n->in[0], is_product);
}

/* Whether that product has no constant operand. */
static bool multiplies_values(const qg_node *n)
{
    static const char *const name = "MatMul";
    return qg_node_is_onnx(n, &name, 1) && n->in[0] && n->in[1] &&
           !n->in[0]->constant && !n->in[1]->constant;
}

/* The slot of a product of two activations, perhaps moved, or scaled by one number,
 * that n combines with constants that are neither one number nor one per column; -1.  A
 * sum with the product itself is right. */
static int scaled_product(const qg_node *n)
{
    static const char *const names[] = { "Mul", "Sub", "Div", "Add" };
    static const char *const sum = "Add";
    bool scaled = !qg_node_is_onnx(n, &sum, 1);
    if (!qg_node_is_onnx(n, names, sizeof names / sizeof *names) || !is_by_constant(n))
        return -1;
    int slot = n->in[0]->constant ? 1 : 0;
    const qg_tensor *k = n->in[1 - slot]->constant;
    const qg_node *from = n->in[slot]->def;
    if (!k || qg_tensor_count(k) == 1 || qg_tensor_count(k) == k->dim[k->rank - 1])
        return -1;
    for (int i = 0; from && i < CHAIN && !multiplies_values(from); i++) {
        const qg_value *first = from->n_in ? from->in[0] : NULL;
        scaled |= is_by_constant(from);
        if (first && first->constant && is_by_constant(from))
            first = from->in[1];
        from = first && carries(from, false) ? first->def : NULL;
    }
    return scaled && from && multiplies_values(from) ? slot : -1;
}

/* --- edits --- */

/* A MaxPool of single elements in front of copy, over which no stride is moved; nor is
 * one over a FakeQuantize or an input of the network.  A Pad that copy reads becomes a
 * part of it, if nothing is between them. */
static qg_status keep_strides(qg_graph *g, const qg_node *n, qg_node *copy)
{
    static const char *const pad = "Pad", *const pool = "MaxPool";
    while (qg_node_is_onnx(copy->in[0]->def, &pad, 1))
        copy = copy->in[0]->def;
    qg_value *x = copy->in[0];
    if (!x->def || qg_is_fake_quantize(x->def->op) || qg_node_is_onnx(x->def, &pool, 1))
        return QG_OK;
    QG_TRY(qg_plugin_add_pool(g, n, (size_t)n->in[1]->type.rank - 2, &x));
    return qg_edit_set_input(g, copy, 0, x);
}

/* The same behind copy: over it nothing is moved into the weights of a product. */
static qg_status keep_out_of_weights(qg_graph *g, const qg_node *n, const qg_node *copy)
{
    qg_value *y = copy->out[0], *x = y;
    QG_TRY(qg_plugin_add_pool(g, n, (size_t)n->out[0]->type.rank - 2, &x));
    QG_TRY(qg_plugin_replace(g, y, x));
    return qg_edit_set_input(g, x->def, 0, y);
}

/* The same in front of a node of two dims, which it needs three for. */
static qg_status keep_apart(qg_graph *g, const qg_node *n, qg_node *copy, uint32_t slot,
                            int64_t rows)
{
    qg_value *x = copy->in[slot];
    const int64_t dim[] = { rows, x->type.dim[1] }, more[] = { 1, dim[0], dim[1] };
    QG_TRY(qg_plugin_add_reshape(g, n, 3, more, &x));
    QG_TRY(qg_plugin_add_pool(g, n, 1, &x));
    QG_TRY(qg_plugin_add_reshape(g, n, 2, dim, &x));
    return qg_edit_set_input(g, copy, slot, x);
}

/* A barrier in front of quantizers that would take constants of channels. */
static qg_status keep_channels(qg_export *e, qg_graph *g, size_t old)
{
    bool shapes;
    QG_TRY(qg_plugin_reads_shapes(e->quant->graph, g->arena, &shapes));
    for (size_t i = old, all = g->node.n; i < all; i++) {
        qg_node *n = g->node.at[i];
        if ((qg_is_fake_quantize(n->op) || qg_is_quantize_linear(n)) &&
            qg_plugin_takes_first_channel(e->quant->graph, n, shapes))
            QG_TRY(qg_plugin_keep_in_front(g, n->in[0]->def, n, 0));
    }
    return QG_OK;
}

/* A dilation of one element of a kernel is none. */
static qg_status drop_dilations(qg_graph *g, const qg_node *n, qg_node *copy)
{
    static const char *const name = "Conv";
    const qg_tensor *w = n->n_in > 1 && n->in[1] ? &n->in[1]->type : NULL;
    const qg_attr *a = qg_attr_find(n, "dilations");
    int64_t dilation[QG_MAX_RANK];
    if (!qg_node_is_onnx(n, &name, 1) || !w || !a || a->type != QG_ATTR_INTS ||
        (int64_t)a->count + 2 != w->rank)
        return QG_OK;
    for (size_t k = 0; k < a->count; k++)
        dilation[k] = w->dim[k + 2] == 1 ? 1 : a->ints[k];
    return memcmp(dilation, a->ints, a->count * sizeof *dilation) == 0
               ? QG_OK
               : qg_plugin_set_attribute(g, copy, "dilations", dilation, a->count);
}

/* Pads with which a pool whose extents are rounded up has them rounded down, too, in
 * pads: a last window may end behind the data, but begins before.  `padded`: behind a
 * Pad of its own pads.  False: it is none, or dims are open. */
static bool reach_last(const qg_node *n, bool padded, int64_t pads[2 * QG_MAX_RANK])
{
    const qg_attr *kernel = qg_attr_find(n, "kernel_shape");
    for (size_t k = 0, axes = kernel->count; k < axes; k++) {
        int64_t in = n->in[0]->type.dim[k + 2], out = n->out[0]->type.dim[k + 2],
                begin = qg_attr_at(n, "pads", k, 0),
                own = qg_attr_at(n, "pads", k + axes, 0),
                window = (kernel->ints[k] - 1) * qg_attr_at(n, "dilations", k, 1) + 1;
        if (in < 0 || out < 1)
            return false;
        int64_t end = (out - 1) * qg_attr_at(n, "strides", k, 1) + window - in - begin -
                      (padded ? own : 0);
        pads[k] = padded ? 0 : begin;
        pads[k + axes] = end > 0 ? end : 0;
    }
    return true;
}

/* copy reads its input behind a Pad with 0 by the pads of n. */
static qg_status pad_in_front(qg_graph *g, const qg_node *n, qg_node *copy)
{
    const size_t axes = qg_attr_find(n, "kernel_shape")->count;
    const int64_t count = 2 * (int64_t)(axes + 2);
    const char *name = qg_arena_printf(g->arena, "%s_pads", n->out[0]->name);
    qg_tensor *t = QG_NEW(g->arena, qg_tensor);
    qg_value *x = copy->in[0], *in[2] = { x };
    if (!name || !t)
        return qg_nomem(g->ctx);
    qg_tensor_init(t, QG_I64, 1, &count);
    QG_TRY(qg_tensor_alloc(g->ctx, g->arena, t));
    memset(t->i64, 0, (size_t)count * sizeof *t->i64);
    for (size_t k = 0; k < axes; k++) {
        t->i64[k + 2] = qg_attr_at(n, "pads", k, 0);
        t->i64[k + axes + 4] = qg_attr_at(n, "pads", k + axes, 0);
    }
    QG_TRY(qg_edit_add_constant(g, name, t, &in[1]));
    QG_TRY(qg_plugin_add_node(g, n, "Pad", &(qg_node_spec){ .in = in, .n_in = 2 }, &x));
    for (size_t k = 2; k < axes + 2; k++)
        if (x->type.dim[k] >= 0)
            x->type.dim[k] += t->i64[k] + t->i64[k + axes + 2];
    return qg_edit_set_input(g, copy, 0, x);
}

/* Extents rounded down: OpenVINO's reader of ONNX counts windows that begin behind the
 * data, and elements behind the padding.  An average that counts the padding counts
 * what a Pad has put there; so it does where dims are open and it still rounds up. */
static qg_status round_down(qg_graph *g, const qg_node *n, qg_node *copy)
{
    const int64_t none[2 * QG_MAX_RANK] = { 0 };
    int64_t pads[2 * QG_MAX_RANK];
    if (!qg_plugin_rounds_up(n))
        return QG_OK;
    const size_t axes = qg_attr_find(n, "kernel_shape")->count;
    const bool counts = qg_plugin_counts_pads(n), closed = reach_last(n, counts, pads);
    if (counts)
        QG_TRY(pad_in_front(g, n, copy));
    if ((qg_attr_at(n, "count_include_pad", 0, 0) != 0))
        QG_TRY(qg_plugin_set_attribute(g, copy, "count_include_pad", none, 1));
    if (closed)
        QG_TRY(qg_plugin_set_attribute(g, copy, "ceil_mode", none, 1));
    if (closed || counts)
        QG_TRY(
            qg_plugin_set_attribute(g, copy, "pads", closed ? pads : none, 2 * axes));
    return qg_node_prepare(g, copy);
}

/* --- clips --- */

static const char *const clip_name = "Clip";

/* The limit in that slot, as the simulation has it; infinite: none. */
static qg_status limit_of(qg_export *e, const qg_node *n, uint32_t slot, float *limit)
{
    const qg_tqc *t = qg_input_tqc(n, slot);
    const qg_value *v = slot < n->n_in ? n->in[slot] : NULL;
    qg_tensor y;
    if (!v || !v->constant || !t || !qg_tqc_is_on_grid(t))
        return QG_OK;
    QG_TRY(qg_onnx_rounded(e->ctx, e->arena, t, v->constant, &y));
    *limit = y.f32[0];
    return QG_OK;
}

/* A Max and a Min with numbers become a Clip again in the plugin, with one number per
 * channel they do not.  A scalar: there is no axis of several elements. */
static void spread(const qg_tensor *like, qg_tensor *out)
{
    int64_t dim[QG_MAX_RANK];
    int32_t axis = -1;
    for (int32_t k = 0; k < like->rank; k++) {
        dim[k] = 1;
        if (like->dim[k] > 1 && (axis < 0 || k == 1))
            axis = k;
    }
    if (axis >= 0)
        dim[axis] = like->dim[axis];
    qg_tensor_init(out, QG_F32, axis >= 0 ? like->rank : 0, dim);
}

/* *x = Max(*x, low).  `turned`: by the Min of negative values, which becomes no Clip
 * with the Min behind it. */
static qg_status add_lower(qg_graph *g, const qg_node *n, float low, bool turned,
                           qg_value **x)
{
    qg_tensor number;
    qg_tensor_scalar(&number, QG_F32);
    if (low == 0)
        return qg_plugin_add_function(g, n, "Relu", x);
    if (!turned)
        return qg_plugin_add_limit(g, n, "Max", low, &number, x);
    QG_TRY(qg_plugin_add_function(g, n, "Neg", x));
    QG_TRY(qg_plugin_add_limit(g, n, "Min", -low, &number, x));
    return qg_plugin_add_function(g, n, "Neg", x);
}

/* n is of the snapshot, copy the same in g, where quantizers are around it. */
static qg_status split_clip(qg_export *e, qg_graph *g, const qg_node *n, qg_node *copy)
{
    float low, high;
    qg_tensor number;
    if (!qg_node_clamps(n, &low, &high))
        return QG_OK;
    QG_TRY(limit_of(e, n, 1, &low));
    QG_TRY(limit_of(e, n, 2, &high));
    bool below = low > -FLT_MAX, above = high < FLT_MAX;
    qg_value *x = copy->in[0];
    if (!below && !above)
        return QG_OK;
    qg_tensor_scalar(&number, QG_F32);
    if (below && low != 0)
        spread(&n->out[0]->type, &number);
    if (below)
        QG_TRY(add_lower(g, n, low, above && number.rank == 0, &x));
    if (above)
        QG_TRY(qg_plugin_add_limit(g, n, "Min", high, &number, &x));
    return qg_plugin_replace(g, copy->out[0], x);
}

/* --- joins --- */

bool qg_plugin_joins_constant(const qg_node *n)
{
    static const char *const name = "Concat";
    const qg_value *v = n->n_in ? n->in[0] : NULL;
    while (v && v->def && !qg_node_is_onnx(v->def, &name, 1) && moves(v->def, 0))
        v = v->def->in[0];
    const qg_node *from = v ? v->def : NULL;
    for (uint32_t k = 0; qg_node_is_onnx(from, &name, 1) && k < from->n_in; k++)
        if (from->in[k] && from->in[k]->constant)
            return true;
    return false;
}

/* --- levels --- */

/* Whether x is what a FakeQuantize gives, or a Concat, before whose operands the
 * transformations put a FakeQuantize behind it; perhaps moved. */
static bool is_quantized_in_front(const qg_value *x)
{
    static const char *const name = "Concat";
    while (x->def && moves(x->def, 0) && x->def->in[0])
        x = x->def->in[0];
    return x->def &&
           (qg_is_fake_quantize(x->def->op) || qg_node_is_onnx(x->def, &name, 1));
}

/* Of what an export has added to g, which had `old` nodes. */
static qg_status keep_quantizers(qg_export *e, qg_graph *g, size_t old)
{
    for (size_t i = old, all = g->node.n; i < all; i++) {
        qg_node *n = g->node.at[i];
        if (qg_node_is_onnx(n, &clip_name, 1))
            QG_TRY(split_clip(e, g, n, n));
        if (!qg_is_fake_quantize(n->op) || !qg_fake_quantize_node_rounds_twice(n))
            continue;
        QG_TRY(qg_plugin_keep_behind(g, n, n));
        if (is_quantized_in_front(n->in[0]))
            QG_TRY(qg_plugin_keep_in_front(g, n, n, 0));
    }
    return QG_OK;
}

/* --- an export --- */

/* Files that OpenVINO's own backends quantized, or that were imported, have quantizers
 * where its transformations leave them. */
static qg_status lose_places(qg_export *e)
{
    const qg_backend *b = e->quant->backend;
    if ((b->placement && strcmp(b->placement, "openvino") == 0) ||
        strncmp(b->name, QG_IMPORTED, strlen(QG_IMPORTED)) == 0)
        return QG_OK;
    return qg_export_lose(e, QG_SAYS_ENDPOINT, NULL,
                          "backend '%s' is not one for OpenVINO, whose low precision "
                          "transformations may move quantizers over pools, Pad and "
                          "Resize and then compute something else; expected one of "
                          "`openvino-*`, or a session with LP_TRANSFORMS_MODE=NO",
                          b->name);
}

/* What is computed otherwise in float, too, and so in bodies, where copy is n. */
static qg_status obey_float(qg_graph *g, const qg_node *n, qg_node *copy)
{
    if (moves_strides(n))
        QG_TRY(keep_strides(g, n, copy));
    QG_TRY(round_down(g, n, copy));
    return drop_dilations(g, n, copy);
}

static qg_status obey_body(qg_graph *body)
{
    const size_t all = body->node.n;
    for (size_t i = 0; i < all; i++)
        QG_TRY(obey_float(body, body->node.at[i], body->node.at[i]));
    return body->node.n > all ? qg_graph_normalize(body) : QG_OK;
}

qg_status qg_plugin_obey(qg_export *e, qg_graph *g)
{
    const qg_graph *from = e->quant->graph;
    QG_TRY(lose_places(e));
    QG_TRY(keep_quantizers(e, g, from->node.n));
    QG_TRY(keep_channels(e, g, from->node.n));
    for (size_t i = 0; i < from->node.n; i++) {
        const qg_node *n = from->node.at[i];
        qg_node *copy = g->node.at[i];
        if (qg_node_is_onnx(n, &clip_name, 1) && reads_codes(n, false))
            QG_TRY(split_clip(e, g, n, copy));
        int scaled = scaled_product(n);
        if (qg_plugin_pads_wrong(n) || qg_plugin_sums_wrong(n) ||
            qg_plugin_counts_codes(n))
            QG_TRY(qg_plugin_keep_in_front(g, n, copy, 0));
        if (scaled >= 0)
            QG_TRY(qg_plugin_keep_in_front(g, n, copy, (uint32_t)scaled));
        for (uint32_t k = 0; k < 2; k++)
            if (qg_plugin_rounded_before_sum(n, k))
                QG_TRY(qg_plugin_keep_in_front(g, n, copy, k));
        if (mapped_maximum(n))
            QG_TRY(qg_plugin_keep_behind(g, n, copy));
        if (qg_plugin_moves_into_weights(n))
            QG_TRY(keep_out_of_weights(g, n, copy));
        if (is_chained(n))
            QG_TRY(keep_apart(g, n, copy, 0, n->in[0]->type.dim[0]));
        QG_TRY(obey_float(g, n, copy));
    }
    for (qg_graph *body = g->bodies; body; body = body->next_body)
        QG_TRY(obey_body(body));
    return QG_OK;
}

#include "engine/formats/openvino_plugin.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "engine/formats/quantize_linear.h"
#include "engine/ir/edit.h"

enum {
    CODE_BITS = 8,
    CHAIN = 16 /* nodes behind a maximum that are looked through */
};

static bool is_one_of(const qg_node *n, const char *const *names, size_t count)
{
    return n && !n->op->domain && qg_op_is_named(n->op, names, count);
}

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
    return is_one_of(n, names, sizeof names / sizeof *names);
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
    if (is_one_of(n, &name, 1))
        return true;
    return data == 1 && n->n_out == 1 && n->out[0] && !is_maximum(n) &&
           qg_node_has(n, QG_OP_ELEMENTWISE | QG_OP_ACTIVATION);
}

bool qg_plugin_mapped_maximum(const qg_node *n)
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
static int64_t along(const qg_node *n, const char *name, size_t k, int64_t absent)
{
    const qg_attr *a = qg_attr_find(n, name);
    return a && a->type == QG_ATTR_INTS && k < a->count ? a->ints[k] : absent;
}

/* Whether the plugin's integer kernel is known to be right along an axis: `data` is the
 * extent of the input, -1 where it is open. */
static bool turns_right(const qg_node *n, size_t k, size_t axes, int64_t kernel,
                        int64_t data)
{
    const int64_t most = 4; /* elements of a kernel */
    int64_t stride = along(n, "strides", k, 1), begin = along(n, "pads", k, 0),
            end = along(n, "pads", k + axes, 0);
    bool pads = begin == end && (begin == 0 || (begin == 1 && kernel >= 3));
    return along(n, "dilations", k, 1) == 1 && stride <= 2 && stride <= kernel &&
           kernel <= most && data >= kernel && pads;
}

bool qg_plugin_turns_wrong(const qg_node *n)
{
    static const char *const name = "ConvTranspose";
    const qg_tensor *w = n->n_in > 1 && n->in[1] ? &n->in[1]->type : NULL;
    const qg_attr *automatic = qg_attr_find(n, "auto_pad");
    if (!is_one_of(n, &name, 1) || !w)
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

/* --- products --- */

bool qg_plugin_batched_column(const qg_node *n)
{
    static const char *const name = "MatMul";
    const qg_tensor *w = n->n_in > 1 && n->in[1] ? n->in[1]->constant : NULL;
    if (!is_one_of(n, &name, 1) || !w || w->rank < 3 || w->dim[w->rank - 1] != 1)
        return false;
    return qg_tensor_count(w) > w->dim[w->rank - 2];
}

bool qg_plugin_weight_stays_float(const qg_node *n)
{
    return qg_plugin_turns_wrong(n) || qg_plugin_batched_column(n);
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

bool qg_plugin_pads_wrong(const qg_node *n)
{
    static const char *const name = "Pad";
    const qg_attr *mode = qg_attr_find(n, "mode");
    size_t count, padded = 0;
    if (!is_one_of(n, &name, 1) ||
        (mode && mode->type == QG_ATTR_STRING && strcmp(mode->strings[0], "constant")))
        return false;
    const int64_t *pad = pads_of(n, &count);
    for (size_t k = 0; pad && k < count / 2; k++)
        padded += pad[k] != 0 || pad[k + count / 2] != 0;
    return padded == 1 && pad_value(n) != 0 && reads_codes(n, false);
}

/* --- clips --- */

/* The limit in that slot, as the simulation has it; infinite: none. */
static qg_status limit_of(qg_export *e, const qg_node *n, uint32_t slot, float *limit)
{
    const qg_tqc *t = qg_input_tqc(n, slot);
    const qg_value *v = slot < n->n_in ? n->in[slot] : NULL;
    qg_tensor y;
    if (!v || !v->constant || !t ||
        !(qg_tqc_rounds(t) || t->state == QG_TQC_BAKED ||
          t->state == QG_TQC_PASSIVE_BAKED))
        return QG_OK;
    QG_TRY(qg_onnx_rounded(e->ctx, e->arena, t, v->constant, &y));
    *limit = y.f32[0];
    return QG_OK;
}

/* A Max and a Min with numbers become a Clip again in the plugin, with one number per
 * channel they do not. */
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

static qg_status add_number(qg_graph *g, const qg_node *n, float limit, bool wide,
                            qg_value **out)
{
    const char *name = qg_arena_printf(g->arena, "%s_limit", n->out[0]->name);
    qg_tensor *t = QG_NEW(g->arena, qg_tensor);
    if (!name || !t)
        return qg_nomem(g->ctx);
    qg_tensor_scalar(t, QG_F32);
    if (wide)
        spread(&n->out[0]->type, t);
    QG_TRY(qg_tensor_alloc(g->ctx, g->arena, t));
    for (int64_t i = 0; i < qg_tensor_count(t); i++)
        t->f32[i] = limit;
    return qg_edit_add_constant(g, name, t, out);
}

/* *x = op(*x, limit); a limit of 0 from below is a Relu. */
static qg_status add_limit(qg_graph *g, const qg_node *n, const char *op, float limit,
                           bool wide, qg_value **x)
{
    qg_value *in[2] = { *x }, *out;
    qg_node *made;
    bool relu = !op;
    if (!relu)
        QG_TRY(add_number(g, n, limit, wide, &in[1]));
    const char *name = qg_arena_printf(g->arena, "%s_limited", n->out[0]->name);
    if (!name)
        return qg_nomem(g->ctx);
    QG_TRY(qg_graph_add_prefixed(g, name, &out));
    out->type = n->out[0]->type;
    qg_node_spec spec = { .op = qg_op_find(g->ctx->registry, NULL, relu ? "Relu" : op,
                                           n->opset),
                          .opset = n->opset,
                          .in = in,
                          .n_in = relu ? 1 : 2,
                          .out = &out,
                          .n_out = 1 };
    assert(spec.op);
    *x = out;
    return qg_graph_add_node(g, &spec, &made);
}

/* n is of the snapshot, copy the same in g, where quantizers are around it. */
static qg_status split_clip(qg_export *e, qg_graph *g, const qg_node *n, qg_node *copy)
{
    float low, high;
    if (!qg_node_clamps(n, &low, &high))
        return QG_OK;
    QG_TRY(limit_of(e, n, 1, &low));
    QG_TRY(limit_of(e, n, 2, &high));
    bool below = low > -FLT_MAX, above = high < FLT_MAX;
    qg_value *x = copy->in[0], *y = copy->out[0];
    if (!below && !above)
        return QG_OK;
    if (below)
        QG_TRY(add_limit(g, n, low == 0 ? NULL : "Max", low, false, &x));
    if (above)
        QG_TRY(add_limit(g, n, "Min", high, below && low != 0, &x));
    memcpy(x->dim_name, y->dim_name, sizeof y->dim_name);
    bool output = y->is_output;
    QG_TRY(qg_edit_replace_value(g, y, x));
    if (!output)
        qg_value_swap_names(g, y, x);
    return QG_OK;
}

/* --- joins --- */

bool qg_plugin_joins_constant(const qg_node *n)
{
    static const char *const name = "Concat";
    const qg_value *v = n->n_in ? n->in[0] : NULL;
    while (v && v->def && !is_one_of(v->def, &name, 1) && moves(v->def, 0))
        v = v->def->in[0];
    const qg_node *from = v ? v->def : NULL;
    for (uint32_t k = 0; is_one_of(from, &name, 1) && k < from->n_in; k++)
        if (from->in[k] && from->in[k]->constant)
            return true;
    return false;
}

/* --- an export --- */

static const char off[] = "with LP_TRANSFORMS_MODE=NO it is right";

static qg_status lose(qg_export *e, const qg_node *n, const char *text)
{
    const qg_tqc *t = qg_output_tqc(n, 0) ? qg_output_tqc(n, 0) : qg_input_tqc(n, 0);
    QG_TRY(qg_export_lose(e, QG_SAYS_ENDPOINT, t, "%s (%s): %s; %s", n->name,
                          n->op->name, text, off));
    e->loss.at[e->loss.n - 1].computes = true;
    return QG_OK;
}

qg_status qg_plugin_obey(qg_export *e, qg_graph *g)
{
    static const char *const name = "Clip";
    const int64_t broadcasts = 8; /* the opset from which on Max and Min do */
    const qg_graph *from = e->quant->graph;
    for (size_t i = 0; i < from->node.n; i++) {
        const qg_node *n = from->node.at[i];
        if (is_one_of(n, &name, 1) && n->opset >= broadcasts && reads_codes(n, false))
            QG_TRY(split_clip(e, g, n, g->node.at[i]));
        if (qg_plugin_pads_wrong(n))
            QG_TRY(lose(e, n,
                        "OpenVINO's plugin casts what it pads with to a code without "
                        "its scale"));
        if (qg_plugin_mapped_maximum(n))
            QG_TRY(lose(e, n,
                        "OpenVINO's plugin computes this maximum of floats and what is "
                        "behind it in a wrong kernel"));
    }
    return QG_OK;
}

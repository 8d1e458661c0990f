#include "engine/formats/qdq/runtime.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/number/integer_exp.h"

/* ONNX Runtime takes the bias of Conv, ConvTranspose and Gemm after DequantizeLinear,
 * and the constant of a sum that it can turn into one, for int32 in steps of input x
 * weight, but only where that is an initializer of one axis. */

/* The input in that slot, or NULL. */
static qg_value *in_slot(const qg_node *n, int slot)
{
    return slot >= 0 && (uint32_t)slot < n->n_in ? n->in[slot] : NULL;
}

/* A product with a weight in codes. */
static bool is_quantized(const qg_node *n)
{
    if (!n || !qg_node_has(n, QG_OP_COMPUTE))
        return false;
    const qg_value *w = in_slot(n, qg_op_slot_of(n->op, 'w'));
    return w && w->def && qg_node_has(w->def, QG_OP_QUANTIZER);
}

/* One whose constants ONNX Runtime rounds.  Operators of other domains may go on
 * computing behind their bias, as FusedConv and Attention do. */
static bool is_rounded(const qg_node *n)
{
    static const char *const names[] = { "Conv", "ConvTranspose", "Gemm" };
    return !n->op->domain && qg_op_is_named(n->op, names, 3);
}

static bool is_vector(const qg_value *v)
{
    return v && v->constant && v->constant->dtype == QG_F32 && v->constant->rank == 1;
}

/* The vector along one of `rank` axes. */
static qg_status spread(qg_graph *g, const qg_tensor *vector, int rank, int axis,
                        qg_tensor **out)
{
    int64_t dim[QG_MAX_RANK];
    assert(vector->rank == 1 && rank <= QG_MAX_RANK && axis >= 0 && axis < rank);
    for (int d = 0; d < rank; d++)
        dim[d] = d == axis ? vector->dim[0] : 1;
    qg_tensor *t;
    QG_TRY(qg_tensor_clone(g->ctx, g->arena, vector, &t));
    const void *data = t->data;
    qg_tensor_init(t, QG_F32, rank, dim);
    t->data = (void *)(uintptr_t)data;
    *out = t;
    return QG_OK;
}

/* n without its bias, followed by a sum with it: readers and names move there. */
static qg_status take_out(qg_graph *g, qg_node *n, uint32_t slot, int64_t opset)
{
    qg_value *v = n->out[0], *sum, *in[2] = { v };
    qg_tensor *t;
    QG_TRY(spread(g, n->in[slot]->constant, v->type.rank, 1, &t));
    QG_TRY(qg_edit_add_constant(g, n->in[slot]->name, t, &in[1]));
    QG_TRY(qg_edit_set_input(g, n, slot, NULL));
    const char *name = qg_arena_printf(g->arena, "%s_product", v->name);
    if (!name)
        return qg_nomem(g->ctx);
    QG_TRY(qg_graph_add_prefixed(g, name, &sum));
    bool output = v->is_output;
    sum->type = v->type;
    QG_TRY(qg_edit_replace_value(g, v, sum));
    if (!output)
        qg_value_swap_names(g, v, sum);
    qg_node_spec spec = { .op = qg_op_find(g->ctx->registry, NULL, "Add", opset),
                          .opset = opset,
                          .in = in,
                          .n_in = 2,
                          .out = &sum,
                          .n_out = 1 };
    assert(spec.op && v->def == n);
    return qg_graph_add_node(g, &spec, &n);
}

/* The constant of a sum with a product: one axis, as many as the sum has. */
static qg_status widen_sum(qg_graph *g, qg_node *n, size_t *count)
{
    for (uint32_t k = 0; k < 2; k++) {
        const qg_node *product = n->in[1 - k] ? n->in[1 - k]->def : NULL;
        int rank = n->out[0]->type.rank;
        if (!is_vector(n->in[k]) || !is_quantized(product) || rank < 2)
            continue;
        qg_tensor *t;
        QG_TRY(spread(g, n->in[k]->constant, rank, rank - 1, &t));
        ++*count;
        return qg_edit_give_constant(g, n, k, n->in[k]->name, t);
    }
    return QG_OK;
}

/* Of a product: only vectors are rounded, and a convolution takes nothing else. */
static qg_status keep_bias(qg_graph *g, qg_node *n, uint32_t slot, int64_t opset)
{
    qg_tensor *t;
    int rank = n->out[0]->type.rank;
    assert(rank >= 2);
    if (rank > 2)
        return take_out(g, n, slot, opset);
    QG_TRY(spread(g, n->in[slot]->constant, rank, 1, &t));
    return qg_edit_give_constant(g, n, slot, n->in[slot]->name, t);
}

static qg_status keep_biases(qg_graph *g, int64_t opset, size_t *count)
{
    *count = 0;
    for (size_t i = 0, old = g->node.n; i < old; i++) {
        qg_node *n = g->node.at[i];
        int slot = qg_op_slot_of(n->op, 'b');
        if (qg_node_has(n, QG_OP_JOIN) && n->n_in == 2 && n->n_out == 1 && n->out[0]) {
            QG_TRY(widen_sum(g, n, count));
        } else if (is_rounded(n) && is_quantized(n) && is_vector(in_slot(n, slot)) &&
                   n->out[0] && n->out[0]->type.rank >= 2) {
            QG_TRY(keep_bias(g, n, (uint32_t)slot, opset));
            ++*count;
        }
    }
    return QG_OK;
}

/* A product of float weights with an activation behind DequantizeLinear. */
static bool is_kept_float(const qg_node *n)
{
    const qg_value *w = is_rounded(n) ? in_slot(n, qg_op_slot_of(n->op, 'w')) : NULL;
    const qg_node *from = w && n->in[0] ? n->in[0]->def : NULL;
    return w && w->constant && w->constant->dtype == QG_F32 && from &&
           qg_node_has(from, QG_OP_QUANTIZER);
}

qg_status qg_onnx_hide(qg_graph *g, const char *op, int64_t opset, qg_value *out,
                       qg_value **x)
{
    qg_value *in = *x;
    qg_node *made;
    qg_node_spec spec = { .op = qg_op_find(g->ctx->registry, NULL, op, opset),
                          .opset = opset,
                          .in = &in,
                          .n_in = 1,
                          .out = &out,
                          .n_out = 1 };
    assert(spec.op);
    out->type = in->type;
    *x = out;
    return qg_graph_add_node(g, &spec, &made);
}

/* The same values before the activation of n. */
static qg_status hide_activation(qg_graph *g, qg_node *n, int64_t opset)
{
    qg_value *x = n->in[0], *out;
    const char *name = qg_arena_printf(g->arena, "%s_kept", x->name);
    if (!name)
        return qg_nomem(g->ctx);
    QG_TRY(qg_graph_add_prefixed(g, name, &out));
    QG_TRY(qg_onnx_hide(g, "Max", opset, out, &x));
    return qg_edit_set_input(g, n, 0, out);
}

static qg_status keep_weights(qg_graph *g, int64_t opset)
{
    for (size_t i = 0, old = g->node.n; i < old; i++)
        if (is_kept_float(g->node.at[i]))
            QG_TRY(hide_activation(g, g->node.at[i], opset));
    return QG_OK;
}

/* Types of codes that no kernel takes as data. */
static bool is_narrow(qg_dtype code) { return qg_dtype_bits(code) < 8; }

/* The DequantizeLinear of which input 0 is, as it is or moved; NULL: there is none. */
static const qg_node *dequantize_before(const qg_node *n)
{
    const qg_node *from = n->in[0]->def;
    while (from && qg_node_has(from, QG_OP_PASSIVE) && from->n_in && from->in[0])
        from = from->in[0]->def;
    return from && qg_is_dequantize_linear(from) ? from : NULL;
}

/* A maximum of what DequantizeLinear makes of such codes. */
static bool is_narrow_maximum(const qg_node *n)
{
    static const char *const name = "MaxPool";
    if (n->op->domain || !qg_op_is_named(n->op, &name, 1))
        return false;
    const qg_node *from = dequantize_before(n);
    return from && is_narrow(from->in[0]->type.dtype);
}

bool qg_onnx_average_differs(const qg_node *n)
{
    static const char *const name = "AveragePool";
    return !n->op->domain && qg_op_is_named(n->op, &name, 1) &&
           (qg_attr_has(n, "dilations") || qg_node_counts_beyond(n));
}

bool qg_onnx_resize_turns(const qg_node *n)
{
    static const char *const name = "Resize";
    const qg_tensor *x = &n->in[0]->type, *y = &n->out[0]->type;
    const qg_attr *mode = qg_attr_find(n, "mode"), *anti = qg_attr_find(n, "antialias");
    if (n->op->domain || !qg_op_is_named(n->op, &name, 1) || x->rank != 4 || !mode ||
        mode->type != QG_ATTR_STRING || strcmp(mode->strings[0], "cubic") != 0 ||
        (anti && anti->type == QG_ATTR_INT && anti->ints[0]))
        return false;
    for (int d = 2; d < x->rank; d++)
        if (x->dim[d] < 0 || y->rank != x->rank || y->dim[d] < x->dim[d])
            return true;
    return false;
}

/* A DepthToSpace of blocks of one element before n: it changes nothing, and the
 * optimizer moves no Transpose through it. */
static qg_status hold_layout(qg_graph *g, qg_node *n, int64_t opset)
{
    int64_t *one = QG_NEW(g->arena, int64_t);
    qg_attr *attr = QG_NEW(g->arena, qg_attr);
    const char *block = qg_intern(g->ctx, "blocksize");
    const char *name = qg_arena_printf(g->arena, "%s_held", n->in[0]->name);
    qg_value *out, *in = n->in[0];
    if (!one || !attr || !block || !name)
        return qg_nomem(g->ctx);
    *one = 1;
    *attr = (qg_attr){ .name = block, .type = QG_ATTR_INT, .count = 1, .ints = one };
    QG_TRY(qg_graph_add_prefixed(g, name, &out));
    qg_node_spec spec = { .op =
                              qg_op_find(g->ctx->registry, NULL, "DepthToSpace", opset),
                          .opset = opset,
                          .in = &in,
                          .n_in = 1,
                          .out = &out,
                          .n_out = 1,
                          .attr = attr,
                          .n_attr = 1 };
    assert(spec.op);
    out->type = in->type;
    qg_node *made;
    QG_TRY(qg_graph_add_node(g, &spec, &made));
    return qg_edit_set_input(g, n, 0, out);
}

static qg_status keep_layouts(qg_graph *g, int64_t opset)
{
    for (size_t i = 0, old = g->node.n; i < old; i++)
        if (qg_onnx_resize_turns(g->node.at[i]))
            QG_TRY(hold_layout(g, g->node.at[i], opset));
    return QG_OK;
}

static qg_status keep_pools(qg_graph *g, int64_t opset)
{
    for (size_t i = 0, old = g->node.n; i < old; i++) {
        qg_node *n = g->node.at[i];
        if (is_narrow_maximum(n) ||
            (qg_onnx_average_differs(n) && dequantize_before(n)))
            QG_TRY(hide_activation(g, n, opset));
    }
    return QG_OK;
}

static bool has_floating(const qg_quant *q)
{
    for (size_t i = 0; i < q->tqc.n; i++)
        if (q->tqc.at[i]->scheme.policy & QG_FLOATING && qg_tqc_rounds(q->tqc.at[i]))
            return true;
    return false;
}

qg_status qg_onnx_obey_runtime(qg_graph *g, const qg_quant *q, int64_t opset)
{
    size_t biases;
    QG_TRY(keep_biases(g, opset, &biases));
    QG_TRY(keep_weights(g, opset));
    QG_TRY(keep_pools(g, opset));
    QG_TRY(keep_layouts(g, opset));
    if (biases)
        qg_log_to(
            g->ctx, QG_LOG_INFO,
            "export: %zu float biases: ONNX Runtime computes these nodes in float; a "
            "backend with int32 biases, such as ort-int8, gets integer kernels",
            biases);
    if (has_floating(q))
        qg_warn(g->ctx,
                "export: floating-point codes: the optimizer of ONNX Runtime 1.31 "
                "refuses them or computes something else, expected a session without "
                "graph optimizations");
    return QG_OK;
}

/* --- files for others --- */

/* Whether ONNX Runtime's optimizer moves DequantizeLinear over n, to where its result
 * is read: it adds a pair there, unless there is one. */
static bool is_passed(const qg_node *n)
{
    static const char *const names[] = { "MaxPool", "Reshape",   "Slice",
                                         "Squeeze", "Transpose", "Unsqueeze" };
    const qg_value *y = n->out[0];
    return !n->op->domain && qg_op_is_named(n->op, names, 6) && y &&
           (!y->use.n || !qg_is_quantize_linear(y->use.at[0].node));
}

/* A product of more than two axes, all known, by a matrix, whose only reader adds a
 * vector: it becomes a Gemm there, behind a Reshape over which DequantizeLinear is
 * moved (MatMulAddFusion).  The graph has no open extents. */
static bool is_flattened(const qg_node *n)
{
    static const char *const product[] = { "MatMul" }, *const sum[] = { "Add" };
    const qg_value *y = n->out[0];
    if (n->op->domain || !qg_op_is_named(n->op, product, 1) || y->use.n != 1 ||
        y->is_output || n->in[0]->type.rank <= 2 || n->in[1]->type.rank != 2 ||
        !qg_tensor_known(&n->in[0]->type))
        return false;
    const qg_use *use = &y->use.at[0];
    return !use->node->op->domain && qg_op_is_named(use->node->op, sum, 1) &&
           use->node->in[1 - use->slot]->type.rank == 1;
}

/* In front of n there are int8 codes that the optimizer moves. */
static bool moves_int8(const qg_node *n, bool open)
{
    const qg_node *dq = n->n_in && n->in[0] ? n->in[0]->def : NULL;
    return dq && qg_is_dequantize_linear(dq) && dq->in[0]->type.dtype == QG_I8 &&
           (is_passed(n) || (!open && is_flattened(n)));
}

static void warn_of_int8(const qg_graph *g, size_t nodes, int64_t opset)
{
    const qg_node *first = NULL;
    char more[40] = "";
    size_t count = 0;
    for (size_t i = 0; i < nodes; i++)
        if (moves_int8(g->node.at[i], qg_graph_is_open(g))) {
            first = first ? first : g->node.at[i];
            count++;
        }
    if (!first)
        return;
    if (count > 1)
        (void)snprintf(more, sizeof more, " and %zu more", count - 1);
    qg_warn(g->ctx,
            "export: node '%.1000s' (%.40s)%s: int8 codes in opset %lld: the optimizer "
            "of ONNX Runtime 1.31 moves them and then refuses the file, expected "
            "TensorRT as the reader, or --placement ort",
            first->name, first->op->name, more, (long long)opset);
}

/* Between two quantizers, perhaps moved away from the first. */
static bool is_between_codes(const qg_node *n)
{
    bool to_codes = false;
    for (size_t k = 0; k < n->out[0]->use.n; k++)
        to_codes |= qg_is_quantize_linear(n->out[0]->use.at[k].node);
    return to_codes && dequantize_before(n);
}

/* The first node between quantizers for which `differs`; NULL: there is none. */
static const qg_node *first_between(const qg_graph *g, size_t nodes,
                                    bool (*differs)(const qg_node *))
{
    for (size_t i = 0; i < nodes; i++)
        if (differs(g->node.at[i]) && is_between_codes(g->node.at[i]))
            return g->node.at[i];
    return NULL;
}

void qg_onnx_warn_of_runtime(const qg_graph *g, size_t nodes, int64_t int8)
{
    const qg_node *average = first_between(g, nodes, qg_onnx_average_differs);
    const qg_node *resize = first_between(g, nodes, qg_onnx_resize_turns);
    if (int8)
        warn_of_int8(g, nodes, int8);
    if (resize)
        qg_warn(g->ctx,
                "export: node '%.1000s' (Resize): cubic and shrinking, which ONNX "
                "Runtime 1.31 refuses at its default level where it turns convolutions "
                "on both sides to channels last, expected another reader of the file, "
                "or --placement ort",
                resize->name);
    if (average)
        qg_warn(g->ctx,
                "export: node '%.1000s' (AveragePool): the optimizer of ONNX Runtime "
                "1.31 makes a QLinearAveragePool of it, which %s, expected another "
                "reader of the file, or --placement ort",
                average->name,
                qg_attr_has(average, "dilations")
                    ? "has no dilations, and does not load"
                    : "counts elements behind the padding (ceil_mode)");
}

/* --- domains --- */

static bool uses_domain(const qg_graph *g, const char *domain)
{
    for (size_t k = 0; k < g->node.n; k++) {
        const char *own = g->node.at[k]->op->domain;
        if (own && strcmp(own, domain) == 0)
            return true;
    }
    return false;
}

void qg_onnx_drop_opsets(qg_graph *g)
{
    size_t kept = 0;
    for (size_t i = 0; i < g->opset.n; i++) {
        const char *domain = g->opset.at[i].domain;
        bool used = !*domain || uses_domain(g, domain);
        for (const qg_graph *body = g->bodies; body && !used; body = body->next_body)
            used = uses_domain(body, domain);
        if (used)
            g->opset.at[kept++] = g->opset.at[i];
    }
    g->opset.n = kept;
}

bool qg_onnx_has_concat(const qg_graph *g)
{
    static const char *const name = "Concat";
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        if (qg_op_is_named(n->op, &name, 1) && n->out[0] &&
            n->out[0]->type.dtype == QG_F32)
            return true;
    }
    return false;
}

/* --- Softmax --- */

/* 8 bits need no smaller one; the row softmax of the profiles has it, too. */
#define LEAST_SCALE 0x1p-8F

/* The elements along the axis. */
static int64_t length(const qg_node *n)
{
    const qg_tensor *x = &n->in[0]->type;
    const qg_attr *a = qg_attr_find(n, "axis");
    int64_t axis = a && a->type == QG_ATTR_INT ? a->ints[0] : n->opset < 13 ? 1 : -1;
    axis += axis < 0 ? x->rank : 0;
    return axis >= 0 && axis < x->rank ? x->dim[axis] : 0;
}

/* The node that makes x, or what clamps to it: the optimizer removes a clamp that no
 * code of the quantizer exceeds.  One to negative values only stays. */
static const qg_node *behind_clamps(const qg_value *x)
{
    float low, high;
    while (x && x->def && qg_node_clamps(x->def, &low, &high) && high >= 0)
        x = x->def->in[0];
    return x ? x->def : NULL;
}

/* Whether x is a Softmax, quantized according to t, for which QLinearSoftmax would give
 * codes other than t's. */
static bool softmax_differs(const qg_ctx *ctx, const qg_quant *q, const qg_tqc *t,
                            const qg_value *x)
{
    const uint16_t other = QG_PER_CHANNEL | QG_BLOCK | QG_FLOATING;
    const qg_node *n = behind_clamps(x);
    if (!n || n->op != qg_op_find(ctx->registry, NULL, "Softmax", n->opset) ||
        t->scheme.policy & other)
        return false;
    assert(n->id < q->graph->node.n);
    n = q->graph->node.at[n->id];
    qg_qparam p = qg_tqc_param(t);
    assert(p.n == 1 && p.scale[0] > 0);
    bool differs = !qg_int_softmax_table_is_exact(p.scale[0], LEAST_SCALE, length(n));
    const qg_tqc *in = qg_input_tqc(n, 0); /* float inside of a fusion? */
    return differs && t->scheme.bits <= 8 && !(in && qg_tqc_root(in) == qg_tqc_root(t));
}

/* --- in front of QuantizeLinear --- */

const char *qg_onnx_neutral(const qg_ctx *ctx, const qg_quant *q, const qg_tqc *t,
                            const qg_onnx_grid *how, const qg_value *x)
{
    if (x->constant)
        return NULL;
    if (is_narrow(how->code))
        return "Max";
    if (how->clip)
        return NULL;
    if (softmax_differs(ctx, q, t, x))
        return "Abs";
    return x->def && qg_is_dequantize_linear(x->def) && !x->def->op->domain ? "Max"
                                                                            : NULL;
}

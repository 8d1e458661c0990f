#include "engine/formats/constant_codes.h"

#include <string.h>

#include "engine/formats/quantize_linear.h"
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"

/* --- parameters that are computed from constants --- */

/* Slots whose value decides about the form: scales, zero points and constant codes. */
static bool is_parameter(const qg_node *n, uint32_t slot)
{
    if (n->op->codes)
        return qg_op_code_slot(n->op->codes, slot) != 'v';
    return qg_is_dequantize_linear(n) || (qg_is_quantize_linear(n) && slot > 0);
}

static qg_status settle(qg_graph *g, qg_node *n, const qg_tensor *const *known,
                        size_t count)
{
    for (uint32_t i = 0; i < n->n_in; i++) {
        const qg_value *v = n->in[i];
        qg_tensor *t;
        if (!v || v->constant || v->id >= count || !known[v->id] || !is_parameter(n, i))
            continue;
        QG_TRY(qg_tensor_clone(g->ctx, g->arena, known[v->id], &t));
        QG_TRY(qg_edit_give_constant(g, n, i, v->name, t));
    }
    return QG_OK;
}

static qg_status settle_parameters(qg_graph *g)
{
    const qg_tensor *const *known;
    size_t count = g->value.n, removed;
    QG_TRY(qg_infer_known(g, &known));
    for (size_t i = 0; i < g->node.n; i++)
        QG_TRY(settle(g, g->node.at[i], known, count));
    return qg_graph_sweep(g, &removed); /* what computed them has no output */
}

/* --- weights that are transposed --- */

/* y = n of constants, the first of them `codes`; NULL: not as many elements. */
static qg_status evaluate(qg_graph *g, const qg_node *n, const qg_tensor *codes,
                          qg_arena *scratch, qg_tensor **out)
{
    qg_tensor *y = QG_NEW(g->arena, qg_tensor);
    const qg_tensor **in = QG_NEWN(scratch, n->n_in, const qg_tensor *);
    if (!y || !in)
        return qg_nomem(g->ctx);
    in[0] = codes;
    for (uint32_t i = 1; i < n->n_in; i++)
        in[i] = n->in[i] ? n->in[i]->constant : NULL;
    qg_call k = { .ctx = g->ctx,
                  .node = n,
                  .param = n->param,
                  .n_in = n->n_in,
                  .n_out = 1,
                  .in = in,
                  .out = &y,
                  .scratch = scratch };
    QG_TRY(n->op->infer(&k));
    if (!qg_tensor_known(y) || qg_tensor_count(y) != qg_tensor_count(codes))
        return QG_OK;
    QG_TRY(qg_tensor_alloc(g->ctx, g->arena, y));
    *out = y;
    return n->op->run(&k);
}

/* The axis of n's output that is axis `from` of its input; -1: none. */
static int64_t moved_axis(const qg_node *n, int64_t from, int32_t rank)
{
    static const char *const transpose[] = { "Transpose" };
    const qg_attr *perm = qg_attr_find(n, "perm");
    if (qg_node_has(n, QG_OP_COPY))
        return from;
    if (!qg_op_is_named(n->op, transpose, 1))
        return -1;
    if (!perm || perm->type != QG_ATTR_INTS)
        return rank - 1 - from;
    for (size_t i = 0; i < perm->count; i++)
        if (perm->ints[i] == from)
            return (int64_t)i;
    return -1;
}

/* Its only reader, when that moves the elements of a constant; NULL: there is none. */
static qg_node *mover_of(const qg_node *dq)
{
    const qg_value *r = dq->out[0];
    qg_node *n = r->use.n == 1 && !r->is_output ? r->use.at[0].node : NULL;
    if (!n || r->use.at[0].slot || n->n_out != 1 || !n->out[0] ||
        n->out[0]->is_output || !qg_node_has(n, QG_OP_PASSIVE | QG_OP_COPY) ||
        !qg_node_has(n, QG_OP_PURE))
        return NULL;
    for (uint32_t i = 1; i < n->n_in; i++)
        if (n->in[i] && !n->in[i]->constant)
            return NULL;
    return n;
}

/* As dq, of other codes; axis -1: one scale. */
static qg_status add_dequantize(qg_graph *g, const qg_node *dq, qg_value *codes,
                                int64_t axis, qg_value *r)
{
    qg_value *in[] = { codes, dq->in[1], dq->n_in > 2 ? dq->in[2] : NULL };
    qg_node_spec spec = { .op = dq->op,
                          .opset = dq->opset,
                          .in = in,
                          .n_in = dq->n_in,
                          .out = &r,
                          .n_out = 1 };
    qg_attr *a = QG_NEW(g->arena, qg_attr);
    int64_t *value = QG_NEW(g->arena, int64_t);
    qg_node *made;
    if (!a || !value)
        return qg_nomem(g->ctx);
    *value = axis;
    *a = (qg_attr){ qg_intern(g->ctx, "axis"), QG_ATTR_INT, 1, { .ints = value } };
    spec.attr = a;
    spec.n_attr = axis >= 0;
    return qg_graph_add_node(g, &spec, &made);
}

/* codes -> DQ -> Transpose -> r: the codes are transposed, DQ gives r. */
static qg_status swap_mover(qg_graph *g, const qg_node *dq, qg_node *n,
                            const qg_tensor *codes)
{
    int64_t axis = -1;
    const qg_attr *own = qg_attr_find(dq, "axis");
    const qg_value *codes_before = dq->in[0];
    qg_value *moved, *r;
    if (qg_tensor_count(dq->in[1]->constant) != 1) {
        axis = own && own->type == QG_ATTR_INT ? own->ints[0] : 1;
        axis = moved_axis(n, axis < 0 ? axis + codes_before->constant->rank : axis,
                          codes_before->constant->rank);
        if (axis < 0 || qg_attr_has(dq, "block_size"))
            return QG_OK;
    }
    QG_TRY(qg_edit_add_constant(g, codes_before->name, codes, &moved));
    QG_TRY(qg_graph_add_prefixed(g, n->out[0]->name, &r));
    QG_TRY(add_dequantize(g, dq, moved, axis, r));
    QG_TRY(qg_edit_replace_value(g, n->out[0], r));
    qg_value_swap_names(g, n->out[0], r);
    qg_edit_remove_node(g, n);
    return QG_OK;
}

static qg_status expand_weight(qg_graph *g, const qg_node *dq)
{
    qg_node *n = mover_of(dq);
    qg_tensor *codes = NULL;
    if (!n || !dq->in[0]->constant || !dq->in[1]->constant)
        return QG_OK;
    qg_arena *scratch = qg_arena_new(g->ctx->alloc);
    if (!scratch)
        return qg_nomem(g->ctx);
    qg_status s = evaluate(g, n, dq->in[0]->constant, scratch, &codes);
    qg_arena_free(scratch);
    return s == QG_OK && codes ? swap_mover(g, dq, n, codes) : s;
}

/* Those made meanwhile are visited too: a Reshape may follow. */
static qg_status expand_weights(qg_graph *g)
{
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        if (!n->dead && qg_is_dequantize_linear(n) && n->out[0])
            QG_TRY(expand_weight(g, n));
    }
    return QG_OK;
}

qg_status qg_settle_constants(qg_graph *g)
{
    QG_TRY(settle_parameters(g));
    QG_TRY(expand_weights(g));
    size_t removed;
    QG_TRY(qg_graph_sweep(g, &removed));
    return qg_infer(g, NULL, 0);
}

/* storage.c -- who stores codes.
 *
 * A value is stored as codes on grid G when
 *
 *     a  the record of its producer rounds on G; or it is dequantized by an operator of
 *        the file whose grid is constant
 *     b  its producer's record is overlapped under the root of the producer's input 0,
 *        which is stored (or rounded at the slot) on G: passive operators, which only
 *        move or (unless the profile has `passive: copies`) average codes, and Relu,
 *        whose zero is a code
 *     c  its producer's record is overlapped under the output of an operator that only
 *        moves it, stored on G, as before a Concat: rounding earlier is exact
 *     d  it is no output, and every slot that reads it rounds on G
 *
 * Every other value is stored in float.  The first rule that applies counts; b is tried
 * again behind values that c or d stored. */
#include "engine/lower/lowering.h"

#include <math.h>

static bool is_activation(const qg_value *v)
{
    return v && !v->constant && v->type.dtype == QG_F32;
}

/* The grid on which slot 0 of n sees its input. */
static qg_status seen_grid(qg_lowering *w, const qg_node *n, qg_stored *out)
{
    QG_TRY(qg_lower_slot_grid(w, n, 0, out));
    if (!out->codes && is_activation(n->in[0]))
        *out = w->stored[n->in[0]->id];
    return QG_OK;
}

/* Rule a. */
static qg_status store_rounded(qg_lowering *w, const qg_node *n)
{
    enum qg_linear_kind kind;
    qg_stored grid;
    QG_TRY(qg_lower_linear(w, n, &grid, &kind));
    if (kind == QG_LINEAR_DEQUANTIZE)
        w->stored[n->out[0]->id] = grid;
    for (uint32_t k = 0; k < n->n_out; k++) {
        const qg_tqc *t = qg_output_tqc(n, k);
        if (t && is_activation(n->out[k]) && qg_tqc_rounds(t))
            QG_TRY(qg_lower_output_grid(w, t, &w->stored[n->out[k]->id]));
    }
    return QG_OK;
}

/* max(x, 0) of a value on a grid is on that grid, where 0 is. */
static bool is_relu(const qg_node *n)
{
    float low, high;
    return qg_node_clamps(n, &low, &high) && low == 0 && high == INFINITY;
}

static bool has_zero(const qg_stored *s)
{
    return s->codes && s->n == 1 && s->low <= s->zero[0] && s->zero[0] <= s->high;
}

/* Whether the operator may be passive under the profile.  What computes element by
 * element, or sums products, may have its output in the group of its input because
 * another node shares the scale; it is no passive operator, except a Relu. */
static bool may_be_passive(const qg_lowering *w, const qg_node *n)
{
    return qg_node_has(n, QG_OP_PASSIVE) ||
           (!w->profile->copies &&
            !qg_node_has(n, QG_OP_COMPUTE | QG_OP_ELEMENTWISE | QG_OP_ACTIVATION));
}

/* Rule b. */
static qg_status store_passive(qg_lowering *w, const qg_node *n)
{
    const qg_tqc *in = qg_input_tqc(n, 0);
    bool relu = is_relu(n);
    if (!relu && !may_be_passive(w, n))
        return QG_OK;
    for (uint32_t k = 0; in && k < n->n_out; k++) {
        const qg_tqc *t = qg_output_tqc(n, k);
        qg_stored grid;
        if (!t || t->state != QG_TQC_OVERLAPPED || !is_activation(n->out[k]) ||
            qg_tqc_root(t) != qg_tqc_root(in))
            continue;
        QG_TRY(seen_grid(w, n, &grid));
        if (!w->stored[n->out[k]->id].codes && (!relu || has_zero(&grid)))
            w->stored[n->out[k]->id] = grid;
    }
    return QG_OK;
}

/* Whether the elements of its outputs are elements of its inputs: a join that is not
 * element-wise concatenates. */
static bool moves(const qg_op *op)
{
    return (op->traits & QG_OP_PASSIVE) ||
           (op->traits & (QG_OP_JOIN | QG_OP_ELEMENTWISE)) == QG_OP_JOIN;
}

/* Rule c, for one value. */
static qg_status store_moved(qg_lowering *w, const qg_value *v)
{
    const qg_tqc *t = qg_producer_tqc(v);
    if (!t || t->state != QG_TQC_OVERLAPPED || w->stored[v->id].codes)
        return QG_OK;
    for (size_t i = 0; i < v->use.n; i++) {
        const qg_node *n = v->use.at[i].node;
        const qg_tqc *after = qg_output_tqc(n, 0);
        qg_stored grid;
        if (!moves(n->op) || !after || qg_tqc_root(after) != qg_tqc_root(t) ||
            !w->stored[n->out[0]->id].codes)
            continue;
        QG_TRY(qg_lower_output_grid(w, t, &grid));
        if (qg_stored_same(&grid, &w->stored[n->out[0]->id]))
            w->stored[v->id] = grid;
    }
    return QG_OK;
}

/* Rule d, for one value. */
static qg_status store_read(qg_lowering *w, const qg_value *v)
{
    qg_stored all = { 0 }, grid;
    if (!is_activation(v) || v->is_output || w->stored[v->id].codes)
        return QG_OK;
    for (size_t i = 0; i < v->use.n; i++) {
        const qg_use *u = &v->use.at[i];
        if (qg_node_has(u->node, QG_OP_DIMS_ONLY))
            continue;
        QG_TRY(qg_lower_slot_grid(w, u->node, u->slot, &grid));
        if (!grid.codes || (all.codes && !qg_stored_same(&all, &grid)))
            return QG_OK;
        all = grid;
    }
    w->stored[v->id] = all;
    return QG_OK;
}

qg_status qg_lower_storage(qg_lowering *w)
{
    const qg_graph *g = w->from;
    for (size_t i = 0; i < g->node.n; i++) {
        QG_TRY(store_rounded(w, g->node.at[i]));
        QG_TRY(store_passive(w, g->node.at[i]));
    }
    for (size_t i = 0; i < g->value.n; i++)
        QG_TRY(store_read(w, g->value.at[i]));
    for (size_t i = g->node.n; i-- > 0;)
        for (uint32_t k = 0; k < g->node.at[i]->n_out; k++)
            if (is_activation(g->node.at[i]->out[k]))
                QG_TRY(store_moved(w, g->node.at[i]->out[k]));
    for (size_t i = 0; i < g->node.n; i++)
        QG_TRY(store_passive(w, g->node.at[i]));
    return QG_OK;
}

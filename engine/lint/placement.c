/* placement.c -- the grid of every value in the target's file.
 *
 *     forward    a value is on the grid of its producer's record where that rounds, and
 *                on the grid of input 0 behind a node through which the target carries
 *                grids (`carries: yes`, `forward`; `to-readers`: not into a
 *                quantizer)
 *     backward   a value without a grid takes that on which all of its readers round,
 *                directly or behind a node that carries grids (`yes`, `to-readers`):
 *                a quantizer in front of every reader is one behind the producer
 *
 *     x -> Conv -> a -> Reshape -> b -> Conv      record of the second Conv rounds b
 *
 *     forward gives neither a nor b a grid; backward goes from the last node to the
 *     first, so b takes the grid of its reader, and then a that of b, where the target
 *     carries grids through Reshape
 *
 * Forward runs first: the quantizer behind a producer decides, and a reader that rounds
 * again is a requantization, not the grid of the value.
 *
 * Readers of dims alone (Shape) have no part in it.  The overlapped record of a passive
 * node is no quantizer: whether codes pass the node is up to the target. */
#include "engine/lint/lint.h"

#include <string.h>

#include "engine/formats/qdq/qdq.h"
#include "engine/quant/nonnegative.h"

bool qg_lint_rounds(const qg_lint *l, const qg_tqc *t)
{
    bool is_known =
        t && (l->target->floating_codes || !(t->scheme.policy & QG_FLOATING));
    return is_known && qg_tqc_is_on_grid(t);
}

bool qg_lint_same_grid(const qg_tqc *a, const qg_tqc *b)
{
    if (!a || !b)
        return false;
    qg_qparam p = qg_tqc_param(a), q = qg_tqc_param(b);
    if (a->scheme.qmin != b->scheme.qmin || a->scheme.qmax != b->scheme.qmax ||
        a->scheme.exponent_bits != b->scheme.exponent_bits || p.n != q.n || p.n == 0)
        return false;
    for (size_t i = 0; i < p.n; i++)
        if (p.scale[i] != q.scale[i] ||
            (p.offset ? p.offset[i] : 0) != (q.offset ? q.offset[i] : 0))
            return false;
    return true;
}

bool qg_lint_is_data(const qg_node *n, uint32_t slot)
{
    const qg_value *v = slot < n->n_in ? n->in[slot] : NULL;
    char role = qg_op_in_role(n->op, slot);
    return v && v->type.dtype == QG_F32 && (role == 'd' || role == 'w') &&
           !qg_node_has(n, QG_OP_SHAPE);
}

const qg_tqc *qg_lint_input_grid(const qg_lint *l, const qg_node *n, uint32_t slot)
{
    const qg_tqc *t = qg_input_tqc(n, slot);
    if (slot >= n->n_in || !n->in[slot])
        return NULL;
    return qg_lint_rounds(l, t) ? t : l->grid[n->in[slot]->id];
}

const qg_value *qg_lint_stored(const qg_lint *l, const qg_node *n)
{
    const qg_value *v = n->n_out ? n->out[0] : NULL;
    while (v && !l->grid[v->id] && v->use.n == 1 && !v->is_output &&
           l->node[v->use.at[0].node->id].fate == QG_FATE_FUSED)
        v = v->use.at[0].node->out[0];
    return v;
}

const qg_tqc *qg_lint_output_grid(const qg_lint *l, const qg_node *n)
{
    const qg_value *v = qg_lint_stored(l, n);
    return v ? l->grid[v->id] : NULL;
}

/* --- grids --- */

/* The test of a predicate that is on the node alone; NULL for others, which are on
 * grids, and not known yet. */
static qg_predicate_test *test_alone(qg_predicate p)
{
    switch (p) {
    case QG_PREDICATE_PADS_WITH_ZERO:
        return qg_test_pads_with_zero;
    case QG_PREDICATE_PADS_INTO:
        return qg_test_pads_into;
    case QG_PREDICATE_PADS_ONE_AXIS:
        return qg_test_pads_one_axis;
    case QG_PREDICATE_SAME_DIMS:
        return qg_test_same_dims;
    case QG_PREDICATE_NETWORK_INPUT:
        return qg_test_network_input;
    case QG_PREDICATE_NETWORK_OUTPUT:
        return qg_test_network_output;
    default:
        return NULL;
    }
}

/* Whether those conditions hold of a row that carries grids which are on the node
 * alone. */
static bool fits_alone(const qg_lint *l, const qg_lint_kernel *k, const qg_node *n)
{
    qg_lint_site s = { .node = n };
    for (size_t i = 0; i < k->when.n; i++) {
        const qg_condition *c = &k->when.at[i];
        qg_predicate_test *test = test_alone(c->predicate);
        if (test && test(l, &s, c) == c->is_not)
            return false;
    }
    return true;
}

static bool is_forward(const qg_lint_kernel *k)
{
    return k->as == QG_FATE_FUSED || k->carries == QG_CARRY_FORWARD;
}

/* Whether, and how, the target carries the grid of an input through the node, or `back`
 * that of the output. */
static qg_carry carries(const qg_lint *l, const qg_node *n, bool back)
{
    for (size_t i = 0; i < l->target->kernel.n; i++) {
        const qg_lint_kernel *k = &l->target->kernel.at[i];
        if (k->carries && !(back && is_forward(k)) && qg_node_matches(&k->node, n) &&
            fits_alone(l, k, n))
            return k->carries;
    }
    return QG_CARRY_NO;
}

static bool is_quantized_again(const qg_lint *l, const qg_value *v)
{
    for (size_t i = 0; i < v->use.n; i++)
        if (qg_lint_rounds(l, qg_input_tqc(v->use.at[i].node, v->use.at[i].slot)))
            return true;
    return false;
}

/* Q behind the producer, or codes that a node moves. */
static void grids_forward(qg_lint *l)
{
    for (size_t i = 0; i < l->graph->node.n; i++) {
        const qg_node *n = l->graph->node.at[i];
        const qg_tqc *in = qg_lint_input_grid(l, n, 0);
        qg_carry how = in ? carries(l, n, false) : QG_CARRY_NO;
        for (uint32_t k = 0; k < n->n_out; k++) {
            const qg_tqc *t = qg_output_tqc(n, k);
            const qg_value *v = n->out[k];
            if (!v || v->type.dtype != QG_F32)
                continue;
            bool moves = how == QG_CARRY_YES || how == QG_CARRY_FORWARD ||
                         (how == QG_CARRY_TO_READERS && !is_quantized_again(l, v));
            l->grid[v->id] = qg_lint_rounds(l, t) ? t : moves ? in : NULL;
        }
    }
}

/* The one grid on which every reader rounds v, or to which a node that moves it takes
 * it; NULL: there is none. */
static const qg_tqc *grid_read(const qg_lint *l, const qg_value *v)
{
    const qg_tqc *all = NULL;
    for (size_t i = 0; i < v->use.n; i++) {
        const qg_node *n = v->use.at[i].node;
        const qg_tqc *t = qg_input_tqc(n, v->use.at[i].slot);
        if (qg_node_has(n, QG_OP_DIMS_ONLY))
            continue;
        if (!qg_lint_rounds(l, t))
            t = v->use.n == 1 && v->use.at[i].slot == 0 && n->n_out == 1 && n->out[0] &&
                        carries(l, n, true)
                    ? l->grid[n->out[0]->id]
                    : NULL;
        if (!t || (all && !qg_lint_same_grid(all, t)))
            return NULL;
        all = t;
    }
    return all;
}

static void take_read_grid(qg_lint *l, const qg_value *v)
{
    if (v && v->type.dtype == QG_F32 && !v->is_output && !l->grid[v->id])
        l->grid[v->id] = grid_read(l, v);
}

/* Values without a grid, from the last to the first: Q directly before the readers is Q
 * directly behind the producer. */
static void grids_backward(qg_lint *l)
{
    for (size_t i = l->graph->node.n; i-- > 0;) {
        const qg_node *n = l->graph->node.at[i];
        for (uint32_t k = 0; k < n->n_out; k++)
            take_read_grid(l, n->out[k]);
    }
    for (size_t i = 0; i < l->graph->input.n; i++)
        take_read_grid(l, l->graph->input.at[i]);
}

qg_status qg_lint_place(qg_lint *l)
{
    const qg_graph *g = l->graph;
    l->grid = QG_NEWN(l->arena, g->value.n, const qg_tqc *);
    l->node = QG_NEWN(l->arena, g->node.n, qg_lint_node);
    if (!l->grid || !l->node)
        return qg_nomem(l->ctx);
    for (size_t i = 0; i < g->node.n; i++)
        l->node[i] = (qg_lint_node){ QG_FATE_NONE, NULL, NULL, "" };
    QG_TRY(qg_nonnegative_values(g, l->arena, &l->nonnegative));
    l->opset = qg_qdq_file_opset(l->quant);
    grids_forward(l);
    grids_backward(l);
    return QG_OK;
}

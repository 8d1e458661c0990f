#include "engine/analysis/requantize.h"

static const qg_tqc *grid_of(const qg_tqc *t, const qg_tqc *const *instead)
{
    if (!t)
        return NULL;
    t = instead && instead[t->id] ? instead[t->id] : t;
    const qg_tqc *root = qg_tqc_root(t);
    bool lives = root->state == QG_TQC_ACTIVATED || root->state == QG_TQC_PASSIVE ||
                 qg_tqc_is_baked(root);
    bool off = t->state == QG_TQC_FP32 || t->state == QG_TQC_SOI ||
               t->state == QG_TQC_DEACTIVATED || t->state == QG_TQC_DEQUANTIZED;
    return lives && !off && root->nparam ? root : NULL;
}

static bool same_grid(const qg_tqc *a, const qg_tqc *b)
{
    if (!a || !b || !qg_scheme_same(&a->scheme, &b->scheme) || a->nparam != b->nparam)
        return false;
    for (uint32_t i = 0; i < a->nparam; i++)
        if (a->scale[i] != b->scale[i] ||
            (a->offset ? a->offset[i] : 0) != (b->offset ? b->offset[i] : 0))
            return false;
    return true;
}

/* The grid on which input `slot` arrives: its own where it is quantized, else the
 * producer's. */
static const qg_tqc *grid_in(const qg_node *n, uint32_t slot,
                             const qg_tqc *const *instead)
{
    return grid_of(qg_input_tqc(n, slot), instead);
}

/* The grid on which the producer gives the value out; NULL: float. */
static const qg_tqc *grid_made(const qg_value *v, const qg_tqc *const *instead)
{
    return grid_of(qg_producer_tqc(v), instead);
}

/* An overlapped input takes the grid of its source. */
static bool rounds_here(const qg_node *n, uint32_t slot, const qg_tqc *const *instead)
{
    const qg_tqc *t = qg_input_tqc(n, slot);
    if (t && instead && instead[t->id])
        t = instead[t->id];
    return t && qg_tqc_rounds(t);
}

static bool differ(const qg_tqc *a, const qg_tqc *b)
{
    return a && b && !same_grid(a, b);
}

/* The grid that operands of n have to have; NULL: any will do. */
static const qg_tqc *wanted(const qg_node *n, const qg_tqc *const *instead)
{
    bool joins = qg_node_has(n, QG_OP_JOIN);
    bool alike = qg_node_has(n, QG_OP_ELEMENTWISE);
    if (qg_node_has(n, QG_OP_PASSIVE) || (joins && !alike))
        return grid_of(qg_output_tqc(n, 0), instead);
    if (joins && alike && qg_node_has(n, QG_OP_HOMOGENEOUS))
        return n->n_in ? grid_in(n, 0, instead) : NULL;
    return NULL;
}

static size_t requantizations_at(const qg_node *n, const qg_tqc *const *instead)
{
    const qg_tqc *goal = wanted(n, instead);
    size_t count = 0;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const qg_value *v = n->in[i];
        if (!v || v->constant || qg_op_in_role(n->op, i) != 'd')
            continue;
        const qg_tqc *came = grid_made(v, instead), *read = grid_in(n, i, instead);
        count += rounds_here(n, i, instead) && differ(came, read);
        count += differ(read ? read : came, goal);
    }
    return count;
}

size_t qg_requantizations(const qg_graph *g, const qg_tqc *const *instead)
{
    size_t count = 0;
    for (size_t i = 0; i < g->node.n; i++)
        count += requantizations_at(g->node.at[i], instead);
    return count;
}

size_t qg_rounding_points(const qg_quant *q)
{
    size_t n = 0;
    for (size_t i = 0; i < q->tqc.n; i++)
        n += qg_tqc_rounds(q->tqc.at[i]) && !qg_tqc_is_constant(q->tqc.at[i]);
    return n;
}

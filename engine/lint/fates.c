/* fates.c -- how the target computes every node, by the kernel rows of its file, and
 * the conversions between codes and floats that remain.
 *
 * Order    rows that fuse a node into the one before it come first, for all nodes in
 *          topological order, since the output of a kernel is looked for behind the
 *          clamps that it takes; then rows that move codes; then kernels; then kernels
 *          beside the target's, which are on codes, too.  Within one kind the first row
 *          of the file that fits counts
 * Blocked  a row for the operator exists, but a condition of it does not hold.  The
 *          first such row gives the reason: files have the usual kernel first
 * Float    neither; also nodes that the backend does not quantize
 *
 * A condition `behind` reads fates of producers.  In a row that fuses they are known
 * for the nodes before this one, so that a chain of fused nodes grows from its first
 * one; before that, one whose clamps end on a grid grows from its last one.  A blocked
 * node is still open: a row of a later kind can fit it.
 *
 * Cost     nodes x rows, three times; conditions that read weights dominate
 *
 * Conversions are counted per value and direction, as a runtime that shares them would
 * execute them; a file with a DequantizeLinear per reader has more nodes. */
#include "engine/lint/lint.h"

/* --- fates --- */

static const char *not_holding(qg_lint *l, const qg_lint_kernel *k,
                               const qg_condition *failed)
{
    qg_condition bare = *failed;
    bare.is_not = false;
    const char *text = qg_conditions_text(l->arena, &(qg_conditions){ &bare, 1 });
    return text ? qg_arena_printf(l->arena, "%s: '%s' must %shold", k->origin.id, text,
                                  failed->is_not ? "not " : "")
                : NULL;
}

/* Only nodes on float tensors compute anything that a target may do in integers. */
static bool computes(const qg_node *n)
{
    return n->n_out && n->out[0] && n->out[0]->type.dtype == QG_F32 &&
           !qg_node_has(n, QG_OP_SHAPE) && n->platform != QG_PLATFORM_SOI;
}

/* The rows of one kind, tried in order on a node whose fate is still open. */
static qg_status decide(qg_lint *l, const qg_node *n, qg_fate as)
{
    qg_lint_node *out = &l->node[n->id];
    qg_lint_site s = { .node = n };
    for (size_t i = 0; i < l->target->kernel.n; i++) {
        const qg_lint_kernel *k = &l->target->kernel.at[i];
        const qg_condition *failed;
        if (k->as != as || !qg_node_matches(&k->node, n))
            continue;
        if (qg_lint_holds(l, &s, &k->when, &failed)) {
            *out = (qg_lint_node){ as, k, NULL, "" };
            return QG_OK;
        }
        if (out->fate == QG_FATE_NONE && as != QG_FATE_FUSED) {
            *out =
                (qg_lint_node){ QG_FATE_BLOCKED, k, failed, not_holding(l, k, failed) };
            if (!out->why)
                return qg_nomem(l->ctx);
        }
    }
    return QG_OK;
}

static bool is_open(const qg_lint *l, const qg_node *n)
{
    qg_fate f = l->node[n->id].fate;
    return computes(n) && (f == QG_FATE_NONE || f == QG_FATE_BLOCKED);
}

/* --- conversions --- */

static bool is_integer(const qg_lint *l, const qg_node *n)
{
    qg_fate f = l->node[n->id].fate;
    return f != QG_FATE_BLOCKED && f != QG_FATE_NONE;
}

/* A value is converted once in each direction, however many read it. */
static void count_conversions(qg_lint *l)
{
    for (size_t i = 0; i < l->graph->value.n; i++) {
        const qg_value *v = l->graph->value.at[i];
        bool quantized = false, dequantized = false, again = false;
        bool made = v->def && is_integer(l, v->def) && l->grid[v->id];
        if (v->constant || v->type.dtype != QG_F32)
            continue;
        for (size_t k = 0; k < v->use.n; k++) {
            const qg_node *n = v->use.at[k].node;
            const qg_tqc *at = qg_lint_input_grid(l, n, v->use.at[k].slot);
            again |= at && l->grid[v->id] && !qg_lint_same_grid(at, l->grid[v->id]);
            quantized |= at && !made;
            dequantized |= at && !is_integer(l, n);
        }
        l->conversions.to_codes += quantized;
        l->conversions.to_floats += dequantized || (made && v->is_output);
        l->conversions.between_grids += again && made;
    }
}

/* --- all of it --- */

qg_status qg_lint_decide(qg_lint *l)
{
    static const qg_fate order[] = { QG_FATE_FUSED, QG_FATE_MOVES, QG_FATE_INTEGER,
                                     QG_FATE_OTHER };
    for (size_t i = l->graph->node.n; i-- > 0;)
        if (is_open(l, l->graph->node.at[i]))
            QG_TRY(decide(l, l->graph->node.at[i], QG_FATE_FUSED));
    for (size_t k = 0; k < sizeof order / sizeof *order; k++)
        for (size_t i = 0; i < l->graph->node.n; i++)
            if (is_open(l, l->graph->node.at[i]))
                QG_TRY(decide(l, l->graph->node.at[i], order[k]));
    for (size_t i = 0; i < l->graph->node.n; i++)
        l->count[l->node[i].fate] += computes(l->graph->node.at[i]);
    count_conversions(l);
    return QG_OK;
}

/* plan_wanted.c -- the nodes that a plan runs: those that outputs and kept values need,
 * unless they are known already or an opaque node stands before them.
 *
 * One sweep from the last node to the first: in topological order all readers of a node
 * are behind it, so it is final when the sweep arrives.  Of
 *
 *     x -> A -> B -> y        outputs y and z; B is a Shape, so that y is known
 *     x -> D -> C -> z        C is opaque, options.executable is set
 *
 * none of A, B and C runs: y is known, hence A is not wanted, and C cannot run.  D runs
 * although only C reads it: records in front of an opaque node can be calibrated.
 * Without options.executable, C is an error. */
#include "engine/exec/plan_part.h"

#include "engine/ir/opaque.h"

static void want(qg_builder *b, const qg_value *v)
{
    if (v->def)
        b->todo[v->def->id] = QG_TODO_RUN;
}

bool qg_plan_leaves_out(const qg_builder *b, const qg_value *v)
{
    return v->def && b->opaque && b->opaque[v->def->id] && !b->known[v->id];
}

/* b->opaque, where the graph has opaque nodes at all. */
static qg_status find_opaque(qg_builder *b)
{
    const qg_graph *g = b->p->graph;
    if (!qg_opaque_first(g, NULL))
        return QG_OK;
    b->opaque = QG_NEWN(b->p->arena, g->node.n, const qg_node *);
    if (!b->opaque)
        return qg_nomem(b->p->ctx);
    qg_opaque_spread(g, b->opaque);
    return QG_OK;
}

/* Whether node k is wanted and its outputs are not known.  A node that cannot be
 * executed is left out, but what feeds it is still wanted. */
static qg_status mark_node(qg_builder *b, size_t k)
{
    const qg_node *n = b->p->graph->node.at[k];
    bool unknown = false;
    for (uint32_t i = 0; i < n->n_out; i++)
        unknown = unknown || (n->out[i] && !b->known[n->out[i]->id]);
    if (!unknown)
        b->todo[k] = QG_TODO_NOTHING;
    for (uint32_t i = 0; b->todo[k] && i < n->n_in; i++)
        if (n->in[i])
            want(b, n->in[i]);
    if (!b->todo[k] || !b->opaque || !b->opaque[k])
        return QG_OK;
    b->todo[k] = QG_TODO_NOTHING;
    return b->p->options.executable ? QG_OK
                                    : qg_opaque_fail(b->p->ctx, "run", b->opaque[k]);
}

qg_status qg_plan_mark_wanted(qg_builder *b)
{
    const qg_graph *g = b->p->graph;
    QG_TRY(find_opaque(b));
    for (size_t i = 0; i < g->output.n; i++)
        want(b, g->output.at[i]);
    for (size_t i = 0; i < g->value.n; i++)
        if (b->kept[i])
            want(b, g->value.at[i]);
    for (size_t k = g->node.n; k-- > 0;)
        QG_TRY(mark_node(b, k));
    return QG_OK;
}

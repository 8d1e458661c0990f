#include "engine/ir/upgrade.h"

#include <assert.h>
#include <string.h>

/* The first IR version that allows an opset. */
static int64_t ir_version_of(int64_t opset)
{
    static const struct {
        int64_t opset, ir;
    } table[] = {
        {1,   3 },
        { 9,  4 },
        { 10, 5 },
        { 11, 6 },
        { 12, 7 },
        { 15, 8 },
        { 19, 9 },
        { 21, 10},
        { 23, 11},
        { 24, 12},
        { 25, 13},
    };
    int64_t ir = table[0].ir;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].opset <= opset)
            ir = table[i].ir;
    return ir;
}

static qg_status no_way(qg_graph *g, const qg_node *n, int64_t opset)
{
    return qg_node_fail(g->ctx, QG_EUNSUPPORTED, "export", n,
                        "opset %lld cannot be rewritten to opset %lld, expected an "
                        "operator with the same meaning there",
                        (long long)n->opset, (long long)opset);
}

/* "consumed_inputs" was a hint to share memory; no opset from 6 on has it. */
static qg_status drop_legacy(qg_graph *g, qg_node *n)
{
    qg_attr *kept = QG_NEWN(g->arena, n->n_attr, qg_attr);
    size_t count = 0;
    if (!kept)
        return qg_nomem(g->ctx);
    for (size_t i = 0; i < n->n_attr; i++)
        if (n->opset > 5 || strcmp(n->attr[i].name, "consumed_inputs") != 0)
            kept[count++] = n->attr[i];
    n->attr = kept;
    n->n_attr = count;
    return QG_OK;
}

/* One row further. */
static qg_status step(qg_graph *g, qg_node *n, int64_t opset)
{
    const qg_registry *r = g->ctx->registry;
    const qg_upgrade *u = qg_op_upgrade(r, n->op);
    const char *name = u && u->becomes ? u->becomes : n->op->name;
    const qg_op *next = u ? qg_op_next(r, name, n->op->since) : NULL;
    if (!next || next->since > opset)
        return no_way(g, n, opset);
    if (u->run)
        QG_TRY(u->run(g, n, opset));
    n->op = next;
    return QG_OK;
}

/* Walks until the row is the one that the opset has; rows only go up. */
static qg_status upgrade_node(qg_graph *g, qg_node *n, int64_t opset)
{
    assert(!n->dead);
    if (n->opset >= opset || (n->op->domain && *n->op->domain))
        return QG_OK;
    QG_TRY(drop_legacy(g, n));
    while (qg_op_find(g->ctx->registry, NULL, n->op->name, opset) != n->op)
        QG_TRY(step(g, n, opset));
    n->opset = opset;
    return qg_node_prepare(g, n);
}

static qg_status upgrade_one(qg_graph *g, int64_t opset)
{
    size_t n = g->node.n; /* nodes added by steps are of the new opset */
    for (size_t i = 0; i < n; i++)
        if (!g->node.at[i]->dead)
            QG_TRY(upgrade_node(g, g->node.at[i], opset));
    for (size_t i = 0; i < g->opset.n; i++)
        if (!*g->opset.at[i].domain && g->opset.at[i].version < opset)
            g->opset.at[i].version = opset;
    return QG_OK;
}

qg_status qg_graph_upgrade(qg_graph *g, int64_t opset)
{
    assert(!g->outer && opset > 0);
    for (qg_graph *body = g->bodies; body; body = body->next_body)
        QG_TRY(upgrade_one(body, opset));
    QG_TRY(upgrade_one(g, opset));
    int64_t now = qg_graph_opset(g, ""), ir = ir_version_of(now > opset ? now : opset);
    if (g->ir_version < ir)
        g->ir_version = ir;
    return QG_OK;
}

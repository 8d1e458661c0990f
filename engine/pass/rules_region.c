/* rules_region.c -- the part of a selector that only the whole graph can answer: which
 * nodes lie between two values, and which compute nodes are the first or last ones. */

#include "engine/core/suggest.h"
#include "engine/pass/rules.h"

static qg_status unknown(const qg_graph *g, const qg_rule *r, const char *name)
{
    char hint[QG_SUGGEST_TEXT];
    qg_suggest near = qg_suggest_for(name);
    for (size_t i = 0; i < g->value.n; i++)
        qg_suggest_try(&near, g->value.at[i]->name);
    return qg_fail(
        g->ctx, QG_ECONFIG,
        "%s:%u: rule %s: unknown value '%s'%s, expected a value of the graph",
        r->origin.file, r->origin.line, r->origin.id, name,
        qg_suggest_text(&near, hint));
}

/* reached[value id] = 1 for a value, or for all inputs (outputs) of the network. */
static qg_status seed(const qg_graph *g, const qg_rule *r, const char *name,
                      bool outputs, uint8_t *reached)
{
    if (!name) {
        size_t n = outputs ? g->output.n : g->input.n;
        for (size_t i = 0; i < n; i++)
            reached[(outputs ? g->output.at[i] : g->input.at[i])->id] = 1;
        return QG_OK;
    }
    const qg_value *v = qg_graph_value(g, name);
    if (!v)
        return unknown(g, r, name);
    reached[v->id] = 1;
    return QG_OK;
}

/* Whether one of the values is marked. */
static bool any_reached(qg_value *const *v, uint32_t n, const uint8_t *reached)
{
    for (uint32_t i = 0; i < n; i++)
        if (v[i] && reached[v[i]->id])
            return true;
    return false;
}

static void reach_all(qg_value *const *v, uint32_t n, uint8_t *reached)
{
    for (uint32_t i = 0; i < n; i++)
        if (v[i])
            reached[v[i]->id] = 1;
}

/* inside[node] = 1 for nodes downstream of `from` and upstream of `to`. */
static qg_status path(const qg_graph *g, const qg_rule *r, qg_arena *a, uint8_t **out)
{
    uint8_t *down = QG_NEWN(a, g->value.n, uint8_t);
    uint8_t *up = QG_NEWN(a, g->value.n, uint8_t);
    uint8_t *inside = QG_NEWN(a, g->node.n, uint8_t);
    if (!down || !up || !inside)
        return qg_nomem(g->ctx);
    QG_TRY(seed(g, r, r->node.from, false, down));
    QG_TRY(seed(g, r, r->node.to, true, up));
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        inside[i] = any_reached(n->in, n->n_in, down);
        if (inside[i])
            reach_all(n->out, n->n_out, down);
    }
    for (size_t i = g->node.n; i-- > 0;) {
        const qg_node *n = g->node.at[i];
        bool leads = any_reached(n->out, n->n_out, up);
        if (leads)
            reach_all(n->in, n->n_in, up);
        inside[i] = inside[i] && leads;
    }
    *out = inside;
    return QG_OK;
}

/* Whether one of the node's inputs comes from a compute node, directly or not. */
static bool is_behind(const qg_node *n, const uint8_t *behind)
{
    for (uint32_t i = 0; i < n->n_in; i++) {
        const qg_node *p = n->in[i] ? n->in[i]->def : NULL;
        if (p && (behind[p->id] || qg_node_has(p, QG_OP_COMPUTE)))
            return true;
    }
    return false;
}

/* Whether a compute node depends on the node's output, directly or indirectly. */
static bool is_before(const qg_node *n, const uint8_t *before)
{
    for (uint32_t i = 0; i < n->n_out; i++)
        for (size_t k = 0; n->out[i] && k < n->out[i]->use.n; k++) {
            const qg_node *c = n->out[i]->use.at[k].node;
            if (before[c->id] || qg_node_has(c, QG_OP_COMPUTE))
                return true;
        }
    return false;
}

/* inside[node] stays 1 for compute nodes that no other one comes before (FIRST) or
 * behind (LAST). */
static qg_status keep_layer(const qg_graph *g, enum qg_layer layer, qg_arena *a,
                            uint8_t *inside)
{
    uint8_t *other = QG_NEWN(a, g->node.n, uint8_t);
    if (!other)
        return qg_nomem(g->ctx);
    for (size_t k = 0; k < g->node.n; k++) {
        size_t i = layer == QG_LAYER_FIRST ? k : g->node.n - 1 - k;
        const qg_node *n = g->node.at[i];
        other[i] = layer == QG_LAYER_FIRST ? is_behind(n, other) : is_before(n, other);
        inside[i] = inside[i] && !other[i] && qg_node_has(n, QG_OP_COMPUTE);
    }
    return QG_OK;
}

qg_status qg_rule_region(const qg_rule *r, const qg_graph *g, qg_arena *a,
                         const uint8_t **out)
{
    uint8_t *inside = NULL;
    if (r->node.from || r->node.to)
        QG_TRY(path(g, r, a, &inside));
    if (r->node.layer != QG_LAYER_ANY && !inside) {
        inside = QG_NEWN(a, g->node.n, uint8_t);
        if (!inside)
            return qg_nomem(g->ctx);
        memset(inside, 1, g->node.n);
    }
    if (r->node.layer != QG_LAYER_ANY)
        QG_TRY(keep_layer(g, r->node.layer, a, inside));
    *out = inside;
    return QG_OK;
}

qg_status qg_rules_regions(const qg_backend *b, const qg_graph *g, qg_arena *a,
                           const uint8_t *const **out)
{
    const uint8_t **inside = QG_NEWN(a, b->rule.n, const uint8_t *);
    if (!inside)
        return qg_nomem(g->ctx);
    for (size_t i = 0; i < b->rule.n; i++)
        QG_TRY(qg_rule_region(&b->rule.at[i], g, a, &inside[i]));
    *out = inside;
    return QG_OK;
}

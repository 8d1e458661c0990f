/* limits-as-inputs -- turns clamp limits that an old opset stores as attributes into
 * inputs, so that they have endpoints as in PPQ (quirk ppq-limits-as-inputs; without it
 * the pass does nothing).  The graph is converted to opset 11, the first with limit
 * inputs; where that fails, it stays unchanged. PPQ also turns pads given as attributes
 * into an input, and then drops all attributes (quirk ppq-pad-loses-attributes): the
 * padding is zeros, whatever the mode was.
 * Source   docs/evidence/ppq-behaviour.md#reading-a-graph, D31. */
#include <assert.h>
#include <string.h>

#include "engine/ir/edit.h"
#include "engine/ir/upgrade.h"
#include "passes/passes.h"

enum { OPSET = 11 };

/* A clamp with one input that is more than a Relu. */
static bool has_limits(const qg_node *n)
{
    return n->op->clamp && n->op->max_in == 1 && n->op->param_size > 0;
}

/* An absent limit becomes one that no 32-bit value reaches, as in PPQ. */
static qg_status fill_limits(qg_graph *g, qg_node *n)
{
    QG_TRY(qg_edit_grow_inputs(g, n, 3));
    for (uint32_t k = 1; k < 3; k++) {
        qg_tensor *t = QG_NEW(g->arena, qg_tensor);
        qg_value *v;
        if (!t)
            return qg_nomem(g->ctx);
        if (n->in[k])
            continue;
        qg_tensor_init(t, QG_F32, 0, NULL);
        QG_TRY(qg_tensor_alloc(g->ctx, g->arena, t));
        t->f32[0] = k == 1 ? -2147483648.0f : 2147483648.0f;
        QG_TRY(qg_edit_add_constant(g, n->name, t, &v));
        QG_TRY(qg_edit_set_input(g, n, k, v));
    }
    return QG_OK;
}

/* On a copy, since a failed upgrade leaves a graph half-way. */
static qg_status can_upgrade(qg_pass_env *env, bool *yes)
{
    qg_graph *copy;
    QG_TRY(qg_graph_clone(env->graph, &copy));
    qg_status s = qg_graph_upgrade(copy, OPSET);
    qg_graph_free(copy);
    *yes = s == QG_OK;
    return s == QG_EUNSUPPORTED ? QG_OK : s;
}

static qg_status ppq_move(qg_pass_env *env)
{
    qg_graph *g = env->graph;
    const qg_node *first = NULL;
    bool can = false;
    for (size_t i = 0; i < g->node.n && !first; i++)
        if (has_limits(g->node.at[i]))
            first = g->node.at[i];
    if (!first)
        return QG_OK;
    assert(!g->outer);
    QG_TRY(can_upgrade(env, &can));
    if (!can)
        return qg_pass_near_miss(env, "limits", first, "%s", qg_ctx_message(env->ctx));
    env->changed++;
    QG_TRY(qg_pass_matched(env, "limits"));
    QG_TRY(qg_graph_upgrade(g, OPSET));
    for (size_t i = 0; i < g->node.n; i++)
        if (g->node.at[i]->op->clamp && g->node.at[i]->op->max_in == 3)
            QG_TRY(fill_limits(g, g->node.at[i]));
    return QG_OK;
}

/* The pads are an attribute. */
static const qg_attr *pads_of(const qg_node *n)
{
    bool pads = qg_node_has(n, QG_OP_PASSIVE) && !qg_node_has(n, QG_OP_POOLING);
    for (size_t i = 0; pads && i < n->n_attr; i++)
        if (strcmp(n->attr[i].name, "pads") == 0)
            return &n->attr[i];
    return NULL;
}

static qg_status ppq_forget(qg_pass_env *env)
{
    qg_graph *g = env->graph;
    for (size_t i = 0; i < g->node.n; i++) {
        qg_node *n = g->node.at[i];
        const qg_attr *pads = pads_of(n);
        if (!pads || n->n_attr == 1)
            continue;
        n->attr = pads;
        n->n_attr = 1;
        env->changed++;
        QG_TRY(qg_node_prepare(g, n));
    }
    return QG_OK;
}

/* Behaviours that quirks replace. */
typedef struct behaviours {
    qg_status (*move)(qg_pass_env *env);   /* NULL: limits stay attributes */
    qg_status (*forget)(qg_pass_env *env); /* NULL: pads stay attributes */
} behaviours;

static const qg_quirk_row quirk[] = {
    QG_SWAP(
        PPQ_OLD_SLOTS, "Clip limits stored as attributes by an old opset become inputs",
        QG_PPQ "IR/morph.py GraphFormatter.format_clip", behaviours, move, ppq_move),
    QG_SWAP(
        PPQ_PAD_ATTRIBUTES, "D31: Pad with pads as an attribute loses mode and value",
        QG_PPQ "IR/morph.py GraphFormatter.format_pad", behaviours, forget, ppq_forget),
    { 0 },
};

static qg_status run(qg_pass_env *env)
{
    behaviours how = { 0 };
    qg_pass_quirks(env, &how);
    if (how.forget)
        QG_TRY(how.forget(env));
    return how.move ? how.move(env) : QG_OK;
}

const qg_pass qg_pass_limits_as_inputs = {
    .name = "limits-as-inputs",
    .summary = "turn clamp limits from attributes into inputs, for parity with PPQ",
    .needs = QG_A_TOPO,
    .breaks = QG_A_TOPO | QG_A_SHAPE,
    .run = run,
    .quirk = quirk,
};

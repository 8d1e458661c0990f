/* edit.c -- changes of topology.  Each function performs its fallible steps first, so
 * that a failure leaves the graph unchanged. */
#include "engine/ir/edit.h"

#include <assert.h>
#include <string.h>

qg_status qg_edit_find_op(const qg_graph *g, const qg_node *n, qg_made_op which,
                          const qg_op **out)
{
    assert((unsigned)which < QG_NMADE && g->ctx->registry);
    const char *name = g->ctx->registry->made[which];
    const qg_op *op = name ? qg_op_find(g->ctx->registry, NULL, name, n->opset) : NULL;
    if (!op)
        return qg_node_fail(g->ctx, QG_EUNSUPPORTED, "rewrite", n,
                            "there is no %s of its opset", name ? name : "operator");
    *out = op;
    return QG_OK;
}

qg_status qg_edit_set_op(qg_graph *g, qg_node *n, qg_made_op which)
{
    const qg_op *op, *old = n->op;
    QG_TRY(qg_edit_find_op(g, n, which, &op));
    n->op = op;
    qg_status s = qg_node_prepare(g, n);
    if (s != QG_OK)
        n->op = old;
    return s;
}

/* Keeps the order of the remaining uses. */
static void drop_use(qg_value *v, const qg_node *n, uint32_t slot)
{
    size_t i = 0;
    while (i < v->use.n && (v->use.at[i].node != n || v->use.at[i].slot != slot))
        i++;
    assert(i < v->use.n);
    memmove(&v->use.at[i], &v->use.at[i + 1], (--v->use.n - i) * sizeof *v->use.at);
}

qg_status qg_edit_set_input(qg_graph *g, qg_node *n, uint32_t slot, qg_value *v)
{
    assert(slot < n->n_in && !n->dead);
    if (v)
        QG_TRY(qg_vec_push(g->ctx, g->arena, &v->use,
                           (qg_use){ .node = n, .slot = slot }));
    qg_value *old = n->in[slot];
    n->in[slot] = v;
    if (old) /* finds the old entry first also when old == v */
        drop_use(old, n, slot);
    return QG_OK;
}

void qg_edit_set_output(qg_node *n, uint32_t slot, qg_value *v)
{
    assert(slot < n->n_out && n->out[slot] && !v->def && !v->constant && !v->is_input);
    n->out[slot]->def = NULL;
    n->out[slot] = v;
    v->def = n;
    v->def_slot = slot;
}

/* The old arrays stay in the arena; endpoints of the new slots are empty. */
qg_status qg_edit_grow_inputs(qg_graph *g, qg_node *n, uint32_t count)
{
    if (count <= n->n_in)
        return QG_OK;
    assert(n->n_capture == 0); /* captured inputs must stay last */
    qg_value **in = QG_NEWN(g->arena, count, qg_value *);
    qg_tqc **tin = n->tin ? QG_NEWN(g->arena, count, qg_tqc *) : NULL;
    if (!in || (n->tin && !tin))
        return qg_nomem(g->ctx);
    if (n->n_in)
        memcpy(in, n->in, n->n_in * sizeof *in);
    if (tin && n->n_in)
        memcpy(tin, n->tin, n->n_in * sizeof *tin);
    n->in = in;
    n->tin = tin;
    n->n_in = count;
    return QG_OK;
}

/* Only the list, the flags, and declared dims and names of open extents, which belong
 * to the interface; names of values are the caller's. */
static void replace_output(qg_graph *g, qg_value *from, qg_value *to)
{
    for (size_t i = 0; i < g->output.n; i++)
        if (g->output.at[i] == from)
            g->output.at[i] = to;
    assert(from->is_output && !to->is_output);
    from->is_output = false;
    to->is_output = true;
    to->file_dtype = from->file_dtype;
    from->file_dtype = QG_NODTYPE;
    to->declared = from->declared;
    from->declared = NULL;
    if (to->type.rank < 0 || to->type.rank == from->type.rank)
        memcpy(to->dim_name, from->dim_name, sizeof to->dim_name);
}

qg_status qg_edit_replace_value(qg_graph *g, qg_value *from, qg_value *to)
{
    assert(from != to && qg_value_is_in(g, from) && qg_value_is_in(g, to));
    if (from->is_output && (to->is_input || to->is_output))
        return qg_fail(
            g->ctx, QG_ESTATE,
            "edit: value '%s' is an output and '%s' is part of the interface "
            "too, expected an inner value",
            from->name, to->name);
    QG_TRY(qg_vec_room(g->ctx, g->arena, &to->use, to->use.n + from->use.n));
    for (size_t i = 0; i < from->use.n; i++) {
        qg_use u = from->use.at[i];
        u.node->in[u.slot] = to;
        to->use.at[to->use.n++] = u;
    }
    from->use.n = 0;
    if (from->is_output) {
        qg_value_swap_names(g, from, to);
        replace_output(g, from, to);
    }
    return QG_OK;
}

void qg_edit_remove_node(qg_graph *g, qg_node *n)
{
    assert(!n->dead);
    for (uint32_t i = 0; i < n->n_out; i++)
        if (n->out[i]) {
            assert(qg_value_watchers(n->out[i]) == 0);
            n->out[i]->def = NULL;
            n->out[i] = NULL;
        }
    for (uint32_t i = 0; i < n->n_in; i++)
        if (n->in[i]) {
            drop_use(n->in[i], n, i);
            n->in[i] = NULL;
        }
    n->dead = true;
    qg_node_free_name(g, n);
}

/* v is without a producer afterwards, and the slot it came from is absent. */
static void clear_producer(qg_value *v)
{
    assert(!v->def || v->def->out[v->def_slot] == v);
    if (v->def)
        v->def->out[v->def_slot] = NULL;
    v->def = NULL;
}

void qg_edit_swap_places(qg_graph *g, qg_node *a, qg_node *b)
{
    uint32_t id = a->id;
    assert(g->node.at[a->id] == a && g->node.at[b->id] == b);
    a->id = b->id;
    b->id = id;
    g->node.at[a->id] = a;
    g->node.at[b->id] = b;
}

qg_status qg_edit_make_constant(qg_graph *g, qg_value *v, const qg_tensor *t)
{
    assert(t->data && qg_tensor_known(t) && qg_tensor_is_plain(t));
    if (v->is_input)
        return qg_fail(g->ctx, QG_ESTATE,
                       "edit: value '%s' is a graph input, expected a computed value",
                       v->name);
    clear_producer(v);
    v->constant = t;
    qg_tensor_init(&v->type, t->dtype, t->rank, t->dim);
    memset(v->dim_name, 0, sizeof v->dim_name);
    return QG_OK;
}

qg_status qg_edit_add_constant(qg_graph *g, const char *prefix, const qg_tensor *t,
                               qg_value **out)
{
    qg_value *v = NULL;
    QG_TRY(qg_graph_add_prefixed(g, prefix, &v));
    QG_TRY(qg_edit_make_constant(g, v, t));
    *out = v;
    return QG_OK;
}

/* Growing comes last but one: a new value without a reader does no harm. */
qg_status qg_edit_give_constant(qg_graph *g, qg_node *n, uint32_t slot,
                                const char *name, const qg_tensor *t)
{
    assert(t->data);
    qg_value *v = slot < n->n_in ? n->in[slot] : NULL;
    if (v && v->use.n == 1 && !v->is_output && !v->is_input)
        return qg_edit_make_constant(g, v, t);
    QG_TRY(qg_edit_add_constant(g, v ? v->name : name, t, &v));
    if (slot >= n->n_in)
        QG_TRY(qg_edit_grow_inputs(g, n, slot + 1));
    return qg_edit_set_input(g, n, slot, v);
}

qg_status qg_edit_keep_untuned(qg_graph *g, const qg_value *v, const qg_tensor *old)
{
    qg_value *u;
    const char *name = qg_arena_printf(g->arena, "%s" QG_UNTUNED, v->name);
    if (!name)
        return qg_nomem(g->ctx);
    if (qg_graph_value(g, name))
        return QG_OK; /* learned before */
    QG_TRY(qg_graph_add_value(g, name, &u));
    return qg_edit_make_constant(g, u, old);
}

qg_status qg_edit_learn_constant(qg_graph *g, qg_node *n, uint32_t slot,
                                 const qg_tensor *t)
{
    const qg_tensor *old = n->in[slot]->constant;
    assert(old);
    QG_TRY(qg_edit_give_constant(g, n, slot, n->name, t));
    return qg_edit_keep_untuned(g, n->in[slot], old);
}

void qg_edit_absorb(qg_graph *g, qg_node *producer, qg_node *n)
{
    assert(!producer->dead && !n->dead && producer->n_out && n->n_out);
    qg_value *between = producer->out[0], *result = n->out[0];
    assert(between->use.n == 1 && between->use.at[0].node == n && !between->is_output);
    clear_producer(result);
    clear_producer(between);
    qg_edit_remove_node(g, n);
    producer->out[0] = result;
    result->def = producer;
    result->def_slot = 0;
}

/* plan_constants.c -- the constants of nodes, on their grids where they are quantized,
 * and their memory, which is given back once a kernel has packed them: then a plan
 * needs the weights once. */
#include "engine/exec/plan_part.h"

enum { OWN_ARENA = 1 << 16 }; /* bytes from which on a rounded constant can be freed */

static const qg_tensor **copy_of(qg_plan *p, const qg_tensor *const *known)
{
    const size_t n = p->graph->value.n;
    const qg_tensor **copy = QG_NEWN(p->arena, n, const qg_tensor *);
    if (copy)
        memcpy(copy, known, n * sizeof *copy);
    return copy;
}

qg_status qg_plan_choose_constants(qg_builder *b, const qg_tensor *const *known)
{
    qg_plan *p = b->p;
    const qg_graph *g = p->graph;
    const uint8_t *untuned = p->options.untuned;
    const qg_tensor **real = QG_NEWN(b->scratch, g->value.n, const qg_tensor *);
    const qg_tensor **own = NULL;
    b->known = known;
    if (!real)
        return qg_nomem(p->ctx);
    QG_TRY(qg_graph_untuned(g, b->scratch, real));
    for (size_t i = 0; i < g->value.n; i++) {
        const bool is_float =
            p->options.mode == QG_MODE_FLOAT || (untuned && untuned[i]);
        const qg_tensor *t = is_float ? real[i] : g->value.at[i]->constant;
        if (!real[i] || t == known[i])
            continue;
        own = own ? own : copy_of(p, known);
        if (!own)
            return qg_nomem(p->ctx);
        own[i] = t;
        b->known = own;
    }
    return QG_OK;
}

/* *y gets memory, in an arena of its own where it is large. */
static qg_status make_room(qg_plan *p, qg_tensor *y)
{
    size_t bytes;
    QG_TRY(qg_tensor_bytes(p->ctx, "plan", y, &bytes));
    if (bytes < OWN_ARENA)
        return qg_tensor_alloc(p->ctx, p->arena, y);
    qg_plan_copy copy = { .arena = qg_arena_new(p->ctx->alloc) };
    qg_status s =
        copy.arena ? qg_tensor_alloc(p->ctx, copy.arena, y) : qg_nomem(p->ctx);
    copy.data = y->data;
    if (s == QG_OK)
        s = qg_vec_push(p->ctx, p->arena, &p->rounded, copy);
    if (s != QG_OK)
        qg_arena_free(copy.arena);
    return s;
}

qg_status qg_plan_constant(qg_builder *b, const qg_node *n, uint32_t slot,
                           const qg_tensor **out)
{
    qg_plan *p = b->p;
    const qg_tensor *t = b->known[n->in[slot]->id];
    const qg_tqc *q = qg_plan_tqc(&p->options, qg_input_at(n, slot));
    *out = t;
    if (!qg_plan_rounds_constant(&p->options, q))
        return QG_OK;
    qg_tensor *y = QG_NEW(p->arena, qg_tensor);
    if (!y)
        return qg_nomem(p->ctx);
    *y = *t;
    QG_TRY(make_room(p, y));
    QG_TRY(qg_tqc_round(p->ctx, q, t, y));
    qg_graph_release(p->graph, t);
    *out = y;
    return QG_OK;
}

/* Frees the copy with these bytes; false: it has no memory of its own. */
static bool free_copy(qg_plan *p, const void *data)
{
    for (size_t i = p->rounded.n; i-- > 0;) {
        qg_plan_copy *copy = &p->rounded.at[i];
        if (!copy->arena || copy->data != data)
            continue;
        qg_arena_free(copy->arena);
        copy->arena = NULL;
        return true;
    }
    return false;
}

void qg_plan_release(qg_builder *b, const qg_node *n, uint32_t packed,
                     const qg_tensor **in)
{
    qg_plan *p = b->p;
    const qg_plan_options *o = &p->options;
    const bool shown = o->keep_all || o->show_all || o->write || qg_plan_watched(o, n);
    for (uint32_t i = 0; i < n->n_in && i < 8; i++) {
        const qg_tensor *t = n->in[i] ? b->known[n->in[i]->id] : NULL;
        if (!(packed >> i & 1) || !t)
            continue;
        qg_graph_release(p->graph, t);
        if (!shown && in[i] != t && free_copy(p, in[i]->data))
            ((qg_tensor *)(uintptr_t)in[i])->data = NULL; /* of qg_plan_constant */
    }
}

#include "engine/device/rivals.h"

const char *qg_rivals_at(const qg_rivals *list, qg_endpoint at)
{
    for (size_t i = 0; i < list->n; i++) {
        const qg_rival *r = &list->at[i];
        if (r->slot == at.slot && r->is_output == at.is_output &&
            strcmp(r->node, at.node->name) == 0)
            return r->backend;
    }
    return NULL;
}

/* The record of another model at the same endpoint; NULL: it has none. */
static const qg_tqc *record_at(const qg_model *m, const qg_tqc *t)
{
    const qg_node *n = qg_graph_node(m->graph, t->node->name);
    uint32_t slots = !n ? 0 : t->is_output ? n->n_out : n->n_in;
    if (t->slot >= slots)
        return NULL;
    return t->is_output ? qg_output_tqc(n, t->slot) : qg_input_tqc(n, t->slot);
}

/* What becomes of a NaN does not count: a trace has none. */
static bool same_codes(qg_scheme p, qg_scheme q)
{
    p.nan = q.nan;
    return qg_scheme_same(&p, &q);
}

/* Rounding, codes and dominator; y is of m. */
static bool is_same(const qg_model *m, const qg_tqc *x, const qg_tqc *y)
{
    const qg_tqc *p = qg_tqc_root(x), *q = qg_tqc_root(y);
    return qg_tqc_rounds(x) == qg_tqc_rounds(y) && same_codes(p->scheme, q->scheme) &&
           record_at(m, p) == q;
}

/* Lists the records of one side that the other lacks, or has otherwise. */
static qg_status compare(const qg_model *m, const qg_model *with, const char *backend,
                         qg_arena *arena, qg_rivals *list)
{
    for (size_t i = 0; i < m->quant->tqc.n; i++) {
        const qg_tqc *x = m->quant->tqc.at[i], *y = record_at(with, x);
        if ((y && is_same(with, x, y)) || qg_rivals_at(list, qg_tqc_endpoint(x)))
            continue;
        const char *node = qg_arena_strdup(arena, x->node->name);
        if (!node)
            return qg_nomem(m->ctx);
        qg_rival r = { node, backend, x->slot, x->is_output };
        QG_TRY(qg_vec_push(m->ctx, arena, list, r));
    }
    return QG_OK;
}

qg_status qg_rivals_add(const qg_attempt *a, const qg_attempt *other, qg_arena *arena,
                        qg_rivals *list)
{
    const char *backend = qg_arena_strdup(arena, other->draft.base);
    if (!backend)
        return qg_nomem(a->own.ctx);
    QG_TRY(compare(&a->own, &other->own, backend, arena, list));
    return compare(&other->own, &a->own, backend, arena, list);
}

#include "engine/device/rivals.h"

/* Elements by which a right and a wrong simulation may differ by chance. */
enum { CHANCE = 2 };

bool qg_rivals_is_ruled_out(const qg_attempt *t, const qg_attempt *by)
{
    for (size_t i = 0; i < by->how->seen->graph->value.n; i++) {
        uint64_t own = by->unequal[i], other = t->unequal[i];
        if (by->share[i] >= 0 && t->share[i] >= 0 &&
            other > (own ? 2 * own + CHANCE : 0))
            return true;
    }
    return qg_attempt_more_results(t, by) < 0;
}

const char *qg_rivals_at(const qg_rivals *list, qg_endpoint at)
{
    for (size_t i = 0; i < list->n; i++) {
        const qg_rival *r = &list->at[i];
        if (r->slot == at.slot && r->is_output == at.is_output &&
            strcmp(r->node, at.node->name) == 0)
            return r->who;
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
static qg_status compare(const qg_model *m, const qg_model *with, const char *who,
                         qg_arena *arena, qg_rivals *list)
{
    for (size_t i = 0; i < m->quant->tqc.n; i++) {
        const qg_tqc *x = m->quant->tqc.at[i], *y = record_at(with, x);
        if ((y && is_same(with, x, y)) || qg_rivals_at(list, qg_tqc_endpoint(x)))
            continue;
        const char *node = qg_arena_strdup(arena, x->node->name);
        if (!node)
            return qg_nomem(m->ctx);
        qg_rival r = { node, who, x->slot, x->is_output };
        QG_TRY(qg_vec_push(m->ctx, arena, list, r));
    }
    return QG_OK;
}

qg_status qg_rivals_add(const qg_attempt *a, const qg_attempt *other, const char *who,
                        qg_arena *arena, qg_rivals *list)
{
    const char *copy = qg_arena_strdup(arena, who);
    if (!copy)
        return qg_nomem(a->own.ctx);
    QG_TRY(compare(&a->own, &other->own, copy, arena, list));
    return compare(&other->own, &a->own, copy, arena, list);
}

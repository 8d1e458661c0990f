#include "engine/device/rivals.h"

bool qg_rivals_is_ruled_out(const qg_attempt *t, const qg_attempt *by)
{
    for (size_t i = 0; i < by->how->seen->graph->value.n; i++) {
        uint64_t own = by->unequal[i], other = t->unequal[i];
        if (by->share[i] >= 0 && t->share[i] >= 0 &&
            other > (own ? 2 * own + QG_ATTEMPT_CHANCE : 0))
            return true;
    }
    return qg_attempt_more_results(t, by) < 0;
}

static qg_rival *find(const qg_rivals *list, qg_endpoint at)
{
    for (size_t i = 0; i < list->n; i++) {
        qg_rival *r = &list->at[i];
        if (r->slot == at.slot && r->is_output == at.is_output &&
            strcmp(r->node, at.node->name) == 0)
            return r;
    }
    return NULL;
}

const qg_rival *qg_rivals_at(const qg_rivals *list, qg_endpoint at)
{
    return find(list, at);
}

bool qg_rival_is_in(const qg_rival *r, const qg_graph *g)
{
    const qg_node *n = qg_graph_node(g, r->node);
    return n && r->slot < (r->is_output ? n->n_out : n->n_in);
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
static bool same_codes(qg_scheme p, qg_scheme q, bool ties)
{
    p.nan = q.nan;
    if (!ties)
        p.rounding = q.rounding;
    return qg_scheme_same(&p, &q);
}

/* Whether quantizers are active, codes and dominator; y is of m.  ties: and how
 * half-way values are rounded. */
static bool is_same(const qg_model *m, const qg_tqc *x, const qg_tqc *y, bool ties)
{
    const qg_tqc *p = qg_tqc_root(x), *q = qg_tqc_root(y);
    return qg_tqc_rounds(x) == qg_tqc_rounds(y) &&
           same_codes(p->scheme, q->scheme, ties) && record_at(m, p) == q;
}

/* Appends the endpoint of x as one of rival w, or says more of it: other ties are the
 * least that can be undecided. */
static qg_status put(qg_ctx *ctx, const qg_tqc *x, const qg_rival *w, qg_arena *arena,
                     qg_rivals *list)
{
    qg_rival *there = find(list, qg_tqc_endpoint(x));
    if (there && there->ties && !w->ties) {
        there->who = w->who;
        there->ties = false;
        there->whole = w->whole;
    }
    if (there)
        return QG_OK;
    const char *node = qg_arena_strdup(arena, x->node->name);
    qg_rival r = *w;
    r.node = node;
    r.slot = x->slot;
    r.is_output = x->is_output;
    return node ? qg_vec_push(ctx, arena, list, r) : qg_nomem(ctx);
}

/* Lists the records of one side that the other lacks, or has otherwise. */
static qg_status compare(const qg_model *m, const qg_model *with, qg_rival w,
                         qg_arena *arena, qg_rivals *list)
{
    for (size_t i = 0; i < m->quant->tqc.n; i++) {
        const qg_tqc *x = m->quant->tqc.at[i], *y = record_at(with, x);
        w.ties = y && is_same(with, x, y, false);
        if (!w.ties || !is_same(with, x, y, true))
            QG_TRY(put(m->ctx, x, &w, arena, list));
    }
    return QG_OK;
}

/* Nothing in the trace contradicts it. */
static bool gives_all(const qg_attempt *t)
{
    return qg_attempt_contradicted(t) == 0 && t->results.part == t->results.of;
}

qg_status qg_rivals_add(const qg_attempt *a, const qg_attempt *other, const char *who,
                        qg_arena *arena, qg_rivals *list)
{
    qg_rival w = { .who = qg_arena_strdup(arena, who), .whole = gives_all(other) };
    if (!w.who)
        return qg_nomem(a->own.ctx);
    QG_TRY(compare(&a->own, &other->own, w, arena, list));
    return compare(&other->own, &a->own, w, arena, list);
}

qg_status qg_rivals_add_lost(const qg_attempt *a, const qg_attempt *other,
                             const char *who, qg_arena *arena, qg_rivals *list)
{
    const qg_quant *q = other->own.quant;
    const char *copy = qg_arena_strdup(arena, who);
    if (!copy)
        return qg_nomem(a->own.ctx);
    for (size_t i = 0; i < q->tqc.n; i++) {
        const qg_tqc *x = q->tqc.at[i];
        qg_rival r = { x->node->name, copy, x->slot, x->is_output, false, false };
        if (!qg_rival_is_in(&r, a->own.graph))
            QG_TRY(put(a->own.ctx, x, &r, arena, list));
    }
    return QG_OK;
}

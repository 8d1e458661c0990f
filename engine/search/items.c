/* items.c -- values are joined when endpoints of one group are theirs, by union-find
 * over value ids. */
#include "engine/search/search.h"
#include "engine/quant/stored.h"

#include <math.h>

static uint32_t leader(uint32_t *up, uint32_t v)
{
    while (up[v] != v)
        v = up[v] = up[up[v]];
    return v;
}

/* The smaller id leads: items are in the order of values. */
static void join(uint32_t *up, uint32_t a, uint32_t b)
{
    a = leader(up, a);
    b = leader(up, b);
    if (a < b)
        up[b] = a;
    else
        up[a] = b;
}

/* Values keep their names.  A bound is of the item whose grid it has: many nodes may
 * read the constant. */
uint32_t qg_search_item_of(const qg_searching *s, const qg_tqc *t)
{
    const qg_tqc *at = qg_tqc_is_bound(t) ? qg_tqc_root(t) : t;
    const qg_value *v = qg_graph_value(s->m->graph, qg_tqc_value(at)->name);
    return v && !at->derive ? s->item_of[v->id] : QG_NONE;
}

bool qg_search_is_free(const qg_tqc *t)
{
    const qg_tqc *root = qg_tqc_root(t);
    return qg_tqc_is_on_grid(t) && !t->derive && !root->derive && !root->quantizer &&
           !qg_tqc_is_bound(t) && !(root->scheme.policy & QG_FLOATING);
}

/* Of a constant that has the grid of an activation, too. */
static bool has_activation(const qg_tqc *root)
{
    for (const qg_tqc *t = root; t; t = qg_group_next(t, root))
        if (!qg_tqc_is_constant(t))
            return true;
    return false;
}

static bool is_choice(const qg_searching *s, const qg_tqc *t)
{
    return qg_search_is_free(t) &&
           (s->kind != QG_BUDGET_SIZE || !has_activation(qg_tqc_root(t)));
}

/* [values] what leads each value; `chosen`: the bits of values that have a choice. */
static void join_groups(const qg_searching *s, uint32_t *up, uint8_t *chosen)
{
    const qg_quant *q = s->m->quant;
    for (uint32_t v = 0; v < s->m->graph->value.n; v++)
        up[v] = v;
    for (size_t i = 0; i < q->tqc.n; i++) {
        const qg_tqc *t = q->tqc.at[i], *root = qg_tqc_root(t);
        if (!is_choice(s, t))
            continue;
        chosen[qg_tqc_value(t)->id] = t->scheme.bits;
        for (const qg_tqc *u = root; u; u = qg_group_next(u, root))
            if (!u->derive && !qg_tqc_is_bound(u))
                join(up, qg_tqc_value(t)->id, qg_tqc_value(u)->id);
    }
}

static const qg_tensor *type_of(const qg_searching *s, const qg_value *v)
{
    return v->constant ? v->constant : &s->type[v->id];
}

static bool has_size(const qg_searching *s, const qg_value *v)
{
    return qg_tensor_known(type_of(s, v));
}

/* Groups that are left: of unknown size, with a range that bits alone do not tell, of a
 * value that is no choice elsewhere, or whose bits stay in a trial (s->stuck). */
static void mark_left(qg_searching *s, uint32_t *up, const uint8_t *chosen,
                      uint8_t *left)
{
    const qg_quant *q = s->m->quant;
    for (uint32_t v = 0; v < s->m->graph->value.n; v++) {
        const qg_value *value = s->m->graph->value.at[v];
        const bool unsized = chosen[v] && !has_size(s, value);
        if (unsized && !s->unsized++)
            s->unsized_first = value;
        if (unsized || s->stuck[v])
            left[leader(up, v)] = 1;
    }
    for (size_t i = 0; i < q->tqc.n; i++) {
        const qg_tqc *t = q->tqc.at[i];
        uint32_t v = qg_tqc_value(t)->id;
        bool chooses = is_choice(s, t);
        if ((chooses && !qg_scheme_takes_bits(&t->scheme)) ||
            (chosen[v] && qg_search_is_free(t) && !chooses))
            left[leader(up, v)] = 1;
    }
}

/* bits: 0 when it is not rounded. */
static qg_status add_value(qg_searching *s, uint32_t *up, uint32_t v, uint8_t bits)
{
    const qg_value *value = s->m->graph->value.at[v];
    uint32_t *of = &s->item_of[leader(up, v)];
    if (*of == QG_NONE) {
        *of = (uint32_t)s->item.n;
        QG_TRY(qg_vec_push(s->m->ctx, s->arena, &s->item,
                           (qg_item){ .first = value, .constant = true }));
    }
    s->item_of[v] = *of;
    qg_item *item = &s->item.at[*of];
    item->values++;
    item->constant = item->constant && value->constant;
    if (bits) {
        double n = (double)qg_tensor_count(type_of(s, value));
        item->elements += n;
        item->now += n * bits;
    }
    return QG_OK;
}

/* Values of one item that are not rounded belong to it as well: a patch names them, so
 * that all endpoints of a group get its bits. */
static qg_status add_values(qg_searching *s, uint32_t *up, const uint8_t *chosen,
                            const uint8_t *left)
{
    size_t n = s->m->graph->value.n;
    uint8_t *leads = QG_NEWN(s->arena, n, uint8_t);
    if (!leads)
        return qg_nomem(s->m->ctx);
    for (uint32_t v = 0; v < n; v++)
        if (chosen[v])
            leads[leader(up, v)] = 1;
    for (uint32_t v = 0; v < n; v++) {
        uint32_t first = leader(up, v);
        s->left += first == v && left[v];
        if (leads[first] && !left[first])
            QG_TRY(add_value(s, up, v, chosen[v]));
    }
    return QG_OK;
}

/* Groups that act and are no choice, each counted at its root. */
static size_t count_left(const qg_searching *s)
{
    const qg_quant *q = s->m->quant;
    size_t n = 0;
    for (size_t i = 0; i < q->tqc.n; i++) {
        const qg_tqc *t = q->tqc.at[i];
        n += t->up == t && qg_tqc_is_on_grid(t) && !t->derive && !is_choice(s, t);
    }
    return n;
}

static qg_status add_derived(qg_searching *s, const qg_tqc *t, double elements)
{
    qg_derived d = {
        {QG_NONE, QG_NONE},
        elements * (32 - (double)t->scheme.bits)
    };
    for (size_t k = 0; k < 2; k++)
        if (t->lender[k])
            d.item[k] = qg_search_item_of(s, t->lender[k]);
    return qg_vec_push(s->m->ctx, s->arena, &s->derived, d);
}

/* A constant that nodes of several groups read is stored as the first of them has it, a
 * bound with the bits of its grid, and one whose first reader is in no item as in the
 * snapshot. */
static qg_status count_stored(qg_searching *s)
{
    const qg_graph *g = s->m->graph;
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v = g->value.at[i];
        const qg_tqc *t = v->constant && v->use.n ? qg_stored_tqc(v) : NULL;
        const uint32_t item = t ? qg_search_item_of(s, t) : QG_NONE;
        if (item != QG_NONE)
            s->item.at[item].stored += (double)qg_tensor_count(v->constant);
        else
            s->fixed += qg_constant_bits(v) / 8;
        if (t && t->derive && qg_tqc_is_on_grid(t) && t->scheme.bits < 32)
            QG_TRY(add_derived(s, t, (double)qg_tensor_count(v->constant)));
    }
    return QG_OK;
}

static qg_status count_costs(qg_searching *s)
{
    s->cost = QG_NEWN(s->arena, s->item.n * s->options, double);
    if (!s->cost)
        return qg_nomem(s->m->ctx);
    for (size_t i = 0; i < s->item.n; i++) {
        s->elements += s->item.at[i].elements;
        for (size_t o = 0; o < s->options; o++)
            s->cost[i * s->options + o] =
                s->without[s->item.at[i].first->id] >> o & 1
                    ? (double)INFINITY
                    : s->item.at[i].elements * (s->bits[o] ? s->bits[o] : 32);
    }
    return QG_OK;
}

qg_status qg_search_items(qg_searching *s)
{
    size_t n = s->m->graph->value.n;
    uint32_t *up = QG_NEWN(s->arena, n, uint32_t);
    uint8_t *chosen = QG_NEWN(s->arena, n, uint8_t);
    uint8_t *left = QG_NEWN(s->arena, n, uint8_t);
    s->item_of = QG_NEWN(s->arena, n, uint32_t);
    if (!s->stuck) {
        s->stuck = QG_NEWN(s->arena, n, uint8_t);
        s->without = QG_NEWN(s->arena, n, uint16_t);
    }
    if (!up || !chosen || !left || !s->item_of || !s->stuck || !s->without)
        return qg_nomem(s->m->ctx);
    for (size_t i = 0; i < n; i++)
        s->item_of[i] = QG_NONE;
    s->item.n = s->derived.n = s->left = s->unsized = 0;
    s->elements = s->fixed = 0;
    join_groups(s, up, chosen);
    mark_left(s, up, chosen, left);
    QG_TRY(add_values(s, up, chosen, left));
    s->left += count_left(s);
    QG_TRY(count_stored(s));
    if (s->item.n == 0)
        return qg_fail(s->m->ctx, QG_EDATA,
                       "search: no quantized %s of known size on an integer grid whose "
                       "bits can change, expected at least one",
                       s->kind == QG_BUDGET_SIZE ? "weight" : "value");
    return count_costs(s);
}

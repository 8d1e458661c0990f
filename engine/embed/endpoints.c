/* endpoints.c -- quantization records of a model, their groups and their history, as
 * the host sees them. */
#include "engine/embed/record.h"
#include "engine/quant/quantizer.h"
#include "engine/quant/tqc.h"
#include "engine/session/session.h"

size_t qg_model_tqc_count(const qg_model *m) { return m->quant ? m->quant->tqc.n : 0; }

qg_tqc *qg_model_tqc(const qg_model *m, size_t i)
{
    return i < qg_model_tqc_count(m) ? m->quant->tqc.at[i] : NULL;
}

qg_tqc *qg_model_find_tqc(const qg_model *m, const char *endpoint)
{
    return m->quant ? qg_tqc_named(m->graph, endpoint) : NULL;
}

/* Of the backend's rule; NULL: the defaults, or no backend. */
static const qg_origin *origin_of(const qg_tqc *t)
{
    const qg_backend *b = t->quant->backend;
    return b && t->rule < b->rule.n ? &b->rule.at[t->rule].origin : NULL;
}

void qg_tqc_get(const qg_tqc *t, qg_tqc_record *out)
{
    qg_qparam p = qg_tqc_param(t);
    const qg_origin *origin = origin_of(t);
    qg_tqc_record r = {
        .id = t->id,
        .name = t->name,
        .node = t->node,
        .slot = t->slot,
        .is_output = t->is_output,
        .value = qg_tqc_value(t),
        .state = t->state,
        .saved = t->saved,
        .scheme = t->scheme,
        .n_param = p.n,
        .scale = p.scale,
        .offset = p.offset,
        .rounds = qg_tqc_rounds(t),
        .observer = t->observer.name,
        .quantizer = qg_tqc_quantizer(t),
        .visibility = t->visibility,
        .derive = t->derive,
        .dominator = qg_tqc_root(t),
        .lender = {t->lender[0], t->lender[1]},
        .rule = origin ? origin->id : NULL,
        .why = origin ? origin->why : NULL
    };
    qg_record_put(out, &r, sizeof r);
}

/* --- groups --- */

static bool leads_others(const qg_tqc *t) { return t->up == t && t->next != t; }

size_t qg_model_group_count(const qg_model *m)
{
    size_t n = 0;
    for (size_t k = 0; k < qg_model_tqc_count(m); k++)
        n += leads_others(m->quant->tqc.at[k]);
    return n;
}

const qg_tqc *qg_model_group(const qg_model *m, size_t i)
{
    for (size_t k = 0; k < qg_model_tqc_count(m); k++) {
        const qg_tqc *t = m->quant->tqc.at[k];
        if (leads_others(t) && i-- == 0)
            return t;
    }
    return NULL;
}

/* Members whose id is at most `id`. */
static size_t count_up_to(const qg_tqc *t, uint32_t id)
{
    size_t n = 0;
    for (const qg_tqc *u = t; u; u = qg_group_next(u, t))
        n += u->id <= id;
    return n;
}

/* A ring is in no order: the id is found by halving the range in which it lies. */
const qg_tqc *qg_tqc_member(const qg_tqc *t, size_t k)
{
    const qg_quant *q = t->quant;
    uint32_t low = 0, high = (uint32_t)(q->tqc.n - 1);
    if (k >= count_up_to(t, high))
        return NULL;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (count_up_to(t, middle) > k)
            high = middle;
        else
            low = middle + 1;
    }
    return q->tqc.at[low];
}

/* --- history --- */

bool qg_model_change(const qg_model *m, const qg_tqc *t, size_t k,
                     qg_change_record *out)
{
    for (size_t i = 0; m->quant && i < m->quant->journal.n; i++) {
        const qg_journal_entry *e = &m->quant->journal.at[i];
        if (e->tqc != t->id || k-- > 0)
            continue;
        qg_change_record r = { .field = e->field,
                               .old_value = e->old_value,
                               .new_value = e->new_value,
                               .by = e->by };
        qg_record_put(out, &r, sizeof r);
        return true;
    }
    return false;
}

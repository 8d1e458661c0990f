/* uniform.c -- for each choice of bits the network is quantized with all items at it.
 * What an item does not take is found so: bits that do not take effect leave the item
 * to the snapshot; a choice that cannot be quantized (a prescribed zero point, an
 * observer with a limit) is left out for that item alone. */
#include "engine/search/search.h"

#include <math.h>

bool qg_search_takes(const qg_searching *s, size_t i, size_t o)
{
    return isfinite(s->cost[i * s->options + o]);
}

size_t qg_search_most(const qg_searching *s, size_t i)
{
    size_t o = s->options - 1;
    while (o > 0 && !qg_search_takes(s, i, o))
        o--;
    return o;
}

/* The values of the snapshot that keep other bits than the trial chose. */
static size_t mark_stuck(qg_searching *s, const uint8_t *option, const qg_model *trial)
{
    size_t n = 0, at = 0;
    const qg_tqc *t;
    while ((t = qg_search_wrong(s, option, trial, &at))) {
        s->stuck[qg_graph_value(s->m->graph, qg_tqc_value(t)->name)->id] = 1;
        n++;
    }
    return n;
}

/* --- choices that do not suit an item --- */

static qg_status leave_out(qg_searching *s, size_t i, size_t o)
{
    if (!s->unfit_why) {
        s->unfit_first = i;
        s->unfit_why = qg_arena_strdup(s->arena, qg_ctx_message(s->m->ctx));
        if (!s->unfit_why)
            return qg_nomem(s->m->ctx);
    }
    s->unfit++;
    s->without[s->item.at[i].first->id] |= (uint16_t)(1u << o);
    s->cost[i * s->options + o] = INFINITY;
    return QG_OK;
}

static void warn_left_out(const qg_searching *s, size_t o, size_t n)
{
    qg_warn(s->m->ctx,
            "search: choice %s: left out for %zu of %zu groups, as for %s: %s",
            qg_search_choice_text(s, o), n, s->item.n,
            s->item.at[s->unfit_first].first->name, s->unfit_why);
}

/* Items [first, first + n) at o, all others as in the snapshot: by halves down to those
 * that fail. */
static qg_status probe(qg_searching *s, size_t o, uint8_t *option, size_t first,
                       size_t n)
{
    qg_model trial;
    memset(option, QG_SEARCH_KEPT, s->item.n);
    for (size_t i = first; i < first + n; i++)
        if (qg_search_takes(s, i, o))
            option[i] = (uint8_t)o;
    s->again.one_sample = true;
    qg_status st = qg_search_quantize_any(s, option, &trial);
    s->again.one_sample = false;
    qg_again_drop(&trial);
    if (st != QG_ECONFIG)
        return st;
    if (n == 1)
        return leave_out(s, first, o);
    QG_TRY(probe(s, o, option, first, n / 2));
    return probe(s, o, option, first + n / 2, n - n / 2);
}

/* --- all items at one choice --- */

static void set_all(const qg_searching *s, size_t o, uint8_t *option)
{
    for (size_t i = 0; i < s->item.n; i++)
        option[i] = (uint8_t)(qg_search_takes(s, i, o) ? o : QG_SEARCH_KEPT);
}

static qg_status quantize_one(qg_searching *s, size_t o, uint8_t *option)
{
    size_t before = s->unfit;
    set_all(s, o, option);
    qg_again_drop(&s->uniform[o]);
    qg_status st = qg_search_quantize_any(s, option, &s->uniform[o]);
    if (st != QG_ECONFIG)
        return st;
    s->unfit_why = NULL;
    QG_TRY(probe(s, o, option, 0, s->item.n));
    if (s->unfit > before)
        warn_left_out(s, o, s->unfit - before);
    set_all(s, o, option);
    qg_again_drop(&s->uniform[o]);
    return qg_search_quantize_any(s, option, &s->uniform[o]);
}

static qg_status quantize_all(qg_searching *s, size_t *stuck)
{
    uint8_t *option = QG_NEWN(s->arena, s->item.n, uint8_t);
    if (!option)
        return qg_nomem(s->m->ctx);
    *stuck = 0;
    for (size_t o = 0; o < s->options; o++) {
        QG_TRY(quantize_one(s, o, option));
        *stuck += mark_stuck(s, option, &s->uniform[o]);
        if (!s->bits[o])
            qg_again_drop(&s->uniform[o]);
    }
    return QG_OK;
}

/* Items without any choice that suits them are left as well. */
static size_t mark_without(qg_searching *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->item.n; i++)
        if (!qg_search_takes(s, i, qg_search_most(s, i))) {
            s->stuck[s->item.at[i].first->id] = 1;
            n++;
        }
    return n;
}

/* Rounds end: every one but the last leaves an item. */
qg_status qg_search_uniform(qg_searching *s)
{
    for (size_t stuck = 1; stuck;) {
        QG_TRY(quantize_all(s, &stuck));
        stuck += mark_without(s);
        if (stuck)
            QG_TRY(qg_search_items(s));
    }
    return QG_OK;
}

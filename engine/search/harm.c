/* harm.c -- for each choice of bits the network is quantized with all items at it; then
 * each item alone is enabled (engine/analysis/what_if.h).  Float does no harm. */
#include "engine/search/search.h"

#include <math.h>

static qg_status mute_others(const qg_searching *s, const qg_quant *q, qg_arena *a,
                             const uint32_t *item, size_t i, const uint8_t **out)
{
    uint8_t *mute = QG_NEWN(a, q->tqc.n, uint8_t);
    if (!mute)
        return qg_nomem(s->m->ctx);
    for (size_t k = 0; k < q->tqc.n; k++)
        mute[k] = item[k] != i;
    *out = mute;
    return QG_OK;
}

/* The harm of every item of the trial at option o. */
static qg_status ask(qg_searching *s, const qg_model *trial, size_t o)
{
    const qg_quant *q = trial->quant;
    qg_arena *a = trial->graph->arena;
    size_t n = s->item.n, n_out = trial->graph->output.n;
    qg_study study = { .ctx = s->m->ctx,
                       .graph = trial->graph,
                       .quant = q,
                       .feed = s->split.choose,
                       .metric = s->metric,
                       .work = &s->o->work,
                       .stage = "search" };
    qg_what_if *question = QG_NEWN(a, n, qg_what_if);
    double *error = QG_NEWN(a, n * n_out, double);
    uint32_t *item = QG_NEWN(a, q->tqc.n, uint32_t);
    if (!question || !error || !item)
        return qg_nomem(s->m->ctx);
    for (size_t k = 0; k < q->tqc.n; k++)
        item[k] = qg_search_item_of(s, q->tqc.at[k]);
    for (size_t i = 0; i < n; i++)
        QG_TRY(mute_others(s, q, a, item, i, &question[i].mute));
    QG_TRY(qg_study_ask(&study, question, n, error));
    for (size_t i = 0; i < n; i++) {
        const double *row = error + i * n_out;
        s->harm[i * s->options + o] =
            qg_search_number(row[qg_study_worst(&study, row)]);
    }
    return QG_OK;
}

static qg_status measure(qg_searching *s, const qg_model *trial, size_t o)
{
    qg_measured at = { 0 };
    qg_arena *a = trial->graph->arena;
    QG_TRY(qg_measured_find(trial->graph, s->split.choose, NULL, a, &at));
    qg_measured_begin(&at);
    qg_status st = ask(s, trial, o);
    qg_measured_end(&at);
    return st;
}

/* Where gradients reach, they replace what was measured. */
static void prefer_gradients(qg_searching *s)
{
    for (size_t i = 0; i < s->item.n * s->options; i++)
        if (!isnan(s->gradient[i]))
            s->harm[i] = s->gradient[i];
}

/* Gradients need no measurement of the items that they reach. */
static bool all_reached(const qg_searching *s)
{
    for (size_t i = 0; i < s->item.n; i++)
        if (s->item.at[i].blind)
            return false;
    return true;
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

static qg_status quantize_all(qg_searching *s, size_t *stuck)
{
    uint8_t *option = QG_NEWN(s->arena, s->item.n, uint8_t);
    if (!option)
        return qg_nomem(s->m->ctx);
    *stuck = 0;
    for (size_t o = 0; o < s->options; o++) {
        memset(option, (int)o, s->item.n);
        qg_again_drop(&s->uniform[o]);
        QG_TRY(qg_search_quantize_any(s, option, &s->uniform[o]));
        *stuck += mark_stuck(s, option, &s->uniform[o]);
        if (!s->bits[o])
            qg_again_drop(&s->uniform[o]);
    }
    return QG_OK;
}

/* Rounds end: every one but the last leaves an item. */
static qg_status quantize_free(qg_searching *s)
{
    for (size_t stuck = 1; stuck;) {
        QG_TRY(quantize_all(s, &stuck));
        if (stuck)
            QG_TRY(qg_search_items(s));
    }
    return QG_OK;
}

qg_status qg_search_harm(qg_searching *s)
{
    QG_TRY(quantize_free(s));
    size_t cells = s->item.n * s->options;
    s->harm = QG_NEWN(s->arena, cells, double);
    s->gradient = QG_NEWN(s->arena, cells, double);
    if (!s->harm || !s->gradient)
        return qg_nomem(s->m->ctx);
    if (s->by_gradient)
        QG_TRY(qg_search_gradients(s));
    for (size_t o = 0; o < s->options; o++)
        if (s->bits[o] && !(s->by_gradient && all_reached(s)))
            QG_TRY(measure(s, &s->uniform[o], o));
    if (s->by_gradient)
        prefer_gradients(s);
    return QG_OK;
}

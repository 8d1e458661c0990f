/* harm.c -- in the network with all items at one choice (uniform.c) each item alone is
 * enabled (engine/analysis/what_if.h).  Float does no harm. */
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

/* Gradients need no measurement of the items that they reach. */
static bool needs_items(const qg_searching *s)
{
    bool blind = !s->by_gradient;
    for (size_t i = 0; i < s->item.n && !blind; i++)
        blind = s->item.at[i].blind;
    return blind;
}

/* The harm of every item of the trial at option o, and of what is no item, whose bits
 * no trial changes. */
static qg_status ask(qg_searching *s, const qg_model *trial, size_t o)
{
    const qg_quant *q = trial->quant;
    qg_arena *a = trial->graph->arena;
    size_t n = needs_items(s) ? s->item.n : 0, n_out = trial->graph->output.n;
    qg_study study = { .ctx = s->m->ctx,
                       .graph = trial->graph,
                       .quant = q,
                       .feed = s->split.choose,
                       .metric = s->metric,
                       .work = &s->o->work,
                       .stage = "search" };
    qg_what_if *question = QG_NEWN(a, n + 1, qg_what_if);
    double *error = QG_NEWN(a, (n + 1) * n_out, double);
    uint32_t *item = QG_NEWN(a, q->tqc.n, uint32_t);
    if (!question || !error || !item)
        return qg_nomem(s->m->ctx);
    for (size_t k = 0; k < q->tqc.n; k++)
        item[k] = qg_search_item_of(s, q->tqc.at[k]);
    for (size_t i = 0; i < n; i++)
        QG_TRY(mute_others(s, q, a, item, i, &question[i].mute));
    QG_TRY(mute_others(s, q, a, item, QG_NONE, &question[n].mute));
    QG_TRY(qg_study_ask(&study, question, n + (s->left > 0), error));
    for (size_t i = 0; i < n; i++) {
        const double *row = error + i * n_out;
        s->harm[i * s->options + o] =
            qg_search_number(row[qg_study_worst(&study, row)]);
    }
    if (s->left > 0)
        s->rest = qg_search_number(
            error[n * n_out + qg_study_worst(&study, error + n * n_out)]);
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

qg_status qg_search_harm(qg_searching *s)
{
    QG_TRY(qg_search_uniform(s));
    size_t cells = s->item.n * s->options;
    s->harm = QG_NEWN(s->arena, cells, double);
    s->gradient = QG_NEWN(s->arena, cells, double);
    if (!s->harm || !s->gradient)
        return qg_nomem(s->m->ctx);
    if (s->by_gradient)
        QG_TRY(qg_search_gradients(s));
    for (size_t o = 0; o < s->options; o++)
        if (s->bits[o] && (needs_items(s) || s->left > 0))
            QG_TRY(measure(s, &s->uniform[o], o));
    if (s->by_gradient)
        prefer_gradients(s);
    for (size_t i = 0; i < cells; i++)
        if (!qg_search_takes(s, i / s->options, i % s->options))
            s->harm[i] = INFINITY;
    return QG_OK;
}

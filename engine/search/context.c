/* context.c -- the error of a policy with one item at another choice, for every item
 * and choice: what single items add depends on the others.
 *
 * No network is quantized for it: the records of an item come from the trial that has
 * all items at its choice.  Scales are those that a mixed policy would have, except
 * where a scale is derived from several items (of a bias: that of the most bits). */
#include "engine/analysis/what_if.h"
#include "engine/search/search.h"

enum { QUESTIONS = 64 };

typedef struct mixer {
    qg_searching *s;
    const qg_model *base; /* the trial with the most bits */
    qg_tqc **copy;        /* [options][TQCs of base] records of base's endpoints */
    uint32_t *item;       /* [TQCs] QG_NONE: none */
    const qg_feed *feed;
    qg_arena *round;
} mixer;

/* The trials come from one graph by one pipeline: endpoint k is the same in all. */
static qg_status copy_records(mixer *x)
{
    const qg_quant *q = x->base->quant;
    qg_searching *s = x->s;
    for (size_t o = 0; o < s->options; o++)
        for (size_t k = 0; s->bits[o] && k < q->tqc.n; k++) {
            const qg_quant *from = s->uniform[o].quant;
            qg_tqc *t = QG_NEW(s->arena, qg_tqc);
            if (!t)
                return qg_nomem(s->m->ctx);
            if (from->tqc.n != q->tqc.n ||
                strcmp(from->tqc.at[k]->name, q->tqc.at[k]->name) != 0)
                return qg_fail(s->m->ctx, QG_ESTATE,
                               "search: %s: another endpoint with %u bits than with "
                               "others, expected the same endpoints",
                               q->tqc.at[k]->name, s->bits[o]);
            *t = *from->tqc.at[k];
            t->node = q->tqc.at[k]->node;
            x->copy[o * q->tqc.n + k] = t;
        }
    return QG_OK;
}

static qg_status begin(mixer *x)
{
    qg_searching *s = x->s;
    for (size_t o = 0; o < s->options; o++)
        if (s->bits[o])
            x->base = &s->uniform[o];
    size_t n = x->base->quant->tqc.n;
    x->copy = QG_NEWN(s->arena, s->options * n, qg_tqc *);
    x->item = QG_NEWN(s->arena, n, uint32_t);
    if (!x->copy || !x->item)
        return qg_nomem(s->m->ctx);
    for (size_t k = 0; k < n; k++)
        x->item[k] = qg_search_item_of(s, x->base->quant->tqc.at[k]);
    return copy_records(x);
}

static qg_status ask_policy(mixer *x, const uint8_t *option, qg_what_if *out)
{
    const qg_searching *s = x->s;
    size_t n = x->base->quant->tqc.n;
    const qg_tqc **instead = QG_NEWN(x->round, n, const qg_tqc *);
    uint8_t *mute = QG_NEWN(x->round, n, uint8_t);
    if (!instead || !mute)
        return qg_nomem(s->m->ctx);
    for (size_t k = 0; k < n; k++) {
        size_t o = x->item[k] == QG_NONE ? 0 : option[x->item[k]];
        if (x->item[k] == QG_NONE)
            continue;
        mute[k] = !s->bits[o];
        instead[k] = s->bits[o] ? x->copy[o * n + k] : NULL;
    }
    *out = (qg_what_if){ .mute = mute, .instead = instead };
    return QG_OK;
}

/* Cells [first, first + n) of the matrix. */
static qg_status ask_cells(mixer *x, const uint8_t *option, size_t first, size_t n,
                           double *out)
{
    qg_searching *s = x->s;
    size_t n_out = x->base->graph->output.n;
    qg_study study = { .ctx = s->m->ctx,
                       .graph = x->base->graph,
                       .quant = x->base->quant,
                       .feed = x->feed,
                       .metric = s->metric,
                       .whole = true,
                       .work = &s->o->work,
                       .stage = "search" };
    qg_arena_reset(x->round);
    qg_what_if *question = QG_NEWN(x->round, n, qg_what_if);
    double *error = QG_NEWN(x->round, n * n_out, double);
    uint8_t *changed = QG_NEWN(x->round, s->item.n, uint8_t);
    if (!question || !error || !changed)
        return qg_nomem(s->m->ctx);
    for (size_t k = 0; k < n; k++) {
        memcpy(changed, option, s->item.n);
        changed[(first + k) / s->options] = (uint8_t)((first + k) % s->options);
        QG_TRY(ask_policy(x, changed, &question[k]));
    }
    QG_TRY(qg_study_ask(&study, question, n, error));
    for (size_t k = 0; k < n; k++)
        out[k] = qg_search_number(
            error[k * n_out + qg_study_worst(&study, error + k * n_out)]);
    return QG_OK;
}

qg_status qg_search_context(qg_searching *s, const uint8_t *option, const qg_feed *feed,
                            double *error)
{
    mixer x = { .s = s, .feed = feed, .round = qg_arena_new(s->m->ctx->alloc) };
    size_t cells = s->item.n * s->options;
    qg_status st = x.round ? begin(&x) : qg_nomem(s->m->ctx);
    qg_measured at = { 0 };
    if (st == QG_OK)
        st = qg_measured_find(x.base->graph, feed, NULL, s->arena, &at);
    qg_measured_begin(&at);
    for (size_t i = 0; st == QG_OK && i < cells; i += QUESTIONS) {
        size_t n = cells - i < QUESTIONS ? cells - i : QUESTIONS;
        st = ask_cells(&x, option, i, n, error + i);
    }
    qg_measured_end(&at);
    qg_arena_free(x.round);
    return st;
}

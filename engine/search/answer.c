/* answer.c -- the report of `qg search`. */
#include "engine/analysis/measure.h"
#include "engine/search/search.h"

#include <math.h>

static const char *const method_name[] = { "exact", "greedy", "by-harm", "refined",
                                           "snapshot" };

static qg_cell nsr_cell(const qg_searching *s, double nsr)
{
    return nsr < 0 ? (qg_cell){ 0 }
                   : qg_measure_cell(s->metric,
                                     nsr < QG_SEARCH_NO_NUMBER ? nsr : (double)NAN);
}

/* What is no item adds to each policy. */
static qg_cell predicted_cell(const qg_searching *s, const qg_tried *p)
{
    return nsr_cell(s, p->predicted < 0 ? p->predicted : p->predicted + s->rest);
}

static qg_status add_policy(const qg_searching *s, qg_report *r, qg_table *t,
                            enum qg_method how, const qg_tried *p)
{
    return qg_table_cells(r, t, qg_cell_text(method_name[how]),
                          qg_cell_number(qg_search_mean_bits(s, p->cost)),
                          qg_cell_count(qg_search_size(s, p->option)),
                          predicted_cell(s, p), nsr_cell(s, p->nsr),
                          nsr_cell(s, p->judged), qg_cell_made(s->result[how]));
}

static qg_status report_policies(const qg_searching *s, qg_report *r)
{
    qg_table *t;
    QG_TRY(qg_report_table(
        r, "policies", "policy mean_bits size predicted nsr judged_nsr result", &t));
    for (int how = 0; how < QG_SNAPSHOT; how++)
        if (s->found[how].policy)
            QG_TRY(add_policy(s, r, t, (enum qg_method)how, s->found[how].policy));
    return add_policy(s, r, t, QG_SNAPSHOT, &s->before);
}

static qg_status report_groups(const qg_searching *s, qg_report *r)
{
    const uint8_t *option = s->found[s->winner].policy->option;
    qg_table *t;
    QG_TRY(qg_report_table(r, "groups", "group kind values elements choice nsr_alone",
                           &t));
    for (size_t i = 0; i < s->item.n; i++) {
        const qg_item *item = &s->item.at[i];
        size_t o = qg_search_option(s, option, i);
        const char *kept = qg_arena_printf(s->arena, "%g", item->now / item->elements);
        QG_TRY(qg_table_cells(
            r, t, qg_cell_text(item->first->name),
            qg_cell_text(item->constant ? "weight" : "activation"),
            qg_cell_count(item->values), qg_cell_count((size_t)item->elements),
            qg_cell_made(o < s->options ? qg_search_choice_text(s, o) : kept),
            nsr_cell(s, o < s->options ? s->harm[i * s->options + o] : -1)));
    }
    return QG_OK;
}

/* What was predicted from gradients, and what was measured. */
static qg_status report_harm(const qg_searching *s, qg_report *r)
{
    qg_table *t;
    QG_TRY(qg_report_table(r, "sensitivities", "group choice nsr_alone estimate", &t));
    qg_report_detail(r, QG_DETAIL_ALL);
    for (size_t i = 0; i < s->item.n; i++)
        for (size_t o = 0; o < s->options; o++) {
            size_t cell = i * s->options + o;
            if (!qg_search_takes(s, i, o))
                continue;
            bool guessed = s->by_gradient && !isnan(s->gradient[cell]);
            QG_TRY(qg_table_cells(r, t, qg_cell_text(s->item.at[i].first->name),
                                  qg_cell_made(qg_search_choice_text(s, o)),
                                  nsr_cell(s, s->harm[cell]),
                                  qg_cell_text(guessed ? "gradient" : "measured")));
        }
    return QG_OK;
}

static qg_status report_front(const qg_searching *s, qg_report *r)
{
    qg_table *t;
    QG_TRY(qg_report_table(r, "front", "mean_bits size predicted nsr", &t));
    for (size_t i = 0; i < s->front.n; i++) {
        const qg_tried *p = s->front.at[i];
        QG_TRY(qg_table_cells(r, t, qg_cell_number(qg_search_mean_bits(s, p->cost)),
                              qg_cell_count(qg_search_size(s, p->option)),
                              predicted_cell(s, p), nsr_cell(s, p->nsr)));
    }
    return QG_OK;
}

/* Whether the selection is proved to be the best one, as predicted. */
static qg_status report_proof(const qg_searching *s, qg_report *r)
{
    const qg_finding *f = &s->found[QG_EXACT];
    if (!f->policy || f->bound >= f->value)
        return qg_report_add(r, "proved", qg_cell_bool(true));
    QG_TRY(qg_report_add(r, "proved", qg_cell_bool(false)));
    return qg_report_add(r, "at_most_better_by",
                         qg_cell_percent((f->value - f->bound) / f->value));
}

static qg_status report_facts(const qg_searching *s, qg_report *r)
{
    const qg_tried *p = s->found[s->winner].policy;
    QG_TRY(qg_report_add(r, "budget", qg_cell_text(s->o->budget)));
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(s->split.choose->n)));
    QG_TRY(qg_report_add(r, "judged_on", qg_cell_count(s->split.judge->n)));
    QG_TRY(qg_measured_report(&s->at, r));
    QG_TRY(qg_report_add(r, "groups_chosen", qg_cell_count(s->item.n)));
    QG_TRY(qg_report_add(r, "groups_left", qg_cell_count(s->left)));
    if (s->unfit)
        QG_TRY(qg_report_add(r, "choices_left_out", qg_cell_count(s->unfit)));
    QG_TRY(qg_report_add(r, "candidates", qg_cell_count(s->again.tried)));
    QG_TRY(qg_report_add(r, "chosen", qg_cell_text(method_name[s->winner])));
    QG_TRY(report_proof(s, r));
    QG_TRY(
        qg_report_add(r, "mean_bits", qg_cell_number(qg_search_mean_bits(s, p->cost))));
    QG_TRY(qg_report_add(r, "size", qg_cell_count(qg_search_size(s, p->option))));
    QG_TRY(qg_report_add(r, "size_kept", qg_cell_count((size_t)ceil(s->fixed))));
    QG_TRY(qg_report_add(r, "predicted", predicted_cell(s, p)));
    QG_TRY(qg_report_add(r, "nsr", nsr_cell(s, p->nsr)));
    QG_TRY(qg_report_add(r, "judged_nsr", nsr_cell(s, p->judged)));
    QG_TRY(qg_report_add(r, "judged_nsr_error", nsr_cell(s, p->doubt[0])));
    QG_TRY(qg_report_add(r, "deployed_nsr", nsr_cell(s, p->deployed)));
    QG_TRY(qg_report_add(r, "deployed_nsr_error", nsr_cell(s, p->doubt[1])));
    if (s->kind == QG_BUDGET_NSR)
        QG_TRY(qg_report_add(r, "cross_validated_nsr", nsr_cell(s, p->crossed)));
    if (s->repaired)
        QG_TRY(qg_report_add(r, "repaired", qg_cell_count(s->repaired)));
    QG_TRY(qg_again_report_set(&s->again, r));
    if (s->kind == QG_BUDGET_NSR)
        QG_TRY(qg_report_add(r, "reserve", qg_cell_percent(s->reserve)));
    return s->o->patch ? qg_report_add(r, "written", qg_cell_text(s->o->patch)) : QG_OK;
}

qg_status qg_search_report(const qg_searching *s, qg_report *r)
{
    QG_TRY(report_facts(s, r));
    QG_TRY(report_policies(s, r));
    QG_TRY(report_groups(s, r));
    QG_TRY(report_front(s, r));
    return report_harm(s, r);
}

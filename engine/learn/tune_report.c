#include "engine/learn/tune_report.h"

#include <math.h>

#include "engine/analysis/measure.h"

/* Divergence and cross entropy are numbers, noise a percentage. */
static qg_cell loss_cell(const qg_tuning *t, const qg_metric *noise, double loss)
{
    return qg_tuning_has_verdict(t) ? qg_cell_number(loss)
                                    : qg_measure_cell(noise, loss);
}

static qg_status report_blocks(const qg_tuning *t, qg_report *r)
{
    const qg_metric *metric;
    qg_table *table;
    QG_TRY(qg_measure_by(t->m->ctx, NULL, &metric));
    QG_TRY(qg_report_table(r, "blocks", "block nodes before after verdict", &table));
    for (size_t k = 0; k < t->n_block; k++) {
        const qg_block *b = &t->block[k];
        const qg_reconstruction *a = &t->result[k];
        if (!qg_tuning_learns(t, b) && !b->stop)
            continue;
        QG_TRY(qg_table_cells(r, table, qg_cell_text(qg_tuning_name(t, b)),
                              qg_cell_count(b->end - b->first)));
        if (b->stop) {
            QG_TRY(qg_table_cells(r, table, qg_cell_text(NULL), qg_cell_text(NULL)));
            QG_TRY(qg_table_addf(r, table, "no gradient of %s", b->stop->op->name));
            continue;
        }
        QG_TRY(qg_table_cells(r, table, loss_cell(t, metric, a->before),
                              loss_cell(t, metric, a->after),
                              qg_cell_text(a->kept ? "better" : "left as it was")));
    }
    return QG_OK;
}

/* The loss on the samples that teach, while a block learns. */
static qg_status report_curves(const qg_tuning *t, qg_report *r)
{
    const qg_metric *metric;
    qg_table *table;
    QG_TRY(qg_measure_by(t->m->ctx, NULL, &metric));
    QG_TRY(qg_report_table(r, "curves",
                           "block 10% 20% 30% 40% 50% 60% 70% 80% 90% 100%", &table));
    for (size_t k = 0; k < t->n_block; k++) {
        if (!qg_tuning_learns(t, &t->block[k]))
            continue;
        QG_TRY(qg_table_cells(r, table, qg_cell_text(qg_tuning_name(t, &t->block[k]))));
        for (size_t i = 0; i < QG_LOSS_CURVE; i++) {
            const double loss = t->result[k].curve[i];
            QG_TRY(qg_table_cells(r, table,
                                  isnan(loss) ? qg_cell_text(NULL)
                                              : loss_cell(t, metric, loss)));
        }
    }
    return QG_OK;
}

static qg_status report_judges(const qg_tuning *t, qg_report *r)
{
    const qg_tune_samples s = t->stream.sample;
    const size_t n = qg_n_judges(s);
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(s.n - s.holdout)));
    QG_TRY(qg_report_add(r, "mixtures", qg_cell_count(s.mixed)));
    if (s.holdout)
        return qg_report_addf(r, "judged_on", "%zu sample%s of the holdout", n,
                              n == 1 ? "" : "s");
    if (s.n < QG_TUNE_LEAST)
        return qg_report_addf(r, "judged_on",
                              "the samples that taught: %zu, too few to hold any back",
                              n);
    return qg_report_addf(r, "judged_on",
                          n == 1 ? "%zu sample held back: the fourth"
                                 : "%zu samples held back: every fourth",
                          n);
}

static const char *why_unchanged(const qg_judgement *j)
{
    if (!isfinite(j->loss[1]))
        return isfinite(j->loss[0])
                   ? "what was learned gives NaN or infinity: the model stays as it was"
                   : "the outputs are NaN or infinite on some sample, so that nothing "
                     "can be judged: the model stays as it was";
    return j->top1[1] < j->top1[0] ? "fewer labels are right: the model stays as it was"
                                   : "not clearly better: the model stays as it was";
}

/* What the output shows: of a start that stays, the errors that it had. */
static qg_status report_verdict(const qg_tuning *t, const qg_judgement *j, qg_report *r)
{
    const int end = j->better;
    const qg_metric *metric;
    QG_TRY(qg_measure_by(t->m->ctx, NULL, &metric));
    QG_TRY(
        qg_report_add(r, "metric", qg_cell_text(qg_loss_metric(t->choice.loss.kind))));
    QG_TRY(qg_report_add(r, "before", loss_cell(t, metric, j->loss[0])));
    QG_TRY(qg_report_add(r, "after", loss_cell(t, metric, j->loss[end])));
    if (qg_tuning_has_verdict(t)) {
        QG_TRY(qg_report_add(r, "nsr_before", qg_measure_cell(metric, j->noise[0])));
        QG_TRY(qg_report_add(r, "nsr_after", qg_measure_cell(metric, j->noise[end])));
    }
    if (t->choice.loss.kind == QG_LOSS_LABELS) {
        QG_TRY(qg_report_add(r, "top1_before", qg_cell_percent(j->top1[0])));
        QG_TRY(qg_report_add(r, "top1_after", qg_cell_percent(j->top1[end])));
    }
    QG_TRY(qg_report_add(r, "changed", qg_cell_bool(j->better)));
    if (j->better)
        return QG_OK;
    QG_TRY(qg_report_add(r, "learned", loss_cell(t, metric, j->loss[1])));
    if (t->choice.loss.kind == QG_LOSS_LABELS && !isnan(j->top1[1]))
        QG_TRY(qg_report_add(r, "top1_learned", qg_cell_percent(j->top1[1])));
    if (!qg_tuning_has_verdict(t) && j->worse)
        return qg_report_addf(r, "why",
                              "output '%s' is clearly worse: the model stays as it was",
                              j->worse->name);
    return qg_report_add(r, "why", qg_cell_text(why_unchanged(j)));
}

qg_status qg_tune_report(const qg_tuning *t, const qg_judgement *j, qg_report *r)
{
    QG_TRY(qg_report_add(r, "method", qg_cell_text(t->choice.method->name)));
    QG_TRY(qg_report_add(r, "gradient",
                         qg_cell_text(qg_step_gradient_name(t->choice.gradient))));
    QG_TRY(qg_report_add(r, "optimizer", qg_cell_text(t->choice.optimizer->name)));
    QG_TRY(qg_report_add(r, "loss", qg_cell_text(qg_loss_name(t->choice.loss.kind))));
    QG_TRY(qg_report_add(r, "qdrop", qg_cell_bool(t->o->qdrop)));
    QG_TRY(report_judges(t, r));
    QG_TRY(qg_measured_report(&t->at, r));
    if (t->resumed)
        QG_TRY(qg_report_addf(r, "resumed",
                              "%zu of %zu blocks, learned by an earlier run",
                              t->resumed, t->chosen));
    QG_TRY(qg_report_addf(r, "better_blocks", "%zu of %zu", qg_tuning_better(t),
                          t->chosen));
    QG_TRY(report_verdict(t, j, r));
    QG_TRY(report_blocks(t, r));
    return report_curves(t, r);
}

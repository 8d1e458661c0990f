#include "engine/learn/judgement.h"

#include <math.h>

#include "engine/analysis/measure.h"
#include "engine/learn/error_row.h"
#include "engine/learn/verdict.h"
#include "engine/session/session.h"

/* Of one output, the metric of each sample: of those that judge, then of the others.
 * n 0: the output is no float32, or 0 everywhere. */
typedef struct output_errors {
    double *before, *after;
    size_t n, judges;
} output_errors;

/* Of sample i; the power of what the float network gives. */
static double error_of_output(const qg_stream *s, const qg_value *v,
                              const qg_metric *metric, size_t i, output_errors *e)
{
    const qg_tensor *f = qg_stream_value(s, v, QG_LANE_FLOAT, i);
    if (!f)
        return 0;
    e->before[e->n] =
        qg_measure(metric, f->f32, qg_stream_value(s, v, QG_LANE_BEFORE, i));
    e->after[e->n++] =
        qg_measure(metric, f->f32, qg_stream_value(s, v, QG_LANE_NOW, i));
    return qg_power_row(f->f32, NULL, (size_t)qg_tensor_count(f));
}

static qg_status errors_of_output(const qg_stream *s, qg_arena *a, const qg_value *v,
                                  const qg_metric *metric, output_errors *e)
{
    const size_t n = s->sample.n;
    double signal = 0;
    *e = (output_errors){ .before = QG_NEWN(a, n, double),
                          .after = QG_NEWN(a, n, double) };
    if (!e->before || !e->after)
        return qg_nomem(s->ctx);
    if (v->type.dtype != QG_F32)
        return QG_OK;
    for (size_t i = 0; i < n; i++)
        if (qg_judges(s->sample, i))
            signal += error_of_output(s, v, metric, i, e);
    e->judges = e->n;
    for (size_t i = 0; i < n; i++)
        if (!qg_judges(s->sample, i))
            (void)error_of_output(s, v, metric, i, e);
    if (!(signal > 0))
        e->n = e->judges = 0;
    return QG_OK;
}

/* NaN is worse than any number. */
static double worse_of(double a, double b) { return isnan(a) || b <= a ? a : b; }

/* Better: all outputs together, the worst of them is no worse than before, and no other
 * is clearly worse.  A holdout judges alone. */
qg_status qg_judge_outputs(const qg_stream *s, qg_arena *a, qg_judgement *j)
{
    const qg_graph *g = s->graph;
    const size_t most = s->sample.n;
    const qg_metric *metric;
    output_errors sum = { .before = QG_NEWN(a, most, double),
                          .after = QG_NEWN(a, most, double) };
    QG_TRY(qg_measure_by(s->ctx, NULL, &metric));
    if (!sum.before || !sum.after)
        return qg_nomem(s->ctx);
    for (size_t k = 0; k < g->output.n; k++) {
        output_errors e;
        QG_TRY(errors_of_output(s, a, g->output.at[k], metric, &e));
        for (size_t i = 0; i < e.n; i++) {
            sum.before[i] += e.before[i];
            sum.after[i] += e.after[i];
        }
        if (!e.n)
            continue;
        sum.n = e.n;
        sum.judges = e.judges;
        if (!j->worse && qg_is_better(e.after, e.before, e.judges, QG_ONE_IN_SIX))
            j->worse = g->output.at[k];
        j->noise[0] = worse_of(j->noise[0], qg_mean_of(e.before, e.judges));
        j->noise[1] = worse_of(j->noise[1], qg_mean_of(e.after, e.judges));
    }
    j->better = !j->worse && (isnan(j->noise[0]) || j->noise[1] <= j->noise[0]) &&
                qg_is_network_better(sum.before, sum.after, sum.judges,
                                     s->sample.holdout ? sum.judges : sum.n);
    return QG_OK;
}

/* Sum of the outputs that the loss compares, of sample i. */
static double loss_of(const qg_stream *s, const qg_loss *loss, enum qg_lane lane,
                      size_t i)
{
    double sum = 0;
    for (size_t k = 0; k < s->graph->output.n; k++) {
        const qg_value *v = s->graph->output.at[k];
        const qg_tensor *f = qg_loss_compares(loss, s->graph, v)
                                 ? qg_stream_value(s, v, QG_LANE_FLOAT, i)
                                 : NULL;
        if (f)
            sum += qg_loss_of_classes(loss, qg_stream_value(s, v, lane, i), f, i, NULL);
    }
    return sum;
}

qg_status qg_judge_classes(const qg_stream *s, const qg_loss *loss, qg_arena *a,
                           qg_judgement *j)
{
    const size_t most = s->sample.n;
    double *before = QG_NEWN(a, most, double), *after = QG_NEWN(a, most, double);
    size_t n = 0;
    if (!before || !after)
        return qg_nomem(s->ctx);
    for (size_t i = 0; i < most; i++) {
        if (!qg_judges(s->sample, i))
            continue;
        before[n] = loss_of(s, loss, QG_LANE_BEFORE, i);
        after[n++] = loss_of(s, loss, QG_LANE_NOW, i);
    }
    j->loss[0] = j->loss[1] = 0;
    for (size_t i = 0; i < n; i++) { /* as the means of a block (reconstruct.c) */
        j->loss[0] += before[i] / (double)n;
        j->loss[1] += after[i] / (double)n;
    }
    j->better = qg_is_classifier_better(before, after, n);
    return QG_OK;
}

static qg_status top1_of(const qg_stream *s, const qg_loss *loss, enum qg_lane lane,
                         qg_arena *a, double *top1)
{
    const qg_value *y = s->graph->output.at[0];
    const size_t each = loss->label.each;
    int32_t *vote = QG_NEWN(a, each, int32_t);
    size_t right = 0;
    if (!vote)
        return qg_nomem(s->ctx);
    for (size_t i = 0; i < s->sample.n; i++) {
        if (!qg_judges(s->sample, i))
            continue;
        const qg_labels own = { qg_loss_label(loss, i), each, loss->label.origin };
        QG_TRY(qg_labels_vote(s->ctx, "tune", qg_stream_value(s, y, lane, i), &own, 0,
                              vote));
        for (size_t r = 0; r < each; r++)
            right += vote[r] == own.label[r];
    }
    *top1 = (double)right / (double)(qg_n_judges(s->sample) * each);
    return QG_OK;
}

qg_status qg_judge_labels(const qg_stream *s, const qg_loss *loss, qg_arena *a,
                          qg_judgement *j)
{
    QG_TRY(top1_of(s, loss, QG_LANE_BEFORE, a, &j->top1[0]));
    return top1_of(s, loss, QG_LANE_NOW, a, &j->top1[1]);
}

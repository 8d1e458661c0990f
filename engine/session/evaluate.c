/* evaluate.c -- top-1 accuracy, float beside simulated and integer, on the same
 * samples. */
#include "engine/session/session.h"

/* Where samples vote, and what they are checked against. */
typedef struct ballot {
    int32_t *vote; /* [samples * label->each] */
    const qg_labels *label;
} ballot;

/* Predicted classes by mode. */
typedef struct votes {
    int32_t *of[QG_NRUN]; /* [samples * labels.each] NULL: not run */
} votes;

/* Samples vote at places of their own; ud: a ballot. */
static qg_status vote(void *ud, qg_ctx *ctx, void *state, size_t sample,
                      const qg_run *r)
{
    const ballot *b = ud;
    (void)state;
    return qg_labels_vote(ctx, "evaluate", qg_run_output(r, 0), b->label, sample,
                          b->vote);
}

qg_status qg_executable_vote(const qg_executable *e, const qg_workload *work,
                             const qg_feed *feed, const qg_labels *label, int32_t *out)
{
    qg_plan *p = NULL;
    ballot b = { out, label };
    QG_TRY(qg_executable_plan(e, work, feed, NULL, &p));
    qg_drive d = { .plan = p,
                   .feed = feed,
                   .n = feed->n,
                   .jobs = work->jobs,
                   .ud = &b,
                   .done = vote,
                   .progress = &work->progress,
                   .stage = qg_run_mode_name(e->mode) };
    qg_status s = qg_drive_run(e->model->ctx, &d);
    qg_plan_free(p);
    return s;
}

/* Samples without a class in one of the modes. */
static size_t count_without_class(const votes *v, const qg_labels *l, size_t n)
{
    size_t count = 0, next = 0; /* the first sample that is not counted yet */
    for (size_t i = 0; i < n * l->each; i++)
        for (int mode = 0; mode < QG_NRUN; mode++)
            if (i / l->each >= next && v->of[mode] && v->of[mode][i] == QG_NO_CLASS) {
                count++;
                next = i / l->each + 1;
            }
    return count;
}

/* How often both modes give the same class, right or wrong. */
static double agreement(const int32_t *a, const int32_t *b, size_t n)
{
    size_t same = 0;
    for (size_t i = 0; i < n; i++)
        same += a[i] == b[i] && a[i] != QG_NO_CLASS;
    return n ? (double)same / (double)n : 0;
}

/* Integers agree with the simulation they realize, without one with float. */
static qg_status fill_report(const qg_executable *e, const votes *v,
                             const qg_labels *labels, size_t n, qg_report *r)
{
    static const char *const fact[2][3] = {
        {"simulated_top1", "difference",         "agreement"        },
        { "integer_top1",  "integer_difference", "integer_agreement"}
    };
    const int32_t *real = v->of[QG_RUN_FLOAT], *with = real;
    const size_t lost = count_without_class(v, labels, n), all = n * labels->each;
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(n)));
    if (labels->each > 1)
        QG_TRY(qg_report_add(r, "classified", qg_cell_count(all)));
    if (lost)
        QG_TRY(qg_report_add(r, "nan_samples", qg_cell_count(lost)));
    const double float_top1 = qg_labels_top1(labels, real, n);
    QG_TRY(qg_report_add(r, "float_top1", qg_cell_percent(float_top1)));
    for (int mode = QG_RUN_SIMULATE; mode < QG_NRUN; mode++) {
        if (!v->of[mode])
            continue;
        double top1 = qg_labels_top1(labels, v->of[mode], n);
        double number[3] = { top1, top1 - float_top1,
                             agreement(with, v->of[mode], all) };
        for (int i = 0; i < 3; i++)
            QG_TRY(qg_report_add(r, fact[mode - QG_RUN_SIMULATE][i],
                                 qg_cell_percent(number[i])));
        with = v->of[mode];
    }
    return qg_report_program(r, e);
}

static qg_status describe(const qg_executable *e, const votes *v,
                          const qg_labels *labels, size_t n, qg_report **out)
{
    qg_report *r;
    QG_TRY(qg_report_new(e->model->ctx, "evaluate", &r));
    return qg_report_end(fill_report(e, v, labels, n, r), r, out);
}

/* From the file, or the labels of the options. */
static qg_status read_labels(qg_model *m, const qg_run_options *o, const char *path,
                             qg_arena *a, size_t n, qg_labels *out)
{
    const qg_labelled of = { m->graph, n, o->work.samples > 0 };
    if (!o->label == !path)
        return qg_fail(m->ctx, QG_ECONFIG, "labels: %s, expected a file or an array",
                       path ? "both are given" : "none are given");
    return path ? qg_labels_load(m->ctx, path, a, &of, out)
                : qg_labels_take(m->ctx, o->label, o->n_label, &of, out);
}

/* Float, simulated when quantized, and integer when it was asked for: e. */
static qg_status run_modes(const qg_executable *e, const qg_run_options *o, qg_arena *a,
                           const qg_api_feed *f, const qg_labels *label, votes *v)
{
    QG_TRY(qg_model_warn_clamps(e->model, "evaluate"));
    for (int mode = 0; mode < QG_NRUN; mode++) {
        qg_executable own = { e->model, (qg_run_mode)mode, NULL, e->model->graph };
        if ((mode == QG_RUN_SIMULATE && !e->model->quant) ||
            (mode == QG_RUN_INTEGER && !e->program))
            continue;
        v->of[mode] = QG_NEWN(a, f->feed.n * label->each, int32_t);
        if (!v->of[mode])
            return qg_nomem(e->model->ctx);
        QG_TRY(qg_executable_vote(mode == QG_RUN_INTEGER ? e : &own, &o->work, &f->feed,
                                  label, v->of[mode]));
    }
    return QG_OK;
}

/* In the first sample without a class in any mode. */
static qg_status warn_not_finite(const qg_executable *e, const qg_workload *work,
                                 const qg_feed *feed, const qg_labels *l,
                                 const votes *v)
{
    size_t first = feed->n;
    for (int mode = 0; mode < QG_NRUN; mode++) {
        size_t k =
            v->of[mode] ? qg_labels_first_without(l, v->of[mode], feed->n) : feed->n;
        first = k < first ? k : first;
    }
    return qg_model_warn_not_finite(e->model, QG_RUN_SIMULATE, work, feed, first);
}

static qg_status evaluate(const qg_executable *e, const qg_run_options *o,
                          const char *labels, qg_arena *a, qg_report **report)
{
    qg_labels truth;
    qg_api_feed f = { 0 };
    votes v = { 0 };
    QG_TRY(qg_feed_open(e->model, &o->work, &f));
    qg_status s = read_labels(e->model, o, labels, a, f.feed.n, &truth);
    if (s == QG_OK)
        s = run_modes(e, o, a, &f, &truth, &v);
    if (s == QG_OK)
        s = warn_not_finite(e, &o->work, &f.feed, &truth, &v);
    if (s == QG_OK)
        s = describe(e, &v, &truth, f.feed.n, report);
    qg_feed_close(&f);
    return s;
}

qg_status qg_model_evaluate(qg_model *m, const qg_run_options *given,
                            const char *labels, qg_report **report)
{
    qg_run_options o;
    qg_executable e;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_run_options, given, &o));
    QG_TRY(qg_workload_check(m->ctx, &o.work));
    qg_mode_request mode = { o.mode, o.profile, o.require_integer, o.codes, false };
    QG_TRY(qg_executable_make(m, &mode, &e));
    qg_executable_warn_quantizers(&e);
    qg_arena *a = qg_arena_new(m->ctx->alloc);
    qg_status s = a ? evaluate(&e, &o, labels, a, report) : qg_nomem(m->ctx);
    qg_arena_free(a);
    qg_executable_free(&e);
    return s;
}

/* evaluate.c -- top-1 accuracy, float beside simulated and integer, on the same
 * samples. */
#include "engine/session/session.h"

#include <inttypes.h>
#include <math.h>

#include "engine/data/npy.h"

/* Where samples vote, and what they are checked against. */
typedef struct ballot {
    int32_t *vote;        /* [samples] */
    const int64_t *label; /* [samples] */
} ballot;

/* Predicted classes by mode. */
typedef struct votes {
    int32_t *of[QG_NRUN]; /* [samples] NULL: not run */
} votes;

qg_status qg_check_scores(qg_ctx *ctx, const char *doing, const qg_tensor *y)
{
    char shape[QG_SHAPE_TEXT];
    int32_t axes = 0;
    for (int32_t d = 0; d < y->rank; d++)
        axes += y->dim[d] > 1;
    return axes <= 1
               ? QG_OK
               : qg_fail(ctx, QG_EDATA,
                         "%s: labels: the first output is %s, expected the scores "
                         "of classes, along one axis",
                         doing, qg_tensor_text(y, shape));
}

qg_status qg_check_class(qg_ctx *ctx, const char *doing, const qg_tensor *y,
                         int64_t label)
{
    int64_t n = qg_tensor_count(y);
    if (n < 2)
        return qg_fail(ctx, QG_EDATA,
                       "%s: the first output has %lld elements per sample, "
                       "expected one score per class",
                       doing, (long long)n);
    if (label < 0 || label >= n)
        return qg_fail(ctx, QG_EDATA,
                       "%s: labels: %lld, expected a class from 0 to %lld", doing,
                       (long long)label, (long long)(n - 1));
    return QG_OK;
}

qg_status qg_class_of(qg_ctx *ctx, const char *doing, const qg_tensor *y, int64_t label,
                      int32_t *out)
{
    int64_t n = qg_tensor_count(y);
    int32_t best = 0;
    QG_TRY(qg_check_scores(ctx, doing, y));
    QG_TRY(qg_check_class(ctx, doing, y, label));
    for (int64_t i = 0; i < n && best >= 0; i++) {
        const double score = qg_tensor_f64(y, i);
        if (isnan(score))
            best = QG_NO_CLASS;
        else if (score > qg_tensor_f64(y, best))
            best = (int32_t)i;
    }
    *out = best;
    return QG_OK;
}

/* Samples vote at places of their own; ud: a ballot. */
static qg_status vote(void *ud, qg_ctx *ctx, void *state, size_t sample,
                      const qg_run *r)
{
    const ballot *b = ud;
    (void)state;
    return qg_class_of(ctx, "evaluate", qg_run_output(r, 0), b->label[sample],
                       &b->vote[sample]);
}

qg_status qg_executable_vote(const qg_executable *e, const qg_workload *work,
                             const qg_feed *feed, const int64_t *label, int32_t *out)
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

double qg_top1(const int32_t *vote, const int64_t *label, size_t n)
{
    size_t right = 0;
    for (size_t i = 0; i < n; i++)
        right += vote[i] == label[i];
    return n ? (double)right / (double)n : 0;
}

size_t qg_first_without_class(const int32_t *vote, size_t n)
{
    size_t i = 0;
    while (i < n && vote[i] != QG_NO_CLASS)
        i++;
    return i;
}

/* Samples without a class in one of the modes. */
static size_t count_without_class(const votes *v, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        bool any = false;
        for (int mode = 0; mode < QG_NRUN; mode++)
            any = any || (v->of[mode] && v->of[mode][i] == QG_NO_CLASS);
        count += any;
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
                             const int64_t *labels, size_t n, qg_report *r)
{
    static const char *const fact[2][3] = {
        {"simulated_top1", "difference",         "agreement"        },
        { "integer_top1",  "integer_difference", "integer_agreement"}
    };
    const int32_t *real = v->of[QG_RUN_FLOAT], *with = real;
    const size_t lost = count_without_class(v, n);
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(n)));
    if (lost)
        QG_TRY(qg_report_add(r, "nan_samples", qg_cell_count(lost)));
    QG_TRY(qg_report_add(r, "float_top1", qg_cell_percent(qg_top1(real, labels, n))));
    for (int mode = QG_RUN_SIMULATE; mode < QG_NRUN; mode++) {
        if (!v->of[mode])
            continue;
        double top1 = qg_top1(v->of[mode], labels, n);
        double number[3] = { top1, top1 - qg_top1(real, labels, n),
                             agreement(with, v->of[mode], n) };
        for (int i = 0; i < 3; i++)
            QG_TRY(qg_report_add(r, fact[mode - QG_RUN_SIMULATE][i],
                                 qg_cell_percent(number[i])));
        with = v->of[mode];
    }
    return qg_report_program(r, e);
}

static qg_status describe(const qg_executable *e, const votes *v, const int64_t *labels,
                          size_t n, qg_report **out)
{
    qg_report *r;
    QG_TRY(qg_report_new(e->model->ctx, "evaluate", &r));
    return qg_report_end(fill_report(e, v, labels, n, r), r, out);
}

bool qg_labels_fit(size_t given, size_t n, bool cut)
{
    return cut ? given >= n : given == n;
}

qg_status qg_labels_load(qg_ctx *ctx, const char *path, qg_arena *a, size_t n, bool cut,
                         const int64_t **out)
{
    const qg_tensor *t;
    char text[QG_SHAPE_TEXT];
    QG_TRY(qg_npy_load(ctx, a, path, &t));
    enum qg_dtype_kind kind = qg_dtype_kind_of(t->dtype);
    if ((kind != QG_KIND_INT && kind != QG_KIND_UINT) || t->rank != 1 ||
        !qg_labels_fit((size_t)t->dim[0], n, cut))
        return qg_fail(
            ctx, QG_EDATA,
            "labels: %s: is %s, expected one integer for each of %zu samples", path,
            qg_tensor_text(t, text), n);
    int64_t *label = QG_NEWN(a, n, int64_t);
    if (!label)
        return qg_nomem(ctx);
    for (size_t i = 0; i < n; i++) {
        label[i] = qg_tensor_i64(t, (int64_t)i);
        if (t->dtype == QG_U64 && label[i] < 0)
            return qg_fail(ctx, QG_EDATA,
                           "labels: %s: sample %zu: is %" PRIu64
                           ", expected a class of the first output",
                           path, i, (uint64_t)label[i]);
    }
    *out = label;
    return QG_OK;
}

/* From the file, or the labels of the options. */
static qg_status read_labels(qg_ctx *ctx, const qg_run_options *o, const char *path,
                             qg_arena *a, size_t n, const int64_t **out)
{
    if (!o->label == !path)
        return qg_fail(ctx, QG_ECONFIG, "labels: %s, expected a file or an array",
                       path ? "both are given" : "none are given");
    if (path)
        return qg_labels_load(ctx, path, a, n, o->work.samples > 0, out);
    if (!qg_labels_fit(o->n_label, n, o->work.samples > 0))
        return qg_fail(ctx, QG_EDATA,
                       "labels: the array: is int64[%zu], expected one integer for "
                       "each of %zu samples",
                       o->n_label, n);
    *out = o->label;
    return QG_OK;
}

/* Float, simulated when quantized, and integer when it was asked for: e. */
static qg_status run_modes(const qg_executable *e, const qg_run_options *o, qg_arena *a,
                           const qg_api_feed *f, const int64_t *label, votes *v)
{
    QG_TRY(qg_model_warn_clamps(e->model, "evaluate"));
    for (int mode = 0; mode < QG_NRUN; mode++) {
        qg_executable own = { e->model, (qg_run_mode)mode, NULL, e->model->graph };
        if ((mode == QG_RUN_SIMULATE && !e->model->quant) ||
            (mode == QG_RUN_INTEGER && !e->program))
            continue;
        v->of[mode] = QG_NEWN(a, f->feed.n, int32_t);
        if (!v->of[mode])
            return qg_nomem(e->model->ctx);
        QG_TRY(qg_executable_vote(mode == QG_RUN_INTEGER ? e : &own, &o->work, &f->feed,
                                  label, v->of[mode]));
    }
    return QG_OK;
}

/* In the first sample without a class in any mode. */
static qg_status warn_not_finite(const qg_executable *e, const qg_workload *work,
                                 const qg_feed *feed, const votes *v)
{
    size_t first = feed->n;
    for (int mode = 0; mode < QG_NRUN; mode++) {
        size_t k = v->of[mode] ? qg_first_without_class(v->of[mode], feed->n) : feed->n;
        first = k < first ? k : first;
    }
    return qg_model_warn_not_finite(e->model, QG_RUN_SIMULATE, work, feed, first);
}

static qg_status evaluate(const qg_executable *e, const qg_run_options *o,
                          const char *labels, qg_arena *a, qg_report **report)
{
    const int64_t *truth;
    qg_api_feed f = { 0 };
    votes v = { 0 };
    QG_TRY(qg_feed_open(e->model, &o->work, &f));
    qg_status s = read_labels(e->model->ctx, o, labels, a, f.feed.n, &truth);
    if (s == QG_OK)
        s = run_modes(e, o, a, &f, truth, &v);
    if (s == QG_OK)
        s = warn_not_finite(e, &o->work, &f.feed, &v);
    if (s == QG_OK)
        s = describe(e, &v, truth, f.feed.n, report);
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
    qg_arena *a = qg_arena_new(m->ctx->alloc);
    qg_status s = a ? evaluate(&e, &o, labels, a, report) : qg_nomem(m->ctx);
    qg_arena_free(a);
    qg_executable_free(&e);
    return s;
}

/* evaluate.c -- top-1 accuracy, float and simulated, on the same samples. */
#include "engine/session/session.h"

#include "engine/data/npy.h"

/* Predicted classes of both plans; -1: not run. */
typedef struct votes {
    int32_t *floating, *simulated; /* [samples] */
    int32_t *at_work;              /* filled by the current drive */
} votes;

/* The index of the largest element of the first output; the lowest on a tie. */
static int32_t arg_max(const qg_tensor *t)
{
    int64_t n = qg_tensor_count(t);
    int32_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (qg_tensor_f64(t, i) > qg_tensor_f64(t, best))
            best = (int32_t)i;
    return best;
}

/* Samples vote at places of their own. */
static qg_status vote(void *ud, qg_ctx *ctx, void *state, size_t sample,
                      const qg_run *r)
{
    const qg_tensor *y = qg_run_output(r, 0);
    (void)state;
    if (qg_tensor_count(y) < 2)
        return qg_fail(ctx, QG_EDATA,
                       "evaluate: the first output has %lld elements per sample, "
                       "expected one score per class",
                       (long long)qg_tensor_count(y));
    ((votes *)ud)->at_work[sample] = arg_max(y);
    return QG_OK;
}

/* One drive per mode; at_work selects the mode whose votes are counted. */
static qg_status collect(qg_model *m, const qg_run_options *o, const qg_api_feed *f,
                         const char *mode, votes *v)
{
    qg_plan *p = NULL;
    QG_TRY(qg_model_plan(m, mode, o->work.reference_kernels, &f->feed, NULL, &p));
    qg_drive d = { .plan = p,
                   .feed = &f->feed,
                   .n = f->feed.n,
                   .jobs = o->work.jobs,
                   .ud = v,
                   .done = vote,
                   .progress = &o->work.progress,
                   .stage = mode };
    qg_status s = qg_drive_run(m->ctx, &d);
    qg_plan_free(p);
    return s;
}

/* The share of votes that are the label. */
static double share_of(const int32_t *vote, const qg_tensor *labels, size_t n)
{
    size_t right = 0;
    for (size_t i = 0; i < n; i++)
        right += vote[i] == qg_tensor_i64(labels, (int64_t)i);
    return n ? (double)right / (double)n : 0;
}

/* How often both modes give the same class, right or wrong. */
static double agreement(const votes *v, size_t n)
{
    size_t same = 0;
    for (size_t i = 0; i < n; i++)
        same += v->floating[i] == v->simulated[i];
    return n ? (double)same / (double)n : 0;
}

/* Without quantization there is nothing to compare. */
static qg_status fill_report(const qg_model *m, const votes *v, const qg_tensor *labels,
                             size_t n, qg_report *r)
{
    double real = share_of(v->floating, labels, n);
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(n)));
    QG_TRY(qg_report_add(r, "float_top1", qg_cell_percent(real)));
    if (m->quant) {
        double simulated = share_of(v->simulated, labels, n);
        QG_TRY(qg_report_add(r, "simulated_top1", qg_cell_percent(simulated)));
        QG_TRY(qg_report_add(r, "difference", qg_cell_percent(simulated - real)));
        QG_TRY(qg_report_add(r, "agreement", qg_cell_percent(agreement(v, n))));
    }
    return QG_OK;
}

static qg_status describe(qg_model *m, const votes *v, const qg_tensor *labels,
                          size_t n, qg_report **out)
{
    qg_report *r;
    QG_TRY(qg_report_new(m->ctx, "evaluate", &r));
    return qg_report_end(fill_report(m, v, labels, n, r), r, out);
}

/* More labels than samples are fine: --samples may have cut them. */
static qg_status check_labels(qg_ctx *ctx, const char *path, const qg_tensor *t,
                              size_t n)
{
    enum qg_dtype_kind kind = qg_dtype_kind_of(t->dtype);
    char text[QG_SHAPE_TEXT];
    if ((kind == QG_KIND_INT || kind == QG_KIND_UINT) && t->rank == 1 &&
        (size_t)t->dim[0] >= n)
        return QG_OK;
    return qg_fail(ctx, QG_EDATA,
                   "labels: %s: is %s, expected one integer for each of %zu samples",
                   path, qg_tensor_text(t, text), n);
}

/* From the file, or the labels of the options. */
static qg_status read_labels(qg_ctx *ctx, const qg_run_options *o, const char *path,
                             qg_arena *a, const qg_tensor **out)
{
    if (!o->label == !path)
        return qg_fail(ctx, QG_ECONFIG, "labels: %s, expected a file or an array",
                       path ? "both are given" : "none are given");
    if (path)
        return qg_npy_load(ctx, a, path, out);
    qg_tensor *t = QG_NEW(a, qg_tensor);
    if (!t)
        return qg_nomem(ctx);
    qg_tensor_init(t, QG_I64, 1, (const int64_t[]){ (int64_t)o->n_label });
    t->data = (void *)(uintptr_t)o->label; /* only read */
    *out = t;
    return QG_OK;
}

static qg_status evaluate(qg_model *m, const qg_run_options *o, const char *labels,
                          qg_arena *a, const qg_api_feed *f, qg_report **report)
{
    const qg_tensor *truth;
    size_t n = f->feed.n;
    votes v = { QG_NEWN(a, n, int32_t), QG_NEWN(a, n, int32_t), NULL };
    if (!v.floating || !v.simulated)
        return qg_nomem(m->ctx);
    QG_TRY(read_labels(m->ctx, o, labels, a, &truth));
    QG_TRY(check_labels(m->ctx, labels ? labels : "the array", truth, n));
    v.at_work = v.floating;
    QG_TRY(collect(m, o, f, "float", &v));
    v.at_work = v.simulated;
    if (m->quant)
        QG_TRY(collect(m, o, f, "simulate", &v));
    return describe(m, &v, truth, n, report);
}

qg_status qg_model_evaluate(qg_model *m, const qg_run_options *given,
                            const char *labels, qg_report **report)
{
    qg_run_options o;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_run_options, given, &o));
    QG_TRY(qg_workload_check(m->ctx, &o.work));
    qg_api_feed f = { 0 };
    qg_arena *a = qg_arena_new(m->ctx->alloc);
    qg_status s = a ? qg_feed_open(m, &o.work, &f) : qg_nomem(m->ctx);
    if (s == QG_OK)
        s = evaluate(m, &o, labels, a, &f, report);
    qg_feed_close(&f);
    qg_arena_free(a);
    return s;
}

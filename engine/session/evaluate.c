/* evaluate.c -- top-1 accuracy, float beside simulated and integer, on the same
 * samples. */
#include "engine/session/session.h"

#include "engine/data/npy.h"

/* Predicted classes by mode. */
typedef struct votes {
    int32_t *of[QG_NRUN]; /* [samples] NULL: not run */
    int32_t *at_work;     /* filled by the current drive */
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
static qg_status collect(const qg_executable *e, const qg_run_options *o,
                         const qg_api_feed *f, votes *v)
{
    qg_plan *p = NULL;
    QG_TRY(qg_executable_plan(e, o->work.reference_kernels, &f->feed, NULL, &p));
    qg_drive d = { .plan = p,
                   .feed = &f->feed,
                   .n = f->feed.n,
                   .jobs = o->work.jobs,
                   .ud = v,
                   .done = vote,
                   .progress = &o->work.progress,
                   .stage = qg_run_mode_name(e->mode) };
    qg_status s = qg_drive_run(e->model->ctx, &d);
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
static double agreement(const int32_t *a, const int32_t *b, size_t n)
{
    size_t same = 0;
    for (size_t i = 0; i < n; i++)
        same += a[i] == b[i];
    return n ? (double)same / (double)n : 0;
}

/* Integers agree with the simulation they realize, without one with float. */
static qg_status fill_report(const qg_executable *e, const votes *v,
                             const qg_tensor *labels, size_t n, qg_report *r)
{
    static const char *const fact[2][3] = {
        {"simulated_top1", "difference",         "agreement"        },
        { "integer_top1",  "integer_difference", "integer_agreement"}
    };
    const int32_t *real = v->of[QG_RUN_FLOAT], *with = real;
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(n)));
    QG_TRY(qg_report_add(r, "float_top1", qg_cell_percent(share_of(real, labels, n))));
    for (int mode = QG_RUN_SIMULATE; mode < QG_NRUN; mode++) {
        if (!v->of[mode])
            continue;
        double top1 = share_of(v->of[mode], labels, n);
        double number[3] = { top1, top1 - share_of(real, labels, n),
                             agreement(with, v->of[mode], n) };
        for (int i = 0; i < 3; i++)
            QG_TRY(qg_report_add(r, fact[mode - QG_RUN_SIMULATE][i],
                                 qg_cell_percent(number[i])));
        with = v->of[mode];
    }
    return qg_report_program(r, e);
}

static qg_status describe(const qg_executable *e, const votes *v,
                          const qg_tensor *labels, size_t n, qg_report **out)
{
    qg_report *r;
    QG_TRY(qg_report_new(e->model->ctx, "evaluate", &r));
    return qg_report_end(fill_report(e, v, labels, n, r), r, out);
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

/* Float, simulated when quantized, and integer when it was asked for: e. */
static qg_status run_modes(const qg_executable *e, const qg_run_options *o, qg_arena *a,
                           const qg_api_feed *f, votes *v)
{
    for (int mode = 0; mode < QG_NRUN; mode++) {
        qg_executable own = { e->model, (qg_run_mode)mode, NULL, e->model->graph };
        if ((mode == QG_RUN_SIMULATE && !e->model->quant) ||
            (mode == QG_RUN_INTEGER && !e->program))
            continue;
        v->of[mode] = v->at_work = QG_NEWN(a, f->feed.n, int32_t);
        if (!v->at_work)
            return qg_nomem(e->model->ctx);
        QG_TRY(collect(mode == QG_RUN_INTEGER ? e : &own, o, f, v));
    }
    return QG_OK;
}

static qg_status evaluate(const qg_executable *e, const qg_run_options *o,
                          const char *labels, qg_arena *a, qg_report **report)
{
    const qg_tensor *truth;
    qg_api_feed f = { 0 };
    votes v = { 0 };
    QG_TRY(qg_feed_open(e->model, &o->work, &f));
    qg_status s = read_labels(e->model->ctx, o, labels, a, &truth);
    if (s == QG_OK)
        s = check_labels(e->model->ctx, labels ? labels : "the array", truth, f.feed.n);
    if (s == QG_OK)
        s = run_modes(e, o, a, &f, &v);
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

#include "engine/device/correlate.h"

#include <math.h>


/* Correlation from which an array without a known name is taken for a value. */
#define SURE 0.9

/* Pearson's, of the [elements] in x and t in the order of the value.  It does not
 * depend on scale and zero point.  0 when either is constant: no evidence. */
static double correlation(const double *x, const qg_tensor *t)
{
    size_t n = (size_t)qg_tensor_count(t);
    double sx = 0, sy = 0, xx = 0, yy = 0, xy = 0;
    for (size_t i = 0; i < n; i++) {
        double y = qg_tensor_f64(t, (int64_t)i);
        sx += x[i], sy += y;
        xx += x[i] * x[i], yy += y * y, xy += x[i] * y;
    }
    double vx = xx - sx * sx / (double)n, vy = yy - sy * sy / (double)n;
    return vx > 0 && vy > 0 ? (xy - sx * sy / (double)n) / sqrt(vx * vy) : 0;
}

/* The kept values stay in c->run.  Errors of earlier nodes are included, hence SURE is
 * below 1. */
qg_status qg_correlation_open(qg_ctx *ctx, qg_arena *a, qg_correlation *c)
{
    const qg_tensor **in = QG_NEWN(a, c->graph->input.n, const qg_tensor *);
    qg_plan_options p = { .mode = QG_MODE_FLOAT,
                          .input = c->feed->shape,
                          .keep = c->keep,
                          .n_keep = c->n };
    if (!in)
        return qg_nomem(ctx);
    QG_TRY(qg_plan_new(ctx, c->graph, &p, &c->plan));
    QG_TRY(qg_run_new(ctx, c->plan, &c->run));
    QG_TRY(c->feed->fetch(c->feed->ud, ctx, a, 0, in));
    return qg_run_execute(c->run, in, NULL, 0, 0);
}

void qg_correlation_close(qg_correlation *c)
{
    qg_run_free(c->run);
    qg_plan_free(c->plan);
}

qg_status qg_correlation_match(qg_ctx *ctx, const qg_trace *t,
                               const qg_trace_array *array, const qg_correlation *c,
                               qg_pair *best, const qg_value **out)
{
    qg_trace_data data;
    *best = (qg_pair){ .how = "correlation" };
    *out = NULL;
    QG_TRY(qg_trace_load(ctx, t, array, &data));
    qg_status s = QG_OK;
    for (size_t i = 0; i < c->n && s == QG_OK; i++) {
        qg_pair p = { .array = array, .how = "correlation" };
        const qg_tensor *own = qg_run_kept(c->run, i);
        double *x;
        if (c->pair[c->value[i]->id].array || !qg_pair_fits(array, own, &p))
            continue;
        s = qg_pair_read(ctx, &p, &data, 0, data.arena, &x);
        p.confidence = s == QG_OK ? correlation(x, own) : 0;
        if (p.confidence > best->confidence) {
            *best = p;
            *out = c->value[i];
        }
    }
    qg_trace_unload(&data);
    if (best->confidence < SURE)
        *out = NULL;
    return s;
}

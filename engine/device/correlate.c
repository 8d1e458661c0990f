#include "engine/device/correlate.h"

#include <math.h>

double qg_moments_correlation(const qg_moments *m)
{
    double vx = m->xx - m->x * m->x / m->n, vy = m->yy - m->y * m->y / m->n;
    return vx > 0 && vy > 0 ? (m->xy - m->x * m->y / m->n) / sqrt(vx * vy) : 0;
}

/* Of the [elements] in x and t in the order of the value.  It does not depend on scale
 * and zero point. */
static double correlation(const double *x, const qg_tensor *t)
{
    qg_moments m = { 0 };
    for (int64_t i = 0; i < qg_tensor_count(t); i++)
        qg_moments_add(&m, x[i], qg_tensor_f64(t, i));
    return qg_moments_correlation(&m);
}

/* The kept values stay in c->run.  Errors of earlier nodes are included, hence SURE is
 * below 1. */
qg_status qg_correlation_open(qg_ctx *ctx, qg_arena *a, qg_correlation *c)
{
    const qg_tensor **in = QG_NEWN(a, c->graph->input.n, const qg_tensor *);
    qg_plan_options p = {
        .mode = QG_MODE_FLOAT, .input = c->feed->shape, .keep = c->keep, .n_keep = c->n
    };
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

/* p->view and p->confidence of one order; false in *fits: the dims do not fit. */
static qg_status in_order(qg_ctx *ctx, const qg_trace_data *data, const qg_tensor *own,
                          qg_pair_order order, qg_pair *p, bool *fits)
{
    double *x;
    *p = (qg_pair){ .array = data->array, .how = "correlation", .order = order };
    *fits = qg_pair_fits(data->array, own, p);
    if (!*fits)
        return QG_OK;
    QG_TRY(qg_pair_read(ctx, p, data, 0, data->arena, &x));
    p->confidence = correlation(x, own);
    return QG_OK;
}

/* In the model's order, unless only channels-last correlates. */
static qg_status in_best_order(qg_ctx *ctx, const qg_trace_data *data,
                               const qg_tensor *own, qg_pair *p, bool *fits)
{
    qg_pair last;
    bool last_fits;
    QG_TRY(in_order(ctx, data, own, QG_ORDER_FOUND, p, fits));
    if (p->confidence >= QG_CORRELATION_SURE || !qg_pair_is_ambiguous(data->array, own))
        return QG_OK;
    QG_TRY(in_order(ctx, data, own, QG_ORDER_CHANNELS_LAST, &last, &last_fits));
    if (last_fits && last.confidence >= QG_CORRELATION_SURE)
        *p = last;
    return QG_OK;
}

qg_status qg_correlation_of(qg_ctx *ctx, const qg_trace_data *data,
                            const qg_correlation *c, size_t i, qg_pair *p)
{
    bool fits;
    return in_best_order(ctx, data, qg_run_kept(c->run, i), p, &fits);
}

qg_status qg_correlation_order(qg_ctx *ctx, const qg_trace *t, const qg_correlation *c,
                               size_t i, qg_pair *p)
{
    const qg_trace_array *array = p->array;
    const qg_tensor *own = qg_run_kept(c->run, i);
    qg_trace_data data;
    qg_pair best;
    bool fits;
    if (!qg_pair_is_ambiguous(array, own))
        return QG_OK;
    QG_TRY(qg_trace_load(ctx, t, array, &data));
    qg_status s = in_best_order(ctx, &data, own, &best, &fits);
    qg_trace_unload(&data);
    if (s == QG_OK && best.order == QG_ORDER_CHANNELS_LAST) {
        p->order = best.order;
        fits = qg_pair_fits(array, own, p);
    }
    return s;
}

qg_status qg_correlation_distance(qg_ctx *ctx, const qg_trace_data *data,
                                  const qg_correlation *c, size_t i, double *out)
{
    const qg_tensor *own = qg_run_kept(c->run, i);
    const qg_trace_array *array = data->array;
    double *x, apart = 0, all = 0;
    qg_pair p;
    bool fits;
    *out = (double)INFINITY;
    QG_TRY(in_best_order(ctx, data, own, &p, &fits));
    if (!fits)
        return QG_OK;
    *out = 1 - p.confidence * p.confidence;
    bool codes = qg_trace_holds_codes(array);
    if (codes && !array->grid)
        return QG_OK;
    QG_TRY(qg_pair_read(ctx, &p, data, 0, data->arena, &x));
    for (size_t k = 0; k < array->count; k++) {
        double real = codes ? (x[k] - array->zero) * array->scale : x[k];
        double y = qg_tensor_f64(own, (int64_t)k);
        apart += (real - y) * (real - y);
        all += y * y;
    }
    *out = all > 0 ? apart / all : (double)INFINITY;
    return QG_OK;
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
        qg_pair p;
        if (c->pair[c->value[i]->id].array)
            continue;
        s = qg_correlation_of(ctx, &data, c, i, &p);
        if (s != QG_OK)
            break;
        if (p.confidence > best->confidence) {
            *best = p;
            *out = c->value[i];
        }
    }
    qg_trace_unload(&data);
    if (best->confidence < QG_CORRELATION_SURE)
        *out = NULL;
    return s;
}

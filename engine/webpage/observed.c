/* observed.c -- activations over the samples of the page: their distributions in the
 * float network, the ends of the grids on them, how sure the scales are; and elements
 * of one sample, in float and quantized. */
#include <math.h>

#include "engine/calib/calibrate.h"
#include "engine/calib/collect.h"
#include "engine/quant/fake_kernel.h"
#include "engine/webpage/webpage.h"

/* --- distributions --- */

/* Neighbouring bins are added until at most QG_PAGE_BINS remain. */
static qg_status put_histogram(qg_report *r, qg_table *t, const qg_stats_value *v)
{
    uint32_t first, end;
    float count[QG_PAGE_BINS] = { 0 };
    double sum[QG_PAGE_BINS] = { 0 };
    qg_dyadic_span(&v->bins, &first, &end);
    uint32_t each = (end - first + QG_PAGE_BINS - 1) / QG_PAGE_BINS;
    uint32_t rows = each ? (end - first + each - 1) / each : 0;
    for (uint32_t i = first; i < end; i++)
        sum[(i - first) / each] += (double)v->bins.count[i];
    for (uint32_t k = 0; k < rows; k++)
        count[k] = (float)sum[k];
    return qg_table_cells(
        r, t, qg_cell_text(v->name), qg_cell_number(qg_dyadic_edge(&v->bins, first)),
        qg_cell_number(each * ldexp(1, v->bins.exponent)), qg_cell_floats(count, rows));
}

static qg_status histograms(qg_report *r, const qg_stats *s)
{
    qg_table *t;
    QG_TRY(qg_report_table(r, "histograms", "value from width counts", &t));
    for (size_t i = 0; i < s->value.n; i++)
        if (qg_dyadic_total(&s->value.at[i]->bins))
            QG_TRY(put_histogram(r, t, s->value.at[i]));
    return QG_OK;
}

/* --- grids on them --- */

/* The largest and the smallest value of the grid. */
static void ends_of(const qg_scheme *s, const qg_qparam *p, double *low, double *high)
{
    double scale = (double)p->scale[0], offset = p->offset ? p->offset[0] : 0;
    bool floating = s->policy & QG_FLOATING;
    *low = floating ? -qg_floating_top(s) * scale : ((double)s->qmin - offset) * scale;
    *high = floating ? qg_floating_top(s) * scale : ((double)s->qmax - offset) * scale;
}

/* The share of elements in bins that lie outside as a whole: none within half a step
 * of the ends, since bins are narrower than steps (calib/stats.h). */
static double outside(const qg_dyadic *h, double low, double high)
{
    double n = 0, all = (double)qg_dyadic_total(h);
    for (uint32_t i = 0; i < h->bins; i++)
        if (h->count[i] &&
            (qg_dyadic_edge(h, i) > high || qg_dyadic_edge(h, i + 1) < low))
            n += (double)h->count[i];
    return all > 0 ? n / all : 0;
}

/* A row for an activation with one scale. */
static qg_status put_observed(qg_report *r, qg_table *t, const qg_tqc *tqc,
                              const qg_stats *stats)
{
    char at[QG_ENDPOINT_TEXT];
    double low, high;
    qg_confidence sure;
    qg_qparam p = qg_tqc_param(tqc);
    const qg_stats_value *v = qg_stats_find(stats, qg_tqc_value(tqc)->name);
    if (p.n != 1 || !v || !qg_dyadic_total(&v->bins))
        return QG_OK;
    ends_of(&tqc->scheme, &p, &low, &high);
    QG_TRY(qg_calibrate_confidence(r->ctx, tqc, v, &sure));
    QG_TRY(qg_table_cells(
        r, t, qg_cell_text(qg_tqc_text(tqc, at)), qg_cell_text(v->name),
        qg_cell_number(low), qg_cell_number(high),
        qg_cell_percent(outside(&v->bins, low, high)), qg_cell_percent(sure.error)));
    return qg_table_add(
        r, t,
        sure.settled ? qg_cell_count((size_t)qg_stats_samples_in(stats, sure.settled))
                     : (qg_cell){ 0 });
}

static qg_status observed(qg_report *r, const qg_model *m, const qg_stats *stats)
{
    qg_table *t;
    QG_TRY(qg_report_table(r, "observed",
                           "endpoint value low high clipped error settled_after", &t));
    for (size_t i = 0; i < m->quant->tqc.n; i++) {
        const qg_tqc *tqc = m->quant->tqc.at[i];
        if (!qg_tqc_is_constant(tqc) && qg_tqc_rounds(tqc))
            QG_TRY(put_observed(r, t, tqc, stats));
    }
    return histograms(r, stats);
}

static qg_status collect(const qg_model *m, const qg_workload *work,
                         const qg_feed *feed, qg_stats *stats)
{
    qg_collect_run *run;
    qg_collect c = { .graph = m->graph,
                     .feed = feed,
                     .stats = stats,
                     .jobs = work->jobs,
                     .reference = work->reference_kernels,
                     .progress = &work->progress,
                     .stage = "histograms" };
    QG_TRY(qg_collect_values(m->graph, NULL, stats));
    QG_TRY(qg_collect_open(m->ctx, &c, &run));
    qg_status s = qg_collect_samples(m->ctx, run, 0, feed->n);
    qg_collect_close(run);
    return s;
}

/* --- one sample, float and quantized --- */

/* Elements of output 0 of each node. */
typedef struct elements {
    float (*of)[QG_PAGE_VALUES]; /* [nodes] */
    int64_t *count;              /* [nodes] of the tensor; 0: not seen */
} elements;

/* In row-major order of the logical array, whatever its layout. */
static float element(const qg_tensor *x, int64_t i)
{
    int64_t at = 0;
    for (int32_t d = x->rank; d-- > 0; i /= x->dim[d])
        at += i % x->dim[d] * x->stride[d];
    return x->f32[at];
}

/* Called again after the endpoint has rounded: what consumers see stays. */
static qg_status see(void *ud, qg_ctx *ctx, size_t sample, const qg_hook_point *at,
                     qg_tensor *x)
{
    const elements *e = ud;
    uint32_t k = at->endpoint.node->id;
    int64_t n = x->dtype == QG_F32 ? qg_tensor_count(x) : 0;
    (void)ctx, (void)sample;
    if (!at->endpoint.is_output || at->endpoint.slot != 0 || n < 1)
        return QG_OK;
    e->count[k] = n;
    for (int64_t i = 0; i < QG_PAGE_VALUES && i < n; i++)
        e->of[k][i] = element(x, n > QG_PAGE_VALUES ? i * n / QG_PAGE_VALUES : i);
    return QG_OK;
}

/* size: elements of each value of the network, [values]; inputs have no endpoint. */
static qg_status see_size(void *ud, qg_ctx *ctx, size_t sample, const qg_hook_point *at,
                          qg_tensor *x)
{
    int64_t *size = ud;
    const qg_endpoint *e = &at->endpoint;
    (void)ctx, (void)sample;
    if (e->is_output)
        size[e->node->out[e->slot]->id] = qg_tensor_count(x);
    return QG_OK;
}

static void see_inputs(const qg_graph *g, const qg_tensor *const *in, int64_t *size)
{
    for (size_t i = 0; i < g->input.n; i++)
        size[g->input.at[i]->id] = in[i] ? qg_tensor_count(in[i]) : 0;
}

/* One run of the first sample; sizes: of inputs, NULL: not wanted. */
typedef struct visit {
    qg_run_mode mode;
    qg_hook hook; /* at all nodes */
    int64_t *sizes;
} visit;

static qg_status run_once(qg_model *m, const qg_plan *p, const qg_feed *feed,
                          const visit *v)
{
    qg_run *run = NULL;
    qg_arena *a = qg_arena_new(m->ctx->alloc);
    const qg_tensor **in = a ? QG_NEWN(a, m->graph->input.n, const qg_tensor *) : NULL;
    qg_status s = in ? feed->fetch(feed->ud, m->ctx, a, 0, in) : qg_nomem(m->ctx);
    if (s == QG_OK && v->sizes)
        see_inputs(m->graph, in, v->sizes);
    if (s == QG_OK)
        s = qg_run_new(m->ctx, p, &run);
    if (s == QG_OK)
        s = qg_run_execute(run, in, &v->hook, 1, 0);
    qg_run_free(run);
    qg_arena_free(a);
    return s;
}

static qg_status watch_all(qg_model *m, const qg_workload *work, const qg_feed *feed,
                           qg_arena *a, const visit *v)
{
    size_t n = m->graph->node.n;
    qg_plan *p = NULL;
    uint8_t *watch = QG_NEWN(a, n, uint8_t);
    if (!watch)
        return qg_nomem(m->ctx);
    memset(watch, 1, n);
    QG_TRY(qg_model_plan(m, v->mode, work, feed, watch, &p));
    qg_status s = run_once(m, p, feed, v);
    qg_plan_free(p);
    return s;
}

static qg_status see_all(qg_model *m, qg_run_mode mode, const qg_workload *work,
                         const qg_feed *feed, qg_arena *a, elements *e)
{
    size_t n = m->graph->node.n;
    e->of = qg_arena_raw(a, n, sizeof *e->of);
    e->count = QG_NEWN(a, n, int64_t);
    if (!e->of || !e->count)
        return qg_nomem(m->ctx);
    return watch_all(m, work, feed, a,
                     &(visit){
                         mode, {see, e},
                          NULL
    });
}

qg_status qg_page_sizes(qg_model *m, const qg_workload *work, const qg_feed *feed,
                        int64_t *size)
{
    visit v = {
        QG_RUN_FLOAT, {see_size, size},
         size
    };
    qg_arena *a = qg_arena_new(m->ctx->alloc);
    qg_status s = a ? watch_all(m, work, feed, a, &v) : qg_nomem(m->ctx);
    qg_arena_free(a);
    return s;
}

static qg_status put_elements(qg_report *r, const qg_model *m, const elements *real,
                              const elements *rounded)
{
    char at[QG_ENDPOINT_TEXT];
    qg_table *t;
    QG_TRY(qg_report_table(r, "values", "endpoint elements float quantized", &t));
    for (size_t i = 0; i < m->graph->node.n; i++) {
        const qg_node *n = m->graph->node.at[i];
        int64_t count = real->count[i];
        size_t shown = (size_t)(count < QG_PAGE_VALUES ? count : QG_PAGE_VALUES);
        if (count == 0 || rounded->count[i] != count)
            continue;
        QG_TRY(qg_table_cells(
            r, t, qg_cell_text(qg_endpoint_text(qg_output_at(n, 0), at)),
            qg_cell_count((size_t)count), qg_cell_floats(real->of[i], shown),
            qg_cell_floats(rounded->of[i], shown)));
    }
    return QG_OK;
}

static qg_status values(qg_report *r, qg_model *m, const qg_workload *work,
                        const qg_feed *feed)
{
    elements real, rounded;
    qg_arena *a = qg_arena_new(m->ctx->alloc);
    qg_status s = a ? see_all(m, QG_RUN_FLOAT, work, feed, a, &real) : qg_nomem(m->ctx);
    if (s == QG_OK)
        s = see_all(m, QG_RUN_SIMULATE, work, feed, a, &rounded);
    if (s == QG_OK)
        s = put_elements(r, m, &real, &rounded);
    qg_arena_free(a);
    return s;
}

qg_status qg_page_observe(qg_report *r, qg_model *m, const qg_workload *work,
                          const qg_feed *feed)
{
    qg_stats *stats = NULL;
    QG_TRY(qg_stats_new(m->ctx, &stats));
    qg_status s = collect(m, work, feed, stats);
    if (s == QG_OK)
        s = observed(r, m, stats);
    qg_stats_free(stats);
    return s == QG_OK ? values(r, m, work, feed) : s;
}

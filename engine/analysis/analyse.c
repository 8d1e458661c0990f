/* analyse.c -- where the error comes from.
 *
 *     graph  error of every output, all endpoints rounding
 *     layer  error at the output of every compute node, all endpoints rounding: it
 *            accumulates over layers (PPQ: graphwise_error_analyse)
 *     cause  the shares of causes in the error of an output: causes.h
 *
 * The error of the outputs while only one node is quantized (PPQ:
 * layerwise_error_analyse) is in sensitivity.c.
 * A metric is taken per sample and averaged over samples in order of index, as PPQ does
 * (docs/evidence/ppq-behaviour.md#metrics); the result does not depend on workers. */
#include "engine/session/session.h"
#include "engine/exec/meter.h"
#include "engine/exec/pool.h"
#include "engine/analysis/causes.h"
#include "engine/analysis/integers.h"
#include "engine/analysis/measure.h"

#include <math.h>
#include <stdlib.h>

QG_OPTIONS_INIT(qg_analyse_options)

/* One row of the table. */
typedef struct subject {
    const char *name, *what;
    double sum;   /* of the metric over samples */
    double worse; /* the same, larger where it is worse */
} subject;

typedef struct study {
    qg_model *m;
    const qg_analyse_options *o;
    const qg_metric *metric;
    qg_api_feed feed;
    qg_arena *arena;
    QG_VEC(subject) subject;
    double *value;         /* [samples][columns] while a drive runs */
    size_t columns;        /* outputs, or subjects */
    qg_measured at;        /* by graph */
    qg_arena **kept;       /* [samples] memory of golden */
    qg_tensor *golden;     /* [samples * outputs] float outputs */
    const qg_tensor *type; /* [values] of qg_measured_types, by layer */
    uint8_t *watch;        /* [nodes] */
} study;

/* --- float outputs, kept once --- */

/* Each sample has a place and memory of its own, since shapes may differ: no lock. */
static qg_status keep_outputs(void *ud, qg_ctx *ctx, void *state, size_t sample,
                              const qg_run *r)
{
    study *s = ud;
    size_t n = s->m->graph->output.n;
    (void)state;
    s->kept[sample] = qg_arena_new(ctx->alloc);
    if (!s->kept[sample])
        return qg_nomem(ctx);
    for (size_t i = 0; i < n; i++) {
        const qg_tensor *y = qg_run_output(r, i);
        qg_tensor *kept = &s->golden[sample * n + i];
        qg_tensor_init(kept, y->dtype, y->rank, y->dim);
        QG_TRY(qg_tensor_alloc(ctx, s->kept[sample], kept));
        qg_tensor_copy(y, kept);
    }
    return QG_OK;
}

/* Runs all samples through one plan; `done` processes the results. */
static qg_status drive(study *s, const qg_plan *p, const char *stage,
                       qg_status (*done)(void *, qg_ctx *, void *, size_t,
                                         const qg_run *))
{
    qg_drive d = { .plan = p,
                   .feed = &s->feed.feed,
                   .n = s->feed.feed.n,
                   .jobs = s->o->work.jobs,
                   .ud = s,
                   .done = done,
                   .progress = &s->o->work.progress,
                   .stage = stage };
    return qg_drive_run(s->m->ctx, &d);
}

static qg_status run_float(study *s)
{
    qg_plan *p = NULL;
    size_t n = s->m->graph->output.n, samples = s->feed.feed.n;
    s->golden = QG_NEWN(s->arena, n * samples, qg_tensor);
    s->kept = QG_NEWN(s->arena, samples, qg_arena *);
    if (!s->golden || !s->kept)
        return qg_nomem(s->m->ctx);
    QG_TRY(qg_model_plan(s->m, QG_RUN_FLOAT, &s->o->work, &s->feed.feed, NULL, &p));
    qg_status st = drive(s, p, "float", keep_outputs);
    qg_plan_free(p);
    return st;
}

/* --- by graph: one subject per output --- */

/* Values per sample first, sums later: the order of summation must not depend on
 * workers. */
static qg_status measure_outputs(void *ud, qg_ctx *ctx, void *state, size_t sample,
                                 const qg_run *r)
{
    study *s = ud;
    size_t n = s->m->graph->output.n;
    (void)state;
    for (size_t i = 0; i < n; i++)
        QG_TRY(qg_measure_value(ctx, s->metric, s->m->graph->output.at[i],
                                &s->golden[sample * n + i], qg_run_output(r, i),
                                &s->value[sample * n + i]));
    return QG_OK;
}

static qg_status add_subject(study *s, const char *name, const char *what)
{
    return qg_vec_push(s->m->ctx, s->arena, &s->subject, (subject){ name, what, 0, 0 });
}

/* Reused by one simulation after the other. */
static qg_status room_for(study *s, size_t n)
{
    s->columns = n;
    s->value = QG_NEWN(s->arena, n * s->feed.feed.n, double);
    return s->value ? QG_OK : qg_nomem(s->m->ctx);
}

/* All quantizers are active; the float outputs exist already. */
static qg_status simulate(study *s)
{
    qg_plan *p = NULL;
    QG_TRY(qg_model_plan(s->m, QG_RUN_SIMULATE, &s->o->work, &s->feed.feed, NULL, &p));
    qg_status st = drive(s, p, "simulate", measure_outputs);
    qg_plan_free(p);
    return st;
}

/* One simulation, all endpoints rounding. */
static qg_status by_graph(study *s)
{
    const qg_graph *g = s->m->graph;
    const size_t n = g->output.n;
    QG_TRY(run_float(s));
    QG_TRY(room_for(s, n));
    QG_TRY(simulate(s));
    for (size_t i = 0; i < n; i++) {
        char shape[QG_SHAPE_TEXT];
        const qg_value *v = g->output.at[i];
        const char *what = qg_arena_strdup(s->arena, qg_tensor_text(&v->type, shape));
        if (!what)
            return qg_nomem(s->m->ctx);
        QG_TRY(add_subject(s, v->name, what));
        for (size_t k = 0; k < s->feed.feed.n; k++)
            s->subject.at[s->subject.n - 1].sum += s->value[k * n + i];
    }
    return QG_OK;
}

/* --- by layer: both plans on the same sample, node by node --- */

/* State of a worker: the float output of every subject for the current sample. */
typedef struct layers {
    study *s;
    const qg_plan *real, *rounded;
    const uint32_t *index; /* [nodes] subject plus one */
    qg_meter meter;
} layers;

typedef struct layer_worker {
    const layers *l;
    qg_arena *sample;
    qg_run *real, *rounded;
    const qg_tensor **in;
    qg_tensor *kept; /* [subjects] plain float outputs, in the arena of the sample */
} layer_worker;

static qg_status make_buffers(qg_ctx *ctx, layer_worker *w)
{
    w->kept = QG_NEWN(ctx->arena, w->l->s->subject.n, qg_tensor);
    w->in = QG_NEWN(ctx->arena, w->l->s->m->graph->input.n, const qg_tensor *);
    return w->kept && w->in ? QG_OK : qg_nomem(ctx);
}

/* Two run contexts over two plans, float and simulated. */
static qg_status begin_layers(void *ud, qg_ctx *ctx, void **state)
{
    layer_worker *w = QG_NEW(ctx->arena, layer_worker);
    if (!w)
        return qg_nomem(ctx);
    *state = w;
    w->l = ud;
    w->sample = qg_arena_new(ctx->alloc);
    if (!w->sample)
        return qg_nomem(ctx);
    QG_TRY(make_buffers(ctx, w));
    QG_TRY(qg_run_new(ctx, w->l->real, &w->real));
    return qg_run_new(ctx, w->l->rounded, &w->rounded);
}

static void end_layers(void *ud, void *state)
{
    layer_worker *w = state;
    (void)ud;
    qg_run_free(w->real);
    qg_run_free(w->rounded);
    qg_arena_free(w->sample);
}

/* A copy of a value in any layout: plain, in the arena of the sample, which keeps its
 * memory for the next one. */
static qg_status copy_plain(layer_worker *w, qg_ctx *ctx, const qg_tensor *value,
                            qg_tensor *out)
{
    qg_tensor_init(out, value->dtype, value->rank, value->dim);
    QG_TRY(qg_tensor_alloc(ctx, w->sample, out));
    qg_tensor_copy(value, out);
    return QG_OK;
}

/* The hook of the float run. */
static qg_status keep_layer(void *ud, qg_ctx *ctx, size_t sample,
                            const qg_hook_point *at, qg_tensor *value)
{
    layer_worker *w = ud;
    uint32_t k = w->l->index[at->endpoint.node->id];
    (void)sample;
    return k && at->endpoint.is_output && at->endpoint.slot == 0
               ? copy_plain(w, ctx, value, &w->kept[k - 1])
               : QG_OK;
}

/* The value that consumers see: quantized where the endpoint is. */
static qg_status measure_layer(void *ud, qg_ctx *ctx, size_t sample,
                               const qg_hook_point *at, qg_tensor *value)
{
    layer_worker *w = ud;
    study *s = w->l->s;
    uint32_t k = w->l->index[at->endpoint.node->id];
    bool later = at->tqc && qg_tqc_rounds(at->tqc) && !at->rounded;
    qg_tensor plain;
    if (!k || !at->endpoint.is_output || at->endpoint.slot != 0 || later)
        return QG_OK;
    QG_TRY(copy_plain(w, ctx, value, &plain));
    return qg_measure_value(ctx, s->metric, at->endpoint.node->out[0], &w->kept[k - 1],
                            &plain, &s->value[sample * s->subject.n + k - 1]);
}

/* Both plans on the same sample: the float outputs of one sample are all that is
 * kept. */
static qg_status work_layers(void *ud, qg_ctx *ctx, void *state, size_t sample)
{
    layer_worker *w = state;
    study *s = ((layers *)ud)->s;
    qg_hook keep = { keep_layer, w }, compare = { measure_layer, w };
    qg_arena_reset(w->sample);
    QG_TRY(s->feed.feed.fetch(s->feed.feed.ud, ctx, w->sample, sample, w->in));
    QG_TRY(qg_run_execute(w->real, w->in, &keep, 1, sample));
    QG_TRY(qg_run_execute(w->rounded, w->in, &compare, 1, sample));
    return qg_meter_add(&((layers *)ud)->meter, ctx, 1);
}

/* Quantized compute nodes, as in PPQ. */
static bool is_layer(const study *s, const qg_node *n)
{
    return n->platform == QG_PLATFORM_QUANTIZED && qg_node_has(n, QG_OP_COMPUTE) &&
           n->out[0] && s->type[n->out[0]->id].dtype == QG_F32;
}

/* A layer behind a choice by data, which rounding changes. */
static qg_status leave_out(study *s, const qg_node *n)
{
    const char **list = &s->at.not_measured;
    *list = qg_arena_printf(s->arena, "%s%s%.1000s", *list ? *list : "",
                            *list ? ", " : "", n->name);
    return *list ? QG_OK : qg_nomem(s->m->ctx);
}

/* The index is one more than the subject's position, so that zero means none. */
static qg_status choose_layers(study *s, uint32_t **index)
{
    const qg_graph *g = s->m->graph;
    qg_tensor *type;
    const qg_tensor **known;
    QG_TRY(qg_measured_types(g, &s->feed.feed, s->arena, &type, &known));
    s->type = type;
    *index = QG_NEWN(s->arena, g->node.n, uint32_t);
    s->watch = QG_NEWN(s->arena, g->node.n, uint8_t);
    if (!*index || !s->watch)
        return qg_nomem(s->m->ctx);
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        if (!is_layer(s, n))
            continue;
        if (!qg_tensor_known(&s->type[n->out[0]->id])) {
            QG_TRY(leave_out(s, n));
            continue;
        }
        QG_TRY(add_subject(s, n->name, n->op->name));
        (*index)[i] = (uint32_t)s->subject.n;
        s->watch[i] = 1;
    }
    if (s->at.not_measured)
        qg_warn(s->m->ctx,
                "analyse: layers that are not measured: %.2000s: expected shapes that "
                "follow from those of the inputs",
                s->at.not_measured);
    return QG_OK;
}

/* Goes to the pool directly, because a drive runs one plan. */
static qg_status by_layer(study *s)
{
    qg_ctx *ctx = s->m->ctx;
    qg_plan *real = NULL, *rounded = NULL;
    uint32_t *index;
    QG_TRY(choose_layers(s, &index));
    QG_TRY(room_for(s, s->subject.n));
    const qg_feed *feed = &s->feed.feed;
    qg_status st =
        qg_model_plan(s->m, QG_RUN_FLOAT, &s->o->work, feed, s->watch, &real);
    if (st == QG_OK)
        st =
            qg_model_plan(s->m, QG_RUN_SIMULATE, &s->o->work, feed, s->watch, &rounded);
    layers l = { .s = s, .real = real, .rounded = rounded, .index = index };
    qg_job job = { .n = s->feed.feed.n,
                   .workers = s->o->work.jobs,
                   .begin = begin_layers,
                   .work = work_layers,
                   .end = end_layers,
                   .ud = &l,
                   .meter = &l.meter };
    qg_meter_begin(&l.meter, &s->o->work.progress, "layer", s->feed.feed.n);
    if (st == QG_OK)
        st = qg_pool_run(ctx, &job);
    qg_meter_end(&l.meter);
    qg_plan_free(real);
    qg_plan_free(rounded);
    if (st == QG_OK)
        for (size_t i = 0, n = s->subject.n; i < n * s->feed.feed.n; i++)
            s->subject.at[i % n].sum += s->value[i];
    return st;
}

/* --- the report --- */

/* Worst first, NaN last; ties by position: the order of rows is a function of the
 * model.  `worse` grows with the harm. */
static int worst_first(const void *a, const void *b)
{
    const subject *x = *(const subject *const *)a, *y = *(const subject *const *)b;
    if (isnan(x->worse) != isnan(y->worse))
        return isnan(x->worse) ? 1 : -1;
    if (x->worse != y->worse && !isnan(x->worse))
        return x->worse < y->worse ? 1 : -1;
    return (x > y) - (x < y);
}

/* Worst first, but outputs of the graph in their order. */
static qg_status sorted(study *s, bool keep_order, const subject ***out)
{
    size_t n = s->subject.n;
    const subject **row = QG_NEWN(s->arena, n, const subject *);
    if (!row)
        return qg_nomem(s->m->ctx);
    for (size_t i = 0; i < n; i++) {
        subject *x = &s->subject.at[i];
        x->worse = s->metric->higher_is_better ? -x->sum : x->sum;
        row[i] = x;
    }
    if (!keep_order)
        qsort(row, n, sizeof *row, worst_first);
    *out = row;
    return QG_OK;
}

/* Signal-to-noise is shown as a share as well as in decibels. */
static qg_status fill_report(study *s, const char *by, qg_report *r)
{
    const subject **row;
    qg_table *t;
    size_t samples = s->feed.feed.n, strange = 0;
    QG_TRY(sorted(s, strcmp(by, "graph") == 0, &row));
    QG_TRY(qg_report_add(r, "by", qg_cell_text(by)));
    QG_TRY(qg_report_metric(r, s->metric));
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(samples)));
    QG_TRY(qg_measured_report(&s->at, r));
    for (size_t i = 0; i < s->subject.n; i++)
        strange += !isfinite(s->subject.at[i].sum);
    QG_TRY(qg_report_not_finite(r, strange));
    QG_TRY(qg_report_table(r, "errors", "name what error", &t));
    for (size_t i = 0; i < s->subject.n && (!s->o->top || i < s->o->top); i++) {
        double mean = row[i]->sum / (double)samples;
        QG_TRY(qg_table_cells(r, t, qg_cell_text(row[i]->name),
                              qg_cell_text(row[i]->what),
                              qg_measure_cell(s->metric, mean)));
    }
    return QG_OK;
}

static qg_status describe(study *s, const char *by, qg_report **out)
{
    qg_report *r;
    QG_TRY(qg_report_new(s->m->ctx, "analyse", &r));
    return qg_report_end(fill_report(s, by, r), r, out);
}

/* Before the study, as far as that is little work. */
static qg_status search_not_finite(study *s, bool *found)
{
    qg_strange strange;
    qg_finite_request r = { .mode = QG_RUN_SIMULATE,
                            .feed = &s->feed.feed,
                            .least = QG_LEAST_EXAMINED,
                            .reference = s->o->work.reference_kernels,
                            .progress = &s->o->work.progress };
    QG_TRY(qg_model_strange(s->m, &r, s->m->graph->arena, &strange));
    *found = strange.not_finite != NULL;
    if (*found)
        qg_model_warn_found(s->m, "", strange.not_finite);
    return QG_OK;
}

/* Afterwards in the sample that shows it. */
static qg_status warn_not_finite(study *s, bool found)
{
    const size_t sample = qg_first_not_finite(s->value, s->feed.feed.n, s->columns);
    return found || sample == s->feed.feed.n
               ? QG_OK
               : qg_model_warn_not_finite(s->m, QG_RUN_SIMULATE, &s->o->work,
                                          &s->feed.feed, sample);
}

/* The words of --by. */
static qg_status study_by(study *s, const char *by)
{
    if (strcmp(by, "graph") == 0) {
        QG_TRY(
            qg_measured_find(s->m->graph, &s->feed.feed, "analyse", s->arena, &s->at));
        qg_measured_begin(&s->at);
        qg_status st = by_graph(s);
        qg_measured_end(&s->at);
        return st;
    }
    if (strcmp(by, "layer") == 0)
        return by_layer(s);
    return qg_fail(s->m->ctx, QG_ECONFIG,
                   "analyse by '%s': expected graph, layer or cause", by);
}

qg_status qg_model_analyse(qg_model *m, const qg_analyse_options *given,
                           qg_report **report)
{
    qg_analyse_options o;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_analyse_options, given, &o));
    QG_TRY(qg_workload_check(m->ctx, &o.work));
    const char *by = o.by ? o.by : "graph";
    study s = { .m = m, .o = &o };
    QG_TRY(qg_model_expect_quantized(m, "analyse"));
    QG_TRY(qg_model_warn_share(m, "analyse"));
    QG_TRY(qg_model_warn_clamps(m, "analyse"));
    QG_TRY(qg_measure_by(m->ctx, o.metric, &s.metric));
    if (o.mode && strcmp(o.mode, qg_run_mode_name(QG_RUN_INTEGER)) == 0)
        return qg_analyse_integers(m, &o, s.metric, report);
    if (o.mode && strcmp(o.mode, qg_run_mode_name(QG_RUN_SIMULATE)) != 0)
        return qg_fail(m->ctx, QG_ECONFIG,
                       "analyse: mode '%s': expected simulate or integer", o.mode);
    if (o.profile)
        return qg_fail(m->ctx, QG_ECONFIG,
                       "analyse: profile '%s': mode is simulate, expected integer",
                       o.profile);
    if (strcmp(by, "cause") == 0)
        return qg_analyse_causes(m, &o, s.metric, report);
    s.arena = qg_arena_new(m->ctx->alloc);
    qg_status st = s.arena ? qg_feed_open(m, &o.work, &s.feed) : qg_nomem(m->ctx);
    bool found = false;
    if (st == QG_OK)
        st = search_not_finite(&s, &found);
    if (st == QG_OK)
        st = study_by(&s, by);
    if (st == QG_OK)
        st = warn_not_finite(&s, found);
    if (st == QG_OK)
        st = describe(&s, by, report);
    for (size_t i = 0; s.kept && i < s.feed.feed.n; i++)
        qg_arena_free(s.kept[i]);
    qg_feed_close(&s.feed);
    qg_arena_free(s.arena);
    return st;
}

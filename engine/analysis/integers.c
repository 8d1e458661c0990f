#include "engine/analysis/integers.h"

#include <math.h>
#include <string.h>

#include "engine/analysis/measure.h"
#include "engine/exec/meter.h"
#include "engine/exec/pool.h"
#include "engine/session/session.h"

/* Of one value and sample, integers against the simulation, in steps. */
typedef struct steps {
    uint64_t differ, beyond; /* elements at least one step, and more than one, apart */
    double most;
} steps;

/* A value of the model that the program stores as codes. */
typedef struct stored_value {
    const qg_value *value;
    const qg_stored *grid;
} stored_value;

enum { ERRORS = 3 }; /* of an output: simulation, integers; integers from simulation */

typedef struct study {
    qg_model *m;
    const qg_analyse_options *o;
    const qg_metric *metric;
    bool by_layer;
    qg_arena *arena;
    qg_api_feed feed;
    qg_measured at;
    qg_executable exe[QG_NRUN];
    qg_plan *plan[QG_NRUN];
    uint32_t
        *keep[QG_NRUN];  /* [n_value] ids in the graphs of simulation and integers */
    stored_value *value; /* [n_value] */
    size_t n_value;
    steps *found;  /* [samples][n_value] */
    double *error; /* [samples][outputs][ERRORS] */
    qg_meter meter;
} study;

/* --- one sample --- */

typedef struct worker {
    study *s;
    qg_arena *sample;
    qg_run *run[QG_NRUN];
    const qg_tensor **in;
} worker;

static qg_status begin(void *ud, qg_ctx *ctx, void **state)
{
    study *s = ud;
    worker *w = QG_NEW(ctx->arena, worker);
    if (!w)
        return qg_nomem(ctx);
    *state = w;
    w->s = s;
    w->sample = qg_arena_new(ctx->alloc);
    w->in = QG_NEWN(ctx->arena, s->m->graph->input.n, const qg_tensor *);
    if (!w->sample || !w->in)
        return qg_nomem(ctx);
    for (int mode = 0; mode < QG_NRUN; mode++)
        QG_TRY(qg_run_new(ctx, s->plan[mode], &w->run[mode]));
    return QG_OK;
}

static void end(void *ud, void *state)
{
    worker *w = state;
    (void)ud;
    for (int mode = 0; mode < QG_NRUN; mode++)
        qg_run_free(w->run[mode]);
    qg_arena_free(w->sample);
}

/* x: simulated values; q: codes. */
static steps compare(const qg_stored *grid, const qg_tensor *x, const qg_tensor *q)
{
    steps found = { 0, 0, 0 };
    for (int64_t i = 0; i < qg_tensor_count(x); i++) {
        double simulated = (double)x->f32[i] / (double)grid->scale[0];
        double apart = fabs((double)(qg_tensor_i64(q, i) - grid->zero[0]) - simulated);
        found.differ += apart > 0.999;
        found.beyond += apart > 1.999;
        found.most = fmax(found.most, apart);
    }
    return found;
}

static qg_status measure_outputs(const worker *w, qg_ctx *ctx, size_t sample)
{
    const study *s = w->s;
    size_t n = s->m->graph->output.n;
    for (size_t i = 0; i < n; i++) {
        const qg_tensor *real = qg_run_output(w->run[QG_RUN_FLOAT], i);
        const qg_tensor *simulated = qg_run_output(w->run[QG_RUN_SIMULATE], i);
        const qg_tensor *integer = qg_run_output(w->run[QG_RUN_INTEGER], i);
        const qg_value *v = s->m->graph->output.at[i];
        double *error = s->error + (sample * n + i) * ERRORS;
        QG_TRY(qg_measure_value(ctx, s->metric, v, real, simulated, &error[0]));
        QG_TRY(qg_measure_value(ctx, s->metric, v, real, integer, &error[1]));
        QG_TRY(qg_measure_value(ctx, s->metric, v, simulated, integer, &error[2]));
    }
    return QG_OK;
}

static qg_status work(void *ud, qg_ctx *ctx, void *state, size_t sample)
{
    worker *w = state;
    study *s = ud;
    const qg_feed *feed = &s->feed.feed;
    qg_arena_reset(w->sample);
    QG_TRY(feed->fetch(feed->ud, ctx, w->sample, sample, w->in));
    for (int mode = 0; mode < QG_NRUN; mode++)
        QG_TRY(qg_run_execute(w->run[mode], w->in, NULL, 0, sample));
    for (size_t k = 0; k < s->n_value; k++)
        s->found[sample * s->n_value + k] =
            compare(s->value[k].grid, qg_run_kept(w->run[QG_RUN_SIMULATE], k),
                    qg_run_kept(w->run[QG_RUN_INTEGER], k));
    if (!s->by_layer)
        QG_TRY(measure_outputs(w, ctx, sample));
    return qg_meter_add(&s->meter, ctx, 1);
}

/* --- plans --- */

/* Values with codes that a node computes, once each. */
static qg_status choose_values(study *s)
{
    const qg_graph *g = s->m->graph;
    const qg_program *p = s->exe[QG_RUN_INTEGER].program;
    s->value = QG_NEWN(s->arena, g->value.n, stored_value);
    for (int mode = 0; mode < QG_NRUN; mode++)
        if (!(s->keep[mode] = QG_NEWN(s->arena, g->value.n, uint32_t)))
            return qg_nomem(s->m->ctx);
    if (!s->value)
        return qg_nomem(s->m->ctx);
    for (size_t i = 0; s->by_layer && i < g->value.n; i++) {
        const qg_value *v = g->value.at[i], *codes = p->value[i];
        if (!v->def || !codes || !codes->def || !p->stored[i].codes ||
            p->stored[i].n != 1)
            continue;
        s->keep[QG_RUN_SIMULATE][s->n_value] = v->id;
        s->keep[QG_RUN_INTEGER][s->n_value] = codes->id;
        s->value[s->n_value++] = (stored_value){ v, &p->stored[i] };
    }
    return QG_OK;
}

static qg_status make_plan(study *s, qg_run_mode mode)
{
    bool simulate = mode == QG_RUN_SIMULATE;
    qg_plan_options o = { .mode = simulate ? QG_MODE_SIMULATE : QG_MODE_FLOAT,
                          .quant = mode == QG_RUN_INTEGER ? NULL : s->m->quant,
                          .input = s->feed.feed.shape,
                          .keep = s->keep[mode],
                          .n_keep = mode == QG_RUN_FLOAT ? 0 : s->n_value,
                          .reference = s->o->work.reference_kernels };
    return qg_plan_new(s->m->ctx, s->exe[mode].graph, &o, &s->plan[mode]);
}

static qg_status prepare(study *s)
{
    const qg_graph *g = s->m->graph;
    QG_TRY(qg_feed_open(s->m, &s->o->work, &s->feed));
    if (!s->by_layer)
        QG_TRY(
            qg_measured_find(s->m->graph, &s->feed.feed, "analyse", s->arena, &s->at));
    qg_measured_begin(&s->at);
    qg_mode_request request = { .profile = s->o->profile };
    for (int mode = 0; mode < QG_NRUN; mode++) {
        request.mode = qg_run_mode_name((qg_run_mode)mode);
        request.profile = mode == QG_RUN_INTEGER ? s->o->profile : NULL;
        QG_TRY(qg_executable_make(s->m, &request, &s->exe[mode]));
    }
    QG_TRY(choose_values(s));
    for (int mode = 0; mode < QG_NRUN; mode++)
        QG_TRY(make_plan(s, (qg_run_mode)mode));
    size_t samples = s->feed.feed.n;
    s->found = QG_NEWN(s->arena, samples * s->n_value, steps);
    s->error = QG_NEWN(s->arena, samples * g->output.n * ERRORS, double);
    return s->found && s->error ? QG_OK : qg_nomem(s->m->ctx);
}

static qg_status run(study *s)
{
    qg_job job = { .n = s->feed.feed.n,
                   .workers = s->o->work.jobs,
                   .begin = begin,
                   .work = work,
                   .end = end,
                   .ud = s,
                   .meter = &s->meter };
    qg_meter_begin(&s->meter, &s->o->work.progress, "integer", s->feed.feed.n);
    qg_status status = qg_pool_run(s->m->ctx, &job);
    qg_meter_end(&s->meter);
    return status;
}

/* --- the report --- */

static qg_status report_outputs(const study *s, qg_report *r)
{
    const qg_graph *g = s->m->graph;
    size_t samples = s->feed.feed.n;
    qg_table *t;
    QG_TRY(qg_report_table(r, "errors", "name what simulated integer apart", &t));
    for (size_t i = 0; i < g->output.n; i++) {
        char shape[QG_SHAPE_TEXT];
        double mean[ERRORS] = { 0 };
        for (size_t k = 0; k < samples; k++)
            for (int e = 0; e < ERRORS; e++)
                mean[e] += s->error[(k * g->output.n + i) * ERRORS + (size_t)e] /
                           (double)samples;
        QG_TRY(qg_table_cells(
            r, t, qg_cell_text(g->output.at[i]->name),
            qg_cell_text(qg_tensor_text(&g->output.at[i]->type, shape)),
            qg_measure_cell(s->metric, mean[0]), qg_measure_cell(s->metric, mean[1]),
            qg_measure_cell(s->metric, mean[2])));
    }
    return QG_OK;
}

static steps total(const study *s, size_t value)
{
    steps all = { 0, 0, 0 };
    for (size_t k = 0; k < s->feed.feed.n; k++) {
        const steps *one = &s->found[k * s->n_value + value];
        all.differ += one->differ;
        all.beyond += one->beyond;
        all.most = fmax(all.most, one->most);
    }
    return all;
}

/* Values that differ, in the order of the graph. */
static qg_status report_steps(const study *s, qg_report *r)
{
    size_t differing = 0, shown = 0;
    qg_table *t;
    for (size_t k = 0; k < s->n_value; k++)
        differing += total(s, k).differ > 0;
    QG_TRY(qg_report_add(r, "values", qg_cell_count(s->n_value)));
    QG_TRY(qg_report_add(r, "differing", qg_cell_count(differing)));
    if (!differing)
        return QG_OK;
    QG_TRY(qg_report_table(r, "steps", "node value differ beyond_one_step most", &t));
    for (size_t k = 0; k < s->n_value; k++) {
        const qg_value *v = s->value[k].value;
        steps all = total(s, k);
        if (!all.differ || (s->o->top && shown >= s->o->top))
            continue;
        QG_TRY(qg_table_cells(r, t, qg_cell_text(v->def->name), qg_cell_text(v->name),
                              qg_cell_count(all.differ), qg_cell_count(all.beyond),
                              qg_cell_number(all.most)));
        shown++;
    }
    return QG_OK;
}

static qg_status fill(const study *s, qg_report *r)
{
    QG_TRY(qg_report_add(r, "mode", qg_cell_text(qg_run_mode_name(QG_RUN_INTEGER))));
    QG_TRY(qg_report_add(r, "by", qg_cell_text(s->by_layer ? "layer" : "graph")));
    if (!s->by_layer) {
        QG_TRY(qg_report_metric(r, s->metric));
    }
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(s->feed.feed.n)));
    QG_TRY(qg_measured_report(&s->at, r));
    QG_TRY(qg_report_program(r, &s->exe[QG_RUN_INTEGER]));
    return s->by_layer ? report_steps(s, r) : report_outputs(s, r);
}

/* In the first sample with an error that is not finite; by layer there are none. */
static qg_status warn_not_finite(study *s)
{
    const qg_feed *feed = &s->feed.feed;
    const size_t row = s->m->graph->output.n * ERRORS;
    return qg_model_warn_not_finite(s->m, QG_RUN_SIMULATE, &s->o->work, feed,
                                    qg_first_not_finite(s->error, feed->n, row));
}

static qg_status describe(const study *s, qg_report **report)
{
    qg_report *r;
    QG_TRY(qg_report_new(s->m->ctx, "analyse", &r));
    return qg_report_end(fill(s, r), r, report);
}

qg_status qg_analyse_integers(qg_model *m, const qg_analyse_options *o,
                              const qg_metric *metric, qg_report **report)
{
    const char *by = o->by ? o->by : "graph";
    study s = { .m = m, .o = o, .metric = metric };
    s.by_layer = strcmp(by, "layer") == 0;
    if (!s.by_layer && strcmp(by, "graph") != 0)
        return qg_fail(m->ctx, QG_ECONFIG,
                       "analyse by '%s': mode is integer, expected graph or layer", by);
    s.arena = qg_arena_new(m->ctx->alloc);
    qg_status st = s.arena ? prepare(&s) : qg_nomem(m->ctx);
    if (st == QG_OK)
        st = run(&s);
    if (st == QG_OK)
        st = warn_not_finite(&s);
    if (st == QG_OK)
        st = describe(&s, report);
    qg_measured_end(&s.at);
    for (int mode = 0; mode < QG_NRUN; mode++) {
        qg_plan_free(s.plan[mode]);
        qg_executable_free(&s.exe[mode]);
    }
    qg_feed_close(&s.feed);
    qg_arena_free(s.arena);
    return st;
}

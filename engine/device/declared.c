#include "engine/device/declared.h"

#include <math.h>

#include "engine/device/kernel.h"
#include "engine/exec/pool.h"

/* Whose grids are used. */
enum { TRACE, PROGRAM, N_WHOSE };

/* A step that reads or writes a value in doubt. */
typedef struct trial {
    const qg_device_step *step;
    uint32_t *in; /* [n_in] values of the model whose arrays it reads */
    size_t n_in;
    qg_cut cut;
    uint64_t differ[N_WHOSE]; /* elements */
    bool failed[N_WHOSE];
} trial;

typedef struct survey {
    qg_device *d;
    QG_VEC(const qg_value *) value; /* in doubt */
    QG_VEC(trial) trial;
    int whose;
} survey;

static const qg_stored *own_grid(const qg_device *d, const qg_value *v)
{
    return &d->exe.program->stored[v->id];
}

/* --- the steps --- */

static bool reads(const trial *t, const qg_value *v)
{
    for (size_t i = 0; i < t->n_in; i++)
        if (t->in[i] == v->id)
            return true;
    return false;
}

/* The arrays that a step reads. */
static qg_status list_inputs(const qg_device *d, trial *t)
{
    qg_cut c;
    QG_TRY(qg_step_cut(d, t->step, &c));
    t->in = QG_NEWN(d->arena, c.n_in, uint32_t);
    for (size_t i = 0; t->in && i < c.n_in; i++)
        if (d->stop[c.in[i]->id])
            t->in[t->n_in++] = d->model[c.in[i]->id];
    qg_graph_free(c.graph);
    return t->in ? QG_OK : qg_nomem(d->ctx);
}

/* The same grid in fewer digits. */
static bool is_near(const qg_device *d, const qg_value *v)
{
    const qg_pair *p = &d->pair[v->id];
    const qg_trace_array *a = p->array;
    const qg_stored *own = own_grid(d, v);
    double scale = (double)own->scale[0];
    return a->zero + (int64_t)p->shift == own->zero[0] &&
           fabs(a->scale - scale) <= (double)QG_FEW_DIGITS * scale;
}

static qg_status list_values(survey *s, bool near)
{
    const qg_graph *g = s->d->m->graph;
    for (size_t i = 0; i < g->value.n; i++)
        if (s->d->pair[i].array && s->d->pair[i].other &&
            is_near(s->d, g->value.at[i]) == near)
            QG_TRY(qg_vec_push(s->d->ctx, s->d->arena, &s->value, g->value.at[i]));
    return QG_OK;
}

static qg_status list_trials(survey *s)
{
    for (size_t i = 0; i < s->d->n_step; i++) {
        trial t = { .step = &s->d->step[i] };
        QG_TRY(list_inputs(s->d, &t));
        bool touched = t.step->pair->other;
        for (size_t k = 0; k < s->value.n && !touched; k++)
            touched = reads(&t, s->value.at[k]);
        if (touched)
            QG_TRY(qg_vec_push(s->d->ctx, s->d->arena, &s->trial, t));
    }
    return QG_OK;
}

static qg_status work(void *ud, qg_ctx *ctx, void *state, size_t i)
{
    survey *s = ud;
    trial *t = &s->trial.at[i];
    qg_tally tally = { 0 };
    (void)state;
    qg_status status = qg_step_try(s->d, ctx, t->step, &t->cut, NULL, &tally);
    t->differ[s->whose] = tally.differ;
    t->failed[s->whose] = status != QG_OK;
    return qg_refusal(status);
}

static void free_cuts(survey *s)
{
    for (size_t i = 0; i < s->trial.n; i++) {
        qg_graph_free(s->trial.at[i].cut.graph);
        s->trial.at[i].cut.graph = NULL;
    }
}

static qg_status make_cut(survey *s, trial *t)
{
    const qg_pair *p = t->step->pair;
    QG_TRY(qg_step_cut(s->d, t->step, &t->cut));
    return p->other ? qg_refusal(qg_kernel_give_grid(s->d, &t->cut, t->step, p->scale,
                                                     p->zero))
                    : QG_OK;
}

/* All steps with the grids of one side, inputs and output alike. */
static qg_status try_all(survey *s, int whose)
{
    qg_job job = { .n = s->trial.n, .workers = s->d->work.jobs, .work = work, .ud = s };
    s->whose = whose;
    for (size_t i = 0; i < s->value.n; i++)
        qg_device_refute(s->d, s->value.at[i], whose == PROGRAM);
    qg_status status = QG_OK;
    for (size_t i = 0; i < s->trial.n && status == QG_OK; i++)
        status = make_cut(s, &s->trial.at[i]);
    if (status == QG_OK)
        status = qg_pool_run(s->d->ctx, &job);
    free_cuts(s);
    return status;
}

/* --- the decision --- */

/* Nothing tells the grids apart, as at a copy: what holds for the input holds for v,
 * else codes that are the program's are on its grid. */
static bool refuted_by_default(const survey *s, const trial *own)
{
    return own && !own->differ[PROGRAM] && !(own->n_in && s->d->pair[own->in[0]].other);
}

/* The step that writes v decides when it is explained with one grid alone; else that
 * and the steps that read v. */
static bool is_refuted(const survey *s, const qg_value *v)
{
    uint64_t sum[N_WHOSE] = { 0 };
    const trial *own = NULL;
    for (size_t i = 0; i < s->trial.n; i++) {
        const trial *t = &s->trial.at[i];
        if (t->failed[TRACE] || t->failed[PROGRAM])
            continue;
        own = t->step->value == v ? t : own;
        for (int w = 0; w < N_WHOSE && (t->step->value == v || reads(t, v)); w++)
            sum[w] += t->differ[w];
    }
    if (own && !own->differ[PROGRAM] != !own->differ[TRACE])
        return !own->differ[PROGRAM];
    return sum[PROGRAM] == sum[TRACE] ? refuted_by_default(s, own)
                                      : sum[PROGRAM] < sum[TRACE];
}

/* A scale in fewer digits, unless the step that writes v is explained far better with
 * it: elements near half a step decide little, and a fault elsewhere nothing. */
static bool is_short(const survey *s, const qg_value *v)
{
    for (size_t i = 0; i < s->trial.n; i++) {
        const trial *t = &s->trial.at[i];
        if (t->step->value == v && !t->failed[TRACE] && !t->failed[PROGRAM])
            return 2 * t->differ[TRACE] >= t->differ[PROGRAM];
    }
    return true;
}

static qg_status settle(survey *s, bool near)
{
    QG_TRY(list_trials(s));
    for (int whose = 0; whose < N_WHOSE; whose++)
        QG_TRY(try_all(s, whose));
    for (size_t i = 0; i < s->value.n; i++) {
        const qg_value *v = s->value.at[i];
        qg_device_refute(s->d, v, near ? is_short(s, v) : is_refuted(s, v));
    }
    return QG_OK;
}

/* Scales in fewer digits last, and as the program's until then: beside a grid that is
 * another, their own steps say nothing. */
qg_status qg_declared_settle(qg_device *d)
{
    survey near = { .d = d }, far = { .d = d };
    QG_TRY(list_values(&near, true));
    QG_TRY(list_values(&far, false));
    for (size_t i = 0; i < near.value.n; i++)
        qg_device_refute(d, near.value.at[i], true);
    if (far.value.n)
        QG_TRY(settle(&far, false));
    return near.value.n ? settle(&near, true) : QG_OK;
}

/* --- the report --- */

static bool is_in_doubt(const qg_pair *p)
{
    return p->array && (p->other || p->refuted);
}

bool qg_declared_differs(const qg_device *d, const qg_value *v)
{
    const qg_pair *p = &d->pair[v->id];
    bool by_chance = p->refuted && p->array->found; /* nobody said that it is there */
    return is_in_doubt(p) && !by_chance && !is_near(d, v);
}

const char *qg_declared_verdict(const qg_device *d, const qg_value *v, qg_arena *a)
{
    const qg_pair *p = &d->pair[v->id];
    const qg_stored *own = own_grid(d, v);
    if (p->refuted && is_near(d, v))
        return "the snapshot's, in fewer digits";
    const char *types =
        p->shift ? qg_arena_printf(a, " (%s codes of the dump, %s of the snapshot)",
                                   qg_dtype_name(p->array->type.dtype),
                                   qg_dtype_name(own->dtype))
                 : "";
    return !types
               ? NULL
               : qg_arena_printf(
                     a,
                     p->array->found
                         ? "its elements lie on scale %.6g, zero %d, the snapshot "
                           "has scale %.6g, zero %d: its codes are on that of the %s%s"
                         : "the dump gives it scale %.6g, zero %d, the snapshot "
                           "scale %.6g, zero %d: its codes are on that of the %s%s",
                     p->array->scale, (int)p->array->zero, (double)own->scale[0],
                     (int)own->zero[0], p->refuted ? "snapshot" : "dump", types);
}

qg_status qg_declared_report(const qg_device *d, qg_report *r)
{
    const qg_graph *g = d->m->graph;
    qg_table *t = NULL;
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v = g->value.at[i];
        const qg_pair *p = &d->pair[i];
        if (!is_in_doubt(p))
            continue;
        const char *text = qg_declared_verdict(d, v, r->arena);
        const qg_stored *own = own_grid(d, v);
        if (!text)
            return qg_nomem(d->ctx);
        if (!t)
            QG_TRY(qg_report_table(
                r, "grids", "value scale zero snapshot_scale snapshot_zero verdict",
                &t));
        QG_TRY(qg_table_cells(
            r, t, qg_cell_text(v->name), qg_cell_number(p->array->scale),
            qg_cell_number(p->array->zero), qg_cell_number((double)own->scale[0]),
            qg_cell_number(own->zero[0]), qg_cell_text(text)));
    }
    return QG_OK;
}

/* doctor.c -- `qg stats doctor`: inputs, and every value of the float network. */
#include "engine/session/first_layer.h"
#include "engine/session/inspect.h"

#include <math.h>
#include <pthread.h>

#include "engine/ir/op.h"

/* --- values --- */

/* Inputs come first in `total`, then outputs of nodes. */
typedef struct doctor {
    qg_model *m;
    qg_arena *arena;
    qg_looks looks;
    uint32_t *index; /* [values] position in name and total, or QG_NONE */
    QG_VEC(const qg_value *) value;
    qg_first_layer first;
    qg_watch *total;      /* [value.n] */
    size_t *far;          /* [value.n + 1] the first sample with numbers far from all
                           * others, or SIZE_MAX */
    pthread_mutex_t lock; /* of total and far */
    qg_strange strange;
} doctor;

typedef struct worker {
    doctor *d;
    qg_watch *watch;
    size_t *far;
} worker;

static qg_status begin_watches(const doctor *d, qg_ctx *ctx, qg_arena *a,
                               qg_watch **out)
{
    qg_watch *w = QG_NEWN(a, d->value.n, qg_watch);
    if (!w)
        return qg_nomem(ctx);
    for (size_t i = 0; i < d->value.n; i++)
        QG_TRY(qg_watch_begin(ctx, a, &d->value.at[i]->type,
                              d->value.at[i] == d->first.value, &w[i]));
    *out = w;
    return QG_OK;
}

static qg_status begin_far(const doctor *d, qg_ctx *ctx, qg_arena *a, size_t **out)
{
    *out = QG_NEWN(a, d->value.n + 1, size_t); /* find_strange adds one */
    for (size_t i = 0; *out && i < d->value.n; i++)
        (*out)[i] = SIZE_MAX;
    return *out ? QG_OK : qg_nomem(ctx);
}

static qg_status worker_begin(void *ud, qg_ctx *ctx, void **state)
{
    worker *w = QG_NEW(ctx->arena, worker);
    if (!w)
        return qg_nomem(ctx);
    w->d = ud;
    QG_TRY(begin_watches(w->d, ctx, ctx->arena, &w->watch));
    QG_TRY(begin_far(w->d, ctx, ctx->arena, &w->far));
    *state = w;
    return QG_OK;
}

/* Findings caused by NaN carry no information about the other samples. */
static bool is_finite(const qg_looks *l, size_t sample)
{
    for (size_t i = 0; i < l->inputs; i++) {
        const qg_look *look = &l->look[i * l->feed.n + sample];
        if (qg_look_faults(&l->kind[i], look))
            return false;
    }
    return true;
}

static qg_status worker_see(void *state, qg_ctx *ctx, size_t sample,
                            const qg_hook_point *at, qg_tensor *x)
{
    worker *w = state;
    (void)ctx;
    const qg_value *v = at->endpoint.is_output ? qg_endpoint_value(at->endpoint) : NULL;
    uint32_t k = v && !at->rounded ? w->d->index[v->id] : QG_NONE;
    if (k == QG_NONE || x->dtype != QG_F32 || !is_finite(&w->d->looks, sample))
        return QG_OK;
    qg_watch_see(&w->watch[k], sample, x);
    if (sample < w->far[k] && qg_is_far(x))
        w->far[k] = sample; /* shows where masks are */
    return QG_OK;
}

static void worker_end(void *ud, void *state)
{
    doctor *d = ud;
    worker *w = state;
    (void)pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < d->value.n; i++) {
        qg_watch_merge(&d->total[i], &w->watch[i]);
        d->far[i] = w->far[i] < d->far[i] ? w->far[i] : d->far[i];
    }
    (void)pthread_mutex_unlock(&d->lock);
}

/* --- all together --- */

static qg_status choose_values(doctor *d)
{
    const qg_graph *g = d->m->graph;
    qg_ctx *ctx = d->m->ctx;
    d->index = QG_NEWN(d->arena, g->value.n, uint32_t);
    if (!d->index)
        return qg_nomem(ctx);
    for (size_t i = 0; i < g->value.n; i++)
        d->index[i] = QG_NONE;
    for (size_t i = 0; i < g->input.n; i++)
        QG_TRY(qg_vec_push(ctx, d->arena, &d->value, g->input.at[i]));
    for (size_t i = 0; i < g->node.n; i++)
        for (uint32_t k = 0; k < g->node.at[i]->n_out; k++) {
            const qg_value *v = g->node.at[i]->out[k];
            if (!v || v->type.dtype != QG_F32)
                continue;
            d->index[v->id] = (uint32_t)d->value.n;
            QG_TRY(qg_vec_push(ctx, d->arena, &d->value, v));
        }
    return QG_OK;
}

/* After the run. */
static qg_status find_strange(doctor *d, const qg_doctor_options *o)
{
    size_t n = 0, nan = SIZE_MAX;
    for (size_t i = 0; i < d->value.n; i++) {
        if (d->far[i] != SIZE_MAX)
            d->far[n++] = d->far[i];
        nan = d->total[i].nan < nan ? d->total[i].nan : nan;
    }
    if (nan != SIZE_MAX)
        d->far[n++] = nan;
    qg_finite_request r = { .mode = d->m->quant ? QG_RUN_SIMULATE : QG_RUN_FLOAT,
                            .feed = &d->looks.feed,
                            .least = QG_LEAST_EXAMINED,
                            .also = d->far,
                            .n_also = n,
                            .reference = o->work.reference_kernels,
                            .masks = true,
                            .progress = &o->work.progress };
    QG_TRY(qg_model_strange(d->m, &r, d->arena, &d->strange));
    QG_TRY(qg_masks_policy(d->m->graph, d->arena, &d->strange));
    qg_warn_strange(d->m->ctx, &d->strange);
    return QG_OK;
}

static qg_status drive(doctor *d, const qg_doctor_options *o)
{
    qg_model *m = d->m;
    qg_plan *p = NULL;
    uint8_t *watch = QG_NEWN(d->arena, m->graph->node.n, uint8_t);
    if (!watch)
        return qg_nomem(m->ctx);
    memset(watch, 1, m->graph->node.n);
    QG_TRY(qg_model_plan(m, QG_RUN_FLOAT, &o->work, &d->looks.feed, watch, &p));
    qg_drive run = { .plan = p,
                     .feed = &d->looks.feed,
                     .n = d->looks.feed.n,
                     .jobs = o->work.jobs,
                     .ud = d,
                     .begin = worker_begin,
                     .end = worker_end,
                     .see = worker_see,
                     .progress = &o->work.progress,
                     .stage = "doctor" };
    qg_status s = qg_drive_run(m->ctx, &run);
    qg_plan_free(p);
    return s == QG_OK ? find_strange(d, o) : s;
}

/* Inputs take part in the search for isolated samples. */
static void note_inputs(doctor *d)
{
    size_t n = d->looks.feed.n;
    for (size_t i = 0; i < d->looks.inputs; i++)
        for (size_t s = 0; s < n; s++) {
            const qg_look *l = &d->looks.look[i * n + s];
            if (l->n && is_finite(&d->looks, s))
                qg_watch_note(&d->total[i], s, fmaxf(fabsf(l->low), fabsf(l->high)));
        }
}

enum { MOST_DEAD = 12 }; /* values with dead channels that are listed */

/* Of nodes that make channels, not of those that move them. */
static qg_status judge_dead(const doctor *d, qg_findings *f)
{
    size_t before = f->found.n;
    for (size_t i = d->looks.inputs; i < d->value.n; i++) {
        const qg_node *n = d->value.at[i]->def;
        if (n && (n->op->traits & (QG_OP_COMPUTE | QG_OP_ACTIVATION)) &&
            f->found.n < before + MOST_DEAD)
            QG_TRY(qg_judge_channels(f, &d->total[i], d->value.at[i]->name));
    }
    return QG_OK;
}

/* What no input of that sample explains. */
static qg_status judge_strange(const doctor *d, qg_findings *f)
{
    const qg_strange *s = &d->strange;
    if (!s->not_finite || !is_finite(&d->looks, s->sample))
        return QG_OK;
    return qg_findings_add(
        f, QG_FINDING_NOT_FINITE, s->sample, s->at,
        qg_arena_printf(d->arena, "%s first appears here, expected finite numbers",
                        s->nan ? "NaN" : "an infinity"));
}

static qg_status judge(doctor *d, qg_findings *f)
{
    const char **name = QG_NEWN(d->arena, d->value.n, const char *);
    if (!name)
        return qg_nomem(d->m->ctx);
    for (size_t i = 0; i < d->value.n; i++)
        name[i] = d->value.at[i]->name;
    QG_TRY(qg_looks_judge(&d->looks, f));
    QG_TRY(judge_strange(d, f));
    const qg_value *first = d->first.value;
    if (first && d->index[first->id] != QG_NONE)
        QG_TRY(qg_judge_scale(f, &d->first.expected, &d->total[d->index[first->id]],
                              first->name));
    note_inputs(d);
    QG_TRY(qg_judge_alone(f, d->total, name, d->value.n, d->looks.feed.n));
    return judge_dead(d, f);
}

static qg_status examine(doctor *d, const qg_doctor_options *o, qg_findings *f)
{
    d->first = qg_first_layer_of(d->m->graph);
    QG_TRY(choose_values(d));
    QG_TRY(begin_watches(d, d->m->ctx, d->arena, &d->total));
    QG_TRY(begin_far(d, d->m->ctx, d->arena, &d->far));
    (void)pthread_mutex_init(&d->lock, NULL);
    qg_status s = drive(d, o);
    (void)pthread_mutex_destroy(&d->lock);
    return s == QG_OK ? judge(d, f) : s;
}

static qg_status describe(const doctor *d, const qg_findings *f, qg_report *r)
{
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(d->looks.feed.n)));
    QG_TRY(qg_report_add(r, "values", qg_cell_count(d->value.n)));
    QG_TRY(qg_report_add(r, "found", qg_cell_count(f->found.n)));
    QG_TRY(qg_report_masks(r, &d->strange));
    return qg_findings_report(r, f, 0);
}

QG_OPTIONS_INIT(qg_doctor_options)

qg_status qg_model_doctor(qg_model *m, const qg_doctor_options *given,
                          qg_report **report)
{
    qg_doctor_options o;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_doctor_options, given, &o));
    QG_TRY(qg_workload_check(m->ctx, &o.work));
    qg_api_feed feed = { .takes_nan = true };
    qg_report *r = NULL;
    doctor d = { .m = m, .arena = qg_arena_new(m->ctx->alloc) };
    qg_findings f = { .ctx = m->ctx, .arena = d.arena };
    qg_status s = d.arena ? qg_model_begin_float32(m) : qg_nomem(m->ctx);
    if (s == QG_OK)
        s = qg_feed_open(m, &o.work, &feed);
    if (s == QG_OK)
        s = qg_looks_begin(m, d.arena, &feed.feed, &d.looks);
    if (s == QG_OK)
        s = examine(&d, &o, &f);
    if (s == QG_OK)
        s = qg_report_new(m->ctx, "doctor", &r);
    if (s == QG_OK)
        s = describe(&d, &f, r);
    qg_feed_close(&feed);
    qg_arena_free(d.arena);
    return qg_report_end(s, r, report);
}

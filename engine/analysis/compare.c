/* compare.c -- results of several backends and patches on one network.
 *
 * Every variant quantizes a clone of the graph with the same data; then every sample
 * runs through the float network and all variants.  Endpoints keep their names from
 * variant to variant, so that groups can be set side by side. */
#include <assert.h>
#include <stdlib.h>

#include "engine/core/clock.h"
#include "engine/session/session.h"
#include "engine/exec/meter.h"
#include "engine/exec/pool.h"
#include "engine/analysis/requantize.h"
#include "engine/analysis/measure.h"

QG_OPTIONS_INIT(qg_compare_options)

/* One backend, with or without a patch. */
typedef struct variant {
    const char *name; /* "trt-int8", "trt-int8 + patch.yaml" */
    const char *backend, *policy;
    qg_model model; /* its graph is a clone, its own */
    qg_plan *plan;
    double milliseconds; /* of quantizing */
    size_t quantized, rounding, baked, groups, requantizations;
    double *error; /* [outputs] mean over samples */
} variant;

/* Values that share a scale, as a sorted list of names: "a, b, c". */
typedef struct group {
    const char *values;
    size_t n;        /* values */
    uint8_t *member; /* [variants] 1: it has this group */
} group;

typedef struct comparison {
    qg_model *m;
    const qg_compare_options *o;
    qg_arena *arena;
    qg_api_feed feed;
    qg_meter meter;
    const qg_metric *metric;
    QG_VEC(variant) variant;
    QG_VEC(group) group; /* in order of first appearance */
    qg_plan *real;
    double *value;     /* [samples][variants][outputs] */
    uint8_t *measured; /* [outputs] */
} comparison;

/* --- variants --- */

static qg_status add_variant(comparison *c, const char *backend, const char *policy)
{
    variant v = { .backend = backend, .policy = policy };
    v.name = policy ? qg_arena_printf(c->arena, "%s + %s", qg_path_base(backend),
                                      qg_path_base(policy))
                    : qg_arena_strdup(c->arena, qg_path_base(backend));
    return v.name ? qg_vec_push(c->m->ctx, c->arena, &c->variant, v)
                  : qg_nomem(c->m->ctx);
}

/* Every backend alone, then with each patch. */
static qg_status list_variants(comparison *c)
{
    for (size_t i = 0; i < c->o->n_backend; i++) {
        QG_TRY(add_variant(c, c->o->backend[i], NULL));
        for (size_t k = 0; k < c->o->n_policy; k++)
            QG_TRY(add_variant(c, c->o->backend[i], c->o->policy[k]));
    }
    if (c->variant.n == 0)
        return qg_fail(c->m->ctx, QG_ECONFIG,
                       "compare: no backend given, expected at least one");
    return QG_OK;
}

static qg_status quantize_variant(const comparison *c, variant *v)
{
    qg_quantize_options o;
    double start = qg_clock_seconds();
    qg_quantize_options_init(&o, sizeof o);
    o.backend = v->backend;
    o.policy = &v->policy;
    o.n_policy = v->policy != NULL;
    o.work = qg_feed_again(&c->feed, &c->o->work);
    if (c->o->stats) { /* the samples are then for the errors alone */
        o.stats = c->o->stats;
        o.work.data = NULL;
        o.work.array = NULL;
        o.work.source = NULL;
        o.work.samples = 0;
    }
    o.observer = c->o->observer;
    v->model =
        (qg_model){ .ctx = c->m->ctx, .path = c->m->path, .sha256 = c->m->sha256 };
    QG_TRY(qg_graph_clone(c->m->graph, &v->model.graph));
    QG_TRY(qg_model_quantize(&v->model, &o, NULL));
    v->milliseconds = 1e3 * (qg_clock_seconds() - start);
    return qg_model_plan(&v->model, QG_RUN_SIMULATE, c->o->work.reference_kernels,
                         &c->feed.feed, NULL, &v->plan);
}

/* --- counting --- */

/* Rounding points are those of activations; constants are counted as baked. */
static void count_endpoints(variant *v)
{
    const qg_quant *q = v->model.quant;
    const qg_graph *g = v->model.graph;
    for (size_t i = 0; i < q->tqc.n; i++) {
        const qg_tqc *t = q->tqc.at[i];
        v->rounding += qg_tqc_rounds(t) && !qg_tqc_is_constant(t);
        v->baked += t->state == QG_TQC_BAKED || t->state == QG_TQC_PASSIVE_BAKED;
    }
    for (size_t i = 0; i < g->node.n; i++)
        v->quantized += g->node.at[i]->platform == QG_PLATFORM_QUANTIZED;
    v->requantizations = qg_requantizations(g, NULL);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names of the values of a group, each once, sorted; NULL when memory ran out. */
static const char *values_text(const comparison *c, const qg_tqc *root, size_t *n)
{
    size_t room = 0;
    for (const qg_tqc *t = root; t; t = qg_group_next(t, root))
        room++;
    const char **name = QG_NEWN(c->arena, room, const char *);
    if (!name)
        return NULL;
    *n = 0;
    for (const qg_tqc *t = root; t; t = qg_group_next(t, root))
        if (!qg_tqc_is_constant(t))
            name[(*n)++] = qg_tqc_value(t)->name;
    qsort(name, *n, sizeof *name, by_name);
    const char *text = "";
    size_t kept = 0;
    for (size_t i = 0; i < *n && text; i++)
        if (i == 0 || strcmp(name[i], name[i - 1]) != 0)
            text =
                qg_arena_printf(c->arena, "%s%s%s", text, kept++ ? ", " : "", name[i]);
    *n = kept;
    return text;
}

static qg_status note_group(comparison *c, const char *values, size_t n, size_t of)
{
    group *at = NULL;
    for (size_t i = 0; i < c->group.n && !at; i++)
        if (strcmp(c->group.at[i].values, values) == 0)
            at = &c->group.at[i];
    if (!at) {
        group g = { .values = values,
                    .n = n,
                    .member = QG_NEWN(c->arena, c->variant.n, uint8_t) };
        if (!g.member)
            return qg_nomem(c->m->ctx);
        QG_TRY(qg_vec_push(c->m->ctx, c->arena, &c->group, g));
        at = &c->group.at[c->group.n - 1];
    }
    at->member[of] = 1;
    return QG_OK;
}

/* Groups of at least two values on one grid; fused values that never exist count too,
 * since the group exists so that they are not rounded. */
static qg_status list_groups(comparison *c, size_t of)
{
    variant *v = &c->variant.at[of];
    for (size_t i = 0; i < v->model.quant->tqc.n; i++) {
        const qg_tqc *t = v->model.quant->tqc.at[i];
        size_t n = 0;
        if (t->up != t || t->next == t)
            continue;
        const char *values = values_text(c, t, &n);
        if (!values)
            return qg_nomem(c->m->ctx);
        if (n < 2)
            continue;
        v->groups++;
        QG_TRY(note_group(c, values, n, of));
    }
    return QG_OK;
}

/* --- measuring --- */

typedef struct worker {
    const comparison *c;
    qg_arena *sample;
    qg_run *real, **run; /* [variants] */
    const qg_tensor **in;
} worker;

static qg_status begin(void *ud, qg_ctx *ctx, void **state)
{
    const comparison *c = ud;
    worker *w = QG_NEW(ctx->arena, worker);
    if (!w)
        return qg_nomem(ctx);
    *state = w; /* released by end, however far we come */
    w->c = c;
    w->run = QG_NEWN(ctx->arena, c->variant.n, qg_run *);
    w->in = QG_NEWN(ctx->arena, c->m->graph->input.n, const qg_tensor *);
    w->sample = qg_arena_new(ctx->alloc);
    if (!w->run || !w->in || !w->sample)
        return qg_nomem(ctx);
    QG_TRY(qg_run_new(ctx, c->real, &w->real));
    for (size_t i = 0; i < c->variant.n; i++)
        QG_TRY(qg_run_new(ctx, c->variant.at[i].plan, &w->run[i]));
    return QG_OK;
}

static void end(void *ud, void *state)
{
    worker *w = state;
    (void)ud;
    for (size_t i = 0; w->run && i < w->c->variant.n; i++)
        qg_run_free(w->run[i]);
    qg_run_free(w->real);
    qg_arena_free(w->sample);
}

static qg_status work(void *ud, qg_ctx *ctx, void *state, size_t sample)
{
    comparison *c = ud;
    worker *w = state;
    size_t n_out = c->m->graph->output.n;
    qg_arena_reset(w->sample);
    QG_TRY(c->feed.feed.fetch(c->feed.feed.ud, ctx, w->sample, sample, w->in));
    QG_TRY(qg_run_execute(w->real, w->in, NULL, 0, sample));
    for (size_t i = 0; i < c->variant.n; i++) {
        QG_TRY(qg_meter_add(&c->meter, ctx, 0));
        QG_TRY(qg_run_execute(w->run[i], w->in, NULL, 0, sample));
        for (size_t k = 0; k < n_out; k++) {
            if (!c->measured[k])
                continue;
            const qg_tensor *x = qg_run_output(w->real, k);
            const qg_tensor *y = qg_run_output(w->run[i], k);
            assert(qg_same_dims(x, y));
            c->value[(sample * c->variant.n + i) * n_out + k] =
                qg_measure(c->metric, x->f32, y);
        }
    }
    return qg_meter_add(&c->meter, ctx, 1);
}

/* Means in order of samples. */
static qg_status average(comparison *c)
{
    size_t n_out = c->m->graph->output.n, samples = c->feed.feed.n;
    for (size_t i = 0; i < c->variant.n; i++) {
        variant *v = &c->variant.at[i];
        v->error = QG_NEWN(c->arena, n_out, double);
        if (!v->error)
            return qg_nomem(c->m->ctx);
        for (size_t k = 0; k < n_out; k++) {
            for (size_t s = 0; s < samples; s++)
                v->error[k] += c->value[(s * c->variant.n + i) * n_out + k];
            v->error[k] /= (double)samples;
        }
    }
    return QG_OK;
}

static qg_status measure(comparison *c)
{
    qg_job job = { .n = c->feed.feed.n,
                   .workers = c->o->work.jobs,
                   .begin = begin,
                   .work = work,
                   .end = end,
                   .ud = c };
    QG_TRY(qg_model_plan(c->m, QG_RUN_FLOAT, c->o->work.reference_kernels,
                         &c->feed.feed, NULL, &c->real));
    QG_TRY(qg_plan_measures(c->m->ctx, c->real, c->arena, "compare", &c->measured));
    c->value = QG_NEWN(c->arena, c->feed.feed.n * c->variant.n * c->m->graph->output.n,
                       double);
    if (!c->value)
        return qg_nomem(c->m->ctx);
    qg_meter_begin(&c->meter, &c->o->work.progress, "compare", c->feed.feed.n);
    qg_status s = qg_pool_run(c->m->ctx, &job);
    qg_meter_end(&c->meter);
    return s == QG_OK ? average(c) : s;
}

/* --- the report --- */

static qg_status report_variants(const comparison *c, qg_report *r)
{
    qg_table *t;
    QG_TRY(qg_report_table(r, "variants",
                           "variant nodes rounding_points constants groups "
                           "requantizations ms",
                           &t));
    for (size_t i = 0; i < c->variant.n; i++) {
        const variant *v = &c->variant.at[i];
        QG_TRY(qg_table_cells(r, t, qg_cell_text(v->name), qg_cell_count(v->quantized),
                              qg_cell_count(v->rounding), qg_cell_count(v->baked),
                              qg_cell_count(v->groups),
                              qg_cell_count(v->requantizations),
                              qg_cell_number(v->milliseconds)));
    }
    return QG_OK;
}

static qg_status report_errors(const comparison *c, qg_report *r)
{
    qg_table *t;
    QG_TRY(qg_report_table(r, "errors", "output variant error", &t));
    for (size_t k = 0; k < c->m->graph->output.n; k++)
        for (size_t i = 0; c->measured[k] && i < c->variant.n; i++) {
            QG_TRY(
                qg_table_cells(r, t, qg_cell_text(c->m->graph->output.at[k]->name),
                               qg_cell_text(c->variant.at[i].name),
                               qg_measure_cell(c->metric, c->variant.at[i].error[k])));
        }
    return QG_OK;
}

/* Names of the variants whose member is `have`. */
static const char *variants_text(const comparison *c, const group *g, uint8_t have)
{
    const char *text = "";
    for (size_t i = 0; i < c->variant.n && text; i++)
        if (g->member[i] == have)
            text = qg_arena_printf(c->arena, "%s%s%s", text, *text ? ", " : "",
                                   c->variant.at[i].name);
    return text;
}

/* Groups that some variants have and others do not, one by one: for programs. */
static qg_status report_groups(const comparison *c, qg_report *r)
{
    qg_table *t;
    QG_TRY(qg_report_table(r, "group_differences", "values count in not_in", &t));
    r->fact.at[r->fact.n - 1].quiet = true;
    for (size_t i = 0; i < c->group.n; i++) {
        const group *g = &c->group.at[i];
        const char *in = variants_text(c, g, 1), *out = variants_text(c, g, 0);
        if (!in || !out)
            return qg_nomem(c->m->ctx);
        if (!*out)
            continue;
        QG_TRY(qg_table_cells(r, t, qg_cell_text(g->values), qg_cell_count(g->n),
                              qg_cell_text(in), qg_cell_text(out)));
    }
    return QG_OK;
}

static bool same_variants(const comparison *c, const group *a, const group *b)
{
    return memcmp(a->member, b->member, c->variant.n) == 0;
}

/* The largest group of those in the same variants as g; *n how many there are; NULL
 * when an earlier row covers them. */
static const group *spokesman(const comparison *c, const group *g, size_t *n)
{
    const group *largest = g;
    *n = 0;
    for (size_t i = 0; i < c->group.n; i++) {
        const group *other = &c->group.at[i];
        if (!same_variants(c, g, other))
            continue;
        if (other < g)
            return NULL;
        ++*n;
        largest = other->n > largest->n ? other : largest;
    }
    return largest;
}

/* The same for people: one row for all groups that the same variants have. */
static qg_status sum_up_groups(const comparison *c, qg_report *r)
{
    qg_table *t;
    QG_TRY(qg_report_table(r, "groups_in", "in groups not_in largest values", &t));
    t->records = true;
    for (size_t i = 0; i < c->group.n; i++) {
        size_t n = 0;
        const group *g = &c->group.at[i], *largest = spokesman(c, g, &n);
        const char *in = variants_text(c, g, 1), *out = variants_text(c, g, 0);
        if (!largest)
            continue;
        if (!in || !out)
            return qg_nomem(c->m->ctx);
        QG_TRY(qg_table_cells(r, t, qg_cell_text(in), qg_cell_count(n),
                              *out ? qg_cell_text(out) : (qg_cell){ 0 },
                              qg_cell_text(largest->values),
                              qg_cell_count(largest->n)));
    }
    return QG_OK;
}

static qg_status report(const comparison *c, qg_report *r)
{
    QG_TRY(qg_report_add(r, "model", qg_cell_text(qg_path_base(c->m->path))));
    QG_TRY(qg_report_add(r, "metric", qg_cell_text(c->metric->name)));
    QG_TRY(qg_report_add(r, "meaning", qg_cell_text(c->metric->meaning)));
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(c->feed.feed.n)));
    QG_TRY(report_variants(c, r));
    QG_TRY(report_errors(c, r));
    QG_TRY(sum_up_groups(c, r));
    return report_groups(c, r);
}

/* --- all together --- */

static qg_status run(comparison *c, qg_report **out)
{
    qg_report *r;
    QG_TRY(list_variants(c));
    QG_TRY(qg_feed_open(c->m, &c->o->work, &c->feed));
    for (size_t i = 0; i < c->variant.n; i++) {
        QG_TRY(quantize_variant(c, &c->variant.at[i]));
        count_endpoints(&c->variant.at[i]);
        QG_TRY(list_groups(c, i));
    }
    QG_TRY(measure(c));
    QG_TRY(qg_report_new(c->m->ctx, "compare", &r));
    return qg_report_end(report(c, r), r, out);
}

qg_status qg_model_compare(qg_model *m, const qg_compare_options *given,
                           qg_report **out)
{
    qg_compare_options o;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_compare_options, given, &o));
    QG_TRY(qg_workload_check(m->ctx, &o.work));
    comparison c = { .m = m, .o = &o };
    QG_TRY(qg_model_expect_float(m, "compare"));
    QG_TRY(qg_model_begin_float32(m));
    QG_TRY(qg_measure_by(m->ctx, o.metric, &c.metric));
    c.arena = qg_arena_new(m->ctx->alloc);
    qg_status st = c.arena ? run(&c, out) : qg_nomem(m->ctx);
    qg_plan_free(c.real);
    for (size_t i = 0; i < c.variant.n; i++) {
        qg_plan_free(c.variant.at[i].plan);
        qg_graph_free(c.variant.at[i].model.graph);
    }
    qg_feed_close(&c.feed);
    qg_arena_free(c.arena);
    return st;
}

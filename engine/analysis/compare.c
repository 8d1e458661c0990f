/* compare.c -- results of several backends and patches on one network.
 *
 * One variant after the other quantizes a graph of its own that shares the weights;
 * then every sample runs through the float network and the variant.  The float network
 * runs once per variant, so that memory depends neither on variants nor on samples.
 * Endpoints keep their names from variant to variant, so that groups can be set side by
 * side. */
#include <assert.h>
#include <stdlib.h>

#include "engine/core/clock.h"
#include "engine/session/session.h"
#include "engine/exec/meter.h"
#include "engine/exec/pool.h"
#include "engine/analysis/requantize.h"
#include "engine/analysis/split.h"
#include "engine/analysis/measure.h"

QG_OPTIONS_INIT(qg_compare_options)

/* One backend, with or without a patch. */
typedef struct variant {
    const char *name; /* "trt-int8", "trt-int8 + patch.yaml" */
    const char *backend, *policy;
    double milliseconds; /* of quantizing */
    size_t quantized, rounding, baked, groups, requantizations;
    double *error; /* [outputs] mean over samples */
    double top1;
    const char *profile;   /* mode integer; else NULL */
    size_t integer, other; /* nodes of its program */
    const char *masks;     /* qg_strange */
} variant;

/* Values that share a scale, as a sorted list of names: "a, b, c". */
typedef struct group {
    const char *values;
    size_t n;        /* values */
    uint8_t *member; /* [variants] 1: it has this group */
} group;

typedef struct comparison {
    qg_model *m;
    qg_measured at; /* in the float network */
    const qg_compare_options *o;
    qg_arena *arena;
    qg_api_feed feed, holdout;
    const qg_feed *measured_on;
    qg_labels label; /* of the samples that are measured */
    qg_meter meter;
    const qg_metric *metric;
    QG_VEC(variant) variant;
    QG_VEC(group) group; /* in order of first appearance */
    qg_plan *real;
    double float_top1;
    /* of the variant at work */
    bool warned;    /* of a NaN in a variant before */
    qg_model model; /* its graph shares the weights of m's */
    qg_executable run;
    qg_plan *plan;
    double *value;             /* [samples][outputs] */
    int32_t *real_vote, *vote; /* [samples * label.each] */
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

static qg_status quantize_variant(comparison *c, variant *v)
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
    c->model =
        (qg_model){ .ctx = c->m->ctx, .path = c->m->path, .sha256 = c->m->sha256 };
    QG_TRY(qg_graph_share(c->m->graph, &c->model.graph));
    QG_TRY(qg_model_quantize(&c->model, &o, NULL));
    v->milliseconds = 1e3 * (qg_clock_seconds() - start);
    return QG_OK;
}

/* Quantizing warns of masks only when it reports. */
static qg_status find_masks(comparison *c, variant *v)
{
    qg_finite_request r = { .mode = QG_RUN_SIMULATE,
                            .feed = &c->feed.feed,
                            .least = QG_LEAST_EXAMINED,
                            .reference = c->o->work.reference_kernels,
                            .masks = true,
                            .progress = &c->o->work.progress };
    qg_strange found = { 0 };
    QG_TRY(qg_model_strange(&c->model, &r, c->arena, &found));
    v->masks = found.masks;
    return QG_OK;
}

static bool same_masks(const variant *a, const variant *b)
{
    return a->masks && b->masks && strcmp(a->masks, b->masks) == 0;
}

/* A line for each set of values, with the names of its variants. */
static qg_status warn_masks(const comparison *c)
{
    for (size_t i = 0; i < c->variant.n; i++) {
        const variant *v = &c->variant.at[i];
        bool told = !v->masks;
        for (size_t k = 0; k < i && !told; k++)
            told = same_masks(&c->variant.at[k], v);
        if (told)
            continue;
        const char *names = v->name;
        for (size_t k = i + 1; k < c->variant.n && names; k++)
            if (same_masks(v, &c->variant.at[k]))
                names =
                    qg_arena_printf(c->arena, "%s, %s", names, c->variant.at[k].name);
        if (!names)
            return qg_nomem(c->m->ctx);
        qg_warn(c->m->ctx,
                "compare: %s: %s; `qg quantize` prints a policy that leaves them in "
                "float",
                names, v->masks);
    }
    return QG_OK;
}

/* --- counting --- */

static void count_endpoints(const comparison *c, variant *v)
{
    const qg_quant *q = c->model.quant;
    const qg_graph *g = c->model.graph;
    for (size_t i = 0; i < q->tqc.n; i++) {
        const qg_tqc *t = q->tqc.at[i];
        v->baked += qg_tqc_is_baked(t);
    }
    for (size_t i = 0; i < g->node.n; i++)
        v->quantized += g->node.at[i]->platform == QG_PLATFORM_QUANTIZED;
    v->rounding = qg_rounding_points(q);
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
    for (size_t i = 0; i < c->model.quant->tqc.n; i++) {
        const qg_tqc *t = c->model.quant->tqc.at[i];
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
    qg_arena *sample;
    qg_run *real, *run;
    const qg_tensor **in;
} worker;

static qg_status begin(void *ud, qg_ctx *ctx, void **state)
{
    const comparison *c = ud;
    worker *w = QG_NEW(ctx->arena, worker);
    if (!w)
        return qg_nomem(ctx);
    *state = w; /* released by end, however far we come */
    w->in = QG_NEWN(ctx->arena, c->m->graph->input.n, const qg_tensor *);
    w->sample = qg_arena_new(ctx->alloc);
    if (!w->in || !w->sample)
        return qg_nomem(ctx);
    QG_TRY(qg_run_new(ctx, c->real, &w->real));
    return qg_run_new(ctx, c->plan, &w->run);
}

static void end(void *ud, void *state)
{
    worker *w = state;
    (void)ud;
    qg_run_free(w->run);
    qg_run_free(w->real);
    qg_arena_free(w->sample);
}

static qg_status vote(const comparison *c, qg_ctx *ctx, const worker *w, size_t sample)
{
    QG_TRY(qg_labels_vote(ctx, "compare", qg_run_output(w->real, 0), &c->label, sample,
                          c->real_vote));
    return qg_labels_vote(ctx, "compare", qg_run_output(w->run, 0), &c->label, sample,
                          c->vote);
}

static qg_status work(void *ud, qg_ctx *ctx, void *state, size_t sample)
{
    comparison *c = ud;
    worker *w = state;
    const qg_feed *f = c->measured_on;
    size_t n_out = c->at.n;
    qg_arena_reset(w->sample);
    QG_TRY(f->fetch(f->ud, ctx, w->sample, sample, w->in));
    QG_TRY(qg_run_execute(w->real, w->in, NULL, 0, sample));
    QG_TRY(qg_run_execute(w->run, w->in, NULL, 0, sample));
    for (size_t k = 0; k < n_out; k++) {
        QG_TRY(qg_measure_value(ctx, c->metric, c->at.at[k], qg_run_output(w->real, k),
                                qg_run_output(w->run, k),
                                &c->value[sample * n_out + k]));
    }
    if (c->label.label)
        QG_TRY(vote(c, ctx, w, sample));
    return qg_meter_add(&c->meter, ctx, 1);
}

/* Means in order of samples. */
static qg_status average(comparison *c, variant *v)
{
    size_t n_out = c->at.n, samples = c->measured_on->n;
    v->error = QG_NEWN(c->arena, n_out, double);
    if (!v->error)
        return qg_nomem(c->m->ctx);
    for (size_t k = 0; k < n_out; k++) {
        for (size_t s = 0; s < samples; s++)
            v->error[k] += c->value[s * n_out + k];
        v->error[k] /= (double)samples;
    }
    if (c->label.label) {
        c->float_top1 = qg_labels_top1(&c->label, c->real_vote, samples);
        v->top1 = qg_labels_top1(&c->label, c->vote, samples);
    }
    return QG_OK;
}

/* Quantizing has warned of what the calibration data show. */
static qg_status warn_not_finite(comparison *c)
{
    const size_t n = c->measured_on->n;
    size_t first = qg_first_not_finite(c->value, n, c->at.n);
    if (c->label.label) {
        const size_t real = qg_labels_first_without(&c->label, c->real_vote, n),
                     lost = qg_labels_first_without(&c->label, c->vote, n);
        first = real < first ? real : first;
        first = lost < first ? lost : first;
    }
    if (c->warned || c->model.info.manifest.not_finite)
        return QG_OK;
    QG_TRY(qg_model_warn_not_finite(&c->model, QG_RUN_SIMULATE, &c->o->work,
                                    c->measured_on, first));
    c->warned = c->model.warned_not_finite != NULL;
    return QG_OK;
}

static qg_status count_nodes(const comparison *c, variant *v, const qg_program *p)
{
    v->profile = qg_arena_strdup(c->arena, p->profile->name);
    for (int how = 0; how < QG_LOWERED_PLAIN; how++)
        *(how == QG_LOWERED_INTEGER ? &v->integer : &v->other) += p->count[how];
    return v->profile ? QG_OK : qg_nomem(c->m->ctx);
}

/* The variant's plan, and every sample through it. */
static qg_status measure(comparison *c, variant *v)
{
    qg_job job = { .n = c->measured_on->n,
                   .workers = c->o->work.jobs,
                   .begin = begin,
                   .work = work,
                   .end = end,
                   .ud = c,
                   .meter = &c->meter };
    qg_mode_request mode = { .mode = c->o->mode, .profile = c->o->profile };
    QG_TRY(qg_executable_make(&c->model, &mode, &c->run));
    if (c->run.program)
        QG_TRY(count_nodes(c, v, c->run.program));
    QG_TRY(qg_executable_plan(&c->run, &c->o->work, c->measured_on, NULL, &c->plan));
    QG_TRY(qg_pool_run(c->m->ctx, &job));
    QG_TRY(warn_not_finite(c));
    return average(c, v);
}

static void close_variant(comparison *c)
{
    qg_plan_free(c->plan);
    qg_executable_free(&c->run);
    qg_graph_free(c->model.graph);
    c->plan = NULL;
    c->run = (qg_executable){ 0 };
    c->model = (qg_model){ 0 };
}

static qg_status try_variant(comparison *c, size_t i)
{
    variant *v = &c->variant.at[i];
    qg_measured at = { 0 };
    qg_status s = quantize_variant(c, v);
    if (s == QG_OK)
        s = find_masks(c, v);
    if (s == QG_OK) {
        count_endpoints(c, v);
        s = list_groups(c, i);
    }
    if (s == QG_OK)
        s = qg_measured_in(&c->at, c->model.graph, "compare", c->arena, &at);
    qg_measured_begin(&at);
    if (s == QG_OK)
        s = measure(c, v);
    qg_measured_end(&at);
    close_variant(c);
    return s;
}

/* What all variants need: samples, labels, the float network. */
static qg_status prepare(comparison *c)
{
    qg_ctx *ctx = c->m->ctx;
    QG_TRY(qg_feed_open(c->m, &c->o->work, &c->feed));
    c->measured_on = &c->feed.feed;
    if (c->o->holdout) {
        qg_workload other = { .data = c->o->holdout };
        QG_TRY(qg_feed_open(c->m, &other, &c->holdout));
        c->measured_on = &c->holdout.feed;
        if (!c->o->work.source)
            QG_TRY(qg_split_warn(c->m, "compare", &c->feed.feed, c->measured_on,
                                 c->o->holdout));
    }
    size_t n = c->measured_on->n;
    QG_TRY(qg_measured_find(c->m->graph, c->measured_on, "compare", c->arena, &c->at));
    c->label.each = 1;
    const qg_labelled of = { c->m->graph, n, !c->o->holdout && c->o->work.samples > 0 };
    if (c->o->labels) {
        QG_TRY(qg_measured_labels(&c->at, "compare"));
        QG_TRY(qg_labels_load(ctx, c->o->labels, c->arena, &of, &c->label));
    }
    c->value = QG_NEWN(c->arena, n * c->at.n, double);
    c->real_vote = QG_NEWN(c->arena, n * c->label.each, int32_t);
    c->vote = QG_NEWN(c->arena, n * c->label.each, int32_t);
    if (!c->value || !c->real_vote || !c->vote)
        return qg_nomem(ctx);
    qg_measured_begin(&c->at);
    qg_status s =
        qg_model_plan(c->m, QG_RUN_FLOAT, &c->o->work, c->measured_on, NULL, &c->real);
    qg_measured_end(&c->at);
    return s;
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

static qg_status report_accuracy(const comparison *c, qg_report *r)
{
    qg_table *t;
    if (!c->label.label)
        return QG_OK;
    QG_TRY(qg_report_add(r, "float_top1", qg_cell_percent(c->float_top1)));
    QG_TRY(qg_report_table(r, "accuracy", "variant top1 difference", &t));
    for (size_t i = 0; i < c->variant.n; i++) {
        const variant *v = &c->variant.at[i];
        QG_TRY(qg_table_cells(r, t, qg_cell_text(v->name), qg_cell_percent(v->top1),
                              qg_cell_percent(v->top1 - c->float_top1)));
    }
    return QG_OK;
}

/* Nodes that are not in integers run in float: `qg run` gives the reasons. */
static qg_status report_programs(const comparison *c, qg_report *r)
{
    qg_table *t;
    if (!c->variant.at[0].profile)
        return QG_OK;
    QG_TRY(qg_report_table(r, "integers", "variant profile integer other", &t));
    for (size_t i = 0; i < c->variant.n; i++) {
        const variant *v = &c->variant.at[i];
        QG_TRY(qg_table_cells(r, t, qg_cell_text(v->name), qg_cell_text(v->profile),
                              qg_cell_count(v->integer), qg_cell_count(v->other)));
    }
    return QG_OK;
}

static qg_status report_errors(const comparison *c, qg_report *r)
{
    qg_table *t;
    QG_TRY(qg_report_table(r, "errors", "output variant error", &t));
    for (size_t k = 0; k < c->at.n; k++)
        for (size_t i = 0; i < c->variant.n; i++) {
            QG_TRY(
                qg_table_cells(r, t, qg_cell_text(c->at.at[k]->name),
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
    qg_report_detail(r, QG_DETAIL_ALL);
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
    QG_TRY(qg_report_metric(r, c->metric));
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(c->measured_on->n)));
    QG_TRY(qg_measured_report(&c->at, r));
    QG_TRY(report_accuracy(c, r));
    QG_TRY(report_variants(c, r));
    QG_TRY(report_programs(c, r));
    QG_TRY(report_errors(c, r));
    QG_TRY(sum_up_groups(c, r));
    return report_groups(c, r);
}

/* --- all together --- */

static qg_status run(comparison *c, qg_report **out)
{
    qg_report *r;
    QG_TRY(list_variants(c));
    QG_TRY(prepare(c));
    qg_meter_begin(&c->meter, &c->o->work.progress, "compare",
                   c->measured_on->n * c->variant.n);
    qg_status s = QG_OK;
    for (size_t i = 0; s == QG_OK && i < c->variant.n; i++)
        s = try_variant(c, i);
    qg_meter_end(&c->meter);
    QG_TRY(s);
    QG_TRY(warn_masks(c));
    QG_TRY(qg_report_new(c->m->ctx, "compare", &r));
    return qg_report_end(report(c, r), r, out);
}

static qg_status check_mode(qg_ctx *ctx, const qg_compare_options *o)
{
    bool integer = o->mode && strcmp(o->mode, "integer") == 0;
    if (o->mode && !integer && strcmp(o->mode, "simulate") != 0)
        return qg_fail(ctx, QG_ECONFIG,
                       "compare: mode '%s': expected simulate or integer", o->mode);
    if (o->profile && !integer)
        return qg_fail(ctx, QG_ECONFIG,
                       "compare: profile '%s': mode is simulate, expected integer",
                       o->profile);
    return QG_OK;
}

qg_status qg_model_compare(qg_model *m, const qg_compare_options *given,
                           qg_report **out)
{
    qg_compare_options o;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_compare_options, given, &o));
    QG_TRY(qg_workload_check(m->ctx, &o.work));
    comparison c = { .m = m, .o = &o };
    QG_TRY(qg_model_expect_float(m, "compare"));
    QG_TRY(check_mode(m->ctx, &o));
    QG_TRY(qg_model_begin_float32(m));
    QG_TRY(qg_measure_by(m->ctx, o.metric, &c.metric));
    c.arena = qg_arena_new(m->ctx->alloc);
    qg_status st = c.arena ? run(&c, out) : qg_nomem(m->ctx);
    qg_plan_free(c.real);
    qg_feed_close(&c.feed);
    qg_feed_close(&c.holdout);
    qg_arena_free(c.arena);
    return st;
}

/* quantize.c -- backend, overrides, pipeline, calibration data: one run of the
 * passes. */
#include <math.h>

#include "engine/accel/kernels.h"
#include "engine/report/describe.h"
#include "engine/session/first_layer.h"
#include "engine/session/inspect.h"
#include "engine/session/session.h"
#include "engine/core/file.h"
#include "engine/core/suggest.h"
#include "engine/core/hash.h"
#include "engine/config/override.h"
#include "engine/config/text.h"
#include "engine/snapshot/stats_file.h"
#include "engine/ir/text.h"
#include "engine/calib/observer.h"
#include "engine/quant/quirk.h"
#include "engine/pass/rules.h"
#include "engine/quant/tqc_text.h"
#include "passes/passes.h"

QG_OPTIONS_INIT(qg_quantize_options)

/* The state of a run besides its options. */
typedef struct job {
    qg_model *m;
    const qg_quantize_options *o;
    qg_arena *arena; /* the graph's */
    qg_backend *backend;
    qg_pipeline pipeline;
    qg_api_feed feed;
    qg_looks looks;               /* at the feed's samples */
    qg_findings found;            /* before passes changed the network */
    qg_stats *stats;              /* instead of the feed; NULL: none */
    const qg_pass *const *passes; /* that there are */
    qg_strange strange;           /* in the quantized network */
    size_t dumps;
} job;

/* Files that come with the tool are named from "configs/" on: a snapshot does not
 * depend on the tool's location. */
static qg_status shorten(job *j, qg_origin *o)
{
    const char *dir = j->m->ctx->config_dir;
    size_t n = strlen(dir);
    if (!o->file || strncmp(o->file, dir, n) != 0 || o->file[n] != '/')
        return QG_OK;
    o->file = qg_arena_printf(j->arena, "configs%s", o->file + n);
    return o->file ? QG_OK : qg_nomem(j->m->ctx);
}

static qg_status shorten_origins(job *j)
{
    qg_backend *b = j->backend;
    for (size_t i = 0; i < b->rule.n; i++)
        QG_TRY(shorten(j, &b->rule.at[i].origin));
    for (size_t i = 0; i < b->fusion.n; i++)
        QG_TRY(shorten(j, &b->fusion.at[i].origin));
    for (size_t i = 0; i < b->sharing.n; i++)
        QG_TRY(shorten(j, &b->sharing.at[i].origin));
    return QG_OK;
}

/* The pipeline's word first, then the backend's and that of the run. */
static qg_status join_settings(job *j)
{
    qg_pass_settings *into = &j->pipeline.setting;
    for (size_t i = 0; i < j->backend->setting.n; i++)
        QG_TRY(qg_vec_push(j->m->ctx, j->arena, into, j->backend->setting.at[i]));
    return QG_OK;
}

/* `stop_after`: the pipeline up to this pass, the first of that name. */
static qg_status stop_early(job *j)
{
    qg_pipeline *p = &j->pipeline;
    const char *name = j->o->stop_after;
    char hint[QG_SUGGEST_TEXT];
    if (!name)
        return QG_OK;
    qg_suggest near = qg_suggest_for(name);
    for (size_t i = 0; i < p->n; i++) {
        if (strcmp(p->pass[i], name) == 0) {
            qg_pipeline_cut(p, i + 1);
            return QG_OK;
        }
        qg_suggest_try(&near, p->pass[i]);
    }
    return qg_fail(j->m->ctx, QG_ECONFIG,
                   "stop after '%s': pipeline %s has no such pass, expected one of "
                   "pipelines/%s.yaml%s",
                   name, p->name, p->name, qg_suggest_text(&near, hint));
}

static qg_status check_texts(qg_ctx *ctx, const char *what, const char *const *text,
                             size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!text || !text[i])
            return qg_fail(ctx, QG_ECONFIG, "quantize: %s[%zu]: NULL, expected a text",
                           what, i);
    return QG_OK;
}

static qg_status read_backend(job *j)
{
    qg_ctx *ctx = j->m->ctx;
    qg_search search;
    if (!j->o->backend)
        return qg_fail(ctx, QG_ECONFIG, "quantize: no backend given, expected a name");
    QG_TRY(qg_config_search(ctx, j->arena, "backends", &search));
    QG_TRY(qg_backend_load(ctx, j->arena, j->o->backend, search, &j->backend));
    if (j->o->quirks) {
        uint64_t mask;
        QG_TRY(qg_quirks_named(ctx, j->o->quirks, &mask));
        QG_TRY(qg_backend_quirks(ctx, j->arena, mask, j->backend));
    }
    QG_TRY(check_texts(ctx, "policy", j->o->policy, j->o->n_policy));
    QG_TRY(check_texts(ctx, "set", j->o->set, j->o->n_set));
    for (size_t i = 0; i < j->o->n_policy; i++)
        QG_TRY(qg_backend_patch(ctx, j->arena, j->o->policy[i], j->backend));
    for (size_t i = 0; i < j->o->n_set; i++)
        QG_TRY(qg_backend_set(ctx, j->arena, j->o->set[i], j->backend));
    QG_TRY(shorten_origins(j));
    QG_TRY(qg_session_pipeline(ctx, j->arena, j->backend->pipeline, &j->pipeline));
    QG_TRY(join_settings(j));
    return stop_early(j);
}

/* --- dump after passes --- */

static qg_status dump_to(const qg_pass_env *env, FILE *stream)
{
    char *graph, *tqcs = NULL;
    size_t size;
    qg_arena *a = env->graph->arena;
    QG_TRY(qg_text_print(env->graph, NULL, a, &graph, &size));
    if (env->quant)
        QG_TRY(qg_quant_text(env->quant, QG_TQC_FULL, a, &tqcs));
    (void)fputs(graph, stream);
    (void)fputs(tqcs ? tqcs : "", stream);
    return QG_OK;
}

static qg_status dump(void *ud, const qg_pass_env *env, const char *pass)
{
    job *j = ud;
    bool all = strcmp(j->o->dump_after, "all") == 0;
    j->dumps++;
    if (!all && strcmp(j->o->dump_after, pass) != 0)
        return QG_OK;
    const char *dir = j->o->dump_dir ? j->o->dump_dir : ".";
    const char *name =
        qg_arena_printf(j->arena, "%s/%02zu-%s.txt", dir, j->dumps, pass);
    qg_writer w;
    if (!name)
        return qg_nomem(env->ctx);
    QG_TRY(qg_directory_make(env->ctx, dir));
    QG_TRY(qg_writer_open(env->ctx, name, &w));
    qg_status s = dump_to(env, w.stream);
    if (s == QG_OK)
        return qg_writer_commit(&w);
    qg_writer_abandon(&w);
    return s;
}

/* --- manifest --- */

/* SHA-256 over the files of the backend, parents first. */
static qg_status hash_backend(job *j, const char **out)
{
    qg_ctx *ctx = j->m->ctx;
    char text[QG_HASH_TEXT];
    qg_hash h;
    qg_hash_begin(&h);
    for (size_t i = 0; i < j->backend->file.n; i++) {
        const char *bytes;
        size_t size;
        QG_TRY(qg_config_read(
            ctx, j->arena,
            (qg_file_request){ "hash", j->backend->file.at[i], SIZE_MAX }, &bytes,
            &size));
        qg_hash_add(&h, bytes, size);
    }
    qg_hash_end(&h, text);
    *out = qg_arena_strdup(j->arena, text);
    return *out ? QG_OK : qg_nomem(ctx);
}

typedef struct option_list {
    job *j;
    QG_VEC(const char *) text; /* name, value, name, value ... */
} option_list;

static qg_status add_option(option_list *l, const char *name, const char *value)
{
    qg_ctx *ctx = l->j->m->ctx;
    if (!value)
        return QG_OK;
    const char *copy = qg_arena_strdup(l->j->arena, value);
    if (!copy)
        return qg_nomem(ctx);
    QG_TRY(qg_vec_push(ctx, l->j->arena, &l->text, name));
    return qg_vec_push(ctx, l->j->arena, &l->text, copy);
}

/* Repeated options become one: JSON keys are unique. */
static qg_status add_list(option_list *l, const char *name, const char *const *value,
                          size_t n)
{
    const char *text = n ? value[0] : NULL;
    for (size_t i = 1; i < n && text; i++)
        text = qg_arena_printf(l->j->arena, "%s; %s", text, value[i]);
    return n && !text ? qg_nomem(l->j->m->ctx) : add_option(l, name, text);
}

/* The options that change the result; jobs do not. */
static qg_status list_options(job *j, qg_manifest *m)
{
    const qg_quantize_options *o = j->o;
    option_list l = { .j = j };
    QG_TRY(add_option(&l, "observer", o->observer));
    QG_TRY(add_option(&l, "dispatcher", o->dispatcher));
    QG_TRY(add_option(&l, "quirks", o->quirks));
    QG_TRY(add_list(&l, "policy", o->policy, o->n_policy));
    QG_TRY(add_list(&l, "set", o->set, o->n_set));
    m->option = l.text.at;
    m->n_option = l.text.n / 2;
    return QG_OK;
}

/* Statistics record their origin, so that a snapshot made from them equals the one made
 * from the samples. */
static qg_status name_data(job *j, qg_manifest *m)
{
    const qg_stats *s = j->stats;
    if (!s) {
        m->samples = j->feed.feed.n;
        return qg_workload_origin(j->m, &j->o->work, j->arena, &m->data,
                                  &m->data_sha256);
    }
    m->samples = (size_t)qg_stats_samples(s);
    m->data = qg_arena_strdup(j->arena, s->manifest.data);
    m->data_sha256 = NULL;
    if (m->data && *s->manifest.data_sha256)
        m->data_sha256 = qg_arena_strdup(j->arena, s->manifest.data_sha256);
    return m->data ? QG_OK : qg_nomem(j->m->ctx);
}

static qg_status fill_manifest(job *j)
{
    char version[32];
    qg_manifest *m = &j->m->info.manifest;
    *m = (qg_manifest){ .tool = "quantgraph " QG_VERSION,
                        .model_file = qg_path_base(j->m->path),
                        .model_sha256 = j->m->sha256 };
    m->kernels = j->o->work.reference_kernels
                     ? "reference"
                     : qg_arena_strdup(j->arena, qg_accel_version(version));
    if (!m->kernels)
        return qg_nomem(j->m->ctx);
    QG_TRY(hash_backend(j, &m->backend_sha256));
    QG_TRY(name_data(j, m));
    return list_options(j, m);
}

/* --- coverage --- */

static qg_status keep_coverage(job *j, const qg_pass_env *env)
{
    qg_ctx *ctx = j->m->ctx;
    qg_coverage_row *row = QG_NEWN(j->arena, env->coverage.n, qg_coverage_row);
    if (!row)
        return qg_nomem(ctx);
    for (size_t i = 0; i < env->coverage.n; i++) {
        const qg_coverage *c = &env->coverage.at[i];
        qg_coverage_miss *miss = QG_NEWN(j->arena, c->near_miss.n, qg_coverage_miss);
        if (!miss)
            return qg_nomem(ctx);
        for (size_t k = 0; k < c->near_miss.n; k++)
            miss[k] = (qg_coverage_miss){ c->near_miss.at[k].node,
                                          c->near_miss.at[k].condition };
        row[i] = (qg_coverage_row){ .pass = c->pass,
                                    .pattern = c->pattern,
                                    .matched = c->matched,
                                    .miss = miss,
                                    .n_miss = c->near_miss.n,
                                    .nearest = c->nearest };
    }
    j->m->info.coverage = row;
    j->m->info.n_coverage = env->coverage.n;
    j->m->info.settled = env->calibrated.settled.at;
    j->m->info.n_settled = env->calibrated.settled.n;
    return QG_OK;
}

/* Sharing has given the leaders of groups other scales since: the interval is around
 * the scale that an endpoint has, as wide as the least certain of its group. */
static qg_status center_intervals(job *j, const qg_quant *q, qg_calibrated *c)
{
    double *error = QG_NEWN(j->arena, q->tqc.n, double);
    if (!error)
        return qg_nomem(j->m->ctx);
    for (size_t i = 0; i < c->settled.n; i++) {
        const qg_settled *s = &c->settled.at[i];
        uint32_t root = qg_tqc_root(s->tqc)->id;
        error[root] = fmax(error[root], s->error);
    }
    for (size_t i = 0; i < c->settled.n; i++) {
        qg_settled *s = &c->settled.at[i];
        qg_qparam p = qg_tqc_param(s->tqc);
        double e = 2 * error[qg_tqc_root(s->tqc)->id];
        if (p.n != 1)
            continue;
        s->low = fmax((double)p.scale[0] * (1 - e), 0);
        s->high = (double)p.scale[0] * (1 + e);
    }
    return QG_OK;
}

/* --- the report --- */

static qg_status report_passes(qg_report *r, const qg_pass_env *env)
{
    qg_table *t;
    QG_TRY(qg_report_table(r, "passes", "pass changed milliseconds", &t));
    qg_report_detail(r, QG_DETAIL_VERBOSE);
    for (size_t i = 0; i < env->result.n; i++) {
        const qg_pass_result *p = &env->result.at[i];
        QG_TRY(qg_table_cells(r, t, qg_cell_text(p->name), qg_cell_count(p->changed),
                              qg_cell_number(1e3 * p->seconds)));
    }
    return QG_OK;
}

/* The number of passes over the samples, and the observers that needed them. */
static qg_status report_observers(qg_report *r, const qg_pass_env *env)
{
    qg_table *t;
    size_t passes = 0;
    for (size_t i = 0; i < env->calibrated.observers.n; i++)
        if (env->calibrated.observers.at[i].passes > passes)
            passes = env->calibrated.observers.at[i].passes;
    QG_TRY(qg_report_add(r, "passes_over_samples", qg_cell_count(passes)));
    QG_TRY(qg_report_table(r, "observers", "observer endpoints passes ordered", &t));
    for (size_t i = 0; i < env->calibrated.observers.n; i++) {
        const qg_observer_use *u = &env->calibrated.observers.at[i];
        QG_TRY(qg_table_cells(r, t, qg_cell_text(u->observer),
                              qg_cell_count(u->endpoints), qg_cell_count(u->passes),
                              qg_cell_bool(u->ordered)));
    }
    return QG_OK;
}

/* The patterns that this network has, or nearly has, unless `all`. */
static qg_status fill_coverage(qg_report *r, const qg_snapshot_info *info, bool all,
                               qg_table *t)
{
    for (size_t i = 0; i < info->n_coverage; i++) {
        const qg_coverage_row *c = &info->coverage[i];
        if (!all && !c->matched && !c->n_miss)
            continue;
        QG_TRY(qg_table_addf(r, t, "%s/%s", c->pass, c->pattern));
        QG_TRY(
            qg_table_cells(r, t, qg_cell_count(c->matched), qg_cell_count(c->n_miss)));
        if (c->n_miss)
            QG_TRY(
                qg_table_addf(r, t, "%s: %s", c->miss[0].node, c->miss[0].condition));
        else if (!c->matched && c->nearest)
            QG_TRY(qg_table_add(r, t, qg_cell_text(c->nearest)));
        else
            QG_TRY(qg_table_add(r, t, (qg_cell){ 0 }));
    }
    return QG_OK;
}

#define COVERAGE "pattern matched near_misses for_example"

static qg_status report_patterns(qg_report *r, const qg_snapshot_info *info)
{
    qg_table *t;
    QG_TRY(qg_report_table(r, "patterns", COVERAGE, &t));
    return fill_coverage(r, info, false, t);
}

static qg_status report_coverage(qg_report *r, const qg_snapshot_info *info)
{
    qg_table *t;
    QG_TRY(qg_report_table(r, "coverage", COVERAGE, &t));
    qg_report_detail(r, QG_DETAIL_ALL);
    return fill_coverage(r, info, true, t);
}

/* Intervals of all scales, for programs. */
static qg_status report_intervals(qg_report *r, const qg_snapshot_info *info)
{
    char at[QG_ENDPOINT_TEXT];
    qg_table *t;
    QG_TRY(qg_report_table(r, "intervals", "endpoint low high settled_after", &t));
    qg_report_detail(r, QG_DETAIL_ALL);
    for (size_t i = 0; i < info->n_settled; i++) {
        const qg_settled *s = &info->settled[i];
        QG_TRY(qg_table_cells(r, t, qg_cell_text(qg_tqc_text(s->tqc, at)),
                              qg_cell_number(s->low), qg_cell_number(s->high),
                              qg_cell_count((size_t)s->after)));
    }
    return QG_OK;
}

/* Scales of too few elements for their observer, each for programs, in one line for
 * people. */
static qg_status report_few(qg_report *r, const qg_pass_env *env)
{
    char at[QG_ENDPOINT_TEXT];
    qg_table *t;
    size_t n = env->calibrated.few.n, least = 0;
    const qg_few *few = env->calibrated.few.at;
    QG_TRY(qg_report_table(r, "few", "endpoint observer elements", &t));
    qg_report_detail(r, QG_DETAIL_ALL);
    for (size_t i = 0; i < n; i++)
        QG_TRY(qg_table_cells(r, t, qg_cell_text(qg_tqc_text(few[i].tqc, at)),
                              qg_cell_text(few[i].observer),
                              qg_cell_count((size_t)few[i].elements)));
    if (n == 0)
        return QG_OK;
    for (size_t i = 1; i < n; i++)
        least = few[i].elements < few[least].elements ? i : least;
    return qg_report_addf(
        r, "few_elements",
        "%zu %s by minmax instead of %s, for which %llu elements (%s) are too few; "
        "more samples, or another observer, change this",
        n, n == 1 ? "scale" : "scales", few[least].observer,
        (unsigned long long)few[least].elements, qg_tqc_text(few[least].tqc, at));
}

/* Findings about the samples, in short; `qg stats doctor` checks more. */
static qg_status report_doctor(job *j, qg_report *r)
{
    enum { MOST = 8 };
    QG_TRY(qg_looks_judge(&j->looks, &j->found));
    return qg_findings_report(r, &j->found, MOST);
}

/* Every near miss, for programs; the page has one example of each pattern. */
static qg_status report_near_misses(qg_report *r, const qg_snapshot_info *info)
{
    qg_table *t;
    QG_TRY(qg_report_table(r, "near_misses", "pattern node condition", &t));
    qg_report_detail(r, QG_DETAIL_ALL);
    for (size_t i = 0; i < info->n_coverage; i++) {
        const qg_coverage_row *c = &info->coverage[i];
        for (size_t k = 0; k < c->n_miss; k++) {
            QG_TRY(qg_table_addf(r, t, "%s/%s", c->pass, c->pattern));
            QG_TRY(qg_table_cells(r, t, qg_cell_text(c->miss[k].node),
                                  qg_cell_text(c->miss[k].condition)));
        }
    }
    return QG_OK;
}

static qg_status fill_report(job *j, const qg_pass_env *env, qg_report *r)
{
    const qg_model *m = j->m;
    size_t quantized = 0;
    for (size_t i = 0; i < m->graph->node.n; i++)
        quantized += m->graph->node.at[i]->platform == QG_PLATFORM_QUANTIZED;
    QG_TRY(qg_report_add(r, "model", qg_cell_text(m->info.manifest.model_file)));
    QG_TRY(qg_report_add(r, "backend", qg_cell_text(j->backend->name)));
    QG_TRY(qg_report_add(r, "nodes", qg_cell_count(m->graph->node.n)));
    QG_TRY(qg_report_add(r, "quantized_nodes", qg_cell_count(quantized)));
    QG_TRY(qg_report_float_compute(m, r));
    QG_TRY(qg_report_add(r, "endpoints", qg_cell_count(m->quant->tqc.n)));
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(m->info.manifest.samples)));
    QG_TRY(qg_report_masks(r, &j->strange));
    QG_TRY(report_doctor(j, r));
    QG_TRY(report_few(r, env));
    QG_TRY(qg_report_states(r, m->quant));
    QG_TRY(report_patterns(r, &m->info));
    QG_TRY(report_observers(r, env));
    QG_TRY(report_passes(r, env));
    QG_TRY(report_coverage(r, &m->info));
    QG_TRY(report_near_misses(r, &m->info));
    QG_TRY(report_intervals(r, &m->info));
    return qg_report_confidence(r, &m->info);
}

static qg_status describe(job *j, const qg_pass_env *env, qg_report **out)
{
    qg_report *r;
    QG_TRY(qg_report_new(j->m->ctx, "quantize", &r));
    return qg_report_end(fill_report(j, env, r), r, out);
}

/* --- words of the options --- */

static qg_status check_pass(const job *j)
{
    const char *name = j->o->dump_after;
    char text[QG_SUGGEST_TEXT];
    if (!name || strcmp(name, "all") == 0 || qg_pass_find(j->passes, name))
        return QG_OK;
    qg_suggest near = qg_suggest_for(name);
    for (size_t i = 0; j->passes[i]; i++)
        qg_suggest_try(&near, j->passes[i]->name);
    return qg_fail(j->m->ctx, QG_ECONFIG,
                   "dump after '%s': no such pass, expected all or one of `qg list "
                   "passes`%s",
                   name, qg_suggest_text(&near, text));
}

static qg_status check_observer(const job *j)
{
    qg_observer_setting s;
    return j->o->observer ? qg_observer_parse(j->m->ctx, j->o->observer, &s) : QG_OK;
}

/* The doctor sees every sample that calibration fetches. */
static qg_status look_along(job *j, bool report)
{
    QG_TRY(qg_looks_begin(j->m, j->arena, &j->feed.feed, &j->looks));
    j->feed.feed = j->looks.feed;
    j->found = (qg_findings){ .ctx = j->m->ctx, .arena = j->arena };
    return report ? qg_first_layer_judge(j->m, &j->feed.feed, &j->found) : QG_OK;
}

/* --- statistics instead of samples --- */

static qg_status read_stats(job *j)
{
    qg_ctx *ctx = j->m->ctx;
    if (qg_workload_has_samples(&j->o->work))
        return qg_fail(ctx, QG_ECONFIG,
                       "quantize: statistics and data are given, expected one of them");
    if (j->o->work.samples)
        return qg_fail(ctx, QG_ECONFIG,
                       "quantize: statistics and a number of samples (%zu) are given, "
                       "expected statistics alone: they hold all of their samples",
                       (size_t)j->o->work.samples);
    QG_TRY(qg_stats_load(ctx, j->o->stats, &j->stats));
    if (strcmp(j->stats->manifest.model, j->m->sha256) == 0)
        return QG_OK;
    return qg_fail(ctx, QG_EDATA,
                   "quantize: %.200s: is of model %.16s..., expected %.16s... (%.200s)",
                   j->o->stats, j->stats->manifest.model, j->m->sha256, j->m->path);
}

/* --- values that spoil grids --- */

/* The network with its quantizers; the first is kept for verbs that have no data.
 * Statistics tell of masks alone. */
static qg_status find_strange(job *j, const qg_pass_env *env, bool warns)
{
    qg_finite_request r = { .mode = QG_RUN_SIMULATE,
                            .feed = &j->feed.feed,
                            .least = QG_LEAST_EXAMINED,
                            .also = env->far.at,
                            .n_also = env->far.n,
                            .reference = j->o->work.reference_kernels,
                            .masks = warns,
                            .progress = &j->o->work.progress };
    if (j->feed.feed.n > 0)
        QG_TRY(qg_model_strange(j->m, &r, j->arena, &j->strange));
    else if (j->stats && warns)
        QG_TRY(qg_masks_of_stats(j->m, j->stats, j->arena, &j->strange));
    j->m->info.manifest.not_finite = j->strange.not_finite;
    if (!warns)
        return QG_OK;
    QG_TRY(qg_masks_infinite(j->m->graph, env->masked.at, env->masked.n, j->arena,
                             &j->strange));
    QG_TRY(qg_masks_policy(j->m->graph, j->arena, &j->strange));
    qg_warn_strange(j->m->ctx, &j->strange);
    return QG_OK;
}

/* --- all together --- */

/* A choice that no pass has carried out is not lost in silence. */
static qg_status check_kept_float(const job *j, const qg_quant *q)
{
    char at[QG_ENDPOINT_TEXT];
    for (size_t i = 0; i < q->tqc.n; i++) {
        const qg_tqc *t = q->tqc.at[i];
        if (t->float_by && t->state != QG_TQC_FP32)
            return qg_fail(j->m->ctx, QG_ECONFIG,
                           "quantize: %s: rule %s keeps it in float, and pipeline %s "
                           "has no pass keep-float, expected it after simplify",
                           qg_tqc_text(t, at), t->float_by, j->pipeline.name);
    }
    return QG_OK;
}

/* Of records that differ from what was asked, or quantize badly. */
static qg_status warn_records(const job *j, const qg_pass_env *env)
{
    qg_ctx *ctx = j->m->ctx;
    qg_warn_no_effect(env->quant);
    QG_TRY(qg_warn_empty(ctx, j->arena, env->empty.at, env->empty.n));
    QG_TRY(qg_warn_small(ctx, j->arena, env->small.at, env->small.n));
    return qg_warn_saturated(env->quant, j->arena);
}

static qg_pass_env environment(job *j)
{
    qg_model *m = j->m;
    return (qg_pass_env){
        .ctx = m->ctx,
        .graph = m->graph,
        .backend = j->backend,
        .feed = j->feed.feed.n ? &j->feed.feed : NULL,
        .stats = j->stats,
        .options = {.dispatcher = j->o->dispatcher,
                    .observer = j->o->observer,
                    .samples = j->o->work.samples,
                    .jobs = j->o->work.jobs,
                    .reference = j->o->work.reference_kernels,
                    .rewritten = m->rewritten,
                    .setting = j->pipeline.setting.at,
                    .n_setting = j->pipeline.setting.n},
        .dump = j->o->dump_after ? dump : NULL,
        .ud = j,
        .progress = &j->o->work.progress,
        .stage = "calibrate",
    };
}

static qg_status run_passes(job *j, qg_report **report)
{
    qg_model *m = j->m;
    qg_pass_env env = environment(j);
    QG_TRY(qg_pass_run_all(&env, j->passes, j->pipeline.pass, j->pipeline.n));
    if (j->o->stop_after) {
        m->quant = env.quant;
        return QG_OK;
    }
    if (!env.quant)
        return qg_fail(
            m->ctx, QG_ECONFIG,
            "quantize: pipeline %s has no pass that creates TQCs, expected `rules`",
            j->pipeline.name);
    QG_TRY(check_kept_float(j, env.quant));
    QG_TRY(qg_rules_switch(env.quant));
    m->quant = env.quant;
    QG_TRY(center_intervals(j, env.quant, &env.calibrated));
    QG_TRY(keep_coverage(j, &env));
    QG_TRY(fill_manifest(j));
    if (report)
        QG_TRY(warn_records(j, &env));
    QG_TRY(find_strange(j, &env, report != NULL));
    QG_TRY(qg_model_warn_share(m, "quantize"));
    return report ? describe(j, &env, report) : QG_OK;
}

/* A file of another tool that is quantized already: its rounding stays, and a second
 * one would be added. */
static void warn_quantizers(const qg_model *m)
{
    size_t n;
    const qg_node *first = qg_model_own_quantizers(m, &n);
    if (first)
        qg_warn(m->ctx,
                "quantize: %s: has %zu quantizer%s of its own, the first is node "
                "'%.1000s' (%s), which stay as they are: the backend's come on top of "
                "them (`qg import` makes a snapshot of such a file)",
                m->path, n, n == 1 ? "" : "s", first->name, first->op->name);
}

qg_status qg_model_quantize(qg_model *m, const qg_quantize_options *given,
                            qg_report **report)
{
    qg_quantize_options o;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_quantize_options, given, &o));
    QG_TRY(qg_workload_check(m->ctx, &o.work));
    QG_TRY(qg_model_expect_float(m, "quantize"));
    if (report)
        warn_quantizers(m);
    QG_TRY(qg_model_begin_float32(m));
    job j = { .m = m, .o = &o, .arena = m->graph->arena };
    qg_status s = qg_passes_of(m->ctx, j.arena, &j.passes);
    if (s == QG_OK)
        s = check_pass(&j);
    if (s == QG_OK)
        s = check_observer(&j);
    if (s == QG_OK)
        s = read_backend(&j);
    if (s == QG_OK && o.stats)
        s = read_stats(&j);
    else if (s == QG_OK && qg_workload_has_samples(&o.work))
        s = qg_feed_open(m, &o.work, &j.feed);
    if (s == QG_OK && j.feed.feed.n)
        s = look_along(&j, report != NULL);
    if (s == QG_OK)
        s = run_passes(&j, report);
    qg_feed_close(&j.feed);
    qg_stats_free(j.stats);
    return s;
}

/* The records that the passes have made so far are dropped with the arena. */
qg_status qg_model_rewrite(qg_model *m, const qg_quantize_options *o,
                           const qg_feed *feed)
{
    job j = { .m = m, .o = o, .arena = m->graph->arena, .feed.feed = *feed };
    size_t n = 0;
    QG_TRY(qg_passes_of(m->ctx, j.arena, &j.passes));
    QG_TRY(read_backend(&j));
    while (n < j.pipeline.n && strcmp(j.pipeline.pass[n], "calibrate-activations") != 0)
        n++;
    qg_pipeline_cut(&j.pipeline, n);
    qg_pass_env env = environment(&j);
    return qg_pass_run_all(&env, j.passes, j.pipeline.pass, j.pipeline.n);
}

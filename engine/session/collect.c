/* collect.c -- qg stats collect: statistics of every value of the float canonical
 * graph, in shards, in pieces, by several processes, and again after an end by force.
 *
 * A piece of samples is followed by a checkpoint, FILE.part, now and then: writing
 * takes at most a twentieth of the time.  It is a statistics file like any other;
 * resuming merges it and collects the missing samples. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/accel/kernels.h"
#include "engine/session/parts.h"
#include "engine/session/session.h"
#include "engine/calib/collect.h"
#include "engine/exec/group.h"
#include "engine/exec/pool.h"
#include "engine/data/data.h"
#include "engine/core/clock.h"
#include "engine/core/hash.h"
#include "engine/core/vec.h"
#include "engine/snapshot/stats_file.h"
#include "engine/ir/text.h"
#include "passes/passes.h"

QG_OPTIONS_INIT(qg_stats_options)

typedef struct job {
    qg_model *m;
    const qg_stats_options *o;
    const char *path, *part;       /* the file, and its checkpoint */
    bool other_failed;             /* another process did, not this one */
    qg_parts parts;                /* checkpoints that were there */
    uint64_t first, end;           /* requested samples */
    QG_VEC(qg_stats_range) before; /* samples that checkpoints had, in order */
    qg_arena *arena;               /* of the graph */
    qg_api_feed feed;
    qg_stats *stats;
    qg_group group;      /* size 0: none joined */
    double saved, pause; /* time of the last checkpoint; to the next */
    uint64_t at;         /* samples of this process before it are done */
    size_t memory;       /* of statistics and workers */
    unsigned jobs;
} job;

/* --- the graph --- */

/* What calibration by the backend would run. */
static qg_status rewrite_for_backend(job *j)
{
    const qg_stats_options *o = j->o;
    qg_quantize_options q;
    qg_quantize_options_init(&q, sizeof q);
    q.work = o->work;
    q.backend = o->backend;
    q.quirks = o->quirks;
    q.policy = o->policy;
    q.n_policy = o->n_policy;
    q.set = o->set;
    q.n_set = o->n_set;
    q.dispatcher = o->dispatcher;
    return qg_model_rewrite(j->m, &q, &j->feed.feed);
}

/* The passes of the default pipeline before `dispatch`: later ones quantize. */
static qg_status make_canonical(job *j)
{
    assert(j->m->graph && !j->m->quant);
    qg_ctx *ctx = j->m->ctx;
    const qg_pass *const *all;
    qg_pipeline p;
    size_t n = 0;
    QG_TRY(qg_passes_of(ctx, j->arena, &all));
    QG_TRY(qg_session_pipeline(ctx, j->arena, "default", &p));
    while (n < p.n && strcmp(p.pass[n], "dispatch") != 0)
        n++;
    qg_pipeline_cut(&p, n);
    qg_pass_env env = {
        .ctx = ctx,
        .graph = j->m->graph,
        .progress = &j->o->work.progress,
        .options = {.reference = j->o->work.reference_kernels,
                    .setting = p.setting.at,
                    .n_setting = p.setting.n}
    };
    return qg_pass_run_all(&env, all, p.pass, n);
}

static qg_status set_text(job *j, const char **to, const char *text)
{
    *to = qg_arena_strdup(j->stats->arena, text);
    return *to ? QG_OK : qg_nomem(j->m->ctx);
}

/* The fields that must agree for two files to be merged, and the origin of the
 * samples. */
static qg_status fill_manifest(job *j)
{
    qg_stats_manifest *m = &j->stats->manifest;
    char sum[QG_HASH_TEXT], print[QG_FINGERPRINT_TEXT], version[32], kernels[64];
    char how[QG_DATA_HOW_TEXT];
    const char *data, *hash;
    QG_TRY(set_text(j, &m->model, j->m->sha256));
    QG_TRY(qg_graph_fingerprint(j->m->graph, j->arena, print));
    QG_TRY(set_text(j, &m->graph, print));
    qg_data_how(j->feed.data, how);
    qg_hash_bytes(how, strlen(how), sum);
    QG_TRY(set_text(j, &m->preprocessing, sum));
    (void)snprintf(kernels, sizeof kernels, "%s %s", qg_accel_version(version),
                   qg_accel_isa());
    QG_TRY(
        set_text(j, &m->kernels, j->o->work.reference_kernels ? "reference" : kernels));
    QG_TRY(qg_workload_origin(j->m, &j->o->work, j->arena, &data, &hash));
    QG_TRY(set_text(j, &m->data, data));
    return set_text(j, &m->data_sha256, hash ? hash : "");
}

/* --- samples --- */

/* FILE.part is complete or as before, whenever this process ends. */
static qg_status checkpoint(job *j)
{
    assert(j->part && j->pause > 0);
    double t = qg_clock_seconds();
    if (t - j->saved < j->pause)
        return QG_OK;
    QG_TRY(qg_stats_save(j->m->ctx, j->stats, j->part));
    j->saved = qg_clock_seconds();
    j->pause = fmax(0.25, 20 * (j->saved - t));
    return QG_OK;
}

/* The next samples from j->at on that no earlier run has seen, at most `most`. */
static bool next_piece(const job *j, uint64_t end, uint64_t most, uint64_t *first,
                       uint64_t *stop)
{
    assert(most > 0);
    uint64_t at = j->at, limit = end;
    for (size_t i = 0; i < j->before.n; i++) {
        const qg_stats_range *r = &j->before.at[i];
        if (at >= r->first && at < r->end)
            at = r->end;
        else if (r->first > at && r->first < limit)
            limit = r->first;
    }
    if (at >= end)
        return false;
    *first = at;
    *stop = limit - at > most ? at + most : limit;
    return true;
}

/* The number of workers that fit into --max-mem. */
static qg_status choose_jobs(job *j, const qg_collect_run *r, uint64_t samples)
{
    size_t each = qg_collect_bytes(r), most = j->o->memory;
    size_t base = qg_arena_bytes(j->stats->arena) + qg_arena_bytes(j->arena);
    j->jobs = qg_pool_workers(j->o->work.jobs, (size_t)samples);
    if (most && base + each > most)
        return qg_fail(j->m->ctx, QG_ECONFIG,
                       "stats: one worker needs %zu MB, expected at least that for "
                       "--max-mem",
                       (base + each) / 1000000 + 1);
    if (most && j->jobs > (most - base) / each)
        j->jobs = (unsigned)((most - base) / each);
    j->memory = base + j->jobs * each;
    return QG_OK;
}

/* Pieces of 16 samples per worker. */
static qg_status run_pieces(job *j, qg_collect *c, uint64_t first, uint64_t end)
{
    qg_ctx *ctx = j->m->ctx;
    qg_collect_run *r;
    uint64_t from, to;
    QG_TRY(qg_collect_open(ctx, c, &r));
    qg_status s = choose_jobs(j, r, end - first);
    c->jobs = j->jobs;
    j->at = first;
    j->saved = qg_clock_seconds();
    j->pause = 0.25;
    while (s == QG_OK && next_piece(j, end, (uint64_t)16 * j->jobs, &from, &to)) {
        s = qg_collect_samples(ctx, r, from, to);
        j->at = to;
        if (s == QG_OK)
            s = checkpoint(j);
    }
    const uint64_t nan = qg_collect_nan(r);
    qg_collect_close(r);
    return s == QG_OK && nan != UINT64_MAX
               ? qg_model_warn_not_finite(j->m, QG_RUN_FLOAT, &j->o->work,
                                          &j->feed.feed, (size_t)nan)
               : s;
}

/* Merging requires the same model; samples are the same when the data are, too, and
 * they are requested. */
static qg_status check_part(const job *j, const qg_stats *s, const char *path)
{
    const qg_stats_manifest *have = &s->manifest, *want = &j->stats->manifest;
    if (strcmp(have->data, want->data) != 0 ||
        strcmp(have->data_sha256, want->data_sha256) != 0)
        return qg_fail(j->m->ctx, QG_EDATA,
                       "stats: %.200s: is of data '%.100s', expected '%.100s'%s", path,
                       have->data, want->data,
                       strcmp(have->data, want->data) ? "" : " as it is now");
    for (size_t i = 0; i < s->seen.n; i++) {
        const qg_stats_range *r = &s->seen.at[i];
        if (r->first < j->first || r->end > j->end)
            return qg_fail(
                j->m->ctx, QG_EDATA,
                "stats: %.200s: contains sample %llu, expected samples %llu to %llu "
                "only",
                path, (unsigned long long)(r->first < j->first ? r->first : r->end - 1),
                (unsigned long long)j->first, (unsigned long long)j->end - 1);
    }
    return QG_OK;
}

static qg_status merge_part(job *j, const char *path)
{
    qg_stats *s;
    QG_TRY(qg_stats_load(j->m->ctx, path, &s));
    qg_status status = check_part(j, s, path);
    if (status == QG_OK)
        status = qg_parts_merge(j->stats, s, path);
    qg_stats_free(s);
    return status;
}

/* The requested samples. */
static qg_status find_samples(job *j)
{
    uint64_t n = j->feed.feed.n;
    j->first = j->o->first;
    j->end = j->o->end ? j->o->end : n;
    if (j->first < j->end && j->end <= n)
        return QG_OK;
    return qg_fail(j->m->ctx, QG_ECONFIG,
                   "stats: samples %llu:%llu of %llu, expected a part of them",
                   (unsigned long long)j->first, (unsigned long long)j->end,
                   (unsigned long long)n);
}

/* The sample before which `count` of the requested ones are missing. */
static uint64_t after_missing(const job *j, uint64_t count)
{
    uint64_t at = j->first;
    for (size_t i = 0; i < j->before.n; i++) {
        uint64_t gap = j->before.at[i].first - at;
        if (count <= gap)
            break;
        count -= gap;
        at = j->before.at[i].end;
    }
    return at + count;
}

/* The range of this process: an equal share of the samples that are missing. */
static void take_share(job *j, uint64_t *first, uint64_t *end)
{
    uint64_t rank = (uint64_t)j->group.rank, missing = j->end - j->first;
    uint64_t size = j->group.size > 1 ? (uint64_t)j->group.size : 1;
    for (size_t i = 0; i < j->before.n; i++)
        missing -= j->before.at[i].end - j->before.at[i].first;
    *first = after_missing(j, missing * rank / size);
    *end = after_missing(j, missing * (rank + 1) / size);
}

/* A glob that matches nothing is a typing error. */
static qg_status check_channels(const job *j)
{
    for (size_t i = 0; i < j->stats->value.n; i++)
        if (j->stats->value.at[i]->holds & QG_STATS_BY_CHANNEL)
            return QG_OK;
    return !j->o->channels
               ? QG_OK
               : qg_fail(
                     j->m->ctx, QG_ECONFIG,
                     "stats: --channels '%.100s': matches no value, expected a glob "
                     "over values of the network after its rewrites",
                     j->o->channels);
}

static qg_status empty_stats(job *j)
{
    qg_stats_free(j->stats);
    j->stats = NULL;
    QG_TRY(qg_stats_new(j->m->ctx, &j->stats));
    QG_TRY(fill_manifest(j));
    return qg_collect_values(j->m->graph, j->o->channels, j->stats);
}

/* Reads the checkpoints of earlier runs, without changing them. */
static qg_status prepare(job *j)
{
    const qg_stats_options *o = j->o;
    if (!o->backend && (o->quirks || o->n_policy || o->n_set || o->dispatcher))
        return qg_fail(j->m->ctx, QG_ECONFIG,
                       "stats: quirks, a policy, --set or a dispatcher without a "
                       "backend, expected the backend that they change");
    QG_TRY(qg_feed_open(j->m, &o->work, &j->feed));
    QG_TRY(o->backend ? rewrite_for_backend(j) : make_canonical(j));
    QG_TRY(find_samples(j));
    QG_TRY(empty_stats(j));
    QG_TRY(check_channels(j));
    QG_TRY(qg_parts_find(j->m->ctx, j->arena, j->path, j->group.rank, &j->parts,
                         &j->part));
    if (!j->o->resume)
        QG_TRY(qg_parts_check(j->m->ctx, &j->parts));
    for (size_t i = 0; j->o->resume && i < j->parts.n; i++)
        QG_TRY(merge_part(j, j->parts.path[i]));
    for (size_t i = 0; i < j->stats->seen.n; i++)
        QG_TRY(qg_vec_push(j->m->ctx, j->arena, &j->before, j->stats->seen.at[i]));
    return QG_OK;
}

/* When all have read the checkpoints: the first process keeps their sum. */
static qg_status take_over(job *j)
{
    if (j->group.rank > 0)
        return j->before.n ? empty_stats(j) : QG_OK;
    if (j->before.n && (j->parts.n > 1 || j->group.size > 1))
        QG_TRY(qg_stats_save(j->m->ctx, j->stats, j->part));
    qg_parts_remove(&j->parts, j->before.n ? j->part : NULL);
    return QG_OK;
}

static qg_status agree(job *j, qg_status s)
{
    qg_status all = j->group.size > 1 ? qg_group_agree(j->m->ctx, &j->group, s) : s;
    j->other_failed = s == QG_OK && all != QG_OK;
    return all;
}

/* Everything but writing: after it the statistics of this process are complete. */
static qg_status collect(job *j)
{
    uint64_t first, end;
    take_share(j, &first, &end);
    qg_collect c = { .graph = j->m->graph,
                     .feed = &j->feed.feed,
                     .stats = j->stats,
                     .reference = j->o->work.reference_kernels,
                     .progress = &j->o->work.progress,
                     .stage = "collect" };
    return first == end ? QG_OK : run_pieces(j, &c, first, end);
}

/* --- several processes --- */

/* A failure is sent, too, as nothing: rank 0 waits for every process once. */
static qg_status send(job *j, qg_status s)
{
    assert(j->group.rank > 0);
    unsigned char *bytes = NULL;
    size_t size = 0;
    if (s == QG_OK)
        s = qg_stats_encode(j->m->ctx, j->stats, j->arena, &bytes, &size);
    qg_status sent = qg_group_send(j->m->ctx, &j->group, bytes, size);
    return s != QG_OK ? s : sent;
}

/* Everybody is heard, also after a failure: nobody waits for ever.  The message is that
 * of the first failure, which is our own if there is one. */
static qg_status receive(job *j, qg_status s)
{
    assert(j->group.rank == 0);
    qg_ctx *ctx = j->m->ctx;
    char why[sizeof ctx->message];
    (void)snprintf(why, sizeof why, "%s", ctx->message);
    for (int k = 1; k < j->group.size; k++) {
        qg_arena *a = qg_arena_new(ctx->alloc);
        unsigned char *bytes;
        size_t size;
        qg_stats *other = NULL;
        qg_status t =
            a ? qg_group_receive(ctx, &j->group, k, a, &bytes, &size) : qg_nomem(ctx);
        qg_stats_source from = { "another process", t == QG_OK ? bytes : NULL,
                                 t == QG_OK ? size : 0 };
        if (t == QG_OK)
            t = qg_stats_decode(ctx, &from, &other);
        if (t == QG_OK && s == QG_OK)
            t = qg_stats_merge(j->stats, other, "this process", from.name);
        qg_stats_free(other);
        qg_arena_free(a);
        if (s == QG_OK && t != QG_OK)
            (void)snprintf(why, sizeof why, "%s", ctx->message);
        s = s == QG_OK ? t : s;
    }
    (void)snprintf(ctx->message, sizeof ctx->message, "%s", why);
    return s;
}

/* --- all together --- */

/* The report of `qg stats collect`; confidence comes last, it takes some
 * milliseconds. */
static qg_status fill_report(const job *j, qg_report *r)
{
    QG_TRY(qg_report_add(r, "values", qg_cell_count(j->stats->value.n)));
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(qg_stats_samples(j->stats))));
    QG_TRY(qg_report_add(r, "workers", qg_cell_count(j->jobs)));
    QG_TRY(qg_report_add(r, "processes",
                         qg_cell_count(j->group.size > 1 ? (size_t)j->group.size : 1)));
    QG_TRY(qg_report_add(r, "megabytes", qg_cell_number((double)j->memory * 1e-6)));
    QG_TRY(qg_report_settled_all(r, j->stats));
    return qg_report_add(r, "written", qg_cell_text(j->path));
}

static qg_status describe(job *j, qg_report **out)
{
    qg_report *r;
    QG_TRY(qg_report_new(j->m->ctx, "stats", &r));
    return qg_report_end(fill_report(j, r), r, out);
}

/* The file appears before any checkpoint goes. */
static qg_status finish(job *j, qg_report **report)
{
    assert(j->stats && j->part);
    qg_status s = QG_OK;
    if (j->group.rank == 0)
        s = qg_stats_save(j->m->ctx, j->stats, j->path);
    QG_TRY(agree(j, s));
    (void)unlink(j->part);
    return j->group.rank == 0 && report ? describe(j, report) : QG_OK;
}

/* Processes of a group change nothing before all of them can go on, and then exchange
 * their results whatever happens. */
static qg_status run_all(job *j)
{
    QG_TRY(agree(j, prepare(j)));
    QG_TRY(agree(j, take_over(j)));
    qg_status s = collect(j);
    if (j->group.size > 1)
        s = j->group.rank > 0 ? send(j, s) : receive(j, s);
    return agree(j, s);
}

qg_status qg_model_collect(qg_model *m, const qg_stats_options *given, const char *path,
                           qg_report **report)
{
    qg_stats_options o;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_stats_options, given, &o));
    QG_TRY(qg_workload_check(m->ctx, &o.work));
    QG_TRY(qg_model_expect_float(m, "stats"));
    QG_TRY(qg_model_begin_float32(m));
    job j = { .m = m, .o = &o, .path = path, .arena = m->graph->arena };
    if (o.group)
        QG_TRY(qg_group_join(m->ctx, &j.group));
    qg_status s = run_all(&j);
    if (s == QG_OK)
        s = finish(&j, report);
    if (j.other_failed && j.group.rank > 0)
        s = QG_OK; /* mpirun ends all when one fails: the message comes first */
    qg_stats_free(j.stats);
    qg_feed_close(&j.feed);
    if (o.group)
        qg_group_leave(&j.group);
    return s;
}

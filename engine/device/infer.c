/* infer.c -- qg_model_infer_backend: a backend file from the tensors of a device.
 *
 *     1  what the trace shows of each value (seen.h)
 *     2  the backend that explains it with the fewest changes (ranking.h)
 *     3  the file is written, read again, and compared with the trace once more
 *     4  what the trace does not decide is listed (undecided.h) */
#include "engine/calib/observed.h"
#include "engine/core/reads.h"
#include "engine/device/arrays.h"
#include "engine/device/ranking.h"
#include "engine/device/undecided.h"

QG_OPTIONS_INIT(qg_infer_options)

typedef struct inference {
    qg_model *m;
    const qg_infer_options *o;
    qg_arena *arena;
    qg_trace *trace;
    qg_api_feed feed;
    qg_seen_values seen;
    qg_attempts how, quick;
    qg_ranking ranking;
    qg_kept_constants kept; /* scales of weights, which every attempt needs again */
} inference;

/* --- the report --- */

static qg_status report_portion(qg_report *r, const char *name, qg_portion p)
{
    return qg_report_addf(r, name, "%zu of %zu", p.part, p.of);
}

static qg_status portion(qg_report *r, qg_table *t, bool known, qg_portion p)
{
    return known ? qg_table_addf(r, t, "%zu/%zu", p.part, p.of)
                 : qg_table_add(r, t, (qg_cell){ 0 });
}

static qg_status report_candidates(const inference *f, qg_report *r)
{
    qg_table *t;
    QG_TRY(qg_report_table(r, "candidates",
                           "backend changes kinds links schemes results unshown grids "
                           "elements why",
                           &t));
    for (size_t i = 0; i < f->ranking.candidate.n; i++) {
        const qg_candidate *c = &f->ranking.candidate.at[i];
        qg_cell none = { 0 };
        QG_TRY(qg_table_cells(r, t, qg_cell_text(c->name),
                              c->made ? qg_cell_count(c->changes) : none));
        QG_TRY(portion(r, t, !c->refusal, c->kinds));
        QG_TRY(portion(r, t, !c->refusal, c->links));
        QG_TRY(portion(r, t, !c->refusal, c->schemes));
        QG_TRY(portion(r, t, c->made, c->results));
        QG_TRY(qg_table_cells(r, t, qg_cell_count(c->unshown)));
        QG_TRY(portion(r, t, c->whole, c->grids));
        QG_TRY(qg_table_cells(r, t, c->made ? qg_cell_percent(c->elements) : none,
                              qg_cell_text(c->refusal)));
    }
    return QG_OK;
}

/* Backends that explain as much as the nearest: "a, b"; none: it is alone. */
static qg_status report_equals(const inference *f, qg_report *r)
{
    const char *names = "";
    size_t n = 0;
    for (size_t i = 0; i < f->ranking.candidate.n && names; i++) {
        const qg_candidate *c = &f->ranking.candidate.at[i];
        if (!c->equal)
            continue;
        names = qg_arena_printf(r->arena, "%s%s%s", names, *names ? ", " : "", c->name);
        n++;
    }
    if (!names)
        return qg_nomem(f->m->ctx);
    return n > 1 ? qg_report_add(r, "not_told_apart", qg_cell_text(names)) : QG_OK;
}

static qg_status report_changes(const inference *f, qg_report *r)
{
    qg_table *t;
    QG_TRY(qg_report_table(r, "changes", "key word why", &t));
    for (size_t i = 0; i < f->ranking.best.draft.change.n; i++) {
        const qg_draft_change *c = &f->ranking.best.draft.change.at[i];
        QG_TRY(qg_table_cells(r, t, qg_cell_text(qg_draft_key_name(c->key)),
                              qg_cell_text(c->word), qg_cell_text(c->why)));
    }
    return QG_OK;
}

/* What was seen of each value, and what the file makes of it. */
static qg_status report_values(const inference *f, qg_report *r)
{
    static const char *const as[] = { "-", "codes", "silent", "float" };
    const qg_graph *g = f->ranking.best.own.graph;
    qg_table *t;
    QG_TRY(qg_report_table(r, "values", "value seen step zero levels backend equal how",
                           &t));
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v = g->value.at[i];
        const qg_seen *s = qg_attempt_seen(&f->ranking.best, v);
        if (!s || f->ranking.best.kind[i] == QG_AS_ABSENT)
            continue;
        double share = f->ranking.best.share[s->value->id];
        const qg_pair *p = &f->seen.pair[s->value->id];
        qg_cell none = { 0 };
        QG_TRY(qg_table_cells(
            r, t, qg_cell_text(v->name), qg_cell_text(qg_seen_name(s->kind)),
            s->step > 0 ? qg_cell_number(s->step) : none,
            s->zero_known ? (qg_cell){ .kind = QG_CELL_COUNT, .number = s->zero }
                          : none,
            s->levels ? qg_cell_count(s->levels) : none,
            qg_cell_text(as[f->ranking.best.kind[i]]),
            share >= 0 ? qg_cell_percent(share) : none, qg_cell_text(p->how)));
    }
    return QG_OK;
}

static qg_status report_unpaired(const inference *f, qg_report *r)
{
    qg_table *t;
    if (!f->seen.unpaired.n)
        return QG_OK;
    QG_TRY(qg_report_table(r, "unpaired", "array", &t));
    for (size_t i = 0; i < f->seen.unpaired.n; i++)
        QG_TRY(qg_table_cells(r, t, qg_cell_text(f->seen.unpaired.at[i]->value)));
    return QG_OK;
}

/* The file as the strict reader reads it, compared with the trace once more. */
static qg_status write(inference *f, const char *yaml, qg_report *r)
{
    qg_attempt t = { 0 };
    const char *text;
    size_t size;
    qg_draft d = { 0 };
    d.base = strchr(yaml, '/') ? yaml : qg_path_join(f->arena, ".", yaml);
    if (!d.base)
        return qg_nomem(f->m->ctx);
    QG_TRY(qg_draft_text(f->m->ctx, &f->ranking.best.draft, f->arena, &text, &size));
    QG_TRY(qg_draft_check_name(f->m->ctx, "infer-backend", yaml,
                               f->ranking.best.draft.base));
    QG_TRY(qg_file_write(f->m->ctx, yaml, text, size));
    QG_TRY(qg_report_add(r, "written", qg_cell_text(yaml)));
    qg_status s = qg_attempt_make(&f->how, &d, &t);
    qg_reads_remove(f->m->ctx, yaml);
    if (s == QG_OK && t.refusal)
        s = qg_fail(f->m->ctx, QG_ECONFIG, "infer-backend: %s", t.refusal);
    if (s == QG_OK)
        s = report_portion(r, "file_explains_values", t.kinds);
    if (s == QG_OK)
        s = report_portion(r, "file_explains_links", t.links);
    if (s == QG_OK)
        s = report_portion(r, "file_explains_grids", t.grids);
    qg_attempt_free(&t);
    return s;
}

/* Why no backend is named; NULL: one is.  Half of the facts, or less, can agree by
 * chance.  Arrays that are far from the network's are its own where a backend gives
 * every result: coarse weights can destroy a network. */
static const char *verdict(const inference *f)
{
    const qg_attempt *b = &f->ranking.best;
    const qg_seen_values *o = &f->seen;
    size_t facts = b->kinds.of + b->links.of + b->schemes.of, steps = 0, codes = 0;
    for (size_t i = 0; i < o->graph->value.n; i++) {
        codes += o->at[i].kind == QG_SEEN_CODES;
        steps += o->at[i].kind == QG_SEEN_CODES && o->at[i].step > 0;
    }
    bool all_results = b->results.of > 0 && b->results.part == b->results.of;
    if (o->compared > 0 && 2 * o->alike < o->compared && !all_results)
        return "the arrays are not those of the network on these samples: check "
               "samples, "
               "their order, layout and names";
    bool other_results = facts > 0 && b->results.of > 0 && b->elements < 0.5;
    if (2 * qg_attempt_contradicted(b) > facts || other_results)
        return "no backend explains the dump: check samples, layout and names";
    if (codes > 0 && 2 * steps < codes && !f->o->from)
        return "integers without a grid do not tell backends apart: give scale and "
               "zero "
               "in trace.json, or a backend with --from";
    return NULL;
}

/* The verdict on a file of which most results with visible inputs are not the
 * device's. */
static qg_status report_lack(const qg_attempt *b, qg_report *r)
{
    size_t of = 0, others = 0;
    for (size_t i = 0; i < b->how->seen->graph->value.n; i++) {
        of += b->clean[i] != 0;
        others += b->clean[i] && b->share[i] < QG_CONFIRMED;
    }
    if (2 * others <= of)
        return QG_OK;
    return qg_report_addf(r, "verdict",
                          "%zu of the %zu results whose inputs are all visible are not "
                          "those of the file: the device computes otherwise there",
                          others, of);
}

static qg_status fill(inference *f, const char *yaml, qg_report *r)
{
    const qg_attempt *b = &f->ranking.best;
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(f->feed.feed.n)));
    QG_TRY(qg_report_add(r, "arrays", qg_cell_count(f->seen.seen)));
    QG_TRY(qg_arrays_report_samples(f->trace, f->feed.feed.n, r));
    const char *why = verdict(f);
    if (why && yaml)
        return qg_fail(f->m->ctx, QG_EDATA, "infer-backend: %.200s: %s", f->trace->path,
                       why);
    QG_TRY(why ? qg_report_add(r, "verdict", qg_cell_text(why)) : report_lack(b, r));
    QG_TRY(qg_report_add(r, "nearest",
                         why ? (qg_cell){ 0 } : qg_cell_text(b->draft.base)));
    if (!why)
        QG_TRY(report_equals(f, r));
    QG_TRY(report_portion(r, "values_explained", b->kinds));
    QG_TRY(report_portion(r, "links_explained", b->links));
    QG_TRY(report_portion(r, "schemes_explained", b->schemes));
    QG_TRY(report_portion(r, "results_explained", b->results));
    QG_TRY(report_portion(r, "own_grids", b->grids));
    QG_TRY(qg_report_add(r, "elements", qg_cell_percent(b->elements)));
    QG_TRY(report_candidates(f, r));
    QG_TRY(report_changes(f, r));
    QG_TRY(report_values(f, r));
    QG_TRY(report_unpaired(f, r));
    QG_TRY(qg_report_undecided(b, &f->ranking.rivals, r));
    return yaml ? write(f, yaml, r) : QG_OK;
}

/* An unknown backend is refused before the samples are read. */
static qg_status find_base(const inference *f)
{
    const char *path;
    qg_wanted w = { .kind = "backend", .name = f->o->from };
    if (!w.name)
        return QG_OK;
    QG_TRY(qg_config_search(f->m->ctx, f->arena, "backends", &w.search));
    return qg_config_find(f->m->ctx, f->arena, &w, &path);
}

/* Inputs alone are equal on every device: nothing says which backend it has. */
static qg_status expect_results(const inference *f)
{
    const qg_graph *g = f->m->graph;
    bool inputs = false;
    for (size_t i = 0; i < g->value.n; i++) {
        const bool seen = f->seen.at[i].kind != QG_SEEN_HIDDEN;
        if (seen && g->value.at[i]->def)
            return QG_OK;
        inputs = inputs || seen;
    }
    return inputs ? qg_trace_lacks_results(f->m->ctx, f->trace) : QG_OK;
}

static qg_status run(inference *f, const char *dump, const char *yaml, qg_report **out)
{
    qg_ctx *ctx = f->m->ctx;
    qg_report *r;
    f->how = (qg_attempts){ .m = f->m,
                            .work = &f->o->work,
                            .feed = &f->feed,
                            .seen = &f->seen,
                            .arena = f->arena };
    f->how.name = qg_draft_name(f->arena, yaml ? yaml : "inferred");
    if (!f->how.name)
        return qg_nomem(ctx);
    f->quick = f->how;
    f->quick.quick = true;
    QG_TRY(find_base(f));
    QG_TRY(qg_feed_open(f->m, &f->o->work, &f->feed));
    QG_TRY(qg_trace_open(ctx, dump, &f->trace));
    QG_TRY(qg_see_values(f->m, &f->feed.feed, f->trace, f->arena, &f->seen));
    QG_TRY(expect_results(f));
    f->ranking = (qg_ranking){ .how = &f->how,
                               .quick = &f->quick,
                               .from = f->o->from,
                               .progress = &f->o->work.progress };
    QG_TRY(qg_ranking_find(&f->ranking));
    QG_TRY(qg_attempt_replay_whole(&f->ranking.best));
    QG_TRY(qg_attempt_replay_real(&f->ranking.best));
    QG_TRY(qg_report_new(ctx, "infer-backend", &r));
    return qg_report_end(fill(f, yaml, r), r, out);
}

qg_status qg_model_infer_backend(qg_model *m, const qg_infer_options *given,
                                 const char *dump, const char *yaml, qg_report **report)
{
    qg_infer_options o;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_infer_options, given, &o));
    QG_TRY(qg_workload_check(m->ctx, &o.work));
    QG_TRY(qg_draft_check_path(m->ctx, "infer-backend", "--from", o.from, yaml));
    qg_reads_forget(m->ctx);
    QG_TRY(qg_model_expect_float(m, "infer-backend"));
    QG_TRY(qg_model_expect_path(m->ctx, "infer-backend", dump));
    QG_TRY(qg_model_begin_float32(m));
    inference f = { .m = m, .o = &o, .arena = qg_arena_new(m->ctx->alloc) };
    qg_kept_constants *kept = &f.kept;
    qg_added added = { m->ctx->added[QG_ADDED_OBSERVED], "constants", &kept };
    f.kept.arena = f.arena;
    m->ctx->added[QG_ADDED_OBSERVED] = &added;
    qg_status s = f.arena ? run(&f, dump, yaml, report) : qg_nomem(m->ctx);
    m->ctx->added[QG_ADDED_OBSERVED] = added.next;
    qg_attempt_free(&f.ranking.best);
    qg_trace_close(f.trace);
    qg_feed_close(&f.feed);
    qg_arena_free(f.arena);
    return s;
}

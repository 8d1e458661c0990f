/* infer.c -- qg_model_infer_backend: a backend file from the tensors of a device.
 *
 * Every shipped backend is tried on the network; the one that agrees best with the
 * trace is the base.  Changes that would explain what it does not are tried one by one,
 * and the best is kept, until none explains more.
 *
 *     1  each backend is tried without its observers: shares of kinds and links
 *     2  those within NEAR of the best are tried with their scales: the base
 *     3  proposals for the base (propose.h) are tried; the best one is kept; repeated
 *     4  the file is written, read again, and compared with the trace once more
 *
 * Step 1 is cheap, since minmax replaces slow observers, and decisions do not depend on
 * scales.  Step 3 is a greedy search: each kept change must explain more values or
 * links, which bounds the number of rounds, besides MOST_CHANGES.  Two changes that
 * explain something only together are found for chains of fusions (pursue), not in
 * general.
 *
 * Cost   one quantization per backend; per round one per proposal, with a simulation
 *        only where it explains more */
#include <math.h>

#include "engine/device/propose.h"
#include "engine/device/undecided.h"
#include "engine/exec/meter.h"

QG_OPTIONS_INIT(qg_infer_options)

/* A kept change costs a try of all others. */
enum { MOST_CHANGES = 24 };
/* Fusions of a backend that can silence one value. */
enum { CHAIN = 4 };
/* Of qg_attempt_structure: a backend that explains less than the best one by this much
 * is not the nearest, whatever its scales. */
#define NEAR 0.2
/* Scores that differ by less do not tell backends apart. */
#define SAME_SCORE 1e-9

/* The row of a shipped backend. */
typedef struct candidate {
    const char *name, *refusal;
    qg_portion kinds, links, grids;
    double elements, score;
    bool whole; /* else the last two lack the elements */
} candidate;

typedef struct inference {
    qg_model *m;
    const qg_infer_options *o;
    qg_arena *arena;
    qg_trace *trace;
    qg_api_feed feed;
    qg_seen_values seen;
    qg_attempts how, quick; /* quick: without the backend's observers */
    qg_attempt best;        /* how NULL: none so far */
    QG_VEC(candidate) candidate;
    qg_rivals rivals; /* of the base */
    size_t changes;   /* kept */
    qg_meter meter;
} inference;

/* --- the nearest backend --- */

static void note(candidate *c, const qg_attempt *t, bool whole)
{
    *c = (candidate){ c->name,  t->refusal,  t->kinds, t->links,
                      t->grids, t->elements, t->score, whole };
}

/* The better of the two is kept, the first among equals. */
static void keep_better(inference *f, qg_attempt *t)
{
    bool better =
        !t->refusal && (!f->best.how || t->score > f->best.score + SAME_SCORE);
    qg_attempt old = better ? f->best : *t;
    if (better)
        f->best = *t;
    qg_attempt_free(&old);
}

/* A look at one backend's decisions, without its scales. */
static qg_status look_at(inference *f, candidate *c)
{
    qg_attempt t = { 0 };
    qg_draft d = { .name = f->how.name, .base = c->name };
    qg_status s = qg_attempt_begin(&f->quick, &d, &t);
    note(c, &t, false);
    qg_attempt_free(&t);
    return s == QG_OK ? qg_meter_add(&f->meter, f->m->ctx, 1) : s;
}

static qg_status try_whole(inference *f, candidate *c)
{
    qg_attempt t = { 0 };
    qg_draft d = { .name = f->how.name, .base = c->name };
    qg_status s = qg_attempt_make(&f->how, &d, &t);
    note(c, &t, true);
    if (s == QG_OK)
        keep_better(f, &t);
    else
        qg_attempt_free(&t);
    return s;
}

static double structure(const candidate *c)
{
    return c->refusal ? -1 : qg_attempt_structure(c->kinds, c->links);
}

/* The next candidate whose decisions are nearly as good as the best ones: scales and
 * elements tell these apart.  NULL: all of them were tried as a whole. */
static candidate *next_candidate(inference *f)
{
    double best = 0;
    for (size_t i = 0; i < f->candidate.n; i++)
        best = fmax(best, structure(&f->candidate.at[i]));
    for (size_t i = 0; i < f->candidate.n; i++) {
        candidate *c = &f->candidate.at[i];
        if (!c->whole && structure(c) >= fmax(best - NEAR, 0))
            return c;
    }
    return NULL;
}

/* Whether the trace tells no backend apart from this one as a better one. */
static bool is_nearest(const inference *f, const candidate *c)
{
    double best = 0;
    for (size_t i = 0; i < f->candidate.n; i++)
        if (f->candidate.at[i].whole)
            best = fmax(best, f->candidate.at[i].score);
    return c->whole && !c->refusal && c->score >= best - SAME_SCORE;
}

static qg_status list_candidates(inference *f)
{
    qg_ctx *ctx = f->m->ctx;
    qg_search search;
    const char **name = NULL;
    size_t n = 0;
    if (f->o->from)
        return qg_vec_push(ctx, f->arena, &f->candidate,
                           (candidate){ .name = f->o->from });
    QG_TRY(qg_config_search(ctx, f->arena, "backends", &search));
    QG_TRY(qg_config_names(ctx, f->arena, search, &name, &n));
    for (size_t i = 0; i < n; i++)
        QG_TRY(
            qg_vec_push(ctx, f->arena, &f->candidate, (candidate){ .name = name[i] }));
    return QG_OK;
}

static qg_status find_base(inference *f)
{
    QG_TRY(list_candidates(f));
    qg_meter_begin(&f->meter, &f->o->work.progress, "infer", f->candidate.n);
    qg_status s = QG_OK;
    for (size_t i = 0; i < f->candidate.n && s == QG_OK; i++)
        s = look_at(f, &f->candidate.at[i]);
    qg_meter_end(&f->meter);
    for (candidate *c = NULL; s == QG_OK && (c = next_candidate(f));)
        s = try_whole(f, c);
    if (s == QG_OK && !f->best.how && f->o->from)
        return qg_fail(f->m->ctx, QG_ECONFIG, "infer-backend: backend '%.200s': %.400s",
                       f->o->from, f->candidate.at[0].refusal);
    if (s == QG_OK && !f->best.how)
        return qg_fail(f->m->ctx, QG_ECONFIG,
                       "infer-backend: no backend can quantize the network: %.400s",
                       f->candidate.n ? f->candidate.at[0].refusal : "none is there");
    return s;
}

/* Where the backends that are not told apart from the base decide otherwise, before any
 * change of it. */
static qg_status find_rivals(inference *f)
{
    qg_attempt base = { 0 };
    qg_draft d = { .name = f->how.name, .base = f->best.draft.base };
    qg_status s = qg_attempt_begin(&f->quick, &d, &base);
    for (size_t i = 0; i < f->candidate.n && s == QG_OK; i++) {
        qg_attempt other = { 0 };
        d.base = f->candidate.at[i].name;
        if (!is_nearest(f, &f->candidate.at[i]))
            continue;
        s = qg_attempt_begin(&f->quick, &d, &other);
        if (s == QG_OK && !other.refusal && !base.refusal)
            s = qg_rivals_add(&base, &other, f->arena, &f->rivals);
        qg_attempt_free(&other);
    }
    qg_attempt_free(&base);
    return s;
}

/* --- changes --- */

/* Values and links that the trace confirms: a change must explain more of them, since
 * elements alone can be better by chance. */
static size_t explained(const qg_attempt *t) { return t->kinds.part + t->links.part; }

static bool is_better(const inference *f, const qg_attempt *t, const qg_attempt *than)
{
    return !t->refusal && explained(t) > explained(&f->best) &&
           t->score > than->score + SAME_SCORE;
}

/* The draft of the best attempt without its rules of scales, which come last, and with
 * one more change. */
static qg_status extend(inference *f, const qg_draft *from, size_t changes,
                        const qg_draft_change *more, qg_draft *out)
{
    *out = (qg_draft){ .name = from->name, .base = from->base };
    for (size_t k = 0; k < changes; k++)
        QG_TRY(qg_vec_push(f->m->ctx, f->arena, &out->change, from->change.at[k]));
    return qg_vec_push(f->m->ctx, f->arena, &out->change, *more);
}

/* The fusion that silences a value once another one is gone; NULL: there is none. */
static qg_status next_fusion(const qg_attempt *t, const qg_draft_change **out)
{
    qg_proposals list = { 0 };
    *out = NULL;
    if (t->refusal)
        return QG_OK;
    QG_TRY(qg_propose(t, &list));
    for (size_t i = 0; i < list.n && !*out; i++)
        if (list.at[i].key == QG_DRAFT_NO_FUSION)
            *out = &list.at[i];
    return QG_OK;
}

/* An attempt with one more change.  Where a fusion goes and the next one of the backend
 * takes its place, that goes, too.  *changes: kept and new ones. */
static qg_status pursue(inference *f, const qg_draft_change *c, qg_attempt *t,
                        size_t *changes)
{
    qg_draft d = f->best.draft;
    *changes = f->changes;
    for (;;) {
        qg_draft next;
        QG_TRY(extend(f, &d, *changes, c, &next));
        d = next;
        ++*changes;
        QG_TRY(qg_attempt_begin(&f->quick, &d, t));
        if (!t->refusal && explained(t) > explained(&f->best)) {
            qg_attempt_free(t);
            *t = (qg_attempt){ 0 };
            return qg_attempt_make(&f->how, &d, t);
        }
        bool fusion = c->key == QG_DRAFT_NO_FUSION;
        if (!fusion || *changes >= f->changes + CHAIN)
            return QG_OK;
        QG_TRY(next_fusion(t, &c));
        if (!c)
            return QG_OK;
        qg_attempt_free(t);
        *t = (qg_attempt){ 0 };
    }
}

/* Every proposal once; the best attempt becomes f->best.  *better: there was one. */
static qg_status improve(inference *f, bool *better)
{
    qg_proposals list = { 0 };
    qg_attempt found = { 0 };
    size_t kept = f->changes;
    QG_TRY(qg_propose(&f->best, &list));
    qg_status s = QG_OK;
    for (size_t i = 0; i < list.n && s == QG_OK; i++) {
        qg_attempt t = { 0 };
        size_t changes;
        s = pursue(f, &list.at[i], &t, &changes);
        bool more = s == QG_OK && is_better(f, &t, found.how ? &found : &f->best);
        qg_attempt_free(more ? &found : &t);
        if (more) {
            found = t;
            kept = changes;
        }
    }
    *better = s == QG_OK && found.how;
    qg_attempt_free(*better ? &f->best : &found);
    if (*better)
        f->best = found;
    f->changes = kept;
    return s;
}

static qg_status find_changes(inference *f)
{
    bool better = true;
    while (better && f->changes < MOST_CHANGES)
        QG_TRY(improve(f, &better));
    return QG_OK;
}

/* --- the report --- */

static qg_status report_portion(qg_report *r, const char *name, qg_portion p)
{
    return qg_report_addf(r, name, "%zu of %zu", p.part, p.of);
}

static qg_status report_candidates(const inference *f, qg_report *r)
{
    qg_table *t;
    QG_TRY(qg_report_table(r, "candidates",
                           "backend score kinds links grids elements why", &t));
    for (size_t i = 0; i < f->candidate.n; i++) {
        const candidate *c = &f->candidate.at[i];
        qg_cell none = { 0 };
        QG_TRY(qg_table_cells(r, t, qg_cell_text(c->name),
                              c->whole ? qg_cell_number(c->score) : none));
        QG_TRY(qg_table_addf(r, t, "%zu/%zu", c->kinds.part, c->kinds.of));
        QG_TRY(qg_table_addf(r, t, "%zu/%zu", c->links.part, c->links.of));
        if (c->whole)
            QG_TRY(qg_table_addf(r, t, "%zu/%zu", c->grids.part, c->grids.of));
        else
            QG_TRY(qg_table_add(r, t, none));
        QG_TRY(qg_table_cells(r, t, c->whole ? qg_cell_percent(c->elements) : none,
                              qg_cell_text(c->refusal)));
    }
    return QG_OK;
}

/* Backends of the same score as the nearest: "a, b"; "": it is alone. */
static qg_status report_equals(const inference *f, qg_report *r)
{
    const char *names = "";
    size_t n = 0;
    for (size_t i = 0; i < f->candidate.n && names; i++) {
        const candidate *c = &f->candidate.at[i];
        if (!is_nearest(f, c))
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
    for (size_t i = 0; i < f->best.draft.change.n; i++) {
        const qg_draft_change *c = &f->best.draft.change.at[i];
        QG_TRY(qg_table_cells(r, t, qg_cell_text(qg_draft_key_name(c->key)),
                              qg_cell_text(c->word), qg_cell_text(c->why)));
    }
    return QG_OK;
}

/* What was seen of each value, and what the file makes of it. */
static qg_status report_values(const inference *f, qg_report *r)
{
    static const char *const as[] = { "-", "codes", "silent", "float" };
    const qg_graph *g = f->best.own.graph;
    qg_table *t;
    QG_TRY(qg_report_table(r, "values", "value seen step zero levels backend equal how",
                           &t));
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v = g->value.at[i];
        const qg_seen *s = qg_attempt_seen(&f->best, v);
        if (!s || f->best.kind[i] == QG_AS_ABSENT)
            continue;
        double share = f->best.share[s->value->id];
        const qg_pair *p = &f->seen.pair[s->value->id];
        qg_cell none = { 0 };
        QG_TRY(qg_table_cells(
            r, t, qg_cell_text(v->name), qg_cell_text(qg_seen_name(s->kind)),
            s->step > 0 ? qg_cell_number(s->step) : none,
            s->zero_known ? (qg_cell){ .kind = QG_CELL_COUNT, .number = s->zero }
                          : none,
            s->levels ? qg_cell_count(s->levels) : none,
            qg_cell_text(as[f->best.kind[i]]),
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
    QG_TRY(qg_draft_text(f->m->ctx, &f->best.draft, f->arena, &text, &size));
    QG_TRY(qg_draft_check_name(f->m->ctx, "infer-backend", yaml, f->best.draft.base));
    QG_TRY(qg_file_write(f->m->ctx, yaml, text, size));
    QG_TRY(qg_report_add(r, "written", qg_cell_text(yaml)));
    qg_status s = qg_attempt_make(&f->how, &d, &t);
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

static qg_status fill(inference *f, const char *yaml, qg_report *r)
{
    const qg_attempt *b = &f->best;
    QG_TRY(qg_report_add(r, "samples", qg_cell_count(f->feed.feed.n)));
    QG_TRY(qg_report_add(r, "arrays", qg_cell_count(f->seen.seen)));
    QG_TRY(qg_report_add(r, "nearest", qg_cell_text(b->draft.base)));
    QG_TRY(report_equals(f, r));
    QG_TRY(report_portion(r, "values_explained", b->kinds));
    QG_TRY(report_portion(r, "links_explained", b->links));
    QG_TRY(report_portion(r, "own_grids", b->grids));
    QG_TRY(qg_report_add(r, "elements", qg_cell_percent(b->elements)));
    QG_TRY(report_candidates(f, r));
    QG_TRY(report_changes(f, r));
    QG_TRY(report_values(f, r));
    QG_TRY(report_unpaired(f, r));
    QG_TRY(qg_report_undecided(b, &f->rivals, r));
    return yaml ? write(f, yaml, r) : QG_OK;
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
    f->quick.observer = "minmax";
    QG_TRY(qg_feed_open(f->m, &f->o->work, &f->feed));
    QG_TRY(qg_trace_open(ctx, dump, &f->trace));
    f->trace->infinite = true;
    QG_TRY(qg_see_values(f->m, &f->feed.feed, f->trace, f->arena, &f->seen));
    QG_TRY(find_base(f));
    QG_TRY(find_rivals(f));
    QG_TRY(find_changes(f));
    QG_TRY(qg_report_new(ctx, "infer-backend", &r));
    return qg_report_end(fill(f, yaml, r), r, out);
}

qg_status qg_model_infer_backend(qg_model *m, const qg_infer_options *given,
                                 const char *dump, const char *yaml, qg_report **report)
{
    qg_infer_options o;
    QG_TRY(QG_OPTIONS_READ(m->ctx, qg_infer_options, given, &o));
    QG_TRY(qg_workload_check(m->ctx, &o.work));
    QG_TRY(qg_model_expect_float(m, "infer-backend"));
    QG_TRY(qg_model_expect_path(m->ctx, "infer-backend", dump));
    QG_TRY(qg_model_begin_float32(m));
    inference f = { .m = m, .o = &o, .arena = qg_arena_new(m->ctx->alloc) };
    qg_status s = f.arena ? run(&f, dump, yaml, report) : qg_nomem(m->ctx);
    qg_attempt_free(&f.best);
    qg_trace_close(f.trace);
    qg_feed_close(&f.feed);
    qg_arena_free(f.arena);
    return s;
}

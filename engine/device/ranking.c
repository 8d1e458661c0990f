#include "engine/device/ranking.h"

#include <stdlib.h>

#include "engine/device/alternatives.h"
#include "engine/device/propose.h"
#include "engine/device/scales.h"
#include "engine/exec/meter.h"

/* A kept change costs a try of all others. */
enum { MOST_CHANGES = 24 };
/* Fusions of a backend that can silence one value; operators that keep one in float. */
enum { CHAIN = 4 };
/* Backends of different decisions that are simulated and changed. */
enum { CONTENDERS = 6 };
/* Of those the best ones, to which changes are added that only exact results tell. */
enum { POLISHED = 3 };
/* Proposals that are simulated: of those that explain most, of those that explain more
 * by their results alone. */
enum { SIMULATED = 4, GUESSED = 24 };
/* One result in FEW is not the device's even under its own backend: scales that no
 * array shows are those of other samples. */
enum { FEW = 20 };
/* Mean shares of equal elements that differ by less do not tell attempts apart. */
#define SAME_ELEMENTS 1e-4

/* A candidate with its changes. */
typedef struct contender {
    qg_attempt t; /* quick; made */
    size_t changes, row;
    bool polished; /* by polish() */
} contender;

typedef struct finder {
    qg_ranking *n;
    contender at[2 * CONTENDERS];
    size_t count, best;
} finder;

static qg_arena *arena_of(const finder *f) { return f->n->how->arena; }
static qg_ctx *ctx_of(const finder *f) { return f->n->how->m->ctx; }

/* --- attempts --- */

/* a explains more than b: > 0. */
static int explains_more(const qg_attempt *a, const qg_attempt *b)
{
    return (int)qg_attempt_contradicted(b) - (int)qg_attempt_contradicted(a) +
           qg_attempt_more_results(a, b);
}

/* The first `changes` of a draft, and one more. */
static qg_status extend(const finder *f, const qg_draft *from, size_t changes,
                        const qg_draft_change *more, qg_draft *out)
{
    *out = (qg_draft){ .name = from->name, .base = from->base };
    for (size_t k = 0; k < changes; k++)
        QG_TRY(qg_vec_push(ctx_of(f), arena_of(f), &out->change, from->change.at[k]));
    return more ? qg_vec_push(ctx_of(f), arena_of(f), &out->change, *more) : QG_OK;
}

static qg_status look(const finder *f, const qg_draft *d, qg_attempt *t)
{
    *t = (qg_attempt){ 0 };
    return qg_attempt_begin(f->n->quick, d, t);
}

/* --- one change --- */

/* A proposal that was looked at; the draft has `changes` of them. */
typedef struct step {
    qg_draft draft;
    size_t changes, contradicted;
} step;

/* The fusion that silences a value once another one is gone, or the operator that keeps
 * the next ones in float once another one is quantized; NULL: there is none. */
static qg_status next_link(const qg_attempt *t, qg_draft_key key,
                           const qg_draft_change **out)
{
    qg_proposals list = { 0 };
    *out = NULL;
    if (t->refusal)
        return QG_OK;
    if (key == QG_DRAFT_QUANTIZES)
        QG_TRY(qg_propose_border(t, &list));
    else
        QG_TRY(qg_propose(t, &list, NULL));
    for (size_t i = 0; i < list.n && !*out; i++)
        if (list.at[i].key == key)
            *out = &list.at[i];
    return QG_OK;
}

/* Looks at the contender with one more change.  Where a fusion goes and the next one
 * of the backend takes its place, that goes, too; an operator is quantized with those
 * that lie between it and the quantized part.  s->contradicted is SIZE_MAX when the
 * network cannot be quantized so. */
static qg_status pursue(const finder *f, const contender *c, const qg_draft_change *x,
                        step *s)
{
    qg_draft d = c->t.draft;
    const qg_draft_key key = x->key;
    s->changes = c->changes;
    for (;;) {
        qg_attempt t;
        QG_TRY(extend(f, &d, s->changes, x, &s->draft));
        d = s->draft;
        s->changes++;
        qg_status status = look(f, &d, &t);
        s->contradicted =
            status == QG_OK && !t.refusal ? qg_attempt_contradicted(&t) : SIZE_MAX;
        bool more = s->contradicted < qg_attempt_contradicted(&c->t);
        bool chain = (key == QG_DRAFT_NO_FUSION || key == QG_DRAFT_QUANTIZES) &&
                     s->changes < c->changes + CHAIN;
        x = NULL;
        if (status == QG_OK && chain && !more)
            status = next_link(&t, key, &x);
        qg_attempt_free(&t);
        if (status != QG_OK || more || !x)
            return status;
    }
}

static int by_contradicted(const void *a, const void *b)
{
    const step *x = a, *y = b;
    if (x->contradicted != y->contradicted)
        return x->contradicted > y->contradicted ? 1 : -1;
    return (x->changes > y->changes) - (x->changes < y->changes);
}

/* Whether t explains more than the contender, and more than the best change so far. */
static bool is_step(const contender *c, const qg_attempt *t, const qg_attempt *found)
{
    if (t->refusal || explains_more(t, &c->t) <= 0)
        return false;
    int more = found->how ? explains_more(t, found) : 1;
    return more > 0 || (more == 0 && t->elements > found->elements + SAME_ELEMENTS);
}

/* Simulates the steps that are contradicted least, or whose worth only results show. */
static qg_status try_steps(const finder *f, contender *c, step *s, size_t n,
                           bool *better)
{
    qg_attempt found = { 0 };
    size_t changes = 0, tried = 0, own = qg_attempt_contradicted(&c->t);
    qg_status status = QG_OK;
    qsort(s, n, sizeof *s, by_contradicted);
    size_t least = n && s[0].contradicted < own ? s[0].contradicted : own;
    for (size_t i = 0; i < n && status == QG_OK; i++) {
        if (s[i].contradicted > least || tried++ >= (least < own ? SIMULATED : GUESSED))
            break;
        qg_attempt t = { 0 };
        status = qg_attempt_make(f->n->quick, &s[i].draft, &t);
        bool more = status == QG_OK && is_step(c, &t, &found);
        qg_attempt_free(more ? &found : &t);
        if (more) {
            found = t;
            changes = s[i].changes;
        }
    }
    *better = status == QG_OK && found.how;
    qg_attempt_free(*better ? &c->t : &found);
    if (*better) {
        c->t = found;
        c->changes = changes;
    }
    return status;
}

/* Every proposal once; the contender takes over the best. */
static qg_status improve(const finder *f, contender *c, bool *better)
{
    qg_proposals list = { 0 };
    QG_TRY(qg_propose(&c->t, &list, NULL));
    step *s = QG_NEWN(arena_of(f), list.n + 1, step);
    if (!s)
        return qg_nomem(ctx_of(f));
    for (size_t i = 0; i < list.n; i++)
        QG_TRY(pursue(f, c, &list.at[i], &s[i]));
    return try_steps(f, c, s, list.n, better);
}

static qg_status refine(const finder *f, contender *c)
{
    bool better = true;
    while (better && c->changes < MOST_CHANGES)
        QG_TRY(improve(f, c, &better));
    return QG_OK;
}

/* --- candidates --- */

static qg_status list_candidates(qg_ranking *n)
{
    qg_ctx *ctx = n->how->m->ctx;
    qg_arena *a = n->how->arena;
    qg_search search;
    const char **name = NULL;
    size_t count = 0;
    if (n->from)
        return qg_vec_push(ctx, a, &n->candidate, (qg_candidate){ .name = n->from });
    QG_TRY(qg_config_search(ctx, a, "backends", &search));
    QG_TRY(qg_config_names(ctx, a, search, &name, &count));
    for (size_t i = 0; i < count; i++)
        QG_TRY(qg_vec_push(ctx, a, &n->candidate, (qg_candidate){ .name = name[i] }));
    return QG_OK;
}

static void note(qg_candidate *c, const qg_attempt *t)
{
    c->refusal = t->refusal;
    if (t->refusal)
        return;
    c->kinds = t->kinds;
    c->links = t->links;
    c->schemes = t->schemes;
    c->unshown = t->unshown;
    c->results = t->results;
    c->elements = t->elements;
    c->made = t->share != NULL;
}

static size_t contradicted(const qg_candidate *c)
{
    return c->kinds.of + c->links.of + c->schemes.of - c->kinds.part - c->links.part -
           c->schemes.part;
}

static size_t confirmed(const qg_attempt *t)
{
    return t->kinds.part + t->links.part + t->schemes.part;
}

static qg_status look_at(finder *f, qg_candidate *c)
{
    qg_attempt t;
    qg_draft d = { .name = f->n->how->name, .base = c->name };
    qg_status s = look(f, &d, &t);
    note(c, &t);
    if (s == QG_OK && !t.refusal) {
        qg_proposals list = { 0 };
        s = qg_propose(&t, &list, &c->distance);
        c->distance += list.n;
        c->decisions = qg_attempt_decisions(&t);
        c->files = t.own.quant->backend->file.n;
    }
    qg_attempt_free(&t);
    return s;
}

static qg_status look_at_all(finder *f)
{
    qg_ranking *n = f->n;
    qg_meter meter = { 0 };
    qg_meter_begin(&meter, n->progress, "infer", n->candidate.n);
    qg_status s = QG_OK;
    for (size_t i = 0; i < n->candidate.n && s == QG_OK; i++) {
        s = look_at(f, &n->candidate.at[i]);
        if (s == QG_OK)
            s = qg_meter_add(&meter, ctx_of(f), 1);
    }
    qg_meter_end(&meter);
    return s;
}

/* A contender has the same decisions. */
static bool is_taken(const finder *f, const qg_candidate *c)
{
    for (size_t i = 0; i < f->count; i++)
        if (f->n->candidate.at[f->at[i].row].decisions == c->decisions)
            return true;
    return false;
}

/* weak: values that the trace lacks count, too. */
static size_t distance(const qg_candidate *c, bool weak)
{
    return c->distance + (weak ? c->unshown : 0);
}

/* Whether a is to be tried before b. */
static bool comes_before(const qg_candidate *a, const qg_candidate *b, bool weak)
{
    size_t x = distance(a, weak), y = distance(b, weak);
    if (x != y)
        return x < y;
    if (contradicted(a) != contradicted(b))
        return contradicted(a) < contradicted(b);
    return a->unshown != b->unshown ? a->unshown < b->unshown : a->files < b->files;
}

/* The least contradicted candidate of other decisions than all contenders, whatever
 * seems to be needed to change it; NULL: there is none. */
static qg_candidate *least_contradicted(const finder *f)
{
    qg_candidate *best = NULL;
    for (size_t i = 0; i < f->n->candidate.n; i++) {
        qg_candidate *c = &f->n->candidate.at[i];
        if (!c->refusal && !is_taken(f, c) &&
            (!best || contradicted(c) < contradicted(best)))
            best = c;
    }
    return best;
}

/* The first candidate of other decisions than all contenders; NULL: there is none. */
static qg_candidate *next_candidate(const finder *f, bool weak)
{
    qg_candidate *best = NULL;
    for (size_t i = 0; i < f->n->candidate.n; i++) {
        qg_candidate *c = &f->n->candidate.at[i];
        if (!c->refusal && !is_taken(f, c) && (!best || comes_before(c, best, weak)))
            best = c;
    }
    return best;
}

static qg_status contend(finder *f, const qg_candidate *row)
{
    contender *c = &f->at[f->count++];
    qg_draft d = { .name = f->n->how->name, .base = row->name };
    *c = (contender){ .row = (size_t)(row - f->n->candidate.at) };
    QG_TRY(qg_attempt_make(f->n->quick, &d, &c->t));
    note(&f->n->candidate.at[c->row], &c->t);
    if (!c->t.refusal)
        return QG_OK;
    f->count--;
    f->n->candidate.at[c->row].decisions = 0;
    qg_attempt_free(&c->t);
    return QG_OK;
}

/* Half of them by what the trace contradicts; half with values that it lacks. */
static qg_status choose_contenders(finder *f)
{
    for (size_t i = 0; i < CONTENDERS; i++) {
        qg_candidate *c = next_candidate(f, i % 2 == 0);
        if (c)
            QG_TRY(contend(f, c));
    }
    return QG_OK;
}

/* --- the best one --- */

/* Every value that the trace shows is the device's when it is simulated, but for one in
 * FEW that depends on a scale that no array shows.  Then a value that lies on a grid
 * without being rounded does so by chance: it contradicts nothing. */
static bool gives_all(const qg_attempt *t)
{
    const size_t all = t->results.of;
    size_t clean = 0;
    if (!t->share || all == 0 || all < t->kinds.of)
        return false;
    for (size_t i = 0; i < t->how->seen->graph->value.n; i++)
        clean += t->clean[i] != 0;
    return (all - clean) * FEW <= all && (all - t->results.part) * FEW <= all &&
           qg_attempt_is_exact(t);
}

/* > 0: a is better, before observers are known.  A change counts as much as what it
 * explains, since a long list of changes explains anything. */
static int compare(const finder *f, const contender *a, const contender *b)
{
    const bool all = gives_all(&a->t), others = gives_all(&b->t);
    if (all != others && (all ? a->changes <= b->changes : b->changes <= a->changes))
        return all ? 1 : -1;
    int more = explains_more(&a->t, &b->t) - ((int)a->changes - (int)b->changes);
    if (a->polished && b->polished)
        more += qg_attempt_more_exact(&a->t, &b->t);
    if (more)
        return more;
    bool out = qg_rivals_is_ruled_out(&a->t, &b->t);
    if (out != qg_rivals_is_ruled_out(&b->t, &a->t))
        return out ? -1 : 1;
    if (a->changes != b->changes)
        return a->changes < b->changes ? 1 : -1;
    if (a->t.unshown != b->t.unshown)
        return a->t.unshown < b->t.unshown ? 1 : -1;
    if (confirmed(&a->t) != confirmed(&b->t))
        return confirmed(&a->t) > confirmed(&b->t) ? 1 : -1;
    const qg_candidate *x = &f->n->candidate.at[a->row],
                       *y = &f->n->candidate.at[b->row];
    return (x->files < y->files) - (x->files > y->files);
}

static void find_best(finder *f)
{
    f->best = 0;
    for (size_t i = 1; i < f->count; i++)
        if (compare(f, &f->at[i], &f->at[f->best]) > 0)
            f->best = i;
}

/* Candidates that explain as much unchanged as the best one with its changes, and were
 * not simulated yet. */
static qg_status add_equals(finder *f)
{
    for (; f->count < 2 * CONTENDERS; find_best(f)) {
        qg_candidate *c = next_candidate(f, false);
        if (!c || contradicted(c) > qg_attempt_contradicted(&f->at[f->best].t))
            return QG_OK;
        QG_TRY(contend(f, c));
    }
    return QG_OK;
}

/* Grids by the backend's own observers. */
static qg_status look_whole(finder *f, qg_candidate *c, const contender *changed)
{
    qg_attempt t = { 0 };
    qg_draft d;
    qg_draft base = { .name = f->n->how->name, .base = c->name };
    QG_TRY(extend(f, changed ? &changed->t.draft : &base,
                  changed ? changed->changes : 0, NULL, &d));
    qg_status s = qg_attempt_begin(f->n->how, &d, &t);
    c->whole = true;
    if (s == QG_OK && !t.refusal)
        c->grids = t.grids;
    qg_attempt_free(&t);
    return s;
}

/* Whether nothing but grids and rules of choice tells the candidate from the best: its
 * contender (NULL: none) explains as much, or it is unchanged and decides alike. */
static bool is_equal(const finder *f, const qg_candidate *c, const contender **out)
{
    const contender *best = &f->at[f->best];
    *out = NULL;
    for (size_t i = 0; i < f->count; i++)
        if (f->n->candidate.at + f->at[i].row == c)
            *out = &f->at[i];
    if (*out)
        return qg_attempt_contradicted(&(*out)->t) <=
                   qg_attempt_contradicted(&best->t) &&
               !qg_rivals_is_ruled_out(&(*out)->t, &best->t);
    return !c->refusal && best->changes == 0 &&
           c->decisions == f->n->candidate.at[best->row].decisions;
}

/* The candidate of the best contender, or an equal one that has more of the trace's
 * grids. */
static qg_status choose_by_grids(finder *f, size_t *row)
{
    qg_candidates *list = &f->n->candidate;
    const contender *c;
    *row = f->at[f->best].row;
    QG_TRY(look_whole(f, &list->at[*row], &f->at[f->best]));
    for (size_t i = 0; i < list->n; i++) {
        list->at[i].equal = is_equal(f, &list->at[i], &c);
        if (list->at[i].equal && !list->at[i].whole)
            QG_TRY(look_whole(f, &list->at[i], c));
    }
    for (size_t i = 0; i < list->n; i++)
        if (list->at[i].equal && list->at[i].grids.part > list->at[*row].grids.part)
            *row = i;
    for (size_t i = 0; i < list->n; i++)
        list->at[i].equal &= list->at[i].grids.part == list->at[*row].grids.part;
    (void)is_equal(f, &list->at[*row], &c);
    if (c)
        f->best = (size_t)(c - f->at);
    return QG_OK;
}

/* The next best contender that was not polished yet; NULL: none. */
static contender *next_to_polish(finder *f)
{
    contender *best = NULL;
    for (size_t i = 0; i < f->count; i++)
        if (!f->at[i].polished && (!best || compare(f, &f->at[i], best) > 0))
            best = &f->at[i];
    return best;
}

/* Changes that only exact results tell.  Others come next where the best one stays
 * inexact: the device has another structure. */
static qg_status polish(finder *f)
{
    contender *c = &f->at[f->best];
    for (size_t i = 0; i < POLISHED && c; i++, c = next_to_polish(f)) {
        QG_TRY(qg_alternatives_take(&c->t, &c->changes));
        c->polished = true;
        note(&f->n->candidate.at[c->row], &c->t);
        f->n->candidate.at[c->row].changes = c->changes;
        if (qg_attempt_is_exact(&c->t))
            break;
    }
    find_best(f);
    return QG_OK;
}

static qg_status find_rivals(finder *f, const qg_attempt *best)
{
    const contender *c;
    for (size_t i = 0; i < f->n->candidate.n; i++)
        if (f->n->candidate.at[i].equal && is_equal(f, &f->n->candidate.at[i], &c) && c)
            QG_TRY(qg_rivals_add(best, &c->t, c->t.draft.base, arena_of(f),
                                 &f->n->rivals));
    for (size_t i = 0; i < f->count; i++)
        if (explains_more(&f->at[i].t, best) >= 0)
            QG_TRY(qg_rivals_add_lost(best, &f->at[i].t, f->at[i].t.draft.base,
                                      arena_of(f), &f->n->rivals));
    return qg_alternatives_find(best, f->at[f->best].changes, arena_of(f),
                                &f->n->rivals);
}

/* The best attempt again, with the scales that its results show.  Twice: the bias of a
 * product has its scale from that of the input. */
static qg_status find_scales(finder *f, qg_draft d)
{
    enum { TWICE = 2 };
    qg_ranking *n = f->n;
    for (int i = 0; i < TWICE; i++) {
        qg_found_scales found = { 0 };
        qg_attempt t = { 0 };
        size_t changes = d.change.n;
        QG_TRY(qg_scales_find(&n->best, arena_of(f), &found));
        if (!found.n)
            return QG_OK;
        for (size_t k = 0; k < found.n; k++)
            QG_TRY(qg_attempt_give(&n->best, &changes, found.at[k].root,
                                   found.at[k].set, found.at[k].why));
        d = n->best.draft;
        d.change.n = changes;
        qg_status s = qg_attempt_make(n->how, &d, &t);
        bool better = s == QG_OK && !t.refusal &&
                      qg_attempt_contradicted(&t) <= qg_attempt_contradicted(&n->best);
        qg_attempt_free(better ? &n->best : &t);
        if (!better)
            return s;
        n->best = t;
    }
    return QG_OK;
}

static qg_status finish(finder *f)
{
    size_t row;
    QG_TRY(add_equals(f));
    QG_TRY(polish(f));
    QG_TRY(choose_by_grids(f, &row));
    contender *best = &f->at[f->best];
    qg_draft d;
    QG_TRY(extend(f, &best->t.draft, best->changes, NULL, &d));
    d.base = f->n->candidate.at[row].name;
    QG_TRY(find_rivals(f, &best->t));
    f->n->changes = best->changes;
    QG_TRY(qg_attempt_make(f->n->how, &d, &f->n->best));
    if (f->n->best.refusal)
        return qg_fail(ctx_of(f), QG_ECONFIG, "infer-backend: backend '%.200s': %.400s",
                       d.base, f->n->best.refusal);
    return find_scales(f, d);
}

/* Nothing contradicts it, and nearly all results are the device's; or all are. */
static bool explains_all(const qg_attempt *t)
{
    return gives_all(t) || (qg_attempt_contradicted(t) == 0 &&
                            (t->results.of - t->results.part) * FEW <= t->results.of);
}

/* Whether a contender explains all unchanged: then others are not worth changes. */
static bool is_settled(const finder *f)
{
    for (size_t i = 0; i < f->count; i++)
        if (explains_all(&f->at[i].t))
            return true;
    return false;
}

static qg_status change(finder *f, contender *c)
{
    QG_TRY(refine(f, c));
    QG_TRY(qg_alternatives_drop(&c->t, &c->changes));
    note(&f->n->candidate.at[c->row], &c->t);
    f->n->candidate.at[c->row].changes = c->changes;
    return QG_OK;
}

/* As long as none of the contenders explains all, even changed, the next candidates are
 * changed, too: what seemed to be far can be near after one change. */
static qg_status look_further(finder *f)
{
    find_best(f);
    while (f->count < 2 * CONTENDERS && !explains_all(&f->at[f->best].t)) {
        size_t before = f->count;
        qg_candidate *c = least_contradicted(f);
        if (!c)
            return QG_OK;
        QG_TRY(contend(f, c));
        if (f->count > before)
            QG_TRY(change(f, &f->at[before]));
        find_best(f);
    }
    return QG_OK;
}

static qg_status find(finder *f)
{
    qg_ranking *n = f->n;
    QG_TRY(list_candidates(n));
    QG_TRY(look_at_all(f));
    QG_TRY(choose_contenders(f));
    if (!f->count && n->from)
        return qg_fail(ctx_of(f), QG_ECONFIG, "infer-backend: backend '%.200s': %.400s",
                       n->from, n->candidate.at[0].refusal);
    if (!f->count)
        return qg_fail(ctx_of(f), QG_ECONFIG,
                       "infer-backend: no backend can quantize the network: %.400s",
                       n->candidate.n ? n->candidate.at[0].refusal : "none is there");
    bool settled = is_settled(f);
    for (size_t i = 0; i < f->count; i++) {
        if (settled && !explains_all(&f->at[i].t))
            continue;
        QG_TRY(change(f, &f->at[i]));
    }
    QG_TRY(look_further(f));
    return finish(f);
}

qg_status qg_ranking_find(qg_ranking *n)
{
    finder f = { .n = n };
    qg_status s = find(&f);
    for (size_t i = 0; i < f.count; i++)
        qg_attempt_free(&f.at[i].t);
    return s;
}

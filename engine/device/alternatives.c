#include "engine/device/alternatives.h"

#include "engine/device/propose.h"

/* The draft with more changes, behind those it has. */
static qg_status vary(const qg_attempt *best, size_t changes, const qg_draft_change *x,
                      size_t n, qg_draft *out)
{
    qg_ctx *ctx = best->how->m->ctx;
    qg_arena *a = best->how->arena;
    *out = (qg_draft){ .name = best->draft.name, .base = best->draft.base };
    for (size_t k = 0; k < changes; k++)
        QG_TRY(qg_vec_push(ctx, a, &out->change, best->draft.change.at[k]));
    for (size_t k = 0; k < n; k++)
        QG_TRY(qg_vec_push(ctx, a, &out->change, x[k]));
    return QG_OK;
}

/* --- better ones --- */

/* Rounds of changes that are taken over: each is a try of all. */
enum { ROUNDS = 6 };

/* An attempt in the making. */
typedef struct improver {
    qg_attempt *t;
    size_t *changes; /* of its draft */
    bool any;        /* something was taken over in this round */
    bool by_results; /* more results are enough, also of values that were not clean */
} improver;

/* Whether t is preferred to the best: it contradicts nothing more, loses no result, and
 * has more exact ones; with fewer changes, as many. */
static bool is_preferred(const qg_attempt *t, const qg_attempt *best, bool fewer,
                         bool by_results)
{
    int more = qg_attempt_more_exact(t, best),
        results = qg_attempt_more_results(t, best);
    if (by_results && results > 0)
        return more >= 0;
    return results >= 0 && (fewer ? more >= 0 : more > 0);
}

/* Takes the draft with n changes over where it is preferred.  A quick look comes before
 * the simulation. */
static qg_status consider(improver *x, const qg_draft *d, size_t n)
{
    const qg_attempt *best = x->t;
    qg_attempt t = { 0 };
    qg_status s = qg_attempt_begin(best->how, d, &t);
    bool worth =
        s == QG_OK && !t.refusal &&
        qg_attempt_contradicted(&t) <= qg_attempt_contradicted(best) &&
        (n < *x->changes || qg_attempt_decisions(&t) != qg_attempt_decisions(best));
    qg_attempt_free(&t);
    t = (qg_attempt){ 0 };
    if (!worth || s != QG_OK)
        return s;
    s = qg_attempt_make(best->how, d, &t);
    bool taken = s == QG_OK && !t.refusal &&
                 is_preferred(&t, best, n < *x->changes, x->by_results);
    qg_attempt_free(taken ? x->t : &t);
    if (!taken)
        return s;
    *x->t = t;
    *x->changes = n;
    x->any = true;
    return QG_OK;
}

/* Every single change that the trace suggests, or that it may not rule out. */
static qg_status add_changes(improver *x)
{
    qg_proposals all = { 0 };
    QG_TRY(qg_propose(x->t, &all, NULL));
    QG_TRY(qg_propose_alternatives(x->t, &all));
    for (size_t i = 0; i < all.n && !qg_attempt_is_exact(x->t); i++) {
        qg_draft d;
        QG_TRY(vary(x->t, *x->changes, &all.at[i], 1, &d));
        QG_TRY(consider(x, &d, *x->changes + 1));
    }
    return QG_OK;
}

/* The operator in float, with each of the n that follow it in the list quantized: they
 * round what they read; or alone. */
static qg_status leave_in_float(improver *x, const qg_draft_change *c, size_t n)
{
    qg_draft d;
    x->any = false;
    for (size_t i = 1; i < n && c[i].key == QG_DRAFT_QUANTIZES && !x->any; i++) {
        const qg_draft_change both[] = { c[0], c[i] };
        QG_TRY(vary(x->t, *x->changes, both, 2, &d));
        QG_TRY(consider(x, &d, d.change.n));
    }
    if (x->any)
        return QG_OK;
    QG_TRY(vary(x->t, *x->changes, c, 1, &d));
    return consider(x, &d, d.change.n);
}

static qg_status leave_products_in_float(improver *x)
{
    qg_proposals all = { 0 };
    QG_TRY(qg_propose_floats(x->t, &all));
    x->by_results = true;
    for (size_t i = 0; i < all.n; i++)
        if (all.at[i].key == QG_DRAFT_NOT_QUANTIZES)
            QG_TRY(leave_in_float(x, &all.at[i], all.n - i));
    x->by_results = false;
    return QG_OK;
}

/* Narrow weights change every result of a product, so they come first: other changes
 * can make a few of them exact by chance. */
static qg_status narrow_weights(improver *x)
{
    qg_proposals all = { 0 };
    QG_TRY(qg_propose_narrow(x->t, &all));
    for (size_t i = 0; i < all.n; i++) {
        qg_draft d;
        QG_TRY(vary(x->t, *x->changes, &all.at[i], 1, &d));
        QG_TRY(consider(x, &d, *x->changes + 1));
    }
    return QG_OK;
}

/* An operator that is not quantized can move codes instead: what the trace contradicts
 * is the same for both. */
static qg_status swap_changes(improver *x)
{
    for (size_t i = 0; i < *x->changes && !qg_attempt_is_exact(x->t); i++) {
        qg_draft d;
        if (x->t->draft.change.at[i].key != QG_DRAFT_NOT_QUANTIZES)
            continue;
        QG_TRY(vary(x->t, *x->changes, NULL, 0, &d));
        d.change.at[i].key = QG_DRAFT_PASSIVE;
        QG_TRY(consider(x, &d, d.change.n));
    }
    return QG_OK;
}

/* Changes that later ones made needless. */
static qg_status drop_changes(improver *x)
{
    for (size_t i = *x->changes; i-- > 0 && *x->changes > 1;) {
        qg_draft d;
        if (i >= *x->changes)
            continue;
        QG_TRY(vary(x->t, *x->changes, NULL, 0, &d));
        for (size_t k = i; k + 1 < d.change.n; k++)
            d.change.at[k] = d.change.at[k + 1];
        d.change.n--;
        QG_TRY(consider(x, &d, d.change.n));
    }
    return QG_OK;
}

qg_status qg_alternatives_drop(qg_attempt *t, size_t *changes)
{
    improver x = { t, changes, false, false };
    return drop_changes(&x);
}

qg_status qg_alternatives_take(qg_attempt *t, size_t *changes)
{
    improver x = { t, changes, true, false };
    QG_TRY(leave_products_in_float(&x));
    QG_TRY(narrow_weights(&x));
    x.any = true;
    for (int i = 0; i < ROUNDS && x.any && !qg_attempt_is_exact(t); i++) {
        x.any = false;
        QG_TRY(swap_changes(&x));
        QG_TRY(add_changes(&x));
    }
    return drop_changes(&x);
}

/* --- open ones --- */

/* Whether the trace leaves the draft open: it decides something otherwise, and is not
 * ruled out.  t is made or begun. */
static qg_status is_open(const qg_attempt *best, const qg_draft *d, qg_attempt *t,
                         bool *open)
{
    *open = false;
    QG_TRY(qg_attempt_begin(best->how, d, t));
    if (t->refusal || qg_attempt_contradicted(t) > qg_attempt_contradicted(best) ||
        qg_attempt_decisions(t) == qg_attempt_decisions(best))
        return QG_OK;
    qg_attempt_free(t);
    *t = (qg_attempt){ 0 };
    QG_TRY(qg_attempt_make(best->how, d, t));
    *open = !t->refusal && !qg_rivals_is_ruled_out(t, best);
    return QG_OK;
}

typedef struct search {
    const qg_attempt *best;
    size_t changes; /* of its draft */
    qg_arena *arena;
    qg_rivals *list;
} search;

/* n changes together.  *open: the trace does not rule them out. */
static qg_status try_changes(const search *s, const qg_draft_change *x, size_t n,
                             bool *open)
{
    qg_draft d;
    qg_attempt t = { 0 };
    const char *who = "";
    for (size_t k = 0; k < n && who; k++)
        who = qg_arena_printf(s->arena, "%s%s`%s: %s`", who, k ? " and " : "",
                              qg_draft_key_name(x[k].key), x[k].word);
    if (!who)
        return qg_nomem(s->best->how->m->ctx);
    QG_TRY(vary(s->best, s->changes, x, n, &d));
    qg_status status = is_open(s->best, &d, &t, open);
    if (status == QG_OK && *open)
        status = qg_rivals_add(s->best, &t, who, s->arena, s->list);
    qg_attempt_free(&t);
    return status;
}

/* A change alone; an operator that would be rounded can move codes instead, and a
 * sharing that goes can give way to another one: those that follow it in the list of
 * n. */
static qg_status try_change(const search *s, const qg_draft_change *x, size_t n)
{
    bool open;
    qg_draft_change both[] = {
        *x, {QG_DRAFT_PASSIVE, x->word, NULL, x->why}
    };
    QG_TRY(try_changes(s, x, 1, &open));
    if (!open && x->key == QG_DRAFT_QUANTIZES)
        QG_TRY(try_changes(s, both, 2, &open));
    for (size_t i = 1;
         x->key == QG_DRAFT_NO_SHARING && i < n && x[i].key == QG_DRAFT_SHARING; i++) {
        both[1] = x[i];
        QG_TRY(try_changes(s, both, 2, &open));
    }
    return QG_OK;
}

qg_status qg_alternatives_find(const qg_attempt *best, size_t changes, qg_arena *arena,
                               qg_rivals *list)
{
    const search s = { best, changes, arena, list };
    qg_proposals all = { 0 };
    QG_TRY(qg_propose_alternatives(best, &all));
    for (size_t i = 0; i < all.n; i++)
        QG_TRY(try_change(&s, &all.at[i], all.n - i));
    return QG_OK;
}

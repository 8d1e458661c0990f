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

/* A change alone; an operator that would be rounded can move codes instead. */
static qg_status try_change(const search *s, const qg_draft_change *x)
{
    bool open;
    qg_draft_change both[] = {
        *x, {QG_DRAFT_PASSIVE, x->word, NULL, x->why}
    };
    QG_TRY(try_changes(s, x, 1, &open));
    return open || x->key != QG_DRAFT_QUANTIZES ? QG_OK
                                                : try_changes(s, both, 2, &open);
}

qg_status qg_alternatives_find(const qg_attempt *best, size_t changes, qg_arena *arena,
                               qg_rivals *list)
{
    const search s = { best, changes, arena, list };
    qg_proposals all = { 0 };
    QG_TRY(qg_propose_alternatives(best, &all));
    for (size_t i = 0; i < all.n; i++)
        QG_TRY(try_change(&s, &all.at[i]));
    return QG_OK;
}

/* attempt.c -- quantizes by a draft, then again with rules of scales, and counts
 * agreements:
 *
 *     1  the draft as it is: kinds, links and grids are counted here (own)
 *     2  groups whose scale is not the observed one get a rule for their dominator
 *     3  where an alignment still takes a larger scale, a rule for every member
 *     4  simulation on the inputs of the device: shares of equal elements
 *
 * Kinds, links and grids are those of step 1: with the rules of scales, which are
 * taken from the trace, every draft would have the grids.  Elements need the rules: two
 * grids give different codes, whatever the decisions are.
 */
#include "engine/device/attempt.h"

#include <string.h>

#include "engine/config/text.h"
#include "engine/core/num.h"
#include "engine/device/step.h"

/* Samples of a quick attempt. */
enum { QUICK = 2 };
/* The pass after which all decisions and scales are there. */
#define LAST_DECISION "derive-passive"

/* --- rules of scales --- */

/* Every record of the value belongs to the group. */
static bool whole_in(const qg_value *v, const qg_tqc *root)
{
    const qg_tqc *p = v->def ? qg_producer_tqc(v) : NULL;
    bool whole = !p || qg_tqc_root(p) == root;
    for (size_t i = 0; i < v->use.n; i++) {
        const qg_tqc *t = qg_input_tqc(v->use.at[i].node, v->use.at[i].slot);
        whole &= !t || qg_tqc_root(t) == root;
    }
    return whole;
}

/* The draft's rule with the same match; NULL: none. */
static qg_draft_change *same_match(qg_draft *d, const qg_draft_change *c)
{
    size_t n = (size_t)(strstr(c->body, "\n") - c->body);
    for (size_t i = 0; i < d->change.n; i++) {
        qg_draft_change *x = &d->change.at[i];
        if (x->key == QG_DRAFT_RULE && strncmp(x->body, c->body, n + 1) == 0)
            return x;
    }
    return NULL;
}

static qg_status add_rule(qg_attempt *t, const char *match, const char *set,
                          const char *why)
{
    qg_arena *a = t->how->arena;
    qg_draft_change c = { .key = QG_DRAFT_RULE, .why = why };
    c.word = qg_arena_printf(a, "grid-%zu", t->draft.change.n + 1);
    c.body = match && set
                 ? qg_arena_printf(a, "    match: {%s}\n    set: %s\n", match, set)
                 : NULL;
    if (!c.word || !c.body || !c.why)
        return qg_nomem(t->how->m->ctx);
    qg_draft_change *there = same_match(&t->draft, &c);
    if (!there)
        return qg_vec_push(t->how->m->ctx, a, &t->draft.change, c);
    there->body = c.body;
    there->why = c.why;
    return QG_OK;
}

/* A rule for records of a group: by the name of the value when it is wholly in it, else
 * for this endpoint. */
static qg_status give_to(qg_attempt *t, const qg_tqc *x, const char *set,
                         const char *why)
{
    qg_arena *a = t->how->arena;
    char slot[QG_SLOT_TEXT];
    const qg_value *v = qg_tqc_value(x);
    bool whole = whole_in(v, qg_tqc_root(x)) || qg_attempt_by_readers(v);
    const char *name = qg_draft_quoted(a, whole ? v->name : x->node->name);
    if (!name)
        return qg_nomem(t->how->m->ctx);
    if (whole)
        return add_rule(t, qg_arena_printf(a, "value: [%s]", name), set, why);
    return add_rule(t,
                    qg_arena_printf(a, "node: [%s], slot: %s", name,
                                    qg_slot_text(x->is_output, x->slot, slot)),
                    set, why);
}

/* No member of the group before x has its value. */
static bool is_first_of(const qg_tqc *x, const qg_tqc *root)
{
    for (const qg_tqc *y = root; y && y != x; y = qg_group_next(y, root))
        if (qg_tqc_value(y) == qg_tqc_value(x))
            return false;
    return true;
}

/* A scale to every member of a group; to those of one value by its name. */
static qg_status give_all(qg_attempt *t, const qg_tqc *root, const char *set,
                          const char *why)
{
    for (const qg_tqc *x = root; x; x = qg_group_next(x, root)) {
        const qg_value *v = qg_tqc_value(x);
        bool first = !whole_in(v, root) || is_first_of(x, root);
        if (!qg_tqc_is_constant(x) && first)
            QG_TRY(give_to(t, x, set, why));
    }
    return QG_OK;
}

static const char *evidence_of(qg_arena *a, const qg_tqc *root, const qg_seen *o)
{
    bool open = !o->zero_known && root->scheme.policy & QG_ASYMMETRIC;
    return qg_arena_printf(
        a,
        "%zu different elements of %.1000s are multiples %.0f to %.0f of this step%s",
        o->levels, o->value->name, o->low, o->high,
        o->zero_known ? ", zero point given"
        : open        ? "; the zero point is a guess, undecided"
                      : "");
}

/* The scale of a group: to its dominator, from which the others have it; `all`: to
 * every member, where an alignment would take a larger scale of another one. */
static qg_status give_grid(qg_attempt *t, const qg_tqc *root, const qg_seen *o,
                           bool all)
{
    const char *set = qg_grid_setting(t->how->arena, root, o);
    const char *why = evidence_of(t->how->arena, root, o);
    return all ? give_all(t, root, set, why) : give_to(t, root, set, why);
}

/* The groups of own.graph whose scale the draft gives, by id of the dominator. */
enum { GIVEN_NOT, GIVEN_ROOT, GIVEN_ALL };

/* What shows the grid of the group of v: v, or in a float format, where small elements
 * bound the scale, the value with the smallest step. */
static const qg_seen *finest(const qg_attempt *t, const qg_value *v, const qg_tqc *root)
{
    const qg_graph *g = t->own.graph;
    const qg_seen *best = qg_attempt_seen(t, v);
    for (size_t i = 0; root->scheme.policy & QG_FLOATING && i < g->value.n; i++) {
        const qg_value *w = g->value.at[i];
        const qg_seen *o = qg_attempt_seen(t, w);
        if (qg_attempt_comparable(t, w) && qg_attempt_is_held(t, w, root) &&
            o->step < best->step)
            best = o;
    }
    return best;
}

/* The rules of the groups marked in `given`, behind the first `before` changes. */
static qg_status write_rules(qg_attempt *t, size_t before, const uint8_t *given)
{
    const qg_graph *g = t->own.graph;
    uint8_t *done = QG_NEWN(g->arena, t->own.quant->tqc.n, uint8_t);
    if (!done)
        return qg_nomem(t->how->m->ctx);
    t->draft.change.n = before;
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v = g->value.at[i];
        const qg_tqc *x;
        if (!qg_attempt_comparable(t, v))
            continue;
        for (size_t k = 0; (x = qg_attempt_holder(t, v, k)); k++) {
            const qg_tqc *root = qg_tqc_root(x);
            if (given[root->id] != GIVEN_NOT && !done[root->id])
                QG_TRY(give_grid(t, root, finest(t, v, root),
                                 given[root->id] == GIVEN_ALL));
            done[root->id] = 1;
        }
    }
    return QG_OK;
}

/* Marks groups whose scale in m is not the observed one, one step further than they
 * are; their number. */
static size_t mark_groups(const qg_attempt *t, const qg_model *m, uint8_t *given)
{
    const qg_graph *g = t->own.graph;
    size_t marked = 0;
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v = g->value.at[i];
        const qg_value *now = qg_graph_value(m->graph, v->name);
        if (!now || !qg_attempt_comparable(t, v))
            continue;
        const qg_tqc *x, *own;
        for (size_t k = 0;
             (x = qg_attempt_holder(t, now, k)) && (own = qg_attempt_holder(t, v, k));
             k++) {
            const qg_tqc *root = qg_tqc_root(own);
            uint8_t next = m == &t->own ? GIVEN_ROOT : GIVEN_ALL;
            if (given[root->id] >= next || qg_grid_matches(x, qg_attempt_seen(t, v)))
                continue;
            given[root->id] = next;
            marked++;
        }
    }
    return marked;
}

/* --- quantizing --- */

/* The draft as a text of the context, for one call: nothing is written.  stop: the last
 * pass; NULL: all of them. */
static qg_status quantize(qg_attempt *t, const char *stop, qg_model *out)
{
    const qg_attempts *how = t->how;
    qg_ctx *ctx = how->m->ctx;
    qg_quantize_options o;
    const char *text;
    size_t size;
    QG_TRY(qg_draft_text(ctx, &t->draft, how->arena, &text, &size));
    qg_config_text config = { text, size };
    qg_added added = { ctx->added[QG_ADDED_CONFIG], "backends/inferred draft.yaml",
                       &config };
    qg_quantize_options_init(&o, sizeof o);
    o.backend = t->draft.name ? added.name : t->draft.base;
    o.observer = how->quick ? "minmax" : NULL;
    o.stop_after = stop;
    o.work = qg_feed_again(how->feed, how->work);
    if (how->quick && how->feed->feed.n > QUICK)
        o.work.samples = QUICK;
    if (how->quick)
        o.work.jobs = 1; /* not worth its threads */
    o.work.progress = (qg_progress){ 0 };
    *out = (qg_model){ .ctx = ctx, .path = how->m->path, .sha256 = how->m->sha256 };
    QG_TRY(qg_graph_share(how->m->graph, &out->graph));
    qg_log log = ctx->log;
    ctx->log.write = NULL; /* warnings about a backend that is only tried */
    ctx->added[QG_ADDED_CONFIG] = &added;
    qg_status s = qg_model_quantize(out, &o, NULL);
    ctx->added[QG_ADDED_CONFIG] = added.next;
    ctx->log = log;
    return s;
}

/* --- all --- */

/* Whether a record of the network has its settings from the rule, the last one that
 * matches it. */
static bool has_effect(const qg_model *m, const char *id)
{
    for (size_t i = 0; i < m->quant->tqc.n; i++) {
        uint32_t rule = m->quant->tqc.at[i]->rule;
        if (rule != QG_NONE &&
            strcmp(m->quant->backend->rule.at[rule].origin.id, id) == 0)
            return true;
    }
    return false;
}

/* Rules of scales that match nothing, or nothing alone, say nothing. */
static void drop_idle_rules(qg_attempt *t, size_t before)
{
    size_t n = before;
    for (size_t i = before; i < t->draft.change.n; i++)
        if (has_effect(&t->given, t->draft.change.at[i].word))
            t->draft.change.at[n++] = t->draft.change.at[i];
    t->draft.change.n = n;
}

/* Rules of scales until every group has the observed one, or no rule helps: twice at
 * most. */
static qg_status give_grids(qg_attempt *t)
{
    size_t before = t->draft.change.n;
    uint8_t *given = QG_NEWN(t->own.graph->arena, t->own.quant->tqc.n, uint8_t);
    if (!given)
        return qg_nomem(t->how->m->ctx);
    for (const qg_model *m = &t->own; mark_groups(t, m, given) > 0; m = &t->given) {
        qg_graph_free(t->given.graph);
        t->given = (qg_model){ 0 };
        QG_TRY(write_rules(t, before, given));
        QG_TRY(quantize(t, NULL, &t->given));
    }
    if (t->given.graph)
        drop_idle_rules(t, before);
    return QG_OK;
}

static qg_status begin(qg_attempt *t)
{
    QG_TRY(quantize(t, LAST_DECISION, &t->own));
    QG_TRY(qg_attempt_find_kinds(t));
    qg_attempt_count(t);
    return QG_OK;
}

static qg_status finish(qg_attempt *t)
{
    if (t->draft.name)
        QG_TRY(give_grids(t));
    if (!t->given.graph)
        QG_TRY(quantize(t, NULL, &t->given));
    return qg_attempt_replay(t);
}

/* Where a group is found again: by the endpoint of its dominator. */
static const qg_tqc *same_root(const qg_model *m, const qg_tqc *root)
{
    const qg_node *n = qg_graph_node(m->graph, root->node->name);
    uint32_t slots = !n ? 0 : root->is_output ? n->n_out : n->n_in;
    const qg_tqc *t = root->slot >= slots ? NULL
                      : root->is_output   ? qg_output_tqc(n, root->slot)
                                          : qg_input_tqc(n, root->slot);
    return t ? qg_tqc_root(t) : NULL;
}

qg_status qg_attempt_give(qg_attempt *t, size_t *changes, const qg_tqc *root,
                          const char *set, const char *why)
{
    const qg_tqc *own = same_root(&t->own, root);
    t->draft.change.n = *changes;
    if (own)
        QG_TRY(give_all(t, own, set, why));
    *changes = t->draft.change.n;
    return QG_OK;
}

/* A failure that is about the draft becomes its refusal. */
static qg_status refuse(qg_attempt *t, qg_status s)
{
    qg_ctx *ctx = t->how->m->ctx;
    if (s == QG_OK || qg_refusal(s) != QG_OK)
        return s;
    t->refusal = qg_arena_strdup(t->how->arena, ctx->message);
    return t->refusal ? QG_OK : qg_nomem(ctx);
}

qg_status qg_attempt_begin(const qg_attempts *how, const qg_draft *d, qg_attempt *out)
{
    out->how = how;
    out->draft = (qg_draft){ .name = d->name, .base = d->base };
    for (size_t i = 0; i < d->change.n; i++)
        QG_TRY(
            qg_vec_push(how->m->ctx, how->arena, &out->draft.change, d->change.at[i]));
    return refuse(out, begin(out));
}

qg_status qg_attempt_make(const qg_attempts *how, const qg_draft *d, qg_attempt *out)
{
    QG_TRY(qg_attempt_begin(how, d, out));
    return out->refusal ? QG_OK : refuse(out, finish(out));
}

void qg_attempt_free(qg_attempt *t)
{
    if (!t->how)
        return;
    qg_graph_free(t->own.graph);
    qg_graph_free(t->given.graph);
    t->own = t->given = (qg_model){ 0 };
}

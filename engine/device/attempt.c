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
 *
 * A grid in the trace is no proof of a quantizer: a sum or a copy of codes lies on
 * their grid, so it agrees with codes and with floats (inherits_grid), unless the
 * record has too few codes for it.  A mean of codes lies on a finer grid; with more
 * codes than the record has, it is not counted (is_mean). */
#include "engine/device/attempt.h"

#include <math.h>

#include "engine/config/text.h"
#include "engine/core/num.h"

/* Of the greatest element: floats that differ by less are equal. */
#define SAME_REAL 1e-4
/* Samples on which the nodes are simulated: each costs a run per attempt. */
enum { REPLAYED = 4 };
/* Nodes that may lie between a mean of codes and a copy of it. */
enum { FAR = 8 };

/* --- values --- */

const qg_seen *qg_attempt_seen(const qg_attempt *t, const qg_value *v)
{
    const qg_seen_values *o = t->how->seen;
    const qg_value *own = qg_graph_value(o->graph, v->name);
    return own && !own->constant && own->type.dtype == QG_F32 ? &o->at[own->id] : NULL;
}

/* The first reader's record, where all readers round the value alike; NULL: they do
 * not. */
static const qg_tqc *readers_tqc(const qg_value *v)
{
    const qg_tqc *first = NULL;
    for (size_t i = 0; i < v->use.n; i++) {
        const qg_tqc *t = qg_input_tqc(v->use.at[i].node, v->use.at[i].slot);
        if (!t || !qg_tqc_rounds(t))
            return NULL;
        qg_qparam p = qg_tqc_param(t), q = qg_tqc_param(first ? first : t);
        if (p.n != 1 || q.n != 1 || p.scale[0] != q.scale[0])
            return NULL;
        first = first ? first : t;
    }
    return v->is_output ? NULL : first;
}

bool qg_attempt_by_readers(const qg_value *v)
{
    const qg_tqc *p = v->def ? qg_producer_tqc(v) : NULL;
    bool by_producer = p && p->state != QG_TQC_FP32 && p->state != QG_TQC_SOI;
    return v->def && !by_producer && readers_tqc(v);
}

const qg_tqc *qg_attempt_tqc(const qg_value *v)
{
    if (qg_attempt_by_readers(v))
        return readers_tqc(v);
    if (v->def)
        return qg_producer_tqc(v);
    for (size_t i = 0; i < v->use.n; i++) {
        const qg_tqc *t = qg_input_tqc(v->use.at[i].node, v->use.at[i].slot);
        if (t)
            return t;
    }
    return NULL;
}

/* An output that does not round is stored when the node moves codes: an input of its
 * group rounds, or is stored. */
static bool moves_codes(const qg_attempt *t, const qg_tqc *out)
{
    const qg_node *n = out->node;
    for (uint32_t k = 0; k < n->n_in; k++) {
        const qg_tqc *in = qg_input_tqc(n, k);
        const qg_value *v = n->in[k];
        if (!in || qg_tqc_is_constant(in) || qg_tqc_root(in) != qg_tqc_root(out))
            continue;
        const qg_tqc *from = qg_attempt_tqc(v);
        if (qg_tqc_rounds(in) || (t->kind[v->id] == QG_AS_CODES && from &&
                                  qg_tqc_root(from) == qg_tqc_root(out)))
            return true;
    }
    return false;
}

static qg_stored_as kind_of(const qg_attempt *t, const qg_value *v)
{
    const qg_tqc *tqc = qg_attempt_tqc(v);
    if (v->constant || v->type.dtype != QG_F32 ||
        (v->def && v->def->platform == QG_PLATFORM_SOI))
        return QG_AS_ABSENT;
    if (tqc && qg_tqc_rounds(tqc))
        return QG_AS_CODES;
    if (!tqc || tqc->state != QG_TQC_OVERLAPPED)
        return QG_AS_FLOAT;
    return v->def && moves_codes(t, tqc) ? QG_AS_CODES : QG_AS_SILENT;
}

/* Nodes are in topological order after the passes, so inputs are known first. */
static qg_status find_kinds(qg_attempt *t)
{
    const qg_graph *g = t->own.graph;
    t->kind = QG_NEWN(g->arena, g->value.n, qg_stored_as);
    if (!t->kind)
        return qg_nomem(t->how->m->ctx);
    for (size_t i = 0; i < g->input.n; i++)
        t->kind[g->input.at[i]->id] = kind_of(t, g->input.at[i]);
    for (size_t i = 0; i < g->node.n; i++)
        for (uint32_t k = 0; k < g->node.at[i]->n_out; k++) {
            const qg_value *v = g->node.at[i]->out[k];
            if (v)
                t->kind[v->id] = kind_of(t, v);
        }
    return QG_OK;
}

static bool has_step(const qg_seen *o)
{
    return o && o->kind == QG_SEEN_CODES && o->step > 0;
}

/* The steps of all inputs of the node are those of its output, or multiples of
 * them: a sum, a maximum, a copy (and with multiples a mean) of codes lies on a grid
 * without being rounded to it, so the grid tells nothing. */
static bool inherits_grid(const qg_attempt *t, const qg_value *v, const qg_seen *o,
                          bool multiples)
{
    const qg_node *n = v->def;
    size_t inputs = 0;
    for (uint32_t k = 0; n && k < n->n_in; k++) {
        const qg_value *in = n->in[k];
        const qg_seen *s = in ? qg_attempt_seen(t, in) : NULL;
        if (!in || in->constant)
            continue;
        if (!has_step(s) || !(o->step > 0))
            return false;
        double ratio = multiples ? nearbyint(s->step / o->step) : 1;
        if (ratio < 1 || !qg_grid_same_step(s->step, ratio * o->step))
            return false;
        inputs++;
    }
    return inputs > 0;
}

/* The node multiplies codes by a constant, so each is as many steps as before. */
static bool is_scaled(const qg_attempt *t, const qg_value *v, const qg_seen *o)
{
    const qg_seen *from = NULL;
    for (uint32_t k = 0; v->def && k < v->def->n_in; k++) {
        const qg_value *in = v->def->in[k];
        if (!in || in->constant)
            continue;
        if (from || !has_step(qg_attempt_seen(t, in)))
            return false;
        from = qg_attempt_seen(t, in);
    }
    return from && from->levels == o->levels &&
           from->high - from->low == o->high - o->low;
}

/* The grid follows from those of the inputs, without any rounding. */
static bool is_derived(const qg_attempt *t, const qg_value *v, const qg_seen *o)
{
    return inherits_grid(t, v, o, true) || is_scaled(t, v, o);
}

/* More multiples of the step than the scheme of the record has codes; without a record,
 * than 8 bits have. */
static bool exceeds(const qg_value *v, const qg_seen *o)
{
    const qg_tqc *t = qg_attempt_tqc(v);
    if (t && t->scheme.policy & QG_FLOATING)
        return false;
    return o->high - o->low > (t ? (double)(t->scheme.qmax - t->scheme.qmin) : 255);
}

/* Means of codes, and copies of them, which are on a grid of more codes than the record
 * has. */
static bool is_mean(const qg_attempt *t, const qg_value *v, const qg_seen *o)
{
    for (int depth = 0; depth < FAR; depth++) {
        if (!has_step(o) || !exceeds(v, o) || !inherits_grid(t, v, o, true))
            return false;
        if (!inherits_grid(t, v, o, false))
            return true;
        v = v->def->in[0]; /* a copy, or a sum, of means */
        o = v ? qg_attempt_seen(t, v) : NULL;
    }
    return false;
}

bool qg_attempt_agrees(const qg_attempt *t, const qg_value *v, bool *counts)
{
    const qg_seen *o = qg_attempt_seen(t, v);
    qg_stored_as as = t->kind[v->id];
    *counts = o && as != QG_AS_ABSENT && o->kind != QG_SEEN_UNSURE;
    if (o && o->kind == QG_SEEN_HIDDEN) /* of floats a device shows what it likes */
        *counts = v->def && (as == QG_AS_CODES || as == QG_AS_SILENT);
    if (o && is_mean(t, v, o))
        *counts = false;
    if (!*counts)
        return false;
    if (o->kind == QG_SEEN_CODES && inherits_grid(t, v, o, false))
        return as != QG_AS_CODES || !exceeds(v, o);
    if (o->kind == QG_SEEN_CODES && as == QG_AS_CODES && exceeds(v, o))
        return false;
    if (as != QG_AS_CODES && has_step(o) && is_derived(t, v, o))
        return true;
    return (o->kind == QG_SEEN_CODES) == (as == QG_AS_CODES);
}

/* --- grids --- */

/* Codes in the trace: an inner value that a sum of codes puts on their grid is none. */
static bool visible(const qg_attempt *t, const qg_value *v)
{
    const qg_seen *o = v ? qg_attempt_seen(t, v) : NULL;
    return has_step(o) && t->kind[v->id] != QG_AS_ABSENT && !is_mean(t, v, o) &&
           (t->kind[v->id] == QG_AS_CODES || !is_derived(t, v, o));
}

/* Codes in records and trace. */
static bool comparable(const qg_attempt *t, const qg_value *v)
{
    const qg_tqc *x = visible(t, v) ? qg_attempt_tqc(v) : NULL;
    return x && t->kind[v->id] == QG_AS_CODES &&
           qg_grid_can_hold(qg_tqc_root(x), qg_attempt_seen(t, v));
}

/* One group in the records; or two with the scale that both have in the trace. */
static bool is_shared(const qg_tqc *p, const qg_tqc *q, bool equal)
{
    qg_qparam s = qg_tqc_param(p), u = qg_tqc_param(q);
    return qg_tqc_root(p) == qg_tqc_root(q) ||
           (equal && s.n == 1 && u.n == 1 && s.scale[0] == u.scale[0]);
}

/* Steps of float formats are those of the scales only where these are decided. */
static bool has_scale(const qg_tqc *t, const qg_seen *o)
{
    const qg_scheme *s = &qg_tqc_root(t)->scheme;
    return !(s->policy & QG_FLOATING) || qg_grid_decides_float(s, o);
}

/* Appends the link of two values unless it tells nothing. */
static void add_link(const qg_attempt *t, const qg_value *a, const qg_value *b,
                     qg_link *l, size_t *n)
{
    const qg_seen *x = qg_attempt_seen(t, a), *y = qg_attempt_seen(t, b);
    const qg_tqc *p = qg_attempt_tqc(a), *q = qg_attempt_tqc(b);
    *l = (qg_link){ .a = a, .b = b };
    l->known = comparable(t, a) && comparable(t, b);
    l->equal = qg_grid_same_step(x->step, y->step) &&
               (!x->zero_known || !y->zero_known || x->zero == y->zero);
    l->shared = l->known && is_shared(p, q, l->equal);
    bool by_chance = l->equal && !l->shared && qg_grid_is_common_step(x->step);
    *n += !by_chance && (!l->known || (has_scale(p, x) && has_scale(q, y)));
}

size_t qg_attempt_links(const qg_attempt *t, const qg_node *n, qg_link out[QG_LINKS])
{
    size_t found = 0;
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (!visible(t, n->in[i]))
            continue;
        for (uint32_t k = i + 1; k < n->n_in && found < QG_LINKS; k++)
            if (visible(t, n->in[k]) && n->in[k] != n->in[i])
                add_link(t, n->in[i], n->in[k], &out[found], &found);
        for (uint32_t k = 0; k < n->n_out && found < QG_LINKS; k++)
            if (visible(t, n->out[k]))
                add_link(t, n->in[i], n->out[k], &out[found], &found);
    }
    for (size_t i = 0; i < found; i++) {
        out[i].node = n;
        out[i].output = out[i].b->def == n;
    }
    return found;
}

static void count(qg_portion *p, bool yes)
{
    p->part += yes;
    p->of++;
}

static void count_all(qg_attempt *t)
{
    const qg_graph *g = t->own.graph;
    qg_link link[QG_LINKS];
    for (size_t i = 0; i < g->value.n; i++) {
        const qg_value *v = g->value.at[i];
        bool counts, agrees = qg_attempt_agrees(t, v, &counts);
        if (counts)
            count(&t->kinds, agrees);
        if (visible(t, v))
            count(&t->grids,
                  comparable(t, v) &&
                      qg_grid_matches(qg_attempt_tqc(v), qg_attempt_seen(t, v)));
    }
    for (size_t i = 0; i < g->node.n; i++) {
        size_t n = qg_attempt_links(t, g->node.at[i], link);
        for (size_t k = 0; k < n; k++)
            count(&t->links, link[k].known && link[k].shared == link[k].equal);
    }
}

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

static qg_status add_rule(qg_attempt *t, const char *match, const char *set,
                          const qg_seen *o)
{
    qg_arena *a = t->how->arena;
    qg_draft_change c = { .key = QG_DRAFT_RULE };
    c.word = qg_arena_printf(a, "grid-%zu", t->draft.change.n + 1);
    c.body = match && set
                 ? qg_arena_printf(a, "    match: {%s}\n    set: %s\n", match, set)
                 : NULL;
    c.why =
        qg_arena_printf(a,
                        "%zu different elements of %.80s are multiples %.0f to %.0f "
                        "of this step%s",
                        o->levels, o->value->name, o->low, o->high,
                        o->zero_known ? ", zero point given" : "");
    if (!c.word || !c.body || !c.why)
        return qg_nomem(t->how->m->ctx);
    return qg_vec_push(t->how->m->ctx, a, &t->draft.change, c);
}

/* A rule for records of a group: by the name of the value when it is wholly in it, else
 * for this endpoint. */
static qg_status give_to(qg_attempt *t, const qg_tqc *x, const char *set,
                         const qg_seen *o)
{
    qg_arena *a = t->how->arena;
    char slot[QG_SLOT_TEXT];
    const qg_value *v = qg_tqc_value(x);
    bool whole = whole_in(v, qg_tqc_root(x)) || qg_attempt_by_readers(v);
    const char *name = qg_draft_quoted(a, whole ? v->name : x->node->name);
    if (!name)
        return qg_nomem(t->how->m->ctx);
    if (whole)
        return add_rule(t, qg_arena_printf(a, "value: [%s]", name), set, o);
    return add_rule(t,
                    qg_arena_printf(a, "node: [%s], slot: %s", name,
                                    qg_slot_text(x->is_output, x->slot, slot)),
                    set, o);
}

/* The scale of a group: to its dominator, from which the others have it; `all`: to
 * every member, where an alignment would take a larger scale of another one. */
static qg_status give_grid(qg_attempt *t, const qg_tqc *root, const qg_seen *o,
                           bool all)
{
    const char *set = qg_grid_setting(t->how->arena, root, o);
    if (!all)
        return give_to(t, root, set, o);
    for (const qg_tqc *x = root; x; x = qg_group_next(x, root)) {
        const qg_value *v = qg_tqc_value(x);
        bool first = !whole_in(v, root) || x == qg_attempt_tqc(v);
        if (!qg_tqc_is_constant(x) && first)
            QG_TRY(give_to(t, x, set, o));
    }
    return QG_OK;
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
        if (comparable(t, w) && qg_tqc_root(qg_attempt_tqc(w)) == root &&
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
        if (!comparable(t, v))
            continue;
        const qg_tqc *root = qg_tqc_root(qg_attempt_tqc(v));
        if (given[root->id] != GIVEN_NOT && !done[root->id])
            QG_TRY(
                give_grid(t, root, finest(t, v, root), given[root->id] == GIVEN_ALL));
        done[root->id] = 1;
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
        const qg_tqc *x = comparable(t, v) && now ? qg_attempt_tqc(now) : NULL;
        if (!x || qg_grid_matches(x, qg_attempt_seen(t, v)))
            continue;
        const qg_tqc *root = qg_tqc_root(qg_attempt_tqc(v));
        uint8_t next = m == &t->own ? GIVEN_ROOT : GIVEN_ALL;
        marked += given[root->id] < next;
        if (given[root->id] < next)
            given[root->id] = next;
    }
    return marked;
}

/* --- quantizing --- */

/* The draft as a text of the context, for one call: nothing is written. */
static qg_status quantize(qg_attempt *t, qg_model *out)
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
    o.observer = how->observer;
    o.work = qg_feed_again(how->feed, how->work);
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

/* --- replay --- */

typedef struct replay {
    qg_attempt *t;
    qg_arena *arena; /* of a call */
    uint64_t *equal, *of;
} replay;

static bool is_equal(const qg_seen *o, double most, double ours, double theirs)
{
    return ours == theirs ||
           fabs(ours - theirs) <=
               (o->kind == QG_SEEN_CODES ? 0.5 * o->step : SAME_REAL * most);
}

/* Compares an output as the node stores it, and goes on with the device's. */
static qg_status see(void *ud, qg_ctx *ctx, size_t sample, const qg_hook_point *at,
                     qg_tensor *value)
{
    replay *r = ud;
    const qg_value *v = qg_endpoint_value(at->endpoint);
    const qg_seen *o = at->endpoint.is_output ? qg_attempt_seen(r->t, v) : NULL;
    bool again = at->tqc && qg_tqc_rounds(at->tqc) && !at->rounded;
    qg_tensor x;
    double *theirs, most = 0;
    if (!o || again || value->dtype != QG_F32 || o->kind == QG_SEEN_HIDDEN ||
        (o->kind == QG_SEEN_CODES && !(o->step > 0)))
        return QG_OK;
    qg_arena_reset(r->arena);
    qg_tensor_init(&x, QG_F32, value->rank, value->dim);
    if (qg_tensor_count(&x) != qg_tensor_count(&o->type))
        return QG_OK;
    QG_TRY(qg_tensor_alloc(ctx, r->arena, &x));
    QG_TRY(qg_seen_read(ctx, r->t->how->seen, o, sample, r->arena, &theirs));
    qg_tensor_copy(value, &x);
    size_t n = (size_t)qg_tensor_count(&x);
    for (size_t i = 0; i < n; i++)
        most = isfinite(theirs[i]) ? fmax(most, fabs(theirs[i])) : most;
    for (size_t i = 0; i < n; i++) {
        r->equal[o->value->id] += is_equal(o, most, (double)x.f32[i], theirs[i]);
        x.f32[i] = (float)theirs[i];
    }
    r->of[o->value->id] += n;
    qg_tensor_copy(&x, value);
    return QG_OK;
}

/* [nodes] of [endpoints]: hooks replace every output. */
static qg_status outputs_to_write(qg_ctx *ctx, const qg_graph *g,
                                  const uint8_t *const **out)
{
    const uint8_t **write = QG_NEWN(g->arena, g->node.n, const uint8_t *);
    if (!write)
        return qg_nomem(ctx);
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        uint8_t *mask = QG_NEWN(g->arena, qg_node_endpoints(n), uint8_t);
        if (!mask)
            return qg_nomem(ctx);
        memset(mask + n->n_in, 1, n->n_out);
        write[i] = mask;
    }
    *out = write;
    return QG_OK;
}

static qg_status run_samples(replay *r, const qg_plan *p)
{
    const qg_feed *feed = &r->t->how->feed->feed;
    qg_ctx *ctx = r->t->how->m->ctx;
    qg_arena *sample = qg_arena_new(ctx->alloc);
    qg_run *run = NULL;
    qg_hook hook = { see, r };
    qg_status s = sample ? qg_run_new(ctx, p, &run) : qg_nomem(ctx);
    for (size_t i = 0; i < feed->n && i < REPLAYED && s == QG_OK; i++) {
        qg_arena_reset(sample);
        const qg_tensor **in = QG_NEWN(sample, p->graph->input.n, const qg_tensor *);
        s = in ? feed->fetch(feed->ud, ctx, sample, i, in) : qg_nomem(ctx);
        if (s == QG_OK)
            s = qg_run_execute(run, in, &hook, 1, i);
    }
    qg_run_free(run);
    qg_arena_free(sample);
    return s;
}

/* Every node on the device's own inputs. */
static qg_status simulate(qg_attempt *t)
{
    const qg_model *m = qg_attempt_model(t);
    qg_ctx *ctx = t->how->m->ctx;
    size_t n = t->how->seen->graph->value.n;
    qg_plan_options o = { .mode = QG_MODE_SIMULATE,
                          .quant = m->quant,
                          .watch_all = true,
                          .input = t->how->feed->feed.shape,
                          .reference = t->how->work->reference_kernels };
    qg_plan *plan;
    replay r = { .t = t,
                 .equal = QG_NEWN(m->graph->arena, n, uint64_t),
                 .of = QG_NEWN(m->graph->arena, n, uint64_t) };
    t->share = QG_NEWN(m->graph->arena, n, double);
    if (!t->share || !r.equal || !r.of)
        return qg_nomem(ctx);
    QG_TRY(outputs_to_write(ctx, m->graph, &o.write));
    QG_TRY(qg_plan_new(ctx, m->graph, &o, &plan));
    r.arena = qg_arena_new(ctx->alloc);
    qg_status s = r.arena ? run_samples(&r, plan) : qg_nomem(ctx);
    for (size_t i = 0; i < n; i++) {
        t->share[i] = r.of[i] ? (double)r.equal[i] / (double)r.of[i] : -1;
        t->replayed += r.of[i] > 0;
        t->elements += r.of[i] ? t->share[i] : 0;
    }
    t->elements = t->replayed ? t->elements / (double)t->replayed : 0;
    qg_arena_free(r.arena);
    qg_plan_free(plan);
    return s;
}

/* --- all --- */

static double part(qg_portion p) { return p.of ? (double)p.part / (double)p.of : 1; }

double qg_attempt_structure(qg_portion kinds, qg_portion links)
{
    return 2 * part((qg_portion){ kinds.part + links.part, kinds.of + links.of });
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
        QG_TRY(quantize(t, &t->given));
    }
    return QG_OK;
}

static qg_status begin(qg_attempt *t)
{
    QG_TRY(quantize(t, &t->own));
    QG_TRY(find_kinds(t));
    count_all(t);
    t->score = qg_attempt_structure(t->kinds, t->links) + part(t->grids);
    return QG_OK;
}

static qg_status finish(qg_attempt *t)
{
    if (t->draft.name)
        QG_TRY(give_grids(t));
    QG_TRY(simulate(t));
    t->score += t->elements;
    return QG_OK;
}

/* A failure that is about the draft becomes its refusal. */
static qg_status refuse(qg_attempt *t, qg_status s)
{
    qg_ctx *ctx = t->how->m->ctx;
    if (s == QG_OK || s == QG_ECANCELED || qg_is_nomem(s))
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

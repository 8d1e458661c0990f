/* match.c -- a depth-first search without recursion.
 *
 * plan_steps orders the pattern nodes so that each is a neighbour of one bound
 * before; the search then only visits producers and users of bound nodes.  slot[]
 * and use[] are the cursors of each level, which is all the state that backtracking
 * needs. */
#include "engine/ir/match.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "engine/ir/endpoint.h"

enum { UNSET = -1 };

/* How a pattern node is reached from a node bound before it. */
typedef struct step {
    uint32_t node; /* the pattern node to bind */
    uint32_t via;  /* bound before; unused for the anchor */
    bool forward;  /* it reads `via`; else `via` reads it */
} step;

typedef struct search {
    const qg_graph *g;
    const qg_pattern *p;
    enum qg_match_mode mode;
    qg_arena *arena;
    qg_matches *out;
    step steps[QG_PATTERN_NODES];
    qg_node *bound[QG_PATTERN_NODES]; /* by pattern index; NULL: not yet */
    size_t slot[QG_PATTERN_NODES];    /* cursor of each step: next slot, */
    size_t use[QG_PATTERN_NODES];     /* and next use of an output slot */
    bool *taken;                      /* by node id: in a match */
    size_t first_of_anchor;           /* index of the anchor's first match */
    size_t tried;
    qg_match_miss miss; /* the anchor's first; at NULL: none */
    size_t most;        /* nodes bound at one time, at `part`, which lacks `lacking` */
    const qg_node *part;
    uint32_t lacking;
} search;

/* ---- patterns ------------------------------------------------------------------ */

/* QG_ECONFIG: a pattern comes from a backend file. */
static qg_status wrong(qg_ctx *ctx, const qg_pattern *p, const char *node,
                       const char *what)
{
    return qg_fail(ctx, QG_ECONFIG, "pattern '%s': node '%s': %s", p->id, node, what);
}

/* Slots of operators are not known here; a slot that no operator has never matches. */
static qg_status check_edges(qg_ctx *ctx, const qg_pattern *p, size_t i)
{
    const qg_pattern_node *n = &p->node[i];
    if (n->n_in > QG_PATTERN_EDGES)
        return wrong(ctx, p, n->name, "too many edges, expected at most 8");
    for (size_t e = 0; e < n->n_in; e++)
        if (n->in[e].from >= p->n_node || n->in[e].from == i ||
            n->in[e].slot < QG_SLOT_ANY || n->in[e].from_slot < QG_SLOT_ANY)
            return wrong(
                ctx, p, n->name,
                "an edge without a source, expected an edge from another node");
    return QG_OK;
}

static bool reads(const qg_pattern *p, size_t reader, size_t from)
{
    for (size_t e = 0; e < p->node[reader].n_in; e++)
        if (p->node[reader].in[e].from == from)
            return true;
    return false;
}

static bool is_read(const qg_pattern *p, size_t node)
{
    for (size_t i = 0; i < p->n_node; i++)
        if (reads(p, i, node))
            return true;
    return false;
}

/* The last node that nobody reads; UNSET when all are read (then there is a cycle). */
static int anchor_of(const qg_pattern *p)
{
    for (size_t i = p->n_node; i-- > 0;)
        if (!is_read(p, i))
            return (int)i;
    return UNSET;
}

/* Takes away nodes that read no remaining one until nothing changes. */
static bool has_cycle(const qg_pattern *p)
{
    bool gone[QG_PATTERN_NODES] = { false };
    for (size_t round = 0; round < p->n_node; round++)
        for (size_t i = 0; i < p->n_node; i++) {
            bool waits = false;
            for (size_t k = 0; k < p->n_node; k++)
                waits |= !gone[k] && reads(p, i, k);
            gone[i] |= !waits;
        }
    for (size_t i = 0; i < p->n_node; i++)
        if (!gone[i])
            return true;
    return false;
}

/* The next node to bind: producers of bound nodes first, since a node has few inputs
 * and may have many readers. */
static bool next_step(const qg_pattern *p, const bool *done, step *s)
{
    for (int forward = 0; forward < 2; forward++)
        for (uint32_t via = 0; via < p->n_node; via++)
            for (uint32_t i = 0; done[via] && i < p->n_node; i++)
                if (!done[i] && (forward ? reads(p, i, via) : reads(p, via, i))) {
                    *s = (step){ .node = i, .via = via, .forward = forward };
                    return true;
                }
    return false;
}

/* Fills steps[n_node]; the number of nodes that could be reached. */
static size_t plan_steps(const qg_pattern *p, step *steps)
{
    bool done[QG_PATTERN_NODES] = { false };
    size_t n = 1;
    assert(anchor_of(p) != UNSET); /* there is no cycle */
    steps[0] = (step){ .node = (uint32_t)anchor_of(p) };
    done[steps[0].node] = true;
    for (; n < p->n_node && next_step(p, done, &steps[n]); n++)
        done[steps[n].node] = true;
    return n;
}

qg_status qg_pattern_check(qg_ctx *ctx, const qg_pattern *p)
{
    step steps[QG_PATTERN_NODES];
    if (p->n_node == 0 || p->n_node > QG_PATTERN_NODES)
        return qg_fail(ctx, QG_ECONFIG, "pattern '%s': %zu nodes, expected 1 to %d",
                       p->id, p->n_node, QG_PATTERN_NODES);
    for (size_t i = 0; i < p->n_node; i++)
        QG_TRY(check_edges(ctx, p, i));
    for (size_t i = 0; i < p->n_where; i++)
        if (p->where[i].node >= p->n_node)
            return wrong(ctx, p, "?",
                         "a condition without a node, expected a known node");
    for (size_t i = 0; i < p->n_same_platform; i++)
        for (size_t k = 0; k < p->same_platform[i].n; k++)
            if (p->same_platform[i].node[k] >= p->n_node)
                return wrong(ctx, p, "?",
                             "same-platform without a node, expected known nodes");
    if (has_cycle(p))
        return wrong(ctx, p, p->node[0].name, "the edges form a cycle, expected none");
    if (plan_steps(p, steps) < p->n_node)
        return wrong(
            ctx, p, p->node[steps[0].node].name,
            "other nodes are not connected to it, expected a connected pattern");
    return QG_OK;
}

/* ---- structure ----------------------------------------------------------------- */

/* All traits, and one of the names when there are any. */
static bool has_operator(const qg_pattern_node *pn, const qg_node *n)
{
    return (n->op->traits & pn->traits) == pn->traits &&
           (pn->n_op == 0 || qg_op_is_named(n->op, pn->op, pn->n_op));
}

/* A graph node plays one role in a match, and in QG_MATCH_APART one match in all. */
static bool is_free(const search *s, const qg_node *n)
{
    for (size_t i = 0; i < s->p->n_node; i++)
        if (s->bound[i] == n)
            return false;
    return !n->dead && !(s->mode == QG_MATCH_APART && s->taken[n->id]);
}

static bool contains(const uint32_t *list, size_t n, uint32_t x)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == x)
            return true;
    return false;
}

/* Whether slot k of n is fed by the edge from `from`. */
static bool feeds(const qg_pattern_edge *e, const qg_node *from, const qg_node *n,
                  uint32_t k, bool any_order)
{
    const qg_value *v = n->in[k];
    return v && v->def == from &&
           (e->from_slot == QG_SLOT_ANY || v->def_slot == (uint32_t)e->from_slot) &&
           (any_order || e->slot == QG_SLOT_ANY || k == (uint32_t)e->slot);
}

/* How many of its two slots the edge leaves open. */
static int freedom(const qg_pattern_edge *e, bool any_order)
{
    return (any_order || e->slot == QG_SLOT_ANY) + (e->from_slot == QG_SLOT_ANY);
}

/* Whether the edges into pattern node i, from bound nodes, have distinct slots.  Edges
 * with less freedom choose first; that makes the greedy choice right, since edges
 * compete for a slot only when they come from the same node. */
static bool edges_fit(const search *s, size_t i)
{
    const qg_pattern_node *pn = &s->p->node[i];
    const qg_node *n = s->bound[i];
    bool any_order = n && (pn->commutative || qg_node_has(n, QG_OP_JOIN));
    uint32_t used[QG_PATTERN_EDGES];
    size_t n_used = 0;
    for (int open = 0; n && open <= 2; open++)
        for (size_t e = 0; e < pn->n_in; e++) {
            const qg_node *from = s->bound[pn->in[e].from];
            uint32_t k = 0;
            if (!from || freedom(&pn->in[e], any_order) != open)
                continue;
            while (k < n->n_in && (!feeds(&pn->in[e], from, n, k, any_order) ||
                                   contains(used, n_used, k)))
                k++;
            if (k == n->n_in)
                return false;
            assert(n_used < QG_PATTERN_EDGES);
            used[n_used++] = k;
        }
    return true;
}

/* Binds pattern node i to n when the structure so far allows it. */
static bool bind(search *s, size_t i, qg_node *n)
{
    assert(!s->bound[i]);
    if (!is_free(s, n) || !has_operator(&s->p->node[i], n))
        return false;
    s->bound[i] = n;
    bool fits = edges_fit(s, i);
    for (size_t k = 0; fits && k < s->p->n_node; k++)
        fits = !reads(s->p, k, i) || edges_fit(s, k);
    if (!fits)
        s->bound[i] = NULL;
    return fits;
}

/* The next neighbour of the node that this step starts from; NULL after the last. */
static qg_node *next_candidate(search *s, size_t level)
{
    const qg_node *via = s->bound[s->steps[level].via];
    assert(via); /* steps are in an order that binds it before */
    size_t *slot = &s->slot[level], *use = &s->use[level];
    if (!s->steps[level].forward) {
        while (*slot < via->n_in) {
            const qg_value *v = via->in[(*slot)++];
            if (v && v->def)
                return v->def;
        }
        return NULL;
    }
    for (; *slot < via->n_out; ++*slot, *use = 0)
        if (via->out[*slot] && *use < via->out[*slot]->use.n)
            return via->out[*slot]->use.at[(*use)++].node;
    return NULL;
}

/* ---- conditions ---------------------------------------------------------------- */

/* The condition of the backend on node i; text gives the failed condition. */
static bool node_holds(const search *s, size_t i, char *text)
{
    const qg_pattern_node *pn = &s->p->node[i];
    char said[QG_CONDITION_TEXT] = "";
    if (!pn->holds || pn->holds(pn->ud, s->bound[i], said))
        return true;
    (void)snprintf(text, QG_CONDITION_TEXT, "%.40s: %.110s", pn->name, said);
    return false;
}

/* Number of consumers of the other outputs: Split shares one grid among all of them. */
static size_t other_uses(const qg_node *n, uint32_t slot)
{
    size_t uses = 0;
    assert(slot < n->n_out);
    for (uint32_t k = 0; k < n->n_out; k++)
        uses += k != slot && n->out[k] ? n->out[k]->use.n : 0;
    return uses;
}

/* The condition on one endpoint.  A slot that the operator lacks fails the
 * condition. */
static bool where_holds(const search *s, const qg_pattern_where *w, char *text)
{
    assert(w->node < s->p->n_node && s->bound[w->node]);
    static const char *const words[][2] = {
        [QG_WHERE_GRAPH_OUTPUT] = {"not a graph output", "a graph output"},
        [QG_WHERE_CONSTANT] = { "not constant",      "constant"      },
    };
    const qg_node *n = s->bound[w->node];
    int slot = w->role ? qg_op_slot_of(n->op, w->role) : (int)w->slot;
    const qg_value *v =
        slot < 0 ? NULL
                 : qg_endpoint_value((qg_endpoint){ n, (uint32_t)slot, w->is_output });
    int at = snprintf(text, QG_CONDITION_TEXT, "%.40s.%s%d ", s->p->node[w->node].name,
                      w->is_output ? "out" : "in", slot);
    size_t room = QG_CONDITION_TEXT - (size_t)at;
    if (!v) {
        (void)snprintf(text + at, room, "is absent, expected a value");
        return false;
    }
    if (w->test == QG_WHERE_CONSUMERS) {
        size_t others = w->is_output ? other_uses(s->bound[w->node], w->slot) : 0;
        size_t uses = v->use.n + others;
        (void)snprintf(text + at, room, "has %zu consumer%s%s, expected %lld", uses,
                       uses == 1 ? "" : "s",
                       others ? " together with the other outputs of its node" : "",
                       (long long)w->wanted);
        return others == 0 && uses == (size_t)w->wanted;
    }
    bool is = w->test == QG_WHERE_CONSTANT ? v->constant != NULL : v->is_output;
    (void)snprintf(text + at, room, "is %s, expected %s", words[w->test][is],
                   words[w->test][w->wanted != 0]);
    return is == (w->wanted != 0);
}

/* The first member that runs elsewhere than the group's first one; NULL: none. */
static const qg_node *stranger(const search *s, const qg_pattern_group *group,
                               char *text)
{
    static const char *const words[] = { "nothing", "quantized", "fp32", "soi" };
    for (size_t i = 1; i < group->n; i++) {
        const qg_node *first = s->bound[group->node[0]], *n = s->bound[group->node[i]];
        if (n->platform == first->platform)
            continue;
        (void)snprintf(text, QG_CONDITION_TEXT,
                       "%.40s runs on %s and %.40s on %s, expected the same platform",
                       s->p->node[group->node[i]].name, words[n->platform],
                       s->p->node[group->node[0]].name, words[first->platform]);
        return n;
    }
    return NULL;
}

/* Counts failed conditions, two at most; *at and text describe the last one. */
static int count_failures(const search *s, const qg_node **at, char *text)
{
    char said[QG_CONDITION_TEXT];
    int failed = 0;
    for (size_t i = 0; failed < 2 && i < s->p->n_node; i++)
        if (!node_holds(s, i, text)) {
            *at = s->bound[i];
            failed++;
        }
    for (size_t i = 0; failed < 2 && i < s->p->n_where; i++)
        if (!where_holds(s, &s->p->where[i], said)) {
            memcpy(text, said, sizeof said);
            *at = s->bound[s->p->where[i].node];
            failed++;
        }
    for (size_t i = 0; failed < 2 && i < s->p->n_same_platform; i++) {
        const qg_node *n = stranger(s, &s->p->same_platform[i], text);
        *at = n ? n : *at;
        failed += n != NULL;
    }
    return failed;
}

/* ---- search -------------------------------------------------------------------- */

/* The nodes of a match or miss, by pattern index, in the arena of the result. */
static qg_status copy_bound(const search *s, qg_node *const **out)
{
    qg_node **copy = QG_NEWN(s->arena, s->p->n_node, qg_node *);
    if (!copy)
        return qg_nomem(s->g->ctx);
    memcpy(copy, s->bound, s->p->n_node * sizeof *copy);
    *out = copy;
    return QG_OK;
}

/* Only the first near miss of an anchor is reported: later ones are its
 * permutations. */
static qg_status note_miss(search *s, const qg_node *at, const char *text)
{
    if (s->miss.at)
        return QG_OK;
    s->miss.condition = qg_arena_strdup(s->arena, text);
    QG_TRY(copy_bound(s, &s->miss.node));
    s->miss.at = at;
    return s->miss.condition ? QG_OK : qg_nomem(s->g->ctx);
}

/* Whether an earlier match of this anchor has the same nodes in other roles. */
static bool is_repeat(const search *s)
{
    for (size_t m = s->first_of_anchor; m < s->out->match.n; m++) {
        size_t found = 0;
        for (size_t i = 0; i < s->p->n_node; i++)
            found += !is_free(s, s->out->match.at[m].node[i]);
        if (found == s->p->n_node)
            return true;
    }
    return false;
}

/* Every pattern node is bound: a match, a near miss or neither. */
static qg_status weigh(search *s)
{
    char text[QG_CONDITION_TEXT] = "";
    const qg_node *at = NULL;
    qg_match found;
    int failed = count_failures(s, &at, text);
    assert(!failed || at);
    if (failed)
        return failed == 1 ? note_miss(s, at, text) : QG_OK;
    if (is_repeat(s))
        return QG_OK;
    QG_TRY(copy_bound(s, &found.node));
    return qg_vec_push(s->g->ctx, s->arena, &s->out->match, found);
}

/* Steps before `level` are bound, and the node of this one was not found. */
static void note_part(search *s, size_t level)
{
    if (level <= s->most)
        return;
    s->most = level;
    s->part = s->bound[s->steps[level].via];
    s->lacking = s->steps[level].node;
}

/* Depth-first over the steps after the anchor, which is bound. */
static qg_status search_anchor(search *s)
{
    size_t level = 1, n = s->p->n_node;
    s->slot[1] = s->use[1] = 0;
    if (n == 1)
        return weigh(s);
    while (level > 0) {
        uint32_t i = s->steps[level].node;
        s->bound[i] = NULL;
        qg_node *candidate = next_candidate(s, level);
        if (!candidate) {
            note_part(s, level);
            level--;
            continue;
        }
        if (s->tried++ == QG_PATTERN_STEPS)
            return note_miss(s, s->bound[s->steps[0].node],
                             "too many ways to match, expected at most 4096 steps");
        if (!bind(s, i, candidate))
            continue;
        if (level + 1 < n) {
            level++;
            s->slot[level] = s->use[level] = 0;
            continue;
        }
        QG_TRY(weigh(s));
        if (s->mode == QG_MATCH_APART && s->out->match.n > s->first_of_anchor)
            return QG_OK;
    }
    return QG_OK;
}

/* One node as the anchor.  Matched nodes are marked taken only after the whole
 * anchor, so that QG_MATCH_ALL may use them again. */
static qg_status try_anchor(search *s, qg_node *n)
{
    memset(s->bound, 0, sizeof s->bound);
    if (!bind(s, s->steps[0].node, n))
        return QG_OK;
    s->first_of_anchor = s->out->match.n;
    s->tried = 0;
    s->miss = (qg_match_miss){ 0 };
    QG_TRY(search_anchor(s));
    for (size_t m = s->first_of_anchor; m < s->out->match.n; m++)
        for (size_t i = 0; i < s->p->n_node; i++)
            s->taken[s->out->match.at[m].node[i]->id] = true;
    if (s->miss.at && s->first_of_anchor == s->out->match.n)
        return qg_vec_push(s->g->ctx, s->arena, &s->out->miss, s->miss);
    return QG_OK;
}

/* s->out has neither match nor miss. */
static qg_status tell_nearest(const search *s, const char **out)
{
    const qg_pattern_node *pn = &s->p->node[s->most ? s->lacking : s->steps[0].node];
    const char *op = pn->n_op ? pn->op[0] : "node", *more = pn->n_op > 1 ? ", ..." : "";
    const char *text =
        s->most
            ? qg_arena_printf(s->arena, "%zu of %zu nodes, at %s: no %s%s for %s",
                              s->most, s->p->n_node, s->part->name, op, more, pn->name)
            : qg_arena_printf(s->arena, "0 of %zu nodes: no %s%s for %s", s->p->n_node,
                              op, more, pn->name);
    *out = text;
    return text ? QG_OK : qg_nomem(s->g->ctx);
}

qg_status qg_match_pattern(const qg_graph *g, const qg_pattern *p,
                           enum qg_match_mode mode, qg_arena *a, qg_matches *out)
{
    qg_matches found = { 0 };
    search s = { .g = g, .p = p, .mode = mode, .arena = a, .out = &found };
    QG_TRY(qg_pattern_check(g->ctx, p));
    size_t reached = plan_steps(p, s.steps);
    assert(reached == p->n_node);
    (void)reached;
    s.taken = QG_NEWN(a, g->node.n, bool);
    if (!s.taken)
        return qg_nomem(g->ctx);
    for (size_t id = 0; id < g->node.n; id++)
        QG_TRY(try_anchor(&s, g->node.at[id]));
    if (!found.match.n && !found.miss.n)
        QG_TRY(tell_nearest(&s, &found.nearest));
    *out = found;
    return QG_OK;
}

#include "passes/util_blocks.h"

#include <assert.h>

/* Marks are per node id; each walk clears its own. */
typedef struct search {
    const qg_graph *g;
    qg_arena *arena;
    const uint8_t *last; /* [nodes] listed after all others */
    int *depth;          /* [nodes] */
    uint8_t *state;      /* [nodes] of the current walk */
    uint8_t *inside;     /* [nodes] between start and end: bits DOWN and UP */
    uint8_t *taken;      /* [nodes] already in a block */
    QG_VEC(const qg_node *) waiting;
} search;

enum { WAITING = 1, VISITED = 2 };
enum { DOWN = 1, UP = 2 };

/* Normalized graphs are in topological order: producers come first. */
static void measure_depth(const search *s)
{
    for (size_t i = 0; i < s->g->node.n; i++) {
        const qg_node *n = s->g->node.at[i];
        s->depth[i] = 0;
        for (uint32_t k = 0; k < n->n_in; k++) {
            const qg_node *up = n->in[k] ? n->in[k]->def : NULL;
            if (up && s->depth[up->id] >= s->depth[i])
                s->depth[i] = s->depth[up->id] + 1;
        }
    }
}

/* Inputs that are computed or supplied at run time. */
static size_t count_inputs(const qg_node *n)
{
    size_t inputs = 0;
    for (uint32_t k = 0; k < n->n_in; k++)
        inputs += n->in[k] && !n->in[k]->constant;
    return inputs;
}

static const qg_node *only_reader(const qg_node *n)
{
    for (uint32_t k = 0; k < n->n_out; k++)
        if (n->out[k] && n->out[k]->use.n) {
            const qg_node *reader = n->out[k]->use.at[0].node;
            return count_inputs(reader) == 1 ? reader : NULL;
        }
    return NULL;
}

/* Visits each reader of v once: either those listed last, or the others. */
static qg_status wait_for(search *s, const qg_value *v, bool last)
{
    for (size_t i = 0; v && i < v->use.n; i++) {
        const qg_node *reader = v->use.at[i].node;
        if (s->state[reader->id] || s->last[reader->id] != last)
            continue;
        s->state[reader->id] = WAITING;
        QG_TRY(qg_vec_push(s->g->ctx, s->arena, &s->waiting, reader));
    }
    return QG_OK;
}

static qg_status wait_for_readers(search *s, const qg_node *n)
{
    for (uint32_t k = 0; k < n->n_out; k++) {
        QG_TRY(wait_for(s, n->out[k], false));
        QG_TRY(wait_for(s, n->out[k], true));
    }
    return QG_OK;
}

/* The node of least depth; among equals, the one that has waited longest. */
static const qg_node *take_nearest(search *s)
{
    size_t best = 0;
    assert(s->waiting.n > 0);
    for (size_t i = 1; i < s->waiting.n; i++)
        if (s->depth[s->waiting.at[i]->id] < s->depth[s->waiting.at[best]->id])
            best = i;
    const qg_node *n = s->waiting.at[best];
    s->waiting.n--;
    memmove(&s->waiting.at[best], &s->waiting.at[best + 1],
            (s->waiting.n - best) * sizeof *s->waiting.at);
    return n;
}

/* n reads several nodes, all of which were visited. */
static bool joins(const search *s, const qg_node *n)
{
    size_t nodes = 0;
    for (uint32_t k = 0; k < n->n_in; k++) {
        const qg_node *up = n->in[k] ? n->in[k]->def : NULL;
        if (up && s->state[up->id] != VISITED)
            return false;
        nodes += up != NULL;
    }
    return nodes > 1;
}

/* The node where all branches after `fork` join; NULL: none, or too far. */
static qg_status find_join(search *s, const qg_node *fork, int most,
                           const qg_node **out)
{
    *out = NULL;
    s->waiting.n = 0;
    memset(s->state, 0, s->g->node.n);
    s->state[fork->id] = VISITED;
    QG_TRY(wait_for_readers(s, fork));
    while (s->waiting.n) {
        const qg_node *n = take_nearest(s);
        if (s->depth[n->id] > most)
            return QG_OK;
        s->state[n->id] = VISITED;
        if (s->waiting.n == 0 && joins(s, n)) {
            *out = n;
            return QG_OK;
        }
        QG_TRY(wait_for_readers(s, n));
    }
    return QG_OK;
}

/* The farthest end within the limit. */
static qg_status find_end(search *s, const qg_node *start, int limit,
                          const qg_node **end)
{
    int most = s->depth[start->id] + limit;
    const qg_node *next = start;
    while (next && s->depth[next->id] <= most) {
        *end = next;
        if (qg_node_readers(*end) <= 1)
            next = only_reader(*end);
        else
            QG_TRY(find_join(s, *end, most, &next));
    }
    return QG_OK;
}

/* Nodes on a path from start to end get both bits: marks readers of nodes marked DOWN,
 * then producers of nodes marked UP among them. */
static void mark_between(search *s, const qg_node *start, const qg_node *end)
{
    memset(s->inside, 0, s->g->node.n);
    s->inside[start->id] = DOWN;
    for (uint32_t i = start->id; i <= end->id; i++)
        for (uint32_t k = 0; k < s->g->node.at[i]->n_in; k++) {
            const qg_value *v = s->g->node.at[i]->in[k];
            if (v && v->def && (s->inside[v->def->id] & DOWN))
                s->inside[i] |= DOWN;
        }
    s->inside[end->id] |= UP;
    for (uint32_t i = end->id + 1; i-- > start->id;)
        for (uint32_t k = 0; s->inside[i] == (DOWN | UP) && k < s->g->node.at[i]->n_in;
             k++) {
            const qg_value *v = s->g->node.at[i]->in[k];
            if (v && v->def && (s->inside[v->def->id] & DOWN))
                s->inside[v->def->id] |= UP;
        }
}

static qg_status make_block(search *s, const qg_node *start, const qg_node *end,
                            qg_block *out)
{
    qg_block b = { 0 };
    assert(start->id <= end->id);
    mark_between(s, start, end);
    b.node = QG_NEWN(s->arena, end->id - start->id + 1, qg_node *);
    if (!b.node)
        return qg_nomem(s->g->ctx);
    for (uint32_t i = start->id; i <= end->id; i++)
        if (s->inside[i] == (DOWN | UP)) {
            b.node[b.n++] = s->g->node.at[i];
            s->taken[i] = 1;
        }
    *out = b;
    return QG_OK;
}

qg_status qg_blocks_find(const qg_graph *g, const uint8_t *last, int limit, qg_arena *a,
                         qg_blocks *out)
{
    assert(limit >= 0);
    size_t n = g->node.n;
    search s = { .g = g,
                 .arena = a,
                 .last = last,
                 .depth = QG_NEWN(a, n, int),
                 .state = QG_NEWN(a, n, uint8_t),
                 .inside = QG_NEWN(a, n, uint8_t),
                 .taken = QG_NEWN(a, n, uint8_t) };
    if (!s.depth || !s.state || !s.inside || !s.taken)
        return qg_nomem(g->ctx);
    measure_depth(&s);
    for (size_t i = 0; i < 2 * n; i++) { /* nodes listed last follow in a second turn */
        const qg_node *start = g->node.at[i % n], *end = start;
        qg_block b;
        if (s.taken[i % n] || start->platform != QG_PLATFORM_QUANTIZED ||
            s.last[i % n] != (i >= n) || !qg_node_has(start, QG_OP_COMPUTE))
            continue;
        QG_TRY(find_end(&s, start, limit, &end));
        QG_TRY(make_block(&s, start, end, &b));
        QG_TRY(qg_vec_push(g->ctx, a, out, b));
    }
    return QG_OK;
}

/* order.c -- topological order with the least change: Kahn's algorithm over a binary
 * heap of ids, so that among ready nodes the earlier one comes first.  A
 * graph that is in order already is not sorted at all. */
#include <assert.h>

#include "engine/ir/edit.h"

/* Scratch of one sort: nodes by old id. */
typedef struct sorter {
    uint32_t *missing; /* inputs whose producers have not been placed yet */
    uint32_t *heap;    /* ids of ready nodes, the smallest first */
    size_t n_heap;
    qg_node **order; /* the result */
    size_t n_order;
} sorter;

/* The heap has room for every node: each is pushed once. */
static void heap_push(sorter *s, uint32_t id)
{
    size_t i = s->n_heap++;
    for (size_t up; i && s->heap[up = (i - 1) / 2] > id; i = up)
        s->heap[i] = s->heap[up];
    s->heap[i] = id;
}

static uint32_t heap_pop(sorter *s)
{
    assert(s->n_heap);
    uint32_t top = s->heap[0], last = s->heap[--s->n_heap];
    size_t i = 0;
    for (size_t down; (down = 2 * i + 1) < s->n_heap; i = down) {
        if (down + 1 < s->n_heap && s->heap[down + 1] < s->heap[down])
            down++;
        if (s->heap[down] >= last)
            break;
        s->heap[i] = s->heap[down];
    }
    s->heap[i] = last;
    return top;
}

/* The producer of an input when it has to come first. */
static qg_node *producer(const qg_node *n, uint32_t slot)
{
    return n->in[slot] ? n->in[slot]->def : NULL;
}

/* Its users have one producer less to wait for; the last one makes them ready. */
static void place_node(sorter *s, qg_node *n)
{
    s->order[s->n_order++] = n;
    for (uint32_t i = 0; i < n->n_out; i++)
        for (size_t u = 0; n->out[i] && u < n->out[i]->use.n; u++) {
            qg_node *user = n->out[i]->use.at[u].node;
            assert(user->dead || s->missing[user->id]);
            if (!user->dead && --s->missing[user->id] == 0)
                heap_push(s, user->id);
        }
}

/* Kahn's algorithm; smallest id first among ready nodes.  For a graph in order it is
 * the identity. */
static void sort_nodes(const qg_graph *g, sorter *s)
{
    for (uint32_t id = 0; id < g->node.n; id++) {
        const qg_node *n = g->node.at[id];
        assert(n->id == id);
        for (uint32_t i = 0; i < n->n_in; i++)
            s->missing[id] += producer(n, i) != NULL;
        if (!n->dead && s->missing[id] == 0)
            heap_push(s, id);
    }
    while (s->n_heap)
        place_node(s, g->node.at[heap_pop(s)]);
}

/* Some producer of n that could not be placed: the way back along a cycle. */
static qg_node *unplaced_producer(const sorter *s, const qg_node *n)
{
    for (uint32_t i = 0; i < n->n_in; i++)
        if (producer(n, i) && s->missing[producer(n, i)->id])
            return producer(n, i);
    assert(!"an unplaced node waits for an unplaced one");
    return NULL;
}

/* Walking back from an unplaced node for as many steps as there are nodes ends on a
 * cycle; its node with the smallest id and that one's producer are named. */
static qg_status cycle_error(const qg_graph *g, const sorter *s)
{
    const qg_node *n = NULL, *first;
    for (size_t id = 0; !n; id++)
        if (!g->node.at[id]->dead && s->missing[id])
            n = g->node.at[id];
    for (size_t i = 0; i < g->node.n; i++)
        n = unplaced_producer(s, n);
    first = n;
    for (const qg_node *at = unplaced_producer(s, n); at != n;
         at = unplaced_producer(s, at))
        if (at->id < first->id)
            first = at;
    return qg_fail(
        g->ctx, QG_EMODEL,
        "import: the graph has a cycle through nodes '%.1000s' and '%.1000s', "
        "expected none",
        first->name, unplaced_producer(s, first)->name);
}

/* Dead nodes count as disorder: renumbering drops them. */
static bool in_order(const qg_graph *g)
{
    for (size_t id = 0; id < g->node.n; id++) {
        const qg_node *n = g->node.at[id];
        if (n->dead)
            return false;
        for (uint32_t i = 0; i < n->n_in; i++)
            if (producer(n, i) && producer(n, i)->id >= id)
                return false;
    }
    return true;
}

/* Use lists have room enough already, so this cannot fail. */
static void relink_uses(qg_graph *g)
{
    for (size_t i = 0; i < g->value.n; i++)
        g->value.at[i]->use.n = 0;
    for (size_t id = 0; id < g->node.n; id++) {
        qg_node *n = g->node.at[id];
        for (uint32_t i = 0; i < n->n_in; i++) {
            qg_value *v = n->in[i];
            if (!v)
                continue;
            assert(v->use.n < v->use.room); /* it had this use before */
            v->use.at[v->use.n++] = (qg_use){ .node = n, .slot = i };
        }
    }
}

/* Nothing makes it, nothing reads it, and it is not part of the interface. */
static bool is_orphan(const qg_value *v)
{
    return !v->def && !v->constant && !v->is_input && qg_value_watchers(v) == 0;
}

/* Compacts the list in place and renumbers; names of dropped values are free again. */
static void drop_orphans(qg_graph *g)
{
    size_t kept = 0;
    for (size_t i = 0; i < g->value.n; i++) {
        qg_value *v = g->value.at[i];
        if (is_orphan(v)) {
            qg_value_free_name(g, v);
            continue;
        }
        v->id = (uint32_t)kept;
        g->value.at[kept++] = v;
    }
    g->value.n = kept;
}

/* Node ids become positions in `order`. */
static void renumber(qg_graph *g, qg_node *const *order, size_t n)
{
    assert(n <= g->node.n);
    for (size_t id = 0; id < n; id++) {
        g->node.at[id] = order[id];
        g->node.at[id]->id = (uint32_t)id;
    }
    g->node.n = n;
}

static size_t count_living(const qg_graph *g)
{
    size_t n = 0;
    for (size_t id = 0; id < g->node.n; id++)
        n += !g->node.at[id]->dead;
    return n;
}

static qg_status normalize_with(qg_graph *g, qg_arena *scratch)
{
    size_t n = g->node.n;
    sorter s = { .missing = QG_NEWN(scratch, n, uint32_t),
                 .heap = QG_NEWN(scratch, n, uint32_t),
                 .order = QG_NEWN(scratch, n, qg_node *) };
    if (!s.missing || !s.heap || !s.order)
        return qg_nomem(g->ctx);
    sort_nodes(g, &s);
    if (s.n_order < count_living(g))
        return cycle_error(g, &s);
    renumber(g, s.order, s.n_order);
    return QG_OK;
}

qg_status qg_graph_normalize(qg_graph *g)
{
    if (!in_order(g)) {
        qg_arena *scratch = qg_arena_new(g->ctx->alloc);
        if (!scratch)
            return qg_nomem(g->ctx);
        qg_status s = normalize_with(g, scratch);
        qg_arena_free(scratch);
        QG_TRY(s);
    }
    relink_uses(g);
    drop_orphans(g);
    if (g->inferred)
        g->inferred->n = 0;
    return QG_OK;
}

/* Marks the nodes that graph outputs need, from the outputs back. */
static void mark_needed(const qg_graph *g, bool *node, bool *value, qg_value **stack)
{
    size_t n = 0;
    for (size_t i = 0; i < g->output.n; i++)
        if (!value[g->output.at[i]->id]) {
            value[g->output.at[i]->id] = true;
            stack[n++] = g->output.at[i];
        }
    while (n) {
        const qg_node *def = stack[--n]->def;
        if (!def || node[def->id])
            continue;
        node[def->id] = true;
        for (uint32_t i = 0; i < def->n_out; i++)
            if (def->out[i])
                value[def->out[i]->id] = true; /* side outputs stay with their node */
        for (uint32_t i = 0; i < def->n_in; i++)
            if (def->in[i] && !value[def->in[i]->id]) {
                value[def->in[i]->id] = true;
                stack[n++] = def->in[i];
            }
    }
}

/* Unneeded values lose their producers and uses: normalize then drops them as
 * orphans. */
static void kill_unneeded(qg_graph *g, const bool *node, const bool *value)
{
    for (size_t id = 0; id < g->node.n; id++)
        if (!node[id] && !g->node.at[id]->dead) {
            g->node.at[id]->dead = true;
            qg_node_free_name(g, g->node.at[id]);
        }
    for (size_t id = 0; id < g->value.n; id++)
        if (!value[id] && !g->value.at[id]->is_input) {
            g->value.at[id]->def = NULL; /* from here on an orphan */
            g->value.at[id]->constant = NULL;
        }
}

/* The float values of learned constants that are needed. */
static qg_status mark_untuned(const qg_graph *g, bool *value, qg_arena *scratch)
{
    for (size_t id = 0; id < g->value.n; id++) {
        const qg_value *learned;
        QG_TRY(qg_graph_learned(g, g->value.at[id], scratch, &learned));
        if (learned && value[learned->id])
            value[id] = true;
    }
    return QG_OK;
}

static qg_status sweep_with(qg_graph *g, bool keeps_untuned, qg_arena *scratch)
{
    bool *node = QG_NEWN(scratch, g->node.n, bool);
    bool *value = QG_NEWN(scratch, g->value.n, bool);
    qg_value **stack = QG_NEWN(scratch, g->value.n, qg_value *);
    if (!node || !value || !stack)
        return qg_nomem(g->ctx);
    mark_needed(g, node, value, stack);
    if (keeps_untuned)
        QG_TRY(mark_untuned(g, value, scratch));
    kill_unneeded(g, node, value);
    return qg_graph_normalize(g);
}

static qg_status sweep(qg_graph *g, bool keeps_untuned, size_t *removed)
{
    size_t before = g->node.n + g->value.n;
    qg_arena *scratch = qg_arena_new(g->ctx->alloc);
    if (!scratch)
        return qg_nomem(g->ctx);
    qg_status s = sweep_with(g, keeps_untuned, scratch);
    qg_arena_free(scratch);
    if (s == QG_OK)
        *removed = before - (g->node.n + g->value.n);
    return s;
}

qg_status qg_graph_sweep(qg_graph *g, size_t *removed)
{
    return sweep(g, false, removed);
}

qg_status qg_graph_sweep_dead(qg_graph *g, size_t *removed)
{
    return sweep(g, true, removed);
}

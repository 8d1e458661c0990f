/* dispatch -- assigns each node a platform, with the reason.
 *
 *   SOI        all outputs are used as shapes or indices: never quantized
 *   QUANTIZED  by the dispatcher (below), when the backend quantizes the operator
 *   FP32       the rest
 * An override of the run (`platform:`) takes precedence.
 *
 * Data flows along value slots: all but those with role 's' (shape), 'f' (float) or
 * 'p' (bound).
 *   conservative  compute nodes, and nodes that they reach through quantized operators
 *   aggressive    ... through any operators, up to those that make indices
 *   pointwise     of the conservative choice only the compute nodes
 *   all-in        every operator that the backend quantizes
 *   perseus       all nodes connected to a compute node by data, upstream or
 *                 downstream, except those fed by indices or shapes
 *   pplnn         nodes between two convolutions
 * A clamp (Relu, Clip) stays float after a float node, including through an override:
 * only the producer of its input could apply it for free.
 *
 * In PPQ a path counts only when it reaches an end node, so a compute node that no
 * other reaches and no node follows stays float (D26: quirk ppq-last-compute-float).
 * The same quirk also enables PPQ's end nodes, its set of compute nodes (without
 * recurrent ones and Einsum), clamp limits and conditions as data, overrides that do
 * not affect clamps, and, under aggressive, its precedence of indices over data.  PPQ's
 * perseus makes every node float that is connected to an index in either direction
 * (D28: ppq-perseus-both-ways).
 * Source   docs/evidence/ppq-behaviour.md#dispatching; D27, D69, D73 are fixed here.
 * Linear. */
#include <assert.h>

#include "engine/ir/opaque.h"
#include "engine/pass/rules.h"
#include "passes/passes.h"

/* BETWEEN: between convolutions; CONNECTED: all nodes reached from compute nodes. */
enum mode { CONSERVATIVE, AGGRESSIVE, POINTWISE, ALL_IN, CONNECTED, BETWEEN, N_MODE };
static const char *const mode_name[N_MODE] = { "conservative", "aggressive",
                                               "pointwise",    "all-in",
                                               "perseus",      "pplnn" };

typedef struct work work;

/* Behaviours that quirks replace. */
typedef struct behaviours {
    struct reading {
        bool (*computes)(const qg_node *n);
        bool (*makes_indices)(const qg_node *n); /* nodes where a path ends */
        bool (*is_path_slot)(const qg_node *n, uint32_t slot);
        bool (*must_end)(enum mode mode); /* a path counts only when it reaches an
                                           * end */
        bool (*is_tied_slot)(const qg_node *n, uint32_t slot);
        const qg_node *(*tied_from)(const qg_node *n, uint32_t slot);
        void (*mark_index)(const work *w, const qg_node *n, uint32_t slot,
                           const qg_node **mark);
        qg_status (*mark_index_flow)(work *w);                /* PPQ only */
        bool (*stays_float)(const work *w, const qg_node *n); /* before a clamp */
        qg_status (*decide_all)(work *w, const uint8_t *const *inside);
    } reading;
    void (*close_indices)(const work *w, const qg_node **mark); /* perseus */
} behaviours;

struct work {
    qg_pass_env *env;
    const qg_backend *b;
    behaviours how;
    enum mode mode;
    bool paths;             /* a path counts only when it reaches an end */
    const qg_node **from;   /* [nodes] the compute node that reaches it; NULL: none */
    uint8_t *leads;         /* [nodes] 1: a path from here reaches an end */
    uint8_t *shape;         /* [nodes] 1: all outputs are read as shapes or indices */
    uint8_t *index;         /* [nodes] 1: an index or a shape flows into it */
    const qg_node **opaque; /* [nodes] because of which it cannot be executed */
};

/* --- which way data flows --- */

/* Slots that carry data, as opposed to shapes, indices, limits, statistics. */
static bool is_value_slot(const qg_node *n, uint32_t slot)
{
    assert(n->op && slot < n->n_in);
    char role = qg_op_in_role(n->op, slot);
    return role != 's' && role != 'f' && role != 'p';
}

/* The producer of the value in this slot; NULL for a shape, an input or a constant. */
static const qg_node *maker_of(const qg_node *n, uint32_t slot)
{
    const qg_value *v = n->in[slot];
    bool data = v && v->def && qg_op_out_role(v->def->op, v->def_slot) != 's';
    return data ? v->def : NULL;
}

/* The producer of the data in this slot; NULL: a shape, an input or a constant. */
static const qg_node *data_from(const qg_node *n, uint32_t slot)
{
    return is_value_slot(n, slot) ? maker_of(n, slot) : NULL;
}

/* The same along a path. */
static const qg_node *path_from(const work *w, const qg_node *n, uint32_t slot)
{
    return w->how.reading.is_path_slot(n, slot) ? maker_of(n, slot) : NULL;
}

/* TopK, Shape, NonMaxSuppression. */
static bool makes_indices(const qg_node *n)
{
    for (uint32_t k = 0; k < n->n_out; k++)
        if (n->out[k] && qg_op_out_role(n->op, k) == 's')
            return true;
    return false;
}

/* Output channels are axis 0 of the weight, and it has spatial axes. */
static bool is_convolution(const qg_node *n)
{
    int w = qg_op_slot_of(n->op, 'w');
    return qg_node_has(n, QG_OP_COMPUTE) && n->op->weight_axis && w >= 0 &&
           (uint32_t)w < n->n_in && n->in[w] && n->in[w]->type.rank > 2 &&
           n->op->weight_axis(n) == 0;
}

static bool computes(const qg_node *n) { return qg_node_has(n, QG_OP_COMPUTE); }

static bool must_end(enum mode mode) { return mode == BETWEEN; }

/* Where data paths start. */
static bool starts(const work *w, const qg_node *n)
{
    return w->mode == BETWEEN ? is_convolution(n) : w->how.reading.computes(n);
}

/* Data does not pass through; the node carries data only when it starts a path. */
static bool stops(const work *w, const qg_node *n)
{
    return w->mode == AGGRESSIVE ? w->how.reading.makes_indices(n)
                                 : !qg_backend_quantizes(w->b, n->op);
}

/* Whether a path may end here. */
static bool ends(const work *w, const qg_node *n)
{
    return w->mode == BETWEEN ? is_convolution(n)
                              : stops(w, n) || qg_node_readers(n) == 0;
}

/* Backward: marks nodes from which some path reaches an end. */
static void find_ends(work *w)
{
    const qg_graph *g = w->env->graph;
    for (size_t i = g->node.n; i-- > 0;) {
        const qg_node *n = g->node.at[i];
        bool end = ends(w, n), relays = w->leads[i] && !stops(w, n);
        for (uint32_t k = 0; k < n->n_in; k++) {
            const qg_node *p = n->in[k] ? n->in[k]->def : NULL;
            if (p && (end || (relays && path_from(w, n, k))))
                w->leads[p->id] = 1;
        }
    }
}

/* A compute node upstream whose data arrives here; a path may end at any slot. */
static const qg_node *reached_by(const work *w, const qg_node *n)
{
    bool end = ends(w, n);
    if (stops(w, n) || (w->paths && !end && !w->leads[n->id]))
        return NULL;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const qg_value *v = n->in[i];
        const qg_node *p = end && w->paths && v ? v->def : path_from(w, n, i);
        if (p && w->from[p->id])
            return w->from[p->id];
    }
    return NULL;
}

/* Forward: marks nodes that carry the data of a compute node. */
static void flow(work *w)
{
    for (size_t i = 0; i < w->env->graph->node.n; i++) {
        const qg_node *n = w->env->graph->node.at[i];
        bool start = starts(w, n) && (!w->paths || w->leads[i]);
        w->from[i] = start ? n : reached_by(w, n);
    }
}

/* --- perseus: connections instead of paths --- */

static const qg_node *tied_to(const work *w, const qg_node *n, uint32_t slot)
{
    if (makes_indices(n) && n->n_out == 1)
        return NULL;
    return w->how.reading.tied_from(n, slot);
}

/* One step along the connections of n; true when a node was marked. */
static bool spread_ties(const work *w, const qg_node *n, bool down,
                        const qg_node **mark)
{
    bool grew = false;
    for (uint32_t k = 0; k < n->n_in; k++) {
        const qg_node *p = tied_to(w, n, k);
        if (!p)
            continue;
        const qg_node **here = &mark[n->id], **there = &mark[p->id];
        if (down && *there && !*here) {
            *here = *there;
            grew = true;
        } else if (!down && *here && !*there) {
            *there = *here;
            grew = true;
        }
    }
    return grew;
}

/* Sweeps down and up until nothing is added: one sweep more than a connection has
 * turns. */
static void close_ties(const work *w, bool up, const qg_node **mark)
{
    const qg_graph *g = w->env->graph;
    for (bool grew = true; grew;) {
        grew = false;
        for (size_t i = 0; i < g->node.n; i++)
            grew |= spread_ties(w, g->node.at[i], true, mark);
        for (size_t i = g->node.n; up && i-- > 0;)
            grew |= spread_ties(w, g->node.at[i], false, mark);
    }
}

/* An index that enters a value slot. */
static void mark_index(const work *w, const qg_node *n, uint32_t slot,
                       const qg_node **mark)
{
    const qg_value *v = n->in[slot];
    if (v && v->def && w->how.reading.is_tied_slot(n, slot) &&
        qg_op_out_role(v->def->op, v->def_slot) == 's')
        mark[n->id] = n;
}

static void mark_index_sources(const work *w, const qg_node **mark)
{
    const qg_graph *g = w->env->graph;
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        for (uint32_t k = 0; k < n->n_in; k++)
            w->how.reading.mark_index(w, n, k, mark);
    }
}

static void close_indices(const work *w, const qg_node **mark)
{
    close_ties(w, false, mark);
}

static qg_status tie(work *w)
{
    const qg_graph *g = w->env->graph;
    const qg_node **mark = QG_NEWN(g->arena, g->node.n, const qg_node *);
    if (!mark)
        return qg_nomem(g->ctx);
    for (size_t i = 0; i < g->node.n; i++)
        if (w->how.reading.computes(g->node.at[i]))
            w->from[i] = g->node.at[i];
    close_ties(w, true, w->from);
    mark_index_sources(w, mark);
    w->how.close_indices(w, mark);
    for (size_t i = 0; i < g->node.n; i++)
        w->index[i] = mark[i] != NULL;
    return QG_OK;
}

/* --- shapes and indices --- */

/* Whether every reader uses v as a shape or an index; later nodes are already
 * marked. */
static bool is_shape(const work *w, const qg_value *v)
{
    for (size_t i = 0; i < v->use.n; i++) {
        const qg_use *u = &v->use.at[i];
        bool inner = w->shape[u->node->id] && !qg_node_has(u->node, QG_OP_SHAPE);
        if (!inner && qg_op_in_role(u->node->op, u->slot) != 's')
            return false;
    }
    return v->use.n > 0 && !v->is_output;
}

/* Backward: marks nodes that produce only shapes and indices.  Quantized data stays
 * data. */
static void mark_shapes(work *w)
{
    const qg_graph *g = w->env->graph;
    for (size_t i = g->node.n; i-- > 0;) {
        const qg_node *n = g->node.at[i];
        bool any = false, all = w->from[i] == NULL;
        for (uint32_t k = 0; all && k < n->n_out; k++) {
            const qg_value *v = n->out[k];
            any |= v != NULL;
            all = !v || qg_op_out_role(n->op, k) == 's' || is_shape(w, v);
        }
        w->shape[i] = any && all;
    }
}

/* --- the decision --- */

/* The producer of a clamp's input, whose platform is already decided; NULL: n is no
 * clamp. */
static const qg_node *clamped(const qg_node *n)
{
    return n->op->clamp && n->n_in > 0 && n->in[0] ? n->in[0]->def : NULL;
}

static bool stays_float(const work *w, const qg_node *n)
{
    (void)w;
    return n->platform != QG_PLATFORM_QUANTIZED;
}

/* A clamp follows the producer of its input. */
static bool behind_float(const work *w, const qg_node *n)
{
    const qg_node *p = clamped(n);
    if (!p || w->mode == ALL_IN || w->mode == CONNECTED)
        return false;
    return w->how.reading.stays_float(w, p);
}

/* The clamp after the last convolution is not between two, but is free as well. */
static bool follows_convolution(const work *w, const qg_node *n)
{
    const qg_node *p = w->mode == BETWEEN ? clamped(n) : NULL;
    return p && p->platform == QG_PLATFORM_QUANTIZED;
}

/* The reason why a node stays float although the backend quantizes its operator; NULL:
 * it does not. */
static const char *why_float(const work *w, const qg_node *n)
{
    if (w->mode == ALL_IN)
        return NULL;
    if (!w->from[n->id] && !follows_convolution(w, n))
        return w->mode == BETWEEN ? "it does not lie between two convolutions"
                                  : "no quantized compute node reaches it";
    if (w->index[n->id])
        return "an index or a shape flows into it";
    if (behind_float(w, n))
        return "it clamps the output of a float node";
    if (w->mode == POINTWISE && !qg_node_has(n, QG_OP_COMPUTE))
        return "the pointwise dispatcher quantizes compute nodes only";
    return NULL;
}

/* The first applicable reason is reported. */
static enum qg_platform decide(work *w, const qg_node *n, const char **reason)
{
    assert(n->id < w->env->graph->node.n);
    qg_arena *a = w->env->graph->arena;
    const qg_node *from = w->from[n->id];
    if (w->shape[n->id]) {
        *reason = "its outputs are used as shapes or indices";
        return QG_PLATFORM_SOI;
    }
    if (w->opaque[n->id]) {
        const qg_node *p = w->opaque[n->id];
        *reason = qg_arena_printf(a, "node %s (%s.%s) of an unknown domain %s", p->name,
                                  p->op->domain, p->op->name,
                                  p == n ? "is never quantized" : "feeds it");
        return QG_PLATFORM_FP32;
    }
    if (!qg_backend_quantizes(w->b, n->op)) {
        *reason =
            qg_arena_printf(a, "%s does not quantize %s", w->b->name, n->op->name);
        return QG_PLATFORM_FP32;
    }
    *reason = why_float(w, n);
    if (*reason)
        return QG_PLATFORM_FP32;
    *reason = w->mode == ALL_IN
                  ? qg_arena_printf(a, "%s quantizes %s", w->b->name, n->op->name)
              : !from ? "it clamps the output of a quantized node"
              : from == n
                  ? "it is a compute node"
                  : qg_arena_printf(a, "compute node %s reaches it", from->name);
    return QG_PLATFORM_QUANTIZED;
}

/* The last override that matches this node. */
static void listen(const work *w, const uint8_t *const *inside, qg_node *n)
{
    for (uint32_t r = 0; r < w->b->rule.n; r++) {
        const qg_rule *rule = &w->b->rule.at[r];
        if ((rule->set.fields & QG_SET_PLATFORM) &&
            qg_rule_covers(w->b, r, inside, n)) {
            n->platform = rule->set.platform;
            n->reason =
                qg_arena_printf(w->env->graph->arena, "rule %s", rule->origin.id);
        }
    }
}

static qg_status decide_one(work *w, qg_node *n)
{
    n->platform = decide(w, n, &n->reason);
    w->env->changed++;
    return n->reason ? QG_OK : qg_nomem(w->env->ctx);
}

static qg_status listen_one(const work *w, const uint8_t *const *inside, qg_node *n)
{
    listen(w, inside, n);
    return n->reason ? QG_OK : qg_nomem(w->env->ctx);
}

/* In topological order: a clamp needs the platform of its producer. */
static qg_status decide_all(work *w, const uint8_t *const *inside)
{
    const qg_graph *g = w->env->graph;
    for (size_t i = 0; i < g->node.n; i++) {
        assert(g->node.at[i]->id == i);
        QG_TRY(decide_one(w, g->node.at[i]));
        QG_TRY(listen_one(w, inside, g->node.at[i]));
    }
    return QG_OK;
}

/* --- as PPQ reads the graph --- */

/* Compute nodes are those with one weight: not GRU, LSTM, Einsum. */
static bool ppq_computes(const qg_node *n) { return computes(n) && n->op->weight_axis; }

static bool ppq_must_end(enum mode mode)
{
    (void)mode;
    return true;
}

/* PPQ treats the condition of Where as data, and its data as indices (D29). */
static bool ppq_is_permuted(const qg_node *n)
{
    return qg_node_has(n, QG_OP_JOIN) && qg_op_in_role(n->op, 0) == 's';
}

/* Comparisons produce no indices. */
static bool ppq_makes_indices(const qg_node *n)
{
    for (uint32_t k = 0; k < n->n_out; k++)
        if (n->out[k] && qg_op_out_role(n->op, k) == 's' &&
            n->out[k]->type.dtype != QG_BOOL)
            return true;
    return false;
}

/* The limits of a clamp and the condition of Where count as data too. */
static bool ppq_is_path_slot(const qg_node *n, uint32_t slot)
{
    return is_value_slot(n, slot) || ppq_is_permuted(n) ||
           (n->op->clamp && qg_op_in_role(n->op, slot) == 'p');
}

static bool ppq_is_tied_slot(const qg_node *n, uint32_t slot)
{
    return ppq_is_permuted(n) ? slot == 0 : is_value_slot(n, slot);
}

static const qg_node *ppq_tied_from(const qg_node *n, uint32_t slot)
{
    if (!ppq_is_permuted(n))
        return data_from(n, slot);
    return slot == 0 && n->in[0] ? n->in[0]->def : NULL;
}

/* Also the producers of values read as indices. */
static void ppq_mark_index(const work *w, const qg_node *n, uint32_t slot,
                           const qg_node **mark)
{
    const qg_node *p = n->in[slot] ? n->in[slot]->def : NULL;
    mark_index(w, n, slot, mark);
    if (p && !ppq_is_tied_slot(n, slot))
        mark[p->id] = p;
}

static void ppq_close_indices(const work *w, const qg_node **mark)
{
    close_ties(w, true, mark);
}

/* Producers of values that are read as a shape, an index or a limit. */
static void ppq_mark_receivers(const work *w, uint8_t *receiver)
{
    const qg_graph *g = w->env->graph;
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        for (uint32_t k = 0; k < n->n_in; k++)
            if (n->in[k] && n->in[k]->def && !ppq_is_tied_slot(n, k))
                receiver[n->in[k]->def->id] = 1;
    }
}

/* Aggressive: an index that flows into data, up to the next receiver or quantized node,
 * or data that is read as an index, does not count as data. */
static qg_status ppq_mark_index_flow(work *w)
{
    const qg_graph *g = w->env->graph;
    if (w->mode != AGGRESSIVE)
        return QG_OK;
    uint8_t *receiver = QG_NEWN(g->arena, g->node.n, uint8_t);
    if (!receiver)
        return qg_nomem(g->ctx);
    ppq_mark_receivers(w, receiver);
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        bool end = receiver[i] || w->from[i] || qg_node_readers(n) == 0;
        for (uint32_t k = 0; k < n->n_in; k++) {
            const qg_node *p = n->in[k] ? n->in[k]->def : NULL;
            bool flows =
                p && (ppq_makes_indices(p) ||
                      (w->index[p->id] && !w->from[p->id] && !receiver[p->id]));
            w->index[i] |= flows && (end || ppq_is_path_slot(n, k));
        }
    }
    for (size_t i = 0; i < g->node.n; i++)
        w->index[i] |= receiver[i];
    return QG_OK;
}

/* Under aggressive, the check whether the backend can quantize n comes later. */
static bool ppq_stays_float(const work *w, const qg_node *n)
{
    return w->mode == AGGRESSIVE ? !w->from[n->id] || w->index[n->id] || w->shape[n->id]
                                 : stays_float(w, n);
}

/* Overrides do not affect clamps. */
static qg_status ppq_decide_all(work *w, const uint8_t *const *inside)
{
    const qg_graph *g = w->env->graph;
    for (size_t i = 0; i < g->node.n; i++)
        QG_TRY(decide_one(w, g->node.at[i]));
    for (size_t i = 0; i < g->node.n; i++)
        QG_TRY(listen_one(w, inside, g->node.at[i]));
    return QG_OK;
}

static const behaviours ordinary = {
    .reading = {.computes = computes,
                .makes_indices = makes_indices,
                .is_path_slot = is_value_slot,
                .must_end = must_end,
                .is_tied_slot = is_value_slot,
                .tied_from = data_from,
                .mark_index = mark_index,
                .stays_float = stays_float,
                .decide_all = decide_all},
    .close_indices = close_indices,
};

static const qg_quirk_row quirk[] = {
    QG_SWAP(
        PPQ_LAST_CONV_FLOAT,
        "D26: a compute node with no compute node before it and no node after it stays "
        "float",
        QG_PPQ "scheduler/dispatchers.py", behaviours, reading,
        { .computes = ppq_computes,
          .makes_indices = ppq_makes_indices,
          .is_path_slot = ppq_is_path_slot,
          .must_end = ppq_must_end,
          .is_tied_slot = ppq_is_tied_slot,
          .tied_from = ppq_tied_from,
          .mark_index = ppq_mark_index,
          .mark_index_flow = ppq_mark_index_flow,
          .stays_float = ppq_stays_float,
          .decide_all = ppq_decide_all }),
    QG_SWAP(PPQ_PERSEUS_BOTH_WAYS,
            "D28: perseus follows data in both directions until no node is left to "
            "quantize",
            QG_PPQ "scheduler/perseus.py Perseus", behaviours, close_indices,
            ppq_close_indices),
    { 0 },
};

/* --- all of it --- */

/* The option of the run overrides the backend's. */
static qg_status find_mode(qg_pass_env *env, enum mode *out)
{
    const char *name =
        env->options.dispatcher ? env->options.dispatcher : env->backend->dispatch;
    for (int i = 0; i < N_MODE; i++)
        if (strcmp(name, mode_name[i]) == 0) {
            *out = (enum mode)i;
            return QG_OK;
        }
    return qg_fail(env->ctx, QG_ECONFIG,
                   "dispatch: unknown dispatcher '%s', expected "
                   "conservative, aggressive, pointwise, all-in, perseus or pplnn",
                   name);
}

/* Computes the marks that decide() uses. */
static qg_status prepare(work *w)
{
    const qg_graph *g = w->env->graph;
    w->paths = w->how.reading.must_end(w->mode);
    w->from = QG_NEWN(g->arena, g->node.n, const qg_node *);
    w->leads = QG_NEWN(g->arena, g->node.n, uint8_t);
    w->index = QG_NEWN(g->arena, g->node.n, uint8_t);
    w->shape = QG_NEWN(g->arena, g->node.n, uint8_t);
    w->opaque = QG_NEWN(g->arena, g->node.n, const qg_node *);
    if (!w->from || !w->leads || !w->index || !w->shape || !w->opaque)
        return qg_nomem(w->env->ctx);
    qg_opaque_spread(g, w->opaque);
    if (w->mode == CONNECTED) {
        QG_TRY(tie(w));
    } else {
        find_ends(w);
        flow(w);
    }
    mark_shapes(w);
    return w->how.reading.mark_index_flow ? w->how.reading.mark_index_flow(w) : QG_OK;
}

static qg_status run(qg_pass_env *env)
{
    work w = { .env = env, .b = env->backend, .how = ordinary };
    const uint8_t *const *inside;
    qg_pass_quirks(env, &w.how);
    QG_TRY(find_mode(env, &w.mode));
    QG_TRY(prepare(&w));
    QG_TRY(qg_rules_regions(w.b, env->graph, env->graph->arena, &inside));
    return w.how.reading.decide_all(&w, inside);
}

const qg_pass qg_pass_dispatch = {
    .name = "dispatch",
    .summary = "assign each node a platform: quantized, float, or shape and index data",
    .needs = QG_A_TOPO | QG_A_SHAPE,
    .run = run,
    .quirk = quirk,
};

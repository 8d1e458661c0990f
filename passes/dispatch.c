/* dispatch -- each node gets a platform, and a reason.
 *
 *   SOI        all it makes is used as a shape or an index: never rounded
 *   QUANTIZED  by the dispatcher (below), when the backend quantizes the operator
 *   FP32       the rest
 * An override of the run (`platform:`) has the last word.
 *
 * Data flows along value slots: all but those with role 's' (shape) or 'f' (float).
 *   conservative  quantized operators that a quantized compute node reaches through
 *                 quantized operators, and these compute nodes themselves.  (PPQ
 *                 leaves a compute node float that no other reaches and nothing
 *                 follows: D26.)
 *   aggressive    ... through any operators
 *   pointwise     of the conservative ones only the compute nodes
 *   all-in        every operator that the backend quantizes
 * Source   spec/ppq.md 5.3.  Linear. */
#include <assert.h>

#include "engine/quant/quirk.h"
#include "engine/quant/rules.h"
#include "passes/passes.h"

enum mode { CONSERVATIVE, AGGRESSIVE, POINTWISE, ALL_IN, N_MODE };
static const char *const mode_name[N_MODE] = { "conservative", "aggressive",
                                               "pointwise", "all-in" };

typedef struct work {
    qg_pass_env *env;
    const qg_backend *b;
    enum mode mode;
    const qg_node **from; /* [nodes] the compute node that reaches it; NULL: none */
    uint8_t *shape;       /* [values] 1: somebody reads it as shape or index */
} work;

/* Slots along which data flows, as opposed to shapes, indices and statistics. */
static bool is_value_slot(const qg_node *n, uint32_t slot)
{
    assert(n->op && slot < n->n_in);
    char role = qg_op_in_role(n->op, slot);
    return role != 's' && role != 'f';
}

/* A compute node upstream whose data arrives here. */
static const qg_node *reached_by(const work *w, const qg_node *n)
{
    for (uint32_t i = 0; i < n->n_in; i++) {
        const qg_value *v = n->in[i];
        if (v && v->def && is_value_slot(n, i) &&
            qg_op_out_role(v->def->op, v->def_slot) != 's' && w->from[v->def->id])
            return w->from[v->def->id];
    }
    return NULL;
}

/* A graph output is nobody's input. */
static bool has_consumer(const qg_node *n)
{
    for (uint32_t i = 0; i < n->n_out; i++)
        if (n->out[i] && n->out[i]->use.n > 0)
            return true;
    return false;
}

/* Forward: who carries quantized data. */
static void flow(work *w)
{
    bool through_any = w->mode == AGGRESSIVE;
    bool lonely_is_float = (w->b->quirks & QG_QUIRK(PPQ_LAST_CONV_FLOAT)) != 0;
    for (size_t i = 0; i < w->env->graph->node.n; i++) {
        const qg_node *n = w->env->graph->node.at[i];
        bool quantizable = qg_backend_quantizes(w->b, n->op);
        const qg_node *from = quantizable || through_any ? reached_by(w, n) : NULL;
        bool starts = quantizable && qg_node_has(n, QG_OP_COMPUTE) &&
                      !(lonely_is_float && !from && !has_consumer(n));
        w->from[i] = starts ? n : from;
    }
}

/* Backward: what is used as shapes and indices only.  Quantized data stays data. */
static void mark_shapes(work *w)
{
    const qg_graph *g = w->env->graph;
    for (size_t i = g->node.n; i-- > 0;) {
        const qg_node *n = g->node.at[i];
        bool makes_shapes = false;
        for (uint32_t k = 0; k < n->n_out; k++)
            makes_shapes |= n->out[k] && w->shape[n->out[k]->id];
        bool inner = makes_shapes && !w->from[i] && !qg_node_has(n, QG_OP_SHAPE);
        for (uint32_t k = 0; k < n->n_in; k++)
            if (n->in[k] && (inner || qg_op_in_role(n->op, k) == 's'))
                w->shape[n->in[k]->id] = 1;
    }
}

/* False for a node without outputs. */
static bool only_shapes(const work *w, const qg_node *n)
{
    bool any = false;
    for (uint32_t k = 0; k < n->n_out; k++) {
        const qg_value *v = n->out[k];
        if (!v)
            continue;
        if (!w->shape[v->id] && qg_op_out_role(n->op, k) != 's')
            return false;
        any = true;
    }
    return any;
}

/* The first reason that applies is the one that is shown. */
static enum qg_platform decide(work *w, const qg_node *n, const char **reason)
{
    assert(n->id < w->env->graph->node.n);
    qg_arena *a = w->env->graph->arena;
    const qg_node *from = w->from[n->id];
    bool quantizable = qg_backend_quantizes(w->b, n->op);
    if (!from && only_shapes(w, n)) {
        *reason = "what it makes is used as a shape or an index";
        return QG_PLATFORM_SOI;
    }
    if (!quantizable) {
        *reason =
            qg_arena_printf(a, "%s does not quantize %s", w->b->name, n->op->name);
        return QG_PLATFORM_FP32;
    }
    if (w->mode == ALL_IN) {
        *reason = qg_arena_printf(a, "%s quantizes %s", w->b->name, n->op->name);
        return QG_PLATFORM_QUANTIZED;
    }
    if (!from) {
        *reason = "no quantized compute node reaches it";
        return QG_PLATFORM_FP32;
    }
    if (w->mode == POINTWISE && !qg_node_has(n, QG_OP_COMPUTE)) {
        *reason = "the pointwise dispatcher quantizes compute nodes only";
        return QG_PLATFORM_FP32;
    }
    *reason = from == n ? "it is a compute node"
                        : qg_arena_printf(a, "compute node %s reaches it", from->name);
    return QG_PLATFORM_QUANTIZED;
}

/* The last override that speaks about this node. */
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

/* The option of the run wins over the backend's. */
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
                   "conservative, aggressive, pointwise or all-in",
                   name);
}

static qg_status run(qg_pass_env *env)
{
    qg_graph *g = env->graph;
    work w = { .env = env, .b = env->backend };
    const uint8_t *const *inside;
    QG_TRY(find_mode(env, &w.mode));
    w.from = QG_NEWN(g->arena, g->node.n, const qg_node *);
    w.shape = QG_NEWN(g->arena, g->value.n, uint8_t);
    if (!w.from || !w.shape)
        return qg_nomem(env->ctx);
    QG_TRY(qg_rules_regions(w.b, g, g->arena, &inside));
    flow(&w);
    mark_shapes(&w);
    for (size_t i = 0; i < g->node.n; i++) {
        qg_node *n = g->node.at[i];
        assert(n->id == i);
        n->platform = decide(&w, n, &n->reason);
        listen(&w, inside, n);
        if (!n->reason)
            return qg_nomem(env->ctx);
        env->changed++;
    }
    return QG_OK;
}

const qg_pass qg_pass_dispatch = {
    .name = "dispatch",
    .summary = "decide for each node: quantized, float, or shape and index data",
    .needs = QG_A_TOPO | QG_A_SHAPE,
    .run = run,
};

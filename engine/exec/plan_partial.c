/* plan_partial.c -- the steps of a plan with a base, and the results it reuses. */
#include "engine/exec/plan_part.h"

#include <assert.h>

/* --- active quantizers --- */

const qg_tqc *qg_plan_tqc(const qg_plan_options *o, qg_endpoint at)
{
    const qg_tqc *t = qg_endpoint_tqc(at);
    return t && o->instead && o->instead[t->id] ? o->instead[t->id] : t;
}

static bool speaks(const qg_plan_options *o, const qg_tqc *t)
{
    return o->mode == QG_MODE_SIMULATE && t && !(o->mute && o->mute[t->id]);
}

bool qg_plan_rounds(const qg_plan_options *o, const qg_tqc *t)
{
    return speaks(o, t) && qg_tqc_rounds(t);
}

bool qg_plan_rounds_constant(const qg_plan_options *o, const qg_tqc *t)
{
    return speaks(o, t) && qg_tqc_is_on_grid(t);
}

bool qg_plan_writes(const qg_plan_options *o, qg_endpoint at)
{
    const uint8_t *write = o->write ? o->write[at.node->id] : NULL;
    return write && write[at.is_output ? at.node->n_in + at.slot : at.slot];
}

/* --- against the base --- */

static bool is_changed(const qg_builder *b, const qg_node *n)
{
    const uint8_t *changed = b->p->options.changed;
    return changed && changed[n->id];
}

static bool same_inputs(const qg_builder *b, const qg_node *n)
{
    const qg_plan_options *mine = &b->p->options, *theirs = &mine->base->options;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const qg_tqc *t = qg_plan_tqc(mine, qg_input_at(n, i));
        const qg_tqc *u = qg_plan_tqc(theirs, qg_input_at(n, i));
        bool constant = n->in[i] && b->known[n->in[i]->id];
        if (n->in[i] && b->known[n->in[i]->id] != mine->base->known[n->in[i]->id])
            return false;
        bool now =
            constant ? qg_plan_rounds_constant(mine, t) : qg_plan_rounds(mine, t);
        bool then =
            constant ? qg_plan_rounds_constant(theirs, u) : qg_plan_rounds(theirs, u);
        if (now != then || (now && t != u))
            return false;
    }
    return !is_changed(b, n);
}

/* *more: outputs differ only in that some round which did not. */
static bool same_outputs(const qg_builder *b, const qg_node *n, bool *more)
{
    const qg_plan_options *mine = &b->p->options, *theirs = &mine->base->options;
    bool same = true;
    *more = true;
    for (uint32_t i = 0; i < n->n_out; i++) {
        const qg_tqc *t = qg_plan_tqc(mine, qg_output_at(n, i));
        const qg_tqc *u = qg_plan_tqc(theirs, qg_output_at(n, i));
        bool now = qg_plan_rounds(mine, t), then = qg_plan_rounds(theirs, u);
        if (now == then && (!now || t == u))
            continue;
        same = false;
        *more = *more && now && !then;
    }
    return same;
}

/* Whether the base's run holds the outputs of the node. */
static bool holds(const qg_plan *base, const qg_value *v)
{
    for (int k = 0; k < 2; k++) {
        uint32_t t = base->place[v->id][k];
        if (t != QG_NONE && base->tensor.at[t].kind != QG_TENSOR_CONSTANT)
            return true;
    }
    return false;
}

static bool holds_outputs(const qg_plan *base, const qg_node *n)
{
    for (uint32_t i = 0; i < n->n_out; i++)
        if (n->out[i] && !holds(base, n->out[i]))
            return false;
    return true;
}

/* A captured value counts as an input, so bodies are covered. */
static bool is_downstream(const qg_builder *b, const qg_node *n)
{
    for (uint32_t i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->def && b->todo[n->in[i]->def->id])
            return true;
    return false;
}

static enum qg_todo todo_of(const qg_builder *b, const qg_node *n)
{
    const qg_plan *base = b->p->options.base;
    bool more;
    if (is_downstream(b, n) || !same_inputs(b, n))
        return QG_TODO_RUN;
    if (same_outputs(b, n, &more))
        return QG_TODO_NOTHING;
    return more && holds_outputs(base, n) ? QG_TODO_ROUND : QG_TODO_RUN;
}

/* Forward: nodes affected by the change.  Backward: nodes to run again because the base
 * did not keep their outputs. */
void qg_partial_mark(qg_builder *b)
{
    const qg_graph *g = b->p->graph;
    const qg_plan *base = b->p->options.base;
    assert(base && base->place && base->made);
    for (size_t k = 0; k < g->node.n; k++)
        if (b->todo[k])
            b->todo[k] = (uint8_t)todo_of(b, g->node.at[k]);
    for (size_t k = g->node.n; k-- > 0;) {
        const qg_node *n = g->node.at[k];
        for (uint32_t i = 0; b->todo[k] == QG_TODO_RUN && i < n->n_in; i++) {
            const qg_value *v = n->in[i];
            if (v && v->def && !b->known[v->id] && !holds(base, v))
                b->todo[v->def->id] = QG_TODO_RUN;
        }
    }
}

qg_status qg_partial_borrow(qg_builder *b)
{
    qg_plan *p = b->p;
    const qg_plan *base = p->options.base;
    for (size_t i = 0; i < p->graph->value.n; i++) {
        const qg_value *v = p->graph->value.at[i];
        if (!v->def || b->todo[v->def->id] == QG_TODO_RUN)
            continue;
        for (int k = 0; k < 2; k++) {
            uint32_t t = base->place[i][k];
            if (t == QG_NONE || base->tensor.at[t].kind == QG_TENSOR_CONSTANT)
                continue;
            qg_plan_tensor mine = { .type = base->tensor.at[t].type,
                                    .kind = QG_TENSOR_BASE,
                                    .storage = t };
            QG_TRY(qg_vec_push(p->ctx, p->arena, &p->tensor, mine));
            b->at[i].tensor[k] = (uint32_t)p->tensor.n - 1;
        }
    }
    return QG_OK;
}

/* The followers that the base's kernel absorbed must be the ones that this plan would
 * absorb: no rounding between them, the same constants in them. */
static bool same_followers(const qg_builder *b, const qg_node *n, uint32_t absorbed)
{
    bool more;
    for (uint32_t k = 0; k < absorbed; k++) {
        if (!same_outputs(b, n, &more))
            return false;
        n = n->out[0]->use.at[0].node;
        if (!same_inputs(b, n))
            return false;
    }
    return true;
}

qg_partial_node qg_partial_take(const qg_builder *b, const qg_node *n)
{
    const qg_plan_options *o = &b->p->options;
    const qg_plan *base = o->base;
    const qg_plan_node *made = &base->made[n->id];
    qg_partial_node none = { 0 };
    bool watched = o->watch || o->watch_all || base->options.watch ||
                   base->options.watch_all; /* fusions may differ */
    if (!made->made || watched || o->reference != base->options.reference ||
        !same_inputs(b, n))
        return none;
    qg_kernel *k = made->kernel == QG_NONE ? NULL : base->kernel.at[made->kernel];
    if (k && !same_followers(b, n, k->absorbed))
        return none;
    return (qg_partial_node){
        .same = true, .in = made->in, .kernel = k, .index = made->kernel
    };
}

/* --- values kept by a base --- */

qg_status qg_plan_keep_node(qg_builder *b, const qg_node *n, const qg_tensor *const *in,
                            bool has_kernel)
{
    qg_plan *p = b->p;
    const qg_tensor **copy = QG_NEWN(p->arena, n->n_in, const qg_tensor *);
    if (!p->made)
        p->made = QG_NEWN(p->arena, p->graph->node.n, qg_plan_node);
    if (!copy || !p->made)
        return qg_nomem(p->ctx);
    for (uint32_t i = 0; i < n->n_in; i++)
        if (n->in[i] && b->known[n->in[i]->id])
            copy[i] = in[i];
    p->made[n->id] =
        (qg_plan_node){ .made = true,
                        .in = copy,
                        .kernel = has_kernel ? (uint32_t)p->kernel.n - 1 : QG_NONE };
    return QG_OK;
}

qg_status qg_plan_keep(qg_builder *b)
{
    qg_plan *p = b->p;
    p->place = qg_arena_get(p->arena, p->graph->value.n, sizeof *p->place);
    if (!p->made) /* nothing runs */
        p->made = QG_NEWN(p->arena, p->graph->node.n, qg_plan_node);
    if (!p->place || !p->made)
        return qg_nomem(p->ctx);
    for (size_t i = 0; i < p->graph->value.n; i++)
        memcpy(p->place[i], b->at[i].tensor, sizeof p->place[i]);
    p->type = b->type;
    p->known = b->known;
    return QG_OK;
}

/* Whether an endpoint of n may be quantized by this plan or one with this as
 * its base. */
static bool may_round(const qg_node *n)
{
    for (uint32_t k = 0; k < qg_node_endpoints(n); k++) {
        const qg_tqc *t = qg_node_tqc(n, k);
        if (t && t->state != QG_TQC_FP32 && t->state != QG_TQC_SOI)
            return true;
    }
    return false;
}

/* In topological order: values computed from a forgotten value are forgotten too,
 * except by operators that read only its dims. */
void qg_plan_forget_rounded(const qg_plan *p, const qg_tensor **known)
{
    const qg_graph *g = p->graph;
    const qg_plan_options *o = &p->options;
    for (size_t k = 0; k < g->node.n; k++) {
        const qg_node *n = g->node.at[k];
        bool seen = o->input && (o->watch_all || (o->watch && o->watch[n->id]));
        bool written = o->write && o->write[n->id];
        bool forget = (o->quant && may_round(n)) || seen || written;
        for (uint32_t i = 0; i < n->n_in; i++)
            forget = forget || (n->in[i] && n->in[i]->def && !known[n->in[i]->id] &&
                                !qg_node_has(n, QG_OP_DIMS_ONLY));
        for (uint32_t i = 0; forget && i < n->n_out; i++)
            if (n->out[i])
                known[n->out[i]->id] = NULL;
    }
}

/* fold-constants -- a node whose inputs are all constants is run now; its outputs
 * become constants.  Shapes that inference could compute (Shape -> Gather -> Concat)
 * fold too.
 *
 * Left alone: what rounds by itself (QuantizeLinear: its grid is the model's intent),
 * graph outputs, and results above 256 MiB. */
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "passes/passes.h"

static const int64_t largest = INT64_C(1) << 28; /* elements of one byte */

static bool all_constant(const qg_node *n)
{
    for (uint32_t i = 0; i < n->n_in; i++)
        if (n->in[i] && !n->in[i]->constant)
            return false;
    return n->n_in > 0;
}

static bool may_fold(const qg_node *n)
{
    for (uint32_t i = 0; i < n->n_out; i++)
        if (n->out[i] && n->out[i]->is_output)
            return false;
    return n->op->run && qg_node_has(n, QG_OP_PURE) && !qg_node_has(n, QG_OP_QUANTIZER);
}

static qg_status make_constants(qg_pass_env *env, qg_node *n, qg_tensor *const *out)
{
    for (uint32_t i = 0; i < n->n_out; i++)
        if (n->out[i])
            QG_TRY(qg_edit_make_constant(env->graph, n->out[i], out[i]));
    qg_edit_remove_node(env->graph, n);
    env->changed++;
    return QG_OK;
}

/* Outputs in the graph's arena; *fits is false when a shape stays unknown or is
 * huge. */
static qg_status allocate(const qg_call *call, qg_arena *a, bool *fits)
{
    *fits = true;
    for (size_t i = 0; i < call->n_out; i++) {
        qg_tensor *t = call->out[i];
        *fits = *fits && (!t || (qg_tensor_known(t) && qg_tensor_count(t) <= largest));
    }
    for (size_t i = 0; *fits && i < call->n_out; i++)
        if (call->out[i])
            QG_TRY(qg_tensor_alloc(call->ctx, a, call->out[i]));
    return QG_OK;
}

static qg_status evaluate(qg_pass_env *env, qg_node *n, qg_arena *scratch)
{
    qg_arena *a = env->graph->arena;
    const qg_tensor **in = QG_NEWN(scratch, n->n_in, const qg_tensor *);
    qg_tensor **out = QG_NEWN(scratch, n->n_out, qg_tensor *);
    if (!in || !out)
        return qg_nomem(env->ctx);
    for (uint32_t i = 0; i < n->n_in; i++)
        in[i] = n->in[i] ? n->in[i]->constant : NULL;
    for (uint32_t i = 0; i < n->n_out; i++)
        if (n->out[i] && !(out[i] = QG_NEW(a, qg_tensor)))
            return qg_nomem(env->ctx);
    qg_call call = { .ctx = env->ctx,
                     .node = n,
                     .param = n->param,
                     .n_in = n->n_in,
                     .n_out = n->n_out,
                     .in = in,
                     .out = out,
                     .scratch = scratch };
    bool fits;
    QG_TRY(n->op->infer(&call));
    QG_TRY(allocate(&call, a, &fits));
    if (!fits)
        return QG_OK;
    QG_TRY(n->op->run(&call));
    return make_constants(env, n, out);
}

/* What inference knew: shape arithmetic on shapes that are fixed. */
static qg_status take_known(qg_pass_env *env, qg_node *n, const qg_tensor *const *known)
{
    for (uint32_t i = 0; i < n->n_out; i++)
        if (n->out[i] && !known[n->out[i]->id])
            return QG_OK;
    qg_tensor **out = QG_NEWN(env->graph->arena, n->n_out, qg_tensor *);
    if (!out)
        return qg_nomem(env->ctx);
    for (uint32_t i = 0; i < n->n_out; i++)
        if (n->out[i])
            QG_TRY(qg_tensor_clone(env->ctx, env->graph->arena, known[n->out[i]->id],
                                   &out[i]));
    return make_constants(env, n, out);
}

static qg_status fold_all(qg_pass_env *env, qg_arena *scratch)
{
    qg_graph *g = env->graph;
    const qg_tensor *const *known = NULL;
    QG_TRY(qg_infer_known(g, &known));
    for (size_t i = 0; i < g->node.n; i++) {
        qg_node *n = g->node.at[i];
        if (!may_fold(n))
            continue;
        qg_arena_reset(scratch);
        QG_TRY(all_constant(n) ? evaluate(env, n, scratch) : take_known(env, n, known));
    }
    return QG_OK;
}

static qg_status run(qg_pass_env *env)
{
    qg_arena *scratch = qg_arena_new(env->ctx->alloc);
    if (!scratch)
        return qg_nomem(env->ctx);
    qg_status s = fold_all(env, scratch);
    qg_arena_free(scratch);
    return s;
}

const qg_pass qg_pass_fold_constants = {
    .name = "fold-constants",
    .summary = "run what depends on constants only",
    .needs = QG_A_TOPO | QG_A_SHAPE,
    .breaks = QG_A_TOPO | QG_A_SHAPE,
    .run = run,
};

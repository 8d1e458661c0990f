#include "ops/util_body.h"

#include <assert.h>

#include "engine/ir/infer.h"

/* Bodies are already linked; only their interface is checked against the node. */
qg_status qg_body_attr(qg_ctx *ctx, const qg_node *n, const char *name, size_t n_in,
                       size_t n_out, qg_graph **out)
{
    qg_graph *body;
    QG_TRY(qg_attr_graph(ctx, n, name, &body));
    if (!body)
        return qg_node_fail(ctx, QG_EMODEL, "prepare", n, "%s is missing", name);
    if (body->input.n != n_in || body->output.n != n_out)
        return qg_node_fail(ctx, QG_EMODEL, "prepare", n,
                            "%s has %zu inputs and %zu outputs, expected %zu and %zu",
                            name, body->input.n, body->output.n, n_in, n_out);
    *out = body;
    return QG_OK;
}

/* The outer tensor captured as `name`, and the body's value for it. */
static qg_value *captured(const qg_call *k, const qg_graph *body, uint32_t i,
                          const qg_tensor **t)
{
    *t = k->in[qg_own_inputs(k->node) + i];
    return qg_graph_value(body, k->node->capture[i]);
}

/* Captured values get the types of their tensors, with data where it is known: axes of
 * the body may be constants of the graph around it. */
static void bind_captures(const qg_call *k, qg_graph *body, bool with_data)
{
    for (uint32_t i = 0; i < k->node->n_capture; i++) {
        const qg_tensor *t;
        qg_value *v = captured(k, body, i, &t);
        if (!v || !t)
            continue;
        v->type = *t;
        if (!with_data)
            v->type.data = NULL;
    }
}

/* Overwrites the body's declared types with those of the node. */
qg_status qg_body_infer(const qg_call *k, qg_graph *body, const qg_tensor *in)
{
    for (size_t i = 0; i < body->input.n; i++) {
        qg_tensor *type = &body->input.at[i]->type;
        const qg_dtype declared = type->dtype;
        *type = in[i];
        type->data = NULL;
        if (type->dtype == QG_NODTYPE)
            type->dtype = declared;
    }
    bind_captures(k, body, true);
    const qg_status s = qg_infer(body, NULL, 0);
    bind_captures(k, body, false);
    return s;
}

qg_status qg_body_begin(const qg_call *k, qg_body_room *room)
{
    *room = (qg_body_room){
        .call = k,
        .values = {qg_arena_new(k->ctx->alloc), qg_arena_new(k->ctx->alloc)},
        .scratch = qg_arena_new(k->ctx->alloc)
    };
    return room->values[0] && room->values[1] && room->scratch ? QG_OK
                                                               : qg_nomem(k->ctx);
}

void qg_body_end(qg_body_room *room)
{
    qg_arena_free(room->values[0]);
    qg_arena_free(room->values[1]);
    qg_arena_free(room->scratch);
}

/* One turn: val[value id] is the tensor of a value, NULL before it is computed. */
typedef struct turn {
    qg_ctx *ctx;
    qg_arena *arena, *scratch;
    const qg_tensor **val;
} turn;

/* Turns take the two arenas in alternation, so the values of the last turn are still
 * there. */
static qg_status begin_turn(qg_body_room *room, const qg_graph *body,
                            const qg_tensor *const *in, turn *t)
{
    const qg_call *k = room->call;
    *t = (turn){ k->ctx, room->values[room->turn++ % 2], room->scratch, NULL };
    qg_arena_reset(t->arena);
    t->val = QG_NEWN(t->arena, body->value.n, const qg_tensor *);
    if (!t->val)
        return qg_nomem(k->ctx);
    for (size_t i = 0; i < body->value.n; i++)
        t->val[i] = body->value.at[i]->constant;
    for (uint32_t i = 0; i < k->node->n_capture; i++) {
        const qg_tensor *outer;
        const qg_value *v = captured(k, body, i, &outer);
        if (v)
            t->val[v->id] = outer;
    }
    for (size_t i = 0; i < body->input.n; i++)
        t->val[body->input.at[i]->id] = in[i];
    return QG_OK;
}

/* Infers shapes from the data available now, and allocates memory.  Control operators
 * do this themselves, in call->results. */
static qg_status allocate_outputs(const turn *t, const qg_call *call)
{
    if (qg_node_has(call->node, QG_OP_CONTROL))
        return QG_OK;
    QG_TRY(call->node->op->infer(call));
    for (size_t i = 0; i < call->n_out; i++)
        if (call->out[i] && !qg_tensor_known(call->out[i]))
            return qg_run_fail(call, QG_EMODEL,
                               "the output shape is still unknown after inference");
        else if (call->out[i])
            QG_TRY(qg_tensor_alloc(t->ctx, t->arena, call->out[i]));
    return QG_OK;
}

/* One node of the body, without plan and without rounding. */
static qg_status run_inner(const turn *t, const qg_node *n)
{
    const qg_tensor **in = QG_NEWN(t->arena, n->n_in, const qg_tensor *);
    qg_tensor **out = QG_NEWN(t->arena, n->n_out, qg_tensor *);
    qg_tensor *made = QG_NEWN(t->arena, n->n_out, qg_tensor);
    if (!in || !out || !made)
        return qg_nomem(t->ctx);
    for (uint32_t i = 0; i < n->n_in; i++)
        in[i] = n->in[i] ? t->val[n->in[i]->id] : NULL;
    for (uint32_t i = 0; i < n->n_out; i++)
        out[i] = n->out[i] ? &made[i] : NULL;
    const qg_call call = { .ctx = t->ctx,
                           .node = n,
                           .param = n->param,
                           .n_in = n->n_in,
                           .n_out = n->n_out,
                           .in = in,
                           .out = out,
                           .scratch = t->scratch,
                           .results = t->arena };
    qg_arena_reset(t->scratch);
    QG_TRY(allocate_outputs(t, &call));
    QG_TRY(n->op->run(&call));
    for (uint32_t i = 0; i < n->n_out; i++)
        if (out[i])
            t->val[n->out[i]->id] = out[i];
    return QG_OK;
}

/* An output that is an input or a captured value is copied, so that it outlives the
 * turn. */
qg_status qg_body_run(qg_body_room *room, const qg_graph *body,
                      const qg_tensor *const *in, const qg_tensor **out)
{
    turn t;
    QG_TRY(qg_ctx_go_on(room->call->ctx));
    QG_TRY(begin_turn(room, body, in, &t));
    for (size_t i = 0; i < body->node.n; i++)
        QG_TRY(qg_node_memory(t.ctx, run_inner(&t, body->node.at[i]), "run",
                              body->node.at[i]));
    for (size_t i = 0; i < body->output.n; i++) {
        const qg_value *v = body->output.at[i];
        const qg_tensor *y = t.val[v->id];
        qg_tensor *copy;
        if (!y)
            return qg_run_fail(room->call, QG_EMODEL, "body output '%s' has no value",
                               v->name);
        out[i] = y;
        if (v->def || v->constant)
            continue;
        /* A pass-through value: the caller may free its memory before the next turn. */
        QG_TRY(qg_tensor_clone(t.ctx, t.arena, y, &copy));
        out[i] = copy;
    }
    return QG_OK;
}

/* At run time a control operator sizes its own outputs. */
qg_status qg_result(const qg_call *k, size_t slot, const qg_tensor *t, qg_tensor **y)
{
    qg_tensor *out = *y = qg_out(k, slot);
    char have[QG_SHAPE_TEXT], want[QG_SHAPE_TEXT];
    if (!out)
        return QG_OK;
    if (out->data) { /* the plan allocated memory for the inferred shape */
        if (out->dtype == t->dtype && qg_same_dims(out, t))
            return QG_OK;
        return qg_run_fail(k, QG_EDATA, "output %zu is %s, expected %s", slot,
                           qg_tensor_text(t, have), qg_tensor_text(out, want));
    }
    assert(k->results);
    qg_tensor_init(out, t->dtype, t->rank, t->dim);
    return qg_tensor_alloc(k->ctx, k->results, out);
}

qg_status qg_result_copy(const qg_call *k, size_t slot, const qg_tensor *t)
{
    qg_tensor *y;
    QG_TRY(qg_result(k, slot, t, &y));
    if (y)
        qg_tensor_copy(t, y);
    return QG_OK;
}

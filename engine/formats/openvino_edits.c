/* openvino_edits.c -- nodes and attributes that files for OpenVINO have more than the
 * network. */
#include "engine/formats/openvino_edits.h"

#include <assert.h>
#include <float.h>
#include <string.h>

#include "engine/ir/edit.h"

static qg_status add_number(qg_graph *g, const qg_node *n, float number,
                            const qg_tensor *like, qg_value **out)
{
    const char *name = qg_arena_printf(g->arena, "%s_limit", n->out[0]->name);
    qg_tensor *t = QG_NEW(g->arena, qg_tensor);
    if (!name || !t)
        return qg_nomem(g->ctx);
    *t = *like;
    QG_TRY(qg_tensor_alloc(g->ctx, g->arena, t));
    for (int64_t i = 0; i < qg_tensor_count(t); i++)
        t->f32[i] = number;
    return qg_edit_add_constant(g, name, t, out);
}

qg_status qg_plugin_add_node(qg_graph *g, const qg_node *n, const char *op,
                             const qg_node_spec *like, qg_value **x)
{
    const int64_t since = 11; /* Max and Min broadcast, Pad has inputs */
    qg_value *out;
    qg_node *made;
    qg_node_spec spec = *like;
    int64_t opset = n->op->domain ? qg_graph_opset(g, "") : n->opset;
    const char *name = qg_arena_printf(g->arena, "%s_limited", n->out[0]->name);
    if (!name)
        return qg_nomem(g->ctx);
    QG_TRY(qg_graph_add_prefixed(g, name, &out));
    out->type = (*x)->type;
    spec.opset = opset < since ? since : opset;
    spec.op = qg_op_find(g->ctx->registry, NULL, op, spec.opset);
    spec.out = &out;
    spec.n_out = 1;
    assert(spec.op);
    *x = out;
    return qg_graph_add_node(g, &spec, &made);
}

qg_status qg_plugin_add_function(qg_graph *g, const qg_node *n, const char *op,
                                 qg_value **x)
{
    qg_value *in = *x;
    return qg_plugin_add_node(g, n, op, &(qg_node_spec){ .in = &in, .n_in = 1 }, x);
}

qg_status qg_plugin_add_limit(qg_graph *g, const qg_node *n, const char *op,
                              float number, const qg_tensor *like, qg_value **x)
{
    qg_value *in[2] = { *x };
    QG_TRY(add_number(g, n, number, like, &in[1]));
    return qg_plugin_add_node(g, n, op, &(qg_node_spec){ .in = in, .n_in = 2 }, x);
}

qg_status qg_plugin_add_barrier(qg_graph *g, const qg_node *n, qg_value **x)
{
    qg_tensor number;
    qg_tensor_scalar(&number, QG_F32);
    return qg_plugin_add_limit(g, n, "Max", -FLT_MAX, &number, x);
}

bool qg_plugin_is_barrier(const qg_node *n)
{
    static const char *const name = "Max";
    const qg_tensor *t = n->n_in == 2 && n->in[1] && qg_node_is_onnx(n, &name, 1)
                             ? n->in[1]->constant
                             : NULL;
    return t && t->dtype == QG_F32 && qg_tensor_count(t) == 1 && t->f32[0] <= -FLT_MAX;
}

qg_status qg_plugin_replace(qg_graph *g, qg_value *y, qg_value *x)
{
    bool output = y->is_output;
    memcpy(x->dim_name, y->dim_name, sizeof y->dim_name);
    QG_TRY(qg_edit_replace_value(g, y, x));
    if (!output)
        qg_value_swap_names(g, y, x);
    return QG_OK;
}

qg_status qg_plugin_keep_in_front(qg_graph *g, const qg_node *n, qg_node *copy,
                                  uint32_t slot)
{
    qg_value *x = copy->in[slot];
    QG_TRY(qg_plugin_add_barrier(g, n, &x));
    return qg_edit_set_input(g, copy, slot, x);
}

qg_status qg_plugin_keep_behind(qg_graph *g, const qg_node *n, const qg_node *copy)
{
    qg_value *y = copy->out[0], *x = y;
    QG_TRY(qg_plugin_add_barrier(g, n, &x));
    QG_TRY(qg_plugin_replace(g, y, x));
    return qg_edit_set_input(g, x->def, 0, y);
}

qg_status qg_plugin_add_pool(qg_graph *g, const qg_node *n, size_t axes, qg_value **x)
{
    qg_value *in = *x;
    int64_t *one = QG_NEWN(g->arena, axes, int64_t);
    qg_attr *attr = QG_NEW(g->arena, qg_attr);
    const char *name = qg_intern(g->ctx, "kernel_shape");
    if (!one || !attr || !name)
        return qg_nomem(g->ctx);
    for (size_t k = 0; k < axes; k++)
        one[k] = 1;
    *attr = (qg_attr){
        .name = name, .type = QG_ATTR_INTS, .count = (uint32_t)axes, .ints = one
    };
    return qg_plugin_add_node(
        g, n, "MaxPool",
        &(qg_node_spec){ .in = &in, .n_in = 1, .attr = attr, .n_attr = 1 }, x);
}

qg_status qg_plugin_add_reshape(qg_graph *g, const qg_node *n, int rank,
                                const int64_t *dim, qg_value **x)
{
    qg_value *in[2] = { *x };
    int64_t count = rank;
    const char *name = qg_arena_printf(g->arena, "%s_dims", n->out[0]->name);
    qg_tensor *t = QG_NEW(g->arena, qg_tensor);
    if (!name || !t)
        return qg_nomem(g->ctx);
    qg_tensor_init(t, QG_I64, 1, &count);
    QG_TRY(qg_tensor_alloc(g->ctx, g->arena, t));
    memcpy(t->i64, dim, (size_t)rank * sizeof *dim);
    QG_TRY(qg_edit_add_constant(g, name, t, &in[1]));
    QG_TRY(
        qg_plugin_add_node(g, n, "Reshape", &(qg_node_spec){ .in = in, .n_in = 2 }, x));
    qg_tensor_init(&(*x)->type, QG_F32, rank, dim);
    return QG_OK;
}

qg_status qg_plugin_set_attribute(qg_graph *g, qg_node *n, const char *name,
                                  const int64_t *x, size_t count)
{
    qg_attr *attr = QG_NEWN(g->arena, n->n_attr + 1, qg_attr), *to = attr;
    int64_t *copy = QG_NEWN(g->arena, count, int64_t);
    const char *word = qg_intern(g->ctx, name);
    if (!attr || !copy || !word)
        return qg_nomem(g->ctx);
    if (n->n_attr)
        memcpy(attr, n->attr, n->n_attr * sizeof *attr);
    memcpy(copy, x, count * sizeof *x);
    while (to < attr + n->n_attr && to->name != word)
        to++;
    if (to == attr + n->n_attr) {
        *to = (qg_attr){ .name = word, .type = QG_ATTR_INTS };
        n->n_attr++;
    }
    to->count = (uint32_t)count;
    to->ints = copy;
    n->attr = attr;
    return QG_OK;
}

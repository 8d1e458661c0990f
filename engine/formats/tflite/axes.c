/* axes.c -- operators over axes that TensorFlow Lite does not have, before the program
 * is written, as its converter does.
 *
 * Convolutions along one axis are those of pictures of height 1:
 *
 *     x [N,C,L] --Reshape--> [N,C,1,L] --IntConv--> [N,O,1,M] --Reshape--> y [N,O,M]
 *
 * Weights O,I,K become O,I,1,K; strides, dilations and pads get those of the new axis.
 * A Softmax over another axis than the last has it there between two Transposes; that
 * of the channels of a picture stays, since they are last in N,H,W,C.
 */
#include <string.h>

#include "engine/formats/tflite/builder.h"
#include "engine/formats/tflite/writer.h"
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/ir/lower.h"

/* t with an axis of 1 at place 2, the same elements. */
static void widen(const qg_tensor *t, qg_tensor *out)
{
    int64_t dim[4] = { t->dim[0], t->dim[1], 1, t->dim[2] };
    void *data = t->data;
    qg_tensor_init(out, t->dtype, 4, dim);
    out->data = data;
}

static bool is_line(const qg_node *n)
{
    static const char *const names[] = { "IntConv" };
    const qg_tensor *w = n->n_in > 1 && n->in[1] ? n->in[1]->constant : NULL;
    return n->op->domain && strcmp(n->op->domain, QG_LOWER_DOMAIN) == 0 &&
           qg_op_is_named(n->op, names, 1) && w && w->rank == 3 &&
           n->in[0]->type.rank == 3 && n->out[0]->type.rank == 3;
}

/* Codes or floats, over one axis that is neither the last one nor the channels of a
 * picture. */
static bool is_turned(const qg_node *n, int64_t *axis)
{
    static const char *const codes[] = { "IntSoftmax" }, *const floats[] = {
        "Softmax"
    };
    bool known = n->op->domain ? strcmp(n->op->domain, QG_LOWER_DOMAIN) == 0 &&
                                     qg_op_is_named(n->op, codes, 1)
                               : n->opset >= 13 && qg_op_is_named(n->op, floats, 1);
    const qg_attr *a = known ? qg_attr_find(n, "axis") : NULL;
    if (!a || a->type != QG_ATTR_INT)
        return false;
    int64_t rank = n->in[0]->type.rank;
    *axis = a->ints[0] + (a->ints[0] < 0 ? rank : 0);
    return *axis >= 0 && *axis < rank - 1 && !(rank == 4 && *axis == 1);
}

/* "<name of v>_<suffix>", numbered when taken. */
static qg_status add_beside(qg_graph *g, const qg_value *v, const char *suffix,
                            qg_value **out)
{
    const char *name = qg_arena_printf(g->arena, "%s_%s", v->name, suffix);
    if (!name)
        return qg_nomem(g->ctx);
    return qg_graph_value(g, name) ? qg_graph_add_prefixed(g, name, out)
                                   : qg_graph_add_value(g, name, out);
}

/* y = Transpose(x), which exchanges axis k and the last one. */
static qg_status add_turn(qg_graph *g, qg_value *x, qg_value *y, int64_t k)
{
    qg_node *made;
    size_t rank = (size_t)x->type.rank;
    int64_t *perm = QG_NEWN(g->arena, rank, int64_t);
    qg_attr *a = QG_NEW(g->arena, qg_attr);
    const char *name = qg_intern(g->ctx, "perm");
    if (!perm || !a || !name)
        return qg_nomem(g->ctx);
    for (size_t i = 0; i < rank; i++)
        perm[i] = (int64_t)i;
    perm[k] = (int64_t)rank - 1;
    perm[rank - 1] = k;
    *a = (qg_attr){ name, QG_ATTR_INTS, rank, { .ints = perm } };
    qg_node_spec spec = { .op = qg_op_find(g->ctx->registry, NULL, "Transpose",
                                           QG_TFLITE_OPSET),
                          .opset = QG_TFLITE_OPSET,
                          .in = &x,
                          .n_in = 1,
                          .out = &y,
                          .n_out = 1,
                          .attr = a,
                          .n_attr = 1 };
    return qg_graph_add_node(g, &spec, &made);
}

static void exchange(const qg_tensor *t, int64_t k, qg_tensor *out)
{
    int64_t dim[QG_MAX_RANK];
    memcpy(dim, t->dim, (size_t)t->rank * sizeof *dim);
    dim[k] = t->dim[t->rank - 1];
    dim[t->rank - 1] = t->dim[k];
    qg_tensor_init(out, t->dtype, t->rank, dim);
}

static qg_status set_last(qg_graph *g, qg_node *n)
{
    qg_attr *attr = QG_NEWN(g->arena, n->n_attr, qg_attr);
    int64_t *last = QG_NEW(g->arena, int64_t);
    if (!attr || !last)
        return qg_nomem(g->ctx);
    *last = -1;
    for (size_t i = 0; i < n->n_attr; i++) {
        attr[i] = n->attr[i];
        if (strcmp(attr[i].name, "axis") == 0)
            attr[i].ints = last;
    }
    n->attr = attr;
    return qg_node_prepare(g, n);
}

static qg_status turn_node(qg_graph *g, qg_node *n, int64_t k)
{
    qg_value *x = n->in[0], *y = n->out[0], *turned_x, *turned_y;
    QG_TRY(add_beside(g, x, "turned", &turned_x));
    QG_TRY(add_beside(g, y, "turned", &turned_y));
    exchange(&x->type, k, &turned_x->type);
    exchange(&y->type, k, &turned_y->type);
    QG_TRY(add_turn(g, x, turned_x, k));
    QG_TRY(qg_edit_set_input(g, n, 0, turned_x));
    qg_edit_set_output(n, 0, turned_y);
    QG_TRY(add_turn(g, turned_y, y, k));
    return set_last(g, n);
}

/* y = Reshape(x, dims of y). */
static qg_status add_reshape(qg_graph *g, qg_value *x, qg_value *y)
{
    qg_node *made;
    qg_value *in[2] = { x };
    const int64_t rank = y->type.rank;
    qg_tensor *dims = QG_NEW(g->arena, qg_tensor);
    if (!dims)
        return qg_nomem(g->ctx);
    qg_tensor_init(dims, QG_I64, 1, &rank);
    QG_TRY(qg_tensor_alloc(g->ctx, g->arena, dims));
    memcpy(dims->i64, y->type.dim, (size_t)rank * sizeof *dims->i64);
    QG_TRY(qg_edit_add_constant(g, "shape", dims, &in[1]));
    qg_node_spec spec = { .op = qg_op_find(g->ctx->registry, NULL, "Reshape",
                                           QG_TFLITE_OPSET),
                          .opset = QG_TFLITE_OPSET,
                          .in = in,
                          .n_in = 2,
                          .out = &y,
                          .n_out = 1 };
    return qg_graph_add_node(g, &spec, &made);
}

/* [a] -> [preset, a]; pads [a, b] -> [0, a, 0, b]. */
static qg_status widen_attr(qg_graph *g, qg_attr *a)
{
    static const struct {
        const char *name;
        size_t count;
        int64_t preset;
    } known[] = {
        {"strides",       1, 1},
        { "dilations",    1, 1},
        { "kernel_shape", 1, 1},
        { "pads",         2, 0},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(a->name, known[i].name) != 0 || a->count != known[i].count)
            continue;
        int64_t *x = QG_NEWN(g->arena, 2 * a->count, int64_t);
        if (!x)
            return qg_nomem(g->ctx);
        for (size_t k = 0; k < a->count; k++) {
            x[2 * k] = known[i].preset;
            x[2 * k + 1] = a->ints[k];
        }
        a->ints = x;
        a->count *= 2;
        return QG_OK;
    }
    return QG_OK;
}

static qg_status widen_attrs(qg_graph *g, qg_node *n)
{
    qg_attr *attr = QG_NEWN(g->arena, n->n_attr, qg_attr);
    if (!attr)
        return qg_nomem(g->ctx);
    for (size_t i = 0; i < n->n_attr; i++) {
        attr[i] = n->attr[i];
        if (attr[i].type == QG_ATTR_INTS)
            QG_TRY(widen_attr(g, &attr[i]));
    }
    n->attr = attr;
    return qg_node_prepare(g, n);
}

static qg_status widen_node(qg_graph *g, qg_node *n)
{
    qg_value *x = n->in[0], *y = n->out[0], *wide_x, *wide_y;
    qg_tensor *w = QG_NEW(g->arena, qg_tensor);
    if (!w)
        return qg_nomem(g->ctx);
    QG_TRY(add_beside(g, x, "wide", &wide_x));
    QG_TRY(add_beside(g, y, "wide", &wide_y));
    widen(&x->type, &wide_x->type);
    widen(&y->type, &wide_y->type);
    widen(n->in[1]->constant, w);
    QG_TRY(add_reshape(g, x, wide_x));
    QG_TRY(qg_edit_set_input(g, n, 0, wide_x));
    QG_TRY(qg_edit_give_constant(g, n, 1, n->in[1]->name, w));
    qg_edit_set_output(n, 0, wide_y);
    QG_TRY(add_reshape(g, wide_y, y));
    return widen_attrs(g, n);
}

qg_status qg_tflite_rewrite_axes(qg_graph *g)
{
    size_t before = g->node.n;
    int64_t axis;
    for (size_t i = 0; i < before; i++) {
        qg_node *n = g->node.at[i];
        if (is_line(n))
            QG_TRY(widen_node(g, n));
        else if (is_turned(n, &axis))
            QG_TRY(turn_node(g, n, axis));
    }
    if (g->node.n == before)
        return QG_OK;
    QG_TRY(qg_graph_normalize(g));
    return qg_infer(g, NULL, 0);
}

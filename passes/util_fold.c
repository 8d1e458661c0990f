#include "passes/util_fold.h"

#include <assert.h>

/* The value in the slot of this role, or NULL. */
static qg_value *slot_value(const qg_node *n, char role)
{
    assert(n->op);
    int slot = qg_op_slot_of(n->op, role);
    return slot >= 0 && (uint32_t)slot < n->n_in ? n->in[slot] : NULL;
}

static bool is_float_constant(const qg_value *v)
{
    return v && v->constant && v->constant->dtype == QG_F32;
}

/* Gemm's beta multiplies the bias: then what is folded in would be scaled as well. */
static bool scales_bias(const qg_node *n)
{
    const qg_attr *beta = qg_attr_find(n, "beta");
    return beta && beta->type == QG_ATTR_FLOAT && beta->floats[0] != 1.0f;
}

size_t qg_fold_channels(const qg_node *compute, const qg_node *by, const char **why)
{
    const qg_value *w = slot_value(compute, 'w'), *b = slot_value(compute, 'b');
    const qg_value *y = by->out[0];
    int axis = compute->op->weight_axis ? compute->op->weight_axis(compute) : -1;
    *why = "has weights that are not constant float32";
    if (axis < 0 || !is_float_constant(w) || axis >= w->constant->rank)
        return 0;
    *why = "has a bias that is not constant float32";
    if (b && !is_float_constant(b))
        return 0;
    *why = "has no slot for a bias";
    if (qg_op_slot_of(compute->op, 'b') < 0)
        return 0;
    *why = "scales its bias (beta)";
    if (scales_bias(compute))
        return 0;
    *why = "has a bias that is not one number per output channel";
    if (b && qg_tensor_count(b->constant) != y->type.dim[1])
        return 0;
    *why = "gives an output of unknown channels";
    if (y->type.rank < 2 || y->type.dim[1] <= 0 ||
        y->type.dim[1] % w->constant->dim[axis] != 0)
        return 0;
    return (size_t)y->type.dim[1];
}

/* Groups of a transposed convolution lie along axis 0 of its weights: output channel
 * g * dim[axis] + i.  Elsewhere there is one group. */
static void scale_weights(qg_tensor *w, int axis, size_t n, const double *scale)
{
    int64_t extent = w->dim[axis], groups = (int64_t)n / extent;
    int64_t inner = qg_dims_product(w, axis + 1, w->rank), count = qg_tensor_count(w);
    int64_t per_group = count / groups;
    for (int64_t i = 0; i < count; i++) {
        int64_t c = i / per_group * extent + i / inner % extent;
        w->f32[i] = (float)(w->f32[i] * scale[c]);
    }
}

/* A new constant: the old one may be shared. */
static qg_status fold_weights(qg_graph *g, qg_node *n, size_t channels,
                              const double *scale)
{
    assert(scale && n->in && channels > 0);
    int slot = qg_op_slot_of(n->op, 'w');
    qg_value *old = n->in[slot], *v;
    qg_tensor *w;
    QG_TRY(qg_tensor_clone(g->ctx, g->arena, old->constant, &w));
    scale_weights(w, n->op->weight_axis(n), channels, scale);
    QG_TRY(qg_edit_add_constant(g, old->name, w, &v));
    return qg_edit_set_input(g, n, (uint32_t)slot, v);
}

/* Makes the slot when the node had no bias. */
static qg_status fold_bias(qg_graph *g, qg_node *n, size_t channels,
                           const double *scale, const double *shift)
{
    uint32_t slot = (uint32_t)qg_op_slot_of(n->op, 'b');
    QG_TRY(qg_edit_grow_inputs(g, n, slot + 1));
    const qg_value *old = n->in[slot];
    qg_tensor *b = QG_NEW(g->arena, qg_tensor);
    qg_value *v;
    if (!b)
        return qg_nomem(g->ctx);
    qg_tensor_init(b, QG_F32, 1, &(int64_t){ (int64_t)channels });
    QG_TRY(qg_tensor_alloc(g->ctx, g->arena, b));
    for (size_t c = 0; c < channels; c++) {
        double x = old ? old->constant->f32[c] : 0;
        b->f32[c] = (float)((scale ? scale[c] : 1) * x + shift[c]);
    }
    const char *prefix =
        old ? old->name : qg_arena_printf(g->arena, "%s_bias", n->name);
    if (!prefix)
        return qg_nomem(g->ctx);
    QG_TRY(qg_edit_add_constant(g, prefix, b, &v));
    return qg_edit_set_input(g, n, slot, v);
}

qg_status qg_fold_affine(qg_graph *g, qg_node *compute, size_t n, const double *scale,
                         const double *shift)
{
    assert(n > 0 && shift);
    if (scale)
        QG_TRY(fold_weights(g, compute, n, scale));
    return fold_bias(g, compute, n, scale, shift);
}

/* One watcher and one output: folding changes nothing for anybody else. */
qg_node *qg_fold_producer(const qg_node *n, uint32_t slot, const char **why)
{
    const qg_value *v = n->in[slot];
    *why = "is not fed by a compute operator";
    if (!v || !v->def || !qg_node_has(v->def, QG_OP_COMPUTE))
        return NULL;
    *why = "reads a value that others see as well";
    if (qg_value_watchers(v) != 1 || v->def->n_out != 1)
        return NULL;
    return v->def;
}

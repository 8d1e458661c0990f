#include "passes/vendor/util_gemm.h"

#include <assert.h>

#include "engine/ir/edit.h"

bool qg_is_gemm(const qg_node *n)
{
    int w = qg_op_slot_of(n->op, 'w');
    return qg_node_has(n, QG_OP_COMPUTE) && w == 1 && n->n_in >= 2 && n->in[1] &&
           n->in[1]->type.rank == 2 && qg_op_slot_of(n->op, 'b') == 2;
}

qg_status qg_gemm_read(qg_ctx *ctx, const qg_node *n, qg_gemm *out)
{
    int64_t a, b;
    qg_gemm r;
    QG_TRY(qg_attr_float(ctx, n, "alpha", 1, &r.alpha));
    QG_TRY(qg_attr_float(ctx, n, "beta", 1, &r.beta));
    QG_TRY(qg_attr_int(ctx, n, "transA", 0, &a));
    QG_TRY(qg_attr_int(ctx, n, "transB", 0, &b));
    r.transposed_a = a != 0;
    r.transposed_b = b != 0;
    *out = r;
    return QG_OK;
}

qg_status qg_gemm_rewrite(qg_graph *g, qg_node *n, uint32_t slot, float factor,
                          bool transpose)
{
    qg_value *v = slot < n->n_in ? n->in[slot] : NULL;
    qg_tensor *t;
    if (!v || (factor == 1 && !transpose))
        return QG_OK;
    const qg_tensor *old = v->constant;
    if (!old || old->dtype != QG_F32)
        return qg_node_fail(g->ctx, QG_EUNSUPPORTED, "rewrite", n,
                            "input %u is not a float32 constant, expected a constant",
                            (unsigned)slot);
    assert(!transpose || old->rank == 2);
    QG_TRY(qg_tensor_clone(g->ctx, g->arena, old, &t));
    int64_t rows = transpose ? old->dim[0] : 1;
    int64_t columns = qg_tensor_count(old) / (rows > 0 ? rows : 1);
    if (transpose) {
        int64_t dim[2] = { columns, rows };
        qg_tensor_init(t, QG_F32, 2, dim);
        QG_TRY(qg_tensor_alloc(g->ctx, g->arena, t));
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < columns; k++)
            t->f32[transpose ? k * rows + i : k] = old->f32[i * columns + k] * factor;
    QG_TRY(qg_edit_add_constant(g, v->name, t, &v));
    return qg_edit_set_input(g, n, slot, v);
}

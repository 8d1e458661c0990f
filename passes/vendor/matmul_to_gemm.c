/* matmul-to-gemm -- a product of a matrix with a constant one becomes a fully connected
 * node, so that fuse-bias can fold the sum that follows into its bias, and the sum and
 * the product are rounded once: the converter of TFLite makes one FULLY_CONNECTED of
 * both.  Both factors have two axes; products of more axes stay.
 * Source   tensorflow/tensorflow, tensorflow/compiler/mlir/lite/transforms:
 *          prepare_tf.cc ConvertTFBatchMatMulOp, optimize.cc
 *          FuseFullyConnectedAndAdd */
#include <assert.h>
#include <string.h>

#include "engine/ir/edit.h"
#include "passes/passes.h"

/* A compute node that multiplies by the weight in slot 1 and takes no bias. */
static bool is_product(const qg_node *n)
{
    return qg_node_has(n, QG_OP_COMPUTE) && n->n_in == 2 && n->in[0] && n->in[1] &&
           n->n_attr == 0 && qg_op_slot_of(n->op, 'w') == 1 &&
           qg_op_slot_of(n->op, 'b') < 0;
}

/* NULL when it can become one, else why not. */
static const char *objection(const qg_node *n)
{
    if (!n->in[1]->constant || n->in[1]->type.dtype != QG_F32)
        return "its weight is no float32 constant, expected one";
    if (n->in[0]->type.rank != 2 || n->in[1]->type.rank != 2)
        return "its factors have other than two axes, expected two each";
    return NULL;
}

/* A bias of zeros, where the operator of this opset demands one. */
static qg_status give_bias(qg_graph *g, qg_node *n)
{
    if (n->op->min_in <= n->n_in)
        return QG_OK;
    qg_tensor *zeros = QG_NEW(g->arena, qg_tensor);
    if (!zeros)
        return qg_nomem(g->ctx);
    qg_tensor_init(zeros, QG_F32, 1, &n->in[1]->type.dim[1]);
    QG_TRY(qg_tensor_alloc(g->ctx, g->arena, zeros));
    memset(zeros->f32, 0, (size_t)zeros->dim[0] * sizeof *zeros->f32);
    QG_TRY(qg_edit_grow_inputs(g, n, 3));
    return qg_edit_give_constant(g, n, 2, "bias", zeros);
}

static qg_status run(qg_pass_env *env)
{
    qg_graph *g = env->graph;
    for (size_t i = 0; i < g->node.n; i++) {
        qg_node *n = g->node.at[i];
        if (n->dead || !is_product(n))
            continue;
        const char *why = objection(n);
        if (why) {
            QG_TRY(qg_pass_near_miss(env, "product", n, "%s", why));
            continue;
        }
        QG_TRY(qg_edit_set_op(g, n, QG_MADE_DENSE));
        QG_TRY(give_bias(g, n));
        env->changed++;
        QG_TRY(qg_pass_matched(env, "product"));
    }
    return QG_OK;
}

const qg_pass qg_pass_matmul_to_gemm = {
    .name = "matmul-to-gemm",
    .summary = "turn products with constant matrices into fully connected nodes",
    .needs = QG_A_TOPO | QG_A_SHAPE,
    .breaks = QG_A_TOPO | QG_A_SHAPE,
    .run = run,
};

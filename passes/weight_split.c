/* weight-split -- a layer with few large weights becomes the sum of two layers, so that
 * the scale of each is smaller:
 *
 *     W = R + S,  S = W / 2 where |W| > threshold, else 0
 *     y = layer(x, R, b)  ->  y = layer(x, R, b) + layer(x, S)
 *
 * Float outputs stay the same up to the order of sums.  A layer without such a weight,
 * or in which all of them are as large, is left alone.
 * Source   PPQ 0.6.6 quantization/optim/refine.py HorizontalLayerSplitPass, method
 *          balance */
#include <math.h>
#include <string.h>

#include "engine/ir/edit.h"
#include "passes/passes.h"

static bool is_float_constant(const qg_value *v)
{
    return v && v->constant && v->constant->dtype == QG_F32;
}

/* Inputs that the operator requires behind the weight are constants, for which the new
 * layer has zeros. */
static bool has_required(const qg_node *n, int weight)
{
    for (uint32_t k = (uint32_t)weight + 1; k < n->op->min_in; k++)
        if (!is_float_constant(n->in[k]))
            return false;
    return true;
}

static bool is_layer(const qg_node *n, uint32_t *slot)
{
    int w = qg_op_slot_of(n->op, 'w');
    const qg_value *v = w >= 0 && (uint32_t)w < n->n_in ? n->in[w] : NULL;
    *slot = (uint32_t)w;
    return qg_node_has(n, QG_OP_COMPUTE) && n->platform == QG_PLATFORM_QUANTIZED &&
           is_float_constant(v) && n->n_out == 1 && n->out[0] && has_required(n, w);
}

/* Halves of the large weights go to `large`; how many there are. */
static int64_t split(qg_tensor *rest, qg_tensor *large, float threshold)
{
    int64_t n = 0;
    for (int64_t i = 0; i < qg_tensor_count(rest); i++) {
        bool far = fabsf(rest->f32[i]) > threshold;
        n += far;
        large->f32[i] = far ? rest->f32[i] / 2 : 0;
        rest->f32[i] -= large->f32[i];
    }
    return n;
}

/* Inputs behind the weight that the operator requires (the sum of Gemm before opset 11)
 * are zeros of the same shape. */
static qg_status fill_required(qg_pass_env *env, const qg_node *n, uint32_t slot,
                               qg_value **in)
{
    for (uint32_t k = slot + 1; k < n->op->min_in; k++) {
        qg_tensor *zeros;
        const qg_tensor *like = n->in[k]->constant;
        QG_TRY(qg_tensor_clone(env->ctx, env->graph->arena, like, &zeros));
        memset(zeros->data, 0, (size_t)qg_tensor_count(zeros) * sizeof *zeros->f32);
        QG_TRY(qg_edit_add_constant(env->graph, n->in[k]->name, zeros, &in[k]));
    }
    return QG_OK;
}

/* The sum takes the place of the layer's output, name included. */
static qg_status add_branch(qg_pass_env *env, qg_node *n, uint32_t slot,
                            const qg_tensor *large)
{
    qg_graph *g = env->graph;
    qg_value *weight, *branch, *sum, *y = n->out[0];
    qg_value *in[QG_MAX_RANK + 8] = { 0 };
    const qg_op *plus;
    qg_node *made;
    QG_TRY(qg_edit_find_op(g, n, QG_MADE_SUM, &plus));
    QG_TRY(qg_edit_add_constant(g, n->in[slot]->name, large, &weight));
    QG_TRY(qg_graph_add_prefixed(g, y->name, &branch));
    QG_TRY(qg_graph_add_prefixed(g, y->name, &sum));
    branch->type = sum->type = y->type;
    QG_TRY(qg_edit_replace_value(g, y, sum));
    in[0] = n->in[0];
    in[slot] = weight;
    QG_TRY(fill_required(env, n, slot, in));
    qg_node_spec layer = { .op = n->op,
                           .opset = n->opset,
                           .in = in,
                           .out = &branch,
                           .n_in = n->op->min_in > slot + 1 ? n->op->min_in : slot + 1,
                           .n_out = 1,
                           .attr = n->attr,
                           .n_attr = n->n_attr };
    QG_TRY(qg_graph_add_node(g, &layer, &made));
    made->platform = n->platform;
    made->reason = n->reason;
    qg_node_spec total = {
        .op = plus,
        .opset = n->opset,
        .in = (qg_value *[]){n->out[0], branch},
        .out = &sum,
        .n_in = 2,
        .n_out = 1
    };
    QG_TRY(qg_graph_add_node(g, &total, &made));
    bool quantized = qg_backend_quantizes(env->backend, plus);
    made->platform = quantized ? QG_PLATFORM_QUANTIZED : QG_PLATFORM_FP32;
    made->reason = quantized ? "it adds the parts of a split layer"
                             : "the backend does not quantize its operator";
    return QG_OK;
}

static qg_status split_layer(qg_pass_env *env, qg_node *n)
{
    uint32_t slot;
    qg_tensor *rest, *large;
    qg_ctx *ctx = env->ctx;
    float threshold = (float)qg_pass_value(env, "threshold");
    if (!is_layer(n, &slot))
        return QG_OK;
    const qg_tensor *w = n->in[slot]->constant;
    QG_TRY(qg_tensor_clone(ctx, env->graph->arena, w, &rest));
    QG_TRY(qg_tensor_clone(ctx, env->graph->arena, w, &large));
    int64_t far = split(rest, large, threshold);
    if (far == 0 || far == qg_tensor_count(w))
        return qg_pass_near_miss(env, "layer", n,
                                 "%s weights lie above %g, expected "
                                 "some",
                                 far ? "all" : "no", (double)threshold);
    QG_TRY(add_branch(env, n, slot, large));
    QG_TRY(qg_edit_give_constant(env->graph, n, slot, n->name, rest));
    env->changed++;
    return qg_pass_matched(env, "layer");
}

/* Layers made here come last and are not split again. */
static qg_status run(qg_pass_env *env)
{
    size_t n = env->graph->node.n;
    QG_TRY(qg_pass_pattern(env, "layer", "no quantized layer has constant weights"));
    for (size_t i = 0; i < n; i++)
        QG_TRY(split_layer(env, env->graph->node.at[i]));
    return qg_graph_normalize(env->graph);
}

static const qg_pass_param param[] = {
    {"threshold", "weights above it are halved", 2, 0, 1e6 }, /* as PPQ's setting */
    { 0         },
};

const qg_pass qg_pass_weight_split = {
    .name = "weight-split",
    .summary = "split layers with large weights into a sum of two",
    .needs = QG_A_TOPO | QG_A_SHAPE,
    .breaks = QG_A_TOPO | QG_A_SHAPE,
    .once = true,
    .run = run,
    .param = param,
};

/* batchnorm-to-conv -- a normalization that could not be folded into a compute node
 * becomes a depthwise convolution: one group per channel, a kernel of extent 1, weight
 * `scale`, bias `shift`.  Backends without a quantized normalization then quantize it.
 * Of any rank (PPQ: 2-D only, defect D33).
 * Source: docs/evidence/ppq-behaviour.md#batchnormalization. */
#include <assert.h>
#include <string.h>

#include "engine/ir/affine.h"
#include "engine/ir/edit.h"
#include "passes/passes.h"
#include "passes/util_batchnorm.h"

/* Behaviours that quirks replace. */
typedef struct behaviours {
    /* Weight and bias of the convolution, computed from a weight of ones. */
    qg_status (*fold)(qg_graph *g, const qg_node *n, const qg_tensor *weight, int axis,
                      const qg_tensor *bias, qg_tensor *out[2]);
} behaviours;

/* Factors in double, rounded once. */
static qg_status fold(qg_graph *g, const qg_node *n, const qg_tensor *weight, int axis,
                      const qg_tensor *bias, qg_tensor *out[2])
{
    qg_affine f;
    assert(weight->dim[axis] > 0);
    QG_TRY(qg_affine_identity(g->ctx, g->arena, (size_t)weight->dim[axis], &f));
    QG_TRY(qg_affine_then(g->ctx, g->arena, n, &f));
    QG_TRY(qg_affine_weight(g->ctx, g->arena, &f, weight, axis, &out[0]));
    return qg_affine_bias(g->ctx, g->arena, &f, bias, 1, &out[1]);
}

static const behaviours ordinary = { .fold = fold };

static const qg_quirk_row quirk[] = {
    QG_SWAP(PPQ_BATCHNORM_FLOAT32,
            "BatchNormalization becomes a convolution in float32, rounding each step",
            QG_PPQ "IR/morph.py GraphReplacer.replace_batchnorm_to_conv", behaviours,
            fold, qg_batchnorm_float32),
    { 0 },
};

/* Constants of the convolution's shapes: [C, 1, 1, ...] and [C]. */
static qg_status make_constants(qg_pass_env *env, const qg_node *n, size_t channels,
                                qg_value *out[2])
{
    qg_graph *g = env->graph;
    qg_tensor ones, *made[2];
    int64_t dim[QG_MAX_RANK] = { (int64_t)channels };
    int rank = n->in[0]->type.rank;
    behaviours how = ordinary;
    qg_pass_quirks(env, &how);
    for (int d = 1; d < rank; d++)
        dim[d] = 1;
    qg_tensor_init(&ones, QG_F32, rank, dim);
    QG_TRY(qg_tensor_alloc(g->ctx, g->arena, &ones));
    for (size_t c = 0; c < channels; c++)
        ones.f32[c] = 1;
    QG_TRY(how.fold(g, n, &ones, 0, NULL, made));
    for (int k = 0; k < 2; k++) {
        const char *name =
            qg_arena_printf(g->arena, "%s_%s", n->name, k == 0 ? "weight" : "bias");
        if (!name)
            return qg_nomem(g->ctx);
        QG_TRY(qg_edit_add_constant(g, name, made[k], &out[k]));
    }
    return QG_OK;
}

/* The new node takes the old node's name, which is free only once that node is
 * removed. */
static qg_status replace(qg_pass_env *env, qg_node *n, size_t channels)
{
    qg_graph *g = env->graph;
    qg_value *parameter[2], *x = n->in[0], *y = n->out[0], *made;
    const char *name = n->name;
    const qg_op *conv;
    qg_node *node;
    QG_TRY(qg_edit_find_op(g, n, QG_MADE_CONVOLUTION, &conv));
    QG_TRY(make_constants(env, n, channels, parameter));
    QG_TRY(qg_graph_add_prefixed(g, name, &made));
    int64_t *group = QG_NEW(g->arena, int64_t);
    qg_attr *attr = QG_NEW(g->arena, qg_attr);
    if (!group || !attr)
        return qg_nomem(g->ctx);
    *group = (int64_t)channels;
    *attr =
        (qg_attr){ .name = "group", .type = QG_ATTR_INT, .count = 1, .ints = group };
    bool inner = !y->is_output;
    QG_TRY(qg_edit_replace_value(g, y, made));
    if (inner)
        qg_value_swap_names(g, y, made);
    qg_edit_remove_node(g, n);
    qg_value *in[] = { x, parameter[0], parameter[1] };
    qg_node_spec spec = { .name = name,
                          .op = conv,
                          .opset = n->opset,
                          .in = in,
                          .out = &made,
                          .n_in = 3,
                          .n_out = 1,
                          .attr = attr,
                          .n_attr = 1 };
    made->type = y->type; /* a normalization that follows it needs the channels */
    memcpy(made->dim_name, y->dim_name, sizeof made->dim_name);
    QG_TRY(qg_graph_add_node(g, &spec, &node));
    qg_edit_swap_places(g, n, node);
    node->file_unnamed = n->file_unnamed;
    return QG_OK;
}

/* NULL when it can be replaced, else why not. */
static const char *objection(const qg_node *n, size_t *channels)
{
    const qg_tensor *x = &n->in[0]->type;
    for (uint32_t k = 1; k < n->n_out; k++)
        if (n->out[k])
            return "it has other outputs, expected a single output";
    for (uint32_t k = 1; k < n->n_in; k++)
        if (!n->in[k] || !n->in[k]->constant)
            return "its statistics are computed, expected constants";
    if (x->dtype != QG_F32 || x->rank < 3 || x->dim[1] < 1)
        return "its input is not a float32 tensor of known channels with 3 axes or "
               "more";
    *channels = (size_t)x->dim[1];
    return NULL;
}

static qg_status run(qg_pass_env *env)
{
    qg_graph *g = env->graph;
    for (size_t i = 0; i < g->node.n; i++) {
        qg_node *n = g->node.at[i];
        size_t channels = 0;
        if (n->dead || !qg_node_has(n, QG_OP_NORMALIZE) || !n->op->affine ||
            n->n_in == 0)
            continue;
        const char *why = objection(n, &channels);
        if (why) {
            QG_TRY(qg_pass_near_miss(env, "batchnorm", n, "%s", why));
            continue;
        }
        assert(channels > 0);
        QG_TRY(replace(env, n, channels));
        env->changed++;
        QG_TRY(qg_pass_matched(env, "batchnorm"));
    }
    return QG_OK;
}

const qg_pass qg_pass_batchnorm_to_conv = {
    .name = "batchnorm-to-conv",
    .summary = "turn remaining normalizations into depthwise convolutions",
    .needs = QG_A_TOPO | QG_A_SHAPE,
    .breaks = QG_A_TOPO | QG_A_SHAPE,
    .run = run,
    .quirk = quirk,
};

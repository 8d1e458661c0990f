/* batchnorm-to-conv -- a normalization that no compute node could take in becomes a
 * convolution of its own: every channel a group, a kernel of extent 1, weight `scale`,
 * bias `shift`.  Backends that know no normalization then quantize it.
 * Of any rank (PPQ: 2-D only, defect D33).  Source: spec/ppq.md 4.4.3. */
#include <assert.h>

#include "engine/ir/edit.h"
#include "passes/passes.h"

/* Factors as float32, in tensors of the convolution's shapes: [C, 1, 1, ...] and
 * [C]. */
static qg_status make_constants(qg_graph *g, const qg_node *n, size_t channels,
                                qg_value *out[2])
{
    double *scale = QG_NEWN(g->arena, 2 * channels, double);
    qg_tensor *t = QG_NEWN(g->arena, 2, qg_tensor);
    int64_t dim[QG_MAX_RANK] = { (int64_t)channels };
    int rank = n->in[0]->type.rank;
    if (!scale || !t)
        return qg_nomem(g->ctx);
    QG_TRY(n->op->affine(g->ctx, n, channels, scale, scale + channels));
    for (int d = 1; d < rank; d++)
        dim[d] = 1;
    for (int k = 0; k < 2; k++) {
        qg_tensor_init(&t[k], QG_F32, k == 0 ? rank : 1, dim);
        QG_TRY(qg_tensor_alloc(g->ctx, g->arena, &t[k]));
        for (size_t c = 0; c < channels; c++)
            t[k].f32[c] = (float)scale[(size_t)k * channels + c];
        const char *name =
            qg_arena_printf(g->arena, "%s_%s", n->name, k == 0 ? "weight" : "bias");
        if (!name)
            return qg_nomem(g->ctx);
        QG_TRY(qg_edit_add_constant(g, name, &t[k], &out[k]));
    }
    return QG_OK;
}

/* The node keeps its name; the old one must be gone before the name is free. */
static qg_status replace(qg_graph *g, qg_node *n, size_t channels)
{
    qg_value *parameter[2], *x = n->in[0], *y = n->out[0], *made;
    const char *name = n->name;
    const qg_op *conv;
    qg_node *node;
    QG_TRY(qg_edit_find_op(g, n, QG_MADE_CONVOLUTION, &conv));
    QG_TRY(make_constants(g, n, channels, parameter));
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
    QG_TRY(qg_graph_add_node(g, &spec, &node));
    node->file_unnamed = n->file_unnamed;
    return QG_OK;
}

/* NULL when it can be replaced, else why not. */
static const char *objection(const qg_node *n, size_t *channels)
{
    const qg_tensor *x = &n->in[0]->type;
    for (uint32_t k = 1; k < n->n_out; k++)
        if (n->out[k])
            return "it has other outputs, expected one";
    for (uint32_t k = 1; k < n->n_in; k++)
        if (!n->in[k] || !n->in[k]->constant)
            return "its statistics are computed, expected constants";
    if (x->dtype != QG_F32 || x->rank < 3 || x->dim[1] < 1)
        return "its input is no float32 tensor of known channels with 3 axes or more";
    *channels = (size_t)x->dim[1];
    return NULL;
}

static qg_status run(qg_pass_env *env)
{
    qg_graph *g = env->graph;
    size_t old = g->node.n; /* new nodes come behind */
    for (size_t i = 0; i < old; i++) {
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
        QG_TRY(replace(g, n, channels));
        env->changed++;
        QG_TRY(qg_pass_matched(env, "batchnorm"));
    }
    return QG_OK;
}

const qg_pass qg_pass_batchnorm_to_conv = {
    .name = "batchnorm-to-conv",
    .summary = "turn normalizations that stand alone into convolutions per channel",
    .needs = QG_A_TOPO | QG_A_SHAPE,
    .breaks = QG_A_TOPO | QG_A_SHAPE,
    .run = run,
};

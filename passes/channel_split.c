/* channel-split -- a channel between two layers that is large on both sides becomes two
 * channels of 1 / sqrt(2) each, so that the scales around it can be smaller:
 *
 *     up[c], down[c] >= threshold:    U gives channel c twice, W_U[c] / sqrt(2) each
 *                                     D reads both with W_D[:, c] / sqrt(2) each
 *
 * Where equalize balances a channel that is large on one side, this shrinks one that is
 * large on both.  Between U and D there are only nodes with one input that commute with
 * a factor per channel (trait HOMOGENEOUS), and nobody else reads there.  Layers with
 * groups stay.  Float outputs stay the same up to the order of sums.
 * Source   PPQ 0.6.6 quantization/optim/equalization.py ChannelwiseSplitPass, whose
 *          pairs may also span several layers; Zhao et al., "Improving Neural Network
 *          Quantization without Retraining using Outlier Channel Splitting", ICML
 *          2019 */
#include <math.h>

#include "engine/ir/edit.h"
#include "passes/passes.h"

/* A layer with its weights; `out` and `in`: axes of its channels. */
typedef struct layer {
    qg_node *node;
    uint32_t weight, bias; /* slots; bias QG_NONE: none */
    int out, in;
} layer;

/* Two layers and the values between them, which have `channels` along axis 1. */
typedef struct pair {
    layer up, down;
    QG_VEC(qg_value *) value;
    int64_t channels;
} pair;

typedef struct splitter {
    qg_pass_env *env;
    qg_arena *arena;
} splitter;

/* --- pairs --- */

static const qg_tensor *constant_of(const qg_node *n, uint32_t slot)
{
    const qg_value *v = slot < n->n_in ? n->in[slot] : NULL;
    return v && v->constant && v->constant->dtype == QG_F32 ? v->constant : NULL;
}

static qg_status read_layer(splitter *s, qg_node *n, layer *l, bool *is_layer)
{
    int w = qg_op_slot_of(n->op, 'w'), b = qg_op_slot_of(n->op, 'b');
    int64_t groups, transposed;
    *is_layer = false;
    if (!qg_node_has(n, QG_OP_COMPUTE) || !n->op->weight_axis || w < 0 ||
        !constant_of(n, (uint32_t)w) || constant_of(n, (uint32_t)w)->rank < 2)
        return QG_OK;
    QG_TRY(qg_attr_int(s->env->ctx, n, "group", 1, &groups));
    QG_TRY(qg_attr_int(s->env->ctx, n, "transA", 0, &transposed));
    int out = n->op->weight_axis(n);
    bool has_bias = b >= 0 && (uint32_t)b < n->n_in && n->in[b];
    if (groups != 1 || transposed || out < 0 || out > 1 ||
        (has_bias && !constant_of(n, (uint32_t)b)))
        return QG_OK;
    *l = (layer){ .node = n,
                  .weight = (uint32_t)w,
                  .bias = has_bias ? (uint32_t)b : QG_NONE,
                  .out = out,
                  .in = 1 - out };
    *is_layer = true;
    return QG_OK;
}

static bool is_relay(const qg_node *n)
{
    return qg_node_has(n, QG_OP_HOMOGENEOUS) && n->n_in == 1 && n->n_out == 1 &&
           n->out[0];
}

/* NULL, or what is wrong with a value between the layers. */
static const char *check_value(const pair *p, const qg_value *v)
{
    if (v->is_output)
        return "a graph output";
    if (v->use.n != 1)
        return "a value with several readers";
    if (v->type.rank < 2 || v->type.dim[1] != p->channels)
        return "a value with another number of channels";
    return NULL;
}

/* Follows the output of p->up to the next layer. */
static qg_status find_lower(splitter *s, pair *p, const char **why)
{
    bool found = false;
    qg_value *v = p->up.node->out[0];
    while (!*why && !found) {
        *why = check_value(p, v);
        if (*why)
            return QG_OK;
        QG_TRY(qg_vec_push(s->env->ctx, s->arena, &p->value, v));
        qg_node *n = v->use.at[0].node;
        if (is_relay(n))
            v = n->out[0];
        else if (v->use.at[0].slot == 0)
            QG_TRY(read_layer(s, n, &p->down, &found));
        if (!found && v->def != n)
            *why = "a reader that is neither a layer nor propagates a factor";
    }
    if (found &&
        constant_of(p->down.node, p->down.weight)->dim[p->down.in] != p->channels)
        *why = "a reader with another number of channels";
    return QG_OK;
}

/* --- splitting --- */

/* The index along the axis of element i. */
static int64_t index_of(const qg_tensor *t, int axis, int64_t i)
{
    return i / qg_dims_product(t, axis + 1, t->rank) % t->dim[axis];
}

static void measure(const qg_tensor *w, int axis, float *largest)
{
    for (int64_t i = 0; i < qg_tensor_count(w); i++) {
        float *at = &largest[index_of(w, axis, i)];
        *at = fmaxf(*at, fabsf(w->f32[i]));
    }
}

/* The tensor with the chosen channels scaled, and once more at the end of the axis. */
static qg_status widen(const splitter *s, const qg_tensor *t, int axis,
                       const int64_t *copy_of, int64_t wide, qg_tensor **out)
{
    qg_ctx *ctx = s->env->ctx;
    int64_t dim[QG_MAX_RANK], inner = qg_dims_product(t, axis + 1, t->rank);
    qg_tensor *y = QG_NEW(s->arena, qg_tensor);
    if (!y)
        return qg_nomem(ctx);
    for (int32_t k = 0; k < t->rank; k++)
        dim[k] = t->dim[k];
    dim[axis] = wide;
    qg_tensor_init(y, QG_F32, t->rank, dim);
    QG_TRY(qg_tensor_alloc(ctx, s->arena, y));
    for (int64_t i = 0; i < qg_tensor_count(y); i++) {
        int64_t c = index_of(y, axis, i), from = copy_of[c] < 0 ? c : copy_of[c];
        int64_t outer = i / inner / wide;
        double x = (double)t->f32[(outer * t->dim[axis] + from) * inner + i % inner];
        y->f32[i] = (float)(copy_of[c] < 0 ? x : x * sqrt(0.5));
    }
    *out = y;
    return QG_OK;
}

/* copy_of[wide]: the channel that a channel is half of; -1: it is as it was.  Returns
 * the number of channels that there will be. */
static int64_t choose(const pair *p, const float *up, const float *down, double limit,
                      int64_t *copy_of)
{
    int64_t wide = p->channels;
    for (int64_t c = 0; c < p->channels; c++) {
        bool both = (double)up[c] >= limit && (double)down[c] >= limit;
        copy_of[c] = both ? c : -1;
        if (both)
            copy_of[wide++] = c;
    }
    return wide;
}

static qg_status rewrite(const splitter *s, const pair *p, const int64_t *copy_of,
                         int64_t wide)
{
    qg_graph *g = s->env->graph;
    qg_node *up = p->up.node, *down = p->down.node;
    qg_tensor *upper, *lower, *bias = NULL;
    QG_TRY(widen(s, constant_of(up, p->up.weight), p->up.out, copy_of, wide, &upper));
    QG_TRY(
        widen(s, constant_of(down, p->down.weight), p->down.in, copy_of, wide, &lower));
    if (p->up.bias != QG_NONE)
        QG_TRY(widen(s, constant_of(up, p->up.bias), 0, copy_of, wide, &bias));
    QG_TRY(qg_edit_give_constant(g, up, p->up.weight, up->name, upper));
    QG_TRY(qg_edit_give_constant(g, down, p->down.weight, down->name, lower));
    if (bias)
        QG_TRY(qg_edit_give_constant(g, up, p->up.bias, up->name, bias));
    for (size_t i = 0; i < p->value.n; i++)
        p->value.at[i]->type.dim[1] = wide;
    s->env->changed++;
    return QG_OK;
}

static qg_status split(splitter *s, const pair *p)
{
    size_t n = (size_t)p->channels;
    float *up = QG_NEWN(s->arena, n, float), *down = QG_NEWN(s->arena, n, float);
    int64_t *copy_of = QG_NEWN(s->arena, 2 * n, int64_t);
    double limit = qg_pass_value(s->env, "threshold");
    if (!up || !down || !copy_of)
        return qg_nomem(s->env->ctx);
    measure(constant_of(p->up.node, p->up.weight), p->up.out, up);
    measure(constant_of(p->down.node, p->down.weight), p->down.in, down);
    int64_t wide = choose(p, up, down, limit, copy_of);
    if (wide == p->channels)
        return qg_pass_near_miss(s->env, "channels", p->up.node,
                                 "no channel is %g or more on both sides", limit);
    QG_TRY(qg_pass_matched(s->env, "channels"));
    return rewrite(s, p, copy_of, wide);
}

static qg_status visit(splitter *s, qg_node *n)
{
    pair p = { 0 };
    bool is_layer;
    const char *why = NULL;
    QG_TRY(read_layer(s, n, &p.up, &is_layer));
    if (!is_layer || n->n_out == 0 || !n->out[0])
        return QG_OK;
    p.channels = constant_of(n, p.up.weight)->dim[p.up.out];
    if (p.up.bias != QG_NONE && (constant_of(n, p.up.bias)->rank != 1 ||
                                 constant_of(n, p.up.bias)->dim[0] != p.channels))
        why = "a bias of another size";
    if (!why)
        QG_TRY(find_lower(s, &p, &why));
    if (why)
        return qg_pass_near_miss(s->env, "channels", n, "behind it is %s", why);
    return split(s, &p);
}

static qg_status run(qg_pass_env *env)
{
    splitter s = { env, env->graph->arena };
    QG_TRY(qg_pass_pattern(env, "channels", "no layer is behind another one"));
    for (int k = 0; k < (int)qg_pass_value(env, "iterations"); k++)
        for (size_t i = 0; i < env->graph->node.n; i++)
            QG_TRY(visit(&s, env->graph->node.at[i]));
    return QG_OK;
}

static const qg_pass_param param[] = {
    {"threshold", "channels as large on both sides are split", 2, 0,
     1e6 }, /* as PPQ */
    { "iterations",          "number of passes; each may double channels", 1, 1, 10 },
    { 0        },
};

const qg_pass qg_pass_channel_split = {
    .name = "channel-split",
    .summary = "split channels that are large in two consecutive layers",
    .needs = QG_A_TOPO | QG_A_SHAPE,
    .breaks = QG_A_TOPO | QG_A_SHAPE,
    .once = true,
    .run = run,
    .param = param,
};

/* equalize -- rescales the channels of consecutive layers to weights of similar
 * magnitude, so that a per-tensor scale wastes fewer steps (cross-layer equalization).
 *
 * Between layers U and D there are only nodes that commute with a positive factor per
 * channel (trait HOMOGENEOUS).  Channel c of U's outputs, hence the rows of their
 * weights and their biases, is multiplied by s[c], the columns of D's weights are
 * divided by it, and every other value of the network is unchanged:
 *
 *     s[c] = clamp(sqrt(down[c] / up[c]), 0.1, 10)
 *     up[c]    largest |weight| of output channel c over U; optionally also factor *
 *              |bias| and factor * largest |activation|
 *     down[c]  largest |weight| of input channel c over D
 *     s[c] = 1 where up[c] + down[c] < threshold
 *
 * Every path that carries the factor must end in a layer.  A graph output, graph input
 * or constant on it, or a node that is neither layer nor homogeneous, leaves the pair
 * unchanged with a near miss (defects D06 and D07 are fixed here; 0 / 0 is 1, which
 * fixes D08).  Quirk ppq-equalize searches only down from a layer and up again, as PPQ
 * does.
 *
 * Computed in float32 in the order of the source, to reproduce its goldens.
 * Source   docs/evidence/ppq-behaviour.md#equalization;
 *          Nagel et al., "Data-Free Quantization through Weight
 *          Equalization and Bias Correction", ICCV 2019 */
#include <assert.h>
#include <math.h>

#include "engine/ir/edit.h"
#include "passes/passes.h"
#include "passes/util_largest.h"

/* A COMPUTE node whose weights may be rescaled. */
typedef struct layer {
    qg_node *node;
    uint32_t weight_slot, bias_slot;
    qg_tensor *weight, *bias; /* own copies; bias NULL when there is none */
    float *largest;           /* [out] of the activation; NULL: not requested */
    bool out_first;           /* axis 0 of the weight counts output channels */
    int64_t groups, out, in;  /* channels */
    bool changed;             /* the copies must go into the graph */
} layer;

typedef struct pair {
    QG_VEC(layer *) up, down;
    int64_t channels;
} pair;

typedef struct equalizer equalizer;

/* Behaviours that quirks replace. */
typedef struct behaviours {
    const char *(*border)(const qg_value *v); /* reason why v cannot be scaled, or
                                               * NULL */
    qg_status (*flood)(equalizer *e, layer *l, pair *p, const char **why);
    bool (*counts)(const qg_value *v); /* it must have the pair's channels */
    float (*factor)(const equalizer *e, float up, float down);
    void (*scale_activation)(layer *l, const float *s);
    /* The input channel to which an element of a grouped weight counts when
     * measured. */
    int64_t (*measured_channel)(const layer *l, int64_t i);
    bool transposed_too; /* a layer with transposed data counts like any other */
} behaviours;

struct equalizer {
    qg_pass_env *env;
    behaviours how;
    qg_arena *arena;
    layer **of;     /* [nodes] NULL: not a layer */
    uint8_t *taken; /* [nodes] in some pair's U already, or refused with it */
    uint8_t *mark;  /* [values] carries the factor of the current pair */
    QG_VEC(qg_value *) work;
    QG_VEC(pair) pair;
};

/* --- layers --- */

static const qg_tensor *float_constant(const qg_node *n, int slot)
{
    const qg_value *v = slot >= 0 && (uint32_t)slot < n->n_in ? n->in[slot] : NULL;
    return v && v->constant && v->constant->dtype == QG_F32 ? v->constant : NULL;
}

/* Weights [out, in / groups, ...], or [in, out / groups, ...] when out channels come
 * second; data_axis counts the channels of the data.  False for other layouts. */
static bool read_channels(layer *l, int axis, int data_axis)
{
    const qg_tensor *w = l->weight, *x = &l->node->in[0]->type;
    const qg_tensor *y = &l->node->out[0]->type;
    if (w->rank < 2 || axis < 0 || axis > 1 || x->rank < 2 || y->rank < 2)
        return false;
    l->out_first = axis == 0;
    l->out = y->dim[1];
    l->in = x->dim[data_axis];
    return l->groups > 0 && l->out > 0 && l->in > 0 &&
           w->dim[0] == (l->out_first ? l->out : l->in) &&
           w->dim[1] * l->groups == (l->out_first ? l->in : l->out);
}

/* *out stays NULL when the node is not a layer or its channels are not known. */
static qg_status read_layer(equalizer *e, qg_node *n, layer **out)
{
    qg_ctx *ctx = e->env->ctx;
    int w = qg_op_slot_of(n->op, 'w'), b = qg_op_slot_of(n->op, 'b');
    const qg_tensor *weight = float_constant(n, w), *bias = float_constant(n, b);
    bool has_bias = b >= 0 && (uint32_t)b < n->n_in && n->in[b];
    if (!qg_node_has(n, QG_OP_COMPUTE) || !n->op->weight_axis || b < 0 || !weight ||
        (has_bias && !bias) || !n->in[0] || !n->out[0])
        return QG_OK;
    layer *l = QG_NEW(e->arena, layer);
    int64_t transposed;
    if (!l)
        return qg_nomem(ctx);
    *l = (layer){ .node = n, .weight_slot = (uint32_t)w, .bias_slot = (uint32_t)b };
    QG_TRY(qg_attr_int(ctx, n, "group", 1, &l->groups));
    QG_TRY(qg_attr_int(ctx, n, "transA", 0, &transposed));
    if (transposed && !e->how.transposed_too) /* its channels lie along axis 0 */
        return QG_OK;
    QG_TRY(qg_tensor_clone(ctx, e->arena, weight, &l->weight));
    if (bias)
        QG_TRY(qg_tensor_clone(ctx, e->arena, bias, &l->bias));
    if (!read_channels(l, n->op->weight_axis(n), transposed ? 0 : 1) ||
        (bias && qg_tensor_count(bias) != l->out))
        return QG_OK;
    *out = l;
    return QG_OK;
}

/* The output (input) channel that element i of the weight belongs to: axis 0 counts
 * channels, axis 1 those within a group. */
static int64_t channel(const layer *l, int64_t i, bool of_out)
{
    const qg_tensor *w = l->weight;
    int64_t inner = qg_dims_product(w, 2, w->rank);
    int64_t first = i / inner / w->dim[1], second = i / inner % w->dim[1];
    if (of_out == l->out_first)
        return first;
    return first / (w->dim[0] / l->groups) * w->dim[1] + second;
}

/* --- pairs --- */

/* A positive factor per channel passes through; at level 1 with one data input only. */
static bool is_relay(const equalizer *e, const qg_node *n)
{
    size_t data = 0;
    for (size_t i = 0; i < n->n_in; i++)
        data += qg_op_in_role(n->op, i) == 'd';
    return qg_node_has(n, QG_OP_HOMOGENEOUS) && n->n_out > 0 && n->out[0] &&
           (data == 1 || qg_pass_value(e->env, "level") >= 2);
}

/* Marks v as multiplied by the factor; its neighbours are visited later. */
static qg_status carry(equalizer *e, qg_value *v)
{
    if (e->mark[v->id])
        return QG_OK;
    e->mark[v->id] = 1;
    return qg_vec_push(e->env->ctx, e->arena, &e->work, v);
}

#define ADD_ONCE(e, list, l)                                                           \
    do {                                                                               \
        size_t k_ = 0;                                                                 \
        while (k_ < (list)->n && (list)->at[k_] != (l))                                \
            k_++;                                                                      \
        if (k_ == (list)->n)                                                           \
            QG_TRY(qg_vec_push((e)->env->ctx, (e)->arena, (list), (l)));               \
    } while (0)

/* Boundary of the part that may be scaled. */
static const char *border(const qg_value *v)
{
    if (!v->def)
        return v->constant ? "a constant that would have to be scaled"
                           : "a graph input that cannot be scaled";
    return v->is_output ? "a graph output that would be scaled" : NULL;
}

static qg_status refuse(equalizer *e, const qg_node *n, const char **why)
{
    *why = qg_arena_printf(e->arena,
                           "node '%s' (%s), which is neither a layer with constant "
                           "weights nor propagates a factor",
                           n->name, n->op->name);
    return *why ? QG_OK : qg_nomem(e->env->ctx);
}

/* The producer of v must be scaled as well.  *why stays NULL on success. */
static qg_status visit_producer(equalizer *e, const qg_value *v, pair *p,
                                const char **why)
{
    qg_node *n = v->def;
    if (!n) {
        *why = e->how.border ? e->how.border(v) : NULL;
    } else if (is_relay(e, n)) {
        for (uint32_t i = 0; i < n->n_in; i++)
            if (n->in[i] && qg_op_in_role(n->op, i) == 'd')
                QG_TRY(carry(e, n->in[i]));
    } else if (!e->of[n->id] || v->def_slot != 0) {
        return refuse(e, n, why);
    } else {
        ADD_ONCE(e, &p->up, e->of[n->id]);
    }
    return QG_OK;
}

/* Every reader of v must undo the factor. */
static qg_status visit_readers(equalizer *e, const qg_value *v, pair *p,
                               const char **why)
{
    *why = e->how.border ? e->how.border(v) : NULL;
    for (size_t i = 0; i < v->use.n && !*why; i++) {
        qg_node *n = v->use.at[i].node;
        uint32_t slot = v->use.at[i].slot;
        if (is_relay(e, n) && qg_op_in_role(n->op, slot) == 'd')
            QG_TRY(carry(e, n->out[0]));
        else if (e->of[n->id] && slot == 0)
            ADD_ONCE(e, &p->down, e->of[n->id]);
        else
            return refuse(e, n, why);
    }
    return QG_OK;
}

/* All nodes and values that carry the factor once layer l does: closed in both
 * directions. */
static qg_status flood(equalizer *e, layer *l, pair *p, const char **why)
{
    e->work.n = 0;
    memset(e->mark, 0, e->env->graph->value.n);
    QG_TRY(carry(e, l->node->out[0]));
    for (size_t i = 0; i < e->work.n && !*why; i++) {
        QG_TRY(visit_producer(e, e->work.at[i], p, why));
        if (!*why)
            QG_TRY(visit_readers(e, e->work.at[i], p, why));
    }
    return QG_OK;
}

/* All must have the same number of channels: broadcasting along them would mix
 * factors. */
static const char *count_channels(const equalizer *e, pair *p)
{
    p->channels = p->up.n ? p->up.at[0]->out : 0;
    if (p->up.n == 0 || p->down.n == 0)
        return "no layer that could undo the factor";
    for (size_t i = 0; i < p->up.n; i++)
        if (p->up.at[i]->out != p->channels)
            return "layers of different numbers of channels";
    for (size_t i = 0; i < p->down.n; i++)
        if (p->down.at[i]->in != p->channels)
            return "layers of different numbers of channels";
    for (size_t i = 0; i < e->work.n; i++) {
        const qg_tensor *t = &e->work.at[i]->type;
        bool counts = !e->how.counts || e->how.counts(e->work.at[i]);
        if (counts && (t->rank < 2 || t->dim[1] != p->channels))
            return "a value with another number of channels";
    }
    return NULL;
}

/* A layer whose pair was refused is not tried again. */
static qg_status find_pair(equalizer *e, layer *l)
{
    const char *why = NULL;
    pair p = { 0 };
    QG_TRY(e->how.flood(e, l, &p, &why));
    for (size_t k = 0; k < p.up.n; k++)
        e->taken[p.up.at[k]->node->id] = 1;
    if (!why)
        why = count_channels(e, &p);
    if (why)
        return qg_pass_near_miss(e->env, "layers-in-a-row", l->node,
                                 "next to its output is %s", why);
    QG_TRY(qg_pass_matched(e->env, "layers-in-a-row"));
    return qg_vec_push(e->env->ctx, e->arena, &e->pair, p);
}

/* In order of node ids, with those listed last at the end: the scales depend on the
 * order of pairs. */
static qg_status find_pairs(equalizer *e)
{
    const uint8_t *last;
    size_t n = e->env->graph->node.n;
    QG_TRY(qg_pass_listed_last(e->env, e->arena, &last));
    for (int turn = 0; turn < 2; turn++)
        for (size_t i = 0; i < n; i++)
            if (e->of[i] && !e->taken[i] && last[i] == turn)
                QG_TRY(find_pair(e, e->of[i]));
    return QG_OK;
}

/* --- one pair, once --- */

static void widen(float *at, float x)
{
    x = fabsf(x);
    *at = x > *at ? x : *at;
}

static void measure_up(const equalizer *e, const layer *l, float *up)
{
    float bias = (float)qg_pass_value(e->env, "bias-factor");
    float activation = (float)qg_pass_value(e->env, "activation-factor");
    for (int64_t i = 0; i < qg_tensor_count(l->weight); i++)
        widen(&up[channel(l, i, true)], l->weight->f32[i]);
    for (int64_t c = 0; c < l->out; c++) {
        if (l->bias && qg_pass_value(e->env, "bias") != 0)
            widen(&up[c], l->bias->f32[c] * bias);
        if (l->largest)
            widen(&up[c], l->largest[c] * activation);
    }
}

static int64_t in_channel(const layer *l, int64_t i) { return channel(l, i, false); }

static void measure_down(const equalizer *e, const layer *l, float *down)
{
    for (int64_t i = 0; i < qg_tensor_count(l->weight); i++)
        widen(&down[e->how.measured_channel(l, i)], l->weight->f32[i]);
}

/* The source's formula, step by step in float32. */
static float formula(const equalizer *e, float up, float down)
{
    float threshold = (float)qg_pass_value(e->env, "threshold");
    if (up + down < threshold)
        return 1;
    float s = 1 / sqrtf(up / down);
    return s < 0.1f ? 0.1f : s > 10.0f ? 10.0f : s;
}

static float factor(const equalizer *e, float up, float down)
{
    float s = up == 0 || down == 0 ? 1 : formula(e, up, down);
    assert(s > 0);
    return s;
}

static void scale_activation(layer *l, const float *s)
{
    for (int64_t c = 0; c < l->out; c++)
        l->largest[c] *= s[c];
}

static void scale_up(const equalizer *e, layer *l, const float *s)
{
    for (int64_t i = 0; i < qg_tensor_count(l->weight); i++)
        l->weight->f32[i] *= s[channel(l, i, true)];
    for (int64_t c = 0; l->bias && c < l->out; c++)
        l->bias->f32[c] *= s[c];
    if (l->largest && e->how.scale_activation)
        e->how.scale_activation(l, s);
    l->changed = true;
}

static void scale_down(layer *l, const float *s)
{
    for (int64_t i = 0; i < qg_tensor_count(l->weight); i++)
        l->weight->f32[i] /= s[channel(l, i, false)];
    l->changed = true;
}

/* A layer may be on both sides (a residual block): all is measured before anything is
 * scaled.  scratch: [2 * channels]. */
static void equalize(const equalizer *e, const pair *p, float *scratch)
{
    float *s = scratch, *down = scratch + p->channels;
    memset(scratch, 0, 2 * (size_t)p->channels * sizeof *scratch);
    for (size_t i = 0; i < p->up.n; i++)
        measure_up(e, p->up.at[i], s);
    for (size_t i = 0; i < p->down.n; i++)
        measure_down(e, p->down.at[i], down);
    for (int64_t c = 0; c < p->channels; c++)
        s[c] = e->how.factor(e, s[c], down[c]);
    for (size_t i = 0; i < p->up.n; i++)
        scale_up(e, p->up.at[i], s);
    for (size_t i = 0; i < p->down.n; i++)
        scale_down(p->down.at[i], s);
}

/* --- all of them --- */

static qg_status begin(equalizer *e)
{
    qg_graph *g = e->env->graph;
    e->of = QG_NEWN(e->arena, g->node.n, layer *);
    e->taken = QG_NEWN(e->arena, g->node.n, uint8_t);
    e->mark = QG_NEWN(e->arena, g->value.n, uint8_t);
    if (!e->of || !e->taken || !e->mark)
        return qg_nomem(e->env->ctx);
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        int w = qg_op_slot_of(n->op, 'w');
        QG_TRY(read_layer(e, g->node.at[i], &e->of[i]));
        if (!e->of[i] && qg_node_has(n, QG_OP_COMPUTE) && float_constant(n, w))
            QG_TRY(
                qg_pass_near_miss(e->env, "layers-in-a-row", n,
                                  "it is no layer whose channels are known, expected "
                                  "a convolution or Gemm with constants alone"));
    }
    return QG_OK;
}

/* Measures the outputs of the layers of all pairs on the samples. */
static qg_status measure_activations(equalizer *e)
{
    qg_graph *g = e->env->graph;
    float **largest;
    uint8_t *wanted = QG_NEWN(e->arena, g->node.n, uint8_t);
    if (!wanted)
        return qg_nomem(e->env->ctx);
    for (size_t i = 0; i < e->pair.n; i++)
        for (size_t k = 0; k < e->pair.at[i].up.n; k++)
            wanted[e->pair.at[i].up.at[k]->node->id] = 1;
    QG_TRY(qg_largest_outputs(e->env, wanted, e->arena, &largest));
    for (size_t i = 0; i < g->node.n; i++)
        if (wanted[i])
            e->of[i]->largest = largest[i];
    return QG_OK;
}

static qg_status iterate(equalizer *e)
{
    int64_t most = 0;
    for (size_t i = 0; i < e->pair.n; i++)
        most = e->pair.at[i].channels > most ? e->pair.at[i].channels : most;
    float *scratch = QG_NEWN(e->arena, 2 * (size_t)most, float);
    if (!scratch)
        return qg_nomem(e->env->ctx);
    for (int k = 0; k < (int)qg_pass_value(e->env, "iterations"); k++)
        for (size_t i = 0; i < e->pair.n; i++)
            equalize(e, &e->pair.at[i], scratch);
    return QG_OK;
}

/* Constants with other readers are copied, never modified. */
static qg_status write_back(equalizer *e)
{
    qg_graph *g = e->env->graph;
    for (size_t i = 0; i < g->node.n; i++) {
        layer *l = e->of[i];
        if (!l || !l->changed)
            continue;
        const char *name = l->node->name;
        QG_TRY(qg_edit_give_constant(g, l->node, l->weight_slot, name, l->weight));
        if (l->bias)
            QG_TRY(qg_edit_give_constant(g, l->node, l->bias_slot, name, l->bias));
        e->env->changed++;
    }
    return QG_OK;
}

/* --- as PPQ does it --- */

/* All ends below the layer, then all ends above those. */
static qg_status ppq_flood(equalizer *e, layer *l, pair *p, const char **why)
{
    e->work.n = 0;
    memset(e->mark, 0, e->env->graph->value.n);
    QG_TRY(carry(e, l->node->out[0]));
    for (size_t i = 0; i < e->work.n && !*why; i++)
        QG_TRY(visit_readers(e, e->work.at[i], p, why));
    e->work.n = 0;
    memset(e->mark, 0, e->env->graph->value.n);
    for (size_t i = 0; i < p->down.n; i++)
        QG_TRY(carry(e, p->down.at[i]->node->in[0]));
    for (size_t i = 0; i < e->work.n && !*why; i++)
        QG_TRY(visit_producer(e, e->work.at[i], p, why));
    return QG_OK;
}

/* Channels of a grouped convolution are measured group by group within each place of a
 * group, and scaled place by place within each group. */
static int64_t ppq_measured_channel(const layer *l, int64_t i)
{
    const qg_tensor *w = l->weight;
    int64_t inner = qg_dims_product(w, 2, w->rank);
    int64_t first = i / inner / w->dim[1], second = i / inner % w->dim[1];
    return l->out_first ? second * l->groups + first / (w->dim[0] / l->groups)
                        : channel(l, i, false);
}

/* PPQ ignores inputs and constants. */
static bool ppq_counts(const qg_value *v) { return v->def != NULL; }

static const behaviours ordinary = { .border = border,
                                     .flood = flood,
                                     .factor = factor,
                                     .scale_activation = scale_activation,
                                     .measured_channel = in_channel };
static const behaviours ppq_behaviours = { .flood = ppq_flood,
                                           .counts = ppq_counts,
                                           .factor = formula,
                                           .measured_channel = ppq_measured_channel,
                                           .transposed_too = true };

static const qg_quirk_row quirk[] = {
    QG_SWAP_ALL(
        PPQ_EQUALIZE,
        "D06, D07: graph outputs, inputs and constants next to the path are ignored; "
        "activations are measured once and never rescaled; channels of groups are "
        "measured in a different order than scaled; transA is ignored",
        QG_PPQ "quantization/optim/equalization.py LayerwiseEqualizationPass",
        ppq_behaviours),
    { 0 },
};

static qg_status run(qg_pass_env *env)
{
    equalizer e = { .env = env, .how = ordinary, .arena = env->graph->arena };
    qg_pass_quirks(env, &e.how);
    QG_TRY(begin(&e));
    QG_TRY(find_pairs(&e));
    if (e.pair.n == 0)
        return QG_OK;
    if (qg_pass_value(env, "activations") != 0)
        QG_TRY(measure_activations(&e));
    QG_TRY(iterate(&e));
    return write_back(&e);
}

/* Defaults: those of PPQ, docs/evidence/ppq-behaviour.md#defaults. */
/* clang-format off */
static const qg_pass_param param[] = {
    { "level", "2: pairs may span sums of several layers", 1, 1, 2 },
    { "iterations", "number of passes over all pairs", 10, 1, 1000 },
    { "threshold", "channels with up + down below it are not scaled", 0.5, 0, 1e6 },
    { "bias", "whether ranges include biases", 0, 0, 1 },
    { "bias-factor", "factor of biases relative to weights", 0.5, 0, 1e6 },
    { "activations", "whether ranges include activations (needs samples)", 0, 0, 1 },
    { "activation-factor", "factor of activations relative to weights", 0.5, 0, 1e6 },
    { 0 },
};
/* clang-format on */

const qg_pass qg_pass_equalize = {
    .name = "equalize",
    .summary = "equalize weight ranges across channels of consecutive layers",
    .needs = QG_A_TOPO | QG_A_SHAPE,
    .breaks = QG_A_TOPO,
    .once = true,
    .run = run,
    .param = param,
    .quirk = quirk,
};

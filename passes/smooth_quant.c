/* smooth-quant -- moves outliers of single channels from activations into the weights
 * that read them.  For Y = X W and a factor s[j] per channel j of X,
 *
 *     s[j] = max |X[:, j]|^alpha / max |W[j, :]|^(1 - alpha)
 *     X W = (X / s) (s W)
 *
 * so that a scale per tensor wastes fewer steps on X; W has a scale per channel or
 * more room.  X / s costs nothing where the producer of X has constants that scale its
 * output (trait GAIN: the gain and shift of a normalization, the factor of a Mul), or
 * adds such values (elementwise and HOMOGENEOUS): the constants are divided.
 *
 * All readers of X must be products that sum over its last axis, with constant
 * matrices; they share s.  Otherwise X stays, with a near miss.  s is 1 where X or W is
 * 0, and within [1e-4, 1e4].  Float outputs change by rounding only.
 *
 * Source   Xiao et al., "SmoothQuant", ICML 2023, equation 4; NNCF's smooth_quant
 *          algorithm shares s between readers of one value
 * Cost     one float run per sample */
#include <math.h>

#include "engine/ir/edit.h"
#include "passes/passes.h"
#include "passes/util_largest.h"

/* A constant operand that is divided by s. */
typedef struct divided {
    qg_node *node;
    uint32_t slot;
} divided;

/* One value and what is rewritten for it. */
typedef struct group {
    qg_value *x;
    int64_t channels;
    QG_VEC(divided) gain;
} group;

typedef struct smoother {
    qg_pass_env *env;
    qg_arena *arena;
    QG_VEC(group) group;
} smoother;

/* --- readers --- */

/* The axis of the matrix that is summed over; -1: the node is no such product. */
static int summed_axis(const qg_node *n, uint32_t slot, int64_t channels)
{
    int w = qg_op_slot_of(n->op, 'w');
    const qg_value *v = w >= 0 && (uint32_t)w < n->n_in ? n->in[w] : NULL;
    if (!qg_node_has(n, QG_OP_COMPUTE) || slot != 0 || !n->op->weight_axis || !v ||
        !v->constant || v->constant->dtype != QG_F32 || v->constant->rank != 2)
        return -1;
    int out = n->op->weight_axis(n);
    if (out < 0 || out > 1 || v->constant->dim[1 - out] != channels)
        return -1;
    return 1 - out;
}

/* NULL, or why not all readers are products over the last axis of x. */
static qg_status check_readers(smoother *s, const group *g, const char **why)
{
    for (size_t i = 0; i < g->x->use.n && !*why; i++) {
        const qg_node *n = g->x->use.at[i].node;
        int64_t transposed = 0;
        if (summed_axis(n, g->x->use.at[i].slot, g->channels) < 0)
            *why = "a reader that is no product with a constant matrix";
        else
            QG_TRY(qg_attr_int(s->env->ctx, n, "transA", 0, &transposed));
        if (transposed)
            *why = "a reader that transposes its data";
    }
    if (g->x->is_output)
        *why = "a graph output";
    return QG_OK;
}

/* --- the producer --- */

static bool is_vector(const qg_value *v, int64_t channels)
{
    return v && v->constant && v->constant->dtype == QG_F32 && v->constant->rank >= 1 &&
           v->constant->dim[v->constant->rank - 1] == channels &&
           qg_tensor_count(v->constant) == channels;
}

static qg_status add_gain(smoother *s, group *g, qg_node *n, uint32_t slot)
{
    return qg_vec_push(s->env->ctx, s->arena, &g->gain, (divided){ n, slot });
}

/* The constants of a node that scales by them: one of two factors, or a gain and
 * shifts. */
static qg_status absorb_gain(smoother *s, group *g, qg_node *n, const char **why)
{
    bool product = qg_node_has(n, QG_OP_ELEMENTWISE);
    if (product && is_vector(n->in[0], g->channels))
        return add_gain(s, g, n, 0);
    if (product && is_vector(n->in[1], g->channels))
        return add_gain(s, g, n, 1);
    for (uint32_t k = 1; k < n->n_in && !product; k++) {
        if (!n->in[k] && k > 1)
            continue;
        if (!is_vector(n->in[k], g->channels))
            break;
        QG_TRY(add_gain(s, g, n, k));
        if (k + 1 == n->n_in)
            return QG_OK;
    }
    *why = "a producer whose gain is no constant per channel";
    return QG_OK;
}

/* Walks from x upwards; all values on the way are read here alone. */
static qg_status absorb(smoother *s, group *g, const char **why)
{
    QG_VEC(const qg_value *) work = { 0 };
    QG_TRY(qg_vec_push(s->env->ctx, s->arena, &work, g->x));
    for (size_t i = 0; i < work.n && !*why; i++) {
        qg_node *n = work.at[i]->def;
        if (!n)
            *why = "a graph input";
        else if (i > 0 && qg_value_watchers(work.at[i]) != 1)
            *why = "a value before it that has another reader";
        else if (qg_node_has(n, QG_OP_GAIN))
            QG_TRY(absorb_gain(s, g, n, why));
        else if (qg_node_has(n, QG_OP_HOMOGENEOUS) && qg_node_has(n, QG_OP_ELEMENTWISE))
            for (uint32_t k = 0; k < n->n_in; k++) {
                if (is_vector(n->in[k], g->channels))
                    QG_TRY(add_gain(s, g, n, k));
                else if (n->in[k] && n->in[k]->constant)
                    *why = "a constant that is no vector of its channels";
                else if (n->in[k])
                    QG_TRY(qg_vec_push(s->env->ctx, s->arena, &work, n->in[k]));
            }
        else
            *why = "a producer that cannot take a factor";
    }
    return QG_OK;
}

/* --- groups --- */

static bool feeds_product(const qg_value *x, int64_t channels)
{
    for (size_t i = 0; i < x->use.n; i++)
        if (summed_axis(x->use.at[i].node, x->use.at[i].slot, channels) >= 0)
            return true;
    return false;
}

static qg_status find_group(smoother *s, qg_node *n)
{
    const char *why = NULL;
    group g = { .x = n->n_out ? n->out[0] : NULL };
    const qg_tensor *t = g.x ? &g.x->type : NULL;
    if (!t || t->dtype != QG_F32 || t->rank < 2 || t->dim[t->rank - 1] < 1)
        return QG_OK;
    g.channels = t->dim[t->rank - 1];
    if (!feeds_product(g.x, g.channels))
        return QG_OK;
    QG_TRY(check_readers(s, &g, &why));
    if (!why)
        QG_TRY(absorb(s, &g, &why));
    if (why)
        return qg_pass_near_miss(s->env, "outliers", n, "its output has %s", why);
    QG_TRY(qg_pass_matched(s->env, "outliers"));
    return qg_vec_push(s->env->ctx, s->arena, &s->group, g);
}

/* --- factors --- */

static void widen(double *at, float x) { *at = fmax(*at, (double)fabsf(x)); }

static qg_tensor *matrix_of(const qg_node *n, uint32_t *slot)
{
    *slot = (uint32_t)qg_op_slot_of(n->op, 'w');
    return (qg_tensor *)n->in[*slot]->constant; /* read, and cloned to be written */
}

/* The index along the axis of element i of a matrix. */
static int64_t row_of(const qg_tensor *w, int axis, int64_t i)
{
    return axis == 0 ? i / w->dim[1] : i % w->dim[1];
}

static qg_status find_factors(const smoother *s, const group *g, const float *largest,
                              double **out)
{
    double alpha = qg_pass_value(s->env, "alpha");
    double *f = QG_NEWN(s->arena, (size_t)g->channels, double);
    if (!f)
        return qg_nomem(s->env->ctx);
    for (size_t i = 0; i < g->x->use.n; i++) {
        const qg_node *n = g->x->use.at[i].node;
        uint32_t slot;
        const qg_tensor *w = matrix_of(n, &slot);
        int axis = summed_axis(n, 0, g->channels);
        for (int64_t k = 0; k < qg_tensor_count(w); k++)
            widen(&f[row_of(w, axis, k)], w->f32[k]);
    }
    for (int64_t j = 0; j < g->channels; j++) {
        double x = (double)largest[j], w = f[j];
        f[j] = x > 0 && w > 0 ? pow(x, alpha) / pow(w, 1 - alpha) : 1;
        f[j] = fmin(fmax(f[j], 1e-4), 1e4);
    }
    *out = f;
    return QG_OK;
}

static qg_status scale_matrix(const smoother *s, const group *g, qg_node *n,
                              const double *f)
{
    qg_graph *graph = s->env->graph;
    uint32_t slot;
    qg_tensor *w;
    QG_TRY(qg_tensor_clone(s->env->ctx, graph->arena, matrix_of(n, &slot), &w));
    int axis = summed_axis(n, 0, g->channels);
    for (int64_t k = 0; k < qg_tensor_count(w); k++)
        w->f32[k] = (float)((double)w->f32[k] * f[row_of(w, axis, k)]);
    return qg_edit_give_constant(graph, n, slot, n->name, w);
}

static qg_status divide_gain(const smoother *s, const divided *d, const double *f)
{
    qg_graph *graph = s->env->graph;
    qg_tensor *t;
    QG_TRY(
        qg_tensor_clone(s->env->ctx, graph->arena, d->node->in[d->slot]->constant, &t));
    for (int64_t k = 0; k < qg_tensor_count(t); k++)
        t->f32[k] = (float)((double)t->f32[k] / f[k]);
    return qg_edit_give_constant(graph, d->node, d->slot, d->node->name, t);
}

/* A node that reads x twice has one matrix; it is scaled once. */
static qg_status smooth(smoother *s, const group *g, const float *largest)
{
    double *f;
    QG_TRY(find_factors(s, g, largest, &f));
    for (size_t i = 0; i < g->x->use.n; i++)
        QG_TRY(scale_matrix(s, g, g->x->use.at[i].node, f));
    for (size_t i = 0; i < g->gain.n; i++)
        QG_TRY(divide_gain(s, &g->gain.at[i], f));
    s->env->changed++;
    return QG_OK;
}

static qg_status run(qg_pass_env *env)
{
    qg_graph *g = env->graph;
    smoother s = { .env = env, .arena = g->arena };
    float **largest;
    uint8_t *wanted = QG_NEWN(g->arena, g->node.n, uint8_t);
    if (!wanted)
        return qg_nomem(env->ctx);
    QG_TRY(qg_pass_pattern(env, "outliers", "no product reads a value with a gain"));
    for (size_t i = 0; i < g->node.n; i++)
        QG_TRY(find_group(&s, g->node.at[i]));
    if (s.group.n == 0)
        return QG_OK;
    for (size_t i = 0; i < s.group.n; i++)
        wanted[s.group.at[i].x->def->id] = QG_LARGEST_LAST;
    QG_TRY(qg_largest_outputs(env, wanted, g->arena, &largest));
    for (size_t i = 0; i < s.group.n; i++)
        QG_TRY(smooth(&s, &s.group.at[i], largest[s.group.at[i].x->def->id]));
    return QG_OK;
}

static const qg_pass_param param[] = {
    {"alpha", "how much of an outlier moves: 0 none, 1 all of it", 0.5, 0, 1 },
    { 0   },
};

const qg_pass qg_pass_smooth_quant = {
    .name = "smooth-quant",
    .summary = "move outliers of activation channels into the weights behind them",
    .needs = QG_A_TOPO | QG_A_SHAPE,
    .breaks = QG_A_TOPO,
    .once = true,
    .run = run,
    .param = param,
};

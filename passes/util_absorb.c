#include "passes/util_absorb.h"

#include <assert.h>

#include "engine/ir/affine.h"
#include "engine/ir/edit.h"

/* One attempt: y = scale[c] * p(x) + shift[c] becomes p' (x). */
typedef struct attempt {
    qg_pass_env *env;
    const char *pattern;
    const qg_absorb_how *how;
    qg_node *n, *p;        /* the affine node, and the compute node before it */
    qg_value *mid;         /* p's output, n's input */
    uint32_t weight, bias; /* slots of p */
    int axis;              /* of output channels in the weight */
    float beta;            /* p adds beta * bias */
    qg_affine f;
} attempt;

/* Ends the attempt with a near miss; the status is that of recording it. */
#define MISS(a, ...)                                                                   \
    do {                                                                               \
        *fits = false;                                                                 \
        return qg_pass_near_miss((a)->env, (a)->pattern, (a)->p, __VA_ARGS__);         \
    } while (0)

/* The removed value must have no other reader. */
static qg_status check_between(attempt *a, bool *fits)
{
    const qg_node *n = a->n;
    if (a->mid->is_output)
        MISS(a, "its output '%s' is a graph output, expected an inner value",
             a->mid->name);
    if (a->mid->use.n != 1)
        MISS(a, "its output '%s' has %zu consumers, expected 1", a->mid->name,
             a->mid->use.n);
    for (uint32_t i = 1; i < n->n_out; i++)
        if (n->out[i])
            MISS(a, "node '%s' has other outputs, expected a single output", n->name);
    return QG_OK;
}

/* Weight and bias are constants of the right length. */
static qg_status check_parameters(attempt *a, bool *fits)
{
    const qg_value *w = a->weight < a->p->n_in ? a->p->in[a->weight] : NULL;
    const qg_value *b = a->bias < a->p->n_in ? a->p->in[a->bias] : NULL;
    if (!w || !w->constant || w->type.dtype != QG_F32)
        MISS(a, "its weight is not a float32 constant, expected a constant");
    if (b && (!b->constant || b->type.dtype != QG_F32))
        MISS(a, "its bias is not a float32 constant, expected a constant");
    const qg_tensor *out = &a->mid->type;
    if (out->rank < 2 || out->dim[1] < 1)
        MISS(a, "the number of its output channels is not known, expected a shape");
    a->f.channels = (size_t)out->dim[1];
    int64_t count = b ? qg_tensor_count(b->constant) : 1;
    if (count != 1 && count != out->dim[1])
        MISS(a, "its bias has %d elements, expected 1 or %zu", (int)count,
             a->f.channels);
    a->axis = a->p->op->weight_axis(a->p);
    QG_TRY(a->how->beta_of(a->env->ctx, a->p, &a->beta));
    if (a->beta == 0)
        MISS(a, "its bias is multiplied by 0, expected beta other than 0");
    return QG_OK;
}

/* Gets the factors from the operator; an operator without them is a near miss, not an
 * error. */
static qg_status read_affine(attempt *a, bool *fits)
{
    qg_ctx *ctx = a->env->ctx;
    qg_arena *arena = a->env->graph->arena;
    QG_TRY(qg_affine_identity(ctx, arena, a->f.channels, &a->f));
    qg_status s = qg_affine_then(ctx, arena, a->n, &a->f);
    if (s == QG_EUNSUPPORTED)
        MISS(a, "%s", qg_ctx_message(ctx));
    QG_TRY(s);
    if (!qg_affine_fits(&a->f, a->p->in[a->weight]->constant, a->axis))
        MISS(a,
             "its weight does not have %zu output channels along one axis, expected an "
             "ungrouped weight",
             a->f.channels);
    return QG_OK;
}

static qg_status scale_weight(attempt *a)
{
    qg_graph *g = a->env->graph;
    qg_tensor *t;
    QG_TRY(qg_affine_weight(a->env->ctx, g->arena, &a->f, a->p->in[a->weight]->constant,
                            a->axis, &t));
    return qg_edit_give_constant(g, a->p, a->weight, a->p->name, t);
}

static const qg_tensor *bias_of(const attempt *a)
{
    const qg_value *v = a->bias < a->p->n_in ? a->p->in[a->bias] : NULL;
    return v ? v->constant : NULL;
}

static qg_status give_bias(attempt *a, const qg_tensor *t)
{
    qg_graph *g = a->env->graph;
    const char *name = qg_arena_printf(g->arena, "%s_bias", a->p->name);
    return name ? qg_edit_give_constant(g, a->p, a->bias, name, t)
                : qg_nomem(a->env->ctx);
}

static qg_status move_bias(attempt *a)
{
    qg_tensor *t;
    QG_TRY(qg_affine_bias(a->env->ctx, a->env->graph->arena, &a->f, bias_of(a), a->beta,
                          &t));
    return give_bias(a, t);
}

/* Both at once, in a different arithmetic. */
static qg_status fold(attempt *a)
{
    qg_graph *g = a->env->graph;
    qg_tensor *made[2];
    QG_TRY(a->how->fold(g, a->n, a->p->in[a->weight]->constant, a->axis, bias_of(a),
                        made));
    QG_TRY(qg_edit_give_constant(g, a->p, a->weight, a->p->name, made[0]));
    return give_bias(a, made[1]);
}

static qg_status move(attempt *a)
{
    if (a->how->fold)
        return fold(a);
    if (a->f.scales)
        QG_TRY(scale_weight(a));
    return move_bias(a);
}

/* Only Gemm has the attribute. */
static qg_status beta_of(qg_ctx *ctx, const qg_node *n, float *beta)
{
    return qg_attr_float(ctx, n, "beta", 1, beta);
}

const qg_absorb_how qg_absorb_exactly = { .beta_of = beta_of };

/* Records nothing when the preceding node is no compute node: that is not a near
 * miss. */
qg_status qg_absorb(qg_pass_env *env, const char *pattern, const qg_absorb_how *how,
                    qg_node *n, uint32_t slot, bool *done)
{
    assert(slot < n->n_in);
    attempt a = {
        .env = env, .pattern = pattern, .how = how, .n = n, .mid = n->in[slot]
    };
    bool fit = true, *fits = &fit;
    *done = false;
    a.p = a.mid ? a.mid->def : NULL;
    if (!a.p || !qg_node_has(a.p, QG_OP_COMPUTE) || !a.p->op->weight_axis ||
        a.mid->def_slot != 0)
        return QG_OK;
    int w = qg_op_slot_of(a.p->op, 'w'), b = qg_op_slot_of(a.p->op, 'b');
    if (w < 0 || b < 0)
        return qg_pass_near_miss(
            env, pattern, a.p,
            "it has no slot for a bias, expected an operator with one");
    a.weight = (uint32_t)w;
    a.bias = (uint32_t)b;
    QG_TRY(check_between(&a, fits));
    if (fit)
        QG_TRY(check_parameters(&a, fits));
    if (fit)
        QG_TRY(read_affine(&a, fits));
    if (!fit)
        return QG_OK;
    QG_TRY(move(&a));
    qg_edit_absorb(env->graph, a.p, n);
    env->changed++;
    *done = true;
    return qg_pass_matched(env, pattern);
}

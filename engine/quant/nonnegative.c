#include "engine/quant/nonnegative.h"

#include <assert.h>
#include <string.h>

enum { INPUTS = 8 }; /* of operators that clamp: x, min, max */

/* Floats only: nobody rounds anything else. */
static bool constant_is_nonnegative(const qg_tensor *t)
{
    if (t->dtype != QG_F32)
        return false;
    for (int64_t i = 0, n = qg_tensor_count(t); i < n; i++)
        if (!(t->f32[i] >= 0))
            return false;
    return true;
}

/* A record that is or will be in use, whose lowest value is 0. */
static bool grid_begins_at_zero(const qg_tqc *t)
{
    if (!t || t->state == QG_TQC_FP32 || t->state == QG_TQC_SOI ||
        t->state == QG_TQC_DEACTIVATED || t->state == QG_TQC_DEQUANTIZED)
        return false;
    uint16_t policy = t->scheme.policy;
    return policy & QG_LINEAR && policy & QG_SYMMETRIC && t->scheme.qmin >= 0;
}

static bool clamps_at_zero(const qg_node *n)
{
    const qg_tensor *constant[INPUTS] = { NULL };
    float low, high;
    if (!n->op->clamp || n->n_in > INPUTS)
        return false;
    for (uint32_t i = 0; i < n->n_in; i++)
        constant[i] = n->in[i] ? n->in[i]->constant : NULL;
    return n->op->clamp(n, constant, &low, &high) && low >= 0;
}

/* Cubic interpolation undershoots its operands. */
static bool is_cubic(const qg_node *n)
{
    const qg_attr *mode = qg_attr_find(n, "mode");
    return mode && mode->type == QG_ATTR_STRING &&
           strcmp(mode->strings[0], "cubic") == 0;
}

/* All data inputs, bounds included; shapes and statistics are ignored. */
static bool inputs_are(const qg_node *n, const uint8_t *nonnegative)
{
    bool any = false;
    for (uint32_t i = 0; i < n->n_in; i++) {
        char role = qg_op_in_role(n->op, i);
        if (!n->in[i] || role == 's' || role == 'f')
            continue;
        if (!nonnegative[n->in[i]->id])
            return false;
        any = true;
    }
    return any;
}

static bool keeps_sign(const qg_node *n)
{
    return qg_node_has(n, QG_OP_PASSIVE | QG_OP_POOLING | QG_OP_NONNEGATIVE) &&
           !qg_node_has(n, QG_OP_CONTROL) && !is_cubic(n);
}

bool qg_nonnegative_node(const qg_node *n, const uint8_t *is)
{
    return clamps_at_zero(n) || (keeps_sign(n) && inputs_are(n, is));
}

void qg_nonnegative_constants(const qg_graph *g, uint8_t *is)
{
    for (size_t i = 0; i < g->value.n; i++)
        if (g->value.at[i]->constant)
            is[i] = constant_is_nonnegative(g->value.at[i]->constant);
}

qg_status qg_nonnegative_values(const qg_graph *g, qg_arena *a, uint8_t **out)
{
    uint8_t *is = QG_NEWN(a, g->value.n, uint8_t);
    if (!is)
        return qg_nomem(g->ctx);
    qg_nonnegative_constants(g, is);
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        assert(!n->dead && n->id == i); /* normalized: producers come first */
        bool all = qg_nonnegative_node(n, is);
        for (uint32_t k = 0; k < n->n_out; k++)
            if (n->out[k])
                is[n->out[k]->id] = all || grid_begins_at_zero(qg_output_tqc(n, k));
    }
    *out = is;
    return QG_OK;
}

/* fuse-bias -- turns the sum of a compute node's output and a constant per channel into
 * its bias.  An existing bias is increased by it, whatever its shape.
 *
 * PPQ folds a constant into a convolution only when it has the rank of the weight, and
 * never into an existing bias (quirk ppq-bias-add-rank); there it squeezes the constant
 * to one axis and keeps the sum, which then adds along the last axis (D05:
 * ppq-bias-add-squeeze).
 * Source   docs/evidence/ppq-behaviour.md#bias-sums. */
#include <assert.h>

#include "engine/ir/edit.h"
#include "passes/passes.h"
#include "passes/util_absorb.h"

/* The slot that is computed, when exactly one is. */
static bool data_slot(const qg_node *n, uint32_t *slot)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < n->n_in; i++)
        if (n->in[i] && !n->in[i]->constant) {
            *slot = i;
            found++;
        }
    return found == 1;
}

/* Behaviours that quirks replace. */
typedef struct behaviours behaviours;
struct behaviours {
    qg_status (*take)(qg_pass_env *env, const behaviours *how, qg_node *n,
                      uint32_t slot);
    /* PPQ only: with an existing bias; slot of the constant.  NULL: unchanged. */
    qg_status (*keep)(qg_graph *g, qg_node *n, uint32_t slot);
};

static qg_status take(qg_pass_env *env, const behaviours *how, qg_node *n,
                      uint32_t slot)
{
    bool done;
    (void)how;
    return qg_absorb(env, "compute-bias", &qg_absorb_exactly, n, slot, &done);
}

/* Whether PPQ considers the constant: it has the weight's rank, one axis that is not 1,
 * and more than one channel.  Weights with two axes accept any. */
static bool ppq_fits(const qg_tensor *weight, const qg_tensor *c)
{
    int extents = 0;
    for (int d = 0; d < c->rank; d++)
        extents += c->dim[d] != 1;
    return weight->rank == 2 ||
           (c->rank == weight->rank && extents == 1 && c->dim[1] != 1);
}

/* The same elements along one axis, which changes the meaning of the sum. */
static qg_status ppq_squeeze(qg_graph *g, qg_node *n, uint32_t slot)
{
    const qg_tensor *old = n->in[slot]->constant;
    int64_t count = qg_tensor_count(old);
    qg_tensor *t;
    qg_value *v;
    QG_TRY(qg_tensor_clone(g->ctx, g->arena, old, &t));
    qg_tensor_init(t, old->dtype, 1, &count);
    QG_TRY(qg_tensor_alloc(g->ctx, g->arena, t));
    for (int64_t i = 0; i < count; i++)
        t->f32[i] = old->f32[i];
    QG_TRY(qg_edit_add_constant(g, n->in[slot]->name, t, &v));
    return qg_edit_set_input(g, n, slot, v);
}

/* Only a constant of matching shape, and only without an existing bias. */
static qg_status ppq_take(qg_pass_env *env, const behaviours *how, qg_node *n,
                          uint32_t slot)
{
    const qg_node *p = n->in[slot]->def;
    int w = p ? qg_op_slot_of(p->op, 'w') : -1, b = p ? qg_op_slot_of(p->op, 'b') : -1;
    const qg_value *c = n->n_in == 2 ? n->in[1 - slot] : NULL;
    if (w < 0 || b < 0 || (uint32_t)w >= p->n_in || !c || !c->constant ||
        c->constant->dtype != QG_F32 || !p->in[w]->constant)
        return QG_OK;
    assert(c->constant->data);
    if (!ppq_fits(p->in[w]->constant, c->constant))
        return QG_OK;
    if ((uint32_t)b >= p->n_in || !p->in[b])
        return take(env, how, n, slot);
    return how->keep && p->in[w]->constant->rank > 2 && n->in[slot]->use.n == 1
               ? how->keep(env->graph, n, 1 - slot)
               : QG_OK;
}

static const behaviours ordinary = { .take = take };

static const qg_quirk_row quirk[] = {
    QG_SWAP(PPQ_BIAS_ADD_RANK,
            "D05: a convolution absorbs a constant sum as bias only in the rank of "
            "its weight",
            QG_PPQ "IR/morph.py GraphMerger.fuse_bias_add", behaviours, take, ppq_take),
    QG_SWAP(PPQ_BIAS_ADD_SQUEEZE,
            "D05: a second bias is squeezed to [C] and the Add is kept",
            QG_PPQ "IR/morph.py GraphMerger.fuse_bias_add", behaviours, keep,
            ppq_squeeze),
    { 0 },
};

static qg_status run(qg_pass_env *env)
{
    qg_graph *g = env->graph;
    behaviours how = ordinary;
    qg_pass_quirks(env, &how);
    for (size_t i = 0; i < g->node.n; i++) {
        qg_node *n = g->node.at[i];
        uint32_t slot;
        if (!n->dead && qg_node_has(n, QG_OP_JOIN) && n->op->affine &&
            data_slot(n, &slot))
            QG_TRY(how.take(env, &how, n, slot));
    }
    return QG_OK;
}

const qg_pass qg_pass_fuse_bias = {
    .name = "fuse-bias",
    .summary = "turn sums with constants after compute nodes into biases",
    .needs = QG_A_TOPO | QG_A_SHAPE,
    .breaks = QG_A_TOPO | QG_A_SHAPE,
    .run = run,
    .quirk = quirk,
};

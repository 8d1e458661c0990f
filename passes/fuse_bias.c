/* fuse-bias -- a sum with a constant per channel behind a compute node becomes its
 * bias. A bias that is there already is added to, whatever its shape.
 *
 * PPQ takes a constant behind a convolution only in the rank of its weight, and none
 * where a bias is (quirk ppq-bias-add-rank); there it squeezes the constant to one axis
 * and keeps the sum, which then adds along the last axis (D05: ppq-bias-add-squeeze).
 * Source   spec/ppq.md 4.4.1. */
#include <assert.h>

#include "engine/ir/edit.h"
#include "engine/quant/quirk.h"
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

/* Whether PPQ would look at the constant: of the weight's rank, one axis but for ones,
 * and more than one channel.  Weights of two axes take any. */
static bool ppq_fits(const qg_tensor *weight, const qg_tensor *c)
{
    int extents = 0;
    for (int d = 0; d < c->rank; d++)
        extents += c->dim[d] != 1;
    return weight->rank == 2 ||
           (c->rank == weight->rank && extents == 1 && c->dim[1] != 1);
}

/* The same elements along one axis: the sum now means something else. */
static qg_status squeeze(qg_graph *g, qg_node *n, uint32_t slot)
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

/* *skip: PPQ leaves this sum alone. */
static qg_status ppq_look(qg_pass_env *env, qg_node *n, uint32_t slot, bool *skip)
{
    const qg_node *p = n->in[slot]->def;
    int w = p ? qg_op_slot_of(p->op, 'w') : -1, b = p ? qg_op_slot_of(p->op, 'b') : -1;
    const qg_value *c = n->n_in == 2 ? n->in[1 - slot] : NULL;
    *skip = true;
    if (w < 0 || b < 0 || (uint32_t)w >= p->n_in || !c || !c->constant ||
        c->constant->dtype != QG_F32 || !p->in[w]->constant)
        return QG_OK;
    assert(c->constant->data);
    bool has_bias = (uint32_t)b < p->n_in && p->in[b];
    bool fits = ppq_fits(p->in[w]->constant, c->constant);
    *skip = has_bias || !fits;
    if (has_bias && fits && p->in[w]->constant->rank > 2 &&
        (env->backend->quirks & QG_QUIRK(PPQ_BIAS_ADD_SQUEEZE)) &&
        n->in[slot]->use.n == 1)
        QG_TRY(squeeze(env->graph, n, 1 - slot));
    return QG_OK;
}

static qg_status run(qg_pass_env *env)
{
    bool ppq = env->backend && (env->backend->quirks & QG_QUIRK(PPQ_BIAS_ADD_RANK));
    qg_graph *g = env->graph;
    for (size_t i = 0; i < g->node.n; i++) {
        qg_node *n = g->node.at[i];
        uint32_t slot;
        bool done, skip = false;
        if (n->dead || !qg_node_has(n, QG_OP_JOIN) || !n->op->affine ||
            !data_slot(n, &slot))
            continue;
        if (ppq)
            QG_TRY(ppq_look(env, n, slot, &skip));
        if (!skip)
            QG_TRY(qg_absorb(env, "compute-bias", n, slot, &done));
    }
    return QG_OK;
}

const qg_pass qg_pass_fuse_bias = {
    .name = "fuse-bias",
    .summary = "turn sums with constants behind compute nodes into their bias",
    .needs = QG_A_TOPO | QG_A_SHAPE,
    .breaks = QG_A_TOPO | QG_A_SHAPE,
    .run = run,
};

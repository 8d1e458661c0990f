/* fuse-bias -- a sum with a constant per channel behind a compute node becomes its
 * bias. A bias that is there already is added to, whatever its shape (PPQ's defect
 * D05: it squeezed the constant and kept the sum). */
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

static qg_status run(qg_pass_env *env)
{
    qg_graph *g = env->graph;
    for (size_t i = 0; i < g->node.n; i++) {
        qg_node *n = g->node.at[i];
        uint32_t slot;
        bool done;
        if (!n->dead && qg_node_has(n, QG_OP_JOIN) && n->op->affine &&
            data_slot(n, &slot))
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

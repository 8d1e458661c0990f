/* fuse-bias -- an Add or Sub of one number per channel goes into the bias before it.
 *
 *     Conv(x, w[, b]) --v--> Add(v, c)             Conv(x, w, b + c)
 *
 * op->affine of the Add says what it adds per channel of axis 1; it refuses a constant
 * that broadcasts in any other way.  An existing bias is added to (PPQ squeezes the
 * constant and keeps the Add: defect D05). */
#include "engine/ir/edit.h"
#include "passes/passes.h"
#include "passes/util_fold.h"

/* The slot that is not constant, when exactly one of the two is; else -1. */
static int data_slot(const qg_node *n)
{
    if (n->n_in != 2 || !n->in[0] || !n->in[1])
        return -1;
    bool first = n->in[0]->constant != NULL, second = n->in[1]->constant != NULL;
    return first == second ? -1 : first;
}

static bool only_shifts(size_t n, const double *scale)
{
    for (size_t c = 0; c < n; c++)
        if (scale[c] != 1)
            return false;
    return true;
}

static qg_status fuse(qg_pass_env *env, qg_node *add, uint32_t slot)
{
    const char *why = "";
    qg_node *compute = qg_fold_producer(add, slot, &why);
    if (!compute)
        return QG_OK; /* an Add behind anything else is no near miss */
    size_t n = qg_fold_channels(compute, add, &why);
    double *scale = n ? QG_NEWN(env->graph->arena, 2 * n, double) : NULL;
    if (n && !scale)
        return qg_nomem(env->ctx);
    if (n && (add->op->affine(env->ctx, add, n, scale, scale + n) != QG_OK ||
              !only_shifts(n, scale))) {
        why = "does not add one number per channel";
        n = 0;
    }
    if (n == 0)
        return qg_pass_near_miss(env, "bias", add, "%s", why);
    QG_TRY(qg_fold_affine(env->graph, compute, n, NULL, scale + n));
    qg_edit_absorb(env->graph, compute, add);
    env->changed++;
    return qg_pass_matched(env, "bias");
}

static qg_status run(qg_pass_env *env)
{
    qg_graph *g = env->graph;
    for (size_t i = 0; i < g->node.n; i++) {
        qg_node *n = g->node.at[i];
        if (n->dead || !n->op->affine || !qg_node_has(n, QG_OP_ELEMENTWISE))
            continue;
        int slot = data_slot(n);
        if (slot >= 0)
            QG_TRY(fuse(env, n, (uint32_t)slot));
    }
    return QG_OK;
}

const qg_pass qg_pass_fuse_bias = {
    .name = "fuse-bias",
    .summary = "add a constant per channel to the bias before it",
    .needs = QG_A_TOPO | QG_A_SHAPE,
    .breaks = QG_A_TOPO | QG_A_SHAPE,
    .run = run,
};

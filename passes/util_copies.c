#include "passes/util_copies.h"

#include <assert.h>

#include "engine/ir/edit.h"

/* Other outputs (the mask of Dropout) must have no readers. */
static bool is_copy(const qg_node *n)
{
    if (n->dead || !qg_node_has(n, QG_OP_COPY) || n->n_in == 0 || !n->in[0])
        return false;
    for (uint32_t k = 1; k < n->n_out; k++)
        if (n->out[k] && qg_value_watchers(n->out[k]) > 0)
            return false;
    return n->out[0] != NULL;
}

/* Either end may be fixed by the interface, not both. */
static bool may_go(const qg_node *n)
{
    const qg_value *from = n->out[0], *to = n->in[0];
    return !from->is_output || (!to->is_input && !to->is_output && !to->constant);
}

qg_status qg_drop_copies(qg_pass_env *env)
{
    qg_graph *g = env->graph;
    for (size_t i = 0; i < g->node.n; i++) {
        qg_node *n = g->node.at[i];
        if (!is_copy(n))
            continue;
        if (!may_go(n)) {
            QG_TRY(qg_pass_near_miss(env, "copy", n,
                                     "it lies between '%s' and output '%s', expected "
                                     "an inner value",
                                     n->in[0]->name, n->out[0]->name));
            continue;
        }
        QG_TRY(qg_edit_replace_value(g, n->out[0], n->in[0]));
        assert(qg_value_watchers(n->out[0]) == 0);
        qg_edit_remove_node(g, n);
        env->changed++;
        QG_TRY(qg_pass_matched(env, "copy"));
    }
    return QG_OK;
}

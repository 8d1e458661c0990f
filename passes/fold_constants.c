/* fold-constants -- values that shape inference could compute become constants, and the
 * nodes that made them go.
 *
 * A node folds when all it makes is known.  Graph outputs stay computed: the interface
 * keeps its producers.  PPQ folds nodes without inputs only (quirk
 * ppq-no-constant-folding). */
#include "engine/ir/edit.h"

#include <assert.h>

#include "engine/ir/infer.h"
#include "passes/passes.h"

/* All outputs that are there must be known, and none is a graph output. */
static bool folds(const qg_node *n, const qg_tensor *const *known)
{
    bool any = false;
    for (uint32_t i = 0; i < n->n_out; i++) {
        const qg_value *v = n->out[i];
        if (v && (v->is_output || !known[v->id]))
            return false;
        any |= v != NULL;
    }
    return any;
}

/* What quirks change. */
typedef struct behaviours {
    bool (*folds)(const qg_node *n, const qg_tensor *const *known);
} behaviours;

static bool ppq_folds(const qg_node *n, const qg_tensor *const *known)
{
    return n->n_in == 0 && folds(n, known);
}

static const behaviours ordinary = { .folds = folds };

static const qg_quirk_row quirk[] = {
    QG_SWAP(PPQ_UNFOLDED,
            "what depends on constants alone is computed, and quantized, like the rest",
            QG_PPQ "IR/morph.py GraphFormatter", behaviours, folds, ppq_folds),
    { 0 },
};

/* Values first: removing the node asserts that nobody watches what it makes. */
static qg_status fold(qg_pass_env *env, qg_node *n, const qg_tensor *const *known)
{
    assert(!n->dead);
    for (uint32_t i = 0; i < n->n_out; i++) {
        qg_value *v = n->out[i];
        qg_tensor *copy; /* what inference keeps dies with the next normalize */
        if (!v)
            continue;
        QG_TRY(qg_tensor_clone(env->ctx, env->graph->arena, known[v->id], &copy));
        QG_TRY(qg_edit_make_constant(env->graph, v, copy));
        env->changed++;
    }
    qg_edit_remove_node(env->graph, n);
    return QG_OK;
}

/* Ids stay valid during the loop: only normalize renumbers, and the driver calls it
 * after. */
static qg_status run(qg_pass_env *env)
{
    const qg_tensor *const *known;
    behaviours how = ordinary;
    qg_pass_quirks(env, &how);
    QG_TRY(qg_infer_known(env->graph, &known));
    for (size_t i = 0; i < env->graph->node.n; i++)
        if (how.folds(env->graph->node.at[i], known))
            QG_TRY(fold(env, env->graph->node.at[i], known));
    return QG_OK;
}

const qg_pass qg_pass_fold_constants = {
    .name = "fold-constants",
    .summary = "compute once what does not depend on the inputs",
    .needs = QG_A_TOPO | QG_A_SHAPE,
    .breaks = QG_A_TOPO | QG_A_SHAPE,
    .run = run,
    .quirk = quirk,
};

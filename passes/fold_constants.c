/* fold-constants -- turns values that shape inference could compute into constants, and
 * removes their producers.
 *
 * A node folds when all its outputs are known, and are so for any batch where the file
 * leaves the batch open: exported files then run with any.  Graph outputs are not
 * folded: the interface keeps its producers.  PPQ folds nodes without inputs only
 * (quirk ppq-no-constant-folding). */
#include "engine/ir/edit.h"

#include <assert.h>

#include "engine/ir/infer.h"
#include "passes/passes.h"

/* All present outputs must be known, and none may be a graph output. */
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

/* Values that are the same for every extent that the file leaves open. */
static qg_status known_of(qg_pass_env *env, const qg_tensor *const **out)
{
    qg_tensor *type;
    const qg_tensor **known;
    if (!qg_graph_is_open(env->graph))
        return qg_infer_known(env->graph, out);
    QG_TRY(qg_infer_open(env->ctx, env->graph, env->graph->arena, &type, &known));
    *out = known;
    return QG_OK;
}

/* Behaviours that quirks replace. */
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
            "values that depend on constants only are computed and quantized like "
            "others",
            QG_PPQ "IR/morph.py GraphFormatter", behaviours, folds, ppq_folds),
    { 0 },
};

/* Values first: removing the node asserts that its outputs have no readers. */
static qg_status fold(qg_pass_env *env, qg_node *n, const qg_tensor *const *known)
{
    assert(!n->dead);
    for (uint32_t i = 0; i < n->n_out; i++) {
        qg_value *v = n->out[i];
        qg_tensor *copy; /* inferred data is freed by the next normalize */
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
    QG_TRY(known_of(env, &known));
    for (size_t i = 0; i < env->graph->node.n; i++)
        if (how.folds(env->graph->node.at[i], known))
            QG_TRY(fold(env, env->graph->node.at[i], known));
    return QG_OK;
}

const qg_pass qg_pass_fold_constants = {
    .name = "fold-constants",
    .summary = "replace values that do not depend on the inputs by constants",
    .needs = QG_A_TOPO | QG_A_SHAPE,
    .breaks = QG_A_TOPO | QG_A_SHAPE,
    .run = run,
    .quirk = quirk,
};

/* metax-gemm-split -- splits fully connected nodes into a product and, when they have a
 * bias, a sum: MetaX runs two kernels and quantizes between them.  The sum is named
 * after the node; PPQ numbers it (quirk ppq-generated-names).
 * Source   docs/evidence/ppq-behaviour.md#platform-passes, and #gemm there. */
#include <assert.h>

#include "engine/ir/edit.h"
#include "passes/passes.h"
#include "passes/vendor/util_gemm.h"

/* Behaviours that quirks replace. */
typedef struct behaviours {
    struct splitting {
        const char *(*sum_name)(const qg_graph *g,
                                const qg_node *n); /* NULL: no memory */
        bool (*takes)(const qg_node *n);
    } splitting;
} behaviours;

static bool takes(const qg_node *n) { return n->platform == QG_PLATFORM_QUANTIZED; }

/* Includes float nodes. */
static bool ppq_takes(const qg_node *n)
{
    (void)n;
    return true;
}

static const char *sum_name(const qg_graph *g, const qg_node *n)
{
    return qg_arena_printf(g->arena, "%s_bias_add", n->name);
}

/* The counter is the first free number. */
static const char *ppq_sum_name(const qg_graph *g, const qg_node *n)
{
    const char *name;
    unsigned k = 0;
    (void)n;
    do
        name = qg_arena_printf(g->arena, "PPQ_Operation_%u", k++);
    while (name && qg_graph_node(g, name));
    return name;
}

static const behaviours ordinary = {
    .splitting = {.sum_name = sum_name, .takes = takes},
};

static const qg_quirk_row quirk[] = {
    QG_SWAP(PPQ_NAMES,
            "new nodes are named PPQ_Operation_k, and float nodes are split as well",
            QG_PPQ "IR/base/graph.py BaseGraph.create_operation", behaviours, splitting,
            { .sum_name = ppq_sum_name, .takes = ppq_takes }),
    { 0 },
};

/* Inserts a sum after the node, on the same platform. */
static qg_status add_sum(qg_pass_env *env, const qg_node *n, qg_value *product,
                         qg_value *sum, qg_value *bias)
{
    qg_graph *g = env->graph;
    const qg_op *op;
    qg_node *made;
    behaviours how = ordinary;
    qg_pass_quirks(env, &how);
    QG_TRY(qg_edit_find_op(g, n, QG_MADE_SUM, &op));
    qg_value *in[] = { product, bias };
    qg_node_spec spec = { .op = op,
                          .opset = n->opset,
                          .in = in,
                          .out = &sum,
                          .n_in = 2,
                          .n_out = 1,
                          .name = how.splitting.sum_name(g, n) };
    if (!spec.name)
        return qg_nomem(g->ctx);
    if (qg_graph_node(g, spec.name))
        spec.name = NULL;
    QG_TRY(qg_graph_add_node(g, &spec, &made));
    made->platform = n->platform;
    made->reason = n->reason;
    return QG_OK;
}

/* The product takes the name of the node; `sum` its output. */
static qg_status split(qg_pass_env *env, qg_node *n, const qg_op *matmul)
{
    qg_graph *g = env->graph;
    qg_value *bias = n->n_in > 2 ? n->in[2] : NULL, *old = n->out[0], *y, *product;
    qg_value *in[] = { n->in[0], n->in[1] };
    const char *name = n->name;
    qg_node *made;
    QG_TRY(qg_graph_add_prefixed(g, name, &y));
    bool inner = !old->is_output;
    QG_TRY(qg_edit_replace_value(g, old, y));
    if (inner)
        qg_value_swap_names(g, old, y);
    product = y;
    if (bias)
        QG_TRY(qg_graph_add_prefixed(g, name, &product));
    qg_edit_remove_node(g, n);
    qg_node_spec spec = { .name = name,
                          .op = matmul,
                          .opset = n->opset,
                          .in = in,
                          .out = &product,
                          .n_in = 2,
                          .n_out = 1 };
    QG_TRY(qg_graph_add_node(g, &spec, &made));
    made->platform = n->platform;
    made->reason = n->reason;
    env->changed++;
    made->file_unnamed = n->file_unnamed;
    return bias ? add_sum(env, made, product, y, bias) : QG_OK;
}

/* Weight and bias take alpha, beta and the transposition. */
static qg_status rewrite(qg_pass_env *env, qg_node *n)
{
    qg_graph *g = env->graph;
    const qg_op *matmul;
    qg_gemm gemm;
    QG_TRY(qg_gemm_read(env->ctx, n, &gemm));
    bool constant =
        n->in[1]->constant && (n->n_in < 3 || !n->in[2] || n->in[2]->constant);
    if (gemm.transposed_a || !constant)
        return qg_pass_near_miss(env, "product-and-sum", n,
                                 gemm.transposed_a
                                     ? "its input is transposed, expected transA = 0"
                                     : "its weight or bias is computed, expected "
                                       "constants");
    QG_TRY(qg_edit_find_op(g, n, QG_MADE_PRODUCT, &matmul));
    QG_TRY(qg_gemm_rewrite(g, n, 1, gemm.alpha, gemm.transposed_b));
    QG_TRY(qg_gemm_rewrite(g, n, 2, gemm.beta, false));
    QG_TRY(qg_pass_matched(env, "product-and-sum"));
    return split(env, n, matmul);
}

static qg_status run(qg_pass_env *env)
{
    behaviours how = ordinary;
    qg_pass_quirks(env, &how);
    size_t old = env->graph->node.n; /* new nodes are appended */
    for (size_t i = 0; i < old; i++) {
        qg_node *n = env->graph->node.at[i];
        assert(!n->dead);
        if (how.splitting.takes(n) && qg_is_gemm(n))
            QG_TRY(rewrite(env, n));
    }
    return QG_OK;
}

const qg_pass qg_pass_metax_gemm_split = {
    .name = "metax-gemm-split",
    .summary = "split fully connected nodes into a product and a sum",
    .needs = QG_A_TOPO | QG_A_SHAPE,
    .breaks = QG_A_TOPO | QG_A_SHAPE,
    .run = run,
    .quirk = quirk,
};

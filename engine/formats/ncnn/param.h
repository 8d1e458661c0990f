/* param.h -- the layers of a .param file of ncnn, and the nodes that they are.
 *
 *     qg_ncnn_param p;
 *     QG_TRY(qg_ncnn_param_read(ctx, arena, "export", path, &p));
 *     qg_ncnn_param_bind(&p, g);
 *     ... p.layer.at[i].name is the name of p.layer.at[i].node ...
 *
 * A layer is found by the name of its node, else by the name of the node's first
 * output, else by its place among the layers with weights, when their number in the
 * file is that of the graph and outputs and weights agree.
 * Owner    names lie in the arena; nodes are borrowed
 * Cost     nodes x layers */
#ifndef QG_ENGINE_FORMATS_NCNN_PARAM_H
#define QG_ENGINE_FORMATS_NCNN_PARAM_H

#include "engine/ir/graph.h"

/* One layer of it that a table may name. */
typedef struct qg_ncnn_layer {
    const char *name, *top; /* top: of its first output; may be NULL */
    int64_t outputs, weights;
    qg_node *node; /* by bind; NULL: the graph has none */
} qg_ncnn_layer;

typedef struct qg_ncnn_param {
    QG_VEC(qg_ncnn_layer) layer;
} qg_ncnn_param;

/* doing: begins messages.  QG_EPARSE when it is no .param file. */
QG_NODISCARD qg_status qg_ncnn_param_read(qg_ctx *ctx, qg_arena *a, const char *doing,
                                          const char *path, qg_ncnn_param *out);

/* Finds the node of each layer; a second node of one layer has none. */
void qg_ncnn_param_bind(qg_ncnn_param *p, const qg_graph *g);
/* The layer bound to n; NULL: none. */
const qg_ncnn_layer *qg_ncnn_layer_of(const qg_ncnn_param *p, const qg_node *n);

/* The slot of the weight of n; 0: it has none. */
uint32_t qg_ncnn_weight_slot(const qg_node *n);

/* The next word of a text that it cuts, also of a table's line; NULL: none. */
char *qg_ncnn_next_word(char **at);

#endif

/* lower.h -- translating one float node to nodes of an integer program: op->lower.
 *
 * engine/lower decides which values are stored as codes and which nodes form one kernel;
 * an operator only emits the kernel.  It sees stored grids, never records.
 *
 *     static qg_status lower_relu(qg_lower *l)
 *     {
 *         const qg_profile_row *row = qg_lower_row(l, QG_USE_RELU, 0);
 *         if (!row)
 *             return QG_OK;                         // refused, with a reason
 *         return qg_lower_emit(l, "IntRescale", row, &l->in[0].value, 1);
 *     }
 *
 * Refusing is not failing: qg_lower_refuse records why, the callback returns QG_OK, and
 * the node runs in float between a dequantization and a quantization. */
#ifndef QG_ENGINE_IR_LOWER_H
#define QG_ENGINE_IR_LOWER_H

#include "engine/ir/recipe.h"

/* An input of the float node, in the integer program. */
typedef struct qg_lower_in {
    qg_value *value;           /* codes, or floats; NULL: absent */
    qg_stored stored;          /* codes false: floats, or not quantized (shapes) */
    const qg_tensor *constant; /* the values it stands for, when constant; else NULL.
                                 * Codes: value->constant */
} qg_lower_in;

/* One translation; made by engine/lower. */
struct qg_lower {
    qg_ctx *ctx;
    const qg_profile *profile;
    const qg_node *node;   /* of the float graph; inferred */
    const qg_lower_in *in; /* [node->n_in] */
    const qg_stored *out;  /* [node->n_out] how each output is to be stored; codes
                                 * false: the kernel may store floats (tail: float) */
    const qg_attr *attr;   /* [n_attr] of the kernel: those of the node, unless the
                                 * callback points them elsewhere (arena of `to`) */
    size_t n_attr;
    float low, high;           /* clamp fused behind output 0, in real values; -INFINITY
                                 * and INFINITY: none.  qg_lower_emit applies it */
    qg_graph *to;              /* the integer program */
    qg_value **made;           /* [node->n_out] set by qg_lower_emit: outputs there */
    const char *refusal;       /* set by qg_lower_refuse, in the arena of `to` */
    const qg_profile_row *row; /* the row found last, for reports */
};

/* The row for this use with the types of in[0], in[1] and out[0].  NULL: none fits, and
 * the refusal names node, types, ratio and the profile's rows of that use. */
const qg_profile_row *qg_lower_row(qg_lower *l, qg_kernel_use use);

/* Records why the node cannot be an integer kernel; always QG_OK. */
qg_status qg_lower_refuse(qg_lower *l, const char *fmt, ...) QG_PRINTF(2, 3);

/* A node `op` of domain "quantgraph" that computes output 0 of l->node from `in`, with
 * the recipe of row and grids, and the attributes l->attr.  Sets made[0]. */
QG_NODISCARD qg_status qg_lower_emit(qg_lower *l, const char *op,
                                     const qg_profile_row *row, qg_value *const *in,
                                     uint32_t n_in);

/* The float operator itself, on codes: for moves, maxima and the like.  Every data input
 * must be stored on the grid of the output (asserted); sets every made[k]. */
QG_NODISCARD qg_status qg_lower_same(qg_lower *l, const qg_profile_row *row);

/* A constant of the program. */
QG_NODISCARD qg_status qg_lower_constant(qg_lower *l, const char *name,
                                         const qg_tensor *t, qg_value **out);

#endif

/* lower.h -- translating one float node to nodes of an integer program: op->lower.
 *
 * engine/lower decides which values are stored as codes and which nodes form one
 * kernel; an operator only emits the kernel.  It sees stored grids, never records.
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
    const qg_graph *from;    /* the float graph */
    const qg_node *node;     /* of it; inferred */
    const qg_node *taken;    /* that op->takes gave and whose output out[0] is; NULL:
                                 * out[0] is the node's own */
    const qg_lower_in *in;   /* [node->n_in] */
    const qg_stored *out;    /* [node->n_out] how each output is to be stored; codes
                                 * false: the kernel may store floats (tail: float) */
    const char *const *name; /* [node->n_out] of the outputs in the program */
    bool snapshot;           /* the grid of out[0] is a snapshot's, which qg export
                              * writes, not that of a file */
    float low, high;         /* clamp fused behind output 0, that of the node itself
                                 * included, in real values; -INFINITY and INFINITY:
                                 * none.  qg_lower_emit applies it */
    const qg_attr *attr;     /* [n_attr] of the kernel: those of the node, unless the
                                 * callback points them elsewhere (arena of `to`) */
    size_t n_attr;
    qg_graph *to;        /* the integer program */
    qg_value **made;     /* [node->n_out] set by qg_lower_emit: outputs there */
    bool floats;         /* set by qg_lower_emit: made[0] is float32 and nothing is
                                 * fused behind it (tail: float) */
    const char *refusal; /* set by qg_lower_refuse, in the arena of `to` */
    const qg_profile_row *row; /* the row found last, for reports */
};

/* The row for this use with the types of in[0], in[1] and out[0].  NULL: none fits, or
 * it excludes the grids: zero points where it is symmetric, another output grid than it
 * demands, a float output where it stores codes.  The refusal names types and grids. */
const qg_profile_row *qg_lower_row(qg_lower *l, qg_kernel_use use);

/* For a stand-alone clamp: the row of relu; where the profile has such rows, and none
 * for these limits, that of rescale. */
const qg_profile_row *qg_lower_clamp_row(qg_lower *l);

/* The refusal, itself and not its copy, when there was no memory for one: no answer
 * about the node. */
extern const char qg_lower_starved[];

/* Records why the node cannot be an integer kernel; always QG_OK. */
qg_status qg_lower_refuse(qg_lower *l, const char *fmt, ...) QG_PRINTF(2, 3);

/* A node `op` of domain "quantgraph" that computes output 0 of l->node from `in`, with
 * the recipe of row and grids, and the attributes l->attr.  Sets made[0].  Refuses a
 * clamp that the row does not take, and what the operator cannot compute. */
QG_NODISCARD qg_status qg_lower_emit(qg_lower *l, const char *op,
                                     const qg_profile_row *row, qg_value *const *in,
                                     uint32_t n_in);

/* The float operator itself, on codes: for moves, maxima and the like; sets every
 * made[k].  Activations on another grid than output 0 are rescaled before, a fused
 * clamp is a rescale behind.  Refuses outputs on different grids and types that the
 * operator's opset does not have. */
QG_NODISCARD qg_status qg_lower_same(qg_lower *l, const qg_profile_row *row);

/* A constant of the program; t is copied, its data lie in the arena of `to`. */
QG_NODISCARD qg_status qg_lower_constant(qg_lower *l, const char *name,
                                         const qg_tensor *t, qg_value **out);

/* --- for engine/lower, which puts nodes of its own between --- */

/* The operators of integer programs. */
#define QG_LOWER_DOMAIN "quantgraph"
enum { QG_LOWER_OPSET = 1 };

/* A node of that domain. */
typedef struct qg_lower_node {
    const char *op, *name, *output; /* the last two are free in the program */
    const qg_recipe *recipe;
    const qg_attr *attr; /* [n_attr] beside those of the recipe */
    size_t n_attr;
    qg_value *const *in; /* [n_in] NULL: absent */
    uint32_t n_in;
} qg_lower_node;
/* QG_EUNSUPPORTED: the operator cannot compute on these grids, or with this row; the
 * program is as before.  Gives the output its type. */
QG_NODISCARD qg_status qg_lower_add(qg_graph *to, const qg_lower_node *spec,
                                    qg_value **out);

/* `base`, or base_2, base_3 ...: a name that neither the program nor the float
 * graph has for a value (node); NULL: no memory. */
const char *qg_lower_value_name(qg_graph *to, const qg_graph *from, const char *base);
const char *qg_lower_node_name(qg_graph *to, const qg_graph *from, const char *base);

/* Equal values of equal codes: type, scales, zero points, axis.  Limits may differ. */
bool qg_stored_same(const qg_stored *a, const qg_stored *b);

/* The activations that have the limits of s, their bounds rounded half away from zero:
 * a sum of 1 << qg_activation. */
uint32_t qg_stored_activations(const qg_stored *s);

/* The first of a sum that is not 0. */
qg_activation qg_first_activation(uint32_t set);

/* "int8 0.023529 + 3", "int8 0.0042 ... [64]", "float32".  Returns `text`. */
enum { QG_STORED_TEXT = 80 };
const char *qg_stored_text(const qg_stored *s, char text[QG_STORED_TEXT]);

#endif

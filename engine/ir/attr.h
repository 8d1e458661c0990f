/* attr.h -- ONNX attributes: typed, counted, bounded, defaulted readers.
 *
 * Stored attributes lie in the graph's arena.  A reader returns the default when the
 * attribute is absent, and QG_EMODEL naming node and attribute when type, count or
 * bounds are wrong.  Operators read theirs in `prepare`, once.
 *
 * In an operator's prepare:
 *
 *     QG_TRY(qg_attr_int(ctx, node, "axis", -1, &p->axis));
 *     QG_TRY(qg_attr_ints_n(ctx, node, "strides", 2, (qg_int_bounds){ 1, 1, INT32_MAX
 *     },
 *                           p->stride));
 *
 * The message then reads "attributes: node 'conv1' (Conv): strides has 64 values,
 * expected 2".  Lookup is linear: nodes have a handful of attributes. */
#ifndef QG_ENGINE_IR_ATTR_H
#define QG_ENGINE_IR_ATTR_H

#include "engine/ir/tensor_memory.h"

/* clang-format off */
#define QG_ATTR_MAP(X)  /* id, text, AttributeProto.AttributeType */            \
    X(FLOAT,   "float",   1)                                                   \
    X(INT,     "int",     2)                                                   \
    X(STRING,  "string",  3)                                                   \
    X(TENSOR,  "tensor",  4)                                                   \
    X(GRAPH,   "graph",   5)                                                   \
    X(FLOATS,  "floats",  6)                                                   \
    X(INTS,    "ints",    7)                                                   \
    X(STRINGS, "strings", 8)                                                   \
    X(GRAPHS,  "graphs", 10)
/* clang-format on */

/* Kinds an attribute may have; ids follow the map, ONNX's own numbers are in its
 * last column (onnx.proto, AttributeProto.AttributeType). */
typedef enum qg_attr_type {
#define X(id, text, onnx) QG_ATTR_##id,
    QG_ATTR_MAP(X)
#undef X
        QG_NATTR
} qg_attr_type;

typedef struct qg_graph qg_graph;
typedef struct qg_node qg_node;

/* One attribute as read from the file; immutable.  Scalars are lists of one, so that
 * `ints[0]` reads INT and INTS alike. */
typedef struct qg_attr {
    const char *name; /* interned */
    qg_attr_type type;
    size_t count; /* 1 for the scalar types */
    union {
        const int64_t *ints;        /* INT, INTS: [count] */
        const float *floats;        /* FLOAT, FLOATS: [count] */
        const char *const *strings; /* each ends with a zero */
        const qg_tensor *tensor;
        qg_graph *const *graphs; /* GRAPH, GRAPHS: bodies, which belong to the node */
    };
} qg_attr;

const char *qg_attr_type_name(qg_attr_type t); /* "INTS", as ONNX spells it */

/* The attribute, or NULL. */
const qg_attr *qg_attr_find(const qg_node *n, const char *name);
/* Element k of an attribute of integers (0 of a single one), of nodes whose attributes
 * were read before; `absent` where it has none. */
int64_t qg_attr_at(const qg_node *n, const char *name, size_t k, int64_t absent);
/* For attributes whose absence means something else than a value. */
bool qg_attr_has(const qg_node *n, const char *name);

/* Scalars; `preset` when absent.  A string is borrowed from the graph's arena. */
QG_NODISCARD qg_status qg_attr_int(qg_ctx *ctx, const qg_node *n, const char *name,
                                   int64_t preset, int64_t *out);
QG_NODISCARD qg_status qg_attr_float(qg_ctx *ctx, const qg_node *n, const char *name,
                                     float preset, float *out);
QG_NODISCARD qg_status qg_attr_string(qg_ctx *ctx, const qg_node *n, const char *name,
                                      const char *preset, const char **out);

/* An INT that ONNX uses as a truth value: true unless it is 0. */
QG_NODISCARD qg_status qg_attr_flag(qg_ctx *ctx, const qg_node *n, const char *name,
                                    bool preset, bool *out);

/* INTS or FLOATS or STRINGS or TENSOR or GRAPH, borrowed: NULL and 0 when absent.
 * Callers use qg_attr_has where absent and empty differ. */
QG_NODISCARD qg_status qg_attr_ints(qg_ctx *ctx, const qg_node *n, const char *name,
                                    const int64_t **out, size_t *count);
QG_NODISCARD qg_status qg_attr_floats(qg_ctx *ctx, const qg_node *n, const char *name,
                                      const float **out, size_t *count);
QG_NODISCARD qg_status qg_attr_strings(qg_ctx *ctx, const qg_node *n, const char *name,
                                       const char *const **out, size_t *count);
QG_NODISCARD qg_status qg_attr_tensor(qg_ctx *ctx, const qg_node *n, const char *name,
                                      const qg_tensor **out);
QG_NODISCARD qg_status qg_attr_graph(qg_ctx *ctx, const qg_node *n, const char *name,
                                     qg_graph **out);

/* Exactly `count` ints copied to out, each within [low, high]; absent: all `preset`.
 * Bounds are inclusive; low <= high is asserted, values out of bounds are a status. */
typedef struct qg_int_bounds {
    int64_t preset, low, high; /* default and bounds of each value */
} qg_int_bounds;
QG_NODISCARD qg_status qg_attr_ints_n(qg_ctx *ctx, const qg_node *n, const char *name,
                                      size_t count, qg_int_bounds bounds, int64_t *out);

/* One of `choices` (ends with NULL): its index in *out; `preset` is an index.
 * Exact spelling, as ONNX requires; the message lists the choices. */
QG_NODISCARD qg_status qg_attr_choice(qg_ctx *ctx, const qg_node *n, const char *name,
                                      const char *const *choices, int preset, int *out);

/* Whether n counts its padding (count_include_pad) and, by ceil_mode, has a last window
 * that ends behind it, or can have one along an axis that is open.  ONNX counts only
 * elements and padding, not what lies beyond. */
bool qg_node_counts_beyond(const qg_node *n);

#endif

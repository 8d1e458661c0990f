/* graph.h -- nodes, values, dense ids, use lists.
 *
 * A value has at most one producer (def) and any number of uses.  Ids are positions in
 * graph->value and graph->node: dense, stable while no edit happens, and renumbered
 * only by qg_graph_normalize (edit.h), which also puts nodes in topological order: file
 * order among ready nodes.  Order is always by id, so two runs give the same bytes.
 *
 * Owner    everything lies in graph->arena and dies with it.  Names are interned in the
 *          context.  Constants may point into a mapped file that the graph holds open.
 * Bodies   a node owns its body graphs (If, Loop, Scan): attributes of type GRAPH.  A
 *          body shares the arena of its owner.  Outer values that a body reads are
 *          explicit extra inputs of the node, after its own, listed by name in
 *          node->capture in the same order.
 *
 *     qg_value *x, *y;
 *     QG_TRY(qg_graph_add_value(g, "x", &x));
 *     QG_TRY(qg_graph_mark_input(g, x));
 *     QG_TRY(qg_graph_add_value(g, "y", &y));
 *     QG_TRY(qg_graph_add_node(g, &(qg_node_spec){ .op = relu, .opset = 14, .n_in = 1,
 *                                                  .in = &x, .n_out = 1, .out = &y },
 *                              &node));
 *
 * Invariants (check.h verifies them, id by id): node->in[slot] == v exactly when
 * v->use holds {node, slot}; node->out[k] == v exactly when v->def == node and
 * v->def_slot == k; a constant and a graph input have no producer; names are unique
 * in a graph. */
#ifndef QG_ENGINE_IR_GRAPH_H
#define QG_ENGINE_IR_GRAPH_H

#include "engine/core/vec.h"
#include "engine/ir/op.h"

typedef struct qg_tqc qg_tqc; /* quant/tqc.h; opaque to ir */
typedef struct qg_value qg_value;

/* One reader of a value; a node that reads it twice has two. */
typedef struct qg_use {
    qg_node *node;
    uint32_t slot; /* node->in[slot] == the value */
} qg_use;

/* The tensor on an edge: an input, an initializer, or the result of a node. */
struct qg_value {
    uint32_t id;
    const char *name; /* interned, unique in its graph, never empty */
    qg_tensor type;   /* dtype and dims as far as known; data is always NULL */
    const char *dim_name[QG_MAX_RANK]; /* symbolic extents ("N"); NULL elsewhere */
    const qg_tensor *declared; /* of a graph output: its dims in the file, which files
                                  get back where inference knows none; or NULL */
    const qg_tensor *constant; /* initializer or folded value, plain; else NULL */
    qg_node *def;              /* producer; NULL for inputs, initializers */
    uint32_t def_slot;         /* def->out[def_slot] == this */
    QG_VEC(qg_use) use;
    bool is_input, is_output; /* of the graph */
    uint8_t open;             /* bit k: extent k of a graph input is open in the file,
                                 and the one in type is assumed (infer.h) */
    qg_dtype file_dtype;      /* of an input or output that the file has in another type
                                 than this one; NODTYPE: it has not (float_type.h) */
};

/* Where a node runs.  Written by dispatch; QG_PLATFORM_NONE before.
 * QUANTIZED: its endpoints have TQCs.  FP32: runs in float.  SOI ("shape or index"):
 * works on shapes and indices, which are never quantized. */
enum qg_platform {
    QG_PLATFORM_NONE,
    QG_PLATFORM_QUANTIZED,
    QG_PLATFORM_FP32,
    QG_PLATFORM_SOI
};
const char *qg_platform_name(enum qg_platform p); /* "fp32", as in quant.json */

/* One operator call.  Slots are positions: ONNX identifies operands by position. */
struct qg_node {
    uint32_t id;
    const char *name; /* interned, unique, never empty ("Conv_3" when made up) */
    const qg_op *op;  /* never NULL after import */
    int64_t opset;    /* version the node was written for, in the domain of op */
    qg_value **in;    /* [n_in], NULL: absent */
    qg_value **out;   /* [n_out], NULL: absent */
    uint32_t n_in, n_out;
    const qg_attr *attr; /* [n_attr], file order */
    size_t n_attr;
    void *param;                /* written by op->prepare; NULL until prepared */
    const char *const *capture; /* names of outer values in bodies; see above */
    uint32_t n_capture;
    uint32_t file_unnamed; /* this was the k-th node without a name in its file, k from
                              1 and `Constant` nodes counted; 0: it had one, or came
                              from elsewhere.  For tools that name nodes by k. */
    enum qg_platform platform;
    const char *reason;   /* why it has that platform; arena text, NULL before */
    qg_tqc **tin, **tout; /* [n_in], [n_out]; NULL before attach; entries may be NULL */
    bool dead;            /* removed; dropped by normalize */
    bool stays_float32;   /* in the file too, although it has a float_type */
};

/* A line of the model's opset_import. */
typedef struct qg_opset_import {
    const char *domain; /* "" is ai.onnx */
    int64_t version;
} qg_opset_import;

/* Results that inference (infer.h) keeps with the graph until its topology changes. */
struct qg_inferred {
    qg_arena *arena;         /* the known tensors */
    const qg_tensor **known; /* [n] by value id */
    size_t n;                /* 0: nothing inferred, or forgotten */
};

/* A whole network, or the body of a control-flow node.  Read the vectors freely;
 * change topology through edit.h only. */
struct qg_graph {
    qg_ctx *ctx;
    qg_arena *arena; /* owned unless `owner` is set */
    qg_node *owner;  /* node of the outer graph, for a body; else NULL */
    qg_graph *outer; /* graph of the owner */
    const char *name;
    QG_VEC(qg_node *) node;   /* by id */
    QG_VEC(qg_value *) value; /* by id */
    QG_VEC(qg_value *) input; /* run-time inputs, declared order */
    QG_VEC(qg_value *) output;
    qg_names *value_names, *node_names; /* name -> index into by_name arrays */
    QG_VEC(qg_value *) value_by_name;
    QG_VEC(qg_node *) node_by_name;
    QG_VEC(qg_opset_import) opset;
    int64_t ir_version;
    qg_dtype float_type; /* the file's type of what is float32 here (float_type.h);
                            NODTYPE: the same */
    uint32_t next_name;  /* counter for made-up names */
    qg_graph *bodies;    /* of the outermost graph: every body below it, to free them */
    qg_graph *next_body;
    struct qg_inferred *inferred; /* NULL before qg_infer */
    struct qg_graph_file {        /* mapped files that constants point into */
        struct qg_graph_file *next;
        void *file; /* a qg_file */
    } * files;
};

/* A graph with its own arena; free with qg_graph_free.  `outer` NULL except for
 * bodies.
 * A body is freed with its outermost graph, never alone. */
QG_NODISCARD qg_status qg_graph_new(qg_ctx *ctx, const char *name, qg_graph **out);
QG_NODISCARD qg_status qg_graph_new_body(qg_graph *outer, const char *name,
                                         qg_graph **out);
void qg_graph_free(qg_graph *g); /* NULL is fine; bodies go with their outer graph */

/* By name, O(1) expected. */
qg_value *qg_graph_value(const qg_graph *g, const char *name); /* NULL: no such value */
qg_node *qg_graph_node(const qg_graph *g, const char *name);

/* Whether the dims of all inputs are known: dims of other values that are not known
 * then depend on the data. */
bool qg_graph_inputs_are_known(const qg_graph *g);

/* Gives back the memory of a constant that lies in a mapped file of the graph, or of
 * one around it: its bytes are read again when they are needed.  Others are left
 * alone. */
void qg_graph_release(const qg_graph *g, const qg_tensor *constant);

/* The version of a domain ("" for ai.onnx) that the model imports; 0: not imported. */
int64_t qg_graph_opset(const qg_graph *g, const char *domain);

/* Building.  Names are interned here; a taken name is QG_EMODEL.  name NULL or "" asks
 * for a made-up one ("<prefix>_<k>"). */
QG_NODISCARD qg_status qg_graph_add_value(qg_graph *g, const char *name,
                                          qg_value **out);

/* The value of that name, made when there is none.
 * For readers of files in which uses may come before definitions. */
QG_NODISCARD qg_status qg_graph_need_value(qg_graph *g, const char *name,
                                           qg_value **out);

/* A value with a made-up name that begins with prefix. */
QG_NODISCARD qg_status qg_graph_add_prefixed(qg_graph *g, const char *prefix,
                                             qg_value **out);

/* Renames v; name is interned.  QG_EMODEL when another value has it. */
QG_NODISCARD qg_status qg_value_set_name(qg_graph *g, qg_value *v, const char *name);
/* For replacing an output without renaming the interface; cannot fail. */
void qg_value_swap_names(qg_graph *g, qg_value *a, qg_value *b);
/* For a node that takes the place of another one; cannot fail. */
void qg_node_swap_names(qg_graph *g, qg_node *a, qg_node *b);

/* Frees the name of a node or value that leaves the graph (edit.h); its text is kept
 * for messages. */
void qg_value_free_name(qg_graph *g, const qg_value *v);
void qg_node_free_name(qg_graph *g, const qg_node *n);

/* A node with its slots linked: uses are entered, def is set.  QG_EMODEL when an output
 * already has a producer, is a graph input or a constant.  The arrays are copied;
 * attr is borrowed and must lie in the arena; bodies among them now belong to the node.
 * The slots are counted against op (and those it requires must be there, except that a
 * CONTROL operator may leave any input absent); prepare() is called.  After a failure
 * the graph is as before. */
typedef struct qg_node_spec {
    const char *name; /* NULL: made up from op->name */
    const qg_op *op;
    int64_t opset;
    qg_value *const *in, *const *out;
    uint32_t n_in, n_out;
    const qg_attr *attr;
    size_t n_attr;
    const char *const *capture; /* borrowed: interned, in the arena; see qg_node */
    uint32_t n_capture;         /* these inputs come last and count in n_in */
} qg_node_spec;
QG_NODISCARD qg_status qg_graph_add_node(qg_graph *g, const qg_node_spec *spec,
                                         qg_node **out);

/* The same without prepare(): the caller calls qg_node_prepare when the bodies of the
 * node are complete. */
QG_NODISCARD qg_status qg_graph_link_node(qg_graph *g, const qg_node_spec *spec,
                                          qg_node **out);

/* QG_EMODEL when v is one already, or (input) has a producer or a constant.
 * Appended to the declared order. */
QG_NODISCARD qg_status qg_graph_mark_input(qg_graph *g, qg_value *v);
QG_NODISCARD qg_status qg_graph_mark_output(qg_graph *g, qg_value *v);

/* A graph of its own with the same ids, names, shapes and platforms; constants are
 * copied, prepare() is called again.  TQCs are not copied (tin and tout are NULL).  A
 * body cannot be cloned alone.

 * Costs the graph and the bytes of its constants. */
QG_NODISCARD qg_status qg_graph_clone(const qg_graph *g, qg_graph **out);

/* The same, but for the constants: they stay those of g, which must outlive *out.
 * Passes never write into a constant; they replace it. */
QG_NODISCARD qg_status qg_graph_share(const qg_graph *g, qg_graph **out);

/* A copy of a node of another graph, with its bodies, that reads and writes in[n->n_in]
 * and out[n->n_out] of `to`; its name is free there.  Types are kept in bodies, TQCs
 * are not copied. */
QG_NODISCARD qg_status qg_graph_copy_node(qg_graph *to, const qg_node *n,
                                          qg_value *const *in, qg_value *const *out);

/* Counts the slots of a node against its operator, as qg_graph_add_node does. */
QG_NODISCARD qg_status qg_node_check_arity(qg_ctx *ctx, const qg_node *n);

/* Fresh n->param from the attributes: after a pass changed them. */
QG_NODISCARD qg_status qg_node_prepare(qg_graph *g, qg_node *n);

/* "node 'conv1' (Conv)": begins every message about a node.
 * Returns `text`; longer names are cut. */
enum { QG_NODE_TEXT = 1060 };
const char *qg_node_text(const qg_node *n, char text[QG_NODE_TEXT]);

/* Fails with "<doing>: node 'x' (Op): <message>". */
qg_status qg_node_fail(qg_ctx *ctx, qg_status s, const char *doing, const qg_node *n,
                       const char *fmt, ...) QG_PRINTF(5, 6);

/* s, with the node in front of the message of QG_EMEMORY, unless one is there. */
qg_status qg_node_memory(qg_ctx *ctx, qg_status s, const char *doing, const qg_node *n);

/* Whether v lives in g: slots never cross graphs. */
static inline bool qg_value_is_in(const qg_graph *g, const qg_value *v)
{
    return v->id < g->value.n && g->value.at[v->id] == v;
}

/* Whether the operator has any of these traits. */
static inline bool qg_node_has(const qg_node *n, uint32_t traits)
{
    return (n->op->traits & traits) != 0;
}

/* The bounds, constants, between which n only clamps its input 0; false: it computes
 * more, or a bound is computed. */
bool qg_node_clamps(const qg_node *n, float *low, float *high);

/* A constant that was learned (engine/learn, gptq, bias-correct) has another one beside
 * it that nothing reads, "<name>.untuned": that of the float network.  known[value id]
 * of each learned constant becomes it; names are made in a. */
#define QG_UNTUNED ".untuned"
/* *learned: the constant whose float value u is; NULL: u is none. */
QG_NODISCARD qg_status qg_graph_learned(const qg_graph *g, const qg_value *u,
                                        qg_arena *a, const qg_value **learned);
QG_NODISCARD qg_status qg_graph_untuned(const qg_graph *g, qg_arena *a,
                                        const qg_tensor **known);

/* Number of uses of all outputs. */
static inline size_t qg_node_readers(const qg_node *n)
{
    size_t readers = 0;
    for (uint32_t k = 0; k < n->n_out; k++)
        readers += n->out[k] ? n->out[k]->use.n : 0;
    return readers;
}

/* Number of uses, plus one when the value is a graph output. */
static inline size_t qg_value_watchers(const qg_value *v)
{
    return v->use.n + (v->is_output ? 1u : 0u);
}

#endif

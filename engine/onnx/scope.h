/* scope.h -- the part of the ONNX import that handles graphs, without protobuf:
 * resolution of names, nodes and constants from drafts, and the final checks of a
 * graph.
 *
 * A scope is a graph, a body or a model-local function being inlined.  Recursion over
 * scopes is bounded by QG_WIRE_DEPTH (bodies) and QG_ONNX_MAX_CALLS (functions).
 *
 * Names      In a graph or body a name is the value of that name, made when first met,
 *            so that consumers may precede producers.  In a function a name is a formal
 *            input or output (bound to a value of the call) or an inner value, called
 *            "<call>/<name>"; no other value of the file has that name.
 * Captures   A body that reads a name not defined in it gets a value without producer.
 *            When its node is added, these become inputs of the node: the scope around
 *            resolves the name, and the round repeats one level further out.
 * Life of a draft    name_node, then attributes (bodies are imported here), then either
 *            inline or add.  Nothing is in the graph before add succeeds, except values
 *            that were named.
 * Messages   begin with "import: node 'name' (Op): ", or with the current operation;
 *            names are clipped at 100 bytes. */
#ifndef QG_ENGINE_ONNX_SCOPE_H
#define QG_ENGINE_ONNX_SCOPE_H

#include "engine/onnx/tensor.h"
#include "engine/ir/graph.h"

typedef struct qg_onnx_function qg_onnx_function; /* function.h */
typedef struct qg_onnx_scope qg_onnx_scope;

/* The newest opset of ai.onnx that is known: of onnx 1.23. */
enum { QG_ONNX_OPSET_MAX = 28 };

/* State of one import; a call of a host that builds a model has its own. */
typedef struct qg_onnx_build {
    qg_ctx *ctx;
    const char *doing; /* begins messages: "import" */
    qg_graph *root;
    qg_arena *scratch; /* dies with the import */
    qg_names *taken;   /* every value name of the file; empty without functions */
    qg_names *function_names; /* domain, name, overload -> index in function */
    QG_VEC(qg_onnx_function) function;
    qg_status (*import_nodes)(qg_onnx_scope *s, const void *function_proto);
    qg_onnx_files files;
    size_t inlined; /* nodes made from functions so far */
    size_t suffix;  /* for names that are taken: only grows, so all stays linear */
} qg_onnx_build;

struct qg_onnx_scope {
    qg_onnx_build *build;
    qg_graph *g;               /* receives the nodes */
    const qg_onnx_scope *call; /* of a function: the scope of its caller */
    const qg_onnx_function
        *function;                /* being inlined, also for bodies in it; or NULL */
    unsigned calls;               /* functions entered so far */
    const char *prefix;           /* "call/", or "" */
    qg_names *names;              /* of a function: its value names; else NULL */
    QG_VEC(qg_value *) value;     /* by id in names; NULL: absent optional input */
    const qg_opset_import *opset; /* [n_opset] */
    size_t n_opset;
    const qg_attr *bound; /* [n_bound]: values of attribute references */
    size_t n_bound;
    uint32_t unnamed; /* nodes without a name so far */
};

/* A node on its way into the graph; all borrowed. */
typedef struct qg_onnx_draft {
    qg_onnx_scope *scope;
    const char *op, *domain;      /* domain "": ai.onnx */
    const char *name;             /* unique in the graph */
    uint32_t file_unnamed;        /* as in qg_node */
    char *const *in, *const *out; /* names in the scope, "" or NULL: absent */
    size_t n_in, n_out;
    const qg_attr *attr; /* in the graph's arena */
    size_t n_attr;
} qg_onnx_draft;

/* "ai.onnx" and NULL become "". */
const char *qg_onnx_domain(const char *domain);

/* Fills the members of b that are zero, with an empty root graph. */
QG_NODISCARD qg_status qg_onnx_build_begin(qg_onnx_build *b);

/* Frees everything but the root, which goes to *out, or is freed too unless s is QG_OK.
 * Returns s.  Also after a failed begin. */
QG_NODISCARD qg_status qg_onnx_build_end(qg_onnx_build *b, qg_status s, qg_graph **out);

/* Checks the IR version and gives it to the root. */
QG_NODISCARD qg_status qg_onnx_ir_version(qg_onnx_build *b, const char *what,
                                          int64_t version);

/* One operator set, checked; `what` ("model.onnx", "function 'f'") for messages.  The
 * second form adds it to those of the root. */
QG_NODISCARD qg_status qg_onnx_opset(qg_onnx_build *b, const char *what,
                                     const char *domain, int64_t version,
                                     qg_opset_import *out);
QG_NODISCARD qg_status qg_onnx_import_opset(qg_onnx_build *b, const char *what,
                                            const char *domain, int64_t version);

qg_status qg_onnx_draft_fail(const qg_onnx_draft *d, qg_status status, const char *fmt,
                             ...) QG_PRINTF(3, 4);

/* Sets d->name and d->file_unnamed; `given` NULL or "" for a made-up name. */
QG_NODISCARD qg_status qg_onnx_name_node(qg_onnx_draft *d, const char *given);

/* The value that `name` means in the scope, made when new; NULL for "" and NULL, and
 * for the formal input of a function that the call leaves out. */
QG_NODISCARD qg_status qg_onnx_value(qg_onnx_scope *s, const char *name,
                                     qg_value **out);

/* In a function: `name` means `value`, which may be NULL.  A name that means something
 * already is refused. */
QG_NODISCARD qg_status qg_onnx_bind(qg_onnx_scope *s, const char *name,
                                    qg_value *value);

/* v becomes a constant; refuses a value that exists otherwise.  `what` as in text. */
QG_NODISCARD qg_status qg_onnx_constant(qg_onnx_build *b, const char *what, qg_value *v,
                                        const qg_tensor *t);

/* The node, or for `Constant` the constant, goes into the graph.  QG_EUNSUPPORTED when
 * the operator is unknown at the imported opset; QG_EMODEL when an output has a
 * producer already, or slots and attributes do not fit the operator. */
QG_NODISCARD qg_status qg_onnx_add(const qg_onnx_draft *d);

/* All nodes are there: nothing may be read that nobody provides (in a body: it is a
 * capture then), no cycles; nodes are put in order. */
QG_NODISCARD qg_status qg_onnx_close(const qg_onnx_scope *s);

#endif

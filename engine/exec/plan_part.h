/* plan_part.h -- state of the plan compiler, shared by plan.c and plan_partial.c while
 * one plan is made.  Private to them.
 *
 * Owner    the builder lives on the stack of qg_plan_new; its arrays lie in the
 *          plan's arena, `scratch` is reset for every node
 * Partial  differences from the base are found endpoint by endpoint:
 *
 *     INPUT   an input or constant is quantized differently from the base, an output is
 *             no longer quantized, or it is in `changed`: the node runs again
 *     OUTPUT  only an output is newly quantized: the base's value is rounded, the node
 *             does not run
 *
 * Nodes downstream of either run again; a value missing in the base, because a kernel
 * absorbed its consumer, is recomputed by its producers. */
#ifndef QG_ENGINE_EXEC_PLAN_PART_H
#define QG_ENGINE_EXEC_PLAN_PART_H

#include "engine/exec/plan.h"

/* Where a value is: its tensor in each layout, QG_NONE while there is none. */
typedef struct qg_place {
    uint32_t tensor[2]; /* [QG_LAYOUT_PLAIN], [QG_LAYOUT_CHANNELS_LAST] */
} qg_place;

/* The treatment of a node in this plan. */
enum qg_todo { QG_TODO_NOTHING, QG_TODO_ROUND, QG_TODO_RUN };

typedef struct qg_builder {
    qg_plan *p;
    const qg_tensor *type;         /* [values] */
    const qg_tensor *const *known; /* [values] constants and folded values, or NULL */
    qg_place *at;                  /* [values] */
    bool *kept;                    /* [values] of options.keep */
    /* [values] the type depends on a constant that a hook may replace; NULL: none */
    bool *guessed;
    uint8_t *todo; /* [nodes] qg_todo */
    /* [nodes] the node because of which it cannot be executed; NULL: all can */
    const qg_node **opaque;
    bool *done;        /* [nodes] absorbed by a kernel before it */
    qg_arena *scratch; /* for one node */
} qg_builder;

/* The record in effect at an endpoint: the substitute of the options, if any. */
const qg_tqc *qg_plan_tqc(const qg_plan_options *o, qg_endpoint at);

/* Whether an endpoint is quantized under these options; t may be NULL.  A baked
 * constant also counts: the graph keeps float weights, and the plan makes the values on
 * the grid. */
bool qg_plan_rounds(const qg_plan_options *o, const qg_tqc *t);
bool qg_plan_rounds_constant(const qg_plan_options *o, const qg_tqc *t);

/* Whether a hook writes there. */
bool qg_plan_writes(const qg_plan_options *o, qg_endpoint at);

/* Whether hooks see this node. */
bool qg_plan_watched(const qg_plan_options *o, const qg_node *n);

/* plan_chain.c: the node that a kernel of `first` may absorb after n (first, or the
 * node absorbed before): it alone consumes n's output 0 with nothing in between, keeps
 * its type, and its other inputs are constants or read by `first` too, as they are.
 * NULL when there is none. */
const qg_node *qg_plan_follower(const qg_builder *b, const qg_node *first,
                                const qg_node *n);

/* Whether n may give a NaN, unless an input of the network holds one: it reads a value
 * or constant that is not finite, or that may not be, or it may make one.  in: types of
 * its inputs, with the data of constants.  Called in the order of nodes, and noted for
 * those that read its outputs (plan->strange); a partial plan has it from its base.
 * Rounding is not regarded: backends differ in what it makes of a NaN. */
bool qg_plan_meets_nan(const qg_builder *b, const qg_node *n,
                       const qg_tensor *const *in);

/* Inference folds in float.  Values downstream of an endpoint that may round constants
 * are removed from known[values], even if the plan mutes it: the plan computes them
 * instead, so that they are rounded, and visible where watched.  The same holds for
 * values that a plan for given input shapes (options.input) watches, which the graph
 * alone does not determine; and for values that a hook writes, or that depend on
 * them. */
void qg_plan_forget_rounded(const qg_plan *p, const qg_tensor **known);

/* Fills b->todo (all QG_TODO_NOTHING before) and b->opaque.  QG_EUNSUPPORTED names an
 * opaque node that is needed, unless options.executable. */
QG_NODISCARD qg_status qg_plan_mark_wanted(qg_builder *b);

/* Whether the plan does not compute v, because an opaque node stands before it. */
bool qg_plan_leaves_out(const qg_builder *b, const qg_value *v);

/* Reduces b->todo of a plan with a base to what the change affects. */
void qg_partial_mark(qg_builder *b);

/* Values that the base run holds: its tensors, in the layouts they have there. */
QG_NODISCARD qg_status qg_partial_borrow(qg_builder *b);

/* The base's kernel and rounded constants of a node that computes the same, with the
 * same followers absorbed: *same false when there is nothing to reuse.  *kernel NULL:
 * it runs by op->run there too. */
typedef struct qg_partial_node {
    bool same;
    const qg_tensor *const *in; /* [n_in] */
    qg_kernel *kernel;          /* in the base's arena */
    uint32_t index;             /* in the base's list of kernels */
} qg_partial_node;
qg_partial_node qg_partial_take(const qg_builder *b, const qg_node *n);

/* plan_constants.c: b->known becomes `known` (in the plan's arena or the base's), each
 * learned constant as it is, or as the float network has it (options.untuned). */
QG_NODISCARD qg_status qg_plan_choose_constants(qg_builder *b,
                                                const qg_tensor *const *known);

/* The constant of an input slot, on its grid when its TQC is active.
 * The result is shared with other slots only when it is not rounded. */
QG_NODISCARD qg_status qg_plan_constant(qg_builder *b, const qg_node *n, uint32_t slot,
                                        const qg_tensor **out);
/* For the inputs in[] of n that its kernel has packed: gives back pages of mapped
 * files, and frees what qg_plan_constant made, whose data is NULL then; the latter not
 * where a plan shows or keeps constants. */
void qg_plan_release(qg_builder *b, const qg_node *n, uint32_t packed,
                     const qg_tensor **in);

/* plan_memory.c: which tensors may share memory, and their offsets; after all steps. */
QG_NODISCARD qg_status qg_plan_pack(qg_plan *p);

/* keep_all: where values are, for plans with this as their base. */
QG_NODISCARD qg_status qg_plan_keep(qg_builder *b);
/* keep_all: the compiled form of node n; in: [n_in], copied. */
QG_NODISCARD qg_status qg_plan_keep_node(qg_builder *b, const qg_node *n,
                                         const qg_tensor *const *in, bool has_kernel);

/* plan_split.c: which steps are computed in parts, when options.threads is above 1. */
void qg_plan_split(qg_plan *p);

#endif

/* util_body.h -- the bodies of control operators: their types, and running them.
 *
 * A body is run node by node with op->infer and op->run (float, plain tensors, no hooks
 * and no rounding: endpoints inside bodies belong to fp32), so any shape may depend on
 * data.  Captured outer values are the last inputs of the node that owns the body.
 *
 * One turn of a Loop, in short:
 *
 *     QG_TRY(qg_body_begin(k, &room));
 *     s = qg_body_run(&room, body, in, out);       // out feeds the next turn's in
 *     qg_body_end(&room);
 *
 * Memory alternates between two arenas, so a loop of any length needs the memory of two
 * turns. */
#ifndef QG_OPS_UTIL_BODY_H
#define QG_OPS_UTIL_BODY_H

#include "ops/util_check.h"

/* The number of the node's inputs without the captured ones. */
static inline size_t qg_own_inputs(const qg_node *n) { return n->n_in - n->n_capture; }

/* The body in an attribute, which must be there and have these numbers of inputs and
 * outputs (QG_EMODEL).  For prepare. */
QG_NODISCARD qg_status qg_body_attr(qg_ctx *ctx, const qg_node *n, const char *name,
                                    size_t n_in, size_t n_out, qg_graph **out);

/* Infers the values of a body: input i has the type and dims of in[i] (the declared
 * type where in[i]->dtype is QG_NODTYPE), captured values those of the node's inputs.
 * Afterwards body->output.at[i]->type is set.  Returns the error of an inner node, if
 * any; types set so far remain. */
QG_NODISCARD qg_status qg_body_infer(const qg_call *k, qg_graph *body,
                                     const qg_tensor *in);

/* Memory for running the bodies of one call; created by qg_body_begin and released by
 * qg_body_end, also after a failure of either. */
typedef struct qg_body_room {
    const qg_call *call; /* of the control node */
    qg_arena *values[2]; /* of this turn and of the one before */
    qg_arena *scratch;   /* of inner nodes */
    unsigned turn;
} qg_body_room;

/* QG_ENOMEM is the only failure. */
QG_NODISCARD qg_status qg_body_begin(const qg_call *k, qg_body_room *room);
void qg_body_end(qg_body_room *room);

/* Runs a body once.  in[i] feeds its input i; out[i] becomes its output i, which is
 * valid until the turn after next: outputs of one turn may feed the next. A value of
 * the body without a producer is QG_EMODEL; QG_ECANCELED before a turn that the caller
 * does not want any more. */
QG_NODISCARD qg_status qg_body_run(qg_body_room *room, const qg_graph *body,
                                   const qg_tensor *const *in, const qg_tensor **out);

/* Gives output `slot` of the node type and dims of t and its own memory; *y is the
 * tensor to fill, NULL when the output is unused.  QG_EDATA when the plan has another
 * type or dims. */
QG_NODISCARD qg_status qg_result(const qg_call *k, size_t slot, const qg_tensor *t,
                                 qg_tensor **y);

/* Output `slot` of the node = t.
 * As qg_result, then the elements; no effect when the output is unused. */
QG_NODISCARD qg_status qg_result_copy(const qg_call *k, size_t slot,
                                      const qg_tensor *t);

#endif

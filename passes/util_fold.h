/* util_fold.h -- multiplying and shifting what a COMPUTE node gives, per output
 * channel.  Shared by fuse-batchnorm and fuse-bias. */
#ifndef QG_PASSES_UTIL_FOLD_H
#define QG_PASSES_UTIL_FOLD_H

#include "engine/ir/edit.h"
#include "engine/pass/pass.h"

/* Output channels of a COMPUTE node with constant float32 weights; 0 when it has none
 * or its weights or bias are not constant.  *why then says which (borrowed text).
 * `by` is the node whose work is folded in: a use of the weights by anyone else is
 * no hindrance, since they are copied. */
size_t qg_fold_channels(const qg_node *compute, const qg_node *by, const char **why);

/* y[c] = scale[c] * y[c] + shift[c] goes into weights and bias of `compute`: new
 * constants, the old ones stay with whoever shares them.  scale NULL: all ones, weights
 * are left alone.
 * Computed in double, rounded once.  scale and shift: [n].  The only failure is
 * QG_ENOMEM; the weights may then be scaled already. */
QG_NODISCARD qg_status qg_fold_affine(qg_graph *g, qg_node *compute, size_t n,
                                      const double *scale, const double *shift);

/* The COMPUTE node that alone feeds input `slot` of n and whose output nobody else
 * sees; NULL otherwise, with the failed condition in *why. */
qg_node *qg_fold_producer(const qg_node *n, uint32_t slot, const char **why);

#endif

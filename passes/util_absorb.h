/* util_absorb.h -- folds a node that computes scale[c] * x + shift[c] into the weights
 * of the preceding compute node.  Shared by fuse-batchnorm and fuse-bias.
 *
 * y = scale * (W x + b) + shift = (scale W) x + (scale b + shift), per output
 * channel; the sums are taken in double and rounded to float32 once. */
#ifndef QG_PASSES_UTIL_ABSORB_H
#define QG_PASSES_UTIL_ABSORB_H

#include "engine/pass/pass.h"

/* Arithmetic of the folding. */
typedef struct qg_absorb_how {
    /* beta of a compute node that adds beta * bias. */
    qg_status (*beta_of)(qg_ctx *ctx, const qg_node *n, float *beta);
    /* Computes weight and bias (NULL: none) of n in a different arithmetic; `axis` is
     * the channel axis of the weight.  New tensors in g's arena.  NULL: in double. */
    qg_status (*fold)(qg_graph *g, const qg_node *n, const qg_tensor *weight, int axis,
                      const qg_tensor *bias, qg_tensor *out[2]);
} qg_absorb_how;

extern const qg_absorb_how qg_absorb_exactly; /* beta as it is, in double */

/* When n->in[slot] comes from a compute node with weight and bias slots, either folds n
 * and sets *done, or records a near miss of `pattern` with the obstacle. Shared weights
 * are copied, never modified; names of outputs stay. */
QG_NODISCARD qg_status qg_absorb(qg_pass_env *env, const char *pattern,
                                 const qg_absorb_how *how, qg_node *n, uint32_t slot,
                                 bool *done);

#endif

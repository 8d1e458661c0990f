/* util_absorb.h -- a node that computes scale[c] * x + shift[c] moves into the weights
 * of the compute node before it.  Shared by fuse-batchnorm and fuse-bias.
 *
 * y = scale * (W x + b) + shift = (scale W) x + (scale b + shift), per output
 * channel; the sums are taken in double and rounded to float32 once. */
#ifndef QG_PASSES_UTIL_ABSORB_H
#define QG_PASSES_UTIL_ABSORB_H

#include "engine/pass/pass.h"

/* How it is computed. */
typedef struct qg_absorb_how {
    /* beta of a compute node that adds beta * bias. */
    qg_status (*beta_of)(qg_ctx *ctx, const qg_node *n, float *beta);
    /* Weight and bias (NULL: none) behind n, in another arithmetic; axis of the weight
     * counts the channels.  New tensors in g's arena.  NULL: in double. */
    qg_status (*fold)(qg_graph *g, const qg_node *n, const qg_tensor *weight, int axis,
                      const qg_tensor *bias, qg_tensor *out[2]);
} qg_absorb_how;

extern const qg_absorb_how qg_absorb_exactly; /* beta as it is, in double */

/* n->in[slot] comes from a compute node with weight and bias slots?  Then try: either
 * the graph has changed and *done is true, or a near miss of `pattern` says what stood
 * against it.
 * Shared weights are copied, never changed for others; names of outputs stay. */
QG_NODISCARD qg_status qg_absorb(qg_pass_env *env, const char *pattern,
                                 const qg_absorb_how *how, qg_node *n, uint32_t slot,
                                 bool *done);

#endif

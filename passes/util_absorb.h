/* util_absorb.h -- a node that computes scale[c] * x + shift[c] moves into the weights
 * of the compute node before it.  Shared by fuse-batchnorm and fuse-bias.
 *
 * y = scale * (W x + b) + shift = (scale W) x + (scale b + shift), per output
 * channel; the sums are taken in double and rounded to float32 once. */
#ifndef QG_PASSES_UTIL_ABSORB_H
#define QG_PASSES_UTIL_ABSORB_H

#include "engine/pass/pass.h"

/* beta of a compute node that adds beta * bias. */
typedef qg_status qg_absorb_beta(qg_ctx *ctx, const qg_node *n, float *beta);
QG_NODISCARD qg_status qg_absorb_beta_of(qg_ctx *ctx, const qg_node *n, float *beta);

/* n->in[slot] comes from a compute node with weight and bias slots?  Then try: either
 * the graph has changed and *done is true, or a near miss of `pattern` says what stood
 * against it.
 * Shared weights are copied, never changed for others; names of outputs stay. */
QG_NODISCARD qg_status qg_absorb(qg_pass_env *env, const char *pattern,
                                 qg_absorb_beta *beta_of, qg_node *n, uint32_t slot,
                                 bool *done);

#endif

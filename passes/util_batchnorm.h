/* util_batchnorm.h -- a normalization with fixed statistics in float32, as PPQ computes
 * it (quirk ppq-batchnorm-in-float32); shared by fuse-batchnorm and batchnorm-to-conv.
 * A difference in the last bit of a weight can decide a rounding tie. */
#ifndef QG_PASSES_UTIL_BATCHNORM_H
#define QG_PASSES_UTIL_BATCHNORM_H

#include "engine/ir/graph.h"

/* n: BatchNormalization with constant parameters (asserted).  Per channel c of axis
 * `axis` of the weight:
 *     out[0] = weight * (scale[c] / sqrt(var[c] + epsilon))
 *     out[1] = scale[c] * (bias[c] - mean[c]) / sqrt(var[c] + epsilon) + B[c]
 * every step rounded.  bias: float32 of 1 or [channels], NULL: 0.
 * Source   PPQ e39eecb, IR/morph.py fuse_bn and replace_batchnorm_to_conv. */
QG_NODISCARD qg_status qg_batchnorm_float32(qg_graph *g, const qg_node *n,
                                            const qg_tensor *weight, int axis,
                                            const qg_tensor *bias, qg_tensor *out[2]);

#endif

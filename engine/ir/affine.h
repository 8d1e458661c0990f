/* affine.h -- y = scale[c] * x + shift[c] per output channel, after a node with
 * weights, moves into them:
 *
 *     scale * (w x + b) + shift  ==  (scale w) x + (scale b + shift)
 *
 * The one place of this arithmetic, for passes that rewrite the graph (fuse-batchnorm,
 * fuse-bias).  In double, rounded once: within
 * the 1e-5 that canonical passes promise.
 * Owner    results lie in the arena that was given; they share nothing with the
 *          arguments. */
#ifndef QG_ENGINE_IR_AFFINE_H
#define QG_ENGINE_IR_AFFINE_H

#include "engine/ir/graph.h"

typedef struct qg_affine {
    size_t channels;
    double *scale, *shift; /* [channels] */
    bool scales;           /* some scale is not 1 */
} qg_affine;

/* x itself. */
QG_NODISCARD qg_status qg_affine_identity(qg_ctx *ctx, qg_arena *a, size_t channels,
                                          qg_affine *out);

/* *f becomes `node` applied to *f, according to op->affine, which must be set.
 * QG_EUNSUPPORTED when that is not affine for this many channels or a factor is not
 * finite; *f is then unchanged. */
QG_NODISCARD qg_status qg_affine_then(qg_ctx *ctx, qg_arena *a, const qg_node *node,
                                      qg_affine *f);

/* Whether a weight can be scaled: `axis` of w counts the channels, or nothing scales.
 * axis -1: the weight has none. */
bool qg_affine_fits(const qg_affine *f, const qg_tensor *w, int axis);

/* w (float32) scaled along axis, which fits. */
QG_NODISCARD qg_status qg_affine_weight(qg_ctx *ctx, qg_arena *a, const qg_affine *f,
                                        const qg_tensor *w, int axis, qg_tensor **out);

/* The bias [channels] after it.  b: float32 of 1 or [channels], NULL: 0.  beta, not
 * 0: the node adds beta * bias (Gemm), so the shift is divided by it. */
QG_NODISCARD qg_status qg_affine_bias(qg_ctx *ctx, qg_arena *a, const qg_affine *f,
                                      const qg_tensor *b, float beta, qg_tensor **out);

#endif

/* gradient.h -- quantizers that learn their grid: LSQ, LSQ+, TQT, PACT, and plain
 * straight-through; forward and backward.
 *
 *     v = (x - b) / s        p: the learned parameter        R: half to even
 *
 *     method      s                         y                     dy/dp, with STE
 *     STE         p, not learned            s (clip(R(v)+z) - z)  0
 *     LSQ         p                         s R(clip(v, n, m))    n below, m above,
 *                                                                 R(v) - v inside
 *     LSQ_PLUS    p; b is learned too       s R(clip(v, n, m)) + b   as LSQ
 *     TQT         2^ceil(p) / max(-n, m+1)  s clip(R(v), n, m)    s ln 2 times that
 *     PACT        p / m                     s R(clip(x, low, p) / s)  1 above, -1 below
 *                                                         (when signed), 0 inside
 *
 *     dy/dx  1 inside, 0 outside;  dy/db of LSQ+ is 1 outside, 0 inside
 *     inside LSQ, LSQ+, STE: n <= v <= m; TQT: n <= R(v) <= m; PACT: low < x < p
 *            low is 0, or -p when n < 0 (signed PACT)
 *
 * The derivatives are those of the straight-through definition: R(v) - v, and for TQT
 * ceil(p) - p, are treated as constants while x, p and b vary.
 * tests/unit/test_gradient.c checks each against central differences of that
 * definition.
 *
 * Arithmetic in double; arrays are float32, rounded once when stored.
 * Units    x, y, s, b, PACT's p: the tensor's own; n, m, z: steps; TQT's p: log2 of the
 *          tensor's unit
 * Layout   x, y, g: dense [outer, channels, inner]; p, b: [channels]
 * Sums     of a channel: in double, in index order
 * Source   docs/evidence/learned-grids.md#lsq; LSQ: Esser et al. 2020; LSQ+: Bhalgat
 *          et al. 2020; TQT: Jain et al. 2020; PACT: Choi et al. 2018.  A v on the
 *          border counts as inside, as in torch.clamp.
 *
 * One training step of a layer with a learned step size per channel:
 *
 *     QG_TRY(qg_learned_forward(ctx, "conv1", &layer, w, w_rounded));
 *     ... loss, g = dL/dw_rounded ...
 *     qg_learned_gradients out = { qg_lsq_factor(n, qmax), dw, dp, NULL };
 *     QG_TRY(qg_learned_backward(ctx, "conv1", &layer, w, g, &out)); */
#ifndef QG_ENGINE_QUANT_GRADIENT_H
#define QG_ENGINE_QUANT_GRADIENT_H

#include <stddef.h>

#include "engine/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
#define QG_LEARNED_MAP(X)                                                      \
    X(STE,      "ste")                                                         \
    X(LSQ,      "lsq")                                                         \
    X(LSQ_PLUS, "lsq-plus")                                                    \
    X(TQT,      "tqt")                                                         \
    X(PACT,     "pact")
/* clang-format on */

/* Rows of the table in the file comment. */
typedef enum qg_learned {
#define X(id, text) QG_LEARNED_##id,
    QG_LEARNED_MAP(X)
#undef X
        QG_NLEARNED
} qg_learned;

/* "lsq-plus", as in files and on the command line. */
QG_API const char *qg_learned_name(qg_learned m);
QG_API int qg_learned_named(const char *text); /* -1 when unknown */

/* One grid.  parameter: p above; offset: b of LSQ+, z of STE, else unused. */
typedef struct qg_learned_grid {
    qg_learned method; /* selects the meaning of the parameter */
    double qmin, qmax; /* n, m: integers, qmin < qmax, qmax > 0 */
    double parameter, offset;
} qg_learned_grid;

/* Everything about one element.
 * Derivatives of y, not of the loss. */
typedef struct qg_learned_one {
    double y, dx, dparameter, doffset; /* value, and derivatives of it */
} qg_learned_one;

/* QG_ENUMERIC unless the grid is finite, its step > 0 and qmin <= 0 < qmax; `what`
 * begins the message. */
QG_NODISCARD QG_API qg_status qg_learned_check(qg_ctx *ctx, const char *what,
                                               const qg_learned_grid *g);

/* The step s. */
QG_API double qg_learned_step(const qg_learned_grid *g);

/* y and the derivatives at x; the grid has been checked.  NaN gives NaN and dx 0. */
QG_API qg_learned_one qg_learned_at(const qg_learned_grid *g, double x);

/* Arrays: one grid per channel.
 * Borrowed; outer * channels * inner elements. */
typedef struct qg_learned_layer {
    size_t outer, channels, inner; /* dense, in this order */
    const qg_learned_grid *grid;   /* [channels] */
} qg_learned_layer;

/* y may be x.
 * Grids are checked first (QG_ENUMERIC); then nothing can fail. */
QG_NODISCARD QG_API qg_status qg_learned_forward(qg_ctx *ctx, const char *what,
                                                 const qg_learned_layer *l,
                                                 const float *x, float *y);

/* The destination of the gradients; any may be NULL.  factor multiplies those of
 * parameter and offset: 1, or qg_lsq_factor(). */
typedef struct qg_learned_gradients {
    double factor;     /* 1, or qg_lsq_factor() */
    float *x;          /* like x; may be the incoming gradient */
    double *parameter; /* [channels] */
    double *offset;    /* [channels] */
} qg_learned_gradients;

/* dL/dx, dL/dp and dL/db from g = dL/dy.
 * Overwrites the gradients, does not add to them.  y is recomputed, so that only x
 * needs to be kept between forward and backward.  Parameters are sums of eight partial
 * sums: element i of the innermost axis belongs to number i % 8. */
QG_NODISCARD QG_API qg_status qg_learned_backward(qg_ctx *ctx, const char *what,
                                                  const qg_learned_layer *l,
                                                  const float *x, const float *g,
                                                  const qg_learned_gradients *out);

/* 1 / sqrt(n qmax): the gradient scale of LSQ, n elements per step. */
QG_API double qg_lsq_factor(size_t n, double qmax);

/* 2 mean|x| / sqrt(qmax): the initial step size of LSQ.  n > 0 (asserted). */
QG_API double qg_lsq_start(const float *x, size_t n, double qmax);

#ifdef __cplusplus
}
#endif

#endif

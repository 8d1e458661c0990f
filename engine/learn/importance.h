/* importance.h -- how much an error of an inner value changes the outputs of the
 * network.
 *
 *     L = sum over outputs of r . y / |y|      r: random signs
 *     w[i] = sum over the samples that teach of (dL / dv[i])^2
 *
 * The expectation of w[i] e^2 is the noise over signal that an error e of v[i] alone
 * causes in these samples, to first order: the diagonal of the Gauss-Newton matrix,
 * which is the Fisher information of outputs with Gaussian noise.  BRECQ weighs the
 * outputs of a block so.
 *
 * Of the float network.  A value behind which no gradient comes back, through a node
 * that has none, has the weight 1; so has one whose dims differ from sample to sample.
 * Cost     a forward and backward of the whole network per sample
 * Memory   of both, and 8 bytes per element of the values
 * Source   Li et al. 2021, section 3.2; Martens 2020 */
#ifndef QG_ENGINE_LEARN_IMPORTANCE_H
#define QG_ENGINE_LEARN_IMPORTANCE_H

#include "engine/core/rng.h"
#include "engine/learn/stream.h"

/* [values] by id; NULL: 1 everywhere. */
typedef struct qg_importance {
    double **weight;
} qg_importance;

/* [values] 1: an output of a block; in a, NULL: out of memory. */
uint8_t *qg_importance_watched(const qg_stream *s, qg_arena *a);

/* For the outputs of all blocks of an open stream; float_tape: of the whole network,
 * which does not round, has the constants of the float network and watches these
 * values.  In a. */
QG_NODISCARD qg_status qg_importance_of(const qg_stream *s, qg_tape *float_tape,
                                        qg_rng rng, qg_arena *a, qg_importance *out);

#endif

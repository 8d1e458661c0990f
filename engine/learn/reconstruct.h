/* reconstruct.h -- one block learns to give the outputs of the float network.
 *
 * Loss      lsq and its kin: sum over outputs of |y - f|^2 / |f|^2; methods that learn
 *           roundings: sum over channels, mean over the rest, of (y - f)^2, plus
 *           0.01 sum (1 - |2 h - 1|^beta) after a fifth of the steps, beta from 20 to 2
 * Samples   one per step, drawn at random from those that are not held back
 * Units     of the rate: of weights, their step; of biases, a sixteenth of their root
 *           mean square; of a step size, its logarithm; of a rounding, V of AdaRound
 * Judge     the first loss on the samples held back: every fourth
 * Source    docs/evidence/learned-grids.md; AdaRound: Nagel et al. 2020, BRECQ: Li et
 *           al. 2021, LSQ: Esser et al. 2020 */
#ifndef QG_ENGINE_LEARN_RECONSTRUCT_H
#define QG_ENGINE_LEARN_RECONSTRUCT_H

#include "engine/core/rng.h"
#include "engine/learn/stream.h"

/* A row of method.def. */
typedef struct qg_tune_method {
    const char *name;
    size_t depth;
    bool weights, biases, steps, rounding;
    size_t iterations;
    double rate;
    const char *summary;
} qg_tune_method;

/* The row of that name; NULL: none.  List: rows, ending with name NULL. */
const qg_tune_method *qg_tune_method_named(const char *name);
extern const qg_tune_method qg_tune_methods[];

typedef struct qg_reconstruction {
    qg_ctx *ctx;
    const qg_tune_method *method;
    const qg_stream *stream;
    qg_tape *tape; /* of the block; keeps what was learned */
    size_t steps;
    double rate;
    qg_rng rng;
    double before, after; /* out: loss on the samples held back */
    bool kept;            /* out: false: no better, the tape is as it was */
} qg_reconstruction;

/* Whether sample i judges and does not teach; with fewer than four samples all do
 * both. */
bool qg_is_held_back(size_t i, size_t n);

QG_NODISCARD qg_status qg_reconstruct(qg_reconstruction *r);

#endif

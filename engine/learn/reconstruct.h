/* reconstruct.h -- one block learns to give the outputs of the float network.
 *
 *     1  before = loss of the tape as it is, on the samples held back
 *     2  `steps` times: parameters are written to the tape; forward on one sample, with
 *        inputs of the lane NOW; the gradient of the loss at each output, against the
 *        lane FLOAT; backward; one step of Adam
 *     3  every rounding becomes 0 or 1; after = loss on the samples held back
 *     4  unless after < before, the tape is restored: a block never gets worse there
 *
 * A rounding of AdaRound is a number V per weight; w0 is the weight, s its scale:
 *
 *     w = s (floor(w0 / s) + h(V))      h(V) = clip(1.2 / (1 + e^-V) - 0.1, 0, 1)
 *
 * V starts where h(V) is the fraction of w0 / s, so that w starts within 0.001 s of w0.
 * The second term of the loss then moves h to 0 or 1.  Example: w0 / s = 3.3 starts
 * with h = 0.3 and ends as code 3 or 4.
 *
 * Loss      methods without roundings: sum over outputs of |y - f|^2 / |f|^2; methods
 *           that learn roundings: sum over channels, mean over the rest, of (y - f)^2,
 *           plus 0.01 sum (1 - |2 h - 1|^beta) after a fifth of the steps, beta from 20
 *           to 2
 * Samples   one per step, drawn at random from those that are not held back
 * Units     of the rate: of weights, their step; of biases, a sixteenth of their root
 *           mean square; of a step size, its logarithm; of a rounding, V of AdaRound
 * Verdict   the first loss on the samples held back, every fourth, for all methods:
 *           the loss of a rounding contains a term that is no error of the network
 * Cost      steps x (forward + backward) + 2 x forward per sample held back
 * Source    docs/evidence/learned-grids.md; AdaRound: Nagel et al. 2020, BRECQ: Li et
 *           al. 2021, LSQ: Esser et al. 2020 */
#ifndef QG_ENGINE_LEARN_RECONSTRUCT_H
#define QG_ENGINE_LEARN_RECONSTRUCT_H

#include "engine/core/progress.h"
#include "engine/core/rng.h"
#include "engine/learn/stream.h"

/* A row of method.def. */
typedef struct qg_tune_method {
    const char *name;
    size_t depth; /* most compute nodes of a block */
    /* What is learned.  rounding replaces weights where a weight has a linear grid; the
     * scale of that grid is then fixed, whatever `steps` is. */
    bool weights, biases, steps, rounding;
    size_t iterations;   /* default of --steps */
    double rate;         /* default of --lr, in the units above */
    const char *summary; /* for `qg list` and errors */
} qg_tune_method;

/* The row of that name; NULL: none.  List: rows, ending with name NULL. */
const qg_tune_method *qg_tune_method_named(const char *name);
extern const qg_tune_method qg_tune_methods[];

/* Pointers are borrowed. */
typedef struct qg_reconstruction {
    qg_ctx *ctx;
    const qg_tune_method *method;
    const qg_stream *stream; /* lanes FLOAT and NOW are read; the inputs of the block
                              * must be there in both, its outputs in FLOAT */
    qg_tape *tape;           /* of the block; keeps what was learned */
    size_t steps;
    double rate;                 /* of the first step */
    const qg_progress *progress; /* of "tune", after each step; may cancel; or NULL */
    size_t done, total;          /* steps of all blocks, for progress */
    qg_rng rng;           /* own state per block: draws do not depend on other blocks */
    double before, after; /* out: loss on the samples held back */
    bool kept;            /* out: false: no better, the tape is as it was */
} qg_reconstruction;

/* Whether sample i judges and does not teach; with fewer than four samples all do
 * both. */
bool qg_is_held_back(size_t i, size_t n);

/* Fails with QG_ENOMEM or as the operators do; the tape is then between two states and
 * must only be freed.  Nothing to learn is no failure: after = before, kept = false. */
QG_NODISCARD qg_status qg_reconstruct(qg_reconstruction *r);

#endif

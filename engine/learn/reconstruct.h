/* reconstruct.h -- one block learns to give the outputs of the float network.
 *
 *     1  before = losses of the tape as it is, on the samples that judge
 *     2  `steps` times: a sample forward with inputs of the lane NOW, the gradient of
 *        the loss at each output against the lane FLOAT, backward.  QG_TUNE_BATCH steps
 *        make an update: the optimizer goes along the mean of their gradients, and
 *        parameters are written to the tape; the last update may have fewer
 *        Where a tenth of them ends, the mean over it is judged as in 3: learning ends
 *        early when the loss has risen three times in a row and is a quarter above the
 *        least.  With few samples and many steps the loss of those that teach falls on
 *        while that of others rises.  Not for roundings, which are settled at the end
 *     3  after = losses on the samples that judge, with the result (parameters.h), or
 *        with three, two or one quarter of the way to it, or with the best mean of 2,
 *        where that is less: what fits only the samples that teach is shortened
 *     4  unless that is clearly better (verdict.h), the tape is restored: a block never
 *        gets worse there
 *
 * Loss      methods without roundings: sum over outputs of |y - f|^2 / |f|^2; methods
 *           that learn roundings: sum over channels, mean over the rest, of (y - f)^2,
 *           and the penalty of soft_rounding.h
 *           With a loss of the network (loss.h) that of its outputs, others do not
 *           count
 * Samples   those that teach, in a random order, each as often as others
 * Verdict   the first loss on the samples that judge (verdict.h), for all methods:
 *           the loss of a rounding contains a term that is no error of the network;
 *           |f|^2 is that of the same sample
 * Threads   the steps of an update work at the same time, with a tape each (tapes.h)
 * Cost      steps x (forward + backward) + 15 x forward per sample that judges
 * Source    docs/evidence/learned-grids.md; AdaRound: Nagel et al. 2020, BRECQ: Li et
 *           al. 2021, LSQ: Esser et al. 2020 */
#ifndef QG_ENGINE_LEARN_RECONSTRUCT_H
#define QG_ENGINE_LEARN_RECONSTRUCT_H

#include "engine/core/progress.h"
#include "engine/core/rng.h"
#include "engine/learn/importance.h"
#include "engine/learn/loss.h"
#include "engine/learn/method.h"
#include "engine/learn/optimizer.h"
#include "engine/learn/stream.h"
#include "engine/learn/verdict.h"

enum { QG_LOSS_CURVE = 10, QG_TUNE_BATCH = 2 };

/* Pointers are borrowed. */
typedef struct qg_reconstruction {
    qg_ctx *ctx;
    const qg_tune_method *method;
    const qg_stream *stream; /* lanes FLOAT and NOW are read; the inputs of the block
                              * must be there in both, its outputs in FLOAT */
    const qg_tapes *tapes;   /* of the block; its tapes keep what was learned */
    qg_loss loss;
    bool drops;                      /* activations by drop.h while learning */
    const qg_importance *importance; /* of elements of the outputs; NULL: all alike */
    size_t steps;
    const qg_optimizer *optimizer;
    double rate;                 /* of the first update */
    const qg_progress *progress; /* of "tune", after each update; may cancel; or NULL */
    size_t done, total;          /* steps of all blocks, for progress */
    qg_rng rng;           /* own state per block: draws do not depend on other blocks */
    double before, after; /* out: mean loss on the samples that judge */
    bool kept;            /* out: false: not better, the tape is as it was */
    double curve[QG_LOSS_CURVE]; /* out: mean loss of each tenth of the steps, as the
                                  * verdict is computed; NAN: no steps in it */
} qg_reconstruction;

/* Fails with QG_ENOMEM or as the operators do; the tape is then between two states and
 * must only be freed or reset.  Nothing to learn is no failure: after = before, kept =
 * false. */
QG_NODISCARD qg_status qg_reconstruct(qg_reconstruction *r);

#endif

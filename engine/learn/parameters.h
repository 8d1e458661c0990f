/* parameters.h -- what a block learns: arrays of numbers, each with an optimizer.  They
 * are kept in double, in their own units, apart from the float32 arrays of the tape.
 *
 *     kind       parameter p       on the tape               dL/dp
 *     WEIGHT     w / unit          w = p unit                dL/dw unit
 *     STEP       ln(s / start)     s = start e^p, or start   dL/ds s
 *                                  2^ceil(p / ln 2)
 *     BORDER     B / unit          z = R(c - B / s), a code dL/dB unit
 *     ROUNDING   V                 soft_rounding.h
 *
 * Scales of weights that learn start where the squared error of the rounded weights is
 * least (weight_grid.h).  Scales that roundings refer to stay: a weight that they clip
 * has no rounding to learn.  The logarithm keeps a scale positive, and makes a change
 * relative.
 *
 * Units    of weights, their step; of biases, the step of what the node gives or a
 *          quarter of their root mean square, whichever is more; of a step size, its
 *          logarithm, within a factor of e^3; of a border (step_gradient.h), half of
 *          the range as it was; of a rounding, V
 * Decay    weights, and biases beside them, go back to where they began with a rate of
 *          DECAY (optimizer.h)
 * Rates    `rate`; of step sizes of activations that are no powers of two, and of their
 *          borders, `pace` of the method times as much: with few bits they have far to
 *          go, and when they are as slow as weights the steps are over before they
 *          arrive
 * Result   weights and steps: the mean over the second half of the steps, which has
 *          less of the noise of single samples (Polyak, Juditsky 1992); roundings: the
 *          last
 *
 *     QG_TRY(qg_parameters_of(&p, tape));         // p: ctx, arena, method ...
 *     for (t = 1 .. steps) {                      // updates of reconstruct.h
 *         qg_parameters_store(&p);                // to the tape
 *         for (each sample of the update)
 *             ... forward, backward ..., qg_parameters_add(&p, tape);
 *         qg_parameters_step(&p, t, steps);
 *     }
 *     qg_parameters_finish(&p);                   // the result, to the tape */
#ifndef QG_ENGINE_LEARN_PARAMETERS_H
#define QG_ENGINE_LEARN_PARAMETERS_H

#include "engine/core/vec.h"
#include "engine/learn/method.h"
#include "engine/learn/optimizer.h"
#include "engine/learn/tapes.h"

/* One array. */
typedef struct qg_learned_array qg_learned_array;

/* Elements from, from + 1, ... of an array, what one thread works on at a time. */
typedef struct qg_learned_part {
    size_t array, from, n;
} qg_learned_part;

/* The caller sets what comes before `array`. */
typedef struct qg_parameters {
    qg_ctx *ctx;
    qg_arena *arena;
    const qg_tapes *tapes;        /* of the block; their threads share the work */
    const qg_tune_method *method; /* chooses what is learned */
    const qg_optimizer *optimizer;
    double rate; /* of the first step */
    QG_VEC(qg_learned_array) array;
    QG_VEC(qg_learned_part) part; /* of all arrays */
    qg_tape *tape;
    size_t n_sample; /* added since the last step */
    size_t n_mean;   /* steps since qg_parameters_begin_mean */
} qg_parameters;

/* Those of the tape; array.n 0: nothing to learn.  Rounded weights are marked as lying
 * on their grid until qg_parameters_finish. */
QG_NODISCARD qg_status qg_parameters_of(qg_parameters *p, qg_tape *t);

void qg_parameters_store(const qg_parameters *p);

/* The gradients of the last backward of a tape of the same block. */
QG_NODISCARD qg_status qg_parameters_add(qg_parameters *p, const qg_tape *t);

/* t from 1 to `steps`, with the mean of the gradients added. */
QG_NODISCARD qg_status qg_parameters_step(qg_parameters *p, size_t t, size_t steps);

/* The mean is over the steps from here on.  The caller begins it where the second half
 * of the steps does, and before that where it pleases. */
void qg_parameters_begin_mean(qg_parameters *p);

/* The mean to the tape; the next qg_parameters_store undoes that.  Weights and steps
 * only: a mean of roundings is none. */
void qg_parameters_store_mean(const qg_parameters *p);
void qg_parameters_keep_mean(qg_parameters *p);      /* one, as float32 */
void qg_parameters_return_to_kept(qg_parameters *p); /* as if it had just been made */

/* Every rounding becomes 0 or 1. */
void qg_parameters_finish(qg_parameters *p);

/* After that: only this part of the way from the start to the result, 0 to 1. */
void qg_parameters_take(qg_parameters *p, double part);

#endif

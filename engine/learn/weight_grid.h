/* weight_grid.h -- where the scales of weights start: at the least squared error of the
 * rounded weights.
 *
 * Calibration covers the largest weight of a channel.  With few bits a smaller scale,
 * which clips the largest weights and rounds the others finer, leaves less noise: 15
 * codes for a normal distribution of 1000 weights, a third less.  Learning moves a
 * scale by little, so it has to start near the best one.
 *
 *     scale   argmin over s of sum (w - s clip(round(w / s), low, high))^2
 *
 * Search   s = calibrated scale times 1, 0.98, 0.96 ... 0.3; from the best of them
 *          alternately codes, and the scale sum(w q) / sum(q^2) that fits the codes
 *          best, until it does not get better.  Powers of two: the scale times 1, 1/2,
 *          1/4.
 * Gain     the error must fall by a quarter, else the calibrated scale stays: with many
 *          bits there is little to gain
 * Per      channel of the grid; a channel of zeros keeps its scale
 * Source   Banner, Nahshan, Soudry 2019; the refinement is Lloyd's (1982) for even
 *          codes */
#ifndef QG_ENGINE_LEARN_WEIGHT_GRID_H
#define QG_ENGINE_LEARN_WEIGHT_GRID_H

#include "engine/learn/tape.h"

/* Whether the step is learned and rounds this weight alone. */
bool qg_weight_grid_is_own(const qg_tape *t, const qg_tape_weight *w);

/* The best scale for channel c of `w`, whose present one is w's step's. */
float qg_weight_grid_scale(const qg_tape *t, const qg_tape_weight *w, size_t c);

#endif

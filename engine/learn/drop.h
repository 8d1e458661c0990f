/* drop.h -- QDrop: while a block learns, each element of an activation is rounded with
 * probability 1/2 only, and each element of an input of the block comes with
 * probability 1/2 from the float network.
 *
 *     forward    y[i] = drawn[i] ? x[i] : rounded[i]
 *     backward   dL/dx[i] = drawn[i] ? g[i] : that of the rounding
 *                a step learns from the elements that were rounded
 *
 * Judging and the values that later blocks get are without it.
 *
 * Example  drawn 0 1 1 0, x 0.3 0.3 0.7 0.7, rounded 0 0 1 1: y 0 0.3 0.7 1
 * Draws    64 elements from each number of the generator, lowest bit first; the
 *          generator is of the step and the sample, so draws do not depend on threads
 * Source   Wei et al. 2022, section 4.2 and algorithm 1 (p = 0.5) */
#ifndef QG_ENGINE_LEARN_DROP_H
#define QG_ENGINE_LEARN_DROP_H

#include "engine/core/arena.h"
#include "engine/core/rng.h"

/* Bit i: element i is drawn.  In a; NULL: no memory. */
uint64_t *qg_drop_draw(qg_arena *a, qg_rng *rng, size_t n);

/* to[i] = from[i] where i is drawn; from NULL: 0. */
void qg_drop_put(const uint64_t *drawn, size_t n, const float *from, float *to);

/* The same with draws that nobody needs again. */
void qg_drop_mix(qg_rng *rng, size_t n, const float *from, float *to);

#endif

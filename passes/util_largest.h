/* util_largest.h -- the largest |activation| per channel of chosen nodes, from the
 * samples of a run.
 *
 * The network runs in float with reference kernels: these values determine weight
 * changes, and a difference in the last bit of a weight changes its code where it lies
 * on a tie, as the largest of a channel does.  Output 0 of each chosen node is observed
 * along its axis 1 (its channels), or along its last one.  Extremes do not depend on
 * the order of samples, so the result is the same for any number of workers.  Cost: one
 * float run per sample. */
#ifndef QG_PASSES_UTIL_LARGEST_H
#define QG_PASSES_UTIL_LARGEST_H

#include "engine/pass/pass.h"

enum qg_largest_axis { QG_LARGEST_SECOND = 1, QG_LARGEST_LAST = 2 };

/* wanted: [nodes] a qg_largest_axis for each chosen node, whose output 0 has rank 2 or
 * more and a known extent there; 0 for others.
 * (*largest)[node]: [channels] for those, NULL for the others; in arena a.
 * QG_EDATA when the run has no samples; QG_ENUMERIC when a sample produces NaN or
 * infinity there. */
QG_NODISCARD qg_status qg_largest_outputs(qg_pass_env *env, const uint8_t *wanted,
                                          qg_arena *a, float ***largest);

/* How many samples a pass may use: those of the feed, at most options.samples. */
size_t qg_pass_samples(const qg_pass_env *env);

#endif

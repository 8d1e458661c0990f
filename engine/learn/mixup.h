/* mixup.h -- samples that a network learns from beside those it was given: mixtures of
 * two of them, for which the float network says what is right as for any input.
 *
 *     x = p a + (1 - p) b    each input in float32, elementwise, p uniform in (0.7, 1)
 *
 * A block has more weights than a few dozen samples can teach, and learns these by
 * heart.  A MobileNet with weights of 4 bits kept a fifth of its noise on the 24 it
 * learned from, and 57 % on 256 others; with mixtures, and the decay of
 * parameters.h, 47 % on the others (means of three sets of samples).  Mixtures of equal
 * parts do as well there, but cost small networks more, whose activations they shift.
 *
 * How many  as many as make QG_MIXUP_ENOUGH samples with those that teach; at most one
 *           for twelve steps of a block, and 64 MiB of inputs, or an eighth of
 *           --max-mem, each counted as the largest sample.  Two samples of different
 *           dims do not mix; a mixture that the network cannot run is left out
 * Memory    inputs and values between blocks, as of a sample.  Where a block cannot
 *           learn within --max-mem, even with the least that it needs, all mixtures are
 *           left out from there on, with a warning: what is learned depends on
 *           --max-mem then, and on nothing else of the machine
 * Without   networks with an input that is no float32 and differs between samples
 *           (tokens), and a loss of classes: kd on mixtures makes their divergence
 *           small, and fewer classes right
 * Source    Zhang et al. 2018; for networks that learn from another one: Beyer et al.
 *           2022, section 3
 *
 * Example   p 0.75, a (4, 0), b (0, 8): x (3, 2) */
#ifndef QG_ENGINE_LEARN_MIXUP_H
#define QG_ENGINE_LEARN_MIXUP_H

#include "engine/core/arena.h"
#include "engine/core/ctx.h"
#include "engine/ir/tensor.h"

enum { QG_MIXUP_ENOUGH = 192 };

/* The part of the first sample, from a number in [0, 1). */
float qg_mixup_part(float drawn);

/* Mixtures beside n samples that teach, of so many bytes each; limit: of all memory. */
size_t qg_mixup_count(size_t n, size_t steps, size_t bytes, size_t limit);

/* Bytes of a mixture of samples like this one, of n inputs. */
size_t qg_mixup_bytes(const qg_tensor *const *x, size_t n);

/* Whether inputs that are no float32 are equal: where any two samples differ in one,
 * there are no mixtures. */
bool qg_mixup_agree(const qg_tensor *const *x, const qg_tensor *const *y, size_t n);

/* Whether two samples that agree, n inputs each, can be mixed. */
bool qg_mixup_can(const qg_tensor *const *x, const qg_tensor *const *y, size_t n);

/* One input of a mixture: new, in a; one that is no float32 is x, as it is. */
QG_NODISCARD qg_status qg_mixup_input(qg_ctx *ctx, float part, const qg_tensor *x,
                                      const qg_tensor *y, qg_arena *a,
                                      const qg_tensor **out);

#endif

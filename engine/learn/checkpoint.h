/* checkpoint.h -- blocks that were learned, in a folder: a tuning that was killed goes
 * on behind the last of them, and its result has the same bytes.
 *
 * A file is named by the SHA-256 of all that a block's result is a function of:
 *
 *     method, steps, optimizer, rate, drops, loss with labels, state of the generator,
 *     version of this format
 *     weights and scales before learning; grids, and which of them are learned
 *     the importance of the outputs (importance.h), where the method weighs by it
 *     of every sample: inputs of the block in the lane NOW, with drops also in FLOAT,
 *     outputs in FLOAT and BEFORE
 *
 * Changed samples, options or models therefore find none of the old files; nothing else
 * identifies a run.
 *
 * File     "qgtune 9\n"; before, after, curve: float64; kept: uint64; when kept,
 *          weights of the tape, then scales and, where they are learned, zero points
 *          of each of its steps: float32, int32; SHA-256 of all that, as text.
 *          Little-endian.  Written by rename (file.h).
 * Hostile  a file of another size, with another hash at its end, or with a scale that
 *          is not a finite number above 0 is as if it were not there
 * Cost     one SHA-256 over the activations of all samples at the ends of the block */
#ifndef QG_ENGINE_LEARN_CHECKPOINT_H
#define QG_ENGINE_LEARN_CHECKPOINT_H

#include "engine/core/hash.h"
#include "engine/learn/reconstruct.h"

/* Both take r as qg_reconstruct gets it; the lane BEFORE of the block has been run.
 * A folder that another process has removed is empty for load; save makes it again.
 * Where a directory has the name of the checkpoint, load finds nothing, and save warns
 * and writes nothing.
 *
 * *found: r has the results of qg_reconstruct, and so has its tape. */
QG_NODISCARD qg_status qg_checkpoint_load(qg_reconstruction *r, const char *folder,
                                          char name[QG_HASH_TEXT], bool *found);

/* name: from qg_checkpoint_load, before the block was learned. */
QG_NODISCARD qg_status qg_checkpoint_save(const qg_reconstruction *r,
                                          const char *folder,
                                          const char name[QG_HASH_TEXT]);

/* Removes the files of checkpoints and what killed writers left, and the folder when
 * nothing else is in it.  A file that cannot be removed stays. */
void qg_checkpoint_remove(qg_ctx *ctx, const char *folder);

/* The same, but checkpoints stay, and with them the folder. */
void qg_checkpoint_tidy(const char *folder);

#endif

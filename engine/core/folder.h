/* folder.h -- a folder whose files are replaced all at once.
 *
 * New files are written into a work folder beside the target.  Commit syncs them and
 * puts the work folder in place: rename when there is no target, an exchange
 * (renameat2) when there is.  Other regular files of the old folder are linked into the
 * new one first, so that they stay.
 *
 * Interrupted   at any moment the target is the old folder, the new folder, or absent
 *               if it was absent before.  A work folder whose writer is gone is removed
 *               by the next begin in the same parent folder (writers hold a lock on
 *               theirs)
 * Two writers   each replaces the whole folder, one after the other (lock.h); the last
 *               one counts.  A file that is written into the folder meanwhile stays
 * In place      where the file system cannot exchange folders, the target has
 *               subfolders, or is the working folder of the process or above it, commit
 *               renames the files over the old ones, in the order of `own`.  Then an
 *               interruption can leave files of both: the reader must be able to notice
 *
 *     QG_TRY(qg_folder_begin(ctx, arena, "snapshot", &f));
 *     ... write files into f.work ...
 *     return qg_folder_commit(&f, own, 2);         // or qg_folder_abandon(&f) */
#ifndef QG_ENGINE_CORE_FOLDER_H
#define QG_ENGINE_CORE_FOLDER_H

#include <stdbool.h>

#include "engine/core/arena.h"
#include "engine/core/ctx.h"

typedef struct qg_folder {
    qg_ctx *ctx;
    qg_arena *arena;
    const char *target; /* resolved when it exists */
    const char *parent; /* of target */
    const char *work;   /* write here */
    bool known;         /* the target existed */
    bool exchanged;     /* the work folder is the target, at `work` is what it was */
    int lock;           /* descriptor of the work folder; -1: none */
} qg_folder;

/* Makes the parents of the target and the work folder.  QG_EIO when the target exists
 * and is not a folder, or a folder cannot be made. */
QG_NODISCARD qg_status qg_folder_begin(qg_ctx *ctx, qg_arena *a, const char *target,
                                       qg_folder *out);

/* own[n]: names that the writer owns: those it did not write this time are gone
 * afterwards.  On failure the target is as before.  Spends *f either way. */
QG_NODISCARD qg_status qg_folder_commit(qg_folder *f, const char *const *own, size_t n);

void qg_folder_abandon(qg_folder *f); /* removes the work folder; safe after commit */

#endif

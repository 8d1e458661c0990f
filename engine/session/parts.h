/* parts.h -- checkpoints of `qg stats collect`: FILE.part of a single process, or of
 * the first of a group, and FILE.part.K of process K.
 *
 * Each is a statistics file.  An interrupted run can be resumed by any number of
 * processes: all of them read all checkpoints, then the first one writes their sum to
 * FILE.part and removes the others.  Ended in between, checkpoints overlap; those whose
 * samples the others have are left out. */
#ifndef QG_ENGINE_SESSION_PARTS_H
#define QG_ENGINE_SESSION_PARTS_H

#include "engine/calib/stats.h"

typedef struct qg_parts {
    const char *stem;  /* FILE, or where names would become too long for file systems,
                        * its beginning and a hash */
    const char **path; /* [n] that exist, sorted */
    size_t n;
} qg_parts;

/* Looks for them; rank 0 stands for a single process, too.  *own: the checkpoint of
 * this process. */
QG_NODISCARD qg_status qg_parts_find(qg_ctx *ctx, qg_arena *a, const char *file,
                                     int rank, qg_parts *out, const char **own);

/* QG_EIO for a file of that name that is no statistics file: a run removes the
 * checkpoints of earlier ones, and nothing else. */
QG_NODISCARD qg_status qg_parts_check(qg_ctx *ctx, const qg_parts *p);

/* Merges one into `into`, unless its samples are there already. */
QG_NODISCARD qg_status qg_parts_merge(qg_stats *into, const qg_stats *part,
                                      const char *path);

/* All but `kept` (NULL: all). */
void qg_parts_remove(const qg_parts *p, const char *kept);

#endif

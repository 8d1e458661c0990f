/* lock.h -- one writer at a time in a folder.
 *
 * Whoever puts files in place in a folder, or replaces the folder, holds its lock: an
 * flock on the folder itself, so that nothing is left behind and the kernel releases it
 * when a process dies.  Locks are held for some system calls, never for computations.
 *
 * No lock      where the folder cannot be opened for reading, or its file system has no
 *              locks on folders (NFS).  The writer goes on: then two writers to the
 *              same names at once may leave files of both
 * Taken by     another program for longer than QG_LOCK_WAIT: the write fails
 *
 *     QG_TRY(qg_locks_take(ctx, folder, n, &locks));
 *     ... rename ...
 *     qg_locks_release(&locks); */
#ifndef QG_ENGINE_CORE_LOCK_H
#define QG_ENGINE_CORE_LOCK_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/core/ctx.h"

#define QG_LOCK_WAIT 60.0 /* seconds */

typedef struct qg_locks {
    qg_ctx *ctx;
    int *fd; /* [n] */
    size_t n;
} qg_locks;

/* The folders of n files, each once: the part of file[i] before its last '/', else the
 * working folder.  All of them or none: while another process holds one, the others are
 * released, so that two takers never wait for each other.  QG_EIO: see above. */
QG_NODISCARD qg_status qg_locks_take(qg_ctx *ctx, const char *const *file, size_t n,
                                     qg_locks *out);
void qg_locks_release(qg_locks *l); /* safe twice */

/* By its name: a folder in which a writer makes the files of another (folder.h).  That
 * writer holds its lock all the time: files in it are written without taking it. */
bool qg_is_work_folder(const char *path);

/* Closes a descriptor and releases its lock, also when a process forked meanwhile has a
 * copy of it. */
void qg_unlock(int fd);

#endif

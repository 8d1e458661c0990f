/* file.h -- whole files in, whole files out; nothing half-written is ever visible.
 *
 * Paths are used as given; nothing is resolved against a folder or the environment.
 * Messages read "<doing>: <path>: <what is wrong>".
 *
 *     qg_file f;
 *     QG_TRY(qg_file_open(ctx, "import", path, limit, &f));
 *     ... f.bytes[0 .. f.size) ...
 *     qg_file_close(&f); */
#ifndef QG_ENGINE_CORE_FILE_H
#define QG_ENGINE_CORE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "engine/core/ctx.h"

/* Bytes of a file, mapped read-only (private).  `bytes` has a readable zero at [size]
 * only when the file was empty (then it points to a constant). */
typedef struct qg_file {
    const unsigned char *bytes;
    size_t size; /* bytes */
    void *map;   /* the mapping; NULL when nothing was mapped */
} qg_file;

/* QG_EIO names path and reason; a directory or a file above `limit` bytes is refused.
 * `doing` begins the message: "import", "read backend", ...
 * A FIFO or device is refused too, without waiting for its other end.  Cost: one
 * mmap; pages come in when read.  A file that another process truncates meanwhile is
 * a SIGBUS, as with any mapping. */
QG_NODISCARD qg_status qg_file_open(qg_ctx *ctx, const char *doing, const char *path,
                                    size_t limit, qg_file *out);
/* The memory of whole pages in bytes[at .. at + n) is given back; a later access reads
 * them from the file again.  For bytes that are not needed soon, if ever. */
void qg_file_release(const qg_file *f, size_t at, size_t n);
/* Every pointer into the bytes is dead.  Safe twice. */
void qg_file_close(qg_file *f);

/* Which file to read; as the parameters of qg_file_open. */
typedef struct qg_file_request {
    const char *doing, *path;
    size_t limit; /* bytes; SIZE_MAX: any size */
} qg_file_request;

/* The whole file as text in the arena, ending with a zero byte that *size does not
 * count.  The bytes may hold zeros of their own.
 *
 *     QG_TRY(qg_file_text(ctx, a, (qg_file_request){ "read", path, LIMIT }, &text,
 *                         &size)); */
QG_NODISCARD qg_status qg_file_text(qg_ctx *ctx, qg_arena *a, qg_file_request from,
                                    char **text, size_t *size);

/* A file under construction: written next to its target and renamed over it by commit,
 * so that the target is either the old or the new file, complete. */
typedef struct qg_writer {
    qg_ctx *ctx;  /* for messages */
    FILE *stream; /* write here; errors are found by commit; NULL while paused */
    char *target, *temporary;
    char *aside; /* where the old target is while several are put in place; NULL */
    int why;     /* errno of a failure when it was closed; -1: unknown; 0: none */
    bool fresh;  /* there was no target */
} qg_writer;

/* Makes the temporary in the target's folder, since rename is atomic within one file
 * system only.  A new file has the permissions that umask leaves, a replaced one those
 * that it had.  A link to a file is replaced, as a file that belongs to others must lie
 * beside them; the file that it leads to stays.  Temporaries there whose process was
 * killed are removed.  On failure nothing was made.  An existing target that is not a
 * regular file is refused (QG_EIO): renaming would replace /dev/null.
 *
 *     qg_writer w;
 *     QG_TRY(qg_writer_open(ctx, path, &w));
 *     fprintf(w.stream, ...);                  // unchecked: commit finds out
 *     return qg_writer_commit(&w); */
QG_NODISCARD qg_status qg_writer_open(qg_ctx *ctx, const char *path, qg_writer *out);
/* Whether a file could be written there, for verbs that compute long before they write:
 * a writer opened and abandoned. */
QG_NODISCARD qg_status qg_writer_check(qg_ctx *ctx, const char *path);
/* Flushes, syncs, closes and renames, then syncs the folder: after a crash or a loss of
 * power the target is the old file or the new one, and after the return the new one.
 * QG_EIO also for any write since open that failed: callers of fprintf need no checks.
 * On failure the old target is untouched and the temporary removed, unless it is the
 * folder that cannot be synced: then an old target is replaced already.  What may not
 * be replaced when it is opened may not be replaced now either.  Either way w is spent;
 * only qg_writer_abandon may follow. */
QG_NODISCARD qg_status qg_writer_commit(qg_writer *w);
/* Files that belong together, the one that refers to the others last.  All are complete
 * before the first is put in place, in this order; before that, old targets are set
 * aside in the same order.  A process that is killed meanwhile leaves old files alone,
 * new files alone or none of them, never old beside new: the last file without some of
 * the others, or others that are new without it.  On failure the old targets come
 * back.  Of two writers of the same files at once, the files of one remain: the folders
 * are locked meanwhile (lock.h). */
QG_NODISCARD qg_status qg_writers_commit(qg_writer *const *w, size_t n);
/* Closes the file for a while, so that there may be more writers than files can be
 * open; resume goes on at its end.  A writer that is not paused is resumed already. */
void qg_writer_pause(qg_writer *w);
QG_NODISCARD qg_status qg_writer_resume(qg_writer *w);
void qg_writer_abandon(qg_writer *w); /* removes the temporary; safe after commit */

/* Removes the temporaries in a folder whose process has ended, and those with the id
 * of this process, which has no writer open there.  Failures are harmless. */
void qg_writer_sweep(const char *folder);

/* qg_writer in one call.
 * For results that are already in memory. */
QG_NODISCARD qg_status qg_file_write(qg_ctx *ctx, const char *path, const void *bytes,
                                     size_t size);

/* Bytes under construction: a stream that ends in memory. Do not move it while it is
 * open.
 *
 *     qg_memory_file f;
 *     QG_TRY(qg_memory_open(ctx, &f));
 *     qg_status s = write_it(f.stream);             // write errors: close finds out
 *     s = qg_memory_close(&f, s);                   // f.bytes [f.size] when QG_OK
 *     ...
 *     qg_memory_free(&f); */
typedef struct qg_memory_file {
    qg_ctx *ctx;
    FILE *stream;
    char *bytes; /* [size], followed by a zero; from malloc */
    size_t size;
} qg_memory_file;
QG_NODISCARD qg_status qg_memory_open(qg_ctx *ctx, qg_memory_file *out);
/* s when that is a failure, else whether everything was written; frees on failure. */
QG_NODISCARD qg_status qg_memory_close(qg_memory_file *f, qg_status s);
void qg_memory_free(qg_memory_file *f); /* safe after a failed close, and twice */

/* What was written to a file, or the names in a folder, is on the disk afterwards.  A
 * file system that cannot sync (EINVAL, EROFS) is no failure, others are QG_EIO. */
QG_NODISCARD qg_status qg_path_sync(qg_ctx *ctx, const char *doing, const char *path);

/* Makes the directory and its parents, and syncs the folders above those that are new;
 * an existing directory is fine.
 * Mode 0755.  On failure (QG_EIO) parents that were made remain. */
QG_NODISCARD qg_status qg_directory_make(qg_ctx *ctx, const char *path);
/* False when the path does not exist or cannot be examined. */
bool qg_is_directory(const char *path);

/* Whether both paths lead to one file, that is there or would be made: other spellings
 * of a folder, and links.  False where that cannot be found out. */
bool qg_is_same_file(const char *a, const char *b);

/* Removes a directory if it is empty.  Used to clean up a directory made for a result
 * that was not written. */
void qg_directory_remove(const char *path);

/* "dir/name" in the arena; NULL when out of memory.
 * No second '/' when the directory ends in one; an empty directory gives name alone. */
char *qg_path_join(qg_arena *a, const char *directory, const char *name);

/* The part of path after its last '/'.
 * "" when path ends in '/'.  Borrowed from path. */
const char *qg_path_base(const char *path);

/* Whether path ends in `end`, ".npz", and is longer. */
bool qg_path_ends_in(const char *path, const char *end);

/* Names in a directory in byte order, without "." and "..".  *names lies in a.
 * Byte order, not the locale's, so that listings and fixtures are the same
 * everywhere.  *names may be NULL when *count is 0.  QG_EIO when the folder cannot
 * be read. */
QG_NODISCARD qg_status qg_directory_list(qg_ctx *ctx, qg_arena *a, const char *path,
                                         const char ***names, size_t *count);

#endif

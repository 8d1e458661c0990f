/* file.h -- whole files in, whole files out; nothing half-written is ever visible. */
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
    size_t size;
    void *map; /* what to unmap; NULL when nothing was mapped */
} qg_file;

/* QG_EIO names path and reason; a directory or a file above `limit` bytes is refused.
 * `doing` begins the message: "import", "read backend", ... */
QG_NODISCARD qg_status qg_file_open(qg_ctx *ctx, const char *doing, const char *path,
                                    size_t limit, qg_file *out);
void qg_file_close(qg_file *f);

/* The whole file as text in the arena, ending with a zero byte. */
QG_NODISCARD qg_status qg_file_text(qg_ctx *ctx, qg_arena *a, const char *doing,
                                    const char *path, size_t limit, char **text,
                                    size_t *size);

/* A file under construction: written beside its target and renamed over it by commit,
 * so that the target is either the old or the new file, complete. */
typedef struct qg_writer {
    qg_ctx *ctx;
    FILE *stream; /* write here; errors are found by commit */
    char *target, *temporary;
} qg_writer;

QG_NODISCARD qg_status qg_writer_open(qg_ctx *ctx, const char *path, qg_writer *out);
QG_NODISCARD qg_status qg_writer_commit(qg_writer *w);
void qg_writer_abandon(qg_writer *w); /* removes the temporary; safe after commit */

/* qg_writer in one call. */
QG_NODISCARD qg_status qg_file_write(qg_ctx *ctx, const char *path, const void *bytes,
                                     size_t size);

/* Makes the directory and its parents; an existing directory is fine. */
QG_NODISCARD qg_status qg_directory_make(qg_ctx *ctx, const char *path);
bool qg_is_directory(const char *path);

/* Removes a directory that is empty; leaves any other alone.  For what was made for a
 * result that did not come. */
void qg_directory_remove(const char *path);

/* "dir/name" in the arena; NULL when out of memory. */
char *qg_path_join(qg_arena *a, const char *directory, const char *name);

/* The part of path after its last '/'. */
const char *qg_path_base(const char *path);

/* Names in a directory in byte order, without "." and "..".  *names lies in a. */
QG_NODISCARD qg_status qg_directory_list(qg_ctx *ctx, qg_arena *a, const char *path,
                                         const char ***names, size_t *count);

#endif

/* reads.h -- files that an operation must not replace: configuration that it has read
 * (a backend names its parent, and a search by name finds files that no caller has
 * named), and another file that it is about to write.
 *
 * config/text.c notes what it reads; writers (file.h) refuse those files.  An operation
 * that writes configuration begins with qg_reads_forget: what earlier operations of the
 * same context have read may be written by then. */
#ifndef QG_ENGINE_CORE_READS_H
#define QG_ENGINE_CORE_READS_H

#include <stdbool.h>

#include "engine/core/ctx.h"

/* `as` completes "write: PATH: is ..., expected another file"; a literal. */
QG_NODISCARD qg_status qg_reads_note(qg_ctx *ctx, const char *path, const char *as);
/* The notes of the file, under any name; none is fine.  Also for a file that the
 * operation has written, read to check it, and may write again. */
void qg_reads_remove(qg_ctx *ctx, const char *path);

/* As what ctx, or the context that it was forked from, has noted the file, under this
 * name or another; NULL: it has not. */
const char *qg_reads_find(const qg_ctx *ctx, const char *path);
/* QG_ECONFIG when it has; path may be NULL. */
QG_NODISCARD qg_status qg_reads_check(qg_ctx *ctx, const char *path);
void qg_reads_forget(qg_ctx *ctx);

#endif

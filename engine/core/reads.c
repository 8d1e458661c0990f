#include "engine/core/reads.h"

#include <string.h>
#include <sys/stat.h>

#include "engine/core/file.h"

/* Notes stay as long as the context: one for each path, however often it is read. */
struct qg_read {
    struct qg_read *next;
    const char *path;
    const char *as; /* NULL: removed */
};

static qg_read *note_of(const qg_ctx *ctx, const char *path)
{
    qg_read *r = ctx->reads;
    while (r && strcmp(r->path, path) != 0)
        r = r->next;
    return r;
}

qg_status qg_reads_note(qg_ctx *ctx, const char *path, const char *as)
{
    qg_read *r = note_of(ctx, path);
    if (!r) {
        r = QG_NEW(ctx->arena, qg_read);
        if (!r || !(r->path = qg_arena_strdup(ctx->arena, path)))
            return qg_nomem(ctx);
        r->next = ctx->reads;
        ctx->reads = r;
    }
    r->as = as;
    return QG_OK;
}

void qg_reads_remove(qg_ctx *ctx, const char *path)
{
    for (qg_read *r = ctx->reads; r; r = r->next)
        if (r->as && qg_is_same_file(path, r->path))
            r->as = NULL;
}

/* A file that is not there yet has one name. */
const char *qg_reads_find(const qg_ctx *ctx, const char *path)
{
    struct stat st;
    const bool there = stat(path, &st) == 0;
    for (; ctx; ctx = ctx->parent)
        for (const qg_read *r = ctx->reads; r; r = r->next)
            if (r->as &&
                (there || strcmp(qg_path_base(r->path), qg_path_base(path)) == 0) &&
                qg_is_same_file(path, r->path))
                return r->as;
    return NULL;
}

qg_status qg_reads_check(qg_ctx *ctx, const char *path)
{
    const char *as = path ? qg_reads_find(ctx, path) : NULL;
    return !as ? QG_OK
               : qg_fail(ctx, QG_ECONFIG, "write: %s: is %s, expected another file",
                         path, as);
}

void qg_reads_forget(qg_ctx *ctx)
{
    for (qg_read *r = ctx->reads; r; r = r->next)
        r->as = NULL;
}

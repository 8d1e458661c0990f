#include "engine/session/parts.h"

#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "engine/core/file.h"
#include "engine/core/hash.h"
#include "engine/core/vec.h"
#include "engine/snapshot/stats_file.h"

/* *out is `file`, or, where its name has more than LONGEST bytes, the first KEPT bytes
 * of the name and digits of the hash of all of it: ".part.K" must fit into the 255
 * bytes of a file name.  QG_ENOMEM otherwise. */
static qg_status name_stem(qg_ctx *ctx, qg_arena *a, const char *file, const char **out)
{
    enum { LONGEST = 240, KEPT = 200, DIGITS = 12 };
    const char *base = qg_path_base(file);
    char hash[QG_HASH_TEXT];
    size_t n = strlen(base);
    *out = file;
    if (n <= LONGEST)
        return QG_OK;
    qg_hash_bytes(base, n, hash);
    *out =
        qg_arena_printf(a, "%.*s-%.*s", (int)(base - file) + KEPT, file, DIGITS, hash);
    return *out ? QG_OK : qg_nomem(ctx);
}

/* "<base>.part", or with ".<digits>" behind it.  Other files that begin like a
 * checkpoint are not of this run and must stay. */
static bool is_part(const char *name, const char *base)
{
    size_t n = strlen(base);
    if (strncmp(name, base, n) != 0 || strncmp(name + n, ".part", 5) != 0)
        return false;
    const char *rest = name + n + 5;
    return !*rest ||
           (*rest == '.' && rest[1] && !rest[1 + strspn(rest + 1, "0123456789")]);
}

/* Reads the folder instead of trying names: the interrupted run may have had any number
 * of processes.  A folder that cannot be read has no checkpoints. */
qg_status qg_parts_find(qg_ctx *ctx, qg_arena *a, const char *file, int rank,
                        qg_parts *out, const char **own)
{
    QG_VEC(const char *) found = { 0 };
    const char **name;
    size_t n;
    assert(rank >= 0);
    QG_TRY(name_stem(ctx, a, file, &out->stem));
    const char *base = qg_path_base(out->stem);
    size_t folder = (size_t)(base - out->stem);
    const char *in = folder ? qg_arena_strndup(a, out->stem, folder) : ".";
    *own = rank ? qg_arena_printf(a, "%s.part.%d", out->stem, rank)
                : qg_arena_printf(a, "%s.part", out->stem);
    if (!in || !*own)
        return qg_nomem(ctx);
    if (qg_directory_list(ctx, a, in, &name, &n) != QG_OK)
        n = 0; /* writing will give the reason */
    for (size_t i = 0; i < n; i++) {
        const char *path =
            is_part(name[i], base)
                ? qg_arena_printf(a, "%.*s%s", (int)folder, file, name[i])
                : "";
        if (!path)
            return qg_nomem(ctx);
        if (*path)
            QG_TRY(qg_vec_push(ctx, a, &found, path));
    }
    out->path = found.at;
    out->n = found.n;
    return QG_OK;
}

/* Damaged ones are checkpoints, too. */
qg_status qg_parts_check(qg_ctx *ctx, const qg_parts *p)
{
    for (size_t i = 0; i < p->n; i++) {
        qg_file f;
        QG_TRY(qg_file_open(ctx, "stats", p->path[i], SIZE_MAX / 2, &f));
        const bool ours = qg_stats_is_file(f.bytes, f.size);
        qg_file_close(&f);
        if (!ours)
            return qg_fail(ctx, QG_EIO,
                           "stats: %s: has the name of a checkpoint and is none, "
                           "expected another output, or no such file",
                           p->path[i]);
    }
    return QG_OK;
}

/* Whether every range of y lies in one of x: ranges that touch are one.  An empty y is
 * in every x. */
static bool has_all(const qg_stats *x, const qg_stats *y)
{
    for (size_t i = 0; i < y->seen.n; i++) {
        bool in = false;
        for (size_t k = 0; k < x->seen.n && !in; k++)
            in = x->seen.at[k].first <= y->seen.at[i].first &&
                 y->seen.at[i].end <= x->seen.at[k].end;
        if (!in)
            return false;
    }
    return true;
}

/* Samples that both have in part are an overlap that qg_stats_merge refuses. */
qg_status qg_parts_merge(qg_stats *into, const qg_stats *part, const char *path)
{
    return has_all(into, part) ? QG_OK
                               : qg_stats_merge(into, part, "other checkpoints", path);
}

/* A file that cannot be removed is no error: the result does not depend on it. */
void qg_parts_remove(const qg_parts *p, const char *kept)
{
    for (size_t i = 0; i < p->n; i++)
        if (!kept || strcmp(p->path[i], kept) != 0)
            (void)unlink(p->path[i]);
}

/* parts.c -- the files of a source: the kind of each, and the samples it holds. */
#include "engine/data/part.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "engine/core/file.h"

static const qg_data_kind *const kinds[] = { &qg_data_npy, &qg_data_npz, &qg_data_pb,
                                             &qg_data_image };

enum { NKIND = sizeof kinds / sizeof kinds[0] };

/* Suffixes are lower case; names may be written in upper case. */
bool qg_data_has_suffix(const char *name, const char *const *suffix)
{
    size_t n = strlen(name);
    for (; *suffix; suffix++) {
        size_t s = strlen(*suffix), i = 0;
        while (i < s && n >= s &&
               ((name[n - s + i] | 0x20) == (*suffix)[i] ||
                name[n - s + i] == (*suffix)[i]))
            i++;
        if (i == s)
            return true;
    }
    return false;
}

static const qg_data_kind *kind_of(const char *path)
{
    for (size_t i = 0; i < NKIND; i++)
        if (qg_data_has_suffix(path, kinds[i]->suffix))
            return kinds[i];
    return NULL;
}

/* Examines the file and appends its samples.  After a failure the file is closed. */
qg_status qg_data_add_part(qg_ctx *ctx, qg_data *d, const qg_data_kind *kind,
                           const char *path, bool kept)
{
    qg_data_part part = { .kind = kind,
                          .path = qg_arena_strdup(d->arena, path),
                          .first = d->count,
                          .kept = kept };
    part.slot = QG_NEWN(d->arena, d->request.n_input, qg_data_slot);
    if (!part.path || !part.slot)
        return qg_nomem(ctx);
    QG_TRY(qg_vec_reserve(ctx, d->arena, &d->part)); /* so that nothing fails below */
    qg_status s = kind->look(ctx, d, &part);
    if (s == QG_OK && part.count == 0)
        s = qg_fail(ctx, QG_EDATA,
                    "data: %.200s: contains no samples, expected at least one", path);
    if (s != QG_OK) {
        if (kept && kind->close)
            kind->close(&part);
        return s;
    }
    d->part.at[d->part.n++] = part;
    if (__builtin_add_overflow(d->count, part.count, &d->count))
        return qg_fail(ctx, QG_EDATA, "data: %.200s: too many samples", path);
    return QG_OK;
}

/* Files in name order; folders below and hidden files are left alone. */
static qg_status add_folder(qg_ctx *ctx, qg_data *d, const char *path)
{
    const char **names;
    size_t n;
    QG_TRY(qg_directory_list(ctx, d->arena, path, &names, &n));
    for (size_t i = 0; i < n; i++) {
        const char *file = qg_path_join(d->arena, path, names[i]);
        if (!file)
            return qg_nomem(ctx);
        const qg_data_kind *kind = kind_of(names[i]);
        if (kind && names[i][0] != '.' && !qg_is_directory(file))
            QG_TRY(qg_data_add_part(ctx, d, kind, file, false));
    }
    return QG_OK;
}

qg_status qg_data_add(qg_ctx *ctx, qg_data *d, const char *path)
{
    if (qg_is_directory(path))
        return add_folder(ctx, d, path);
    const qg_data_kind *kind = kind_of(path);
    if (!kind && access(path, F_OK) != 0)
        return qg_fail(ctx, QG_EIO, "data: %.200s: %s", path, strerror(errno));
    if (!kind)
        return qg_fail(ctx, QG_ECONFIG,
                       "data: %.200s: expected .npy, .npz, .pb, an image, a folder of "
                       "these, .yaml or random:N",
                       path);
    return qg_data_add_part(ctx, d, kind, path, true);
}

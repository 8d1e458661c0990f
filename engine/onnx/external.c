/* external.c -- tensors whose bytes are in a file next to the model. */
#include "engine/onnx/tensor.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "engine/core/file.h"
#include "engine/core/num.h"

/* The real path of `path` in the arena; NULL and errno when there is none. */
static const char *real_path(qg_arena *a, const char *path)
{
    char found[PATH_MAX];
    return realpath(path, found) ? qg_arena_strdup(a, found) : NULL;
}

/* Whether ".." is a part of the path; "a..b" is a fine name. */
static bool has_parent_part(const char *path)
{
    for (const char *at = path; *at;) {
        size_t n = strcspn(at, "/");
        if (n == 2 && memcmp(at, "..", 2) == 0)
            return true;
        at += n + (at[n] == '/');
    }
    return false;
}

static qg_status leaves(const qg_onnx_files *files, const qg_onnx_tensor *t)
{
    return qg_fail(files->graph->ctx, QG_EMODEL,
                   "import: %s: external data path \"%.200s\" leaves the directory of "
                   "the model",
                   t->what, t->location);
}

/* The real path of the data, proven to be below the folder. */
static qg_status locate(const qg_onnx_files *files, const qg_onnx_tensor *t,
                        const char **out)
{
    qg_ctx *ctx = files->graph->ctx;
    if (!t->location || !*t->location)
        return qg_fail(ctx, QG_EMODEL, "import: %s: external data without a location",
                       t->what);
    if (!files->folder)
        return qg_fail(ctx, QG_EIO,
                       "import: %s: external data, but the model was not read from a "
                       "folder",
                       t->what);
    if (t->location[0] == '/' || has_parent_part(t->location))
        return leaves(files, t);
    qg_arena *a = files->graph->arena;
    const char *joined = qg_path_join(a, files->folder, t->location);
    const char *folder = joined ? real_path(a, files->folder) : NULL;
    const char *real = folder ? real_path(a, joined) : NULL;
    if (!joined)
        return qg_nomem(ctx);
    if (!real)
        return qg_fail(ctx, QG_EIO, "import: %s: external data \"%.200s\": %s", t->what,
                       t->location, strerror(errno));
    size_t n = strlen(folder);
    bool below =
        strncmp(real, folder, n) == 0 && (real[n] == '/' || folder[n - 1] == '/');
    if (!below) /* through a symbolic link */
        return leaves(files, t);
    *out = real;
    return QG_OK;
}

/* Maps the file once; the outermost graph keeps it open. */
static qg_status map_once(qg_onnx_files *files, const char *path, const qg_file **out)
{
    qg_graph *g = files->graph;
    uint32_t id;
    if (qg_names_add(files->paths, path, strlen(path), &id) != QG_OK)
        return qg_nomem(g->ctx);
    if (id < files->at.n && files->at.at[id]) {
        *out = files->at.at[id];
        return QG_OK;
    }
    struct qg_graph_file *kept = QG_NEW(g->arena, struct qg_graph_file);
    qg_file *f = QG_NEW(g->arena, qg_file);
    if (!kept || !f)
        return qg_nomem(g->ctx);
    QG_TRY(qg_vec_push(g->ctx, g->arena, &files->at, NULL));
    QG_TRY(qg_file_open(g->ctx, "import", path, SIZE_MAX / 2, f));
    assert(id == files->at.n - 1); /* a failure above ends the import */
    files->at.at[id] = f;
    *kept = (struct qg_graph_file){ .next = g->files, .file = f };
    g->files = kept;
    *out = f;
    return QG_OK;
}

/* offset and length are decimal text in the file. */
static qg_status read_number(const qg_onnx_files *files, const qg_onnx_tensor *t,
                             const char *key, const char *text, int64_t *out)
{
    if (strlen(text) < QG_NUM_TEXT && qg_num_parse_i64(text, strlen(text), out) &&
        *out >= 0)
        return QG_OK;
    return qg_fail(files->graph->ctx, QG_EMODEL,
                   "import: %s: external data %s \"%.40s\", expected a number >= 0",
                   t->what, key, text);
}

qg_status qg_onnx_external(qg_onnx_files *files, const qg_onnx_tensor *t, size_t need,
                           const unsigned char **bytes)
{
    const qg_file *f;
    const char *path;
    int64_t offset = 0, length = (int64_t)need;
    QG_TRY(locate(files, t, &path));
    if (t->offset)
        QG_TRY(read_number(files, t, "offset", t->offset, &offset));
    if (t->length)
        QG_TRY(read_number(files, t, "length", t->length, &length));
    if ((size_t)length != need)
        return qg_fail(files->graph->ctx, QG_EMODEL,
                       "import: %s: external data of %lld bytes, expected %zu", t->what,
                       (long long)length, need);
    QG_TRY(map_once(files, path, &f));
    if ((size_t)offset > f->size || need > f->size - (size_t)offset)
        return qg_fail(
            files->graph->ctx, QG_EMODEL,
            "import: %s: external data at %lld, %zu bytes, but \"%.200s\" has "
            "%zu",
            t->what, (long long)offset, need, t->location, f->size);
    assert(f->bytes); /* also of an empty file */
    *bytes = f->bytes + offset;
    return QG_OK;
}

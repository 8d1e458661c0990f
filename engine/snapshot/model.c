#include "engine/snapshot/model.h"

#include "engine/core/file.h"
#include "engine/core/folder.h"
#include "engine/core/hash.h"
#include "engine/ir/float_type.h"
#include "engine/onnx/export.h"
#include "engine/onnx/import.h"

qg_status qg_model_name(qg_model *m, const char *path, const char *sha256)
{
    m->sha256 = qg_arena_strdup(m->graph->arena, sha256);
    const char *copy = qg_arena_strdup(m->graph->arena, path);
    if (!m->sha256 || !copy)
        return qg_nomem(m->ctx);
    m->path = copy;
    return QG_OK;
}

qg_status qg_model_read(qg_model *m, const char *path, const qg_fixed_shape *shape,
                        size_t n)
{
    char hash[QG_HASH_TEXT];
    QG_TRY(qg_onnx_import(m->ctx, path, NULL, &m->graph));
    QG_TRY(qg_infer(m->graph, shape, n));
    QG_TRY(qg_hash_file(m->ctx, path, hash));
    return qg_model_name(m, path, hash);
}

qg_status qg_model_read_bytes(qg_model *m, const qg_model_source *from,
                              const qg_fixed_shape *shape, size_t n)
{
    char hash[QG_HASH_TEXT];
    qg_onnx_import_options o = { .folder = from->folder, .borrow = !from->passing };
    QG_TRY(qg_onnx_import_bytes(m->ctx, from->bytes, from->size, &o, &m->graph));
    QG_TRY(qg_infer(m->graph, shape, n));
    qg_hash_bytes(from->bytes, from->size, hash);
    return qg_model_name(m, from->name, hash);
}

/* In the order in which a folder that cannot be exchanged gets them (core/folder.h). */
static const char *const files[] = { "model.onnx.data", "model.onnx", "quant.json" };

qg_status qg_snapshot_check(const qg_model *m, const char *name)
{
    const char *want = m->info.manifest.snapshot_sha256;
    if (!want || strcmp(want, m->sha256) == 0)
        return QG_OK;
    return qg_fail(
        m->ctx, QG_EPARSE,
        "snapshot: %.200s: model.onnx has SHA-256 %.12s..., expected %.12s... "
        "as quant.json has it: the files are of different runs, or one was "
        "changed",
        name, m->sha256, want);
}

qg_status qg_snapshot_read(qg_model *m, const char *folder, const qg_fixed_shape *shape,
                           size_t n)
{
    qg_arena *a = qg_arena_new(m->ctx->alloc);
    const char *onnx = a ? qg_path_join(a, folder, "model.onnx") : NULL;
    const char *json = a ? qg_path_join(a, folder, "quant.json") : NULL;
    qg_status s = onnx && json ? qg_model_read(m, onnx, shape, n) : qg_nomem(m->ctx);
    if (s == QG_OK)
        s = qg_quant_json_read(m->graph, json, &m->quant, &m->info);
    if (s == QG_OK)
        s = qg_snapshot_check(m, folder);
    if (s == QG_OK && !(m->path = qg_arena_strdup(m->graph->arena, folder)))
        s = qg_nomem(m->ctx);
    qg_arena_free(a);
    return s;
}

/* Both files into a folder where nothing else is.  The hash in quant.json is that of
 * model.onnx as written. */
static qg_status write_files(qg_model *m, const char *onnx, const char *json)
{
    qg_writer w;
    char hash[QG_HASH_TEXT];
    QG_TRY(qg_onnx_export(m->ctx, m->graph, onnx, NULL));
    QG_TRY(qg_hash_file(m->ctx, onnx, hash));
    QG_TRY(qg_writer_open(m->ctx, json, &w));
    qg_snapshot_info info = m->info;
    info.manifest.snapshot_sha256 = hash;
    qg_status s = qg_quant_json_write(m->quant, &info, w.stream);
    if (s == QG_OK)
        return qg_writer_commit(&w);
    qg_writer_abandon(&w);
    return s;
}

qg_status qg_snapshot_write(qg_model *m, const char *folder)
{
    qg_folder f;
    qg_arena *a = m->graph->arena;
    QG_TRY(qg_folder_begin(m->ctx, a, folder, &f));
    const char *onnx = qg_path_join(a, f.work, "model.onnx");
    const char *json = qg_path_join(a, f.work, "quant.json");
    qg_status s = onnx && json ? write_files(m, onnx, json) : qg_nomem(m->ctx);
    if (s == QG_OK)
        return qg_folder_commit(&f, files, sizeof files / sizeof files[0]);
    qg_folder_abandon(&f);
    return s;
}

qg_status qg_model_expect_finished(const qg_model *m, const char *what)
{
    if (m->path)
        return QG_OK;
    return qg_fail(m->ctx, QG_ESTATE,
                   "%s: '%.100s' is not finished, expected qg_model_finish first", what,
                   m->graph->name);
}

qg_status qg_model_expect_float(const qg_model *m, const char *what)
{
    QG_TRY(qg_model_expect_finished(m, what));
    if (!m->quant)
        return QG_OK;
    return qg_fail(m->ctx, QG_ESTATE,
                   "%s: %s is a snapshot, expected a model that is not quantized", what,
                   m->path);
}

qg_status qg_model_begin_float32(qg_model *m)
{
    bool changed;
    if (m->quant || m->graph->float_type != QG_NODTYPE)
        return QG_OK;
    QG_TRY(qg_graph_to_float32(m->graph, &changed));
    return changed ? qg_infer(m->graph, NULL, 0) : QG_OK;
}

const qg_node *qg_model_own_quantizers(const qg_model *m, size_t *n)
{
    const qg_graph *g = m->graph;
    const qg_node *first = NULL;
    *n = 0;
    for (size_t i = 0; i < g->node.n; i++) {
        if (!qg_node_has(g->node.at[i], QG_OP_QUANTIZER))
            continue;
        first = first ? first : g->node.at[i];
        ++*n;
    }
    return first;
}

qg_status qg_model_expect_quantized(const qg_model *m, const char *what)
{
    QG_TRY(qg_model_expect_finished(m, what));
    if (m->quant)
        return QG_OK;
    size_t n;
    const qg_node *first = qg_model_own_quantizers(m, &n);
    if (first)
        return qg_fail(m->ctx, QG_ESTATE,
                       "%s: %s has quantizers as nodes (%zu, the first is '%.1000s', "
                       "%s), expected a snapshot (qg import --format onnx-qdq makes "
                       "one of it)",
                       what, m->path, n, first->name, first->op->name);
    return qg_fail(m->ctx, QG_ESTATE,
                   "%s: %s is not quantized, expected a snapshot of qg quantize", what,
                   m->path);
}

qg_status qg_model_expect_path(qg_ctx *ctx, const char *what, const char *path)
{
    return path ? QG_OK
                : qg_fail(ctx, QG_ECONFIG, "%s: no path (NULL), expected a path", what);
}

/* archive.c -- a snapshot as one block of bytes: a zip archive whose members, stored as
 * they are, are the files of the folder. */
#include "engine/session/session.h"

#include "engine/data/npz.h"
#include "engine/onnx/export.h"

bool qg_is_archive(const void *bytes, size_t size)
{
    return size >= 4 && memcmp(bytes, "PK\3\4", 4) == 0;
}

/* Member `name`, which must be there; in a when it is packed. */
static qg_status read_member(qg_ctx *ctx, qg_arena *a, const qg_npz *z,
                             const char *name, qg_json_source *out)
{
    const unsigned char *bytes;
    const qg_npz_member *m = qg_npz_find(z, name);
    if (!m)
        return qg_fail(
            ctx, QG_EPARSE,
            "read %.200s: is a zip archive without '%s', expected a snapshot or "
            "an ONNX model; a checkpoint (.pt) has to be exported first",
            z->path, name);
    QG_TRY(qg_npz_file(ctx, a, z, m, &bytes));
    *out = (qg_json_source){ name, (const char *)bytes, m->size };
    return QG_OK;
}

/* A model that somebody packed goes with the scratch memory it was inflated to. */
static qg_status read_files(qg_model *m, const qg_model_source *from,
                            const qg_fixed_shape *shape, size_t n, qg_arena *scratch)
{
    qg_npz z;
    qg_json_source onnx, json;
    QG_TRY(qg_npz_open_bytes(m->ctx, scratch, from->name, from->bytes, from->size, &z));
    QG_TRY(read_member(m->ctx, scratch, &z, "model.onnx", &onnx));
    QG_TRY(read_member(m->ctx, scratch, &z, "quant.json", &json));
    qg_model_source model = { .name = from->name,
                              .bytes = onnx.bytes,
                              .size = onnx.size,
                              .passing = qg_npz_find(&z, "model.onnx")->deflated };
    QG_TRY(qg_model_read_bytes(m, &model, shape, n));
    QG_TRY(qg_quant_json_parse(m->graph, &json, &m->quant, &m->info));
    return qg_snapshot_check(m, from->name);
}

qg_status qg_archive_read(qg_model *m, const qg_model_source *from,
                          const qg_fixed_shape *shape, size_t n)
{
    qg_arena *scratch = qg_arena_new(m->ctx->alloc);
    qg_status s = scratch ? read_files(m, from, shape, n, scratch) : qg_nomem(m->ctx);
    qg_arena_free(scratch);
    return s;
}

/* Each file is made in memory and added: its size and checksum precede it. */
static qg_status add_model(qg_model *m, qg_npz_writer *w)
{
    qg_memory_file f;
    QG_TRY(qg_memory_open(m->ctx, &f));
    QG_TRY(
        qg_memory_close(&f, qg_onnx_export_stream(m->ctx, m->graph, f.stream, NULL)));
    qg_status s = qg_npz_add_file(w, "model.onnx", f.bytes, f.size);
    qg_memory_free(&f);
    return s;
}

static qg_status add_records(qg_model *m, qg_npz_writer *w)
{
    qg_memory_file f;
    char hash[QG_HASH_TEXT];
    qg_snapshot_info info = m->info;
    QG_TRY(qg_onnx_hash(m->ctx, m->graph, hash));
    info.manifest.snapshot_sha256 = hash;
    QG_TRY(qg_memory_open(m->ctx, &f));
    QG_TRY(qg_memory_close(&f, qg_quant_json_write(m->quant, &info, f.stream)));
    qg_status s = qg_npz_add_file(w, "quant.json", f.bytes, f.size);
    qg_memory_free(&f);
    return s;
}

qg_status qg_archive_write(qg_model *m, FILE *stream)
{
    qg_npz_writer w;
    QG_TRY(qg_npz_begin(m->ctx, "snapshot", stream, &w));
    qg_status s = add_model(m, &w);
    if (s == QG_OK)
        s = add_records(m, &w);
    if (s == QG_OK)
        s = qg_npz_end(&w);
    qg_npz_abandon(&w);
    return s;
}

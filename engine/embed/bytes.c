/* bytes.c -- models from the bytes and texts of a host, and bytes that the library
 * hands back. */
#include "engine/core/hash.h"
#include "engine/ir/text.h"
#include "engine/onnx/export.h"
#include "engine/onnx/scope.h"
#include "engine/session/session.h"

void qg_bytes_free(qg_ctx *ctx, qg_bytes *b)
{
    if (!b)
        return;
    if (b->data)
        ctx->alloc.drop(ctx->alloc.ud, b->data);
    *b = (qg_bytes){ 0 };
}

/* --- in --- */

qg_status qg_model_open_bytes(qg_ctx *ctx, const void *bytes, size_t size,
                              const qg_model_options *given, qg_model **out)
{
    qg_model_options o;
    QG_TRY(QG_OPTIONS_READ(ctx, qg_model_options, given, &o));
    qg_model_source from = {
        .name = "memory", .bytes = bytes, .size = size, .folder = o.folder
    };
    return qg_model_make(ctx, &o, qg_model_read_source, &from, out);
}

/* A text without an opset has operators of the newest one. */
static qg_status name_opset(qg_graph *g)
{
    const qg_opset_import newest = { .domain = "", .version = QG_ONNX_OPSET_MAX };
    if (qg_graph_opset(g, ""))
        return QG_OK;
    return qg_vec_push(g->ctx, g->arena, &g->opset, newest);
}

static qg_status read_text(qg_model *m, const void *from, const qg_fixed_shape *shape,
                           size_t n)
{
    const qg_text_source *text = from;
    char hash[QG_HASH_TEXT];
    QG_TRY(qg_text_parse(m->ctx, text, &m->graph));
    QG_TRY(name_opset(m->graph));
    QG_TRY(qg_infer(m->graph, shape, n));
    qg_hash_bytes(text->text, text->size, hash);
    return qg_model_name(m, "text", hash);
}

qg_status qg_model_open_text(qg_ctx *ctx, const char *text, size_t size, qg_model **out)
{
    qg_text_source from = { .text = text, .size = size };
    return qg_model_make(ctx, NULL, read_text, &from, out);
}

/* --- out --- */

/* The stream's memory is malloc's, the host's comes from its own functions. */
static qg_status give(qg_memory_file *f, qg_bytes *out)
{
    qg_ctx *ctx = f->ctx;
    void *copy = ctx->alloc.get(ctx->alloc.ud, f->size);
    if (copy) {
        memcpy(copy, f->bytes, f->size);
        *out = (qg_bytes){ copy, f->size };
    }
    qg_memory_free(f);
    return copy ? QG_OK : qg_nomem(ctx);
}

qg_status qg_model_save_bytes(qg_model *m, qg_bytes *out)
{
    qg_memory_file f;
    QG_TRY(qg_model_expect_quantized(m, "save"));
    QG_TRY(qg_memory_open(m->ctx, &f));
    QG_TRY(qg_memory_close(&f, qg_archive_write(m, f.stream)));
    return give(&f, out);
}

qg_status qg_model_export_onnx_bytes(qg_model *m, qg_bytes *out)
{
    qg_memory_file f;
    const qg_export_options o = { .learned_alone = true };
    QG_TRY(qg_model_expect_finished(m, "export"));
    QG_TRY(qg_memory_open(m->ctx, &f));
    QG_TRY(qg_memory_close(&f, qg_onnx_export_stream(m->ctx, m->graph, f.stream, &o)));
    return give(&f, out);
}

#include "engine/onnx/data.h"

#include <assert.h>
#include <limits.h>

#include "engine/core/file.h"
#include "engine/onnx/import.h"

/* The importer reads models: the TensorProto becomes the one initializer of a model
 * that is written around it.  Of repeated fields the last one counts, so a name is
 * added at its end.  Source: "Encoding", the protobuf wire format; field numbers of
 * onnx.proto: ModelProto 1 ir_version, 7 graph, 8 opset_import {2 version}; GraphProto
 * 5 initializer; TensorProto 8 name. */
typedef struct wire {
    unsigned char *at;
    size_t n;
} wire;

enum { NAME_BYTES = 3, FRAME_BYTES = 64 };

/* Seven bits per byte, the lowest first; at most ten bytes. */
static void varint(wire *w, uint64_t v)
{
    assert(w->at);
    for (; v > 127; v >>= 7)
        w->at[w->n++] = (unsigned char)(v | 128);
    w->at[w->n++] = (unsigned char)v;
}

/* The bytes that varint() will write. */
static size_t varint_size(uint64_t v)
{
    size_t n = 1;
    for (; v > 127; v >>= 7)
        n++;
    return n;
}

/* The key of a field that is a number (0) or has a length (2). */
static void key(wire *w, unsigned field, unsigned type)
{
    varint(w, field << 3 | type);
}

/* ir_version 8 and opset 13 of the default domain: any that the importer takes would
 * do. */
static void wrap(wire *w, const qg_file *f)
{
    static const unsigned char opset[] = { 2 << 3, 13 },
                               name[] = { 8 << 3 | 2, 1, 't' };
    uint64_t tensor = f->size + NAME_BYTES;
    key(w, 1, 0);
    varint(w, 8);
    key(w, 8, 2);
    varint(w, sizeof opset);
    memcpy(w->at + w->n, opset, sizeof opset);
    w->n += sizeof opset;
    key(w, 7, 2);
    varint(w, 1 + varint_size(tensor) + tensor);
    key(w, 5, 2);
    varint(w, tensor);
    if (f->size)
        memcpy(w->at + w->n, f->bytes, f->size);
    memcpy(w->at + w->n + f->size, name, sizeof name);
    w->n += tensor;
}

/* The tensor is cloned out of the graph, which is gone afterwards. */
qg_status qg_onnx_read_tensor(qg_ctx *ctx, qg_arena *a, const char *path,
                              const qg_tensor **out)
{
    qg_file f;
    qg_graph *g = NULL;
    qg_tensor *copy = NULL;
    QG_TRY(qg_file_open(ctx, "read tensor", path, INT_MAX - FRAME_BYTES, &f));
    qg_arena *scratch = qg_arena_new(ctx->alloc);
    wire w = { scratch ? qg_arena_raw(scratch, f.size + FRAME_BYTES, 1) : NULL, 0 };
    qg_status s = w.at ? QG_OK : qg_nomem(ctx);
    if (s == QG_OK) {
        wrap(&w, &f);
        s = qg_onnx_import_bytes(ctx, w.at, w.n, NULL, &g);
    }
    if (s == QG_OK)
        s = qg_tensor_clone(ctx, a, qg_graph_value(g, "t")->constant, &copy);
    qg_graph_free(g);
    qg_arena_free(scratch);
    qg_file_close(&f);
    if (s == QG_OK)
        *out = copy;
    return s;
}

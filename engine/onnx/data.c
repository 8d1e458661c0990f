#include "engine/onnx/data.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

#include "engine/core/file.h"
#include "engine/onnx/import.h"
#include "engine/onnx/wire.h"

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

static const void *no_message(const void *kind, unsigned field)
{
    (void)kind;
    (void)field;
    return NULL;
}

/* A file that ends within a field would swallow the name behind it. */
static qg_status check(qg_ctx *ctx, const qg_file *f, qg_arena *a)
{
    const qg_wire whole = { .name = "model",
                            .bytes = f->bytes,
                            .size = f->size,
                            .child = no_message,
                            .what = "TensorProto" };
    const unsigned char *copy;
    size_t n;
    return qg_wire_strip(ctx, &whole, a, &copy, &n);
}

/* The tensor is cloned out of the graph, which is gone afterwards. */
static qg_status read(qg_ctx *ctx, const qg_file *f, qg_arena *a, const qg_tensor **out)
{
    qg_graph *g = NULL;
    qg_tensor *copy = NULL;
    QG_TRY(check(ctx, f, ctx->arena));
    wire w = { qg_arena_raw(ctx->arena, f->size + FRAME_BYTES, 1), 0 };
    if (!w.at)
        return qg_nomem(ctx);
    wrap(&w, f);
    qg_status s = qg_onnx_import_bytes(ctx, w.at, w.n, NULL, &g);
    if (s == QG_OK)
        s = qg_tensor_clone(ctx, a, qg_graph_value(g, "t")->constant, &copy);
    qg_graph_free(g);
    *out = copy;
    return s;
}

/* A message of the importer without the words for the model around the tensor. */
static const char *of_tensor(const char *message)
{
    static const char *const words[] = { "import: ", "model: ", "initializer 't': " };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(message, words[i], strlen(words[i])) == 0)
            message += strlen(words[i]);
    return message;
}

/* The import has a context of its own: workers share the names of theirs. */
qg_status qg_onnx_read_tensor(qg_ctx *ctx, qg_arena *a, const char *path,
                              const qg_tensor **out)
{
    qg_file f;
    QG_TRY(qg_file_open(ctx, "read tensor", path, INT_MAX - FRAME_BYTES, &f));
    qg_ctx *own = qg_ctx_new(ctx->alloc);
    qg_status s = own ? QG_OK : qg_nomem(ctx);
    if (own) {
        own->budget = ctx->budget;
        own->limits = ctx->limits;
        own->registry = ctx->registry;
        s = read(own, &f, a, out);
    }
    if (own && s != QG_OK)
        s = qg_fail(ctx, s, "read %s: %s", path, of_tensor(qg_ctx_message(own)));
    qg_ctx_free(own);
    qg_file_close(&f);
    return s;
}

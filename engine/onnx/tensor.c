#include "engine/onnx/tensor.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "engine/core/num.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ONNX data is little-endian");

const char *qg_onnx_type_name(int64_t data_type)
{
    static const struct {
        int64_t code;
        const char *name;
    } others[] = {
        {0,   "undefined" },
        { 8,  "string"    },
        { 14, "complex64" },
        { 15, "complex128"},
        { 27, "float6e2m3"},
        { 28, "float6e3m2"}
    };
    qg_dtype d = qg_dtype_of_onnx(data_type);
    if (d != QG_NODTYPE)
        return qg_dtype_name(d);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (others[i].code == data_type)
            return others[i].name;
    return "unknown";
}

/* "8x3x3x3", "scalar" for rank 0. */
static const char *dims_text(const qg_onnx_tensor *t, char text[QG_SHAPE_TEXT])
{
    size_t used = 0;
    if (t->n_dim == 0)
        return "scalar";
    for (size_t i = 0; i < t->n_dim && used < QG_SHAPE_TEXT - 24; i++)
        used += (size_t)snprintf(text + used, QG_SHAPE_TEXT - used, "%s%lld",
                                 i ? "x" : "", (long long)t->dim[i]);
    return text;
}

/* Type and dims, and the bytes they need; nothing is allocated before this succeeds. */
static qg_status read_shape(qg_ctx *ctx, const qg_onnx_tensor *t, qg_tensor *out,
                            size_t *bytes)
{
    qg_dtype dtype = qg_dtype_of_onnx(t->data_type);
    if (dtype == QG_NODTYPE)
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "import: %s: element type %lld (%s) is not supported", t->what,
                       (long long)t->data_type, qg_onnx_type_name(t->data_type));
    if (t->n_dim > QG_MAX_RANK)
        return qg_fail(ctx, QG_EUNSUPPORTED, "import: %s: rank %zu, supported up to %d",
                       t->what, t->n_dim, QG_MAX_RANK);
    int64_t count = 1;
    char text[QG_SHAPE_TEXT];
    for (size_t i = 0; i < t->n_dim; i++)
        if (t->dim[i] < 0)
            return qg_fail(ctx, QG_EMODEL, "import: %s: negative dimension %lld in %s",
                           t->what, (long long)t->dim[i], dims_text(t, text));
    for (size_t i = 0; i < t->n_dim; i++)
        if (!qg_mul_i64(count, t->dim[i], &count))
            return qg_fail(ctx, QG_EMODEL,
                           "import: %s: the element count of %s overflows", t->what,
                           dims_text(t, text));
    if (!qg_dtype_bytes(dtype, (uint64_t)count, bytes))
        return qg_fail(ctx, QG_EMODEL, "import: %s: the byte count of %s overflows",
                       t->what, dims_text(t, text));
    qg_tensor_init(out, dtype, (int32_t)t->n_dim, t->dim);
    return QG_OK;
}

/* Too few values would be read from elsewhere, too many mean that dims are wrong. */
static qg_status count_differs(qg_ctx *ctx, const qg_onnx_tensor *t, size_t need,
                               size_t have, const char *unit)
{
    char text[QG_SHAPE_TEXT];
    return qg_fail(ctx, QG_EMODEL,
                   "import: %s: dimensions %s need %zu %s, the file has %zu", t->what,
                   dims_text(t, text), need, unit, have);
}

/* The typed fields of TensorProto and the element types each may hold. */
enum field { F32_DATA, F64_DATA, I32_DATA, I64_DATA, U64_DATA, NFIELD };

static enum field field_of(qg_dtype d)
{
    switch (d) {
    case QG_F32:
        return F32_DATA;
    case QG_F64:
        return F64_DATA;
    case QG_I64:
        return I64_DATA;
    case QG_U32:
    case QG_U64:
        return U64_DATA;
    default:
        return I32_DATA;
    }
}

struct typed {
    const void *at;
    size_t n;
};

static struct typed typed_field(const qg_onnx_tensor *t, enum field f)
{
    const struct typed all[NFIELD] = {
        [F32_DATA] = {t->f32,  t->n_f32},
        [F64_DATA] = { t->f64, t->n_f64},
        [I32_DATA] = { t->i32, t->n_i32},
        [I64_DATA] = { t->i64, t->n_i64},
        [U64_DATA] = { t->u64, t->n_u64}
    };
    return all[f];
}

/* Stores small elements, which int32_data holds one per entry: integers by value,
 * 16-bit and 8-bit floats by their bits, packed types by the byte. */
static qg_status narrow(qg_ctx *ctx, const qg_onnx_tensor *t, qg_tensor *out)
{
    enum qg_dtype_kind kind = qg_dtype_kind_of(out->dtype);
    unsigned bits = qg_dtype_bits(out->dtype);
    int64_t low = 0, high = bits <= 8 ? UINT8_MAX : UINT16_MAX;
    if (kind == QG_KIND_INT && bits >= 8) {
        low = -(INT64_C(1) << (bits - 1));
        high = -low - 1;
    }
    for (size_t i = 0; i < t->n_i32; i++) {
        int64_t x = t->i32[i];
        if (bits < 8) /* some writers sign-extend the byte */
            x &= UINT8_MAX;
        if (x < low || x > high)
            return qg_fail(ctx, QG_EMODEL,
                           "import: %s: value %lld of int32_data does not fit %s",
                           t->what, (long long)x, qg_dtype_name(out->dtype));
        if (bits == 32)
            out->i32[i] = t->i32[i];
        else if (bits == 16)
            out->u16[i] = (uint16_t)x;
        else
            out->u8[i] = (uint8_t)x;
    }
    return QG_OK;
}

/* uint32 comes in 64-bit entries. */
static qg_status read_u32(qg_ctx *ctx, const qg_onnx_tensor *t, qg_tensor *out)
{
    for (size_t i = 0; i < t->n_u64; i++) {
        if (t->u64[i] > UINT32_MAX)
            return qg_fail(ctx, QG_EMODEL,
                           "import: %s: value %llu of uint64_data does not fit uint32",
                           t->what, (unsigned long long)t->u64[i]);
        out->u32[i] = (uint32_t)t->u64[i];
    }
    return QG_OK;
}

/* Elements out of the one field that holds the type; any other that is filled is a
 * contradiction. */
static qg_status read_typed(qg_ctx *ctx, qg_arena *a, const qg_onnx_tensor *t,
                            size_t bytes, qg_tensor *out)
{
    enum field f = field_of(out->dtype);
    struct typed have = typed_field(t, f);
    unsigned bits = qg_dtype_bits(out->dtype);
    size_t need = bits < 8 ? bytes : (size_t)qg_tensor_count(out);
    for (int other = 0; other < NFIELD; other++)
        if (other != (int)f && typed_field(t, (enum field)other).n)
            return qg_fail(ctx, QG_EMODEL,
                           "import: %s: its data is in a field that cannot contain %s",
                           t->what, qg_dtype_name(out->dtype));
    if (have.n != need)
        return count_differs(ctx, t, need, have.n, "values");
    out->data = qg_arena_raw(a, bytes, 1);
    if (!out->data)
        return qg_nomem(ctx);
    if (f == I32_DATA)
        return narrow(ctx, t, out);
    if (out->dtype == QG_U32)
        return read_u32(ctx, t, out);
    if (bytes)
        memcpy(out->data, have.at, bytes);
    return QG_OK;
}

/* Bytes as stored become the tensor's data: in place when aligned and beyond doubt,
 * else copied. */
static qg_status adopt(qg_ctx *ctx, qg_arena *a, const unsigned char *bytes, size_t n,
                       bool stays, qg_tensor *out)
{
    unsigned bits = qg_dtype_bits(out->dtype);
    assert(bits > 0 && (n == 0 || bytes));
    bool strict = out->dtype == QG_BOOL || bits < 8; /* see the end */
    if (stays && !strict && (uintptr_t)bytes % (bits / 8) == 0) {
        out->data = (void *)(uintptr_t)bytes; /* constants are never written to */
        return QG_OK;
    }
    out->data = qg_arena_raw(a, n, 1);
    if (!out->data)
        return qg_nomem(ctx);
    if (n)
        memcpy(out->data, bytes, n);
    if (out->dtype == QG_BOOL) /* any byte but 0 and 1 would be undefined in C */
        for (size_t i = 0; i < n; i++)
            out->u8[i] = out->u8[i] != 0;
    unsigned used =
        (unsigned)((uint64_t)qg_tensor_count(out) % (8 / (bits < 8 ? bits : 8)));
    if (bits < 8 && used) /* dtype.h: the last byte is padded with zeros */
        out->u8[n - 1] &= (uint8_t)((1u << used * bits) - 1);
    return QG_OK;
}

static qg_status read_whole(qg_onnx_files *files, const qg_onnx_tensor *t,
                            const qg_tensor **out)
{
    qg_graph *g = files->graph;
    size_t bytes;
    qg_tensor *made = QG_NEW(g->arena, qg_tensor);
    if (!made)
        return qg_nomem(g->ctx);
    QG_TRY(read_shape(g->ctx, t, made, &bytes));
    if (t->n_string)
        return qg_fail(g->ctx, QG_EMODEL, "import: %s: string_data in a %s tensor",
                       t->what, qg_dtype_name(made->dtype));
    if (t->external) {
        const unsigned char *at;
        QG_TRY(qg_onnx_external(files, t, bytes, &at));
        QG_TRY(adopt(g->ctx, g->arena, at, bytes, true, made));
    } else if (t->has_raw) {
        if (t->n_raw != bytes)
            return count_differs(g->ctx, t, bytes, t->n_raw, "bytes");
        QG_TRY(adopt(g->ctx, g->arena, t->raw, bytes, t->raw_stays, made));
    } else {
        QG_TRY(read_typed(g->ctx, g->arena, t, bytes, made));
    }
    assert(made->data);
    *out = made;
    return QG_OK;
}

/* Names the tensor where memory ran out. */
qg_status qg_onnx_tensor_read(qg_onnx_files *files, const qg_onnx_tensor *t,
                              const qg_tensor **out)
{
    qg_ctx *ctx = files->graph->ctx;
    const qg_status s = read_whole(files, t, out);
    if (!qg_memory_unplaced(ctx, s))
        return s;
    return qg_fail(ctx, s, "import: %s: %s", t->what, qg_ctx_message(ctx));
}

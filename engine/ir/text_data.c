#include "engine/ir/text_data.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/number/format.h"

const char *const qg_text_platforms[4] = { [QG_PLATFORM_QUANTIZED] = "quantized",
                                           [QG_PLATFORM_FP32] = "fp32",
                                           [QG_PLATFORM_SOI] = "soi" };

/* The bits that an element of the dtype has. */
static uint64_t mask_of(qg_dtype d)
{
    unsigned bits = qg_dtype_bits(d);
    return bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

uint64_t qg_text_bits(const qg_tensor *t, int64_t i)
{
    unsigned bits = qg_dtype_bits(t->dtype);
    uint64_t at = (uint64_t)i * bits, x = 0;
    assert(bits && t->data);
    if (bits >= 8)
        memcpy(&x, t->u8 + at / 8, bits / 8); /* little-endian, as all our files */
    else
        x = t->u8[at / 8] >> at % 8 & mask_of(t->dtype);
    return x;
}

void qg_text_set_bits(qg_tensor *t, int64_t i, uint64_t x)
{
    unsigned bits = qg_dtype_bits(t->dtype);
    uint64_t at = (uint64_t)i * bits;
    assert((x & ~mask_of(t->dtype)) == 0);
    if (bits >= 8)
        memcpy(t->u8 + at / 8, &x, bits / 8);
    else
        t->u8[at / 8] |= (uint8_t)(x << at % 8); /* fresh memory is zero */
}

/* Formats below 32 bits go through float32, whose digits they cannot exceed. */
static uint64_t encode_float(qg_dtype dtype, double x)
{
    float f = (float)x;
    uint32_t b32;
    uint64_t b64;
    memcpy(&b32, &f, sizeof b32);
    memcpy(&b64, &x, sizeof b64);
    switch (dtype) {
    case QG_F64:
        return b64;
    case QG_F32:
        return b32;
    case QG_F16:
        return qg_f32_to_f16(f);
    case QG_BF16:
        return qg_f32_to_bf16(f);
    default:
        return qg_small_of_f32(dtype, f, false);
    }
}

/* Element of one bit pattern as a double (floats only). */
static double decode_float(qg_dtype dtype, uint64_t bits)
{
    assert(qg_dtype_kind_of(dtype) == QG_KIND_FLOAT);
    qg_tensor t;
    uint64_t cell = bits;
    qg_tensor_scalar(&t, dtype);
    t.data = &cell;
    return qg_tensor_f64(&t, 0);
}

uint64_t qg_text_convert(qg_dtype dtype, double x)
{
    if (qg_dtype_kind_of(dtype) == QG_KIND_FLOAT)
        return encode_float(dtype, x);
    if (dtype == QG_BOOL)
        return x != 0;
    x = floor(x);
    if (!(x >= -0x1p63))
        return 0;
    uint64_t whole = x >= 0x1p63 ? UINT64_MAX : (uint64_t)(int64_t)x;
    return whole & mask_of(dtype);
}

/* Every bit pattern may be written so, NaN payloads too; more digits than the type
 * has bits are refused unless they are zero. */
static bool parse_hex(qg_dtype dtype, const char *s, size_t n, uint64_t *bits)
{
    uint64_t x = 0;
    for (size_t i = 0; i < n; i++) {
        static const char digits[] = "0123456789abcdef";
        const char *at = s[i] ? strchr(digits, s[i] | 0x20) : NULL;
        if (!at || x >> 60)
            return false;
        x = x << 4 | (uint64_t)(at - digits);
    }
    if (n == 0 || (x & ~mask_of(dtype)))
        return false;
    *bits = x;
    return true;
}

/* "inf" is a value, but a finite number that the dtype rounds to infinity is
 * refused. */
static bool parse_float(qg_dtype dtype, const char *s, size_t n, uint64_t *bits)
{
    double x;
    bool negative = n == 4 && s[0] == '-';
    if (n == 3u + negative && memcmp(s + negative, "inf", 3) == 0)
        x = negative ? -INFINITY : INFINITY;
    else if (!qg_num_parse_f64(s, n, &x))
        return false;
    uint64_t got = encode_float(dtype, x);
    if (isfinite(x) != isfinite(decode_float(dtype, got)))
        return false;
    *bits = got;
    return true;
}

/* Refuses values outside the dtype's range; uint64 above int64 is written in
 * hexadecimal. */
static bool parse_int(qg_dtype dtype, const char *s, size_t n, uint64_t *bits)
{
    int64_t x, low = 0, high = (int64_t)(mask_of(dtype) & INT64_MAX);
    if (!qg_num_parse_i64(s, n, &x))
        return false;
    if (qg_dtype_kind_of(dtype) == QG_KIND_INT) {
        high = (int64_t)(mask_of(dtype) >> 1);
        low = -high - 1;
    }
    if (dtype == QG_BOOL)
        high = 1;
    if (x < low || x > high)
        return false;
    *bits = (uint64_t)x & mask_of(dtype);
    return true;
}

bool qg_text_to_bits(qg_dtype dtype, const char *s, size_t n, uint64_t *bits)
{
    assert(dtype != QG_NODTYPE);
    if (n > 2 && s[0] == '0' && s[1] == 'x')
        return parse_hex(dtype, s + 2, n - 2, bits);
    if (qg_dtype_kind_of(dtype) == QG_KIND_FLOAT)
        return parse_float(dtype, s, n, bits);
    if (dtype == QG_BOOL && n == 4 && memcmp(s, "true", 4) == 0)
        return *bits = 1, true;
    if (dtype == QG_BOOL && n == 5 && memcmp(s, "false", 5) == 0)
        return *bits = 0, true;
    return parse_int(dtype, s, n, bits);
}

/* Prints the decimal form and reads it back; values that differ are printed as bits. */
void qg_text_of_bits(qg_dtype dtype, uint64_t bits, char text[QG_NUM_TEXT])
{
    uint64_t back;
    if (qg_dtype_kind_of(dtype) == QG_KIND_FLOAT) {
        double x = decode_float(dtype, bits);
        if (!isfinite(x))
            (void)snprintf(text, QG_NUM_TEXT, "%s", x < 0 ? "-inf" : "inf");
        else if (dtype == QG_F64)
            qg_num_f64(text, x);
        else
            qg_num_f32(text, (float)x);
    } else {
        uint64_t sign = qg_dtype_kind_of(dtype) == QG_KIND_INT
                            ? bits & ((mask_of(dtype) >> 1) + 1)
                            : 0; /* its weight is -sign, not +sign: extend it */
        (void)snprintf(text, QG_NUM_TEXT, "%lld", (long long)(bits - 2 * sign));
    }
    if (!qg_text_to_bits(dtype, text, strlen(text), &back) || back != bits)
        (void)snprintf(text, QG_NUM_TEXT, "0x%llx", (unsigned long long)bits);
}

/* '/' is a letter: names of exported networks are full of it. */
static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '/';
}

/* '0' .. ':' takes in the colon of "domain::Op". */
bool qg_text_is_word(const char *s)
{
    static const char *const keywords[] = { "graph",  "input", "const", "outer",
                                            "output", "opset", "ir",    "_" };
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++)
        if (strcmp(s, keywords[i]) == 0)
            return false;
    if (!is_letter(*s))
        return false;
    while (is_letter(*s) || (*s >= '0' && *s <= ':') || *s == '.')
        s++;
    return *s == '\0';
}

qg_dtype qg_text_dtype(const char *s)
{
    static const struct {
        const char *text;
        qg_dtype dtype;
    } shorts[] = {
        {"f32",   QG_F32 },
        { "f64",  QG_F64 },
        { "f16",  QG_F16 },
        { "bf16", QG_BF16},
        { "i8",   QG_I8  },
        { "i16",  QG_I16 },
        { "i32",  QG_I32 },
        { "i64",  QG_I64 },
        { "u8",   QG_U8  },
        { "u16",  QG_U16 },
        { "u32",  QG_U32 },
        { "u64",  QG_U64 },
        { "i4",   QG_I4  },
        { "u4",   QG_U4  },
    };
    for (size_t i = 0; i < sizeof shorts / sizeof shorts[0]; i++)
        if (strcmp(s, shorts[i].text) == 0)
            return shorts[i].dtype;
    return qg_dtype_named(s);
}

struct qg_text_table {
    qg_ctx *ctx;
    qg_arena *arena;
    qg_names *keys;
    QG_VEC(const qg_tensor *) tensor; /* by key id */
};

qg_status qg_text_table_new(qg_ctx *ctx, qg_text_table **out)
{
    qg_arena *arena = qg_arena_new(ctx->alloc);
    qg_text_table *t = arena ? QG_NEW(arena, qg_text_table) : NULL;
    if (!t || !(t->keys = qg_names_new(ctx->alloc))) {
        qg_arena_free(arena);
        return qg_nomem(ctx);
    }
    t->ctx = ctx;
    t->arena = arena;
    *out = t;
    return QG_OK;
}

void qg_text_table_free(qg_text_table *t)
{
    if (!t)
        return;
    qg_names_free(t->keys);
    qg_arena_free(t->arena);
}

/* Bytes of a plain tensor that exists: known to fit. */
static size_t bytes_of(const qg_tensor *t)
{
    size_t bytes = 0;
    bool fits = qg_dtype_bytes(t->dtype, (uint64_t)qg_tensor_count(t), &bytes);
    assert(fits);
    return fits ? bytes : 0;
}

/* FNV-1a, one 64-bit word at a time; the tail is padded with zeros. */
static uint64_t hash_of(const qg_tensor *t)
{
    assert(t->data || qg_tensor_count(t) == 0);
    uint64_t h = UINT64_C(0xcbf29ce484222325), word;
    size_t bytes = bytes_of(t);
    h = (h ^ (uint64_t)t->dtype) * UINT64_C(0x100000001b3);
    for (int32_t k = 0; k < t->rank; k++)
        h = (h ^ (uint64_t)t->dim[k]) * UINT64_C(0x100000001b3);
    for (size_t i = 0; i < bytes; i += sizeof word) {
        size_t n = bytes - i < sizeof word ? bytes - i : sizeof word;
        word = 0;
        memcpy(&word, t->u8 + i, n);
        h = (h ^ word) * UINT64_C(0x100000001b3);
    }
    return h;
}

/* Bytes, not values: -0 and 0 are different constants. */
static bool same_tensor(const qg_tensor *a, const qg_tensor *b)
{
    return a->dtype == b->dtype && qg_same_dims(a, b) &&
           memcmp(a->data, b->data, bytes_of(a)) == 0;
}

/* Without a table the hash alone is the key. */
qg_status qg_text_table_put(qg_text_table *table, const qg_tensor *t, char key[17])
{
    uint64_t h = hash_of(t);
    uint32_t id;
    (void)snprintf(key, 17, "%016llx", (unsigned long long)h);
    if (!table)
        return QG_OK;
    while ((id = qg_names_find(table->keys, key, 16)) != QG_NONE &&
           !same_tensor(table->tensor.at[id], t)) /* a collision: take the next key */
        (void)snprintf(key, 17, "%016llx", (unsigned long long)++h);
    if (id != QG_NONE)
        return QG_OK;
    QG_TRY(qg_vec_reserve(table->ctx, table->arena, &table->tensor));
    if (qg_names_add(table->keys, key, 16, &id) != QG_OK)
        return qg_nomem(table->ctx);
    table->tensor.at[table->tensor.n++] = t;
    return QG_OK;
}

const qg_tensor *qg_text_table_find(const qg_text_table *table, const char *key)
{
    uint32_t id = table ? qg_names_find(table->keys, key, strlen(key)) : QG_NONE;
    return id == QG_NONE ? NULL : table->tensor.at[id];
}

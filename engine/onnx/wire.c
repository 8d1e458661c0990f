#include "engine/onnx/wire.h"

#include <assert.h>
#include <string.h>

enum wire_type { VARINT, FIXED64, LENGTH, GROUP, END_GROUP, FIXED32 };

/* A message that is being read; its copy begins at `body`, and its length is in the
 * n_length bytes before. */
struct level {
    size_t end;
    const void *kind;
    size_t body;
    unsigned n_length;
};

struct scan {
    qg_ctx *ctx;
    const qg_wire *wire;
    unsigned char *out; /* the copy; NULL: its bytes are only counted */
    size_t made;        /* bytes of the copy so far */
    size_t at, fields;
    unsigned depth; /* level[depth - 1] is the message being read */
    struct level level[QG_WIRE_DEPTH];
};

static const char *what_of(const struct scan *s)
{
    return s->wire->what ? s->wire->what : "ONNX model";
}

/* Every message of this file has the same ending, so that users recognize a damaged
 * file. */
static qg_status bad(const struct scan *s, size_t at, const char *what)
{
    return qg_fail(s->ctx, QG_EPARSE, "import: %s: byte %zu: %s: not a complete %s",
                   s->wire->name, at, what, what_of(s));
}

static qg_status read_varint(struct scan *s, size_t end, uint64_t *out)
{
    uint64_t x = 0;
    size_t from = s->at;
    for (unsigned shift = 0; s->at < end && shift < 70; shift += 7) {
        unsigned char byte = s->wire->bytes[s->at++];
        x |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
        if (byte < 0x80) {
            *out = x;
            return QG_OK;
        }
    }
    return bad(s, from,
               s->at >= end ? "the file ends in the middle of a number"
                            : "a number longer than 10 bytes");
}

/* Moves past n bytes that must lie before `end`. */
static qg_status skip(struct scan *s, size_t end, uint64_t n, size_t field_at)
{
    if (n > end - s->at)
        return qg_fail(s->ctx, QG_EPARSE,
                       "import: %s: byte %zu: a field needs %llu bytes, %zu are left: "
                       "not a complete %s",
                       s->wire->name, field_at, (unsigned long long)n, end - s->at,
                       what_of(s));
    s->at += (size_t)n;
    return QG_OK;
}

/* ---- The copy ---- */

static void put(struct scan *s, const void *bytes, size_t n)
{
    if (s->out)
        memcpy(s->out + s->made, bytes, n);
    s->made += n;
}

static void put_from(struct scan *s, size_t from)
{
    put(s, s->wire->bytes + from, s->at - from);
}

/* x as a varint of exactly n bytes, which may be more than it needs. */
static void write_length(unsigned char *to, uint64_t x, unsigned n)
{
    for (unsigned i = 0; i < n; i++, x >>= 7)
        to[i] = (unsigned char)((x & 0x7f) | (i + 1 < n ? 0x80 : 0));
    assert(x == 0);
}

/* The key, and where the n bytes lie that would follow. */
static void put_block(struct scan *s, size_t from, size_t length_at, uint64_t n)
{
    unsigned char length[10];
    qg_wire_block block = { .at = s->at, .size = n };
    static_assert(sizeof block == QG_WIRE_BLOCK,
                  "blocks are distinguished by their size");
    unsigned n_length = (unsigned)(s->at - length_at);
    write_length(length, sizeof block, n_length);
    put(s, s->wire->bytes + from, length_at - from);
    put(s, length, n_length);
    put(s, &block, sizeof block);
}

/* ---- The walk ---- */

/* A message of n bytes begins here: its fields are read next. */
static qg_status enter(struct scan *s, struct level made, uint64_t n, size_t field_at)
{
    size_t start = s->at;
    QG_TRY(skip(s, s->level[s->depth - 1].end, n, field_at));
    if (s->depth == QG_WIRE_DEPTH)
        return qg_fail(s->ctx, QG_EPARSE,
                       "import: %s: byte %zu: messages nest deeper than %d levels",
                       s->wire->name, field_at, QG_WIRE_DEPTH);
    made.end = s->at;
    made.body = s->made;
    s->level[s->depth++] = made;
    s->at = start;
    return QG_OK;
}

static void leave(struct scan *s)
{
    const struct level *l = &s->level[--s->depth];
    if (s->out && l->n_length)
        write_length(s->out + l->body - l->n_length, s->made - l->body, l->n_length);
}

/* A message, a block, or bytes that are copied; `from` is where its key begins. */
static qg_status read_length(struct scan *s, size_t from, unsigned field)
{
    const struct level *in = &s->level[s->depth - 1];
    size_t length_at = s->at;
    uint64_t n;
    QG_TRY(read_varint(s, in->end, &n));
    const void *kind = s->wire->child(in->kind, field);
    if (kind) {
        put_from(s, from);
        return enter(
            s,
            (struct level){ .kind = kind, .n_length = (unsigned)(s->at - length_at) },
            n, from);
    }
    size_t data_at = s->at;
    QG_TRY(skip(s, in->end, n, from));
    if (s->wire->is_text && s->wire->is_text(in->kind, field) &&
        memchr(s->wire->bytes + data_at, 0, (size_t)n))
        return qg_fail(s->ctx, QG_EPARSE,
                       "import: %s: byte %zu: a text contains a zero byte, expected "
                       "none in names and paths",
                       s->wire->name, data_at);
    if (n < QG_WIRE_BLOCK || !s->wire->is_block ||
        !s->wire->is_block(in->kind, field)) {
        put_from(s, from);
        return QG_OK;
    }
    size_t behind = s->at;
    s->at = data_at;
    put_block(s, from, length_at, n);
    s->at = behind;
    return QG_OK;
}

/* One field of the innermost message, its key first. */
static qg_status read_field(struct scan *s)
{
    assert(s->depth > 0 && s->depth <= QG_WIRE_DEPTH);
    const struct level *in = &s->level[s->depth - 1];
    size_t from = s->at;
    uint64_t key, n;
    QG_TRY(read_varint(s, in->end, &key));
    if (key >> 3 == 0 || key > UINT32_MAX)
        return bad(s, from, "a field without a valid number");
    if (++s->fields > QG_WIRE_FIELDS)
        return qg_fail(s->ctx, QG_EPARSE, "import: %s: more than %d fields",
                       s->wire->name, QG_WIRE_FIELDS);
    switch ((enum wire_type)(key & 7)) {
    case VARINT:
        QG_TRY(read_varint(s, in->end, &n));
        break;
    case FIXED64:
        QG_TRY(skip(s, in->end, 8, from));
        break;
    case FIXED32:
        QG_TRY(skip(s, in->end, 4, from));
        break;
    case LENGTH:
        return read_length(s, from, (unsigned)(key >> 3));
    case GROUP:
    case END_GROUP:
        return bad(s, from, "a group, which ONNX does not use");
    default:
        return bad(s, from, "a field of unknown wire type");
    }
    put_from(s, from);
    return QG_OK;
}

/* The whole message, into `to` unless it is NULL; *made is the size of the copy. */
static qg_status walk(qg_ctx *ctx, const qg_wire *wire, unsigned char *to, size_t *made)
{
    struct scan s = { .ctx = ctx, .wire = wire, .out = to, .depth = 1 };
    s.level[0] = (struct level){ .end = wire->size, .kind = wire->kind };
    while (s.depth > 0) {
        assert(s.at <= s.level[s.depth - 1].end);
        if (s.at == s.level[s.depth - 1].end)
            leave(&s);
        else
            QG_TRY(read_field(&s));
    }
    *made = s.made;
    return QG_OK;
}

qg_status qg_wire_strip(qg_ctx *ctx, const qg_wire *wire, qg_arena *a,
                        const unsigned char **out, size_t *n)
{
    size_t size;
    QG_TRY(walk(ctx, wire, NULL, &size));
    assert(size <= wire->size);
    unsigned char *copy = qg_arena_raw(a, size, 1);
    if (!copy)
        return qg_nomem(ctx);
    QG_TRY(walk(ctx, wire, copy, n));
    *out = copy;
    return QG_OK;
}

#include "engine/onnx/wire.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

enum wire_type { VARINT, FIXED64, LENGTH, GROUP, END_GROUP, FIXED32 };

struct level {
    size_t end;
    const void *kind;
};

struct scan {
    qg_ctx *ctx;
    const qg_wire *wire;
    size_t at, fields;
    unsigned depth; /* level[depth - 1] is the message being read */
    struct level level[QG_WIRE_DEPTH];
};

/* Every complaint of this file ends alike, so that users can tell a damaged file. */
static qg_status bad(const struct scan *s, size_t at, const char *what)
{
    return qg_fail(s->ctx, QG_EPARSE,
                   "import: %s: byte %zu: %s: not a complete ONNX model", s->wire->name,
                   at, what);
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

/* Moves behind n bytes that must lie before `end`. */
static qg_status skip(struct scan *s, size_t end, uint64_t n, size_t field_at)
{
    if (n > end - s->at)
        return qg_fail(s->ctx, QG_EPARSE,
                       "import: %s: byte %zu: a field needs %llu bytes, %zu are left: "
                       "not a complete ONNX model",
                       s->wire->name, field_at, (unsigned long long)n, end - s->at);
    s->at += (size_t)n;
    return QG_OK;
}

/* A message of n bytes begins here: its fields are read next. */
static qg_status enter(struct scan *s, const void *kind, uint64_t n, size_t field_at)
{
    size_t start = s->at;
    QG_TRY(skip(s, s->level[s->depth - 1].end, n, field_at));
    if (s->depth == QG_WIRE_DEPTH)
        return qg_fail(s->ctx, QG_EPARSE,
                       "import: %s: byte %zu: messages nest deeper than %d levels",
                       s->wire->name, field_at, QG_WIRE_DEPTH);
    s->level[s->depth++] = (struct level){ .end = s->at, .kind = kind };
    s->at = start;
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
        return read_varint(s, in->end, &n);
    case FIXED64:
        return skip(s, in->end, 8, from);
    case FIXED32:
        return skip(s, in->end, 4, from);
    case LENGTH: {
        QG_TRY(read_varint(s, in->end, &n));
        const void *kind = s->wire->child(in->kind, (unsigned)(key >> 3));
        return kind ? enter(s, kind, n, from) : skip(s, in->end, n, from);
    }
    case GROUP:
    case END_GROUP:
        return bad(s, from, "a group, which ONNX does not use");
    }
    return bad(s, from, "a field of unknown wire type");
}

qg_status qg_wire_check(qg_ctx *ctx, const qg_wire *wire)
{
    struct scan s = { .ctx = ctx, .wire = wire, .depth = 1 };
    s.level[0] = (struct level){ .end = wire->size, .kind = wire->kind };
    while (s.depth > 0) {
        assert(s.at <= s.level[s.depth - 1].end);
        if (s.at == s.level[s.depth - 1].end)
            s.depth--;
        else
            QG_TRY(read_field(&s));
    }
    return QG_OK;
}

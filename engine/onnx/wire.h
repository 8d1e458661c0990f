/* wire.h -- a look at protobuf bytes before a recursive parser gets them.
 *
 * protobuf-c unpacks messages recursively and allocates for every field, so depth,
 * lengths and counts are checked here first, with a stack of its own.
 *
 * A message is a row of fields: a key (varint: number << 3 | wire type), then
 *     0 varint    up to 10 bytes, 7 bits each
 *     1 fixed64   8 bytes
 *     2 length    a varint n, then n bytes: text, packed numbers or a message
 *     5 fixed32   4 bytes
 *     3, 4 groups are refused: ONNX has none, and they nest without a length
 * Which length-delimited fields are messages is told by the caller, who has the schema;
 * the others are skipped unread.
 * Source: "Encoding", the protobuf wire format (varint, fixed64, length, fixed32). */
#ifndef QG_ENGINE_ONNX_WIRE_H
#define QG_ENGINE_ONNX_WIRE_H

#include <stddef.h>

#include "engine/core/ctx.h"

enum {
    QG_WIRE_DEPTH = 64,            /* nested messages */
    QG_WIRE_FIELDS = 16 * 1000000, /* fields in all; each costs the parser ~50 bytes */
};

/* The kind of message in field number `field` of a message of kind `kind`; NULL when it
 * is not a message (text, bytes, packed numbers, unknown). */
typedef const void *qg_wire_child(const void *kind, unsigned field);

/* What to look at; `name` stands in messages. */
typedef struct qg_wire {
    const char *name;
    const unsigned char *bytes; /* [size] of the whole message */
    size_t size;
    const void *kind; /* of the outermost message */
    qg_wire_child *child;
} qg_wire;

/* QG_EPARSE when the bytes are not one well-formed message: cut off, a length beyond
 * its parent, groups, too deep, too many fields. */
QG_NODISCARD qg_status qg_wire_check(qg_ctx *ctx, const qg_wire *wire);

#endif

/* wire.h -- protobuf bytes, checked and stripped of large blocks before a recursive
 * parser reads them.
 *
 * protobuf-c unpacks messages recursively and allocates and copies every field, so
 * depth, lengths and counts are checked here first, with an explicit stack, and the
 * parser gets a copy in which blocks of data are replaced by their positions.
 *
 * A message is a row of fields: a key (varint: number << 3 | wire type), then
 *     0 varint    up to 10 bytes, 7 bits each
 *     1 fixed64   8 bytes
 *     2 length    a varint n, then n bytes: text, packed numbers or a message
 *     5 fixed32   4 bytes
 *     3, 4 groups are refused: ONNX has none, and they nest without a length
 * The caller, which has the schema, lists the length-delimited fields that are
 * messages; the others are skipped unread.
 * Source: "Encoding", the protobuf wire format (varint, fixed64, length, fixed32). */
#ifndef QG_ENGINE_ONNX_WIRE_H
#define QG_ENGINE_ONNX_WIRE_H

#include <stddef.h>

#include <stdbool.h>
#include <stdint.h>

#include "engine/core/ctx.h"

enum {
    QG_WIRE_DEPTH = 64,            /* nested messages */
    QG_WIRE_FIELDS = 16 * 1000000, /* fields in all; each costs the parser ~50 bytes */
    QG_WIRE_BLOCK = 16,            /* bytes of a qg_wire_block */
};

/* The replacement of a block.  Shorter blocks are not replaced, so a field of
 * QG_WIRE_BLOCK bytes in a stripped message is always one of these. */
typedef struct qg_wire_block {
    uint64_t at, size; /* in the bytes of the whole message */
} qg_wire_block;

/* The kind of message in field number `field` of a message of kind `kind`; NULL when it
 * is not a message (text, bytes, packed numbers, unknown). */
typedef const void *qg_wire_child(const void *kind, unsigned field);

/* Whether field `field` of a message of this kind holds blocks. */
typedef bool qg_wire_is_block(const void *kind, unsigned field);

/* Whether field `field` of a message of this kind is a text that the caller reads up to
 * its first zero byte, so that one within it would cut it off. */
typedef bool qg_wire_is_text(const void *kind, unsigned field);

/* The bytes to read; `name` appears in messages. */
typedef struct qg_wire {
    const char *name;
    const unsigned char *bytes; /* [size] of the whole message */
    size_t size;
    const void *kind; /* of the outermost message */
    qg_wire_child *child;
    qg_wire_is_block *is_block; /* NULL: none does */
    qg_wire_is_text *is_text;   /* NULL: none is */
    const char *what;           /* in messages; NULL: "ONNX model" */
} qg_wire;

/* The message, [*n] in a, with a qg_wire_block in every field that holds a block of at
 * least that size.  Lengths keep the number of bytes that they are written with.
 * QG_EPARSE when the bytes are not one well-formed message: cut off, a length beyond
 * its parent, groups, too deep, too many fields, a zero byte in a text. */
QG_NODISCARD qg_status qg_wire_strip(qg_ctx *ctx, const qg_wire *wire, qg_arena *a,
                                     const unsigned char **out, size_t *n);

#endif

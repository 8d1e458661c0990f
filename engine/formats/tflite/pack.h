/* pack.h -- a .tflite file made of plain C structures: the inverse of flatbuffer.h.
 *
 * A flatbuffer is written front to back: every table is followed by what it refers to,
 * and the reference is filled in when its target is placed.  The builder of the
 * flatbuffers package needs the C++ library at run time, which this library does not
 * link; its verifier (flatbuffer.cpp) checks the result in tests.
 *
 * Layout   the tables of schema.fbs with upstream's numbers; operator codes in the
 *          order of first use, of version 1; a buffer for each constant, 16-byte
 *          aligned, after an empty buffer 0
 *
 *     byte  0   24       distance to the table Model
 *           4   "TFL3"   identifier of the file
 *           8   2 bytes, so that the table is aligned
 *          10   vtable: its size 14, size of the table 24, offsets of 5 fields
 *          24   Model: distance back to the vtable, then version 3 and the distances
 *               to operator codes, subgraphs, description and buffers
 *          48   operator codes ...
 *
 * Distances are unsigned 32-bit numbers from the place where they are stored to their
 * target, which comes later; all numbers are little-endian on every machine.
 * Codes    BuiltinOperator had 8 bits at first: a code is stored in the old field, 127
 *          where it exceeds that, and always in the new field of 32 bits
 * Bytes    depend on f and the description alone, so equal snapshots give equal files
 * Source   flatbuffers.dev, "FlatBuffer Internals"; schema.fbs */
#ifndef QG_ENGINE_FORMATS_TFLITE_PACK_H
#define QG_ENGINE_FORMATS_TFLITE_PACK_H

#include "engine/core/ctx.h"
#include "engine/formats/tflite/flatbuffer.h"

/* The bytes of f in the arena.  Of f: tensors with name, type, dims, data, scales
 * and zero points (both or neither), axis; operators with code, slots, options; inputs
 * and outputs.  QG_EUNSUPPORTED from 2 GB on, where offsets end. */
QG_NODISCARD qg_status qg_tflite_pack(qg_ctx *ctx, qg_arena *a, const qg_tflite_file *f,
                                      const char *description,
                                      const unsigned char **bytes, size_t *size);

#endif

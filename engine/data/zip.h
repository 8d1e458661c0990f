/* zip.h -- raw deflate and CRC-32, as zip archives use them.  The one user of zlib.
 * Source  RFC 1951; zlib computes it.
 *
 * Sizes are size_t: zlib counts in 32 bits and is fed in parts.  Packing with the same
 * zlib gives the same bytes; another version of zlib may pack differently. */
#ifndef QG_ENGINE_DATA_ZIP_H
#define QG_ENGINE_DATA_ZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/core/ctx.h"

/* Extends the checksum `crc` of earlier bytes (0: none) by these bytes. */
uint32_t qg_zip_crc(uint32_t crc, const void *bytes, size_t n);

/* Room of the caller. */
typedef struct qg_zip_bytes {
    unsigned char *at; /* [n] */
    size_t n;
} qg_zip_bytes;

/* Inflates all of `packed` to exactly out.n bytes; *whole is true on success.  Too
 * many, too few or damaged bytes give *whole == false, not a failure: the caller has
 * the context for the message.  QG_ENOMEM is the only status. */
QG_NODISCARD qg_status qg_zip_inflate(qg_ctx *ctx, const unsigned char *packed,
                                      size_t n, qg_zip_bytes out, bool *whole);

/* Bytes on their way into an archive. */
typedef struct qg_zip_packer {
    qg_ctx *ctx;           /* whose allocator has given the state */
    FILE *stream;          /* borrowed */
    void *state;           /* zlib's; NULL: stored as they are */
    uint64_t size, packed; /* in and out, so far */
    uint32_t crc;
} qg_zip_packer;

/* Errors of the stream are detected when it is closed. */
QG_NODISCARD qg_status qg_zip_begin(qg_ctx *ctx, FILE *stream, bool deflated,
                                    qg_zip_packer *out);
/* Cannot fail here: errors of the stream are detected when it is closed. */
void qg_zip_add(qg_zip_packer *p, const void *bytes, size_t n);
void qg_zip_end(qg_zip_packer *p); /* writes the rest; size, packed and crc are final */

#endif

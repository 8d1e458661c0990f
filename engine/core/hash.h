/* hash.h -- SHA-256 of files and bytes, as 64 lower-case hex digits.
 *
 * Source  FIPS 180-4; libcrypto computes it.  Used to name models, backends and data in
 *         manifests, not for security.
 *
 *     char text[QG_HASH_TEXT];
 *     QG_TRY(qg_hash_file(ctx, "model.onnx", text)); */
#ifndef QG_ENGINE_CORE_HASH_H
#define QG_ENGINE_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "engine/core/ctx.h"

enum { QG_HASH_TEXT = 65 }; /* with the zero */

/* An incremental hash: feed it while the bytes are processed. */
typedef struct qg_hash {
    uint64_t state[16]; /* libcrypto's */
} qg_hash;

/* None of these can fail; any number of pieces give the hash of the whole. */
void qg_hash_begin(qg_hash *h);
void qg_hash_add(qg_hash *h, const void *bytes, size_t size);
void qg_hash_end(qg_hash *h, char text[QG_HASH_TEXT]);

/* Begin, add and end in one; a file is read in pieces. */
void qg_hash_bytes(const void *bytes, size_t size, char text[QG_HASH_TEXT]);
QG_NODISCARD qg_status qg_hash_file(qg_ctx *ctx, const char *path,
                                    char text[QG_HASH_TEXT]);

#endif

/* hash.c -- the functions of libcrypto for SHA-256 alone: they allocate nothing.  Those
 * of its newer interface (EVP) load providers first, which ends in a null pointer
 * inside of libcrypto 3.0 when memory runs out. */
#define OPENSSL_API_COMPAT 0x10100000L /* they are deprecated since 3.0 */
#include "engine/core/hash.h"

#include <assert.h>
#include <errno.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#include "engine/core/file.h"

static_assert(sizeof(SHA256_CTX) <= sizeof(qg_hash), "room for libcrypto's state");

void qg_hash_begin(qg_hash *h) { (void)SHA256_Init((SHA256_CTX *)h->state); }

void qg_hash_add(qg_hash *h, const void *bytes, size_t size)
{
    (void)SHA256_Update((SHA256_CTX *)h->state, bytes, size);
}

void qg_hash_end(qg_hash *h, char text[QG_HASH_TEXT])
{
    static const char digit[] = "0123456789abcdef";
    unsigned char bytes[SHA256_DIGEST_LENGTH];
    static_assert(2 * sizeof bytes + 1 == QG_HASH_TEXT, "two digits a byte");
    (void)SHA256_Final(bytes, (SHA256_CTX *)h->state);
    for (unsigned i = 0; i < sizeof bytes; i++) {
        text[2 * i] = digit[bytes[i] >> 4];
        text[2 * i + 1] = digit[bytes[i] & 15];
    }
    text[QG_HASH_TEXT - 1] = '\0';
}

void qg_hash_bytes(const void *bytes, size_t size, char text[QG_HASH_TEXT])
{
    assert(bytes || size == 0);
    qg_hash h;
    qg_hash_begin(&h);
    qg_hash_add(&h, bytes, size);
    qg_hash_end(&h, text);
}

/* Read, not mapped: pages of a mapped file would count as memory. */
static qg_status hash_stream(qg_ctx *ctx, const char *path, FILE *f, qg_hash *h)
{
    enum { PIECE = 1 << 18 };
    unsigned char *piece = ctx->alloc.get(ctx->alloc.ud, PIECE);
    size_t n;
    if (!piece)
        return qg_nomem(ctx);
    while ((n = fread(piece, 1, PIECE, f)) > 0)
        qg_hash_add(h, piece, n);
    ctx->alloc.drop(ctx->alloc.ud, piece);
    return ferror(f) ? qg_fail(ctx, QG_EIO, "hash: %s: cannot be read", path) : QG_OK;
}

qg_status qg_hash_file(qg_ctx *ctx, const char *path, char text[QG_HASH_TEXT])
{
    qg_hash h;
    qg_file check; /* refuses folders, pipes and files that cannot be opened */
    QG_TRY(qg_file_open(ctx, "hash", path, SIZE_MAX / 2, &check));
    qg_file_close(&check);
    FILE *f = fopen(path, "rb");
    if (!f)
        return errno == ENOMEM
                   ? qg_nomem(ctx)
                   : qg_fail(ctx, QG_EIO, "hash: %s: %s", path, strerror(errno));
    (void)setvbuf(f, NULL, _IONBF, 0);
    qg_hash_begin(&h);
    qg_status s = hash_stream(ctx, path, f, &h);
    if (s == QG_OK)
        qg_hash_end(&h, text);
    (void)fclose(f);
    return s;
}

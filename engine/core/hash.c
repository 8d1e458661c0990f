#include "engine/core/hash.h"

#include <assert.h>
#include <openssl/evp.h>
#include <stdio.h>

#include "engine/core/file.h"

/* libcrypto fails here for lack of memory only. */
qg_status qg_hash_begin(qg_ctx *ctx, qg_hash *h)
{
    EVP_MD_CTX *state = EVP_MD_CTX_new();
    if (!state || !EVP_DigestInit_ex(state, EVP_sha256(), NULL)) {
        EVP_MD_CTX_free(state);
        return qg_nomem(ctx);
    }
    h->state = state;
    return QG_OK;
}

void qg_hash_add(qg_hash *h, const void *bytes, size_t size)
{
    assert(h->state);
    (void)EVP_DigestUpdate(h->state, bytes, size); /* SHA-256 has no way to fail here */
}

void qg_hash_end(qg_hash *h, char text[QG_HASH_TEXT])
{
    static const char digit[] = "0123456789abcdef";
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    if (text && EVP_DigestFinal_ex(h->state, bytes, &n)) {
        assert(2 * n + 1 == QG_HASH_TEXT);
        for (unsigned i = 0; i < n; i++) {
            text[2 * i] = digit[bytes[i] >> 4];
            text[2 * i + 1] = digit[bytes[i] & 15];
        }
        text[2 * n] = '\0';
    }
    EVP_MD_CTX_free(h->state);
    h->state = NULL;
}

qg_status qg_hash_bytes(qg_ctx *ctx, const void *bytes, size_t size,
                        char text[QG_HASH_TEXT])
{
    assert(bytes || size == 0);
    qg_hash h;
    QG_TRY(qg_hash_begin(ctx, &h));
    qg_hash_add(&h, bytes, size);
    qg_hash_end(&h, text);
    return QG_OK;
}

/* Read, not mapped: pages of a mapped file would count as memory. */
static qg_status hash_stream(qg_ctx *ctx, const char *path, FILE *f, qg_hash *h)
{
    assert(h->state);
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
        return qg_fail(ctx, QG_EIO, "hash: %s: cannot be opened", path);
    (void)setvbuf(f, NULL, _IONBF, 0);
    qg_status s = qg_hash_begin(ctx, &h);
    if (s == QG_OK) {
        s = hash_stream(ctx, path, f, &h);
        qg_hash_end(&h, s == QG_OK ? text : NULL);
    }
    (void)fclose(f);
    return s;
}

#include "engine/data/zip.h"

#include <assert.h>
#include <zlib.h>

enum { LEVEL = 6, MEMORY = 8, PART = 1 << 30 /* zlib counts in 32 bits */ };

uint32_t qg_zip_crc(uint32_t crc, const void *bytes, size_t n)
{
    return (uint32_t)crc32_z(crc, bytes, n);
}

/* The most bytes that one call of zlib accepts. */
static unsigned part(size_t n) { return (unsigned)(n < PART ? n : PART); }

/* -MAX_WBITS: raw deflate, without zlib's header.  Ends when zlib does, when it is
 * out of input or when it is out of room; only the first with all room used is
 * success. */
qg_status qg_zip_inflate(qg_ctx *ctx, const unsigned char *packed, size_t n,
                         qg_zip_bytes out, bool *whole)
{
    assert(packed || n == 0);
    z_stream s = { 0 };
    int rc = Z_OK;
    if (inflateInit2(&s, -MAX_WBITS) != Z_OK)
        return qg_nomem(ctx);
    s.next_in = (unsigned char *)(uintptr_t)packed;
    s.next_out = out.at;
    while (rc == Z_OK) { /* without progress it is Z_BUF_ERROR */
        s.avail_in = part(n - (size_t)(s.next_in - packed));
        s.avail_out = part(out.n - (size_t)(s.next_out - out.at));
        rc = inflate(&s, Z_NO_FLUSH);
    }
    *whole = rc == Z_STREAM_END && s.next_out == out.at + out.n;
    (void)inflateEnd(&s);
    return QG_OK;
}

qg_status qg_zip_begin(qg_ctx *ctx, FILE *stream, bool deflated, qg_zip_packer *out)
{
    z_stream *z = deflated ? ctx->alloc.get(ctx->alloc.ud, sizeof *z) : NULL;
    if (deflated && !z)
        return qg_nomem(ctx);
    if (z) {
        *z = (z_stream){ 0 };
        if (deflateInit2(z, LEVEL, Z_DEFLATED, -MAX_WBITS, MEMORY,
                         Z_DEFAULT_STRATEGY) != Z_OK) {
            ctx->alloc.drop(ctx->alloc.ud, z);
            return qg_nomem(ctx);
        }
    }
    *out = (qg_zip_packer){ .ctx = ctx, .stream = stream, .state = z };
    return QG_OK;
}

/* Lets zlib consume all its input and writes its output. */
static void drain(qg_zip_packer *p, int flush)
{
    unsigned char out[1 << 14];
    z_stream *z = p->state;
    do {
        z->next_out = out;
        z->avail_out = sizeof out;
        int rc = deflate(z, flush);
        assert(rc != Z_STREAM_ERROR);
        (void)rc;
        size_t made = sizeof out - z->avail_out;
        (void)fwrite(out, 1, made, p->stream); /* errors: whoever closes it */
        p->packed += made;
    } while (z->avail_out == 0);
}

/* Stored bytes pass through; errors of the stream are found by whoever closes it. */
void qg_zip_add(qg_zip_packer *p, const void *bytes, size_t n)
{
    assert(p->stream && (bytes || n == 0));
    z_stream *z = p->state;
    const unsigned char *at = bytes;
    p->crc = qg_zip_crc(p->crc, bytes, n);
    p->size += n;
    if (!z) {
        p->packed += n;
        (void)fwrite(bytes, 1, n, p->stream);
        return;
    }
    for (; n; n -= part(n)) {
        z->next_in = (unsigned char *)(uintptr_t)at;
        z->avail_in = part(n);
        at += part(n);
        drain(p, Z_NO_FLUSH);
    }
}

/* May be called on a packer without state. */
void qg_zip_end(qg_zip_packer *p)
{
    if (!p->state)
        return;
    drain(p, Z_FINISH);
    (void)deflateEnd(p->state);
    p->ctx->alloc.drop(p->ctx->alloc.ud, p->state);
    p->state = NULL;
}

#include "engine/data/npz.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "engine/data/zip.h"

/* Placeholders in records of a zip64 archive for numbers that do not fit. */
#define FAR16 0xffffu
#define FAR32 0xffffffffu

enum {
    NEEDS_ZIP64 = 45, /* "version needed to extract": 4.5 */
    UTF8_NAMES = 1 << 11,
    STORED = 0,
    DEFLATED = 8,
    DAY_ONE = 1 << 5 | 1, /* MS-DOS date of 1980-01-01 */
    ZIP64_EXTRA = 1,
};

/* Little-endian. */
static void put(FILE *f, uint64_t x, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++, x >>= 8)
        (void)putc((int)(x & 0xff), f);
}

/* The fields common to local headers and the directory: from the version on. */
static void put_common(FILE *f, const qg_npz_member *m)
{
    put(f, NEEDS_ZIP64, 2);
    put(f, UTF8_NAMES, 2);
    put(f, m->deflated ? DEFLATED : STORED, 2);
    put(f, 0, 2); /* midnight */
    put(f, DAY_ONE, 2);
    put(f, m->crc, 4);
    put(f, FAR32, 4);
    put(f, FAR32, 4);
    put(f, strlen(m->name), 2);
}

/* Stands before the data; written twice, as sizes are known only afterwards. */
static void put_local(FILE *f, const qg_npz_member *m)
{
    put(f, 0x04034b50, 4);
    put_common(f, m);
    put(f, 20, 2);
    (void)fputs(m->name, f);
    put(f, ZIP64_EXTRA, 2);
    put(f, 16, 2);
    put(f, m->size, 8);
    put(f, m->packed, 8);
}

/* The entry of the directory: the same and where the local header is. */
static void put_central(FILE *f, const qg_npz_member *m)
{
    put(f, 0x02014b50, 4);
    put(f, NEEDS_ZIP64, 2); /* made by: MS-DOS attributes */
    put_common(f, m);
    put(f, 28, 2);
    put(f, 0, 2 + 2 + 2 + 4); /* no comment, disk 0, no attributes */
    put(f, FAR32, 4);
    (void)fputs(m->name, f);
    put(f, ZIP64_EXTRA, 2);
    put(f, 24, 2);
    put(f, m->size, 8);
    put(f, m->packed, 8);
    put(f, m->header_at, 8);
}

/* zip64 end record, its locator, and the old end record that points to neither. */
static void put_end(FILE *f, uint64_t count, uint64_t at, uint64_t bytes)
{
    put(f, 0x06064b50, 4);
    put(f, 44, 8); /* bytes that follow */
    put(f, NEEDS_ZIP64, 2);
    put(f, NEEDS_ZIP64, 2);
    put(f, 0, 8); /* disks */
    put(f, count, 8);
    put(f, count, 8);
    put(f, bytes, 8);
    put(f, at, 8);
    put(f, 0x07064b50, 4); /* where that record is */
    put(f, 0, 4);
    put(f, at + bytes, 8);
    put(f, 1, 4);
    put(f, 0x06054b50, 4);
    put(f, 0, 4);
    put(f, FAR16, 2);
    put(f, FAR16, 2);
    put(f, FAR32, 4);
    put(f, FAR32, 4);
    put(f, 0, 2);
}

/* ---- Members ---- */

static qg_status put_array(qg_npz_writer *w, const qg_tensor *t, qg_npz_member *m)
{
    char head[QG_NPY_TEXT];
    size_t n, bytes;
    qg_zip_packer p;
    QG_TRY(qg_npy_header(w->ctx, t, head, &n));
    QG_TRY(qg_tensor_bytes(w->ctx, m->name, t, &bytes));
    QG_TRY(qg_zip_begin(w->ctx, w->stream, w->deflate, &p));
    qg_zip_add(&p, head, n);
    qg_zip_add(&p, t->data, bytes);
    qg_zip_end(&p);
    m->size = p.size;
    m->packed = p.packed;
    m->crc = p.crc;
    return QG_OK;
}

static qg_status seek_failed(qg_npz_writer *w)
{
    return qg_fail(w->ctx, QG_EIO, "write: %.200s: %s", w->name, strerror(errno));
}

/* A member called name and suffix that begins here. */
static qg_status begin_member(qg_npz_writer *w, const char *name, const char *suffix,
                              qg_npz_member *out)
{
    size_t longest = FAR16 - strlen(suffix);
    if (!*name || strlen(name) > longest)
        return qg_fail(w->ctx, QG_EDATA,
                       "write: %.200s: an array name of %zu bytes, expected 1 to %zu",
                       w->name, strlen(name), longest);
    off_t at = ftello(w->stream);
    qg_npz_member m = { .name = qg_arena_printf(w->arena, "%s%s", name, suffix),
                        .header_at = (uint64_t)at };
    if (!m.name)
        return qg_nomem(w->ctx);
    if (at < 0)
        return seek_failed(w);
    for (size_t i = 0; i < w->member.n; i++)
        if (strcmp(w->member.at[i].name, m.name) == 0)
            return qg_fail(w->ctx, QG_EDATA,
                           "write: %.200s: two arrays have the name '%.1000s'", w->name,
                           name);
    *out = m;
    return QG_OK;
}

qg_status qg_npz_add_file(qg_npz_writer *w, const char *name, const void *bytes,
                          size_t size)
{
    qg_npz_member m;
    QG_TRY(begin_member(w, name, "", &m));
    m.size = m.packed = size;
    m.crc = qg_zip_crc(0, bytes, size);
    put_local(w->stream, &m);
    (void)fwrite(bytes, 1, size, w->stream);
    return qg_vec_push(w->ctx, w->arena, &w->member, m);
}

qg_status qg_npz_add(qg_npz_writer *w, const char *name, const qg_tensor *t)
{
    FILE *f = w->stream;
    qg_npz_member m;
    assert(qg_tensor_is_plain(t));
    QG_TRY(begin_member(w, name, ".npy", &m));
    off_t at = (off_t)m.header_at;
    m.deflated = w->deflate;
    put_local(f, &m); /* again when sizes and checksum are known */
    QG_TRY(put_array(w, t, &m));
    if (fseeko(f, at, SEEK_SET) != 0)
        return seek_failed(w);
    put_local(f, &m);
    if (fseeko(f, 0, SEEK_END) != 0)
        return seek_failed(w);
    return qg_vec_push(w->ctx, w->arena, &w->member, m);
}

/* All bytes of `from`, in parts. */
static qg_status put_file(qg_npz_writer *w, FILE *from, const char *path,
                          qg_npz_member *m)
{
    char part[1 << 14];
    qg_zip_packer p;
    QG_TRY(qg_zip_begin(w->ctx, w->stream, w->deflate, &p));
    for (size_t n; (n = fread(part, 1, sizeof part, from)) > 0;)
        qg_zip_add(&p, part, n);
    qg_zip_end(&p);
    m->size = p.size;
    m->packed = p.packed;
    m->crc = p.crc;
    return ferror(from)
               ? qg_fail(w->ctx, QG_EIO, "read: %.200s: %s", path, strerror(errno))
               : QG_OK;
}

/* Writes the header, the data by `from`, and the header again when sizes and checksum
 * are known. */
static qg_status add_stream(qg_npz_writer *w, qg_npz_member m, FILE *from,
                            const char *path)
{
    m.deflated = w->deflate;
    put_local(w->stream, &m);
    QG_TRY(put_file(w, from, path, &m));
    if (fseeko(w->stream, (off_t)m.header_at, SEEK_SET) != 0)
        return seek_failed(w);
    put_local(w->stream, &m);
    if (fseeko(w->stream, 0, SEEK_END) != 0)
        return seek_failed(w);
    return qg_vec_push(w->ctx, w->arena, &w->member, m);
}

qg_status qg_npz_add_copy(qg_npz_writer *w, const char *name, const char *path)
{
    qg_npz_member m;
    QG_TRY(begin_member(w, name, "", &m));
    FILE *from = fopen(path, "rbe");
    if (!from)
        return qg_fail(w->ctx, QG_EIO, "read: %.200s: %s", path, strerror(errno));
    qg_status s = add_stream(w, m, from, path);
    (void)fclose(from);
    return s;
}

qg_status qg_npz_begin(qg_ctx *ctx, const char *name, FILE *stream, qg_npz_writer *out)
{
    qg_npz_writer w = {
        .ctx = ctx, .name = name, .stream = stream, .arena = qg_arena_new(ctx->alloc)
    };
    if (!w.arena)
        return qg_nomem(ctx);
    *out = w;
    return QG_OK;
}

qg_status qg_npz_create(qg_ctx *ctx, const char *path, bool deflate, qg_npz_writer *out)
{
    qg_writer file;
    QG_TRY(qg_writer_open(ctx, path, &file));
    qg_status s = qg_npz_begin(ctx, file.target, file.stream, out);
    if (s != QG_OK) {
        qg_writer_abandon(&file);
        return s;
    }
    out->file = file;
    out->deflate = deflate;
    return QG_OK;
}

qg_status qg_npz_end(qg_npz_writer *w)
{
    FILE *f = w->stream;
    off_t at = ftello(f);
    for (size_t i = 0; i < w->member.n; i++)
        put_central(f, &w->member.at[i]);
    off_t end = ftello(f);
    if (at < 0 || end < at)
        return seek_failed(w);
    put_end(f, w->member.n, (uint64_t)at, (uint64_t)(end - at));
    return QG_OK;
}

qg_status qg_npz_commit(qg_npz_writer *w)
{
    qg_status s = qg_npz_end(w);
    if (s == QG_OK)
        s = qg_writer_commit(&w->file);
    qg_npz_abandon(w);
    return s;
}

void qg_npz_abandon(qg_npz_writer *w)
{
    qg_writer_abandon(&w->file);
    qg_arena_free(w->arena);
    w->arena = NULL;
}

#include "engine/data/npz.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/data/zip.h"

/* Sizes and signatures of the records of a zip file. */
enum {
    END_SIZE = 22,
    END64_LOCATOR_SIZE = 20,
    END64_SIZE = 56,
    CENTRAL_SIZE = 46,
    LOCAL_SIZE = 30,
    MAX_COMMENT = 0xffff,
    MAX_MEMBERS = 1 << 20,
    STORED = 0,
    DEFLATED = 8,
};
static const uint32_t end_mark = 0x06054b50, end64_mark = 0x06064b50,
                      locator_mark = 0x07064b50, central_mark = 0x02014b50,
                      local_mark = 0x04034b50;

/* zlib packs at most 1032 to 1; a larger claim is refused. */
enum { MOST_PACKED = 1032 };

/* Little-endian, 1 to 8 bytes. */
static uint64_t number(const unsigned char *at, unsigned bytes)
{
    uint64_t x = 0;
    assert(bytes >= 1 && bytes <= 8);
    for (unsigned i = bytes; i-- > 0;)
        x = x << 8 | at[i];
    return x;
}

static qg_status bad(qg_ctx *ctx, const qg_npz *z, const char *what)
{
    return qg_fail(ctx, QG_EPARSE, "read %.200s: %s: not a complete .npz file", z->path,
                   what);
}

/* n bytes of the file; a record that reaches beyond its end is refused. */
static qg_status read_at(qg_ctx *ctx, const qg_npz *z, uint64_t at, size_t n, void *out)
{
    if (at > z->size || n > z->size - at)
        return bad(ctx, z, "a record lies outside of the file");
    if (z->bytes) {
        if (n)
            memcpy(out, z->bytes + at, n);
        return QG_OK;
    }
    for (char *to = out; n;) {
        ssize_t got = pread(z->fd, to, n < INT32_MAX ? n : INT32_MAX, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return qg_fail(ctx, QG_EIO, "read %.200s: %s", z->path,
                           got ? strerror(errno) : "the file ends too soon");
        to += got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return QG_OK;
}

/* ---- The directory ---- */

struct directory {
    uint64_t at, bytes, count;
};

/* The record at the end of the file, which a comment may follow. */
static qg_status find_end(qg_ctx *ctx, qg_arena *a, const qg_npz *z, uint64_t *at,
                          struct directory *d)
{
    size_t n = z->size < END_SIZE + MAX_COMMENT ? z->size : END_SIZE + MAX_COMMENT;
    unsigned char *tail = qg_arena_raw(a, n, 1);
    if (!tail)
        return qg_nomem(ctx);
    QG_TRY(read_at(ctx, z, z->size - n, n, tail));
    for (size_t i = n < END_SIZE ? 0 : n - END_SIZE + 1; i-- > 0;) {
        const unsigned char *e = tail + i;
        if (number(e, 4) != end_mark || number(e + 20, 2) != n - i - END_SIZE)
            continue;
        *at = z->size - n + i;
        *d = (struct directory){ number(e + 16, 4), number(e + 12, 4),
                                 number(e + 10, 2) };
        return QG_OK;
    }
    return bad(ctx, z, "it has no end record");
}

/* Takes the fields of the zip64 end record where there is one. */
static qg_status find_end64(qg_ctx *ctx, const qg_npz *z, uint64_t end_at,
                            struct directory *d)
{
    unsigned char locator[END64_LOCATOR_SIZE], end[END64_SIZE];
    if (d->at != UINT32_MAX && d->bytes != UINT32_MAX && d->count != UINT16_MAX)
        return QG_OK;
    if (end_at < sizeof locator)
        return QG_OK;
    QG_TRY(read_at(ctx, z, end_at - sizeof locator, sizeof locator, locator));
    if (number(locator, 4) != locator_mark)
        return QG_OK;
    QG_TRY(read_at(ctx, z, number(locator + 8, 8), sizeof end, end));
    if (number(end, 4) != end64_mark)
        return bad(ctx, z, "its zip64 end record is missing");
    *d = (struct directory){ number(end + 48, 8), number(end + 40, 8),
                             number(end + 32, 8) };
    return QG_OK;
}

/* The zip64 extra field holds those of size, packed and offset that did not fit. */
static qg_status read_extra(qg_ctx *ctx, const qg_npz *z, const unsigned char *extra,
                            size_t n, qg_npz_member *m)
{
    uint64_t *fields[] = { &m->size, &m->packed, &m->header_at };
    for (size_t at = 0; at + 4 <= n;) {
        size_t id = (size_t)number(extra + at, 2),
               size = (size_t)number(extra + at + 2, 2);
        at += 4;
        if (size > n - at)
            return bad(ctx, z, "an extra field is cut off");
        for (size_t f = 0, from = at; id == 1 && f < 3; f++) {
            if (*fields[f] != UINT32_MAX)
                continue;
            if (from + 8 > at + size)
                return bad(ctx, z, "a zip64 field is missing");
            *fields[f] = number(extra + from, 8);
            from += 8;
        }
        at += size;
    }
    return QG_OK;
}

/* Refuses unsupported members, and impossible sizes. */
static qg_status check_member(qg_ctx *ctx, const qg_npz *z, unsigned flags,
                              unsigned method, const qg_npz_member *m)
{
    if (flags & 1)
        return qg_fail(ctx, QG_EUNSUPPORTED, "read %.200s: '%.100s' is encrypted",
                       z->path, m->name);
    if (method != STORED && method != DEFLATED)
        return qg_fail(
            ctx, QG_EUNSUPPORTED,
            "read %.200s: '%.100s' uses compression method %u, expected 0 or 8",
            z->path, m->name, method);
    if (m->packed > z->size || (!m->deflated && m->packed != m->size) ||
        (m->deflated && m->size > m->packed * MOST_PACKED))
        return qg_fail(ctx, QG_EPARSE,
                       "read %.200s: '%.100s' of %llu bytes cannot come from %llu",
                       z->path, m->name, (unsigned long long)m->size,
                       (unsigned long long)m->packed);
    return QG_OK;
}

/* One entry of the directory at *at, which moves past it. */
static qg_status read_member(qg_ctx *ctx, qg_arena *a, const qg_npz *z,
                             const unsigned char **at, const unsigned char *end,
                             qg_npz_member *m)
{
    static const char suffix[] = ".npy";
    const unsigned char *e = *at;
    if (end - e < CENTRAL_SIZE || number(e, 4) != central_mark)
        return bad(ctx, z, "its directory is cut off");
    size_t name = (size_t)number(e + 28, 2), extra = (size_t)number(e + 30, 2);
    size_t whole = CENTRAL_SIZE + name + extra + (size_t)number(e + 32, 2);
    if ((size_t)(end - e) < whole)
        return bad(ctx, z, "its directory is cut off");
    size_t kept = name;
    if (name > 4 && memcmp(e + CENTRAL_SIZE + name - 4, suffix, 4) == 0)
        kept -= 4;
    *m = (qg_npz_member){
        .name = qg_arena_strndup(a, (const char *)e + CENTRAL_SIZE, kept),
        .header_at = number(e + 42, 4),
        .packed = number(e + 20, 4),
        .size = number(e + 24, 4),
        .crc = (uint32_t)number(e + 16, 4),
        .deflated = number(e + 10, 2) == DEFLATED,
    };
    if (!m->name)
        return qg_nomem(ctx);
    QG_TRY(read_extra(ctx, z, e + CENTRAL_SIZE + name, extra, m));
    *at = e + whole;
    return check_member(ctx, z, (unsigned)number(e + 8, 2), (unsigned)number(e + 10, 2),
                        m);
}

/* All entries of the directory; names must differ. */
static qg_status read_members(qg_ctx *ctx, qg_arena *a, const struct directory *d,
                              qg_npz *z, qg_names *seen)
{
    if (d->count > MAX_MEMBERS || d->bytes > z->size || d->count > d->bytes)
        return bad(ctx, z, "its directory is larger than the file");
    unsigned char *bytes = qg_arena_raw(a, d->bytes, 1);
    qg_npz_member *list = QG_NEWN(a, d->count, qg_npz_member);
    if (!bytes || !list)
        return qg_nomem(ctx);
    QG_TRY(read_at(ctx, z, d->at, d->bytes, bytes));
    const unsigned char *at = bytes;
    uint64_t unpacked = 0;
    for (uint64_t i = 0; i < d->count; i++) {
        uint32_t id;
        QG_TRY(read_member(ctx, a, z, &at, bytes + d->bytes, &list[i]));
        if (qg_names_add(seen, list[i].name, strlen(list[i].name), &id) != QG_OK)
            return qg_nomem(ctx);
        if (id != i)
            return qg_fail(ctx, QG_EPARSE, "read %.200s: '%.100s' appears twice",
                           z->path, list[i].name);
        unpacked =
            list[i].size > UINT64_MAX - unpacked ? UINT64_MAX : unpacked + list[i].size;
    }
    QG_TRY(qg_check_ratio(ctx, "read", z->path, unpacked, z->size));
    assert(at <= bytes + d->bytes);
    z->member = list;
    z->count = d->count;
    return QG_OK;
}

/* The size of the file behind fd. */
static qg_status find_size(qg_ctx *ctx, qg_npz *z)
{
    struct stat st;
    if (fstat(z->fd, &st) != 0)
        return qg_fail(ctx, QG_EIO, "read %.200s: %s", z->path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return qg_fail(ctx, QG_EIO, "read %.200s: is not a regular file", z->path);
    z->size = (size_t)st.st_size;
    return QG_OK;
}

static qg_status read_directory(qg_ctx *ctx, qg_arena *a, qg_npz *z)
{
    struct directory d;
    uint64_t end_at;
    QG_TRY(find_end(ctx, a, z, &end_at, &d));
    QG_TRY(find_end64(ctx, z, end_at, &d));
    qg_names *seen = qg_names_new(ctx->alloc);
    qg_status s = seen ? read_members(ctx, a, &d, z, seen) : qg_nomem(ctx);
    qg_names_free(seen);
    return s;
}

qg_status qg_npz_open(qg_ctx *ctx, qg_arena *a, const char *path, qg_npz *out)
{
    qg_npz z = { .path = path };
    z.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (z.fd < 0)
        return qg_fail(ctx, QG_EIO, "read %.200s: %s", path, strerror(errno));
    qg_status s = find_size(ctx, &z);
    if (s == QG_OK)
        s = read_directory(ctx, a, &z);
    if (s == QG_OK)
        *out = z;
    else
        qg_npz_close(&z);
    return s;
}

qg_status qg_npz_open_bytes(qg_ctx *ctx, qg_arena *a, const char *name,
                            const void *bytes, size_t size, qg_npz *out)
{
    qg_npz z = { .path = name, .fd = -1, .bytes = bytes, .size = size };
    QG_TRY(read_directory(ctx, a, &z));
    *out = z;
    return QG_OK;
}

void qg_npz_close(qg_npz *z)
{
    if (z->path && z->fd >= 0)
        (void)close(z->fd);
    *z = (qg_npz){ 0 };
}

const qg_npz_member *qg_npz_find(const qg_npz *z, const char *name)
{
    for (size_t i = 0; i < z->count; i++)
        if (strcmp(z->member[i].name, name) == 0)
            return &z->member[i];
    return NULL;
}

/* ---- Arrays ---- */

/* The local header is used only for the lengths of its own name and extra fields. */
static qg_status data_at(qg_ctx *ctx, const qg_npz *z, const qg_npz_member *m,
                         uint64_t *at)
{
    unsigned char local[LOCAL_SIZE];
    QG_TRY(read_at(ctx, z, m->header_at, sizeof local, local));
    if (number(local, 4) != local_mark)
        return bad(ctx, z, "a member has no header");
    *at = m->header_at + LOCAL_SIZE + number(local + 26, 2) + number(local + 28, 2);
    if (*at > z->size || m->packed > z->size - *at)
        return bad(ctx, z, "a member lies outside of the file");
    return QG_OK;
}

static qg_status compare_sum(qg_ctx *ctx, const qg_npz *z, const qg_npz_member *m,
                             uint32_t sum)
{
    if (sum == m->crc)
        return QG_OK;
    return qg_fail(ctx, QG_EPARSE,
                   "read %.200s: '%.100s' is damaged: its checksum differs", z->path,
                   m->name);
}

static qg_status check_sum(qg_ctx *ctx, const qg_npz *z, const qg_npz_member *m,
                           const unsigned char *bytes)
{
    return compare_sum(ctx, z, m, qg_zip_crc(0, bytes, m->size));
}

qg_status qg_npz_check(qg_ctx *ctx, const qg_npz *z, const qg_npz_member *m)
{
    unsigned char part[1 << 14];
    uint64_t at;
    uint32_t sum = 0;
    if (m->deflated)
        return QG_OK;
    QG_TRY(data_at(ctx, z, m, &at));
    for (uint64_t done = 0, n; done < m->size; done += n) {
        n = m->size - done < sizeof part ? m->size - done : sizeof part;
        QG_TRY(read_at(ctx, z, at + done, (size_t)n, part));
        sum = qg_zip_crc(sum, part, (size_t)n);
    }
    return compare_sum(ctx, z, m, sum);
}

static qg_status inflate_member(qg_ctx *ctx, const qg_npz *z, const qg_npz_member *m,
                                const unsigned char *packed, qg_zip_bytes out)
{
    bool whole;
    QG_TRY(qg_zip_inflate(ctx, packed, m->packed, out, &whole));
    if (!whole)
        return qg_fail(ctx, QG_EPARSE,
                       "read %.200s: '%.100s' does not inflate to %zu bytes", z->path,
                       m->name, out.n);
    return check_sum(ctx, z, m, out.at);
}

/* A deflated member, whole, into the arena. */
static qg_status unpack(qg_ctx *ctx, qg_arena *a, const qg_npz *z,
                        const qg_npz_member *m, const unsigned char **out)
{
    uint64_t at;
    QG_TRY(data_at(ctx, z, m, &at));
    qg_arena *scratch = qg_arena_new(ctx->alloc);
    unsigned char *packed = scratch ? qg_arena_raw(scratch, m->packed, 1) : NULL;
    qg_zip_bytes bytes = { qg_arena_raw(a, m->size, 1), m->size };
    qg_status s =
        packed && bytes.at ? read_at(ctx, z, at, m->packed, packed) : qg_nomem(ctx);
    if (s == QG_OK)
        s = inflate_member(ctx, z, m, packed, bytes);
    qg_arena_free(scratch);
    *out = bytes.at;
    return s;
}

qg_status qg_npz_array(qg_ctx *ctx, qg_arena *a, const qg_npz *z,
                       const qg_npz_member *m, qg_npy *out)
{
    unsigned char head[QG_NPY_HEAD_BYTES];
    uint64_t at;
    qg_npy f = { .fd = -1, .name = qg_arena_printf(a, "%s: %s", z->path, m->name) };
    if (!f.name)
        return qg_nomem(ctx);
    QG_TRY(data_at(ctx, z, m, &at));
    qg_npy_source from = { f.name, head, 0, m->size };
    from.size = m->size < sizeof head ? m->size : sizeof head;
    if (m->deflated) {
        QG_TRY(unpack(ctx, a, z, m, &f.bytes));
        from.bytes = f.bytes;
    } else {
        f.fd = z->fd;
        f.at = at;
        QG_TRY(read_at(ctx, z, at, from.size, head));
    }
    QG_TRY(qg_npy_parse(ctx, &from, &f.head));
    *out = f;
    return QG_OK;
}

qg_status qg_npz_file(qg_ctx *ctx, qg_arena *a, const qg_npz *z, const qg_npz_member *m,
                      const unsigned char **out)
{
    uint64_t at;
    assert(z->bytes);
    if (m->deflated)
        return unpack(ctx, a, z, m, out);
    QG_TRY(data_at(ctx, z, m, &at));
    QG_TRY(check_sum(ctx, z, m, z->bytes + at));
    *out = z->bytes + at;
    return QG_OK;
}

qg_status qg_npz_load(qg_ctx *ctx, qg_arena *a, const qg_npz *z, const qg_npz_member *m,
                      const qg_tensor **out)
{
    qg_npy f;
    QG_TRY(qg_npz_check(ctx, z, m));
    QG_TRY(qg_npz_array(ctx, a, z, m, &f));
    qg_tensor *t = QG_NEW(a, qg_tensor);
    if (!t)
        return qg_nomem(ctx);
    *t = f.head.type;
    QG_TRY(qg_tensor_alloc(ctx, a, t));
    QG_TRY(qg_npy_read(ctx, &f, 0, (size_t)qg_tensor_count(t), t->data));
    *out = t;
    return QG_OK;
}

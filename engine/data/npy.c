#include "engine/data/npy.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/core/num.h"

static const unsigned char magic[6] = { 0x93, 'N', 'U', 'M', 'P', 'Y' };

static const struct {
    const char *text; /* kind and bytes */
    qg_dtype dtype;
} types[] = {
    {"f2",  QG_F16 },
    { "f4", QG_F32 },
    { "f8", QG_F64 },
    { "i1", QG_I8  },
    { "i2", QG_I16 },
    { "i4", QG_I32 },
    { "i8", QG_I64 },
    { "u1", QG_U8  },
    { "u2", QG_U16 },
    { "u4", QG_U32 },
    { "u8", QG_U64 },
    { "b1", QG_BOOL}
};

enum { NTYPE = sizeof types / sizeof types[0] };

/* ---- The header ---- */

/* The text of the header while it is read: a Python dict of three known keys. */
struct text {
    qg_ctx *ctx;
    const char *name, *at, *end;
};

static qg_status bad(const struct text *t, const char *what)
{
    return qg_fail(t->ctx, QG_EPARSE, "read %.200s: header: %s", t->name, what);
}

static void skip_space(struct text *t)
{
    while (t->at < t->end && strchr(" \t\r\n", *t->at) && *t->at)
        t->at++;
}

/* Moves past the word if it is next, after spaces. */
static bool take(struct text *t, const char *word)
{
    size_t n = strlen(word);
    skip_space(t);
    if ((size_t)(t->end - t->at) < n || memcmp(t->at, word, n) != 0)
        return false;
    t->at += n;
    return true;
}

/* 'text' or "text" without escapes. */
static bool take_quoted(struct text *t, const char **text, size_t *n)
{
    skip_space(t);
    if (t->at == t->end || (*t->at != '\'' && *t->at != '"'))
        return false;
    const char *close = memchr(t->at + 1, *t->at, (size_t)(t->end - t->at - 1));
    if (!close)
        return false;
    *text = t->at + 1;
    *n = (size_t)(close - *text);
    t->at = close + 1;
    return true;
}

/* '<f4': order, kind, bytes.  '=' is the order of this machine. */
static qg_status read_type(struct text *t, qg_dtype *out)
{
    const char *s;
    size_t n;
    if (!take_quoted(t, &s, &n))
        return bad(t, "descr is not the name of a type (arrays of records are not "
                      "supported)");
    if (n == 3 && s[0] == '>' && s[2] != '1')
        return qg_fail(t->ctx, QG_EUNSUPPORTED,
                       "read %.200s: big-endian data, expected little-endian", t->name);
    for (size_t i = 0; i < NTYPE && n == 3 && strchr("<|=>", s[0]); i++)
        if (memcmp(types[i].text, s + 1, 2) == 0) {
            *out = types[i].dtype;
            return QG_OK;
        }
    return qg_fail(
        t->ctx, QG_EUNSUPPORTED,
        "read %.200s: type '%.*s', expected f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 "
        "or b1",
        t->name, (int)(n < 40 ? n : 40), s);
}

/* (), (3,), (3, 4): NumPy writes a comma after a single extent. */
static qg_status read_shape(struct text *t, int64_t dim[QG_MAX_RANK], int32_t *rank)
{
    *rank = 0;
    if (!take(t, "("))
        return bad(t, "shape is not a tuple");
    while (!take(t, ")")) {
        const char *from = t->at;
        while (t->at < t->end && *t->at >= '0' && *t->at <= '9')
            t->at++;
        if (*rank == QG_MAX_RANK)
            return qg_fail(t->ctx, QG_EUNSUPPORTED,
                           "read %.200s: rank above %d is not supported", t->name,
                           QG_MAX_RANK);
        if (t->at - from > 19 ||
            !qg_num_parse_i64(from, (size_t)(t->at - from), &dim[*rank]))
            return bad(t, "shape contains an entry that is not a number");
        ++*rank;
        if (!take(t, ",") && (skip_space(t), t->at == t->end || *t->at != ')'))
            return bad(t, "shape is not a tuple");
    }
    return QG_OK;
}

static qg_status read_order(struct text *t, bool *fortran)
{
    *fortran = take(t, "True");
    return *fortran || take(t, "False") ? QG_OK
                                        : bad(t, "fortran_order is neither True nor "
                                                 "False");
}

struct dict {
    qg_dtype dtype;
    bool fortran;
    int32_t rank;
    int64_t dim[QG_MAX_RANK];
};

/* {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } in any order. */
static qg_status read_dict(struct text *t, struct dict *d)
{
    static const char *const keys[] = { "descr", "fortran_order", "shape" };
    unsigned seen = 0;
    if (!take(t, "{"))
        return bad(t, "is not a dict");
    while (!take(t, "}")) {
        const char *key = "";
        size_t n = 0, k = 0;
        if (!take_quoted(t, &key, &n) || !take(t, ":"))
            return bad(t, "is not a dict");
        while (k < 3 && (strlen(keys[k]) != n || memcmp(keys[k], key, n) != 0))
            k++;
        if (k == 3 || seen & 1u << k)
            return bad(t, "a key is unknown or appears twice");
        seen |= 1u << k;
        QG_TRY(k == 0   ? read_type(t, &d->dtype)
               : k == 1 ? read_order(t, &d->fortran)
                        : read_shape(t, d->dim, &d->rank));
        if (!take(t, ",") && (skip_space(t), t->at == t->end || *t->at != '}'))
            return bad(t, "is not a dict");
    }
    skip_space(t);
    if (t->at != t->end)
        return bad(t, "data follow the dict");
    return seen == 7 ? QG_OK : bad(t, "descr, fortran_order or shape is missing");
}

/* Whether elements lie the same way in both orders. */
static bool order_matters(const struct dict *d)
{
    int long_axes = 0;
    for (int32_t i = 0; i < d->rank; i++)
        long_axes += d->dim[i] != 1;
    return d->fortran && long_axes > 1;
}

/* Finds the dict: *from .. *to within the bytes. */
static qg_status frame(qg_ctx *ctx, const qg_npy_source *s, size_t *from, size_t *to)
{
    const unsigned char *b = s->bytes;
    if (s->size < 10 || memcmp(b, magic, sizeof magic) != 0)
        return qg_fail(ctx, QG_EPARSE, "read %.200s: is not a .npy file", s->name);
    if (b[6] < 1 || b[6] > 3 || b[7] != 0)
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "read %.200s: .npy version %d.%d, expected 1.0, 2.0 or 3.0",
                       s->name, b[6], b[7]);
    size_t n = SIZE_MAX; /* a version 2 file that ends within its length */
    *from = b[6] == 1 ? 10 : 12;
    if (s->size >= *from)
        n = (size_t)(b[8] | b[9] << 8) |
            (b[6] == 1 ? 0 : (size_t)b[10] << 16 | (size_t)b[11] << 24);
    if (s->size < *from || n > s->size - *from)
        return qg_fail(ctx, QG_EPARSE,
                       "read %.200s: header of %zu bytes, the file has %zu", s->name, n,
                       s->size);
    *to = *from + n;
    return QG_OK;
}

qg_status qg_npy_parse(qg_ctx *ctx, const qg_npy_source *s, qg_npy_head *out)
{
    size_t from, to;
    struct dict d = { 0 };
    qg_npy_head head;
    QG_TRY(frame(ctx, s, &from, &to));
    const char *base = (const char *)s->bytes;
    struct text t = { ctx, s->name, base + from, base + to };
    QG_TRY(read_dict(&t, &d));
    if (order_matters(&d))
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "read %.200s: is in Fortran order, expected C order "
                       "(numpy.ascontiguousarray)",
                       s->name);
    qg_tensor_init(&head.type, d.dtype, d.rank, d.dim);
    QG_TRY(qg_tensor_bytes(ctx, s->name, &head.type, &head.bytes));
    head.data_at = to;
    if (s->total - to != head.bytes) {
        char text[QG_SHAPE_TEXT];
        return qg_fail(ctx, QG_EPARSE,
                       "read %.200s: %s needs %zu bytes, the file has %zu", s->name,
                       qg_tensor_text(&head.type, text), head.bytes, s->total - to);
    }
    *out = head;
    return QG_OK;
}

/* ---- Reading ---- */

static qg_status io_fail(qg_ctx *ctx, const char *name, const char *what)
{
    return qg_fail(ctx, QG_EIO, "read %.200s: %s", name, what);
}

/* All n bytes at `at`; a file that has become shorter is an error. */
static qg_status read_all(qg_ctx *ctx, const qg_npy *f, size_t at, size_t n, void *out)
{
    char *to = out;
    while (n) {
        ssize_t got = pread(f->fd, to, n < INT32_MAX ? n : INT32_MAX, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return io_fail(ctx, f->name,
                           got ? strerror(errno) : "the file ends too soon");
        to += got;
        at += (size_t)got;
        n -= (size_t)got;
    }
    return QG_OK;
}

/* The beginning of the file; the file size shows whether all elements are present. */
static qg_status read_head(qg_ctx *ctx, const char *path, qg_npy *f)
{
    unsigned char bytes[QG_NPY_HEAD_BYTES];
    struct stat st;
    if (fstat(f->fd, &st) != 0)
        return io_fail(ctx, path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return io_fail(ctx, path, "is not a regular file");
    size_t total = (size_t)st.st_size, n = total < sizeof bytes ? total : sizeof bytes;
    QG_TRY(read_all(ctx, f, 0, n, bytes));
    qg_npy_source from = { path, bytes, n, total };
    return qg_npy_parse(ctx, &from, &f->head);
}

qg_status qg_npy_open(qg_ctx *ctx, const char *path, qg_npy *out)
{
    qg_npy f = { .name = path, .owned = true };
    f.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f.fd < 0)
        return io_fail(ctx, path, strerror(errno));
    qg_status s = read_head(ctx, path, &f);
    if (s == QG_OK)
        *out = f;
    else
        qg_npy_close(&f);
    return s;
}

void qg_npy_close(qg_npy *f)
{
    if (f->owned)
        (void)close(f->fd);
    *f = (qg_npy){ .fd = -1 };
}

qg_status qg_npy_read(qg_ctx *ctx, const qg_npy *f, size_t first, size_t count,
                      void *out)
{
    size_t size = qg_dtype_bits(f->head.type.dtype) / 8;
    assert(first * size <= f->head.bytes &&
           count * size <= f->head.bytes - first * size);
    size_t at = f->head.data_at + first * size;
    if (count == 0)
        return QG_OK;
    if (f->bytes)
        memcpy(out, f->bytes + at, count * size);
    else
        QG_TRY(read_all(ctx, f, f->at + at, count * size, out));
    unsigned char *b = out;
    for (size_t i = 0; f->head.type.dtype == QG_BOOL && i < count; i++)
        b[i] = b[i] != 0;
    return QG_OK;
}

qg_status qg_npy_load(qg_ctx *ctx, qg_arena *a, const char *path, const qg_tensor **out)
{
    qg_npy f;
    QG_TRY(qg_npy_open(ctx, path, &f));
    qg_tensor *t = QG_NEW(a, qg_tensor);
    qg_status s = t ? QG_OK : qg_nomem(ctx);
    if (s == QG_OK) {
        *t = f.head.type;
        s = qg_tensor_alloc(ctx, a, t);
    }
    if (s == QG_OK)
        s = qg_npy_read(ctx, &f, 0, (size_t)qg_tensor_count(t), t->data);
    qg_npy_close(&f);
    QG_TRY(s);
    *out = t;
    return QG_OK;
}

/* ---- Writing ---- */

/* NULL: NumPy lacks the type. */
static const char *type_text(qg_dtype d)
{
    for (size_t i = 0; i < NTYPE; i++)
        if (types[i].dtype == d)
            return types[i].text;
    return NULL;
}

qg_dtype qg_npy_dtype(qg_dtype d)
{
    if (type_text(d))
        return d;
    switch (qg_dtype_kind_of(d)) {
    case QG_KIND_FLOAT:
        return QG_F32;
    case QG_KIND_UINT:
        return QG_U8;
    default:
        return QG_I8;
    }
}

qg_status qg_npy_header(qg_ctx *ctx, const qg_tensor *type, char text[QG_NPY_TEXT],
                        size_t *size)
{
    enum { FRAME = 10, ALIGN = 64 };
    const char *name = type_text(type->dtype);
    if (!name)
        return qg_fail(ctx, QG_EUNSUPPORTED, "write: NumPy has no type %s",
                       qg_dtype_name(type->dtype));
    size_t at = FRAME;
    at += (size_t)snprintf(text + at, QG_NPY_TEXT - at,
                           "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                           name[1] == '1' ? '|' : '<', name);
    for (int32_t i = 0; i < type->rank; i++)
        at += (size_t)snprintf(text + at, QG_NPY_TEXT - at, "%s%lld%s", i ? " " : "",
                               (long long)type->dim[i],
                               i + 1 < type->rank || type->rank == 1 ? "," : "");
    at += (size_t)snprintf(text + at, QG_NPY_TEXT - at, "), }");
    while ((at + 1) % ALIGN)
        text[at++] = ' ';
    text[at++] = '\n';
    assert(at <= QG_NPY_TEXT); /* 8 dims of 20 digits need 384 */
    memcpy(text, magic, sizeof magic);
    memcpy(text + 6,
           (char[]){ 1, 0, (char)((at - FRAME) & 0xff), (char)((at - FRAME) >> 8) }, 4);
    *size = at;
    return QG_OK;
}

qg_status qg_npy_save(qg_ctx *ctx, const char *path, const qg_tensor *t)
{
    char text[QG_NPY_TEXT];
    size_t head, bytes;
    qg_writer w;
    assert(qg_tensor_is_plain(t));
    QG_TRY(qg_npy_header(ctx, t, text, &head));
    QG_TRY(qg_tensor_bytes(ctx, path, t, &bytes));
    QG_TRY(qg_writer_open(ctx, path, &w));
    (void)fwrite(text, 1, head, w.stream);
    (void)fwrite(t->data, 1, bytes, w.stream);
    return qg_writer_commit(&w);
}

/* The type of the stacked array. */
static void stacked(const qg_tensor *sample, int64_t count, qg_tensor *out)
{
    int64_t dim[QG_MAX_RANK] = { count };
    for (int32_t i = 0; i < sample->rank; i++)
        dim[i + 1] = sample->dim[i];
    qg_tensor_init(out, sample->dtype, sample->rank + 1, dim);
}

qg_status qg_npy_create(qg_ctx *ctx, const char *path, const qg_tensor *sample,
                        qg_npy_writer *out)
{
    char text[QG_NPY_TEXT];
    qg_npy_writer w = { .sample = *sample };
    qg_tensor widest;
    if (sample->rank >= QG_MAX_RANK)
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "write: %.200s: samples of rank %d, supported up to %d", path,
                       sample->rank, QG_MAX_RANK - 1);
    QG_TRY(qg_tensor_bytes(ctx, path, sample, &w.bytes));
    stacked(sample, INT64_MAX, &widest);
    QG_TRY(qg_npy_header(ctx, &widest, text, &w.head));
    QG_TRY(qg_writer_open(ctx, path, &w.file));
    for (size_t i = 0; i < w.head; i++) /* patched by commit */
        (void)putc(' ', w.file.stream);
    *out = w;
    return QG_OK;
}

void qg_npy_append(qg_npy_writer *w, const qg_tensor *t)
{
    assert(t->dtype == w->sample.dtype && qg_same_dims(t, &w->sample));
    assert(qg_tensor_is_plain(t));
    (void)fwrite(t->data, 1, w->bytes, w->file.stream); /* errors: commit */
    w->count++;
}

/* The temporary is open for reading too, and its position is not moved. */
qg_status qg_npy_read_back(qg_npy_writer *w, size_t k, qg_tensor *t)
{
    assert(k < (size_t)w->count && qg_same_dims(t, &w->sample) && t->data);
    off_t at = (off_t)(w->head + k * w->bytes);
    size_t got = 0;
    errno = EIO; /* a file shorter than the written data */
    bool fine = fflush(w->file.stream) == 0;
    while (fine && got < w->bytes) {
        ssize_t n = pread(fileno(w->file.stream), (char *)t->data + got, w->bytes - got,
                          at + (off_t)got);
        fine = n > 0;
        got += fine ? (size_t)n : 0;
    }
    return fine ? QG_OK
                : qg_fail(w->file.ctx, QG_EIO, "write: %.200s: %s", w->file.target,
                          strerror(errno));
}

/* The final header, padded to the room that was kept. */
qg_status qg_npy_finish(qg_npy_writer *w)
{
    char text[QG_NPY_TEXT];
    qg_tensor all;
    size_t n, dict = w->head - 10;
    stacked(&w->sample, w->count, &all);
    QG_TRY(qg_npy_header(w->file.ctx, &all, text, &n));
    assert(n <= w->head);
    memset(text + n - 1, ' ', w->head - n);
    text[w->head - 1] = '\n';
    text[8] = (char)(dict & 0xff);
    text[9] = (char)(dict >> 8);
    if (fseek(w->file.stream, 0, SEEK_SET) != 0)
        return qg_fail(w->file.ctx, QG_EIO, "write: %.200s: %s", w->file.target,
                       strerror(errno));
    (void)fwrite(text, 1, w->head, w->file.stream);
    return QG_OK;
}

qg_status qg_npy_commit(qg_npy_writer *w)
{
    qg_status s = qg_npy_finish(w);
    if (s == QG_OK)
        return qg_writer_commit(&w->file);
    qg_npy_abandon(w);
    return s;
}

void qg_npy_abandon(qg_npy_writer *w) { qg_writer_abandon(&w->file); }

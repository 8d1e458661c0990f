#include "engine/device/trace.h"

#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/core/json.h"
#include "engine/core/suggest.h"
#include "engine/session/sink.h"

/* Bytes of the largest trace.json that is read. */
enum { JSON_LIMIT = 64 << 20 };

/* The message of every array begins the same. */
#define bad(ctx, t, a, fault, ...)                                                     \
    qg_fail((ctx), QG_EDATA, "read %.200s: array '%.1000s': " fault, (t)->path,        \
            (a)->value, __VA_ARGS__)

/* --- arrays --- */

/* The element types of docs/trace.md. */
static bool is_number(qg_dtype d)
{
    return d == QG_F32 || d == QG_F64 || d == QG_F16 || d == QG_I8 || d == QG_U8 ||
           d == QG_I16 || d == QG_U16 || d == QG_I32 || d == QG_U32 || d == QG_I64 ||
           d == QG_BOOL;
}

/* Samples and elements from a type that is final. */
static qg_status measure(qg_ctx *ctx, const qg_trace *t, qg_trace_array *a)
{
    char text[QG_SHAPE_TEXT];
    int64_t count = qg_tensor_count(&a->type);
    if (!is_number(a->type.dtype))
        return bad(ctx, t, a, "its type is %s, expected integers or floats",
                   qg_dtype_name(a->type.dtype));
    if (a->type.rank < 1 || a->type.dim[0] < 1 || count < 0)
        return bad(ctx, t, a, "%s has no samples, expected them in its first axis",
                   qg_tensor_text(&a->type, text));
    a->samples = (size_t)a->type.dim[0];
    a->count = (size_t)count / a->samples;
    return QG_OK;
}

/* A file of a folder: its name is one name, so that no trace.json leads out of its
 * folder.  Hidden files are refused, too: '..' is one. */
static qg_status path_of(qg_ctx *ctx, const qg_trace *t, const qg_trace_array *a,
                         qg_arena *scratch, const char **out)
{
    if (!*a->file || strchr(a->file, '/') || a->file[0] == '.')
        return bad(ctx, t, a, "file is '%s', expected a name in the folder", a->file);
    *out = qg_path_join(scratch, t->path, a->file);
    return *out ? QG_OK : qg_nomem(ctx);
}

/* An open raw file of exactly the declared bytes.  O_NONBLOCK: opening a pipe must
 * not wait for a writer; it is refused behind it, since only regular files have a
 * size. */
static qg_status open_raw(qg_ctx *ctx, const qg_trace *t, const qg_trace_array *a,
                          const char *path, qg_npy *out)
{
    struct stat info;
    qg_npy f = { .name = path, .owned = true, .head.type = a->type };
    QG_TRY(qg_tensor_bytes(ctx, a->value, &a->type, &f.head.bytes));
    f.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f.fd < 0)
        return bad(ctx, t, a, "%s: cannot be opened, expected a file", a->file);
    if (fstat(f.fd, &info) != 0 || !S_ISREG(info.st_mode) ||
        (uint64_t)info.st_size != f.head.bytes) {
        (void)close(f.fd);
        return bad(ctx, t, a, "%s has another size, expected %zu bytes", a->file,
                   f.head.bytes);
    }
    *out = f;
    return QG_OK;
}

/* Members are listed without '.npy'; trace.json may give either name.  NULL: none. */
static const qg_npz_member *member_of(const qg_trace *t, const qg_trace_array *a)
{
    size_t n = strlen(a->file);
    for (size_t i = 0; i < t->npz.count; i++) {
        const char *name = t->npz.member[i].name;
        if (strcmp(name, a->file) == 0 ||
            (qg_path_ends_in(a->file, ".npy") && strlen(name) == n - 4 &&
             strncmp(name, a->file, n - 4) == 0))
            return &t->npz.member[i];
    }
    return NULL;
}

/* The array's header, checked against its file; elements are read later.  out->owned
 * tells whether the file is this array's or the archive's. */
static qg_status open_array(qg_ctx *ctx, const qg_trace *t, const qg_trace_array *a,
                            qg_arena *scratch, qg_npy *out)
{
    const char *path;
    if (t->archive) {
        const qg_npz_member *m = member_of(t, a);
        return m ? qg_npz_array(ctx, scratch, &t->npz, m, out)
                 : bad(ctx, t, a, "%s is not in the archive, expected it", a->file);
    }
    QG_TRY(path_of(ctx, t, a, scratch, &path));
    return a->raw ? open_raw(ctx, t, a, path, out) : qg_npy_open(ctx, path, out);
}

qg_status qg_trace_load(qg_ctx *ctx, const qg_trace *t, const qg_trace_array *a,
                        qg_trace_data *out)
{
    qg_trace_data d = {
        .trace = t, .array = a, .npy.fd = -1, .arena = qg_arena_new(ctx->alloc)
    };
    qg_status s = d.arena ? open_array(ctx, t, a, d.arena, &d.npy) : qg_nomem(ctx);
    if (s == QG_OK && (d.npy.head.type.dtype != a->type.dtype ||
                       !qg_same_dims(&d.npy.head.type, &a->type)))
        s = bad(ctx, t, a, "%s has changed while it was read", a->file);
    if (s == QG_OK)
        *out = d;
    else
        qg_trace_unload(&d);
    return s;
}

void qg_trace_unload(qg_trace_data *d)
{
    if (d->npy.owned)
        qg_npy_close(&d->npy);
    qg_arena_free(d->arena);
    *d = (qg_trace_data){ .npy.fd = -1 };
}

qg_status qg_trace_sample(qg_ctx *ctx, const qg_trace_data *d, size_t sample,
                          double *out)
{
    const qg_trace_array *a = d->array;
    qg_tensor x;
    qg_arena *scratch = qg_arena_new(ctx->alloc);
    qg_tensor_init(&x, a->type.dtype, 1, (const int64_t[]){ (int64_t)a->count });
    qg_status s = scratch ? qg_tensor_alloc(ctx, scratch, &x) : qg_nomem(ctx);
    if (s == QG_OK)
        s = qg_npy_read(ctx, &d->npy, sample * a->count, a->count, x.data);
    for (size_t i = 0; s == QG_OK && i < a->count; i++) {
        out[i] = qg_tensor_f64(&x, (int64_t)i);
        if (isnan(out[i]))
            s = bad(ctx, d->trace, a,
                    "element %zu of sample %zu is %g, expected a number", i, sample,
                    out[i]);
    }
    qg_arena_free(scratch);
    return s;
}

/* --- trace.json --- */

/* Producers may have keys of their own; one that resembles a key of the format is a
 * mistake, which would be ignored in silence. */
static qg_status refuse_misspelled(qg_ctx *ctx, const qg_json *j,
                                   const char *const *known)
{
    for (size_t i = 0; i < j->count; i++) {
        const char *key = j->item[i].key;
        char text[QG_SUGGEST_TEXT];
        qg_suggest near = qg_suggest_for(key);
        bool is_known = false;
        for (const char *const *k = known; *k; k++) {
            is_known |= strcmp(key, *k) == 0;
            qg_suggest_try(&near, *k);
        }
        if (!is_known && near.best)
            return qg_json_fail(ctx, QG_EDATA, &j->item[i], "unknown key%s",
                                qg_suggest_text(&near, text));
    }
    return QG_OK;
}

static qg_status read_grid(qg_ctx *ctx, const qg_json *j, qg_trace_array *a)
{
    static const char *const known[] = { "scale", "zero", NULL };
    const qg_json *g = qg_json_get(j, "grid");
    int64_t zero;
    if (!g || g->type == QG_JSON_NULL)
        return QG_OK;
    QG_TRY(qg_json_member(ctx, j, "grid", QG_JSON_OBJECT, &g));
    QG_TRY(refuse_misspelled(ctx, g, known));
    QG_TRY(qg_json_f64(ctx, g, "scale", &a->scale));
    QG_TRY(qg_json_int(ctx, g, "zero", &zero));
    if (!(a->scale > 0 && a->scale <= FLT_MAX)) /* as a record may have */
        return qg_json_fail(ctx, QG_EDATA, g,
                            "scale is %g, expected above 0, at most %g", a->scale,
                            (double)FLT_MAX);
    if (zero < INT32_MIN || zero > INT32_MAX)
        return qg_json_fail(ctx, QG_EDATA, g, "zero does not fit int32");
    a->zero = (int32_t)zero;
    a->grid = true;
    return QG_OK;
}

/* `permutation` of an array: each of 0 .. n-1 once.  Absent or null: n_axis stays 0. */
static qg_status read_axes(qg_ctx *ctx, const qg_json *j, qg_trace_array *a)
{
    const qg_json *p = qg_json_get(j, "permutation");
    unsigned seen = 0;
    if (!p || p->type == QG_JSON_NULL)
        return QG_OK;
    QG_TRY(qg_json_member(ctx, j, "permutation", QG_JSON_ARRAY, &p));
    if (p->count > QG_MAX_RANK)
        return qg_json_fail(ctx, QG_EDATA, p, "has %zu axes, expected at most %d",
                            p->count, QG_MAX_RANK);
    for (size_t i = 0; i < p->count; i++) {
        int64_t axis;
        QG_TRY(qg_json_as_int(ctx, &p->item[i], &axis));
        if (axis < 0 || axis >= (int64_t)p->count || (seen >> axis & 1))
            return qg_json_fail(ctx, QG_EDATA, p, "is no permutation of 0 to %zu",
                                p->count - 1);
        seen |= 1u << axis;
        a->axis[i] = (int32_t)axis;
    }
    a->n_axis = (int32_t)p->count;
    return QG_OK;
}

/* Type and shape of a raw file. */
static qg_status read_raw(qg_ctx *ctx, const qg_json *j, qg_trace_array *a)
{
    const char *type;
    const qg_json *shape;
    int64_t dim[QG_MAX_RANK];
    QG_TRY(qg_json_text(ctx, j, "type", &type));
    QG_TRY(qg_json_member(ctx, j, "shape", QG_JSON_ARRAY, &shape));
    qg_dtype d = qg_dtype_named(type);
    if (d == QG_NODTYPE)
        return qg_json_fail(ctx, QG_EDATA, j,
                            "type is '%.40s', expected int8, uint8, "
                            "int16, int32, float32, ...",
                            type);
    if (shape->count < 1 || shape->count > QG_MAX_RANK)
        return qg_json_fail(ctx, QG_EDATA, shape, "has %zu dims, expected 1 to %d",
                            shape->count, QG_MAX_RANK);
    for (size_t i = 0; i < shape->count; i++) {
        QG_TRY(qg_json_as_int(ctx, &shape->item[i], &dim[i]));
        const int64_t least = i == 0; /* samples */
        if (dim[i] < least)
            return qg_json_fail(ctx, QG_EDATA, shape,
                                "has a dim of %lld, expected at least %lld",
                                (long long)dim[i], (long long)least);
    }
    qg_tensor_init(&a->type, d, (int32_t)shape->count, dim);
    return QG_OK;
}

/* An optional text; null counts as absent. */
static qg_status optional(qg_ctx *ctx, const qg_json *j, const char *key,
                          const char **out)
{
    const qg_json *v = qg_json_get(j, key);
    return v && v->type != QG_JSON_NULL ? qg_json_text(ctx, j, key, out) : QG_OK;
}

static qg_status read_array(qg_ctx *ctx, const qg_json *j, qg_trace_array *a)
{
    static const char *const known[] = { "value",       "file",  "endpoint",
                                         "type",        "shape", "layout",
                                         "permutation", "grid",  NULL };
    const char *layout = NULL;
    if (j->type != QG_JSON_OBJECT)
        return qg_json_fail(ctx, QG_EDATA, j, "is no object, expected one");
    QG_TRY(refuse_misspelled(ctx, j, known));
    QG_TRY(qg_json_text(ctx, j, "value", &a->value));
    QG_TRY(qg_json_text(ctx, j, "file", &a->file));
    QG_TRY(optional(ctx, j, "endpoint", &a->endpoint));
    QG_TRY(optional(ctx, j, "layout", &layout));
    a->layout = layout != NULL;
    a->channels_last = layout && strcmp(layout, "nhwc") == 0;
    if (layout && !a->channels_last && strcmp(layout, "model") != 0 &&
        strcmp(layout, "nchw") != 0)
        return qg_json_fail(ctx, QG_EDATA, j,
                            "layout is '%.40s', expected model, nchw or nhwc", layout);
    QG_TRY(read_axes(ctx, j, a));
    QG_TRY(read_grid(ctx, j, a));
    a->raw = qg_path_ends_in(a->file, ".bin");
    return a->raw ? read_raw(ctx, j, a) : QG_OK;
}

/* The description of all arrays.  Texts are borrowed from the JSON, which is in
 * t->arena. */
static qg_status read_json(qg_ctx *ctx, qg_trace *t, const qg_json *root)
{
    static const char *const known[] = { "format", "version", "producer", "arrays",
                                         NULL };
    const char *format;
    const qg_json *list;
    int64_t version;
    if (root->type != QG_JSON_OBJECT)
        return qg_json_fail(ctx, QG_EDATA, root, "is no object, expected one");
    QG_TRY(refuse_misspelled(ctx, root, known));
    QG_TRY(qg_json_text(ctx, root, "format", &format));
    QG_TRY(qg_json_int(ctx, root, "version", &version));
    if (strcmp(format, QG_TRACE_FORMAT) != 0 || version != QG_TRACE_VERSION)
        return qg_json_fail(
            ctx, QG_EDATA, root, "format '%.40s' version %lld, expected %s version %d",
            format, (long long)version, QG_TRACE_FORMAT, QG_TRACE_VERSION);
    QG_TRY(optional(ctx, root, "producer", &t->producer));
    QG_TRY(qg_json_member(ctx, root, "arrays", QG_JSON_ARRAY, &list));
    t->array = QG_NEWN(t->arena, list->count, qg_trace_array);
    if (!t->array)
        return qg_nomem(ctx);
    for (; t->n < list->count; t->n++)
        QG_TRY(read_array(ctx, &list->item[t->n], &t->array[t->n]));
    return QG_OK;
}

/* --- archive and folder --- */

/* Members of an archive are read from its file; trace.json from a mapping. */
static qg_status json_of_archive(qg_ctx *ctx, qg_trace *t, const qg_json **out)
{
    qg_file f;
    qg_npz z;
    const unsigned char *bytes = NULL;
    const qg_npz_member *m;
    QG_TRY(qg_file_open(ctx, "read", t->path, SIZE_MAX, &f));
    qg_status s = qg_npz_open_bytes(ctx, t->arena, t->path, f.bytes, f.size, &z);
    m = s == QG_OK ? qg_npz_find(&z, QG_TRACE_JSON) : NULL;
    if (m && m->size > JSON_LIMIT)
        s = qg_fail(ctx, QG_EDATA,
                    "read %.200s: %s has %llu bytes, expected at most %d", t->path,
                    QG_TRACE_JSON, (unsigned long long)m->size, JSON_LIMIT);
    if (m && s == QG_OK)
        s = qg_npz_file(ctx, t->arena, &z, m, &bytes);
    qg_json_source from = { QG_TRACE_JSON, (const char *)bytes, m ? m->size : 0 };
    if (m && s == QG_OK)
        s = qg_json_parse(ctx, t->arena, &from, out);
    qg_file_close(&f);
    return s;
}

static qg_status without_json(qg_ctx *ctx, const qg_trace *t, const char *file)
{
    return qg_fail(ctx, QG_EDATA,
                   "read %.200s: %.100s without %s, expected %s beside raw files "
                   "(docs/trace.md), or .npy files alone",
                   t->path, file, QG_TRACE_JSON, QG_TRACE_JSON);
}

/* Without trace.json: every member is an array. */
static qg_status name_members(qg_ctx *ctx, qg_trace *t)
{
    t->array = QG_NEWN(t->arena, t->npz.count, qg_trace_array);
    if (!t->array)
        return qg_nomem(ctx);
    for (; t->n < t->npz.count; t->n++) {
        const char *name = t->npz.member[t->n].name;
        if (qg_path_ends_in(name, ".bin"))
            return without_json(ctx, t, name);
        t->array[t->n].value = t->array[t->n].file = name;
    }
    return QG_OK;
}

static qg_status open_archive(qg_ctx *ctx, qg_trace *t)
{
    const qg_json *root = NULL;
    t->archive = true;
    QG_TRY(json_of_archive(ctx, t, &root));
    QG_TRY(qg_npz_open(ctx, t->arena, t->path, &t->npz));
    return root ? read_json(ctx, t, root) : name_members(ctx, t);
}

/* Without trace.json: every .npy of the folder is an array; other files are ignored. */
static qg_status name_files(qg_ctx *ctx, qg_trace *t)
{
    const char **name;
    size_t n;
    QG_TRY(qg_directory_list(ctx, t->arena, t->path, &name, &n));
    t->array = QG_NEWN(t->arena, n, qg_trace_array);
    if (!t->array)
        return qg_nomem(ctx);
    for (size_t i = 0; i < n; i++) {
        qg_trace_array *a = &t->array[t->n];
        if (qg_path_ends_in(name[i], ".bin"))
            return without_json(ctx, t, name[i]);
        if (!qg_path_ends_in(name[i], ".npy"))
            continue;
        a->file = name[i];
        a->value = qg_arena_strndup(t->arena, name[i], strlen(name[i]) - 4);
        if (!a->value)
            return qg_nomem(ctx);
        t->n++;
    }
    return QG_OK;
}

static qg_status open_folder(qg_ctx *ctx, qg_trace *t)
{
    const qg_json *root;
    const char *path = qg_path_join(t->arena, t->path, QG_TRACE_JSON);
    if (!path)
        return qg_nomem(ctx);
    if (access(path, F_OK) != 0)
        return name_files(ctx, t);
    QG_TRY(qg_json_read(ctx, t->arena, path, JSON_LIMIT, &root));
    return read_json(ctx, t, root);
}

/* Headers of all arrays; names are unique.  Files are closed again: a trace can have
 * more arrays than a process may have open files. */
static qg_status check(qg_ctx *ctx, qg_trace *t)
{
    qg_names *names = qg_names_new(ctx->alloc);
    qg_status s = names ? QG_OK : qg_nomem(ctx);
    for (size_t i = 0; i < t->n && s == QG_OK; i++) {
        qg_trace_array *a = &t->array[i];
        qg_trace_data d = { .npy.fd = -1, .arena = qg_arena_new(ctx->alloc) };
        uint32_t id;
        if (qg_names_find(names, a->value, strlen(a->value)) != QG_NONE)
            s = bad(ctx, t, a, "is there twice, expected %s", "one array of this name");
        else if (!d.arena || qg_names_add(names, a->value, strlen(a->value), &id))
            s = qg_nomem(ctx);
        if (s == QG_OK)
            s = open_array(ctx, t, a, d.arena, &d.npy);
        if (s == QG_OK) {
            a->type = d.npy.head.type;
            s = measure(ctx, t, a);
        }
        if (s == QG_OK && t->archive)
            s = qg_npz_check(ctx, &t->npz, member_of(t, a));
        qg_trace_unload(&d);
        t->samples = i == 0 || a->samples < t->samples ? a->samples : t->samples;
    }
    qg_names_free(names);
    return s;
}

static qg_status one_array(qg_ctx *ctx, const char *path)
{
    return qg_fail(ctx, QG_EDATA,
                   "read %.200s: one array without a name, expected a trace: a .npz "
                   "file or a folder of .npy files (docs/trace.md)",
                   path);
}

qg_status qg_trace_open(qg_ctx *ctx, const char *path, qg_trace **out)
{
    qg_arena *arena = qg_arena_new(ctx->alloc);
    qg_trace *t = arena ? QG_NEW(arena, qg_trace) : NULL;
    if (!t) {
        qg_arena_free(arena);
        return qg_nomem(ctx);
    }
    *t = (qg_trace){ .arena = arena,
                     .path = qg_arena_strdup(arena, path),
                     .producer = "",
                     .npz.fd = -1 };
    qg_status s = !t->path                ? qg_nomem(ctx)
                  : qg_is_directory(path) ? open_folder(ctx, t)
                                          : open_archive(ctx, t);
    if ((s == QG_EDATA || s == QG_EPARSE) && qg_path_ends_in(path, ".npy"))
        s = one_array(ctx, path);
    if (s == QG_OK && t->n == 0)
        s = qg_fail(ctx, QG_EDATA,
                    "read %.200s: no array, expected a trace: .npy files, or %s with a "
                    "list of files (docs/trace.md)",
                    path, QG_TRACE_JSON);
    if (s == QG_OK)
        s = check(ctx, t);
    if (s == QG_OK)
        *out = t;
    else
        qg_trace_close(t);
    return s;
}

qg_status qg_trace_lacks_results(qg_ctx *ctx, const qg_trace *t)
{
    return qg_fail(ctx, QG_EDATA,
                   "read %.200s: all arrays are inputs of the network, expected values "
                   "that the device computed (docs/trace.md)",
                   t->path);
}

qg_status qg_trace_expect(qg_ctx *ctx, const qg_trace *t, size_t samples)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->array[i].samples < samples)
            return bad(ctx, t, &t->array[i],
                       "has %zu samples, expected %zu as in the data (or fewer with "
                       "--samples)",
                       t->array[i].samples, samples);
    return QG_OK;
}

void qg_trace_close(qg_trace *t)
{
    if (!t)
        return;
    qg_npz_close(&t->npz);
    qg_arena_free(t->arena);
}

#include "engine/data/part.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/core/file.h"

static const qg_data_kind *const kinds[] = { &qg_data_npy, &qg_data_npz, &qg_data_pb,
                                             &qg_data_image };

enum { NKIND = sizeof kinds / sizeof kinds[0] };

/* ---- Samples of an array ---- */

static qg_status shape_differs(qg_ctx *ctx, const qg_data_part *part, const qg_value *v,
                               const qg_tensor *array)
{
    char have[QG_SHAPE_TEXT], want[QG_SHAPE_TEXT];
    return qg_fail(ctx, QG_EDATA,
                   "data: %.200s: the array for input '%.100s' is %s, expected %s, or "
                   "with samples along a first axis",
                   part->path, v->name, qg_tensor_text(array, have),
                   qg_tensor_text(&v->type, want));
}

/* Whether dims [skip..] of the array fit dims [skip_input..] of the input. */
static bool dims_fit(const qg_tensor *array, const qg_tensor *input, int skip,
                     int skip_input)
{
    if (array->rank - skip != input->rank - skip_input)
        return false;
    for (int i = 0; i < array->rank - skip; i++) {
        int64_t want = input->dim[i + skip_input];
        if (want >= 0 && want != array->dim[i + skip])
            return false;
    }
    return true;
}

/* The rule of data.h.  False: the array fits in neither way. */
static bool split(const qg_tensor *array, const qg_tensor *input, qg_data_slot *slot,
                  int64_t *count)
{
    bool one_more = array->rank == input->rank + 1;
    bool batch = array->rank == input->rank && array->rank > 0 && array->dim[0] != 1 &&
                 (input->dim[0] == 1 || input->dim[0] < 0);
    int64_t dim[QG_MAX_RANK] = { 1 };
    slot->stacked = one_more || batch;
    *count = slot->stacked ? array->dim[0] : 1;
    for (int i = one_more || batch, to = batch; i < array->rank; i++)
        dim[to++] = array->dim[i];
    qg_tensor_init(&slot->sample, array->dtype, array->rank - one_more, dim);
    return dims_fit(array, input, slot->stacked, batch);
}

qg_status qg_data_split(qg_ctx *ctx, qg_data *d, qg_data_part *part, size_t k,
                        const qg_tensor *array)
{
    const qg_value *v = d->request.input[k];
    int64_t count;
    if (!split(array, &v->type, &part->slot[k], &count))
        return shape_differs(ctx, part, v, array);
    if (!qg_data_convertible(array->dtype, v->type.dtype))
        return qg_fail(ctx, QG_EDATA,
                       "data: %.200s: the array for input '%.100s' is %s, expected %s",
                       part->path, v->name, qg_dtype_name(array->dtype),
                       qg_dtype_name(v->type.dtype));
    if (k > 0 && part->count != (size_t)count)
        return qg_fail(ctx, QG_EDATA,
                       "data: %.200s: %lld samples for input '%.100s', expected %zu as "
                       "for '%.100s'",
                       part->path, (long long)count, v->name, part->count,
                       d->request.input[0]->name);
    part->count = (size_t)count;
    return QG_OK;
}

/* ---- Parts ---- */

/* Suffixes are lower case; names may be written in upper case. */
static bool has_suffix(const char *name, const char *const *suffix)
{
    size_t n = strlen(name);
    for (; *suffix; suffix++) {
        size_t s = strlen(*suffix), i = 0;
        while (i < s && n >= s &&
               ((name[n - s + i] | 0x20) == (*suffix)[i] ||
                name[n - s + i] == (*suffix)[i]))
            i++;
        if (i == s)
            return true;
    }
    return false;
}

static const qg_data_kind *kind_of(const char *path)
{
    for (size_t i = 0; i < NKIND; i++)
        if (has_suffix(path, kinds[i]->suffix))
            return kinds[i];
    return NULL;
}

/* Looks at the file and adds its samples behind those there are.  After a failure the
 * file is closed. */
static qg_status add_part(qg_ctx *ctx, qg_data *d, const qg_data_kind *kind,
                          const char *path, bool kept)
{
    qg_data_part part = { .kind = kind,
                          .path = qg_arena_strdup(d->arena, path),
                          .first = d->count,
                          .kept = kept };
    part.slot = QG_NEWN(d->arena, d->request.n_input, qg_data_slot);
    if (!part.path || !part.slot)
        return qg_nomem(ctx);
    QG_TRY(qg_vec_reserve(ctx, d->arena, &d->part)); /* so that nothing fails below */
    qg_status s = kind->look(ctx, d, &part);
    if (s == QG_OK && part.count == 0)
        s = qg_fail(ctx, QG_EDATA, "data: %.200s: holds no samples", path);
    if (s != QG_OK) {
        if (kept && kind->close)
            kind->close(&part);
        return s;
    }
    d->part.at[d->part.n++] = part;
    if (__builtin_add_overflow(d->count, part.count, &d->count))
        return qg_fail(ctx, QG_EDATA, "data: %.200s: too many samples", path);
    return QG_OK;
}

/* Files in name order; folders below and hidden files are left alone. */
static qg_status add_folder(qg_ctx *ctx, qg_data *d, const char *path)
{
    const char **names;
    size_t n;
    QG_TRY(qg_directory_list(ctx, d->arena, path, &names, &n));
    for (size_t i = 0; i < n; i++) {
        const char *file = qg_path_join(d->arena, path, names[i]);
        if (!file)
            return qg_nomem(ctx);
        const qg_data_kind *kind = kind_of(names[i]);
        if (kind && names[i][0] != '.' && !qg_is_directory(file))
            QG_TRY(add_part(ctx, d, kind, file, false));
    }
    return QG_OK;
}

qg_status qg_data_add(qg_ctx *ctx, qg_data *d, const char *path)
{
    if (qg_is_directory(path))
        return add_folder(ctx, d, path);
    const qg_data_kind *kind = kind_of(path);
    if (!kind && access(path, F_OK) != 0)
        return qg_fail(ctx, QG_EIO, "data: %.200s: %s", path, strerror(errno));
    if (!kind)
        return qg_fail(ctx, QG_ECONFIG,
                       "data: %.200s: expected .npy, .npz, .pb, an image, a folder of "
                       "these, .yaml or random:N",
                       path);
    return add_part(ctx, d, kind, path, true);
}

/* ---- Opening ---- */

static qg_status check_request(qg_ctx *ctx, const qg_data_request *r)
{
    for (size_t k = 0; k < r->n_input; k++) {
        const qg_value *v = r->input[k];
        if (v->type.rank < 0 || v->type.dtype == QG_NODTYPE)
            return qg_fail(ctx, QG_EDATA, "data: input '%.100s' has no known %s",
                           v->name, v->type.rank < 0 ? "rank" : "type");
    }
    return r->n_input ? QG_OK : qg_fail(ctx, QG_EDATA, "data: the model has no inputs");
}

static qg_status add_random(qg_ctx *ctx, qg_data *d, const char *spec)
{
    return add_part(ctx, d, &qg_data_random, spec, false);
}

static qg_status fill(qg_ctx *ctx, qg_data *d, const char *spec)
{
    static const char *const yaml[] = { ".yaml", ".yml", NULL };
    QG_TRY(check_request(ctx, &d->request));
    QG_TRY(strncmp(spec, "random:", 7) == 0 ? add_random(ctx, d, spec)
           : has_suffix(spec, yaml)         ? qg_data_yaml(ctx, d, spec)
                                            : qg_data_add(ctx, d, spec));
    if (d->count == 0)
        return qg_fail(ctx, QG_EDATA,
                       "data: %.200s: holds no .npy, .npz, .pb or image file", spec);
    if (d->request.limit && d->request.limit < d->count)
        d->count = d->request.limit;
    return QG_OK;
}

qg_status qg_data_open(qg_ctx *ctx, const char *spec, const qg_data_request *request,
                       qg_data **out)
{
    qg_arena *a = qg_arena_new(ctx->alloc);
    qg_data *d = a ? QG_NEW(a, qg_data) : NULL;
    if (!d) {
        qg_arena_free(a);
        return qg_nomem(ctx);
    }
    d->arena = a;
    d->request = *request;
    qg_status s = fill(ctx, d, spec);
    if (s == QG_OK)
        *out = d;
    else
        qg_data_close(d);
    return s;
}

void qg_data_close(qg_data *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->part.n; i++) {
        qg_data_part *p = &d->part.at[i];
        if (p->kept && p->kind->close)
            p->kind->close(p);
    }
    qg_arena_free(d->arena);
}

size_t qg_data_count(const qg_data *d) { return d->count; }

/* ---- Fetching ---- */

/* The part that holds sample i, by bisection. */
static const qg_data_part *part_of(const qg_data *d, size_t i)
{
    size_t low = 0, high = d->part.n;
    assert(i < d->count);
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (d->part.at[middle].first <= i)
            low = middle;
        else
            high = middle;
    }
    assert(i >= d->part.at[low].first &&
           i - d->part.at[low].first < d->part.at[low].count);
    return &d->part.at[low];
}

void qg_data_shape(const qg_data *d, size_t i, size_t k, qg_tensor *out)
{
    const qg_data_slot *slot = &part_of(d, i)->slot[k];
    qg_tensor_init(out, d->request.input[k]->type.dtype, slot->sample.rank,
                   slot->sample.dim);
}

bool qg_data_common_shape(const qg_data *d, size_t k, qg_tensor *out)
{
    assert(d->part.n > 0 && k < d->request.n_input);
    qg_data_shape(d, 0, k, out);
    for (size_t i = 1; i < d->part.n; i++)
        if (d->part.at[i].first < d->count &&
            !qg_same_dims(&d->part.at[i].slot[k].sample, out))
            return false;
    return true;
}

/* Names file, sample, input and value; samples are counted through the source. */
static qg_status element_fails(const qg_data_get *g, const qg_tensor *from,
                               const qg_tensor *to, int64_t at)
{
    char path[256], name[128];
    (void)snprintf(path, sizeof path, "%.255s", g->part->path);
    (void)snprintf(name, sizeof name, "%.127s", g->d->request.input[g->k]->name);
    bool is_float = qg_dtype_kind_of(from->dtype) == QG_KIND_FLOAT;
    double x = is_float ? qg_tensor_f64(from, at) : (double)qg_tensor_i64(from, at);
    if (x != x)
        return qg_fail(g->ctx, QG_EDATA, "data: %s: sample %zu of input '%s' holds NaN",
                       path, g->part->first + g->i, name);
    return qg_fail(g->ctx, QG_EDATA,
                   "data: %s: sample %zu of input '%s' holds %.17g, which is no %s; "
                   "expected data of that type",
                   path, g->part->first + g->i, name, x, qg_dtype_name(to->dtype));
}

static unsigned allowed(const qg_data_request *r)
{
    return (r->lossy ? QG_DATA_LOSSY : 0u) | (r->nan ? QG_DATA_NAN : 0u);
}

qg_status qg_data_fetch(qg_ctx *ctx, const qg_data *d, size_t i, qg_arena *scratch,
                        qg_tensor *const *out)
{
    const qg_data_part *part = part_of(d, i);
    for (size_t k = 0; k < d->request.n_input; k++) {
        qg_data_get g = { ctx, d, part, i - part->first, k, scratch };
        qg_tensor stored = part->slot[k].sample;
        int64_t bad;
        assert(qg_same_dims(&stored, out[k]) && qg_tensor_is_plain(out[k]));
        assert(out[k]->dtype == d->request.input[k]->type.dtype);
        QG_TRY(part->kind->get(&g, &stored));
        if (!qg_data_convert(&stored, out[k], allowed(&d->request), &bad))
            return element_fails(&g, &stored, out[k], bad);
    }
    return QG_OK;
}

void qg_data_how(const qg_data *d, char text[QG_DATA_HOW_TEXT])
{
    const qg_image_options *o = &d->image;
    int n =
        snprintf(text, QG_DATA_HOW_TEXT, "layout %d colors %d size %d %d lossy %d",
                 (int)o->layout, (int)o->colors, o->height, o->width, d->request.lossy);
    assert(n > 0 && n < QG_DATA_HOW_TEXT / 2);
    for (int c = 0; c < 3; c++) { /* as bits: the same in every locale */
        uint32_t mean, std;
        memcpy(&mean, &o->mean[c], sizeof mean);
        memcpy(&std, &o->std[c], sizeof std);
        n += snprintf(text + n, QG_DATA_HOW_TEXT - (size_t)n, " %08x %08x",
                      (unsigned)mean, (unsigned)std);
    }
}

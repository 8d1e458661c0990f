#include "engine/data/part.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/core/file.h"

/* ---- Opening ---- */

static qg_status check_request(qg_ctx *ctx, const qg_data_request *r)
{
    for (size_t k = 0; k < r->n_input; k++) {
        const qg_value *v = r->input[k];
        if (v->type.rank < 0 || v->type.dtype == QG_NODTYPE)
            return qg_fail(ctx, QG_EDATA, "data: input '%.1000s' has no known %s",
                           v->name, v->type.rank < 0 ? "rank" : "type");
    }
    return r->n_input ? QG_OK : qg_fail(ctx, QG_EDATA, "data: the model has no inputs");
}

static qg_status fill(qg_ctx *ctx, qg_data *d, const char *spec)
{
    static const char *const yaml[] = { ".yaml", ".yml", NULL };
    QG_TRY(check_request(ctx, &d->request));
    QG_TRY(d->request.array ? qg_data_add_part(ctx, d, &qg_data_array, spec, false)
           : strncmp(spec, "random:", 7) == 0
               ? qg_data_add_part(ctx, d, &qg_data_random, spec, false)
           : qg_data_has_suffix(spec, yaml) ? qg_data_yaml(ctx, d, spec)
                                            : qg_data_add(ctx, d, spec));
    if (d->count == 0)
        return qg_fail(ctx, QG_EDATA,
                       "data: %.200s: contains no .npy, .npz, .pb or image file", spec);
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

/* Each path is examined once: there may be many parts. */
qg_status qg_data_find_file(qg_ctx *ctx, const qg_data *d, const char *const *path,
                            size_t n, const char **out)
{
    struct stat part, *known = QG_NEWN(d->arena, n, struct stat);
    const char **there = QG_NEWN(d->arena, n, const char *);
    size_t found = 0;
    *out = NULL;
    if (!known || !there)
        return qg_nomem(ctx);
    for (size_t i = 0; i < n; i++)
        if (stat(path[i], &known[found]) == 0)
            there[found++] = path[i];
    for (size_t p = 0; found && p < d->part.n; p++) {
        if (stat(d->part.at[p].path, &part) != 0)
            continue;
        for (size_t i = 0; i < found && !*out; i++)
            if (part.st_dev == known[i].st_dev && part.st_ino == known[i].st_ino)
                *out = there[i];
    }
    return QG_OK;
}

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
static qg_status element_fails(const qg_data_get *g, const qg_tensor *from, qg_dtype to,
                               int64_t at)
{
    char path[256], name[1001];
    (void)snprintf(path, sizeof path, "%.255s", g->part->path);
    (void)snprintf(name, sizeof name, "%.1000s", g->d->request.input[g->k]->name);
    bool is_float = qg_dtype_kind_of(from->dtype) == QG_KIND_FLOAT;
    double x = is_float ? qg_tensor_f64(from, at) : (double)qg_tensor_i64(from, at);
    if (x != x)
        return qg_fail(
            g->ctx, QG_EDATA,
            "data: %s: sample %zu of input '%s' contains NaN, expected numbers", path,
            g->part->first + g->i, name);
    return qg_fail(g->ctx, QG_EDATA,
                   "data: %s: sample %zu of input '%s' contains %.17g, which %s cannot "
                   "represent, expected data of that type",
                   path, g->part->first + g->i, name, x, qg_dtype_name(to));
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
            return element_fails(&g, &stored, out[k]->dtype, bad);
        const qg_dtype file = d->request.input[k]->file_dtype;
        if ((bad = qg_data_find_beyond(out[k], file)) >= 0)
            return element_fails(&g, out[k], file, bad);
    }
    return QG_OK;
}

void qg_data_how(const qg_data *d, char text[QG_DATA_HOW_TEXT])
{
    static const qg_image_options preset;
    const qg_image_options *o = d ? &d->image : &preset;
    int n = snprintf(text, QG_DATA_HOW_TEXT, "layout %d colors %d size %d %d lossy %d",
                     (int)o->layout, (int)o->colors, o->height, o->width,
                     d && d->request.lossy);
    assert(n > 0 && n < QG_DATA_HOW_TEXT / 2);
    for (int c = 0; c < 3; c++) { /* as bits: the same in every locale */
        uint32_t mean, std;
        memcpy(&mean, &o->mean[c], sizeof mean);
        memcpy(&std, &o->std[c], sizeof std);
        n += snprintf(text + n, QG_DATA_HOW_TEXT - (size_t)n, " %08x %08x",
                      (unsigned)mean, (unsigned)std);
    }
}

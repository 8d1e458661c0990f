#include "engine/calib/stats.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

qg_status qg_stats_new(qg_ctx *ctx, qg_stats **out)
{
    qg_arena *a = qg_arena_new(ctx->alloc);
    qg_stats *s = a ? QG_NEW(a, qg_stats) : NULL;
    qg_names *names = s ? qg_names_new(ctx->alloc) : NULL;
    if (!names) {
        qg_arena_free(a);
        return qg_nomem(ctx);
    }
    *s = (qg_stats){
        .ctx = ctx, .arena = a, .names = names, .manifest = {"", "", "", "", "", ""}
    };
    *out = s;
    return QG_OK;
}

void qg_stats_free(qg_stats *s)
{
    if (!s)
        return;
    qg_names_free(s->names);
    qg_arena_free(s->arena);
}

int32_t qg_stats_axis_of(const qg_tensor *type)
{
    bool fits =
        type->rank >= 2 && type->dim[1] >= 1 && type->dim[1] <= QG_STATS_MOST_CHANNELS;
    return fits ? 1 : -1;
}

/* Extremes of nothing. */
static qg_status begin_value(qg_ctx *ctx, qg_arena *a, qg_stats_value *v)
{
    for (size_t c = 0; c < v->channels; c++) {
        v->channel[c].low = INFINITY;
        v->channel[c].high = -INFINITY;
        if (v->holds & QG_STATS_BY_CHANNEL)
            QG_TRY(qg_dyadic_new(ctx, a, QG_STATS_CHANNEL_BINS, &v->channel[c].bins));
    }
    for (size_t k = 0; k < QG_STATS_PARTS; k++) {
        v->part[k].low = INFINITY;
        v->part[k].high = -INFINITY;
        if (v->holds & QG_STATS_HISTOGRAM)
            QG_TRY(qg_dyadic_new(ctx, a, QG_STATS_PART_BINS, &v->part[k].bins));
    }
    if (v->holds & QG_STATS_HISTOGRAM)
        QG_TRY(qg_dyadic_new(ctx, a, QG_STATS_BINS, &v->bins));
    return QG_OK;
}

qg_status qg_stats_value_init(qg_ctx *ctx, qg_arena *a, const qg_tensor *type,
                              qg_stats_value *v)
{
    assert(v->axis < 0 || (v->axis < type->rank && type->dim[v->axis] >= 1));
    size_t channels = v->axis < 0 ? 1 : (size_t)type->dim[v->axis];
    v->channels = (uint32_t)channels;
    v->channel = QG_NEWN(a, channels, qg_stats_channel);
    v->part = QG_NEWN(a, QG_STATS_PARTS, qg_stats_part);
    if (!v->channel || !v->part || channels > UINT32_MAX)
        return qg_nomem(ctx);
    return begin_value(ctx, a, v);
}

uint64_t qg_stats_value_bytes(uint64_t channels, unsigned holds)
{
    const uint64_t bin = sizeof(uint64_t);
    uint64_t each = sizeof(qg_stats_channel);
    if (holds & QG_STATS_BY_CHANNEL)
        each += QG_STATS_CHANNEL_BINS * bin;
    uint64_t bins = QG_STATS_BINS + (uint64_t)QG_STATS_PARTS * QG_STATS_PART_BINS;
    return sizeof(qg_stats_value) + QG_STATS_PARTS * sizeof(qg_stats_part) +
           channels * each + (holds & QG_STATS_HISTOGRAM ? bins * bin : 0);
}

qg_status qg_stats_add_value(qg_stats *s, const char *name, const qg_tensor *type,
                             int32_t axis, unsigned holds, qg_stats_value **out)
{
    uint32_t id;
    if (qg_stats_find(s, name))
        return qg_fail(s->ctx, QG_EDATA,
                       "statistics: '%.1000s' is listed twice, expected once", name);
    qg_stats_value *v = QG_NEW(s->arena, qg_stats_value);
    const char *copy = qg_arena_strdup(s->arena, name);
    if (!v || !copy)
        return qg_nomem(s->ctx);
    *v = (qg_stats_value){ .name = copy, .axis = axis, .holds = holds };
    QG_TRY(qg_stats_value_init(s->ctx, s->arena, type, v));
    QG_TRY(qg_vec_reserve(s->ctx, s->arena, &s->value));
    if (qg_names_add(s->names, name, strlen(name), &id) != QG_OK)
        return qg_nomem(s->ctx);
    assert(id == s->value.n);
    s->value.at[s->value.n++] = v;
    *out = v;
    return QG_OK;
}

qg_stats_value *qg_stats_find(const qg_stats *s, const char *name)
{
    uint32_t id = qg_names_find(s->names, name, strlen(name));
    return id == QG_NONE ? NULL : s->value.at[id];
}

/* --- samples --- */

/* The position before which [first, end) belongs; QG_EDATA when it overlaps. */
static qg_status place_of(const qg_stats *s, uint64_t first, uint64_t end, size_t *at)
{
    size_t i = 0;
    assert(first <= end);
    while (i < s->seen.n && s->seen.at[i].end <= first)
        i++;
    if (i < s->seen.n && s->seen.at[i].first < end) {
        uint64_t other = s->seen.at[i].first;
        return qg_fail(
            s->ctx, QG_EDATA,
            "statistics: sample %llu was already counted, expected each sample once",
            (unsigned long long)(other > first ? other : first));
    }
    *at = i;
    return QG_OK;
}

qg_status qg_stats_mark(qg_stats *s, uint64_t first, uint64_t end)
{
    size_t i;
    assert(first <= end);
    if (first == end)
        return QG_OK;
    QG_TRY(place_of(s, first, end, &i));
    qg_stats_range *r = s->seen.at;
    bool left = i > 0 && r[i - 1].end == first,
         right = i < s->seen.n && r[i].first == end;
    if (left && right) {
        r[i - 1].end = r[i].end;
        memmove(r + i, r + i + 1, (s->seen.n - i - 1) * sizeof *r);
        s->seen.n--;
    } else if (left) {
        r[i - 1].end = end;
    } else if (right) {
        r[i].first = first;
    } else {
        QG_TRY(qg_vec_reserve(s->ctx, s->arena, &s->seen));
        r = s->seen.at;
        memmove(r + i + 1, r + i, (s->seen.n - i) * sizeof *r);
        r[i] = (qg_stats_range){ first, end };
        s->seen.n++;
    }
    return QG_OK;
}

/* Of the indices below `end`, those whose part is one of the first. */
static uint64_t below(uint64_t end, unsigned parts)
{
    uint64_t rest = end % QG_STATS_PARTS;
    return end / QG_STATS_PARTS * parts + (rest < parts ? rest : parts);
}

uint64_t qg_stats_samples_in(const qg_stats *s, unsigned parts)
{
    uint64_t n = 0;
    assert(parts <= QG_STATS_PARTS);
    for (size_t i = 0; i < s->seen.n; i++)
        n += below(s->seen.at[i].end, parts) - below(s->seen.at[i].first, parts);
    return n;
}

uint64_t qg_stats_samples(const qg_stats *s)
{
    return qg_stats_samples_in(s, QG_STATS_PARTS);
}

bool qg_stats_overlap(const qg_stats *a, const qg_stats *b)
{
    for (size_t i = 0; i < a->seen.n; i++)
        for (size_t k = 0; k < b->seen.n; k++)
            if (a->seen.at[i].first < b->seen.at[k].end &&
                b->seen.at[k].first < a->seen.at[i].end)
                return true;
    return false;
}

/* --- merging --- */

/* Adding 0 turns -0 into +0: the result must not depend on the order of workers. */
void qg_stats_widen(float *low, float *high, float l, float h)
{
    *low = (l < *low ? l : *low) + 0.0f;
    *high = (h > *high ? h : *high) + 0.0f;
}

static void merge_channel(qg_stats_channel *a, const qg_stats_channel *b)
{
    qg_stats_widen(&a->low, &a->high, b->low, b->high);
    a->count += b->count;
    a->zeros += b->zeros;
    a->nans += b->nans;
    a->infinities += b->infinities;
    a->above += b->above;
    qg_wide_merge(&a->sum, &b->sum);
    qg_wide_merge(&a->square, &b->square);
}

static void merge_value(qg_stats_value *a, const qg_stats_value *b)
{
    assert(a->axis == b->axis && a->channels == b->channels && a->holds == b->holds);
    for (size_t c = 0; c < a->channels; c++) {
        merge_channel(&a->channel[c], &b->channel[c]);
        if (a->holds & QG_STATS_BY_CHANNEL)
            qg_dyadic_merge(&a->channel[c].bins, &b->channel[c].bins);
    }
    for (size_t k = 0; k < QG_STATS_PARTS; k++) {
        qg_stats_widen(&a->part[k].low, &a->part[k].high, b->part[k].low,
                       b->part[k].high);
        a->part[k].count += b->part[k].count;
        a->part[k].zeros += b->part[k].zeros;
        if (a->holds & QG_STATS_HISTOGRAM)
            qg_dyadic_merge(&a->part[k].bins, &b->part[k].bins);
    }
    if (a->holds & QG_STATS_HISTOGRAM)
        qg_dyadic_merge(&a->bins, &b->bins);
}

/* Both manifests must be equal, word by word. */
static qg_status same_manifest(qg_ctx *ctx, const qg_stats *x, const qg_stats *y,
                               const char *a, const char *b)
{
    const struct {
        const char *what, *x, *y;
    } word[] = {
        {"model",          x->manifest.model,         y->manifest.model        },
        { "graph",         x->manifest.graph,         y->manifest.graph        },
        { "preprocessing", x->manifest.preprocessing, y->manifest.preprocessing},
        { "kernels",       x->manifest.kernels,       y->manifest.kernels      },
    };
    for (size_t i = 0; i < sizeof word / sizeof word[0]; i++)
        if (strcmp(word[i].x, word[i].y) != 0)
            return qg_fail(ctx, QG_EDATA,
                           "merge statistics: '%.150s' and '%.150s': %s %.64s and "
                           "%.64s, expected the same",
                           a, b, word[i].what, word[i].x, word[i].y);
    return QG_OK;
}

static qg_status same_values(qg_ctx *ctx, const qg_stats *x, const qg_stats *y,
                             const char *a, const char *b)
{
    bool same = x->value.n == y->value.n;
    for (size_t i = 0; same && i < x->value.n; i++) {
        const qg_stats_value *v = x->value.at[i], *w = y->value.at[i];
        same = strcmp(v->name, w->name) == 0 && v->axis == w->axis &&
               v->channels == w->channels && v->holds == w->holds;
        if (!same)
            return qg_fail(ctx, QG_EDATA,
                           "merge statistics: '%.150s' and '%.150s': value '%.1000s' "
                           "differs in name, channels or contents, expected the same",
                           a, b, v->name);
    }
    return same ? QG_OK
                : qg_fail(ctx, QG_EDATA,
                          "merge statistics: '%.150s' and '%.150s': %zu and %zu "
                          "values, expected the same",
                          a, b, x->value.n, y->value.n);
}

static qg_status no_overlap(const qg_stats *x, const qg_stats *y, const char *a,
                            const char *b)
{
    size_t at;
    char text[128];
    for (size_t i = 0; i < y->seen.n; i++) {
        if (place_of(x, y->seen.at[i].first, y->seen.at[i].end, &at) == QG_OK)
            continue;
        (void)snprintf(text, sizeof text, "%s", strchr(x->ctx->message, ':') + 2);
        return qg_fail(x->ctx, QG_EDATA, "merge statistics: '%.150s' and '%.150s': %s",
                       a, b, text);
    }
    return QG_OK;
}

qg_status qg_stats_merge(qg_stats *into, const qg_stats *from, const char *a,
                         const char *b)
{
    assert(into != from);
    QG_TRY(same_manifest(into->ctx, into, from, a, b));
    QG_TRY(same_values(into->ctx, into, from, a, b));
    QG_TRY(no_overlap(into, from, a, b));
    for (size_t i = 0; i < from->seen.n; i++)
        QG_TRY(qg_stats_mark(into, from->seen.at[i].first, from->seen.at[i].end));
    qg_stats_manifest *m = &into->manifest;
    if (strcmp(m->data, from->manifest.data) != 0 ||
        strcmp(m->data_sha256, from->manifest.data_sha256) != 0)
        m->data = m->data_sha256 = "";
    for (size_t i = 0; i < into->value.n; i++)
        merge_value(into->value.at[i], from->value.at[i]);
    return QG_OK;
}

/* --- reading --- */

qg_stats_channel qg_stats_total(const qg_stats_value *v)
{
    qg_stats_channel all = { .low = INFINITY, .high = -INFINITY };
    assert(v->channels >= 1);
    for (size_t c = 0; c < v->channels; c++)
        merge_channel(&all, &v->channel[c]);
    return all;
}

double qg_stats_mean(const qg_stats_channel *c)
{
    return c->count ? qg_wide_value(&c->sum) / (double)c->count : 0;
}

double qg_stats_variance(const qg_stats_channel *c)
{
    double mean = qg_stats_mean(c);
    assert(c->zeros <= c->count);
    if (c->count == 0)
        return 0;
    return fmax(qg_wide_value(&c->square) / (double)c->count - mean * mean, 0);
}

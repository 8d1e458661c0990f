/* stats_write.c -- statistics to bytes. */
#include <assert.h>
#include <string.h>

#include "engine/core/file.h"
#include "engine/core/hash.h"
#include "engine/snapshot/stats_file.h"

/* Bytes so far.  The first failure sticks and makes everything after it a no-op. */
typedef struct sink {
    qg_ctx *ctx;
    qg_arena *arena;
    QG_VEC(unsigned char) out;
    qg_status status;
} sink;

static void put(sink *s, const void *bytes, size_t n)
{
    if (s->status == QG_OK)
        s->status = qg_vec_room(s->ctx, s->arena, &s->out, s->out.n + n);
    if (s->status != QG_OK || n == 0)
        return;
    memcpy(s->out.at + s->out.n, bytes, n);
    s->out.n += n;
}

static void put_number(sink *s, uint64_t x)
{
    unsigned char text[10];
    size_t n = 0;
    do {
        text[n++] = (unsigned char)((x & 127) | (x > 127 ? 128 : 0));
        x >>= 7;
    } while (x);
    put(s, text, n);
}

static void put_text(sink *s, const char *text)
{
    put_number(s, strlen(text));
    put(s, text, strlen(text));
}

static void put_word(sink *s, uint64_t x, size_t bytes)
{
    assert(bytes <= 8);
    unsigned char text[8];
    for (size_t i = 0; i < bytes; i++)
        text[i] = (unsigned char)(x >> 8 * i);
    put(s, text, bytes);
}

static void put_float(sink *s, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    put_word(s, bits, 4);
}

/* Sums are near 2^0 mostly, so two or three words of ten are there. */
static void put_wide(sink *s, const qg_wide *w)
{
    size_t first = 0, end = QG_WIDE_WORDS;
    uint64_t sign = (uint64_t)0 - (w->word[QG_WIDE_WORDS - 1] >> 63);
    while (first < end && w->word[first] == 0)
        first++;
    while (end > first + 1 && w->word[end - 1] == sign &&
           w->word[end - 2] >> 63 == (sign & 1))
        end--;
    assert(first <= end);
    put_number(s, first == end ? 0 : first);
    put_number(s, end - first);
    for (size_t i = first; i < end; i++)
        put_word(s, w->word[i], 8);
}

static void put_bins(sink *s, const qg_dyadic *h)
{
    uint32_t first, end;
    qg_dyadic_span(h, &first, &end);
    put_number(s, (uint64_t)(h->exponent - qg_dyadic_least(h->bins)));
    put_number(s, first == end ? 0 : first);
    put_number(s, end - first);
    for (uint32_t i = first; i < end; i++)
        put_number(s, h->count[i]);
}

static void put_channel(sink *s, const qg_stats_channel *c, unsigned holds)
{
    put_float(s, c->low);
    put_float(s, c->high);
    put_number(s, c->count);
    put_number(s, c->zeros);
    put_number(s, c->nans);
    put_number(s, c->infinities);
    if (holds & QG_STATS_MOMENTS) {
        put_wide(s, &c->sum);
        put_wide(s, &c->square);
    }
    if (holds & QG_STATS_BY_CHANNEL)
        put_bins(s, &c->bins);
}

static void put_value(sink *s, const qg_stats_value *v)
{
    assert(v->axis >= -1 && v->channels >= 1);
    put_text(s, v->name);
    put_number(s, (uint64_t)(v->axis + 1));
    put_number(s, v->channels);
    put_number(s, v->holds);
    for (size_t c = 0; c < v->channels; c++)
        put_channel(s, &v->channel[c], v->holds);
    for (size_t k = 0; k < QG_STATS_PARTS; k++) {
        put_float(s, v->part[k].low);
        put_float(s, v->part[k].high);
        put_number(s, v->part[k].count);
        put_number(s, v->part[k].zeros);
        if (v->holds & QG_STATS_HISTOGRAM)
            put_bins(s, &v->part[k].bins);
    }
    if (v->holds & QG_STATS_HISTOGRAM)
        put_bins(s, &v->bins);
}

/* In the order of the format's table in stats_file.h. */
static void put_all(sink *s, const qg_stats *x)
{
    uint64_t at = 0;
    put(s, "qgstats\n", 8);
    put_word(s, 1, 4);
    put_text(s, x->manifest.model);
    put_text(s, x->manifest.graph);
    put_text(s, x->manifest.preprocessing);
    put_text(s, x->manifest.kernels);
    put_text(s, x->manifest.data);
    put_text(s, x->manifest.data_sha256);
    put_number(s, x->seen.n);
    for (size_t i = 0; i < x->seen.n; i++) {
        put_number(s, x->seen.at[i].first - at);
        put_number(s, x->seen.at[i].end - x->seen.at[i].first);
        at = x->seen.at[i].end;
    }
    put_number(s, x->value.n);
    for (size_t i = 0; i < x->value.n; i++)
        put_value(s, x->value.at[i]);
}

qg_status qg_stats_encode(qg_ctx *ctx, const qg_stats *x, qg_arena *a,
                          unsigned char **bytes, size_t *size)
{
    sink s = { .ctx = ctx, .arena = a };
    char text[QG_HASH_TEXT];
    put_all(&s, x);
    QG_TRY(s.status);
    QG_TRY(qg_hash_bytes(ctx, s.out.at, s.out.n, text));
    put(&s, text, QG_HASH_TEXT - 1);
    QG_TRY(s.status);
    *bytes = s.out.at;
    *size = s.out.n;
    return QG_OK;
}

qg_status qg_stats_save(qg_ctx *ctx, const qg_stats *x, const char *path)
{
    unsigned char *bytes;
    size_t size;
    qg_arena *a = qg_arena_new(ctx->alloc);
    qg_status s = a ? qg_stats_encode(ctx, x, a, &bytes, &size) : qg_nomem(ctx);
    if (s == QG_OK)
        s = qg_file_write(ctx, path, bytes, size);
    qg_arena_free(a);
    return s;
}

#include "engine/snapshot/stats_file.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/core/file.h"
#include "engine/core/hash.h"

#define MAGIC "qgstats\n"

/* --- writing --- */

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
    if (c->infinities)
        put_number(s, c->above);
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

/* Other statistics have the bytes of version 1. */
static bool has_infinities(const qg_stats *x)
{
    for (size_t i = 0; i < x->value.n; i++)
        for (size_t c = 0; c < x->value.at[i]->channels; c++)
            if (x->value.at[i]->channel[c].infinities)
                return true;
    return false;
}

/* In the order of the format's table in stats_file.h. */
static void put_all(sink *s, const qg_stats *x)
{
    uint64_t at = 0;
    put(s, MAGIC, sizeof MAGIC - 1);
    put_word(s, has_infinities(x) ? 2 : 1, 4);
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
    qg_hash_bytes(s.out.at, s.out.n, text);
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

/* --- reading: bytes that anybody may have written --- */

enum {
    MOST_VALUES = 1 << 16,   /* each takes about 100 KB */
    MOST_CHANNELS = 1 << 20, /* in a value */
};

/* Where reading is.  `end` is where the hash begins. */
typedef struct source {
    qg_ctx *ctx;
    const qg_stats_source *from;
    size_t at, end;
    unsigned version;
    qg_stats *out;
} source;

static qg_status broken(const source *s, const char *what)
{
    return qg_fail(s->ctx, QG_EPARSE,
                   "statistics: %.200s: byte %zu: %s, expected a file of qg stats",
                   s->from->name, s->at, what);
}

static size_t left(const source *s) { return s->end - s->at; }

/* At most ten bytes, the tenth at most 1; a last byte of 0 would be one too many. */
static qg_status get_number(source *s, uint64_t *out)
{
    assert(s->at <= s->end);
    uint64_t x = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (left(s) == 0)
            return broken(s, "the file ends within a number");
        unsigned char byte = s->from->bytes[s->at++];
        bool fits = shift < 63 || byte <= 1;
        if (!fits || (byte == 0 && shift > 0))
            return broken(s, "a number that is too long");
        x |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *out = x;
            return QG_OK;
        }
    }
    return broken(s, "a number that is too long");
}

/* A number of at most `most`. */
static qg_status get_limited(source *s, uint64_t most, const char *what, uint64_t *out)
{
    uint64_t x;
    QG_TRY(get_number(s, &x));
    if (x > most)
        return broken(s, what);
    *out = x;
    return QG_OK;
}

static qg_status get_word(source *s, size_t bytes, uint64_t *out)
{
    assert(bytes <= 8);
    uint64_t x = 0;
    if (left(s) < bytes)
        return broken(s, "the file ends within a word");
    for (size_t i = 0; i < bytes; i++)
        x |= (uint64_t)s->from->bytes[s->at + i] << 8 * i;
    s->at += bytes;
    *out = x;
    return QG_OK;
}

/* Copied into the arena of the statistics, so that the file can be closed.  Names have
 * any length; the bytes that are present limit it. */
static qg_status get_text(source *s, const char **out)
{
    uint64_t n;
    QG_TRY(get_number(s, &n));
    if (left(s) < n)
        return broken(s, "the file ends within a text");
    const char *text = (const char *)s->from->bytes + s->at;
    if (memchr(text, 0, (size_t)n))
        return broken(s, "a zero byte in a text");
    *out = qg_arena_strndup(s->out->arena, text, (size_t)n);
    s->at += (size_t)n;
    return *out ? QG_OK : qg_nomem(s->ctx);
}

/* Both finite and in order, or nothing when there is no count. */
static qg_status get_extremes(source *s, float *low, float *high)
{
    uint64_t a, b;
    QG_TRY(get_word(s, 4, &a));
    QG_TRY(get_word(s, 4, &b));
    uint32_t l = (uint32_t)a, h = (uint32_t)b;
    memcpy(low, &l, sizeof *low);
    memcpy(high, &h, sizeof *high);
    bool none = *low == INFINITY && *high == -INFINITY;
    if (!none && !(isfinite(*low) && isfinite(*high) && *low <= *high))
        return broken(s, "invalid extremes");
    return QG_OK;
}

/* Words in between; those above repeat the sign. */
static qg_status get_wide(source *s, qg_wide *out)
{
    uint64_t first, n;
    QG_TRY(get_limited(s, QG_WIDE_WORDS, "a sum that is too long", &first));
    QG_TRY(get_limited(s, QG_WIDE_WORDS - first, "a sum that is too long", &n));
    for (size_t i = 0; i < n; i++)
        QG_TRY(get_word(s, 8, &out->word[first + i]));
    if (n && out->word[first + n - 1] >> 63)
        for (size_t i = first + n; i < QG_WIDE_WORDS; i++)
            out->word[i] = UINT64_MAX;
    return QG_OK;
}

/* `total` elements, `zeros` of them 0, must be in the bins. */
static qg_status get_bins(source *s, uint64_t total, uint64_t zeros, qg_dyadic *h)
{
    uint64_t above, first, n, sum = 0;
    int least = qg_dyadic_least(h->bins);
    int most = 130 - __builtin_ctz(h->bins); /* FLT_MAX lies within */
    QG_TRY(get_limited(s, (uint64_t)(most - least), "an exponent too large", &above));
    QG_TRY(get_limited(s, h->bins, "a bin that does not exist", &first));
    QG_TRY(get_limited(s, h->bins - first, "a bin that does not exist", &n));
    h->exponent = least + (int)above;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t count;
        QG_TRY(get_limited(s, total - sum, "more counts than elements", &count));
        h->count[first + i] = count;
        sum += count;
    }
    if (sum != total || h->count[h->bins / 2] < zeros)
        return broken(s, "fewer counts than elements");
    return QG_OK;
}

static qg_status get_channel(source *s, unsigned holds, qg_stats_channel *c)
{
    const uint64_t most = UINT64_MAX >> 24; /* of 2^20 channels the sum fits */
    QG_TRY(get_extremes(s, &c->low, &c->high));
    QG_TRY(get_limited(s, most, "a count too large", &c->count));
    QG_TRY(get_limited(s, c->count, "more zeros than elements", &c->zeros));
    QG_TRY(get_limited(s, most, "a count too large", &c->nans));
    QG_TRY(get_limited(s, most, "a count too large", &c->infinities));
    c->above = c->infinities;
    if (c->infinities && s->version > 1)
        QG_TRY(get_limited(s, c->infinities, "more +inf than infinities", &c->above));
    if ((c->count == 0) != (c->low > c->high))
        return broken(s, "extremes without elements");
    if (holds & QG_STATS_MOMENTS) {
        QG_TRY(get_wide(s, &c->sum));
        QG_TRY(get_wide(s, &c->square));
    }
    return holds & QG_STATS_BY_CHANNEL ? get_bins(s, c->count, c->zeros, &c->bins)
                                       : QG_OK;
}

/* The parts together are the value: nothing is missing and nothing is left over. */
static qg_status get_parts(source *s, qg_stats_value *v, const qg_stats_channel *all)
{
    assert(v->part);
    uint64_t count = all->count, zeros = all->zeros;
    for (size_t k = 0; k < QG_STATS_PARTS; k++) {
        qg_stats_part *p = &v->part[k];
        QG_TRY(get_extremes(s, &p->low, &p->high));
        QG_TRY(get_limited(s, count, "more counts than elements", &p->count));
        QG_TRY(get_limited(s, zeros, "more zeros than elements", &p->zeros));
        if ((p->count == 0) != (p->low > p->high))
            return broken(s, "extremes without elements");
        if (p->zeros > p->count)
            return broken(s, "more zeros than elements");
        if (v->holds & QG_STATS_HISTOGRAM)
            QG_TRY(get_bins(s, p->count, p->zeros, &p->bins));
        count -= p->count;
        zeros -= p->zeros;
    }
    return count || zeros ? broken(s, "fewer counts than elements") : QG_OK;
}

/* At least 12 bytes follow per channel: a file cannot cause larger allocations than
 * that. */
static qg_status get_shape(source *s, qg_tensor *type, int32_t *axis, unsigned *holds)
{
    const unsigned all = QG_STATS_MOMENTS | QG_STATS_HISTOGRAM | QG_STATS_BY_CHANNEL;
    uint64_t a, n, h;
    int64_t dim[QG_MAX_RANK];
    QG_TRY(get_limited(s, QG_MAX_RANK, "an invalid axis", &a));
    QG_TRY(get_limited(s, MOST_CHANNELS, "too many channels", &n));
    QG_TRY(get_limited(s, all, "unknown contents", &h));
    if (n == 0 || (a == 0 && n != 1) || n > left(s) / 12)
        return broken(s, "channels that do not fit");
    for (int i = 0; i < QG_MAX_RANK; i++)
        dim[i] = a && i == (int)a - 1 ? (int64_t)n : 1;
    qg_tensor_init(type, QG_F32, QG_MAX_RANK, dim);
    *axis = (int32_t)a - 1;
    *holds = (unsigned)h;
    return QG_OK;
}

static qg_status get_value(source *s)
{
    const char *name;
    qg_tensor type;
    int32_t axis;
    unsigned holds;
    qg_stats_value *v;
    QG_TRY(get_text(s, &name));
    QG_TRY(get_shape(s, &type, &axis, &holds));
    uint64_t bytes =
        qg_arena_bytes(s->out->arena) +
        qg_stats_value_bytes((uint64_t)type.dim[axis < 0 ? 0 : axis], holds);
    QG_TRY(qg_check_ratio(s->ctx, "statistics:", s->from->name, bytes, s->from->size));
    QG_TRY(qg_stats_add_value(s->out, name, &type, axis, holds, &v));
    for (size_t c = 0; c < v->channels; c++)
        QG_TRY(get_channel(s, holds, &v->channel[c]));
    qg_stats_channel all = qg_stats_total(v);
    QG_TRY(get_parts(s, v, &all));
    return holds & QG_STATS_HISTOGRAM ? get_bins(s, all.count, all.zeros, &v->bins)
                                      : QG_OK;
}

/* Ascending, with gaps between: the only way to write a set of samples. */
static qg_status get_ranges(source *s)
{
    uint64_t n, at = 0, gap, length;
    QG_TRY(get_limited(s, left(s) / 2, "more ranges than there are", &n));
    for (uint64_t i = 0; i < n; i++) {
        QG_TRY(get_limited(s, UINT64_MAX - at, "an invalid sample", &gap));
        at += gap;
        QG_TRY(get_limited(s, UINT64_MAX - at, "an invalid sample", &length));
        if (length == 0 || (gap == 0 && i > 0))
            return broken(s, "adjacent ranges of samples");
        QG_TRY(qg_stats_mark(s->out, at, at + length));
        at += length;
    }
    return QG_OK;
}

static qg_status get_all(source *s)
{
    uint64_t n;
    qg_stats_manifest *m = &s->out->manifest;
    QG_TRY(get_text(s, &m->model));
    QG_TRY(get_text(s, &m->graph));
    QG_TRY(get_text(s, &m->preprocessing));
    QG_TRY(get_text(s, &m->kernels));
    QG_TRY(get_text(s, &m->data));
    QG_TRY(get_text(s, &m->data_sha256));
    QG_TRY(get_ranges(s));
    QG_TRY(get_limited(s, MOST_VALUES, "too many values", &n));
    for (uint64_t i = 0; i < n; i++)
        QG_TRY(get_value(s));
    return left(s) ? broken(s, "data after the last value") : QG_OK;
}

bool qg_stats_is_file(const unsigned char *bytes, size_t size)
{
    return size >= sizeof MAGIC - 1 && memcmp(bytes, MAGIC, sizeof MAGIC - 1) == 0;
}

/* Magic, version and hash, before anything is believed. */
static qg_status check_frame(source *s)
{
    const qg_stats_source *f = s->from;
    const size_t head = 12, hash = QG_HASH_TEXT - 1;
    char text[QG_HASH_TEXT];
    if (f->size < head + hash || !qg_stats_is_file(f->bytes, f->size))
        return broken(s, "no statistics");
    s->at = 8;
    s->end = f->size - hash;
    uint64_t version;
    QG_TRY(get_word(s, 4, &version));
    s->version = (unsigned)version;
    if (version != 1 && version != 2)
        return qg_fail(s->ctx, QG_EUNSUPPORTED,
                       "statistics: %.200s: version %llu, expected 1 or 2", f->name,
                       (unsigned long long)version);
    qg_hash_bytes(f->bytes, s->end, text);
    if (memcmp(text, f->bytes + s->end, hash) == 0)
        return QG_OK;
    return qg_fail(
        s->ctx, QG_EPARSE,
        "statistics: %.200s: is damaged: its checksum differs, expected %.64s", f->name,
        text);
}

qg_status qg_stats_decode(qg_ctx *ctx, const qg_stats_source *from, qg_stats **out)
{
    source s = { .ctx = ctx, .from = from };
    assert(from->name && (from->bytes || from->size == 0));
    QG_TRY(check_frame(&s));
    QG_TRY(qg_stats_new(ctx, &s.out));
    qg_status status = get_all(&s);
    if (status != QG_OK) {
        qg_stats_free(s.out);
        return status;
    }
    *out = s.out;
    return QG_OK;
}

qg_status qg_stats_load(qg_ctx *ctx, const char *path, qg_stats **out)
{
    qg_file f;
    QG_TRY(qg_file_open(ctx, "statistics", path, SIZE_MAX / 2, &f));
    qg_stats_source from = { path, f.bytes, f.size };
    qg_status s = qg_stats_decode(ctx, &from, out);
    qg_file_close(&f);
    return s;
}

/* observer.c -- the observers that read a tensor once: minmax and percentile.
 *
 * States are plain memory of a size known beforehand, so that a calibration can lay
 * those of all endpoints out in one block per worker. */
#include "engine/quant/observer.h"

#include <assert.h>
#include <math.h>

#include "engine/quant/quirk.h"

static const double PERCENTILE = 0.9999; /* spec/ppq.md 3.1 */
static const double MIN_SCALE = 1e-8;    /* spec/ppq.md 3.1 */

/* --- walking a tensor channel by channel --- */

/* Plain and channels-last tensors are one run of memory when channels are no matter. */
static bool fills_memory(const qg_tensor *x)
{
    qg_tensor last = *x;
    if (qg_tensor_is_plain(x))
        return true;
    if (x->rank < 3)
        return false;
    qg_tensor_set_channels_last(&last);
    return memcmp(last.stride, x->stride, (size_t)x->rank * sizeof x->stride[0]) == 0;
}

/* Calls visit(ud, channel, run of floats) over all of x, innermost stride first. */
typedef void visitor(void *ud, size_t channel, const float *x, int64_t n,
                     int64_t stride);

/* Runs along the innermost axis; when that is the channel axis every element is a
 * channel. */
static void walk(const qg_observe *o, const qg_tensor *x, visitor *visit, void *ud)
{
    assert(x->dtype == QG_F32 && x->rank >= 0 && x->data);
    int64_t at[QG_MAX_RANK] = { 0 };
    int32_t inner = x->rank - 1, axis = o->channels > 1 ? o->scheme->axis : -1;
    if (axis < 0 && fills_memory(x)) {
        visit(ud, 0, x->f32, qg_tensor_count(x), 1);
        return;
    }
    for (;;) {
        const float *p = x->f32;
        for (int32_t d = 0; d < inner; d++)
            p += at[d] * x->stride[d];
        if (axis == inner)
            for (int64_t c = 0; c < x->dim[inner]; c++)
                visit(ud, (size_t)c, p + c * x->stride[inner], 1, 1);
        else
            visit(ud, axis < 0 ? 0 : (size_t)at[axis], p, x->dim[inner],
                  x->stride[inner]);
        int32_t d = inner - 1;
        while (d >= 0 && ++at[d] == x->dim[d])
            at[d--] = 0;
        if (d < 0)
            return;
    }
}

/* --- minmax: exact, so the order of samples is no matter --- */

typedef struct range {
    float low, high;
    bool broken; /* a NaN or an infinity was there */
} range;

static size_t minmax_bytes(const qg_observe *o) { return o->channels * sizeof(range); }

static void minmax_begin(const qg_observe *o, void *state)
{
    range *r = state;
    for (size_t c = 0; c < o->channels; c++)
        r[c] = (range){ INFINITY, -INFINITY, false };
}

enum { LANES = 16 };

/* v - v is 0 for every finite v and NaN for the rest: one test for both. */
static void widen(range *r, float v)
{
    r->low = v < r->low ? v : r->low;
    r->high = v > r->high ? v : r->high;
    r->broken |= !(v - v == 0);
}

/* Lanes side by side, so that the loop vectorizes; extremes do not depend on order. */
static range range_of(const float *x, int64_t n, int64_t stride)
{
    range r = { INFINITY, -INFINITY, false };
    float low[LANES], high[LANES], bad[LANES];
    int64_t i = 0;
    for (int j = 0; j < LANES; j++) {
        low[j] = INFINITY;
        high[j] = -INFINITY;
        bad[j] = 0;
    }
    for (; stride == 1 && i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) {
            float v = x[i + j];
            low[j] = v < low[j] ? v : low[j];
            high[j] = v > high[j] ? v : high[j];
            bad[j] += v - v; /* 0, or NaN from the first NaN or infinity on */
        }
    for (int j = 0; j < LANES; j++) {
        r.low = low[j] < r.low ? low[j] : r.low;
        r.high = high[j] > r.high ? high[j] : r.high;
        r.broken |= !(bad[j] == 0);
    }
    for (; i < n; i++)
        widen(&r, x[i * stride]);
    return r;
}

static void minmax_visit(void *ud, size_t channel, const float *x, int64_t n,
                         int64_t stride)
{
    range *r = (range *)ud + channel, s = range_of(x, n, stride);
    r->low = s.low < r->low ? s.low : r->low;
    r->high = s.high > r->high ? s.high : r->high;
    r->broken |= s.broken;
}

/* The state is spoilt then; the calibration ends with this failure. */
static qg_status refuse_broken(qg_ctx *ctx, const range *r, size_t n, size_t sample)
{
    for (size_t c = 0; c < n; c++)
        if (r[c].broken)
            return qg_fail(
                ctx, QG_ENUMERIC,
                "calibrate: sample %zu: a NaN or an infinity, expected finite "
                "numbers",
                sample);
    return QG_OK;
}

static qg_status minmax_see(qg_ctx *ctx, const qg_observe *o, void *state,
                            size_t sample, const qg_tensor *x, qg_arena *scratch)
{
    (void)scratch;
    walk(o, x, minmax_visit, state);
    return refuse_broken(ctx, state, o->channels, sample);
}

static void minmax_merge(const qg_observe *o, void *into, const void *from)
{
    range *a = into;
    const range *b = from;
    for (size_t c = 0; c < o->channels; c++) {
        a[c].low = b[c].low < a[c].low ? b[c].low : a[c].low;
        a[c].high = b[c].high > a[c].high ? b[c].high : a[c].high;
    }
}

static void minmax_finish(const qg_observe *o, const void *state, double *low,
                          double *high)
{
    const range *r = state;
    for (size_t c = 0; c < o->channels; c++) {
        assert(r[c].low <= r[c].high);
        low[c] = (double)r[c].low;
        high[c] = (double)r[c].high;
    }
}

/* --- percentile: order statistics of each sample, then their mean in sample order
 * --- */

typedef struct tail {
    float low, high;
    bool seen;
} tail;

static size_t percentile_bytes(const qg_observe *o)
{
    return o->samples * sizeof(tail);
}

static void percentile_begin(const qg_observe *o, void *state)
{
    assert(o->samples > 0);
    memset(state, 0, percentile_bytes(o));
}

/* The `room` largest numbers so far, smallest first: a binary heap.  To keep the
 * smallest ones, feed negated numbers. */
typedef struct heap {
    float *at;
    size_t n, room;
} heap;

/* Replaces the smallest of the largest `room` numbers when v beats it; O(log room). */
static void heap_offer(heap *h, float v)
{
    size_t i;
    if (h->n < h->room) {
        for (i = h->n++; i > 0 && h->at[(i - 1) / 2] > v; i = (i - 1) / 2)
            h->at[i] = h->at[(i - 1) / 2];
        h->at[i] = v;
        return;
    }
    if (!(v > h->at[0]))
        return;
    for (i = 0;;) {
        size_t child = 2 * i + 1;
        if (child >= h->n)
            break;
        if (child + 1 < h->n && h->at[child + 1] < h->at[child])
            child++;
        if (h->at[child] >= v)
            break;
        h->at[i] = h->at[child];
        i = child;
    }
    h->at[i] = v;
}

typedef struct tails {
    heap least, largest;
    bool broken;
} tails;

static bool is_full(const heap *h) { return h->n == h->room; }

/* Both ends in one pass: the least are the largest of the negated numbers. */
static void tails_visit(void *ud, size_t channel, const float *x, int64_t n,
                        int64_t stride)
{
    enum { PIECE = 256 };
    tails *t = ud;
    (void)channel;
    for (int64_t i = 0; i < n; i += PIECE) {
        const float *p = x + i * stride;
        int64_t m = n - i < PIECE ? n - i : PIECE;
        range r = range_of(p, m, stride);
        t->broken |= r.broken;
        if (is_full(&t->least) && -r.low <= t->least.at[0] && is_full(&t->largest) &&
            r.high <= t->largest.at[0])
            continue; /* nothing of this piece would be kept */
        for (int64_t k = 0; k < m; k++) {
            heap_offer(&t->least, -p[k * stride]);
            heap_offer(&t->largest, p[k * stride]);
        }
    }
}

/* 0-based order statistics trunc(n (1 - p)) and trunc(n p), binary64 (spec/ppq.md
 * 3.4). */
static qg_status percentile_see(qg_ctx *ctx, const qg_observe *o, void *state,
                                size_t sample, const qg_tensor *x, qg_arena *scratch)
{
    double p = o->setting->percentile > 0 ? o->setting->percentile : PERCENTILE;
    double n = (double)qg_tensor_count(x);
    double low = trunc(n * (1 - p)), high = fmin(trunc(n * p), n - 1);
    tails t = { .least.room = (size_t)low + 1, .largest.room = (size_t)(n - high) };
    t.least.at = qg_arena_raw(scratch, t.least.room, sizeof(float));
    t.largest.at = qg_arena_raw(scratch, t.largest.room, sizeof(float));
    if (!t.least.at || !t.largest.at)
        return qg_nomem(ctx);
    walk(o, x, tails_visit, &t);
    range r = { .broken = t.broken };
    QG_TRY(refuse_broken(ctx, &r, 1, sample));
    assert(sample < o->samples);
    ((tail *)state)[sample] = (tail){ -t.least.at[0], t.largest.at[0], true };
    return QG_OK;
}

/* Every sample was seen by one worker, so merging is picking. */
static void percentile_merge(const qg_observe *o, void *into, const void *from)
{
    tail *a = into;
    const tail *b = from;
    for (size_t i = 0; i < o->samples; i++)
        if (b[i].seen)
            a[i] = b[i];
}

/* In sample order, whoever saw which: the mean does not depend on the number of
 * workers. */
static void percentile_finish(const qg_observe *o, const void *state, double *low,
                              double *high)
{
    const tail *t = state;
    double below = 0, above = 0;
    size_t seen = 0;
    for (size_t i = 0; i < o->samples; i++)
        if (t[i].seen) {
            below += (double)t[i].low;
            above += (double)t[i].high;
            seen++;
        }
    assert(seen > 0);
    *low = below / (double)seen;
    *high = above / (double)seen;
}

/* clang-format off */
#define FUNCTIONS(f)                                                                   \
    .bytes = f##_bytes, .begin = f##_begin, .see = f##_see, .merge = f##_merge,        \
    .finish = f##_finish

const qg_observer qg_observers[] = {
    { .name = "minmax", .summary = "smallest and largest value of all samples",
      .source = "spec/ppq.md 3.3", .per_channel = true, .passes = 1,
      FUNCTIONS(minmax) },
    { .name = "percentile",
      .summary = "per sample the bounds of the fraction p on either side, averaged",
      .source = "spec/ppq.md 3.4", .passes = 1, FUNCTIONS(percentile) },
    { .name = NULL },
};
/* clang-format on */

const qg_observer *qg_observer_find(const char *name)
{
    assert(name);
    for (const qg_observer *o = qg_observers; o->name; o++)
        if (strcmp(o->name, name) == 0)
            return o;
    return NULL;
}

qg_status qg_observe_begin(qg_ctx *ctx, const qg_tqc *t, const qg_tensor *x,
                           size_t samples, const qg_observer **observer,
                           qg_observe *out)
{
    char at[QG_ENDPOINT_TEXT];
    const char *name = t->observer.name;
    const qg_observer *o = name ? qg_observer_find(name) : NULL;
    if (!o)
        return qg_fail(ctx, QG_ECONFIG,
                       "calibrate: %s: observer '%s', expected one of "
                       "'qg list observers'",
                       qg_tqc_text(t, at), name ? name : "none");
    int64_t channels = qg_scheme_param_count(&t->scheme, x);
    if (channels < 1)
        return qg_fail(
            ctx, QG_ECONFIG,
            "calibrate: %s: axis %d does not fit rank %d, expected one below it",
            qg_tqc_text(t, at), t->scheme.axis, (int)x->rank);
    bool per_tensor = (t->scheme.policy & QG_PER_TENSOR) != 0;
    if ((t->scheme.policy & QG_BLOCK) || (!per_tensor && !o->per_channel))
        return qg_fail(ctx, QG_ECONFIG,
                       "calibrate: %s: observer %s serves %s, expected minmax",
                       qg_tqc_text(t, at), o->name,
                       o->per_channel ? "no blocks" : "per-tensor only");
    *observer = o;
    *out = (qg_observe){ .scheme = &t->scheme,
                         .setting = &t->observer,
                         .channels = (size_t)channels,
                         .samples = samples };
    return QG_OK;
}

unsigned qg_range_quirks(uint64_t quirks)
{
    return (quirks & QG_QUIRK(PPQ_OFFSET) ? QG_RANGE_PPQ_OFFSET : 0u) |
           (quirks & QG_QUIRK(PPQ_POW2_OFFSET) ? QG_RANGE_PPQ_POW2_OFFSET : 0u);
}

/* low and high share an allocation; they lie in the graph's arena like all that is
 * made while a pass runs. */
qg_status qg_observe_finish(qg_quant *q, qg_tqc *t, const qg_observer *ob,
                            const qg_observe *o, const void *state)
{
    double *low = QG_NEWN(q->arena, 2 * o->channels, double);
    float *scale = QG_NEWN(q->arena, o->channels, float);
    int32_t *offset = QG_NEWN(q->arena, o->channels, int32_t);
    double least = t->observer.min_scale > 0 ? t->observer.min_scale : MIN_SCALE;
    if (!low || !scale || !offset)
        return qg_nomem(q->ctx);
    double *high = low + o->channels;
    ob->finish(o, state, low, high);
    for (size_t c = 0; c < o->channels; c++)
        qg_scheme_from_range(
            &t->scheme,
            (qg_range){ low[c], high[c], least, qg_range_quirks(q->quirks) }, &scale[c],
            &offset[c]);
    QG_TRY(qg_tqc_set_param(q, t, o->channels, scale, offset));
    return qg_tqc_set_state(q, t, QG_TQC_ACTIVATED);
}

/* observer_percentile.c -- order statistics of each sample, then their mean in sample
 * order. */
#include <assert.h>
#include <math.h>

#include "engine/calib/observer_parts.h"

typedef struct tail {
    float low, high;
    bool seen;
} tail;

size_t qg_percentile_bytes(const qg_observe *o) { return o->samples * sizeof(tail); }

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
        qg_extent r = qg_extent_of(p, m, stride);
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
qg_status qg_percentile_see(qg_ctx *ctx, const qg_observe *o, void *state,
                            size_t sample, const qg_tensor *x, qg_arena *scratch)
{
    double p = qg_observe_value(o, QG_PARAM_PERCENTILE);
    double n = (double)qg_tensor_count(x);
    double low = trunc(n * (1 - p)), high = fmin(trunc(n * p), n - 1);
    tails t = { .least.room = (size_t)low + 1, .largest.room = (size_t)(n - high) };
    t.least.at = qg_arena_raw(scratch, t.least.room, sizeof(float));
    t.largest.at = qg_arena_raw(scratch, t.largest.room, sizeof(float));
    if (!t.least.at || !t.largest.at)
        return qg_nomem(ctx);
    qg_observe_walk(o, x, tails_visit, &t);
    qg_extent r = { .broken = t.broken };
    QG_TRY(qg_extent_check(ctx, &r, 1, sample));
    assert(sample < o->samples);
    ((tail *)state)[sample] = (tail){ -t.least.at[0], t.largest.at[0], true };
    return QG_OK;
}

/* Every sample was seen by one worker, so merging is picking. */
void qg_percentile_merge(const qg_observe *o, void *into, const void *from)
{
    tail *a = into;
    const tail *b = from;
    for (size_t i = 0; i < o->samples; i++)
        if (b[i].seen)
            a[i] = b[i];
}

/* In sample order, whoever saw which: the mean does not depend on the number of
 * workers. */
qg_status qg_percentile_finish(qg_ctx *ctx, const qg_observe *o, const void *state,
                               qg_arena *scratch, qg_found *out)
{
    (void)ctx;
    (void)scratch;
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
    out->low[0] = below / (double)seen;
    out->high[0] = above / (double)seen;
    return QG_OK;
}

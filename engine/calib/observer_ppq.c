/* observer_ppq.c -- PPQ's observers: minmax, percentile, kl, mse, isotone, constant and
 * floating, with the defects that their results show (docs/evidence/ppq-defects.md).
 *
 * Ranges become scales as PPQ computes them, which gives symmetric codes from 0 the
 * scale of signed ones (docs/evidence/grids.md#range-to-scale).
 * kl and mse take the range in one pass and torch.histc of it in the next (CPU rule).
 * Source   docs/evidence/observers.md#ppq */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "engine/calib/kl.h"
#include "engine/calib/mse.h"
#include "engine/calib/observer_parts.h"
#include "engine/quant/fake.h"

const qg_observer qg_observer_ppq_minmax = {
    .name = "ppq-minmax",
    .summary = "PPQ: smallest and largest value of all samples",
    .source = "docs/evidence/observers.md#ppq-minmax",
    .per_channel = true,
    .range = QG_RANGE_PPQ_UNSIGNED,
    .value = { [QG_PARAM_MIN_SCALE] = 1e-8 },
    QG_MINMAX_STATE,
    .finish = qg_minmax_finish,
};

/* --- percentile: order statistics of each sample, their mean in sample order --- */

typedef struct tail {
    float low, high;
    bool seen;
} tail;

static size_t percentile_bytes(const qg_observe *o)
{
    return o->samples * sizeof(tail);
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

/* 0-based order statistics trunc(n (1 - p)) and trunc(n p), binary64
 * (docs/evidence/observers.md#ppq-percentile). */
static qg_status percentile_see(qg_ctx *ctx, const qg_observe *o, void *state,
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
static qg_status percentile_finish(qg_ctx *ctx, const qg_observe *o, const void *state,
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

const qg_observer qg_observer_ppq_percentile = {
    .name = "ppq-percentile",
    .summary = "PPQ: percentiles of each sample, averaged over samples",
    .source = "docs/evidence/observers.md#ppq-percentile",
    .passes = 1,
    .range = QG_RANGE_PPQ_UNSIGNED,
    .value = {[QG_PARAM_PERCENTILE] = 0.9999, [QG_PARAM_MIN_SCALE] = 1e-8},
    .bytes = percentile_bytes,
    .see = percentile_see,
    .merge = percentile_merge,
    .finish = percentile_finish,
};

/* --- kl and mse --- */

/* |x| over [0, largest |x|], or x over [low, high]. */
static void count(const qg_observe *o, qg_binned *b, const float *x, int64_t n,
                  int64_t stride)
{
    qg_torch_bins t = { b->all.low, b->all.high, false };
    if (qg_observe_symmetric(o))
        t = (qg_torch_bins){ 0, (float)qg_binned_absmax(b), true };
    if (t.high > t.low)
        qg_torch_count(t, x, n, stride, qg_binned_bins(o), b->count);
}

static qg_status binned_see(qg_ctx *ctx, const qg_observe *o, void *state,
                            size_t sample, const qg_tensor *x, qg_arena *scratch)
{
    (void)scratch;
    return qg_binned_see(ctx, o, state, sample, x, count);
}

/* The nearest power of two by the logarithm, halves up. */
static double power_of_2_near(double v) { return exp2(floor(log2(v) + 0.5)); }

/* scale = bins kept * width of one / levels; not the range's
 * (docs/evidence/observers.md#ppq-kl-observer).  A constant zero gives the least
 * scale. */
static qg_status kl_finish(qg_ctx *ctx, const qg_observe *o, const void *state,
                           qg_arena *scratch, qg_found *out)
{
    const qg_binned *b = state;
    assert(qg_observe_symmetric(o) && b->all.low <= b->all.high);
    double top = qg_binned_absmax(b);
    size_t levels = (size_t)1 << (o->scheme->bits - 1);
    qg_histogram h;
    qg_range_choice best = { 0 };
    if (top > 0) {
        QG_TRY(qg_binned_histogram(ctx, o, b, (qg_range){ .high = top }, scratch, &h));
        QG_TRY(qg_kl_ppq(ctx, scratch, &h, levels, NULL, &best));
    }
    double scale =
        (double)best.index * (top / (double)qg_binned_bins(o)) / (double)levels;
    qg_found_scale(o, out, 0, scale);
    if (o->scheme->policy & QG_POWER_OF_2)
        out->scale[0] = (float)power_of_2_near((double)out->scale[0]);
    return QG_OK;
}

/* Levels and start as in PPQ, so twice the resolution that there is (D12). */
static qg_status mse_finish(qg_ctx *ctx, const qg_observe *o, const void *state,
                            qg_arena *scratch, qg_found *out)
{
    const qg_binned *b = state;
    bool symmetric = qg_observe_symmetric(o);
    double low = symmetric ? 0 : (double)b->all.low;
    double high = symmetric ? qg_binned_absmax(b) : (double)b->all.high;
    size_t levels = (size_t)(o->scheme->qmax - o->scheme->qmin + 1);
    qg_histogram h;
    qg_range_choice best = { .low = low, .high = high };
    if (high > low) {
        QG_TRY(
            qg_binned_histogram(ctx, o, b, (qg_range){ low, high, 0, 0 }, scratch, &h));
        QG_TRY(qg_mse_ppq(ctx, &h, levels, symmetric, &best));
    }
    out->low[0] = best.low;
    out->high[0] = best.high;
    return QG_OK;
}

#define BINNED                                                                         \
    .passes = 2, .bytes = qg_binned_bytes, .begin = qg_binned_begin,                   \
    .see = binned_see, .merge = qg_binned_merge

const qg_observer qg_observer_ppq_kl = {
    .name = "ppq-kl",
    .summary = "PPQ: minimum KL divergence over multiples of 2^(bits - 1) bins of |x|",
    .source = "docs/evidence/observers.md#ppq-kl-observer",
    .policy = QG_SYMMETRIC,
    .value = {[QG_PARAM_BINS] = 4096, [QG_PARAM_MIN_SCALE] = 1e-8},
    BINNED,
    .finish = kl_finish,
};

const qg_observer qg_observer_ppq_mse = {
    .name = "ppq-mse",
    .summary = "PPQ: least squared error over grids aligned to bins",
    .source = "docs/evidence/observers.md#ppq-mse-observer",
    .range = QG_RANGE_PPQ_UNSIGNED,
    .value = {[QG_PARAM_BINS] = 2048, [QG_PARAM_MIN_SCALE] = 1e-8},
    BINNED,
    .finish = mse_finish,
};

/* --- isotone: keeps which element along an axis is the largest --- */

/* The two largest of every row, for all samples: memory grows with them, as in PPQ. */
typedef struct pair {
    float first, second;
} pair;

typedef struct isotone {
    QG_VEC(pair) row; /* in o->keep */
    qg_extent all;    /* for tensors whose axis has one element */
    bool flat;        /* such a tensor was seen (PPQ stops there, D76) */
} isotone;

static void isotone_begin(const qg_observe *o, void *state)
{
    (void)o;
    ((isotone *)state)->all = (qg_extent){ INFINITY, -INFINITY, false };
}

/* Of n >= 2 numbers `stride` apart. */
static pair two_largest(const float *x, int64_t n, int64_t stride)
{
    pair p = { fmaxf(x[0], x[stride]), fminf(x[0], x[stride]) };
    for (int64_t i = 2; i < n; i++) {
        float v = x[i * stride];
        if (v > p.first)
            p = (pair){ v, p.first };
        else if (v > p.second)
            p.second = v;
    }
    return p;
}

/* Rows along `axis`; the order of the others is that of the tensor with axis and the
 * last one swapped. */
static qg_status add_rows(qg_ctx *ctx, const qg_observe *o, isotone *s,
                          const qg_tensor *x, int32_t axis)
{
    qg_tensor y = *x;
    int32_t last = x->rank - 1;
    y.dim[axis] = x->dim[last];
    y.stride[axis] = x->stride[last];
    int64_t rows = qg_dims_product(&y, 0, last);
    assert(x->dim[axis] > 1);
    for (int64_t r = 0; r < rows; r++) {
        const float *p = x->f32;
        int64_t rest = r;
        for (int32_t d = last; d-- > 0; rest /= y.dim[d])
            p += rest % y.dim[d] * y.stride[d];
        QG_TRY(qg_vec_push(ctx, o->keep, &s->row,
                           two_largest(p, x->dim[axis], x->stride[axis])));
    }
    return QG_OK;
}

/* A tensor without such an axis, or with one element along it, falls back to minmax
 * (D76: PPQ raises). */
static qg_status isotone_see(qg_ctx *ctx, const qg_observe *o, void *state,
                             size_t sample, const qg_tensor *x, qg_arena *scratch)
{
    isotone *s = state;
    (void)scratch;
    QG_TRY(qg_extent_widen(ctx, o, sample, x, &s->all));
    int32_t axis = (int32_t)qg_observe_value(o, QG_PARAM_COMPARE_AXIS);
    axis += axis < 0 ? x->rank : 0;
    if (axis >= 0 && axis < x->rank && x->dim[axis] > 1)
        return add_rows(ctx, o, s, x, axis);
    s->flat = true;
    return QG_OK;
}

/* A scale at which one more row keeps its order begins or ends. */
typedef struct border {
    double scale;
    int step; /* +1 begins, -1 ends */
} border;

/* By scale; of equal scales those that end come first. */
static int border_order(const void *a, const void *b)
{
    const border *p = a, *q = b;
    if (p->scale != q->scale)
        return p->scale < q->scale ? -1 : 1;
    return p->step - q->step;
}

/* The scale interval in which the codes of a row's two largest differ. */
static bool row_borders(const qg_observe *o, pair p, border *at)
{
    double l1 = (double)p.first, l2 = (double)p.second;
    if (qg_observe_symmetric(o)) {
        l1 = fabs(l1);
        l2 = fabs(l2);
    }
    double least = fmax(l2 / ((double)o->scheme->qmax - 0.51), 0);
    double most = 2 * (l1 - fmax(l2, 0));
    at[0] = (border){ least, 1 };
    at[1] = (border){ most, -1 };
    return most > least && l1 > 0;
}

/* Where most rows keep their order, at the first such scale. */
static double best_scale(border *at, size_t n)
{
    assert(n > 0 && n % 2 == 0);
    double best = 0;
    long open = 0, most = 0;
    qsort(at, n, sizeof *at, border_order);
    for (size_t i = 0; i < n; i++) {
        open += at[i].step;
        if (open > most) {
            most = open;
            best = at[i].scale;
        }
    }
    return best;
}

/* No row gives an interval: the range from 0 to the largest of the last row. */
static qg_status isotone_finish(qg_ctx *ctx, const qg_observe *o, const void *state,
                                qg_arena *scratch, qg_found *out)
{
    const isotone *s = state;
    border *at = QG_NEWN(scratch, 2 * s->row.n, border);
    size_t n = 0;
    if (!at)
        return qg_nomem(ctx);
    for (size_t i = 0; i < s->row.n; i++)
        n += row_borders(o, s->row.at[i], at + n) ? 2 : 0;
    if (n > 0 && !s->flat) {
        qg_found_scale(o, out, 0, best_scale(at, n));
        return QG_OK;
    }
    out->low[0] = s->flat ? (double)s->all.low : 0;
    out->high[0] = s->flat ? (double)s->all.high : 0;
    if (!s->flat && s->row.n > 0) {
        double l1 = (double)s->row.at[s->row.n - 1].first;
        l1 = qg_observe_symmetric(o) ? fabs(l1) : l1;
        out->high[0] = fmax(l1, 0);
    }
    return QG_OK;
}

const qg_observer qg_observer_ppq_isotone = {
    .name = "ppq-isotone",
    .summary = "PPQ: the scale that preserves the largest element along an axis",
    .source = "docs/evidence/observers.md#ppq-isotone",
    .ordered = true,
    .passes = 1,
    .range = QG_RANGE_PPQ_UNSIGNED,
    .value = {[QG_PARAM_COMPARE_AXIS] = -1, [QG_PARAM_MIN_SCALE] = 1e-8},
    .size = sizeof(isotone),
    .begin = isotone_begin,
    .see = isotone_see,
    .finish = isotone_finish,
};

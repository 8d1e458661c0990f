/* observer_bins.c -- bins over a range that the pass before has found. */
#include <assert.h>
#include <float.h>
#include <math.h>

#include "engine/calib/observer_parts.h"
#include "engine/calib/torch_bins.h"

size_t qg_binned_bins(const qg_observe *o)
{
    return (size_t)qg_observe_value(o, QG_PARAM_BINS);
}

size_t qg_binned_bytes(const qg_observe *o)
{
    return sizeof(qg_binned) + qg_binned_bins(o) * sizeof(int64_t);
}

void qg_binned_begin(const qg_observe *o, void *state)
{
    qg_binned *b = state;
    (void)o;
    b->all = (qg_extent){ INFINITY, -INFINITY, false };
    b->least = INFINITY;
}

static void widen(void *ud, size_t channel, const float *x, int64_t n, int64_t stride)
{
    qg_extent *all = ud, e = qg_extent_of(x, n, stride);
    (void)channel;
    all->low = fminf(all->low, e.low);
    all->high = fmaxf(all->high, e.high);
    all->broken |= e.broken;
}

qg_status qg_extent_widen(qg_ctx *ctx, const qg_observe *o, size_t sample,
                          const qg_tensor *x, qg_extent *e)
{
    qg_observe_walk(o, x, widen, e);
    return qg_extent_check(ctx, e, 1, sample);
}

/* Smallest |x|; NaN and infinity are found by the extent. */
static float least_of(const float *x, int64_t n, int64_t stride)
{
    float least = INFINITY;
    for (int64_t i = 0; i < n; i++)
        least = fabsf(x[i * stride]) < least ? fabsf(x[i * stride]) : least;
    return least;
}

static void note_run(void *ud, size_t channel, const float *x, int64_t n,
                     int64_t stride)
{
    qg_binned *b = ud;
    widen(&b->all, channel, x, n, stride);
    b->least = fminf(b->least, least_of(x, n, stride));
}

typedef struct counting {
    const qg_observe *o;
    qg_binned *b;
    qg_bin_counter *counter;
} counting;

static void count_run(void *ud, size_t channel, const float *x, int64_t n,
                      int64_t stride)
{
    counting *c = ud;
    (void)channel;
    c->counter(c->o, c->b, x, n, stride);
}

qg_status qg_binned_see(qg_ctx *ctx, const qg_observe *o, qg_binned *b, size_t sample,
                        const qg_tensor *x, qg_bin_counter *counter)
{
    assert(o->pass <= 1);
    if (o->pass == 0) {
        qg_observe_walk(o, x, note_run, b);
        return qg_extent_check(ctx, &b->all, 1, sample);
    }
    counting c = { o, b, counter };
    qg_observe_walk(o, x, count_run, &c);
    return QG_OK;
}

/* The range is known to all in pass 1 and merges to itself. */
void qg_binned_merge(const qg_observe *o, void *into, const void *from)
{
    qg_binned *a = into;
    const qg_binned *b = from;
    assert(a != b && a->edge == b->edge);
    a->all.low = fminf(a->all.low, b->all.low);
    a->all.high = fmaxf(a->all.high, b->all.high);
    a->least = fminf(a->least, b->least);
    for (size_t j = 0; j < qg_binned_bins(o); j++)
        a->count[j] += b->count[j];
}

double qg_binned_absmax(const qg_binned *b)
{
    return fmax(fabs((double)b->all.low), fabs((double)b->all.high));
}

void qg_torch_count(qg_torch_bins t, const float *x, int64_t n, int64_t stride,
                    size_t bins, int64_t *count)
{
    assert(bins > 0 && t.low < t.high);
    for (int64_t i = 0; i < n; i++) {
        float v = t.absolute ? fabsf(x[i * stride]) : x[i * stride];
        if (!(v >= t.low && v <= t.high))
            continue;
        count[qg_torch_bin(v, t.low, t.high, bins)]++;
    }
}

qg_status qg_binned_histogram(qg_ctx *ctx, const qg_observe *o, const qg_binned *b,
                              qg_range r, qg_arena *a, qg_histogram *h)
{
    size_t bins = qg_binned_bins(o);
    double width = (r.high - r.low) / (double)bins;
    assert(r.high > r.low && bins > 1);
    double *edge = QG_NEWN(a, bins + 1, double);
    int64_t *count = QG_NEWN(a, bins, int64_t);
    if (!edge || !count)
        return qg_nomem(ctx);
    for (size_t k = 0; k <= bins; k++)
        edge[k] = r.low + (double)k * width;
    memcpy(count, b->count, bins * sizeof *count);
    *h = (qg_histogram){ bins, count, edge };
    return QG_OK;
}

void qg_found_scale(const qg_observe *o, qg_found *out, size_t c, double scale)
{
    double least = qg_observe_value(o, QG_PARAM_MIN_SCALE);
    assert(c < o->channels && scale >= 0);
    out->is_param = true;
    out->raised += scale > 0 && scale < least;
    out->fit += scale >= least;
    out->scale[c] = (float)fmin(fmax(scale, least), FLT_MAX);
    out->offset[c] = 0;
}

/* --- all elements as one array --- */

typedef struct gathering {
    float *to;
    size_t n;
} gathering;

static void gather_run(void *ud, size_t channel, const float *x, int64_t n,
                       int64_t stride)
{
    gathering *g = ud;
    (void)channel;
    for (int64_t i = 0; i < n; i++)
        g->to[g->n++] = x[i * stride];
}

qg_status qg_observe_flat(qg_ctx *ctx, const qg_observe *o, const qg_tensor *x,
                          qg_arena *scratch, const float **out)
{
    size_t n = (size_t)qg_tensor_count(x);
    if (qg_tensor_is_plain(x)) {
        *out = x->f32;
        return QG_OK;
    }
    gathering g = { .to = qg_arena_raw(scratch, n, sizeof(float)) };
    if (!g.to)
        return qg_nomem(ctx);
    qg_observe_walk(o, x, gather_run, &g);
    assert(g.n == n);
    *out = g.to;
    return QG_OK;
}

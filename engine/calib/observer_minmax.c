/* observer_minmax.c -- walking a tensor; the smallest and largest value, exactly.
 *
 * The result depends neither on the order of samples nor of elements. */
#include <assert.h>
#include <math.h>

#include "engine/calib/derive.h"
#include "engine/calib/observer_parts.h"

/* --- walking a tensor channel by channel --- */

/* Plain and channels-last tensors are one run of memory when channels do not matter. */
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

/* Runs along the innermost axis; when that is the channel axis every element is a
 * channel. */
void qg_observe_walk(const qg_observe *o, const qg_tensor *x, qg_run_visitor *visit,
                     void *ud)
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

/* --- minmax: exact, so independent of the order of samples --- */

size_t qg_minmax_bytes(const qg_observe *o) { return o->channels * sizeof(qg_extent); }

void qg_minmax_begin(const qg_observe *o, void *state)
{
    qg_extent *r = state;
    for (size_t c = 0; c < o->channels; c++)
        r[c] = (qg_extent){ INFINITY, -INFINITY, false };
}

enum { LANES = 16 };

/* v - v is 0 for every finite v and NaN for the rest: one test for both. */
static void widen(qg_extent *r, float v)
{
    r->low = v < r->low ? v : r->low;
    r->high = v > r->high ? v : r->high;
    r->broken |= !(v - v == 0);
}

/* Lanes side by side, so that the loop vectorizes; extremes do not depend on order. */
qg_extent qg_extent_of(const float *x, int64_t n, int64_t stride)
{
    qg_extent r = { INFINITY, -INFINITY, false };
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

static void visit_extent(void *ud, size_t channel, const float *x, int64_t n,
                         int64_t stride)
{
    qg_extent *r = (qg_extent *)ud + channel, s = qg_extent_of(x, n, stride);
    r->low = s.low < r->low ? s.low : r->low;
    r->high = s.high > r->high ? s.high : r->high;
    r->broken |= s.broken;
}

/* The state is spoilt then; the calibration ends with this failure. */
qg_status qg_extent_check(qg_ctx *ctx, const qg_extent *r, size_t n, size_t sample)
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

qg_status qg_minmax_see(qg_ctx *ctx, const qg_observe *o, void *state, size_t sample,
                        const qg_tensor *x, qg_arena *scratch)
{
    (void)scratch;
    qg_observe_walk(o, x, visit_extent, state);
    return qg_extent_check(ctx, state, o->channels, sample);
}

void qg_minmax_merge(const qg_observe *o, void *into, const void *from)
{
    qg_extent *a = into;
    const qg_extent *b = from;
    for (size_t c = 0; c < o->channels; c++) {
        a[c].low = b[c].low < a[c].low ? b[c].low : a[c].low;
        a[c].high = b[c].high > a[c].high ? b[c].high : a[c].high;
    }
}

qg_status qg_minmax_finish(qg_ctx *ctx, const qg_observe *o, const void *state,
                           qg_arena *scratch, qg_found *out)
{
    const qg_extent *r = state;
    (void)ctx;
    (void)scratch;
    for (size_t c = 0; c < o->channels; c++) {
        assert(r[c].low <= r[c].high);
        out->low[c] = (double)r[c].low;
        out->high[c] = (double)r[c].high;
    }
    return QG_OK;
}

static qg_status minmax_pick(qg_ctx *ctx, const qg_observe *o, const qg_distribution *d,
                             qg_arena *scratch, qg_found *out)
{
    (void)ctx;
    (void)o;
    (void)scratch;
    assert(d->all.count > 0);
    *out->low = (double)d->all.low;
    *out->high = (double)d->all.high;
    return QG_OK;
}

const qg_observer qg_observer_minmax = {
    .name = "minmax",
    .summary = "smallest and largest value of all samples",
    .source = "docs/evidence/observers.md#ppq-minmax",
    .per_channel = true,
    .value = { [QG_PARAM_MIN_SCALE] = 1e-8 },
    QG_MINMAX_STATE,
    .finish = qg_minmax_finish,
    .pick = minmax_pick,
};

/* Extremes of the 16 parts of the samples (index modulo 16), averaged exponentially in
 * order of the parts: extremes of single samples are not kept, since memory must not
 * grow with them. */
static qg_status average_pick(qg_ctx *ctx, const qg_observe *o,
                              const qg_distribution *d, qg_arena *scratch,
                              qg_found *out)
{
    double weight = qg_observe_value(o, QG_PARAM_AVERAGING), low = 0, high = 0;
    bool any = false;
    if (!d->part) /* parts themselves: nothing to average over */
        return minmax_pick(ctx, o, d, scratch, out);
    for (size_t k = 0; k < QG_STATS_PARTS; k++) {
        const qg_stats_part *p = &d->part[k];
        if (p->count == 0)
            continue;
        low = any ? low + weight * ((double)p->low - low) : (double)p->low;
        high = any ? high + weight * ((double)p->high - high) : (double)p->high;
        any = true;
    }
    assert(any && low <= high);
    *out->low = low;
    *out->high = high;
    return QG_OK;
}

const qg_observer qg_observer_moving_average = {
    .name = "moving-average",
    .summary = "exponential moving average of the minimum and maximum of 16 groups of "
               "samples",
    .source = "MQBench EMAMinMaxObserver; docs/evidence/observers.md#other-observers",
    .passes = 1,
    .value = {[QG_PARAM_AVERAGING] = 0.1, [QG_PARAM_MIN_SCALE] = 1e-8},
    .pick = average_pick,
};

/* observer_ppq_floating.c -- PPQ's observers of floating grids: constant, and a search
 * over seven scales.
 *
 * The search keeps squared errors, not data: per sample, channel and candidate one sum
 * in element order, added in sample order.  PPQ draws 4096 elements of each sample at
 * random without a seed; here a tensor that is larger is read by PPQ's own generator
 * (docs/evidence/observers.md), and a smaller one completely.
 *
 * Source   docs/evidence/observers.md#ppq-constant-and-floating; D72 mended:
 *          channels are those of the scheme's axis */
#include <assert.h>
#include <math.h>

#include "engine/quant/fake_kernel.h"
#include "engine/calib/observer_parts.h"

/* --- constant --- */

static qg_status see_nothing(qg_ctx *ctx, const qg_observe *o, void *state,
                             size_t sample, const qg_tensor *x, qg_arena *scratch)
{
    (void)ctx;
    (void)o;
    (void)state;
    (void)sample;
    (void)x;
    (void)scratch;
    return QG_OK;
}

static void merge_nothing(const qg_observe *o, void *into, const void *from)
{
    (void)o;
    (void)into;
    (void)from;
}

static qg_status constant_finish(qg_ctx *ctx, const qg_observe *o, const void *state,
                                 qg_arena *scratch, qg_found *out)
{
    (void)ctx;
    (void)state;
    (void)scratch;
    for (size_t c = 0; c < o->channels; c++)
        qg_found_scale(o, out, c, 1);
    return QG_OK;
}

const qg_observer qg_observer_ppq_constant = {
    .name = "ppq-constant",
    .summary = "PPQ: scale 1, independent of the data",
    .source = "docs/evidence/observers.md#ppq-constant-and-floating",
    .per_channel = true,
    .passes = 1,
    .policy = QG_FLOATING,
    .value = { [QG_PARAM_MIN_SCALE] = 1e-8 },
    .see = see_nothing,
    .merge = merge_nothing,
    .finish = constant_finish,
};

/* --- floating --- */

static const float candidate[] = { 0x1p-7f, 0x1p-5f, 0x1p-3f, 1, 4, 16, 64 };
enum { CANDIDATES = sizeof candidate / sizeof candidate[0] };

/* The state: [channels][CANDIDATES] sums of squared errors.  Of a computed value with
 * scales per channel PPQ lays the channels of all calls end to end; its kernel reads
 * those of the first. */
static size_t floating_bytes(const qg_observe *o)
{
    return o->channels * CANDIDATES * sizeof(double);
}

typedef struct trial {
    qg_floating grid[CANDIDATES];
    double *sum;    /* of the sample: [channels][CANDIDATES] */
    qg_extent seen; /* for NaN and infinities */
} trial;

static void try_value(const trial *t, size_t channel, float v)
{
    for (int k = 0; k < CANDIDATES; k++) {
        double e = (double)qg_floating_define(&t->grid[k], v) - (double)v;
        t->sum[channel * CANDIDATES + (size_t)k] += e * e;
    }
}

/* Stops at the first NaN or infinity: the sample is refused then. */
static void try_run(void *ud, size_t channel, const float *x, int64_t n, int64_t stride)
{
    trial *t = ud;
    t->seen.broken |= qg_extent_of(x, n, stride).broken;
    for (int64_t i = 0; i < n && !t->seen.broken; i++)
        try_value(t, channel, x[i * stride]);
}

/* PPQ's generator of indices. */
static uint32_t next_index(uint32_t seed) { return 0x343FDu * seed + 0x269EC3u; }

/* Element i in plain order. */
static float element(const qg_tensor *x, int64_t i)
{
    const float *p = x->f32;
    for (int32_t d = x->rank; d-- > 0; i /= x->dim[d])
        p += i % x->dim[d] * x->stride[d];
    return *p;
}

/* Some elements of a tensor without channels. */
static void try_some(trial *t, const qg_tensor *x, size_t fetches)
{
    int64_t n = qg_tensor_count(x);
    assert(n > 0 && fetches > 0);
    uint32_t seed = 0x20211230u;
    for (size_t i = 0; i < fetches; i++, seed = next_index(seed)) {
        float v = element(x, (int64_t)seed % n);
        t->seen.broken |= !isfinite(v);
        if (isfinite(v))
            try_value(t, 0, v);
    }
}

static qg_status floating_see(qg_ctx *ctx, const qg_observe *o, void *state,
                              size_t sample, const qg_tensor *x, qg_arena *scratch)
{
    size_t rows = (size_t)qg_scheme_param_count(o->scheme, x), n = rows * CANDIDATES;
    size_t fetches = (size_t)qg_observe_value(o, QG_PARAM_FETCHES);
    bool stacked = o->channels > rows;
    double *total = (double *)state + (stacked ? sample * n : 0);
    assert(!stacked || (sample + 1) * rows <= o->channels);
    trial *t = QG_NEW(scratch, trial);
    if (!t || !(t->sum = QG_NEWN(scratch, n, double)))
        return qg_nomem(ctx);
    for (int k = 0; k < CANDIDATES; k++)
        qg_floating_init(&t->grid[k], o->scheme, candidate[k]);
    if (o->channels == 1 && (size_t)qg_tensor_count(x) > fetches)
        try_some(t, x, fetches);
    else
        qg_observe_walk(o, x, try_run, t);
    QG_TRY(qg_extent_check(ctx, &t->seen, 1, sample));
    for (size_t i = 0; i < n; i++)
        total[i] += t->sum[i];
    return QG_OK;
}

/* The first least error; candidates ascend, so a tie takes the smaller scale. */
static qg_status floating_finish(qg_ctx *ctx, const qg_observe *o, const void *state,
                                 qg_arena *scratch, qg_found *out)
{
    const double *total = state;
    (void)ctx;
    (void)scratch;
    assert(CANDIDATES > 1);
    for (size_t c = 0; c < o->channels; c++) {
        const double *sum = total + c * CANDIDATES;
        size_t best = 0;
        for (size_t k = 1; k < CANDIDATES; k++)
            best = sum[k] < sum[best] ? k : best;
        qg_found_scale(o, out, c, (double)candidate[best]);
    }
    return QG_OK;
}

const qg_observer qg_observer_ppq_floating = {
    .name = "ppq-floating",
    .summary =
        "PPQ: of 7 scales from 2^-7 to 2^6, the one with the least squared error",
    .source = "docs/evidence/observers.md#ppq-constant-and-floating",
    .per_channel = true,
    .ordered = true,
    .stacks = true,
    .passes = 1,
    .policy = QG_FLOATING | QG_POWER_OF_2,
    .value = {[QG_PARAM_FETCHES] = 4096, [QG_PARAM_MIN_SCALE] = 1e-8},
    .bytes = floating_bytes,
    .see = floating_see,
    .finish = floating_finish,
};

/* observer_nvidia.c -- the calibrators of pytorch-quantization: max, and percentile,
 * entropy and mse of a histogram of |x| that grows batch by batch; one sample is one
 * batch.
 *
 * Growth as in its torch branch, which is the default there; `-numpy` rows as in the
 * other one.  scale = amax / qmax, whatever qmin is: pytorch-quantization's grid is
 * narrow.
 * Source   docs/evidence/observers.md */
#include <assert.h>
#include <math.h>

#include "engine/calib/kl.h"
#include "engine/calib/mse.h"
#include "engine/calib/observer_parts.h"

/* Codes below zero are not used. */
static bool is_unsigned(const qg_observe *o) { return o->scheme->qmin >= 0; }

/* The only per-channel row. */
static qg_status max_finish(qg_ctx *ctx, const qg_observe *o, const void *state,
                            qg_arena *scratch, qg_found *out)
{
    const qg_extent *e = state;
    (void)ctx;
    (void)scratch;
    for (size_t c = 0; c < o->channels; c++)
        qg_found_scale(o, out, c,
                       fmax(fabs((double)e[c].low), fabs((double)e[c].high)) /
                           (double)o->scheme->qmax);
    return QG_OK;
}

const qg_observer qg_observer_nvidia_max = {
    .name = "nvidia-max",
    .summary = "pytorch-quantization: largest |x| of all samples",
    .source = "docs/evidence/observers.md#other-observers; MaxCalibrator",
    .per_channel = true,
    .policy = QG_LINEAR | QG_SYMMETRIC,
    .value = { [QG_PARAM_MIN_SCALE] = 1e-8 },
    QG_MINMAX_STATE,
    .finish = max_finish,
};

static void growth_begin(const qg_observe *o, void *state)
{
    *(qg_histogram_growth *)state =
        (qg_histogram_growth){ .type = QG_EDGE_GROWN, .bins = qg_binned_bins(o) };
}

typedef qg_status growing(qg_ctx *ctx, qg_arena *a, qg_histogram_growth *g,
                          const float *x, size_t n);

static qg_status growth_see(qg_ctx *ctx, const qg_observe *o, qg_histogram_growth *g,
                            const qg_tensor *x, qg_arena *scratch, growing *add)
{
    const float *flat;
    assert(o->keep && o->channels == 1);
    QG_TRY(qg_observe_flat(ctx, o, x, scratch, &flat));
    return add(ctx, o->keep, g, flat, (size_t)qg_tensor_count(x));
}

static qg_status torch_see(qg_ctx *ctx, const qg_observe *o, void *state, size_t sample,
                           const qg_tensor *x, qg_arena *scratch)
{
    (void)sample; /* the caller adds it to the message */
    return growth_see(ctx, o, state, x, scratch, qg_histogram_add_torch);
}

static qg_status numpy_see(qg_ctx *ctx, const qg_observe *o, void *state, size_t sample,
                           const qg_tensor *x, qg_arena *scratch)
{
    (void)sample;
    return growth_see(ctx, o, state, x, scratch, qg_histogram_add_absolute);
}

static void found_amax(const qg_observe *o, double amax, qg_found *out)
{
    assert(amax >= 0 && o->scheme->qmax > 0);
    qg_found_scale(o, out, 0, amax / (double)o->scheme->qmax);
}

/* The left edge of the bin in which the running sum reaches the fraction. */
static qg_status percentile_finish(qg_ctx *ctx, const qg_observe *o, const void *state,
                                   qg_arena *scratch, qg_found *out)
{
    const qg_histogram_growth *g = state;
    (void)scratch;
    double p = qg_observe_value(o, QG_PARAM_PERCENTILE), amax = 0;
    if (g->h.bins > 0) {
        QG_TRY(qg_histogram_check(ctx, "percentile", &g->h));
        amax = p < 1 ? g->h.edge[qg_histogram_quantile(&g->h, p)]
                     : fmax(fabs(g->min), fabs(g->max));
    }
    found_amax(o, amax, out);
    return QG_OK;
}

/* The last of equal minima, by qg_kl_search; levels as in the source: 2^(bits - 1), or
 * 2^bits for codes without sign. */
static qg_status entropy_finish(qg_ctx *ctx, const qg_observe *o, const void *state,
                                qg_arena *scratch, qg_found *out)
{
    const qg_histogram_growth *g = state;
    qg_kl k = { .variant = QG_KL_NVIDIA,
                .levels = (size_t)1 << (o->scheme->bits - !is_unsigned(o)),
                .start = (size_t)qg_observe_value(o, QG_PARAM_FIRST_BIN),
                .stride = (size_t)qg_observe_value(o, QG_PARAM_BIN_STRIDE) };
    qg_range_choice c = { 0 };
    if (g->h.bins > 0)
        QG_TRY(qg_kl_choose(ctx, scratch, &k, &g->h, o->curve, &c));
    found_amax(o, c.high, out);
    return QG_OK;
}

/* The center of the best bin; codes as the source has them, +-(2^(bits - 1) - 1). */
static qg_status mse_finish(qg_ctx *ctx, const qg_observe *o, const void *state,
                            qg_arena *scratch, qg_found *out)
{
    const qg_histogram_growth *g = state;
    qg_mse m = { .bits = o->scheme->bits,
                 .is_unsigned = is_unsigned(o),
                 .start = (size_t)qg_observe_value(o, QG_PARAM_FIRST_BIN) };
    qg_range_choice c = { 0 };
    if (g->h.bins > 0)
        QG_TRY(qg_mse_nvidia(ctx, scratch, &m, &g->h, NULL, &c));
    found_amax(o, c.high, out);
    return QG_OK;
}

#define GROWTH                                                                         \
    .ordered = true, .passes = 1, .policy = QG_LINEAR | QG_SYMMETRIC,                  \
    .size = sizeof(qg_histogram_growth), .begin = growth_begin
#define HISTOGRAM [QG_PARAM_BINS] = 2048, [QG_PARAM_MIN_SCALE] = 1e-8
#define ENTROPY                                                                        \
    {                                                                                  \
        HISTOGRAM, [QG_PARAM_FIRST_BIN] = 128, [QG_PARAM_BIN_STRIDE] = 1               \
    }

const qg_observer qg_observer_nvidia_percentile = {
    .name = "nvidia-percentile",
    .summary = "pytorch-quantization: upper edge of the bin that reaches the fraction",
    .source = "docs/evidence/observers.md#percentiles; torch branch",
    .value = {HISTOGRAM, [QG_PARAM_PERCENTILE] = 0.9999},
    GROWTH,
    .see = torch_see,
    .finish = percentile_finish,
};

const qg_observer qg_observer_nvidia_percentile_numpy = {
    .name = "nvidia-percentile-numpy",
    .summary = "nvidia-percentile with numpy's histogram bins",
    .source = "docs/evidence/observers.md#percentiles; numpy branch",
    .value = {HISTOGRAM, [QG_PARAM_PERCENTILE] = 0.9999},
    GROWTH,
    .see = numpy_see,
    .finish = percentile_finish,
};

const qg_observer qg_observer_nvidia_entropy = {
    .name = "nvidia-entropy",
    .summary = "pytorch-quantization and TensorRT: minimum KL divergence of the kept "
               "bins",
    .source = "docs/evidence/observers.md#pytorch-quantization; torch branch",
    .fails = "two-valued data, as scores: may clip nearly all of them "
             "(docs/calibration.md#clipped)",
    .value = ENTROPY,
    GROWTH,
    .see = torch_see,
    .finish = entropy_finish,
};

const qg_observer qg_observer_nvidia_entropy_numpy = {
    .name = "nvidia-entropy-numpy",
    .summary = "nvidia-entropy with numpy's histogram bins",
    .source = "docs/evidence/observers.md#pytorch-quantization; numpy branch",
    .fails = "two-valued data, as scores: may clip nearly all of them "
             "(docs/calibration.md#clipped)",
    .value = ENTROPY,
    GROWTH,
    .see = numpy_see,
    .finish = entropy_finish,
};

const qg_observer qg_observer_nvidia_mse = {
    .name = "nvidia-mse",
    .summary = "pytorch-quantization: bin centre with the least squared error",
    .source = "docs/evidence/observers.md#pytorch-quantization-mse; torch branch",
    .value = {HISTOGRAM, [QG_PARAM_FIRST_BIN] = 128},
    GROWTH,
    .see = torch_see,
    .finish = mse_finish,
};

const qg_observer qg_observer_nvidia_mse_numpy = {
    .name = "nvidia-mse-numpy",
    .summary = "nvidia-mse with numpy's histogram bins",
    .source = "docs/evidence/observers.md#pytorch-quantization-mse; numpy branch",
    .value = {HISTOGRAM, [QG_PARAM_FIRST_BIN] = 128},
    GROWTH,
    .see = numpy_see,
    .finish = mse_finish,
};

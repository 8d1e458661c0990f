/* observer_ort.c -- the calibrators of onnxruntime.quantization.
 *
 * quantize_static hands all samples to a calibrator at once, as one batch: minmax,
 * average, percentile, entropy and distribution do the same, the last three with a
 * second pass for the bins.  Called once per sample (CalibStridedMinMax, or a reader
 * that is emptied bit by bit) histograms grow and averages move: the `-stream` rows and
 * moving-average, which need the samples in order.
 *
 * Under a symmetric scheme percentile takes |x| (CalibTensorRangeSymmetric).
 * Scales of integers are those of compute_scale_zp; of E4M3FN those of
 * compute_scale_zp_float8.
 * Source   docs/evidence/observers.md; onnxruntime 1.31.1 with numpy 2, by behaviour */
#include <assert.h>
#include <float.h>
#include <math.h>

#include "engine/number/format.h"
#include "engine/calib/ort.h"
#include "engine/calib/observer_parts.h"

/* ONNX Runtime's own scale where it has one, else the range.  Its symmetric unsigned
 * grid is centred on code 128, which a symmetric scheme with codes from 0 is not. */
static qg_status found_range(qg_ctx *ctx, const qg_observe *o, double low, double high,
                             qg_found *out)
{
    const qg_scheme *s = o->scheme;
    float scale;
    int32_t zero;
    qg_ort_grid g = { (int32_t)s->qmin, (int32_t)s->qmax, qg_observe_symmetric(o), 0 };
    out->low[0] = low;
    out->high[0] = high;
    if (!(s->policy & QG_LINEAR) || (s->policy & QG_POWER_OF_2) || s->bits > 24 ||
        (qg_observe_symmetric(o) && s->qmin >= 0))
        return QG_OK;
    QG_TRY(qg_ort_scale_zero(ctx, &g, (float)low, (float)high, &scale, &zero));
    qg_found_scale(o, out, 0, (double)scale);
    out->offset[0] = zero;
    return QG_OK;
}

/* --- minmax and averages --- */

static qg_status minmax_finish(qg_ctx *ctx, const qg_observe *o, const void *state,
                               qg_arena *scratch, qg_found *out)
{
    const qg_extent *e = state;
    (void)scratch;
    return found_range(ctx, o, (double)e->low, (double)e->high, out);
}

/* In sample order, in float32. */
typedef struct average {
    float low, high;
    uint32_t n;
} average;

static qg_status average_see(qg_ctx *ctx, const qg_observe *o, void *state,
                             size_t sample, const qg_tensor *x, qg_arena *scratch)
{
    average *a = state;
    qg_extent e = { INFINITY, -INFINITY, false };
    (void)scratch;
    QG_TRY(qg_extent_widen(ctx, o, sample, x, &e));
    assert(e.low <= e.high);
    a->low += e.low;
    a->high += e.high;
    a->n++;
    return QG_OK;
}

/* float32 division, as numpy.nanmean of float32. */
static qg_status average_finish(qg_ctx *ctx, const qg_observe *o, const void *state,
                                qg_arena *scratch, qg_found *out)
{
    const average *a = state;
    (void)scratch;
    assert(a->n > 0);
    return found_range(ctx, o, (double)(a->low / (float)a->n),
                       (double)(a->high / (float)a->n), out);
}

/* The first sample counts fully; then range += averaging * (sample - range). */
static qg_status moving_see(qg_ctx *ctx, const qg_observe *o, void *state,
                            size_t sample, const qg_tensor *x, qg_arena *scratch)
{
    average *a = state;
    qg_extent e = { INFINITY, -INFINITY, false };
    (void)scratch;
    QG_TRY(qg_extent_widen(ctx, o, sample, x, &e));
    float weight = a->n ? (float)qg_observe_value(o, QG_PARAM_AVERAGING) : 1;
    a->low += weight * (e.low - a->low);
    a->high += weight * (e.high - a->high);
    a->n++;
    return QG_OK;
}

static qg_status moving_finish(qg_ctx *ctx, const qg_observe *o, const void *state,
                               qg_arena *scratch, qg_found *out)
{
    const average *a = state;
    (void)scratch;
    assert(a->n > 0 && a->low <= a->high);
    return found_range(ctx, o, (double)a->low, (double)a->high, out);
}

#define ORT_SCALE [QG_PARAM_MIN_SCALE] = (double)FLT_MIN

const qg_observer qg_observer_ort_minmax = {
    .name = "ort-minmax",
    .summary = "ONNX Runtime: smallest and largest value of all samples",
    .source = "onnxruntime.quantization.MinMaxCalibrater",
    .value = { ORT_SCALE },
    QG_MINMAX_STATE,
    .finish = minmax_finish,
};

const qg_observer qg_observer_ort_average = {
    .name = "ort-average",
    .summary = "ONNX Runtime: mean of the samples' smallest and largest values",
    .source = "MinMaxCalibrater(moving_average=True), all samples at once",
    .ordered = true,
    .passes = 1,
    .value = { ORT_SCALE },
    .size = sizeof(average),
    .see = average_see,
    .finish = average_finish,
};

const qg_observer qg_observer_ort_moving_average = {
    .name = "ort-moving-average",
    .summary = "ONNX Runtime: moving average of smallest and largest values",
    .source = "MinMaxCalibrater(moving_average=True), sample by sample",
    .ordered = true,
    .passes = 1,
    .value = {ORT_SCALE, [QG_PARAM_AVERAGING] = 0.01},
    .size = sizeof(average),
    .see = moving_see,
    .finish = moving_finish,
};

/* --- from a histogram to a range --- */

/* How a row reads its histogram; low and high are the smallest and largest sample. */
typedef qg_status reading(qg_ctx *ctx, const qg_observe *o, const qg_histogram *h,
                          qg_arena *scratch, qg_range_choice *c);

/* To the samples seen.  A bin of one value may begin beyond it: then low is above high,
 * and the range is what it is with zero, which ONNX Runtime adds to it. */
static void clip(qg_range_choice *found, const qg_range_choice *seen)
{
    qg_ort_clip(found, seen->low, seen->high);
    if (found->low > found->high) {
        found->low = fmin(found->low, 0);
        found->high = fmax(found->high, 0);
    }
}

/* 0.99999 as 99.999 exactly. */
static double percent(const qg_observe *o)
{
    return rint(qg_observe_value(o, QG_PARAM_PERCENTILE) * 1e12) / 1e10;
}

static qg_status read_percentile(qg_ctx *ctx, const qg_observe *o,
                                 const qg_histogram *h, qg_arena *scratch,
                                 qg_range_choice *c)
{
    qg_range_choice found;
    (void)scratch;
    QG_TRY(qg_ort_percentile(ctx, h, percent(o), qg_observe_symmetric(o), &found));
    clip(&found, c);
    *c = found;
    return QG_OK;
}

/* The window of least divergence, cut to the range seen. */
static qg_status read_entropy(qg_ctx *ctx, const qg_observe *o, const qg_histogram *h,
                              qg_arena *scratch, qg_range_choice *c)
{
    qg_range_choice found;
    size_t levels = (size_t)qg_observe_value(o, QG_PARAM_LEVELS);
    QG_TRY(qg_ort_entropy(ctx, scratch, h, levels, NULL, &found));
    clip(&found, c);
    *c = found;
    return QG_OK;
}

/* The standard deviation of all finite codes of E4M3FN. */
static float float8_deviation(void)
{
    double sum = 0;
    int n = 0;
    for (int code = 0; code < 256; code++) {
        double v = (double)qg_small_to_f32(QG_F8E4M3FN, (uint8_t)code);
        if (!isfinite(v))
            continue;
        sum += v * v; /* the mean is 0 */
        n++;
    }
    assert(n == 254); /* all but two NaN */
    return (float)sqrt(sum / n);
}

/* Of sign(x) |x|^power over bin middles, in ONNX Runtime's types; c->loss is it. */
static qg_status read_deviation(qg_ctx *ctx, const qg_observe *o, const qg_histogram *h,
                                qg_arena *scratch, qg_range_choice *c)
{
    double power = qg_observe_value(o, QG_PARAM_POWER), sum = 0, squares = 0;
    double total = (double)qg_histogram_total(h);
    (void)scratch;
    QG_TRY(qg_histogram_check(ctx, "ort-distribution", h));
    for (size_t j = 0; j < h->bins; j++) {
        float v = ((float)h->edge[j] + (float)h->edge[j + 1]) * 0.5f;
        if (power != 1)
            v = copysignf((float)pow(fabs((double)v), power), v);
        sum += (double)h->count[j] * (double)v;
        squares += (double)h->count[j] * (double)(v * v);
    }
    double mean = sum / total;
    c->loss = (double)(float)sqrt(fmax(squares / total - mean * mean, 0));
    return QG_OK;
}

static qg_status found_deviation(const qg_observe *o, double deviation, qg_found *out)
{
    qg_found_scale(o, out, 0, (double)((float)deviation / float8_deviation()));
    return QG_OK;
}

static bool is_deviation(const qg_observe *o)
{
    return o->observer->value[QG_PARAM_POWER] != 0;
}

/* A row is identified by its parameters. */
static reading *reading_of(const qg_observe *o)
{
    return is_deviation(o)                            ? read_deviation
           : o->observer->value[QG_PARAM_LEVELS] != 0 ? read_entropy
                                                      : read_percentile;
}

static qg_status found_choice(qg_ctx *ctx, const qg_observe *o,
                              const qg_range_choice *c, qg_found *out)
{
    return is_deviation(o) ? found_deviation(o, c->loss, out)
                           : found_range(ctx, o, c->low, c->high, out);
}

/* Only percentile has a symmetric form of its own. */
static bool counts_absolute(const qg_observe *o)
{
    return o->observer->value[QG_PARAM_PERCENTILE] != 0 && qg_observe_symmetric(o);
}

/* --- all samples at once --- */

/* numpy's edges, in o->keep: |x| over [least, largest], x over [-T, T]. */
static qg_status batch_next(qg_ctx *ctx, const qg_observe *o, void *state)
{
    qg_binned *b = state;
    assert(o->pass == 1 && o->keep && b->all.low <= b->all.high);
    double top = qg_binned_absmax(b);
    double low = counts_absolute(o) ? (double)b->least : -top;
    qg_histogram h = { .bins = qg_binned_bins(o) };
    QG_TRY(qg_histogram_uniform(ctx, o->keep, QG_EDGE_F32, low, top, &h));
    b->edge = h.edge;
    return QG_OK;
}

/* Edges are shared by all workers, counts are the worker's. */
static void batch_count(const qg_observe *o, qg_binned *b, const float *x, int64_t n,
                        int64_t stride)
{
    qg_histogram h = { qg_binned_bins(o), b->count, (double *)b->edge };
    qg_histogram_run e = { x, n, stride, counts_absolute(o) };
    qg_histogram_count(QG_EDGE_F32, &h, e);
}

static qg_status batch_see(qg_ctx *ctx, const qg_observe *o, void *state, size_t sample,
                           const qg_tensor *x, qg_arena *scratch)
{
    (void)scratch;
    return qg_binned_see(ctx, o, state, sample, x, batch_count);
}

static qg_status batch_finish(qg_ctx *ctx, const qg_observe *o, const void *state,
                              qg_arena *scratch, qg_found *out)
{
    const qg_binned *b = state;
    qg_range_choice c = { .low = (double)b->all.low, .high = (double)b->all.high };
    qg_histogram h = { qg_binned_bins(o), (int64_t *)b->count, (double *)b->edge };
    QG_TRY(reading_of(o)(ctx, o, &h, scratch, &c));
    return found_choice(ctx, o, &c, out);
}

/* --- sample by sample --- */

static void stream_begin(const qg_observe *o, void *state)
{
    *(qg_histogram_growth *)state =
        (qg_histogram_growth){ .type = QG_EDGE_F32, .bins = qg_binned_bins(o) };
}

/* The histogram grows in o->keep; its old arrays stay there until finish. */
static qg_status stream_see(qg_ctx *ctx, const qg_observe *o, void *state,
                            size_t sample, const qg_tensor *x, qg_arena *scratch)
{
    qg_extent e = { INFINITY, -INFINITY, false };
    const float *flat;
    size_t n = (size_t)qg_tensor_count(x);
    QG_TRY(qg_extent_widen(ctx, o, sample, x, &e));
    QG_TRY(qg_observe_flat(ctx, o, x, scratch, &flat));
    return counts_absolute(o) ? qg_histogram_add_absolute(ctx, o->keep, state, flat, n)
                              : qg_histogram_add_signed(ctx, o->keep, state, flat, n);
}

static qg_status stream_finish(qg_ctx *ctx, const qg_observe *o, const void *state,
                               qg_arena *scratch, qg_found *out)
{
    const qg_histogram_growth *g = state;
    qg_range_choice c = { .low = g->min, .high = g->max };
    QG_TRY(reading_of(o)(ctx, o, &g->h, scratch, &c));
    return found_choice(ctx, o, &c, out);
}

#define BATCH                                                                          \
    .passes = 2, .bytes = qg_binned_bytes, .begin = qg_binned_begin, .see = batch_see, \
    .merge = qg_binned_merge, .next = batch_next, .finish = batch_finish
#define STREAM                                                                         \
    .passes = 1, .ordered = true, .size = sizeof(qg_histogram_growth),                 \
    .begin = stream_begin, .see = stream_see, .finish = stream_finish
#define PERCENTILE                                                                     \
    {                                                                                  \
        ORT_SCALE, [QG_PARAM_PERCENTILE] = 0.99999, [QG_PARAM_BINS] = 2048             \
    }
#define ENTROPY                                                                        \
    {                                                                                  \
        ORT_SCALE, [QG_PARAM_LEVELS] = 128, [QG_PARAM_BINS] = 128                      \
    }
#define DISTRIBUTION                                                                   \
    {                                                                                  \
        ORT_SCALE, [QG_PARAM_POWER] = 1, [QG_PARAM_BINS] = 2048                        \
    }

const qg_observer qg_observer_ort_percentile = {
    .name = "ort-percentile",
    .summary = "ONNX Runtime: bin edges that contain a fraction of all samples",
    .source = "onnxruntime.quantization.PercentileCalibrater",
    .value = PERCENTILE,
    BATCH,
};

const qg_observer qg_observer_ort_percentile_stream = {
    .name = "ort-percentile-stream",
    .summary = "ort-percentile with a histogram extended sample by sample",
    .source = "PercentileCalibrater.collect_data per sample",
    .value = PERCENTILE,
    STREAM,
};

const qg_observer qg_observer_ort_entropy = {
    .name = "ort-entropy",
    .summary = "ONNX Runtime: window of bins with minimum KL divergence",
    .source = "onnxruntime.quantization.EntropyCalibrater",
    .fails =
        "its defaults: 128 bins for 128 levels leave one threshold, that of minmax",
    .value = ENTROPY,
    BATCH,
};

const qg_observer qg_observer_ort_entropy_stream = {
    .name = "ort-entropy-stream",
    .summary = "ort-entropy with a histogram extended sample by sample",
    .source = "EntropyCalibrater.collect_data per sample",
    .value = ENTROPY,
    STREAM,
};

const qg_observer qg_observer_ort_distribution = {
    .name = "ort-distribution",
    .summary = "ONNX Runtime: standard deviation over that of E4M3FN values",
    .source = "onnxruntime.quantization.DistributionCalibrater",
    .policy = QG_FLOATING,
    .value = DISTRIBUTION,
    BATCH,
};

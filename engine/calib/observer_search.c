/* observer_search.c -- observers that try thresholds on a histogram: divergence and
 * squared error.
 *
 *     kl        the threshold whose quantized distribution diverges least, every bin
 *               tried (calib/kl.h).  A histogram with fewer bins than levels does not
 *               determine a threshold: the range is then that of the data.
 *     mse       the range whose grid, as the scheme makes it from the range, is nearest
 *               to the data.  Symmetric or one-sided: every threshold, at most `bins`.
 *               Asymmetric: every high end, then every low end, again until neither
 *               moves.
 *     floating  the scale of a short list that is nearest to the data
 *
 * Source   each row names its own */
#include <assert.h>
#include <math.h>

#include "engine/calib/kl.h"
#include "engine/calib/derive.h"
#include "engine/quant/fake_kernel.h"

static void range_of(const qg_distribution *d, double threshold, qg_found *out)
{
    double least = (double)d->all.low, most = (double)d->all.high;
    *out->low = fmin(fmax(-threshold, least), most);
    *out->high = fmax(fmin(threshold, most), *out->low);
}

/* --- kl --- */

/* Codes on the side of zero where the data are: 2^bits when all of them are there, as
 * in an asymmetric grid of one-sided data and in one that begins at 0. */
static size_t levels_of(const qg_scheme *s, const qg_distribution *d)
{
    bool one_sided = d->all.low >= 0 || d->all.high <= 0;
    bool all = s->policy & QG_ASYMMETRIC ? one_sided : s->qmin >= 0;
    unsigned bits = s->bits - (all ? 0u : 1u);
    return bits < 24 ? (size_t)1 << bits : (size_t)1 << 24;
}

static qg_status kl(qg_ctx *ctx, qg_kl_variant variant, const qg_observe *o,
                    const qg_distribution *d, qg_arena *scratch, qg_found *out)
{
    qg_histogram h;
    assert(d->bins);
    qg_range_choice best = { .high = INFINITY };
    size_t bins = (size_t)qg_observe_value(o, QG_PARAM_BINS);
    qg_kl k = { .variant = variant,
                .levels = levels_of(o->scheme, d),
                .start = (size_t)qg_observe_value(o, QG_PARAM_FIRST_BIN),
                .stride = (size_t)qg_observe_value(o, QG_PARAM_BIN_STRIDE) };
    double top = fmax(-(double)d->all.low, (double)d->all.high);
    QG_TRY(qg_dyadic_absolute(ctx, scratch, d->bins, top, bins, &h));
    if (k.levels < h.bins && k.start <= h.bins)
        QG_TRY(qg_kl_choose(ctx, scratch, &k, &h, o->curve, &best));
    range_of(d, best.high, out);
    return QG_OK;
}

/* Elements per bin that a threshold takes, by measurement: below, the grid of the range
 * of the data leaves less noise (docs/calibration.md#few-elements). */
enum { KL_PER_BIN = 16, MSE_PER_BIN = 4 };

static uint64_t kl_least(const qg_observe *o)
{
    return KL_PER_BIN * (uint64_t)qg_observe_value(o, QG_PARAM_BINS);
}

static uint64_t mse_least(const qg_observe *o)
{
    return MSE_PER_BIN * (uint64_t)qg_observe_value(o, QG_PARAM_BINS);
}

static qg_status kl_pick(qg_ctx *ctx, const qg_observe *o, const qg_distribution *d,
                         qg_arena *scratch, qg_found *out)
{
    return kl(ctx, QG_KL_WHOLE, o, d, scratch, out);
}

static qg_status published_pick(qg_ctx *ctx, const qg_observe *o,
                                const qg_distribution *d, qg_arena *scratch,
                                qg_found *out)
{
    return kl(ctx, QG_KL_SEED_PUBLISHED, o, d, scratch, out);
}

/* clang-format off */
#define KL_VALUES                                                              \
    { [QG_PARAM_BINS] = 2048, [QG_PARAM_FIRST_BIN] = 128, [QG_PARAM_BIN_STRIDE] = 1,   \
      [QG_PARAM_MIN_SCALE] = 1e-8 }
/* clang-format on */

const qg_observer qg_observer_kl = {
    .name = "kl",
    .summary = "minimum KL divergence, as in TensorRT and pytorch-quantization",
    .source = "docs/evidence/observers.md#pytorch-quantization",
    .fails = "asymmetric grids: up to 3.8 times the noise of percentile; minmax below "
             "16 elements per bin (docs/calibration.md)",
    .per_channel = true,
    .passes = 1,
    .policy = QG_LINEAR,
    .value = KL_VALUES,
    .reads = QG_STATS_HISTOGRAM,
    .pick = kl_pick,
    .least = kl_least,
};

const qg_observer qg_observer_kl_published = {
    .name = "kl-published",
    .summary =
        "kl by the published script, which modifies the histogram between candidates; "
        "for comparison only",
    .source = "docs/evidence/observers.md#pytorch-quantization (kl-published)",
    .fails = "clips normal data at 2.1 sigma: 105 times the noise of kl",
    .per_channel = true,
    .passes = 1,
    .policy = QG_LINEAR,
    .value = KL_VALUES,
    .reads = QG_STATS_HISTOGRAM,
    .pick = published_pick,
};

/* --- squared error --- */

/* Points of weight n at the middles of bins, zeros left out: every grid holds 0.  Bins
 * coarser than these would come in step with the grids that are tried. */
typedef struct points {
    size_t n;
    double width, first;        /* between middles; the first middle */
    double *weight;             /* [n] */
    double *sum0, *sum1, *sum2; /* [n + 1] prefix sums of weight, times x, times x^2 */
} points;

/* Prefix sums make the error of any cell a matter of two lookups. */
static qg_status open_points(qg_ctx *ctx, const qg_distribution *d, qg_arena *a,
                             points *out)
{
    qg_dyadic h;
    assert(d->bins);
    uint32_t i, end, bins = d->bins->bins;
    QG_TRY(qg_dyadic_new(ctx, a, bins, &h));
    qg_dyadic_merge(&h, d->bins);
    h.count[bins / 2] -= d->all.zeros;
    qg_dyadic_span(&h, &i, &end);
    size_t n = end - i;
    double *sum = QG_NEWN(a, 3 * (n + 1), double);
    double *weight = QG_NEWN(a, n, double);
    if (!sum || !weight)
        return qg_nomem(ctx);
    *out = (points){ .n = n,
                     .width = ldexp(1, h.exponent),
                     .first = qg_dyadic_edge(&h, i) + ldexp(0.5, h.exponent),
                     .weight = weight,
                     .sum0 = sum,
                     .sum1 = sum + n + 1,
                     .sum2 = sum + 2 * (n + 1) };
    for (size_t k = 0; k < n; k++) {
        double w = (double)h.count[i + k], x = out->first + (double)k * out->width;
        out->weight[k] = w;
        out->sum0[k + 1] = out->sum0[k] + w;
        out->sum1[k + 1] = out->sum1[k] + w * x;
        out->sum2[k + 1] = out->sum2[k] + w * x * x;
    }
    return QG_OK;
}

/* Squared error of points [from, to) at value v. */
static double cell(const points *p, size_t from, size_t to, double v)
{
    assert(from < to && to <= p->n);
    double s0 = p->sum0[to] - p->sum0[from], s1 = p->sum1[to] - p->sum1[from];
    return fmax(p->sum2[to] - p->sum2[from] - 2 * v * s1 + v * v * s0, 0);
}

/* First point at or above x. */
static size_t point_at(const points *p, double x)
{
    double at = ceil((x - p->first) / p->width);
    return at <= 0 ? 0 : at >= (double)p->n ? p->n : (size_t)at;
}

/* A grid finer than the points, whose positions then carry no information: elements are
 * spread evenly within a step, which gives step^2 / 12 each. */
static double point_error(const points *p, const qg_scheme *s, double scale,
                          double offset)
{
    double low = ((double)s->qmin - offset) * scale, error = 0;
    double high = ((double)s->qmax - offset) * scale, inside = scale * scale / 12;
    assert(low <= high);
    for (size_t k = 0; k < p->n; k++) {
        double x = p->first + (double)k * p->width;
        double e = x > high ? x - high : x < low ? low - x : 0;
        error += p->weight[k] * (e * e + inside);
    }
    return error;
}

/* Cell by cell; which neighbour a point on an edge belongs to does not change its
 * error. */
static double linear_error(const points *p, const qg_scheme *s, double scale,
                           double offset)
{
    double low = (double)s->qmin - offset, high = (double)s->qmax - offset, error = 0;
    if (scale < p->width)
        return point_error(p, s, scale, offset);
    double q = fmin(fmax(rint(p->first / scale), low), high);
    for (size_t from = 0; from < p->n; q++) {
        size_t to = q < high ? point_at(p, (q + 0.5) * scale) : p->n;
        if (to > from)
            error += cell(p, from, to, q * scale);
        from = to > from ? to : from;
    }
    return error;
}

/* Floating grids have no even cells: every point is rounded. */
static double floating_error(const points *p, const qg_scheme *s, float scale)
{
    qg_floating f;
    double error = 0;
    qg_floating_init(&f, s, scale);
    for (size_t k = 0; k < p->n; k++) {
        double x = p->first + (double)k * p->width;
        double e = x - (double)qg_floating_define(&f, (float)x);
        error += p->weight[k] * e * e;
    }
    return error;
}

/* The candidates, and the best one. */
typedef struct search {
    const qg_observe *o;
    const points *p;
    double least;
    float scale; /* of the last range that was tried, and its error */
    int32_t offset;
    double error;
} search;

/* The error of the grid that the scheme makes from this range. */
static double error_of(search *s, double low, double high)
{
    float scale;
    int32_t offset;
    assert(low <= high);
    qg_scheme_from_range(s->o->scheme, (qg_range){ low, high, s->least, 0 }, &scale,
                         &offset);
    if (scale == s->scale && offset == s->offset)
        return s->error;
    s->scale = scale;
    s->offset = offset;
    s->error = s->o->scheme->policy & QG_FLOATING
                   ? floating_error(s->p, s->o->scheme, scale)
                   : linear_error(s->p, s->o->scheme, (double)scale, (double)offset);
    return s->error;
}

/* Fractions of a side that are tried: from all of it down to an n-th. */
typedef struct side {
    double whole; /* the end of the data */
    size_t n;     /* bins between it and 0, at most the observer's parameter */
} side;

static side side_of(const points *p, double whole, double most)
{
    double n = fmin(ceil(fabs(whole) / p->width), most);
    return (side){ whole, n > 1 ? (size_t)n : 1 };
}

static double end_at(const side *d, size_t k)
{
    assert(k < d->n);
    return d->whole * (double)(d->n - k) / (double)d->n;
}

/* From the widest on, so that among equals the widest wins: it clips least. */
static double best_symmetric(search *s, const side *d)
{
    double best = d->whole, least = INFINITY;
    for (size_t k = 0; k < d->n; k++) {
        double error = error_of(s, -end_at(d, k), end_at(d, k));
        if (error < least) {
            least = error;
            best = end_at(d, k);
        }
    }
    return best;
}

/* The other end stays at `other`. */
static double best_end(search *s, const side *d, double other)
{
    double best = d->whole, least = INFINITY;
    for (size_t k = 0; k < d->n; k++) {
        double end = end_at(d, k);
        double error = error_of(s, fmin(end, other), fmax(end, other));
        if (error < least) {
            least = error;
            best = end;
        }
    }
    return best;
}

/* One end after the other, since trying all pairs would take a second per tensor.  The
 * error falls in every round, so this ends; mostly after two. */
static void best_asymmetric(search *s, const qg_distribution *d, double most,
                            qg_found *out)
{
    enum { ROUNDS = 16 };
    double low = fmin((double)d->all.low, 0), high = fmax((double)d->all.high, 0);
    side below = side_of(s->p, low, most), above = side_of(s->p, high, most);
    for (int round = 0; round < ROUNDS; round++) {
        double h = high > 0 ? best_end(s, &above, low) : 0;
        double l = low < 0 ? best_end(s, &below, h) : 0;
        bool same = h == high && l == low && round > 0;
        high = h;
        low = l;
        if (same || below.whole == 0 || above.whole == 0)
            break;
    }
    *out->low = low;
    *out->high = high;
}

static qg_status mse_pick(qg_ctx *ctx, const qg_observe *o, const qg_distribution *d,
                          qg_arena *scratch, qg_found *out)
{
    points p;
    double low = (double)d->all.low, high = (double)d->all.high;
    double bins = qg_observe_value(o, QG_PARAM_BINS);
    QG_TRY(open_points(ctx, d, scratch, &p));
    search s = { .o = o, .p = &p, .least = qg_observe_value(o, QG_PARAM_MIN_SCALE) };
    if (p.n == 0) { /* zeros only */
        range_of(d, INFINITY, out);
    } else if (o->scheme->policy & QG_SYMMETRIC) {
        side all = side_of(&p, fmax(fabs(low), fabs(high)), bins);
        range_of(d, best_symmetric(&s, &all), out);
    } else {
        best_asymmetric(&s, d, bins, out);
    }
    return QG_OK;
}

const qg_observer qg_observer_mse = {
    .name = "mse",
    .summary = "least squared error of the grid, over all bin edges",
    .source = "docs/evidence/observers.md#mse",
    .per_channel = true,
    .passes = 1,
    .value = {[QG_PARAM_BINS] = 2048, [QG_PARAM_MIN_SCALE] = 1e-8},
    .reads = QG_STATS_HISTOGRAM,
    .pick = mse_pick,
    .least = mse_least,
};

/* --- floating --- */

static qg_status floating_pick(qg_ctx *ctx, const qg_observe *o,
                               const qg_distribution *d, qg_arena *scratch,
                               qg_found *out)
{
    static const float candidate[] = { 0x1p-7f, 0x1p-5f, 0x1p-3f, 1, 4, 16, 64 };
    points p;
    double least = INFINITY;
    QG_TRY(open_points(ctx, d, scratch, &p));
    out->is_param = true;
    *out->offset = 0;
    for (size_t k = 0; k < sizeof candidate / sizeof candidate[0]; k++) {
        double error = floating_error(&p, o->scheme, candidate[k]);
        if (error < least) {
            least = error;
            *out->scale = candidate[k];
        }
    }
    assert(*out->scale > 0);
    return QG_OK;
}

const qg_observer qg_observer_floating = {
    .name = "floating",
    .summary = "of 7 scales from 1/128 to 64, the one with the least squared error",
    .source = "docs/evidence/observers.md#ppq-constant-and-floating, over all elements",
    .per_channel = true,
    .passes = 1,
    .policy = QG_FLOATING,
    .value = { [QG_PARAM_MIN_SCALE] = 1e-8 },
    .reads = QG_STATS_HISTOGRAM,
    .pick = floating_pick,
};

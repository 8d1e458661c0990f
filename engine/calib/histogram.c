/* Histograms of numpy and how they grow.
 *
 * float32 arithmetic is done in double and rounded after every operation: for + - * /
 * of float32 values that gives the float32 result, since 53 >= 2 * 24 + 2. */
#include "engine/calib/histogram.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "engine/calib/torch_bins.h"

enum { MOST_BINS = 1 << 24 };
#define MOST_COUNTED ((int64_t)1 << 53)

qg_status qg_histogram_check(qg_ctx *ctx, const char *what, const qg_histogram *h)
{
    int64_t total = 0;
    if (h->bins == 0 || h->bins > MOST_BINS)
        return qg_fail(ctx, QG_EDATA, "%s: %zu bins, expected 1 to %d", what, h->bins,
                       MOST_BINS);
    for (size_t j = 0; j < h->bins; j++) {
        if (h->count[j] < 0 || h->count[j] > MOST_COUNTED - total)
            return qg_fail(ctx, QG_EDATA,
                           "%s: bin %zu: count %lld after a total of %lld, expected "
                           "counts >= 0 and a total of at most 2^53",
                           what, j, (long long)h->count[j], (long long)total);
        total += h->count[j];
        if (!isfinite(h->edge[j + 1]) || !isfinite(h->edge[j]) ||
            h->edge[j] >= h->edge[j + 1])
            return qg_fail(ctx, QG_EDATA,
                           "%s: bin %zu is [%g, %g], expected finite edges that "
                           "increase",
                           what, j, h->edge[j], h->edge[j + 1]);
    }
    if (total == 0)
        return qg_fail(ctx, QG_EDATA, "%s: the histogram is empty, expected samples",
                       what);
    return QG_OK;
}

int64_t qg_histogram_total(const qg_histogram *h)
{
    int64_t total = 0;
    for (size_t j = 0; j < h->bins; j++)
        total += h->count[j];
    return total;
}

static qg_status allocate(qg_ctx *ctx, qg_arena *a, size_t bins, qg_histogram *h)
{
    qg_histogram fresh = { bins, QG_NEWN(a, bins, int64_t),
                           QG_NEWN(a, bins + 1, double) };
    if (!fresh.count || !fresh.edge)
        return qg_nomem(ctx);
    *h = fresh;
    return QG_OK;
}

qg_status qg_histogram_new(qg_ctx *ctx, qg_arena *a, size_t bins, double high,
                           qg_histogram *h)
{
    assert(bins > 0 && high > 0);
    QG_TRY(allocate(ctx, a, bins, h));
    for (size_t k = 0; k <= bins; k++)
        h->edge[k] = (double)k * (high / (double)bins);
    return QG_OK;
}

size_t qg_histogram_quantile(const qg_histogram *h, double fraction)
{
    double total = (double)qg_histogram_total(h), sum = 0;
    for (size_t j = 0; j < h->bins; j++) {
        sum += (double)h->count[j] / total;
        if (sum >= fraction)
            return j;
    }
    return h->bins;
}

static double rounded(qg_edge_type t, double x)
{
    return t == QG_EDGE_F32 || t == QG_EDGE_GROWN ? (double)(float)x : x;
}

/* numpy.linspace(low, high, bins + 1); equal ends are moved apart by a half each. */
static void uniform_edges(qg_edge_type t, double low, double high, qg_histogram *h)
{
    if (low == high) {
        low = rounded(t, low - 0.5);
        high = rounded(t, high + 0.5);
    }
    double width = rounded(t, high - low);
    double step = rounded(t, width / (double)h->bins);
    for (size_t k = 0; k < h->bins; k++) {
        double along = step == 0
                           ? rounded(t, rounded(t, (double)k / (double)h->bins) * width)
                           : rounded(t, (double)k * step);
        h->edge[k] = rounded(t, along + low);
        if (t == QG_EDGE_ROUNDED)
            h->edge[k] = (double)(float)h->edge[k];
    }
    h->edge[h->bins] = high;
}

/* numpy's fast binning: computed, then corrected by one where rounding put it on the
 * wrong side of the stored edge. */
void qg_histogram_count(qg_edge_type t, const qg_histogram *h, qg_histogram_run e)
{
    double first = h->edge[0], last = h->edge[h->bins];
    double width = rounded(t, last - first);
    for (int64_t i = 0; i < e.n; i++) {
        double v = (double)e.x[i * e.stride];
        v = e.absolute ? fabs(v) : v;
        if (!(v >= first && v <= last))
            continue;
        double at = rounded(t, rounded(t, v - first) / width);
        double bin = rounded(t, at * (double)h->bins); /* NaN: the width is 0 or inf */
        size_t last_bin = h->bins - 1;
        size_t j = bin >= (double)last_bin ? last_bin : bin > 0 ? (size_t)bin : 0;
        if (v < h->edge[j])
            j -= j > 0;
        else if (v >= h->edge[j + 1] && j != h->bins - 1)
            j++;
        h->count[j]++;
    }
}

/* The bin of v in [edge[0], edge[bins]]. */
static size_t bin_of(const qg_histogram *h, double v)
{
    size_t low = 0, high = h->bins;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (v < h->edge[middle])
            high = middle;
        else
            low = middle;
    }
    return low;
}

struct extremes {
    double min, max, absmin, absmax;
};

static qg_status find_extremes(qg_ctx *ctx, const float *x, size_t n,
                               struct extremes *e)
{
    if (n == 0)
        return qg_fail(ctx, QG_EDATA, "histogram: an empty batch, expected samples");
    *e = (struct extremes){ INFINITY, -INFINITY, INFINITY, 0 };
    for (size_t i = 0; i < n; i++) {
        double v = (double)x[i];
        if (!isfinite(v))
            return qg_fail(ctx, QG_ENUMERIC,
                           "histogram: sample %zu is %g, expected "
                           "finite",
                           i, v);
        e->min = fmin(e->min, v);
        e->max = fmax(e->max, v);
        e->absmin = fmin(e->absmin, fabs(v));
        e->absmax = fmax(e->absmax, fabs(v));
    }
    return QG_OK;
}

static void note_extremes(qg_histogram_growth *g, const struct extremes *e, bool first)
{
    g->min = first ? e->min : fmin(g->min, e->min);
    g->max = first ? e->max : fmax(g->max, e->max);
}

static qg_status check_bins(qg_ctx *ctx, double bins)
{
    return bins >= 1 && bins <= MOST_BINS
               ? QG_OK
               : qg_fail(ctx, QG_ECONFIG, "histogram: %.0f bins, expected 1 to %d",
                         bins, MOST_BINS);
}

qg_status qg_histogram_uniform(qg_ctx *ctx, qg_arena *a, qg_edge_type type, double low,
                               double high, qg_histogram *h)
{
    assert(low <= high);
    QG_TRY(check_bins(ctx, (double)h->bins));
    QG_TRY(allocate(ctx, a, h->bins, h));
    uniform_edges(type, low, high, h);
    return QG_OK;
}

/* Appends numpy.arange(last + width, absmax + width, width) to the edges: its length
 * and first two values in their type, the rest from these in double. */
static qg_status append_edges(qg_ctx *ctx, qg_arena *a, qg_edge_type t,
                              const qg_histogram *old, double absmax, qg_histogram *h)
{
    double last = old->edge[old->bins];
    double width = rounded(t, old->edge[1] - old->edge[0]);
    double first = rounded(t, last + width), end = rounded(t, absmax + width);
    double more = ceil(rounded(t, rounded(t, end - first) / width));
    QG_TRY(check_bins(ctx, (double)old->bins + fmax(more, 0)));
    QG_TRY(allocate(ctx, a, old->bins + (size_t)fmax(more, 0), h));
    memcpy(h->count, old->count, old->bins * sizeof *h->count);
    memcpy(h->edge, old->edge, (old->bins + 1) * sizeof *h->edge);
    double step = rounded(t, first + width) - first;
    for (size_t k = 0; old->bins + k < h->bins; k++) {
        double edge = first + (double)k * step;
        h->edge[old->bins + 1 + k] = t == QG_EDGE_GROWN ? edge : rounded(t, edge);
    }
    return QG_OK;
}

qg_status qg_histogram_add_absolute(qg_ctx *ctx, qg_arena *a, qg_histogram_growth *g,
                                    const float *x, size_t n)
{
    struct extremes e;
    qg_histogram h = g->h;
    bool first = h.bins == 0;
    QG_TRY(find_extremes(ctx, x, n, &e));
    if (first) {
        QG_TRY(check_bins(ctx, (double)g->bins));
        QG_TRY(allocate(ctx, a, g->bins, &h));
        uniform_edges(g->type, e.absmin, e.absmax, &h);
    } else if (e.absmax > h.edge[h.bins]) {
        QG_TRY(append_edges(ctx, a, g->type, &g->h, e.absmax, &h));
        g->type = g->type == QG_EDGE_GROWN ? QG_EDGE_F64 : g->type;
    }
    for (size_t i = 0; i < n; i++) {
        double v = fabs((double)x[i]);
        if (v < h.edge[0] || v > h.edge[h.bins])
            g->dropped++;
        else
            h.count[bin_of(&h, v)]++;
    }
    g->h = h;
    note_extremes(g, &e, first);
    return QG_OK;
}

/* numpy's a // b for a, b > 0, in the type of the edges. */
static double floor_divide(qg_edge_type t, double a, double b)
{
    double quotient = rounded(t, rounded(t, a - fmod(a, b)) / b);
    double below = floor(quotient);
    return quotient - below > 0.5 ? below + 1 : below;
}

/* A wider histogram over [-T, T] with `side` more bins left and right of the old. */
static qg_status widen(qg_ctx *ctx, qg_arena *a, qg_histogram_growth *g, double absmax)
{
    const qg_histogram *old = &g->h;
    qg_edge_type t = g->type;
    qg_histogram h;
    double side = 0, wider = absmax;
    if (g->threshold > 0) {
        double stride = rounded(t, rounded(t, 2 * g->threshold) / (double)old->bins);
        side =
            rounded(t, floor_divide(t, rounded(t, absmax - g->threshold), stride) + 1);
        wider = rounded(t, rounded(t, side * stride) + g->threshold);
    }
    QG_TRY(check_bins(ctx, (double)old->bins + 2 * side));
    QG_TRY(allocate(ctx, a, old->bins + 2 * (size_t)side, &h));
    uniform_edges(t, -wider, wider, &h);
    memcpy(h.count + (size_t)side, old->count, old->bins * sizeof *h.count);
    g->h = h;
    g->threshold = wider;
    return QG_OK;
}

qg_status qg_histogram_add_signed(qg_ctx *ctx, qg_arena *a, qg_histogram_growth *g,
                                  const float *x, size_t n)
{
    struct extremes e;
    bool first = g->h.bins == 0;
    QG_TRY(find_extremes(ctx, x, n, &e));
    if (first) {
        QG_TRY(check_bins(ctx, (double)g->bins));
        QG_TRY(allocate(ctx, a, g->bins, &g->h));
        g->threshold = e.absmax;
        uniform_edges(g->type, -e.absmax, e.absmax, &g->h);
    } else if (e.absmax > g->threshold) {
        QG_TRY(widen(ctx, a, g, e.absmax));
    }
    qg_histogram_count(g->type, &g->h, (qg_histogram_run){ x, (int64_t)n, 1, false });
    note_extremes(g, &e, first);
    return QG_OK;
}

/* torch.linspace(0, top, bins + 1) in float32: from both ends. */
static void torch_linspace(float top, qg_histogram *h)
{
    float step = top / (float)h->bins;
    for (size_t k = 0; k <= h->bins; k++)
        h->edge[k] = k < (h->bins + 1) / 2
                         ? (double)(step * (float)k)
                         : (double)(top - step * (float)(h->bins - k));
}

/* More bins of the same width; old counts stay where they are. */
static qg_status torch_widen(qg_ctx *ctx, qg_arena *a, qg_histogram_growth *g,
                             float absmax)
{
    const qg_histogram *old = &g->h;
    float width = (float)old->edge[1]; /* the first edge is 0 */
    double bins = (double)ceilf(absmax / width);
    double edges = ceil((double)(absmax + width) / (double)width);
    qg_histogram h;
    QG_TRY(check_bins(ctx, bins));
    if (bins < (double)old->bins || !isfinite(edges)) /* the width, or a sum, rounded */
        return qg_fail(ctx, QG_ENUMERIC,
                       "histogram: largest |x| %g after %g: bins of %g cannot be "
                       "added, expected values that float32 tells apart",
                       (double)absmax, g->threshold, (double)width);
    QG_TRY(allocate(ctx, a, (size_t)bins, &h));
    for (size_t k = 0; k <= h.bins; k++)
        h.edge[k] = (double)(float)((double)k * (double)width);
    memcpy(h.count, old->count, old->bins * sizeof *h.count);
    g->threshold = (double)(float)((edges - 1) * (double)width);
    g->h = h;
    return QG_OK;
}

/* torch.histc over [0, threshold]. */
static void torch_count(const qg_histogram_growth *g, const float *x, size_t n)
{
    assert(g->h.bins > 0 && g->threshold > 0);
    const float top = (float)g->threshold;
    for (size_t i = 0; i < n; i++) {
        float v = fabsf(x[i]);
        if (!(v <= top))
            continue;
        g->h.count[qg_torch_bin(v, 0, top, g->h.bins)]++;
    }
}

qg_status qg_histogram_add_torch(qg_ctx *ctx, qg_arena *a, qg_histogram_growth *g,
                                 const float *x, size_t n)
{
    struct extremes e;
    bool first = g->h.bins == 0;
    QG_TRY(find_extremes(ctx, x, n, &e));
    if (first && e.absmax == 0) {
        g->zeros += n;
        return QG_OK;
    }
    if (first) {
        QG_TRY(check_bins(ctx, (double)g->bins));
        QG_TRY(allocate(ctx, a, g->bins, &g->h));
        torch_linspace((float)e.absmax, &g->h);
        g->threshold = e.absmax;
        g->h.count[0] = (int64_t)g->zeros;
    } else if (e.absmax > g->threshold) {
        QG_TRY(torch_widen(ctx, a, g, (float)e.absmax));
    }
    torch_count(g, x, n);
    note_extremes(g, &e, first);
    return QG_OK;
}

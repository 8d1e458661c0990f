#include "engine/calib/dyadic.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* log2 of a power of two. */
static int log2_of(uint32_t bins)
{
    assert(bins >= 16 && (bins & (bins - 1)) == 0);
    return __builtin_ctz(bins);
}

/* 2^13 bins begin at QG_DYADIC_LEAST, so that folding keeps the rule "least exponent at
 * which all fits" for every number of bins. */
int qg_dyadic_least(uint32_t bins) { return QG_DYADIC_LEAST + 13 - log2_of(bins); }

qg_status qg_dyadic_new(qg_ctx *ctx, qg_arena *a, uint32_t bins, qg_dyadic *out)
{
    uint64_t *count = QG_NEWN(a, bins, uint64_t);
    if (!count)
        return qg_nomem(ctx);
    *out = (qg_dyadic){ qg_dyadic_least(bins), bins, count };
    return QG_OK;
}

/* high < 2^e needs e, low >= -2^e also allows the power itself. */
int qg_dyadic_exponent(float low, float high, uint32_t bins)
{
    int up, down;
    assert(isfinite(low) && isfinite(high));
    (void)frexpf(high > 0 ? high : 0, &up);
    bool power = frexpf(low < 0 ? -low : 0, &down) == 0.5f;
    int least = qg_dyadic_least(bins), half = log2_of(bins) - 1;
    if (high > 0 && up - half > least)
        least = up - half;
    if (low < 0 && down - power - half > least)
        least = down - power - half;
    return least;
}

void qg_dyadic_span(const qg_dyadic *h, uint32_t *first, uint32_t *end)
{
    uint32_t a = 0, b = h->bins;
    assert(h->count);
    while (a < b && h->count[a] == 0)
        a++;
    while (b > a && h->count[b - 1] == 0)
        b--;
    *first = a;
    *end = b;
}

/* Where bin i goes when 2^shift neighbours become one. */
static uint32_t folded(uint32_t i, uint32_t bins, uint32_t into, unsigned shift)
{
    int64_t at = (int64_t)i - bins / 2;
    if (shift > 31)
        shift = 31;
    return (uint32_t)((at >> shift) + into / 2); /* gcc and clang: arithmetic shift */
}

static void fold(qg_dyadic *h, unsigned shift)
{
    uint32_t first, end;
    qg_dyadic_span(h, &first, &end);
    uint32_t zero = h->bins / 2; /* counts move toward the middle: sweep from there */
    for (uint32_t i = zero; i < end; i++) {
        uint64_t n = h->count[i];
        h->count[i] = 0;
        h->count[folded(i, h->bins, h->bins, shift)] += n;
    }
    for (uint32_t i = zero; i-- > first;) {
        uint64_t n = h->count[i];
        h->count[i] = 0;
        h->count[folded(i, h->bins, h->bins, shift)] += n;
    }
}

void qg_dyadic_widen(qg_dyadic *h, int exponent)
{
    assert(exponent <= QG_DYADIC_MOST);
    if (exponent <= h->exponent)
        return;
    fold(h, (unsigned)(exponent - h->exponent));
    h->exponent = exponent;
}

uint32_t qg_dyadic_bin(const qg_dyadic *h, float x)
{
    double at = floor(ldexp((double)x, -h->exponent)) + (double)(h->bins / 2);
    assert(at >= 0 && at < (double)h->bins);
    return (uint32_t)at;
}

void qg_dyadic_merge(qg_dyadic *h, const qg_dyadic *x)
{
    uint32_t first, end;
    qg_dyadic_span(x, &first, &end);
    qg_dyadic_add(h, x, first, end);
}

void qg_dyadic_add(qg_dyadic *h, const qg_dyadic *x, uint32_t first, uint32_t end)
{
    assert(h != x && x->bins >= h->bins && first <= end && end <= x->bins);
    int fewer = log2_of(x->bins) - log2_of(h->bins);
    qg_dyadic_widen(h, x->exponent + fewer);
    unsigned shift = (unsigned)(h->exponent - x->exponent);
    if (shift == 0) {
        for (uint32_t i = first; i < end; i++)
            h->count[i] += x->count[i];
        return;
    }
    for (uint32_t i = first; i < end; i++)
        h->count[folded(i, x->bins, h->bins, shift)] += x->count[i];
}

uint64_t qg_dyadic_total(const qg_dyadic *h)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < h->bins; i++)
        n += h->count[i];
    return n;
}

double qg_dyadic_edge(const qg_dyadic *h, uint32_t i)
{
    assert(i <= h->bins);
    return ldexp((double)i - (double)(h->bins / 2), h->exponent);
}

double qg_dyadic_quantile(const qg_dyadic *h, double fraction)
{
    uint32_t i, end;
    uint64_t total = qg_dyadic_total(h);
    qg_dyadic_span(h, &i, &end);
    assert(total > 0 && fraction >= 0 && fraction <= 1);
    double want = fraction * (double)total, below = 0;
    while (i + 1 < end && below + (double)h->count[i] < want)
        below += (double)h->count[i++];
    double n = (double)h->count[i], share = n > 0 ? (want - below) / n : 0;
    return qg_dyadic_edge(h, i) + ldexp(fmin(fmax(share, 0), 1), h->exponent);
}

/* Mirrored bins: -2w <= x < -w lies with w <= x < 2w. */
static void mirror(const qg_dyadic *h, unsigned shift, int64_t *count)
{
    assert(shift < 32);
    uint32_t half = h->bins / 2;
    for (uint32_t i = 0; i < half; i++) {
        count[i >> shift] += (int64_t)h->count[half + i];
        count[i >> shift] += (int64_t)h->count[half - 1 - i];
    }
}

/* The last of the mirrored bins that is not empty. */
static uint32_t last_mirrored(const qg_dyadic *h)
{
    uint32_t first, end, half = h->bins / 2;
    qg_dyadic_span(h, &first, &end);
    uint32_t last = end > half ? end - 1 - half : 0;
    return first < half && half - 1 - first > last ? half - 1 - first : last;
}

qg_status qg_dyadic_absolute(qg_ctx *ctx, qg_arena *a, const qg_dyadic *h, double top,
                             size_t most, qg_histogram *out)
{
    uint32_t half = h->bins / 2;
    uint64_t total = qg_dyadic_total(h);
    unsigned shift = 0;
    assert(most > 0);
    if (total == 0 || total > UINT64_C(1) << 53)
        return qg_fail(ctx, QG_EDATA,
                       "histogram: %llu elements, expected 1 to 2^53 of them",
                       (unsigned long long)total);
    uint32_t last = last_mirrored(h), end = last;
    if (last > 0 && ldexp((double)last, h->exponent) == top)
        last--; /* bin `end` holds elements equal to top alone */
    while ((last >> shift) >= most)
        shift++;
    size_t bins = (size_t)(last >> shift) + 1;
    qg_histogram g = { .bins = bins,
                       .count = QG_NEWN(a, (size_t)half + 1, int64_t),
                       .edge = QG_NEWN(a, bins + 1, double) };
    if (!g.count || !g.edge)
        return qg_nomem(ctx);
    mirror(h, shift, g.count);
    if (end >> shift == bins) {
        g.count[bins - 1] += g.count[bins];
        g.count[bins] = 0;
    }
    for (size_t i = 0; i <= bins; i++)
        g.edge[i] = ldexp((double)i, h->exponent + (int)shift);
    *out = g;
    return QG_OK;
}

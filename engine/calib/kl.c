/* Entropy calibration of pytorch-quantization, of the published script, and of PPQ. */
#include "engine/calib/kl.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    double eps; /* added to every q */
} variants[] = {
    [QG_KL_WHOLE] = {"kl",                 0   },
    [QG_KL_NVIDIA] = { "nvidia-kl",         0   },
    [QG_KL_SEED] = { "seed-kl",           1e-6},
    [QG_KL_SEED_PUBLISHED] = { "seed-kl-published", 1e-6},
};

size_t qg_kl_candidates(const qg_kl *k, size_t bins)
{
    return (bins - k->start) / k->stride + 1;
}

/* A search in progress. */
struct search {
    const qg_kl *k;
    size_t bins, candidates;
    double eps, total;
    double *count;   /* [bins]: counts of the current candidate */
    double *tail;    /* [bins + 1]: sum of the given counts from here on */
    double *average; /* [levels]: of a group's bins that are not empty */
};

static qg_status begin(qg_ctx *ctx, qg_arena *a, const qg_kl *k, const qg_histogram *h,
                       struct search *s)
{
    QG_TRY(qg_histogram_check(ctx, variants[k->variant].name, h));
    if (k->levels == 0 || k->levels > h->bins || k->start == 0 || k->start > h->bins ||
        k->stride == 0)
        return qg_fail(
            ctx, QG_ECONFIG, "%s: %zu levels, start %zu, stride %zu, expected 1 to %zu",
            variants[k->variant].name, k->levels, k->start, k->stride, h->bins);
    *s = (struct search){ .k = k,
                          .bins = h->bins,
                          .candidates = qg_kl_candidates(k, h->bins),
                          .eps = variants[k->variant].eps,
                          .count = QG_NEWN(a, h->bins, double),
                          .tail = QG_NEWN(a, h->bins + 1, double),
                          .average = QG_NEWN(a, k->levels, double) };
    if (!s->count || !s->tail || !s->average)
        return qg_nomem(ctx);
    for (size_t j = 0; j < h->bins; j++)
        s->count[j] = (double)h->count[j];
    if (s->eps == 0 && h->bins > 1)
        s->count[0] = s->count[1];
    for (size_t j = h->bins; j-- > 0;)
        s->tail[j] = s->tail[j + 1] + s->count[j];
    if (s->tail[0] == 0)
        return qg_fail(ctx, QG_EDATA,
                       "%s: all counts are in the bin of zero, expected others",
                       variants[k->variant].name);
    return QG_OK;
}

static size_t candidate(const struct search *s, size_t c)
{
    return s->k->start + c * s->k->stride;
}

/* The published script's aliasing: candidate i leaves its tail in the histogram. */
static void leave(struct search *s, size_t i)
{
    if (s->k->variant == QG_KL_SEED_PUBLISHED)
        s->count[i - 1] += s->tail[i];
}

/* First bin of group k among i bins: the least j with floor(j * levels / i) = k. */
static size_t group_start(size_t k, size_t i, size_t levels)
{
    return (k * i + levels - 1) / levels;
}

/* Divergence of candidate i by the definition. */
static double divergence_at(struct search *s, size_t i)
{
    double psum = 0, qsum = 0, sum = 0;
    for (size_t k = 0; k < s->k->levels; k++) {
        size_t end = group_start(k + 1, i, s->k->levels), filled = 0;
        double all = 0;
        for (size_t j = group_start(k, i, s->k->levels); j < end; j++) {
            all += s->count[j];
            filled += s->count[j] != 0;
        }
        s->average[k] = filled ? all / (double)filled : 0;
        qsum += all;
    }
    psum = qsum + s->tail[i];
    qsum += (double)i * s->eps;
    if (s->k->variant == QG_KL_WHOLE)
        qsum = psum;
    for (size_t k = 0; k < s->k->levels; k++) {
        size_t end = group_start(k + 1, i, s->k->levels);
        for (size_t j = group_start(k, i, s->k->levels); j < end; j++) {
            double p = s->count[j] + (j == i - 1 ? s->tail[i] : 0);
            double q = (s->count[j] != 0 ? s->average[k] : 0) + s->eps;
            if (p > 0 && q == 0)
                return INFINITY;
            if (p > 0)
                sum += p / psum * log((p / psum) / (q / qsum));
        }
    }
    return sum;
}

/* Candidate c is the choice so far when it is no worse: the last minimum wins. */
static void consider(struct search *s, const qg_histogram *h, size_t c, double loss,
                     qg_range_choice *best)
{
    size_t i = candidate(s, c);
    if (loss <= best->loss)
        *best = (qg_range_choice){ i, -h->edge[i], h->edge[i], loss };
}

static const qg_range_choice nothing = { 0, 0, 0, INFINITY };

qg_status qg_kl_search_plain(qg_ctx *ctx, qg_arena *scratch, const qg_kl *k,
                             const qg_histogram *h, double *divergence,
                             qg_range_choice *out)
{
    struct search s;
    qg_range_choice best = nothing;
    QG_TRY(begin(ctx, scratch, k, h, &s));
    for (size_t c = 0; c < s.candidates; c++) {
        double loss = divergence_at(&s, candidate(&s, c));
        leave(&s, candidate(&s, c));
        consider(&s, h, c, loss, &best);
        if (divergence)
            divergence[c] = loss;
    }
    *out = best;
    return QG_OK;
}

/* Sums over the first b bins that a candidate sees: of counts, of bins that are not
 * empty, of c ln c. */
struct prefix {
    double count, filled, log;
};

static double xlogx(double x) { return x > 0 ? x * log(x) : 0; }

static struct prefix plus(struct prefix p, double count)
{
    return (struct prefix){ p.count + count, p.filled + (count != 0),
                            p.log + xlogx(count) };
}

/* docs/evidence/observers.md#all-candidates-fast: q is constant on the filled bins of a
 * group, so that
 * sum p ln q = c ln(c / z) there; only bin i - 1 has the tail more. */
static double divergence_fast(const struct search *s, const struct prefix *prefix,
                              size_t i)
{
    size_t levels = s->k->levels, start = 0;
    double tail = s->tail[i], last = s->count[i - 1], sum = 0, spread = 0;
    if (tail > 0 && last == 0 && s->eps == 0)
        return INFINITY;
    for (size_t k = 0; k < levels; k++) {
        size_t end = group_start(k + 1, i, levels);
        double c = prefix[end].count - prefix[start].count;
        double z = prefix[end].filled - prefix[start].filled;
        if (end > start) /* fewer bins than levels leave groups empty */
            spread = last > 0 ? c / z : 0;
        if (c > 0)
            sum += c * log(c / z + s->eps);
        start = end;
    }
    if (tail > 0)
        sum += tail * log(spread + s->eps);
    double kept = prefix[i].count, total = kept + tail;
    double own = prefix[i].log - xlogx(last) + xlogx(last + tail);
    if (s->k->variant == QG_KL_WHOLE)
        return (own - sum) / total;
    return (own - sum) / total - log(total) + log(kept + (double)i * s->eps);
}

/* Divergences of all candidates, and the least of them. */
static double fast_divergences(struct search *s, struct prefix *prefix,
                               double *divergence)
{
    double least = INFINITY;
    size_t filled = 0;
    for (size_t c = 0; c < s->candidates; c++) {
        size_t i = candidate(s, c);
        for (; filled < i; filled++)
            prefix[filled + 1] = plus(prefix[filled], s->count[filled]);
        divergence[c] = divergence_fast(s, prefix, i);
        least = fmin(least, divergence[c]);
        leave(s, i);
        prefix[i] = plus(prefix[i - 1], s->count[i - 1]);
    }
    return least;
}

/* No candidate's divergence is less than that of its last bin, which has the tail,
 * against the rest: joining bins loses divergence (data processing inequality).
 * eps 0 only. */
static double least_possible(const struct search *s, const struct prefix *prefix,
                             size_t i)
{
    size_t start = group_start(s->k->levels - 1, i, s->k->levels);
    double kept = prefix[i].count, total = kept + s->tail[i], last = s->count[i - 1];
    assert(s->eps == 0 && start <= i);
    if (start == i || last == 0)
        return last == 0 && s->tail[i] > 0 ? INFINITY : 0;
    double c = kept - prefix[start].count, z = prefix[i].filled - prefix[start].filled;
    double p = (last + s->tail[i]) / total, q = c / z / kept;
    return p < 1 && q < 1 ? p * log(p / q) + (1 - p) * log((1 - p) / (1 - q)) : 0;
}

/* The same as fast_divergences where only the least matters: from the widest on, and
 * infinity for those that cannot be near it. */
static double least_divergence(const struct search *s, struct prefix *prefix,
                               double *divergence)
{
    const double margin = 1e-9; /* far above the rounding of both */
    double least = INFINITY;
    for (size_t i = 0; i < s->bins; i++)
        prefix[i + 1] = plus(prefix[i], s->count[i]);
    for (size_t c = s->candidates; c-- > 0;) {
        size_t i = candidate(s, c);
        divergence[c] = INFINITY;
        if (least_possible(s, prefix, i) <= least + margin)
            divergence[c] = divergence_fast(s, prefix, i);
        least = fmin(least, divergence[c]);
    }
    return least;
}

qg_status qg_kl_search(qg_ctx *ctx, qg_arena *scratch, const qg_kl *k,
                       const qg_histogram *h, double *divergence, qg_range_choice *out)
{
    const double uncertain = 1e-11;
    struct search s, again;
    qg_range_choice best = nothing;
    QG_TRY(begin(ctx, scratch, k, h, &s));
    QG_TRY(begin(ctx, scratch, k, h, &again));
    struct prefix *prefix = QG_NEWN(scratch, h->bins + 1, struct prefix);
    double *all = divergence ? divergence : QG_NEWN(scratch, s.candidates, double);
    if (!prefix || !all)
        return qg_nomem(ctx);
    double least = divergence || s.eps > 0 ? fast_divergences(&s, prefix, all)
                                           : least_divergence(&s, prefix, all);
    for (size_t c = 0; c < s.candidates; c++) {
        size_t i = candidate(&s, c);
        if (all[c] <= least + uncertain)
            consider(&s, h, c, divergence_at(&again, i), &best);
        leave(&again, i);
    }
    assert(best.index > 0);
    *out = best;
    return QG_OK;
}

/* Room for every candidate, divergences to be filled in. */
static qg_status open_curve(qg_ctx *ctx, qg_arena *a, const qg_kl *k,
                            const qg_histogram *h, qg_curve *out)
{
    size_t n = qg_kl_candidates(k, h->bins);
    qg_curve c = { .n = n,
                   .kept = QG_NEWN(a, n, size_t),
                   .threshold = QG_NEWN(a, n, double),
                   .divergence = QG_NEWN(a, n, double) };
    if (!c.kept || !c.threshold || !c.divergence)
        return qg_nomem(ctx);
    for (size_t i = 0; i < n; i++) {
        c.kept[i] = k->start + i * k->stride;
        c.threshold[i] = h->edge[c.kept[i]];
    }
    *out = c;
    return QG_OK;
}

qg_status qg_kl_choose(qg_ctx *ctx, qg_arena *scratch, const qg_kl *k,
                       const qg_histogram *h, qg_curve *curve, qg_range_choice *out)
{
    qg_range_choice best;
    if (curve && k->stride > 0 && k->start <= h->bins)
        QG_TRY(open_curve(ctx, scratch, k, h, curve));
    double *divergence = curve ? curve->divergence : NULL;
    QG_TRY((variants[k->variant].eps == 0 ? qg_kl_search : qg_kl_search_plain)(
        ctx, scratch, k, h, divergence, &best));
    if (curve)
        curve->best = best;
    *out = best;
    return QG_OK;
}

/* -- PPQ -------------------------------------------------------------------------- */

enum { WIDE = 8, LANES = 4 * WIDE, LEVELS = 4, STEP = 16 };

static void add_lanes(float *sum, const float *x, size_t n)
{
    for (size_t k = 0; k < n; k++)
        sum[k] += x[k];
}

/* torch's sum of float32 on CPUs with vectors of 8: four vectors abreast, every 16 rows
 * are handed to the next of four levels.  Reproduces all of kl_calibration.json. */
static float sum_torch(const float *x, size_t n)
{
    float level[LEVELS][LANES] = { { 0 } }, sum = 0;
    size_t rows = n / LANES, whole = n / WIDE * WIDE;
    assert(rows <= (size_t)1 << 19); /* above it the step is larger */
    for (size_t i = 0; i < rows;) {
        add_lanes(level[0], x + LANES * i++, LANES);
        size_t j = 1, done = i % STEP == 0 ? i : 0;
        for (; done && j < LEVELS; j++) {
            add_lanes(level[j], level[j - 1], LANES);
            memset(level[j - 1], 0, sizeof level[j - 1]);
            done = i >> (4 * j) & (STEP - 1) ? 0 : done;
        }
    }
    for (size_t j = 1; j < LEVELS; j++)
        add_lanes(level[0], level[j], LANES);
    for (size_t i = rows * LANES; i < whole; i += WIDE)
        add_lanes(level[0], x + i, WIDE);
    for (size_t k = WIDE; k < LANES; k += WIDE)
        add_lanes(level[0], level[0] + k, WIDE);
    for (size_t i = whole; i < n; i++)
        sum += x[i];
    for (size_t k = 0; k < WIDE; k++)
        sum += level[0][k];
    return sum;
}

/* Each group's sum over those of its bins that are not empty, per such bin. */
static void ppq_spread(const float *count, size_t kept, size_t levels, float *q)
{
    size_t width = kept / levels;
    for (size_t start = 0; start < kept; start += width) {
        float sum = 0, filled = 0;
        for (size_t j = start; j < start + width; j++) {
            sum += count[j];
            filled += count[j] > 0;
        }
        for (size_t j = start; j < start + width; j++)
            q[j] = count[j] > 0 ? sum / filled : 0;
    }
}

/* p and q are float32, the logarithms and their sum double. */
static double ppq_divergence(const float *count, size_t bins, size_t kept,
                             size_t levels, float *q)
{
    double sum = 0;
    float total = sum_torch(count, bins), tail = sum_torch(count + kept, bins - kept);
    ppq_spread(count, kept, levels, q);
    float inside = sum_torch(q, kept);
    assert(inside > 0); /* the crushed bins end in a 1, below the first candidate */
    for (size_t j = 0; j < kept; j++) {
        double p = (double)((count[j] + (j == kept - 1 ? tail : 0)) / total);
        sum += p * (log10(p + 1e-30) - log10((double)(q[j] / inside) + 1e-30));
    }
    return sum;
}

qg_status qg_kl_ppq(qg_ctx *ctx, qg_arena *scratch, const qg_histogram *h,
                    size_t levels, double *divergence, qg_range_choice *out)
{
    QG_TRY(qg_histogram_check(ctx, "ppq-kl", h));
    size_t crushed = (size_t)((double)h->bins * 0.002);
    if (levels <= crushed || levels > h->bins || h->bins % levels != 0)
        return qg_fail(ctx, QG_ECONFIG,
                       "ppq-kl: %zu levels on %zu bins, expected a divisor of the "
                       "bins above %zu",
                       levels, h->bins, crushed);
    float *count = QG_NEWN(scratch, h->bins, float);
    float *q = QG_NEWN(scratch, h->bins, float);
    if (!count || !q)
        return qg_nomem(ctx);
    for (size_t j = 0; j < h->bins; j++)
        count[j] = j < crushed ? 0 : j == crushed ? 1 : (float)h->count[j];
    qg_range_choice best = nothing;
    for (size_t kept = levels; kept <= h->bins; kept += levels) {
        double loss = ppq_divergence(count, h->bins, kept, levels, q);
        if (loss < best.loss)
            best = (qg_range_choice){ kept, -h->edge[kept], h->edge[kept], loss };
        if (divergence)
            divergence[kept / levels - 1] = loss;
    }
    *out = best;
    return QG_OK;
}

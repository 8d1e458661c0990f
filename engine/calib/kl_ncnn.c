/* KL calibration of ncnn: groups end inside of bins and take their share of them.  All
 * of it in float32, one operation after the other, in ncnn's order
 * (docs/evidence/observers.md#ncnn-kl).
 */
#include <float.h>
#include <math.h>

#include "engine/calib/kl.h"

static const float eps = 1e-4f; /* where each P and Q starts */

/* A group of bins: `first`..`end` wholly, and parts of the bins before and after. */
struct group {
    size_t first, end;
    float before, after;
};

static struct group group_of(size_t k, size_t levels, size_t t)
{
    float width = (float)t / (float)levels;
    float start = k == levels - 1 ? (float)t - width : (float)k * width;
    float end = (float)(k + 1) * width;
    struct group g = { 0, t, 0, 0 };
    if (k > 0) {
        g.first = (size_t)ceilf(start);
        g.before = (float)g.first - start;
    }
    if (k < levels - 1) {
        g.end = (size_t)floorf(end);
        g.after = end - (float)g.end;
    }
    return g;
}

/* Spreads the counts of the groups of the first t bins evenly over them. */
static void spread(const float *p, size_t t, size_t levels, float *q)
{
    for (size_t j = 0; j < t; j++)
        q[j] = eps;
    for (size_t k = 0; k < levels; k++) {
        struct group g = group_of(k, levels, t);
        float held = 0;
        if (g.before > 0)
            held += g.before * p[g.first - 1];
        if (g.after > 0)
            held += g.after * p[g.end];
        for (size_t j = g.first; j < g.end; j++)
            held += p[j];
        held /= (float)((double)g.end - (double)g.first) + g.before + g.after;
        if (g.before > 0)
            q[g.first - 1] += g.before * held;
        if (g.after > 0)
            q[g.end] += g.after * held;
        for (size_t j = g.first; j < g.end; j++)
            q[j] += held;
    }
}

static float divergence_at(const float *p, size_t bins, size_t t, const float *q)
{
    float last = eps + p[t - 1], sum = 0;
    for (size_t j = t; j < bins; j++)
        last += p[j];
    for (size_t j = 0; j < t; j++) {
        float here = j == t - 1 ? last : eps + p[j];
        sum += here * logf(here / q[j]);
    }
    return sum;
}

qg_status qg_kl_ncnn(qg_ctx *ctx, qg_arena *scratch, const qg_histogram *h,
                     size_t levels, float *divergence, qg_range_choice *out)
{
    QG_TRY(qg_histogram_check(ctx, "ncnn-kl", h));
    if (levels < 2 || levels >= h->bins)
        return qg_fail(ctx, QG_ECONFIG,
                       "ncnn-kl: %zu levels, expected 2 to %zu, less than the bins",
                       levels, h->bins - 1);
    float *p = QG_NEWN(scratch, h->bins, float), *q = QG_NEWN(scratch, h->bins, float);
    if (!p || !q)
        return qg_nomem(ctx);
    double total = (double)qg_histogram_total(h);
    for (size_t j = 0; j < h->bins; j++)
        p[j] = (float)((double)h->count[j] / total);
    float least = FLT_MAX;
    size_t best = levels;
    for (size_t t = levels; t < h->bins; t++) {
        spread(p, t, levels, q);
        float loss = divergence_at(p, h->bins, t, q);
        if (loss < least) {
            least = loss;
            best = t;
        }
        if (divergence)
            divergence[t - levels] = loss;
    }
    float high = ((float)best + 0.5f) * (float)h->edge[h->bins] / (float)h->bins;
    *out = (qg_range_choice){ best, -(double)high, (double)high, (double)least };
    return QG_OK;
}

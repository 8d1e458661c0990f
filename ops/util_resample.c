#include "ops/util_resample.h"

#include <assert.h>
#include <math.h>

/* The input coordinate of output element i. */
static double coordinate(const qg_resample *r, const qg_resample_axis *x, int64_t i)
{
    double at = (double)i, in = (double)x->in, width = x->scale * in;
    switch (r->coordinate) {
    case QG_RESIZE_ALIGN_CORNERS:
        return width == 1 ? 0 : at * (in - 1) / (width - 1);
    case QG_RESIZE_ASYMMETRIC:
        return at / x->scale;
    case QG_RESIZE_TF_HALF_PIXEL:
        return (at + 0.5) / x->scale;
    case QG_RESIZE_CROP:
        if (x->out <= 1)
            return 0.5 * (x->start + x->end) * (in - 1);
        return x->start * (in - 1) + at * (x->end - x->start) * (in - 1) / (width - 1);
    case QG_RESIZE_PYTORCH_HALF_PIXEL:
        return x->out > 1 ? (at + 0.5) / x->scale - 0.5 : 0;
    case QG_RESIZE_HALF_PIXEL_SYMMETRIC:
        return in / 2 * (1 - (double)x->out / width) + (at + 0.5) / x->scale - 0.5;
    default:
        return (at + 0.5) / x->scale - 0.5;
    }
}

/* The same in float32 and of the whole output size, as ONNX Runtime computes it: near a
 * midpoint or an element, the rounding of the coordinate decides which one is taken. */
static float nearest_coordinate(const qg_resample *r, const qg_resample_axis *x,
                                int64_t i)
{
    float at = (float)i, in = (float)x->in, out = (float)x->out;
    float scale = (float)x->scale, start = (float)x->start, end = (float)x->end;
    switch (r->coordinate) {
    case QG_RESIZE_ALIGN_CORNERS:
        return out == 1 ? 0 : at * (in - 1) / (out - 1);
    case QG_RESIZE_ASYMMETRIC:
        return at / scale;
    case QG_RESIZE_TF_HALF_PIXEL:
        return (at + 0.5f) / scale;
    case QG_RESIZE_CROP:
        if (out <= 1)
            return (float)(0.5 * (double)(start + end) * (double)(in - 1));
        return start * (in - 1) + at * (end - start) * (in - 1) / (out - 1);
    case QG_RESIZE_PYTORCH_HALF_PIXEL:
        return out > 1 ? (at + 0.5f) / scale - 0.5f : 0;
    case QG_RESIZE_HALF_PIXEL_SYMMETRIC: {
        float offset = in / 2 * (1 - out / (scale * in));
        return (float)((double)offset + ((double)at + 0.5) / (double)scale - 0.5);
    }
    default:
        return (at + 0.5f) / scale - 0.5f;
    }
}

/* The five ways to choose between two neighbours. */
static double nearest(const qg_resample *r, double at, double scale)
{
    double low = floor(at), part = at - low;
    bool up = part > 0.5;
    switch (r->nearest) {
    case QG_NEAREST_PREFER_CEIL:
        up = part >= 0.5;
        break;
    case QG_NEAREST_FLOOR:
        up = false;
        break;
    case QG_NEAREST_CEIL:
        up = part > 0;
        break;
    case QG_NEAREST_SIMPLE:
        up = scale < 1 && part > 0;
        break;
    default:
        break;
    }
    return up ? low + 1 : low;
}

/* The cubic convolution kernel (Keys, 1981) with coefficient a. */
static double cubic(double x, double a)
{
    x = fabs(x);
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? a * (((x - 5) * x + 8) * x - 4) : 0;
}

/* A triangle for linear. */
static double kernel(const qg_resample *r, double x)
{
    if (r->mode == QG_RESIZE_CUBIC)
        return cubic(x, r->cubic_a);
    return fabs(x) < 1 ? 1 - fabs(x) : 0;
}

/* Taps outside repeat the border; of a region that is no number any tap will do. */
static int64_t clamped(double at, int64_t in)
{
    double top = (double)(in - 1);
    return (int64_t)(!(at > 0) ? 0 : at > top ? top : at);
}

/* Row i of the table: weights of the taps around `at`, stretched by 1 / shrink. */
static void weigh(const qg_resample *r, const qg_resample_axis *x, double at,
                  double shrink, const qg_resample_table *table, int64_t i)
{
    int64_t taps = table->taps, *index = table->index + i * taps;
    float *weight = table->weight + i * taps;
    double low = ceil(at) - 1, first = low - (double)(taps / 2) + 1, sum = 0;
    for (int64_t t = 0; t < taps; t++) {
        double place = first + (double)t;
        bool counts = !r->exclude_outside || (place >= 0 && place < (double)x->in);
        sum += counts ? kernel(r, (place - at) * shrink) : 0;
    }
    bool normalize = r->exclude_outside || r->antialias;
    for (int64_t t = 0; t < taps; t++) {
        double place = first + (double)t;
        bool counts = !r->exclude_outside || (place >= 0 && place < (double)x->in);
        double w = counts ? kernel(r, (place - at) * shrink) : 0;
        index[t] = clamped(place, x->in);
        weight[t] = (float)(normalize ? w / sum : w);
    }
}

/* Half the taps: 1 for linear, 2 for cubic, more when an antialiasing filter
 * shrinks. */
static double half_taps(const qg_resample *r, double shrink)
{
    double reach = r->mode == QG_RESIZE_CUBIC ? 2 : 1;
    return 1 - (floor(-reach / shrink) + 1);
}

/* At most SIZE_MAX / 16 entries; an antialiasing filter may need many taps. */
qg_status qg_resample_new(qg_ctx *ctx, qg_arena *a, const qg_resample *r,
                          const qg_resample_axis *x, qg_resample_table *out)
{
    double shrink = r->antialias && x->scale < 1 ? x->scale : 1;
    double half = r->mode == QG_RESIZE_NEAREST ? 0.5 : half_taps(r, shrink);
    assert(x->in > 0 && x->out >= 0 && x->scale > 0);
    if (half > (double)INT32_MAX)
        return qg_nomem(ctx);
    qg_resample_table t = { .taps = (int64_t)(2 * half) };
    size_t n = (size_t)x->out, taps = (size_t)t.taps;
    if (n && taps > SIZE_MAX / 16 / n)
        return qg_nomem(ctx);
    t.index = QG_NEWN(a, n * taps, int64_t);
    t.weight = r->mode == QG_RESIZE_NEAREST ? NULL : QG_NEWN(a, n * taps, float);
    t.outside = r->coordinate == QG_RESIZE_CROP ? QG_NEWN(a, n, bool) : NULL;
    if (!t.index || (!t.weight && r->mode != QG_RESIZE_NEAREST) ||
        (!t.outside && r->coordinate == QG_RESIZE_CROP))
        return qg_nomem(ctx);
    for (int64_t i = 0; i < x->out; i++) {
        double at = r->mode == QG_RESIZE_NEAREST ? (double)nearest_coordinate(r, x, i)
                                                 : coordinate(r, x, i);
        if (t.outside)
            t.outside[i] = !(at >= 0 && at <= (double)(x->in - 1));
        if (t.weight)
            weigh(r, x, at, shrink, &t, i);
        else
            t.index[i] = clamped(nearest(r, at, x->scale), x->in);
    }
    *out = t;
    return QG_OK;
}

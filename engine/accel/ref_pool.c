#include "engine/accel/accel.h"

#include <assert.h>
#include <math.h>

/* The taps of one window along one axis: begin, begin + dilation, ... < end lie inside
 * the input; `padded` counts those inside input or padding. */
typedef struct window {
    int64_t begin, end, padded;
} window;

static int64_t ceil_div(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : 0; }

/* Taps before the input are skipped by whole dilation steps, so the first tap inside
 * is begin, whatever the padding. */
static window window_of(const qg_pool_problem *p, int axis, int64_t at)
{
    assert(p->stride[axis] >= 1 && p->dilation[axis] >= 1);
    int64_t step = p->dilation[axis];
    int64_t first = at * p->stride[axis] - p->pad_begin[axis];
    int64_t limit = first + (p->kernel[axis] - 1) * step + 1;
    int64_t edge = p->in[axis] + p->pad_end[axis];
    window w = { first + ceil_div(-first, step) * step, limit, 0 };
    w.padded = ceil_div((limit < edge ? limit : edge) - first, step);
    if (w.end > p->in[axis])
        w.end = p->in[axis];
    return w;
}

#define REAL    float
#define NAME(f) f##_f32
#include "engine/accel/ref_pool_body.h"
#undef REAL
#undef NAME

/* The places of one window inside its plane, in index order, each with weight w. */
static void spread(const qg_pool_problem *p, const window *w, float g, float *to)
{
    for (int64_t d = w[0].begin; d < w[0].end; d += p->dilation[0])
        for (int64_t h = w[1].begin; h < w[1].end; h += p->dilation[1])
            for (int64_t c = w[2].begin; c < w[2].end; c += p->dilation[2])
                to[(d * p->in[1] + h) * p->in[2] + c] += g;
}

/* The divisor of mean_at. */
static double divisor(const qg_pool_problem *p, const window *w)
{
    double taps = 1;
    for (int a = 0; a < QG_SPACE; a++)
        taps *= p->count_pad ? (double)w[a].padded
                             : (double)ceil_div(w[a].end - w[a].begin, p->dilation[a]);
    return taps > 0 ? taps : 1;
}

void qg_ref_pool_backward(const qg_pool_problem *p, const float *x, const float *g,
                          float *to)
{
    const int64_t in = p->in[0] * p->in[1] * p->in[2];
    const int64_t out = p->out[0] * p->out[1] * p->out[2];
    assert(p->kind != QG_POOL_LP);
    qg_pool_problem rows = *p;
    rows.column_major = false;
    for (int64_t i = 0; i < p->batch * p->channels * out; i++) {
        const int64_t plane = i / out, at = i % out;
        const window w[QG_SPACE] = {
            window_of(p, 0, at / (p->out[1] * p->out[2])),
            window_of(p, 1, at / p->out[2] % p->out[1]),
            window_of(p, 2, at % p->out[2]),
        };
        int64_t where = -1;
        if (p->kind == QG_POOL_AVERAGE)
            spread(p, w, (float)((double)g[i] / divisor(p, w)), to + plane * in);
        else
            (void)max_at_f32(&rows, x + plane * in, w, &where);
        if (where >= 0)
            to[plane * in + where] += g[i];
    }
}

#define REAL    double
#define NAME(f) f##_f64
#include "engine/accel/ref_pool_body.h"
#undef REAL
#undef NAME

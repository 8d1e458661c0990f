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

#define REAL    double
#define NAME(f) f##_f64
#include "engine/accel/ref_pool_body.h"
#undef REAL
#undef NAME

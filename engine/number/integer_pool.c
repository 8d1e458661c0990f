#include "engine/number/integer_pool.h"

#include <assert.h>

#include "engine/number/round.h"

/* The places of one window that lie inside the picture. */
struct area {
    int64_t top, bottom, left, right; /* bottom and right are not part of it */
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* The window of output (y, x) cut to the picture; never empty, see integer_pool.h. */
static struct area area_of(const qg_int_window *w, int64_t y, int64_t x)
{
    int64_t top = y * w->stride[0] - w->pad[0], left = x * w->stride[1] - w->pad[1];
    struct area a = { most(top, 0), least(top + w->kernel[0], w->height), most(left, 0),
                      least(left + w->kernel[1], w->width) };
    assert(a.top < a.bottom && a.left < a.right);
    return a;
}

void qg_int_average_pool(const qg_int_window *w, qg_rounding rounding,
                         qg_code_range range, const int32_t *x, int32_t *y)
{
    assert(range.lo <= range.hi);
    for (int64_t p = 0; p < w->planes; p++, x += w->height * w->width)
        for (int64_t i = 0; i < w->out_height * w->out_width; i++) {
            struct area a = area_of(w, i / w->out_width, i % w->out_width);
            int64_t sum = 0, n = (a.bottom - a.top) * (a.right - a.left);
            for (int64_t r = a.top; r < a.bottom; r++)
                for (int64_t c = a.left; c < a.right; c++)
                    sum += x[r * w->width + c];
            int64_t mean = qg_round_quotient(rounding, sum, n);
            *y++ = (int32_t)qg_clamp_i64(mean, range.lo, range.hi);
        }
}

/* The order is ORT's: dequantize each code, add row by row in float32, divide once. */
void qg_int_average_pool_float(const qg_int_window *w, const qg_float_pool *p,
                               const int32_t *x, int32_t *y)
{
    qg_code_range to = qg_code_range_of(p->y.dtype, p->y.zero);
    for (int64_t k = 0; k < w->planes; k++, x += w->height * w->width)
        for (int64_t i = 0; i < w->out_height * w->out_width; i++) {
            struct area a = area_of(w, i / w->out_width, i % w->out_width);
            int64_t n = p->count_pad ? w->kernel[0] * w->kernel[1]
                                     : (a.bottom - a.top) * (a.right - a.left);
            float sum = 0;
            for (int64_t r = a.top; r < a.bottom; r++)
                for (int64_t c = a.left; c < a.right; c++)
                    sum += p->x.scale * (float)(x[r * w->width + c] - p->x.zero);
            float mean = sum / (float)n;
            float v =
                qg_round_f32(QG_ROUND_HALF_EVEN, mean / p->y.scale + (float)to.zero);
            v = v > (float)to.lo ? v : (float)to.lo;
            *y++ = v < (float)to.hi ? (int32_t)v : to.hi;
        }
}

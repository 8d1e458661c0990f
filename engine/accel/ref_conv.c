#include "engine/accel/accel.h"

#include <assert.h>

/* Extents were checked by the operator: the product fits. */
static int64_t volume(const int64_t extent[QG_SPACE])
{
    return extent[0] * extent[1] * extent[2];
}

/* The output positions o, begin <= o < end, whose input position
 * o * stride + shift lies inside the image, for one kernel position. */
typedef struct span {
    int64_t begin, end, shift;
} span;

/* For b > 0; 0 for a <= 0, which is where positions are cut off. */
static int64_t ceil_div(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : 0; }

/* Positions i >= 0 below `limit` with 0 <= i * stride + shift < extent. */
static span clip(int64_t limit, int64_t extent, int64_t stride, int64_t shift)
{
    span s = { ceil_div(-shift, stride), ceil_div(extent - shift, stride), shift };
    if (s.end > limit)
        s.end = limit;
    return s;
}

/* The span along one axis for kernel position k. */
static span span_of(const qg_conv_problem *p, int axis, int64_t k)
{
    return clip(p->out[axis], p->in[axis], p->stride[axis],
                k * p->dilation[axis] - p->pad_begin[axis]);
}

/* The transpose walks the input: positions i whose output position is inside. */
static span scatter_span_of(const qg_conv_problem *p, int axis, int64_t k)
{
    return clip(p->in[axis], p->out[axis], p->stride[axis],
                k * p->dilation[axis] - p->pad_begin[axis]);
}

/* A 1x1 kernel that moves nothing sees the whole image as one row. */
static qg_conv_problem flattened(const qg_conv_problem *p)
{
    qg_conv_problem f = *p;
    assert(p->groups > 0 && p->in_channels % p->groups == 0 &&
           p->out_channels % p->groups == 0);
    for (int a = 0; a < QG_SPACE; a++)
        if (p->kernel[a] != 1 || p->stride[a] != 1 || p->pad_begin[a] || p->pad_end[a])
            return f;
    f.in[2] = f.out[2] = volume(p->in);
    f.in[0] = f.in[1] = f.out[0] = f.out[1] = 1;
    return f;
}

#define REAL    float
#define NAME(f) f##_f32
#include "engine/accel/ref_conv_body.h"
#undef REAL
#undef NAME

#define REAL    double
#define NAME(f) f##_f64
#include "engine/accel/ref_conv_body.h"
#undef REAL
#undef NAME

/* y[i] += (x[i * step] - zero) * w, modulo 2^32. */
static void add_row_i32(int32_t *y, const int32_t *x, int64_t step, int32_t zero,
                        int32_t w, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = (int32_t)((uint32_t)y[i] +
                         ((uint32_t)x[i * step] - (uint32_t)zero) * (uint32_t)w);
}

static void add_plane_i32(const qg_conv_problem *p, int32_t x_zero, int32_t w_zero,
                          const int32_t *x, const int32_t *w, int32_t *y)
{
    for (int64_t kd = 0; kd < p->kernel[0]; kd++)
        for (int64_t kh = 0; kh < p->kernel[1]; kh++)
            for (int64_t kw = 0; kw < p->kernel[2]; kw++, w++) {
                const span d = span_of(p, 0, kd), h = span_of(p, 1, kh);
                const span c = span_of(p, 2, kw);
                for (int64_t od = d.begin; od < d.end; od++)
                    for (int64_t oh = h.begin; oh < h.end && c.begin < c.end; oh++) {
                        int64_t id = od * p->stride[0] + d.shift;
                        int64_t ih = oh * p->stride[1] + h.shift;
                        add_row_i32(y + (od * p->out[1] + oh) * p->out[2] + c.begin,
                                    x + (id * p->in[1] + ih) * p->in[2] +
                                        c.begin * p->stride[2] + c.shift,
                                    p->stride[2], x_zero, *w - w_zero, c.end - c.begin);
                    }
            }
}

/* Unsigned arithmetic: sums wrap as every integer runtime's do. */
void qg_ref_conv_i32(const qg_conv_problem *p, const qg_conv_zero *zero,
                     const int32_t *x, const int32_t *w, const int32_t *b, int32_t *y)
{
    assert(p->groups > 0 && p->out_channels % p->groups == 0);
    int64_t ic = p->in_channels / p->groups, oc = p->out_channels / p->groups;
    int64_t in = volume(p->in), out = volume(p->out), taps = volume(p->kernel);
    assert(zero->n_w_zero == 1 || zero->n_w_zero == p->out_channels);
    for (int64_t n = 0; n < p->batch; n++)
        for (int64_t o = 0; o < p->out_channels; o++) {
            int32_t *plane = y + (n * p->out_channels + o) * out;
            const int32_t *image = x + (n * p->in_channels + o / oc * ic) * in;
            int32_t w_zero = zero->w_zero[zero->n_w_zero == 1 ? 0 : o];
            for (int64_t i = 0; i < out; i++)
                plane[i] = b ? b[o] : 0;
            for (int64_t i = 0; i < ic; i++)
                add_plane_i32(p, zero->x_zero, w_zero, image + i * in,
                              w + (o * ic + i) * taps, plane);
        }
}

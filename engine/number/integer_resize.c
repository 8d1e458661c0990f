#include "engine/number/integer_resize.h"

#include <assert.h>
#include <math.h>

#include "engine/number/round.h"

static int32_t least(int64_t a, int64_t b) { return (int32_t)(a < b ? a : b); }
static int32_t most(int64_t a, int64_t b) { return (int32_t)(a > b ? a : b); }

/* 10 bits: integers throughout. */
static qg_int_tap tap10(qg_int_centre centre, int64_t in, int64_t out, int64_t i)
{
    bool corners = centre == QG_INT_ALIGN_CORNERS && out > 1;
    int64_t from = corners ? in - 1 : in, to = corners ? out - 1 : out;
    int64_t k = (1024 * from + to / 2) / to;
    int64_t p = i * k + (centre == QG_INT_HALF_PIXEL ? k / 2 - 512 : 0);
    int32_t low = most(p / 1024, 0), high = least((p + 1023) / 1024, in - 1);
    return (qg_int_tap){ least(low, in - 1), most(high, 0), (int32_t)(p - 1024 * low),
                         0 };
}

/* 11 bits: the position in float32. */
static qg_int_tap tap11(qg_int_centre centre, int64_t in, int64_t out, int64_t i)
{
    bool corners = centre == QG_INT_ALIGN_CORNERS && out > 1;
    float k = (float)(corners ? in - 1 : in) / (float)(corners ? out - 1 : out);
    float p = (float)i * k;
    if (centre == QG_INT_HALF_PIXEL)
        p = fminf(fmaxf(p + (0.5f * k - 0.5f), 0), (float)(in - 1));
    int32_t low = least((int64_t)p, in - 1);
    float weight = (p - (float)low) * 2048.0f;
    return (qg_int_tap){ low, least(low + 1, in - 1),
                         (int32_t)qg_round_f32(QG_ROUND_HALF_EVEN, weight), 0 };
}

static qg_int_tap tap_float(qg_int_centre centre, int64_t in, int64_t out, int64_t i)
{
    bool corners = centre == QG_INT_ALIGN_CORNERS && out > 1;
    float k = (float)(corners ? in - 1 : in) / (float)(corners ? out - 1 : out);
    float p = centre == QG_INT_HALF_PIXEL ? ((float)i + 0.5f) * k - 0.5f : (float)i * k;
    int32_t low = least(most((int64_t)floorf(p), 0), in - 1);
    return (qg_int_tap){ low, most(least((int64_t)ceilf(p), in - 1), 0), 0,
                         p - (float)low };
}

void qg_int_resize_taps(int bits, qg_int_centre centre, int64_t in, int64_t out,
                        qg_int_tap *tap)
{
    assert(bits == 10 || bits == 11 || bits == 0);
    assert(in >= 1 && in <= QG_INT_RESIZE_MOST && out >= 1);
    assert(out <= QG_INT_RESIZE_MOST);
    for (int64_t i = 0; i < out; i++)
        tap[i] = (bits == 10   ? tap10
                  : bits == 11 ? tap11
                               : tap_float)(centre, in, out, i);
}

/* Four corners, weighted with (2^bits - a, a) in each axis. */
static int32_t blend(const qg_int_resize *r, const qg_int_tap *row,
                     const qg_int_tap *column, const int32_t *x)
{
    const int32_t *top = x + row->low * r->width, *bottom = x + row->high * r->width;
    int64_t one = INT64_C(1) << r->bits, across = column->weight, down = row->weight;
    int64_t upper = top[column->low] * (one - across) + top[column->high] * across;
    int64_t lower =
        bottom[column->low] * (one - across) + bottom[column->high] * across;
    return (int32_t)qg_round_shift(r->rounding, upper * (one - down) + lower * down,
                                   2 * (unsigned)r->bits);
}

/* The order of the products and sums is part of the result. */
static int32_t blend_float(const qg_int_resize *r, const qg_int_tap *row,
                           const qg_int_tap *column, const int32_t *x)
{
    const int32_t *top = x + row->low * r->width, *bottom = x + row->high * r->width;
    float down = row->part, up = 1 - down, right = column->part, left = 1 - right;
    if (r->weights_first) {
        float first = (float)top[column->low] * (up * left) +
                      (float)top[column->high] * (up * right);
        first += (float)bottom[column->low] * (down * left);
        first += (float)bottom[column->high] * (down * right);
        return (int32_t)(first + 0.5f);
    }
    float sum = (float)top[column->low] * up * left;
    sum += (float)bottom[column->low] * down * left;
    sum += (float)top[column->high] * up * right;
    sum += (float)bottom[column->high] * down * right;
    return (int32_t)(sum + 0.5f);
}

void qg_int_resize_plane(const qg_int_resize *r, const int32_t *x, int32_t *y)
{
    for (int64_t i = 0; i < r->out_height; i++)
        for (int64_t j = 0; j < r->out_width; j++)
            *y++ = (r->bits ? blend : blend_float)(r, &r->rows[i], &r->columns[j], x);
}

#include "engine/accel/phases.h"

#include <string.h>

bool qg_phases_fit(const qg_conv_problem *p)
{
    return p->in[0] == 1 && p->out[0] == 1 && p->kernel[0] == 1 && !p->pad_begin[0];
}

qg_phases qg_phases_of(const qg_conv_problem *p, int64_t first, int64_t rows)
{
    qg_phases f = { .first = first };
    int64_t reach[2];
    for (int a = 0; a < 2; a++) {
        f.image[a] = p->in[a + 1];
        f.windows[a] = a ? p->out[2] : rows;
        f.stride[a] = p->stride[a + 1];
        f.dilation[a] = p->dilation[a + 1];
        f.pad[a] = p->pad_begin[a + 1];
        reach[a] = (p->kernel[a + 1] - 1) * f.dilation[a] / f.stride[a];
    }
    f.rows = reach[0] + f.windows[0];
    f.pitch = reach[1] + f.windows[1];
    f.run = f.windows[0] > 0 ? (f.windows[0] - 1) * f.pitch + f.windows[1] : 0;
    f.size = f.stride[0] * f.stride[1] * f.rows * f.pitch;
    return f;
}

int64_t qg_phases_tap(const qg_phases *p, int64_t y, int64_t x)
{
    const int64_t h = y * p->dilation[0], w = x * p->dilation[1];
    if (p->stride[0] == 1 && p->stride[1] == 1) /* one plane: no quotient */
        return h * p->pitch + w;
    const int64_t plane = h % p->stride[0] * p->stride[1] + w % p->stride[1];
    return (plane * p->rows + h / p->stride[0]) * p->pitch + w / p->stride[1];
}

/* Columns [begin, end) of a row of plane column b that lie inside of the image; the
 * first of them is pixel *at. */
static void inside(const qg_phases *p, int64_t b, int64_t *begin, int64_t *end,
                   int64_t *at)
{
    const int64_t step = p->stride[1], shift = b - p->pad[1];
    const int64_t left = p->image[1] - shift; /* pixels from column 0 on */
    *begin = shift < 0 ? (-shift + step - 1) / step : 0;
    *end = left > 0 ? (left + step - 1) / step : 0;
    *end = *end < p->pitch ? *end : p->pitch;
    *begin = *begin < *end ? *begin : *end;
    *at = *begin * step + shift;
}

/* The image's row that row i of plane row a has; -1: padding. */
static int64_t image_row(const qg_phases *p, int64_t a, int64_t i)
{
    const int64_t row = (p->first + i) * p->stride[0] + a - p->pad[0];
    return row < p->image[0] ? row : -1;
}

/* Rows are short: a call of the C library costs as much as the row. */
enum { SHORT = 64 };
typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));

static void copy(const float *from, int64_t n, float *to)
{
    int64_t i = 0;
    if (n > SHORT)
        memcpy(to, from, (size_t)n * sizeof *to);
    else {
        for (; i + 4 <= n; i += 4)
            *(quad *)(to + i) = *(const quad *)(from + i);
        for (; i < n; i++)
            to[i] = from[i];
    }
}

static void clear(float *to, int64_t n)
{
    if (n > 2)
        memset(to, 0, (size_t)n * sizeof *to);
    if (n == 1 || n == 2) /* padding, mostly */
        to[0] = to[n - 1] = 0;
}

/* to[i] = from[i * step], i < n. */
static void read_row(const float *from, int64_t step, int64_t n, float *to)
{
    if (step == 1)
        copy(from, n, to);
    else if (step == 2) /* a constant, for which there are vectors */
        for (int64_t i = 0; i < n; i++)
            to[i] = from[2 * i];
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i * step];
}

void qg_phases_load(const qg_phases *p, const float *image, float *to)
{
    const int64_t step = p->stride[1];
    for (int64_t plane = 0; plane < p->stride[0] * step; plane++) {
        int64_t begin, end, at;
        inside(p, plane % step, &begin, &end, &at);
        for (int64_t i = 0; i < p->rows; i++, to += p->pitch) {
            const int64_t row = image_row(p, plane / step, i);
            const int64_t first = row < 0 ? p->pitch : begin;
            const int64_t last = row < 0 ? p->pitch : end;
            clear(to, first);
            if (row >= 0)
                read_row(image + row * p->image[1] + at, step, last - first,
                         to + first);
            clear(to + last, p->pitch - last);
        }
    }
}

void qg_phases_add(const qg_phases *p, const float *from, float *image)
{
    const int64_t step = p->stride[1];
    for (int64_t plane = 0; plane < p->stride[0] * step; plane++) {
        int64_t begin, end, at;
        inside(p, plane % step, &begin, &end, &at);
        for (int64_t i = 0; i < p->rows; i++, from += p->pitch) {
            const int64_t row = image_row(p, plane / step, i);
            if (row < 0)
                continue;
            float *to = image + row * p->image[1] + at;
            for (int64_t j = begin; step == 1 && j < end; j++)
                to[j - begin] += from[j];
            for (int64_t j = begin; step != 1 && j < end; j++, to += step)
                *to += from[j];
        }
    }
}

#include "engine/accel/accel.h"

#include <assert.h>
#include <string.h>

#include "engine/accel/phases.h"
#include "engine/accel/ref_sum.h"

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

/* y[i] += w * x[i * step] for i < n. */
static void add_row_f64(double *restrict y, const double *restrict x, int64_t step,
                        double w, int64_t n)
{
    if (step == 1)
        for (int64_t i = 0; i < n; i++)
            y[i] += w * x[i];
    else
        for (int64_t i = 0; i < n; i++)
            y[i] += w * x[i * step];
}

/* Adds the product of one input plane and one kernel to every row of one output
 * plane. */
static void add_plane_f64(const qg_conv_problem *p, const double *x, const double *w,
                          double *y)
{
    for (int64_t kd = 0; kd < p->kernel[0]; kd++)
        for (int64_t kh = 0; kh < p->kernel[1]; kh++)
            for (int64_t kw = 0; kw < p->kernel[2]; kw++, w++) {
                const span d = span_of(p, 0, kd), h = span_of(p, 1, kh);
                const span c = span_of(p, 2, kw);
                if (c.end <= c.begin)
                    continue;
                for (int64_t od = d.begin; od < d.end; od++)
                    for (int64_t oh = h.begin; oh < h.end; oh++) {
                        int64_t id = od * p->stride[0] + d.shift;
                        int64_t ih = oh * p->stride[1] + h.shift;
                        add_row_f64(y + (od * p->out[1] + oh) * p->out[2] + c.begin,
                                    x + (id * p->in[1] + ih) * p->in[2] +
                                        c.begin * p->stride[2] + c.shift,
                                    p->stride[2], *w, c.end - c.begin);
                    }
            }
}

/* Output channel o reads the input channels of its group, o / oc. */
void qg_ref_conv_f64(const qg_conv_problem *given, const double *x, const double *w,
                     const double *b, double *y)
{
    qg_conv_problem flat = flattened(given);
    const qg_conv_problem *p = &flat;
    int64_t ic = p->in_channels / p->groups, oc = p->out_channels / p->groups;
    int64_t in = volume(p->in), out = volume(p->out), taps = volume(p->kernel);
    for (int64_t n = 0; n < p->batch; n++)
        for (int64_t o = 0; o < p->out_channels; o++) {
            double *plane = y + (n * p->out_channels + o) * out;
            const double *image = x + (n * p->in_channels + o / oc * ic) * in;
            fill_f64(plane, b ? b[o] : 0, out);
            for (int64_t i = 0; i < ic; i++)
                add_plane_f64(p, image + i * in, w + (o * ic + i) * taps, plane);
        }
}

/* --- float32: sums in the order of ref_sum.h --- */

/* The terms of one group's sums, for the output positions that are being made. */
typedef struct term_walk {
    const qg_conv_problem *p;
    const float *x;         /* the group's image */
    const float *b;         /* biases of the group's outputs; NULL: none */
    int64_t at, count;      /* term; terms in all */
    int64_t c, k[QG_SPACE]; /* the term: channel, kernel position */
    int64_t first, n;       /* positions, row after row; at most QG_REF_CHUNK */
} term_walk;

static void next_term(term_walk *t)
{
    t->at++;
    for (int a = QG_SPACE - 1; a >= 0; a--) {
        if (++t->k[a] < t->p->kernel[a])
            return;
        t->k[a] = 0;
    }
    t->c++;
}

/* The input row that the term reads for output row `row`; NULL: padding. */
static const float *input_row(const term_walk *t, int64_t row)
{
    const qg_conv_problem *p = t->p;
    const int64_t depth = row / p->out[1], height = row % p->out[1];
    int64_t d = depth * p->stride[0] + t->k[0] * p->dilation[0] - p->pad_begin[0];
    int64_t h = height * p->stride[1] + t->k[1] * p->dilation[1] - p->pad_begin[1];
    if (d < 0 || d >= p->in[0] || h < 0 || h >= p->in[1])
        return NULL;
    return t->x + ((t->c * p->in[0] + d) * p->in[1] + h) * p->in[2];
}

static int64_t within(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

/* Columns begin .. end of an output row: to[i] is what column begin + i reads. */
static void gather_row(const term_walk *t, const span *s, const float *x, int64_t begin,
                       int64_t end, float *to)
{
    const int64_t step = t->p->stride[2];
    const int64_t from = x ? within(s->begin, begin, end) : end;
    const int64_t until = x ? within(s->end, from, end) : end;
    for (int64_t i = begin; i < from; i++)
        to[i - begin] = 0;
    if (step == 1 && until > from)
        memcpy(to + (from - begin), x + from + s->shift,
               (size_t)(until - from) * sizeof *to);
    for (int64_t i = from; step == 2 && i < until; i++) /* a constant: vectors */
        to[i - begin] = x[2 * i + s->shift];
    for (int64_t i = from; step > 2 && i < until; i++)
        to[i - begin] = x[i * step + s->shift];
    for (int64_t i = until; i < end; i++)
        to[i - begin] = 0;
}

/* to[n]: what the term reads for each position; padding is 0. */
static void gather(const term_walk *t, float *to)
{
    const int64_t width = t->p->out[2], end = t->first + t->n;
    const span s = span_of(t->p, 2, t->k[2]);
    int64_t row = t->first / width, column = t->first % width;
    for (int64_t at = t->first, n; at < end; at += n, to += n, row++, column = 0) {
        n = width - column < end - at ? width - column : end - at;
        gather_row(t, &s, input_row(t, row), column, column + n, to);
    }
}

/* The next `terms` terms as rows of n; an image that is one row is read in place. */
static const float *gather_terms(term_walk *t, bool in_place, int64_t terms, float *to,
                                 int64_t *ld)
{
    const int64_t size = volume(t->p->in);
    const float *rows = in_place ? t->x + t->c * size + t->first : to;
    *ld = in_place ? size : t->n;
    for (int64_t i = 0; i < terms; i++, next_term(t))
        if (!in_place)
            gather(t, to + i * t->n);
    return rows;
}

/* Whether the first output sees padding, along whichever axis. */
static bool begins_in_padding(const qg_conv_problem *p)
{
    for (int a = 0; a < QG_SPACE; a++)
        if (p->pad_begin[a] != 0)
            return true;
    return false;
}

/* Added when the sum is complete. */
static void add_bias(const term_walk *t, int64_t row, float *y, int64_t n)
{
    const float b = t->b ? t->b[row] : 0;
    for (int64_t i = 0; t->b && i < n; i++)
        y[i] += b;
}

/* Positions t.first .. + n of every output channel of the group: y [rows][size]. */
static void sum_rows(term_walk t, const float *w, int64_t rows, int64_t slice, float *y)
{
    float part[QG_REF_ROWS * QG_REF_CHUNK], gathered[QG_REF_GATHERED];
    const qg_conv_problem *p = t.p;
    const int64_t size = volume(p->out);
    const bool in_place = volume(p->kernel) == 1 && p->out[2] == size &&
                          p->in[2] == size && p->stride[2] == 1 &&
                          !begins_in_padding(p);
    qg_ref_slab s = { .columns = t.n, .a_row = t.count, .a_term = 1 };
    for (int64_t begin = 0; begin < t.count; begin = t.at) {
        s.terms = t.count - begin < slice ? t.count - begin : slice;
        s.b = gather_terms(&t, in_place, s.terms, gathered, &s.ldb);
        for (int64_t i = 0; i < rows; i += s.rows) {
            s.rows = rows - i < QG_REF_ROWS ? rows - i : QG_REF_ROWS;
            s.a = w + i * t.count + begin;
            s.ld_sum = begin ? t.n : size;
            qg_ref_sum_slab(&s, begin ? part : y + i * size + t.first);
            for (int64_t r = 0; begin && r < s.rows; r++)
                qg_ref_add_row(false, y + (i + r) * size + t.first, part + r * t.n, 1,
                               1, t.n);
        }
    }
    for (int64_t i = 0; i < rows; i++)
        add_bias(&t, i, y + i * size + t.first, t.n);
}

/* The same where the group has one: products and sums are rounded apart. */
static void sum_one_row(term_walk t, const float *w, float *y)
{
    float part[QG_REF_CHUNK], read[QG_REF_CHUNK];
    for (int64_t begin = 0; begin < t.count; begin = t.at) {
        const int64_t end = begin + qg_ref_row_slice(t.count, begin);
        for (int64_t i = 0; i < t.n; i++)
            part[i] = 0;
        for (; t.at < end; next_term(&t)) {
            gather(&t, read);
            qg_ref_add_row(false, part, read, 1, w[t.at], t.n);
        }
        for (int64_t i = 0; i < t.n; i++)
            y[t.first + i] = begin ? y[t.first + i] + part[i] : part[i];
    }
    add_bias(&t, 0, y + t.first, t.n);
}

/* Rows of windows that are summed together, as sum_one_row does it. */
enum { BAND = 4096, BAND_RUN = 2048 };
typedef struct band {
    const qg_phases *f;
    int64_t loaded; /* the channel that planes are of; -1: none */
    float planes[BAND], part[BAND_RUN], sum[BAND_RUN];
} band;

/* The terms from t on that read one channel, at most QG_REF_TERMS and `most`. */
static int terms_of_channel(const band *b, term_walk *t, int64_t most, const float *w,
                            qg_ref_terms *to)
{
    const int64_t channel = t->c;
    to->n_term = 0;
    for (; to->n_term < QG_REF_TERMS && to->n_term < most && t->c == channel;
         to->n_term++, next_term(t)) {
        to->x[to->n_term] = b->planes + qg_phases_tap(b->f, t->k[1], t->k[2]);
        to->w[to->n_term] = w[t->at];
    }
    return to->n_term;
}

/* y: of the first row of windows. */
static void sum_band(band *b, term_walk t, const float *w, float *y)
{
    const qg_phases *f = b->f;
    for (int64_t begin = 0, end; begin < t.count; begin = end) {
        qg_ref_terms of = { .part = b->part, .sum = b->sum, .first = begin == 0 };
        end = begin + qg_ref_row_slice(t.count, begin);
        while (t.at < end) {
            if (b->loaded != t.c)
                qg_phases_load(f, t.x + t.c * f->image[0] * f->image[1], b->planes);
            b->loaded = t.c;
            of.begins = t.at == begin;
            (void)terms_of_channel(b, &t, end - t.at, w, &of);
            of.ends = t.at == end;
            qg_ref_add_terms(&of, f->run);
        }
    }
    add_bias(&t, 0, b->sum, f->run);
    for (int64_t r = 0; r < f->windows[0]; r++, y += f->windows[1])
        memcpy(y, b->sum + r * f->pitch, (size_t)f->windows[1] * sizeof *y);
}

/* The most rows of windows whose band has room; 0: not one. */
static int64_t band_rows(const qg_conv_problem *p)
{
    int64_t rows = qg_phases_fit(p) ? p->out[1] : 0;
    for (; rows > 0; rows = rows / 2) {
        const qg_phases f = qg_phases_of(p, 0, rows);
        if (f.size <= BAND && f.run <= BAND_RUN)
            return rows;
    }
    return 0;
}

static void sum_bands(term_walk t, int64_t rows, const float *w, float *y)
{
    const qg_conv_problem *p = t.p;
    band b;
    for (int64_t first = 0; first < p->out[1]; first += rows) {
        const int64_t left = p->out[1] - first;
        const qg_phases f = qg_phases_of(p, first, left < rows ? left : rows);
        b.f = &f;
        b.loaded = -1;
        sum_band(&b, t, w, y + first * p->out[2]);
    }
}

/* All positions of all output channels of a group. */
static void sum_group(term_walk t, const float *w, int64_t rows, float *y)
{
    const int64_t size = volume(t.p->out), slice = qg_ref_slice(size, t.count);
    const int64_t room = rows > 1 ? QG_REF_GATHERED / slice : QG_REF_CHUNK;
    const int64_t most = room < QG_REF_CHUNK ? room : QG_REF_CHUNK;
    const int64_t together = rows == 1 && t.count > 0 ? band_rows(t.p) : 0;
    if (together) {
        sum_bands(t, together, w, y);
        return;
    }
    for (t.first = 0; t.first < size; t.first += t.n) {
        t.n = size - t.first < most ? size - t.first : most;
        if (rows > 1)
            sum_rows(t, w, rows, slice, y);
        else
            sum_one_row(t, w, y);
    }
}

/* One output as a product of two rows: number `row` of `rows`. */
static float dot(term_walk t, const float *w, int64_t row, int64_t rows)
{
    float lane[QG_REF_LANES] = { 0 }, read;
    if (volume(t.p->in) == 1 && volume(t.p->out) == 1 && volume(t.p->kernel) == 1 &&
        !begins_in_padding(t.p))
        return qg_ref_dot(t.x, w, t.count, row, rows);
    for (; t.at < t.count; next_term(&t)) {
        gather(&t, &read);
        qg_ref_add_row(false, &lane[t.at % QG_REF_LANES], &read, 1, w[t.at], 1);
    }
    return qg_ref_fold(lane, row, rows);
}

/* Kernels as wide as the image of their one channel: each output row is a product of
 * the weights with rows that are stored. */
static bool is_full_width(const qg_conv_problem *p)
{
    for (int a = 0; a < QG_SPACE; a++)
        if (p->stride[a] != 1 || p->dilation[a] != 1 || p->pad_begin[a] ||
            p->pad_end[a])
            return false;
    return p->axes <= 2 && p->in_channels == p->groups && p->kernel[2] == p->in[2];
}

/* The `rows` output channels of one group. */
static void convolve_group(term_walk t, const float *w, int64_t rows, float *y)
{
    const int64_t size = volume(t.p->out);
    const bool stored = is_full_width(t.p);
    t.n = 1;
    if (rows == 1 && stored)
        for (t.first = 0; t.first < size; t.first++)
            y[t.first] = dot(t, w, t.first, size);
    else if (rows > 1 && size == 1 && (!stored || t.p->in[2] == 1))
        for (int64_t o = 0; o < rows; o++)
            y[o] = dot(t, w + o * t.count, o, rows);
    else {
        sum_group(t, w, rows, y);
        return;
    }
    for (int64_t o = 0; o < rows; o++)
        add_bias(&t, o, y + o * size, size);
}

void qg_ref_conv_f32(const qg_conv_problem *given, const float *x, const float *w,
                     const float *b, float *y)
{
    qg_conv_problem flat = flattened(given);
    const qg_conv_problem *p = &flat;
    int64_t ic = p->in_channels / p->groups, oc = p->out_channels / p->groups;
    int64_t in = volume(p->in), out = volume(p->out);
    term_walk t = { .p = p, .count = ic * volume(p->kernel) };
    for (int64_t n = 0; n < p->batch && oc > 0; n++)
        for (int64_t g = 0; g < p->groups; g++, y += oc * out) {
            t.x = x + (n * p->in_channels + g * ic) * in;
            t.b = b ? b + g * oc : NULL;
            if (t.count == 0)
                fill_f32(y, 0, oc * out);
            convolve_group(t, w + g * oc * t.count, oc, y);
        }
}

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

/* util_conv_backward.c -- gradients of Conv and ConvTranspose.
 *
 * A window reads a patch of an image: for Conv the image is x and the windows are y,
 * for ConvTranspose the other way round.  Per sample and group, with the patches as
 * columns and v the tensor on the windows' side:
 *
 *     dw += v cols'        d image = patches of (w' v) added
 *
 * A kernel of one place is its own columns.  Where windows are one apart, the image's
 * gradient is a convolution of v with the kernel turned around.  One channel per group,
 * on two axes: each tap is one long run of the planes of phases.h.
 * Bits   of one order of sums, whatever the CPU */
#include <string.h>

#include "engine/accel/phases.h"
#include "ops/util_axis.h"
#include "ops/util_backward.h"
#include "ops/util_check.h"
#include "ops/util_conv.h"
#include "ops/util_vector.h"

static void clear(qg_tensor *t)
{
    if (t)
        memset(t->data, 0, qg_elements(t) * sizeof *t->f32);
}

/* The columns of one group of one sample: row (channel, place in the kernel), column
 * the window. */
typedef struct columns {
    const qg_conv_problem *p; /* in: the image, out: the windows */
    int64_t channels, m;      /* of a group: of the image, of the windows */
    int64_t image_size, n_windows, n_rows;
    float *at; /* [n_rows][n_windows]; NULL: the image itself */
} columns;

static int64_t volume(const int64_t *dim) { return dim[0] * dim[1] * dim[2]; }

/* Windows [begin, end) of axis a read inside of the image with this tap; window w reads
 * w * stride + shift. */
typedef struct span {
    int64_t begin, end, shift;
} span;

static span span_of(const qg_conv_problem *p, int a, int64_t tap)
{
    const int64_t step = p->stride[a], shift = tap * p->dilation[a] - p->pad_begin[a];
    span s = { .shift = shift };
    s.begin = shift < 0 ? (-shift + step - 1) / step : 0;
    s.end = p->in[a] > shift ? (p->in[a] - shift + step - 1) / step : 0;
    s.end = s.end < p->out[a] ? s.end : p->out[a];
    s.begin = s.begin < s.end ? s.begin : s.end;
    return s;
}

/* One line of windows: read from `line` of the image, or (back) added to it.  NULL: all
 * padding. */
static void move_line(const columns *c, const span *s, bool back, float *line,
                      float *row)
{
    const int64_t n = c->p->out[2], step = c->p->stride[2];
    const int64_t begin = line ? s->begin : 0, end = line ? s->end : 0;
    if (back) {
        for (int64_t w = begin; w < end; w++)
            line[w * step + s->shift] += row[w];
        return;
    }
    for (int64_t w = 0; w < begin; w++)
        row[w] = 0;
    if (step == 1 && begin < end)
        memcpy(row + begin, line + begin + s->shift,
               (size_t)(end - begin) * sizeof *row);
    for (int64_t w = begin; step == 2 && w < end; w++) /* a constant: vectors */
        row[w] = line[2 * w + s->shift];
    for (int64_t w = begin; step > 2 && w < end; w++)
        row[w] = line[w * step + s->shift];
    for (int64_t w = end; w < n; w++)
        row[w] = 0;
}

/* One row of the columns. */
static void move_row(const columns *c, const int64_t tap[QG_SPACE], bool back,
                     float *image, float *row)
{
    const qg_conv_problem *p = c->p;
    span s[QG_SPACE];
    for (int a = 0; a < QG_SPACE; a++)
        s[a] = span_of(p, a, tap[a]);
    for (int64_t d = 0; d < p->out[0]; d++)
        for (int64_t h = 0; h < p->out[1]; h++, row += p->out[2]) {
            const bool in =
                d >= s[0].begin && d < s[0].end && h >= s[1].begin && h < s[1].end;
            const int64_t z = d * p->stride[0] + s[0].shift;
            const int64_t y = h * p->stride[1] + s[1].shift;
            move_line(c, &s[2], back, in ? image + (z * p->in[1] + y) * p->in[2] : NULL,
                      row);
        }
}

static void move_columns(const columns *c, bool back, float *image)
{
    const int64_t *kernel = c->p->kernel;
    float *row = c->at;
    int64_t tap[QG_SPACE];
    for (int64_t i = 0; i < c->channels; i++, image += c->image_size)
        for (tap[0] = 0; tap[0] < kernel[0]; tap[0]++)
            for (tap[1] = 0; tap[1] < kernel[1]; tap[1]++)
                for (tap[2] = 0; tap[2] < kernel[2]; tap[2]++, row += c->n_windows)
                    move_row(c, tap, back, image, row);
}

/* A kernel of one place that moves nothing. */
static bool is_pointwise(const qg_conv_problem *p)
{
    bool is = volume(p->kernel) == 1;
    for (int a = 0; a < QG_SPACE; a++)
        is = is && p->stride[a] == 1 && !p->pad_begin[a] && p->in[a] == p->out[a];
    return is;
}

static qg_status columns_of(const qg_call *k, const qg_conv_problem *p, columns *out)
{
    *out = (columns){ .p = p,
                      .channels = p->in_channels / p->groups,
                      .m = p->out_channels / p->groups,
                      .image_size = volume(p->in),
                      .n_windows = volume(p->out) };
    out->n_rows = out->channels * volume(p->kernel);
    if (is_pointwise(p))
        return QG_OK;
    out->at = qg_arena_raw(k->scratch, (size_t)(out->n_rows * out->n_windows),
                           sizeof *out->at);
    return out->at ? QG_OK : qg_nomem(k->ctx);
}

/* The columns of an image, which is not written to. */
static const float *read_columns(const columns *c, const float *image)
{
    if (!c->at)
        return image;
    move_columns(c, false, (float *)(uintptr_t)image);
    return c->at;
}

/* w [m][rows]: dw += v cols'. */
static void add_to_weights(const columns *c, const float *v, const float *cols,
                           float *dw)
{
    const qg_gemm_problem q = { .m = c->m,
                                .n = c->n_rows,
                                .k = c->n_windows,
                                .lda = c->n_windows,
                                .ldb = c->n_windows,
                                .ldc = c->n_rows,
                                .trans_b = true,
                                .alpha = 1,
                                .beta = 1 };
    qg_ref_gemm_f32(&q, v, cols, dw);
}

/* The image's gradient, which is 0 before: patches of w' v. */
static void add_to_image(const columns *c, const float *w, const float *v, float *image)
{
    const qg_gemm_problem q = { .m = c->n_rows,
                                .n = c->n_windows,
                                .k = c->m,
                                .lda = c->n_rows,
                                .ldb = c->n_windows,
                                .ldc = c->n_windows,
                                .trans_a = true,
                                .alpha = 1 };
    qg_ref_gemm_f32(&q, w, v, c->at ? c->at : image);
    if (c->at)
        move_columns(c, true, image);
}

/* The windows' side from the image's: w cols. */
static void collect(const columns *c, const float *w, const float *cols, float *v)
{
    const qg_gemm_problem q = qg_gemm_dense(c->m, c->n_windows, c->n_rows, false);
    qg_ref_gemm_f32(&q, w, cols, v);
}

/* --- steps of one ----------------------------------------------------------------- */

/* Whether the image's gradient is itself a convolution: of g, with the kernel turned
 * around. */
static bool is_mirrored(const qg_conv_problem *p)
{
    bool is = !is_pointwise(p);
    for (int a = 0; a < QG_SPACE; a++) {
        const int64_t reach = (p->kernel[a] - 1) * p->dilation[a];
        is = is && p->stride[a] == 1 && p->pad_begin[a] <= reach &&
             p->pad_end[a] <= reach &&
             p->out[a] == p->in[a] + p->pad_begin[a] + p->pad_end[a] - reach;
    }
    return is;
}

static qg_conv_problem mirror_of(const qg_conv_problem *p)
{
    qg_conv_problem m = *p;
    m.in_channels = p->out_channels;
    m.out_channels = p->in_channels;
    memcpy(m.in, p->out, sizeof m.in);
    memcpy(m.out, p->in, sizeof m.out);
    for (int a = 0; a < QG_SPACE; a++) {
        const int64_t reach = (p->kernel[a] - 1) * p->dilation[a];
        m.pad_begin[a] = reach - p->pad_begin[a];
        m.pad_end[a] = reach - p->pad_end[a];
    }
    return m;
}

/* Weights [m][channels][taps] of each group as [channels][m][taps from the last]. */
static void mirror_weights(const qg_conv_problem *p, const float *w, float *to)
{
    const int64_t channels = p->in_channels / p->groups, taps = volume(p->kernel);
    const int64_t m = p->out_channels / p->groups;
    for (int64_t g = 0; g < p->groups; g++, w += m * channels * taps)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t o = 0; o < m; o++)
                for (int64_t t = taps; t-- > 0;)
                    *to++ = w[(o * channels + c) * taps + t];
}

static qg_status by_mirror(const qg_backward *b, const qg_conv_problem *p)
{
    const qg_conv_problem m = mirror_of(p);
    const qg_tensor *w = b->call->in[1];
    float *mirrored = qg_arena_raw(b->call->scratch, qg_elements(w), sizeof *mirrored);
    if (!mirrored)
        return qg_nomem(b->call->ctx);
    mirror_weights(p, w->f32, mirrored);
    qg_ref_conv_f32(&m, b->out[0]->f32, mirrored, NULL, b->in[0]->f32);
    return QG_OK;
}

/* --- one channel per group ------------------------------------------------------- */

/* Rows of windows whose planes stay in the nearest cache. */
enum { BAND = 4096 };

static bool is_depthwise(const qg_conv_problem *p)
{
    return p->in_channels == p->groups && p->out_channels == p->groups &&
           qg_phases_fit(p) && p->out[1] > 0 && p->out[2] > 0;
}

static int64_t band_rows(const qg_conv_problem *p)
{
    int64_t rows = p->out[1];
    while (rows > 1 && qg_phases_of(p, 0, rows).size > BAND)
        rows = (rows + 1) / 2;
    return rows;
}

typedef struct planes {
    int64_t rows;        /* of windows in a band */
    float *image, *grad; /* planes of a band */
    float *v;            /* its windows in rows of the pitch */
    int64_t *at;         /* [taps] where each reads */
} planes;

/* Room behind the planes for a product of whole vectors, cleared: v is 0 there. */
enum { VECTOR = 16 };

static int64_t whole(int64_t run) { return (run + VECTOR - 1) / VECTOR * VECTOR; }

static qg_status planes_of(const qg_call *k, const qg_conv_problem *p, planes *out)
{
    *out = (planes){ .rows = band_rows(p) };
    const qg_phases f = qg_phases_of(p, 0, out->rows);
    out->image = QG_NEWN(k->scratch, (size_t)f.size + VECTOR, float);
    out->grad = qg_arena_raw(k->scratch, (size_t)f.size, sizeof(float));
    out->v = qg_arena_raw(k->scratch, (size_t)whole(f.run), sizeof(float));
    out->at = QG_NEWN(k->scratch, (size_t)volume(p->kernel), int64_t);
    return out->image && out->grad && out->v && out->at ? QG_OK : qg_nomem(k->ctx);
}

static void find_taps(const qg_conv_problem *p, const qg_phases *f, int64_t *at)
{
    for (int64_t h = 0; h < p->kernel[1]; h++)
        for (int64_t c = 0; c < p->kernel[2]; c++)
            *at++ = qg_phases_tap(f, h, c);
}

static void spread_rows(const qg_phases *f, const float *g, float *v)
{
    const size_t width = (size_t)f->windows[1], gap = (size_t)f->pitch - width;
    for (int64_t r = 0; r < f->windows[0]; r++, g += width, v += width + gap) {
        memcpy(v, g, width * sizeof *v);
        if (r + 1 < f->windows[0])
            memset(v + width, 0, gap * sizeof *v);
    }
    v -= gap; /* behind the last window */
    memset(v, 0, (size_t)(whole(f->run) - f->run) * sizeof *v);
}

/* arg: x, w, and g of the band; dw and dx: NULL, not wanted. */
static void depthwise_band(const planes *s, const qg_phases *f,
                           const qg_conv_problem *p, const float *const arg[3],
                           float *dw, float *dx)
{
    const qg_vector_row *row = qg_vector_best();
    spread_rows(f, arg[2], s->v);
    if (dw)
        qg_phases_load(f, arg[0], s->image);
    if (dx)
        memset(s->grad, 0, (size_t)f->size * sizeof *s->grad);
    if (dw)
        row->dots(s->v, s->image, s->at, (int)volume(p->kernel), whole(f->run), dw);
    for (int64_t i = 0; dx && i < volume(p->kernel); i++)
        row->add_scaled(arg[1][i], s->v, s->grad + s->at[i], f->run);
    if (dx)
        qg_phases_add(f, s->grad, dx);
}

static qg_status depthwise(const qg_backward *b, const qg_conv_problem *p)
{
    planes s;
    const int64_t x = volume(p->in), y = volume(p->out), w = volume(p->kernel);
    QG_TRY(planes_of(b->call, p, &s));
    clear(b->in[0]);
    for (int64_t first = 0, rows; first < p->out[1]; first += rows) {
        rows = p->out[1] - first < s.rows ? p->out[1] - first : s.rows;
        const qg_phases f = qg_phases_of(p, first, rows);
        find_taps(p, &f, s.at);
        for (int64_t i = 0; i < p->batch * p->groups; i++) {
            const int64_t group = i % p->groups;
            const float *const arg[3] = { b->call->in[0]->f32 + i * x,
                                          b->call->in[1]->f32 + group * w,
                                          b->out[0]->f32 + i * y + first * p->out[2] };
            depthwise_band(&s, &f, p, arg, b->in[1] ? b->in[1]->f32 + group * w : NULL,
                           b->in[0] ? b->in[0]->f32 + i * x : NULL);
        }
    }
    return QG_OK;
}

/* --- the operators --------------------------------------------------------------- */

static void bias_backward(const qg_backward *b, const qg_conv_problem *p)
{
    const int64_t size = volume(p->out);
    if (!qg_in(b->call, 2) || !b->in[2])
        return;
    for (int64_t c = 0; c < p->out_channels; c++) {
        double sum = 0;
        for (int64_t n = 0; n < p->batch; n++)
            sum += qg_vector_best()->sum(
                b->out[0]->f32 + (n * p->out_channels + c) * size, size);
        b->in[2]->f32[c] = (float)sum;
    }
}

/* Offsets in elements of x, y and w. */
static void conv_part(const qg_backward *b, const columns *c, const int64_t at[3])
{
    const float *g = b->out[0]->f32 + at[1];
    if (b->in[1])
        add_to_weights(c, g, read_columns(c, b->call->in[0]->f32 + at[0]),
                       b->in[1]->f32 + at[2]);
    if (b->in[0])
        add_to_image(c, b->call->in[1]->f32 + at[2], g, b->in[0]->f32 + at[0]);
}

static void deconv_part(const qg_backward *b, const columns *c, const int64_t at[3])
{
    const float *cols = read_columns(c, b->out[0]->f32 + at[1]);
    if (b->in[1])
        add_to_weights(c, b->call->in[0]->f32 + at[0], cols, b->in[1]->f32 + at[2]);
    if (b->in[0])
        collect(c, b->call->in[1]->f32 + at[2], cols, b->in[0]->f32 + at[0]);
}

/* All groups of all samples; image: the problem with the image as `in`. */
static qg_status by_columns(const qg_backward *b, const qg_conv_problem *image,
                            bool transposed)
{
    columns c;
    QG_TRY(columns_of(b->call, image, &c));
    const int64_t in = c.channels * c.image_size, out = c.m * c.n_windows;
    const int64_t w = c.m * c.n_rows;
    for (int64_t i = 0; i < image->batch * image->groups; i++) {
        const int64_t at[3] = { i * (transposed ? out : in),
                                i * (transposed ? in : out), i % image->groups * w };
        (transposed ? deconv_part : conv_part)(b, &c, at);
    }
    return QG_OK;
}

qg_status qg_conv_backward(const qg_backward *b, const qg_conv_problem *p)
{
    const bool mirrored = b->in[0] && is_mirrored(p);
    qg_tensor *in[] = { mirrored ? NULL : b->in[0], b->in[1] };
    const qg_backward rest = { b->call, b->out, in };
    clear(b->in[1]);
    bias_backward(b, p);
    if (mirrored)
        QG_TRY(by_mirror(b, p));
    if (!in[0] && !in[1])
        return QG_OK;
    if (is_depthwise(p))
        return depthwise(&rest, p);
    if (!is_pointwise(p))
        clear(in[0]); /* patches are added */
    return by_columns(&rest, p, false);
}

qg_status qg_deconv_backward(const qg_backward *b, const qg_conv_problem *p)
{
    qg_conv_problem image = *p;
    image.in_channels = p->out_channels;
    image.out_channels = p->in_channels;
    memcpy(image.in, p->out, sizeof image.in);
    memcpy(image.out, p->in, sizeof image.out);
    clear(b->in[1]);
    bias_backward(b, p);
    return b->in[0] || b->in[1] ? by_columns(b, &image, true) : QG_OK;
}

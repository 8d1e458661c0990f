/* image.c -- resampling and moving pixels: GridSample, AffineGrid, Col2Im,
 * CenterCropPad.
 *
 * GridSample      y[n, c, o] = x[n, c] at grid[n, o], whose last dim counts axes from
 *                 the last (x, y, z), from -1 to 1
 * AffineGrid      computes such a grid from a matrix per sample
 * Col2Im          sums overlapping blocks into an image: the transpose of im2col
 * CenterCropPad   cuts or fills with 0 around the centre
 * Source: ONNX GridSample-16, 20 (any number of spatial axes), 22; AffineGrid-20;
 * Col2Im-18; CenterCropPad-18.  Reflection as in ONNX's reference; borders as in ONNX
 * Runtime and PyTorch, see `bordered`. */
#include "ops/families.h"

#include <math.h>

#include "engine/core/num.h"
#include "ops/util_broadcast.h"
#include "ops/util_cast.h"
#include "ops/util_window.h"

enum padding { PAD_ZEROS, PAD_BORDER, PAD_REFLECTION };
enum { NEAREST, LINEAR, CUBIC, MAX_TAPS = 4 };

typedef struct image_param {
    int mode, padding;
    bool corners;
    qg_window window;
    qg_ints axes;
} image_param;

/* --- GridSample ---------------------------------------------------------------- */

/* The names of 16 and of 20, in the order of the enum. */
static qg_status prepare_affine(qg_ctx *ctx, const qg_node *node, void *param)
{
    return qg_attr_flag(ctx, node, "align_corners", false,
                        &((image_param *)param)->corners);
}

static qg_status prepare_grid(qg_ctx *ctx, const qg_node *node, void *param)
{
    static const char *const old[] = { "nearest", "bilinear", "bicubic", NULL };
    static const char *const now[] = { "nearest", "linear", "cubic", NULL };
    static const char *const paddings[] = { "zeros", "border", "reflection", NULL };
    image_param *p = param;

    QG_TRY(qg_attr_choice(ctx, node, "mode", node->opset < 20 ? old : now, LINEAR,
                          &p->mode));
    QG_TRY(qg_attr_choice(ctx, node, "padding_mode", paddings, PAD_ZEROS, &p->padding));
    return prepare_affine(ctx, node, param);
}

/* The spatial dims of the output are those of the grid. */
static qg_status infer_grid(const qg_call *k)
{
    const qg_tensor *x = k->in[0], *grid = k->in[1];
    int64_t dim[QG_MAX_RANK];
    QG_TRY(qg_check_types(k, 0, 1, QG_DT_FLOATS));
    QG_TRY(qg_check_rank(k, 0, 3, QG_SPACE + 2));
    if (x->rank < 0 || grid->rank < 0)
        return qg_infer_dims(k, x->dtype, -1, NULL);
    QG_TRY(qg_check_rank(k, 1, x->rank, x->rank));
    QG_TRY(qg_check_dim(k, 1, 0, x->dim[0]));
    QG_TRY(qg_check_dim(k, 1, x->rank - 1, x->rank - 2));
    for (int32_t i = 0; i < x->rank; i++)
        dim[i] = i < 2 ? x->dim[i] : grid->dim[i - 1];
    return qg_infer_dims(k, x->dtype, x->rank, dim);
}

/* The taps of one axis; index -1 is a zero. */
typedef struct taps {
    int n;
    int64_t index[MAX_TAPS];
    float weight[MAX_TAPS];
} taps;

/* v mirrored at low and high into the range, in one step. */
static double reflected(double v, double low, double high)
{
    double range = high - low, past = v < low ? low - v : v > high ? v - high : 0;
    if (past == 0 || !(range > 0))
        return past == 0 ? v : low;
    double turns = floor(past / range), rest = past - turns * range;
    bool even = fmod(turns, 2) == 0;
    return (v < low) == even ? low + rest : high - rest;
}

/* An integer position mapped inside, or -1. */
static int64_t placed(const image_param *p, double at, int64_t extent)
{
    double last = (double)(extent - 1);
    if (at >= 0 && at <= last)
        return (int64_t)at;
    if (p->padding == PAD_ZEROS || !(fabs(at) < 0x1p52))
        return -1;
    if (p->padding == PAD_BORDER)
        return at < 0 ? 0 : extent - 1;
    double edge = p->corners ? 0 : 0.5;
    double r = reflected(at, -edge, last + edge);
    return (int64_t)(r < 0 ? 0 : r > last ? last : r);
}

/* Keys' kernel with a = -0.75, as specified by ONNX. */
static float cubic(float x)
{
    const float a = -0.75f;
    return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1
                  : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

/* A coordinate beyond the border, where all taps of linear and nearest have the value
 * at the border.  Cubic clamps each tap instead (`placed`), as ONNX Runtime 1.31
 * (core/providers/cpu/tensor/grid_sample.cc, PixelAtGrid) and PyTorch 2
 * (aten/src/ATen/native/GridSampler.h, get_value_bounded) do; onnx.reference clamps
 * the coordinate.  Two elements further out, its four taps are equal, too. */
static double bordered(const image_param *p, double at, double last)
{
    double edge = p->mode == CUBIC ? 2 : p->corners ? 0 : 0.5;
    double to = p->mode == CUBIC ? edge : 0;
    return at < -edge ? -to : at > last + edge ? last + to : at;
}

/* Converts a grid coordinate to taps; rounds to float32 first, as the reference
 * does. */
static taps taps_of(const image_param *p, float grid, int64_t extent)
{
    double n = (double)extent;
    double at = p->corners ? ((double)grid + 1) / 2 * (n - 1)
                           : (((double)grid + 1) * n - 1) / 2;
    double edge = p->corners ? 0 : 0.5;
    at = (double)(float)at;
    if (p->mode == NEAREST)
        at = nearbyint(at);
    if (p->padding == PAD_BORDER)
        at = bordered(p, at, n - 1);
    else if (p->padding == PAD_REFLECTION && fabs(at) < 0x1p52)
        at = reflected(at, -edge, n - 1 + edge);
    taps t = { 1, { 0 }, { 1 } };
    if (p->mode == NEAREST) {
        t.index[0] = placed(p, trunc(at), extent);
        return t;
    }
    double low = floor(at);
    float part = (float)(at - low);
    t.n = p->mode == CUBIC ? 4 : 2;
    for (int i = 0; i < t.n; i++) {
        int offset = p->mode == CUBIC ? i - 1 : i;
        t.index[i] = placed(p, low + offset, extent);
        t.weight[i] = p->mode == CUBIC ? cubic(fabsf((float)offset - part))
                      : offset         ? part
                                       : 1 - part;
    }
    return t;
}

/* Sum over the taps of three axes (absent ones have one tap of weight 1). */
static float sampled(const taps t[QG_SPACE], const float *x, const int64_t *extent)
{
    float sum = 0;
    for (int d = 0; d < t[0].n; d++)
        for (int h = 0; h < t[1].n; h++) {
            float row = 0;
            if (t[0].index[d] < 0 || t[1].index[h] < 0)
                continue;
            const float *at =
                x + (t[0].index[d] * extent[1] + t[1].index[h]) * extent[2];
            for (int w = 0; w < t[2].n; w++)
                if (t[2].index[w] >= 0)
                    row += t[2].weight[w] * at[t[2].index[w]];
            sum += t[0].weight[d] * t[1].weight[h] * row;
        }
    return sum;
}

/* The taps of a point are shared by all channels. */
static qg_status sample_grid(const qg_call *k)
{
    const qg_tensor *x = k->in[0], *grid = k->in[1];
    int32_t axes = x->rank - 2, skip = QG_SPACE - axes;
    int64_t extent[QG_SPACE] = { 1, 1, 1 };
    int64_t plane = qg_dims_product(x, 2, x->rank), channels = x->dim[1];
    int64_t points = qg_dims_product(grid, 1, grid->rank - 1);
    taps t[QG_SPACE] = {
        {1,  { 0 }, { 1 }},
        { 1, { 0 }, { 1 }}
    };
    for (int32_t a = 0; a < axes; a++)
        extent[skip + a] = x->dim[2 + a];
    for (int64_t i = 0; i < x->dim[0] * points; i++) {
        int64_t n = i / points;
        for (int32_t a = 0; a < axes; a++) /* the grid counts axes from the last */
            t[skip + a] =
                taps_of(k->param, grid->f32[i * axes + axes - 1 - a], extent[skip + a]);
        for (int64_t c = n * channels; c < (n + 1) * channels; c++)
            k->out[0]->f32[c * points + i % points] =
                plane ? sampled(t, x->f32 + c * plane, extent) : 0;
    }
    return QG_OK;
}

static qg_status run_grid(const qg_call *k) { return qg_run_f32(k, sample_grid); }

/* --- AffineGrid ---------------------------------------------------------------- */

/* The size input gives N, C and the space. */
static qg_status infer_affine(const qg_call *k)
{
    int64_t axes = qg_in_dim(k, 0, 1), dim[5] = { qg_in_dim(k, 0, 0) };
    qg_ints size;
    QG_TRY(qg_check_type(k, 0, QG_DT_FLOATS));
    QG_TRY(qg_check_type(k, 1, QG_DT(I64)));
    QG_TRY(qg_check_rank(k, 0, 3, 3));
    if (axes >= 0 && axes != 2 && axes != 3)
        return qg_infer_fail(k, QG_EMODEL, "theta for %lld axes, expected 2 or 3",
                             (long long)axes);
    if (axes < 0 || qg_ints_pending(k, 1))
        return qg_infer_dims(k, k->in[0]->dtype, -1, NULL);
    QG_TRY(qg_check_dim(k, 0, 2, axes + 1));
    QG_TRY(qg_ints_input(k, 1, &size));
    if (size.n != (size_t)axes + 2)
        return qg_infer_fail(k, QG_EMODEL, "size has %zu values, expected %lld", size.n,
                             (long long)axes + 2);
    for (int64_t i = 0; i < axes; i++) {
        dim[1 + i] = size.at[2 + i];
        if (dim[1 + i] < 0 || dim[1 + i] > QG_MAX_EXTENT)
            return qg_infer_fail(k, QG_EMODEL,
                                 "size[%lld] is %lld, expected at least 0",
                                 (long long)i + 2, (long long)dim[1 + i]);
    }
    dim[1 + axes] = axes;
    return qg_infer_dims(k, k->in[0]->dtype, (int32_t)axes + 2, dim);
}

/* Position i of n between -1 and 1. */
static double normalized(int64_t i, int64_t n, bool corners)
{
    if (corners)
        return n > 1 ? -1 + 2 * (double)i / (double)(n - 1) : -1;
    return (2 * (double)i + 1) / (double)n - 1;
}

/* Coordinates of the output's grid points, times the matrix of the sample. */
static qg_status affine(const qg_call *k)
{
    const image_param *p = k->param;
    qg_tensor *y = k->out[0];
    int32_t axes = y->rank - 2;
    int64_t points = qg_dims_product(y, 1, y->rank - 1);
    for (int64_t i = 0; i < y->dim[0] * points; i++) {
        const float *theta = k->in[0]->f32 + i / points * axes * (axes + 1);
        double at[QG_SPACE]; /* x, y, z: the last axis first */
        int64_t rest = i % points;
        for (int32_t a = 0; a < axes; a++) {
            int64_t n = y->dim[axes - a];
            at[a] = normalized(rest % n, n, p->corners);
            rest /= n;
        }
        for (int32_t r = 0; r < axes; r++) {
            double sum = (double)theta[r * (axes + 1) + axes];
            for (int32_t a = 0; a < axes; a++)
                sum += (double)theta[r * (axes + 1) + a] * at[a];
            y->f32[i * axes + r] = (float)sum;
        }
    }
    return QG_OK;
}

static qg_status run_affine(const qg_call *k) { return qg_run_f32(k, affine); }

/* --- Col2Im -------------------------------------------------------------------- */

static qg_status prepare_col2im(qg_ctx *ctx, const qg_node *node, void *param)
{
    return qg_window_read(ctx, node, &((image_param *)param)->window);
}

/* The window of the inverse im2col: an image of [1, 1, image] with kernel block_shape.
 * image_shape and block_shape must be known. */
static qg_status blocks_of(const qg_call *k, qg_space *s)
{
    qg_window w = ((const image_param *)k->param)->window;
    qg_ints image, block;
    int64_t dim[QG_SPACE + 2] = { 1, 1 };
    qg_tensor x;
    QG_TRY(qg_ints_input(k, 1, &image));
    QG_TRY(qg_ints_input(k, 2, &block));
    if (image.n < 1 || image.n > QG_SPACE || block.n != image.n)
        return qg_infer_fail(
            k, QG_EUNSUPPORTED,
            "image of %zu axes, blocks of %zu, expected the same number "
            "from 1 to %d",
            image.n, block.n, (int)QG_SPACE);
    w.n_kernel = (uint32_t)block.n;
    for (size_t i = 0; i < image.n; i++) {
        dim[2 + i] = image.at[i];
        w.kernel[i] = block.at[i];
        if (image.at[i] < 1 || image.at[i] > INT32_MAX || block.at[i] < 1 ||
            block.at[i] > INT32_MAX)
            return qg_infer_fail(k, QG_EMODEL,
                                 "image extent %lld, block extent %lld, expected 1 to "
                                 "2147483647",
                                 (long long)image.at[i], (long long)block.at[i]);
    }
    qg_tensor_init(&x, QG_F32, (int32_t)image.n + 2, dim);
    return qg_window_resolve(k, &w, &x, NULL, s);
}

/* The number of columns must equal the number of window positions. */
static qg_status infer_col2im(const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    qg_space s;
    int64_t dim[QG_SPACE + 2], kernel = 1, blocks = 1;
    QG_TRY(qg_check_type(k, 0, QG_DT_FLOATS));
    QG_TRY(qg_check_types(k, 1, 2, QG_DT(I64)));
    QG_TRY(qg_check_rank(k, 0, 3, 3));
    if (x->rank < 0 || qg_ints_pending(k, 1) || qg_ints_pending(k, 2))
        return qg_infer_dims(k, x->dtype, -1, NULL);
    QG_TRY(blocks_of(k, &s));
    for (int a = 0; a < QG_SPACE; a++)
        if (!qg_mul_i64(kernel, s.kernel[a], &kernel) ||
            !qg_mul_i64(blocks, s.out[a], &blocks))
            return qg_infer_fail(k, QG_EMODEL, "blocks overflow, expected fewer");
    QG_TRY(qg_check_dim(k, 0, 2, blocks));
    if (x->dim[1] >= 0 && x->dim[1] % kernel)
        return qg_infer_fail(
            k, QG_EMODEL, "input 0: dimension 1 is %lld, expected a multiple of %lld",
            (long long)x->dim[1], (long long)kernel);
    dim[0] = x->dim[0];
    dim[1] = x->dim[1] < 0 ? -1 : x->dim[1] / kernel;
    for (int32_t i = 0; i < s.axes; i++)
        dim[2 + i] = s.in[QG_SPACE - s.axes + i];
    return qg_infer_dims(k, x->dtype, s.axes + 2, dim);
}

/* Digit `a` of i in the mixed base of three extents. */
static int64_t digit(int64_t i, const int64_t extent[QG_SPACE], int a)
{
    for (int b = QG_SPACE - 1; b > a; b--)
        i /= extent[b];
    return i % extent[a];
}

/* One row of columns: tap `t` of every block, added to one image. */
static void add_tap(const qg_space *s, int64_t t, const float *x, int64_t blocks,
                    float *image)
{
    for (int64_t b = 0; b < blocks; b++) {
        int64_t to = 0;
        bool inside = true;
        for (int a = 0; a < QG_SPACE; a++) {
            int64_t at = digit(b, s->out, a) * s->stride[a] +
                         digit(t, s->kernel, a) * s->dilation[a] - s->pad_begin[a];
            inside = inside && at >= 0 && at < s->in[a];
            to = to * s->in[a] + at;
        }
        if (inside)
            image[to] += x[b];
    }
}

/* Rows of columns are taps; each is added to the image at its origin. */
static qg_status col2im(const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    qg_tensor *y = k->out[0];
    qg_space s;
    QG_TRY(blocks_of(k, &s));
    int64_t kernel = s.kernel[0] * s.kernel[1] * s.kernel[2], blocks = x->dim[2];
    int64_t image = s.in[0] * s.in[1] * s.in[2];
    memset(y->data, 0, (size_t)qg_tensor_count(y) * sizeof *y->f32);
    for (int64_t i = 0; i < x->dim[0] * x->dim[1]; i++)
        add_tap(&s, i % kernel, x->f32 + i * blocks, blocks,
                y->f32 + i / kernel * image);
    return QG_OK;
}

static qg_status run_col2im(const qg_call *k) { return qg_run_f32(k, col2im); }

/* --- CenterCropPad ------------------------------------------------------------- */

static qg_status prepare_crop(qg_ctx *ctx, const qg_node *node, void *param)
{
    return qg_ints_attr(ctx, node, "axes", &((image_param *)param)->axes);
}

/* Axes that are not listed keep their extent. */
static qg_status infer_crop(const qg_call *k)
{
    const qg_ints *axes = &((const image_param *)k->param)->axes;
    const qg_tensor *x = k->in[0];
    int64_t dim[QG_MAX_RANK];
    qg_ints shape;
    int32_t axis;
    QG_TRY(qg_check_type(k, 0, QG_DT_ADDRESSED));
    QG_TRY(qg_check_type(k, 1, QG_DT_INDEX));
    if (x->rank < 0 || qg_ints_pending(k, 1))
        return qg_infer_dims(k, x->dtype, -1, NULL);
    size_t n = axes->given ? axes->n : (size_t)x->rank;
    QG_TRY(qg_ints_input(k, 1, &shape));
    if (shape.n != n)
        return qg_infer_fail(k, QG_EMODEL, "shape has %zu values, expected %zu",
                             shape.n, n);
    memcpy(dim, x->dim, sizeof dim);
    for (size_t i = 0; i < n; i++) {
        QG_TRY(
            qg_check_axis(k, axes->given ? axes->at[i] : (int64_t)i, x->rank, &axis));
        if (shape.at[i] < 0 || shape.at[i] > QG_MAX_EXTENT)
            return qg_infer_fail(k, QG_EMODEL,
                                 "shape[%zu] is %lld, expected at least 0", i,
                                 (long long)shape.at[i]);
        dim[axis] = shape.at[i];
    }
    return qg_infer_dims(k, x->dtype, x->rank, dim);
}

/* One copy of the common part into zeroed memory. */
static qg_status run_crop(const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    qg_tensor *y = k->out[0];
    size_t size = qg_element_size(x->dtype);
    int64_t from = 0, to = 0, dim[QG_MAX_RANK];
    for (int32_t i = 0; i < x->rank; i++) {
        int64_t more = y->dim[i] - x->dim[i]; /* rounded down on either side */
        dim[i] = more < 0 ? y->dim[i] : x->dim[i];
        if (more < 0)
            from += -more / 2 * x->stride[i];
        else
            to += more / 2 * y->stride[i];
    }
    memset(y->data, 0, (size_t)qg_tensor_count(y) * size);
    qg_walk w;
    qg_walk_pair(&w, x->rank, dim, y->stride, x->stride);
    if (!qg_walk_empty(&w))
        qg_walk_copy(&w, size, (char *)y->data + (size_t)to * size,
                     (const char *)x->data + (size_t)from * size);
    return QG_OK;
}

#define ROW(onnx, opset, least, most, roles, bits, kind)                               \
    {                                                                                  \
        .name = onnx, .since = (opset), .min_in = (least), .max_in = (most),           \
        .min_out = 1, .max_out = 1, .in_roles = roles, .traits = QG_OP_PURE | (bits),  \
        .param_size = sizeof(image_param), .prepare = prepare_##kind,                  \
        .infer = infer_##kind, .run = run_##kind                                       \
    }
/* clang-format off */
const qg_op qg_ops_image[] = {
    ROW("GridSample", 16, 2, 2, "df", QG_OP_BATCH_FIRST, grid),
    ROW("GridSample", 20, 2, 2, "df", QG_OP_BATCH_FIRST, grid),
    ROW("GridSample", 22, 2, 2, "df", QG_OP_BATCH_FIRST, grid),
    ROW("AffineGrid", 20, 2, 2, "fs", QG_OP_BATCH_FIRST, affine),
    ROW("Col2Im", 18, 3, 3, "dss", QG_OP_BATCH_FIRST, col2im),
    ROW("CenterCropPad", 18, 2, 2, "ds", QG_OP_PASSIVE, crop),
    { 0 },
};
/* clang-format on */

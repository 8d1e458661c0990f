/* dnnl.c -- problems of accel.h as requests to oneDNN; no file but dnnl*.c includes its
 * header.
 *
 * Written for the 2.x C API (Debian 12 has 2.6).  3.x replaces descriptors of
 * operations and of memory; CMakeLists.txt builds without oneDNN where it finds
 * that. */
#include "engine/accel/packed_gemm.h"

#include <stdio.h>

/* Results have the type of the inputs. */
static bool all_float(const qg_compile *c)
{
    uint32_t i = 0;
    while (i < c->node->n_in && (!c->in[i] || c->in[i]->dtype == QG_F32))
        i++;
    return i == c->node->n_in;
}

#if QG_HAVE_DNNL

#include <assert.h>

#include "engine/accel/dnnl_program.h"

#if DNNL_VERSION_MAJOR != 2
#error "oneDNN 2.x expected; configure again with QG_DNNL=OFF"
#endif

typedef qg_dnnl_request request;

/* dims and strides of a 4-d (5-d when the depth counts) activation. */
static void describe(dnnl_memory_desc_t *md, dnnl_data_type_t type, int rank,
                     const dnnl_dims_t dims, const dnnl_dims_t strides)
{
    dnnl_status_t s = dnnl_memory_desc_init_by_strides(md, rank, dims, type, strides);
    assert(s == dnnl_success);
    (void)s;
}

/* Codes times int8 weights into int32 sums.  Without these instructions oneDNN adds
 * products in saturating int16: its sums are wrong. */
static bool all_codes(const qg_compile *c, const qg_accel_codes *codes)
{
    unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();
    unsigned wide = dnnl_cpu_isa_avx512_core_vnni, narrow = dnnl_cpu_isa_avx2_vnni;
    const qg_tensor *x = c->in[0], *w = c->in[1];
    return ((isa & wide) == wide || (isa & narrow) == narrow) &&
           (x->dtype == QG_I8 || x->dtype == QG_U8) && w->dtype == QG_I8 &&
           (codes->finish ? !c->in[2] || c->in[2]->dtype == QG_I32
                          : !c->in[2] && c->out[0]->dtype == QG_I32);
}

/* oneDNN refuses some empty shapes; the definitions take them all. */
static bool any_empty(const qg_compile *c)
{
    for (uint32_t i = 0; i < c->node->n_in; i++)
        if (c->in[i] && qg_tensor_count(c->in[i]) == 0)
            return true;
    return qg_tensor_count(c->out[0]) == 0;
}

/* --- windows: convolution and pooling --- */

/* A convolution or a pooling by its shapes. */
typedef struct windows {
    const qg_compile *c;
    bool transposed; /* out is the larger side */
    int64_t batch;
    int64_t in[QG_SPACE], out[QG_SPACE], kernel[QG_SPACE], stride[QG_SPACE];
    int64_t dilation[QG_SPACE], pad_begin[QG_SPACE], pad_end[QG_SPACE];
} windows;

#define WINDOWS_OF(c, p, transposed)                                                   \
    windows_of((c), (transposed), (p)->batch,                                          \
               (const int64_t *const[]){ (p)->in, (p)->out, (p)->kernel, (p)->stride,  \
                                         (p)->dilation, (p)->pad_begin,                \
                                         (p)->pad_end })

static windows windows_of(const qg_compile *c, bool transposed, int64_t batch,
                          const int64_t *const from[7])
{
    windows w = { .c = c, .transposed = transposed, .batch = batch };
    int64_t *to[] = { w.in,       w.out,       w.kernel, w.stride,
                      w.dilation, w.pad_begin, w.pad_end };
    for (int i = 0; i < 7; i++)
        memcpy(to[i], from[i], sizeof w.in);
    return w;
}

/* An axis of depth appears only where it is used: oneDNN is faster in two
 * dimensions. */
static int axes_of(const windows *w)
{
    const bool deep = w->in[0] > 1 || w->kernel[0] > 1 || w->out[0] > 1;
    return deep || w->pad_begin[0] || w->pad_end[0] ? 3 : 2;
}

/* oneDNN cannot have three axes on one side and two on the other. */
static bool fits_axes(const windows *w)
{
    return axes_of(w) == 2 || (w->in[0] > 1 && w->out[0] > 1);
}

/* The axis along which parts are cut, -1 for whole samples: the outermost in memory, so
 * that the rows of a part lie side by side. */
static int cut_axis(const windows *w)
{
    int axis = 0;
    while (axis < QG_SPACE - 1 && w->in[axis] == 1 && w->out[axis] == 1)
        axis++;
    return w->batch > 1 ? -1 : axis;
}

/* Leaves the rows of a that outputs [rows.from, rows.to) need; the first of them is
 * *first.  False: none. */
static bool cut_input(windows *w, int a, qg_dnnl_span rows, int64_t *first)
{
    const int64_t reach = (w->kernel[a] - 1) * w->dilation[a] + 1;
    const int64_t begin = rows.from * w->stride[a] - w->pad_begin[a];
    const int64_t end = (rows.to - 1) * w->stride[a] - w->pad_begin[a] + reach;
    const int64_t from = begin > 0 ? begin : 0, to = end < w->in[a] ? end : w->in[a];
    w->pad_begin[a] = from - begin;
    w->pad_end[a] = end - to;
    w->in[a] = to - from;
    *first = from;
    return to > from;
}

/* The same where input i adds to outputs i * stride - pad + 0 .. reach - 1. */
static bool cut_transposed(windows *w, int a, qg_dnnl_span rows, int64_t *first)
{
    const int64_t reach = (w->kernel[a] - 1) * w->dilation[a] + 1, s = w->stride[a];
    const int64_t low = rows.from + w->pad_begin[a] - (reach - 1);
    const int64_t high = (rows.to - 1 + w->pad_begin[a]) / s + 1;
    const int64_t from = low > 0 ? (low + s - 1) / s : 0;
    const int64_t to = high < w->in[a] ? high : w->in[a];
    w->pad_begin[a] += rows.from - from * s;
    w->in[a] = to - from;
    w->pad_end[a] =
        (w->in[a] - 1) * s + reach - w->pad_begin[a] - (rows.to - rows.from);
    *first = from;
    return to > from && w->pad_begin[a] >= 0;
}

/* Bytes of `rows` rows along `axis` (-1: samples) of a channels-last tensor. */
static size_t row_bytes(const qg_tensor *t, const int64_t space[QG_SPACE], int axis,
                        int64_t rows)
{
    int64_t n = rows * t->dim[1];
    for (int i = axis + 1; i < QG_SPACE; i++)
        n *= space[i];
    return (size_t)n * (qg_dtype_bits(t->dtype) / 8);
}

/* Leaves a part of w; false: it has no input. */
static bool cut(windows *w, qg_dnnl_span rows, request *r)
{
    const int axis = cut_axis(w);
    int64_t first = rows.from;
    if (axis < 0)
        w->batch = rows.to - rows.from;
    else if (!(w->transposed ? cut_transposed : cut_input)(w, axis, rows, &first))
        return false;
    if (axis >= 0)
        w->out[axis] = rows.to - rows.from;
    r->src_at = row_bytes(w->c->in[0], w->in, axis, first);
    r->dst_at = row_bytes(w->c->out[0], w->out, axis, rows.from);
    return true;
}

/* Samples, or rows along the axis. */
static int64_t cut_rows(const windows *w)
{
    const int axis = cut_axis(w);
    return axis < 0 ? w->batch : w->out[axis];
}

static qg_dnnl_span all_rows(const windows *w)
{
    return (qg_dnnl_span){ 0, cut_rows(w) };
}

static void describe_activation(dnnl_memory_desc_t *md, const qg_tensor *t,
                                const windows *w, const int64_t space[QG_SPACE])
{
    int axes = axes_of(w);
    dnnl_dims_t dims = { w->batch, t->dim[1] }, strides;
    const int64_t *extent = space + QG_SPACE - axes;
    int64_t step = t->dim[1]; /* channels-last */
    for (int i = axes; i-- > 0;) {
        dims[2 + i] = extent[i];
        strides[2 + i] = step;
        step *= extent[i];
    }
    strides[1] = 1;
    strides[0] = step;
    describe(md, qg_dnnl_type(t), axes + 2, dims, strides);
}

/* oneDNN counts dilation from 0 and has one entry per real axis. */
typedef struct dnnl_window {
    dnnl_dims_t kernel, stride, dilation, begin, end;
} dnnl_window;

static dnnl_window window_of(const windows *w)
{
    dnnl_window to;
    int axes = axes_of(w);
    for (int i = 0; i < axes; i++) {
        int k = QG_SPACE - axes + i;
        to.kernel[i] = w->kernel[k];
        to.stride[i] = w->stride[k];
        to.dilation[i] = w->dilation[k] - 1;
        to.begin[i] = w->pad_begin[k];
        to.end[i] = w->pad_end[k];
    }
    return to;
}

/* Activations of all rows, or of those of a part. */
static bool describe_windows(windows *w, qg_dnnl_span rows, request *r)
{
    const int axes = axes_of(w);
    const bool part = rows.to - rows.from < cut_rows(w);
    if (part && (!cut(w, rows, r) || axes_of(w) != axes || !fits_axes(w)))
        return false;
    describe_activation(&r->src, w->c->in[0], w, w->in);
    describe_activation(&r->dst, w->c->out[0], w, w->out);
    return true;
}

/* Columns are read once per weight, and there are more bytes of them than of anything
 * else: what a thread saves is their transfer, of several multiplications each. */
static const double COLUMN_WORK = 4;

/* --- convolution --- */

typedef struct convolution {
    windows w;
    const qg_conv_problem *p;
    const qg_accel_codes *codes; /* NULL: floats */
} convolution;

/* Weights as ONNX stores them, with oneDNN's dims (groups first when there are any). */
static void describe_weights(request *r, const convolution *v)
{
    const qg_conv_problem *p = v->p;
    int axes = axes_of(&v->w);
    int64_t oc = p->out_channels / p->groups, ic = p->in_channels / p->groups, taps = 1;
    dnnl_dims_t dims, strides;
    int g = p->groups > 1 ? 1 : 0, rank = g + 2 + axes;
    for (int i = axes; i-- > 0;) {
        dims[g + 2 + i] = p->kernel[QG_SPACE - axes + i];
        strides[g + 2 + i] = taps;
        taps *= dims[g + 2 + i];
    }
    dims[g] = oc;
    dims[g + 1] = ic;
    strides[g] = v->w.transposed ? taps : taps * ic;
    strides[g + 1] = v->w.transposed ? taps * oc : taps;
    if (g) {
        dims[0] = p->groups;
        strides[0] = taps * oc * ic;
    }
    describe(&r->weights, qg_dnnl_type(v->w.c->in[1]), rank, dims, strides);
}

/* One place, all of whose channels depend on all inputs: parts are output channels. */
static bool is_one_place(const convolution *v)
{
    const windows *w = &v->w;
    return w->batch == 1 && w->out[0] * w->out[1] * w->out[2] == 1 &&
           v->p->groups == 1 && !w->transposed && !v->codes;
}

/* Leaves some of the output channels. */
static void cut_channels(request *r, qg_dnnl_span at)
{
    const dnnl_dim_t n = at.to - at.from;
    r->weights.dims[0] = r->weights.padded_dims[0] = n;
    r->bias.dims[0] = r->bias.padded_dims[0] = n;
    r->dst.dims[1] = r->dst.padded_dims[1] = n;
    for (int i = 0; i < r->dst.ndims; i++) /* the extents there are 1 */
        if (i != 1)
            r->dst.format_desc.blocking.strides[i] = n;
    r->dst_at = (size_t)at.from * sizeof(float);
    r->first_column = at.from;
}

/* False: a shape oneDNN refuses. */
static bool describe_conv(const void *problem, qg_dnnl_span rows,
                          const dnnl_memory_desc_t *packed, request *r)
{
    const convolution *v = problem;
    const bool bias = v->w.c->in[2] != NULL;
    windows w = v->w;
    *r = (request){
        .has_weights = true, .has_bias = bias, .codes = v->codes, .channel_axis = 1
    };
    describe_weights(r, v);
    dnnl_dims_t channels = { v->p->out_channels }, one = { 1 };
    describe(&r->bias, v->codes ? dnnl_s32 : dnnl_f32, 1, channels, one);
    const bool columns = is_one_place(v);
    if (!describe_windows(&w, columns ? all_rows(&w) : rows, r))
        return false;
    if (columns)
        cut_channels(r, rows);
    dnnl_memory_desc_t any = r->weights, *b = bias ? &r->bias : NULL;
    (void)dnnl_memory_desc_init_by_tag(&any, r->weights.ndims, r->weights.dims,
                                       r->weights.data_type, dnnl_format_tag_any);
    if (packed)
        any = columns ? qg_dnnl_columns(packed, 0, rows) : *packed;
    dnnl_window at = window_of(&w);
    return dnnl_success ==
           (w.transposed ? dnnl_dilated_deconvolution_forward_desc_init(
                               &r->desc.deconv, dnnl_forward_inference,
                               dnnl_deconvolution_direct, &r->src, &any, b, &r->dst,
                               at.stride, at.dilation, at.begin, at.end)
                         : dnnl_dilated_convolution_forward_desc_init(
                               &r->desc.conv, dnnl_forward_inference,
                               dnnl_convolution_direct, &r->src, &any, b, &r->dst,
                               at.stride, at.dilation, at.begin, at.end));
}

/* Places of the output that no tap reaches: oneDNN's kernel for codes leaves there what
 * was in memory (2.6.3; tests/scripts/test_integer_operators.py). */
static bool has_gaps(const windows *w)
{
    bool gaps = false;
    for (int i = 0; w->transposed && i < QG_SPACE; i++)
        gaps |= w->stride[i] > (w->kernel[i] - 1) * w->dilation[i] + 1;
    return gaps;
}

/* Floats, or codes; types were checked. */
static qg_status make_conv(qg_compile *c, const qg_conv_problem *p, bool transposed,
                           const qg_accel_codes *codes, qg_kernel **out)
{
    assert(p->groups > 0 && c->node->n_in > 1);
    *out = NULL;
    const qg_tensor *bias = c->in[2];
    convolution v = { WINDOWS_OF(c, p, transposed), p, codes };
    bool constants = !c->in[0]->data && c->in[1]->data && (!bias || bias->data);
    if (!constants || any_empty(c) || !fits_axes(&v.w) || (codes && has_gaps(&v.w)))
        return QG_OK;
    const qg_tensor *larger = transposed ? c->in[0] : c->out[0];
    const int64_t each = qg_tensor_count(c->in[1]) / larger->dim[1];
    qg_dnnl_job job = { .describe = describe_conv,
                        .problem = &v,
                        .rows = cut_rows(&v.w),
                        .work = (double)qg_tensor_count(larger) * (double)each,
                        .bias = bias };
    if (is_one_place(&v)) {
        job.columns = true;
        job.rows = p->out_channels;
        job.work *= COLUMN_WORK;
    }
    QG_TRY(qg_dnnl_kernel(c, &job, out));
    if (*out) {
        (*out)->in_layout[0] = QG_LAYOUT_CHANNELS_LAST;
        (*out)->out_layout = QG_LAYOUT_CHANNELS_LAST;
    }
    return QG_OK;
}

qg_status qg_accel_conv(qg_compile *c, const qg_conv_problem *p, bool transposed,
                        qg_kernel **out)
{
    *out = NULL;
    return all_float(c) ? make_conv(c, p, transposed, NULL, out) : QG_OK;
}

qg_status qg_accel_conv_codes(qg_compile *c, const qg_conv_problem *p, bool transposed,
                              const qg_accel_codes *codes, qg_kernel **out)
{
    *out = NULL;
    return all_codes(c, codes) ? make_conv(c, p, transposed, codes, out) : QG_OK;
}

/* --- pooling --- */

typedef struct pooling {
    windows w;
    dnnl_alg_kind_t kind;
} pooling;

static bool describe_pool(const void *problem, qg_dnnl_span rows,
                          const dnnl_memory_desc_t *packed, request *r)
{
    const pooling *v = problem;
    windows w = v->w;
    (void)packed;
    *r = (request){ 0 };
    if (!describe_windows(&w, rows, r))
        return false;
    dnnl_window at = window_of(&w);
    return dnnl_pooling_v2_forward_desc_init(
               &r->desc.pool, dnnl_forward_inference, v->kind, &r->src, &r->dst,
               at.stride, at.kernel, at.dilation, at.begin, at.end) == dnnl_success;
}

/* A window larger than the padded data, which ceil_mode cuts off: oneDNN, whose formula
 * of extents rounds to 0, divides by all of it. */
static bool is_cut_off(const qg_pool_problem *p)
{
    bool any = false;
    for (int a = 0; a < QG_SPACE; a++)
        any = any || p->in[a] + p->pad_begin[a] + p->pad_end[a] <=
                         (p->kernel[a] - 1) * p->dilation[a];
    return any;
}

/* oneDNN's maximum leaves every NaN out. */
qg_status qg_accel_pool(qg_compile *c, const qg_pool_problem *p, qg_kernel **out)
{
    assert((unsigned)p->kind <= QG_POOL_LP);
    *out = NULL;
    if (p->kind == QG_POOL_MAX && c->meets_nan)
        return QG_OK;
    pooling v = { WINDOWS_OF(c, p, false), p->kind == QG_POOL_MAX ? dnnl_pooling_max
                                           : p->count_pad
                                               ? dnnl_pooling_avg_include_padding
                                               : dnnl_pooling_avg_exclude_padding };
    if (!all_float(c) || any_empty(c) || c->in[0]->data || p->kind == QG_POOL_LP ||
        c->node->n_out != 1 || !fits_axes(&v.w) || is_cut_off(p))
        return QG_OK;
    int64_t taps = p->kernel[0] * p->kernel[1] * p->kernel[2];
    qg_dnnl_job job = { .describe = describe_pool,
                        .problem = &v,
                        .rows = cut_rows(&v.w),
                        .work = (double)qg_tensor_count(c->out[0]) * (double)taps };
    QG_TRY(qg_dnnl_kernel(c, &job, out));
    if (*out) {
        (*out)->in_layout[0] = QG_LAYOUT_CHANNELS_LAST;
        (*out)->out_layout = QG_LAYOUT_CHANNELS_LAST;
    }
    return QG_OK;
}

/* --- matrix product --- */

/* [.., rows, columns] padded with leading ones to `rank`, plain or transposed. */
static void describe_matrix(dnnl_memory_desc_t *md, const qg_tensor *t, int rank,
                            bool transposed)
{
    dnnl_dims_t dims, strides;
    int64_t step = 1;
    for (int i = rank; i-- > 0;) {
        int k = i - (rank - t->rank);
        dims[i] = k < 0 ? 1 : t->dim[k];
        strides[i] = step;
        step *= dims[i];
    }
    if (transposed) {
        assert(rank == 2);
        int64_t d = dims[0], s = strides[0];
        dims[0] = dims[1], strides[0] = strides[1];
        dims[1] = d, strides[1] = s;
    }
    describe(md, qg_dnnl_type(t), rank, dims, strides);
}

/* A matrix on the right that all leading dims share makes one product of their rows;
 * oneDNN would compute one product for each. */
static bool one_product(const qg_tensor *a, const qg_tensor *b)
{
    for (int i = 0; i < b->rank - 2; i++)
        if (b->dim[i] != 1)
            return false;
    return a->rank > 2 || b->rank > 2;
}

/* t as a matrix of its last dim. */
static qg_tensor flattened(const qg_tensor *t)
{
    const int64_t n = t->dim[t->rank - 1];
    qg_tensor flat;
    qg_tensor_init(&flat, t->dtype, 2, (const int64_t[]){ qg_tensor_count(t) / n, n });
    flat.data = t->data;
    return flat;
}

/* One row of n elements, broadcast over all leading dims. */
static void describe_row(dnnl_memory_desc_t *md, dnnl_data_type_t type, int rank,
                         int64_t n)
{
    dnnl_dims_t dims, strides;
    for (int i = 0; i < rank; i++) {
        dims[i] = i == rank - 1 ? n : 1;
        strides[i] = i == rank - 1 ? 1 : n;
    }
    describe(md, type, rank, dims, strides);
}

typedef struct product {
    qg_tensor a, b, y; /* of one rank, or b a matrix that all share */
    bool trans_a, trans_b, bias;
    const qg_accel_codes *codes; /* NULL: floats */
} product;

/* The axis along which parts are cut: the outermost of y, but not its columns; -1:
 * none. */
static int product_axis(const product *v)
{
    int axis = 0;
    while (axis < v->y.rank - 1 && v->y.dim[axis] == 1)
        axis++;
    const int of_b = axis - (v->y.rank - v->b.rank);
    bool constant =
        axis < v->y.rank - 2 && of_b >= 0 && v->b.dim[of_b] > 1 && v->b.data;
    return axis == v->y.rank - 1 || v->trans_a || constant ? -1 : axis;
}

/* One row: parts are columns of b. */
static bool is_one_row(const product *v)
{
    const int64_t n = v->y.dim[v->y.rank - 1];
    return qg_tensor_count(&v->y) == n && v->b.data && !v->trans_a && !v->codes;
}

/* Leaves the rows of t along `axis` of y, if it has them; the bytes before them. */
static size_t cut_matrix(qg_tensor *t, int axis, qg_dnnl_span rows)
{
    int64_t n = rows.from;
    if (axis < 0 || t->dim[axis] == 1)
        return 0;
    for (int i = axis + 1; i < t->rank; i++)
        n *= t->dim[i];
    t->dim[axis] = rows.to - rows.from;
    return (size_t)n * (qg_dtype_bits(t->dtype) / 8);
}

static void cut_product(product *v, int axis, qg_dnnl_span rows, request *r)
{
    const int rank = v->y.rank;
    r->src_at = cut_matrix(&v->a, axis - (rank - v->a.rank), rows);
    if (axis < rank - 2)
        r->other_at = cut_matrix(&v->b, axis - (rank - v->b.rank), rows);
    r->dst_at = cut_matrix(&v->y, axis, rows);
}

/* Leaves some of the columns of a product of one row. */
static void cut_columns(request *r, int rank, qg_dnnl_span at)
{
    dnnl_memory_desc_t *of[] = { &r->weights, &r->dst, &r->bias };
    const dnnl_dim_t n = at.to - at.from;
    for (int k = 0; k < 3; k++) {
        of[k]->dims[rank - 1] = of[k]->padded_dims[rank - 1] = n;
        for (int i = 0; k > 0 && i < rank - 1; i++) /* the extents there are 1 */
            of[k]->format_desc.blocking.strides[i] = n;
    }
    r->dst_at = (size_t)at.from * sizeof(float);
    r->first_column = at.from;
}

static bool describe_product(const void *problem, qg_dnnl_span rows,
                             const dnnl_memory_desc_t *packed, request *r)
{
    product v = *(const product *)problem;
    const int rank = v.y.rank, axis = product_axis(&v);
    const int64_t n = v.y.dim[rank - 1];
    const bool columns = is_one_row(&v);
    *r = (request){ .has_weights = true,
                    .has_bias = v.bias,
                    .has_other = !v.b.data,
                    .codes = v.codes,
                    .channel_axis = rank - 1 };
    if (axis >= 0 && rows.to - rows.from < v.y.dim[axis])
        cut_product(&v, axis, rows, r);
    describe_matrix(&r->src, &v.a, rank, v.trans_a);
    describe_matrix(&r->weights, &v.b, rank, v.trans_b);
    describe_matrix(&r->dst, &v.y, rank, false);
    describe_row(&r->bias, v.codes ? dnnl_s32 : dnnl_f32, rank, n);
    if (columns)
        cut_columns(r, rank, rows);
    dnnl_memory_desc_t weights = r->weights;
    if (v.b.data)
        (void)dnnl_memory_desc_init_by_tag(&weights, rank, r->weights.dims,
                                           r->weights.data_type, dnnl_format_tag_any);
    if (v.b.data && packed)
        weights = columns ? qg_dnnl_columns(packed, rank - 1, rows) : *packed;
    return dnnl_matmul_desc_init(&r->desc.matmul, &r->src, &weights,
                                 v.bias ? &r->bias : NULL, &r->dst) == dnnl_success;
}

/* alpha, vectors and constants on the left are left to the definition. */
static qg_status make_matmul(qg_compile *c, const qg_gemm_problem *p, int bias,
                             const qg_accel_codes *codes, qg_kernel **out)
{
    const qg_tensor *a = c->in[0], *b = c->in[1], *y = c->out[0];
    *out = NULL;
    if (!qg_is_plain_product(c, p, bias) || a->data)
        return QG_OK;
    product v = { *a, *b, *y, p->trans_a, p->trans_b, bias >= 0, codes };
    if (!p->trans_a && one_product(a, b)) {
        v.a = flattened(a);
        v.b = flattened(b);
        v.y = flattened(y);
    }
    const int axis = product_axis(&v);
    qg_dnnl_job job = { .describe = describe_product,
                        .problem = &v,
                        .rows = axis < 0 ? 0 : v.y.dim[axis],
                        .work = (double)qg_tensor_count(y) * (double)p->k,
                        .bias = bias >= 0 ? c->in[bias] : NULL };
    if (is_one_row(&v)) {
        job.columns = true;
        job.weights_axis = v.y.rank - 1;
        job.rows = p->n;
        job.work *= COLUMN_WORK;
    }
    return qg_dnnl_kernel(c, &job, out);
}

qg_status qg_accel_matmul(qg_compile *c, const qg_gemm_problem *p, int bias,
                          qg_kernel **out)
{
    const unsigned wide = dnnl_cpu_isa_avx512_core;
    *out = NULL;
    if (!all_float(c))
        return QG_OK;
    if (((unsigned)dnnl_get_effective_cpu_isa() & wide) != wide &&
        qg_is_plain_product(c, p, bias))
        QG_TRY(qg_packed_gemm(c, p, bias, out));
    return *out ? QG_OK : make_matmul(c, p, bias, NULL, out);
}

qg_status qg_accel_matmul_codes(qg_compile *c, const qg_gemm_problem *p,
                                const qg_accel_codes *codes, qg_kernel **out)
{
    *out = NULL;
    return all_codes(c, codes) ? make_matmul(c, p, c->in[2] ? 2 : -1, codes, out)
                               : QG_OK;
}

const char *qg_accel_version(char text[32])
{
    const dnnl_version_t *v = dnnl_version();
    (void)snprintf(text, 32, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
    return text;
}

/* Newest first: the first whose bits are all there. */
const char *qg_accel_isa(void)
{
    static const struct {
        unsigned bits;
        const char *name;
    } all[] = {
        {dnnl_cpu_isa_avx512_core_amx,   "avx512_core_amx" },
        { dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
        { dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
        { dnnl_cpu_isa_avx512_core,      "avx512_core"     },
        { dnnl_cpu_isa_avx2_vnni,        "avx2_vnni"       },
        { dnnl_cpu_isa_avx2,             "avx2"            },
        { dnnl_cpu_isa_avx,              "avx"             },
        { dnnl_cpu_isa_sse41,            "sse41"           },
    };
    unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if ((isa & all[i].bits) == all[i].bits)
            return all[i].name;
    return "other";
}

#else /* no oneDNN: every case falls to the definitions */

qg_status qg_accel_conv(qg_compile *c, const qg_conv_problem *p, bool transposed,
                        qg_kernel **out)
{
    (void)c, (void)p, (void)transposed;
    *out = NULL;
    return QG_OK;
}

qg_status qg_accel_conv_codes(qg_compile *c, const qg_conv_problem *p, bool transposed,
                              const qg_accel_codes *codes, qg_kernel **out)
{
    (void)c, (void)p, (void)transposed, (void)codes;
    *out = NULL;
    return QG_OK;
}

qg_status qg_accel_matmul_codes(qg_compile *c, const qg_gemm_problem *p,
                                const qg_accel_codes *codes, qg_kernel **out)
{
    (void)c, (void)p, (void)codes;
    *out = NULL;
    return QG_OK;
}

qg_status qg_accel_matmul(qg_compile *c, const qg_gemm_problem *p, int bias,
                          qg_kernel **out)
{
    *out = NULL;
    return all_float(c) && qg_is_plain_product(c, p, bias)
               ? qg_packed_gemm(c, p, bias, out)
               : QG_OK;
}

qg_status qg_accel_pool(qg_compile *c, const qg_pool_problem *p, qg_kernel **out)
{
    (void)c, (void)p;
    *out = NULL;
    return QG_OK;
}

const char *qg_accel_version(char text[32])
{
    (void)snprintf(text, 32, "none");
    return text;
}

const char *qg_accel_isa(void) { return "any"; }

#endif

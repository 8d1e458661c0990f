/* ort_qlinear.json: the quantized operators of ONNX Runtime on three instruction sets.
 *  */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/number/integer_exp.h"
#include "engine/number/integer_pool.h"
#include "engine/number/integer_rescale.h"
#include "engine/number/integer_unary.h"
#include "tests/programs/vectors/library.h"

/* clang-format off */
static const vec_kernel kernels[] = {
    { "onnxruntime-x86-vnni", { "expected", NULL }, NULL },
    { "onnxruntime-x86-avx2", { "expected_x86_avx2", "expected", NULL }, NULL },
    { "onnxruntime-arm", { "expected_aarch64", "expected", NULL }, NULL },
    { 0 },
};
/* clang-format on */

static const char *const abc[] = { "A", "B", "C" };

static bool add(vec_run *v, const json *c, const vec_kernel *k, vec_result *out)
{
    return vec_binary(v, c, k, QG_INT_BINARY_ADD, abc, out);
}

static bool multiply(vec_run *v, const json *c, const vec_kernel *k, vec_result *out)
{
    return vec_binary(v, c, k, QG_INT_BINARY_MUL, abc, out);
}

static bool concat(vec_run *v, const json *c, const vec_kernel *k, vec_result *out)
{
    size_t n = (js_count(js_get(c, "inputs")) - 2) / 3;
    qg_int_concat_input *in = VEC_NEW(v, n, qg_int_concat_input);
    for (size_t i = 0; i < n; i++) {
        char name[24];
        snprintf(name, sizeof name, "x%zu", i);
        vec_tensor t = vec_input(v, c, name);
        in[i].grid = vec_grid(v, c, name, t.dtype);
        in[i].dims = vec_dims(&t);
        in[i].data = vec_storage(v, &t);
    }
    qg_int_concat_spec spec = { .axis = (int32_t)vec_attribute(c, "axis", 0),
                                .y = vec_grid(v, c, "Y", in[0].grid.dtype) };
    spec.row =
        vec_row(k->profile, QG_USE_CONCAT, (qg_grid[]){ in[0].grid, { 0 }, spec.y });
    qg_int_dims d;
    if (!vec_ok(v, "dims", qg_int_concat_dims(v->ctx, spec.axis, in, n, &d)))
        return false;
    out->n = 1;
    for (int32_t i = 0; i < d.rank; i++)
        out->n *= (size_t)d.dim[i];
    void *y = VEC_NEW(v, out->n, int16_t);
    out->q = VEC_NEW(v, out->n, int32_t);
    if (!vec_ok(v, "run", qg_int_concat_run(v->ctx, &spec, in, n, y)))
        return false;
    qg_codes_load(spec.y.dtype, y, 0, out->q, out->n);
    return true;
}

static bool unary(vec_run *v, const json *c, const vec_kernel *k,
                  qg_int_unary_function function, vec_result *out)
{
    vec_tensor x = vec_input(v, c, "X");
    qg_int_unary_spec spec = { .function = function,
                               .x = vec_grid(v, c, "X", x.dtype),
                               .y = vec_grid(v, c, "Y", x.dtype),
                               .alpha = (float)js_num_or(js_get(c, "attributes"),
                                                         "alpha", 0.01) };
    qg_kernel_use use =
        function == QG_INT_UNARY_LOGISTIC ? QG_USE_SIGMOID : QG_USE_LEAKY_RELU;
    spec.row = vec_row(k->profile, use, (qg_grid[]){ spec.x, { 0 }, spec.y });
    int32_t table[256];
    if (!vec_ok(v, "table", qg_int_unary_table(v->ctx, &spec, table)))
        return false;
    *out = (vec_result){ .q = x.q, .n = x.n };
    for (size_t i = 0; i < x.n; i++)
        x.q[i] = table[x.q[i] - qg_code_range_of(x.dtype, 0).lo];
    return true;
}

static bool leaky_relu(vec_run *v, const json *c, const vec_kernel *k, vec_result *out)
{
    return unary(v, c, k, QG_INT_UNARY_LEAKY_RELU, out);
}

static bool sigmoid(vec_run *v, const json *c, const vec_kernel *k, vec_result *out)
{
    return unary(v, c, k, QG_INT_UNARY_LOGISTIC, out);
}

/* Element i of an integer list attribute. */
static int64_t list(const json *c, const char *name, size_t i, int64_t otherwise)
{
    const json *a = js_find(js_get(c, "attributes"), name);
    return a ? js_int(js_at(a, i)) : otherwise;
}

/* The row of a product with weights of this type. */
static const qg_profile_row *product_row(const vec_kernel *k, qg_kernel_use use,
                                         qg_grid x, qg_dtype w, qg_grid y)
{
    return vec_row(k->profile, use, (qg_grid[]){ x, { .dtype = w }, y });
}

/* Spatial axes of a 1-d or 2-d convolution; `axis` 0 is rows. */
static void conv_axis(const json *c, const vec_tensor *x, const vec_tensor *w,
                      qg_int_sum *s, int axis)
{
    int spatial = x->rank - 2, i = axis - (2 - spatial);
    bool absent = i < 0;
    size_t at = absent ? 0 : (size_t)i;
    int64_t size = absent ? 1 : x->dim[2 + i], kernel = absent ? 1 : w->dim[2 + i];
    int64_t before = absent ? 0 : list(c, "pads", at, 0);
    int64_t after = absent ? 0 : list(c, "pads", at + (size_t)spatial, 0);
    s->stride[axis] = absent ? 1 : list(c, "strides", at, 1);
    s->dilation[axis] = absent ? 1 : list(c, "dilations", at, 1);
    s->pad[axis] = before;
    int64_t span = (kernel - 1) * s->dilation[axis] + 1;
    int64_t out = (size + before + after - span) / s->stride[axis] + 1;
    *(axis ? &s->width : &s->height) = size;
    *(axis ? &s->kernel_width : &s->kernel_height) = kernel;
    *(axis ? &s->out_width : &s->out_height) = out;
}

static bool conv(vec_run *v, const json *c, const vec_kernel *k, vec_result *out)
{
    vec_tensor x = vec_input(v, c, "x"), w = vec_input(v, c, "w");
    vec_tensor ws = vec_input(v, c, "w_scale"), wz = vec_input(v, c, "w_zero_point");
    qg_int_sum s = { .batches = x.dim[0], .groups = vec_attribute(c, "group", 1) };
    s.in_channels = w.dim[1];
    s.out_channels = w.dim[0] / s.groups;
    conv_axis(c, &x, &w, &s, 0);
    conv_axis(c, &x, &w, &s, 1);
    size_t plane = (size_t)(s.height * s.width);
    size_t window = (size_t)(s.kernel_height * s.kernel_width);
    s.x = (qg_int_picture){ x.q, (size_t)x.dim[1] * plane, plane, (size_t)s.width, 1 };
    s.w = (qg_int_picture){ w.q, (size_t)w.dim[1] * window, window,
                            (size_t)s.kernel_width, 1 };
    int32_t *zero = VEC_NEW(v, (size_t)w.dim[0], int32_t);
    for (size_t i = 0; i < (size_t)w.dim[0]; i++)
        zero[i] = wz.q[wz.n == 1 ? 0 : i];
    s.zero_w = zero;
    s.bias = vec_has_input(c, "B") ? vec_input(v, c, "B").q : NULL;
    qg_grid gx = vec_grid(v, c, "x", x.dtype), gy = vec_grid(v, c, "y", x.dtype);
    qg_kernel_use use = s.in_channels == 1 && s.groups > 1 ? QG_USE_DEPTHWISE
                        : ws.n == 1                        ? QG_USE_CONV_ONE
                                                           : QG_USE_CONV;
    const qg_profile_row *row = product_row(k, use, gx, w.dtype, gy);
    s.pairs = row->products == QG_PRODUCTS_PAIRS;
    s.zero_x = gx.zero;
    size_t extents[3] = { (size_t)s.batches, (size_t)w.dim[0],
                          (size_t)(s.out_height * s.out_width) };
    out->n = extents[0] * extents[1] * extents[2];
    out->q = VEC_NEW(v, out->n, int32_t);
    qg_int_sum_run(&s, out->q);
    vec_requant r = { row, gx.scale, gy, ws.f, ws.n };
    return vec_requantize(v, &r, out->q, extents);
}

/* b [depth, outs] as rows of outs. */
static int32_t *transposed(vec_run *v, const int32_t *b, size_t depth, size_t outs)
{
    int32_t *w = VEC_NEW(v, depth * outs, int32_t);
    for (size_t i = 0; i < depth; i++)
        for (size_t o = 0; o < outs; o++)
            w[o * depth + i] = b[i * outs + o];
    return w;
}

/* One product a [n, depth] x w [outs, depth]; acc is [n, outs]. */
struct product {
    vec_tensor a, b, bz;
    const qg_profile_row *row;
    qg_grid ga;
    const int32_t *bias;
    size_t n, depth, outs;
};

static void product_sums(vec_run *v, const struct product *p, const int32_t *a,
                         const int32_t *w, int32_t *acc)
{
    qg_int_sum s = vec_dense(a, w, p->n, p->depth, p->outs);
    int32_t *zero = VEC_NEW(v, p->outs, int32_t);
    for (size_t o = 0; o < p->outs; o++)
        zero[o] = p->bz.q[p->bz.n == 1 ? 0 : o];
    s.zero_x = p->ga.zero;
    s.zero_w = zero;
    s.bias = p->bias;
    s.pairs = p->row->products == QG_PRODUCTS_PAIRS;
    qg_int_sum_run(&s, acc);
}

static bool matmul(vec_run *v, const json *c, const vec_kernel *k, vec_result *out)
{
    struct product p = { .a = vec_input(v, c, "a"), .b = vec_input(v, c, "b") };
    vec_tensor bs = vec_input(v, c, "b_scale");
    p.bz = vec_input(v, c, "b_zero_point");
    p.ga = vec_grid(v, c, "a", p.a.dtype);
    qg_grid gy = vec_grid(v, c, "y", p.a.dtype);
    p.n = (size_t)p.a.dim[p.a.rank - 2];
    p.depth = (size_t)p.a.dim[p.a.rank - 1];
    p.outs = (size_t)p.b.dim[p.b.rank - 1];
    size_t a_batches = p.a.n / (p.n * p.depth), b_batches = p.b.n / (p.depth * p.outs);
    size_t batches = a_batches > b_batches ? a_batches : b_batches;
    if (batches % a_batches || batches % b_batches)
        vec_malformed("case '%s': batches of both operands broadcast", v->name);
    out->n = batches * p.n * p.outs;
    out->q = VEC_NEW(v, out->n, int32_t);
    qg_kernel_use use = bs.n == 1 ? QG_USE_DENSE : QG_USE_DENSE_CHANNEL;
    p.row = product_row(k, use, p.ga, p.b.dtype, gy);
    vec_requant r = { p.row, p.ga.scale, gy, bs.f, bs.n };
    for (size_t i = 0; i < batches; i++) {
        const int32_t *b = p.b.q + i % b_batches * p.depth * p.outs;
        product_sums(v, &p, p.a.q + i % a_batches * p.n * p.depth,
                     transposed(v, b, p.depth, p.outs), out->q + i * p.n * p.outs);
    }
    return vec_requantize(v, &r, out->q, (size_t[3]){ batches * p.n, p.outs, 1 });
}

static bool gemm(vec_run *v, const json *c, const vec_kernel *k, vec_result *out)
{
    struct product p = { .a = vec_input(v, c, "A"), .b = vec_input(v, c, "B") };
    vec_tensor bs = vec_input(v, c, "b_scale");
    bool given = vec_attribute(c, "transB", 0) != 0;
    float alpha = (float)js_num_or(js_get(c, "attributes"), "alpha", 1);
    p.bz = vec_input(v, c, "b_zero_point");
    p.ga = vec_grid(v, c, "a", p.a.dtype);
    bool turned = vec_attribute(c, "transA", 0) != 0;
    p.n = (size_t)p.a.dim[turned];
    p.depth = (size_t)p.a.dim[!turned];
    p.outs = (size_t)p.b.dim[given ? 0 : 1];
    const int32_t *a = turned ? transposed(v, p.a.q, p.depth, p.n) : p.a.q;
    p.bias = vec_has_input(c, "C") ? vec_input(v, c, "C").q : NULL;
    out->n = p.n * p.outs;
    int32_t *acc = VEC_NEW(v, out->n, int32_t);
    float sa = alpha * p.ga.scale;
    bool codes = vec_has_input(c, "y_scale");
    qg_grid gy = codes ? vec_grid(v, c, "y", p.a.dtype) : (qg_grid){ QG_F32, 1, 0 };
    qg_kernel_use use = bs.n == 1 ? QG_USE_DENSE : QG_USE_DENSE_CHANNEL;
    p.row = product_row(k, use, p.ga, p.b.dtype, gy);
    product_sums(v, &p, a, given ? p.b.q : transposed(v, p.b.q, p.depth, p.outs), acc);
    if (!codes) {
        out->f = VEC_NEW(v, out->n, float);
        for (size_t i = 0; i < out->n; i++)
            out->f[i] = (float)acc[i] * (sa * bs.f[bs.n == 1 ? 0 : i % p.outs]);
        return true;
    }
    vec_requant r = { p.row, sa, gy, bs.f, bs.n };
    out->q = acc;
    return vec_requantize(v, &r, acc, (size_t[3]){ p.n, p.outs, 1 });
}

static bool global_pool(vec_run *v, const json *c, const vec_kernel *k, vec_result *out)
{
    vec_tensor x = vec_input(v, c, "X");
    qg_grid gx = vec_grid(v, c, "x", x.dtype), gy = vec_grid(v, c, "y", x.dtype);
    bool last = vec_attribute(c, "channels_last", 0) != 0;
    size_t channels = (size_t)x.dim[last ? x.rank - 1 : 1];
    size_t pixels = x.n / ((size_t)x.dim[0] * channels);
    out->n = (size_t)x.dim[0] * channels;
    out->q = VEC_NEW(v, out->n, int32_t);
    for (size_t i = 0; i < out->n; i++)
        for (size_t p = 0; p < pixels; p++) {
            size_t at = last ? (i / channels * pixels + p) * channels + i % channels
                             : i * pixels + p;
            out->q[i] += x.q[at] - gx.zero;
        }
    float n = (float)pixels;
    const qg_profile_row *row =
        vec_row(k->profile, QG_USE_GLOBAL_POOL, (qg_grid[]){ gx, { 0 }, gy });
    vec_requant r = { row, gx.scale, gy, &n, 1 };
    return vec_requantize(v, &r, out->q, (size_t[3]){ 1, 1, out->n });
}

static bool average_pool(vec_run *v, const json *c, const vec_kernel *k,
                         vec_result *out)
{
    vec_tensor x = vec_input(v, c, "X");
    qg_float_pool p = {
        vec_grid(v, c, "x", x.dtype),
        vec_grid(v, c, "y", x.dtype),
        vec_attribute(c, "count_include_pad", 0) != 0,
    };
    qg_int_window w = { .planes = x.dim[0] * x.dim[1], .height = x.dim[2] };
    w.width = x.dim[3];
    bool ceiling = vec_attribute(c, "ceil_mode", 0) != 0;
    int64_t out_size[2];
    for (size_t i = 0; i < 2; i++) {
        w.kernel[i] = list(c, "kernel_shape", i, 1);
        w.stride[i] = list(c, "strides", i, 1);
        w.pad[i] = list(c, "pads", i, 0);
        int64_t room =
            x.dim[2 + i] + w.pad[i] + list(c, "pads", i + 2, 0) - w.kernel[i];
        out_size[i] = (room + (ceiling ? w.stride[i] - 1 : 0)) / w.stride[i] + 1;
    }
    w.out_height = out_size[0];
    w.out_width = out_size[1];
    out->n = (size_t)(w.planes * w.out_height * w.out_width);
    out->q = VEC_NEW(v, out->n, int32_t);
    qg_int_average_pool_float(&w, &p, x.q, out->q);
    const qg_grid grids[3] = { p.x, { 0 }, p.y };
    return vec_row(k->profile, QG_USE_AVERAGE_POOL, grids)->form == QG_FORM_FLOAT_ROWS;
}

static bool softmax(vec_run *v, const json *c, const vec_kernel *k, vec_result *out)
{
    vec_tensor x = vec_input(v, c, "X");
    int64_t axis = vec_attribute(c, "axis", -1);
    axis = axis < 0 ? axis + x.rank : axis;
    qg_grid gx = { x.dtype, vec_input_f32(v, c, "X_scale"),
                   vec_input_i32(v, c, "x_zero_point") };
    size_t n = (size_t)x.dim[x.rank - 1];
    qg_int_softmax_table t;
    if (axis != x.rank - 1)
        vec_malformed("case '%s': softmax over axis %d", v->name, (int)axis);
    if (!vec_ok(
            v, k->name,
            qg_int_softmax_table_make(v->ctx, gx, vec_grid(v, c, "y", x.dtype), n, &t)))
        return false;
    *out = (vec_result){ .q = VEC_NEW(v, x.n, int32_t), .n = x.n };
    for (size_t at = 0; at < x.n; at += n)
        qg_int_softmax_table_row(&t, x.q + at, out->q + at, n);
    return true;
}

static const vec_op_row ops[] = {
    {"QLinearAdd",      add },
    { "QLinearMul",                multiply },
    { "QLinearConcat",concat },
    { "QLinearLeakyRelu",  leaky_relu },
    { "QLinearSigmoid",                sigmoid },
    { "QLinearConv",      conv },
    { "QLinearMatMul", matmul },
    { "QGemm",                gemm },
    { "QLinearGlobalAveragePool",        global_pool },
    { "QLinearAveragePool",  average_pool },
    { "QLinearSoftmax",                softmax },
    { 0},
};

void vec_ort_qlinear(vec_run *v, const json *root)
{
    vec_library(v, root, ops, kernels);
}

/* litert_q8.json: int8 operators of the TFLite interpreter through its three kernel
 * sets. */
#include <string.h>

#include "tests/programs/vectors/library.h"

#define REFERENCE "expected", NULL
#define BUILTIN   "expected_builtin", REFERENCE
#define DELEGATE  "expected_xnnpack", REFERENCE

/* clang-format off */
static const vec_kernel kernels[] = {
    { "tflite-reference", { REFERENCE }, NULL },
    { "tflite-builtin-x86", { BUILTIN }, NULL },
    { "tflite-builtin-arm", { "expected_builtin_aarch64", BUILTIN }, NULL },
    { "tflite-xnnpack", { DELEGATE }, NULL },
    { "tflite-xnnpack-arm", { "expected_xnnpack_aarch64", DELEGATE }, NULL },
    { 0 },
};
/* clang-format on */

static const char *const aby[] = { "a", "b", "y" };

static bool add(vec_run *v, const json *c, const vec_kernel *k, vec_result *out)
{
    return vec_binary(v, c, k, QG_INT_BINARY_ADD, aby, out);
}

static bool subtract(vec_run *v, const json *c, const vec_kernel *k, vec_result *out)
{
    return vec_binary(v, c, k, QG_INT_BINARY_SUB, aby, out);
}

static bool multiply(vec_run *v, const json *c, const vec_kernel *k, vec_result *out)
{
    return vec_binary(v, c, k, QG_INT_BINARY_MUL, aby, out);
}

static qg_dtype output_type(const json *c)
{
    return qg_dtype_named(js_text(js_at(js_at(js_get(c, "output_types"), 0), 1)));
}

static bool quantize(vec_run *v, const json *c, const vec_kernel *k, vec_result *out)
{
    vec_tensor x = vec_input(v, c, "x");
    qg_grid gy = vec_grid(v, c, "y", output_type(c));
    out->n = x.n;
    out->q = VEC_NEW(v, x.n, int32_t);
    if (x.f) {
        qg_affine_quantizer q;
        if (!vec_quantizer(v, k, gy, &q))
            return false;
        qg_affine_quantizer_codes(&q, x.f, out->q, x.n);
        return true;
    }
    qg_grid gx = vec_grid(v, c, "x", x.dtype);
    qg_rescale_spec spec = { vec_row(k->profile, QG_USE_RESCALE,
                                     (qg_grid[]){ gx, { 0 }, gy }),
                             gx, gy, qg_code_range_of(gy.dtype, gy.zero) };
    qg_rescale r;
    if (!vec_ok(v, k->name, qg_rescale_prepare(v->ctx, &spec, &r)))
        return false;
    qg_rescale_codes(&r, x.q, out->q, x.n);
    return true;
}

static vec_requant requant(vec_run *v, const json *c, const vec_kernel *k,
                           bool convolution)
{
    vec_tensor ws = vec_input(v, c, "w_scale");
    qg_dtype type = vec_input(v, c, "x").dtype;
    qg_grid gx = vec_grid(v, c, "x", type), gy = vec_grid(v, c, "y", output_type(c));
    qg_kernel_use use = convolution ? QG_USE_CONV
                        : ws.n == 1 ? QG_USE_DENSE
                                    : QG_USE_DENSE_CHANNEL;
    const qg_profile_row *row =
        vec_row(k->profile, use, (qg_grid[]){ gx, { .dtype = QG_I8 }, gy });
    return (vec_requant){ row, gx.scale, gy, ws.f, ws.n };
}

static bool dense(vec_run *v, const json *c, const vec_kernel *k, vec_result *out)
{
    vec_tensor x = vec_input(v, c, "x"), w = vec_input(v, c, "w");
    size_t depth = (size_t)w.dim[1], outs = (size_t)w.dim[0], n = x.n / depth;
    qg_int_sum s = vec_dense(x.q, w.q, n, depth, outs);
    s.zero_x = vec_input_i32(v, c, "x_zero_point");
    s.bias = vec_has_input(c, "b") ? vec_input(v, c, "b").q : NULL;
    out->n = n * outs;
    out->q = VEC_NEW(v, out->n, int32_t);
    qg_int_sum_run(&s, out->q);
    vec_requant r = requant(v, c, k, false);
    return vec_requantize(v, &r, out->q, (size_t[3]){ n, outs, 1 });
}

/* SAME: out = ceil(in / stride), the odd place of padding behind. */
static void axis(const json *c, int64_t in, int64_t kernel, qg_int_sum *s, int i)
{
    int64_t stride = vec_attribute(c, "stride", 1);
    bool valid = vec_attribute(c, "valid", 1) != 0;
    int64_t out = valid ? (in - kernel) / stride + 1 : (in + stride - 1) / stride;
    int64_t total = (out - 1) * stride + kernel - in;
    s->stride[i] = stride;
    s->dilation[i] = 1;
    s->pad[i] = valid || total < 0 ? 0 : total / 2;
    *(i ? &s->width : &s->height) = in;
    *(i ? &s->kernel_width : &s->kernel_height) = kernel;
    *(i ? &s->out_width : &s->out_height) = out;
}

static bool conv(vec_run *v, const json *c, const vec_kernel *k, vec_result *out)
{
    vec_tensor x = vec_input(v, c, "x"), w = vec_input(v, c, "w"); /* NHWC, OHWI */
    qg_int_sum s = { .batches = x.dim[0], .groups = 1, .in_channels = x.dim[3] };
    s.out_channels = w.dim[0];
    axis(c, x.dim[1], w.dim[1], &s, 0);
    axis(c, x.dim[2], w.dim[2], &s, 1);
    size_t depth = (size_t)x.dim[3], outs = (size_t)w.dim[0];
    size_t row = (size_t)x.dim[2] * depth, w_row = (size_t)w.dim[2] * depth;
    s.x = (qg_int_picture){ x.q, (size_t)x.dim[1] * row, 1, row, depth };
    s.w = (qg_int_picture){ w.q, (size_t)w.dim[1] * w_row, 1, w_row, depth };
    s.zero_x = vec_input_i32(v, c, "x_zero_point");
    s.bias = vec_has_input(c, "b") ? vec_input(v, c, "b").q : NULL;
    size_t pixels = (size_t)(s.out_height * s.out_width), batches = (size_t)s.batches;
    out->n = batches * outs * pixels;
    int32_t *acc = VEC_NEW(v, out->n, int32_t);
    qg_int_sum_run(&s, acc);
    vec_requant r = requant(v, c, k, true);
    if (!vec_requantize(v, &r, acc, (size_t[3]){ batches, outs, pixels }))
        return false;
    out->q = VEC_NEW(v, out->n, int32_t);
    for (size_t i = 0; i < out->n; i++) { /* back to channels last */
        size_t b = i / (pixels * outs), p = i / outs % pixels, o = i % outs;
        out->q[i] = acc[(b * outs + o) * pixels + p];
    }
    return true;
}

static const vec_op_row ops[] = {
    {"ADD",              add },
    { "SUB",                 subtract },
    { "MUL",multiply },
    { "QUANTIZE",             quantize },
    { "FULLY_CONNECTED",                 dense },
    { "CONV_2D",conv },
    { 0},
};

void vec_litert_q8(vec_run *v, const json *root) { vec_library(v, root, ops, kernels); }

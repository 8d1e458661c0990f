/* litert_q8.json: int8 operators of the TFLite interpreter through its three kernel
 * sets. */
#include <string.h>

#include "engine/number/integer_rescale.h"
#include "tests/programs/vectors/library.h"

#define REFERENCE "expected", NULL
#define BUILTIN   "expected_builtin", REFERENCE
#define DELEGATE  "expected_xnnpack", REFERENCE

/* clang-format off */
static const vec_kernel kernels[] = {
    { "tflite-reference", "any", { REFERENCE } },
    { "tflite-builtin", "x86-64", { BUILTIN } },
    { "tflite-builtin", "aarch64", { "expected_builtin_aarch64", BUILTIN } },
    { "tflite-xnnpack", "x86-64", { DELEGATE } },
    { "tflite-xnnpack", "aarch64", { "expected_xnnpack_aarch64", DELEGATE } },
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
        qg_quantizer q;
        if (!vec_ok(v, k->runtime, qg_quantizer_prepare(v->ctx, k->runtime, gy, &q)))
            return false;
        qg_quantizer_codes(&q, x.f, out->q, x.n);
        return true;
    }
    qg_rescale_spec spec = { k->runtime, k->isa, QG_RESCALE_OPERATOR,
                             vec_grid(v, c, "x", x.dtype), gy };
    qg_rescale r;
    if (!vec_ok(v, k->runtime, qg_rescale_prepare(v->ctx, &spec, &r)))
        return false;
    qg_rescale_codes(&r, x.q, out->q, x.n);
    return true;
}

static vec_requant requant(vec_run *v, const json *c, bool convolution)
{
    vec_tensor ws = vec_input(v, c, "w_scale");
    qg_grid gy = vec_grid(v, c, "y", output_type(c));
    return (vec_requant){ convolution ? QG_USE_CONV : QG_USE_DENSE,
                          convolution ? QG_USE_CONV : QG_USE_DENSE_CHANNEL,
                          vec_input_f32(v, c, "x_scale"),
                          gy.scale,
                          ws.f,
                          ws.n,
                          qg_code_range_of(gy.dtype, gy.zero) };
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
    vec_requant r = requant(v, c, false);
    return vec_requantize(v, k, &r, out->q, (size_t[3]){ n, outs, 1 });
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
    vec_requant r = requant(v, c, true);
    if (!vec_requantize(v, k, &r, acc, (size_t[3]){ batches, outs, pixels }))
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

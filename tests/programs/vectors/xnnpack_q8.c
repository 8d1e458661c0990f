/* xnnpack_q8.json: operators of XNNPACK's C API on x86-64 and aarch64. */
#include "tests/programs/vectors/library.h"

/* clang-format off */
static const vec_kernel kernels[] = {
    { "xnnpack-x86", { "expected", NULL }, NULL },
    { "xnnpack-arm", { "expected_aarch64", "expected", NULL }, NULL },
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

static bool quantize(vec_run *v, const json *c, const vec_kernel *k, vec_result *out)
{
    vec_tensor x = vec_input(v, c, "x"), zero = vec_input(v, c, "y_zero_point");
    qg_grid gy = vec_grid(v, c, "y", zero.dtype);
    qg_affine_quantizer q;
    if (!vec_quantizer(v, k, gy, &q))
        return false;
    out->n = x.n;
    out->q = VEC_NEW(v, x.n, int32_t);
    qg_affine_quantizer_codes(&q, x.f, out->q, x.n);
    return true;
}

static bool product(vec_run *v, const json *c, const vec_kernel *k, bool convolution,
                    vec_result *out)
{
    vec_tensor x = vec_input(v, c, "x"), w = vec_input(v, c, "w");
    vec_tensor ws = vec_input(v, c, "w_scale");
    size_t depth = (size_t)w.dim[1], outs = (size_t)w.dim[0], n = x.n / depth;
    qg_grid gx = vec_grid(v, c, "x", x.dtype), gy = vec_grid(v, c, "y", x.dtype);
    int32_t zero_w = vec_input_i32(v, c, "w_zero_point");
    int32_t *zeros = VEC_NEW(v, outs, int32_t);
    for (size_t o = 0; o < outs; o++)
        zeros[o] = zero_w;
    qg_int_sum s = vec_dense(x.q, w.q, n, depth, outs);
    s.zero_x = gx.zero;
    s.zero_w = zeros;
    s.bias = vec_input(v, c, "B").q;
    out->n = n * outs;
    out->q = VEC_NEW(v, out->n, int32_t);
    qg_int_sum_run(&s, out->q);
    qg_kernel_use use = convolution ? QG_USE_CONV
                        : ws.n == 1 ? QG_USE_DENSE
                                    : QG_USE_DENSE_CHANNEL;
    const qg_profile_row *row =
        vec_row(k->profile, use, (qg_grid[]){ gx, { .dtype = w.dtype }, gy });
    vec_requant r = { row, gx.scale, gy, ws.f, ws.n };
    return vec_requantize(v, &r, out->q, (size_t[3]){ n, outs, 1 });
}

static bool dense(vec_run *v, const json *c, const vec_kernel *k, vec_result *out)
{
    return product(v, c, k, false, out);
}

static bool convolution(vec_run *v, const json *c, const vec_kernel *k, vec_result *out)
{
    return product(v, c, k, true, out);
}

/* x is [batch, pixels, channels]. */
static bool global_pool(vec_run *v, const json *c, const vec_kernel *k, vec_result *out)
{
    vec_tensor x = vec_input(v, c, "x");
    qg_grid gx = vec_grid(v, c, "x", x.dtype), gy = vec_grid(v, c, "y", x.dtype);
    size_t pixels = (size_t)x.dim[1], channels = (size_t)x.dim[2];
    out->n = (size_t)x.dim[0] * channels;
    out->q = VEC_NEW(v, out->n, int32_t);
    for (size_t i = 0; i < x.n; i++)
        out->q[i / (pixels * channels) * channels + i % channels] += x.q[i] - gx.zero;
    float n = (float)pixels;
    const qg_profile_row *row =
        vec_row(k->profile, QG_USE_GLOBAL_POOL, (qg_grid[]){ gx, { 0 }, gy });
    vec_requant r = { row, gx.scale, gy, &n, 1 };
    return vec_requantize(v, &r, out->q, (size_t[3]){ 1, 1, out->n });
}

static const vec_op_row ops[] = {
    {"add",                      add },
    { "multiply",                         multiply },
    { "quantize",quantize },
    { "fully_connected",                dense },
    { "convolution_per_channel",                         convolution },
    { "global_average_pooling",      global_pool },
    { 0},
};

void vec_xnnpack_q8(vec_run *v, const json *root)
{
    vec_library(v, root, ops, kernels);
}

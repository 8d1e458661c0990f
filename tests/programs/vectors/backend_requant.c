/* backend_requant.json: the same sums through the requantizations of many runtimes. */
#include <string.h>

#include "engine/number/integer_binary.h"
#include "engine/number/round.h"
#include "engine/quant/aimet.h"
#include "tests/programs/vectors/vectors.h"

static const struct {
    const char *column, *profile;
    qg_kernel_use use;
    bool without_zero;
} columns[] = {
    {"tflite_double",      "tflite-reference",     QG_USE_CONV,  false},
    { "tflite_single",     "tflite-micro-single",  QG_USE_CONV,  false},
    { "xnnpack_fp32",      "xnnpack-x86",          QG_USE_DENSE, false},
    { "ort_mlas",          "onnxruntime-x86-vnni", QG_USE_CONV,  false},
    { "xnnpack_rndnu",     "xnnpack-arm",          QG_USE_DENSE, false},
    { "onnx_reference",    "onnx-reference",       QG_USE_CONV,  false},
    { "ncnn_zp0",          "ncnn-x86",             QG_USE_CONV,  true },
    { "tensorrt_like_zp0", "tensorrt",             QG_USE_CONV,  true },
};

/* The zero-point-free columns are always codes of int8. */
static void requant_column(vec_run *v, const json *set, size_t k)
{
    qg_scales s = { js_f32(set, "sx"), js_f32(set, "sw"), js_f32(set, "sy") };
    qg_code_range range = { (int32_t)js_i64(set, "zp"), (int32_t)js_i64(set, "qmin"),
                            (int32_t)js_i64(set, "qmax") };
    if (columns[k].without_zero)
        range = qg_code_range_of(QG_I8, 0);
    const qg_profile_row *row =
        vec_row(vec_profile(v, columns[k].profile), columns[k].use,
                (qg_grid[]){
                    {QG_I8,           s.x, 0 },
                    { .dtype = QG_I8},
                    { QG_I8,              s.y,    0}
    });
    qg_requant r;
    if (!vec_ok(
            v, "prepare",
            qg_requant_prepare(v->ctx, columns[k].column, &row->requant, s, range, &r)))
        return;
    JS_EACH(sum, js_get(set, "rows"))
    if (js_find(sum, columns[k].column))
        vec_same_i64(v, columns[k].column, qg_requant_one(&r, js_i64(sum, "acc")),
                     js_i64(sum, columns[k].column));
}

static void requant(vec_run *v, const json *set)
{
    qg_multiplier m = qg_q31_of(js_num(js_get(set, "params"), "real"));
    for (size_t k = 0; k < sizeof columns / sizeof columns[0]; k++) {
        vec_case(v, "factor %g, column %s", js_num(js_get(set, "params"), "real"),
                 columns[k].column);
        vec_same_i64(v, "mult", m.m, js_i64(js_get(set, "params"), "mult"));
        vec_same_i64(v, "shift", m.shift, js_i64(js_get(set, "params"), "shift"));
        requant_column(v, set, k);
    }
}

/* profile NULL: kernels that no profile has for 8 bits, by their form. */
static const struct {
    const char *column, *profile;
    qg_profile_row row;
} adds[] = {
    {"ort_portable",   NULL,                   { .form = QG_FORM_PORTABLE }},
    { "ort_sse2",      NULL,                   { .form = QG_FORM_SSE }     },
    { "ort_neon",      "onnxruntime-arm",      { 0 }                       },
    { "ort_x86_fma",   "onnxruntime-x86-vnni", { 0 }                       },
    { "xnnpack",       "xnnpack-x86",          { 0 }                       },
    { "tflite_double", "tflite-reference",     { 0 }                       },
    { "tflite_single", "tflite-micro-single",  { 0 }                       },
};

static void qlinear_add(vec_run *v, const json *set)
{
    qg_dtype type = js_i64(set, "qmin") < 0 ? QG_I8 : QG_U8;
    for (size_t k = 0; k < sizeof adds / sizeof adds[0]; k++) {
        qg_int_binary_spec spec = {
            .op = QG_INT_BINARY_ADD,
            .row = &adds[k].row,
            .a = {type,  js_f32(set, "sa"), (int32_t)js_i64(set, "za")},
            .b = { type, js_f32(set, "sb"), (int32_t)js_i64(set, "zb")},
            .y = { type, js_f32(set, "sc"), (int32_t)js_i64(set, "zc")}
        };
        spec.range = qg_code_range_of(type, spec.y.zero);
        if (adds[k].profile)
            spec.row = vec_row(vec_profile(v, adds[k].profile), QG_USE_ADD,
                               (qg_grid[]){ spec.a, spec.b, spec.y });
        qg_int_binary p;
        vec_case(v, "add %g + %g -> %g, column %s", js_num(set, "sa"),
                 js_num(set, "sb"), js_num(set, "sc"), adds[k].column);
        if (!vec_ok(v, "prepare", qg_int_binary_prepare(v->ctx, &spec, &p)))
            continue;
        JS_EACH(row, js_get(set, "rows"))
        {
            int32_t a = (int32_t)js_i64(row, "a"), b = (int32_t)js_i64(row, "b"), y;
            p.span(&p, &(qg_int_operands){ &a, &b, 1, 1, 1 }, &y);
            vec_same_i64(v, adds[k].column, y, js_i64(row, adds[k].column));
        }
    }
}

static void encoding(vec_run *v, const json *c)
{
    vec_case(v, "aimet [%g, %g]", js_num(c, "min"), js_num(c, "max"));
    qg_aimet_spec spec = { .bits = (int)js_i64(c, "bw"),
                           .symmetric = js_true(js_find(c, "sym")),
                           .strict = js_true(js_find(c, "strict")),
                           .may_be_unsigned = js_true(js_find(c, "unsig")),
                           .min_range = js_num_or(c, "min_range", QG_AIMET_RANGE) };
    const json *want = js_get(c, "encoding");
    qg_aimet_encoding e;
    if (!vec_ok(v, "encoding",
                qg_aimet_encode(v->ctx, "vectors", &spec, js_num(c, "min"),
                                js_num(c, "max"), &e)))
        return;
    vec_close(v, "delta", e.delta, js_num(want, "delta"), (vec_tolerance){ 1e-12, 0 });
    vec_close(v, "offset", e.offset, js_num(want, "offset"), (vec_tolerance){ 0, 0 });
    vec_close(v, "min", e.min, js_num(want, "min"), (vec_tolerance){ 1e-12, 1e-3 });
    vec_close(v, "max", e.max, js_num(want, "max"), (vec_tolerance){ 1e-12, 1e-3 });
    size_t n;
    const double *x = js_doubles(v, js_get(c, "x"), &n);
    const double *dq = js_doubles(v, js_get(c, "dq"), NULL);
    const int32_t *q = js_ints(v, js_get(c, "q"), NULL);
    for (size_t i = 0; i < n; i++) {
        double code = qg_aimet_quantize(&e, x[i]);
        vec_same_i64(v, "q", (int64_t)code, q[i]);
        vec_close(v, "dq", e.delta * (code + e.offset), dq[i],
                  (vec_tolerance){ 1e-12, 1e-3 });
    }
}

static const struct {
    const char *column;
    qg_rounding mode;
} modes[] = {
    {"half_even",         QG_ROUND_HALF_EVEN       },
    { "half_up",          QG_ROUND_HALF_UP         },
    { "half_down",        QG_ROUND_HALF_DOWN       },
    { "half_toward_zero", QG_ROUND_HALF_TOWARD_ZERO},
    { "half_away",        QG_ROUND_HALF_AWAY       },
    { "up",               QG_ROUND_UP              },
    { "down",             QG_ROUND_DOWN            },
    { "c_round",          QG_ROUND_NEAR_INT        },
};

static void rounding(vec_run *v, const json *row)
{
    double x = js_num(row, "v");
    vec_case(v, "rounding of %.9g", x);
    for (size_t k = 0; k < sizeof modes / sizeof modes[0]; k++)
        vec_close(v, modes[k].column, qg_round_f64(modes[k].mode, x),
                  js_num(row, modes[k].column), (vec_tolerance){ 0, 0 });
    vec_close(v, "ncnn_simd_f32", (double)qg_round_add_half((float)x),
              js_num(row, "ncnn_simd_f32"), (vec_tolerance){ 0, 0 });
}

void vec_backend_requant(vec_run *v, const json *root)
{
    JS_EACH(set, js_get(root, "requant"))
    requant(v, set);
    JS_EACH(set, js_get(root, "qlinear_add"))
    qlinear_add(v, set);
    JS_EACH(c, js_get(root, "aimet_encodings"))
    encoding(v, c);
    JS_EACH(row, js_get(root, "rounding_modes"))
    rounding(v, row);
}

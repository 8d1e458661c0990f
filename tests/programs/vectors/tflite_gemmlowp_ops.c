/* The operators of tflite_gemmlowp.json. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/number/integer_binary.h"
#include "engine/number/integer_exp.h"
#include "engine/number/integer_pool.h"
#include "engine/number/integer_rescale.h"
#include "engine/number/integer_sum.h"
#include "engine/number/integer_unary.h"
#include "tests/programs/vectors/gemmlowp.h"

/* The row of one use in the build with one rounding, or with two. */
static const qg_profile_row *row_of(vec_run *v, bool single, qg_kernel_use use,
                                    qg_grid x, qg_grid y)
{
    const qg_profile *p =
        vec_profile(v, single ? "tflite-micro-single" : "tflite-micro");
    return vec_row(p, use, (qg_grid[]){ x, { 0 }, y });
}

static qg_grid grid(const json *c, qg_dtype type, const char *scale, const char *zero)
{
    return (qg_grid){ type, js_f32(c, scale), (int32_t)js_i64(c, zero) };
}

static void binary(vec_run *v, const json *c, qg_int_binary_op op, qg_dtype type,
                   bool single)
{
    size_t n;
    const int32_t *a = js_ints(v, js_get(c, "a"), &n);
    const int32_t *b = js_ints(v, js_get(c, "b"), NULL);
    const int32_t *want = js_ints(v, js_get(c, "out"), NULL);
    int32_t *y = VEC_NEW(v, n, int32_t);
    qg_grid to = grid(c, type, "so", "zo");
    qg_int_binary_spec spec = { .op = op,
                                .a = grid(c, type, "s1", "z1"),
                                .b = grid(c, type, "s2", "z2"),
                                .y = to };
    spec.range = qg_fused_range((qg_fused)js_i64(c, "act"), to.scale,
                                qg_code_range_of(type, to.zero));
    spec.row = row_of(v, single, op == QG_INT_BINARY_MUL ? QG_USE_MULTIPLY : QG_USE_ADD,
                      spec.a, to);
    qg_int_binary p;
    vec_case(v, "%s %s%s", qg_int_binary_op_name(op), js_str(c, "name"),
             single ? ", single" : "");
    if (!vec_ok(v, "prepare", qg_int_binary_prepare(v->ctx, &spec, &p)))
        return;
    vec_same_i64(v, "act_min", p.range.lo, js_i64(c, "act_min"));
    vec_same_i64(v, "act_max", p.range.hi, js_i64(c, "act_max"));
    vec_same_i64(v, "out multiplier", op == QG_INT_BINARY_MUL ? p.product.m.m : p.my.m,
                 js_i64(c, op == QG_INT_BINARY_MUL ? "mult" : "mo"));
    p.span(&p, &(qg_int_operands){ a, b, 1, 1, n }, y);
    vec_same_ints(v, "out", y, want, n);
}

void gemmlowp_add(vec_run *v, const json *section, bool single)
{
    JS_EACH(c, section)
    binary(v, c, QG_INT_BINARY_ADD, qg_dtype_named(js_str(c, "type")), single);
}

void gemmlowp_mul(vec_run *v, const json *section, bool single)
{
    JS_EACH(c, section)
    binary(v, c, QG_INT_BINARY_MUL, QG_I8, single);
}

void gemmlowp_concat(vec_run *v, const json *section, bool single)
{
    JS_EACH(c, section)
    {
        vec_case(v, "concat %s", js_str(c, "name"));
        size_t inputs = js_count(js_get(c, "s")), at = 0, total;
        const int32_t *want = js_ints(v, js_get(c, "out"), &total);
        uint8_t *y = VEC_NEW(v, total, uint8_t);
        qg_int_concat_input *in = VEC_NEW(v, inputs, qg_int_concat_input);
        for (size_t k = 0; k < inputs; k++) {
            char key[24];
            snprintf(key, sizeof key, "x%zu", k + 1);
            size_t n;
            int32_t *x = js_ints(v, js_get(c, key), &n);
            uint8_t *bytes = VEC_NEW(v, n, uint8_t);
            qg_codes_store(QG_U8, x, bytes, 0, n);
            in[k].grid = (qg_grid){ QG_U8, (float)js_number(js_at(js_get(c, "s"), k)),
                                    (int32_t)js_int(js_at(js_get(c, "z"), k)) };
            in[k].dims = (qg_int_dims){ 1, { (int64_t)n } };
            in[k].data = bytes;
            at += n;
        }
        qg_grid to = grid(c, QG_U8, "so", "zo");
        qg_int_concat_spec spec = { row_of(v, single, QG_USE_CONCAT, in[0].grid, to), 0,
                                    to };
        if (at != total)
            vec_malformed("concat: %zu inputs, %zu outputs", at, total);
        int32_t *codes = VEC_NEW(v, total, int32_t);
        if (vec_ok(v, "run", qg_int_concat_run(v->ctx, &spec, in, inputs, y))) {
            qg_codes_load(QG_U8, y, 0, codes, total);
            vec_same_ints(v, "out", codes, want, total);
        }
    }
}

/* "i8_u8_general": the types are in the name. */
static qg_dtype type_at(const char *name, int position)
{
    static const struct {
        const char *text;
        qg_dtype type;
    } types[] = {
        {"i8",   QG_I8 },
        { "u8",  QG_U8 },
        { "i16", QG_I16}
    };
    while (position-- > 0)
        name = strchr(name, '_') ? strchr(name, '_') + 1 : name;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strncmp(name, types[i].text, strlen(types[i].text)) == 0)
            return types[i].type;
    vec_malformed("'%s' does not begin with two types", name);
}

void gemmlowp_requantize(vec_run *v, const json *section, bool single)
{
    JS_EACH(c, section)
    {
        const char *name = js_str(c, "name");
        qg_grid from = grid(c, type_at(name, 0), "si", "zi");
        qg_grid to = grid(c, type_at(name, 1), "so", "zo");
        qg_rescale_spec spec = { row_of(v, single, QG_USE_RESCALE, from, to), from, to,
                                 qg_code_range_of(to.dtype, to.zero) };
        size_t n;
        int32_t *x = js_ints(v, js_get(c, "x"), &n);
        const int32_t *want = js_ints(v, js_get(c, "y"), NULL);
        qg_rescale r;
        vec_case(v, "requantize %s", name);
        if (!vec_ok(v, "prepare", qg_rescale_prepare(v->ctx, &spec, &r)))
            continue;
        vec_same_i64(v, "mult", r.r.m.m, js_i64(c, "mult"));
        vec_same_i64(v, "shift", r.r.m.shift, js_i64(c, "shift"));
        qg_rescale_codes(&r, x, x, n);
        vec_same_ints(v, "y", x, want, n);
    }
}

static void table(vec_run *v, const qg_int_unary_spec *spec, const char *what,
                  const json *expected)
{
    int32_t got[256];
    size_t n;
    const int32_t *want = js_ints(v, expected, &n);
    if (n != 256)
        vec_malformed("%s: %zu values, expected 256", what, n);
    if (vec_ok(v, what, qg_int_unary_table(v->ctx, spec, got)))
        vec_same_ints(v, what, got, want, 256);
}

void gemmlowp_leaky_relu(vec_run *v, const json *section, bool single)
{
    JS_EACH(c, section)
    {
        vec_case(v, "leaky relu, alpha %g", js_num(c, "alpha"));
        qg_grid x = grid(c, QG_I8, "si", "zi"), y = grid(c, QG_I8, "so", "zo");
        qg_int_unary_spec s = { QG_INT_UNARY_LEAKY_RELU,
                                row_of(v, single, QG_USE_LEAKY_RELU, x, y), x, y,
                                js_f32(c, "alpha") };
        table(v, &s, "out", js_get(c, "out_for_q_-128..127"));
    }
}

void gemmlowp_hard_swish(vec_run *v, const json *section, bool single)
{
    JS_EACH(c, section)
    {
        vec_case(v, "hard swish, scale %g", js_num(c, "si"));
        qg_grid x = grid(c, QG_I8, "si", "zi"), y = grid(c, QG_I8, "so", "zo");
        qg_int_unary_spec s = { QG_INT_UNARY_HARD_SWISH,
                                row_of(v, single, QG_USE_HARD_SWISH, x, y), x, y, 0 };
        table(v, &s, "out", js_get(c, "out_for_q_-128..127"));
    }
}

void gemmlowp_logistic_tanh(vec_run *v, const json *section, bool single)
{
    static const struct {
        const char *column;
        qg_int_unary_function function;
        bool fixed;
        float scale;
        int32_t zero;
    } columns[] = {
        {"logistic_fixed", QG_INT_UNARY_LOGISTIC, true,  1 / 256.0f, -128},
        { "logistic_lut",  QG_INT_UNARY_LOGISTIC, false, 1 / 256.0f, -128},
        { "tanh_fixed",    QG_INT_UNARY_TANH,     true,  1 / 128.0f, 0   },
        { "tanh_lut",      QG_INT_UNARY_TANH,     false, 1 / 128.0f, 0   },
    };
    const qg_profile *reference = vec_profile(v, "tflite-reference");
    JS_EACH(c, section)
    for (size_t k = 0; k < sizeof columns / sizeof columns[0]; k++) {
        vec_case(v, "%s, scale %g", columns[k].column, js_num(c, "si"));
        qg_grid x = grid(c, QG_I8, "si", "zi");
        qg_grid y = { QG_I8, columns[k].scale, columns[k].zero };
        qg_kernel_use use =
            columns[k].function == QG_INT_UNARY_TANH ? QG_USE_TANH : QG_USE_SIGMOID;
        qg_int_unary_spec s = { columns[k].function,
                                columns[k].fixed ? row_of(v, single, use, x, y)
                                                 : vec_row(reference, use,
                                                           (qg_grid[]){ x, { 0 }, y }),
                                x, y, 0 };
        table(v, &s, columns[k].column, js_get(c, columns[k].column));
    }
}

void gemmlowp_softmax(vec_run *v, const json *section, bool single)
{
    static const struct {
        const char *column;
        int bits;
    } outputs[] = {
        {"out_i8",   8 },
        { "out_i16", 16}
    };
    const qg_grid any = { QG_I8, 1, 0 };
    qg_requant_scheme scheme =
        (qg_requant_scheme)row_of(v, single, QG_USE_SOFTMAX, any, any)->requant.scheme;
    JS_EACH(c, section)
    for (size_t k = 0; k < 2; k++) {
        size_t n;
        const int32_t *x = js_ints(v, js_get(c, "x"), &n);
        const int32_t *want = js_ints(v, js_get(c, outputs[k].column), NULL);
        int32_t *y = VEC_NEW(v, n, int32_t);
        qg_int_softmax s;
        vec_case(v, "softmax %s, scale %g", outputs[k].column, js_num(c, "si"));
        if (!vec_ok(v, "prepare",
                    qg_int_softmax_prepare(v->ctx, scheme, js_f32(c, "si"),
                                           js_f32(c, "beta"), outputs[k].bits, &s)))
            continue;
        vec_same_i64(v, "diff_min", s.diff_min, js_i64(c, "diff_min"));
        vec_same_i64(v, "mult", s.m.m, js_i64(c, "mult"));
        if (vec_ok(v, "row", qg_int_softmax_row(v->ctx, &s, x, y, n)))
            vec_same_ints(v, outputs[k].column, y, want, n);
    }
}

void gemmlowp_average_pool(vec_run *v, const json *c, bool single)
{
    const qg_grid any = { QG_I8, 1, 0 };
    qg_rounding rounding = row_of(v, single, QG_USE_AVERAGE_POOL, any, any)->rounding;
    size_t n;
    const int32_t *x = js_ints(v, js_get(c, "x"), NULL);
    const int32_t *want = js_ints(v, js_get(c, "out"), &n);
    int64_t k = js_i64(c, "kernel"), stride = js_i64(c, "stride");
    qg_int_window w = { .planes = 1,
                        .height = js_i64(c, "h"),
                        .width = js_i64(c, "w") };
    w.kernel[0] = w.kernel[1] = k;
    w.stride[0] = w.stride[1] = stride;
    w.out_height = (w.height - k) / stride + 1;
    w.out_width = (w.width - k) / stride + 1;
    int32_t *y = VEC_NEW(v, n, int32_t);
    vec_case(v, "average pool");
    qg_int_average_pool(&w, rounding, (qg_code_range){ 0, -128, 127 }, x, y);
    vec_same_ints(v, "out", y, want, n);
}

/* "(i*37 mod 256)-128" */
static void fill(const char *formula, int32_t *x, size_t n)
{
    int factor, modulus, minus;
    if (sscanf(formula, "(i*%d mod %d)-%d", &factor, &modulus, &minus) != 3)
        vec_malformed("formula '%s'", formula);
    for (size_t i = 0; i < n; i++)
        x[i] = (int32_t)((int64_t)i * factor % modulus) - minus;
}

/* The file specifies pad 1, stride 1, 3x3, NHWC and OHWI.  It does not specify the
 * image, which is 3 x 3 with 2 channels: the only size up to 8 channels that reproduces
 * its outputs.
 * */
void gemmlowp_conv(vec_run *v, const json *c, bool single)
{
    enum { SIDE = 3, IN = 2 };
    size_t n, outs;
    const int32_t *bias = js_ints(v, js_get(c, "bias"), &outs);
    const int32_t *want = js_ints(v, js_get(c, "out"), &n);
    const float *ws = js_floats(v, js_get(c, "ws"), NULL);
    int32_t *x = VEC_NEW(v, SIDE * SIDE * IN, int32_t);
    int32_t *w = VEC_NEW(v, outs * SIDE * SIDE * IN, int32_t);
    int32_t *acc = VEC_NEW(v, n, int32_t), *y = VEC_NEW(v, n, int32_t);
    fill(js_str(c, "x_formula"), x, SIDE * SIDE * IN);
    fill(js_str(c, "w_formula"), w, outs * SIDE * SIDE * IN);
    qg_int_sum s = { .batches = 1, .groups = 1, .in_channels = IN, .height = SIDE };
    s.width = s.out_height = s.out_width = s.kernel_height = s.kernel_width = SIDE;
    s.out_channels = (int64_t)outs;
    for (int i = 0; i < 2; i++)
        s.stride[i] = s.dilation[i] = s.pad[i] = 1;
    s.x = (qg_int_picture){ x, 0, 1, SIDE * IN, IN };
    s.w = (qg_int_picture){ w, SIDE * SIDE * IN, 1, SIDE * IN, IN };
    s.zero_x = (int32_t)-js_i64(c, "input_offset");
    s.bias = bias;
    vec_case(v, "convolution");
    qg_int_sum_run(&s, acc);
    const qg_grid any = { QG_I8, 1, 0 };
    const qg_requant_rule *rule = &row_of(v, single, QG_USE_CONV, any, any)->requant;
    for (size_t o = 0; o < outs; o++) {
        qg_requant r;
        qg_scales scales = { js_f32(c, "si"), ws[o], js_f32(c, "so") };
        qg_code_range range = { (int32_t)js_i64(c, "output_offset"), -128, 127 };
        if (!vec_ok(v, "prepare",
                    qg_requant_prepare(v->ctx, "conv", rule, scales, range, &r)))
            return;
        for (size_t i = 0; i < n / outs; i++)
            y[i * outs + o] = qg_requant_one(&r, acc[o * (n / outs) + i]);
    }
    vec_same_ints(v, "out", y, want, n);
}

void gemmlowp_dense(vec_run *v, const json *c, bool single)
{
    size_t depth, n;
    const int32_t *x = js_ints(v, js_get(c, "x"), &depth);
    const int32_t *w = js_ints(v, js_get(c, "w_3x5"), NULL);
    const int32_t *bias = js_ints(v, js_get(c, "bias"), &n);
    const int32_t *want = js_ints(v, js_get(c, "out"), NULL);
    qg_int_sum s = {
        .batches = 1,
        .groups = 1,
        .in_channels = (int64_t)depth,
        .out_channels = (int64_t)n,
        .height = 1,
        .width = 1,
        .out_height = 1,
        .out_width = 1,
        .kernel_height = 1,
        .kernel_width = 1,
        .x = {x,  0,     1, 0, 0},
        .w = { w, depth, 1, 0, 0},
        .zero_x = (int32_t)-js_i64(c, "input_offset"),
        .bias = bias
    };
    int32_t *acc = VEC_NEW(v, n, int32_t);
    qg_int_sum_run(&s, acc);
    const qg_grid any = { QG_I8, 1, 0 };
    const qg_requant_rule *rule = &row_of(v, single, QG_USE_DENSE, any, any)->requant;
    qg_requant r;
    qg_scales scales = { js_f32(c, "si"), js_f32(c, "ws"), js_f32(c, "so") };
    qg_code_range range = { (int32_t)js_i64(c, "output_offset"), -128, 127 };
    vec_case(v, "fully connected");
    if (!vec_ok(v, "prepare",
                qg_requant_prepare(v->ctx, "fc", rule, scales, range, &r)))
        return;
    vec_same_i64(v, "mult_floatprod", r.m.m, js_i64(c, "mult_floatprod"));
    qg_requant_many(&r, acc, acc, n);
    vec_same_ints(v, "out", acc, want, n);
}

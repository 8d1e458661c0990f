/* tflite_gemmlowp.json: TFLite's reference kernels in fixed point, compiled with double
 * and with single rounding.  The operators are in tflite_gemmlowp_ops.c. */
#include "engine/number/fixed.h"
#include "tests/programs/vectors/gemmlowp.h"

static int64_t at(const json *row, size_t i) { return js_int(js_at(row, i)); }

static void quantize_multiplier(vec_run *v, const json *section, bool single)
{
    JS_EACH(row, section)
    {
        double real = js_number(js_at(row, 0));
        qg_multiplier r = single ? qg_q31_of_single(real) : qg_q31_of(real);
        vec_case(v, "quantize_multiplier(%.17g)", real);
        vec_same_i64(v, "multiplier", r.m, at(row, 1));
        vec_same_i64(v, "shift", r.shift, at(row, 2));
    }
}

static void high_mul(vec_run *v, const json *section, bool single)
{
    (void)single;
    JS_EACH(row, section)
    {
        vec_case(v, "srdhm(%lld, %lld)", (long long)at(row, 0), (long long)at(row, 1));
        vec_same_i64(v, "result", qg_high_mul((int32_t)at(row, 0), (int32_t)at(row, 1)),
                     at(row, 2));
    }
}

static void high_mul16(vec_run *v, const json *section, bool single)
{
    (void)single;
    JS_EACH(row, section)
    {
        vec_case(v, "srdhm16(%lld, %lld)", (long long)at(row, 0),
                 (long long)at(row, 1));
        vec_same_i64(v, "result",
                     qg_high_mul16((int16_t)at(row, 0), (int16_t)at(row, 1)),
                     at(row, 2));
    }
}

static void shift_away(vec_run *v, const json *section, bool single)
{
    (void)single;
    JS_EACH(row, section)
    {
        vec_case(v, "rdbpot(%lld, %lld)", (long long)at(row, 0), (long long)at(row, 1));
        vec_same_i64(v, "result", qg_shift_away((int32_t)at(row, 0), (int)at(row, 1)),
                     at(row, 2));
    }
}

static void scale32(vec_run *v, const json *section, bool single)
{
    JS_EACH(row, section)
    {
        double real = js_number(js_at(row, 1));
        qg_multiplier r = single ? qg_q31_of_single(real) : qg_q31_of(real);
        int32_t x = (int32_t)at(row, 0);
        vec_case(v, "multiply(%d, %g)", (int)x, real);
        vec_same_i64(v, "multiplier", r.m, at(row, 2));
        vec_same_i64(v, "shift", r.shift, at(row, 3));
        vec_same_i64(v, "result",
                     single ? qg_scale_single(x, r) : qg_scale_double(x, r),
                     at(row, 4));
    }
}

static void scale64(vec_run *v, const json *section, bool single)
{
    JS_EACH(row, section)
    {
        double real = js_number(js_at(row, 1));
        qg_multiplier r = single ? qg_q31_of_single(real) : qg_q31_of(real);
        vec_case(v, "multiply 64 (%lld, %g)", (long long)at(row, 0), real);
        vec_same_i64(v, "multiplier", r.m, at(row, 2));
        vec_same_i64(v, "shift", r.shift, at(row, 3));
        vec_same_i64(v, "result", qg_scale_reduced(at(row, 0), r), at(row, 4));
    }
}

static const struct {
    const char *name;
    void (*run)(vec_run *v, const json *section, bool single);
} sections[] = {
    {"quantize_multiplier",                     quantize_multiplier   },
    { "srdhm",                                  high_mul              },
    { "srdhm16",                                high_mul16            },
    { "rounding_divide_by_pot",                 shift_away            },
    { "multiply_by_quantized_multiplier",       scale32               },
    { "multiply_by_quantized_multiplier_int64", scale64               },
    { "add",                                    gemmlowp_add          },
    { "concat_uint8",                           gemmlowp_concat       },
    { "requantize",                             gemmlowp_requantize   },
    { "mul",                                    gemmlowp_mul          },
    { "leaky_relu_i8",                          gemmlowp_leaky_relu   },
    { "hard_swish_i8",                          gemmlowp_hard_swish   },
    { "logistic_tanh_i8",                       gemmlowp_logistic_tanh},
    { "softmax_i8",                             gemmlowp_softmax      },
    { "avgpool_i8",                             gemmlowp_average_pool },
    { "conv_i8_per_channel",                    gemmlowp_conv         },
    { "fc_i8",                                  gemmlowp_dense        },
};

static void build(vec_run *v, const json *part)
{
    bool single = js_true(js_get(part, "single_rounding"));
    JS_EACH(section, part)
    {
        size_t k = 0, n = sizeof sections / sizeof sections[0];
        while (k < n && strcmp(sections[k].name, js_key(section)) != 0)
            k++;
        if (k < n)
            sections[k].run(v, section, single);
        else if (strcmp(js_key(section), "single_rounding") != 0)
            vec_skip(v, "%s", js_key(section));
    }
}

void vec_tflite_gemmlowp(vec_run *v, const json *root)
{
    build(v, js_get(root, "double_rounding"));
    build(v, js_get(root, "single_rounding"));
}

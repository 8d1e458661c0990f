/* number/integer_rescale.h, integer_unary.h, integer_exp.h, integer_sum.h and
 * integer_pool.h. */
#include "tests/support/profiles.h"

#include <math.h>

#include "engine/core/rng.h"
#include "engine/number/integer_exp.h"
#include "engine/number/integer_pool.h"
#include "engine/number/integer_rescale.h"
#include "engine/number/integer_sum.h"
#include "engine/number/integer_unary.h"

enum { SEED = 11 };

static int32_t rescaled(qg_ctx *ctx, const char *profile, qg_grid x, qg_grid y,
                        int32_t q)
{
    qg_rescale_spec s = { test_row(ctx, profile, QG_USE_RESCALE), x, y,
                          qg_code_range_of(y.dtype, y.zero) };
    qg_rescale r;
    assert_ok(ctx, qg_rescale_prepare(ctx, &s, &r));
    qg_rescale_codes(&r, &q, &q, 1);
    return q;
}

static void doc_example(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_grid half = { QG_I8, 0.5f, 0 }, one = { QG_I8, 1, 0 };
    assert_int_equal(rescaled(ctx, "tflite-reference", half, one, 3), 2);
    assert_int_equal(rescaled(ctx, "onnxruntime-x86-vnni", half, one, 3), 2);
    assert_int_equal(rescaled(ctx, "tflite-reference", half, one, 1), 1);
    assert_int_equal(rescaled(ctx, "onnxruntime-x86-vnni", half, one, 1), 0);
    qg_profile_row copy = { .form = QG_FORM_CODES };
    qg_rescale_spec s = { &copy, half, one, qg_code_range_of(QG_I8, 0) };
    qg_rescale r;
    assert_fails(ctx, qg_rescale_prepare(ctx, &s, &r), QG_EUNSUPPORTED,
                 "form 'codes': int8 (0.5, 0) -> int8 (1, 0), expected plain");
    qg_ctx_free(ctx);
}

/* clang-format off */
static const qg_profile_row quantizers[] = {
    { .form = QG_FORM_DIVIDE, .rounding = QG_ROUND_HALF_AWAY },
    { .form = QG_FORM_DIVIDE, .rounding = QG_ROUND_HALF_EVEN },
    { .form = QG_FORM_RECIPROCAL, .rounding = QG_ROUND_HALF_EVEN },
    { .form = QG_FORM_ADD_HALF },
    { .form = QG_FORM_LEVELS },
    { .form = QG_FORM_DIVIDE, .requant = { .symmetric = true } },
};
/* clang-format on */

static void floats_saturate_and_nan_follows_its_rule(void **state)
{
    (void)state;
    static const float x[] = { NAN, INFINITY, -INFINITY, 1e30f, -1e30f, 0, -0.0f };
    static const int32_t want[] = { -128, 127, -128, 127, -128, 5, 5 };
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_grid y = { QG_I8, 0.1f, 5 };
    qg_code_range range = qg_code_range_of(QG_I8, 5);
    qg_affine_quantizer q;
    for (size_t k = 0; k < sizeof quantizers / sizeof quantizers[0]; k++) {
        int32_t code[7];
        assert_ok(ctx, qg_affine_quantizer_prepare(ctx, &quantizers[k], y, range, &q));
        qg_affine_quantizer_codes(&q, x, code, 7);
        for (int i = 0; i < 7; i++)
            assert_cmp_int(
                code[i], ==,
                quantizers[k].requant.symmetric && want[i] == -128 ? -127 : want[i]);
    }
    static const int32_t nan[] = { -128, -128, 5, 127, -128 };
    for (qg_nan rule = 0; rule < QG_NNAN; rule++) {
        int32_t code;
        qg_profile_row row = quantizers[0];
        row.nan = rule;
        assert_ok(ctx, qg_affine_quantizer_prepare(ctx, &row, y, range, &q));
        qg_affine_quantizer_codes(&q, x, &code, 1);
        assert_cmp_int(code, ==, nan[rule]);
    }
    qg_profile_row none = { .form = QG_FORM_COPY };
    assert_fails(ctx, qg_affine_quantizer_prepare(ctx, &none, y, range, &q),
                 QG_EUNSUPPORTED, "form 'copy', expected divide, reciprocal");
    qg_ctx_free(ctx);
}

/* The forms differ on halves, next to them, and where the reciprocal is not exact. */
static void forms_of_quantization_differ(void **state)
{
    (void)state;
    static const float x[] = { 0.5f, 1.5f, -0.5f, 0.49999997f };
    static const int32_t want[][4] = {
        {1,  2, -1, 0},
        { 0, 2, 0,  0},
        { 0, 2, 0,  0},
        { 1, 2, -1, 1},
        { 0, 2, 0,  0}
    };
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    for (size_t k = 0; k < sizeof want / sizeof want[0]; k++) {
        qg_affine_quantizer q;
        int32_t code[4];
        assert_ok(ctx, qg_affine_quantizer_prepare(ctx, &quantizers[k],
                                                   (qg_grid){ QG_I8, 1, 0 },
                                                   qg_code_range_of(QG_I8, 0), &q));
        qg_affine_quantizer_codes(&q, x, code, 4);
        for (int i = 0; i < 4; i++)
            assert_cmp_int(code[i], ==, want[k][i]);
    }
    qg_ctx_free(ctx);
}

static void concat_copies_rescales_and_refuses(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    uint8_t a[6] = { 0, 1, 2, 3, 4, 5 }, b[2] = { 100, 200 }, y[8];
    qg_grid fine = { QG_U8, 0.5f, 0 }, coarse = { QG_U8, 1, 0 };
    qg_int_concat_input in[2] = {
        {coarse, { 2, { 2, 3 } }, a},
        { fine,  { 2, { 2, 1 } }, b}
    };
    const qg_profile_row affine = { .form = QG_FORM_AFFINE },
                         copy = { .form = QG_FORM_COPY },
                         table = { .form = QG_FORM_TABLE, .rounding = QG_ROUND_UP };
    qg_int_concat_spec spec = { &affine, -1, coarse };
    assert_ok(ctx, qg_int_concat_run(ctx, &spec, in, 2, y));
    assert_memory_equal(y, ((uint8_t[]){ 0, 1, 2, 50, 3, 4, 5, 100 }), 8);
    qg_int_concat_spec refuses = { &copy, 1, coarse };
    assert_fails(ctx, qg_int_concat_run(ctx, &refuses, in, 2, y), QG_EUNSUPPORTED,
                 "expected the output's scale and zero point on every input");
    refuses.row = &table;
    assert_fails(ctx, qg_int_concat_run(ctx, &refuses, in, 2, y), QG_EUNSUPPORTED,
                 "expected rounding half-even or half-away-from-zero");
    spec.axis = 0;
    assert_fails(ctx, qg_int_concat_run(ctx, &spec, in, 2, y), QG_EMODEL,
                 "input 1 does not fit the first");
    spec.axis = 2;
    assert_fails(ctx, qg_int_concat_run(ctx, &spec, in, 2, y), QG_EMODEL,
                 "axis 2 of rank 2");
    qg_ctx_free(ctx);
}

static const qg_profile_row fixed_row = { .form = QG_FORM_FIXED,
                                          .requant.scheme = QG_SCHEME_FIX_DOUBLE };

static void tables_follow_their_function(void **state)
{
    (void)state;
    static const qg_profile_row rows[] = {
        {.form = QG_FORM_FLOAT_RECIPROCAL, .rounding = QG_ROUND_HALF_AWAY        },
        { .form = QG_FORM_FIXED,           .requant.scheme = QG_SCHEME_FIX_DOUBLE},
        { .form = QG_FORM_FIXED,           .requant.scheme = QG_SCHEME_FIX_SINGLE},
        { .form = QG_FORM_FLOAT_TABLE,     .rounding = QG_ROUND_HALF_EVEN        },
    };
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    for (size_t k = 0; k < 4; k++)
        for (int f = QG_INT_UNARY_LOGISTIC; f <= QG_INT_UNARY_TANH; f++) {
            bool tanh_ = f == QG_INT_UNARY_TANH;
            qg_int_unary_spec s = {
                (qg_int_unary_function)f,
                &rows[k],
                {QG_I8,  0.05f,                           3               },
                { QG_I8, tanh_ ? 1 / 128.0f : 1 / 256.0f, tanh_ ? 0 : -128},
                0
            };
            int32_t t[256];
            assert_ok(ctx, qg_int_unary_table(ctx, &s, t));
            for (int i = 0; i < 256; i++) {
                double x = 0.05 * (i - 128 - 3);
                double y = tanh_ ? tanh(x) * 128 : 256 / (1 + exp(-x)) - 128;
                assert_cmp_f64(fabs(fmin(y, 127) - t[i]), <, 1.01);
                assert_true(i == 0 || t[i] >= t[i - 1]);
            }
        }
    qg_grid g = { QG_I8, 1, 0 };
    qg_int_unary_spec s = { QG_INT_UNARY_HARD_SWISH, &rows[3], g, g, 0 };
    int32_t t[256];
    assert_fails(ctx, qg_int_unary_table(ctx, &s, t), QG_EUNSUPPORTED,
                 "form 'float-table' of hard-swish");
    s.function = QG_INT_UNARY_TANH;
    qg_profile_row up = { .form = QG_FORM_FIXED,
                          .requant.scheme = QG_SCHEME_FIX_DOUBLE_UP };
    s.row = &up;
    assert_fails(ctx, qg_int_unary_table(ctx, &s, t), QG_EUNSUPPORTED,
                 "scheme 'fix-double-up', expected fix-double or fix-single");
    qg_ctx_free(ctx);
}

/* x min(max(x + 3, 0), 6) / 6 over all codes, in 16-bit fixed point: within two
 * steps. */
static void hard_swish_is_close(void **state)
{
    (void)state;
    static const float scales[] = { 0.002f, 0.03f, 0.1f, 0.5f };
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    for (size_t k = 0; k < 4; k++) {
        qg_grid g = { QG_I8, scales[k], -10 };
        qg_int_unary_spec s = { QG_INT_UNARY_HARD_SWISH, &fixed_row, g, g, 0 };
        int32_t t[256];
        assert_ok(ctx, qg_int_unary_table(ctx, &s, t));
        for (int i = 0; i < 256; i++) {
            double x = (double)scales[k] * (i - 128 + 10);
            double y = x * fmin(fmax(x + 3, 0), 6) / 6 / (double)scales[k] - 10;
            assert_cmp_f64(fabs(fmin(fmax(y, -128), 127) - t[i]), <, 2);
        }
    }
    qg_int_unary_spec s = {
        QG_INT_UNARY_HARD_SWISH, &fixed_row, {QG_I8,  200, 0},
          { QG_I8, 1,   0},
          0
    };
    int32_t t[256];
    assert_fails(ctx, qg_int_unary_table(ctx, &s, t), QG_ENUMERIC,
                 "expected at most 128 output steps per input step");
    qg_ctx_free(ctx);
}

/* exp(a) over all of Q(5): relative error of gemmlowp's polynomial and bits. */
static void exponential_is_close(void **state)
{
    (void)state;
    qg_rng rng = { SEED };
    for (int i = 0; i < 20000; i++) {
        int32_t a = -(int32_t)(qg_rng_next(&rng) >> 34);
        double want = exp(ldexp(a, -26)), got = ldexp(qg_exp_negative(a, 5), -31);
        assert_cmp_f64(fabs(got - want), <, 1e-6);
        int32_t e = qg_exp_negative(a, 5);
        assert_cmp_f64(fabs(ldexp(qg_one_over_one_plus(e), -31) - 1 / (1 + got)), <,
                       1e-7);
    }
    assert_int_equal(qg_exp_negative(0, 5), INT32_MAX);
}

static void softmax_sums_to_one(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    static int32_t x[5000], y[5000];
    qg_int_softmax s;
    assert_ok(ctx, qg_int_softmax_prepare(ctx, QG_SCHEME_FIX_DOUBLE, 0.1f, 1, 16, &s));
    for (int i = 0; i < 100; i++)
        x[i] = i % 7 - 3;
    assert_ok(ctx, qg_int_softmax_row(ctx, &s, x, y, 100));
    double sum = 0;
    for (int i = 0; i < 100; i++)
        sum += ldexp(y[i] + 32768, -16);
    assert_cmp_f64(fabs(sum - 1), <, 2e-3);
    memset(x, 0, sizeof x);
    assert_fails(ctx, qg_int_softmax_row(ctx, &s, x, y, 5000), QG_EUNSUPPORTED,
                 "a row of 5000 overflows the sum");
    assert_fails(ctx,
                 qg_int_softmax_prepare(ctx, QG_SCHEME_FIX_SINGLE, 1e-9f, 1, 8, &s),
                 QG_ENUMERIC, "expected a finite product above 2^-26");
    assert_fails(ctx, qg_int_softmax_prepare(ctx, QG_SCHEME_FLOAT_RNE, 1, 1, 8, &s),
                 QG_EUNSUPPORTED, "scheme 'float-rne', expected fix-double");
    qg_ctx_free(ctx);
}

/* A 2 x 2 convolution with stride, padding, zero points and bias, by hand. */
static void sums_are_the_definition(void **state)
{
    (void)state;
    static const int32_t x[9] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 }, w[4] = { 1, -1, 2, 3 };
    static const int32_t zero_w[1] = { 1 }, bias[1] = { 100 };
    qg_int_sum s = { .batches = 1, .groups = 1, .in_channels = 1, .out_channels = 1 };
    s.height = s.width = 3;
    s.out_height = s.out_width = s.kernel_height = s.kernel_width = 2;
    for (int i = 0; i < 2; i++) {
        s.stride[i] = 2;
        s.dilation[i] = s.pad[i] = 1;
    }
    s.x = (qg_int_picture){ x, 9, 9, 3, 1 };
    s.w = (qg_int_picture){ w, 4, 4, 2, 1 };
    s.zero_x = 1;
    s.zero_w = zero_w;
    s.bias = bias;
    int32_t acc[4];
    qg_int_sum_run(&s, acc);
    /* (x - 1) (w - 1) over the places inside: w - 1 is { 0, -2, 1, 2 } */
    assert_int_equal(acc[0], 100 + 0 * 2);
    assert_int_equal(acc[1], 100 + 1 * 1 + 2 * 2);
    assert_int_equal(acc[2], 100 + 3 * -2 + 6 * 2);
    assert_int_equal(acc[3], 100 + 4 * 0 + 5 * -2 + 7 * 1 + 8 * 2);
}

static void pairs_saturate_without_vnni(void **state)
{
    (void)state;
    static const int32_t x[3] = { 255, 255, 255 }, w[3] = { 127, 127, 127 };
    qg_int_sum s = { .batches = 1, .groups = 1, .in_channels = 3, .out_channels = 1 };
    s.height = s.width = s.out_height = s.out_width = 1;
    s.kernel_height = s.kernel_width = 1;
    s.x = (qg_int_picture){ x, 3, 1, 0, 0 };
    s.w = (qg_int_picture){ w, 3, 1, 0, 0 };
    int32_t acc;
    qg_int_sum_run(&s, &acc);
    assert_int_equal(acc, 3 * 255 * 127);
    s.pairs = true;
    qg_int_sum_run(&s, &acc);
    assert_int_equal(acc, 32767 + 255 * 127);
}

static void pools_round_away(void **state)
{
    (void)state;
    static const int32_t x[6] = { 1, 2, -1, -2, 3, -4 };
    qg_int_window w = { .planes = 1, .height = 2, .width = 3 };
    w.out_height = w.out_width = 2;
    w.kernel[0] = w.kernel[1] = 2;
    w.stride[0] = w.stride[1] = 1;
    int32_t y[4];
    w.out_height = 1;
    qg_int_average_pool(&w, QG_ROUND_HALF_AWAY, qg_code_range_of(QG_I8, 0), x, y);
    assert_int_equal(y[0], 1); /* 4 / 4 */
    assert_int_equal(y[1], 0); /* 0 / 4 */
    w.kernel[0] = 1;
    qg_int_average_pool(&w, QG_ROUND_HALF_AWAY, qg_code_range_of(QG_I8, 0), x, y);
    assert_int_equal(y[0], 2); /* 1.5 */
    assert_int_equal(y[1], 1); /* 0.5 */
    qg_int_average_pool(&w, QG_ROUND_HALF_EVEN, qg_code_range_of(QG_I8, 0), x, y);
    assert_int_equal(y[1], 0);
}

/* The shift of the table is a logarithm in float32: in double the tied code is 70.
 * Output: onnxruntime 1.31.1. */
static void softmax_table_has_a_float_logarithm(void **state)
{
    (void)state;
    static const int32_t x[5] = { 58, 190, 1, 190, 48 }, want[5] = { 0, 69, 0, 69, 0 };
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_int_softmax_table t;
    int32_t y[5];
    assert_ok(ctx,
              qg_int_softmax_table_make(ctx, (qg_grid){ QG_U8, 0.12186008f, 128 },
                                        (qg_grid){ QG_U8, 0.00715842f, 0 }, 5, &t));
    qg_int_softmax_table_row(&t, x, y, 5);
    for (int i = 0; i < 5; i++)
        assert_cmp_int(y[i], ==, want[i]);
    qg_ctx_free(ctx);
}

QG_TEST_MAIN(cmocka_unit_test(doc_example),
             cmocka_unit_test(floats_saturate_and_nan_follows_its_rule),
             cmocka_unit_test(forms_of_quantization_differ),
             cmocka_unit_test(concat_copies_rescales_and_refuses),
             cmocka_unit_test(tables_follow_their_function),
             cmocka_unit_test(hard_swish_is_close),
             cmocka_unit_test(exponential_is_close),
             cmocka_unit_test(softmax_sums_to_one),
             cmocka_unit_test(softmax_table_has_a_float_logarithm),
             cmocka_unit_test(sums_are_the_definition),
             cmocka_unit_test(pairs_saturate_without_vnni),
             cmocka_unit_test(pools_round_away))

/* number/fixed.h and requant.h: fixed point against exact arithmetic, one sum through
 * many runtimes, and what is refused. */
#include "tests/support/profiles.h"

#include <math.h>

#include "engine/core/rng.h"
#include "engine/number/fixed.h"
#include "engine/number/requant.h"
#include "engine/number/round.h"

enum { SEED = 20250, ROUNDS = 20000 };

static void doc_example(void **state)
{
    (void)state;
    assert_int_equal(qg_scale_double(11, qg_q31_of(0.125)), 2);
    assert_int_equal(qg_scale_single(11, qg_q31_of(0.125)), 1);
}

/* The two stages of the double rounding, from their definitions in wide arithmetic. */
static int32_t two_stages(int32_t x, qg_multiplier r, qg_rounding second)
{
    int64_t shifted = r.shift > 0 ? (int64_t)x * (INT64_C(1) << r.shift) : x;
    double high = floor(((double)shifted * r.m + 0x1p30) / 0x1p31);
    double v = ldexp(high, r.shift < 0 ? r.shift : 0);
    return (int32_t)qg_round_f64(second, v);
}

/* |x| < 2^21 and shifts of at most 0 keep every double above exact. */
static void scaling_is_two_roundings_or_one(void **state)
{
    (void)state;
    qg_rng rng = { SEED };
    for (int i = 0; i < ROUNDS; i++) {
        int32_t x = (int32_t)qg_rng_below(&rng, 1u << 22) - (1 << 21);
        qg_multiplier r = { (int32_t)(qg_rng_next(&rng) >> 34) | 1 << 30,
                            -(int)qg_rng_below(&rng, 20) };
        assert_int_equal(qg_scale_double(x, r), two_stages(x, r, QG_ROUND_HALF_AWAY));
        assert_int_equal(qg_scale_double_up(x, r), two_stages(x, r, QG_ROUND_HALF_UP));
        double exact = ldexp((double)x * r.m, r.shift - 31);
        assert_int_equal(qg_scale_single(x, r),
                         (int32_t)qg_round_f64(QG_ROUND_HALF_UP, exact));
    }
}

static void multipliers_hold_their_factor(void **state)
{
    (void)state;
    qg_rng rng = { SEED };
    for (int i = 0; i < ROUNDS; i++) {
        float real =
            ldexpf(qg_rng_range(&rng, 0.5f, 1), (int)qg_rng_below(&rng, 50) - 30);
        qg_multiplier q = qg_q31_of((double)real), m = qg_m24_of(real);
        assert_in_range(q.m, 1 << 30, INT32_MAX);
        assert_cmp_f64(ldexp(q.m, q.shift - 31), ==, (double)real); /* 24 bits fit */
        assert_cmp_f64(ldexpf((float)m.m, -m.shift), ==, real);
        assert_int_equal(qg_log2_floor(real), (int)floor(log2((double)real)));
    }
    assert_int_equal(qg_q31_of(0).m, 0);
    assert_int_equal(qg_q31_of(0x1p-33).m, 0);
    assert_int_equal(qg_q31_of(1 - 0x1p-40).m, 1 << 30); /* rounds up to 2^31 */
    assert_int_equal(qg_q31_of_single(0x1p31).m, INT32_MAX);
    assert_int_equal(qg_q15_of((qg_multiplier){ INT32_MAX, 0 }).m, 0x7fff);
}

static void extremes_saturate(void **state)
{
    (void)state;
    assert_int_equal(qg_high_mul(INT32_MIN, INT32_MIN), INT32_MAX);
    assert_int_equal(qg_high_mul(INT32_MIN, INT32_MAX), -INT32_MAX);
    assert_int_equal(qg_high_mul16(INT16_MIN, INT16_MIN), INT16_MAX);
    assert_int_equal(qg_shift_left_sat(3, 31), INT32_MAX);
    assert_int_equal(qg_shift_left_sat(-3, 31), INT32_MIN);
    assert_int_equal(qg_shift_left(3, 31), INT32_MIN);
    assert_int_equal(qg_shift_away(INT32_MIN, 31), -1);
    assert_int_equal(qg_scale_mantissa(INT32_MAX, (qg_multiplier){ 1 << 23, 80 }), 0);
    assert_cmp_f64(qg_round_add_half(0.49999997f), ==, 1);
    assert_cmp_f64(qg_round_add_half(-0.49999997f), ==, -1);
}

/* docs/evidence/integers.md#requantization, factor 0.25: the columns are profiles. */
static void same_sum_many_runtimes(void **state)
{
    (void)state;
    static const struct {
        const char *profile;
        qg_kernel_use use;
        int32_t y[6];
    } column[] = {
        {"tflite-reference",      QG_USE_CONV,  { -4, -3, -2, -1, 1, 3 }},
        { "tflite-micro-single",  QG_USE_CONV,  { -3, -2, -1, 0, 1, 3 } },
        { "onnxruntime-x86-vnni", QG_USE_CONV,  { -4, -2, -2, 0, 0, 2 } },
        { "xnnpack-x86",          QG_USE_DENSE, { -4, -2, -2, 0, 0, 2 } },
        { "xnnpack-arm",          QG_USE_DENSE, { -3, -2, -1, 0, 1, 3 } },
        { "ncnn-x86",             QG_USE_CONV,  { -4, -3, -2, -1, 1, 3 }},
        { "tensorrt",             QG_USE_CONV,  { -4, -2, -2, 0, 0, 2 } },
        { "power-of-two",         QG_USE_CONV,  { -3, -2, -1, 0, 1, 3 } },
    };
    static const int32_t acc[6] = { -14, -10, -6, -2, 2, 10 };
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    for (size_t k = 0; k < sizeof column / sizeof column[0]; k++) {
        const qg_requant_rule *rule =
            &test_row(ctx, column[k].profile, column[k].use)->requant;
        qg_requant r;
        assert_ok(ctx, qg_requant_prepare(ctx, "test", rule, (qg_scales){ 0.25f, 1, 1 },
                                          qg_code_range_of(QG_I8, 0), &r));
        int32_t y[6];
        qg_requant_many(&r, acc, y, 6);
        for (int i = 0; i < 6; i++)
            assert_cmp_int(y[i], ==, column[k].y[i]);
        assert_cmp_int(qg_requant_one(&r, INT32_MAX), ==, 127);
        assert_cmp_int(qg_requant_one(&r, INT32_MIN), ==,
                       rule->symmetric ? -127 : -128);
    }
    qg_ctx_free(ctx);
}

/* Every row of every profile that requantizes can be prepared and stays within its
 * range on random sums. */
static void every_row_works(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_rng rng = { SEED };
    const char **name;
    size_t n, prepared = 0;
    assert_ok(ctx, qg_config_names(ctx, ctx->arena, test_profiles(ctx), &name, &n));
    for (size_t k = 0; k < n; k++) {
        const qg_profile *p;
        assert_ok(ctx,
                  qg_profile_load(ctx, ctx->arena, name[k], test_profiles(ctx), &p));
        for (size_t i = 0; i < p->n_row; i++) {
            const qg_profile_row *row = &p->row[i];
            if (!(qg_form_keys(row->form, row->uses) & QG_ROW_FACTOR))
                continue;
            qg_requant r;
            qg_scales s = { 0.25f, 0.25f, 4 };
            assert_ok(ctx, qg_requant_prepare(ctx, row->id, &row->requant, s,
                                              qg_code_range_of(QG_U8, 7), &r));
            assert_cmp_int(qg_requant_one(&r, 0), ==, 7);
            for (int j = 0; j < 100; j++)
                assert_in_range(qg_requant_one(&r, (int32_t)qg_rng_next(&rng)), 0, 255);
            prepared++;
        }
    }
    assert_cmp_int(n, >, 10);
    assert_cmp_int(prepared, >, 50);
    assert_null(test_find(ctx, "xnnpack-x86", QG_USE_MATMUL));
    qg_ctx_free(ctx);
}

static void bad_scales_are_refused(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_code_range range = qg_code_range_of(QG_I8, 0);
    qg_requant r = { .real = 42 };
    const qg_requant_rule fixed = { .scheme = QG_SCHEME_FIX_DOUBLE,
                                    .factor = QG_FACTOR_DOUBLE,
                                    .accumulator = 32 };
    const qg_requant_rule shift = { .scheme = QG_SCHEME_POW2_SHIFT,
                                    .factor = QG_FACTOR_DOUBLE,
                                    .accumulator = 32 };
    assert_fails(
        ctx,
        qg_requant_prepare(ctx, "conv1", &fixed, (qg_scales){ 0, 1, 1 }, range, &r),
        QG_ENUMERIC,
        "requantize: conv1: input scale is 0, expected a finite number above 0");
    assert_fails(
        ctx,
        qg_requant_prepare(ctx, "conv1", &fixed, (qg_scales){ 1, 1, NAN }, range, &r),
        QG_ENUMERIC, "output scale is nan");
    assert_fails(
        ctx,
        qg_requant_prepare(ctx, "conv1", &fixed, (qg_scales){ 1e20f, 1, 1 }, range, &r),
        QG_ENUMERIC, "factor 1e+20 does not fit fix-double, expected");
    assert_fails(
        ctx,
        qg_requant_prepare(ctx, "conv1", &shift, (qg_scales){ 0.3f, 1, 1 }, range, &r),
        QG_ENUMERIC, "expected a power of two");
    assert_cmp_f64(r.real, ==, 42); /* untouched */
    qg_ctx_free(ctx);
}

/* Bounds of fused activations: docs/evidence/integers.md#tflite-and-litert. */
static void activations_narrow_the_codes(void **state)
{
    (void)state;
    qg_code_range i8 = qg_code_range_of(QG_I8, -100);
    assert_int_equal(qg_fused_range(QG_FUSED_NONE, 0.1f, i8).lo, -128);
    assert_int_equal(qg_fused_range(QG_FUSED_RELU, 0.1f, i8).lo, -100);
    assert_int_equal(qg_fused_range(QG_FUSED_RELU, 0.1f, i8).hi, 127);
    assert_int_equal(qg_fused_range(QG_FUSED_RELU6, 0.1f, i8).hi, -40);
    assert_int_equal(qg_fused_range(QG_FUSED_RELU_N1_TO_1, 0.1f, i8).lo, -110);
    assert_int_equal(qg_fused_range(QG_FUSED_RELU6, 1e-30f, i8).hi, 127);
    assert_int_equal(qg_fused_range(QG_FUSED_RELU, 1, qg_code_range_of(QG_U8, 0)).lo,
                     0);
}

QG_TEST_MAIN(cmocka_unit_test(doc_example),
             cmocka_unit_test(scaling_is_two_roundings_or_one),
             cmocka_unit_test(multipliers_hold_their_factor),
             cmocka_unit_test(extremes_saturate),
             cmocka_unit_test(same_sum_many_runtimes),
             cmocka_unit_test(every_row_works),
             cmocka_unit_test(bad_scales_are_refused),
             cmocka_unit_test(activations_narrow_the_codes))

/* number/qdq.h.  Expected codes were made with onnxruntime 1.31.1 where the comment
 * says so; the bulk of the evidence is build/tests/vectors on ort_qdq.json. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/core/rng.h"
#include "engine/number/format.h"
#include "engine/number/qdq.h"

static const qg_dtype integers[] = { QG_I2, QG_U2, QG_I4,  QG_U4,
                                     QG_I8, QG_U8, QG_I16, QG_U16 };

static int32_t code_at(qg_dtype type, const void *data, size_t i)
{
    unsigned bits = qg_dtype_bits(type);
    uint32_t code = bits == 16  ? ((const uint16_t *)data)[i]
                    : bits == 8 ? ((const uint8_t *)data)[i]
                                : qg_packed_get(data, bits, i);
    bool negative = qg_dtype_kind_of(type) == QG_KIND_INT && code >> (bits - 1);
    return (int32_t)code - (negative ? 1 << bits : 0);
}

static void set_code(qg_dtype type, void *data, size_t i, int32_t code)
{
    unsigned bits = qg_dtype_bits(type);
    if (bits == 16)
        ((uint16_t *)data)[i] = (uint16_t)code;
    else if (bits == 8)
        ((uint8_t *)data)[i] = (uint8_t)code;
    else
        qg_packed_set(data, bits, i, (unsigned)code);
}

static size_t param_of(const qg_qdq *q, size_t i)
{
    size_t k = i % q->inner, d = i / q->inner % q->dim, o = i / q->inner / q->dim;
    if (!q->block)
        return d;
    return (o * ((q->dim + q->block - 1) / q->block) + d / q->block) * q->inner + k;
}

/* Any type, shape and granularity against the formula of the header, values in
 * range. */
static void formula_holds_everywhere(void **state)
{
    (void)state;
    enum { N = 8 * 8 * 8 };
    static float x[N], scale[N], back[N];
    static uint8_t y[N * 2], zero[N * 2];
    qg_rng rng = { 31 };
    for (int round = 0; round < 2000; round++) {
        qg_qdq q = { .type = integers[round % 8],
                     .outer = 1 + qg_rng_below(&rng, 8),
                     .dim = 1 + qg_rng_below(&rng, 8),
                     .inner = 1 + qg_rng_below(&rng, 8),
                     .block = round % 3 ? 0 : 1 + qg_rng_below(&rng, 4),
                     .scale = scale,
                     .zero_point = round % 5 ? zero : NULL,
                     .aarch64 = round & 1 };
        int32_t steps = (1 << qg_dtype_bits(q.type)) - 1;
        int32_t low = qg_dtype_kind_of(q.type) == QG_KIND_INT ? -(steps / 2) - 1 : 0;
        size_t n = q.outer * q.dim * q.inner;
        for (size_t i = 0; i < n; i++) {
            x[i] = qg_rng_range(&rng, -20, 20);
            scale[i] = qg_rng_range(&rng, 0.001f, 1);
            set_code(q.type, zero, i, low + (int32_t)qg_rng_below(&rng, 4));
        }
        memset(y, 0x55, sizeof y);
        qg_quantize_linear(&q, x, y);
        qg_dequantize_linear(&q, y, back);
        for (size_t i = 0; i < n; i++) {
            size_t p = param_of(&q, i);
            int32_t zp = q.zero_point ? code_at(q.type, zero, p) : 0;
            int32_t code = (int32_t)rintf(x[i] / scale[p]) + zp;
            code = code < low ? low : code > low + steps ? low + steps : code;
            assert_int_equal(code_at(q.type, y, i), code);
            assert_cmp_f64(back[i], ==, (float)(code - zp) * scale[p]);
        }
    }
}

/* onnxruntime 1.31.1 on x86-64: the clamping form, and the wrapping one. */
static void specials_follow_the_form(void **state)
{
    (void)state;
    static const float x[] = { NAN, INFINITY, -INFINITY, 3e9f, -3e9f, 2.5f, -0.0f, 7 };
    static const int32_t clamped[] = { -128, 127, -128, 127, -128, -1, -3, 4 };
    static const int32_t wrapped[] = { 127, 127, 127, 127, 127, -1, -3, 4 };
    static const int32_t aarch64[] = { -3, 127, 127, 127, 127, -1, -3, 4 };
    static const float scale[] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    static const int8_t zero[] = { -3, -3, -3, -3, -3, -3, -3, -3 };
    int8_t y[8];
    qg_qdq q = { .type = QG_I8,
                 .outer = 1,
                 .dim = 1,
                 .inner = 8,
                 .scale = scale,
                 .zero_point = zero };
    qg_quantize_linear(&q, x, y);
    for (int i = 0; i < 8; i++)
        assert_int_equal(y[i], clamped[i]);
    q.block = 1;
    qg_quantize_linear(&q, x, y);
    for (int i = 0; i < 8; i++)
        assert_int_equal(y[i], wrapped[i]);
    q.aarch64 = true;
    qg_quantize_linear(&q, x, y);
    for (int i = 0; i < 8; i++)
        assert_int_equal(y[i], aarch64[i]);
    q.inner = 1; /* a block that lies side by side clamps */
    q.dim = q.block = 8;
    qg_quantize_linear(&q, x, y);
    for (int i = 0; i < 8; i++)
        assert_int_equal(y[i], clamped[i]);
}

/* Two channels of five: elements 4 and 5 share a byte, so they take the wrapping
 * form. */
static void half_bytes_take_the_other_form(void **state)
{
    (void)state;
    static const float scale[] = { 1, 1 };
    float x[10];
    uint8_t y[5];
    for (int i = 0; i < 10; i++)
        x[i] = INFINITY;
    qg_quantize_linear(
        &(qg_qdq){ .type = QG_I4, .outer = 1, .dim = 2, .inner = 5, .scale = scale }, x,
        y);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(code_at(QG_I4, y, i), i == 4 || i == 5 ? -8 : 7);
    qg_quantize_linear(
        &(qg_qdq){ .type = QG_I2, .outer = 1, .dim = 1, .inner = 8, .scale = scale }, x,
        y);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(code_at(QG_I2, y, i), -2);
}

/* onnxruntime 1.31.1. */
static void float8_without_saturation(void **state)
{
    (void)state;
    static const float x[] = { 464,  465,   480,   495.99f, 496,   512,
                               -490, 61439, 61440, 65535,   65536, 1 };
    static const uint8_t e4m3[] = { 0x7e, 0x7f, 0x7e, 0x7e, 0x7f, 0x7f,
                                    0xfe, 0x7f, 0x7f, 0x7f, 0x7f, 0x38 };
    static const uint8_t e5m2[] = { 0x5f, 0x5f, 0x60, 0x60, 0x60, 0x60,
                                    0xe0, 0x7b, 0x7e, 0x7e, 0x7c, 0x3c };
    static const float scale[] = { 1 };
    uint8_t y[12];
    qg_qdq q = { .type = QG_F8E4M3FN,
                 .outer = 1,
                 .dim = 1,
                 .inner = 12,
                 .scale = scale,
                 .no_saturate = true };
    qg_quantize_linear(&q, x, y);
    assert_memory_equal(y, e4m3, 12);
    q.type = QG_F8E5M2;
    qg_quantize_linear(&q, x, y);
    assert_memory_equal(y, e5m2, 12);
    q.no_saturate = false;
    qg_quantize_linear(&q, x, y);
    for (int i = 8; i < 11; i++)
        assert_int_equal(y[i], 0x7b);
}

/* What operators mean: no form wraps, and float8 is ONNX's Cast. */
static void onnx_departs_where_the_header_says(void **state)
{
    (void)state;
    static const float x[] = { NAN, INFINITY, -INFINITY, 3e9f, 480, 495.99f, 61440, 1 };
    static const float scale[] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    static const qg_dtype types[] = { QG_I2, QG_I4, QG_I8 };
    static const uint8_t e4m3[] = { 0x7f, 0x7f, 0xff, 0x7f, 0x7f, 0x7f, 0x7f, 0x38 };
    uint8_t y[8];
    qg_qdq q = { .dim = 1, .inner = 8, .block = 1, .scale = scale, .onnx = true };
    q.outer = 1;
    for (int t = 0; t < 3; t++)
        for (q.block = 0; q.block < 2; q.block++) {
            int32_t high = (1 << (qg_dtype_bits(types[t]) - 1)) - 1;
            q.type = types[t];
            qg_quantize_linear(&q, x, y);
            for (size_t i = 0; i < 7; i++)
                assert_int_equal(code_at(q.type, y, i),
                                 i % 2 || i > 2 ? high : -high - 1);
        }
    q.no_saturate = true;
    q.type = QG_F8E4M3FN;
    qg_quantize_linear(&q, x, y);
    assert_memory_equal(y, e4m3, 8);
    q.type = QG_F8E5M2;
    qg_quantize_linear(&q, x, y);
    assert_int_equal(y[6], 0x7c);
}

/* 2.5003 is a tie as float16; 2.507 as bfloat16, where 2.5 has neighbours 1/64
 * apart. */
static void quotient_has_the_precision(void **state)
{
    (void)state;
    static const float x[] = { 2.5003f, 2.507f }, scale[] = { 1 };
    static const struct {
        qg_dtype precision;
        uint8_t y[2];
    } row[] = {
        {QG_NODTYPE, { 3, 3 }},
        { QG_F32,    { 3, 3 }},
        { QG_F16,    { 2, 3 }},
        { QG_BF16,   { 2, 2 }},
    };
    for (int i = 0; i < 4; i++) {
        uint8_t y[2];
        qg_qdq q = { .type = QG_U8, .outer = 1, .dim = 1, .inner = 2, .scale = scale };
        q.precision = row[i].precision;
        qg_quantize_linear(&q, x, y);
        assert_memory_equal(y, row[i].y, 2);
    }
}

/* onnxruntime 1.31.1. */
static void dynamic_range_may_be_infinite(void **state)
{
    (void)state;
    static const float x[] = { -INFINITY, 0, 1 };
    static const uint8_t expected[] = { 0, 255, 255 };
    uint8_t y[3], zero;
    float scale;
    qg_dynamic_quantize_linear(x, 3, y, &scale, &zero);
    assert_memory_equal(y, expected, 3);
    assert_true(isinf(scale));
    assert_int_equal(zero, 255);
}

static void float_codes_come_back(void **state)
{
    (void)state;
    static const qg_dtype types[] = { QG_F8E4M3FN, QG_F8E4M3FNUZ, QG_F8E5M2,
                                      QG_F8E5M2FNUZ, QG_F4E2M1 };
    static const float scale[] = { 0.25f };
    uint8_t codes[256], back[256];
    float x[256];
    for (int t = 0; t < 5; t++) {
        size_t n = (size_t)1 << qg_dtype_bits(types[t]);
        qg_qdq q = {
            .type = types[t], .outer = 1, .dim = 1, .inner = n, .scale = scale
        };
        for (size_t i = 0; i < n; i++)
            set_code(types[t], codes, i, (int32_t)i);
        qg_dequantize_linear(&q, codes, x);
        qg_quantize_linear(&q, x, back);
        for (size_t i = 0; i < n; i++)
            if (!isnan(x[i]) && !isinf(x[i]))
                assert_int_equal(code_at(types[t], back, i),
                                 code_at(types[t], codes, i));
    }
}

static void int32_dequantizes_modulo_2_32(void **state)
{
    (void)state;
    static const int32_t x[] = { INT32_MIN, INT32_MAX, 16777217, -1 }, zero[] = { 1 };
    static const float scale[] = { 0.5f };
    float y[4];
    qg_qdq q = { .type = QG_I32, .outer = 1, .dim = 1, .inner = 4, .scale = scale };
    qg_dequantize_linear(&q, x, y);
    assert_cmp_f64(y[0], ==, -0x1p30f);
    assert_cmp_f64(y[1], ==, 0x1p30f);
    assert_cmp_f64(y[2], ==, 8388608);
    assert_cmp_f64(y[3], ==, -0.5f);
    q.zero_point = zero;
    qg_dequantize_linear(&q, x, y);
    assert_cmp_f64(y[0], ==, 0x1p30f);
    assert_true(qg_qdq_knows(QG_I32, false));
    assert_false(qg_qdq_knows(QG_I32, true));
    assert_false(qg_qdq_knows(QG_F32, true));
    assert_false(qg_qdq_knows(QG_F8E8M0, false));
}

static void dynamic_range(void **state)
{
    (void)state;
    static const float x[] = { -1, 0.5f, 2, NAN }, zeros[] = { 0, -0.0f };
    uint8_t y[4], zero;
    float scale;
    qg_dynamic_quantize_linear(x, 4, y, &scale, &zero);
    assert_cmp_f64(scale, ==, 3.0f / 255);
    assert_int_equal(zero, 85);
    assert_memory_equal(y, ((uint8_t[]){ 0, 127, 255, 0 }), 4);
    qg_dynamic_quantize_linear(zeros, 2, y, &scale, &zero);
    assert_cmp_f64(scale, ==, 1);
    assert_int_equal(zero, 0);
    assert_int_equal(y[0], 0);
    qg_dynamic_quantize_linear(NULL, 0, NULL, &scale, &zero);
    assert_cmp_f64(scale, ==, 1);
    assert_int_equal(zero, 0);
}

QG_TEST_MAIN(cmocka_unit_test(formula_holds_everywhere),
             cmocka_unit_test(specials_follow_the_form),
             cmocka_unit_test(half_bytes_take_the_other_form),
             cmocka_unit_test(float8_without_saturation),
             cmocka_unit_test(onnx_departs_where_the_header_says),
             cmocka_unit_test(quotient_has_the_precision),
             cmocka_unit_test(dynamic_range_may_be_infinite),
             cmocka_unit_test(float_codes_come_back),
             cmocka_unit_test(int32_dequantizes_modulo_2_32),
             cmocka_unit_test(dynamic_range))

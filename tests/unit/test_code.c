/* qg_quantize and qg_dequantize: codes, and agreement with qg_fake_quantize. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/core/rng.h"
#include "engine/number/format.h"
#include "engine/quant/fake.h"

static qg_scheme scheme(unsigned policy, int bits, int64_t qmin, int64_t qmax)
{
    return (qg_scheme){ .policy = (uint16_t)policy,
                        .bits = (uint8_t)bits,
                        .axis = -1,
                        .qmin = qmin,
                        .qmax = qmax };
}

enum {
    LINEAR = QG_PER_TENSOR | QG_LINEAR | QG_ASYMMETRIC,
    FLOATING = QG_PER_TENSOR | QG_FLOATING | QG_SYMMETRIC | QG_POWER_OF_2
};

/* clang-format off */
static const struct { qg_dtype type; uint8_t bits; int64_t qmin, qmax; } grids[] = {
    { QG_I2, 2, -2, 1 },        { QG_U2, 2, 0, 3 },        { QG_I4, 4, -8, 7 },
    { QG_U4, 4, 0, 15 },        { QG_I8, 8, -127, 127 },   { QG_U8, 8, 0, 255 },
    { QG_I16, 16, -32768, 32767 }, { QG_U16, 16, 0, 65535 },
    { QG_I32, 32, INT32_MIN, INT32_MAX }, { QG_U32, 32, 0, UINT32_MAX },
    { QG_I16, 4, -8, 7 },
};
static const struct { qg_dtype type; uint8_t bits, exponent, variant; int64_t top; }
formats[] = {
    { QG_F8E4M3FN, 8, 4, 0, 448 }, { QG_F8E4M3FNUZ, 8, 4, QG_FLOAT_FNUZ, 240 },
    { QG_F8E5M2, 8, 5, 0, 57344 }, { QG_F8E5M2FNUZ, 8, 5, QG_FLOAT_FNUZ, 57344 },
    { QG_F4E2M1, 4, 2, 0, 6 },     { QG_F16, 16, 5, 0, 65504 },
    { QG_BF16, 16, 8, 0, INT64_MAX },
};
/* clang-format on */

enum { N = 1001 };
static float x[N], y[N], z[N];
static uint8_t codes[N * 4];

static void compare(qg_ctx *ctx, const qg_scheme *s, qg_dtype type, float scale,
                    int32_t offset)
{
    qg_tensor from, fake, code, back;
    qg_qparam p = { 1, &scale, &offset };
    qg_tensor_init(&from, QG_F32, 1, (int64_t[]){ N });
    fake = back = code = from;
    code.dtype = type;
    from.f32 = x, fake.f32 = y, back.f32 = z, code.data = codes;
    assert_ok(ctx, qg_fake_quantize(ctx, "t", s, &p, &from, &fake));
    assert_ok(ctx, qg_quantize(ctx, "t", s, &p, &from, &code));
    assert_ok(ctx, qg_dequantize(ctx, "t", s, &p, &code, &back));
    for (int i = 0; i < N; i++)
        if (y[i] != z[i])
            fail_msg("%s: x %a: %a, fake quantized %a", qg_dtype_name(type),
                     (double)x[i], (double)z[i], (double)y[i]);
}

static void codes_give_what_fake_quantize_gives(void **state)
{
    qg_rng rng = { 41 };
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < N; i++)
            x[i] =
                qg_rng_range(&rng, -1, 1) * ldexpf(1, (int)qg_rng_below(&rng, 40) - 20);
        x[0] = INFINITY;
        x[1] = -INFINITY;
        float scale = qg_rng_range(&rng, 0.001f, 1);
        for (size_t g = 0; g < sizeof grids / sizeof grids[0]; g++) {
            qg_scheme s = scheme(LINEAR, grids[g].bits, grids[g].qmin, grids[g].qmax);
            s.rounding = (uint8_t)(round % QG_NROUNDING);
            if (s.rounding == QG_ROUND_HALF_EVEN_LEVEL && s.bits > 16)
                continue; /* not legal */
            compare(*state, &s, grids[g].type, scale, round % 3);
        }
        for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++) {
            qg_scheme s =
                scheme(FLOATING, formats[f].bits, -formats[f].top, formats[f].top);
            s.exponent_bits = formats[f].exponent;
            s.variant = formats[f].variant;
            compare(*state, &s, formats[f].type, scale, 0);
        }
    }
}

static void blocks_of_packed_codes(void **state)
{
    static const float scale[] = { 1, 10 };
    static const int32_t offset[] = { 0, 5 };
    float v[] = { 3.4f, -9, 20, 0, 34, NAN };
    uint8_t packed[3];
    qg_tensor from, code;
    qg_tensor_init(&from, QG_F32, 2, (int64_t[]){ 1, 6 });
    code = from;
    code.dtype = QG_I4;
    from.f32 = v;
    code.data = packed;
    qg_scheme s = scheme(QG_BLOCK | QG_LINEAR | QG_ASYMMETRIC, 4, -8, 7);
    s.axis = 1;
    s.block = 3;
    qg_qparam p = { 2, scale, offset };
    assert_ok(*state, qg_quantize(*state, "t", &s, &p, &from, &code));
    static const int want[] = { 3, -8, 7, 5, 7, -8 };
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(qg_packed_get(packed, 4, i), want[i] & 15);
}

static void types_must_hold_the_codes(void **state)
{
    qg_ctx *ctx = *state;
    float scale = 1;
    qg_tensor from, code;
    qg_qparam p = { 1, &scale, NULL };
    qg_tensor_init(&from, QG_F32, 2, (int64_t[]){ 2, 3 });
    code = from;
    from.f32 = x;
    code.data = codes;
    qg_scheme s = scheme(LINEAR, 8, 0, 255);
    code.dtype = QG_I8;
    assert_fails(
        ctx, qg_quantize(ctx, "t", &s, &p, &from, &code), QG_ESTATE,
        "t: float32[2,3] into int8[2,3], expected float32 and a type that holds "
        "0 to 255");
    code.dtype = QG_F8E4M3FN;
    assert_fails(ctx, qg_quantize(ctx, "t", &s, &p, &from, &code), QG_ESTATE,
                 "expected");
    code.dtype = QG_U8;
    code.stride[0] = 1;
    code.stride[1] = 2;
    assert_fails(ctx, qg_dequantize(ctx, "t", &s, &p, &code, &from), QG_ESTATE,
                 "expected equal dims and strides");
    s.policy |= QG_DYNAMIC;
    assert_fails(ctx, qg_quantize(ctx, "t", &s, &p, &from, &code), QG_ESTATE,
                 "t: the policy is dynamic, expected parameters");
}

QG_TEST_MAIN(WITH_CTX(codes_give_what_fake_quantize_gives),
             WITH_CTX(blocks_of_packed_codes), WITH_CTX(types_must_hold_the_codes))

/* number/format.h: every code of every format, and every boundary between two codes.
 *
 * A rounding conversion is monotone; so it is right when each value comes back to
 * its code, and when between neighbours a < b the middle goes to the even code, what
 * is just below it to a and what is just above to b. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/number/format.h"

/* clang-format off */
/* Source: OCP 8-bit and microscaling specifications; compared with ml_dtypes 0.6.
 * positive: finite codes above 0; least: smallest value above 0. */
static const struct {
    qg_dtype type;
    float least, largest;
    int positive, nan, infinity;
} formats[] = {
    { QG_F8E4M3FN,   0x1p-9f,  448,   126, 0x7f, -1 },
    { QG_F8E4M3FNUZ, 0x1p-10f, 240,   127, 0x80, -1 },
    { QG_F8E5M2,     0x1p-16f, 57344, 123, 0x7e, 0x7c },
    { QG_F8E5M2FNUZ, 0x1p-17f, 57344, 127, 0x80, -1 },
    { QG_F4E2M1,     0.5f,     6,     7,   -1,   -1 },
};
enum { N_FORMATS = sizeof formats / sizeof formats[0] };
/* clang-format on */

static uint8_t code_of(qg_dtype type, float x)
{
    return qg_small_of_f32(type, x, true);
}

static void small_codes_come_back(void **state)
{
    (void)state;
    for (int f = 0; f < N_FORMATS; f++) {
        qg_dtype type = formats[f].type;
        int sign = type == QG_F4E2M1 ? 8 : 0x80;
        float before = 0;
        for (int code = 1; code <= formats[f].positive; code++) {
            float x = qg_small_to_f32(type, (uint8_t)code);
            assert_true(x > before && isfinite(x));
            assert_int_equal(code_of(type, x), code);
            assert_int_equal(code_of(type, -x), code | sign);
            assert_true(qg_small_to_f32(type, (uint8_t)(code | sign)) == -x);
            before = x;
        }
        assert_true(qg_small_to_f32(type, 1) == formats[f].least);
        assert_true(before == formats[f].largest);
        assert_int_equal(code_of(type, 0), 0);
    }
}

static void small_boundaries_are_in_the_middle(void **state)
{
    (void)state;
    for (int f = 0; f < N_FORMATS; f++)
        for (int code = 0; code < formats[f].positive; code++) {
            qg_dtype type = formats[f].type;
            float a = qg_small_to_f32(type, (uint8_t)code);
            float b = qg_small_to_f32(type, (uint8_t)(code + 1)), middle = (a + b) / 2;
            assert_int_equal(code_of(type, middle), code + (code & 1));
            assert_int_equal(code_of(type, nextafterf(middle, a)), code);
            assert_int_equal(code_of(type, nextafterf(middle, b)), code + 1);
        }
}

static void small_specials(void **state)
{
    (void)state;
    for (int f = 0; f < N_FORMATS; f++) {
        qg_dtype type = formats[f].type;
        float largest = formats[f].largest;
        assert_int_equal(code_of(type, INFINITY), formats[f].positive);
        assert_int_equal(code_of(type, 1e30f), formats[f].positive);
        if (formats[f].nan < 0)
            continue;
        assert_int_equal(code_of(type, NAN), formats[f].nan);
        assert_true(isnan(qg_small_to_f32(type, (uint8_t)formats[f].nan)));
        float over = qg_small_to_f32(type, qg_small_of_f32(type, 2 * largest, false));
        assert_true(formats[f].infinity < 0 ? isnan(over) : over == INFINITY);
        assert_true(qg_small_to_f32(type, qg_small_of_f32(type, largest, false)) ==
                    largest);
    }
    assert_int_equal(code_of(QG_F8E4M3FNUZ, -0.0f), 0); /* has one zero */
    assert_int_equal(code_of(QG_F8E4M3FN, -0.0f), 0x80);
    assert_true(qg_small_to_f32(QG_F8E5M2, 0xfc) == -INFINITY);
}

static void float16_every_code_and_boundary(void **state)
{
    (void)state;
    for (uint32_t code = 0; code < 0x7c00; code++) {
        float a = qg_f16_to_f32((uint16_t)code);
        float b = code < 0x7bff ? qg_f16_to_f32((uint16_t)(code + 1)) : 65536;
        float middle = (a + b) / 2;
        assert_true(a < b);
        assert_int_equal(qg_f32_to_f16(a), code);
        assert_int_equal(qg_f32_to_f16(-a), code | 0x8000);
        assert_int_equal(qg_f32_to_f16(middle), code + (code & 1));
        assert_int_equal(qg_f32_to_f16(nextafterf(middle, a)), code);
        assert_int_equal(qg_f32_to_f16(nextafterf(middle, b)), code + 1);
    }
    assert_true(qg_f16_to_f32(1) == 0x1p-24f && qg_f16_to_f32(0x7bff) == 65504);
    assert_true(qg_f16_to_f32(0xfc00) == -INFINITY && isnan(qg_f16_to_f32(0x7c01)));
    assert_int_equal(qg_f32_to_f16(INFINITY), 0x7c00);
    assert_true((qg_f32_to_f16(NAN) & 0x7fff) > 0x7c00);
}

static void bfloat16_every_code_and_boundary(void **state)
{
    (void)state;
    for (uint32_t code = 0; code < 0x7f80; code++) {
        float a = qg_bf16_to_f32((uint16_t)code), next = 0;
        uint32_t middle_bits = code << 16 | 0x8000;
        memcpy(&next, &middle_bits, sizeof next);
        assert_int_equal(qg_f32_to_bf16(a), code);
        assert_int_equal(qg_f32_to_bf16(-a), code | 0x8000);
        assert_int_equal(qg_f32_to_bf16(next), code + (code & 1));
        assert_int_equal(qg_f32_to_bf16(nextafterf(next, 0)), code);
        assert_int_equal(qg_f32_to_bf16(nextafterf(next, INFINITY)), code + 1);
    }
    assert_int_equal(qg_f32_to_bf16(INFINITY), 0x7f80);
    assert_true(isnan(qg_bf16_to_f32(qg_f32_to_bf16(NAN))));
}

static void e8m0_is_the_exponent(void **state)
{
    (void)state;
    for (int code = 0; code < 255; code++) {
        float x = qg_small_to_f32(QG_F8E8M0, (uint8_t)code);
        assert_true(x == ldexpf(1, code - 127));
        assert_int_equal(code_of(QG_F8E8M0, x), code);
        if (code < 254) /* rounds up */
            assert_int_equal(code_of(QG_F8E8M0, nextafterf(x, INFINITY)), code + 1);
    }
    assert_true(isnan(qg_small_to_f32(QG_F8E8M0, 255)));
    assert_int_equal(code_of(QG_F8E8M0, NAN), 255);
}

static void packed_fields_keep_their_neighbours(void **state)
{
    (void)state;
    for (unsigned bits = 2; bits <= 4; bits += 2) {
        uint8_t data[4] = { 0 };
        size_t n = 32 / bits;
        for (size_t i = 0; i < n; i++)
            qg_packed_set(data, bits, i, (unsigned)(i * 7 + 0xf0));
        for (size_t i = 0; i < n; i++)
            assert_int_equal(qg_packed_get(data, bits, i), i * 7 % (1u << bits));
    }
    uint8_t one[1] = { 0 };
    qg_packed_set(one, 4, 0, 0x5);
    qg_packed_set(one, 4, 1, 0xa);
    assert_int_equal(one[0], 0xa5); /* the lower index in the lower bits */
}

QG_TEST_MAIN(cmocka_unit_test(small_codes_come_back),
             cmocka_unit_test(small_boundaries_are_in_the_middle),
             cmocka_unit_test(small_specials),
             cmocka_unit_test(float16_every_code_and_boundary),
             cmocka_unit_test(bfloat16_every_code_and_boundary),
             cmocka_unit_test(e8m0_is_the_exponent),
             cmocka_unit_test(packed_fields_keep_their_neighbours))

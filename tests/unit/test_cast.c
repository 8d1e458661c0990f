/* Element conversion: exhaustive over the small formats, by truth table elsewhere. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/number/format.h"
#include "ops/util_cast.h"

/* Every code that is a number survives the trip through float32 (for FNUZ there is no
 * -0, so signs survive as well). */
static void small_formats_round_trip(void **state)
{
    static const qg_dtype type[] = { QG_F8E4M3FN,   QG_F8E4M3FNUZ, QG_F8E5M2,
                                     QG_F8E5M2FNUZ, QG_F4E2M1,     QG_F8E8M0 };
    (void)state;
    for (size_t t = 0; t < sizeof type / sizeof type[0]; t++) {
        int numbers = 0;
        for (unsigned v = 0; v < 1u << qg_dtype_bits(type[t]); v++) {
            float f = qg_small_to_f32(type[t], (uint8_t)v);
            if (isnan(f))
                continue;
            numbers++;
            assert_int_equal(qg_small_of_f32(type[t], f, isinf(f) ? false : true), v);
        }
        static const int expected[] = { 254, 255, 250, 255, 16, 255 };
        assert_int_equal(numbers, expected[t]);
    }
}

static void float16_round_trips(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 0x10000; h++) {
        float f = qg_f16_to_f32((uint16_t)h), b = qg_bf16_to_f32((uint16_t)h);
        if (!isnan(f))
            assert_int_equal(qg_f32_to_f16(f), h);
        if (!isnan(b))
            assert_int_equal(qg_f32_to_bf16(b), h);
    }
    assert_int_equal(qg_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(qg_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(qg_f32_to_f16(0x1p-25f), 0); /* half of the smallest: to even */
    assert_int_equal(qg_f32_to_f16(0x1.8p-24f), 2);
}

/* float32 sits between two float16 (or float8) neighbours: the nearer one is taken, the
 * even one in the middle. */
static void neighbours_round_to_nearest_even(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 0x7bff; h++) {
        float a = qg_f16_to_f32((uint16_t)h), b = qg_f16_to_f32((uint16_t)(h + 1));
        float middle = a + (b - a) / 2;
        assert_int_equal(qg_f32_to_f16(middle), h + (h & 1));
        assert_int_equal(qg_f32_to_f16(nextafterf(middle, 0)), h);
        assert_int_equal(qg_f32_to_f16(nextafterf(middle, INFINITY)), h + 1);
    }
    for (unsigned v = 0; v < 0x7e; v++) {
        float a = qg_small_to_f32(QG_F8E4M3FN, (uint8_t)v);
        float b = qg_small_to_f32(QG_F8E4M3FN, (uint8_t)(v + 1)), middle = (a + b) / 2;
        assert_int_equal(qg_small_of_f32(QG_F8E4M3FN, middle, true), v + (v & 1));
    }
}

static void overflow_follows_the_onnx_tables(void **state)
{
    /* type, value, saturated, not saturated */
    static const struct {
        qg_dtype type;
        float value;
        uint8_t saturated, other;
    } row[] = {
        {QG_F8E4M3FN,    INFINITY, 0x7e, 0x7f},
        { QG_F8E4M3FN,   -1e9f,    0xfe, 0xff},
        { QG_F8E4M3FNUZ, INFINITY, 0x7f, 0x80},
        { QG_F8E4M3FNUZ, -1e9f,    0xff, 0x80},
        { QG_F8E5M2,     INFINITY, 0x7b, 0x7c},
        { QG_F8E5M2,     -1e9f,    0xfb, 0xfc},
        { QG_F8E5M2FNUZ, INFINITY, 0x7f, 0x80},
        { QG_F8E5M2FNUZ, -1e9f,    0xff, 0x80},
        { QG_F8E4M3FN,   -0.0f,    0x80, 0x80},
        { QG_F8E4M3FNUZ, -0.0f,    0,    0   },
        { QG_F8E8M0,     0,        0,    0xff},
        { QG_F8E8M0,     INFINITY, 0xfe, 0xff},
        { QG_F8E8M0,     3,        129,  129 },
        { QG_F4E2M1,     -100,     0xf,  0xf },
        { QG_F8E4M3FN,   464,      0x7e, 0x7e},
        { QG_F8E4M3FN,   465,      0x7e, 0x7f},
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        assert_int_equal(qg_small_of_f32(row[i].type, row[i].value, true),
                         row[i].saturated);
        assert_int_equal(qg_small_of_f32(row[i].type, row[i].value, false),
                         row[i].other);
    }
}

static int64_t cast_one(qg_dtype to, double x)
{
    uint64_t out = 0;
    int64_t wide = 0;
    qg_cast((qg_cast_side){ QG_F64, &x, 0 }, (qg_cast_side){ to, &out, 0 }, 1, true);
    qg_cast((qg_cast_side){ to, &out, 0 }, (qg_cast_side){ QG_I64, &wide, 0 }, 1, true);
    return wide;
}

static void floats_truncate_into_integers(void **state)
{
    (void)state;
    assert_int_equal(cast_one(QG_I8, -1.9), -1);
    assert_int_equal(cast_one(QG_I8, -1000), 24); /* narrow types wrap */
    assert_int_equal(cast_one(QG_U8, -1), 255);
    assert_int_equal(cast_one(QG_I4, 9.5), -7);
    assert_int_equal(cast_one(QG_I4, -9.5), 7);
    assert_int_equal(cast_one(QG_I32, -3e9), INT32_MIN); /* wide ones saturate */
    assert_int_equal(cast_one(QG_U32, -1), 0);
    assert_int_equal(cast_one(QG_U32, 5e9), UINT32_MAX);
    assert_int_equal(cast_one(QG_U2, 2.5), 2);
    assert_int_equal(cast_one(QG_I32, NAN), 0);
    assert_int_equal(cast_one(QG_I64, 1e30), INT64_MAX);
    assert_int_equal(cast_one(QG_I64, -1e30), INT64_MIN);
    assert_int_equal(cast_one(QG_BOOL, 0.25), 1);
    assert_int_equal(cast_one(QG_BOOL, NAN), 1);
}

/* float64 to float16 rounds once: through float32 this value would become a tie. */
static void double_to_half_rounds_once(void **state)
{
    double x = 1 + 0x1p-11 + 0x1p-40;
    uint16_t h = 0;
    (void)state;
    qg_cast((qg_cast_side){ QG_F64, &x, 0 }, (qg_cast_side){ QG_F16, &h, 0 }, 1, true);
    assert_int_equal(h, 0x3c01);
}

/* Elements of packed types are found at any position and leave their neighbours
 * alone. */
static void packed_elements_are_addressed_one_by_one(void **state)
{
    int64_t from[] = { 1, -2, 3, -4, 5 }, back[5] = { 0 };
    uint8_t packed[4] = { 0xff, 0xff, 0xff, 0xff };
    (void)state;
    qg_cast((qg_cast_side){ QG_I64, from, 0 }, (qg_cast_side){ QG_I4, packed, 1 }, 5,
            true);
    qg_cast((qg_cast_side){ QG_I4, packed, 1 }, (qg_cast_side){ QG_I64, back, 0 }, 5,
            true);
    assert_memory_equal(from, back, sizeof from);
    assert_int_equal(packed[0] & 15, 15);
    assert_int_equal(packed[3], 0xff);
}

QG_TEST_MAIN(cmocka_unit_test(small_formats_round_trip),
             cmocka_unit_test(float16_round_trips),
             cmocka_unit_test(neighbours_round_to_nearest_even),
             cmocka_unit_test(overflow_follows_the_onnx_tables),
             cmocka_unit_test(floats_truncate_into_integers),
             cmocka_unit_test(double_to_half_rounds_once),
             cmocka_unit_test(packed_elements_are_addressed_one_by_one))

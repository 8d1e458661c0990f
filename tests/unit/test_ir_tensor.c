/* Tensors: strides, counts, copies, element access. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/ir/tensor_memory.h"

static void strides_follow_the_layout(void **state)
{
    (void)state;
    qg_tensor t;
    qg_tensor_init(&t, QG_F32, 4, (int64_t[]){ 2, 3, 4, 5 });
    assert_int_equal(t.stride[0], 60);
    assert_int_equal(t.stride[3], 1);
    assert_true(qg_tensor_is_plain(&t));
    qg_tensor_set_channels_last(&t);
    assert_int_equal(t.stride[1], 1);
    assert_int_equal(t.stride[3], 3);
    assert_int_equal(t.stride[2], 15);
    assert_false(qg_tensor_is_plain(&t));
    qg_tensor_init(&t, QG_F32, 3, (int64_t[]){ 2, -1, 4 });
    assert_int_equal(t.stride[0], 0);
    assert_int_equal(t.stride[1], 4);
}

static void counts_are_checked(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_tensor t;
    size_t bytes = 7;
    qg_tensor_scalar(&t, QG_F32);
    assert_int_equal(qg_tensor_count(&t), 1);
    qg_tensor_init(&t, QG_F32, 2, (int64_t[]){ INT64_MAX, 0 });
    assert_int_equal(qg_tensor_count(&t), 0);
    qg_tensor_init(&t, QG_F32, 2, (int64_t[]){ INT64_MAX, 2 });
    assert_int_equal(qg_tensor_count(&t), -1);
    assert_fails(ctx, qg_tensor_bytes(ctx, "import: 'w'", &t, &bytes), QG_EMODEL,
                 "import: 'w': float32[9223372036854775807,2] has no size");
    qg_tensor_init(&t, QG_I4, 1, (int64_t[]){ 5 });
    assert_ok(ctx, qg_tensor_bytes(ctx, "test", &t, &bytes));
    assert_int_equal(bytes, 3);
    qg_tensor_unknown(&t, QG_F32);
    assert_int_equal(qg_tensor_count(&t), -1);
    assert_fails(ctx, qg_tensor_alloc(ctx, ctx->arena, &t), QG_EMODEL, "no size");
    qg_ctx_free(ctx);
}

static void copies_keep_elements_across_layouts(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_tensor a, b, *c = NULL;
    qg_tensor_init(&a, QG_I16, 4, (int64_t[]){ 2, 3, 2, 2 });
    b = a;
    assert_ok(ctx, qg_tensor_alloc(ctx, ctx->arena, &a));
    assert_ok(ctx, qg_tensor_alloc(ctx, ctx->arena, &b));
    for (int i = 0; i < 24; i++)
        a.i16[i] = (int16_t)i;
    qg_tensor_set_channels_last(&b);
    qg_tensor_copy(&a, &b);
    assert_int_equal(b.i16[1], 4); /* second channel of the first pixel */
    assert_ok(ctx, qg_tensor_clone(ctx, ctx->arena, &b, &c));
    assert_true(qg_tensor_is_plain(c));
    assert_memory_equal(a.data, c->data, 48);
    assert_int_equal(qg_tensor_i64(&b, 4), 4);
    qg_ctx_free(ctx);
}

/* Blocks, their rests, and the numbers of channels that have loops of their own. */
static void copies_of_bytes_keep_elements(void **state)
{
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    (void)state;
    for (int64_t channels = 1; channels < 27; channels++)
        for (int64_t width = 1; width < 30; width++) {
            qg_tensor a, b, *c = NULL;
            qg_tensor_init(&a, QG_U8, 3, (int64_t[]){ 2, channels, width });
            b = a;
            assert_ok(ctx, qg_tensor_alloc(ctx, ctx->arena, &a));
            assert_ok(ctx, qg_tensor_alloc(ctx, ctx->arena, &b));
            for (int64_t i = 0; i < qg_tensor_count(&a); i++)
                a.u8[i] = (uint8_t)(i * 7 + i / 256);
            qg_tensor_set_channels_last(&b);
            qg_tensor_copy(&a, &b);
            for (int64_t i = 0; i < qg_tensor_count(&a); i++) {
                int64_t at = i % width * channels + i / width % channels;
                assert_cmp_int(b.u8[i / width / channels * width * channels + at], ==,
                               a.u8[i]);
            }
            assert_ok(ctx, qg_tensor_clone(ctx, ctx->arena, &b, &c));
            assert_memory_equal(a.data, c->data, qg_tensor_count(&a));
        }
    qg_ctx_free(ctx);
}

static void elements_convert(void **state)
{
    (void)state;
    uint8_t packed[] = { 0x8f, 0x07 };
    uint16_t half[] = { 0x3c00, 0x0001, 0xfc00, 0x7e00 };
    uint8_t fp8[] = { 0x7e, 0xff, 0x01, 0x38 };
    qg_tensor t;
    qg_tensor_init(&t, QG_I4, 1, (int64_t[]){ 3 });
    t.data = packed;
    assert_int_equal(qg_tensor_i64(&t, 0), -1);
    assert_int_equal(qg_tensor_i64(&t, 1), -8);
    assert_int_equal(qg_tensor_i64(&t, 2), 7);
    t.dtype = QG_U4;
    assert_int_equal(qg_tensor_i64(&t, 1), 8);
    qg_tensor_init(&t, QG_F16, 1, (int64_t[]){ 4 });
    t.data = half;
    assert_cmp_f64(qg_tensor_f64(&t, 0), ==, 1.0);
    assert_cmp_f64(qg_tensor_f64(&t, 1), ==, 0x1p-24);
    assert_cmp_f64(qg_tensor_f64(&t, 2), ==, -INFINITY);
    assert_true(isnan(qg_tensor_f64(&t, 3)));
    qg_tensor_init(&t, QG_F8E4M3FN, 1, (int64_t[]){ 4 });
    t.data = fp8;
    assert_cmp_f64(qg_tensor_f64(&t, 0), ==, 448);
    assert_true(isnan(qg_tensor_f64(&t, 1)));
    assert_cmp_f64(qg_tensor_f64(&t, 2), ==, 0x1p-9);
    assert_cmp_f64(qg_tensor_f64(&t, 3), ==, 1);
}

static void texts_show_what_is_known(void **state)
{
    (void)state;
    char text[QG_SHAPE_TEXT];
    qg_tensor t;
    qg_tensor_init(&t, QG_F32, 4, (int64_t[]){ 1, -1, 240, 320 });
    assert_string_equal(qg_tensor_text(&t, text), "float32[1,?,240,320]");
    qg_tensor_scalar(&t, QG_I64);
    assert_string_equal(qg_tensor_text(&t, text), "int64[]");
    qg_tensor_unknown(&t, QG_NODTYPE);
    assert_string_equal(qg_tensor_text(&t, text), "?[...]");
    int64_t big = INT64_MAX;
    qg_tensor_init(&t, QG_F8E4M3FNUZ, 8,
                   (int64_t[]){ big, big, big, big, big, big, big, big });
    assert_int_equal(strlen(qg_tensor_text(&t, text)), 14 + 8 * 20 + 1);
}

QG_TEST_MAIN(cmocka_unit_test(strides_follow_the_layout),
             cmocka_unit_test(counts_are_checked),
             cmocka_unit_test(copies_keep_elements_across_layouts),
             cmocka_unit_test(copies_of_bytes_keep_elements),
             cmocka_unit_test(elements_convert),
             cmocka_unit_test(texts_show_what_is_known))

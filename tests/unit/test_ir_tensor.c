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

/* Memory of one axis order, with room between elements when gap > 1: the strides of a
 * slice of a larger array.  Elements of the memory. */
static int64_t lay_out(qg_tensor *t, const int *order, int64_t gap)
{
    int64_t step = gap;
    for (int32_t k = t->rank - 1; k >= 0; k--) {
        t->stride[order[k]] = step;
        step *= t->dim[order[k]] + (gap > 1);
    }
    return step > 0 ? step : 1;
}

/* Place of element i of plain order, by the definition in tensor.h. */
static int64_t place(const qg_tensor *t, int64_t i)
{
    int64_t at = 0;
    for (int32_t k = t->rank - 1; k >= 0; k--) {
        at += i % t->dim[k] * t->stride[k];
        i /= t->dim[k];
    }
    return at;
}

static void assert_copied(const qg_tensor *from, qg_tensor *to, int64_t room_from,
                          int64_t room)
{
    qg_arena *a = qg_arena_new(qg_alloc_libc);
    const size_t size = qg_dtype_bits(from->dtype) / 8;
    qg_tensor x = *from, y = *to;
    x.data = qg_arena_raw(a, (size_t)room_from, size);
    y.data = qg_arena_raw(a, (size_t)room, size);
    uint8_t *want = qg_arena_raw(a, (size_t)room, size);
    for (size_t i = 0; i < (size_t)room_from * size; i++)
        x.u8[i] = (uint8_t)(i * 7 + i / 251 + 1);
    memset(y.data, 0xa5, (size_t)room * size);
    memset(want, 0xa5, (size_t)room * size);
    for (int64_t i = 0; i < qg_tensor_count(&x); i++)
        memcpy(want + (size_t)place(&y, i) * size, x.u8 + (size_t)place(&x, i) * size,
               size);
    qg_tensor_copy(&x, &y);
    assert_memory_equal(y.data, want,
                        (size_t)room * size); /* nothing between, either */
    qg_arena_free(a);
}

/* Every pair of plain, channels-last and reversed memory, dense and with gaps. */
static void copies_follow_strides(void **state)
{
    (void)state;
    static const int order[][5] = {
        {0,  1, 2, 3, 4},
        { 0, 2, 3, 4, 1},
        { 4, 3, 2, 1, 0},
        { 1, 0, 2, 3, 4}
    };
    static const int64_t dims[][5] = {
        {1,  1, 1, 1, 1},
        { 2, 3, 4, 5, 1},
        { 2, 2, 1, 9, 2},
        { 1, 3, 8, 1, 2},
        { 3, 8, 8, 1, 1},
        { 1, 9, 3, 3, 1},
        { 2, 0, 3, 1, 1},
        { 2, 1, 7, 2, 2}
    };
    static const qg_dtype type[] = { QG_U8, QG_I16, QG_F32, QG_F64 };
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
        for (size_t i = 0; i < 4 * 4 * 4 * 4; i++) {
            qg_tensor x, y;
            qg_tensor_init(&x, type[i % 4], 5, dims[d]);
            y = x;
            int64_t room_x = lay_out(&x, order[i / 4 % 4], 1 + (int64_t)(i >> 6 & 1));
            int64_t room_y = lay_out(&y, order[i / 16 % 4], 1 + (int64_t)(i >> 7 & 1));
            assert_copied(&x, &y, room_x, room_y);
        }
}

/* The same for three axes, where channels are few or blocks of 8 and beside them. */
static void copies_between_layouts_follow_strides(void **state)
{
    (void)state;
    static const int plain[] = { 0, 1, 2 }, last[] = { 0, 2, 1 };
    static const int64_t extent[] = { 1, 2, 3, 4, 7, 8, 9, 16, 17 };
    enum { N = sizeof extent / sizeof *extent };
    for (size_t i = 0; i < (size_t)N * N * 16; i++) {
        qg_tensor x, y;
        qg_tensor_init(&x, i & 1 ? QG_F32 : QG_I8, 3,
                       (int64_t[]){ 2, extent[i / 16 % N], extent[i / 16 / N] });
        y = x;
        int64_t room_x = lay_out(&x, i & 2 ? plain : last, 1 + (int64_t)(i >> 2 & 1));
        int64_t room_y = lay_out(&y, i & 2 ? last : plain, 1 + (int64_t)(i >> 3 & 1));
        assert_copied(&x, &y, room_x, room_y);
    }
}

/* A slice of channels of memory that is dense otherwise. */
static void slices_of_channels_are_copied(void **state)
{
    (void)state;
    for (int64_t channels = 1; channels < 6; channels++)
        for (int to_last = 0; to_last < 2; to_last++) {
            qg_tensor x, y;
            qg_tensor_init(&x, QG_F32, 4, (int64_t[]){ 2, channels, 3, 5 });
            y = x;
            qg_tensor *wide = to_last ? &y : &x; /* of channels + 2 */
            wide->stride[1] = 1;
            wide->stride[3] = channels + 2;
            wide->stride[2] = 5 * (channels + 2);
            wide->stride[0] = 15 * (channels + 2);
            assert_copied(&x, &y, 30 * (channels + 2), 30 * (channels + 2));
            qg_tensor *tall = to_last ? &x : &y; /* plain, of two channels more */
            tall->stride[0] = 15 * (channels + 2);
            assert_copied(&x, &y, 30 * (channels + 2), 30 * (channels + 2));
        }
}

static void layouts_are_told_apart(void **state)
{
    static const struct {
        int32_t rank;
        int64_t dim[4], stride[4];
        bool plain;
    } row[] = {
        {2,  { 2, 3 }, { 3, 1 }, true },
        { 2, { 2, 3 }, { 4, 1 }, false},
        { 2, { 1, 3 }, { 9, 1 }, true }, /* one row lies anywhere */
        { 2, { 2, 1 }, { 1, 9 }, true },
        { 2, { 2, 3 }, { 1, 2 }, false},
        { 2, { 0, 3 }, { 7, 9 }, true }, /* no element */
        { 2, { 3, 0 }, { 7, 9 }, true },
        { 0, { 0 },    { 0 },    true }
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        qg_tensor t;
        qg_tensor_init(&t, QG_F32, row[i].rank, row[i].dim);
        memcpy(t.stride, row[i].stride, sizeof row[i].stride);
        if (qg_tensor_is_plain(&t) != row[i].plain)
            fail_msg("row %zu: expected %d", i, row[i].plain);
    }
}

/* Channels last begins with three axes; overflowing and unknown extents leave 0. */
static void strides_of_other_layouts(void **state)
{
    qg_tensor t;
    (void)state;
    qg_tensor_init(&t, QG_F32, 3, (int64_t[]){ 2, 3, 5 });
    qg_tensor_set_channels_last(&t);
    assert_memory_equal(t.stride, ((int64_t[]){ 15, 1, 3 }), 3 * sizeof(int64_t));
    qg_tensor_init(&t, QG_F32, 5, (int64_t[]){ 2, 3, 5, 7, 11 });
    qg_tensor_set_channels_last(&t);
    assert_memory_equal(t.stride, ((int64_t[]){ 1155, 1, 231, 33, 3 }),
                        5 * sizeof(int64_t));
    qg_tensor_init(&t, QG_F32, 2, (int64_t[]){ 3, 5 });
    qg_tensor_set_channels_last(&t);
    assert_memory_equal(t.stride, ((int64_t[]){ 5, 1 }), 2 * sizeof(int64_t));
    qg_tensor_init(&t, QG_F32, 3, (int64_t[]){ 2, INT64_MAX, 2 });
    assert_memory_equal(t.stride, ((int64_t[]){ 0, 2, 1 }), 3 * sizeof(int64_t));
    qg_tensor_init(&t, QG_F32, 3, (int64_t[]){ 2, 0, 2 });
    assert_memory_equal(t.stride, ((int64_t[]){ 0, 2, 1 }), 3 * sizeof(int64_t));
}

static void what_is_known(void **state)
{
    qg_tensor t, u;
    (void)state;
    qg_tensor_scalar(&t, QG_F32);
    assert_true(qg_tensor_known(&t));
    qg_tensor_unknown(&u, QG_F32);
    assert_false(qg_tensor_known(&u));
    assert_false(qg_same_dims(&t, &u));
    assert_true(qg_same_dims(&u, &u) && qg_same_dims(&t, &t));
    qg_tensor_init(&t, QG_F32, 3, (int64_t[]){ 2, 0, 4 });
    u = t;
    assert_true(qg_tensor_known(&t) && qg_same_dims(&t, &u));
    u.dtype = QG_I8;
    assert_true(qg_same_dims(&t, &u));
    u.dim[2] = 5;
    assert_false(qg_same_dims(&t, &u));
    u.rank = 2;
    assert_false(qg_same_dims(&t, &u));
    assert_int_equal(qg_dims_product(&t, 0, 1), 2);
    assert_int_equal(qg_dims_product(&t, 2, 3), 4);
    assert_int_equal(qg_dims_product(&t, 1, 1), 1);
    assert_int_equal(qg_dims_product(&t, 1, 3), 0);
    for (int k = 0; k < 3; k++) {
        u = t;
        u.dim[k] = -1;
        assert_false(qg_tensor_known(&u));
        assert_int_equal(qg_tensor_count(&u), -1);
    }
    u.dim[1] = 3; /* 2 x 3 x -1 */
    assert_int_equal(qg_dims_product(&u, 0, 3), -1);
    assert_int_equal(qg_dims_product(&u, 0, 2), 6);
}

/* -1 of every signed type, the largest of every unsigned one. */
static void every_type_is_read(void **state)
{
    static const struct {
        qg_dtype type;
        int64_t integer;
        double real;
    } row[] = {
        {QG_I64,   -1,         -1        },
        { QG_I32,  -1,         -1        },
        { QG_I16,  -1,         -1        },
        { QG_I8,   -1,         -1        },
        { QG_U64,  -1,         0x1p64    },
        { QG_U32,  4294967295, 4294967295},
        { QG_U16,  65535,      65535     },
        { QG_U8,   255,        255       },
        { QG_BOOL, 1,          1         },
        { QG_I4,   -1,         -1        },
        { QG_U4,   15,         15        }
    };
    uint8_t ones[32];
    (void)state;
    memset(ones, 0xff, sizeof ones);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        qg_tensor t;
        qg_tensor_init(&t, row[i].type, 1, (int64_t[]){ 2 });
        t.data = ones;
        assert_int_equal(qg_tensor_i64(&t, 1), row[i].integer);
        assert_cmp_f64(qg_tensor_f64(&t, 1), ==, row[i].real);
    }
    qg_tensor t;
    uint8_t packed[] = { 0x7f, 0x80 };
    qg_tensor_init(&t, QG_I4, 2, (int64_t[]){ 2, 2 });
    t.data = packed;
    assert_int_equal(qg_tensor_i64(&t, 1), 7); /* the sign bit alone decides */
    assert_int_equal(qg_tensor_i64(&t, 2), 0);
    assert_int_equal(qg_tensor_i64(&t, 3), -8);
    double d[] = { 0.5, -2.25 };
    qg_tensor_init(&t, QG_F64, 1, (int64_t[]){ 2 });
    t.f64 = d;
    assert_cmp_f64(qg_tensor_f64(&t, 1), ==, -2.25);
    uint16_t bf[] = { 0x3f80, 0xc000 };
    t.dtype = QG_BF16;
    t.u16 = bf;
    assert_cmp_f64(qg_tensor_f64(&t, 1), ==, -2);
    uint8_t truth[] = { 0, 2 };
    t.dtype = QG_BOOL;
    t.u8 = truth;
    assert_int_equal(qg_tensor_i64(&t, 0), 0);
    assert_int_equal(qg_tensor_i64(&t, 1), 1);
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
             cmocka_unit_test(copies_follow_strides),
             cmocka_unit_test(copies_between_layouts_follow_strides),
             cmocka_unit_test(slices_of_channels_are_copied),
             cmocka_unit_test(layouts_are_told_apart),
             cmocka_unit_test(strides_of_other_layouts),
             cmocka_unit_test(what_is_known), cmocka_unit_test(every_type_is_read),
             cmocka_unit_test(elements_convert),
             cmocka_unit_test(texts_show_what_is_known))

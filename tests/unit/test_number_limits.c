/* Integer arithmetic exactly at its limits: scale ratios, headroom, products, numbers
 * of elements, the input scale of a softmax. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/number/integer_binary.h"
#include "engine/number/integer_exp.h"
#include "engine/number/integer_resize.h"
#include "engine/number/integer_unary.h"

enum kind { NONE, NEON, PORTABLE, OTHER }; /* refused; by p.left of QG_FORM_NEON */

typedef struct operands {
    qg_int_binary_op op;
    qg_form form;
    uint8_t left;
    qg_requant_scheme scheme;
    qg_dtype type;
    float a, b, y;
    int32_t za, zb;
    enum kind want;
    const char *message; /* of a refusal */
} operands;

#define FIX          QG_SCHEME_FIX_DOUBLE
#define ADD(form)    QG_INT_BINARY_ADD, QG_FORM_##form
#define MUL(form)    QG_INT_BINARY_MUL, QG_FORM_##form
#define SQUARE(form) QG_INT_BINARY_SQUARED_DIFFERENCE, QG_FORM_##form
/* clang-format off */
static const operands rows[] = {
    /* [2^-10, 2^8) */
    { ADD(MANTISSA), 0, FIX, QG_I8, 0x1p-10f, 1, 1, 0, 0, OTHER, 0 },
    { ADD(MANTISSA), 0, FIX, QG_I8, 1, 0x1p-10f, 1, 0, 0, OTHER, 0 },
    { ADD(MANTISSA), 0, FIX, QG_I8, 255, 255, 1, 0, 0, OTHER, 0 },
    { ADD(MANTISSA), 0, FIX, QG_I8, 0x1.fp-11f, 1, 1, 0, 0, NONE,
      "scale ratios 0.000946045 and 1, expected within [2^-10, 2^8)" },
    { ADD(MANTISSA), 0, FIX, QG_I8, 1, 0x1.fp-11f, 1, 0, 0, NONE,
      "expected within" },
    { ADD(MANTISSA), 0, FIX, QG_I8, 256, 1, 1, 0, 0, NONE,
      "expected within" },
    { ADD(MANTISSA), 0, FIX, QG_I8, 1, 256, 1, 0, 0, NONE,
      "expected within" },
    { ADD(MANTISSA), 0, FIX, QG_I16, 1, 1, 1, 0, 0, NONE,
      "int16 in form 'mantissa', expected 8 bits" },
    /* [2^-14, 2^8), and the larger one from 2^-10 on */
    { ADD(NEON), 0, FIX, QG_I8, 1, 1, 1, 0, 0, NEON, 0 },
    { ADD(NEON), 0, FIX, QG_I8, 0x1p-14f, 1, 1, 0, 0, NEON, 0 },
    { ADD(NEON), 0, FIX, QG_I8, 1, 0x1p-14f, 1, 0, 0, NEON, 0 },
    { ADD(NEON), 0, FIX, QG_I8, 0x1p-15f, 1, 1, 0, 0, PORTABLE, 0 },
    { ADD(NEON), 0, FIX, QG_I8, 1, 0x1p-15f, 1, 0, 0, PORTABLE, 0 },
    { ADD(NEON), 0, FIX, QG_I8, 255, 1, 1, 0, 0, NEON, 0 },
    { ADD(NEON), 0, FIX, QG_I8, 256, 1, 1, 0, 0, PORTABLE, 0 },
    { ADD(NEON), 0, FIX, QG_I8, 1, 256, 1, 0, 0, PORTABLE, 0 },
    { ADD(NEON), 0, FIX, QG_I8, 0x1p-10f, 0x1p-11f, 1, 0, 0, NEON, 0 },
    { ADD(NEON), 0, FIX, QG_I8, 0x1p-11f, 0x1p-11f, 1, 0, 0,
      PORTABLE, 0 },
    /* 2 max(s_a, s_b) / (2^left s_y) below 1 */
    { ADD(FIXED), 7, FIX, QG_I8, 1, 0.5f, 0x1p-5f, 0, 0, OTHER, 0 },
    { ADD(FIXED), 7, FIX, QG_I8, 1, 0.5f, 0x1p-6f, 0, 0, NONE,
      "output multiplier 1, expected below 1" },
    { ADD(FIXED), 7, FIX, QG_I8, 0.5f, 1, 0x1p-6f, 0, 0, NONE,
      "output multiplier 1, expected below 1" },
    { ADD(FIXED), 0, FIX, QG_I8, 1, 1, 1, 0, 0, NONE,
      "0 bits of headroom for int8, expected left in the row" },
    { ADD(FIXED), 20, QG_SCHEME_FIX_SINGLE, QG_I8, 1, 1, 1, 0, 0,
      OTHER, 0 },
    { ADD(FIXED), 20, QG_SCHEME_FLOAT_RNE, QG_I8, 1, 1, 1, 0, 0,
      NONE, "expected fix-double or fix-single" },
    { SQUARE(FIXED), 7, FIX, QG_I8, 1, 1, 1, 0, 0,
      OTHER, 0 },
    { SQUARE(FIXED), 8, FIX, QG_I8, 1, 1, 1, 0, 0,
      NONE, "8 bits of headroom for int8, expected 8-bit codes and at most 7" },
    { SQUARE(FIXED), 7, FIX, QG_I16, 1, 1, 1, 0, 0,
      NONE, "expected 8-bit codes" },
    /* (4 / 2^14) / s_y */
    { SQUARE(FIXED), 7, FIX, QG_I8, 1, 1, 0x1p-12f, 0, 0,
      NONE, "output multiplier 1, expected below 1" },
    { SQUARE(FIXED), 7, FIX, QG_I8, 1, 1, 0x1p-11f, 0, 0,
      OTHER, 0 },
    /* products within 32 bits: 2^15 2^15, 32769 65535 */
    { MUL(PLAIN), 0, FIX, QG_I16, 1, 1, 1, 0, 0, OTHER, 0 },
    { MUL(PLAIN), 0, FIX, QG_I16, 1, 1, 1, 1, 32767, NONE,
      "products exceed 32 bits, expected zero points near 0" },
    { MUL(PLAIN), 0, FIX, QG_I16, 1, 1, 1, -32768, -1, OTHER, 0 },
    { MUL(PLAIN), 0, FIX, QG_I16, 1, 1, 1, -32768, -2, NONE,
      "products exceed 32 bits" },
    { MUL(FIXED), 7, FIX, QG_I8, 1, 1, 1, 0, 0, NONE,
      "form 'fixed', expected one of this operator" },
    { ADD(NEON), 0, FIX, QG_I8, 1e-38f, 1, 2, 0, 0, NONE,
      "expected normal float32" },
    { ADD(NEON), 0, FIX, QG_I8, 1, 1e-38f, 2, 0, 0, NONE,
      "expected normal float32" },
};
/* clang-format on */

static void operands_are_taken_to_their_limits(void **state)
{
    qg_ctx *ctx = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const operands *r = &rows[i];
        const qg_profile_row by = {
            .id = "r",
            .form = r->form,
            .left8 = r->left,
            .left16 = r->left,
            .requant = {.scheme = r->scheme, .accumulator = 32}
        };
        const qg_int_binary_spec spec = {
            .op = r->op,
            .row = &by,
            .a = {r->type,  r->a, r->za},
            .b = { r->type, r->b, r->zb},
            .y = { r->type, r->y, 0    },
            .range = qg_code_range_of(r->type, 0)
        };
        qg_int_binary p;
        if (r->want == NONE) {
            if (qg_int_binary_prepare(ctx, &spec, &p) == QG_OK ||
                !strstr(qg_ctx_message(ctx), r->message))
                fail_msg("row %zu: %s", i, qg_ctx_message(ctx));
            continue;
        }
        assert_ok(ctx, qg_int_binary_prepare(ctx, &spec, &p));
        if (r->form == QG_FORM_NEON && p.left != (r->want == NEON))
            fail_msg("row %zu: left %d", i, p.left);
    }
}

/* Every element of an array is that of the operands at its place, for each form. */
static void every_element_is_computed(void **state)
{
    enum { N = 300 }; /* more than one chunk of 256 */
    qg_ctx *ctx = *state;
    for (qg_form form = 0; form < QG_NFORM; form++) {
        const qg_profile_row by = {
            .form = form, .left8 = 7, .requant = {.scheme = FIX, .accumulator = 32}
        };
        qg_int_binary_spec spec = {
            .row = &by,
            .a = {QG_I8,  0.5f,  3 },
            .b = { QG_I8, 0.25f, -2},
            .y = { QG_I8, 1,     1 },
            .range = qg_code_range_of(QG_I8, 1)
        };
        for (spec.op = 0; spec.op < QG_INT_NBINARY; spec.op++) {
            int8_t a[N], b[N], y[N];
            qg_int_binary p;
            const qg_int_argument x = { { 1, { N } }, a }, w = { { 1, { N } }, b };
            if (qg_int_binary_prepare(ctx, &spec, &p) != QG_OK)
                continue; /* the form is that of another operator */
            for (int i = 0; i < N; i++) {
                a[i] = (int8_t)(i * 7);
                b[i] = (int8_t)(i * 5 + 1);
                y[i] = 77;
            }
            assert_ok(ctx, qg_int_binary_run(ctx, &p, &x, &w, y));
            for (int i = 0; i < N; i++) {
                int32_t p1 = a[i], p2 = b[i], one;
                p.span(&p, &(qg_int_operands){ &p1, &p2, 1, 1, 1 }, &one);
                if (y[i] != one)
                    fail_msg("form %d, element %d: %d, alone %d", (int)form, i, y[i],
                             (int)one);
            }
        }
    }
}

/* clang-format off */
static const struct {
    qg_int_dims a, b;
    const char *message;
} dims_row[] = {
    { { 1, { 3 } }, { 1, { 1 } }, NULL },
    { { 2, { 2, 3 } }, { 1, { 3 } }, NULL },
    { { 1, { 3 } }, { 1, { 2 } }, "dims 3 and 2 at axis 0 do not broadcast" },
    { { 1, { -1 } }, { 1, { 1 } }, "dims -1 and 1 at axis 0" },
    { { 1, { 1 } }, { 1, { -1 } }, "dims 1 and -1 at axis 0" },
    { { -1, { 0 } }, { 1, { 1 } }, "rank 1, expected 0 to 8" },
    { { 1, { 1 } }, { -1, { 0 } }, "rank 1, expected 0 to 8" },
    { { 9, { 0 } }, { 1, { 1 } }, "rank 9, expected 0 to 8" },
    { { 1, { INT32_MAX } }, { 1, { 1 } }, NULL },
    { { 1, { INT64_C(1) << 31 } }, { 1, { 1 } }, "more than 2^31 - 1 elements" },
    { { 2, { 1 << 16, 1 } }, { 2, { 1, 1 << 15 } }, "more than 2^31 - 1 elements" },
    { { 2, { 1 << 15, 1 } }, { 2, { 1, 1 << 15 } }, NULL },
    { { 2, { 0, 1 } }, { 2, { 1, 5 } }, NULL },
};
/* clang-format on */

/* a meets b: the dims, or a message. */
static void dims_broadcast_or_are_refused(void **state)
{
    qg_ctx *ctx = *state;
    for (size_t i = 0; i < sizeof dims_row / sizeof *dims_row; i++) {
        qg_int_broadcast b;
        qg_status s =
            qg_int_broadcast_make(ctx, "test", &dims_row[i].a, &dims_row[i].b, &b);
        if (!dims_row[i].message)
            assert_ok(ctx, s);
        else if (s != QG_EMODEL || !strstr(qg_ctx_message(ctx), dims_row[i].message))
            fail_msg("row %zu: %s", i, qg_ctx_message(ctx));
    }
}

/* beta scale 2^26 is at most 2^31 - 1, or 2^30 - 1 with one rounding, and above 1. */
static void softmax_scales_have_limits(void **state)
{
    static const struct {
        qg_requant_scheme scheme;
        float scale, beta;
        int shift;
        int32_t diff_min; /* -floor(31 2^26 / 2^shift) */
    } row[] = {
        {FIX,                   1,        1, 27, -15       },
        { FIX,                  16,       1, 31, 0         },
        { FIX,                  64,       1, 31, 0         },
        { FIX,                  8,        8, 31, 0         },
        { QG_SCHEME_FIX_SINGLE, 64,       1, 30, -1        },
        { FIX,                  0x1p-25f, 1, 2,  -520093696},
    };
    qg_ctx *ctx = *state;
    qg_int_softmax s;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        assert_ok(ctx, qg_int_softmax_prepare(ctx, row[i].scheme, row[i].scale,
                                              row[i].beta, 8, &s));
        assert_int_equal(s.m.shift, row[i].shift);
        assert_int_equal(s.diff_min, row[i].diff_min);
        assert_int_equal(s.single, row[i].scheme != FIX);
        assert_int_equal(s.bits, 8);
    }
    assert_fails(ctx, qg_int_softmax_prepare(ctx, FIX, 0x1p-26f, 1, 8, &s), QG_ENUMERIC,
                 "expected a finite product above 2^-26");
    assert_fails(ctx, qg_int_softmax_prepare(ctx, FIX, INFINITY, 1, 8, &s), QG_ENUMERIC,
                 "expected a finite product");
    assert_fails(ctx, qg_int_softmax_prepare(ctx, QG_SCHEME_FLOAT_RNE, 1, 1, 8, &s),
                 QG_EUNSUPPORTED, "expected fix-double or fix-single");
}

/* --- resizes in float --- */

static void taps_lie_where_they_should(void **state)
{
    static const struct {
        qg_int_centre centre;
        int64_t in, out;
        qg_int_tap tap[5];
    } row[] = {
        {QG_INT_ALIGN_CORNERS,
         3,                        5,
         { { 0, 0, 0, 0 },
            { 0, 1, 0, 0.5f },
            { 1, 1, 0, 0 },
            { 1, 2, 0, 0.5f },
            { 2, 2, 0, 0 } }                                                     },
        { QG_INT_ALIGN_CORNERS, 3, 1, { { 0, 0, 0, 0 } }                         },
        { QG_INT_HALF_PIXEL,
         2,                        4,
         { { 0, 0, 0, -0.25f },
            { 0, 1, 0, 0.25f },
            { 0, 1, 0, 0.75f },
            { 1, 1, 0, 0.25f } }                                                 },
        { QG_INT_ASYMMETRIC,    3, 2, { { 0, 0, 0, 0 }, { 1, 2, 0, 0.5f } }      },
        { QG_INT_ASYMMETRIC,
         2,                        4,
         { { 0, 0, 0, 0 }, { 0, 1, 0, 0.5f }, { 1, 1, 0, 0 }, { 1, 1, 0, 0.5f } }},
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        qg_int_tap tap[5];
        qg_int_resize_taps(0, row[i].centre, row[i].in, row[i].out, tap);
        for (int64_t k = 0; k < row[i].out; k++) {
            const qg_int_tap *want = &row[i].tap[k];
            if (tap[k].low != want->low || tap[k].high != want->high ||
                tap[k].part != want->part)
                fail_msg("row %zu, %d: %d, %d, %g", i, (int)k, (int)tap[k].low,
                         (int)tap[k].high, (double)tap[k].part);
        }
    }
}

/* 0.25 of the second row, 0.75 of the second column; halves are cut upwards. */
static void corners_are_blended(void **state)
{
    static const int32_t x[] = { 16, 32, 48, 86 };
    const qg_int_tap row = { 0, 1, 0, 0.25f }, column = { 0, 1, 0, 0.75f };
    (void)state;
    for (int first = 0; first < 2; first++) {
        int32_t y = 0;
        const qg_int_resize r = { .weights_first = first,
                                  .rows = &row,
                                  .columns = &column,
                                  .out_height = 1,
                                  .out_width = 1,
                                  .width = 2 };
        qg_int_resize_plane(&r, x, &y);
        /* .75 (4 + 24) + .25 (12 + 64.5) = 40.125 */
        assert_int_equal(y, 40);
        static const int32_t half[] = { 0, 0, 0, 8 };
        qg_int_resize_plane(&r, half, &y); /* 1.5 */
        assert_int_equal(y, 2);
    }
}

/* --- functions --- */

static void functions_take_scales_to_their_limits(void **state)
{
    static const struct {
        float scale;
        bool ok;
    } row[] = {
        {0x1p-27f,     true },
        { 0x1.ffp-28f, false},
        { 7.99f,       true },
        { 8,           false}
    };
    qg_ctx *ctx = *state;
    const qg_profile_row by = { .form = QG_FORM_FIXED, .requant = { .scheme = FIX } };
    int32_t table[256];
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const qg_int_unary_spec s = {
            .function = QG_INT_UNARY_LOGISTIC,
            .row = &by,
            .x = {QG_I8,  row[i].scale, 0   },
            .y = { QG_I8, 1 / 256.0f,   -128}
        };
        if (row[i].ok)
            assert_ok(ctx, qg_int_unary_table(ctx, &s, table));
        else
            assert_fails(ctx, qg_int_unary_table(ctx, &s, table), QG_ENUMERIC,
                         "expected within [2^-27, 8)");
    }
    for (int wide = 0; wide < 2; wide++) {
        const qg_int_unary_spec s = {
            .function = QG_INT_UNARY_TANH,
            .row = &by,
            .x = {wide ? QG_I16 : QG_I8,  1, 0},
            .y = { wide ? QG_I8 : QG_I16, 1, 0}
        };
        assert_fails(ctx, qg_int_unary_table(ctx, &s, table), QG_EUNSUPPORTED,
                     "expected 8 bits");
    }
}

static void bytes_are_counted_to_the_limit(void **state)
{
    size_t bytes = 7;
    (void)state;
    assert_false(qg_dtype_bytes(QG_NODTYPE, 1, &bytes));
    assert_false(qg_dtype_bytes(QG_I8, SIZE_MAX / 16 + 1, &bytes));
    assert_int_equal(bytes, 7);
    assert_true(qg_dtype_bytes(QG_I8, SIZE_MAX / 16, &bytes));
    assert_int_equal(bytes, SIZE_MAX / 16);
    assert_true(qg_dtype_bytes(QG_I4, 7, &bytes));
    assert_int_equal(bytes, 4);
    for (int d = 1; d < QG_NDTYPE; d++) {
        const qg_dtype t = (qg_dtype)d;
        assert_int_equal(qg_dtype_named(qg_dtype_name(t)), t);
        assert_int_equal(qg_dtype_of_onnx(qg_dtype_onnx(t)), t);
    }
    assert_int_equal(qg_dtype_named("float33"), QG_NODTYPE);
    assert_int_equal(qg_dtype_of_onnx(99), QG_NODTYPE);
}

QG_TEST_MAIN(WITH_CTX(operands_are_taken_to_their_limits),
             WITH_CTX(every_element_is_computed),
             WITH_CTX(dims_broadcast_or_are_refused),
             WITH_CTX(softmax_scales_have_limits),
             cmocka_unit_test(taps_lie_where_they_should),
             cmocka_unit_test(corners_are_blended),
             WITH_CTX(functions_take_scales_to_their_limits),
             cmocka_unit_test(bytes_are_counted_to_the_limit))

/* number/integer_binary.h and integer_array.h: element-wise operators on arrays. */
#include "tests/support/profiles.h"

#include <math.h>

#include "engine/core/rng.h"
#include "engine/number/integer_binary.h"

enum { SEED = 5 };

static const char *const who[] = {
    "tflite-reference", "tflite-micro-single",  "tflite-builtin-x86",
    "tflite-xnnpack",   "tflite-xnnpack-arm",   "xnnpack-x86",
    "xnnpack-arm",      "onnxruntime-x86-vnni", "onnxruntime-x86-avx2",
    "onnxruntime-arm",
};
enum { WHO = sizeof who / sizeof who[0] };

static const qg_kernel_use use_of[] = { QG_USE_ADD, QG_USE_SUB, QG_USE_MULTIPLY };

/* The rows of all profiles; NULL where a profile lacks the operator. */
typedef struct rows {
    const qg_profile_row *at[WHO][3];
} rows;

static rows rows_of(qg_ctx *ctx)
{
    rows r;
    for (size_t k = 0; k < WHO; k++)
        for (int op = 0; op < 3; op++)
            r.at[k][op] = test_find(ctx, who[k], use_of[op]);
    return r;
}

static qg_int_binary prepared(qg_ctx *ctx, qg_int_binary_op op,
                              const qg_profile_row *row, const qg_grid g[3])
{
    qg_int_binary_spec s = { op,   row,  g[0],
                             g[1], g[2], qg_code_range_of(g[2].dtype, g[2].zero) };
    qg_int_binary p;
    assert_ok(ctx, qg_int_binary_prepare(ctx, &s, &p));
    return p;
}

static int32_t one(const qg_int_binary *p, int32_t a, int32_t b)
{
    int32_t y;
    p->span(p, &(qg_int_operands){ &a, &b, 1, 1, 1 }, &y);
    return y;
}

static void doc_example(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    const qg_grid g[3] = {
        {QG_I8,  1, 0},
        { QG_I8, 1, 0},
        { QG_I8, 2, 0}
    };
    rows r = rows_of(ctx);
    qg_int_binary tflite = prepared(ctx, QG_INT_BINARY_ADD, r.at[0][0], g);
    qg_int_binary xnnpack = prepared(ctx, QG_INT_BINARY_ADD, r.at[5][0], g);
    qg_int_binary ort = prepared(ctx, QG_INT_BINARY_ADD, r.at[7][0], g);
    assert_int_equal(one(&tflite, -2, 1), -1);
    assert_int_equal(one(&ort, -2, 1), 0);
    assert_int_equal(one(&xnnpack, -2, 1), 0);
    qg_ctx_free(ctx);
}

/* All runtimes round the same real number once, TFLite twice: half a step, and a
 * quarter more where the first rounding is of halves. */
static void close_to_real_arithmetic(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_rng rng = { SEED };
    rows r = rows_of(ctx);
    for (int round = 0; round < 2000; round++) {
        size_t k = qg_rng_below(&rng, WHO);
        qg_int_binary_op op = (qg_int_binary_op)qg_rng_below(&rng, 3);
        if (!r.at[k][op])
            continue;
        qg_grid g[3];
        for (int i = 0; i < 3; i++)
            g[i] = (qg_grid){ QG_I8, qg_rng_range(&rng, 0.01f, 0.1f),
                              (int32_t)qg_rng_below(&rng, 256) - 128 };
        qg_int_binary p = prepared(ctx, op, r.at[k][op], g);
        for (int i = 0; i < 20; i++) {
            int32_t a = (int32_t)qg_rng_below(&rng, 256) - 128;
            int32_t b = (int32_t)qg_rng_below(&rng, 256) - 128;
            double ra = (double)g[0].scale * (a - g[0].zero);
            double rb = (double)g[1].scale * (b - g[1].zero);
            double real = op == QG_INT_BINARY_ADD   ? ra + rb
                          : op == QG_INT_BINARY_SUB ? ra - rb
                                                    : ra * rb;
            double steps = fmin(fmax(real / (double)g[2].scale + g[2].zero, -128), 127);
            double most = strncmp(who[k], "tflite", 6) == 0 ? 0.76 : 0.51;
            if (fabs(one(&p, a, b) - steps) > most)
                fail_msg("round %d: %s %s: %d and %d give %d, real %g", round, who[k],
                         qg_int_binary_op_name(op), (int)a, (int)b, (int)one(&p, a, b),
                         steps);
        }
    }
    qg_ctx_free(ctx);
}

/* Broadcasting: whole arrays against single elements, in every runtime; ORT's span form
 * depends on who stands still, so its single elements use the same steps. */
static void broadcasts_like_numpy(void **state)
{
    (void)state;
    static const struct {
        qg_int_dims a, b, y;
    } shape[] = {
        {{ 2, { 3, 4 } },          { 1, { 4 } },          { 2, { 3, 4 } }        },
        { { 4, { 1, 2, 3, 300 } }, { 4, { 1, 2, 1, 1 } }, { 4, { 1, 2, 3, 300 } }},
        { { 0, { 0 } },            { 1, { 5 } },          { 1, { 5 } }           },
        { { 2, { 3, 1 } },         { 2, { 1, 4 } },       { 2, { 3, 4 } }        },
        { { 1, { 1 } },            { 1, { 1 } },          { 1, { 1 } }           },
        { { 2, { 0, 4 } },         { 1, { 4 } },          { 2, { 0, 4 } }        },
    };
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    int8_t a[1800], b[1800], y[1800];
    for (int i = 0; i < 1800; i++) {
        a[i] = (int8_t)(i * 37);
        b[i] = (int8_t)(i * 53 + 9);
    }
    const qg_grid g[3] = {
        {QG_I8,  0.0235f, -3},
        { QG_I8, 0.0471f, 12},
        { QG_I8, 0.0471f, 12}
    };
    rows r = rows_of(ctx);
    for (size_t k = 0; k < WHO; k++)
        for (size_t s = 0; s < sizeof shape / sizeof shape[0]; s++) {
            qg_int_binary p = prepared(ctx, QG_INT_BINARY_ADD, r.at[k][0], g);
            qg_int_argument in[2] = {
                {shape[s].a,  a},
                { shape[s].b, b}
            };
            assert_ok(ctx, qg_int_binary_run(ctx, &p, &in[0], &in[1], y));
            qg_int_broadcast br;
            assert_ok(ctx,
                      qg_int_broadcast_make(ctx, "t", &shape[s].a, &shape[s].b, &br));
            assert_memory_equal(&br.y, &shape[s].y, sizeof br.y);
            for (size_t i = 0; i < br.spans; i++) {
                qg_int_span sp = qg_int_broadcast_span(&br, i);
                for (size_t j = 0; j < sp.n; j++) {
                    int32_t va = a[sp.a + j * sp.a_step], vb = b[sp.b + j * sp.b_step],
                            vy;
                    p.span(&p, &(qg_int_operands){ &va, &vb, sp.a_step, sp.b_step, 1 },
                           &vy);
                    assert_int_equal(y[sp.y + j], vy);
                }
            }
        }
    qg_ctx_free(ctx);
}

/* The outer walk visits [3,1] + [1,4] and channels in C order. */
static void spans_point_at_the_right_elements(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_int_dims a = { 3, { 2, 1, 3 } }, b = { 2, { 4, 1 } };
    qg_int_broadcast br;
    assert_ok(ctx, qg_int_broadcast_make(ctx, "t", &a, &b, &br));
    assert_int_equal(br.spans, 8);
    assert_int_equal(br.n, 3);
    for (size_t i = 0; i < 8; i++) {
        qg_int_span s = qg_int_broadcast_span(&br, i);
        assert_int_equal(s.a, i / 4 * 3);
        assert_int_equal(s.b, i % 4);
        assert_int_equal(s.y, i * 3);
        assert_int_equal(s.a_step, 1);
        assert_int_equal(s.b_step, 0);
    }
    qg_ctx_free(ctx);
}

static void a_standing_operand_changes_ort_x86(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_rng rng = { SEED };
    int differ = 0;
    rows r = rows_of(ctx);
    for (int i = 0; i < 20000; i++) {
        qg_grid g[3];
        for (int k = 0; k < 3; k++)
            g[k] = (qg_grid){ QG_U8, 0.001f * (float)(1 + qg_rng_below(&rng, 100)),
                              (int32_t)qg_rng_below(&rng, 256) };
        qg_int_binary p = prepared(ctx, QG_INT_BINARY_ADD, r.at[7][0], g);
        int32_t a = (int32_t)qg_rng_below(&rng, 256),
                b = (int32_t)qg_rng_below(&rng, 256);
        int32_t moving = one(&p, a, b), standing;
        p.span(&p, &(qg_int_operands){ &a, &b, 0, 1, 1 }, &standing);
        assert_in_range(standing - moving + 1, 0, 2);
        differ += moving != standing;
    }
    assert_in_range(differ, 1, 2000); /* seldom, but it happens */
    qg_ctx_free(ctx);
}

/* (a - b)^2 and a two-sided slope, against real arithmetic. */
static void squares_and_slopes(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    const qg_grid g[3] = {
        {QG_I8,  0.05f, 3 },
        { QG_I8, 0.02f, -9},
        { QG_I8, 0.1f,  1 }
    };
    qg_int_binary square =
        prepared(ctx, QG_INT_BINARY_SQUARED_DIFFERENCE,
                 test_row(ctx, who[0], QG_USE_SQUARED_DIFFERENCE), g);
    qg_int_binary slope =
        prepared(ctx, QG_INT_BINARY_PRELU, test_row(ctx, who[0], QG_USE_PRELU), g);
    for (int32_t a = -128; a < 128; a += 5)
        for (int32_t b = -128; b < 128; b += 3) {
            double ra = 0.05 * (a - 3), rb = 0.02 * (b + 9);
            double d = fmin((ra - rb) * (ra - rb) / 0.1 + 1, 127);
            double s = fmin(fmax((ra < 0 ? ra * rb : ra) / 0.1 + 1, -128), 127);
            assert_cmp_f64(fabs(one(&square, a, b) - d), <, 0.76);
            assert_cmp_f64(fabs(one(&slope, a, b) - s), <, 0.76);
        }
    qg_ctx_free(ctx);
}

static qg_status prepare(qg_ctx *ctx, qg_int_binary_op op, qg_profile_row row,
                         qg_grid a, qg_grid y)
{
    qg_int_binary_spec s = {
        op, &row, a, a, y, {0, -128, 127}
    };
    qg_int_binary p;
    return qg_int_binary_prepare(ctx, &s, &p);
}

static void what_a_form_lacks_is_refused(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_grid i8 = { QG_I8, 0.1f, 0 }, i16 = { QG_I16, 0.1f, 0 };
    qg_grid far = { QG_I8, 1000, 0 }, bad = { QG_I8, 0.1f, 200 },
            nan = { QG_I8, NAN, 0 };
    const qg_profile_row copy = { .form = QG_FORM_COPY },
                         plain = { .form = QG_FORM_PLAIN },
                         mantissa = { .form = QG_FORM_MANTISSA },
                         fixed = { .form = QG_FORM_FIXED,
                                   .left8 = 20,
                                   .requant.scheme = QG_SCHEME_FIX_DOUBLE },
                         up = { .form = QG_FORM_FIXED,
                                .left8 = 20,
                                .requant.scheme = QG_SCHEME_FIX_DOUBLE_UP };
    assert_fails(ctx, prepare(ctx, QG_INT_BINARY_SUB, copy, i8, i8), QG_EUNSUPPORTED,
                 "integer sub: form 'copy', expected one of this operator");
    assert_fails(ctx, prepare(ctx, QG_INT_BINARY_ADD, plain, i8, i8), QG_EUNSUPPORTED,
                 "integer add: form 'plain'");
    assert_fails(ctx, prepare(ctx, QG_INT_BINARY_MUL, mantissa, i8, i8),
                 QG_EUNSUPPORTED, "integer multiply: form 'mantissa'");
    assert_fails(ctx, prepare(ctx, QG_INT_BINARY_ADD, mantissa, i16, i16),
                 QG_EUNSUPPORTED, "int16 in form 'mantissa', expected 8 bits");
    assert_fails(ctx, prepare(ctx, QG_INT_BINARY_ADD, fixed, i16, i16), QG_EUNSUPPORTED,
                 "0 bits of headroom for int16, expected left in the row");
    assert_fails(ctx, prepare(ctx, QG_INT_BINARY_SQUARED_DIFFERENCE, fixed, i8, i8),
                 QG_EUNSUPPORTED, "20 bits of headroom for int8, expected 8-bit codes");
    assert_fails(ctx, prepare(ctx, QG_INT_BINARY_ADD, up, i8, i8), QG_EUNSUPPORTED,
                 "scheme 'fix-double-up', expected fix-double or fix-single");
    qg_grid least = { QG_I8, 0x1p108f, 0 }, most = { QG_I8, 0x1p127f, 0 };
    qg_grid half = { QG_I8, 0x1p107f, 0 };
    assert_ok(ctx, prepare(ctx, QG_INT_BINARY_ADD, fixed, half, half));
    assert_fails(ctx, prepare(ctx, QG_INT_BINARY_ADD, fixed, least, least),
                 QG_EUNSUPPORTED,
                 "3.24519e+32 -> 3.24519e+32, expected twice the larger one, and 2^20 "
                 "times that of the output, within float32");
    assert_fails(ctx, prepare(ctx, QG_INT_BINARY_ADD, fixed, most, half),
                 QG_EUNSUPPORTED,
                 "1.70141e+38 -> 1.62259e+32, expected twice the larger one");
    qg_grid tiny = { QG_I8, 1e-9f, 0 };
    assert_fails(ctx, prepare(ctx, QG_INT_BINARY_ADD, fixed, i8, tiny), QG_EUNSUPPORTED,
                 "expected below 1: the output scale is too small");
    assert_fails(ctx, prepare(ctx, QG_INT_BINARY_ADD, mantissa, far, i8),
                 QG_EUNSUPPORTED, "scale ratios 10000 and 10000");
    assert_fails(ctx, prepare(ctx, QG_INT_BINARY_ADD, fixed, i8, i16), QG_EUNSUPPORTED,
                 "types int8, int8 -> int16");
    assert_fails(ctx, prepare(ctx, QG_INT_BINARY_ADD, mantissa, bad, i8), QG_ENUMERIC,
                 "add: first input: zero point 200, expected within [-128, 127]");
    assert_fails(ctx, prepare(ctx, QG_INT_BINARY_ADD, mantissa, i8, nan), QG_ENUMERIC,
                 "output: scale nan");
    qg_int_dims a = { 1, { 3 } }, b = { 1, { 4 } }, huge = { 2, { 1 << 30, 1 << 30 } };
    qg_int_dims deep = { 9, { 1 } };
    qg_int_broadcast br;
    assert_fails(ctx, qg_int_broadcast_make(ctx, "add", &a, &b, &br), QG_EMODEL,
                 "add: dims 3 and 4 at axis 0 do not broadcast");
    assert_fails(ctx, qg_int_broadcast_make(ctx, "add", &huge, &huge, &br), QG_EMODEL,
                 "more than 2^31 - 1 elements");
    assert_fails(ctx, qg_int_broadcast_make(ctx, "add", &deep, &a, &br), QG_EMODEL,
                 "rank 9");
    qg_ctx_free(ctx);
}

QG_TEST_MAIN(cmocka_unit_test(doc_example), cmocka_unit_test(close_to_real_arithmetic),
             cmocka_unit_test(broadcasts_like_numpy),
             cmocka_unit_test(spans_point_at_the_right_elements),
             cmocka_unit_test(a_standing_operand_changes_ort_x86),
             cmocka_unit_test(squares_and_slopes),
             cmocka_unit_test(what_a_form_lacks_is_refused))

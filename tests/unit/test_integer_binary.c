/* number/integer_binary.h and integer_array.h: element-wise operators on arrays. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/core/rng.h"
#include "engine/number/integer_binary.h"

enum { SEED = 5 };

static const struct {
    const char *runtime, *isa;
} who[] = {
    {"tflite-reference", "any"        },
    { "tflite-single",   "any"        },
    { "tflite-builtin",  "x86-64"     },
    { "tflite-xnnpack",  "x86-64"     },
    { "tflite-xnnpack",  "aarch64"    },
    { "xnnpack",         "x86-64"     },
    { "xnnpack",         "aarch64"    },
    { "onnxruntime",     "x86-64"     },
    { "onnxruntime",     "x86-64-avx2"},
    { "onnxruntime",     "aarch64"    },
};
enum { WHO = sizeof who / sizeof who[0] };

static qg_int_binary prepared(qg_ctx *ctx, qg_int_binary_op op, size_t k, qg_grid a,
                              qg_grid b, qg_grid y)
{
    qg_int_binary_spec s = { op, who[k].runtime, who[k].isa, a, b, y, QG_FUSED_NONE };
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
    qg_grid g = { QG_I8, 1, 0 }, two = { QG_I8, 2, 0 };
    qg_int_binary tflite = prepared(ctx, QG_INT_BINARY_ADD, 0, g, g, two);
    qg_int_binary xnnpack = prepared(ctx, QG_INT_BINARY_ADD, 5, g, g, two);
    qg_int_binary ort = prepared(ctx, QG_INT_BINARY_ADD, 7, g, g, two);
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
    for (int round = 0; round < 2000; round++) {
        size_t k = qg_rng_below(&rng, WHO);
        qg_int_binary_op op = (qg_int_binary_op)qg_rng_below(&rng, 3);
        if (op == QG_INT_BINARY_SUB && strcmp(who[k].runtime, "onnxruntime") == 0)
            continue;
        qg_grid g[3];
        for (int i = 0; i < 3; i++)
            g[i] = (qg_grid){ QG_I8, qg_rng_range(&rng, 0.01f, 0.1f),
                              (int32_t)qg_rng_below(&rng, 256) - 128 };
        qg_int_binary p = prepared(ctx, op, k, g[0], g[1], g[2]);
        for (int i = 0; i < 20; i++) {
            int32_t a = (int32_t)qg_rng_below(&rng, 256) - 128;
            int32_t b = (int32_t)qg_rng_below(&rng, 256) - 128;
            double ra = (double)g[0].scale * (a - g[0].zero);
            double rb = (double)g[1].scale * (b - g[1].zero);
            double real = op == QG_INT_BINARY_ADD   ? ra + rb
                          : op == QG_INT_BINARY_SUB ? ra - rb
                                                    : ra * rb;
            double steps = fmin(fmax(real / (double)g[2].scale + g[2].zero, -128), 127);
            double most = strncmp(who[k].runtime, "tflite", 6) == 0 ? 0.76 : 0.51;
            if (fabs(one(&p, a, b) - steps) > most)
                fail_msg("round %d: %s %s: %d and %d give %d, real %g", round,
                         who[k].runtime, qg_int_binary_op_name(op), (int)a, (int)b,
                         (int)one(&p, a, b), steps);
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
    for (size_t k = 0; k < WHO; k++)
        for (size_t s = 0; s < sizeof shape / sizeof shape[0]; s++) {
            qg_grid g = { QG_I8, 0.0235f, -3 }, h = { QG_I8, 0.0471f, 12 };
            qg_int_binary p = prepared(ctx, QG_INT_BINARY_ADD, k, g, h, h);
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
    for (int i = 0; i < 20000; i++) {
        qg_grid g[3];
        for (int k = 0; k < 3; k++)
            g[k] = (qg_grid){ QG_U8, 0.001f * (float)(1 + qg_rng_below(&rng, 100)),
                              (int32_t)qg_rng_below(&rng, 256) };
        qg_int_binary p = prepared(ctx, QG_INT_BINARY_ADD, 7, g[0], g[1], g[2]);
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

static qg_status prepare(qg_ctx *ctx, qg_int_binary_op op, const char *runtime,
                         qg_grid a, qg_grid y)
{
    qg_int_binary_spec s = { op, runtime, "x86-64", a, a, y, QG_FUSED_NONE };
    qg_int_binary p;
    return qg_int_binary_prepare(ctx, &s, &p);
}

static void what_a_runtime_lacks_is_refused(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_grid i8 = { QG_I8, 0.1f, 0 }, i16 = { QG_I16, 0.1f, 0 };
    qg_grid far = { QG_I8, 1000, 0 }, bad = { QG_I8, 0.1f, 200 },
            nan = { QG_I8, NAN, 0 };
    assert_fails(ctx, prepare(ctx, QG_INT_BINARY_SUB, "onnxruntime", i8, i8),
                 QG_EUNSUPPORTED, "integer sub: runtime 'onnxruntime' on 'x86-64'");
    assert_fails(ctx, prepare(ctx, QG_INT_BINARY_ADD, "nobody", i8, i8),
                 QG_EUNSUPPORTED, "runtime 'nobody'");
    assert_fails(ctx, prepare(ctx, QG_INT_BINARY_MUL, "nobody", i8, i8),
                 QG_EUNSUPPORTED, "has no product");
    assert_fails(ctx, prepare(ctx, QG_INT_BINARY_ADD, "xnnpack", i16, i16),
                 QG_EUNSUPPORTED, "int16 of 'xnnpack', expected 8 bits");
    assert_fails(ctx, prepare(ctx, QG_INT_BINARY_ADD, "xnnpack", far, i8),
                 QG_EUNSUPPORTED, "scale ratios 10000 and 10000");
    assert_fails(ctx, prepare(ctx, QG_INT_BINARY_ADD, "tflite-reference", i8, i16),
                 QG_EUNSUPPORTED, "types int8, int8 -> int16");
    assert_fails(ctx, prepare(ctx, QG_INT_BINARY_ADD, "xnnpack", bad, i8), QG_ENUMERIC,
                 "add: first input: zero point 200, expected within [-128, 127]");
    assert_fails(ctx, prepare(ctx, QG_INT_BINARY_ADD, "xnnpack", i8, nan), QG_ENUMERIC,
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
             cmocka_unit_test(what_a_runtime_lacks_is_refused))

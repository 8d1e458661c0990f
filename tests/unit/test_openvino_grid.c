/* formats/fake_quantize.h: grids as limits and back, by hand and for random scales. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/core/rng.h"
#include "engine/formats/fake_quantize.h"

enum { SEED = 3, ROUNDS = 20000 };

typedef struct grid_case {
    uint8_t bits;
    int64_t qmin, qmax;
    float scale;
    int32_t offset;
    float low, high;
    int64_t read_min, read_max; /* codes by convention */
    int32_t read_offset;
} grid_case;

/* Limits from docs/evidence/openvino.md#conversion. */
/* clang-format off */
static const grid_case cases[] = {
    { 8, -128, 127, 0.05f, 0, -6.4f, 6.35f, -128, 127, 0 },
    { 8, -127, 127, 0.05f, 0, -6.35f, 6.35f, -127, 127, 0 },
    { 8, 0, 255, 0.02f, 128, -2.56f, 2.54f, -128, 127, 0 },
    { 4, -8, 7, 0.1f, 3, -1.1f, 0.4f, 0, 15, 11 },
    { 8, 0, 255, 0.01f, 0, 0, 2.55f, 0, 255, 0 },
    { 8, -128, 127, 0.013f, -5, -1.599f, 1.716f, 0, 255, 123 },
    { 6, -31, 31, 0.5f, 0, -15.5f, 15.5f, -31, 31, 0 },
};
/* clang-format on */

static void conversions_by_hand(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const grid_case *c = &cases[i];
        qg_scheme s = { .policy = QG_PER_TENSOR | QG_LINEAR,
                        .bits = c->bits,
                        .axis = -1,
                        .qmin = c->qmin,
                        .qmax = c->qmax };
        qg_qparam p = { 1, &c->scale, &c->offset }, got;
        qg_openvino_limits l;
        s.policy |= c->offset ? QG_ASYMMETRIC : QG_SYMMETRIC;
        assert_ok(ctx, qg_openvino_limits_of(ctx, "x", &s, &p, ctx->arena, &l));
        assert_float_equal(l.low[0], c->low, 1e-6);
        assert_float_equal(l.high[0], c->high, 1e-6);
        assert_ok(ctx, qg_openvino_grid_of(ctx, "x", &l, ctx->arena, &s, &got));
        assert_ok(ctx, qg_scheme_check(ctx, "x", &s));
        assert_int_equal(s.qmin, c->read_min);
        assert_int_equal(s.qmax, c->read_max);
        assert_int_equal(s.bits, c->bits);
        assert_int_equal(got.offset[0], c->read_offset);
        assert_cmp_f64(got.scale[0], ==, c->scale);
    }
    qg_ctx_free(ctx);
}

/* The scale comes back within one unit in the last place, exactly for symmetric codes
 * of a power of two, and limits always come back. */
static void random_scales_survive(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_arena *a = qg_arena_new(qg_alloc_libc);
    qg_rng r = { SEED };
    for (int i = 0; i < ROUNDS; i++) {
        bool centred = qg_rng_below(&r, 2) == 0;
        float scale = ldexpf(qg_rng_range(&r, 1, 2), (int)qg_rng_below(&r, 40) - 30);
        int32_t offset = centred ? 0 : (int32_t)qg_rng_below(&r, 256);
        qg_scheme s = { .policy = QG_PER_TENSOR | QG_LINEAR | QG_ASYMMETRIC,
                        .bits = 8,
                        .axis = -1,
                        .qmin = centred ? -128 : 0,
                        .qmax = centred ? 127 : 255 };
        qg_qparam p = { 1, &scale, &offset }, got;
        qg_openvino_limits l, again;
        assert_ok(ctx, qg_openvino_limits_of(ctx, "x", &s, &p, a, &l));
        assert_ok(ctx, qg_openvino_grid_of(ctx, "x", &l, a, &s, &got));
        assert_cmp_f64(got.scale[0], >=, nextafterf(scale, 0));
        assert_cmp_f64(got.scale[0], <=, nextafterf(scale, INFINITY));
        assert_true(!centred || got.scale[0] == scale);
        assert_ok(ctx, qg_openvino_limits_of(ctx, "x", &s, &got, a, &again));
        assert_cmp_f64(again.low[0], ==, l.low[0]);
        assert_cmp_f64(again.high[0], ==, l.high[0]);
        qg_arena_reset(a);
    }
    qg_arena_free(a);
    qg_ctx_free(ctx);
}

static void refuse(float low, float high, int32_t levels, const char *why)
{
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_openvino_limits l = { levels, -1, 1, &low, &high };
    qg_scheme s;
    qg_qparam p;
    assert_fails(ctx, qg_openvino_grid_of(ctx, "x", &l, ctx->arena, &s, &p),
                 QG_EUNSUPPORTED, why);
    qg_ctx_free(ctx);
}

static void what_is_no_grid_is_refused(void **state)
{
    (void)state;
    refuse(1, 2, 256, "x: 256 levels from 1 to 2, expected a grid that contains 0");
    refuse(2, -1, 256, "256 levels from 2 to -1");
    refuse(0, 0, 256, "256 levels from 0 to 0");
    refuse(-1, 1, 256, "expected a grid that contains 0"); /* 0 between two codes */
    refuse(NAN, 1, 256, "expected a grid that contains 0");
    refuse(-INFINITY, 1, 256, "expected a grid that contains 0");
    refuse(-1, 1, 1, "1 levels, expected 2 to 65536");
    refuse(-1, 1, 70000, "70000 levels, expected 2 to 65536");
    refuse(0, 1e-45f, 256, "expected above 0");
}

static void too_many_levels_are_refused(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    float scale = 1;
    qg_scheme s = { .policy = QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC,
                    .bits = 17,
                    .axis = -1,
                    .qmin = -65536,
                    .qmax = 65535 };
    qg_qparam p = { 1, &scale, NULL };
    qg_openvino_limits l;
    assert_fails(ctx, qg_openvino_limits_of(ctx, "x", &s, &p, ctx->arena, &l),
                 QG_ECONFIG, "range [-65536, 65535], expected at most 65536 levels");
    qg_ctx_free(ctx);
}

static void widened(int64_t qmin, int64_t qmax, int64_t low, int64_t high)
{
    qg_scheme s = { .policy = QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC,
                    .bits = 8,
                    .qmin = qmin,
                    .qmax = qmax };
    qg_scheme w = qg_openvino_widened(&s);
    assert_int_equal(w.qmin, low);
    assert_int_equal(w.qmax, high);
    s.policy ^= QG_SYMMETRIC | QG_ASYMMETRIC;
    w = qg_openvino_widened(&s);
    assert_int_equal(w.qmin, qmin);
}

static void half_ranges_become_whole(void **state)
{
    (void)state;
    widened(-64, 63, -128, 127); /* 7 bits */
    widened(-31, 31, -128, 127); /* 6 bits, narrow */
    widened(-127, 127, -127, 127);
    widened(-128, 127, -128, 127);
    widened(-8, 7, -8, 7);
    widened(-7, 7, -7, 7);
    widened(-2, 1, -8, 7);
    widened(0, 127, 0, 255);
    widened(-256, 255, -32768, 32767);
    widened(INT32_MIN, INT32_MAX, INT32_MIN, INT32_MAX);
}

/* half-even-level gives the codes of the plugin's kernel, which
 * tests/data/vectors/openvino_fq.json proves (openvino_fq.h): of values near ties,
 * too. */
static void levels_are_rounded_as_the_plugin_does(void **state)
{
    (void)state;
    enum { N = 512 };
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_rng r = { SEED };
    for (int i = 0; i < ROUNDS / 40; i++) {
        const grid_case *c = &cases[i % (sizeof cases / sizeof cases[0])];
        float scale = ldexpf(qg_rng_range(&r, 1, 2), (int)qg_rng_below(&r, 20) - 15);
        qg_scheme s = { .policy = QG_PER_TENSOR | QG_LINEAR | QG_ASYMMETRIC,
                        .rounding = QG_ROUND_HALF_EVEN_LEVEL,
                        .bits = c->bits,
                        .axis = -1,
                        .qmin = c->qmin,
                        .qmax = c->qmax };
        qg_qparam p = { 1, &scale, &c->offset };
        qg_openvino_limits l;
        float x[N], y[N], want[N];
        qg_tensor tx, ty;
        for (int k = 0; k < N; k++)
            x[k] = scale * ((float)((int)qg_rng_below(&r, 600) - 300) / 2 +
                            (k % 3 ? 0 : qg_rng_range(&r, -1e-5f, 1e-5f)));
        x[0] = INFINITY;
        x[1] = -INFINITY;
        qg_tensor_init(&tx, QG_F32, 1, (int64_t[]){ N });
        ty = tx;
        tx.f32 = x;
        ty.f32 = y;
        assert_ok(ctx, qg_openvino_limits_of(ctx, "x", &s, &p, ctx->arena, &l));
        qg_openvino_limit low = { { 0 }, l.low }, high = { { 0 }, l.high };
        qg_openvino_fq fq = { l.levels, QG_OPENVINO_CPU, low, high, low, high };
        qg_int_dims dims = { .rank = 1, .dim = { N } };
        assert_ok(ctx, qg_openvino_fq_run(ctx, &fq, &dims, x, want));
        assert_ok(ctx, qg_fake_quantize(ctx, "x", &s, &p, &tx, &ty));
        for (int k = 0; k < N; k++)
            if (rintf(y[k] / scale) != rintf(want[k] / scale))
                fail_msg("grid %d scale %a: %a gives %a, the plugin %a", i,
                         (double)scale, (double)x[k], (double)y[k], (double)want[k]);
    }
    qg_ctx_free(ctx);
}

QG_TEST_MAIN(cmocka_unit_test(conversions_by_hand),
             cmocka_unit_test(random_scales_survive),
             cmocka_unit_test(what_is_no_grid_is_refused),
             cmocka_unit_test(too_many_levels_are_refused),
             cmocka_unit_test(half_ranges_become_whole),
             cmocka_unit_test(levels_are_rounded_as_the_plugin_does))

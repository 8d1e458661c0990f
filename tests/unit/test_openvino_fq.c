/* number/openvino_fq.h and aimet.h: conversions both ways, what is refused,
 * broadcasting. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/core/rng.h"
#include "engine/quant/aimet.h"
#include "engine/number/openvino_fq.h"

enum { SEED = 9 };

static qg_openvino_limit scalar(const float *value)
{
    return (qg_openvino_limit){
        {0, { 0 }},
        value
    };
}

/* There and back gives the affine grid; the residual is what float32 loses. */
static void conversions_are_inverse(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_rng rng = { SEED };
    for (int i = 0; i < 5000; i++) {
        int bits = 2 + (int)qg_rng_below(&rng, 15);
        qg_affine a = { (double)qg_rng_range(&rng, 1e-4f, 1), 0, 0, (1 << bits) - 1 };
        if (i & 1) {
            a.qmin = -(1 << (bits - 1));
            a.qmax += a.qmin;
        }
        a.zero = (double)(a.qmin + (int64_t)qg_rng_below(&rng, 1u << bits));
        qg_openvino_range r;
        qg_affine back = { 0, 0, a.qmin, a.qmax };
        double residual;
        assert_ok(ctx, qg_openvino_from_affine(ctx, "test", a, &r));
        assert_cmp_f64(r.low, <=, 1e-12);
        assert_cmp_f64(r.high, >=, -1e-12);
        assert_int_equal(r.levels, 1 << bits);
        assert_cmp_f64(r.residual, <=, 0x1p-23 * fmax(fabs(r.low), fabs(r.high)));
        assert_int_equal(r.ties_differ, ((int64_t)a.zero - a.qmin) & 1);
        assert_ok(ctx,
                  qg_openvino_to_affine(ctx, "test", r.low, r.high, &back, &residual));
        assert_cmp_f64(fabs(back.scale - a.scale), <, 1e-12);
        assert_cmp_f64(fabs(back.zero - a.zero), <, 1e-9);
        assert_cmp_f64(residual, <, 1e-9);
    }
    qg_ctx_free(ctx);
}

/* Where ties differ: FakeQuantize of a tie against round(x / s) of the affine form. */
static void odd_offsets_flip_ties(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_affine narrow = { 0.5, 0, -127, 127 }, even = { 0.5, 0, -128, 127 };
    for (int k = 0; k < 2; k++) {
        qg_affine a = k ? even : narrow;
        qg_openvino_range r;
        assert_ok(ctx, qg_openvino_from_affine(ctx, "test", a, &r));
        qg_openvino_fq fq = { (int32_t)r.levels, QG_OPENVINO_CPU,  scalar(&r.low32),
                              scalar(&r.high32), scalar(&r.low32), scalar(&r.high32) };
        float x = 0.25f, y; /* a tie: 0.5 steps */
        assert_ok(ctx,
                  qg_openvino_fq_run(ctx, &fq, &(qg_int_dims){ 1, { 1 } }, &x, &y));
        assert_cmp_f64(y, ==, r.ties_differ ? 0.5f : 0); /* rint(0.5) is 0 */
    }
    qg_ctx_free(ctx);
}

static void a_real_zero_point_leaves_a_residual(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_affine a = { 0, 0, 0, 255 };
    double residual;
    assert_ok(ctx, qg_openvino_to_affine(ctx, "test", -1, 1, &a, &residual));
    assert_cmp_f64(a.zero, ==, 127.5);
    assert_cmp_f64(fabs(residual - a.scale / 2), <, 1e-12);
    qg_ctx_free(ctx);
}

static void half_range_keeps_the_step(void **state)
{
    (void)state;
    double low, high;
    qg_affine full =
        qg_openvino_full_range((qg_affine){ 0.5, 0, -64, 63 }, &low, &high);
    assert_cmp_f64(full.scale, ==, 0.5);
    assert_int_equal(full.qmin, -128);
    assert_int_equal(full.qmax, 127);
    assert_cmp_f64(low, ==, -32);
    assert_cmp_f64(high, ==, 31.5);
    (void)qg_openvino_full_range((qg_affine){ 0.5, 3, -64, 63 }, &low, &high);
    assert_cmp_f64(low, ==, -33.5);
    assert_cmp_f64(high, ==, 30);
}

/* Four limits of four shapes, against one scalar run per element. */
static void limits_broadcast_apart(void **state)
{
    (void)state;
    static const float il[2] = { -1, -2 }, ih[3] = { 1, 2, 3 }, ol[1] = { 0 };
    static const float oh[6] = { 1, 2, 3, 4, 5, 6 };
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_int_dims dims = {
        2, {2, 3}
    };
    for (int form = 0; form < QG_NOPENVINO - 1; form++) {
        qg_openvino_fq fq = {
            256,
            (qg_openvino_form)form,
            {{ 2, { 2, 1 } },  il},
            { { 1, { 3 } },    ih},
            { { 0, { 0 } },    ol},
            { { 2, { 2, 3 } }, oh}
        };
        if (form == QG_OPENVINO_CPU_LPT)
            continue;
        float x[6] = { -0.5f, 0.3f, 2.5f, -1.5f, 0, 9 }, y[6], one;
        assert_ok(ctx, qg_openvino_fq_run(ctx, &fq, &dims, x, y));
        for (int i = 0; i < 6; i++) {
            qg_openvino_fq single = { 256,
                                      (qg_openvino_form)form,
                                      scalar(&il[i / 3]),
                                      scalar(&ih[i % 3]),
                                      scalar(ol),
                                      scalar(&oh[i]) };
            qg_int_dims none = { 0, { 0 } };
            assert_ok(ctx, qg_openvino_fq_run(ctx, &single, &none, &x[i], &one));
            assert_cmp_f64(one, ==, y[i]);
        }
    }
    qg_ctx_free(ctx);
}

/* docs/evidence/openvino.md#low-precision-transformations, by hand: the lowest and the
 * highest input give the output limits as they come back from the integer grid.  The
 * ratio of symmetric ones is -256 / 254 by 0.002, of 255 levels -1; others get a zero
 * point.  Less than 1e-6 is 0, and other levels stay. */
static const struct {
    int32_t levels;
    float low, high, first, last;
} through_grid[] = {
    {256,  0,        255, 0,                 255             },
    { 256, -128,     127, -128,              127             },
    { 255, -127,     127, -127,              127             },
    { 16,  -8,       7,   -8,                7               },
    { 15,  -7,       7,   -7,                7               },
    { 16,  0,        15,  0,                 15              },
    { 256, -128.2f,  127, -128 * 1.0007843f, 127 * 1.0007843f},
    { 256, -128.4f,  127, -128.4f,           127             },
    { 256, -127.8f,  127, -128 * 0.9992157f, 127 * 0.9992157f},
    { 256, -127.6f,  127, -127.6f,           127             },
    { 255, -127.2f,  127, -127 * 1.0007874f, 127 * 1.0007874f},
    { 255, -127.4f,  127, -127.4f,           127             },
    { 16,  -8.01f,   7,   -8 * 1.0006667f,   7 * 1.0006667f  },
    { 256, 1,        256, 1,                 256             },
    { 256, -256,     -1,  -256,              -1              },
    { 256, -0.9e-6f, 255, 0,                 255             },
    { 256, -2e-6f,   255, -2e-6f,            255             },
    { 256, 2e-6f,    255, 2e-6f,             255             },
    { 256, 0,        0,   0,                 0               },
    { 17,  -128.2f,  127, -128.2f,           127             },
};

static void low_precision_moves_the_limits(void **state)
{
    (void)state;
    static const float il = 0, ih = 1;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    const qg_int_dims dims = { 1, { 2 } };
    for (size_t i = 0; i < sizeof through_grid / sizeof *through_grid; i++) {
        const qg_openvino_fq fq = { through_grid[i].levels,
                                    QG_OPENVINO_CPU_LPT,
                                    scalar(&il),
                                    scalar(&ih),
                                    scalar(&through_grid[i].low),
                                    scalar(&through_grid[i].high) };
        float x[2] = { 0, 1 };
        assert_ok(ctx, qg_openvino_fq_run(ctx, &fq, &dims, x, x));
        assert_float_equal(x[0], through_grid[i].first,
                           3e-7f * fabsf(through_grid[i].first) + 1e-9f);
        assert_float_equal(x[1], through_grid[i].last,
                           3e-7f * fabsf(through_grid[i].last) + 1e-9f);
    }
    qg_ctx_free(ctx);
}

/* One channel that needs a zero point gives one to all; limits have one shape. */
static void low_precision_looks_at_all_channels(void **state)
{
    (void)state;
    static const float il = 0, ih = 1;
    static const float low[4] = { -128.2f, 1, -128.2f, -128.2f };
    static const float high[4] = { 127, 256, 127, 127 };
    static const struct {
        qg_int_dims low, high;
    } apart[] = {
        {{ 2, { 2, 2 } },  { 2, { 1, 2 } }},
        { { 2, { 2, 2 } }, { 2, { 2, 1 } }},
        { { 2, { 1, 2 } }, { 1, { 2 } }   },
        { { 0, { 0 } },    { 1, { 1 } }   },
    };
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    const qg_int_dims dims = {
        2, {2, 2}
    };
    qg_openvino_fq fq = {
        256,         QG_OPENVINO_CPU_LPT, scalar(&il),
        scalar(&ih), {dims,  low },
         { dims, high}
    };
    float x[4] = { 0 };
    assert_ok(ctx, qg_openvino_fq_run(ctx, &fq, &dims, x, x));
    for (int i = 0; i < 4; i++)
        assert_float_equal(x[i], low[i], 1e-4f);
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
        fq.output_low.dims = apart[i].low;
        fq.output_high.dims = apart[i].high;
        fq.form = QG_OPENVINO_CPU_LPT;
        assert_fails(ctx, qg_openvino_fq_run(ctx, &fq, &dims, x, x), QG_EUNSUPPORTED,
                     "output limits of different shapes with low precision");
        fq.form = QG_OPENVINO_CPU;
        assert_ok(ctx, qg_openvino_fq_run(ctx, &fq, &dims, x, x));
    }
    qg_ctx_free(ctx);
}

/* 0 is the second of five levels from -1 to 3, on which the output goes from 10 to 14;
 * limits belong to the outer levels. */
static void levels_lie_between_the_limits(void **state)
{
    (void)state;
    static const float il = -1, ih = 3, ol = 10, oh = 14;
    static const float x[6] = { -5, -1, 0, 0.6f, 3, 5 },
                       want[6] = { 10, 10, 11, 12, 14, 14 };
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    const qg_int_dims dims = { 1, { 6 } };
    for (int form = 0; form < QG_OPENVINO_CPU_LPT; form++) {
        const qg_openvino_fq fq = { 5,           (qg_openvino_form)form,
                                    scalar(&il), scalar(&ih),
                                    scalar(&ol), scalar(&oh) };
        float y[6];
        assert_ok(ctx, qg_openvino_fq_run(ctx, &fq, &dims, x, y));
        for (int i = 0; i < 6; i++)
            assert_cmp_f64(y[i], ==, want[i]);
    }
    qg_ctx_free(ctx);
}

/* In the plugin NaN is the lowest input, but of two levels the highest output. */
static void nan_in_the_plugin(void **state)
{
    (void)state;
    static const float low = -1, high = 3;
    static const struct {
        int32_t levels;
        qg_openvino_form form;
        float want;
    } row[] = {
        {2,  QG_OPENVINO_CPU,         3 },
        { 2, QG_OPENVINO_CPU_LPT,     3 },
        { 3, QG_OPENVINO_CPU,         -1},
        { 2, QG_OPENVINO_CPU_AARCH64, -1},
    };
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    const qg_int_dims dims = { 0, { 0 } };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const qg_openvino_fq fq = { row[i].levels, row[i].form,  scalar(&low),
                                    scalar(&high), scalar(&low), scalar(&high) };
        float x = NAN;
        assert_ok(ctx, qg_openvino_fq_run(ctx, &fq, &dims, &x, &x));
        assert_cmp_f64(x, ==, row[i].want);
    }
    qg_ctx_free(ctx);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    static const float low[2] = { 1, 1 }, high[2] = { 1, 2 };
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_openvino_fq fq = { 256,          QG_OPENVINO_CPU, scalar(low),
                          scalar(high), scalar(low),     scalar(high) };
    qg_int_dims dims = { 1, { 3 } };
    float x[3] = { 0 };
    assert_fails(ctx, qg_openvino_fq_run(ctx, &fq, &dims, x, x), QG_EUNSUPPORTED,
                 "input limits 1 and 1 in the CPU plugin, expected low below high");
    fq.form = QG_OPENVINO_REFERENCE;
    assert_ok(ctx, qg_openvino_fq_run(ctx, &fq, &dims, x, x)); /* a binarizer */
    assert_cmp_f64(x[0], ==, 1);
    fq.input_low.dims = (qg_int_dims){ 1, { 2 } };
    assert_fails(ctx, qg_openvino_fq_run(ctx, &fq, &dims, x, x), QG_EMODEL,
                 "a limit of rank 1 does not broadcast to the input");
    fq.levels = 1;
    assert_fails(ctx, qg_openvino_fq_run(ctx, &fq, &dims, x, x), QG_EMODEL,
                 "fake quantize: 1 levels, expected 2 or more");
    qg_openvino_range r;
    double residual;
    qg_affine a = { 0, 0, 0, 255 };
    assert_fails(ctx, qg_openvino_from_affine(ctx, "w", a, &r), QG_ENUMERIC,
                 "convert to FakeQuantize: w: scale 0");
    a.scale = 1;
    a.qmax = INT64_C(1) << 40;
    assert_fails(ctx, qg_openvino_from_affine(ctx, "w", a, &r), QG_ECONFIG,
                 "expected 2 to 2^32 levels");
    a.qmax = INT64_C(1) << 32;
    assert_fails(ctx, qg_openvino_from_affine(ctx, "w", a, &r), QG_ECONFIG,
                 "expected 2 to 2^32 levels");
    a.qmax--;
    assert_ok(ctx, qg_openvino_from_affine(ctx, "w", a, &r));
    a.qmax = 1;
    assert_ok(ctx, qg_openvino_from_affine(ctx, "w", a, &r));
    assert_int_equal(r.levels, 2);
    a.qmax = 0;
    assert_fails(ctx, qg_openvino_from_affine(ctx, "w", a, &r), QG_ECONFIG,
                 "range [0, 0], expected 2 to 2^32 levels");
    a.qmax = 255;
    a.zero = NAN;
    assert_fails(ctx, qg_openvino_from_affine(ctx, "w", a, &r), QG_ENUMERIC,
                 "zero point nan");
    a.zero = 0;
    a.scale = INFINITY;
    assert_fails(ctx, qg_openvino_from_affine(ctx, "w", a, &r), QG_ENUMERIC,
                 "scale inf");
    assert_fails(ctx, qg_openvino_to_affine(ctx, "w", -INFINITY, 1, &a, &residual),
                 QG_ENUMERIC, "range [-inf, 1]");
    assert_fails(ctx, qg_openvino_to_affine(ctx, "w", 0, INFINITY, &a, &residual),
                 QG_ENUMERIC, "range [0, inf]");
    a.qmax = a.qmin;
    assert_fails(ctx, qg_openvino_to_affine(ctx, "w", 0, 1, &a, &residual), QG_ENUMERIC,
                 "on [0, 0]");
    a.qmax = 255;
    assert_fails(ctx, qg_openvino_to_affine(ctx, "w", 1, 1, &a, &residual), QG_ENUMERIC,
                 "convert from FakeQuantize: w: range [1, 1]");
    qg_ctx_free(ctx);
}

/* Codes of an encoding are within its range, and zero is one of them. */
static void aimet_represents_zero(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_rng rng = { SEED };
    for (int i = 0; i < 5000; i++) {
        qg_aimet_spec s = { .bits = 2 + (int)qg_rng_below(&rng, 7),
                            .symmetric = qg_rng_below(&rng, 2),
                            .strict = qg_rng_below(&rng, 2),
                            .may_be_unsigned = qg_rng_below(&rng, 2),
                            .min_range = QG_AIMET_RANGE };
        double min = (double)qg_rng_range(&rng, -2, 1);
        double max = min + (double)qg_rng_range(&rng, 0, 2);
        qg_aimet_encoding e;
        assert_ok(ctx, qg_aimet_encode(ctx, "test", &s, min, max, &e));
        assert_cmp_f64(e.delta, >, 0);
        assert_cmp_f64(e.offset, <=, 0);
        assert_cmp_f64(e.offset, ==, rint(e.offset));
        assert_cmp_f64(qg_aimet_quantize(&e, 0), ==, -e.offset);
        assert_in_range((int)qg_aimet_quantize(&e, 1e9), 1, (1 << s.bits) - 1);
        assert_cmp_f64(qg_aimet_quantize(&e, -1e9), >=, 0);
    }
    qg_aimet_encoding e;
    qg_aimet_spec s = { .bits = 8, .min_range = QG_QNN_RANGE };
    assert_fails(ctx, qg_aimet_encode(ctx, "t", &s, 1, 0, &e), QG_ENUMERIC,
                 "encode: t: range [1, 0]");
    s.bits = 40;
    assert_fails(ctx, qg_aimet_encode(ctx, "t", &s, 0, 1, &e), QG_ECONFIG, "40 bits");
    qg_ctx_free(ctx);
}

QG_TEST_MAIN(cmocka_unit_test(conversions_are_inverse),
             cmocka_unit_test(odd_offsets_flip_ties),
             cmocka_unit_test(a_real_zero_point_leaves_a_residual),
             cmocka_unit_test(half_range_keeps_the_step),
             cmocka_unit_test(limits_broadcast_apart),
             cmocka_unit_test(low_precision_moves_the_limits),
             cmocka_unit_test(low_precision_looks_at_all_channels),
             cmocka_unit_test(levels_lie_between_the_limits),
             cmocka_unit_test(nan_in_the_plugin),
             cmocka_unit_test(what_does_not_fit_is_refused),
             cmocka_unit_test(aimet_represents_zero))

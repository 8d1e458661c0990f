/* quant/fake.h against the written formula, element by element, in every layout. */
#include "tests/support/test.h"

#include <float.h>
#include <math.h>

#include "engine/core/rng.h"
#include "engine/quant/fake.h"
#include "engine/quant/fake_kernel.h"

enum {
    TENSOR = QG_PER_TENSOR,
    CHANNEL = QG_PER_CHANNEL,
    BLOCK = QG_BLOCK,
    LIN = QG_LINEAR,
    SYM = QG_SYMMETRIC,
    ASYM = QG_ASYMMETRIC,
    DYN = QG_DYNAMIC,
    FLO = QG_FLOATING | QG_SYMMETRIC | QG_POWER_OF_2
};

static qg_scheme scheme(unsigned policy, int bits, int64_t qmin, int64_t qmax)
{
    return (qg_scheme){ .policy = (uint16_t)policy,
                        .bits = (uint8_t)bits,
                        .axis = -1,
                        .qmin = qmin,
                        .qmax = qmax };
}

static qg_scheme fp8(int exponent_bits, int64_t top)
{
    qg_scheme s = scheme(TENSOR | FLO, 8, -top, top);
    s.exponent_bits = (uint8_t)exponent_bits;
    return s;
}

/* One value through the public function. */
static float fake_one(qg_ctx *ctx, const qg_scheme *s, float scale, int32_t offset,
                      float x)
{
    qg_tensor t;
    qg_tensor_scalar(&t, QG_F32);
    t.f32 = &x;
    assert_ok(
        ctx, qg_fake_quantize(ctx, "t", s, &(qg_qparam){ 1, &scale, &offset }, &t, &t));
    return x;
}

/* clang-format off */
/* Source: docs/evidence/grids.md#fake-quantize; modes 0, 1, 2, 3, 4, 6. */
static const struct {
    float x, scale;
    int32_t offset;
    int64_t qmin, qmax;
    int level[6];
} golden[] = {
    { -1.25f, 0.5f, 0, -128, 127, { -2, -2, -3, -2, -3, -2 } },
    { 1.25f,  0.5f, 0, -128, 127, { 2, 3, 2, 2, 3, 3 } },
    { 0.25f,  0.5f, 0, -128, 127, { 0, 1, 0, 0, 1, 1 } },
    { -0.25f, 0.5f, 0, -128, 127, { 0, 0, -1, 0, -1, 0 } },
    { 100,    0.5f, 0, -128, 127, { 127, 127, 127, 127, 127, 127 } },
    { -100,   0.5f, 0, -128, 127, { -128, -128, -128, -128, -128, -128 } },
    { 0.75f,  0.5f, 3, 0, 255,    { 5, 5, 4, 4, 5, 5 } },
    { -1.75f, 0.5f, 3, 0, 255,    { 0, 0, 0, 0, 0, 0 } },
};
/* clang-format on */

static void golden_levels(void **state)
{
    static const uint8_t mode[] = { 0, 1, 2, 3, 4, 6 };
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++)
        for (int m = 0; m < 6; m++) {
            qg_scheme s =
                scheme(TENSOR | LIN | ASYM, 8, golden[i].qmin, golden[i].qmax);
            s.rounding = mode[m];
            float y =
                fake_one(*state, &s, golden[i].scale, golden[i].offset, golden[i].x);
            assert_cmp_f64(y, ==,
                           (float)(golden[i].level[m] - golden[i].offset) * 0.5f);
        }
}

static void specials(void **state)
{
    qg_scheme s = scheme(TENSOR | LIN | ASYM, 8, 0, 255);
    assert_true(isnan(fake_one(*state, &s, 0.5f, 7, NAN)));
    assert_cmp_f64(fake_one(*state, &s, 0.5f, 7, INFINITY), ==, 124);
    assert_cmp_f64(fake_one(*state, &s, 0.5f, 7, -INFINITY), ==, -3.5f);
    assert_cmp_f64(fake_one(*state, &s, 1e-45f, 7, 1e-44f), ==,
                   1e-44f); /* denormal scale */
    assert_cmp_f64(fake_one(*state, &s, 3e38f, 7, 2e38f), ==, 3e38f);
    assert_false(signbit(fake_one(*state, &s, 0.5f, 7, -0.1f)));
}

/* Each rule, on every kind of grid: what NaN is replaced with saturates, or is 0. */
static void nan_follows_the_rule(void **state)
{
    static const float want[QG_NNAN] = {
        [QG_NAN_LOWEST] = -3.5f,
        [QG_NAN_ZERO] = 0,
        [QG_NAN_HIGHEST] = 124,
        [QG_NAN_WRAP] = -3.5f,
    };
    for (uint8_t nan = QG_NAN_LOWEST; nan < QG_NNAN; nan++) {
        qg_scheme s = scheme(TENSOR | LIN | ASYM, 8, 0, 255);
        s.nan = nan;
        for (uint8_t r = 0; r < QG_NROUNDING; r++) {
            s.rounding = r;
            assert_cmp_f64(fake_one(*state, &s, 0.5f, 7, NAN), ==, want[nan]);
        }
        s = scheme(TENSOR | LIN | SYM, 32, INT32_MIN, INT32_MAX);
        s.nan = nan;
        assert_cmp_f64(fake_one(*state, &s, 1, 0, NAN), ==,
                       nan == QG_NAN_ZERO      ? 0
                       : nan == QG_NAN_HIGHEST ? 0x1p31f
                                               : -0x1p31f);
        s = fp8(4, 448);
        s.nan = nan;
        assert_cmp_f64(fake_one(*state, &s, 1, 0, NAN), ==,
                       nan == QG_NAN_ZERO      ? 0
                       : nan == QG_NAN_HIGHEST ? 448
                                               : -448);
        s = scheme(TENSOR | LIN | ASYM, 8, -128, 127); /* a zero point below 0 */
        s.nan = nan;
        assert_cmp_f64(fake_one(*state, &s, 0.5f, -7, NAN), ==,
                       nan == QG_NAN_ZERO     ? 0
                       : nan == QG_NAN_LOWEST ? -60.5f
                                              : 67);
    }
    qg_scheme s = scheme(TENSOR | LIN | SYM, 8, -128, 127);
    s.nan = QG_NNAN;
    assert_fails(*state, qg_scheme_check(*state, "t", &s), QG_ECONFIG,
                 "nan 5, expected 0 to 4");
}

/* 24 bits: float32 division; more: double, one rounding at the end (DESIGN 12.10). */
static void wide_codes_are_exact(void **state)
{
    qg_scheme s = scheme(TENSOR | LIN | SYM, 32, INT32_MIN, INT32_MAX);
    assert_cmp_f64(fake_one(*state, &s, 0.25f, 0, 8388609.0f), ==, 8388609.0f);
    assert_cmp_f64(fake_one(*state, &s, 0.1f, 0, 1e7f), ==,
                   (float)(rint((double)1e7f / (double)0.1f) * (double)0.1f));
    assert_cmp_f64(fake_one(*state, &s, 1, 0, 3e9f), ==, 2147483647.0f);
    s = scheme(TENSOR | LIN | SYM, 24, -8388608, 8388607);
    assert_cmp_f64(fake_one(*state, &s, 0.1f, 0, 1e6f / 3), ==,
                   rintf((1e6f / 3) / 0.1f) * 0.1f);
    s = scheme(TENSOR | LIN | ASYM, 8, 0, 255); /* an offset far outside of the range */
    assert_cmp_f64(fake_one(*state, &s, 1, 1 << 30, -1073741700.0f), ==,
                   -1073741696.0f);
}

/* Parameter of an element from its coordinates: the header's sentence, not the walk. */
static size_t param_of(const qg_scheme *s, const qg_tensor *x, const int64_t *at)
{
    if (s->policy & QG_PER_TENSOR)
        return 0;
    if (s->policy & QG_PER_CHANNEL)
        return (size_t)at[s->axis];
    int64_t index = 0;
    for (int d = 0; d < x->rank; d++) {
        bool axis = d == s->axis;
        int64_t dim = axis ? (x->dim[d] + s->block - 1) / s->block : x->dim[d];
        index = index * dim + (axis ? at[d] / s->block : at[d]);
    }
    return (size_t)index;
}

static float formula(const qg_scheme *s, float scale, int32_t offset, float x)
{
    float t = qg_round_f32((qg_rounding)s->rounding, x / scale);
    double q = (double)t + offset;
    q = q < (double)s->qmin   ? (double)s->qmin
        : q > (double)s->qmax ? (double)s->qmax
                              : q;
    return (float)(q - offset) * scale;
}

typedef struct fixture {
    float x[4096], y[4096], scale[4096];
    int32_t offset[4096];
} fixture;

/* Compares y with the formula at every coordinate. */
static void check_elements(const qg_scheme *s, const fixture *f, const qg_tensor *x,
                           const qg_tensor *y, const char *label)
{
    int64_t at[QG_MAX_RANK] = { 0 }, count = qg_tensor_count(x);
    for (int64_t i = 0; i < count; i++) {
        int64_t px = 0, py = 0, rest = i;
        for (int d = x->rank - 1; d >= 0; d--) {
            at[d] = rest % x->dim[d];
            rest /= x->dim[d];
            px += at[d] * x->stride[d];
            py += at[d] * y->stride[d];
        }
        size_t c = param_of(s, x, at);
        float want = formula(s, f->scale[c], f->offset[c], f->x[px]);
        if (y->f32[py] != want)
            fail_msg("%s: element %d: %g, expected %g", label, (int)i,
                     (double)y->f32[py], (double)want);
    }
}

static void random_fill(fixture *f, qg_rng *rng)
{
    for (int i = 0; i < 4096; i++) {
        f->x[i] = qg_rng_range(rng, -9, 9);
        f->scale[i] = qg_rng_range(rng, 0.01f, 0.1f);
        f->offset[i] = (int32_t)qg_rng_below(rng, 256) - 128;
    }
}

static void random_shape(qg_tensor *x, qg_rng *rng)
{
    int64_t dim[4];
    int rank = 1 + (int)qg_rng_below(rng, 4);
    for (int d = 0; d < rank; d++)
        dim[d] = 1 + (int64_t)qg_rng_below(rng, 8);
    qg_tensor_init(x, QG_F32, rank, dim);
    if (rank >= 3 && qg_rng_below(rng, 2))
        qg_tensor_set_channels_last(x);
}

static void any_granularity_in_any_layout(void **state)
{
    static const unsigned granularity[] = { TENSOR, CHANNEL, BLOCK };
    static fixture f;
    qg_rng rng = { 21 };
    for (int i = 0; i < 3000; i++) {
        qg_tensor x, y;
        char label[64];
        random_fill(&f, &rng);
        random_shape(&x, &rng);
        qg_scheme s = scheme(granularity[i % 3] | LIN | ASYM, 8, -128, 127);
        s.rounding = (uint8_t)qg_rng_below(&rng, QG_NROUNDING);
        if (!(s.policy & QG_PER_TENSOR))
            s.axis = (int16_t)qg_rng_below(&rng, (uint64_t)x.rank);
        if (s.policy & QG_BLOCK)
            s.block = 1 + (int32_t)qg_rng_below(&rng, 5);
        y = x;
        if (i % 7 == 0)
            qg_tensor_set_plain(&y);
        x.f32 = f.x;
        y.f32 = f.y;
        qg_qparam p = { (size_t)qg_scheme_param_count(&s, &x), f.scale, f.offset };
        assert_ok(*state, qg_fake_quantize(*state, "t", &s, &p, &x, &y));
        snprintf(label, sizeof label, "case %d, rank %d, axis %d, block %d", i, x.rank,
                 s.axis, (int)s.block);
        check_elements(&s, &f, &x, &y, label);
        if (i % 7 != 0) { /* in place */
            assert_ok(*state, qg_fake_quantize(*state, "t", &s, &p, &x, &x));
            assert_memory_equal(f.x, f.y, (size_t)qg_tensor_count(&x) * 4);
        }
    }
}

/* A dynamic scheme is the static one with the range of each part. */
static void dynamic_equals_static_with_the_range(void **state)
{
    static const unsigned granularity[] = { TENSOR, CHANNEL, BLOCK };
    static fixture f;
    qg_rng rng = { 22 };
    for (int i = 0; i < 1500; i++) {
        static float low[4096], high[4096];
        qg_tensor x;
        random_fill(&f, &rng);
        random_shape(&x, &rng);
        qg_scheme s =
            scheme(granularity[i % 3] | LIN | (i & 1 ? SYM : ASYM), 8, 0, 255);
        if (i & 2)
            s.policy |= QG_POWER_OF_2;
        if (!(s.policy & QG_PER_TENSOR))
            s.axis = (int16_t)qg_rng_below(&rng, (uint64_t)x.rank);
        if (s.policy & QG_BLOCK)
            s.block = 1 + (int32_t)qg_rng_below(&rng, 5);
        memset(low, 0, sizeof low);
        memset(high, 0, sizeof high);
        int64_t at[QG_MAX_RANK], count = qg_tensor_count(&x);
        for (int64_t k = 0; k < count; k++) {
            int64_t place = 0, rest = k;
            for (int d = x.rank - 1; d >= 0; rest /= x.dim[d--])
                place += (at[d] = rest % x.dim[d]) * x.stride[d];
            size_t c = param_of(&s, &x, at);
            low[c] = fminf(low[c], f.x[place]);
            high[c] = fmaxf(high[c], f.x[place]);
        }
        qg_qparam p = { (size_t)qg_scheme_param_count(&s, &x), f.scale, f.offset };
        for (size_t c = 0; c < p.n; c++)
            qg_scheme_from_range(&s, (qg_range){ low[c], high[c], 0, 0 }, &f.scale[c],
                                 &f.offset[c]);
        qg_tensor y = x;
        x.f32 = f.x;
        y.f32 = f.y;
        assert_ok(*state, qg_fake_quantize(*state, "t", &s, &p, &x, &y));
        s.policy |= QG_DYNAMIC;
        assert_ok(*state, qg_fake_quantize(*state, "t", &s, NULL, &x, &x));
        assert_memory_equal(f.x, f.y, (size_t)count * 4);
    }
}

static void dynamic_range_ignores_what_is_not_finite(void **state)
{
    float v[] = { NAN, INFINITY, -1, 1, 0.3f };
    qg_tensor x;
    qg_tensor_init(&x, QG_F32, 1, (int64_t[]){ 5 });
    x.f32 = v;
    qg_scheme s = scheme(TENSOR | LIN | SYM | DYN, 8, -127, 127);
    assert_ok(*state, qg_fake_quantize(*state, "t", &s, NULL, &x, &x));
    float scale = (float)(2.0 / 254);
    assert_true(isnan(v[0]));
    assert_cmp_f64(v[1], ==, 127 * scale);
    assert_cmp_f64(v[2], ==, -127 * scale);
    assert_cmp_f64(v[3], ==, 127 * scale);
    assert_cmp_f64(v[4], ==, 38 * scale);
}

/* clang-format off */
/* Source: docs/evidence/grids.md#floating-grids; scale 1. */
static const struct { int exponent_bits, top, mode; float x, y; } ppq_floats[] = {
    { 4, 448, 0, 0.0009765625f, 0 },       { 4, 448, 0, 0.001953125f, 0.001953125f },
    { 4, 448, 0, 0.0029296875f, 0.00390625f },
    { 4, 448, 0, 0.0048828125f, 0.00390625f },
    { 4, 448, 0, 0.0146484375f, 0.015625f }, { 4, 448, 0, 0.0166015625f, 0.015625f },
    { 4, 448, 0, 0.3f, 0.3125f },  { 4, 448, 0, 1.0625f, 1 },
    { 4, 448, 0, 1.1875f, 1.125f }, { 4, 448, 0, 1.3125f, 1.25f },
    { 4, 448, 0, -1.0625f, -1 },   { 4, 448, 0, -1.1875f, -1.125f },
    { 4, 448, 0, 1.9375f, 1.875f }, { 4, 448, 0, 1.96875f, 2 },
    { 4, 448, 0, 2.1f, 2 },        { 4, 448, 0, 17, 16 },
    { 4, 448, 0, 19, 18 },         { 4, 448, 0, 447, 448 },
    { 4, 448, 0, 464, 448 },       { 4, 448, 0, 1000, 448 },
    { 4, 448, 0, -1000, -448 },    { 4, 448, 0, 3.14159f, 3.25f },
    { 4, 448, 1, 0.0009765625f, 0.001953125f },
    { 4, 448, 1, 0.0048828125f, 0.005859375f },
    { 4, 448, 1, 0.0166015625f, 0.017578125f }, { 4, 448, 1, 1.0625f, 1.125f },
    { 4, 448, 1, -1.0625f, -1.125f }, { 4, 448, 1, 1.1875f, 1.25f },
    { 4, 448, 1, 17, 18 },         { 4, 448, 1, 19, 20 },
    { 4, 448, 6, 2.1f, 2.25f },    { 4, 448, 6, 1.0625f, 1.125f },
    { 4, 448, 6, -1.0625f, -1.125f }, { 4, 448, 6, 0.3f, 0.3125f },
    { 5, 57344, 0, 1.1f, 1 },      { 5, 57344, 0, 1.125f, 1 },
    { 5, 57344, 0, 1.375f, 1.25f }, { 5, 57344, 0, 3, 3 },
    { 5, 57344, 0, 60000, 57344 }, { 5, 57344, 0, 1.5258789e-5f, 1.5258789e-5f },
    { 5, 57344, 0, 2.2888184e-5f, 3.0517578e-5f },
    { 5, 57344, 0, 6.1e-5f, 6.1035156e-5f },
};
/* True half-even, half-up and up (OCP): differs on ties and on negative numbers. */
static const struct { int mode; float x, y; } true_floats[] = {
    { 0, 1.1875f, 1.25f }, { 0, -1.1875f, -1.25f }, { 0, 19, 20 }, { 0, 17, 16 },
    { 1, -1.0625f, -1 },   { 1, 1.0625f, 1.125f },  { 6, -1.0625f, -1 },
    { 7, -1.0625f, -1.125f }, { 0, 464, 448 }, { 0, 0.0009765625f, 0 },
};
/* clang-format on */

static void floating_goldens(void **state)
{
    for (size_t i = 0; i < sizeof ppq_floats / sizeof ppq_floats[0]; i++) {
        qg_scheme s = fp8(ppq_floats[i].exponent_bits, ppq_floats[i].top);
        s.variant = QG_FLOAT_PPQ_TIES;
        s.rounding = (uint8_t)ppq_floats[i].mode;
        float y = fake_one(*state, &s, 1, 0, ppq_floats[i].x);
        if (y != ppq_floats[i].y)
            fail_msg("row %zu: %.9g, expected %.9g", i, (double)y,
                     (double)ppq_floats[i].y);
    }
    for (size_t i = 0; i < sizeof true_floats / sizeof true_floats[0]; i++) {
        qg_scheme s = fp8(4, 448);
        s.rounding = (uint8_t)true_floats[i].mode;
        assert_cmp_f64(fake_one(*state, &s, 1, 0, true_floats[i].x), ==,
                       true_floats[i].y);
    }
}

/* Half-even to E4M3: 253 values in [-448, 448], each the nearest of its
 * neighbourhood. */
static void a_format_has_its_number_of_values(void **state)
{
    static const struct {
        int bits, exponent;
        int64_t top;
        int values;
        uint8_t variant;
    } format[] = {
        {8,  4, 448,       253, 0            },
        { 8, 5, 57344,     247, 0            },
        { 8, 4, 240,       255, QG_FLOAT_FNUZ},
        { 8, 5, 57344,     255, QG_FLOAT_FNUZ},
        { 4, 2, 6,         15,  0            },
        { 6, 3, 28,        63,  0            },
        { 8, 3, INT64_MAX, 255, 0            }
    };
    for (size_t i = 0; i < sizeof format / sizeof format[0]; i++) {
        qg_scheme s = fp8(format[i].exponent, format[i].top);
        s.bits = (uint8_t)format[i].bits;
        s.variant = format[i].variant;
        int values = 1; /* zero */
        for (int e = -20; e < 17; e++)
            for (int m = 0; m < 64; m++) {
                float x = ldexpf(1 + (float)m / 64, e);
                if (fake_one(*state, &s, 1, 0, x) == x)
                    values += 2;
            }
        assert_int_equal(values, format[i].values);
    }
}

static void floating_blocks_and_specials(void **state)
{
    float v[] = { 1.3f, 5, -7, 0.2f, 1.3f, 5, -7, 0.2f }, scale[] = { 1, 4 };
    qg_tensor x;
    qg_tensor_init(&x, QG_F32, 2, (int64_t[]){ 1, 8 });
    x.f32 = v;
    qg_scheme s = scheme(BLOCK | FLO, 4, -6, 6); /* MXFP4 with blocks of 4 */
    s.exponent_bits = 2;
    s.axis = 1;
    s.block = 4;
    qg_qparam p = { 2, scale, NULL };
    assert_ok(*state, qg_fake_quantize(*state, "t", &s, &p, &x, &x));
    static const float want[] = { 1.5f, 4, -6, 0, 2, 4, -8, 0 };
    for (int i = 0; i < 8; i++)
        assert_cmp_f64(v[i], ==, want[i]);
    s = fp8(4, 448);
    assert_true(isnan(fake_one(*state, &s, 1, 0, NAN)));
    assert_cmp_f64(fake_one(*state, &s, 1, 0, -INFINITY), ==, -448);
    s = scheme(TENSOR | FLO, 16, -INT64_MAX, INT64_MAX); /* bfloat16 */
    s.exponent_bits = 8;
    assert_cmp_f64(fake_one(*state, &s, 1, 0, 1.00390625f), ==, 1); /* tie */
    assert_cmp_f64(fake_one(*state, &s, 1, 0, 1e38f), ==, 0x1.2cp126f);
    assert_cmp_f64(fake_one(*state, &s, 1, 0, INFINITY), ==, 0x1.fep127f);
}

/* A mask of the lowest float: no grid has a value or a width that is not finite. */
static void the_widest_range_is_finite(void **state)
{
    const qg_range mask = { -FLT_MAX, 3, 0, 0 }, all = { -FLT_MAX, FLT_MAX, 0, 0 };
    static const unsigned policies[] = { LIN | SYM, LIN | ASYM,
                                         LIN | SYM | QG_POWER_OF_2 };
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++)
        for (uint8_t r = 0; r < QG_NROUNDING; r++) {
            float scale;
            int32_t offset;
            qg_scheme s = scheme(TENSOR | policies[i], 8, -128, 127);
            s.rounding = r;
            qg_scheme_from_range(&s, i % 2 ? mask : all, &scale, &offset);
            assert_cmp_f64(255 * scale, <=, FLT_MAX);
            float low = fake_one(*state, &s, scale, offset, -FLT_MAX);
            assert_cmp_f64(low, <, -FLT_MAX / 4);
            assert_cmp_f64(low, >=, -FLT_MAX);
            assert_cmp_f64(fake_one(*state, &s, scale, offset, 0), ==, 0);
        }
}

static void misfits_are_named(void **state)
{
    static fixture f;
    qg_ctx *ctx = *state;
    qg_tensor x, y;
    qg_tensor_init(&x, QG_F32, 2, (int64_t[]){ 3, 4 });
    y = x;
    x.f32 = f.x;
    y.f32 = f.y;
    f.scale[0] = 1;
    qg_scheme s = scheme(CHANNEL | LIN | SYM, 8, -128, 127);
    s.axis = 1;
    qg_qparam p = { 3, f.scale, NULL };
    assert_fails(ctx, qg_fake_quantize(ctx, "Conv_1.in0", &s, &p, &x, &y), QG_ESTATE,
                 "Conv_1.in0: 3 parameters for float32[3,4], expected 4");
    p.n = 4;
    assert_fails(ctx, qg_fake_quantize(ctx, "t", &s, &p, &x, &y), QG_ENUMERIC,
                 "t: scale[1] is 0, expected finite and above 0");
    s.axis = 2;
    assert_fails(ctx, qg_fake_quantize(ctx, "t", &s, &p, &x, &y), QG_ESTATE,
                 "t: axis 2 and block 0 do not fit float32[3,4]");
    s.policy |= QG_DYNAMIC;
    assert_fails(ctx, qg_fake_quantize(ctx, "t", &s, &p, &x, &y), QG_ESTATE,
                 "t: axis 2 and block 0 do not fit float32[3,4]");
    y.dim[0] = 2;
    assert_fails(ctx, qg_fake_quantize(ctx, "t", &s, &p, &x, &y), QG_ESTATE,
                 "expected two of float32 and equal dims");
    x.stride[0] = 5;
    y = x;
    assert_fails(ctx, qg_fake_quantize(ctx, "t", &s, &p, &x, &y), QG_ESTATE,
                 "leave gaps, expected none");
}

static void empty_tensors_are_fine(void **state)
{
    float scale = 1;
    qg_tensor x;
    qg_tensor_init(&x, QG_F32, 2, (int64_t[]){ 0, 4 });
    qg_scheme s = scheme(TENSOR | LIN | SYM, 8, -128, 127);
    qg_qparam p = { 1, &scale, NULL };
    assert_ok(*state, qg_fake_quantize(*state, "t", &s, &p, &x, &x));
    s.policy |= QG_DYNAMIC;
    assert_ok(*state, qg_fake_quantize(*state, "t", &s, &p, &x, &x));
}

/* The kernels form 1.5 * 2^(23 - mantissa + exponent), and no subnormal. */
static void kernels_know_their_limits(void **state)
{
    const qg_floating p = { .low = -1,
                            .high = 1,
                            .least = -126,
                            .mantissa = 7,
                            .rounding = QG_ROUND_HALF_EVEN };
    qg_floating q = p;
    (void)state;
    assert_true(qg_floating_quick(&p));
    q.least = -127;
    assert_false(qg_floating_quick(&q));
    q = p;
    q.high = 0x1p110f; /* 110 + 24 - 7 is 127 */
    assert_true(qg_floating_quick(&q));
    q.high = 0x1p111f;
    assert_false(qg_floating_quick(&q));
    q = p;
    q.mantissa = 20;
    assert_true(qg_floating_quick(&q));
    q.mantissa = 21;
    assert_false(qg_floating_quick(&q));
}

QG_TEST_MAIN(cmocka_unit_test(kernels_know_their_limits), WITH_CTX(golden_levels),
             WITH_CTX(specials), WITH_CTX(nan_follows_the_rule),
             WITH_CTX(wide_codes_are_exact), WITH_CTX(any_granularity_in_any_layout),
             WITH_CTX(dynamic_equals_static_with_the_range),
             WITH_CTX(dynamic_range_ignores_what_is_not_finite),
             WITH_CTX(floating_goldens), WITH_CTX(a_format_has_its_number_of_values),
             WITH_CTX(floating_blocks_and_specials),
             WITH_CTX(the_widest_range_is_finite), WITH_CTX(misfits_are_named),
             WITH_CTX(empty_tensors_are_fine))

/* Observers: numbers of docs/evidence/observers.md#ppq, strides, merging, bad
 * values. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "engine/core/rng.h"
#include "engine/calib/observe.h"
#include "tests/support/endpoints.h"

typedef struct fixture {
    bench b;
    qg_observe o;
    void *state;
    double low[4], high[4];
} fixture;

static void *begun(fixture *f)
{
    void *state = qg_arena_get(f->b.ctx->arena, 1, qg_observe_bytes(&f->o));
    if (f->o.observer->begin)
        f->o.observer->begin(&f->o, state);
    return state;
}

static void open_fixture(fixture *f, const char *observer, const qg_tensor *x,
                         const qg_scheme *scheme, size_t samples)
{
    bench_open(&f->b, 1, 0);
    qg_tqc *t = f->b.t[0];
    t->scheme = *scheme;
    t->observer.name = observer;
    assert_ok(f->b.ctx, qg_observe_begin(f->b.ctx, t, x, samples, &f->o));
    f->o.keep = f->b.ctx->arena;
    f->state = f->o.observer->see ? begun(f) : NULL;
}

static qg_status see(fixture *f, void *state, size_t sample, const qg_tensor *x)
{
    return f->o.observer->see(f->b.ctx, &f->o, state, sample, x, f->b.ctx->arena);
}

/* Into f->low and f->high. */
static void finish(fixture *f)
{
    qg_found found = { .low = f->low, .high = f->high };
    assert_ok(f->b.ctx, f->o.observer->finish(f->b.ctx, &f->o, f->state,
                                              f->b.ctx->arena, &found));
}

static qg_tensor vector(float *data, int64_t n)
{
    qg_tensor t;
    qg_tensor_init(&t, QG_F32, 1, &n);
    t.f32 = data;
    return t;
}

/* Order statistics of n distinct numbers, shuffled; golden (kmin, kmax), p = .9999. */
static void percentile_takes_the_right_elements(void **state)
{
    (void)state;
    static const struct {
        int64_t n, low, high;
    } row[] = {
        {1,       0,  0     },
        { 7,      0,  6     },
        { 10000,  0,  9999  },
        { 20000,  1,  19998 },
        { 100000, 9,  99990 },
        { 150528, 15, 150512},
        { 802816, 80, 802735}
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        int64_t n = row[i].n;
        float *x = malloc((size_t)n * sizeof *x);
        qg_rng rng = { 3 };
        for (int64_t k = 0; k < n; k++)
            x[k] = (float)k;
        for (int64_t k = n - 1; k > 0; k--) {
            int64_t j = (int64_t)qg_rng_below(&rng, (uint64_t)k + 1);
            float swap = x[k];
            x[k] = x[j];
            x[j] = swap;
        }
        fixture f;
        qg_tensor t = vector(x, n);
        open_fixture(&f, "ppq-percentile", &t, &int8_scheme, 1);
        assert_ok(f.b.ctx, see(&f, f.state, 0, &t));
        finish(&f);
        assert_cmp_f64(f.low[0], ==, (double)row[i].low);
        assert_cmp_f64(f.high[0], ==, (double)row[i].high);
        bench_close(&f.b);
        free(x);
    }
}

static void percentile_is_a_mean_over_samples(void **state)
{
    (void)state;
    fixture f;
    float x[3] = { 1, 2, 3 }, y[3] = { -1, 0, 7 };
    qg_tensor a = vector(x, 3), b = vector(y, 3);
    open_fixture(&f, "ppq-percentile", &a, &int8_scheme, 2);
    void *other = begun(&f);
    assert_ok(f.b.ctx, see(&f, f.state, 1, &b));
    assert_ok(f.b.ctx, see(&f, other, 0, &a));
    f.o.observer->merge(&f.o, f.state, other);
    finish(&f);
    assert_cmp_f64(f.low[0], ==, 0);
    assert_cmp_f64(f.high[0], ==, 5);
    bench_close(&f.b);
}

/* The endpoint of x, of int8, has the observer fixed, which has not begun. */
static void open_fixed(fixture *f, const qg_tensor *x, bool symmetric, double step,
                       double zero)
{
    qg_scheme s = int8_scheme;
    if (!symmetric)
        s.policy = QG_PER_TENSOR | QG_LINEAR | QG_ASYMMETRIC;
    open_fixture(f, "minmax", x, &s, 1);
    f->b.t[0]->observer = (qg_observer_setting){ .name = "fixed" };
    f->b.t[0]->observer.value[QG_PARAM_STEP] = step;
    f->b.t[0]->observer.value[QG_PARAM_ZERO] = zero;
}

/* TFLite's Softmax, [-128, 127]: 1/256 and -128; Tanh: 1/128 and 0. */
static void fixed_is_what_the_rule_says(void **state)
{
    (void)state;
    static const struct {
        double step, zero;
        bool symmetric;
        float scale;
        int32_t offset;
    } row[] = {
        {0x1p-8,     1,   false, 0x1p-8f, -128},
        { 0.0078125, 129, false, 0x1p-7f, 0   },
        { 0.0625,    256, false, 0.0625f, 127 },
        { 0.5,       0,   true,  0.5f,    0   },
        { 0.5,       1,   true,  0.5f,    0   },
    };
    float data[3] = { NAN, 2, 3 };
    qg_tensor x = vector(data, 3);
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        fixture f;
        open_fixed(&f, &x, row[i].symmetric, row[i].step, row[i].zero);
        assert_ok(f.b.ctx, qg_observe_begin(f.b.ctx, f.b.t[0], &x, 1, &f.o));
        qg_qparam p;
        f.o.samples = 1;
        assert_ok(f.b.ctx, qg_observe_tensor(f.b.ctx, &f.o, &x, 0, f.b.ctx->arena, &p));
        assert_cmp_f64(p.scale[0], ==, row[i].scale);
        assert_int_equal(p.offset[0], row[i].offset);
        bench_close(&f.b);
    }
}

/* Before anything runs. */
static void prescribed_refuses(void **state)
{
    (void)state;
    static const struct {
        double step, zero;
        bool symmetric;
        const char *message;
    } row[] = {
        {0,  1,   false, "observer fixed: step is not given, expected step=NUMBER"},
        { 0, 0,   true,  "step is not given"                                      },
        { 1, 0,   false,
         "zero is not given, expected the place of the code that means "
          "0, from 1 for code -128 to 256 for code 127"                           },
        { 1, 257, false, "zero is code 257 of 256, expected an existing code"     },
        { 1, 257, true,  "zero is code 257 of 256, expected an existing code"     },
    };
    float data[3] = { 1, 2, 3 };
    qg_tensor x = vector(data, 3);
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        fixture f;
        qg_observe o;
        open_fixed(&f, &x, row[i].symmetric, row[i].step, row[i].zero);
        assert_fails(f.b.ctx, qg_observe_begin(f.b.ctx, f.b.t[0], &x, 1, &o),
                     QG_ECONFIG, row[i].message);
        bench_close(&f.b);
    }
}

/* A 2x3x2 tensor, plain and with the channels last: channels of axis 1. */
static void minmax_tells_channels_apart(void **state)
{
    (void)state;
    float plain[12] = { 1, -2, 3, 4, 5, 6, 7, 8, -9, 10, 11, 12 }, last[12];
    const int64_t dim[] = { 2, 3, 2 };
    qg_scheme s = int8_scheme;
    s.policy = QG_PER_CHANNEL | QG_LINEAR | QG_SYMMETRIC;
    s.axis = 1;
    for (int layout = 0; layout < 2; layout++) {
        qg_tensor x, y;
        qg_tensor_init(&x, QG_F32, 3, dim);
        x.f32 = plain;
        y = x;
        qg_tensor_set_channels_last(&y);
        y.f32 = last;
        qg_tensor_copy(&x, &y);
        fixture f;
        const qg_tensor *seen = layout ? &y : &x;
        open_fixture(&f, "minmax", seen, &s, 1);
        assert_int_equal(f.o.channels, 3);
        assert_ok(f.b.ctx, see(&f, f.state, 0, seen));
        finish(&f);
        assert_cmp_f64(f.low[0], ==, -2);
        assert_cmp_f64(f.high[0], ==, 8);
        assert_cmp_f64(f.low[1], ==, -9);
        assert_cmp_f64(f.high[1], ==, 10);
        assert_cmp_f64(f.low[2], ==, 5);
        assert_cmp_f64(f.high[2], ==, 12);
        s.axis = 2; /* the innermost one */
        bench_close(&f.b);
        open_fixture(&f, "minmax", seen, &s, 1);
        assert_ok(f.b.ctx, see(&f, f.state, 0, seen));
        finish(&f);
        assert_cmp_f64(f.low[0], ==, -9);
        assert_cmp_f64(f.high[0], ==, 11);
        assert_cmp_f64(f.low[1], ==, -2);
        assert_cmp_f64(f.high[1], ==, 12);
        s.axis = 1;
        bench_close(&f.b);
    }
}

static void what_is_not_finite_is_refused(void **state)
{
    (void)state;
    static const char *const name[] = { "minmax", "ppq-percentile" };
    static const float wrong[] = { NAN, INFINITY, -INFINITY };
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 3; i++) {
            float x[3] = { 0, wrong[i], 1 };
            qg_tensor t = vector(x, 3);
            fixture f;
            open_fixture(&f, name[k], &t, &int8_scheme, 9);
            assert_fails(f.b.ctx, see(&f, f.state, 8, &t), QG_ENUMERIC,
                         "sample 8: a NaN or an infinity, expected finite numbers");
            bench_close(&f.b);
        }
}

static void a_scale_is_found(void **state)
{
    (void)state;
    fixture f;
    float x[2] = { -0.3f, 6 };
    qg_tensor t = vector(x, 2);
    open_fixture(&f, "minmax", &t, &int8_scheme, 1);
    assert_ok(f.b.ctx, see(&f, f.state, 0, &t));
    qg_qparam p;
    assert_ok(f.b.ctx,
              qg_observe_find(f.b.ctx, f.b.t[0], &f.o, f.state, f.b.ctx->arena, &p));
    assert_int_equal(p.n, 1);
    assert_cmp_f64(p.scale[0], ==, (float)(2 * 6.0 / 255));
    assert_int_equal(p.offset[0], 0);
    bench_close(&f.b);
}

static void schemes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    bench b;
    float x[2] = { 0, 1 };
    qg_tensor t = vector(x, 2);
    qg_observe out;
    bench_open(&b, 1, 0);
    b.t[0]->observer.name = "minmx";
    assert_fails(b.ctx, qg_observe_begin(b.ctx, b.t[0], &t, 1, &out), QG_ECONFIG,
                 "calibrate: n.in0: observer 'minmx'");
    b.t[0]->observer.name = "ppq-percentile";
    b.t[0]->scheme.policy = QG_PER_CHANNEL | QG_LINEAR | QG_SYMMETRIC;
    b.t[0]->scheme.axis = 3;
    assert_fails(b.ctx, qg_observe_begin(b.ctx, b.t[0], &t, 1, &out), QG_ECONFIG,
                 "n.in0: axis 3 does not fit rank 1");
    b.t[0]->scheme.axis = 0;
    assert_fails(b.ctx, qg_observe_begin(b.ctx, b.t[0], &t, 1, &out), QG_ECONFIG,
                 "observer ppq-percentile supports per-tensor only, expected minmax");
    b.t[0]->observer.name = "minmax";
    b.t[0]->scheme.policy = QG_BLOCK | QG_LINEAR | QG_SYMMETRIC;
    b.t[0]->scheme.block = 2;
    assert_fails(b.ctx, qg_observe_begin(b.ctx, b.t[0], &t, 1, &out), QG_ECONFIG,
                 "n.in0: no observer supports a block policy, expected per-tensor or "
                 "per-channel; `qg quantize-tensor`");
    bench_close(&b);
}

/* Of a large tensor ppq-floating reads some elements, in plain order, whatever the
 * strides. */
static void floating_reads_by_strides(void **state)
{
    (void)state;
    enum { ROWS = 96, COLUMNS = 80 };
    static float plain[ROWS * COLUMNS], turned[ROWS * COLUMNS];
    static const qg_scheme e4m3 = { .policy = QG_PER_TENSOR | QG_FLOATING |
                                              QG_SYMMETRIC | QG_POWER_OF_2,
                                    .rounding = QG_ROUND_HALF_EVEN,
                                    .bits = 8,
                                    .exponent_bits = 4,
                                    .axis = -1,
                                    .qmin = -448,
                                    .qmax = 448 };
    const int64_t dim[2] = { ROWS, COLUMNS };
    qg_rng rng = { 5 };
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) {
            plain[i * COLUMNS + j] = qg_rng_range(&rng, -300, 600);
            turned[j * ROWS + i] = plain[i * COLUMNS + j];
        }
    qg_tensor x;
    fixture f;
    qg_tensor_init(&x, QG_F32, 2, dim);
    x.f32 = plain;
    open_fixture(&f, "ppq-floating", &x, &e4m3, 1);
    qg_tensor y = x;
    y.f32 = turned;
    y.stride[0] = 1;
    y.stride[1] = ROWS;
    void *other = begun(&f);
    assert_ok(f.b.ctx, see(&f, f.state, 0, &x));
    assert_ok(f.b.ctx, see(&f, other, 0, &y));
    assert_memory_equal(f.state, other, qg_observe_bytes(&f.o));
    assert_cmp_f64(*(double *)f.state, >, 0);
    bench_close(&f.b);
}

QG_TEST_MAIN(cmocka_unit_test(percentile_takes_the_right_elements),
             cmocka_unit_test(percentile_is_a_mean_over_samples),
             cmocka_unit_test(fixed_is_what_the_rule_says),
             cmocka_unit_test(prescribed_refuses),
             cmocka_unit_test(minmax_tells_channels_apart),
             cmocka_unit_test(what_is_not_finite_is_refused),
             cmocka_unit_test(floating_reads_by_strides),
             cmocka_unit_test(a_scale_is_found),
             cmocka_unit_test(schemes_that_do_not_fit_are_refused))

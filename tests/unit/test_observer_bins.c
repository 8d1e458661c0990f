/* The parts that families of observers share: bins of torch, extremes, flat arrays. */
#include "tests/support/calibration.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "engine/calib/observer_parts.h"
#include "engine/quant/observer_setting.h"

static const qg_scheme scheme = { .policy = QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC,
                                  .bits = 8,
                                  .qmin = -128,
                                  .qmax = 127,
                                  .axis = -1 };

static const qg_observer own = {
    .name = "own", .value = {[QG_PARAM_BINS] = 7, [QG_PARAM_MIN_SCALE] = 1}
};

static qg_observe observing(const qg_observer *row, qg_observer_setting *s, double bins)
{
    *s = (qg_observer_setting){ 0 };
    s->value[QG_PARAM_BINS] = bins;
    s->value[QG_PARAM_MIN_SCALE] = 0.25;
    return (
        qg_observe){ .observer = row, .scheme = &scheme, .setting = s, .channels = 1 };
}

/* Bin (int)((v - low) * bins / (high - low)), the last one with high; others and NaN
 * are dropped. */
static void torch_counts_what_is_in_range(void **state)
{
    static const float x[] = { -1,   9, -0.5f, 9, -0.51f, 9, 0,      9, 0.49f, 9,
                               0.5f, 9, 1,     9, 1.01f,  9, -1.01f, 9, NAN,   9 };
    static const int64_t both[] = { 2, 1, 2, 2 }, sizes[] = { 1, 1, 3, 2 };
    int64_t count[5] = { 0, 0, 0, 0, 7 };
    (void)state;
    qg_torch_count((qg_torch_bins){ -1, 1, false }, x, 10, 2, 4, count);
    assert_memory_equal(count, both, sizeof both);
    memset(count, 0, 4 * sizeof *count);
    qg_torch_count((qg_torch_bins){ 0, 1, true }, x, 10, 2, 4, count);
    assert_memory_equal(count, sizes, sizeof sizes);
    assert_int_equal(count[4], 7);
}

/* Differences and products beyond float32. */
static void torch_counts_the_largest_values(void **state)
{
    static const float x[] = { -3e38f, -1e38f, 0, 1e38f, 3e38f };
    static const int64_t both[] = { 1, 1, 2, 1 }, sizes[] = { 1, 2, 0, 2 };
    int64_t count[4] = { 0 };
    (void)state;
    qg_torch_count((qg_torch_bins){ -3e38f, 3e38f, false }, x, 5, 1, 4, count);
    assert_memory_equal(count, both, sizeof both);
    memset(count, 0, sizeof count);
    qg_torch_count((qg_torch_bins){ 0, 3e38f, true }, x, 5, 1, 4, count);
    assert_memory_equal(count, sizes, sizeof sizes);
}

static void count_all(const qg_observe *o, qg_binned *b, const float *x, int64_t n,
                      int64_t stride)
{
    (void)o, (void)x, (void)stride;
    b->count[0] += n;
}

static void ranges_come_before_bins(void **state)
{
    fixture *f = *state;
    qg_observer_setting s;
    qg_observe o = observing(&own, &s, 3);
    float data[] = { 3, -0.5f, 2 }, more[] = { -4, 1, 0.125f };
    qg_tensor x;
    assert_int_equal(qg_binned_bins(&o), 3);
    assert_int_equal(qg_binned_bytes(&o), sizeof(qg_binned) + 3 * sizeof(int64_t));
    qg_binned *a = calloc(1, qg_binned_bytes(&o)), *b = calloc(1, qg_binned_bytes(&o));
    qg_binned_begin(&o, a);
    qg_binned_begin(&o, b);
    assert_cmp_f64(a->all.low, ==, INFINITY);
    assert_cmp_f64(a->all.high, ==, -INFINITY);
    assert_cmp_f64(a->least, ==, INFINITY);
    assert_false(a->all.broken);
    qg_tensor_init(&x, QG_F32, 1, (int64_t[]){ 3 });
    x.f32 = data;
    assert_ok(f->ctx, qg_binned_see(f->ctx, &o, a, 0, &x, count_all));
    assert_cmp_f64(a->all.low, ==, -0.5);
    assert_cmp_f64(a->all.high, ==, 3);
    assert_cmp_f64(a->least, ==, 0.5);
    assert_cmp_f64(qg_binned_absmax(a), ==, 3);
    x.f32 = more;
    assert_ok(f->ctx, qg_binned_see(f->ctx, &o, b, 1, &x, count_all));
    assert_cmp_f64(qg_binned_absmax(b), ==, 4);
    assert_int_equal(a->count[0] + b->count[0], 0);
    o.pass = 1;
    assert_ok(f->ctx, qg_binned_see(f->ctx, &o, a, 0, &x, count_all));
    assert_ok(f->ctx, qg_binned_see(f->ctx, &o, b, 0, &x, count_all));
    a->count[2] = 5;
    b->count[2] = 6;
    qg_binned_merge(&o, a, b);
    assert_int_equal(a->count[0], 6);
    assert_int_equal(a->count[1], 0);
    assert_int_equal(a->count[2], 11);
    assert_cmp_f64(a->all.low, ==, -4);
    assert_cmp_f64(a->all.high, ==, 3);
    assert_cmp_f64(a->least, ==, 0.125);
    o.pass = 0;
    more[1] = NAN;
    assert_fails(f->ctx, qg_binned_see(f->ctx, &o, b, 4, &x, count_all), QG_ENUMERIC,
                 "sample 4");
    free(a);
    free(b);
}

static void extents_grow(void **state)
{
    fixture *f = *state;
    qg_observer_setting s;
    qg_observe o = observing(&own, &s, 3);
    qg_extent e = { INFINITY, -INFINITY, false };
    float data[] = { 3, -0.5f, 2 };
    qg_tensor x;
    qg_tensor_init(&x, QG_F32, 1, (int64_t[]){ 3 });
    x.f32 = data;
    assert_ok(f->ctx, qg_extent_widen(f->ctx, &o, 0, &x, &e));
    data[0] = -7;
    assert_ok(f->ctx, qg_extent_widen(f->ctx, &o, 0, &x, &e));
    assert_cmp_f64(e.low, ==, -7);
    assert_cmp_f64(e.high, ==, 3);
    data[2] = INFINITY;
    assert_fails(f->ctx, qg_extent_widen(f->ctx, &o, 2, &x, &e), QG_ENUMERIC,
                 "sample 2");
    assert_true(e.broken);
}

static void edges_are_even(void **state)
{
    fixture *f = *state;
    qg_observer_setting s;
    qg_observe o = observing(&own, &s, 4);
    qg_binned *b = calloc(1, qg_binned_bytes(&o));
    qg_histogram h;
    for (int k = 0; k < 4; k++)
        b->count[k] = 10 + k;
    assert_ok(f->ctx, qg_binned_histogram(f->ctx, &o, b, (qg_range){ -1, 3, 0, 0 },
                                          f->arena, &h));
    assert_int_equal(h.bins, 4);
    assert_memory_equal(h.edge, ((double[]){ -1, 0, 1, 2, 3 }), 5 * sizeof(double));
    assert_memory_equal(h.count, ((int64_t[]){ 10, 11, 12, 13 }), 4 * sizeof(int64_t));
    free(b);
}

/* The least scale is 0.25. */
static void scales_are_raised(void **state)
{
    static const struct {
        double scale;
        float want;
        size_t raised, fit;
    } row[] = {
        {0,      0.25f,   0, 0},
        { 0.2,   0.25f,   1, 0},
        { 0.25,  0.25f,   0, 1},
        { 2,     2,       0, 1},
        { 1e300, FLT_MAX, 0, 1}
    };
    qg_observer_setting s;
    qg_observe o = observing(&own, &s, 4);
    (void)state;
    o.channels = 2;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        float scale[2] = { 9, 9 };
        int32_t offset[2] = { 9, 9 };
        qg_found found = { .scale = scale, .offset = offset };
        qg_found_scale(&o, &found, 1, row[i].scale);
        assert_true(found.is_param);
        assert_cmp_f64(scale[1], ==, row[i].want);
        assert_int_equal(offset[1], 0);
        assert_cmp_f64(scale[0], ==, 9);
        assert_int_equal(offset[0], 9);
        assert_int_equal(found.raised, row[i].raised);
        assert_int_equal(found.fit, row[i].fit);
    }
}

static void arrays_are_flat(void **state)
{
    fixture *f = *state;
    qg_observer_setting s;
    qg_observe o = observing(&own, &s, 4);
    float data[24], sum = 0;
    const float *flat;
    qg_tensor x;
    qg_tensor_init(&x, QG_F32, 3, (int64_t[]){ 2, 3, 4 });
    x.f32 = data;
    for (int i = 0; i < 24; i++)
        data[i] = ldexpf(1, i); /* a sum tells which are there */
    assert_ok(f->ctx, qg_observe_flat(f->ctx, &o, &x, f->arena, &flat));
    assert_ptr_equal(flat, data);
    qg_tensor_set_channels_last(&x);
    assert_ok(f->ctx, qg_observe_flat(f->ctx, &o, &x, f->arena, &flat));
    assert_ptr_not_equal(flat, data);
    for (int i = 0; i < 24; i++)
        sum += flat[i];
    assert_cmp_f64(sum, ==, (1 << 24) - 1);
}

#define T(test) cmocka_unit_test_setup_teardown(test, begin, end)

QG_TEST_MAIN(cmocka_unit_test(torch_counts_what_is_in_range),
             cmocka_unit_test(torch_counts_the_largest_values),
             T(ranges_come_before_bins), T(extents_grow), T(edges_are_even),
             cmocka_unit_test(scales_are_raised), T(arrays_are_flat))

/* calib/ort.h and calib/histogram.h: tables and checks of
 * docs/evidence/observers.md#bins, wrong input. */
#include "tests/support/calibration.h"

#include <float.h>
#include <math.h>

#include "engine/calib/ort.h"

static const float batches[3][6] = {
    {0.5f,  1,     1.5f, 2, 2.5f, 0.75f },
    { 0.25f, 0.5f, 3.1f,    -2.9f, 2.5f },
    { 4, 0.1f,  2}
};
static const size_t lengths[] = { 6, 5, 3 };

static void same_counts(const qg_histogram *h, size_t bins, const int64_t *want)
{
    assert_int_equal(h->bins, bins);
    for (size_t j = 0; j < bins; j++)
        assert_int_equal(h->count[j], want[j]);
}

static void absolute_growth_of_the_specification(void **state)
{
    const fixture *f = *state;
    for (int type = QG_EDGE_F32; type <= QG_EDGE_ROUNDED; type++) {
        qg_histogram_growth g = { .type = (qg_edge_type)type, .bins = 8 };
        for (int b = 0; b < 3; b++)
            assert_ok(f->ctx, qg_histogram_add_absolute(f->ctx, f->arena, &g,
                                                        batches[b], lengths[b]));
        same_counts(&g.h, 14, (int64_t[]){ 2, 1, 1, 0, 1, 0, 2, 1, 1, 1, 1, 0, 0, 1 });
        assert_cmp_f64(g.h.edge[0], ==, 0.5);
        assert_cmp_f64(g.h.edge[14], ==, 4);
        assert_int_equal(g.dropped, 2); /* 0.25 and 0.1 */
        assert_cmp_f64(g.min, ==, (double)-2.9f);
        assert_cmp_f64(g.max, ==, 4);
    }
}

static void signed_growth_of_the_specification(void **state)
{
    const fixture *f = *state;
    static const double threshold[] = { 2.5, 3.125, 4.375 };
    qg_histogram_growth g = { .bins = 8 };
    for (int b = 0; b < 3; b++) {
        assert_ok(f->ctx, qg_histogram_add_signed(f->ctx, f->arena, &g, batches[b],
                                                  lengths[b]));
        assert_cmp_f64(g.threshold, ==, threshold[b]);
    }
    same_counts(&g.h, 14, (int64_t[]){ 0, 0, 1, 0, 0, 0, 0, 4, 2, 1, 3, 2, 0, 1 });
    assert_int_equal(qg_histogram_total(&g.h), 14);
}

/* Zeros wait for the first bins; a wider batch adds bins of the first width. */
static void torch_growth_keeps_what_it_counted(void **state)
{
    const fixture *f = *state;
    static const float zeros[] = { 0, 0 }, first[] = { 1, -4 }, wider[] = { 6, 2.5f };
    qg_histogram_growth g = { .bins = 4 };
    assert_ok(f->ctx, qg_histogram_add_torch(f->ctx, f->arena, &g, zeros, 2));
    assert_cmp_int(g.h.bins, ==, 0);
    assert_ok(f->ctx, qg_histogram_add_torch(f->ctx, f->arena, &g, first, 2));
    same_counts(&g.h, 4, (int64_t[]){ 2, 1, 0, 1 });
    assert_ok(f->ctx, qg_histogram_add_torch(f->ctx, f->arena, &g, wider, 2));
    same_counts(&g.h, 6, (int64_t[]){ 2, 1, 1, 1, 0, 1 });
    assert_cmp_f64(g.h.edge[6], ==, 6);
    assert_cmp_f64(g.threshold, ==, 6);
    assert_cmp_f64(g.max, ==, 6);
}

/* Equal samples: numpy moves the ends apart; the width is not 0 then. */
static void degenerate_batches(void **state)
{
    const fixture *f = *state;
    static const float zeros[3] = { 0 }, one[] = { 1 };
    qg_histogram_growth g = { .bins = 4 }, s = { .bins = 4 };
    assert_ok(f->ctx, qg_histogram_add_absolute(f->ctx, f->arena, &g, zeros, 3));
    assert_cmp_f64(g.h.edge[0], ==, -0.5);
    assert_cmp_f64(g.h.edge[4], ==, 0.5);
    assert_int_equal(g.h.count[2], 3);
    assert_ok(f->ctx, qg_histogram_add_signed(f->ctx, f->arena, &s, zeros, 3));
    assert_ok(f->ctx, qg_histogram_add_signed(f->ctx, f->arena, &s, one, 1));
    assert_cmp_f64(s.h.edge[0], ==, -1);
    assert_cmp_f64(s.h.edge[4], ==, 1);
    same_counts(&s.h, 4, (int64_t[]){ 0, 0, 3, 1 });
}

/* A bin of 1.51 units of the smallest float is two wide: fewer would reach further. */
static void torch_growth_keeps_its_bins(void **state)
{
    const fixture *f = *state;
    static const float first[] = { 3100 * 0x1p-149f }, more[] = { 3200 * 0x1p-149f },
                       large[] = { 3e38f }, larger[] = { FLT_MAX };
    qg_histogram_growth g = { .bins = 2048 }, h = { .bins = 4 };
    assert_ok(f->ctx, qg_histogram_add_torch(f->ctx, f->arena, &g, first, 1));
    assert_fails(f->ctx, qg_histogram_add_torch(f->ctx, f->arena, &g, more, 1),
                 QG_ENUMERIC, "cannot be added, expected values that float32 tells");
    assert_ok(f->ctx, qg_histogram_add_torch(f->ctx, f->arena, &h, large, 1));
    assert_fails(f->ctx, qg_histogram_add_torch(f->ctx, f->arena, &h, larger, 1),
                 QG_ENUMERIC, "cannot be added, expected values that float32 tells");
}

static void growth_refuses_what_it_cannot_count(void **state)
{
    const fixture *f = *state;
    static const float first[] = { 1, 1 + 0x1p-20f }, far[] = { 1e30f },
                       bad[] = { 1, NAN };
    qg_histogram_growth g = { .bins = 8 }, none = { 0 };
    assert_ok(f->ctx, qg_histogram_add_absolute(f->ctx, f->arena, &g, first, 2));
    assert_fails(f->ctx, qg_histogram_add_absolute(f->ctx, f->arena, &g, far, 1),
                 QG_ECONFIG, "bins, expected 1 to 16777216");
    assert_fails(f->ctx, qg_histogram_add_signed(f->ctx, f->arena, &g, bad, 2),
                 QG_ENUMERIC, "histogram: sample 1 is nan, expected finite");
    assert_int_equal(qg_histogram_total(&g.h), 2);
    assert_fails(f->ctx, qg_histogram_add_signed(f->ctx, f->arena, &none, first, 2),
                 QG_ECONFIG, "histogram: 0 bins");
    assert_fails(f->ctx, qg_histogram_add_signed(f->ctx, f->arena, &g, first, 0),
                 QG_EDATA, "histogram: an empty batch, expected samples");
}

static void quantiles_are_left_edges(void **state)
{
    const fixture *f = *state;
    qg_histogram h;
    qg_range_choice c;
    assert_ok(f->ctx, qg_histogram_new(f->ctx, f->arena, 4, 4, &h));
    memcpy(h.count, (int64_t[]){ 2, 4, 1, 1 }, 4 * sizeof *h.count);
    assert_int_equal(qg_histogram_quantile(&h, 0.25), 0);
    assert_int_equal(qg_histogram_quantile(&h, 0.26), 1);
    assert_int_equal(qg_histogram_quantile(&h, 1), 3);
    assert_ok(f->ctx, qg_ort_percentile(f->ctx, &h, 80, true, &c));
    assert_cmp_f64(c.low, ==, -2);
    assert_cmp_f64(c.high, ==, 2);
    assert_ok(f->ctx, qg_ort_percentile(f->ctx, &h, 40, false, &c));
    assert_cmp_f64(c.low, ==, 1);
    assert_cmp_f64(c.high, ==, 1); /* 0.3 and 0.7 both in bin 1 */
    qg_ort_clip(&c, -9, 0.5);
    assert_cmp_f64(c.low, ==, 1);
    assert_cmp_f64(c.high, ==, 0.5);
    assert_fails(f->ctx, qg_ort_percentile(f->ctx, &h, 101, true, &c), QG_ECONFIG,
                 "ort-percentile: 101, expected 0 to 100");
    h.edge[2] = h.edge[1];
    assert_fails(
        f->ctx, qg_ort_percentile(f->ctx, &h, 50, true, &c), QG_EDATA,
        "ort-percentile: bin 1 is [1, 1], expected finite edges that increase");
}

/* With as many bins as levels there is one window, all of it, and nothing is lost. */
static void default_entropy_never_clips(void **state)
{
    const fixture *f = *state;
    qg_histogram h;
    qg_range_choice c;
    float d[2] = { 9, 9 };
    assert_ok(f->ctx, qg_histogram_new(f->ctx, f->arena, 8, 8, &h));
    memcpy(h.count, (int64_t[]){ 9, 0, 3, 5, 7, 1, 0, 2 }, 8 * sizeof *h.count);
    assert_ok(f->ctx, qg_ort_entropy(f->ctx, f->arena, &h, 8, d, &c));
    assert_int_equal(c.index, 0);
    assert_cmp_f64(c.low, ==, 0);
    assert_cmp_f64(c.high, ==, 8);
    assert_cmp_f64(d[0], ==, 0);
    assert_cmp_f64(d[1], ==, 9);
    assert_fails(f->ctx, qg_ort_entropy(f->ctx, f->arena, &h, 9, d, &c), QG_ECONFIG,
                 "ort-entropy: 9 levels, expected 1 to 8");
}

static void too_many_empty_bins_cannot_be_smoothed(void **state)
{
    const fixture *f = *state;
    qg_histogram h;
    qg_range_choice c = { .index = 77 };
    assert_ok(f->ctx, qg_histogram_new(f->ctx, f->arena, 20003, 1, &h));
    h.count[10001] = 1;
    assert_fails(f->ctx, qg_ort_entropy(f->ctx, f->arena, &h, 20003, NULL, &c),
                 QG_ENUMERIC, "ort-entropy: a window has more than 10000 empty bins");
    assert_int_equal(c.index, 77);
}

static void code_ranges_of_the_table(void **state)
{
    const fixture *f = *state;
    static const struct {
        qg_dtype type;
        bool symmetric, reduce;
        int32_t low, high;
    } rows[] = {
        {QG_I8,   false, false, -128, 127  },
        { QG_I8,  true,  false, -127, 127  },
        { QG_I8,  true,  true,  -64,  64   },
        { QG_U8,  true,  false, 0,    255  },
        { QG_U16, true,  true,  0,    32767},
        { QG_I4,  true,  false, -8,   7    },
    };
    qg_ort_grid g = { .least = 0.5f };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_ok(f->ctx, qg_ort_codes(f->ctx, rows[i].type, rows[i].symmetric,
                                       rows[i].reduce, &g));
        assert_int_equal(g.qmin, rows[i].low);
        assert_int_equal(g.qmax, rows[i].high);
        assert_int_equal(g.symmetric, rows[i].symmetric);
        assert_cmp_f64(g.least, ==, 0.5f);
    }
    assert_fails(f->ctx, qg_ort_codes(f->ctx, QG_I32, false, false, &g),
                 QG_EUNSUPPORTED, "ort range: type int32, expected int8");
}

static void scales_and_zero_points(void **state)
{
    const fixture *f = *state;
    qg_ort_grid g = { 0, 255, true, 0 };
    float scale;
    int32_t zero;
    assert_ok(f->ctx, qg_ort_scale_zero(f->ctx, &g, -1, 2, &scale, &zero));
    assert_cmp_f64(scale, ==, (float)(4 / 255.0));
    assert_int_equal(zero, 128);
    g.symmetric = false;
    assert_ok(f->ctx, qg_ort_scale_zero(f->ctx, &g, 1, 2, &scale, &zero));
    assert_cmp_f64(scale, ==, (float)(2 / 255.0));
    assert_int_equal(zero, 0);
    assert_ok(f->ctx, qg_ort_scale_zero(f->ctx, &g, 0, 0, &scale, &zero));
    assert_cmp_f64(scale, ==, 1);
    assert_int_equal(zero, 0);
    g = (qg_ort_grid){ -128, 127, false, 1 };
    assert_ok(f->ctx, qg_ort_scale_zero(f->ctx, &g, 0, 0, &scale, &zero));
    assert_cmp_f64(scale, ==, (float)(1 / 255.0));
    assert_int_equal(zero, -128);
    assert_fails(f->ctx, qg_ort_scale_zero(f->ctx, &g, -INFINITY, 0, &scale, &zero),
                 QG_ENUMERIC, "ort range: [-inf, 0], expected finite");
    g.qmin = 1;
    assert_fails(f->ctx, qg_ort_scale_zero(f->ctx, &g, 0, 1, &scale, &zero), QG_ECONFIG,
                 "ort range: codes [1, 127], expected to contain 0");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

QG_TEST_MAIN(TEST(absolute_growth_of_the_specification),
             TEST(signed_growth_of_the_specification),
             TEST(torch_growth_keeps_what_it_counted), TEST(degenerate_batches),
             TEST(torch_growth_keeps_its_bins),
             TEST(growth_refuses_what_it_cannot_count), TEST(quantiles_are_left_edges),
             TEST(default_entropy_never_clips),
             TEST(too_many_empty_bins_cannot_be_smoothed),
             TEST(code_ranges_of_the_table), TEST(scales_and_zero_points))

/* Observers that read statistics, against brute force over the data themselves. */
#include "tests/support/test.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "engine/core/rng.h"
#include "engine/calib/aciq.h"
#include "engine/calib/derive.h"
#include "engine/quant/fake_kernel.h"

enum { N = 50000, SAMPLES = 20 };

typedef struct fixture {
    qg_ctx *ctx;
    qg_stats *stats;
    qg_stats_value *v;
    float *x; /* [SAMPLES][N] */
} fixture;

static const qg_scheme symmetric = { .policy = QG_PER_TENSOR | QG_LINEAR | QG_SYMMETRIC,
                                     .bits = 8,
                                     .axis = -1,
                                     .qmin = -128,
                                     .qmax = 127 };
static const qg_scheme asymmetric = { .policy =
                                          QG_PER_TENSOR | QG_LINEAR | QG_ASYMMETRIC,
                                      .bits = 8,
                                      .axis = -1,
                                      .qmin = 0,
                                      .qmax = 255 };
static const qg_scheme e4m3 = { .policy = QG_PER_TENSOR | QG_FLOATING | QG_SYMMETRIC |
                                          QG_POWER_OF_2,
                                .bits = 8,
                                .exponent_bits = 4,
                                .axis = -1,
                                .qmin = -448,
                                .qmax = 448 };

/* Sums of twelve uniform numbers: near enough to normal, within -6 .. 6. */
static float normal(qg_rng *rng)
{
    float sum = -6;
    for (int i = 0; i < 12; i++)
        sum += qg_rng_float(rng);
    return sum;
}

static int open_fixture(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    const int64_t dim[] = { 1, 2, N / 2 };
    qg_rng rng = { 4 };
    qg_tensor t;
    f->ctx = qg_ctx_new(qg_alloc_libc);
    f->x = malloc((size_t)SAMPLES * N * sizeof *f->x);
    for (size_t i = 0; i < (size_t)SAMPLES * N; i++)
        f->x[i] = 0.5f * normal(&rng) + 0.25f;
    qg_tensor_init(&t, QG_F32, 3, dim);
    *state = f;
    return qg_stats_new(f->ctx, &f->stats) != QG_OK ||
           qg_stats_add_value(f->stats, "v", &t, 1,
                              QG_STATS_MOMENTS | QG_STATS_HISTOGRAM, &f->v) != QG_OK;
}

static int close_fixture(void **state)
{
    fixture *f = *state;
    qg_stats_free(f->stats);
    qg_ctx_free(f->ctx);
    free(f->x);
    free(f);
    return 0;
}

static void see_sample(fixture *f, size_t sample)
{
    const int64_t dim[] = { 1, 2, N / 2 };
    qg_arena *scratch = qg_arena_new(qg_alloc_libc);
    qg_stats_seen seen;
    qg_tensor t;
    qg_tensor_init(&t, QG_F32, 3, dim);
    t.f32 = f->x + sample * N;
    assert_ok(f->ctx, qg_stats_look(f->ctx, f->v, &t, scratch, &seen));
    assert_ok(f->ctx, qg_stats_add(f->ctx, f->v, sample, &seen, scratch));
    qg_arena_free(scratch);
}

static void see_all(fixture *f)
{
    for (size_t i = 0; i < SAMPLES; i++)
        see_sample(f, i);
}

typedef struct result {
    double low, high;
    float scale;
    int32_t offset;
    bool is_param;
} result;

static qg_status derive(fixture *f, const char *observer, const qg_scheme *s,
                        result *out)
{
    qg_observer_setting setting;
    QG_TRY(qg_observer_parse(f->ctx, observer, &setting));
    setting.value[QG_PARAM_STEP] = setting.value[QG_PARAM_ZERO] = 1; /* of fixed */
    qg_observe o = { .observer = qg_observer_find(f->ctx, setting.name),
                     .scheme = s,
                     .setting = &setting,
                     .channels = s->policy & QG_PER_TENSOR ? 1 : 2,
                     .stats = f->v };
    double low[2], high[2];
    float scale[2];
    int32_t offset[2];
    qg_found found = { .low = low, .high = high, .scale = scale, .offset = offset };
    QG_TRY(qg_stats_derive(f->ctx, &o, f->ctx->arena, &found));
    *out = (result){ low[0], high[0], scale[0], offset[0], found.is_param };
    if (!found.is_param)
        qg_scheme_from_range(s, (qg_range){ low[0], high[0], 0, 0 }, &out->scale,
                             &out->offset);
    return QG_OK;
}

static result must_derive(fixture *f, const char *observer, const qg_scheme *s)
{
    result r = { 0 };
    assert_ok(f->ctx, derive(f, observer, s, &r));
    return r;
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Between the order statistics around rank `at` of sorted x, within a bin. */
static void assert_between(double value, const float *x, double at, double width)
{
    size_t k = (size_t)(at + 0.5);
    assert_cmp_f64(value, >, (double)x[k - 1] - width);
    assert_cmp_f64(value, <, (double)x[k] + width);
}

static void ranges_are_those_of_the_data(void **state)
{
    fixture *f = *state;
    see_all(f);
    float *x = malloc((size_t)SAMPLES * N * sizeof *x);
    size_t n = (size_t)SAMPLES * N;
    memcpy(x, f->x, n * sizeof *x);
    qsort(x, n, sizeof *x, by_value);
    result r = must_derive(f, "minmax", &symmetric);
    assert_cmp_f64(r.low, ==, (double)x[0]);
    assert_cmp_f64(r.high, ==, (double)x[n - 1]);
    double width = ldexp(1, f->v->bins.exponent);
    static const char *const text[] = { "percentile", "percentile,percentile=0.99",
                                        "percentile,percentile=0.6" };
    static const double p[] = { 0.9999, 0.99, 0.6 };
    for (int k = 0; k < 3; k++) {
        r = must_derive(f, text[k], &symmetric);
        assert_between(r.high, x, p[k] * (double)n, width);
        assert_between(r.low, x, (1 - p[k]) * (double)n, width);
    }
    r = must_derive(f, "percentile,percentile=1", &symmetric);
    assert_cmp_f64(r.low, ==, (double)x[0]);
    assert_cmp_f64(r.high, ==, (double)x[n - 1]);
    free(x);
}

/* Part k of the samples is sample k here, and sample 16 + k. */
static void moving_average_goes_through_the_parts(void **state)
{
    fixture *f = *state;
    double low = 0, high = 0;
    see_all(f);
    for (size_t k = 0; k < QG_STATS_PARTS; k++) {
        float l = INFINITY, h = -INFINITY;
        for (size_t s = k; s < SAMPLES; s += QG_STATS_PARTS)
            for (size_t i = 0; i < N; i++) {
                l = fminf(l, f->x[s * N + i]);
                h = fmaxf(h, f->x[s * N + i]);
            }
        low = k ? low + 0.1 * ((double)l - low) : (double)l;
        high = k ? high + 0.1 * ((double)h - high) : (double)h;
    }
    result r = must_derive(f, "moving-average", &symmetric);
    assert_cmp_f64(r.low, ==, low);
    assert_cmp_f64(r.high, ==, high);
}

/* Mean squared error over the data of a linear grid. */
static double error_of(const fixture *f, const qg_scheme *s, float scale,
                       int32_t offset)
{
    double sum = 0;
    qg_linear p;
    float y[1024];
    qg_linear_init(&p, s, scale, offset);
    for (size_t i = 0; i + 1024 <= (size_t)SAMPLES * N; i += 1024) {
        qg_fake_linear(&p, f->x + i, y, 1024);
        for (size_t k = 0; k < 1024; k++)
            sum += (double)(y[k] - f->x[i + k]) * (double)(y[k] - f->x[i + k]);
    }
    return sum;
}

/* No fraction of the data's range gives an error much below. */
static void assert_least(const fixture *f, const qg_scheme *s, const result *r,
                         double low, double high)
{
    double chosen = error_of(f, s, r->scale, r->offset);
    for (int k = 20; k <= 100; k += 4) {
        float scale;
        int32_t offset;
        qg_scheme_from_range(s, (qg_range){ low * k / 100, high * k / 100, 0, 0 },
                             &scale, &offset);
        assert_cmp_f64(chosen, <=, error_of(f, s, scale, offset) * 1.001);
    }
}

static void mse_finds_the_least_error(void **state)
{
    fixture *f = *state;
    see_all(f);
    result all = must_derive(f, "minmax", &symmetric);
    static const unsigned bits[] = { 3, 4, 8 };
    for (int k = 0; k < 3; k++) {
        qg_scheme s = symmetric, a = asymmetric;
        s.bits = a.bits = (uint8_t)bits[k];
        s.qmin = -(1 << (bits[k] - 1));
        s.qmax = a.qmax / 2 >> (8 - bits[k]);
        a.qmax = (1 << bits[k]) - 1;
        result r = must_derive(f, "mse", &s);
        assert_least(f, &s, &r, all.low, all.high);
        assert_true(r.high < all.high || bits[k] > 4);
        r = must_derive(f, "mse", &a);
        assert_least(f, &a, &r, all.low, all.high);
    }
}

static void kl_clips_only_where_published(void **state)
{
    fixture *f = *state;
    see_all(f);
    result all = must_derive(f, "minmax", &symmetric);
    result kl = must_derive(f, "kl", &symmetric);
    result published = must_derive(f, "kl-published", &symmetric);
    double most = fmax(-all.low, all.high);
    assert_cmp_f64(fmax(-kl.low, kl.high), >, 0.7 * most); /* normal data: nearly all */
    assert_cmp_f64(fmax(-published.low, published.high), <, 0.6 * most);
    qg_scheme wide = symmetric; /* more levels than bins: nothing to decide */
    wide.bits = 16;
    result r = must_derive(f, "kl", &wide);
    assert_cmp_f64(r.low, ==, all.low);
    assert_cmp_f64(r.high, ==, all.high);
}

static void aciq_knows_the_normal_distribution(void **state)
{
    fixture *f = *state;
    see_all(f);
    result r = must_derive(f, "aciq-gauss,min-scale=1e-9", &symmetric);
    double t = qg_aciq_alpha(QG_ACIQ_GAUSS, 8) * 0.5; /* variance of `normal` is 1 */
    assert_cmp_f64(fabs(r.high - (0.25 + t)), <, 0.01);
    assert_cmp_f64(fabs(r.low - (0.25 - t)), <, 0.01);
    r = must_derive(f, "aciq-laplace", &symmetric);
    t = qg_aciq_alpha(QG_ACIQ_LAPLACE, 8) * 0.5 * 0.798; /* E |x| = sqrt(2 / pi) */
    result all = must_derive(f, "minmax", &symmetric);
    assert_cmp_f64(fabs(r.high - fmin(0.25 + t, all.high)), <, 0.01);
}

/* A Relu's output: zeros and half of a normal distribution of deviation 1/2. */
static void one_side_is_half_of_two(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < (size_t)SAMPLES * N; i++)
        f->x[i] = fmaxf(f->x[i] - 0.25f, 0);
    see_all(f);
    qg_scheme four = asymmetric;
    four.bits = 4;
    result r = must_derive(f, "aciq-gauss", &four);
    assert_cmp_f64(r.low, ==, 0);
    assert_cmp_f64(fabs(r.high - qg_aciq_alpha(QG_ACIQ_GAUSS, 5) * 0.5), <, 0.01);
    r = must_derive(f, "mse", &asymmetric);
    result all = must_derive(f, "minmax", &asymmetric);
    assert_least(f, &asymmetric, &r, all.low, all.high);
    assert_int_equal(r.offset, 0);
}

static void floating_schemes_get_scales(void **state)
{
    fixture *f = *state;
    see_all(f);
    result r = must_derive(f, "constant", &e4m3);
    assert_true(r.is_param);
    assert_cmp_f64(r.scale, ==, 1);
    assert_int_equal(r.offset, 0);
    r = must_derive(f, "floating", &e4m3);
    static const float candidate[] = { 0x1p-7f, 0x1p-5f, 0x1p-3f, 1, 4, 16, 64 };
    double least = DBL_MAX;
    float best = 0;
    for (int k = 0; k < 7; k++) {
        qg_floating p;
        double sum = 0;
        qg_floating_init(&p, &e4m3, candidate[k]);
        for (size_t i = 0; i < N; i++) {
            double e = (double)(qg_floating_define(&p, f->x[i]) - f->x[i]);
            sum += e * e;
        }
        best = sum < least ? candidate[k] : best;
        least = fmin(least, sum);
    }
    assert_true(r.is_param);
    assert_cmp_f64(r.scale, ==, best);
    r = must_derive(f, "mse", &e4m3);
    assert_false(r.is_param);
    assert_cmp_f64(r.high, >, 0);
}

static void zeros_are_fine(void **state)
{
    fixture *f = *state;
    memset(f->x, 0, (size_t)SAMPLES * N * sizeof *f->x);
    see_all(f);
    for (const qg_observer *const *o = qg_observers; *o; o++) {
        bool floating = ((*o)->policy & QG_FLOATING) != 0;
        if (!(*o)->pick)
            continue;
        result r = must_derive(f, (*o)->name, floating ? &e4m3 : &asymmetric);
        assert_cmp_f64(r.scale, >, 0);
        if (!r.is_param && !floating) {
            assert_cmp_f64(r.low, ==, 0);
            assert_cmp_f64(r.high, ==, 0);
            assert_cmp_f64(r.scale, ==, 1e-8f);
        }
    }
}

static void what_cannot_be_derived_is_named(void **state)
{
    fixture *f = *state;
    result r;
    qg_scheme other = symmetric;
    assert_fails(f->ctx, derive(f, "minmax", &symmetric, &r), QG_EDATA,
                 "derive: statistics of 'v': every sample is empty, expected at least "
                 "one element");
    see_sample(f, 0);
    other.policy = QG_PER_CHANNEL | QG_LINEAR | QG_SYMMETRIC;
    other.axis = 2;
    assert_fails(f->ctx, derive(f, "minmax", &other, &r), QG_ECONFIG,
                 "derive: statistics of 'v': 2 channels along axis 1, expected 2 along "
                 "axis 2");
    other.axis = 1;
    assert_ok(f->ctx, derive(f, "minmax", &other, &r));
    assert_fails(f->ctx, derive(f, "percentile", &other, &r), QG_ECONFIG,
                 "derive: statistics of 'v': no histograms of its channels (collect "
                 "--channels), expected them for observer percentile");
    f->x[N + 3] = NAN;
    see_sample(f, 1);
    assert_fails(
        f->ctx, derive(f, "minmax", &symmetric, &r), QG_ENUMERIC,
        "derive: statistics of 'v': 1 times NaN or infinity, expected finite numbers");
    f->x[2 * N + 7] = INFINITY;
    see_sample(f, 2);
    assert_fails(f->ctx, derive(f, "minmax", &symmetric, &r), QG_ENUMERIC,
                 "derive: statistics of 'v': 2 times NaN or infinity");
}

/* Every part sees a million normal numbers: percentiles settle at once, one outlier
 * unsettles the extremes. */
static void confidence_tells_who_depends_on_single_samples(void **state)
{
    fixture *f = *state;
    qg_confidence c;
    qg_observer_setting setting = { .name = "percentile" };
    qg_observe o = { .observer = qg_observer_find(f->ctx, "percentile"),
                     .scheme = &symmetric,
                     .setting = &setting,
                     .channels = 1,
                     .stats = f->v };
    f->x[(size_t)13 * N] = 6;
    see_all(f);
    setting.value[QG_PARAM_PERCENTILE] = 0.9;
    assert_ok(f->ctx, qg_stats_confidence(f->ctx, &o, 0, f->ctx->arena, &c));
    assert_cmp_f64(c.error, >=, 0);
    assert_cmp_f64(c.error, <, 0.0125);
    o.observer = qg_observer_find(f->ctx, "minmax");
    setting.value[QG_PARAM_PERCENTILE] = 0;
    assert_ok(f->ctx, qg_stats_confidence(f->ctx, &o, 0, f->ctx->arena, &c));
    assert_int_equal(c.settled, 14); /* part 13 holds it */
    assert_cmp_f64(c.error, >, 0.25);
    assert_cmp_f64(c.error, <, 1);
}

/* Part 0 holds what no other does, and part 1 nothing: the scale settles with the
 * average that all of the others give, not with the largest of them. */
static void confidence_of_an_average_is_that_of_the_average(void **state)
{
    fixture *f = *state;
    qg_confidence c;
    qg_observer_setting setting = { .name = "moving-average" };
    qg_observe o = { .observer = qg_observer_find(f->ctx, "moving-average"),
                     .scheme = &symmetric,
                     .setting = &setting,
                     .channels = 1,
                     .stats = f->v };
    f->x[0] = 60;
    for (size_t k = 0; k < QG_STATS_PARTS; k++)
        if (k != 1)
            see_sample(f, k);
    assert_ok(f->ctx, qg_stats_confidence(f->ctx, &o, 0, f->ctx->arena, &c));
    assert_cmp_int(c.settled, >, 10); /* 60 fades by a tenth with every part */
    assert_true(qg_stats_tell(&o));
    o.observer = qg_observer_find(f->ctx, "ppq-percentile");
    assert_false(qg_stats_tell(&o));
    o.observer = qg_observer_find(f->ctx, "constant");
    assert_false(qg_stats_tell(&o));
}

/* Results of a channel go to its own place, ranges and scales. */
static void channels_have_results_of_their_own(void **state)
{
    fixture *f = *state;
    qg_observer_setting setting = { .name = "constant" };
    qg_scheme s = e4m3;
    float scale[] = { 9, 9 };
    int32_t offset[] = { 9, 9 };
    double low[] = { 9, 9 }, high[] = { 9, 9 };
    qg_found found = { .low = low, .high = high, .scale = scale, .offset = offset };
    s.policy = QG_PER_CHANNEL | QG_FLOATING | QG_SYMMETRIC | QG_POWER_OF_2;
    s.axis = 1;
    qg_observe o = { .observer = qg_observer_find(f->ctx, "constant"),
                     .scheme = &s,
                     .setting = &setting,
                     .channels = 2 };
    assert_ok(f->ctx, qg_stats_derive(f->ctx, &o, f->ctx->arena, &found));
    assert_true(found.is_param);
    for (int c = 0; c < 2; c++) {
        assert_cmp_f64(scale[c], ==, 1);
        assert_int_equal(offset[c], 0);
    }
    f->x[1] = -20; /* of channel 0 */
    f->x[N / 2 + 1] = 30;
    see_sample(f, 0);
    s = symmetric;
    s.policy = QG_PER_CHANNEL | QG_LINEAR | QG_SYMMETRIC;
    s.axis = 1;
    setting.name = "minmax";
    o.observer = qg_observer_find(f->ctx, "minmax");
    o.stats = f->v;
    assert_ok(f->ctx, qg_stats_derive(f->ctx, &o, f->ctx->arena, &found));
    assert_cmp_f64(low[0], ==, -20);
    assert_cmp_f64(low[1], >, -20);
    assert_cmp_f64(high[0], <, 30);
    assert_cmp_f64(high[1], ==, 30);
}

/* One number per sample: the largest of part k is most[k], 0 of parts that saw none. */
static void see_most(fixture *f, const double *most, size_t n)
{
    qg_tensor t;
    qg_arena *scratch = qg_arena_new(qg_alloc_libc);
    qg_tensor_init(&t, QG_F32, 3, (int64_t[]){ 1, 2, 1 });
    for (size_t k = 0; k < n; k++) {
        float x[] = { (float)most[k], 0 };
        qg_stats_seen seen;
        t.f32 = x;
        if (most[k] == 0)
            continue;
        assert_ok(f->ctx, qg_stats_look(f->ctx, f->v, &t, scratch, &seen));
        assert_ok(f->ctx, qg_stats_add(f->ctx, f->v, k, &seen, scratch));
    }
    qg_arena_free(scratch);
}

/* Scales are proportional to the largest number, so the standard error is that of the
 * maxima over the largest; it settles at the first parts within 1 % of the last. */
static void confidence_is_that_of_the_definition(void **state)
{
    static const struct {
        double most[QG_STATS_PARTS], error;
        unsigned settled;
    } row[] = {
  /* without the third 2, else 4: mean 3.5, sum of squares 3, sqrt(3 x 3/4) / 4 */
        {{ 2, 1, 4, 2 },                                      0.375,    3 },
        { { 4, 1, 2, 4 },                                     0,        1 },
        { { 3.97, 4 },                                        0.00375,  1 },
        { { 3.95, 4 },                                        0.00625,  2 }, /* far */
        { { 0, 4, 0, 2 },                                     0.25,     2 },
        { { 4 },                                              INFINITY, 1 },
        { { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4 }, INFINITY, 16},
    };
    fixture *f = *state;
    qg_confidence c;
    qg_observer_setting setting = { .name = "minmax" };
    qg_observe o = { .observer = qg_observer_find(f->ctx, "minmax"),
                     .scheme = &symmetric,
                     .setting = &setting,
                     .channels = 1 };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        qg_tensor t;
        char name[8];
        qg_tensor_init(&t, QG_F32, 3, (int64_t[]){ 1, 2, 1 });
        (void)snprintf(name, sizeof name, "v%zu", i);
        assert_ok(f->ctx, qg_stats_add_value(f->stats, name, &t, 1, 0, &f->v));
        o.stats = f->v;
        assert_fails(f->ctx, qg_stats_confidence(f->ctx, &o, 0, f->ctx->arena, &c),
                     QG_EDATA, "every sample is empty, expected at least one element");
        see_most(f, row[i].most, QG_STATS_PARTS);
        assert_ok(f->ctx, qg_stats_confidence(f->ctx, &o, 0, f->ctx->arena, &c));
        if (isinf(row[i].error))
            assert_true(isinf(c.error));
        else
            assert_float_equal(c.error, row[i].error, 1e-6);
        if (c.settled != row[i].settled)
            fail_msg("row %zu: %u", i, c.settled);
    }
}

/* The error of a deviation from the bins of parts, against the definition on statistics
 * that saw all but one of them. */
static void moments_of_parts_are_those_of_the_data(void **state)
{
    enum { PARTS = 4 };
    fixture *f = *state;
    double without[PARTS], all, mean = 0, sum = 0;
    qg_confidence c;
    qg_observer_setting setting;
    assert_ok(f->ctx, qg_observer_parse(f->ctx, "aciq-gauss,min-scale=1e-9", &setting));
    for (size_t i = 0; i < (size_t)PARTS * N; i++) { /* deviations 3 to 24 */
        float x = floorf(f->x[i] * ldexpf(6, (int)(i / N))) + 4.5f;
        f->x[i] = i % N == 0 ? 127.5f : i % N == 1 ? -127.5f : x; /* middles of bins */
    }
    for (size_t out = 0; out <= PARTS; out++) { /* in the end none is left out */
        qg_tensor t;
        char name[8];
        qg_tensor_init(&t, QG_F32, 3, (int64_t[]){ 1, 2, N / 2 });
        (void)snprintf(name, sizeof name, "w%zu", out);
        assert_ok(f->ctx,
                  qg_stats_add_value(f->stats, name, &t, 1,
                                     QG_STATS_MOMENTS | QG_STATS_HISTOGRAM, &f->v));
        for (size_t k = 0; k < PARTS; k++)
            if (k != out)
                see_sample(f, k);
        all = (double)must_derive(f, "aciq-gauss,min-scale=1e-9", &symmetric).scale;
        if (out < PARTS)
            without[out] = all;
    }
    for (size_t k = 0; k < PARTS; k++)
        mean += without[k] / PARTS;
    for (size_t k = 0; k < PARTS; k++)
        sum += (without[k] - mean) * (without[k] - mean);
    qg_observe o = { .observer = qg_observer_find(f->ctx, setting.name),
                     .scheme = &symmetric,
                     .setting = &setting,
                     .channels = 1,
                     .stats = f->v };
    assert_ok(f->ctx, qg_stats_confidence(f->ctx, &o, 0, f->ctx->arena, &c));
    assert_float_equal(c.error, sqrt(sum * 3 / 4) / all, 1e-6);
}

#define T(f) cmocka_unit_test_setup_teardown(f, open_fixture, close_fixture)

QG_TEST_MAIN(T(channels_have_results_of_their_own),
             T(confidence_is_that_of_the_definition),
             T(moments_of_parts_are_those_of_the_data), T(ranges_are_those_of_the_data),
             T(moving_average_goes_through_the_parts), T(mse_finds_the_least_error),
             T(kl_clips_only_where_published), T(aciq_knows_the_normal_distribution),
             T(one_side_is_half_of_two), T(floating_schemes_get_scales),
             T(zeros_are_fine), T(what_cannot_be_derived_is_named),
             T(confidence_tells_who_depends_on_single_samples),
             T(confidence_of_an_average_is_that_of_the_average))

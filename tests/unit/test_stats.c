/* Statistics of tensors: kernels, layouts, values that are not finite, merging. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "engine/core/rng.h"
#include "engine/calib/stats.h"

static int open_context(void **state)
{
    *state = qg_ctx_new(qg_alloc_libc);
    return *state ? 0 : -1;
}

static int close_context(void **state)
{
    qg_ctx_free(*state);
    return 0;
}

enum { ALL = QG_STATS_MOMENTS | QG_STATS_HISTOGRAM | QG_STATS_BY_CHANNEL };

static qg_tensor tensor(float *data, int32_t rank, const int64_t *dim)
{
    qg_tensor t;
    qg_tensor_init(&t, QG_F32, rank, dim);
    t.f32 = data;
    return t;
}

static void look_and_add(qg_ctx *ctx, qg_stats_value *v, size_t sample,
                         const qg_tensor *x)
{
    qg_arena *scratch = qg_arena_new(qg_alloc_libc);
    qg_stats_seen seen;
    assert_ok(ctx, qg_stats_look(ctx, v, x, scratch, &seen));
    assert_ok(ctx, qg_stats_add(ctx, v, sample, &seen, scratch));
    qg_arena_free(scratch);
}

static void assert_same_bins(const qg_dyadic *a, const qg_dyadic *b)
{
    assert_int_equal(a->exponent, b->exponent);
    assert_int_equal(a->bins, b->bins);
    assert_memory_equal(a->count, b->count, a->bins * sizeof *a->count);
}

/* Bit by bit, but for where the counts lie. */
static void assert_same(const qg_stats_value *a, const qg_stats_value *b)
{
    assert_int_equal(a->channels, b->channels);
    for (size_t c = 0; c < a->channels; c++) {
        qg_stats_channel p = a->channel[c], q = b->channel[c];
        if (a->holds & QG_STATS_BY_CHANNEL)
            assert_same_bins(&p.bins, &q.bins);
        p.bins = q.bins = (qg_dyadic){ 0 };
        assert_memory_equal(&p, &q, sizeof p);
    }
    for (size_t k = 0; k < QG_STATS_PARTS; k++) {
        const qg_stats_part *p = &a->part[k], *q = &b->part[k];
        assert_memory_equal(&p->low, &q->low, sizeof p->low);
        assert_memory_equal(&p->high, &q->high, sizeof p->high);
        assert_int_equal(p->count, q->count);
        assert_int_equal(p->zeros, q->zeros);
        if (a->holds & QG_STATS_HISTOGRAM)
            assert_same_bins(&p->bins, &q->bins);
    }
    if (a->holds & QG_STATS_HISTOGRAM)
        assert_same_bins(&a->bins, &b->bins);
}

/* --- kernels --- */

enum { CHANNELS = 5, POSITIONS = 77, BINS = 64 };

typedef struct buffers {
    float low[CHANNELS], high[CHANNELS], bad[CHANNELS];
    uint32_t zero[CHANNELS], count[QG_STATS_TABLES * BINS];
    double sum[CHANNELS * QG_STATS_LANES], square[CHANNELS * QG_STATS_LANES];
} buffers;

static qg_stats_sums begin(buffers *b)
{
    memset(b, 0, sizeof *b);
    for (size_t c = 0; c < CHANNELS; c++) {
        b->low[c] = INFINITY;
        b->high[c] = -INFINITY;
    }
    return (qg_stats_sums){ CHANNELS, b->low, b->high,  b->bad,
                            b->zero,  b->sum, b->square };
}

/* x: channels innermost, y: the same with positions innermost. */
static void use(const qg_stats_row *row, const float *x, const float *y, buffers *last,
                buffers *run)
{
    qg_stats_axis axis = { .width = 0.125f, .inverse = 8, .half = 32, .stride = BINS };
    qg_stats_sums s = begin(last);
    row->last(&s, x, POSITIONS);
    row->bin(&axis, x, CHANNELS * POSITIONS, last->count);
    s = begin(run);
    for (size_t c = 0; c < CHANNELS; c++)
        row->run(&s, c, y + c * POSITIONS, POSITIONS);
    axis.stride = 0;
    row->bin(&axis, y, CHANNELS * POSITIONS, run->count);
}

static void every_kernel_gives_the_same_bits(void **state)
{
    (void)state;
    float x[CHANNELS * POSITIONS], y[CHANNELS * POSITIONS];
    qg_rng rng = { 11 };
    size_t n;
    const qg_stats_row *const *row = qg_stats_rows(&n);
    buffers want, last, run;
    for (size_t i = 0; i < CHANNELS * POSITIONS; i++) {
        x[i] = i % 7 == 0 ? 0.0f : qg_rng_range(&rng, -4, 4) * 0.99f;
        y[i % CHANNELS * POSITIONS + i / CHANNELS] = x[i];
    }
    use(row[0], x, y, &want, &run);
    for (size_t k = 0; k < n; k++) {
        if (!row[k]->supported())
            continue;
        use(row[k], x, y, &last, &run);
        assert_memory_equal(&last, &want, sizeof want);
        for (size_t i = 0; i < BINS; i++) { /* one table instead of four */
            uint32_t sum = 0;
            for (size_t t = 0; t < QG_STATS_TABLES; t++)
                sum += last.count[t * BINS + i];
            assert_int_equal(run.count[i], sum);
        }
        memcpy(run.count, last.count, sizeof run.count);
        assert_memory_equal(&run, &want, sizeof want);
    }
}

/* --- tensors --- */

/* [2,9,3,5] in both layouts against sums by definition. */
static void a_tensor_is_counted_in_any_layout(void **state)
{
    enum { N = 2, C = 9, S = 15 };
    qg_ctx *ctx = *state;
    const int64_t dim[] = { N, C, 3, 5 };
    float plain[N * C * S], last[N * C * S];
    qg_rng rng = { 5 };
    qg_stats *s, *t;
    qg_stats_value *v, *w;
    for (size_t i = 0; i < N * C * S; i++)
        plain[i] = qg_rng_below(&rng, 5) ? qg_rng_range(&rng, -3, 9) : 0;
    qg_tensor x = tensor(plain, 4, dim), y = x;
    qg_tensor_set_channels_last(&y);
    y.f32 = last;
    qg_tensor_copy(&x, &y);
    assert_ok(ctx, qg_stats_new(ctx, &s));
    assert_ok(ctx, qg_stats_new(ctx, &t));
    assert_int_equal(qg_stats_axis_of(&x), 1);
    unsigned holds = QG_STATS_MOMENTS | QG_STATS_HISTOGRAM;
    assert_ok(ctx, qg_stats_add_value(s, "v", &x, 1, holds, &v));
    assert_ok(ctx, qg_stats_add_value(t, "v", &x, 1, holds, &w));
    look_and_add(ctx, v, 3, &x);
    look_and_add(ctx, w, 3, &y);
    assert_same(v, w);
    for (size_t c = 0; c < C; c++) {
        long double sum = 0, square = 0;
        float low = INFINITY, high = -INFINITY;
        uint64_t zeros = 0;
        for (size_t i = 0; i < N * S; i++) {
            float e = plain[(i / S * C + c) * S + i % S];
            sum += (long double)e;
            square += (long double)e * (long double)e;
            low = fminf(low, e);
            high = fmaxf(high, e);
            zeros += e == 0;
        }
        double mean = (double)sum / (N * S), variance = (double)square / (N * S);
        variance -= mean * mean;
        assert_cmp_f64(v->channel[c].low, ==, low);
        assert_cmp_f64(v->channel[c].high, ==, high);
        assert_int_equal(v->channel[c].zeros, zeros);
        assert_int_equal(v->channel[c].count, N * S);
        assert_cmp_f64(fabs(qg_stats_mean(&v->channel[c]) - mean), <, 1e-12);
        assert_cmp_f64(fabs(qg_stats_variance(&v->channel[c]) - variance), <, 1e-12);
    }
    uint64_t want[QG_STATS_BINS] = { 0 };
    for (size_t i = 0; i < N * C * S; i++)
        want[(int)floor(ldexp(plain[i], -v->bins.exponent)) + QG_STATS_BINS / 2]++;
    assert_memory_equal(v->bins.count, want, sizeof want);
    assert_int_equal(qg_dyadic_total(&v->part[3].bins), N * C * S);
    assert_int_equal(v->part[3].count, N * C * S);
    assert_int_equal(v->part[2].count, 0);
    qg_stats_free(s);
    qg_stats_free(t);
}

static void what_is_not_finite_is_counted_and_left_out(void **state)
{
    qg_ctx *ctx = *state;
    float data[] = { 1, NAN, -2, INFINITY, 0, -INFINITY, NAN, 4, NAN, NAN, NAN, NAN };
    const int64_t dim[] = { 1, 3, 4 };
    qg_tensor x = tensor(data, 3, dim);
    qg_stats *s;
    qg_stats_value *v;
    assert_ok(ctx, qg_stats_new(ctx, &s));
    assert_ok(ctx, qg_stats_add_value(s, "v", &x, 1, ALL, &v));
    look_and_add(ctx, v, 0, &x);
    const qg_stats_channel *c = v->channel;
    assert_cmp_f64(c[0].low, ==, -2);
    assert_cmp_f64(c[0].high, ==, 1);
    assert_int_equal(c[0].count, 2);
    assert_int_equal(c[0].nans, 1);
    assert_int_equal(c[0].infinities, 1);
    assert_int_equal(c[0].zeros, 0);
    assert_cmp_f64(qg_stats_mean(&c[0]), ==, -0.5);
    assert_cmp_f64(qg_stats_variance(&c[0]), ==, 2.25);
    assert_int_equal(c[1].zeros, 1);
    assert_int_equal(c[1].nans, 1);
    assert_int_equal(c[1].infinities, 1);
    assert_int_equal(c[2].count, 0);
    assert_int_equal(c[2].nans, 4);
    assert_cmp_f64(c[2].low, >, c[2].high);
    assert_cmp_f64(qg_stats_mean(&c[2]), ==, 0);
    assert_cmp_f64(qg_stats_variance(&c[2]), ==, 0);
    qg_stats_channel all = qg_stats_total(v);
    assert_int_equal(all.count, 4);
    assert_cmp_f64(all.low, ==, -2);
    assert_cmp_f64(all.high, ==, 4);
    assert_int_equal(all.nans, 6);
    assert_int_equal(qg_dyadic_total(&v->bins), 4);
    assert_int_equal(qg_dyadic_total(&c[0].bins), 2);
    assert_int_equal(qg_dyadic_total(&c[2].bins), 0);
    assert_int_equal(v->part[0].count, 4);
    qg_stats_free(s);
}

static void sizes_that_do_not_fit_are_refused(void **state)
{
    qg_ctx *ctx = *state;
    float data[6] = { 0 };
    const int64_t dim[] = { 1, 3 }, other[] = { 1, 2 };
    qg_tensor x = tensor(data, 2, dim), y = tensor(data, 2, other);
    qg_arena *scratch = qg_arena_new(qg_alloc_libc);
    qg_stats_seen seen;
    qg_stats *s;
    qg_stats_value *v;
    assert_ok(ctx, qg_stats_new(ctx, &s));
    assert_ok(ctx, qg_stats_add_value(s, "v", &x, 1, 0, &v));
    assert_fails(ctx, qg_stats_look(ctx, v, &y, scratch, &seen), QG_EDATA,
                 "statistics: 'v': axis 1 has another extent than 3, expected the "
                 "same in every sample");
    assert_fails(ctx, qg_stats_add_value(s, "v", &x, 1, 0, &v), QG_EDATA,
                 "statistics: 'v' is listed twice, expected once");
    qg_arena_free(scratch);
    qg_stats_free(s);
}

/* --- merging --- */

static void fill(qg_rng *rng, float *x, size_t n)
{
    float size = ldexpf(1, (int)qg_rng_below(rng, 12) - 6);
    for (size_t i = 0; i < n; i++) {
        uint64_t kind = qg_rng_below(rng, 40);
        x[i] = kind == 0   ? (qg_rng_below(rng, 2) ? NAN : INFINITY)
               : kind < 10 ? (kind % 2 ? 0.0f : -0.0f)
                           : qg_rng_range(rng, -size, size);
    }
}

static void any_split_and_order_gives_the_same_bytes(void **state)
{
    enum { SAMPLES = 40, N = 3 * 50, ROUNDS = 12 };
    qg_ctx *ctx = *state;
    const int64_t dim[] = { 1, 3, 50 };
    qg_rng rng = { 99 };
    for (int round = 0; round < ROUNDS; round++) {
        float data[N];
        qg_stats *s[4]; /* one shard; three shards */
        qg_stats_value *v[4];
        qg_tensor x = tensor(data, 3, dim);
        for (int k = 0; k < 4; k++) {
            assert_ok(ctx, qg_stats_new(ctx, &s[k]));
            assert_ok(ctx, qg_stats_add_value(s[k], "v", &x, 1, ALL, &v[k]));
        }
        for (size_t i = 0; i < SAMPLES; i++) {
            uint64_t k = 1 + qg_rng_below(&rng, 3);
            fill(&rng, data, N);
            look_and_add(ctx, v[0], i, &x);
            look_and_add(ctx, v[k], i, &x);
            assert_ok(ctx, qg_stats_mark(s[0], i, i + 1));
            assert_ok(ctx, qg_stats_mark(s[k], i, i + 1));
        }
        size_t first = qg_rng_below(&rng, 3);
        for (size_t k = 1; k < 3; k++)
            assert_ok(ctx,
                      qg_stats_merge(s[1 + first], s[1 + (first + k) % 3], "a", "b"));
        assert_same(v[0], v[1 + first]);
        assert_int_equal(s[1 + first]->seen.n, 1);
        assert_int_equal(qg_stats_samples(s[1 + first]), SAMPLES);
        for (int k = 0; k < 4; k++)
            qg_stats_free(s[k]);
    }
}

static void what_does_not_belong_together_is_not_merged(void **state)
{
    qg_ctx *ctx = *state;
    const int64_t dim[] = { 1, 3 };
    qg_tensor x = tensor(NULL, 2, dim);
    qg_stats *s[2];
    qg_stats_value *v;
    for (int k = 0; k < 2; k++) {
        assert_ok(ctx, qg_stats_new(ctx, &s[k]));
        assert_ok(ctx, qg_stats_add_value(s[k], "v", &x, 1, 0, &v));
        assert_ok(ctx, qg_stats_mark(s[k], 0, 4));
        assert_ok(ctx, qg_stats_mark(s[k], 8, 12));
    }
    assert_ok(ctx, qg_stats_mark(s[1], 5, 6));
    assert_fails(ctx, qg_stats_mark(s[0], 3, 5), QG_EDATA,
                 "statistics: sample 3 was already counted, expected each sample once");
    assert_fails(ctx, qg_stats_merge(s[0], s[1], "a.qgs", "b.qgs"), QG_EDATA,
                 "merge statistics: 'a.qgs' and 'b.qgs': sample 0 was already counted, "
                 "expected each sample once");
    s[1]->manifest.graph = "77";
    assert_fails(ctx, qg_stats_merge(s[0], s[1], "a.qgs", "b.qgs"), QG_EDATA,
                 "merge statistics: 'a.qgs' and 'b.qgs': graph  and 77, expected the "
                 "same");
    s[1]->manifest.graph = "";
    assert_ok(ctx, qg_stats_add_value(s[1], "w", &x, -1, 0, &v));
    assert_fails(ctx, qg_stats_merge(s[0], s[1], "a.qgs", "b.qgs"), QG_EDATA,
                 "merge statistics: 'a.qgs' and 'b.qgs': 1 and 2 values, expected the "
                 "same");
    assert_int_equal(qg_stats_samples(s[0]), 8);
    qg_stats_free(s[0]);
    qg_stats_free(s[1]);
}

static void samples_are_a_set_of_ranges(void **state)
{
    qg_ctx *ctx = *state;
    qg_stats *s;
    assert_ok(ctx, qg_stats_new(ctx, &s));
    assert_ok(ctx, qg_stats_mark(s, 5, 7));
    assert_ok(ctx, qg_stats_mark(s, 0, 2));
    assert_ok(ctx, qg_stats_mark(s, 9, 9));
    assert_ok(ctx, qg_stats_mark(s, 3, 5));
    assert_int_equal(s->seen.n, 2);
    assert_ok(ctx, qg_stats_mark(s, 2, 3));
    assert_ok(ctx, qg_stats_mark(s, 7, 8));
    assert_int_equal(s->seen.n, 1);
    assert_int_equal(s->seen.at[0].first, 0);
    assert_int_equal(s->seen.at[0].end, 8);
    qg_stats_free(s);
}

/* Part k has the samples k, k + 16, ...: counted one by one. */
static void samples_of_parts_are_counted(void **state)
{
    static const uint64_t range[][2] = {
        {3,   5 },
        { 14, 17},
        { 30, 80}
    };
    qg_ctx *ctx = *state;
    qg_stats *s;
    assert_ok(ctx, qg_stats_new(ctx, &s));
    for (size_t i = 0; i < 3; i++)
        assert_ok(ctx, qg_stats_mark(s, range[i][0], range[i][1]));
    assert_int_equal(qg_stats_samples(s), 2 + 3 + 50);
    for (unsigned parts = 0; parts <= QG_STATS_PARTS; parts++) {
        uint64_t want = 0;
        for (size_t i = 0; i < 3; i++)
            for (uint64_t k = range[i][0]; k < range[i][1]; k++)
                want += k % QG_STATS_PARTS < parts;
        assert_int_equal(qg_stats_samples_in(s, parts), want);
    }
    qg_stats_free(s);
}

/* Channels not told apart: with sums and without, the layout does not show, nor where
 * a NaN lies. */
static void layouts_of_one_channel_are_one(void **state)
{
    enum { COUNT = 2 * 9 * 15 };
    qg_ctx *ctx = *state;
    const int64_t dim[] = { 2, 9, 3, 5 };
    float plain[COUNT], last[COUNT];
    qg_rng rng = { 8 };
    qg_stats *s[2];
    for (int bad = 0; bad < 2; bad++)
        for (unsigned holds = 0; holds < 4; holds++) {
            qg_stats_value *v[2];
            for (size_t i = 0; i < COUNT; i++)
                plain[i] = qg_rng_below(&rng, 5) ? qg_rng_range(&rng, -3, 9) : 0;
            if (bad) {
                plain[7] = NAN;
                plain[200] = -INFINITY;
            }
            qg_tensor x = tensor(plain, 4, dim), y = x;
            qg_tensor_set_channels_last(&y);
            y.f32 = last;
            qg_tensor_copy(&x, &y);
            for (int k = 0; k < 2; k++) {
                assert_ok(ctx, qg_stats_new(ctx, &s[k]));
                assert_ok(ctx, qg_stats_add_value(s[k], "v", &x, -1, holds, &v[k]));
                look_and_add(ctx, v[k], 5, k ? &y : &x);
            }
            assert_same(v[0], v[1]);
            qg_stats_channel all = qg_stats_total(v[1]);
            assert_int_equal(all.count, COUNT - 2 * (size_t)bad);
            assert_int_equal(all.nans, (size_t)bad);
            qg_stats_free(s[0]);
            qg_stats_free(s[1]);
        }
}

/* The size that a file may ask for is that of the arrays it leads to. */
static void the_size_of_a_value_is_known_before(void **state)
{
    (void)state;
    const uint64_t parts = QG_STATS_PARTS * sizeof(qg_stats_part);
    const uint64_t channel = sizeof(qg_stats_channel);
    uint64_t none = qg_stats_value_bytes(0, 0);
    assert_cmp_int(none, >=, parts + sizeof(qg_stats_value));
    assert_cmp_int(none, <, 2 * parts + 2 * sizeof(qg_stats_value));
    assert_cmp_int(qg_stats_value_bytes(5, 0) - none, ==, 5 * channel);
    assert_cmp_int(qg_stats_value_bytes(0, QG_STATS_HISTOGRAM) - none, >=,
                   (QG_STATS_BINS + QG_STATS_PARTS * QG_STATS_PART_BINS) * 8);
    assert_cmp_int(qg_stats_value_bytes(5, QG_STATS_BY_CHANNEL) - none, ==,
                   5 * (channel + QG_STATS_CHANNEL_BINS * 8));
}

#define T(f) cmocka_unit_test_setup_teardown(f, open_context, close_context)

QG_TEST_MAIN(T(every_kernel_gives_the_same_bits), T(a_tensor_is_counted_in_any_layout),
             T(what_is_not_finite_is_counted_and_left_out),
             T(sizes_that_do_not_fit_are_refused),
             T(any_split_and_order_gives_the_same_bytes),
             T(what_does_not_belong_together_is_not_merged),
             T(samples_are_a_set_of_ranges), T(samples_of_parts_are_counted),
             T(layouts_of_one_channel_are_one), T(the_size_of_a_value_is_known_before))

/* Every row of util_vector.h that the CPU has: the bits of the plain row, and of the
 * definition in double within a tolerance. */
#include "ops/util_vector.h"
#include "tests/support/test.h"

#include <math.h>

#include "engine/core/rng.h"
#include "ops/util_broadcast.h"

enum { MOST = 5000, SEED = 5 };

/* Random bit patterns (NaN, infinities and subnormals among them) or numbers around
 * zero. */
static void fill(float *x, size_t n, bool any, qg_rng *rng)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t u = (uint32_t)qg_rng_next(rng);
        x[i] = qg_rng_range(rng, -12, 12);
        if (any)
            memcpy(&x[i], &u, sizeof u);
    }
}

static void assert_bits(const float *got, const float *want, size_t n, const char *what,
                        const qg_vector_row *row)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0 &&
            !(isnan(got[i]) && isnan(want[i])))
            fail_msg("seed %d: %s on %s: [%zu] is %a, expected %a", SEED, what,
                     row->isa, i, (double)got[i], (double)want[i]);
}

static void rows_map_to_the_same_bits(void **state)
{
#define X(id, f) #id,
    static const char *const names[] = { QG_MAP_F32(X) };
#undef X
    static float x[MOST], want[MOST], got[MOST];
    size_t n_rows;
    const qg_vector_row *const *row = qg_vector_rows(&n_rows);
    qg_rng rng = { SEED };
    (void)state;
    for (size_t size = 1; size <= MOST; size += 1 + size / 2)
        for (int m = 0; m < QG_NMAP; m++) {
            fill(x, size, size % 2, &rng);
            row[0]->map[m](x, want, size, 1.25f, 0.75f);
            for (size_t r = 0; r < n_rows; r++) {
                if (!row[r]->supported())
                    continue;
                memcpy(got, x, size * sizeof *x);
                row[r]->map[m](got, got, size, 1.25f, 0.75f); /* in place */
                assert_bits(got, want, size, names[m], row[r]);
            }
        }
}

/* One number for all, or one of each array. */
static void pairs_are_their_definition(void **state)
{
#define X(id, f) #id,
    static const char *const names[] = { QG_PAIR_F32(X) };
#undef X
    static float a[MOST], b[MOST], want[MOST], got[MOST];
    size_t n_rows;
    const qg_vector_row *const *row = qg_vector_rows(&n_rows);
    qg_rng rng = { SEED };
    (void)state;
    for (size_t n = 1; n <= MOST; n += 1 + n / 2)
        for (int way = 0; way < 4; way++)
            for (int p = 0; p < QG_NPAIR; p++) {
                const int64_t sa = way & 1, sb = way >> 1;
                fill(a, n, n % 2, &rng);
                fill(b, n, n % 2, &rng);
                for (size_t i = 0; i < n; i++) {
                    const float x = a[sa ? i : 0], z = b[sb ? i : 0];
#define X(id, f)                                                                       \
    if (p == QG_PAIR_##id)                                                             \
        want[i] = f;
                    QG_PAIR_F32(X)
#undef X
                }
                for (size_t r = 0; r < n_rows; r++) {
                    if (!row[r]->supported())
                        continue;
                    memcpy(got, sa ? a : b, n * sizeof *a);
                    row[r]->pair[p](sa ? got : a, sa, sa ? b : got, sb, got, n);
                    assert_bits(got, want, n, names[p], row[r]);
                }
            }
}

static float clamp(float v, float low, float high)
{
    v = v < low ? low : v;
    return v > high ? high : v;
}

static void clamped_loops_are_their_definition(void **state)
{
    enum { PERIOD = 24 };
    static float x[MOST], z[MOST], want[MOST], got[MOST], norm[MOST];
    const qg_channel_norm s = { PERIOD, z, z + PERIOD, z + 2 * PERIOD, -3, 4 };
    size_t n_rows;
    const qg_vector_row *const *row = qg_vector_rows(&n_rows);
    qg_rng rng = { SEED };
    (void)state;
    for (size_t n = 1; n <= MOST; n += 1 + n / 2) {
        fill(x, n, n % 2, &rng);
        fill(z, MOST, false, &rng);
        for (size_t i = 0; i < n; i++) {
            const size_t c = i % PERIOD;
            want[i] = clamp(x[i] + z[i], -3, 4);
            norm[i] = clamp((x[i] - s.mean[c]) * s.factor[c] + s.bias[c], -3, 4);
        }
        for (size_t r = 0; r < n_rows; r++) {
            if (!row[r]->supported())
                continue;
            memcpy(got, x, n * sizeof *x);
            row[r]->add_clamped(got, z, got, n, -3, 4); /* in place */
            assert_bits(got, want, n, "add_clamped", row[r]);
            memcpy(got, x, n * sizeof *x);
            row[r]->channel_norm(&s, got, got, (int64_t)n);
            assert_bits(got, norm, n, "channel_norm", row[r]);
        }
    }
}

/* One run by its definition, in double. */
static void define(const qg_softmax_shape *s, const float *x, float *y)
{
    double m = -INFINITY, sum = 0;
    for (int64_t i = 0; i < s->n; i++)
        m = fmax(m, (double)x[i * s->inner]);
    for (int64_t i = 0; i < s->n; i++)
        sum += exp((double)x[i * s->inner] - m);
    for (int64_t i = 0; i < s->n; i++) {
        double d = (double)x[i * s->inner] - m;
        y[i * s->inner] = (float)(s->log ? d - log(sum) : exp(d) / sum);
    }
}

static void softmax_is_its_definition(void **state)
{
    static const qg_softmax_shape shapes[] = {
        {3,    1,   1,   false},
        { 130, 2,   1,   false},
        { 7,   15,  1,   true },
        { 7,   16,  1,   false},
        { 5,   65,  1,   false},
        { 3,   700, 1,   true },
        { 2,   3,   100, false},
        { 2,   20,  65,  true },
        { 1,   33,  2,   false},
    };
    static float x[MOST], want[MOST], first[MOST], got[MOST];
    size_t n_rows;
    const qg_vector_row *const *row = qg_vector_rows(&n_rows);
    qg_rng rng = { SEED };
    (void)state;
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        const qg_softmax_shape *s = &shapes[k];
        size_t n = (size_t)(s->outer * s->n * s->inner);
        assert_cmp_int(n, <=, MOST);
        fill(x, n, false, &rng);
        for (int64_t o = 0; o < s->outer; o++)
            for (int64_t i = 0; i < s->inner; i++)
                define(s, x + o * s->n * s->inner + i, want + o * s->n * s->inner + i);
        row[0]->softmax(s, x, first);
        for (size_t i = 0; i < n; i++)
            if (!(fabsf(first[i] - want[i]) <= 1e-6f * (1 + fabsf(want[i]))))
                fail_msg("seed %d: shape %zu: [%zu] is %a, expected %a", SEED, k, i,
                         (double)first[i], (double)want[i]);
        for (size_t r = 1; r < n_rows; r++)
            if (row[r]->supported()) {
                memcpy(got, x, n * sizeof *x);
                row[r]->softmax(s, got, got); /* in place */
                assert_bits(got, first, n, "softmax", row[r]);
            }
    }
}

static void nan_spoils_its_run_only(void **state)
{
    const int64_t lengths[] = { 3, 40 };
    float x[160], y[160];
    size_t n_rows;
    const qg_vector_row *const *row = qg_vector_rows(&n_rows);
    (void)state;
    for (size_t r = 0; r < n_rows; r++)
        for (size_t k = 0; row[r]->supported() && k < 2; k++) {
            qg_softmax_shape s = { 4, lengths[k], 1, false };
            for (int64_t i = 0; i < 4 * s.n; i++)
                x[i] = i == s.n + 1 ? NAN : (float)i;
            row[r]->softmax(&s, x, y);
            for (int64_t i = 0; i < 4 * s.n; i++)
                assert_int_equal(!!isnan(y[i]), i / s.n == 1);
        }
}

/* y += a x, element by element. */
static void scaled_sums_are_their_definition(void **state)
{
    static float x[MOST], z[MOST], want[MOST], got[MOST];
    size_t n_rows;
    const qg_vector_row *const *row = qg_vector_rows(&n_rows);
    qg_rng rng = { SEED };
    (void)state;
    fill(x, MOST, false, &rng);
    fill(z, MOST, false, &rng);
    for (size_t n = 0; n <= MOST; n += 1 + n / 3) {
        for (size_t i = 0; i < n; i++)
            want[i] = z[i] + 0.75f * x[i];
        for (size_t r = 0; r < n_rows; r++) {
            if (!row[r]->supported())
                continue;
            memcpy(got, z, sizeof got);
            row[r]->add_scaled(0.75f, x, got, (int64_t)n);
            assert_bits(got, want, n, "add_scaled", row[r]);
        }
    }
}

/* Sums of x y, y from several places on, are added to what is there. */
static void dots_are_their_definition(void **state)
{
    enum { TAPS = 9, SHIFT = 7 };
    static float x[MOST], z[MOST + TAPS * SHIFT];
    int64_t at[TAPS];
    size_t n_rows;
    const qg_vector_row *const *row = qg_vector_rows(&n_rows);
    qg_rng rng = { SEED };
    (void)state;
    fill(x, MOST, false, &rng);
    fill(z, MOST + TAPS * SHIFT, false, &rng);
    for (int t = 0; t < TAPS; t++)
        at[t] = (t * 5 % TAPS) * SHIFT;
    for (size_t n = 0; n <= MOST; n += 1 + n / 3)
        for (int taps = 0; taps <= TAPS; taps++) {
            float want[TAPS], got[TAPS];
            for (int t = 0; t < TAPS; t++)
                want[t] = (float)t;
            row[0]->dots(x, z, at, taps, (int64_t)n, want);
            for (int t = 0; t < TAPS; t++) {
                double sum = t, size = t;
                for (size_t i = 0; t < taps && i < n; i++) {
                    const double one = (double)x[i] * (double)z[(size_t)at[t] + i];
                    sum += one;
                    size += fabs(one);
                }
                assert_cmp_f64(fabs((double)want[t] - sum), <=, 1e-5 * size);
            }
            for (size_t r = 1; r < n_rows; r++) {
                if (!row[r]->supported())
                    continue;
                for (int t = 0; t < TAPS; t++)
                    got[t] = (float)t;
                row[r]->dots(x, z, at, taps, (int64_t)n, got);
                assert_bits(got, want, TAPS, "dots", row[r]);
            }
        }
}

static void sums_are_their_definition(void **state)
{
    static float x[MOST], scale[MOST], bias[MOST], want[MOST], got[MOST];
    const qg_standard forms[] = {
        {0.5f,  1.5f, scale, bias},
        { 0.5f, 1.5f, scale, NULL},
        { 0.5f, 1.5f, NULL,  bias},
        { 0.5f, 1.5f, NULL,  NULL},
    };
    size_t n_rows;
    const qg_vector_row *const *row = qg_vector_rows(&n_rows);
    qg_rng rng = { SEED };
    (void)state;
    fill(x, MOST, false, &rng);
    fill(scale, MOST, false, &rng);
    fill(bias, MOST, false, &rng);
    for (size_t n = 0; n <= MOST; n += 1 + n / 3) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < n; i++) {
            sum += (double)x[i];
            squares += ((double)x[i] - 0.25) * ((double)x[i] - 0.25);
        }
        for (size_t r = 0; r < n_rows; r++) {
            if (!row[r]->supported())
                continue;
            assert_cmp_f64(row[r]->sum(x, (int64_t)n), ==, row[0]->sum(x, (int64_t)n));
            assert_cmp_f64(row[r]->squares(x, (int64_t)n, 0.25), ==,
                           row[0]->squares(x, (int64_t)n, 0.25));
            assert_cmp_f64(fabs(row[r]->sum(x, (int64_t)n) - sum), <=, 1e-9);
            assert_cmp_f64(fabs(row[r]->squares(x, (int64_t)n, 0.25) - squares), <=,
                           1e-9 * squares);
            for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
                for (size_t i = 0; i < n; i++) {
                    float v = (x[i] - 0.5f) * 1.5f;
                    v = forms[f].scale ? v * scale[i] : v;
                    want[i] = forms[f].bias ? v + bias[i] : v;
                }
                row[r]->standardize(&forms[f], x, got, (int64_t)n);
                assert_bits(got, want, n, "standardize", row[r]);
            }
        }
    }
}

/* Sums in the order of k, for every split into rows and panels. */
static void product_is_its_definition(void **state)
{
    enum { K = 7, N = 6 * QG_PANEL, ROWS = 6 };
    static float x[ROWS * K], w[N * K], panels[N * K], want[ROWS * N], got[ROWS * N];
    size_t n_rows;
    const qg_vector_row *const *row = qg_vector_rows(&n_rows);
    qg_rng rng = { SEED };
    (void)state;
    fill(x, ROWS * K, false, &rng);
    fill(w, N * K, false, &rng);
    for (int j = 0; j < N; j++)
        for (int i = 0; i < K; i++)
            panels[(j / QG_PANEL * K + i) * QG_PANEL + j % QG_PANEL] = w[j * K + i];
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < N; j++) {
            want[r * N + j] = 0;
            for (int i = 0; i < K; i++)
                want[r * N + j] += x[r * K + i] * w[j * K + i];
        }
    for (size_t k = 0; k < n_rows; k++)
        for (int64_t rows = 1; row[k]->supported() && rows <= ROWS; rows++) {
            const qg_panels p = { panels, N, K };
            row[k]->product(&p, rows, x, got);
            assert_bits(got, want, (size_t)(rows * N), "product", row[k]);
        }
}

/* As products: columns of x alone. */
static void strips_are_their_definition(void **state)
{
    enum { K = 13, N = 3 };
    static float x[K * QG_STRIP], w[N * K], want[N * QG_STRIP], got[N * QG_STRIP];
    size_t n_rows;
    const qg_vector_row *const *row = qg_vector_rows(&n_rows);
    qg_rng rng = { SEED };
    (void)state;
    fill(x, K * QG_STRIP, false, &rng);
    fill(w, N * K, false, &rng);
    for (int j = 0; j < N; j++)
        for (int c = 0; c < QG_STRIP; c++) {
            want[j * QG_STRIP + c] = 0;
            for (int i = 0; i < K; i++)
                want[j * QG_STRIP + c] += x[i * QG_STRIP + c] * w[j * K + i];
        }
    for (size_t r = 0; r < n_rows; r++)
        if (row[r]->supported()) {
            row[r]->strip(N, K, w, x, got);
            assert_bits(got, want, N * QG_STRIP, "strip", row[r]);
        }
}

static void column_means_are_their_definition(void **state)
{
    enum { ROWS = 7, N = 75 }; /* blocks of 32, and a rest */
    static float x[ROWS * N], want[N], got[N];
    size_t n_rows;
    const qg_vector_row *const *row = qg_vector_rows(&n_rows);
    qg_rng rng = { SEED };
    (void)state;
    fill(x, ROWS * N, false, &rng);
    for (int j = 0; j < N; j++) {
        double sum = 0;
        for (int i = 0; i < ROWS; i++)
            sum += (double)x[i * N + j];
        want[j] = (float)(sum / ROWS);
    }
    for (size_t r = 0; r < n_rows; r++)
        if (row[r]->supported()) {
            row[r]->column_means(ROWS, N, N, x, got);
            assert_bits(got, want, N, "column means", row[r]);
        }
}

static void subtract(const void *a, int64_t sa, const void *b, int64_t sb, void *y,
                     size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((double *)y)[i] = (double)((const float *)a)[i * (size_t)sa] -
                           ((const double *)b)[i * (size_t)sb];
}

/* y[r][i] = a[r][i] - b[i], however many rows are computed at once. */
static void repeated_rows_are_their_definition(void **state)
{
    static float a[MOST];
    static double b[MOST], y[MOST];
    qg_rng rng = { SEED };
    (void)state;
    fill(a, MOST, false, &rng);
    for (int64_t n = 1; n <= 700; n += 1 + n / 3)
        for (int64_t rows = 1; rows * n <= MOST; rows += 1 + rows / 2) {
            qg_tensor ta, tb, ty;
            qg_tensor_init(&ta, QG_F32, 2, (const int64_t[]){ rows, n });
            qg_tensor_init(&tb, QG_F64, 1, &n);
            qg_tensor_init(&ty, QG_F64, 2, ta.dim);
            ta.f32 = a, tb.f64 = b, ty.f64 = y;
            for (int64_t i = 0; i < n; i++)
                b[i] = (double)qg_rng_float(&rng);
            qg_run_row2(subtract, &ta, &tb, &ty);
            for (int64_t i = 0; i < rows * n; i++)
                assert_cmp_f64(y[i], ==, (double)a[i] - b[i % n]);
        }
}

QG_TEST_MAIN(cmocka_unit_test(rows_map_to_the_same_bits),
             cmocka_unit_test(pairs_are_their_definition),
             cmocka_unit_test(clamped_loops_are_their_definition),
             cmocka_unit_test(softmax_is_its_definition),
             cmocka_unit_test(nan_spoils_its_run_only),
             cmocka_unit_test(sums_are_their_definition),
             cmocka_unit_test(scaled_sums_are_their_definition),
             cmocka_unit_test(dots_are_their_definition),
             cmocka_unit_test(product_is_its_definition),
             cmocka_unit_test(strips_are_their_definition),
             cmocka_unit_test(column_means_are_their_definition),
             cmocka_unit_test(repeated_rows_are_their_definition))

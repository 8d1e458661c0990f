/* learn/error_row.h: sums and gradients against the definition, element by element. */
#include "tests/support/test.h"

#include "engine/core/rng.h"
#include "engine/learn/error_row.h"

enum { SEED = 6, MOST = 3 * QG_ROW_LANES + 5 };

/* Element i belongs to lane i mod QG_ROW_LANES. */
static double sum_of(const float *y, const float *f, const double *w, size_t n)
{
    double lane[QG_ROW_LANES] = { 0 }, sum = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)y[i] - (f ? (double)f[i] : 0);
        lane[i % QG_ROW_LANES] += (w ? w[i] : 1) * d * d;
    }
    for (int j = 0; j < QG_ROW_LANES; j++)
        sum += lane[j];
    return sum;
}

static void rows_are_sums_of_lanes(void **state)
{
    (void)state;
    qg_rng rng = { SEED };
    float y[MOST], f[MOST], g[MOST];
    double weight[MOST];
    for (int i = 0; i < MOST; i++) {
        y[i] = qg_rng_range(&rng, -1, 1);
        f[i] = qg_rng_range(&rng, -1, 1);
        weight[i] = (double)qg_rng_range(&rng, 0, 2);
    }
    for (size_t n = 0; n <= MOST; n++)
        for (int weighs = 0; weighs < 2; weighs++) {
            const double *w = weighs ? weight : NULL;
            const double want = sum_of(y, f, w, n);
            assert_cmp_f64(qg_error_row(y, f, w, 0, NULL, n), ==, want);
            assert_cmp_f64(qg_error_row(y, f, w, 0.25, g, n), ==, want);
            for (size_t i = 0; i < n; i++)
                assert_cmp_f64(
                    g[i], ==,
                    (float)(2 * 0.25 * (w ? w[i] : 1) * ((double)y[i] - (double)f[i])));
            assert_cmp_f64(qg_power_row(f, w, n), ==, sum_of(f, NULL, w, n));
        }
}

QG_TEST_MAIN(cmocka_unit_test(rows_are_sums_of_lanes))

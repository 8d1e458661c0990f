/* Exact sums: order and splits do not matter, rounding happens once. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/core/rng.h"
#include "engine/number/wide.h"

static double sum_of(const double *x, size_t n)
{
    qg_wide w = { { 0 } };
    for (size_t i = 0; i < n; i++)
        qg_wide_add(&w, x[i]);
    return qg_wide_value(&w);
}

static void sums_are_exact(void **state)
{
    (void)state;
    static const struct {
        double x[4], sum;
    } row[] = {
        {{ 0, 0, 0, 0 },                            0             },
        { { 1e30, 1, -1e30, 0 },                    1             },
        { { 0x1p256, 0x1p-298, -0x1p256, 0 },       0x1p-298      },
        { { -0x1p-298, 0, 0, 0 },                   -0x1p-298     },
        { { 0x1p320, 0x1p320, 0, 0 },               0x1p321       },
        { { -0x1p320, 0x1p-298, 0, 0 },             -0x1p320      },
        { { -3, -0x1p70, 0x1p70, 0.5 },             -2.5          },
        { { 0x1p53, 1, 0, 0 },                      0x1p53        }, /* a tie */
        { { 0x1p53, 1, 0x1p-298, 0 },               0x1p53 + 2    },
        { { 0x1p53 + 2, 1, 0, 0 },                  0x1p53 + 4    },
        { { -0x1p53, -1, -0x1p-298, 0 },            -0x1p53 - 2   },
        { { 0x1.fffffep127, 0x1.fffffep127, 0, 0 }, 0x1.fffffep128},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        assert_cmp_f64(sum_of(row[i].x, 4), ==, row[i].sum);
}

/* Multiples of 2^-20 below 2^40: int64 knows the sum. */
static void any_order_and_split_gives_the_same_bits(void **state)
{
    (void)state;
    enum { N = 500, ROUNDS = 200 };
    qg_rng rng = { 20 };
    for (int round = 0; round < ROUNDS; round++) {
        qg_wide one = { { 0 } }, part[3] = { { { 0 } } };
        int64_t exact = 0;
        for (int i = 0; i < N; i++) {
            int64_t k = (int64_t)(qg_rng_next(&rng) >> 14) - (INT64_C(1) << 49);
            double x = ldexp((double)k, -20);
            exact += k;
            qg_wide_add(&one, x);
            qg_wide_add(&part[qg_rng_below(&rng, 3)], x);
        }
        unsigned first = (unsigned)qg_rng_below(&rng, 3);
        for (unsigned k = 1; k < 3; k++)
            qg_wide_merge(&part[first], &part[(first + k) % 3]);
        assert_memory_equal(&one, &part[first], sizeof one);
        assert_cmp_f64(qg_wide_value(&one), ==, ldexp((double)exact, -20));
    }
}

QG_TEST_MAIN(cmocka_unit_test(sums_are_exact),
             cmocka_unit_test(any_order_and_split_gives_the_same_bits))

/* Numbers far from all others: where the gap is, layouts, NaN, statistics. */
#include "tests/support/test.h"

#include <math.h>

#include "engine/calib/exponents.h"

static qg_far far_of(const float *x, int64_t n)
{
    qg_exponents e = { 0 };
    qg_tensor t = { .dtype = QG_F32, .rank = 1, .dim = { n } };
    qg_tensor_set_plain(&t);
    t.data = (void *)(uintptr_t)x;
    qg_exponents_add(&e, &t);
    const qg_far f = qg_exponents_far(&e);
    assert_int_equal(qg_is_far(&t), f.exponent > 0);
    return f;
}

static void the_widest_gap_counts(void **state)
{
    (void)state;
    static const struct {
        float x[4];
        qg_far far;
    } row[] = {
        {{ -512, 1, 0, 3 },                      { 127 + 9, 7, true, false }    },
        { { 512, 1, 0, 3 },                      { 127 + 9, 7, true, true }     },
        { { -10000, 1, 0, 3 },                   { 127 + 13, 11, true, false }  },
        { { -10000, 0, 0, 0 },                   { 127 + 13, 139, false, false }},
        { { 10000, -1, 0, 3 },                   { 127 + 13, 11, true, true }   },
        { { -10000, 10000, 1, 3 },               { 0 }                          },
        { { -1000, 64, 0, -3 },                  { 127 + 9, 2, true, false }    },
        { { -1000, 128, 0, -3 },                 { 0 }                          },
        { { -511, 1, 0, 0 },                     { 0 }                          },
        { { -INFINITY, 1, 0, 0 },                { 255, 127, true, false }      },
        { { -10000, -INFINITY, 0.5f, 0 },        { 255, 114, true, false }      },
        { { -NAN, 1, 0, 0 },                     { 0 }                          },
        { { -3.40282347e38f, 1e30f, 1e-20f, 1 }, { 254, 27, true, false }       },
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        const qg_far f = far_of(row[i].x, 4), want = row[i].far;
        if (f.exponent != want.exponent || f.gap != want.gap ||
            f.beside != want.beside || f.positive != want.positive)
            fail_msg("row %zu: exponent %u, gap %u, beside %d, positive %d", i,
                     f.exponent, f.gap, f.beside, f.positive);
    }
}

/* Memory that no element has is not looked at. */
static void strides_are_followed(void **state)
{
    (void)state;
    float x[] = { 1, -1e9f, 2, -1e9f, 3, -1e9f };
    qg_tensor t = { .dtype = QG_F32, .rank = 1, .dim = { 3 }, .stride = { 2 } };
    qg_exponents e = { 0 }, turned = { 0 };
    t.data = x;
    qg_exponents_add(&e, &t);
    assert_int_equal(qg_exponents_far(&e).exponent, 0);
    t = (qg_tensor){
        .dtype = QG_F32, .rank = 2, .dim = {2,  3},
                .stride = { 1, 2},
                .data = x
    };
    qg_exponents_add(&turned, &t);
    assert_int_equal(qg_exponents_far(&turned).exponent, 127 + 29);
}

static void statistics_have_the_same(void **state)
{
    static const float low[] = { -1000, -1e4f, -1e9f, -3.40282347e38f };
    qg_ctx *ctx = *state;
    for (size_t i = 0; i < sizeof low / sizeof low[0]; i++) {
        float x[] = { 1, low[i], 0, -3 };
        qg_tensor t = { .dtype = QG_F32, .rank = 1, .dim = { 4 } };
        qg_tensor_set_plain(&t);
        t.data = x;
        qg_stats_value v = { .name = "x", .axis = -1, .holds = QG_STATS_HISTOGRAM };
        qg_stats_seen seen;
        qg_exponents e = { 0 };
        assert_ok(ctx, qg_stats_value_init(ctx, ctx->arena, &t, &v));
        assert_ok(ctx, qg_stats_look(ctx, &v, &t, ctx->arena, &seen));
        assert_ok(ctx, qg_stats_add(ctx, &v, 0, &seen, ctx->arena));
        qg_exponents_add_stats(&e, &v);
        const qg_far f = qg_exponents_far(&e), want = far_of(x, 4);
        assert_int_equal(f.exponent, want.exponent);
        assert_true(f.beside);
        assert_false(f.positive);
        assert_in_range(f.gap, 7, want.gap + 1); /* bins near 0 are wide */
    }
}

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

QG_TEST_MAIN(cmocka_unit_test(the_widest_gap_counts),
             cmocka_unit_test(strides_are_followed),
             cmocka_unit_test_setup_teardown(statistics_have_the_same, open_context,
                                             close_context))

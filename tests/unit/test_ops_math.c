/* The float functions of util_math.h against the C library in double: error in units of
 * the last place of the exact result, at random arguments and at the edges. */
#include "ops/util_math.h"
#include "ops/util_span.h"
#include "tests/support/test.h"

#include <float.h>

#include "engine/core/rng.h"

enum { DRAWS = 200000, SEED = 11 };

/* |got - exact| in steps between floats at exact. */
static double ulps(float got, double exact)
{
    float near = (float)exact;
    if (isinf(near) || isnan(near))
        return memcmp(&got, &near, sizeof got) == 0 || (isnan(got) && isnan(near))
                   ? 0
                   : INFINITY;
    double step = (double)nextafterf(fabsf(near), INFINITY) - (double)fabsf(near);
    return fabs((double)got - exact) / step;
}

typedef struct function {
    const char *name;
    float (*f)(float);
    double (*exact)(double);
    float low, high;
    double error; /* what util_math.h promises */
} function;

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* clang-format off */
static const function functions[] = {
    { "exp",     qg_expf,     exp,     -87,    88,    1 },
    { "exp",     qg_expf,     exp,     -1,     1,     1 },
    { "tanh",    qg_tanhf,    tanh,    -10,    10,    2 },
    { "tanh",    qg_tanhf,    tanh,    -1e-3f, 1e-3f, 2 },
    { "erf",     qg_erff,     erf,     -5,     5,     2 },
    { "erf",     qg_erff,     erf,     -1e-3f, 1e-3f, 2 },
    { "sigmoid", qg_sigmoidf, sigmoid, -80,    80,    3 },
    { "sigmoid", qg_sigmoidf, sigmoid, -2,     2,     3 },
};
/* clang-format on */
enum { N = sizeof functions / sizeof functions[0] };

static void error_is_small(void **state)
{
    (void)state;
    qg_rng rng = { SEED };
    for (int k = 0; k < N; k++) {
        const function *fn = &functions[k];
        for (int i = 0; i < DRAWS; i++) {
            float x = qg_rng_range(&rng, fn->low, fn->high);
            if (!(ulps(fn->f(x), fn->exact((double)x)) <= fn->error))
                fail_msg("seed %d: %s(%a) = %a, expected %a", SEED, fn->name, (double)x,
                         (double)fn->f(x), fn->exact((double)x));
        }
    }
}

static void edges_are_exact(void **state)
{
    static const float edge[] = { 0,         -0.0f,     1,        -1,        INFINITY,
                                  -INFINITY, NAN,       FLT_MAX,  -FLT_MAX,  1e-38f,
                                  -1e-45f,   88.72284f, 88.7229f, -87.3366f, -103.9721f,
                                  -103.98f,  0.625f,    -0.625f,  4,         -4 };
    (void)state;
    for (int k = 0; k < N; k++)
        for (size_t i = 0; i < sizeof edge / sizeof edge[0]; i++)
            if (!(ulps(functions[k].f(edge[i]), functions[k].exact((double)edge[i])) <=
                  2))
                fail_msg("%s(%a) = %a, expected %a", functions[k].name, (double)edge[i],
                         (double)functions[k].f(edge[i]),
                         functions[k].exact((double)edge[i]));
    assert_true(qg_expf(0) == 1 && qg_sigmoidf(0) == 0.5f);
    assert_true(signbit(qg_tanhf(-0.0f)) && signbit(qg_erff(-0.0f)));
    assert_true(qg_erff(9) == 1 && qg_tanhf(-20) == -1 && qg_expf(-200) == 0);
}

/* Subnormal results lose nothing but what rounding takes. */
static void exp_reaches_subnormals(void **state)
{
    (void)state;
    qg_rng rng = { SEED };
    for (int i = 0; i < DRAWS; i++) {
        float x = qg_rng_range(&rng, -104, -87);
        double exact = exp((double)x);
        double step = 0x1p-149;
        if (!(fabs((double)qg_expf(x) - exact) <= step + exact * 0x1p-22))
            fail_msg("seed %d: exp(%a) = %a, expected %a", SEED, (double)x,
                     (double)qg_expf(x), exact);
    }
}

/* Every row that this CPU has gives the bits of the functions, at any length. */
static void rows_agree_bit_for_bit(void **state)
{
    enum { LENGTH = 1000 };
    static float x[LENGTH], y[LENGTH];
    size_t n;
    const qg_span_row *const *rows = qg_span_rows(&n);
    (void)state;
    qg_rng rng = { SEED };
    for (size_t r = 0; r < n; r++) {
        const qg_span_f32 span[] = { rows[r]->exp_f32, rows[r]->sigmoid_f32,
                                     rows[r]->tanh_f32, rows[r]->erf_f32 };
        float (*const one[])(float) = { qg_expf, qg_sigmoidf, qg_tanhf, qg_erff };
        if (!rows[r]->supported())
            continue;
        for (int i = 0; i < LENGTH; i++)
            x[i] = i == 7 ? NAN : i == 8 ? INFINITY : qg_rng_range(&rng, -110, 95);
        for (size_t f = 0; f < 4; f++) {
            const size_t length = qg_rng_below(&rng, LENGTH);
            span[f](x, y, length);
            for (size_t i = 0; i < length; i++)
                if (memcmp(&y[i], &(float){ one[f](x[i]) }, 4) != 0 && !isnan(y[i]))
                    fail_msg("%s, function %zu: %a gives %a", rows[r]->isa, f,
                             (double)x[i], (double)y[i]);
        }
    }
    assert_true(qg_span_best()->supported());
}

QG_TEST_MAIN(cmocka_unit_test(rows_agree_bit_for_bit), cmocka_unit_test(error_is_small),
             cmocka_unit_test(edges_are_exact),
             cmocka_unit_test(exp_reaches_subnormals))

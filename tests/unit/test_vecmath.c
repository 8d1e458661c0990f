/* The float functions of vecmath.h against the C library in double: error in units of
 * the last place of the exact result, over bit patterns spread evenly and at the
 * edges. */
#include "engine/number/vecmath.h"
#include "tests/support/test.h"

#include <float.h>

/* Odd, so that every low bit is met: about 600,000 of the 2^32 patterns. */
enum { STEP = 7159 };

typedef struct function {
    const char *name;
    float (*f)(float);
    double (*exact)(double);
    double ulp;  /* what vecmath.h promises */
    float least; /* the domain begins here */
} function;

static double sigmoid(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

/* clang-format off */
#define CALL(id) static float call_##id(float x) { return qg_##id##_f32(x); }
CALL(exp) CALL(expm1) CALL(log) CALL(log1p) CALL(sigmoid) CALL(tanh) CALL(erf)

static const function functions[] = {
    { "exp",     call_exp,     exp,     QG_EXP_ULP,     -INFINITY },
    { "expm1",   call_expm1,   expm1,   QG_EXPM1_ULP,   -INFINITY },
    { "log",     call_log,     log,     QG_LOG_ULP,     -INFINITY },
    { "log1p",   call_log1p,   log1p,   QG_LOG1P_ULP,   0 },
    { "sigmoid", call_sigmoid, sigmoid, QG_SIGMOID_ULP, -INFINITY },
    { "tanh",    call_tanh,    tanh,    QG_TANH_ULP,    -INFINITY },
    { "erf",     call_erf,     erf,     QG_ERF_ULP,     -INFINITY },
};
/* clang-format on */
enum { N = sizeof functions / sizeof functions[0] };

/* |got - exact| in steps between floats at exact; 0 for the same NaN-ness, infinity or
 * zero with its sign. */
static double ulps(float got, double exact)
{
    int e;
    float near = (float)exact;
    if (isnan(near))
        return isnan(got) ? 0 : INFINITY;
    if (isinf(near) || exact == 0 || !isfinite(got))
        return got == near && signbit(got) == signbit(near) ? 0 : INFINITY;
    (void)frexp(exact, &e);
    return fabs((double)got - exact) / ldexp(1, (e < -125 ? -125 : e) - 24);
}

static void check(const function *f, float x)
{
    if (x < f->least)
        return;
    double error = ulps(f->f(x), f->exact((double)x));
    if (!(error <= f->ulp))
        fail_msg("%s(%a) = %a, expected %a: %g ulp, promised %g", f->name, (double)x,
                 (double)f->f(x), f->exact((double)x), error, f->ulp);
}

static void errors_are_as_promised(void **state)
{
    (void)state;
    for (int k = 0; k < N; k++)
        for (uint64_t u = 0; u <= UINT32_MAX; u += STEP)
            check(&functions[k], qg_float_of_bits((uint32_t)u));
}

static void edges_are_exact(void **state)
{
    static const float edge[] = { 0,        1,        INFINITY,  NAN,
                                  FLT_MAX,  FLT_MIN,  0x1p-149f, 88.72284f,
                                  88.7229f, 87.3366f, 103.972f,  103.98f,
                                  0.625f,   4,        0.92f,     17,
                                  20,       0x1p24f,  0.5f,      0x1.6a09e6p-1f };
    (void)state;
    for (int k = 0; k < N; k++)
        for (size_t i = 0; i < sizeof edge / sizeof edge[0]; i++) {
            const float x[] = { edge[i], -edge[i], nextafterf(edge[i], 0),
                                nextafterf(edge[i], INFINITY) };
            for (size_t j = 0; j < sizeof x / sizeof x[0]; j++)
                check(&functions[k], x[j]);
        }
    assert_cmp_f64(qg_exp_f32(0), ==, 1);
    assert_cmp_f64(qg_sigmoid_f32(0), ==, 0.5f);
    assert_cmp_f64(qg_erf_f32(9), ==, 1);
    assert_cmp_f64(qg_tanh_f32(-20), ==, -1);
    assert_cmp_f64(qg_exp_f32(-200), ==, 0);
}

QG_TEST_MAIN(cmocka_unit_test(errors_are_as_promised),
             cmocka_unit_test(edges_are_exact))

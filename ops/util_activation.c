/* util_activation.c -- the functions by name, in float32.  Functions of one argument
 * ignore alpha and beta, so that all have the same type. */
#include "ops/util_activation.h"

#include <assert.h>
#include <math.h>

#include "engine/number/vecmath.h"
#include "ops/util_vector.h"

#define UNUSED (void)a, (void)b

static float relu(float x, float a, float b) { return UNUSED, x < 0 ? 0 : x; }
static float tangent(float x, float a, float b) { return UNUSED, qg_tanh_f32(x); }
static float sigmoid(float x, float a, float b) { return UNUSED, qg_sigmoid_f32(x); }
static float softsign(float x, float a, float b) { return UNUSED, x / (1 + fabsf(x)); }
static float affine(float x, float a, float b) { return a * x + b; }
static float leaky(float x, float a, float b) { return (void)b, x < 0 ? a * x : x; }
static float threshold(float x, float a, float b) { return (void)b, x > a ? x : 0; }
static float scaled_tangent(float x, float a, float b)
{
    return a * qg_tanh_f32(b * x);
}
static float elu(float x, float a, float b)
{
    return (void)b, x < 0 ? a * qg_expm1_f32(x) : x;
}

/* log(1 + e^x) without overflow. */
static float softplus(float x, float a, float b)
{
    return UNUSED, fmaxf(x, 0) + qg_log1p_f32(qg_exp_f32(-fabsf(x)));
}

static float hard_sigmoid(float x, float a, float b)
{
    float y = a * x + b;
    return y < 0 ? 0 : y > 1 ? 1 : y;
}

/* --- slopes ---------------------------------------------------------------------- */

/* df/dx, in double; at a corner that of PyTorch's function. */
#define SLOPE(id, expr)                                                                \
    static double id##_slope(double x, double a, double b)                             \
    {                                                                                  \
        return UNUSED, (void)x, (expr);                                                \
    }

static double squared(double x) { return x * x; }
static double logistic(double x) { return 1 / (1 + exp(-x)); }

SLOPE(relu, x > 0 ? 1 : 0)
SLOPE(tangent, 1 - squared(tanh(x)))
SLOPE(sigmoid, logistic(x) * (1 - logistic(x)))
SLOPE(softsign, 1 / squared(1 + fabs(x)))
SLOPE(softplus, logistic(x))
SLOPE(affine, a)
SLOPE(leaky, x > 0 ? 1 : a)
SLOPE(threshold, x > a ? 1 : 0)
SLOPE(scaled_tangent, a *b *(1 - squared(tanh(b * x))))
SLOPE(hard_sigmoid, a *x + b > 0 && a * x + b < 1 ? a : 0)
SLOPE(elu, x > 0 ? 1 : a * exp(x))

#define ROW(name, id, alpha, beta, a, b, map)                                          \
    { name, id, id##_slope, alpha, beta, a, b, map },
static const struct {
    const char *name;
    float (*f)(float, float, float);
    double (*slope)(double, double, double);
    bool has_alpha, has_beta;
    float alpha, beta;
    int map; /* enum qg_map, -1: no loop has these bits */
} table[] = {
    /* clang-format off */
    ROW("Relu",           relu,           false, false, 0,     0,    -1)
    ROW("Tanh",           tangent,        false, false, 0,     0,    QG_MAP_TANH)
    ROW("Sigmoid",        sigmoid,        false, false, 0,     0,    QG_MAP_SIGMOID)
    ROW("Softsign",       softsign,       false, false, 0,     0,    -1)
    ROW("Softplus",       softplus,       false, false, 0,     0,    -1)
    ROW("Affine",         affine,         true,  true,  1,     0,    -1)
    ROW("LeakyRelu",      leaky,          true,  false, 0.01f, 0,    -1)
    ROW("ThresholdedRelu", threshold,     true,  false, 1,     0,    -1)
    ROW("ScaledTanh",     scaled_tangent, true,  true,  1,     1,    -1)
    ROW("HardSigmoid",    hard_sigmoid,   true,  true,  0.2f,  0.5f,
        QG_MAP_HARD_SIGMOID)
    ROW("Elu",            elu,            true,  false, 1,     0,    QG_MAP_ELU)
    /* clang-format on */
};

/* ONNX spells the names exactly so. */
static int find(const char *name)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].name, name) == 0)
            return (int)i;
    return -1;
}

/* Alphas and betas are listed only for the functions that take them. */
qg_status qg_activations_read(qg_ctx *ctx, const qg_node *n,
                              const qg_activation_list *list, qg_activation *out)
{
    const char *const *name;
    const float *alpha, *beta;
    size_t n_name, n_alpha, n_beta;
    assert(list->n_preset > 0);
    QG_TRY(qg_attr_strings(ctx, n, "activations", &name, &n_name));
    QG_TRY(qg_attr_floats(ctx, n, "activation_alpha", &alpha, &n_alpha));
    QG_TRY(qg_attr_floats(ctx, n, "activation_beta", &beta, &n_beta));
    if (n_name && n_name != list->count)
        return qg_node_fail(ctx, QG_EMODEL, "import", n,
                            "activations has %zu values, expected %zu", n_name,
                            list->count);
    for (size_t i = 0; i < list->count; i++) {
        const char *text = n_name ? name[i] : list->preset[i % list->n_preset];
        int at = find(text);
        if (at < 0)
            return qg_node_fail(ctx, QG_EMODEL, "import", n,
                                "activation '%s', expected one of ONNX's eleven", text);
        out[i] = (qg_activation){ table[at].f, table[at].alpha, table[at].beta,
                                  table[at].map, table[at].slope };
        if (table[at].has_alpha && n_alpha)
            out[i].alpha = *alpha++, n_alpha--;
        if (table[at].has_beta && n_beta)
            out[i].beta = *beta++, n_beta--;
    }
    return QG_OK;
}

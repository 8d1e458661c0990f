/* util_activation.h -- the activation functions that recurrent operators name.
 * Source: ONNX LSTM-14, section "Activation functions"; defaults of alpha and beta are
 * those of the ONNX operator of the same name.
 *
 *     Relu  Tanh  Sigmoid  Softsign  Softplus     no parameters
 *     LeakyRelu  ThresholdedRelu  Elu             alpha
 *     Affine  ScaledTanh  HardSigmoid             alpha and beta */
#ifndef QG_OPS_UTIL_ACTIVATION_H
#define QG_OPS_UTIL_ACTIVATION_H

#include "engine/ir/graph.h"

/* One function with its parameters. */
typedef struct qg_activation {
    /* functions of one argument ignore the rest */
    float (*f)(float x, float alpha, float beta);
    float alpha, beta; /* of f */
    int map;           /* the loop of util_vector.h with the bits of f; -1: none */
    double (*slope)(double x, double alpha, double beta); /* df/dx */
} qg_activation;

/* Reads `activations`, `activation_alpha` and `activation_beta` into out[count]; absent
 * names are preset[i % n_preset].  Alphas and betas are assigned in order to the
 * functions that take them. preset: names that ONNX gives to the gates of one
 * direction. */
typedef struct qg_activation_list {
    const char *const *preset;
    size_t n_preset, count; /* length of preset; functions wanted */
} qg_activation_list;
/* QG_EMODEL for another number of names and for a name that is not in the table. */
QG_NODISCARD qg_status qg_activations_read(qg_ctx *ctx, const qg_node *n,
                                           const qg_activation_list *list,
                                           qg_activation *out);

static inline float qg_activate(const qg_activation *a, float x)
{
    return a->f(x, a->alpha, a->beta);
}

static inline double qg_activation_slope(const qg_activation *a, double x)
{
    return a->slope(x, (double)a->alpha, (double)a->beta);
}

#endif

/* derive-passive -- endpoints that wait for a source (PASSIVE_INIT) get their scale:
 *
 *   bias    scale[c] = scale of the input x scale[c] of the weight, offset 0
 *   others  (Clip bounds, Pad value) the scale of input 0, with its group
 * A bias whose input or weight stays float stays float as well, and is reported.
 * Run again after scales have changed.
 * Source: docs/evidence/ppq-behaviour.md#passive-parameters. */
#include <assert.h>

#include "passes/passes.h"

/* Is quantized and not derived. */
static bool can_lend(const qg_tqc *t)
{
    return t && qg_tqc_param(t).n > 0 && t->state != QG_TQC_FP32 &&
           t->state != QG_TQC_SOI && t->derive == QG_DERIVE_NONE;
}

/* Recorded as a near miss, because users do not expect a float bias in an integer
 * kernel. */
static qg_status stay_float(qg_pass_env *env, qg_tqc *t, const char *why)
{
    char at[QG_ENDPOINT_TEXT];
    QG_TRY(qg_pass_near_miss(env, "passive-scale", t->node, "%s stays float: %s",
                             qg_tqc_text(t, at), why));
    if (t->state != QG_TQC_PASSIVE_INIT)
        return QG_OK;
    env->changed++;
    return qg_tqc_set_state(env->quant, t, QG_TQC_FP32);
}

/* Where the weight is per channel, the last axis of the bias is its channel axis, also
 * when it has only one axis and regardless of the rule.  One scale of a weight with
 * one output channel per group (a depthwise ConvTranspose) is that of all. */
static qg_status fit_scheme(qg_pass_env *env, qg_tqc *t, const qg_tqc *weight)
{
    qg_scheme s = t->scheme;
    const qg_tensor *type = &qg_tqc_value(t)->type;
    int rank = type->rank;
    bool counts = rank > 0 && (weight->scheme.policy & QG_PER_TENSOR) == 0 &&
                  type->dim[rank - 1] == (int64_t)qg_tqc_param(weight).n;
    uint16_t granularity = QG_PER_TENSOR | QG_PER_CHANNEL | QG_BLOCK;
    s.policy = (uint16_t)((s.policy & ~granularity) |
                          (counts ? QG_PER_CHANNEL : QG_PER_TENSOR));
    s.axis = counts ? (int16_t)(rank - 1) : -1;
    return qg_tqc_set_scheme(env->quant, t, &s);
}

/* One element per output channel, or one scale for all. */
static qg_status derive_bias(qg_pass_env *env, qg_tqc *t)
{
    qg_tqc *input = qg_role_tqc(t->node, 'd'), *weight = qg_role_tqc(t->node, 'w');
    if (!can_lend(input))
        return stay_float(env, t, "its input has no scale, expected a quantized input");
    if (!can_lend(weight))
        return stay_float(env, t,
                          "its weight has no scale, expected a quantized weight");
    const qg_tensor *type = &qg_tqc_value(t)->type;
    size_t channels = qg_tqc_param(weight).n;
    if (channels > 1 &&
        (type->rank < 1 || type->dim[type->rank - 1] != (int64_t)channels))
        return stay_float(env, t,
                          "its length differs from the weight's output channels, "
                          "expected one element for each");
    QG_TRY(fit_scheme(env, t, weight));
    QG_TRY(qg_tqc_derive(env->quant, t, QG_DERIVE_BIAS, input, weight));
    env->changed++;
    return QG_OK;
}

/* Bounds and pad values are codes of the grid that lends its scale: with other limits
 * they would be clamped to these, and floats are no codes of integers.  A bias has more
 * bits. */
static qg_status take_grid(qg_pass_env *env, qg_tqc *t, const qg_tqc *input)
{
    const uint16_t granularity = QG_PER_TENSOR | QG_PER_CHANNEL | QG_BLOCK;
    const qg_scheme *from = &qg_tqc_root(input)->scheme;
    qg_scheme s = t->scheme;
    s.policy = (uint16_t)((s.policy & granularity) | (from->policy & ~granularity));
    s.bits = from->bits;
    s.exponent_bits = from->exponent_bits;
    s.variant = from->variant;
    s.qmin = from->qmin;
    s.qmax = from->qmax;
    return qg_scheme_same(&s, &t->scheme) || qg_tqc_role(t) != 'p'
               ? QG_OK
               : qg_tqc_set_scheme(env->quant, t, &s);
}

/* lend() sets the state: PASSIVE once the source has a scale. */
static qg_status borrow_input(qg_pass_env *env, qg_tqc *t)
{
    qg_tqc *input = qg_input_tqc(t->node, 0);
    if (t->up != t) /* its source had no scale when they were linked */
        input = t->up;
    if (!can_lend(input))
        return stay_float(env, t, "input 0 has no scale, expected a quantized input");
    QG_TRY(take_grid(env, t, input));
    QG_TRY(qg_tqc_lend(env->quant, t, input));
    env->changed++;
    return QG_OK;
}

static qg_status run(qg_pass_env *env)
{
    qg_quant *q = env->quant;
    for (size_t i = 0; i < q->tqc.n; i++) {
        qg_tqc *t = q->tqc.at[i];
        bool derives = t->derive == QG_DERIVE_BIAS;
        if (t->state == QG_TQC_PASSIVE_INIT && !derives)
            QG_TRY(borrow_input(env, t));
        else if (derives &&
                 (t->state == QG_TQC_PASSIVE_INIT || t->state == QG_TQC_PASSIVE))
            QG_TRY(derive_bias(env, t));
        assert(t->up);
    }
    return QG_OK;
}

const qg_pass qg_pass_derive_passive = {
    .name = "derive-passive",
    .summary = "derive the scales of biases, bounds and pad values from their sources",
    .needs = QG_A_SHAPE | QG_A_TQC,
    .run = run,
};

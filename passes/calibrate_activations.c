/* calibrate-activations -- scales of activations, from samples or from statistics:
 * every endpoint in INITIAL except constants, which calibrate-parameters handles.  See
 * calib/calibrate.h. */
#include <assert.h>

#include "engine/calib/observe.h"
#include "passes/passes.h"
#include "passes/util_constants.h"
#include "passes/util_largest.h"

/* --observer replaces the observer and its parameters, except min-scale.  A prescribed
 * scale stays: it does not depend on the data. */
static qg_status replace_observer(qg_pass_env *env, qg_tqc *t,
                                  const qg_observer_setting *given)
{
    const qg_observer *own =
        t->observer.name ? qg_observer_find(env->ctx, t->observer.name) : NULL;
    qg_observer_setting o = *given;
    if (own && own->value[QG_PARAM_STEP] != 0)
        return QG_OK;
    if (o.value[QG_PARAM_MIN_SCALE] == 0)
        o.value[QG_PARAM_MIN_SCALE] = t->observer.value[QG_PARAM_MIN_SCALE];
    return qg_tqc_set_observer(env->quant, t, &o);
}

/* endpoint: room for all TQCs. */
static qg_status choose(qg_pass_env *env, qg_tqc **endpoint, size_t *n)
{
    const qg_quant *q = env->quant;
    const char *text = env->options.observer;
    qg_observer_setting given;
    assert(*n == 0);
    if (text)
        QG_TRY(qg_observer_parse(env->ctx, text, &given));
    for (size_t i = 0; i < q->tqc.n; i++) {
        qg_tqc *t = q->tqc.at[i];
        bool off = t->state == QG_TQC_FP32 || t->state == QG_TQC_SOI;
        if (qg_tqc_is_constant(t))
            continue;
        if (text && !off) /* overlapped endpoints record it too */
            QG_TRY(replace_observer(env, t, &given));
        if (t->state != QG_TQC_INITIAL)
            continue;
        QG_TRY(qg_observer_adopt(env->quant, t));
        endpoint[(*n)++] = t;
    }
    return QG_OK;
}

/* Behaviours that quirks replace: the network whose activations are observed. */
typedef struct behaviours {
    struct watching {
        enum qg_mode mode;
        /* PPQ only: constants left for this pass. */
        qg_status (*after)(qg_pass_env *env,
                           bool (*waits)(const qg_ctx *ctx, const qg_tqc *t));
    } watching;
} behaviours;

static const behaviours ordinary = { .watching = { .mode = QG_MODE_FLOAT } };

static const qg_quirk_row quirk[] = {
    QG_SWAP(PPQ_QUANTIZED_WEIGHTS, "activations are observed with quantized weights",
            QG_PPQ "quantization/optim/calibration.py RuntimeCalibrationPass",
            behaviours, watching,
            { .mode = QG_MODE_SIMULATE, .after = qg_calibrate_constants }),
    { 0 },
};

static qg_status run(qg_pass_env *env)
{
    behaviours how = ordinary;
    qg_pass_quirks(env, &how);
    qg_arena *a = env->graph->arena;
    qg_tqc **endpoint = QG_NEWN(a, env->quant->tqc.n, qg_tqc *);
    qg_calibrate c = { .graph = env->graph,
                       .quant = env->quant,
                       .endpoint = endpoint,
                       .feed = env->feed,
                       .stats = env->stats,
                       .samples = qg_pass_samples(env),
                       .jobs = env->options.jobs,
                       .reference = env->options.reference,
                       .progress = env->progress,
                       .stage = env->stage,
                       .mode = how.watching.mode,
                       .arena = a };
    if (!endpoint)
        return qg_nomem(env->ctx);
    QG_TRY(choose(env, endpoint, &c.n_endpoint));
    qg_status s = qg_calibrate_run(env->ctx, &c, &env->calibrated);
    env->changed += env->calibrated.changed;
    for (size_t i = 0; s == QG_OK && i < env->calibrated.masked.n; i++)
        s = qg_vec_push(env->ctx, a, &env->masked, env->calibrated.masked.at[i]);
    for (size_t i = 0; s == QG_OK && i < env->calibrated.empty.n; i++)
        s = qg_vec_push(env->ctx, a, &env->empty, env->calibrated.empty.at[i]);
    for (size_t i = 0; s == QG_OK && i < env->calibrated.far.n; i++)
        s = qg_vec_push(env->ctx, a, &env->far, env->calibrated.far.at[i]);
    for (size_t i = 0; s == QG_OK && i < env->calibrated.small.n; i++)
        s = qg_vec_push(env->ctx, a, &env->small, env->calibrated.small.at[i]);
    return s == QG_OK && how.watching.after ? how.watching.after(env, NULL) : s;
}

const qg_pass qg_pass_calibrate_activations = {
    .name = "calibrate-activations",
    .summary = "compute the scales of activations from samples",
    .needs = QG_A_TOPO | QG_A_SHAPE | QG_A_TQC,
    .run = run,
    .quirk = quirk,
};

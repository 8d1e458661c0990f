/* calibrate-parameters -- scales of constants, from their values (util_constants.h).
 * PPQ runs two-pass observers once here, so their constants are calibrated with the
 * samples, while the activations are observed with float weights. */
#include "engine/calib/observer.h"
#include "passes/passes.h"
#include "passes/util_constants.h"

/* Behaviours that quirks replace. */
typedef struct behaviours {
    bool (*waits)(const qg_ctx *ctx, const qg_tqc *t); /* NULL: no constant waits */
} behaviours;

static bool ppq_waits(const qg_ctx *ctx, const qg_tqc *t)
{
    const qg_observer *o =
        t->observer.name ? qg_observer_find(ctx, t->observer.name) : NULL;
    return o && o->passes > 1;
}

static const qg_quirk_row quirk[] = {
    QG_SWAP(PPQ_QUANTIZED_WEIGHTS,
            "constants with a two-pass observer (kl, mse) are calibrated with the "
            "activations",
            QG_PPQ "quantization/optim/parameters.py ParameterQuantizePass", behaviours,
            waits, ppq_waits),
    { 0 },
};

static qg_status run(qg_pass_env *env)
{
    behaviours how = { 0 };
    qg_pass_quirks(env, &how);
    return qg_calibrate_constants(env, how.waits);
}

const qg_pass qg_pass_calibrate_parameters = {
    .name = "calibrate-parameters",
    .summary = "compute the scales of constants from their values",
    .needs = QG_A_SHAPE | QG_A_TQC,
    .run = run,
    .quirk = quirk,
};

#include "passes/util_constants.h"

#include <assert.h>

#include "engine/calib/calibrate.h"
#include "engine/calib/mask.h"
#include "engine/calib/observed.h"

/* A mask of -inf, as attention adds or selects it, has no scale: it stays in float, as
 * ONNX Runtime leaves Where whose inputs are not both quantized
 * (onnxruntime/quantization/operators/where.py, QDQWhere). */
static qg_status leave_float(qg_pass_env *env, qg_tqc *t)
{
    uint32_t changed = 0; /* the caller counts t */
    QG_TRY(qg_vec_push(env->ctx, env->graph->arena, &env->masked, t));
    return qg_tqc_release(env->quant, t, &changed);
}

/* A constant is one sample; an empty constant stays float. */
static qg_status observe(qg_pass_env *env, qg_tqc *t, qg_arena *scratch)
{
    const qg_tensor *x = qg_tqc_value(t)->constant;
    qg_qparam p;
    qg_observe o;
    if (qg_tensor_count(x) < 1)
        return qg_tqc_set_state(env->quant, t, QG_TQC_FP32); /* no elements */
    QG_TRY(qg_observe_begin(env->ctx, t, x, 1, &o));
    qg_status s = qg_observe_constant(env->ctx, &o, x,
                                      qg_range_quirks(env->quant->quirks), scratch, &p);
    if (s == QG_ENUMERIC && qg_holds_mask(qg_tqc_value(t), x))
        return leave_float(env, t);
    if (s == QG_ENUMERIC) {
        char at[QG_ENDPOINT_TEXT];
        return qg_fail(
            env->ctx, s,
            "calibrate-parameters: %s: constant '%s' contains a NaN or an infinity, "
            "expected finite numbers; 'node=%s platform=fp32' leaves the node in float",
            qg_tqc_text(t, at), qg_tqc_value(t)->name, t->node->name);
    }
    QG_TRY(s);
    if (strcmp(o.observer->name, t->observer.name) != 0)
        QG_TRY(qg_observe_note_few(env->quant, t));
    if (o.floored)
        QG_TRY(qg_vec_push(env->ctx, env->graph->arena, &env->small, t));
    QG_TRY(qg_tqc_set_param(env->quant, t, p.n, p.scale, p.offset));
    return qg_tqc_set_state(env->quant, t, QG_TQC_ACTIVATED);
}

/* Groups consist of activations; a constant in INITIAL is its own root. */
qg_status qg_calibrate_constants(qg_pass_env *env,
                                 bool (*waits)(const qg_ctx *ctx, const qg_tqc *t))
{
    qg_arena *scratch = qg_arena_new(env->ctx->alloc);
    qg_status s = scratch ? QG_OK : qg_nomem(env->ctx);
    for (size_t i = 0; s == QG_OK && i < env->quant->tqc.n; i++) {
        qg_tqc *t = env->quant->tqc.at[i];
        if (t->state != QG_TQC_INITIAL || !qg_tqc_is_constant(t))
            continue;
        assert(t->up == t);
        qg_arena_reset(scratch);
        s = qg_observer_adopt(env->quant, t);
        if (s == QG_OK && waits && waits(env->ctx, t))
            continue;
        if (s == QG_OK)
            s = observe(env, t, scratch);
        qg_graph_release(env->graph, qg_tqc_value(t)->constant);
        env->changed++;
    }
    qg_arena_free(scratch);
    return s;
}

/* unsigned-activations -- makes the symmetric grid of a value that is never negative
 * unsigned: [-128, 127] becomes [0, 255], and the step halves (except under PPQ's
 * observers, which compute the scale of a signed grid).
 *
 * For runtimes with unsigned 8-bit activations and signed weights (OpenVINO: zero
 * points add cost, the sign does not).  Every endpoint of such a value changes, so
 * fused and passive neighbours keep equal schemes; operands of which only some are
 * never negative then have different schemes, and `align` skips them.
 * Runs before calibration; off by default.
 * Source   docs/evidence/openvino.md#unsigned-activations;
 *          quant/nonnegative.h defines which values */
#include "engine/quant/nonnegative.h"
#include "passes/passes.h"

#include <assert.h>

/* Signed, symmetric, and not calibrated yet. */
static bool is_eligible(const qg_tqc *t)
{
    const qg_scheme *s = &t->scheme;
    return t->state == QG_TQC_INITIAL && s->policy & QG_LINEAR &&
           s->policy & QG_SYMMETRIC && s->qmin < 0 && s->bits < 32;
}

/* In order of ids: an endpoint is visited after the value it reads was decided, and no
 * decision makes another value negative. */
static qg_status run(qg_pass_env *env)
{
    assert(env->quant);
    qg_quant *q = env->quant;
    uint8_t *nonnegative;
    QG_TRY(qg_nonnegative_values(env->graph, env->graph->arena, &nonnegative));
    for (size_t i = 0; i < q->tqc.n; i++) {
        qg_tqc *t = q->tqc.at[i];
        const qg_value *v = qg_tqc_value(t);
        if (!is_eligible(t) || v->constant || !nonnegative[v->id])
            continue;
        qg_scheme s = t->scheme;
        s.qmin = 0;
        s.qmax = (INT64_C(1) << s.bits) - 1;
        QG_TRY(qg_tqc_set_scheme(q, t, &s));
        env->changed++;
    }
    return QG_OK;
}

const qg_pass qg_pass_unsigned_activations = {
    .name = "unsigned-activations",
    .summary = "make symmetric grids of values that are never negative unsigned",
    .needs = QG_A_TOPO | QG_A_TQC,
    .run = run,
};

#include "engine/exec/plan.h"

#include <assert.h>
#include <math.h>

/* A plan that qg_plan_free accepts from here on. */
static qg_status plan_alloc(qg_ctx *ctx, const qg_graph *g, const qg_plan_options *o,
                            qg_plan **out)
{
    qg_arena *a = qg_arena_new(ctx->alloc);
    qg_plan *p = a ? QG_NEW(a, qg_plan) : NULL;
    if (!p) {
        qg_arena_free(a);
        return qg_nomem(ctx);
    }
    p->ctx = ctx;
    p->arena = a;
    p->graph = g;
    p->options = *o;
    *out = p;
    return QG_OK;
}

qg_status qg_plan_new(qg_ctx *ctx, const qg_graph *g, const qg_plan_options *o,
                      qg_plan **out)
{
    assert(o->mode == QG_MODE_FLOAT || o->quant);
    qg_plan *p;
    QG_TRY(plan_alloc(ctx, g, o, &p));
    qg_status s = qg_plan_build(p);
    if (s == QG_OK)
        s = qg_plan_pack(p);
    if (s != QG_OK) {
        qg_plan_free(p);
        return s;
    }
    *out = p;
    return QG_OK;
}

void qg_plan_free(qg_plan *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->kernel.n; i++)
        if (p->kernel.at[i]->destroy)
            p->kernel.at[i]->destroy(p->kernel.at[i]);
    for (size_t i = 0; i < p->n_body; i++)
        qg_plan_free(p->body[i]);
    qg_arena_free(p->arena);
}

qg_status qg_plan_linear(qg_plan *p, const qg_tqc *t, const qg_tensor *type,
                         const qg_linear **out)
{
    const qg_scheme *s = &t->scheme;
    qg_qparam q = qg_tqc_param(t);
    *out = NULL;
    if (!(s->policy & QG_LINEAR) || !(s->policy & QG_PER_TENSOR) ||
        (s->policy & QG_DYNAMIC) || q.n != 1 || !(q.scale[0] > 0) ||
        !isfinite(q.scale[0]) || type->dtype != QG_F32 || !qg_tensor_known(type))
        return QG_OK;
    qg_linear *linear = QG_NEW(p->arena, qg_linear);
    if (!linear)
        return qg_nomem(p->ctx);
    qg_linear_init(linear, s, q.scale[0], q.offset ? q.offset[0] : 0);
    qg_linear_hasten(linear);
    *out = linear;
    return QG_OK;
}

#include "engine/quant/fake_tensor.h"

#include <assert.h>
#include <math.h>

qg_status qg_fake_check_axis(qg_ctx *ctx, const char *what, const qg_scheme *s,
                             const qg_tensor *x)
{
    char text[QG_SHAPE_TEXT];
    if (qg_scheme_param_count(s, x) < 0)
        return qg_fail(ctx, QG_ESTATE, "%s: axis %d and block %d do not fit %s", what,
                       s->axis, (int)s->block, qg_tensor_text(x, text));
    return QG_OK;
}

qg_status qg_fake_check_params(qg_ctx *ctx, const char *what, const qg_scheme *s,
                               const qg_qparam *p, const qg_tensor *x)
{
    assert(p->n == 0 || p->scale);
    char text[QG_SHAPE_TEXT];
    QG_TRY(qg_fake_check_axis(ctx, what, s, x));
    int64_t need = qg_scheme_param_count(s, x);
    bool stacked =
        (s->variant & QG_FLOAT_PPQ_TIES) && need > 0 &&
        p->n % (size_t)need == 0; /* the first row counts: observer_ppq_floating.c */
    if (p->n != (size_t)need && !stacked)
        return qg_fail(ctx, QG_ESTATE, "%s: %zu parameters for %s, expected %lld", what,
                       p->n, qg_tensor_text(x, text), (long long)need);
    for (size_t c = 0; c < p->n; c++)
        if (!(p->scale[c] > 0 && isfinite(p->scale[c])))
            return qg_fail(ctx, QG_ENUMERIC,
                           "%s: scale[%zu] is %g, expected finite and above 0", what, c,
                           (double)p->scale[c]);
    return QG_OK;
}

qg_status qg_fake_check_floats(qg_ctx *ctx, const char *what, const qg_tensor *x,
                               const qg_tensor *y)
{
    char text[QG_SHAPE_TEXT], other[QG_SHAPE_TEXT];
    if (x->dtype != QG_F32 || y->dtype != QG_F32 || !qg_same_dims(x, y))
        return qg_fail(ctx, QG_ESTATE,
                       "%s: %s into %s, expected two of float32 and equal "
                       "dims",
                       what, qg_tensor_text(x, text), qg_tensor_text(y, other));
    return QG_OK;
}

qg_status qg_fake_check_dense(qg_ctx *ctx, const char *what, const qg_scheme *s,
                              const qg_tensor *x, qg_spans *spans)
{
    char text[QG_SHAPE_TEXT];
    if (!qg_spans_start(spans, s, x))
        return qg_fail(ctx, QG_ESTATE,
                       "%s: the strides of %s leave gaps, expected none", what,
                       qg_tensor_text(x, text));
    return QG_OK;
}

qg_status qg_fake_check_static(qg_ctx *ctx, const char *what, const qg_scheme *s,
                               const qg_qparam *p, const qg_tensor *x)
{
    if (s->policy & QG_DYNAMIC)
        return qg_fail(ctx, QG_ESTATE, "%s: the policy is dynamic, expected parameters",
                       what);
    return qg_fake_check_params(ctx, what, s, p, x);
}

#include "engine/quant/apply.h"

#include <assert.h>

#include "engine/quant/fake_tensor.h"

static const char doing[] = "quantize-tensor";

/* Parameters of the tensor's own ranges, in the caller's room. */
static qg_status own_param(qg_ctx *ctx, const qg_apply *how, const qg_tensor *x,
                           qg_qparam *out)
{
    const qg_scheme *s = &how->scheme;
    QG_TRY(qg_fake_check_axis(ctx, doing, s, x));
    const qg_apply_room *room = &how->room;
    size_t n = (size_t)qg_scheme_param_count(s, x);
    if (!room->low || !room->high || !room->scale || !room->offset)
        return qg_fail(ctx, QG_ESTATE,
                       "%s: parameters: neither given nor room, "
                       "expected one of them",
                       doing);
    QG_TRY(qg_tensor_ranges(ctx, doing, s, x, room->low, room->high));
    for (size_t c = 0; c < n; c++)
        qg_scheme_from_range(s,
                             (qg_range){ room->low[c], room->high[c], 0, how->quirks },
                             &room->scale[c], &room->offset[c]);
    *out = (qg_qparam){ n, room->scale, room->offset };
    return QG_OK;
}

/* DYNAMIC is resolved here once and taken out of the scheme, so that the caller can
 * do the same again with the parameters that were found. */
qg_status qg_scheme_apply(qg_ctx *ctx, const qg_apply *how, const qg_tensor *x,
                          qg_tensor *y, qg_applied *out)
{
    qg_applied a = { .scheme = how->scheme };
    QG_TRY(qg_scheme_check(ctx, doing, &how->scheme));
    QG_TRY(qg_fake_check_floats(ctx, doing, x, y));
    if (!qg_same_layout(x, y) || x->data == y->data)
        return qg_fail(ctx, QG_ESTATE,
                       "%s: the result, expected another array of the "
                       "same layout",
                       doing);
    if (how->param && !(how->scheme.policy & QG_DYNAMIC))
        a.param = *how->param;
    else
        QG_TRY(own_param(ctx, how, x, &a.param));
    a.scheme.policy &= (uint16_t) ~(unsigned)QG_DYNAMIC;
    QG_TRY(qg_fake_quantize(ctx, doing, &a.scheme, &a.param, x, y));
    QG_TRY(qg_saturated(ctx, doing, &a.scheme, &a.param, x, &a.saturated));
    qg_error_add(&a.error, x->f32, y->f32, (size_t)qg_tensor_count(x));
    assert(a.saturated <= a.error.count);
    *out = a;
    return QG_OK;
}

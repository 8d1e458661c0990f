#include "engine/quant/quantizer.h"

#include "engine/core/suggest.h"
#include "engine/quant/fake_tensor.h"
#include "engine/quant/journal.h"
#include "engine/quant/tqc.h"

qg_status qg_quantizer_named(qg_ctx *ctx, const char *what, const char *name,
                             const qg_quantizer **out)
{
    const qg_quantizer *found = qg_ctx_added(ctx, QG_ADDED_QUANTIZER, name);
    char hint[QG_SUGGEST_TEXT];
    qg_suggest near = qg_suggest_for(name);
    for (const qg_added *i = ctx->added[QG_ADDED_QUANTIZER]; i; i = i->next)
        qg_suggest_try(&near, i->name);
    if (!found)
        return qg_fail(ctx, QG_EUNSUPPORTED,
                       "%s: quantizer '%.80s': unknown, expected one that the program "
                       "adds to the context%s",
                       what, name, qg_suggest_text(&near, hint));
    *out = found;
    return QG_OK;
}

/* Tensors and parameters are checked as for the library's own function. */
static qg_status check(qg_ctx *ctx, const char *what, const qg_tqc *t,
                       const qg_qparam *p, const qg_tensor *x, const qg_tensor *y)
{
    QG_TRY(qg_fake_check_floats(ctx, what, x, y));
    QG_TRY(qg_fake_check_axis(ctx, what, &t->scheme, x));
    return t->scheme.policy & QG_DYNAMIC
               ? QG_OK
               : qg_fake_check_params(ctx, what, &t->scheme, p, x);
}

qg_status qg_tqc_round(qg_ctx *ctx, const qg_tqc *t, const qg_tensor *x, qg_tensor *y)
{
    const qg_qparam p = qg_tqc_param(t);
    return qg_tqc_round_by(ctx, t, &p, x, y);
}

qg_status qg_tqc_round_by(qg_ctx *ctx, const qg_tqc *t, const qg_qparam *p,
                          const qg_tensor *x, qg_tensor *y)
{
    char what[QG_ENDPOINT_TEXT];
    const qg_quantizer *own = t->quantizer;
    qg_tqc_text(t, what);
    if (!own)
        return qg_fake_quantize(ctx, what, &t->scheme, p, x, y);
    QG_TRY(check(ctx, what, t, p, x, y));
    if (qg_tensor_count(x) == 0)
        return QG_OK;
    qg_tensor shown =
        *y; /* it may change the values, not the location, type or shape */
    qg_host_begin(ctx);
    qg_status s = own->run(own->ud, ctx, &t->scheme, p, x, &shown);
    if (s == QG_OK)
        return QG_OK;
    s = qg_host_end(ctx, s, "quantizer", own->name);
    return qg_fail(ctx, s, "%s: %s", what, qg_ctx_message(ctx));
}

const char *qg_tqc_quantizer(const qg_tqc *t)
{
    return t->quantizer ? t->quantizer->name : NULL;
}

qg_status qg_tqc_set_quantizer(qg_quant *q, qg_tqc *t, const qg_quantizer *row)
{
    const char *before = qg_tqc_quantizer(t);
    if (t->quantizer != row)
        QG_TRY(qg_journal_add(q, t, "quantizer", before ? before : "none",
                              row ? row->name : "none"));
    t->quantizer = row;
    return QG_OK;
}

/* quantizer.c -- quantization functions of the host, and who is given one. */
#include "engine/embed/extend.h"

#include <string.h>

#include "engine/quant/quantizer.h"
#include "engine/quant/tqc.h"
#include "engine/snapshot/model.h"

void qg_host_quantizer_init(qg_host_quantizer *q, size_t size)
{
    memset(q, 0, size);
    q->size = size;
}

qg_status qg_add_quantizer(qg_ctx *ctx, const qg_host_quantizer *q)
{
    qg_host_quantizer kept = { 0 };
    qg_quantizer *row = QG_NEW(ctx->arena, qg_quantizer);
    if (!row)
        return qg_nomem(ctx);
    QG_TRY(qg_extend_take(ctx, "quantizer", &kept, sizeof kept, q));
    QG_TRY(qg_extend_name(ctx, "quantizer", &kept.name));
    QG_TRY(qg_extend_text(ctx, &kept.summary));
    if (!kept.run)
        return qg_fail(ctx, QG_ECONFIG,
                       "add quantizer %s: run is NULL, expected a function", kept.name);
    if (strcmp(kept.name, "none") == 0 ||
        qg_ctx_added(ctx, QG_ADDED_QUANTIZER, kept.name))
        return qg_extend_taken(ctx, "quantizer", kept.name);
    *row = (qg_quantizer){ .name = kept.name,
                           .summary =
                               kept.summary ? kept.summary : "a quantizer of the host",
                           .run = kept.run,
                           .ud = kept.ud };
    return qg_ctx_add(ctx, QG_ADDED_QUANTIZER, row->name, row);
}

/* The journal has the pass at work, or the host. */
qg_status qg_model_set_quantizer(qg_model *m, qg_tqc *t, const char *quantizer)
{
    char at[QG_ENDPOINT_TEXT];
    const qg_quantizer *row = NULL;
    if (!m->quant)
        return qg_model_expect_quantized(m, "set quantizer");
    if (quantizer)
        QG_TRY(qg_quantizer_named(m->ctx, qg_tqc_text(t, at), quantizer, &row));
    if (!m->pass)
        m->quant->author = "host";
    return qg_tqc_set_quantizer(m->quant, t, row);
}

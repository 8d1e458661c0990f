/* quantizer.c -- quantization functions of the host: rows of quant/quantizer.h. */
#include "engine/embed/extend.h"

#include <string.h>

#include "engine/quant/quantizer.h"

QG_OPTIONS_INIT(qg_host_quantizer)

qg_status qg_add_quantizer(qg_ctx *ctx, const qg_host_quantizer *q)
{
    qg_host_quantizer kept;
    qg_quantizer *row = QG_NEW(ctx->arena, qg_quantizer);
    if (!row)
        return qg_nomem(ctx);
    QG_TRY(QG_OPTIONS_READ(ctx, qg_host_quantizer, q, &kept));
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

/* bytes.c -- memory that the library hands to the host. */
#include "engine/api/qg.h"
#include "engine/core/ctx.h"

void qg_bytes_free(qg_ctx *ctx, qg_bytes *b)
{
    if (!b)
        return;
    if (b->data)
        ctx->alloc.drop(ctx->alloc.ud, b->data);
    *b = (qg_bytes){ 0 };
}

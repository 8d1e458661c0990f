/* outcome.h -- what an input gives, told to the replay of a fuzzer, which records it
 * (replay.c).  Under libFuzzer, which defines no OUTCOME, nothing is done. */
#ifndef QG_TESTS_FUZZ_OUTCOME_H
#define QG_TESTS_FUZZ_OUTCOME_H

#include <stdio.h>
#include <stdlib.h>

#include "engine/core/ctx.h"
#include "engine/ir/text.h"
#include "engine/onnx/export.h"
#include "engine/snapshot/quant_json.h"

#ifdef OUTCOME
void outcome_put(const void *bytes, size_t size);
#else
static inline void outcome_put(const void *bytes, size_t size)
{
    (void)bytes, (void)size;
}
#endif

/* The message of a refusal, or none; frees the context. */
static inline void outcome_end(qg_ctx *ctx)
{
    const char *message = ctx ? qg_ctx_message(ctx) : "";
    outcome_put(message, strlen(message) + 1);
    qg_ctx_free(ctx);
}

/* The text of the graph, and the ONNX file that is written of it. */
static inline void outcome_graph(const qg_graph *g)
{
#ifdef OUTCOME
    char *text;
    size_t size;
    if (qg_text_print(g, NULL, g->ctx->arena, &text, &size) == QG_OK)
        outcome_put(text, size);
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return;
    qg_status s = qg_onnx_export_stream(g->ctx, g, stream, NULL);
    (void)fclose(stream);
    outcome_put(s == QG_OK ? text : qg_ctx_message(g->ctx),
                s == QG_OK ? size : strlen(qg_ctx_message(g->ctx)));
    free(text);
#else
    (void)g;
#endif
}

/* Records as quant.json, which any of them can be written as: aborts on another status
 * than QG_OK, `able` (QG_OK: none), and those of text that is no UTF-8. */
static inline void outcome_quant(const qg_quant *q, qg_status able)
{
    const qg_snapshot_info info = { 0 };
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return;
    qg_status s = qg_quant_json_write(q, &info, stream);
    (void)fclose(stream);
    outcome_put(text, size);
    free(text);
    if (s != QG_OK && s != able && s != QG_EPARSE && s != QG_EDATA)
        abort();
}

#endif

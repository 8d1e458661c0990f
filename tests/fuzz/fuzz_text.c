/* fuzz_text.c -- any bytes as the text form of a graph: parsed, put in order and
 * inferred, or refused with line and column. */
#include <stdint.h>

#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/ir/text.h"
#include "ops/families.h"
#include "tests/fuzz/outcome.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const qg_text_source text = { "fuzz", (const char *)bytes, size, NULL };
    qg_graph *g = NULL;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    if (!ctx)
        return 0;
    ctx->registry = &qg_ops_registry;
    qg_status s = qg_text_parse(ctx, &text, &g);
    if (s == QG_OK) {
        s = qg_graph_normalize(g);
        if (s == QG_OK)
            outcome_graph(g);
        if (s == QG_OK)
            s = qg_infer(g, NULL, 0); /* refusing is fine, crashing is not */
        if (s == QG_OK)
            outcome_graph(g);
        qg_graph_free(g);
    }
    outcome_end(ctx);
    return 0;
}

/* fuzz_onnx.c -- any bytes as an ONNX model: imported and inferred, or refused. */
#include <stdint.h>

#include "engine/onnx/import.h"
#include "engine/ir/infer.h"
#include "ops/families.h"
#include "tests/fuzz/outcome.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    qg_onnx_import_options options = { .folder = "tests/models" };
    qg_graph *g;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    if (!ctx)
        return 0;
    ctx->registry = &qg_ops_registry;
    if (qg_onnx_import_bytes(ctx, bytes, size, &options, &g) == QG_OK) {
        qg_status s = qg_infer(g, NULL, 0);
        outcome_graph(g);
        (void)s; /* refusing is fine, crashing is not */
        qg_graph_free(g);
    }
    outcome_end(ctx);
    return 0;
}

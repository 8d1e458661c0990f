/* fuzz_tflite.c -- any bytes as a TensorFlow Lite file: a graph and records that hold
 * every rule and can be written as a snapshot, or refused. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/formats/tflite/tflite.h"
#include "engine/snapshot/quant_json.h"
#include "ops/families.h"
#include "tests/fuzz/outcome.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    qg_graph *g;
    qg_quant *q;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    if (!ctx)
        return 0;
    ctx->registry = &qg_ops_registry;
    qg_status s = qg_tflite_read(ctx, bytes, size, &g, &q);
    if (s == QG_ESTATE)
        abort(); /* the verifier: we broke a promise, the file cannot */
    if (s == QG_OK) {
        outcome_graph(g);
        outcome_quant(q, QG_OK);
        qg_graph_free(g);
    }
    outcome_end(ctx);
    return 0;
}

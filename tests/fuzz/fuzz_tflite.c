/* fuzz_tflite.c -- any bytes as a TensorFlow Lite file: a graph and records that hold
 * every rule and can be written as a snapshot, or refused. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/formats/tflite/tflite.h"
#include "engine/snapshot/quant_json.h"
#include "ops/families.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void write_snapshot(const qg_quant *q)
{
    const qg_snapshot_info info = { 0 };
    FILE *stream = fopen("/dev/null", "w");
    if (!stream)
        return;
    qg_status s = qg_quant_json_write(q, &info, stream);
    (void)fclose(stream);
    if (s != QG_OK && s != QG_EPARSE && s != QG_EDATA)
        abort(); /* text that is no UTF-8 may be refused */
}

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
        write_snapshot(q);
        qg_graph_free(g);
    }
    qg_ctx_free(ctx);
    return 0;
}

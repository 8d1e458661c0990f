/* fuzz_snapshot.c -- any bytes as a model in memory: a snapshot's archive, or an ONNX
 * file whose constants are read where they lie.  What opens can be saved. */
#include <stdint.h>

#include "engine/api/qg.h"
#include "engine/core/ctx.h"
#include "ops/families.h"
#include "tests/fuzz/outcome.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void save(qg_ctx *ctx, qg_model *m)
{
    qg_bytes out = { 0 };
    qg_status s = qg_model_save_bytes(m, &out);
    if (s == QG_OK)
        outcome_put(out.data, out.size);
    (void)s; /* a model without records is refused */
    qg_bytes_free(ctx, &out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    qg_model *m;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    if (!ctx)
        return 0;
    ctx->registry = &qg_ops_registry;
    if (qg_model_open_bytes(ctx, bytes, size, NULL, &m) == QG_OK) {
        save(ctx, m);
        qg_model_close(m);
    }
    outcome_end(ctx);
    return 0;
}

/* fuzz_aimet.c -- any bytes as a quantsim configuration; what is accepted is YAML that
 * our own reader takes. */
#include <stdint.h>
#include <stdlib.h>

#include "engine/formats/aimet/config.h"
#include "engine/config/yaml.h"
#include "ops/families.h"
#include "tests/fuzz/outcome.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_json_source from = { "fuzz", (const char *)bytes, size };
    const qg_json *root;
    const qg_yaml *tree;
    qg_config_result r;
    if (!ctx)
        return 0;
    ctx->registry = &qg_ops_registry;
    if (qg_json_parse(ctx, ctx->arena, &from, &root) == QG_OK &&
        qg_aimet_config(ctx, ctx->arena, root, (qg_config_labels){ "x", "fuzz.json" },
                        &r) == QG_OK) {
        outcome_put(r.yaml, r.size);
        if (qg_yaml_parse(ctx, ctx->arena, "x.yaml", r.yaml, r.size, &tree) != QG_OK)
            abort(); /* what we write, we read */
    }
    outcome_end(ctx);
    return 0;
}

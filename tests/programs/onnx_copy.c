/* onnx_copy IN.onnx OUT.onnx [EXTERNAL_ABOVE [OPSET]] -- import, infer, convert to the
 * opset, export; for scripts that read our files with other tools. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/onnx/export.h"
#include "engine/onnx/import.h"
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/ir/upgrade.h"
#include "ops/families.h"

static void print(void *ud, enum qg_log_level level, const char *text)
{
    (void)ud;
    (void)level;
    (void)fprintf(stderr, "%s\n", text);
}

static qg_status copy(qg_ctx *ctx, char **argv, size_t external_above, int64_t opset)
{
    static const qg_onnx_property made_by[] = {
        {"copied by", "onnx_copy"}
    };
    qg_export_options options = { .metadata = made_by,
                                  .n_metadata = 1,
                                  .external_above = external_above };
    qg_graph *g;
    QG_TRY(qg_onnx_import(ctx, argv[1], NULL, &g));
    qg_status s = qg_infer(g, NULL, 0);
    if (s == QG_OK && opset)
        s = qg_graph_upgrade(g, opset);
    if (s == QG_OK && opset)
        s = qg_graph_normalize(g);
    if (s == QG_OK)
        s = qg_onnx_export(ctx, g, argv[2], &options);
    qg_graph_free(g);
    return s;
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 5) {
        (void)fprintf(stderr,
                      "usage: onnx_copy IN.onnx OUT.onnx [EXTERNAL_ABOVE [OPSET]]\n");
        return 2;
    }
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    if (!ctx)
        return 1;
    ctx->registry = &qg_ops_registry;
    ctx->log = (qg_log){ print, NULL, QG_LOG_WARNING };
    qg_status s = copy(ctx, argv, argc > 3 ? strtoul(argv[3], NULL, 10) : 0,
                       argc > 4 ? (int64_t)strtoul(argv[4], NULL, 10) : 0);
    if (s != QG_OK)
        (void)fprintf(stderr, "%s\n", qg_ctx_message(ctx));
    qg_ctx_free(ctx);
    return s == QG_OK ? 0 : 1;
}

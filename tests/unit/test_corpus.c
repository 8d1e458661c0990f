/* Every past finding of the importer's fuzzer, under the sanitizers: refused or loaded,
 * but never a fault. */
#include "tests/support/test.h"

#include "engine/core/file.h"
#include "engine/onnx/import.h"
#include "engine/ir/infer.h"
#include "ops/families.h"

static const char *const FOLDER = "tests/fuzz/corpus/onnx";

static void findings_stay_fixed(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    const char **name;
    size_t n;
    ctx->registry = &qg_ops_registry;
    assert_ok(ctx, qg_directory_list(ctx, ctx->arena, FOLDER, &name, &n));
    assert_cmp_int(n, >, 0);
    for (size_t i = 0; i < n; i++) {
        qg_graph *g = NULL;
        const char *path = qg_path_join(ctx->arena, FOLDER, name[i]);
        qg_status s = qg_onnx_import(ctx, path, NULL, &g);
        if (s == QG_OK)
            s = qg_infer(g, NULL, 0);
        assert_true(s == QG_OK || qg_ctx_message(ctx)[0] != '\0');
        qg_graph_free(g);
    }
    qg_ctx_free(ctx);
}

/* A function whose output the call leaves out, made by a Constant inside. */
static void absent_output_of_a_constant_is_dropped(void **state)
{
    (void)state;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_graph *g = NULL;
    ctx->registry = &qg_ops_registry;
    assert_fails(
        ctx,
        qg_onnx_import(ctx, "tests/fuzz/corpus/onnx/constant_behind_absent_output.onnx",
                       NULL, &g),
        QG_EMODEL, "is produced twice");
    qg_ctx_free(ctx);
}

QG_TEST_MAIN(cmocka_unit_test(findings_stay_fixed),
             cmocka_unit_test(absent_output_of_a_constant_is_dropped))

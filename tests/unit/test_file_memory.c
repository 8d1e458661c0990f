/* Out of memory in every place of import, export and data: refused, nothing leaked. */
#include "tests/support/faulty.h"
#include "tests/support/test.h"

#include <unistd.h>

#include "engine/data/data.h"
#include "engine/onnx/export.h"
#include "engine/onnx/import.h"
#include "ops/families.h"

static qg_status copy_model(qg_alloc alloc, void *ud)
{
    qg_graph *g;
    qg_ctx *ctx = qg_ctx_new(alloc);
    if (!ctx)
        return QG_ENOMEM;
    ctx->registry = &qg_ops_registry;
    qg_status s = qg_onnx_import(ctx, ud, NULL, &g);
    if (s == QG_OK) {
        s = qg_onnx_export(ctx, g, "/tmp/qg_memory.onnx", NULL);
        qg_graph_free(g);
    }
    qg_ctx_free(ctx);
    return s;
}

static void models(void **state)
{
    static char *const paths[] = { "tests/models/conv_relu.onnx",
                                   "tests/models/function_call.onnx",
                                   "tests/models/external.onnx",
                                   "tests/models/all_types.onnx" };
    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        every_request_may_fail(copy_model, paths[i], 10);
    unlink("/tmp/qg_memory.onnx");
}

static qg_status toy_body(qg_alloc alloc, void *ud)
{
    qg_graph *g;
    qg_ctx *ctx = qg_ctx_new(alloc);
    if (!ctx)
        return QG_ENOMEM;
    ctx->registry = ud;
    qg_status s = qg_onnx_import(ctx, "tests/models/body_capture.onnx", NULL, &g);
    if (s == QG_OK)
        qg_graph_free(g);
    qg_ctx_free(ctx);
    return s;
}

static void bodies(void **state)
{
    static const qg_op ops[] = {
        {.name = "If",
         .since = 1,
         .min_in = 1,
         .max_in = 1,
         .min_out = 1,
         .max_out = 255,
         .traits = QG_OP_CONTROL },
        { .name = "Add",
         .since = 1,
         .min_in = 2,
         .max_in = 2,
         .min_out = 1,
         .max_out = 1 },
        { .name = "Sub",
         .since = 1,
         .min_in = 2,
         .max_in = 2,
         .min_out = 1,
         .max_out = 1 },
        { 0},
    };
    static const qg_op *const families[] = { ops };
    static qg_registry registry = { .family = families, .n_family = 1 };
    (void)state;
    every_request_may_fail(toy_body, &registry, 10);
}

static qg_status one_sample(qg_ctx *ctx, const char *spec)
{
    qg_graph *g;
    qg_value *x;
    qg_data *d;
    qg_tensor t, *all[] = { &t };
    QG_TRY(qg_graph_new(ctx, "g", &g));
    qg_status s = qg_graph_add_value(g, "x", &x);
    if (s == QG_OK) {
        qg_tensor_init(&x->type, QG_F32, 2, (int64_t[]){ 1, 4 });
        qg_data_request r = { .input = &x, .n_input = 1 };
        s = qg_data_open(ctx, spec, &r, &d);
    }
    if (s == QG_OK) {
        qg_data_shape(d, 1, 0, &t);
        s = qg_tensor_alloc(ctx, ctx->arena, &t);
        if (s == QG_OK)
            s = qg_data_fetch(ctx, d, 1, ctx->arena, all);
        qg_data_close(d);
    }
    qg_graph_free(g);
    return s;
}

static qg_status read_data(qg_alloc alloc, void *ud)
{
    qg_ctx *ctx = qg_ctx_new(alloc);
    if (!ctx)
        return QG_ENOMEM;
    qg_status s = one_sample(ctx, ud);
    qg_ctx_free(ctx);
    return s;
}

static void data(void **state)
{
    static char *const specs[] = { "tests/arrays/stored.npz",
                                   "tests/arrays/deflated.npz", "random:3" };
    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++)
        every_request_may_fail(read_data, specs[i], 5);
}

QG_TEST_MAIN(cmocka_unit_test(models), cmocka_unit_test(bodies), cmocka_unit_test(data))

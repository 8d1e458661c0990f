/* fuzz_lower.c -- any bytes as a quantized ONNX or TensorFlow Lite file: its integer
 * program under a profile holds every rule of graphs, compiles and runs, or is refused
 * with a message. */
#include <stdlib.h>
#include <string.h>

#include "engine/config/profile_yaml.h"
#include "engine/exec/run.h"
#include "engine/formats/quantizers.h"
#include "engine/formats/tflite/tflite.h"
#include "engine/ir/check.h"
#include "engine/ir/infer.h"
#include "engine/lower/program.h"
#include "engine/onnx/import.h"
#include "ops/families.h"
#include "tests/fuzz/outcome.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { MOST_BYTES = 1 << 20 }; /* of activations and inputs of what is run */

static bool read_graph(qg_ctx *ctx, const uint8_t *bytes, size_t size, qg_graph **g)
{
    qg_quant *q = NULL;
    if (size >= 8 && memcmp(bytes + 4, "TFL3", 4) == 0)
        return qg_tflite_read(ctx, bytes, size, g, &q) == QG_OK;
    if (qg_onnx_import_bytes(ctx, bytes, size, NULL, g) != QG_OK)
        return false;
    if (qg_infer(*g, NULL, 0) == QG_OK &&
        qg_quantizers_fold(*g, QG_QUANTIZERS_ONNX, "fuzz", &q) == QG_OK)
        return true;
    qg_graph_free(*g);
    return false;
}

static const qg_profile *some_profile(qg_ctx *ctx, size_t which)
{
    static const char *const name[] = { "tflite-reference", "onnxruntime-x86-vnni",
                                        "ncnn-x86", "cmsis-nn" };
    const char *dir = "configs/profiles"; /* of the working directory */
    const qg_profile *p;
    if (qg_profile_load(ctx, ctx->arena, name[which % 4],
                        (qg_search){ .dir = &dir, .n = 1 }, &p) != QG_OK)
        abort();
    return p;
}

/* Inputs of zeros; NULL: not all are known and small. */
static const qg_tensor **zeros(qg_ctx *ctx, const qg_graph *g)
{
    const qg_tensor **in = QG_NEWN(ctx->arena, g->input.n, const qg_tensor *);
    for (size_t i = 0; in && i < g->input.n; i++) {
        qg_tensor *t = QG_NEW(ctx->arena, qg_tensor);
        size_t bytes = 0;
        if (!t || !qg_tensor_known(&g->input.at[i]->type))
            return NULL;
        *t = g->input.at[i]->type;
        qg_tensor_set_plain(t);
        if (qg_tensor_bytes(ctx, "zeros", t, &bytes) != QG_OK || bytes > MOST_BYTES ||
            qg_tensor_alloc(ctx, ctx->arena, t) != QG_OK)
            return NULL;
        in[i] = t;
    }
    return in;
}

static void run_plan(qg_ctx *ctx, const qg_plan *p)
{
    qg_run *r = NULL;
    const qg_tensor **in = zeros(ctx, p->graph);
    if (in && p->report.bytes < MOST_BYTES && qg_run_new(ctx, p, &r) == QG_OK) {
        qg_status s = qg_run_execute(r, in, NULL, 0, 0);
        (void)s; /* data may be refused */
    }
    qg_run_free(r);
}

static void lower(qg_ctx *ctx, const qg_graph *g, size_t size)
{
    qg_lower_options o = { .codes = size / 4 % 2, .float_inputs = size / 8 % 2 };
    qg_program *program = NULL;
    qg_plan *p = NULL;
    ctx->message[0] = '\0';
    qg_status s = qg_lower_program(g, some_profile(ctx, size), &o, &program);
    if (s == QG_OK && qg_check_graph(ctx, program->graph, QG_CHECK_ALL) != QG_OK)
        abort();
    if (s == QG_OK)
        s = qg_plan_new(ctx, program->graph, &(qg_plan_options){ .reference = true },
                        &p);
    if (s == QG_ESTATE || (s != QG_OK && !ctx->message[0]))
        abort();
    if (s == QG_OK)
        outcome_graph(program->graph);
    if (s == QG_OK)
        run_plan(ctx, p);
    qg_plan_free(p);
    qg_program_free(program);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    qg_graph *g;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    if (!ctx)
        return 0;
    ctx->registry = &qg_ops_registry;
    if (read_graph(ctx, bytes, size, &g)) {
        lower(ctx, g, size);
        qg_graph_free(g);
    }
    outcome_end(ctx);
    return 0;
}

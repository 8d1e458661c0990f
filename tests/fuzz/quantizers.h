/* quantizers.h -- what the fuzzers of the ONNX importers have in common: what was
 * folded is written as a snapshot and read again. */
#ifndef QG_TESTS_FUZZ_QUANTIZERS_H
#define QG_TESTS_FUZZ_QUANTIZERS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/onnx/import.h"
#include "engine/formats/mqbench/operators.h"
#include "engine/formats/qonnx/quant.h"
#include "engine/formats/quantizers.h"
#include "engine/ir/infer.h"
#include "engine/quant/tqc_check.h"
#include "ops/families.h"
#include "tests/fuzz/outcome.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static int fuzz_quantizers(enum qg_quantizers which, const uint8_t *bytes, size_t size)
{
    qg_graph *g;
    qg_quant *q = NULL;
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    if (!ctx)
        return 0;
    ctx->registry = &qg_ops_registry;
    if (which == QG_QUANTIZERS_MQBENCH || which == QG_QUANTIZERS_QONNX)
        ctx->registry = qg_registry_with(
            &qg_ops_registry,
            which == QG_QUANTIZERS_QONNX ? qg_qonnx_operators : qg_mqbench_operators,
            ctx->arena);
    if (!ctx->registry)
        abort();
    if (qg_onnx_import_bytes(ctx, bytes, size, NULL, &g) == QG_OK) {
        qg_status s = qg_infer(g, NULL, 0);
        if (s == QG_OK)
            s = qg_quantizers_fold(g, which, "fuzz", &q);
        if (s == QG_OK) {
            outcome_graph(g);
            outcome_quant(q, QG_ENUMERIC);
        }
        if (s == QG_ESTATE)
            abort(); /* the verifier: we broke a promise, the file cannot */
        qg_graph_free(g);
    }
    outcome_end(ctx);
    return 0;
}

#endif

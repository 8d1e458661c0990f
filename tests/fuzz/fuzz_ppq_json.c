/* fuzz_ppq_json.c -- any bytes as PPQ's JSON for a small network: records that hold
 * every rule, or refused. */
#include <stdint.h>

#include "engine/formats/ppq/json.h"
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/ir/text.h"
#include "ops/families.h"
#include "tests/fuzz/outcome.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* The seeds in corpus/ppq_json are written for it. */
static const char network[] =
    "graph \"g\" {\n"
    "  opset 13\n"
    "  x = input f32[1,2,4,4]\n"
    "  w = const f32[3,2,1,1] seed(1); b = const f32[3] seed(2)\n"
    "  c = Conv c (x, w, b)\n"
    "  r = Relu r (c)\n"
    "  a = Add a (r, r)\n"
    "  s = Shape s (a)\n"
    "  output a, s\n"
    "}\n";

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    qg_text_source text = { "network", network, sizeof network - 1, NULL };
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_graph *g = NULL;
    qg_quant *q;
    if (!ctx)
        return 0;
    ctx->registry = &qg_ops_registry;
    qg_status s = qg_text_parse(ctx, &text, &g);
    if (s == QG_OK)
        s = qg_graph_normalize(g);
    if (s == QG_OK)
        s = qg_infer(g, NULL, 0);
    if (s == QG_OK)
        s = qg_ppq_json_parse(g, "fuzz", (const char *)bytes, size, &q);
    if (s == QG_OK)
        outcome_quant(q, QG_OK);
    (void)s; /* refusing is fine, crashing is not */
    qg_graph_free(g);
    outcome_end(ctx);
    return 0;
}

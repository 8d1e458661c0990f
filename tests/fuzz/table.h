/* table.h -- any bytes as a table of scales (engine/formats/table.h) for a small
 * network: records that hold every rule, or refused. */
#ifndef QG_TESTS_FUZZ_TABLE_H
#define QG_TESTS_FUZZ_TABLE_H

#include <stdint.h>
#include <stdlib.h>

#include "engine/formats/formats.h"
#include "engine/formats/table.h"
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/ir/text.h"
#include "ops/families.h"
#include "tests/fuzz/outcome.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* The seeds that make_seeds.py writes for tables name its nodes and values. */
static const char network[] =
    "graph \"g\" {\n"
    "  opset 13\n"
    "  x = input f32[1,2,4,4]\n"
    "  w = const f32[4,2,1,1] seed(1); b = const f32[4] seed(2)\n"
    "  v = const f32[4,2,1,1] seed(3)\n"
    "  c = Conv c (x, w, b)\n"
    "  r = Relu r (c)\n"
    "  d = Conv d (r, v) group=2\n"
    "  a = Add a (r, d)\n"
    "  s = Shape s (a)\n"
    "  output a, s\n"
    "}\n";

static int read_table(const char *format, const uint8_t *bytes, size_t size)
{
    qg_text_source text = { "network", network, sizeof network - 1, NULL };
    qg_json_source from = { "fuzz", (const char *)bytes, size };
    qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
    qg_graph *g = NULL;
    const qg_format *row = NULL;
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
        s = qg_format_named(ctx, format, &row);
    if (s == QG_OK)
        s = qg_table_parse(g, row, &from, &q);
    if (s == QG_OK)
        outcome_quant(q, QG_OK);
    if (s == QG_ESTATE)
        abort(); /* the verifier: we broke a promise, the file cannot */
    qg_graph_free(g);
    outcome_end(ctx);
    return 0;
}

#endif

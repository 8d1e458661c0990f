/* tables.h -- the network of tests of formats that are tables, and forms of entries. */
#ifndef QG_TESTS_SUPPORT_TABLES_H
#define QG_TESTS_SUPPORT_TABLES_H

#include "tests/support/test.h"

#include "engine/core/file.h"
#include "engine/ir/edit.h"
#include "engine/ir/infer.h"
#include "engine/ir/text.h"
#include "ops/families.h"

/* Two groups in c, none in d; p moves what d has rounded to a; x has two readers. */
static const char table_network[] = "graph \"g\" {\n"
                                    "  opset 13\n"
                                    "  x = input f32[1,4,6,5]\n"
                                    "  w = const f32[4,2,1,1] seed(1)\n"
                                    "  v = const f32[4,4,1,1] seed(2)\n"
                                    "  c = Conv c (x, w) group=2\n"
                                    "  d = Conv d (c, v)\n"
                                    "  p = MaxPool p (d) kernel_shape=[1, 1]\n"
                                    "  a = AveragePool a (p) kernel_shape=[1, 1]\n"
                                    "  s = Add s (a, x)\n"
                                    "  output s\n"
                                    "}\n";

static inline qg_graph *table_graph(qg_ctx *ctx)
{
    qg_graph *g;
    ctx->registry = &qg_ops_registry;
    assert_ok(ctx, qg_text_parse(ctx,
                                 &(qg_text_source){ NULL, table_network,
                                                    sizeof table_network - 1, NULL },
                                 &g));
    assert_ok(ctx, qg_graph_normalize(g));
    assert_ok(ctx, qg_infer(g, NULL, 0));
    return g;
}

/* folder/name with this text. */
static inline const char *table_file(qg_ctx *ctx, const char *folder, const char *name,
                                     const char *text)
{
    const char *path = qg_path_join(ctx->arena, folder, name);
    assert_ok(ctx, qg_file_write(ctx, path, text, strlen(text)));
    return path;
}

/* Of AIMET's lists. */
#define ENTRY(name, kind, bits, symmetric, scales, offsets)                            \
    "\"name\": \"" name "\",\"enc_type\": \"" kind                                     \
    "\",\"dtype\": \"INT\",\"bw\": " bits ",\"is_sym\": " symmetric                    \
    ",\"scale\": [" scales "],\"offset\": [" offsets "]"
#define TYPED(name, type, scale)                                                       \
    "\"name\": \"" name "\",\"output_dtype\": \"" type "\",\"y_scale\": " scale

#endif

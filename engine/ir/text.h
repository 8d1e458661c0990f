/* text.h -- a graph as text and back: dumps, tests, fuzz seeds.
 *
 * The grammar and its meaning are in docs/text-form.md.  Output is a function of the
 * graph alone; the parser takes hostile text and names line and column of a fault.
 *
 *     char *text;
 *     size_t size;
 *     QG_TRY(qg_text_print(g, NULL, arena, &text, &size));
 *     QG_TRY(qg_text_parse(ctx, &(qg_text_source){ NULL, text, size, NULL }, &again));
 *
 * Printing a parsed text gives the same bytes again; a property test verifies it.
 *
 *     graph "g" {
 *       x = input f32[N,3,8,8]
 *       w = const f32[4,3,3,3] ramp(-1, 1)
 *       c = Conv(x, w) pads=[1, 1, 1, 1]
 *       r = Relu(c)
 *       output r
 *     } */
#ifndef QG_ENGINE_IR_TEXT_H
#define QG_ENGINE_IR_TEXT_H

#include "engine/ir/graph.h"

enum {
    QG_TEXT_INLINE = 16,  /* larger constants are printed as hashes */
    QG_TEXT_NESTING = 32, /* bodies within bodies */
};

/* Tensors by hash: fills the gap that hash("...") leaves in a text.  It borrows the
 * tensors of printed graphs, which must outlive the use of the table. */
typedef struct qg_text_table qg_text_table;

/* Empty; QG_ENOMEM is the only failure. */
QG_NODISCARD qg_status qg_text_table_new(qg_ctx *ctx, qg_text_table **out);
void qg_text_table_free(qg_text_table *t); /* NULL is fine */

/* The text in the arena, ending with a zero byte that *size does not count.  table may
 * be NULL: then large constants are hashes only.  The graph is normalized (edit.h);
 * nesting above the limit is QG_EUNSUPPORTED. */
QG_NODISCARD qg_status qg_text_print(const qg_graph *g, qg_text_table *table,
                                     qg_arena *a, char **text, size_t *size);

/* A number, as 16 hex digits, that two graphs share when their texts without platforms
 * and reasons are the same: operators, attributes, names, constants.  Used to check
 * that a file belongs to a graph; not for security.  `a` is scratch. */
enum { QG_FINGERPRINT_TEXT = 17 };
QG_NODISCARD qg_status qg_graph_fingerprint(const qg_graph *g, qg_arena *a,
                                            char text[QG_FINGERPRINT_TEXT]);
/* The same without the elements of constants, and without constants that nothing reads
 * (weights as they were before tuning); types count. */
QG_NODISCARD qg_status qg_graph_structure(const qg_graph *g, qg_arena *a,
                                          char text[QG_FINGERPRINT_TEXT]);

/* Borrowed for the call. */
typedef struct qg_text_source {
    const char *name; /* for messages: a file name; NULL: "text" */
    const char *text; /* need not end with a zero */
    size_t size;
    const qg_text_table *table; /* NULL: hash("...") is refused */
} qg_text_source;

/* A new graph that is the caller's; operators come from ctx->registry.  QG_EPARSE for
 * the grammar; other faults keep their status and get the place in front. */
QG_NODISCARD qg_status qg_text_parse(qg_ctx *ctx, const qg_text_source *source,
                                     qg_graph **out);

#endif

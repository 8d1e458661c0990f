/* text_parse.h -- the parser of the text form, in two files: types, contents and
 * attribute values (text_value.c), statements (text_parse.c). */
#ifndef QG_ENGINE_IR_TEXT_PARSE_H
#define QG_ENGINE_IR_TEXT_PARSE_H

#include "engine/ir/text_lex.h"

/* Shared by the two files; on the stack of qg_text_parse. */
typedef struct parser {
    lexer l;
    qg_ctx *ctx;
    qg_arena *arena; /* of the graph under construction */
    const qg_text_table *table;
    qg_graph *g; /* the graph or body that statements go to */
    int depth;   /* of bodies */
} parser;

/* Each function below starts at the current token, ends behind what it read, and
 * fails with the place of the fault; `what` is what the message says was expected. */
QG_NODISCARD qg_status qg_parse_name(parser *p, const char *what, const char **out);
QG_NODISCARD qg_status qg_parse_integer(parser *p, int64_t low, const char *what,
                                        int64_t *out);
bool qg_parse_at_name(const parser *p); /* a word other than "_", or a string */

/* dim_name (NULL: symbols are refused) gets QG_MAX_RANK entries. */
QG_NODISCARD qg_status qg_parse_type(parser *p, const char **dim_name, qg_tensor *out);

/* The contents of a known type, in the arena. */
QG_NODISCARD qg_status qg_parse_content(parser *p, const qg_tensor *type,
                                        const qg_tensor **out);

/* `name = value`, with the current token at the name. */
QG_NODISCARD qg_status qg_parse_attr(parser *p, qg_attr *out);

/* A body, with the current token at "graph"; the result belongs to p->g. */
QG_NODISCARD qg_status qg_parse_body(parser *p, qg_graph **out);

#endif

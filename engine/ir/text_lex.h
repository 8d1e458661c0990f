/* text_lex.h -- the tokens of the text form; only for text_lex.c and text_parse.c.
 *
 * One token is current; its text is decoded (escapes resolved) into the arena for
 * strings, and is a part of the source otherwise.  Newlines end a statement outside ( )
 * and [ ] only: `nest` counts those that are open. */
#ifndef QG_ENGINE_IR_TEXT_LEX_H
#define QG_ENGINE_IR_TEXT_LEX_H

#include "engine/ir/text_data.h"

/* END is a newline that ends a statement, MARK a punctuation character. */
enum token_kind { T_EOF, T_END, T_WORD, T_STRING, T_NUMBER, T_MARK };

/* Valid until the next qg_lex_next, its text as long as source and arena. */
typedef struct token {
    enum token_kind kind;
    const char *text; /* n bytes; not ended with a zero */
    size_t n;
    size_t line, column; /* from 1, columns in bytes */
} token;

/* Reads [at, end); columns are counted from line_start. */
typedef struct lexer {
    qg_ctx *ctx;
    qg_arena *arena; /* for decoded strings */
    const char *source;
    const char *at, *end, *line_start;
    size_t line;
    int nest;
    token now;
} lexer;

/* QG_EPARSE for a string without end, a bad escape, or a byte that begins no token.
 * Comments and blanks are skipped. */
QG_NODISCARD qg_status qg_lex_next(lexer *l); /* to the next token */

/* Fails at the current token: "parse: f.qgt:3:7: found ';', expected <what>". */
qg_status qg_lex_fail(lexer *l, const char *expected);

/* Prefixes the message of another module's failure with the place. */
qg_status qg_lex_place(const lexer *l, qg_status s);

bool qg_lex_is(const lexer *l, const char *word_or_mark);

/* Steps over a mark or word, or fails naming it. */
QG_NODISCARD qg_status qg_lex_expect(lexer *l, const char *word_or_mark);

#endif

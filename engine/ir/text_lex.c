/* text_lex.c -- tokens of the text form (docs/text-form.md).  The source is n bytes
 * of any content: nothing here relies on a closing zero, and every read is checked
 * against `end`. */
#include "engine/ir/text_lex.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '/';
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool in_word(char c)
{
    return is_letter(c) || is_digit(c) || c == '.' || c == ':';
}

/* Also the letters of 0x..., 1e5 and inf: the text after a digit is checked as a whole
 * later. */
static bool in_number(char c)
{
    return is_letter(c) ? c != '/' && c != '_'
                        : is_digit(c) || c == '.' || c == '+' || c == '-';
}

qg_status qg_lex_fail(lexer *l, const char *expected)
{
    static const char *const fixed[] = {
        [T_EOF] = "the end of the text", [T_END] = "the end of the statement"
    };
    char found[64];
    if (l->now.kind <= T_END)
        (void)snprintf(found, sizeof found, "%s", fixed[l->now.kind]);
    else
        (void)snprintf(found, sizeof found, "'%.*s'",
                       l->now.n < 48 ? (int)l->now.n : 48, l->now.text);
    return qg_fail(l->ctx, QG_EPARSE, "parse: %.200s:%zu:%zu: found %s, expected %s",
                   l->source, l->now.line, l->now.column, found, expected);
}

/* Faults of other modules name the object but not the line; memory has no place. */
qg_status qg_lex_place(const lexer *l, qg_status s)
{
    if (s == QG_OK || qg_is_nomem(s))
        return s;
    return qg_fail(l->ctx, s, "parse: %.200s:%zu:%zu: %s", l->source, l->now.line,
                   l->now.column, qg_ctx_message(l->ctx));
}

/* Blanks and comments; newlines too while a bracket is open. */
static void skip_blanks(lexer *l)
{
    for (; l->at < l->end; l->at++) {
        if (*l->at == '#')
            while (l->at + 1 < l->end && l->at[1] != '\n')
                l->at++;
        else if (*l->at == '\n' && l->nest) {
            l->line++;
            l->line_start = l->at + 1;
        } else if (*l->at != ' ' && *l->at != '\t' && *l->at != '\r')
            return;
    }
}

static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c | 0x20) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* The byte that an escape after '\' stands for; 0: no such escape. */
static char escape(lexer *l)
{
    char c = l->at < l->end ? *l->at++ : '\0';
    switch (c) {
    case '"':
    case '\\':
        return c;
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'x': {
        int high = l->end - l->at >= 2 ? hex_digit(l->at[0]) : -1;
        int low = high < 0 ? -1 : hex_digit(l->at[1]);
        l->at += low < 0 ? 0 : 2;
        return low < 0 ? '\0' : (char)(high * 16 + low);
    }
    default:
        return '\0';
    }
}

/* A backslash hides the byte after it from the search for the closing quote.  The
 * decoded text is never longer than the source. */
static qg_status lex_string(lexer *l)
{
    assert(*l->at == '"');
    const char *close = ++l->at;
    while (close < l->end && *close != '"' && *close != '\n')
        close += close + 1 < l->end && *close == '\\' ? 2 : 1;
    if (close >= l->end || *close != '"')
        return qg_lex_fail(l, "a string that ends on its line");
    char *text = qg_arena_raw(l->arena, (size_t)(close - l->at) + 1, 1);
    size_t n = 0;
    if (!text)
        return qg_nomem(l->ctx);
    while (l->at < close) {
        char c = *l->at++;
        if (c == '\\')
            c = escape(l);
        if (c == '\0')
            return qg_lex_fail(l, "\\\" \\\\ \\n \\t or \\x01 to \\xff in a string");
        text[n++] = c;
    }
    text[n] = '\0';
    l->at = close + 1;
    l->now.text = text;
    l->now.n = n;
    return QG_OK;
}

/* The token is a part of the source, not a copy. */
static void take_while(lexer *l, bool (*in)(char))
{
    assert(l->at <= l->end);
    const char *from = l->at;
    while (l->at < l->end && in(*l->at))
        l->at++;
    l->now.text = from;
    l->now.n = (size_t)(l->at - from);
}

static void lex_mark(lexer *l)
{
    static const char dots[] = "...";
    size_t n = l->end - l->at >= 3 && memcmp(l->at, dots, 3) == 0 ? 3 : 1;
    l->now.text = l->at;
    l->now.n = n;
    l->at += n;
    if (l->now.text[0] == '(' || l->now.text[0] == '[')
        l->nest++;
    else if ((l->now.text[0] == ')' || l->now.text[0] == ']') && l->nest)
        l->nest--;
}

/* A newline and ';' are the same token. */
static void lex_end(lexer *l)
{
    assert(*l->at == ';' || l->nest == 0); /* else skip_blanks took the newline */
    l->now.kind = T_END;
    if (*l->at == '\n') {
        l->line++;
        l->line_start = l->at + 1;
    }
    l->at++;
}

qg_status qg_lex_next(lexer *l)
{
    skip_blanks(l);
    assert(l->at <= l->end && l->line_start <= l->at);
    l->now = (token){ .text = l->at,
                      .n = l->at < l->end,
                      .line = l->line,
                      .column = (size_t)(l->at - l->line_start) + 1 };
    if (l->at == l->end)
        return QG_OK;
    char c = *l->at, after = l->at + 1 < l->end ? l->at[1] : '\0';
    if (c == ';' || c == '\n') {
        lex_end(l);
    } else if (c == '"') {
        l->now.kind = T_STRING;
        return lex_string(l);
    } else if (is_letter(c)) {
        l->now.kind = T_WORD;
        take_while(l, in_word);
    } else if (is_digit(c) || (c == '-' && (is_digit(after) || after == 'i'))) {
        l->now.kind = T_NUMBER;
        take_while(l, in_number);
    } else {
        l->now.kind = T_MARK;
        lex_mark(l);
    }
    return QG_OK;
}

bool qg_lex_is(const lexer *l, const char *s)
{
    return (l->now.kind == T_WORD || l->now.kind == T_MARK) && l->now.n == strlen(s) &&
           memcmp(l->now.text, s, l->now.n) == 0;
}

qg_status qg_lex_expect(lexer *l, const char *s)
{
    char expected[32];
    if (qg_lex_is(l, s))
        return qg_lex_next(l);
    (void)snprintf(expected, sizeof expected, "'%.20s'", s);
    return qg_lex_fail(l, expected);
}

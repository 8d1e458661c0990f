/* json_lines.c -- lines of JSON text: cJSON, which reads it, keeps none. */
#include <string.h>

#include "engine/core/json.h"

/* What the scan of a text has seen. */
typedef struct scan {
    const char *at, *end;
    uint32_t line;
    size_t depth;
} scan;

/* Behind the text at s->at; *begin: its contents, with their escapes. */
static size_t skip_text(scan *s, const char **begin)
{
    *begin = ++s->at;
    while (s->at < s->end && *s->at != '"')
        s->at += *s->at == '\\' && s->at + 1 < s->end ? 2 : 1;
    size_t n = (size_t)(s->at - *begin);
    s->at += s->at < s->end;
    return n;
}

/* Whether the text that was last seen in the document's object is the key. */
static bool skip_one(scan *s, const char *key, bool is_key)
{
    const char *begin;
    char c = *s->at;
    if (c == '"') {
        size_t n = skip_text(s, &begin);
        return s->depth == 1 ? n == strlen(key) && memcmp(begin, key, n) == 0 : is_key;
    }
    s->line += c == '\n';
    s->depth += c == '{' || c == '[';
    s->depth -= (c == '}' || c == ']') && s->depth;
    s->at++;
    return is_key && !(c == ',' && s->depth == 1);
}

size_t qg_json_lines(const qg_json_source *from, const char *key, uint32_t *line,
                     size_t n)
{
    scan s = { from->bytes, from->bytes + from->size, 1, 0 };
    bool is_key = false;
    size_t found = 0;
    while (s.at < s.end) {
        if (*s.at == '{' && s.depth == 2 && is_key) {
            if (found < n)
                line[found] = s.line;
            found++;
        }
        is_key = skip_one(&s, key, is_key);
    }
    return found;
}

#include "engine/config/yaml.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "engine/config/text.h"
#include "engine/core/num.h"
#include "engine/core/suggest.h"
#include "engine/core/vec.h"

/* --- complaints --- */

/* Items of `rules` are called "rule x". */
static bool is_named(const char *key, const char *what, const char *text)
{
    size_t singular = strlen(key) - (key[strlen(key) - 1] == 's');
    return strstr(text, key) ||
           (what && (strstr(what, key) || strncmp(what, key, singular) == 0));
}

qg_status qg_yaml_fail(qg_ctx *ctx, const qg_yaml *y, const char *what, const char *fmt,
                       ...)
{
    char text[800];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char *key = y->of && !is_named(y->of, what, text) ? y->of : NULL;
    return qg_fail(ctx, QG_ECONFIG, "%s:%" PRIu32 ": %s%s%s%s%s", y->file, y->line,
                   what ? what : "", what ? ": " : "", key ? key : "", key ? ": " : "",
                   text);
}

/* --- the tree ---
 *
 * libyaml's events become a tree.  Levels are a stack in the reader: events of a
 * hostile file may nest to any depth without recursion. */

/* A map or list under construction. */
typedef struct level {
    qg_yaml *node;
    QG_VEC(const char *) key;
    QG_VEC(const qg_yaml *) item;
    qg_names *seen;      /* keys of this map */
    bool key_is_waiting; /* the last key has no value yet */
} level;

typedef struct reader {
    qg_ctx *ctx;
    qg_arena *arena;
    const char *file;
    level stack[QG_YAML_DEPTH];
    size_t depth;
    qg_yaml *root;
    uint32_t documents;
} reader;

/* libyaml counts from 0. */
static uint32_t line_of(yaml_mark_t mark) { return (uint32_t)mark.line + 1; }

#define at_line(r, event, ...)                                                         \
    qg_yaml_fail(                                                                      \
        (r)->ctx,                                                                      \
        &(qg_yaml){ .file = (r)->file, .line = line_of((event)->start_mark) }, NULL,   \
        __VA_ARGS__)

/* The key of the next node; items of a list have that of the list. */
static const char *key_at(const reader *r)
{
    const level *top = r->depth ? &r->stack[r->depth - 1] : NULL;
    if (!top || top->node->kind == QG_YAML_LIST)
        return top ? top->node->of : NULL;
    return top->key.n ? top->key.at[top->key.n - 1] : NULL;
}

static qg_status node_new(reader *r, const yaml_event_t *e, enum qg_yaml_kind kind,
                          qg_yaml **out)
{
    qg_yaml *y = QG_NEW(r->arena, qg_yaml);
    if (!y)
        return qg_nomem(r->ctx);
    y->kind = kind;
    y->file = r->file;
    y->line = line_of(e->start_mark);
    y->of = key_at(r);
    y->text = "";
    *out = y;
    return QG_OK;
}

/* A complete node takes its place in the innermost map or list. */
static qg_status place(reader *r, qg_yaml *y)
{
    if (r->depth == 0) {
        r->root = y;
        return QG_OK;
    }
    level *top = &r->stack[r->depth - 1];
    top->key_is_waiting = false;
    return qg_vec_push(r->ctx, r->arena, &top->item, y);
}

/* Keys are remembered in a set per map: linear, however large the map. */
static qg_status add_key(reader *r, level *top, const yaml_event_t *e)
{
    assert(top->seen);
    const char *text = (const char *)e->data.scalar.value;
    size_t n = e->data.scalar.length;
    uint32_t before = qg_names_count(top->seen), id;
    if (n == 0 || memchr(text, 0, n))
        return at_line(r, e, "an empty key, expected a word");
    if (qg_names_add(top->seen, text, n, &id) != QG_OK)
        return qg_nomem(r->ctx);
    if (id != before)
        return at_line(r, e, "key '%s' appears twice in one map, expected once", text);
    char *key = qg_arena_strndup(r->arena, text, n);
    if (!key)
        return qg_nomem(r->ctx);
    top->key_is_waiting = true;
    return qg_vec_push(r->ctx, r->arena, &top->key, key);
}

/* In a map every other scalar is a key. */
static bool expects_key(const reader *r)
{
    const level *top = r->depth ? &r->stack[r->depth - 1] : NULL;
    return top && top->node->kind == QG_YAML_MAP && !top->key_is_waiting;
}

/* Quotes are remembered: "yes" in quotes is a text. */
static qg_status scalar(reader *r, const yaml_event_t *e)
{
    if (e->data.scalar.anchor || e->data.scalar.tag)
        return at_line(r, e, "an anchor or tag, expected plain values");
    if (expects_key(r))
        return add_key(r, &r->stack[r->depth - 1], e);
    const char *text = (const char *)e->data.scalar.value;
    size_t n = e->data.scalar.length;
    if (memchr(text, 0, n))
        return at_line(r, e, "a zero byte in a text, expected none");
    qg_yaml *y;
    QG_TRY(node_new(r, e, QG_YAML_SCALAR, &y));
    y->quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    y->text = qg_arena_strndup(r->arena, text, n);
    if (!y->text)
        return qg_nomem(r->ctx);
    return place(r, y);
}

/* The limit is checked before the level is used. */
static qg_status open_level(reader *r, const yaml_event_t *e, enum qg_yaml_kind kind)
{
    if (expects_key(r))
        return at_line(r, e, "a map or list as key, expected a word");
    if (r->depth == QG_YAML_DEPTH)
        return at_line(r, e, "more than %d levels, expected fewer", QG_YAML_DEPTH);
    level *top = &r->stack[r->depth];
    *top = (level){ 0 };
    QG_TRY(node_new(r, e, kind, &top->node));
    if (kind == QG_YAML_MAP && !(top->seen = qg_names_new(r->ctx->alloc)))
        return qg_nomem(r->ctx);
    r->depth++;
    return QG_OK;
}

/* The arrays of the level become those of its node; nothing is copied. */
static qg_status close_level(reader *r)
{
    assert(r->depth > 0);
    level *top = &r->stack[--r->depth];
    qg_names_free(top->seen);
    top->seen = NULL;
    top->node->n = top->item.n;
    top->node->key = top->key.at;
    top->node->item = top->item.at;
    return place(r, top->node);
}

static qg_status on_event(reader *r, const yaml_event_t *e)
{
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (++r->documents > 1)
            return at_line(r, e, "a second document, expected a single document");
        return QG_OK;
    case YAML_ALIAS_EVENT:
        return at_line(r, e, "an alias, expected plain values");
    case YAML_SCALAR_EVENT:
        return scalar(r, e);
    case YAML_SEQUENCE_START_EVENT:
        if (e->data.sequence_start.anchor || e->data.sequence_start.tag)
            return at_line(r, e, "an anchor or tag, expected plain values");
        return open_level(r, e, QG_YAML_LIST);
    case YAML_MAPPING_START_EVENT:
        if (e->data.mapping_start.anchor || e->data.mapping_start.tag)
            return at_line(r, e, "an anchor or tag, expected plain values");
        return open_level(r, e, QG_YAML_MAP);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return close_level(r);
    default:
        return QG_OK;
    }
}

/* libyaml's own message, after our file and line. */
static qg_status syntax_error(reader *r, const yaml_parser_t *p)
{
    qg_yaml at = { .file = r->file, .line = line_of(p->problem_mark) };
    if (p->error == YAML_MEMORY_ERROR)
        return qg_nomem(r->ctx);
    return qg_yaml_fail(r->ctx, &at, NULL, "%s%s%s, expected YAML",
                        p->context ? p->context : "", p->context ? ": " : "",
                        p->problem ? p->problem : "malformed text");
}

/* Every event is deleted, also after an error. */
static qg_status read_events(reader *r, yaml_parser_t *p)
{
    for (bool more = true; more;) {
        yaml_event_t event;
        qg_status s;
        if (yaml_parser_parse(p, &event)) {
            more = event.type != YAML_STREAM_END_EVENT;
            s = on_event(r, &event);
            yaml_event_delete(&event);
        } else {
            s = syntax_error(r, p);
        }
        if (s != QG_OK)
            return s == QG_ECONFIG ? QG_EPARSE : s;
    }
    return QG_OK;
}

/* Sets of keys that an early end left open are freed here. */
qg_status qg_yaml_parse(qg_ctx *ctx, qg_arena *a, const char *name, const char *text,
                        size_t size, const qg_yaml **out)
{
    assert(text || size == 0);
    reader *r = QG_NEW(a, reader);
    yaml_parser_t parser;
    if (!r || !(name = qg_arena_strdup(a, name)) || !yaml_parser_initialize(&parser))
        return qg_nomem(ctx);
    r->ctx = ctx;
    r->arena = a;
    r->file = name;
    const bool marked = size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0;
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING); /* keeps a byte order mark */
    yaml_parser_set_input_string(&parser, (const unsigned char *)text + 3 * marked,
                                 size - 3 * (size_t)marked);
    qg_status s = read_events(r, &parser);
    yaml_parser_delete(&parser);
    while (r->depth > 0)
        qg_names_free(r->stack[--r->depth].seen);
    QG_TRY(s);
    if (!r->root)
        return qg_fail(ctx, QG_EPARSE, "%s:1: the file is empty, expected YAML", name);
    *out = r->root;
    return QG_OK;
}

qg_status qg_yaml_load(qg_ctx *ctx, qg_arena *a, const char *path, const qg_yaml **out)
{
    const char *text;
    size_t size;
    QG_TRY(qg_config_read(ctx, a, (qg_file_request){ "read", path, QG_YAML_BYTES },
                          &text, &size));
    return qg_yaml_parse(ctx, a, path, text, size, out);
}

/* --- typed readers --- */

static const char *kind_name(const qg_yaml *y)
{
    static const char *const name[] = { [QG_YAML_SCALAR] = "a single value",
                                        [QG_YAML_LIST] = "a list",
                                        [QG_YAML_MAP] = "a map" };
    return name[y->kind];
}

const qg_yaml *qg_yaml_get(const qg_yaml *map, const char *key)
{
    if (map->kind == QG_YAML_MAP)
        for (size_t i = 0; i < map->n; i++)
            if (strcmp(map->key[i], key) == 0)
                return map->item[i];
    return NULL;
}

enum { KEYS_TEXT = 512 };

/* ", expected one of a, b, c". */
static const char *keys_text(const char *const *known, char text[KEYS_TEXT])
{
    assert(known[0]);
    size_t at = (size_t)snprintf(text, KEYS_TEXT, ", expected one of %s", known[0]);
    for (size_t k = 1; known[k] && at < KEYS_TEXT; k++)
        at += (size_t)snprintf(text + at, KEYS_TEXT - at, ", %s", known[k]);
    return text;
}

/* The error names the first unknown key, and the nearest known one or all of them. */
qg_status qg_yaml_keys(qg_ctx *ctx, const qg_yaml *map, const char *what,
                       const char *const *known)
{
    if (map->kind != QG_YAML_MAP)
        return qg_yaml_fail(ctx, map, what, "%s, expected a map", kind_name(map));
    for (size_t i = 0; i < map->n; i++) {
        qg_suggest near = qg_suggest_for(map->key[i]);
        size_t k = 0;
        while (known[k] && strcmp(known[k], map->key[i]) != 0)
            qg_suggest_try(&near, known[k++]);
        if (known[k])
            continue;
        char hint[QG_SUGGEST_TEXT], keys[KEYS_TEXT];
        qg_suggest_text(&near, hint);
        return qg_yaml_fail(ctx, map->item[i], what, "unknown key '%s'%s", map->key[i],
                            near.best ? hint : keys_text(known, keys));
    }
    return QG_OK;
}

qg_status qg_yaml_need(qg_ctx *ctx, const qg_yaml *map, const char *what,
                       const char *key, const qg_yaml **out)
{
    const qg_yaml *y = qg_yaml_get(map, key);
    if (!y)
        return qg_yaml_fail(ctx, map, what, "key '%s' is missing, expected a value",
                            key);
    *out = y;
    return QG_OK;
}

/* `expected` completes the message: "a list, expected an integer". */
static qg_status need_scalar(qg_ctx *ctx, const qg_yaml *y, const char *what,
                             const char *expected)
{
    if (y->kind != QG_YAML_SCALAR)
        return qg_yaml_fail(ctx, y, what, "%s, expected %s", kind_name(y), expected);
    return QG_OK;
}

qg_status qg_yaml_text(qg_ctx *ctx, const qg_yaml *y, const char *what,
                       const char **out)
{
    QG_TRY(need_scalar(ctx, y, what, "a text"));
    if (!y->text[0])
        return qg_yaml_fail(ctx, y, what, "no value, expected a text");
    *out = y->text;
    return QG_OK;
}

qg_status qg_yaml_int(qg_ctx *ctx, const qg_yaml *y, const char *what, int64_t low,
                      int64_t high, int64_t *out)
{
    assert(low <= high);
    int64_t x;
    QG_TRY(need_scalar(ctx, y, what, "an integer"));
    if (y->quoted || !qg_num_parse_i64(y->text, strlen(y->text), &x) || x < low ||
        x > high)
        return qg_yaml_fail(ctx, y, what,
                            "'%s', expected an integer from %" PRId64 " to %" PRId64,
                            y->text, low, high);
    *out = x;
    return QG_OK;
}

qg_status qg_yaml_number(qg_ctx *ctx, const qg_yaml *y, const char *what, double low,
                         double high, double *out)
{
    double x;
    QG_TRY(need_scalar(ctx, y, what, "a number"));
    if (y->quoted || strlen(y->text) >= 128 ||
        !qg_num_parse_f64(y->text, strlen(y->text), &x) || x < low || x > high)
        return qg_yaml_fail(ctx, y, what, "'%s', expected a number from %g to %g",
                            y->text, low, high);
    *out = x;
    return QG_OK;
}

/* Words in the order no, yes, so that the index is the value. */
qg_status qg_yaml_bool(qg_ctx *ctx, const qg_yaml *y, const char *what, bool *out)
{
    static const char *const word[] = { "no", "yes", "false", "true" };
    QG_TRY(need_scalar(ctx, y, what, "yes or no"));
    for (int i = 0; i < 4; i++)
        if (!y->quoted && strcmp(y->text, word[i]) == 0) {
            *out = i % 2;
            return QG_OK;
        }
    return qg_yaml_fail(ctx, y, what,
                        y->quoted ? "the text '%s', expected yes or no (true or false)"
                                  : "'%s', expected yes or no",
                        y->text);
}

/* "a, b or c" */
static const char *choice_text(const char *const *choices, char *text, size_t room)
{
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; choices[i] && used < room; i++) {
        const char *comma = i == 0 ? "" : choices[i + 1] ? ", " : " or ";
        int n = snprintf(text + used, room - used, "%s%s", comma, choices[i]);
        assert(n >= 0);
        used += (size_t)n;
    }
    return text;
}

qg_status qg_yaml_choice(qg_ctx *ctx, const qg_yaml *y, const char *what,
                         const char *const *choices, int *out)
{
    assert(choices[0]);
    char list[600], hint[QG_SUGGEST_TEXT];
    choice_text(choices, list, sizeof list);
    QG_TRY(need_scalar(ctx, y, what, list));
    qg_suggest near = qg_suggest_for(y->text);
    for (int i = 0; choices[i]; i++) {
        if (strcmp(choices[i], y->text) == 0) {
            *out = i;
            return QG_OK;
        }
        qg_suggest_try(&near, choices[i]);
    }
    return qg_yaml_fail(ctx, y, what, "'%s'%s, expected %s", y->text,
                        qg_suggest_text(&near, hint), list);
}

/* A single word needs no brackets. */
qg_status qg_yaml_words(qg_ctx *ctx, qg_arena *a, const qg_yaml *y, const char *what,
                        const char *const **out, size_t *n)
{
    bool list = y->kind == QG_YAML_LIST;
    size_t count = list ? y->n : 1;
    const char **word = QG_NEWN(a, count, const char *);
    if (!word)
        return qg_nomem(ctx);
    for (size_t i = 0; i < count; i++)
        QG_TRY(qg_yaml_text(ctx, list ? y->item[i] : y, what, &word[i]));
    *out = word;
    *n = count;
    return QG_OK;
}

qg_status qg_yaml_some(qg_ctx *ctx, qg_arena *a, const qg_yaml *y, const char *what,
                       const char *const **out, size_t *n)
{
    if (y->kind == QG_YAML_LIST && y->n == 0)
        return qg_yaml_fail(ctx, y, what,
                            "an empty list matches nothing, expected at least one "
                            "word");
    return qg_yaml_words(ctx, a, y, what, out, n);
}

/* Characters of two or three bytes that must not stand for themselves: line breaks,
 * which the parser folds also in quotes (U+0085, U+2028, U+2029), and those that YAML
 * does not allow (other C1 controls, U+FEFF, U+FFFE, U+FFFF).  The number of bytes, and
 * the character; 0: another one. */
static size_t reserved(const unsigned char *s, unsigned *code)
{
    if (s[0] == 0xc2 && s[1] >= 0x80 && s[1] < 0xa0) {
        *code = s[1];
        return 2;
    }
    if ((s[0] != 0xe2 && s[0] != 0xef) || (s[1] & 0xc0) != 0x80)
        return 0;
    *code = (s[0] & 0x0fU) << 12 | (s[1] & 0x3fU) << 6 | (s[2] & 0x3fU);
    return *code == 0x2028 || *code == 0x2029 || *code == 0xfeff || *code >= 0xfffe ? 3
                                                                                    : 0;
}

/* The character at s; returns the number of its bytes that were printed. */
static size_t print_character(FILE *f, const char *s)
{
    unsigned code;
    const size_t n = reserved((const unsigned char *)s, &code);
    if (n > 0)
        (void)fprintf(f, "\\u%04x", code);
    else if (*s == '"' || *s == '\\')
        (void)fprintf(f, "\\%c", *s);
    else if ((unsigned char)*s < 32 || *s == 127)
        (void)fprintf(f, "\\x%02x", (unsigned)*s);
    else
        (void)fputc(*s, f);
    return n > 0 ? n : 1;
}

void qg_yaml_print_text(FILE *f, const char *text)
{
    (void)fputc('"', f);
    while (*text)
        text += print_character(f, text);
    (void)fputc('"', f);
}

void qg_yaml_print_name(FILE *f, const char *name)
{
    (void)fputc('"', f);
    while (*name) {
        if (strchr("*?\\", *name))
            (void)print_character(f, "\\");
        name += print_character(f, name);
    }
    (void)fputc('"', f);
}

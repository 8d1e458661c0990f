/* yaml.c -- libyaml's events become a tree.  Levels are a stack in the reader:
 * events of a hostile file nest as deep as they like without nesting a call. */
#include "engine/config/yaml.h"

#include <assert.h>
#include <string.h>
#include <yaml.h>

#include "engine/core/file.h"
#include "engine/core/vec.h"

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

/* The key that the next node stands behind; items of a list have that of the list. */
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
        return at_line(r, e, "key '%s' stands twice in one map, expected it once",
                       text);
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
            return at_line(r, e, "a second document, expected one");
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

/* libyaml's own words, behind our file and line. */
static qg_status syntax_error(reader *r, const yaml_parser_t *p)
{
    qg_yaml at = { .file = r->file, .line = line_of(p->problem_mark) };
    if (p->error == YAML_MEMORY_ERROR)
        return qg_nomem(r->ctx);
    return qg_yaml_fail(r->ctx, &at, NULL, "%s%s%s, expected YAML",
                        p->context ? p->context : "", p->context ? ": " : "",
                        p->problem ? p->problem : "broken text");
}

/* Every event is deleted, whatever came of it. */
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
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
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
    char *text;
    size_t size;
    QG_TRY(qg_file_text(ctx, a, (qg_file_request){ "read", path, QG_YAML_BYTES }, &text,
                        &size));
    return qg_yaml_parse(ctx, a, path, text, size, out);
}

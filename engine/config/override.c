/* override.c -- the words of one line become the same tree that a file would have
 * given. */
#include "engine/config/override.h"

#include <stdio.h>
#include <string.h>

#include "engine/config/pipeline_yaml.h"
#include "engine/config/rules.h"
#include "engine/core/suggest.h"

enum { MOST_WORDS = 32 };

/* A map under construction. */
typedef struct map {
    qg_yaml node;
    const char *key[MOST_WORDS];
    const qg_yaml *item[MOST_WORDS];
} map;

typedef struct line {
    qg_ctx *ctx;
    qg_arena *arena;
    uint32_t number; /* of this --set, from 1 */
    map match, set;
} line;

/* Whether a word is one of the keys. */
static bool known(const char *const *keys, const char *word)
{
    while (*keys && strcmp(*keys, word) != 0)
        keys++;
    return *keys != NULL;
}

/* Nodes call their file "--set" and count options as lines. */
static qg_yaml *new_node(const line *l, enum qg_yaml_kind kind, const char *text)
{
    qg_yaml *y = QG_NEW(l->arena, qg_yaml);
    if (y)
        *y =
            (qg_yaml){ .kind = kind, .line = l->number, .file = "--set", .text = text };
    return y;
}

/* "a,b" becomes a list, "a" a scalar; brackets around are allowed. */
static qg_status new_value(const line *l, char *text, const qg_yaml **out)
{
    size_t n = strlen(text), count = 1;
    if (n >= 2 && text[0] == '[' && text[n - 1] == ']') {
        text[n - 1] = 0;
        text++;
    }
    for (const char *p = text; *p; p++)
        count += *p == ',';
    qg_yaml *y = new_node(l, count > 1 ? QG_YAML_LIST : QG_YAML_SCALAR, text);
    if (!y)
        return qg_nomem(l->ctx);
    *out = y;
    if (count == 1)
        return QG_OK;
    y->text = "";
    y->item = QG_NEWN(l->arena, count, const qg_yaml *);
    for (char *p = text; y->item && p;) {
        char *comma = strchr(p, ',');
        if (comma)
            *comma = 0;
        y->item[y->n] = new_node(l, QG_YAML_SCALAR, p);
        if (!y->item[y->n++])
            return qg_nomem(l->ctx);
        p = comma ? comma + 1 : NULL;
    }
    return y->item ? QG_OK : qg_nomem(l->ctx);
}

/* The nearest key of both maps. */
static qg_status unknown_key(const line *l, const char *key)
{
    char hint[QG_SUGGEST_TEXT];
    qg_suggest near = qg_suggest_for(key);
    for (const char *const *k = qg_match_keys; *k; k++)
        qg_suggest_try(&near, *k);
    for (const char *const *k = qg_set_keys; *k; k++)
        qg_suggest_try(&near, *k);
    return qg_fail(l->ctx, QG_ECONFIG,
                   "--set:%u: unknown key '%s'%s, expected one of "
                   "'match' or 'set' of a backend file",
                   l->number, key, qg_suggest_text(&near, hint));
}

/* The maps live in the line, their arrays too. */
static void open_map(const line *l, map *m)
{
    m->node = (qg_yaml){ .kind = QG_YAML_MAP,
                         .line = l->number,
                         .file = "--set",
                         .text = "",
                         .key = m->key,
                         .item = m->item };
}

/* "pass=equalize iterations=3": every other word is a parameter of that pass. */
static qg_status set_pass(const line *l, char *text, qg_backend *b)
{
    static const char word[] = "pass=";
    char *name = text + sizeof word - 1, *p = name + strcspn(name, " ");
    map m;
    open_map(l, &m);
    for (p += strspn(p, " "); *p; p += strspn(p, " ")) {
        char *key = p, *equals = strchr(p, '='), *end = p + strcspn(p, " ");
        if (!equals || equals > end || equals + 1 == end || m.node.n == MOST_WORDS)
            return qg_fail(l->ctx, QG_ECONFIG,
                           "--set:%u: parameters of a pass, expected key=value",
                           l->number);
        p = *end ? end + 1 : end;
        *equals = *end = 0;
        m.key[m.node.n] = key;
        QG_TRY(new_value(l, equals + 1, &m.item[m.node.n++]));
    }
    name[strcspn(name, " ")] = 0;
    if (!*name || m.node.n == 0)
        return qg_fail(l->ctx, QG_ECONFIG,
                       "--set:%u: 'pass=%s': no parameter, expected a pass and its "
                       "parameters: 'pass=%s run=yes' switches it on, run=no off "
                       "(`qg list passes`)",
                       l->number, name, *name ? name : "NAME");
    return qg_read_pass_settings(l->ctx, l->arena, &m.node, name, &b->setting);
}

/* Goes to `match` when the key belongs there, else to `set`; twice is refused. */
static qg_status add_word(line *l, char *word)
{
    char *equals = strchr(word, '=');
    if (!equals || equals == word || !equals[1])
        return qg_fail(l->ctx, QG_ECONFIG, "--set:%u: '%s', expected key=value",
                       l->number, word);
    *equals = 0;
    /* op=Conv_3: no operator is called so, a node may be */
    const char *key = strcmp(word, "op") == 0 &&
                              !qg_op_newest(l->ctx->registry, equals + 1) &&
                              !strchr(equals + 1, ',')
                          ? "node"
                          : word;
    map *m = known(qg_match_keys, key) ? &l->match : &l->set;
    if (m == &l->set && !known(qg_set_keys, key))
        return unknown_key(l, key);
    if (m->node.n == MOST_WORDS || qg_yaml_get(&m->node, key))
        return qg_fail(l->ctx, QG_ECONFIG, "--set:%u: '%s' is set twice, expected once",
                       l->number, key);
    m->key[m->node.n] = key;
    QG_TRY(new_value(l, equals + 1, &m->item[m->node.n]));
    m->node.n++;
    return QG_OK;
}

static bool is_applied(const qg_backend *b, const char *text)
{
    for (size_t i = 0; i < b->after.n; i++)
        if (strcmp(b->after.at[i], text) == 0)
            return true;
    return false;
}

/* Numbers itself by the --set rules that are there already. */
qg_status qg_backend_set(qg_ctx *ctx, qg_arena *a, const char *text, qg_backend *b)
{
    line *l = QG_NEW(a, line);
    char *copy = qg_arena_strdup(a, text);
    qg_backend_reader r = { .ctx = ctx, .arena = a, .b = b, .is_override = true };
    qg_rule rule = { .is_override = true };
    if (!l || !copy)
        return qg_nomem(ctx);
    if (is_applied(b, text))
        return QG_OK;
    *l = (line){ .ctx = ctx, .arena = a, .number = 1 };
    for (size_t i = 0; i < b->rule.n; i++)
        l->number += strncmp(b->rule.at[i].origin.id, "set:", 4) == 0;
    if (strncmp(copy, "pass=", 5) == 0)
        return set_pass(l, copy, b);
    open_map(l, &l->match);
    open_map(l, &l->set);
    for (char *p = copy + strspn(copy, " "); *p; p += strspn(p, " ")) {
        char *end = p + strcspn(p, " ");
        char *next = *end ? end + 1 : end;
        *end = 0;
        QG_TRY(add_word(l, p));
        p = next;
    }
    rule.origin = (qg_origin){ .id = qg_arena_printf(a, "set:%u", l->number),
                               .file = "--set",
                               .line = l->number,
                               .why = text };
    rule.origin.why = qg_arena_strdup(a, text);
    if (!rule.origin.id || !rule.origin.why)
        return qg_nomem(ctx);
    QG_TRY(qg_read_match(&r, &l->match.node, rule.origin.id, &rule.node, &rule.at));
    QG_TRY(qg_read_set(&r, &l->set.node, rule.origin.id, &rule.set));
    return qg_vec_push(ctx, a, &b->rule, rule);
}

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/core/num.h"
#include "engine/core/suggest.h"
#include "engine/config/yaml.h"

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
    char text[512];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char *key = y->of && !is_named(y->of, what, text) ? y->of : NULL;
    return qg_fail(ctx, QG_ECONFIG, "%s:%" PRIu32 ": %s%s%s%s%s", y->file, y->line,
                   what ? what : "", what ? ": " : "", key ? key : "", key ? ": " : "",
                   text);
}

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

/* The first unknown key is the one that is named. */
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
        char hint[QG_SUGGEST_TEXT];
        qg_suggest_text(&near, hint);
        return qg_yaml_fail(ctx, map->item[i], what, "unknown key '%s'%s%s",
                            map->key[i], hint,
                            near.best ? "" : ", expected one that the schema knows");
    }
    return QG_OK;
}

qg_status qg_yaml_need(qg_ctx *ctx, const qg_yaml *map, const char *what,
                       const char *key, const qg_yaml **out)
{
    const qg_yaml *y = qg_yaml_get(map, key);
    if (!y)
        return qg_yaml_fail(ctx, map, what, "key '%s' is missing, expected it", key);
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
        return qg_yaml_fail(ctx, y, what, "nothing, expected a text");
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

/* Words in the order no, yes, so that the index tells. */
qg_status qg_yaml_bool(qg_ctx *ctx, const qg_yaml *y, const char *what, bool *out)
{
    static const char *const word[] = { "no", "yes", "false", "true" };
    QG_TRY(need_scalar(ctx, y, what, "yes or no"));
    for (int i = 0; i < 4; i++)
        if (!y->quoted && strcmp(y->text, word[i]) == 0) {
            *out = i % 2;
            return QG_OK;
        }
    return qg_yaml_fail(ctx, y, what, "'%s', expected yes or no", y->text);
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
    char list[256], hint[QG_SUGGEST_TEXT];
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

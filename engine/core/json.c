#include "engine/core/json.h"

#include <assert.h>
#include <cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "engine/core/file.h"

static const char *const type_names[] = {
    [QG_JSON_NULL] = "null",       [QG_JSON_BOOL] = "true or false",
    [QG_JSON_NUMBER] = "a number", [QG_JSON_TEXT] = "text",
    [QG_JSON_ARRAY] = "an array",  [QG_JSON_OBJECT] = "an object"
};

/* ---- Position of a value ---- */

/* "tqcs[3].state" backwards into text, which ends at `end`; returns where it begins. */
static char *path_text(const qg_json *v, char *begin, char *end)
{
    char part[128];
    *--end = '\0';
    for (; v->parent; v = v->parent) {
        bool member = v->parent->type == QG_JSON_OBJECT;
        size_t index = (size_t)(v - v->parent->item);
        int n = member ? snprintf(part, sizeof part, "%s%.100s",
                                  v->parent->parent ? "." : "", v->key)
                       : snprintf(part, sizeof part, "[%zu]", index);
        if (end - begin < n)
            break;
        end -= n;
        memcpy(end, part, (size_t)n);
    }
    return end;
}

qg_status qg_json_fail(qg_ctx *ctx, qg_status s, const qg_json *at, const char *fmt,
                       ...)
{
    char message[512], path[256];
    const char *where = path_text(at, path, path + sizeof path);
    const qg_json *document = at;
    while (document->parent)
        document = document->parent;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    return qg_fail(ctx, s, "read %.200s: %s%s%s", document->key, where,
                   *where ? ": " : "", message);
}

/* ---- Parsing ---- */

/* The line gives the place; cJSON provides no more. */
static qg_status bad_text(qg_ctx *ctx, const qg_json_source *from, size_t at,
                          const char *what)
{
    size_t line = 1;
    for (size_t i = 0; i < at && i < from->size; i++)
        line += from->bytes[i] == '\n';
    return qg_fail(ctx, QG_EPARSE, "read %.200s: line %zu: %s", from->name, line, what);
}

/* Depth, before a recursive parser sees the text; and zero bytes, which texts cannot
 * hold. */
static qg_status check_text(qg_ctx *ctx, const qg_json_source *from)
{
    size_t depth = 0;
    bool in_text = false;
    for (size_t i = 0; i < from->size; i++) {
        char c = from->bytes[i];
        if (c == '\0')
            return bad_text(ctx, from, i, "a zero byte");
        if (c == '"')
            in_text = !in_text;
        else if (in_text && c == '\\' && i + 1 < from->size)
            i++;
        else if (!in_text && (c == '[' || c == '{') && ++depth > QG_JSON_DEPTH)
            return bad_text(ctx, from, i,
                            "arrays and objects nest deeper than 64 levels");
        else if (!in_text && (c == ']' || c == '}'))
            depth -= depth > 0;
    }
    return QG_OK;
}

static enum qg_json_type type_of(const cJSON *c)
{
    return cJSON_IsObject(c)   ? QG_JSON_OBJECT
           : cJSON_IsArray(c)  ? QG_JSON_ARRAY
           : cJSON_IsString(c) ? QG_JSON_TEXT
           : cJSON_IsNumber(c) ? QG_JSON_NUMBER
           : cJSON_IsBool(c)   ? QG_JSON_BOOL
                               : QG_JSON_NULL;
}

static qg_status copy(qg_ctx *ctx, qg_arena *a, const cJSON *from, qg_json *to);

/* Into an array: cJSON has lists, where element i takes i steps. */
static qg_status copy_children(qg_ctx *ctx, qg_arena *a, const cJSON *from, qg_json *to)
{
    for (const cJSON *c = from->child; c; c = c->next)
        to->count++;
    qg_json *item = QG_NEWN(a, to->count, qg_json);
    to->item = item;
    if (!item)
        return qg_nomem(ctx);
    size_t i = 0;
    for (const cJSON *c = from->child; c; c = c->next, i++) {
        item[i].parent = to;
        item[i].key = c->string ? qg_arena_strdup(a, c->string) : NULL;
        if (c->string && !item[i].key)
            return qg_nomem(ctx);
        QG_TRY(copy(ctx, a, c, &item[i]));
    }
    return QG_OK;
}

/* Recursion is bounded by QG_JSON_DEPTH. */
static qg_status copy(qg_ctx *ctx, qg_arena *a, const cJSON *from, qg_json *to)
{
    to->type = type_of(from);
    switch (to->type) {
    case QG_JSON_NULL:
        break;
    case QG_JSON_BOOL:
        to->truth = cJSON_IsTrue(from);
        break;
    case QG_JSON_NUMBER:
        to->number = from->valuedouble;
        if (!isfinite(to->number))
            return qg_json_fail(ctx, QG_EPARSE, to,
                                "a number beyond the range of double");
        break;
    case QG_JSON_TEXT:
        to->text = qg_arena_strdup(a, from->valuestring);
        return to->text ? QG_OK : qg_nomem(ctx);
    case QG_JSON_ARRAY:
    case QG_JSON_OBJECT:
        return copy_children(ctx, a, from, to);
    }
    return QG_OK;
}

/* A key twice: the second would never be seen.  Small objects by comparing all pairs,
 * large ones through a table. */
static qg_status check_keys(qg_ctx *ctx, const qg_json *object)
{
    qg_names *seen = qg_names_new(ctx->alloc);
    qg_status s = seen ? QG_OK : qg_nomem(ctx);
    for (size_t i = 0; i < object->count && s == QG_OK; i++) {
        const char *key = object->item[i].key;
        uint32_t id;
        if (qg_names_add(seen, key, strlen(key), &id) != QG_OK)
            s = qg_nomem(ctx);
        else if (id != i)
            s = qg_json_fail(ctx, QG_EPARSE, object, "the key '%.100s' appears twice",
                             key);
    }
    qg_names_free(seen);
    return s;
}

/* All pairs: quicker than a table for objects of a few keys. */
static bool has_twice(const qg_json *object)
{
    for (size_t i = 0; i < object->count; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(object->item[i].key, object->item[k].key) == 0)
                return true;
    return false;
}

/* Keys of every object.  Recursion is bounded by QG_JSON_DEPTH. */
static qg_status check_tree(qg_ctx *ctx, const qg_json *v)
{
    enum { SMALL = 24 };
    if (v->type == QG_JSON_OBJECT && (v->count > SMALL || has_twice(v)))
        QG_TRY(check_keys(ctx, v));
    if (v->type == QG_JSON_OBJECT || v->type == QG_JSON_ARRAY)
        for (size_t i = 0; i < v->count; i++)
            QG_TRY(check_tree(ctx, &v->item[i]));
    return QG_OK;
}

/* Of cJSON, whose allocator is not ours: an item before each comma and bracket. */
static size_t tree_bytes(const qg_json_source *from)
{
    size_t items = 1;
    for (size_t i = 0; i < from->size; i++)
        items +=
            from->bytes[i] == ',' || from->bytes[i] == '[' || from->bytes[i] == '{';
    return items * sizeof(cJSON) + from->size;
}

/* cJSON gives no reason when it fails: malloc leaves its own in errno. */
qg_status qg_json_parse(qg_ctx *ctx, qg_arena *a, const qg_json_source *from,
                        const qg_json **out)
{
    QG_TRY(check_text(ctx, from));
    if (ctx->budget && !qg_budget_fits(ctx->budget, tree_bytes(from)))
        return qg_fail(ctx, QG_EMEMORY,
                       "read %.200s: %.1f MB of JSON take more memory than is left of "
                       "%.1f MB (--max-mem)",
                       from->name, (double)from->size * 1e-6,
                       (double)qg_budget_limit(ctx->budget) * 1e-6);
    const char *end = NULL;
    errno = 0;
    cJSON *parsed = cJSON_ParseWithLengthOpts(from->bytes, from->size, &end, 0);
    size_t at = end ? (size_t)(end - from->bytes) : 0;
    while (parsed && at < from->size && strchr(" \t\r\n", from->bytes[at]))
        at++;
    bool starved = !parsed && errno == ENOMEM;
    qg_json *made = QG_NEW(a, qg_json);
    qg_status s = made && !starved ? QG_OK : qg_nomem(ctx);
    if (s == QG_OK && (!parsed || at != from->size))
        s = bad_text(ctx, from, at, "not valid JSON");
    if (s == QG_OK)
        made->key = qg_arena_strdup(a, from->name);
    if (s == QG_OK)
        s = made->key ? copy(ctx, a, parsed, made) : qg_nomem(ctx);
    cJSON_Delete(parsed);
    QG_TRY(s);
    QG_TRY(check_tree(ctx, made));
    *out = made;
    return QG_OK;
}

qg_status qg_json_read(qg_ctx *ctx, qg_arena *a, const char *path, size_t limit,
                       const qg_json **out)
{
    qg_file f;
    QG_TRY(qg_file_open(ctx, "read", path, limit, &f));
    qg_json_source from = { path, (const char *)f.bytes, f.size };
    qg_status s = qg_json_parse(ctx, a, &from, out);
    qg_file_close(&f);
    return s;
}

/* ---- Access ---- */

const qg_json *qg_json_get(const qg_json *object, const char *key)
{
    assert(object->type == QG_JSON_OBJECT);
    for (size_t i = 0; i < object->count; i++)
        if (strcmp(object->item[i].key, key) == 0)
            return &object->item[i];
    return NULL;
}

static qg_status check_type(qg_ctx *ctx, const qg_json *v, enum qg_json_type type)
{
    return v->type == type ? QG_OK
                           : qg_json_fail(ctx, QG_EPARSE, v, "is %s, expected %s",
                                          type_names[v->type], type_names[type]);
}

qg_status qg_json_as_object(qg_ctx *ctx, const qg_json *v)
{
    return check_type(ctx, v, QG_JSON_OBJECT);
}

qg_status qg_json_member(qg_ctx *ctx, const qg_json *object, const char *key,
                         enum qg_json_type type, const qg_json **out)
{
    QG_TRY(check_type(ctx, object, QG_JSON_OBJECT));
    const qg_json *v = qg_json_get(object, key);
    if (!v)
        return qg_json_fail(ctx, QG_EPARSE, object, "'%.100s' is missing, expected %s",
                            key, type_names[type]);
    QG_TRY(check_type(ctx, v, type));
    *out = v;
    return QG_OK;
}

qg_status qg_json_as_text(qg_ctx *ctx, const qg_json *v, const char **out)
{
    QG_TRY(check_type(ctx, v, QG_JSON_TEXT));
    *out = v->text;
    return QG_OK;
}

qg_status qg_json_as_f64(qg_ctx *ctx, const qg_json *v, double *out)
{
    QG_TRY(check_type(ctx, v, QG_JSON_NUMBER));
    *out = v->number;
    return QG_OK;
}

qg_status qg_json_as_int(qg_ctx *ctx, const qg_json *v, int64_t *out)
{
    QG_TRY(check_type(ctx, v, QG_JSON_NUMBER));
    if (fabs(v->number) > 0x1p53 || v->number != floor(v->number))
        return qg_json_fail(ctx, QG_EPARSE, v,
                            "is %g, expected a whole number within "
                            "2^53",
                            v->number);
    *out = (int64_t)v->number;
    return QG_OK;
}

qg_status qg_json_as_f32(qg_ctx *ctx, const qg_json *v, float *out)
{
    QG_TRY(check_type(ctx, v, QG_JSON_NUMBER));
    float x = (float)v->number;
    if (!isfinite(x))
        return qg_json_fail(ctx, QG_EPARSE, v, "is %g, expected a float32", v->number);
    *out = x;
    return QG_OK;
}

/* The reader of a member from the reader of a value. */
#define MEMBER_READER(kind, TYPE, element)                                             \
    qg_status qg_json_##kind(qg_ctx *ctx, const qg_json *object, const char *key,      \
                             element *out)                                             \
    {                                                                                  \
        const qg_json *v;                                                              \
        QG_TRY(qg_json_member(ctx, object, key, QG_JSON_##TYPE, &v));                  \
        return qg_json_as_##kind(ctx, v, out);                                         \
    }

MEMBER_READER(text, TEXT, const char *)
MEMBER_READER(int, NUMBER, int64_t)
MEMBER_READER(f64, NUMBER, double)
MEMBER_READER(f32, NUMBER, float)

qg_status qg_json_bool(qg_ctx *ctx, const qg_json *object, const char *key, bool *out)
{
    const qg_json *v;
    QG_TRY(qg_json_member(ctx, object, key, QG_JSON_BOOL, &v));
    *out = v->truth;
    return QG_OK;
}

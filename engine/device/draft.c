#include "engine/device/draft.h"

#include <string.h>

#include "engine/core/file.h"

const char *qg_draft_key_name(qg_draft_key k)
{
    static const char *const name[] = {
#define X(id, text, body) text,
        QG_DRAFT_MAP(X)
#undef X
    };
    return name[k];
}

bool qg_draft_has_bodies(qg_draft_key k)
{
    static const bool has[] = {
#define X(id, text, body) body,
        QG_DRAFT_MAP(X)
#undef X
    };
    return has[k];
}

bool qg_draft_has(const qg_draft *d, const qg_draft_change *c)
{
    for (size_t i = 0; i < d->change.n; i++)
        if (d->change.at[i].key == c->key && strcmp(d->change.at[i].word, c->word) == 0)
            return true;
    return false;
}

/* Names come from models, so nothing but quotes is left of their own syntax. */
const char *qg_draft_quoted(qg_arena *a, const char *text)
{
    char *out = qg_arena_get(a, 2 * strlen(text) + 3, 1), *at = out;
    if (!out)
        return NULL;
    *at++ = '"';
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            *at++ = '\\';
        *at++ = (unsigned char)*text < ' ' ? '?' : *text;
    }
    *at++ = '"';
    *at = 0;
    return out;
}

const char *qg_draft_name(qg_arena *a, const char *path)
{
    const char *base = qg_path_base(path);
    size_t n = strlen(base);
    if (qg_path_ends_in(base, ".yaml"))
        n -= 5;
    char *name = qg_arena_strndup(a, base, n);
    for (char *p = name; p && *p; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
              (*p >= '0' && *p <= '9') || *p == '.' || *p == '_'))
            *p = '-';
    return name;
}

static qg_status check_ending(qg_ctx *ctx, const char *doing, const char *path)
{
    return qg_path_ends_in(qg_path_base(path), ".yaml")
               ? QG_OK
               : qg_fail(ctx, QG_ECONFIG,
                         "%s: write %.300s: expected a name that ends in .yaml", doing,
                         path);
}

qg_status qg_draft_check_path(qg_ctx *ctx, const char *doing, const char *option,
                              const char *from, const char *yaml)
{
    if (!yaml)
        return QG_OK;
    QG_TRY(check_ending(ctx, doing, yaml));
    size_t n = from ? (size_t)(qg_path_base(from) - from) : 0;
    size_t own = (size_t)(qg_path_base(yaml) - yaml);
    if (!from || (n == 0 && !strstr(from, ".yaml")))
        return QG_OK; /* a name */
    if (qg_is_same_file(from, yaml))
        return qg_fail(ctx, QG_ECONFIG,
                       "%s: write %.200s: it is the file after %s, expected another",
                       doing, yaml, option);
    if (*from == '/' || (n == own && memcmp(from, yaml, n) == 0))
        return QG_OK;
    return qg_fail(ctx, QG_ECONFIG,
                   "%s: write %.200s: it would extend %.200s, expected a name in the "
                   "same folder, or an absolute path after %s",
                   doing, yaml, from, option);
}

qg_status qg_draft_check_name(qg_ctx *ctx, const char *doing, const char *path,
                              const char *base)
{
    const char *own = qg_path_base(path), *end = strrchr(own, '.');
    const size_t n =
        end && strcmp(end, ".yaml") == 0 ? (size_t)(end - own) : strlen(own);
    if (strlen(base) != n || memcmp(own, base, n) != 0)
        return QG_OK;
    return qg_fail(ctx, QG_ECONFIG,
                   "%s: write %s: has the name of '%s', which it extends, expected "
                   "another name",
                   doing, path, base);
}

/* A comment of one line, whatever a name of the model holds. */
static void print_comment(const qg_draft_change *c, FILE *f)
{
    fprintf(f, "# %s: ", c->key == QG_DRAFT_DEFAULTS ? "codes" : c->word);
    for (const char *p = c->why; *p; p++)
        fputc((unsigned char)*p < ' ' ? '?' : *p, f);
    fputc('\n', f);
}

/* Keys that are lists of words: the reasons as comments, then the list. */
static void print_words(const qg_draft *d, qg_draft_key key, FILE *f)
{
    const char *before = "[";
    for (size_t i = 0; i < d->change.n; i++)
        if (d->change.at[i].key == key)
            print_comment(&d->change.at[i], f);
    fprintf(f, "%s: ", qg_draft_key_name(key));
    for (size_t i = 0; i < d->change.n; i++)
        if (d->change.at[i].key == key) {
            fprintf(f, "%s%s", before, d->change.at[i].word);
            before = ", ";
        }
    fputs("]\n", f);
}

static void print_defaults(const qg_draft *d, FILE *f)
{
    const qg_draft_change *last = NULL;
    for (size_t i = 0; i < d->change.n; i++)
        if (d->change.at[i].key == QG_DRAFT_DEFAULTS)
            last = &d->change.at[i];
    print_comment(last, f);
    fprintf(f, "%s: %s\n", qg_draft_key_name(QG_DRAFT_DEFAULTS), last->word);
}

/* False: no memory. */
static bool print_items(qg_arena *a, const qg_draft *d, qg_draft_key key, FILE *f)
{
    fprintf(f, "%s:\n", qg_draft_key_name(key));
    for (size_t i = 0; i < d->change.n; i++) {
        const qg_draft_change *c = &d->change.at[i];
        if (c->key != key)
            continue;
        const char *why = qg_draft_quoted(a, c->why);
        if (!why)
            return false;
        fprintf(f, "  - id: %s\n%s    why: %s\n    source: qg infer-backend\n", c->word,
                c->body, why);
    }
    return true;
}

/* False: no memory. */
static bool print(qg_arena *a, const qg_draft *d, FILE *f)
{
    const char *base = qg_draft_quoted(a, d->base);
    if (!base)
        return false;
    fprintf(f, "name: %s\ntitle: inferred from a dump\nextends: %s\n", d->name, base);
    for (int key = 0; key < QG_NDRAFT; key++) {
        const qg_draft_change *first = NULL;
        for (size_t i = d->change.n; i-- > 0;)
            if (d->change.at[i].key == (qg_draft_key)key)
                first = &d->change.at[i];
        if (!first)
            continue;
        fputc('\n', f);
        if (first->key == QG_DRAFT_DEFAULTS)
            print_defaults(d, f);
        else if (!qg_draft_has_bodies(first->key))
            print_words(d, first->key, f);
        else if (!print_items(a, d, first->key, f))
            return false;
    }
    return true;
}

qg_status qg_draft_text(qg_ctx *ctx, const qg_draft *d, qg_arena *a, const char **out,
                        size_t *size)
{
    qg_memory_file f;
    QG_TRY(qg_memory_open(ctx, &f));
    const bool all = print(a, d, f.stream);
    QG_TRY(qg_memory_close(&f, all ? QG_OK : qg_nomem(ctx)));
    *size = f.size;
    *out = qg_arena_strndup(a, f.bytes, f.size);
    qg_memory_free(&f);
    return *out ? QG_OK : qg_nomem(ctx);
}

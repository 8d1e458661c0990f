#include "engine/config/search.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "engine/config/text.h"
#include "engine/core/file.h"
#include "engine/core/suggest.h"
#include "engine/core/vec.h"

/* A name with a slash or a suffix is taken as it is. */
static bool is_path(const char *name)
{
    return strchr(name, '/') || qg_path_ends_in(name, ".yaml");
}

/* Opening is the only question that cannot lie.  A file that cannot be opened for
 * reasons of the system is the one: whoever reads it reports them. */
static bool readable(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == EIO || errno == EMFILE || errno == ENFILE || errno == ENOMEM;
    (void)close(fd);
    return true;
}

typedef QG_VEC(const char *) name_list;

/* In byte order, each once; names of other files are left out. */
static qg_status add_name(qg_ctx *ctx, qg_arena *a, const char *file, name_list *all)
{
    size_t length = strlen(file);
    if (!is_path(file))
        return QG_OK;
    char *name = qg_arena_strndup(a, file, length - 5);
    if (!name)
        return qg_nomem(ctx);
    size_t at = all->n;
    QG_TRY(qg_vec_reserve(ctx, a, all));
    while (at > 0 && strcmp(all->at[at - 1], name) > 0)
        at--;
    if (at > 0 && strcmp(all->at[at - 1], name) == 0)
        return QG_OK;
    memmove(all->at + at + 1, all->at + at, (all->n++ - at) * sizeof *all->at);
    all->at[at] = name;
    return QG_OK;
}

/* Lists are merged by insertion: folders are small, and each is in byte order
 * already. */
qg_status qg_config_names(qg_ctx *ctx, qg_arena *a, qg_search search,
                          const char ***names, size_t *n)
{
    name_list all = { 0 };
    for (const qg_added *i = ctx->added[QG_ADDED_CONFIG]; i; i = i->next) {
        const char *file = strchr(i->name, '/') + 1;
        if (search.folder && qg_config_added(ctx, search.folder, file) == i->name)
            QG_TRY(add_name(ctx, a, file, &all));
    }
    for (size_t d = 0; d < search.n; d++) {
        const char **file;
        size_t count;
        QG_TRY(qg_directory_list(ctx, a, search.dir[d], &file, &count));
        for (size_t i = 0; i < count; i++)
            QG_TRY(add_name(ctx, a, file[i], &all));
    }
    *names = all.at;
    *n = all.n;
    return QG_OK;
}

/* Beside the file (which is in no folder when a host added it), then in the folders;
 * *out NULL: nowhere. */
static qg_status look(qg_ctx *ctx, qg_arena *a, const qg_wanted *w, const char *file,
                      const char **out)
{
    *out = NULL;
    for (size_t i = 0; i <= w->search.n; i++) {
        const char *path;
        if (i > 0)
            path = qg_path_join(a, w->search.dir[i - 1], file);
        else if (w->beside && !qg_ctx_added(ctx, QG_ADDED_CONFIG, w->beside))
            path =
                qg_arena_printf(a, "%.*s%s", (int)(qg_path_base(w->beside) - w->beside),
                                w->beside, file);
        else
            continue;
        if (!path)
            return qg_nomem(ctx);
        if (readable(path)) {
            *out = path;
            return QG_OK;
        }
    }
    return QG_OK;
}

/* Whether the file's line `title:` contains the word, whatever the case; false as well
 * when it cannot be read: this is about a hint. */
static bool title_has(qg_ctx *ctx, qg_arena *a, const qg_wanted *w, const char *name)
{
    static const char key[] = "\ntitle:";
    const char *path = NULL, *text = NULL;
    const char *file = qg_arena_printf(a, "%s.yaml", name);
    size_t size = 0, n = strlen(w->name);
    qg_file_request request = { "hint", NULL, 1 << 20 };
    if (!file || n < 3 || look(ctx, a, w, file, &path) != QG_OK || !path)
        return false;
    request.path = path;
    if (qg_config_read(ctx, a, request, &text, &size) != QG_OK)
        return false;
    const char *at = strstr(text, key), *end = at ? strchr(at + 1, '\n') : NULL;
    for (; at && end && at + n <= end; at++)
        if (strncasecmp(at, w->name, n) == 0)
            return true;
    return false;
}

/* The name that is the nearest without its suffix, as tflte is to tflite-int8. */
static void try_stems(qg_suggest *near, const char *suffix, const char **known,
                      size_t n)
{
    qg_suggest stem = qg_suggest_for(near->word);
    char text[QG_SUGGEST_TEXT];
    for (size_t i = 0; i < n; i++) {
        const size_t m = strlen(known[i]), n_suffix = strlen(suffix);
        if (!qg_path_ends_in(known[i], suffix) || m - n_suffix >= sizeof text)
            continue;
        memcpy(text, known[i], m - n_suffix);
        text[m - n_suffix] = 0;
        stem.best = NULL;
        qg_suggest_try(&stem, text);
        if (stem.best && (!near->best || stem.edits < near->edits)) {
            near->best = known[i];
            near->edits = stem.edits;
        }
    }
}

enum { HINT_TEXT = 400 }; /* bytes of several names */

/* Whether several names go on after the word and '-', of which none is the obvious one:
 * *hint has all of them, or "..." where there are too many. */
static bool hint_at_all(const char *word, const char **known, size_t n,
                        char hint[HINT_TEXT])
{
    const size_t n_word = strlen(word);
    size_t found = 0, used = 0, last = 0;
    for (size_t i = 0; i < n; i++)
        if (strncasecmp(known[i], word, n_word) == 0 && known[i][n_word] == '-') {
            found++;
            last = i;
        }
    for (size_t i = 0; found > 1 && i <= last; i++) {
        if (strncasecmp(known[i], word, n_word) != 0 || known[i][n_word] != '-')
            continue;
        const char *before = !used ? ", did you mean '" : i == last ? " or '" : ", '";
        if (used + strlen(before) + strlen(known[i]) + sizeof "', ..." > HINT_TEXT) {
            (void)snprintf(hint + used, HINT_TEXT - used, ", ...");
            break;
        }
        used +=
            (size_t)snprintf(hint + used, HINT_TEXT - used, "%s%s'", before, known[i]);
    }
    return used > 0;
}

/* NAME-int8 before other names that begin like this, before names alike, before names
 * alike but for -int8, before titles that contain the word: trt and TensorRT are
 * trt-int8. */
static void hint_at(qg_ctx *ctx, qg_arena *a, const qg_wanted *w, const char **known,
                    size_t n, char hint[HINT_TEXT])
{
    static const char suffix[] = "-int8";
    const size_t n_word = strlen(w->name);
    const char *obvious = NULL;
    qg_suggest near = qg_suggest_for(w->name);
    for (size_t i = 0; i < n; i++)
        qg_suggest_try(&near, known[i]);
    for (size_t i = 0; i < n; i++)
        if (strncmp(known[i], w->name, n_word) == 0 &&
            strcmp(known[i] + n_word, suffix) == 0)
            obvious = known[i];
    if (!obvious && hint_at_all(w->name, known, n, hint))
        return;
    near.best = obvious ? obvious : near.best;
    if (!near.best)
        try_stems(&near, suffix, known, n);
    bool titled = false;
    for (size_t i = 0; (!near.best || titled) && i < n; i++) {
        bool int8 = qg_path_ends_in(known[i], suffix);
        if ((near.best && !int8) || !title_has(ctx, a, w, known[i]))
            continue;
        near.best = known[i];
        titled = !int8;
    }
    qg_suggest_text(&near, hint);
}

static qg_status not_found(qg_ctx *ctx, qg_arena *a, const qg_wanted *w)
{
    const char **known;
    size_t n;
    char hint[HINT_TEXT];
    QG_TRY(qg_config_names(ctx, a, w->search, &known, &n));
    hint_at(ctx, a, w, known, n, hint);
    if (w->at)
        return qg_yaml_fail(
            ctx, w->at, NULL,
            "unknown %s '%s'%s, expected a path or one of `qg list %ss`", w->kind,
            w->name, hint, w->kind);
    if (access(w->name, F_OK) == 0 && !qg_is_directory(w->name))
        return qg_fail(
            ctx, QG_ECONFIG,
            "%s: '%s' is a file%s, expected one whose name ends in .yaml, or "
            "one of `qg list %ss`",
            w->kind, w->name, hint, w->kind);
    if (qg_is_directory(w->name))
        return qg_fail(ctx, QG_ECONFIG,
                       "%s: '%s' is a folder%s, expected a .yaml file or one of `qg "
                       "list %ss`",
                       w->kind, w->name, hint, w->kind);
    return qg_fail(ctx, QG_ECONFIG,
                   "%s: unknown %s '%s'%s, expected a path or one of `qg list %ss`",
                   w->kind, w->kind, w->name, hint, w->kind);
}

/* A path that no folder is put in front of: an absolute one, or one that no file names.
 */
static bool is_as_given(const qg_ctx *ctx, const qg_wanted *w)
{
    return !w->beside || w->name[0] == '/' ||
           qg_ctx_added(ctx, QG_ADDED_CONFIG, w->beside);
}

qg_status qg_config_find(qg_ctx *ctx, qg_arena *a, const qg_wanted *w,
                         const char **path)
{
    const qg_search *s = &w->search;
    const char *found = s->folder ? qg_config_added(ctx, s->folder, w->name) : NULL;
    const char *file =
        is_path(w->name) ? w->name : qg_arena_printf(a, "%s.yaml", w->name);
    if (!file)
        return qg_nomem(ctx);
    if (!found && is_path(w->name) && is_as_given(ctx, w))
        found = file;
    else if (!found)
        QG_TRY(look(ctx, a, w, file, &found));
    if (!found)
        return not_found(ctx, a, w);
    *path = found;
    return QG_OK;
}

/* One folder today; the type leaves room for a user's own. */
qg_status qg_config_search(qg_ctx *ctx, qg_arena *a, const char *folder, qg_search *out)
{
    if (!ctx->config_dir) {
        *out = (qg_search){ .folder = folder };
        return QG_OK;
    }
    const char **dir = QG_NEWN(a, 1, const char *);
    if (!dir || !(dir[0] = qg_path_join(a, ctx->config_dir, folder)))
        return qg_nomem(ctx);
    *out = (qg_search){ .dir = dir, .n = 1, .folder = folder };
    return QG_OK;
}

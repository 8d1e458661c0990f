#include "engine/config/text.h"

#include <assert.h>
#include <string.h>

#include "engine/core/reads.h"

/* "backends/mine.yaml" is "mine" and "mine.yaml" of the folder "backends". */
static bool is_called(const char *path, const char *folder, const char *name)
{
    size_t n = strlen(folder), length = strlen(name);
    if (strncmp(path, folder, n) != 0 || path[n] != '/')
        return false;
    const char *file = path + n + 1;
    return strcmp(path, name) == 0 || strcmp(file, name) == 0 ||
           (strncmp(file, name, length) == 0 && strcmp(file + length, ".yaml") == 0);
}

const char *qg_config_added(const qg_ctx *ctx, const char *folder, const char *name)
{
    for (const qg_added *i = ctx->added[QG_ADDED_CONFIG]; i; i = i->next)
        if (is_called(i->name, folder, name))
            return i->name;
    return NULL;
}

qg_status qg_config_read(qg_ctx *ctx, qg_arena *a, qg_file_request what,
                         const char **text, size_t *size)
{
    const qg_config_text *added = qg_ctx_added(ctx, QG_ADDED_CONFIG, what.path);
    char *bytes;
    if (!added) {
        QG_TRY(qg_file_text(ctx, a, what, &bytes, size));
        *text = bytes;
        return qg_reads_note(ctx, what.path,
                             "a file of the configuration that is read");
    }
    *text = added->text;
    *size = added->size;
    return QG_OK;
}

void qg_config_lend(qg_ctx *ctx, qg_config_loan *loan, const char *path,
                    qg_config_text text)
{
    assert(!qg_ctx_added(ctx, QG_ADDED_CONFIG, path));
    loan->text = text;
    loan->row = (qg_added){ .next = ctx->added[QG_ADDED_CONFIG],
                            .name = path,
                            .what = &loan->text };
    ctx->added[QG_ADDED_CONFIG] = &loan->row;
}

void qg_config_take_back(qg_ctx *ctx, qg_config_loan *loan)
{
    assert(ctx->added[QG_ADDED_CONFIG] == &loan->row);
    ctx->added[QG_ADDED_CONFIG] = loan->row.next;
}

#include "engine/embed/extend.h"

#include <string.h>

#include "engine/core/ctx.h"

qg_status qg_extend_text(qg_ctx *ctx, const char **text)
{
    if (*text && !(*text = qg_arena_strdup(ctx->arena, *text)))
        return qg_nomem(ctx);
    return QG_OK;
}

qg_status qg_extend_name(qg_ctx *ctx, const char *what, const char **name)
{
    static const char legal[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789-_.";
    size_t n = *name ? strspn(*name, legal) : 0;
    if (n == 0 || (*name)[n])
        return qg_fail(ctx, QG_ECONFIG,
                       "add %s: name '%.80s', expected letters, digits, '-', '_' and "
                       "'.'",
                       what, *name ? *name : "");
    return qg_extend_text(ctx, name);
}

qg_status qg_extend_taken(qg_ctx *ctx, const char *what, const char *name)
{
    return qg_fail(ctx, QG_ECONFIG,
                   "add %s '%.80s': the name is in use, expected a name that `qg list` "
                   "does not show",
                   what, name);
}

#include "engine/session/options.h"

#include <string.h>

/* No version will have a struct as large: a greater size was never set. */
enum { MAX_SIZE = 1 << 16 };

void qg_options_init(void *o, size_t size, const void *preset, qg_options_type type)
{
    if (size < sizeof size)
        return;
    memset(o, 0, size);
    memcpy(o, preset, size < type.size ? size : type.size);
    memcpy(o, &size, sizeof size);
}

/* The caller's fields after ours, if any, are unset. */
static bool known(const char *given, size_t size, size_t ours)
{
    for (size_t i = ours; i < size; i++)
        if (given[i])
            return false;
    return true;
}

qg_status qg_options_read(qg_ctx *ctx, qg_options_type type, const void *given,
                          void *out)
{
    size_t size;
    if (!given)
        return QG_OK;
    memcpy(&size, given, sizeof size);
    if (size < sizeof size || size > MAX_SIZE)
        return qg_fail(ctx, QG_ECONFIG,
                       "options: %s: size %zu, expected that of the struct: call "
                       "%s_init",
                       type.name, size, type.name);
    if (!known(given, size, type.size))
        return qg_fail(ctx, QG_ECONFIG,
                       "options: %s: a field after byte %zu is set, expected the "
                       "fields of version %d of the library",
                       type.name, type.size, QG_API_VERSION);
    memcpy(out, given, size < type.size ? size : type.size);
    memcpy(out, &type.size, sizeof type.size);
    return QG_OK;
}

static qg_status check_reserved(qg_ctx *ctx, const char *name, const void *const *at,
                                size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (at[i])
            return qg_fail(ctx, QG_ECONFIG,
                           "options: %s: reserved[%zu] is set, expected NULL", name, i);
    return QG_OK;
}

qg_status qg_workload_check(qg_ctx *ctx, const qg_workload *work)
{
    return check_reserved(ctx, "qg_workload", work->reserved,
                          sizeof work->reserved / sizeof work->reserved[0]);
}

qg_status qg_proposal_check(qg_ctx *ctx, const qg_proposal_options *o)
{
    return check_reserved(ctx, "qg_proposal_options", o->reserved,
                          sizeof o->reserved / sizeof o->reserved[0]);
}

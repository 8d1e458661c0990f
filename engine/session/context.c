#include "engine/session/session.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "engine/core/reads.h"
#include "ops/families.h"

const char *qg_version(void) { return QG_VERSION; }

int qg_api_version(void) { return QG_API_VERSION; }

QG_OPTIONS_INIT(qg_open_options)

/* The public callback takes levels as numbers. */
static void write_log(void *ud, enum qg_log_level level, const char *text)
{
    const qg_open_options *o = ud;
    o->log(o->log_ud, (int)level, text);
}

/* --- the folder of configurations --- */

/* The file of the library, or of the program that it is linked into: its real path. */
static bool own_file(char path[PATH_MAX])
{
    static const char here;
    Dl_info info;
    if (!dladdr(&here, &info) || !info.dli_fname)
        return false;
    /* The dynamic linker knows a program by the word it was called with. */
    return realpath(strchr(info.dli_fname, '/') ? info.dli_fname : "/proc/self/exe",
                    path);
}

enum { PLACE_BYTES = 2 * PATH_MAX };

static bool has_configs(const char *dir)
{
    char backends[PLACE_BYTES + 16];
    (void)snprintf(backends, sizeof backends, "%s/backends", dir);
    return qg_is_directory(backends);
}

/* What is installed beside the library, wherever that was moved to; the source tree it
 * was built from, while it is there; where it was to be installed. */
static const char *default_config_dir(char place[PLACE_BYTES])
{
    static const char *const beside[] = { QG_CONFIG_DIR_OF_LIBRARY,
                                          QG_CONFIG_DIR_OF_PROGRAM };
    char own[PATH_MAX];
    const int known = own_file(own) ? (int)(qg_path_base(own) - own) : 0;
    for (size_t i = 0; known && i < sizeof beside / sizeof *beside; i++) {
        (void)snprintf(place, PLACE_BYTES, "%.*s%s", known, own, beside[i]);
        if (has_configs(place))
            return place;
    }
    return has_configs(QG_CONFIG_DIR) ? QG_CONFIG_DIR : QG_INSTALLED_CONFIG_DIR;
}

/* The options are kept in the context's arena, since the log outlives the call. */
qg_status qg_open(const qg_open_options *given, qg_ctx **out)
{
    qg_open_options o;
    QG_TRY(QG_OPTIONS_READ(NULL, qg_open_options, given, &o));
    if (!o.alloc.get != !o.alloc.drop)
        return QG_ECONFIG;
    qg_alloc alloc = o.alloc.get ? o.alloc : qg_alloc_libc;
    qg_budget *budget =
        qg_budget_new(alloc, o.max_memory ? o.max_memory : qg_memory_default());
    qg_ctx *ctx = budget ? qg_ctx_new(qg_budget_alloc(budget)) : NULL;
    if (!ctx) {
        qg_budget_free(budget);
        return QG_ENOMEM;
    }
    ctx->budget = budget;
    if (o.max_nodes)
        ctx->limits.nodes = o.max_nodes;
    if (o.max_ratio)
        ctx->limits.ratio = o.max_ratio;
    qg_open_options *kept = QG_NEW(ctx->arena, qg_open_options);
    char place[PLACE_BYTES];
    const char *dir = o.config_dir ? o.config_dir : default_config_dir(place);
    ctx->config_dir = qg_arena_strdup(ctx->arena, dir);
    if (!kept || !ctx->config_dir) {
        qg_close(ctx);
        return QG_ENOMEM;
    }
    *kept = o;
    ctx->registry = &qg_ops_registry;
    if (kept->log)
        ctx->log = (qg_log){ write_log, kept, (enum qg_log_level)kept->log_level };
    *out = ctx;
    return QG_OK;
}

bool qg_has_read(const qg_ctx *ctx, const char *path)
{
    return qg_reads_find(ctx, path) != NULL;
}

void qg_close(qg_ctx *ctx)
{
    qg_budget *budget = ctx ? ctx->budget : NULL;
    qg_ctx_free(ctx);
    qg_budget_free(budget);
}

/* config.c -- configuration that the host has as text. */
#include <string.h>

#include "engine/config/text.h"
#include "engine/config/yaml.h"
#include "engine/core/file.h"
#include "engine/embed/extend.h"

/* "backends/mine.yaml": a folder that is read, and one name in it. */
static bool is_path_of_folder(const char *path)
{
    static const char *const folder[] = { "backends/", "pipelines/", "policies/",
                                          "profiles/" };
    for (size_t i = 0; i < sizeof folder / sizeof folder[0]; i++) {
        size_t skip = strlen(folder[i]);
        if (strncmp(path, folder[i], skip) == 0)
            return !strchr(path + skip, '/') && qg_path_ends_in(path + skip, ".yaml");
    }
    return false;
}

qg_status qg_add_config(qg_ctx *ctx, const char *path, const char *text, size_t size)
{
    if (!path || !is_path_of_folder(path))
        return qg_fail(ctx, QG_ECONFIG,
                       "add configuration '%.80s': expected backends/NAME.yaml, "
                       "pipelines/NAME.yaml, policies/NAME.yaml or "
                       "profiles/NAME.yaml",
                       path ? path : "");
    if (!text || size > QG_YAML_BYTES)
        return qg_fail(ctx, QG_ECONFIG,
                       "add configuration %s: %zu bytes, expected a text of at most %d",
                       path, text ? size : 0, QG_YAML_BYTES);
    if (qg_ctx_added(ctx, QG_ADDED_CONFIG, path))
        return qg_extend_taken(ctx, "configuration", path);
    qg_config_text *kept = QG_NEW(ctx->arena, qg_config_text);
    path = qg_arena_strdup(ctx->arena, path);
    char *copy = qg_arena_get(ctx->arena, 1, size + 1);
    if (!kept || !path || !copy)
        return qg_nomem(ctx);
    memcpy(copy, text, size);
    *kept = (qg_config_text){ copy, size };
    return qg_ctx_add(ctx, QG_ADDED_CONFIG, path, kept);
}

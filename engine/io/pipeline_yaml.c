#include "engine/io/pipeline_yaml.h"

#include <assert.h>

#include "engine/io/backend_yaml_parts.h"

/* Pass names are not checked here: io does not know passes, the driver does. */
qg_status qg_pipeline_load(qg_ctx *ctx, qg_arena *a, const char *name, qg_search search,
                           qg_pipeline *out)
{
    assert(a && name && out);
    static const char *const keys[] = { "name", "why", "passes", NULL };
    qg_pipeline p = { 0 };
    const char *path;
    const qg_yaml *file, *y;
    qg_wanted w = { "pipeline", name, NULL, search };
    QG_TRY(qg_config_find(ctx, a, &w, &path));
    QG_TRY(qg_yaml_load(ctx, a, path, &file));
    QG_TRY(qg_yaml_keys(ctx, file, "pipeline", keys));
    QG_TRY(qg_yaml_need(ctx, file, "pipeline", "name", &y));
    QG_TRY(qg_yaml_text(ctx, y, "name", &p.name));
    QG_TRY(qg_yaml_need(ctx, file, "pipeline", "why", &y));
    QG_TRY(qg_yaml_text(ctx, y, "why", &p.why));
    QG_TRY(qg_yaml_need(ctx, file, "pipeline", "passes", &y));
    QG_TRY(qg_yaml_words(ctx, a, y, "passes", &p.pass, &p.n));
    uint32_t *line = QG_NEWN(a, p.n, uint32_t);
    if (!line)
        return qg_nomem(ctx);
    for (size_t i = 0; i < p.n; i++)
        line[i] = y->kind == QG_YAML_LIST ? y->item[i]->line : y->line;
    assert(p.n > 0 || y->kind == QG_YAML_LIST);
    p.line = line;
    p.file = file->file;
    *out = p;
    return QG_OK;
}

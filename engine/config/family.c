#include "engine/config/family.h"

#include <string.h>

qg_status qg_config_family(qg_ctx *ctx, qg_arena *a, const qg_wanted *wanted,
                           qg_family *out)
{
    const char *path;
    QG_TRY(qg_config_find(ctx, a, wanted, &path));
    for (out->n = 0;;) {
        QG_TRY(qg_yaml_load(ctx, a, path, &out->file[out->n]));
        const qg_yaml *parent = qg_yaml_get(out->file[out->n++], "extends");
        const char *name;
        if (!parent)
            return QG_OK;
        QG_TRY(qg_yaml_text(ctx, parent, "extends", &name));
        qg_wanted w = { wanted->kind, name, path, parent, wanted->search };
        QG_TRY(qg_config_find(ctx, a, &w, &path));
        for (size_t i = 0; i < out->n; i++)
            if (strcmp(out->file[i]->file, path) == 0)
                return qg_yaml_fail(ctx, parent, "extends",
                                    "'%s' is its own ancestor, "
                                    "expected a parent that is not",
                                    name);
        if (out->n == QG_MOST_GENERATIONS)
            return qg_yaml_fail(ctx, parent, "extends",
                                "more than %d generations, "
                                "expected fewer",
                                QG_MOST_GENERATIONS);
    }
}

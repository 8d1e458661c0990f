#include "engine/formats/config_format.h"

#include <string.h>

#include "engine/formats/aimet/config.h"

static const qg_config_format row[] = {
    {"aimet", qg_aimet_config},
};

qg_status qg_config_format_named(qg_ctx *ctx, const char *name,
                                 const qg_config_format **out)
{
    for (size_t i = 0; name && i < sizeof row / sizeof row[0]; i++)
        if (strcmp(name, row[i].name) == 0) {
            *out = &row[i];
            return QG_OK;
        }
    return qg_fail(ctx, QG_ECONFIG, "import-backend: format '%s', expected aimet",
                   name ? name : "");
}

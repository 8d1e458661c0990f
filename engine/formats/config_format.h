/* config_format.h -- configurations of other tools that become backend files of ours
 * (`qg import-backend`): one row of a table each. */
#ifndef QG_ENGINE_FORMATS_CONFIG_FORMAT_H
#define QG_ENGINE_FORMATS_CONFIG_FORMAT_H

#include "engine/core/json.h"
#include "engine/core/vec.h"

/* Names for the texts of the result; borrowed. */
typedef struct qg_config_labels {
    const char *backend; /* letters, digits, '.', '_', '-' (QG_ECONFIG otherwise) */
    const char *file;    /* name of the JSON in `source:` */
} qg_config_labels;

/* All of it lies in the arena of the call. */
typedef struct qg_config_result {
    const char *yaml;          /* for config/backend_yaml.h; in the arena */
    size_t size;               /* bytes of yaml */
    QG_VEC(const char *) note; /* "op_type.Foo: no such operator", in order */
    size_t rules, fusions;     /* how many were written */
} qg_config_result;

/* A row; static and immutable. */
typedef struct qg_config_format {
    const char *name; /* the word of --format */

    /* `root` is a document of json.h, whose strings hold no zeros; depth and size were
     * limited when it was read.  *out is untouched on failure. */
    qg_status (*convert)(qg_ctx *ctx, qg_arena *a, const qg_json *root,
                         qg_config_labels names, qg_config_result *out);
} qg_config_format;

/* QG_ECONFIG with the expected names; name may be NULL. */
QG_NODISCARD qg_status qg_config_format_named(qg_ctx *ctx, const char *name,
                                              const qg_config_format **out);

#endif

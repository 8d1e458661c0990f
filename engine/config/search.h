/* search.h -- where backend and pipeline files are: among the texts of the host
 * (text.h), by path, next to the file that names them, or by name in folders. */
#ifndef QG_ENGINE_CONFIG_SEARCH_H
#define QG_ENGINE_CONFIG_SEARCH_H

#include "engine/config/yaml.h"

/* Folders that hold files of one kind, in order of preference. */
typedef struct qg_search {
    const char *const *dir; /* [n] */
    size_t n;
    const char *folder; /* of the texts that go before files; NULL: none do */
} qg_search;

/* A folder of the context's config_dir: "backends", "profiles"; no folder, but texts of
 * the host, when it has no config_dir.  *out is in a.  The existence of the folder is
 * checked when a file is opened. */
QG_NODISCARD qg_status qg_config_search(qg_ctx *ctx, qg_arena *a, const char *folder,
                                        qg_search *out);

/* Names of all texts of the host and files in the folders, sorted, each once.
 * Without the suffix; files are not opened. */
QG_NODISCARD qg_status qg_config_names(qg_ctx *ctx, qg_arena *a, qg_search search,
                                       const char ***names, size_t *n);

/* A configuration file to find. */
typedef struct qg_wanted {
    const char *kind;   /* "backend": begins the complaint */
    const char *name;   /* a path, or the file's name without .yaml */
    const char *beside; /* a file whose folder is searched first; NULL: none */
    const qg_yaml *at;  /* place of the name, for the message; NULL: none */
    qg_search search;
} qg_wanted;

/* QG_ECONFIG with the nearest name when there is none. */
QG_NODISCARD qg_status qg_config_find(qg_ctx *ctx, qg_arena *a, const qg_wanted *w,
                                      const char **path);

#endif

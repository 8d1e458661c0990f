/* family.h -- a configuration file with the files that it extends. */
#ifndef QG_ENGINE_CONFIG_FAMILY_H
#define QG_ENGINE_CONFIG_FAMILY_H

#include "engine/config/search.h"

enum { QG_MOST_GENERATIONS = 16 };

/* The trees of a family; in the arena of the call. */
typedef struct qg_family {
    const qg_yaml *file[QG_MOST_GENERATIONS]; /* [0]: the file itself, then parents */
    size_t n;
} qg_family;

/* Reads the file and follows `extends:`, found in the folder of the file, then in the
 * search folders.  QG_EIO, QG_EPARSE; QG_ECONFIG for an unknown parent, a file that is
 * its own ancestor, or too many generations. */
QG_NODISCARD qg_status qg_config_family(qg_ctx *ctx, qg_arena *a, const qg_wanted *w,
                                        qg_family *out);

#endif

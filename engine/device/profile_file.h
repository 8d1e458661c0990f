/* profile_file.h -- the YAML file of a composed profile (config/profile_yaml.h). */
#ifndef QG_ENGINE_DEVICE_PROFILE_FILE_H
#define QG_ENGINE_DEVICE_PROFILE_FILE_H

#include "engine/core/ctx.h"
#include "engine/number/profile.h"

/* A row of another profile. */
typedef struct qg_profile_part {
    qg_profile_row row;        /* with its own id, and the uses for which it is taken */
    const char *from, *origin; /* profile, and the row's id there */
    size_t steps, explained;   /* values that it computes; of these, all elements */
} qg_profile_part;

/* name, parent: of the profile, and of what it extends. */
typedef struct qg_profile_draft {
    const char *name, *parent;
    const qg_profile_part *part; /* [n] */
    size_t n;
    size_t steps, explained; /* of the whole profile */
} qg_profile_draft;

/* Replaces the file, or leaves it as it is. */
QG_NODISCARD qg_status qg_profile_write(qg_ctx *ctx, const qg_profile_draft *d,
                                        const char *path);

#endif

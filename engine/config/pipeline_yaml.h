/* pipeline_yaml.h -- the order of passes, from configs/pipelines.
 *
 *     name: default
 *     why: the preconditions of each pass
 *     passes: [fold-constants, fuse-batchnorm, ...]
 *
 * An item may be a map with parameters of the pass, as in `passes:` of a backend:
 *
 *     - {equalize: no}                       in its place, but off until switched on
 *     - {bias-correct: {block: 4}}
 *
 * The order is data so that a backend may have its own; the needs of a pass are checked
 * by the driver (pass/pass.h), not here. */
#ifndef QG_ENGINE_CONFIG_PIPELINE_YAML_H
#define QG_ENGINE_CONFIG_PIPELINE_YAML_H

#include "engine/config/search.h"
#include "engine/quant/backend.h"

/* In the arena it was read into. */
typedef struct qg_pipeline {
    const char *name, *why, *file; /* of the pipeline; the file as opened */
    const char *const *pass;       /* [n] names; checked by the driver */
    const uint32_t *line;          /* [n] place of each */
    size_t n;
    qg_pass_settings setting;
} qg_pipeline;

/* name: a path, or the name of a file in the folders.  QG_ECONFIG, QG_EPARSE,
 * QG_EIO. */
QG_NODISCARD qg_status qg_pipeline_load(qg_ctx *ctx, qg_arena *a, const char *name,
                                        qg_search search, qg_pipeline *out);

/* Keeps the first n passes and their settings: settings of passes that do not run would
 * be refused. */
void qg_pipeline_cut(qg_pipeline *p, size_t n);

/* Reads the value after the name of a pass: yes, no, or a map of its parameters.
 * Appended to *out.  The driver checks whether the pass and its parameters exist.  Also
 * for backend files and --set. */
QG_NODISCARD qg_status qg_read_pass_settings(qg_ctx *ctx, qg_arena *a, const qg_yaml *y,
                                             const char *pass, qg_pass_settings *out);

#endif

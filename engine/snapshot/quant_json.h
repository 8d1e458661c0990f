/* quant_json.h -- quant.json: every TQC, the journal, groups, coverage and the
 * manifest.
 *
 * Format     "quantgraph/1"; fields and their order in configs/schema/quant.json
 * Exact      float32 as the shortest text that reads back the same bits
 * Order      by id; two runs with equal results write the same bytes
 * Reading    requires the model.onnx next to it: nodes are matched by position and
 *            name, and every index, state and count is checked
 *
 *     {
 *       "format": "quantgraph/1",
 *       "manifest": {tool, kernels, model, data, backend: {..., rules}, options},
 *       "nodes": [{name, op, platform, reason, inputs, outputs, in, out}, ...],
 *       "floats": {type, inputs, outputs, float32_nodes},     // of 16-bit float files
 *       "tqcs": [{id, node, slot, value, state, policy, bits, range, ...}, ...],
 *       "groups": [{root, members, made_by}, ...],
 *       "journal": [{seq, tqc, field, old, new, by}, ...],
 *       "coverage": [{pass, pattern, matched, near_misses}, ...]
 *     }
 *
 * scale and offset are written for every member of a group, so that a reader needs no
 * union-find; they are the dominator's own. */
#ifndef QG_ENGINE_SNAPSHOT_QUANT_JSON_H
#define QG_ENGINE_SNAPSHOT_QUANT_JSON_H

#include <stdio.h>
#include <string.h>

#include "engine/core/json.h"
#include "engine/quant/backend.h"

/* The options of the run that made the snapshot.  Texts are borrowed (writing) or lie
 * in the graph's arena (reading). */
typedef struct qg_manifest {
    const char *tool;                      /* "quantgraph 0.1.0" */
    const char *model_file, *model_sha256; /* base name; of the original model */
    const char *snapshot_sha256; /* of model.onnx beside quant.json; NULL: not known */
    const char *data, *data_sha256; /* as given; NULL: none */
    size_t samples;
    const char *backend_sha256; /* over its files, parents first */
    const char *kernels;        /* "oneDNN 2.6.0, avx512", "reference" */
    const char *const *option;  /* [2 * n_option] name, value, ... */
    size_t n_option;
    const char *not_finite; /* the first NaN or infinity that the data cause; NULL */
} qg_manifest;

/* Whether not_finite is about a NaN: how session/not_finite.c words it. */
static inline bool qg_manifest_has_nan(const qg_manifest *m)
{
    return m->not_finite && strstr(m->not_finite, ": NaN first appears at ");
}

/* A near miss: a node's name, and the one condition that failed. */
typedef struct qg_coverage_miss {
    const char *node, *condition;
} qg_coverage_miss;

/* How often a pattern of a pass matched (pass/pass.h has it while the passes run). */
typedef struct qg_coverage_row {
    const char *pass, *pattern;
    uint32_t matched;             /* places where it fitted */
    const qg_coverage_miss *miss; /* [n_miss] */
    const char *nearest; /* of a pattern without match and miss; not in the file */
    size_t n_miss;
} qg_coverage_row;

/* Everything in the file that is not about single endpoints. */
typedef struct qg_snapshot_info {
    qg_manifest manifest;
    const qg_coverage_row *coverage; /* [n_coverage] */
    size_t n_coverage;
    const struct qg_settled *settled; /* [n_settled], of the run; not in the file */
    size_t n_settled;
} qg_snapshot_info;

/* Into an open stream; write errors are detected when it is closed. */
QG_NODISCARD qg_status qg_quant_json_write(const qg_quant *q,
                                           const qg_snapshot_info *info, FILE *stream);

/* g: the model of the same snapshot, freshly loaded and inferred.  *out has a backend
 * with the origins of rules, fusions and sharing, as needed by explain.  QG_EPARSE
 * gives the place in the file, also when it does not fit g. */
QG_NODISCARD qg_status qg_quant_json_read(qg_graph *g, const char *path, qg_quant **out,
                                          qg_snapshot_info *info);
/* The same of bytes; from->name is their name in messages. */
QG_NODISCARD qg_status qg_quant_json_parse(qg_graph *g, const qg_json_source *from,
                                           qg_quant **out, qg_snapshot_info *info);

#endif

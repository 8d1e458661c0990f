/* qg_device.h -- comparison with the tensors that a device computed: where it differs,
 * which profile it follows, which backend.
 *
 * Part of qg.h, which includes it. */
#ifndef QG_ENGINE_API_QG_DEVICE_H
#define QG_ENGINE_API_QG_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/api/qg_memory.h"
#include "engine/api/qg_report.h"
#include "engine/api/qg_workload.h"
#include "engine/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For qg_model_trace. */
typedef struct qg_trace_options {
    size_t size;
    qg_workload work;    /* data: required */
    const char *mode;    /* of QG_RUN_MODE_MAP; NULL: integer */
    const char *profile; /* for integer, as in qg_run_options */
    const char *select;  /* glob over value names; NULL: all */
} qg_trace_options;
QG_API void qg_trace_options_init(qg_trace_options *o, size_t size);

/* Every value that the network stores, over all samples: one array per value, first
 * axis the sample, and trace.json, which describes them (docs/trace.md).  path: an
 * archive when it ends in .npz, else a folder.  Written completely or not at all.
 * QG_EUNSUPPORTED for a value whose shape differs from sample to sample. */
QG_NODISCARD QG_API qg_status qg_model_trace(qg_model *m, const qg_trace_options *o,
                                             const char *path, qg_report **report);

/* For qg_model_diverge and qg_model_fit. */
typedef struct qg_diverge_options {
    size_t size;
    qg_workload work;    /* data: required; the samples that the device was given */
    const char *profile; /* as in qg_run_options */
    bool end_to_end;     /* whole runs: differences of earlier nodes are included */
    size_t explain; /* nodes for which hypotheses are tried, first ones first; 0: 1 */
} qg_diverge_options;
QG_API void qg_diverge_options_init(qg_diverge_options *o, size_t size);

/* Compares the integer program with `dump`, a trace of a device (docs/trace.md), value
 * by value, each computed from the device's own inputs.  Facts: profile, samples,
 * values, differing, first (node or input), fault (a sentence when the dump does not
 * belong to the samples, or grids are missing); tables nodes (node, value, differ, of,
 * share, most, mean, verdict), elements (three of each node: sample, element,
 * accumulator, exact code and its fraction, real value, ours, theirs), hypotheses
 * (node, cause, fits, of, share, verdict, detail); inputs (that differ), grids (that
 * the dump gives otherwise), pairs, unpaired and off_the_grid where there are any.
 * QG_EDATA names an array that does not fit. */
QG_NODISCARD QG_API qg_status qg_model_diverge(qg_model *m, const qg_diverge_options *o,
                                               const char *dump, qg_report **report);

/* Which profiles explain `dump`, a trace of a device: every step of every profile's
 * program on the device's own inputs.  Facts: samples, values, verdict (a profile, or
 * "not told apart"), not_told_apart, fault, nearest, as_near, rows_taken, written,
 * composed_explains; tables operators (operator, nodes, elements, ties, verdict,
 * explaining, profiles), profiles (profile, values, of, share, first_other, why),
 * inputs and grids as above, rows (row, from, values, explains).  yaml (may be NULL): a
 * file for the composed profile, which extends the nearest one. */
QG_NODISCARD QG_API qg_status qg_model_fit(qg_model *m, const qg_diverge_options *o,
                                           const char *dump, const char *yaml,
                                           qg_report **report);

/* Two traces, array by array: facts arrays, identical; table differences:
 * value, what, differ, of, most.  Elements are compared as they are stored. */
QG_NODISCARD QG_API qg_status qg_trace_diff(qg_ctx *ctx, const char *first,
                                            const char *second, qg_report **report);

typedef struct qg_probe_options {
    size_t size;
    qg_workload work;    /* samples: how many to make, 0: 8; data: where to begin, NULL:
                          * at random */
    const char *between; /* two profiles or backends, which stand for theirs: "P1,P2";
                          * required */
    uint64_t seed;       /* 0: 1 */
} qg_probe_options;
QG_API void qg_probe_options_init(qg_probe_options *o, size_t size);

/* Searches samples on which two profiles compute different codes, at as many values as
 * possible, each on the first profile's inputs, and writes them to `path`: .npy for one
 * input, or .npz with an array per input.  told_apart counts the values at which a
 * device of the first profile differs from the second one, as qg_model_diverge does;
 * with the profiles exchanged it can be another number, since other inputs are read.
 * Facts: between, samples, values, told_apart, verdict (told apart, the same
 * arithmetic, or no proof), written; table nodes: node, value, elements and samples
 * that differ.  A function of model, options and seed alone.  QG_ECONFIG: one profile
 * twice. */
QG_NODISCARD QG_API qg_status qg_model_probe(qg_model *m, const qg_probe_options *o,
                                             const char *path, qg_report **report);

/* For qg_model_infer_backend. */
typedef struct qg_infer_options {
    size_t size;
    qg_workload work; /* data: required; the samples that the device was given */
    const char *from; /* the backend to begin with; NULL: each shipped one is tried */
} qg_infer_options;
QG_API void qg_infer_options_init(qg_infer_options *o, size_t size);

/* A backend file from `dump`, a trace of a device (docs/trace.md) that computes m,
 * which is not quantized: which values it rounds, to which grids, what it fuses and
 * what shares a grid.  yaml (may be NULL): the file, which extends the nearest shipped
 * backend; it is read again and compared with the trace.
 * Facts: samples, arrays, verdict (why no backend is named; then yaml is refused with
 * QG_EDATA), nearest, not_told_apart, values_explained, links_explained,
 * schemes_explained, results_explained, own_grids (that need no rule), elements,
 * endpoints, undecided_endpoints, written, file_explains_values, _links, _grids; tables
 * candidates (backend, changes, kinds, links, schemes, results, unshown, grids,
 * elements, why), changes (key, word, why), values (value, seen, step, zero, levels,
 * backend, equal, how), unpaired, undecided (endpoint, what, why).
 * Time: every shipped backend quantizes the network, the best ones many times. */
QG_NODISCARD QG_API qg_status qg_model_infer_backend(qg_model *m,
                                                     const qg_infer_options *o,
                                                     const char *dump, const char *yaml,
                                                     qg_report **report);

#ifdef __cplusplus
}
#endif

#endif

/* qg.h -- quantgraph simulates, tensor by tensor, the results of a network as backend X
 * quantizes it, and explains them.  THE public header: tools and other programs use
 * nothing else.
 *
 *     qg_ctx *ctx;
 *     qg_model *m = NULL;
 *     qg_report *r = NULL;
 *     qg_status s = qg_open(NULL, &ctx);
 *     if (!s) s = qg_model_open(ctx, "model.onnx", NULL, &m);
 *     qg_quantize_options q;
 *     qg_quantize_options_init(&q, sizeof q);
 *     q.backend = "trt-int8";
 *     q.work.data = "calib.npy";
 *     if (!s) s = qg_model_quantize(m, &q, &r);
 *     if (!s) s = qg_model_save(m, "snapshot");
 *     if (s) fprintf(stderr, "%s\n", qg_ctx_message(ctx));
 *     qg_report_free(r);
 *     qg_model_close(m);
 *     qg_close(ctx);
 *
 * Handles    opaque; freed by their own close or free function, which take NULL.
 *            Models and reports must be closed before their context.
 * Options    structs tagged with their size: call the init function with sizeof, then
 *            set the fields that differ.  NULL for the whole struct means all defaults.
 *            Programs compiled against an older or a newer version of a struct work:
 *            fields missing on one side take their defaults, and QG_ECONFIG names a
 *            struct in which a field was set that this library does not have.
 * Strings    UTF-8; borrowed for the call unless documented otherwise.
 * Errors     a status, and a message on the context (status.h).  On failure
 *            out-parameters are untouched and no file is half-written.
 * Threads    one context per caller's thread; the library starts its own workers.
 * More       without files: qg_memory.h; reading and changing records: qg_records.h;
 *            running on arrays: qg_session.h; custom operators, passes, observers:
 *            qg_extend.h; typed results: qg_report.h.  All are included here.  The
 *            arithmetic on plain arrays is a component of its own: qg_arrays.h.
 * Stable     not before 1.0: QG_API_VERSION counts the changes. */
#ifndef QG_ENGINE_API_QG_H
#define QG_ENGINE_API_QG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/api/qg_device.h"
#include "engine/api/qg_extend.h"
#include "engine/api/qg_memory.h"
#include "engine/api/qg_records.h"
#include "engine/api/qg_report.h"
#include "engine/api/qg_session.h"
#include "engine/api/qg_workload.h"
#include "engine/core/alloc.h"
#include "engine/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Compared by a caller that loads the library at run time; the same number means the
 * same structs and functions. */
#define QG_API_VERSION 3
QG_API int qg_api_version(void); /* of the library at run time */

QG_API const char *qg_version(void); /* "0.1.0" */

/* --- context --- */

/* A struct that the caller filled with its init function keeps working when later
 * versions append fields: `size` gives the version it was compiled against. */
typedef struct qg_open_options {
    size_t size; /* sizeof, by the init function */
    /* The folder that contains backends/, pipelines/ ...; NULL: share/quantgraph beside
     * the installed library, wherever that was moved to; else that of the source tree
     * it was built from if it still exists, else where it was to be installed. */
    const char *config_dir;
    void (*log)(void *ud, int level, const char *text); /* 0 warning, 1 info, 2 debug */
    void *log_ud;
    int log_level; /* messages above it are left out */
    /* get and drop NULL: malloc and free; QG_ECONFIG for half of the pair.  Not used by
     * third-party libraries: cJSON, libyaml, OpenSSL, zlib, stb, oneDNN, OpenMP, and
     * libc for streams and threads */
    qg_alloc alloc;
    /* Bytes at most, of models, samples, runs and reports together, mapped files not
     * counted; 0: 80 % of the memory of the machine, or of the control group of the
     * process when that is less.  Beyond it calls fail with QG_EMEMORY. */
    size_t max_memory;
    size_t max_nodes; /* that functions of a model expand to; 0: 1,000,000 */
    /* Memory of an .npz or .qgs file, in multiples of its size; 0: 100.  64 MB are
     * always allowed. */
    size_t max_ratio;
} qg_open_options;
QG_API void qg_open_options_init(qg_open_options *o, size_t size);

/* A context with every operator and pass registered.  Files of the config folder are
 * read when a call needs them, not here.  o is copied, log_ud must outlive the
 * context.  A failure leaves no context, and hence no message, behind: QG_ENOMEM, or
 * QG_ECONFIG for o itself. */
QG_NODISCARD QG_API qg_status qg_open(const qg_open_options *o, qg_ctx **out);
/* Frees the context; NULL is fine.  Interned names, and with them every model of the
 * context, must not be used afterwards. */
QG_API void qg_close(qg_ctx *ctx);

/* Whether path leads to a configuration file (backend, policy, profile, target, ...)
 * that the context has read, by its name or as the parent of another; no function
 * writes to such a file, but fails with QG_ECONFIG.  A function that writes a policy, a
 * profile or a backend forgets what was read before it began. */
QG_API bool qg_has_read(const qg_ctx *ctx, const char *path);

/* --- models and snapshots --- */

/* qg_model: a graph, and, once quantized or loaded from a snapshot, its TQCs. */

/* Shapes fix dynamic dimensions of the file: inputs by name, every dim at least 1. */
struct qg_model_options {
    size_t size;
    const char *const *shape; /* [n_shape] "name=1x3x224x224" */
    size_t n_shape;
    const char *folder; /* of external data, for qg_model_open_bytes; NULL: none */
};
QG_API void qg_model_options_init(qg_model_options *o, size_t size);

/* path: an ONNX file, a snapshot folder, a file with the bytes of one
 * (qg_model_save_bytes), or a .tflite file, which is quantized when its tensors are.
 * Reads, checks, infers all shapes.  QG_EIO, QG_EPARSE (not ONNX), QG_EMODEL (invalid
 * content), QG_EUNSUPPORTED (an operator or opset that is not implemented, by name). */
QG_NODISCARD QG_API qg_status qg_model_open(qg_ctx *ctx, const char *path,
                                            const qg_model_options *o, qg_model **out);
/* Frees graph, weights and TQCs; NULL is fine. */
QG_API void qg_model_close(qg_model *m);
/* True after qg_model_quantize and for an opened snapshot. */
QG_API bool qg_model_is_quantized(const qg_model *m);

/* Where options contradict the backend the option wins; among options, `set` wins
 * over `policy`, later entries over earlier ones.  All of it except jobs and
 * progress is recorded in the snapshot's manifest. */
typedef struct qg_quantize_options {
    size_t size;
    qg_workload work;    /* data: calibration, required when the backend calibrates
                           * activations */
    const char *backend; /* name or path of a YAML file; required */
    const char *stats;   /* a file of qg_model_collect, instead of work.data and
                        * work.samples (QG_ECONFIG when both are set); NULL: none */
    /* Replaces the observer of every activation; NULL: the backend's. */
    const char *observer;
    const char *quirks;        /* "ppq", or names with commas; NULL: none */
    const char *const *policy; /* [n_policy] patch files, in order */
    size_t n_policy;
    const char *const *set; /* [n_set] "op=Conv_3 slot=in0 bits=4" */
    size_t n_set;
    const char *dispatcher; /* NULL: the backend's, else conservative */
    /* Pass name or "all": the text form after it, below dump_dir; NULL: none. */
    const char *dump_after;
    const char *dump_dir; /* made when missing; NULL: the working directory */
    /* The pipeline ends after this pass: qg_model_dump is then the only function that
     * takes the model, and there is no report.  NULL: all of it. */
    const char *stop_after;
} qg_quantize_options;
QG_API void qg_quantize_options_init(qg_quantize_options *o, size_t size);

/* Canonical form, dispatch, rules, fusion, calibration, bake.  QG_ESTATE when the model
 * is quantized already.  *report (may be NULL): counts per state, passes with times,
 * tables coverage (pattern, matched, near_misses, for_example) and near_misses
 * (pattern, node, condition), manifest.
 * On failure the model may be partly rewritten and can only be passed to
 * qg_model_close; its file can be opened again. */
QG_NODISCARD QG_API qg_status qg_model_quantize(qg_model *m,
                                                const qg_quantize_options *o,
                                                qg_report **report);

/* Writes the snapshot folder: model.onnx, quant.json.  Written completely or not at
 * all.
 * The same model and options give the same bytes, on every machine with the same
 * kernels.  QG_ESTATE when the model is not quantized.  An existing folder is written
 * into; a folder created by this call is removed again on failure. */
QG_NODISCARD QG_API qg_status qg_model_save(qg_model *m, const char *folder);

/* Switches endpoints of a quantized model off, or on again: the selector of `--set` and
 * state=deactivated, state=dequantized (both keep scale, sharing and the previous
 * state, also through save and load) or state=restored, as in "node=Conv_3
 * state=dequantized".  *changed (may be NULL): the number of endpoints whose state
 * changed; endpoints that are float or already in that state do not count.  QG_ECONFIG
 * when the selector matches nothing. */
QG_NODISCARD QG_API qg_status qg_model_switch(qg_model *m, const char *text,
                                              size_t *changed);

/* The float graph as ONNX.
 * Of a quantized model: the canonical graph with baked constants as they are now,
 * without TQCs, and without the float values of learned constants. */
QG_NODISCARD QG_API qg_status qg_model_export_onnx(qg_model *m, const char *path);

/* --- formats of other tools --- */

/* For qg_model_export; texts are words of `qg list formats`. */
typedef struct qg_format_options {
    size_t size;
    const char *format;     /* "onnx-qdq"; required */
    const char *weights;    /* "int" or "float"; NULL: the format's default */
    const char *placement;  /* "ort", "trt", "openvino"; NULL: that of the backend */
    bool strict;            /* details the format cannot represent are an error, not a
                            * report */
    const char *report;     /* file for the loss report, JSON when it ends in ".json",
                            * else text; NULL: none */
    const char *float_type; /* of a model with 16-bit floats: "model" (keeps them),
                             * "float32", or "auto": the former where the runtime of the
                             * placement has kernels; NULL: auto */
    const char *version;    /* of the format: "1.0.0"; NULL: the format's default */
    const char *names;    /* ncnn-table: the .param file whose layers the table is for;
                             * NULL: the names of the nodes */
    const char *analysis; /* model-explorer: a report of `qg analyse --json`, whose
                             * errors it shows; NULL: none */
    const char *quirks;   /* of `qg list quirks`, with commas between: "ppq" writes
                             * what PPQ's exporter writes; NULL: none */
} qg_format_options;
QG_API void qg_format_options_init(qg_format_options *o, size_t size);

/* Writes a quantized model in a format of `qg list formats`: `path`, and the files next
 * to it.  All files are complete, or none is written.  *report (may be NULL): format,
 * options, the files, and the table `losses`: endpoint, value, the detail that is lost,
 * whether the runtime will then compute something else, and the substitute written
 * instead.  QG_ESTATE when the model is not quantized, QG_ECONFIG for a wrong option,
 * QG_EUNSUPPORTED for a model that cannot be written at all, and with `strict` when
 * anything is lost. */
QG_NODISCARD QG_API qg_status qg_model_export(qg_model *m, const qg_format_options *o,
                                              const char *path, qg_report **report);

/* For qg_model_import; texts are words of `qg list formats`. */
typedef struct qg_import_options {
    size_t size;
    const char *format; /* "aimet"; required */
    const char *model;  /* an ONNX file, when the format has no graph of its own; else
                         * NULL */
    const char *names;  /* ncnn-table: the .param file whose layers the table names;
                         * NULL: it has the names of the nodes */
    bool strict;        /* an entry that is left out is an error, not a row */
} qg_import_options;
QG_API void qg_import_options_init(qg_import_options *o, size_t size);

/* Import: reads the file at `path` as a quantized model for qg_model_save.  *report
 * (may be NULL): counts per state; the table `left_out` of entries without a place in
 * the model.  QG_EMODEL when no entry has one.  Messages of QG_EPARSE and QG_EMODEL
 * give the place. */
QG_NODISCARD QG_API qg_status qg_model_import(qg_ctx *ctx, const char *path,
                                              const qg_import_options *o,
                                              qg_model **out, qg_report **report);

/* --- backends --- */

/* A backend (name or path) with its parents applied: facts, and the tables rules,
 * fusions, sharing; each row quotes its file, with reason, source and place. */
QG_NODISCARD QG_API qg_status qg_backend_page(qg_ctx *ctx, const char *name,
                                              qg_report **report);

/* A profile of integer arithmetic as a report: the rows of its kinds of operators, in
 * the order in which they are tried, with reasons and sources. */
QG_NODISCARD QG_API qg_status qg_profile_page(qg_ctx *ctx, const char *name,
                                              qg_report **report);

/* A target of qg_model_lint with its kernels and rules.  Facts: target, title; tables
 * kernels (id, of, as, carries, when, why, source, at) and rules (id, level, at_each,
 * of, when, remedy, fix, why, source, at).  name: as for qg_backend_page. */
QG_NODISCARD QG_API qg_status qg_target_page(qg_ctx *ctx, const char *name,
                                             qg_report **report);

/* Makes a backend file at `output` (its name without ".yaml" is the backend's) from the
 * configuration of another tool; format "aimet": a quantsim configuration.  *report
 * (may be NULL): rules, fusions, and the table `not_carried_over` of settings without a
 * counterpart here.  QG_EPARSE names the faulty place in the file. */
QG_NODISCARD QG_API qg_status qg_import_backend(qg_ctx *ctx, const char *path,
                                                const char *format, const char *output,
                                                qg_report **report);

/* --- statistics: run once, decide later --- */

/* Sample indices are global: a shard covers a range of them. */
typedef struct qg_stats_options {
    size_t size;
    qg_workload work;     /* data: required */
    uint64_t first, end;  /* of its samples, first .. end - 1; end 0: up to the last */
    const char *channels; /* glob over values: a histogram per channel; NULL: none */
    bool resume;          /* go on from FILE.part, when it is there: of the same data */
    bool group;           /* share the samples with the other processes of mpirun */
    size_t memory;        /* bytes, at most, for statistics and workers; 0: any */
    /* As in qg_quantize_options: the statistics are of the graph that calibration by
     * this backend runs.  NULL: of the graph before the backend's own rewrites, which
     * is the same for all backends that have none. */
    const char *backend;
    const char *quirks;        /* these require a backend */
    const char *const *policy; /* [n_policy] */
    size_t n_policy;
    const char *const *set; /* [n_set] */
    size_t n_set;
    const char *dispatcher;
} qg_stats_options;
QG_API void qg_stats_options_init(qg_stats_options *o, size_t size);

/* Statistics of every value of the float network, after the rewrites that preserve its
 * results or those of a backend, into a file.  The bytes depend on model, samples and
 * kernels, not on workers, processes, shards or resumptions.  m must not be quantized;
 * it is rewritten.  QG_EDATA, QG_ECONFIG; NaN and infinities are counted, not refused.
 * In a group only the first process writes *report. */
QG_NODISCARD QG_API qg_status qg_model_collect(qg_model *m, const qg_stats_options *o,
                                               const char *path, qg_report **report);

/* n files, at least one, as if one run had seen all of their samples.  QG_EDATA names
 * two that overlap or are of different models, preprocessing or kernels.  Kernels of
 * another instruction set or version sum in another order, so their bytes differ;
 * any_kernels: they are merged nevertheless. */
QG_NODISCARD QG_API qg_status qg_stats_file_merge(qg_ctx *ctx, const char *const *path,
                                                  size_t n, bool any_kernels,
                                                  const char *out, qg_report **report);

/* All values, or one in detail; QG_ECONFIG with the nearest name. */
QG_NODISCARD QG_API qg_status qg_stats_file_show(qg_ctx *ctx, const char *path,
                                                 const char *name, qg_report **report);

/* Quantizes m by o, whose `stats` is the file, and lists the scale of every activation
 * with the interval in which it would lie for other samples. */
QG_NODISCARD QG_API qg_status qg_model_derive(qg_model *m, const qg_quantize_options *o,
                                              qg_report **report);

/* --- one array --- */

/* A scheme in words, and where its scale and offset come from.  Lists are texts with
 * commas or spaces between, as on the command line. */
typedef struct qg_quantize_tensor_options {
    size_t size;
    const char *policy;  /* "per-channel linear symmetric"; words of quant/policy.h */
    const char *variant; /* of a floating policy: "fnuz", "ppq-ties", "mx" (scale as the
                          * OCP MX formats choose it); NULL: none */
    unsigned bits;       /* 2..32; at first 8 */
    unsigned exponent_bits; /* 1..8 under floating, else 0 */
    const char *range; /* "-127,127" in steps; NULL: all codes, from 0 on if asymmetric;
                          * under floating the format's range */
    bool narrow;       /* without the lowest code; not together with range */
    int axis;          /* of per-channel and block, from the end if negative; at first
                          * INT_MIN, which stands for 0 */
    unsigned block;    /* elements per block; 0 without the block policy */
    const char *rounding; /* "half-even"; NULL: that */
    const char *scale;    /* one per parameter (quant/fake.h); NULL: from the data */
    const char *offset;   /* one per scale, in steps; NULL: all 0 */
    const char *observer; /* observer that finds them; NULL: "minmax", which ignores NaN
                           * and infinities */
    const char *quirks;   /* "ppq", or names with commas; NULL: none */
    const char *output;   /* .npy to write: float32, fake quantized; NULL: none */
    bool codes;        /* write integers instead: the smallest type of 8, 16 or 32 bits;
                           * of a floating policy the bit patterns of its format */
    const char *curve; /* .csv to write: bins kept, threshold and divergence of all that
                        * the observer compared (kl, kl-published, nvidia-entropy);
                        * per-tensor only; NULL: none */
} qg_quantize_tensor_options;
QG_API void qg_quantize_tensor_options_init(qg_quantize_tensor_options *o, size_t size);

/* Rounds an .npy of float16, float32 or float64 (read as float32; warns when that
 * rounds).  Facts: scale and offset, count, nsr (noise to signal), snr_db, mse, max,
 * cosine, saturated (share of elements outside of the range); quant/metric.h defines
 * them.  QG_ECONFIG names the option that is wrong.  The same on arrays in memory:
 * quant/apply.h. */
QG_NODISCARD QG_API qg_status qg_quantize_tensor(qg_ctx *ctx, const char *path,
                                                 const qg_quantize_tensor_options *o,
                                                 qg_report **report);

/* --- running --- */

/* What a model computes: `mode` of options. */
/* clang-format off */
#define QG_RUN_MODE_MAP(X)                                                             \
    X(FLOAT,    "float",    "without quantizers")                                      \
    X(SIMULATE, "simulate", "float32, rounded wherever a record is active")            \
    X(INTEGER,  "integer",  "int8, int16 and int32, as the runtime of a profile does")
/* clang-format on */

/* For qg_model_run and qg_model_evaluate. */
typedef struct qg_run_options {
    size_t size;
    qg_workload work; /* data: required */
    const char *mode; /* of QG_RUN_MODE_MAP; NULL: simulate when quantized */
    /* Glob over value names: inner values below folder/dump.  Files have the name of
     * the value; of a longer one 200 bytes and digits of its SHA-256. */
    const char *dump;
    /* [n_label] for qg_model_evaluate, instead of a file: one of each sample, for a
     * fixed batch of each row of the first output; with work.samples the first of them
     * count */
    const int64_t *label;
    size_t n_label;
    /* For mode integer.  profile: a name of `qg list profiles` or a path; NULL: that of
     * the model's backend.  require_integer: QG_EUNSUPPORTED names the first node that
     * would run in float.  codes: outputs that are stored as codes are given as such;
     * integer outputs of the model always are. */
    const char *profile;
    bool require_integer, codes;
} qg_run_options;
QG_API void qg_run_options_init(qg_run_options *o, size_t size);

/* One .npy per graph output in `folder` (NULL: nothing is written), first axis the
 * sample; the report has shapes, times and memory of the plan.  An output whose shape
 * differs between samples is an .npz with arrays sample_0, sample_1, ... instead.
 * Samples are written in order whatever the number of workers.  QG_EDATA when data
 * do not fit the inputs.  On failure no file appears. */
QG_NODISCARD QG_API qg_status qg_model_run(qg_model *m, const qg_run_options *o,
                                           const char *folder, qg_report **report);

/* For qg_model_tune. */
typedef struct qg_tune_options {
    size_t size;
    qg_workload work;     /* data: required; labels are not needed */
    const char *method;   /* lsq, adaquant, adaround, brecq, bias; NULL: lsq */
    const char *block;    /* only the block of this name; NULL: all */
    size_t steps;         /* of every block, one sample each; 0: that of the method */
    double rate;          /* learning rate; 0: that of method and optimizer */
    uint64_t seed;        /* 0: 1 */
    const char *gradient; /* of step sizes: usual, ste, lsq, lsq-plus, tqt, pact, nncf,
                           * nncf-exact, nncf-asymmetric; NULL: usual */
    const char *checkpoint; /* a folder, made when it is missing: blocks that are done
                             * are written to it, and read when the same tuning begins
                             * again; NULL: none */
    const char *optimizer;  /* adam or sgd, which has momentum; NULL: adam */
    const char *loss; /* blocks, mse, kd or labels; NULL: blocks.  With another one than
                       * blocks the network is one block, or `block` the last one */
    const char *labels; /* .npy of integers, the class of each sample, then of each of
                         * the holdout; loss labels only, else NULL */
    bool qdrop;         /* while learning, each element of an activation is rounded with
                 * probability 1/2 (QDrop) */
    const char *holdout; /* DATA that judges; NULL: every fourth sample of work, which
                          * then does not teach */
    bool no_mixup;       /* learn from the samples alone, without mixtures of them */
} qg_tune_options;
QG_API void qg_tune_options_init(qg_tune_options *o, size_t size);

/* Blocks of the network learn to give the outputs of the float network, on unlabelled
 * samples: weights, biases, step sizes, or how weights are rounded.  What may not
 * change does not: groups keep one scale, powers of two stay.  The holdout judges,
 * or a quarter of the samples: a block that is not better there stays as it was, and so
 * does a model whose outputs are not clearly better (engine/learn/verdict.h).
 * With another loss than blocks the network learns as a whole; kd and labels judge,
 * too, and labels only with as many right as before.
 * Samples that are equal to an earlier one are left out, with a warning.
 * Facts: method, gradient, optimizer, loss, qdrop, samples, mixtures (of two samples,
 * learned from as well), judged_on, better_blocks, metric (nsr, divergence,
 * cross-entropy), before, after (of the model as it is then), changed; learned and why,
 * of what was not taken, for labels with top1_learned; kd and labels also nsr_before,
 * nsr_after; labels also top1_before, top1_after.  Tables blocks: block, nodes, before,
 * after, verdict; curves: the mean loss in each tenth of the steps.  A function of
 * model, samples and options alone, and of max_memory where that is too little for the
 * mixtures. */
QG_NODISCARD QG_API qg_status qg_model_tune(qg_model *m, const qg_tune_options *o,
                                            qg_report **report);
/* Removes what qg_model_tune wrote to the folder, and the folder when it is empty then;
 * to be called once the result is saved. */
QG_API void qg_tune_forget(qg_ctx *ctx, const char *checkpoint);

/* For qg_model_search. */
typedef struct qg_search_options {
    size_t size;
    qg_workload work;     /* data: required */
    const char *budget;   /* "nsr=1%", "bits=6.0", "size=2MB"; required */
    const char *choices;  /* rising bits, then perhaps float; NULL: 4,8,16,float */
    const char *estimate; /* "measured" or "gradient"; NULL: measured */
    const char *patch;    /* file to write; NULL: none */
    const char *backend;  /* the snapshot's as a file; NULL: that one by name */
    const char *holdout;  /* DATA that judges; NULL: every second sample of work */
} qg_search_options;
QG_API void qg_search_options_init(qg_search_options *o, size_t size);

/* The bits of every group of values: within a budget the least noise, or within a
 * budget of noise the fewest bits: found exactly as predicted, judged on samples
 * without a part in it, written as a policy patch.  docs/search.md lists facts and
 * tables.
 * QG_ENUMERIC when the budget cannot be met. */
QG_NODISCARD QG_API qg_status qg_model_search(qg_model *m, const qg_search_options *o,
                                              qg_report **report);

/* For qg_model_search_rules. */
typedef struct qg_rules_options {
    size_t size;
    qg_workload work;          /* data: required */
    const char *backend;       /* required */
    const char *const *policy; /* [n_policy] patches that come before */
    size_t n_policy;
    const char *observer; /* of every activation; NULL: the backend's */
    const char *holdout;  /* DATA that is measured; NULL: every second sample of work */
} qg_rules_options;
QG_API void qg_rules_options_init(qg_rules_options *o, size_t size);

/* What the fusion and sharing rules of a backend are worth on a network without
 * records, which stays so: each of those that act switched off, alone and in pairs.
 * Table policies: off, nsr, nsr_change, rounding_points, requantizations,
 * added_steps. */
QG_NODISCARD QG_API qg_status qg_model_search_rules(qg_model *m,
                                                    const qg_rules_options *o,
                                                    qg_report **report);

/* Top-1 accuracy: labels is an .npy of integers, one per sample.  Facts: samples,
 * float_top1, and when quantized simulated_top1, difference, agreement; nan_samples,
 * the samples with a NaN in the first output of one of the modes, where there are any:
 * they have no class and are never right.
 * The class is the index of the largest element of the first output, the first on a
 * tie; agreement is the share of samples on which float and simulated name the same
 * class.  Shares are 0 to 1.  There is one label per sample (QG_EDATA); where
 * work.samples limits the samples, the file may have more labels, and the first ones
 * count.  labels is NULL when o->label is set. */
QG_NODISCARD QG_API qg_status qg_model_evaluate(qg_model *m, const qg_run_options *o,
                                                const char *labels, qg_report **report);

/* --- questions --- */

/* Which call answers what:
 *
 *     how wrong is the quantized network     qg_model_analyse, by "graph"
 *     where does the error come from         qg_model_analyse, by "layer"
 *     its sources                            qg_model_sensitivity
 *     does it matter                         qg_model_evaluate, with labels
 *     why is this tensor rounded like this   qg_model_explain
 *     the decisions of another backend    qg_model_diff of two snapshots */

/* Cost: two runs of the whole network over all samples. */
typedef struct qg_analyse_options {
    size_t size;
    qg_workload work;    /* data: required */
    const char *by;      /* "graph", "layer", "cause"; NULL: graph */
    const char *metric;  /* "nsr" or "snr" (noise-to-signal ratio), "mse", "cosine" */
    size_t top;          /* rows shown, worst first; 0: all */
    const char *mode;    /* simulate or integer of QG_RUN_MODE_MAP; NULL: simulate */
    const char *profile; /* for integer, as in qg_run_options */
} qg_analyse_options;
QG_API void qg_analyse_options_init(qg_analyse_options *o, size_t size);

/* The error of the simulated network, with all quantizers enabled, against the float
 * one:
 * graph   at every output
 * layer   at the output of every quantized compute node
 * cause   the part of each cause in the error of the worst output, by switching it off:
 *         facts output, error, left (with everything off); table causes: budget, cause,
 *         removes, share.  Rows of several causes are what these remove together beyond
 *         their own rows; the rows of a budget sum to error - left
 *
 * The metric is taken per sample and averaged over samples in order of index.
 * Facts: by, metric, samples; table errors: name, what, error.
 *
 * In mode integer the integer program runs beside both:
 *
 * graph   table errors: name, what; simulated and integer against float, apart: integer
 *         against simulated
 * layer   values stored as codes, in the order of the graph, that differ from the
 *         simulation's.  Table steps: node, value, differ (elements at least one step
 *         apart), beyond_one_step, most (steps)
 * QG_ESTATE when the model is not quantized, QG_ECONFIG for an unknown word. */
QG_NODISCARD QG_API qg_status qg_model_analyse(qg_model *m, const qg_analyse_options *o,
                                               qg_report **report);

/* A policy that keeps the error of the worst output within a budget, by keeping the
 * most harmful values in float, or giving them more bits. */
typedef struct qg_proposal_options {
    const char *patch;       /* file to write; NULL: nothing is proposed */
    double budget;           /* in units of the metric: nsr 0.01 is 1 % noise */
    unsigned bits;           /* of the chosen values; 0: they stay float */
    const char *backend;     /* the snapshot's as a file; NULL: that one by name */
    const void *reserved[4]; /* NULL */
} qg_proposal_options;

typedef struct qg_doctor_options {
    size_t size;
    qg_workload work; /* data: required; may hold NaN */
} qg_doctor_options;
QG_API void qg_doctor_options_init(qg_doctor_options *o, size_t size);

/* Checks calibration data with one run of the float network over them.  Facts: samples,
 * values (examined), found; when something was found, table warnings: kind, sample
 * (null: all of them), where, what.
 *
 *     not-finite  NaN or infinities in a sample, or the endpoint where the first one
 *                 appears while the network runs
 *     constant    all elements of a sample are equal
 *     duplicate   byte for byte an earlier sample
 *     range       a sample scaled unlike the others, or data whose scale does not fit
 *                 the first normalization or bias of the model
 *     layout      images stored channels-first for a channels-last model, or the
 *                 reverse
 *     alone       one sample has twice the range of any other
 *     dead        channels that are the same in all samples */
QG_NODISCARD QG_API qg_status qg_model_doctor(qg_model *m, const qg_doctor_options *o,
                                              qg_report **report);

typedef struct qg_lint_options {
    size_t size;
    const char *target; /* required: a name of `qg list targets`, or a file */
    const char *sarif;  /* file to write: SARIF 2.1.0; NULL: none */
    const char *patch;  /* file to write: a policy patch; NULL: none */
} qg_lint_options;
QG_API void qg_lint_options_init(qg_lint_options *o, size_t size);

/* What the target will compute in integers, what it will not fuse, and where it has to
 * guess, by the rules of configs/lint; nothing runs.  Facts: target, title,
 * integer_kernels, moves_of_codes, fused_nodes, other_kernels, float_nodes,
 * compute_nodes and integer_compute_nodes of them (a warning when less than half),
 * converted (text), found, and of these errors, warnings, notes; with a patch
 * mended_by_patch and written.  When something was found, tables rules (rule, level,
 * findings, why, remedy, source, at) and findings (rule, where, operator, detail);
 * table nodes (node, operator, fate, kernel, why).
 * QG_ESTATE when m has no records, QG_ECONFIG for an unknown target. */
QG_NODISCARD QG_API qg_status qg_model_lint(qg_model *m, const qg_lint_options *o,
                                            qg_report **report);

typedef struct qg_sensitivity_options {
    size_t size;
    qg_workload work;      /* data: required */
    const char *by;        /* "node", "endpoint", "group"; NULL: node */
    const char *direction; /* "only" this quantizer enabled, "all-but" it; NULL: only */
    const char *metric;    /* as in qg_analyse_options */
    size_t top;            /* rows shown, worst first; 0: all */
    bool whole; /* run the whole network once per row: the same result, slower */
    qg_proposal_options proposal; /* direction only */
    /* For a proposal: the DATA that judges it.  NULL: every second sample of work does,
     * and the others rank, calibrate and choose. */
    const char *holdout;
    const char *labels; /* .npy, classes of the samples of `holdout`, or of work;
                         * NULL: the metric judges alone */
} qg_sensitivity_options;
QG_API void qg_sensitivity_options_init(qg_sensitivity_options *o, size_t size);

/* The output error that each node, endpoint or group causes: with only its quantizers
 * enabled, or with all others enabled.  Facts: by, direction, metric, samples,
 * all_quantized (error with all quantizers enabled), nodes_run (share of the nodes that
 * whole runs would have computed); table errors: name, what, error of the worst output,
 * output.
 * Only nodes downstream of a row's endpoints are computed.
 * With a proposal also: budget, error_with_proposal (of the network quantized again
 * with the patch, on the samples that chose it), rows_raised, values_raised, candidates
 * (trial quantizations made); judged_on (samples that had no part in it),
 * judged_error and judged_error_without, with labels judged_top1 and
 * judged_top1_without, and judged_by; and written.  Labels decide where the difference
 * of top-1 exceeds its standard error, else the error does.  Where the budget is
 * already met on the samples that choose, or the proposal does not help there, the
 * patch has no rules, and the fact proposal says why.
 * QG_ENUMERIC when no number of rows meets it, QG_EDATA for a single sample without
 * holdout. */
QG_NODISCARD QG_API qg_status qg_model_sensitivity(qg_model *m,
                                                   const qg_sensitivity_options *o,
                                                   qg_report **report);

typedef struct qg_price_options {
    size_t size;
    qg_workload work;   /* data: required */
    const char *metric; /* as in qg_analyse_options */
} qg_price_options;
QG_API void qg_price_options_init(qg_price_options *o, size_t size);

/* The error caused by operands that share a scale because the backend requires it.
 * Table groups, largest gain from separate scales first: the error of the worst output
 * with only this group's quantizers enabled, with the joint scale and with the scales
 * its parts were calibrated to; the requantizations that separate scales add; the error
 * of the whole quantized network with this group separated (fact network:
 * unchanged). */
QG_NODISCARD QG_API qg_status qg_model_price(qg_model *m, const qg_price_options *o,
                                             qg_report **report);

typedef struct qg_compare_options {
    size_t size;
    qg_workload work;           /* data: required; errors are measured on it */
    const char *const *backend; /* [n_backend] names or paths; at least one */
    size_t n_backend;
    const char *const *policy; /* [n_policy] patches: each makes one more variant of */
    size_t n_policy;           /* every backend */
    const char *stats;    /* file with the statistics of all scales; NULL: work.data */
    const char *observer; /* of every activation; NULL: the backend's */
    const char *metric;   /* as in qg_analyse_options */
    const char *holdout;  /* DATA that is measured; NULL: work's, which calibrates */
    const char *labels;   /* .npy, classes of the measured samples; NULL: none */
    const char *mode;     /* "simulate" or "integer"; NULL: simulate */
    const char *profile;  /* for mode integer; NULL: that of each backend */
} qg_compare_options;
QG_API void qg_compare_options_init(qg_compare_options *o, size_t size);

/* Several backends and patches on one network that is not quantized, from the same
 * data; m is not changed.  Tables: variants (nodes quantized, rounding points of
 * activations, rounded constants, groups of values on one scale, requantizations as
 * analysis/requantize.h counts them), with labels accuracy (top1, difference to fact
 * float_top1), in mode integer integers (profile, nodes in integers and others), errors
 * (of each float output against the float network), groups_in (how many groups of
 * values on one scale the same variants have, and the largest), group_differences
 * (every group that some variants lack). */
QG_NODISCARD QG_API qg_status qg_model_compare(qg_model *m, const qg_compare_options *o,
                                               qg_report **report);

/* name: a node, a value, an endpoint ("Conv_3.in1"), or the group that an endpoint is
 * in ("group:Conv_3.out0").
 * Reports operator, slots, schemes, states, scales, the rule and backend file that set
 * each of them with its reason, and the sharing.  QG_ECONFIG with the nearest name when
 * the name is unknown. */
QG_NODISCARD QG_API qg_status qg_model_explain(qg_model *m, const char *name,
                                               qg_report **report);

/* Differences of graph and TQCs, first to second.
 * By name: nodes and values that only one of them has, then schemes, states and
 * parameters that differ; fact identical: 1 when nothing does; same_structure: nodes,
 * connections, attributes and types are equal; same_constants: so are the elements of
 * the constants that both have.  Both models must belong to one context. */
QG_NODISCARD QG_API qg_status qg_model_diff(qg_model *a, qg_model *b,
                                            qg_report **report);

/* Everything about one snapshot, for a page that people mail each other. */
typedef struct qg_webpage_options {
    size_t size;
    qg_workload work;   /* data: required */
    qg_model *against;  /* a second snapshot of the same context; NULL: none */
    const char *labels; /* as in qg_model_evaluate; NULL: no accuracy */
    const char *target; /* as in qg_lint_options; NULL: the one that the backend's name
                          * begins with, if there is one */
    const char *output; /* HTML file to write; NULL: none */
} qg_webpage_options;
QG_API void qg_webpage_options_init(qg_webpage_options *o, size_t size);

/* The answers of analyse, sensitivity, evaluate, lint and explain for all nodes, with
 * the graph as a drawing and the distributions of activations, as one report
 * (docs/report.md has its tables).  The HTML file holds the JSON of this report and
 * draws it without a network; equal arguments give equal bytes.
 * Cost: the runs of these analyses, and one for statistics.  QG_ESTATE when m or
 * against is not quantized, and the errors of the analyses. */
QG_NODISCARD QG_API qg_status qg_model_webpage(qg_model *m, const qg_webpage_options *o,
                                               qg_report **report);

/* The text form of the graph, with TQCs when quantized.
 * Its grammar is in docs/text-form.md; large constants are hashes.  A
 * function of the model alone, so two dumps can be compared by any diff. */
QG_NODISCARD QG_API qg_status qg_model_dump(qg_model *m, qg_report **report);

/* The integer program of the model in the text form (docs/text-form.md), with the facts
 * of a run in mode integer: profile (NULL: that of the backend), nodes by kind, and the
 * table not_integer: node, op, how, why. */
QG_NODISCARD QG_API qg_status qg_model_dump_program(qg_model *m, const char *profile,
                                                    qg_report **report);

/* what: "ops", "passes", "backends", "observers", "quirks", "metrics", ...; NULL: the
 * topics themselves.
 * QG_ECONFIG for another word, with the nearest one. */
QG_NODISCARD QG_API qg_status qg_list(qg_ctx *ctx, const char *what,
                                      qg_report **report);

/* 'Did you mean': the candidate nearest to word; NULL when none is near enough.
 * At most a third of the letters may differ.  Borrowed from candidate. */
QG_API const char *qg_nearest(const char *word, const char *const *candidate, size_t n);

/* Runs ONNX backend-test folders.  Facts: passed, failed, unsupported.
 * Folders are searched for tests (engine/session/conformance.h); failing tests become a
 * table of the report, not a status. */
QG_NODISCARD QG_API qg_status qg_conformance(qg_ctx *ctx, const char *const *folder,
                                             size_t n, qg_report **report);

#ifdef __cplusplus
}
#endif

#endif

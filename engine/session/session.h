/* session.h -- shared by the files of engine/session and by engine/analysis: feeds of
 * samples, and plans of a model.
 *
 * Running the network over data:
 *
 *     QG_TRY(qg_feed_open(m, &o->work, &f));
 *     QG_TRY(qg_model_plan(m, QG_RUN_SIMULATE, work, &f.feed, NULL, &p));
 *     qg_drive d = { .plan = p, .feed = &f.feed, .n = f.feed.n, .done = keep };
 *     s = qg_drive_run(m->ctx, &d);
 *     qg_plan_free(p);
 *     qg_feed_close(&f); */
#ifndef QG_ENGINE_SESSION_SESSION_H
#define QG_ENGINE_SESSION_SESSION_H

#include "engine/report/report.h"
#include "engine/calib/exponents.h"
#include "engine/config/backend_yaml.h"
#include "engine/config/pipeline_yaml.h"
#include "engine/core/file.h"
#include "engine/exec/drive.h"
#include "engine/lower/program.h"
#include "engine/session/labels.h"
#include "engine/session/measured.h"
#include "engine/session/options.h"
#include "engine/snapshot/model.h"

struct qg_stats; /* calib/stats.h */

/* --- model.c, archive.c: models from files and memory --- */

/* Loads m from `from`; on failure m->graph may be set. */
typedef qg_status qg_model_reader(qg_model *m, const void *from,
                                  const qg_fixed_shape *shape, size_t n);

/* A new handle that `read` fills, with the shapes of o (NULL: none). */
QG_NODISCARD qg_status qg_model_make(qg_ctx *ctx, const qg_model_options *o,
                                     qg_model_reader *read, const void *from,
                                     qg_model **out);

/* From bytes that stay as long as the model: a snapshot when they are a zip archive,
 * else an ONNX file.  `from` is a qg_model_source. */
qg_model_reader qg_model_read_source;

/* Builds the export in this format, with its defaults, and writes nothing.  m has
 * records; *why: the message with which the format refuses it, in a; NULL: it does not.
 * QG_ECONFIG: no such format. */
QG_NODISCARD qg_status qg_model_refusal(qg_model *m, const char *format, qg_arena *a,
                                        const char **why);

struct qg_import; /* formats/format.h */

/* Imports i->path in this format into m, which takes its name and hash. */
QG_NODISCARD qg_status qg_model_read_import(qg_model *m, struct qg_import *i,
                                            const char *format);

/* Whether the bytes begin with the signature of a zip archive. */
bool qg_is_archive(const void *bytes, size_t size);

/* A snapshot, model.onnx and quant.json, in a zip archive. */
QG_NODISCARD qg_status qg_archive_read(qg_model *m, const qg_model_source *from,
                                       const qg_fixed_shape *shape, size_t n);
/* m is quantized.  Write errors are detected when the stream is closed, which can
 * seek.  The same bytes for the same model. */
QG_NODISCARD qg_status qg_archive_write(qg_model *m, FILE *stream);

/* --- feed.c: the samples of a workload as a feed --- */

/* fetch is called by many workers at a time: it only reads the opened data, or calls
 * the host, one call at a time. */
typedef struct qg_api_feed {
    qg_feed feed; /* its ud is this struct: do not move it while in use */
    /* Set before it is opened: whose inputs are fed, with the names and order of the
     * model's (NULL: the model's graph); whether NaN is accepted. */
    const qg_graph *graph;
    bool takes_nan;
    struct qg_data *data;     /* data/data.h; NULL: the samples are the host's */
    struct qg_hosted *hosted; /* session/source.h */
} qg_api_feed;

/* Whether data, arrays or a source are given. */
bool qg_workload_has_samples(const qg_workload *work);

/* The samples of work->data, array or source, at most work->samples of them.
 * QG_EDATA when there are none, QG_ECONFIG when not exactly one of the three is given.
 * Shapes of data and arrays are checked against the graph's inputs here, contents when
 * a sample is fetched.  Arrays and source are borrowed. */
QG_NODISCARD qg_status qg_feed_open(qg_model *m, const qg_workload *work,
                                    qg_api_feed *out);
void qg_feed_close(qg_api_feed *f); /* also of a zeroed one */

/* feed_scale.c.  Warns where the first samples of data or arrays do not fit the grids
 * of a quantized model's inputs.  f is open. */
QG_NODISCARD qg_status qg_feed_warn_scale(qg_model *m, const qg_workload *work,
                                          const qg_api_feed *f);

/* A copy of a workload for use while f is open: a source that can be read only once is
 * replaced by the samples that f has stored.  Borrows from f. */
qg_workload qg_feed_again(const qg_api_feed *f, const qg_workload *work);

/* For manifests: the last part of the path of data, "arrays", "source" or NULL; and the
 * SHA-256 of the file or of the arrays, in a, or NULL (a folder, random:N, a source).
 * The workload was opened before. */
QG_NODISCARD qg_status qg_workload_origin(const qg_model *m, const qg_workload *work,
                                          qg_arena *a, const char **name,
                                          const char **sha256);

/* --- pipeline.c --- */

/* A pipeline by path or name, with the passes that a host added in their places: each
 * before the first or after the last pass of the name it gave, unless the pipeline
 * names it itself.  In a. */
QG_NODISCARD qg_status qg_session_pipeline(qg_ctx *ctx, qg_arena *a, const char *name,
                                           qg_pipeline *out);

/* --- quantize.c --- */

/* The passes of qg_model_quantize by `o` up to the one that observes activations: m has
 * then the graph that its calibration runs, and no records.  `feed` is for rewrites
 * that depend on data.  Fails as qg_model_quantize does. */
QG_NODISCARD qg_status qg_model_rewrite(qg_model *m, const qg_quantize_options *o,
                                        const qg_feed *feed);

/* --- stats.c --- */

/* Facts of qg_report_settled for 8-bit scales, by observer. */
QG_NODISCARD qg_status qg_report_settled_all(qg_report *r, const struct qg_stats *s);

/* --- executable.c: what runs --- */

/* A mode by its word, and what mode integer needs. */
typedef struct qg_mode_request {
    const char *mode;    /* of QG_RUN_MODE_MAP; NULL: simulate when quantized */
    const char *profile; /* NULL: that of the backend */
    bool require_integer, codes, float_inputs; /* lower/program.h */
} qg_mode_request;

typedef enum qg_run_mode {
#define X(id, ...) QG_RUN_##id,
    QG_RUN_MODE_MAP(X)
#undef X
        QG_NRUN
} qg_run_mode;
const char *qg_run_mode_name(qg_run_mode mode); /* "simulate" */

/* A model in one mode. */
typedef struct qg_executable {
    qg_model *model; /* or its copy with records: qg_model.folded */
    qg_run_mode mode;
    qg_program *program;   /* mode integer, owned; else NULL */
    const qg_graph *graph; /* that is executed: the program's, or the model's */
} qg_executable;

/* QG_ECONFIG for other words, for options that only mode integer has, and for integer
 * without a profile; QG_ESTATE for simulate without TQCs; the errors of
 * qg_lower_program.  The model must outlive *out unchanged. */
QG_NODISCARD qg_status qg_executable_make(qg_model *m, const qg_mode_request *r,
                                          qg_executable *out);
void qg_executable_free(qg_executable *e); /* also of a zeroed one */
/* In mode float: a file that is quantized already rounds there, too. */
void qg_executable_warn_quantizers(const qg_executable *e);

/* The samples; float32 data for integer inputs are accepted in mode integer: then the
 * program is made anew. */
QG_NODISCARD qg_status qg_executable_feed(qg_executable *e, const qg_workload *work,
                                          qg_api_feed *out);

/* work: kernels, and threads, which share a sample when the feed has fewer samples than
 * threads; NULL: one thread, no samples.
 * feed: the samples whose shapes the plan is for; NULL: the model's own shapes.
 * watch: [nodes of e->graph] 1 for nodes watched by hooks; it must outlive the plan.
 * NULL: no hooks.  The caller frees *out with qg_plan_free before e. */
QG_NODISCARD qg_status qg_executable_plan(const qg_executable *e,
                                          const qg_workload *work, const qg_feed *feed,
                                          const uint8_t *watch, qg_plan **out);

/* The value of e->graph that holds a value of the model; NULL: none does. */
const qg_value *qg_executable_value(const qg_executable *e, const qg_value *v);

/* Facts of mode integer, none in the other modes: profile, nodes by kind, and the table
 * `not_integer` of nodes in float (node, how, why). */
QG_NODISCARD qg_status qg_report_program(qg_report *r, const qg_executable *e);

/* --- evaluate.c --- */

/* The votes of all samples; out: [feed->n * label->each]. */
QG_NODISCARD qg_status qg_executable_vote(const qg_executable *e,
                                          const qg_workload *work, const qg_feed *feed,
                                          const qg_labels *label, int32_t *out);

/* --- executable.c, further --- */

/* *out: m, or, for a file of another tool, the copy in which its quantizers are
 * records; owned by m.  QG_ESTATE, beginning with `what`, when there are none. */
QG_NODISCARD qg_status qg_model_with_records(qg_model *m, const char *what,
                                             qg_model **out);
/* The same, where a value that is only moved has no quantizer unless the file has one
 * there: what a runtime sees that computes such a move in float. */
QG_NODISCARD qg_status qg_model_as_written(qg_model *m, const char *what,
                                           qg_model **out);

/* A plan of the model in mode float or simulate; the rest as for an executable. */
QG_NODISCARD qg_status qg_model_plan(qg_model *m, qg_run_mode mode,
                                     const qg_workload *work, const qg_feed *feed,
                                     const uint8_t *watch, qg_plan **out);

/* --- share.c --- */

/* A warning, once per model, when fewer than half of the compute nodes are quantized,
 * or some lie in bodies of control flow, with the number of nodes per reason.  m is
 * left alone unless it is quantized. */
QG_NODISCARD qg_status qg_model_warn_share(qg_model *m, const char *what);
/* A fact that names compute nodes that are not quantized, where there are any. */
QG_NODISCARD qg_status qg_report_float_compute(const qg_model *m, qg_report *r);

/* --- clamps.c --- */

/* A warning, once per model whose records a file of another tool gave, when outputs may
 * be negative in float and have no code for that: a Relu may be missing. */
QG_NODISCARD qg_status qg_model_warn_clamps(qg_model *m, const char *doing);

/* --- no_effect.c: --set at endpoints that others dominate, or that are float --- */

void qg_warn_no_effect(const qg_quant *q); /* a line for each option */

/* --- not_finite.c: where NaN begins --- */

typedef struct qg_finite_request {
    qg_run_mode mode; /* float or simulate */
    const qg_feed *feed;
    /* Samples that are run in any case: an even spread of this many, first and last
     * among them.  All are where the work is little. */
    size_t least;
    const size_t *also; /* [n_also] and these; in any order, also twice */
    size_t n_also;
    bool reference; /* kernels */
    bool masks;     /* searched for as well, which runs the float network */
    const qg_progress *progress; /* asked only whether to go on; NULL: nobody */
} qg_finite_request;

enum { QG_LEAST_EXAMINED = 4 }; /* samples, by verbs that examine large networks too */

/* Texts in the arena given; NULL: nothing to tell. */
typedef struct qg_strange {
    const char *not_finite; /* "simulate: sample 0: NaN first appears at div.out0
                             * (Div)", or an infinity where no NaN appears */
    bool nan;               /* not_finite is about a NaN */
    const char *at;         /* its endpoint and sample; NULL without not_finite */
    size_t sample;
    const char *masks;    /* values whose grid holds a mask and nothing else */
    const char *infinite; /* endpoints that calibration left in float for -inf */
    uint8_t *node;        /* [nodes] 1: beside one of masks; NULL: none is */
    const char *policy;   /* for these: YAML of a policy patch, in one line */
} qg_strange;
QG_NODISCARD qg_status qg_model_strange(qg_model *m, const qg_finite_request *r,
                                        qg_arena *a, qg_strange *out);

/* What verbs say after they have run samples: that line, once per model.  mode: float
 * is used where the model is not quantized, and where the simulation has none.
 * sample: the first whose result is not finite; feed->n: none is.  What rounding, a
 * clamp or a choice hides is known from the calibration data, or found as far as the
 * search is little work; a hidden infinity of the float network may be meant. */
QG_NODISCARD qg_status qg_model_warn_not_finite(qg_model *m, qg_run_mode mode,
                                                const qg_workload *work,
                                                const qg_feed *feed, size_t sample);
/* The line: what was found, after `when`.  found lives as long as the model. */
void qg_model_warn_found(qg_model *m, const char *when, const char *found);

/* Whether all samples are run by such a search.  p: a plan of the model. */
bool qg_search_is_little(const qg_plan *p, size_t samples);

/* --- masks.c: grids that hold a mask and nothing else --- */

/* masks and node of *out, where there are any.  seen: [values]; simulates: only values
 * that a quantizer spoils, else all that hold a mask.  All of them add to node.  Texts
 * are made in `a`; QG_ENOMEM only. */
QG_NODISCARD qg_status qg_masks_describe(const qg_graph *g, const qg_exponents *seen,
                                         bool simulates, qg_arena *a, qg_strange *out);
/* The same of a quantized model, from statistics of its float network. */
QG_NODISCARD qg_status qg_masks_of_stats(const qg_model *m, const qg_stats *stats,
                                         qg_arena *a, qg_strange *out);
/* infinite of *out: endpoints that calibration left in float for a mask of -inf. */
QG_NODISCARD qg_status qg_masks_infinite(const qg_graph *g, const qg_tqc *const *t,
                                         size_t n, qg_arena *a, qg_strange *out);
/* Then: the policy that leaves the nodes in float. */
QG_NODISCARD qg_status qg_masks_policy(const qg_graph *g, qg_arena *a, qg_strange *out);
void qg_warn_strange(qg_ctx *ctx, const qg_strange *s); /* a line for each */
/* Endpoints that calibration left in float because no sample has an element there: a
 * line, none for n 0.  Texts are made in `a`; QG_ENOMEM only. */
QG_NODISCARD qg_status qg_warn_empty(qg_ctx *ctx, qg_arena *a, const qg_tqc *const *t,
                                     size_t n);
/* Endpoints whose own scale would be below the least one of their observer. */
QG_NODISCARD qg_status qg_warn_small(qg_ctx *ctx, qg_arena *a, const qg_tqc *const *t,
                                     size_t n);
/* Biases with derived scales and values beyond their codes, and fills (of a Pad) beyond
 * the grid of what they fill: a line for each of the two, if there are any. */
QG_NODISCARD qg_status qg_warn_saturated(const qg_quant *q, qg_arena *a);
/* A fact `mask_policy`, if there is one. */
QG_NODISCARD qg_status qg_report_masks(qg_report *r, const qg_strange *s);

#endif

/* pass.h -- the unit of graph change, and the driver that runs a pipeline of them:
 *
 *   for each pass: compute the analyses it needs, run it, verify, settle groups, drop
 *   the analyses it breaks, dump on request.
 *
 * A pass is one file with one exported constant.  It never calls another pass and never
 * computes an analysis itself.  It reports changes, matched patterns and near misses,
 * with the one condition that failed, through the functions below.
 *
 * A pass in full:
 *
 *     static qg_status run(qg_pass_env *env)
 *     {
 *         for (size_t i = 0; i < env->graph->node.n; i++)
 *             ...;                                  // edit.h, tqc.h; env->changed++
 *         return QG_OK;
 *     }
 *
 *     const qg_pass qg_pass_drop_identity = {
 *         .name = "drop-identity", .summary = "takes out nodes that do nothing",
 *         .needs = QG_A_TOPO, .breaks = QG_A_SHAPE, .run = run
 *     };
 *
 * and one line in passes/passes.def. */
#ifndef QG_ENGINE_PASS_PASS_H
#define QG_ENGINE_PASS_PASS_H

#include "engine/core/progress.h"
#include "engine/quant/backend.h"
#include "engine/calib/calibrate.h"
#include "engine/quant/quirk.h"

/* clang-format off */
#define QG_ANALYSIS_MAP(X)                                                     \
    X(TOPO,  "topo",  "nodes are in topological order, ids are dense")       \
    X(SHAPE, "shape", "types and shapes of values are inferred")               \
    X(TQC,   "tqc",   "quantized nodes have their TQCs")
/* clang-format on */

enum {
#define X(id, text, meaning) QG_A_BIT_##id,
    QG_ANALYSIS_MAP(X)
#undef X
        QG_NANALYSIS
};
#define X(id, text, meaning) QG_A_##id = 1u << QG_A_BIT_##id,
/* Bits of needs, breaks and valid. */
enum qg_analysis { QG_ANALYSIS_MAP(X) };
#undef X

/* A place where a pattern matched except for one condition. */
typedef struct qg_near_miss {
    const char *node;      /* name */
    const char *condition; /* "c.out0 has 2 consumers, expected 1"; arena text */
} qg_near_miss;

/* How often a pattern matched: a pattern that never matches deserves attention. */
typedef struct qg_coverage {
    const char *pass, *pattern; /* the pass that searched, and its pattern */
    uint32_t matched;           /* places */
    QG_VEC(qg_near_miss) near_miss;
    const char *nearest; /* why a pattern neither matched nor nearly matched; or NULL */
} qg_coverage;

/* One row per pass that ran, in order. */
typedef struct qg_pass_result {
    const char *name;
    double seconds;   /* with its analyses and verification */
    uint32_t changed; /* edits and state changes, as the pass counts them */
} qg_pass_result;

typedef struct qg_pass_env qg_pass_env;

/* A parameter of a pass that pipelines and backends may set (quant/backend.h,
 * qg_pass_setting).  Yes is 1, no is 0. */
typedef struct qg_pass_param {
    const char *name, *meaning; /* "iterations", "how often all pairs are visited" */
    double value, low, high;    /* the default; limits, inclusive */
} qg_pass_param;

/* Immutable; static, or as long as the context; `run` keeps no state between calls. */
typedef struct qg_pass {
    const char *name;    /* the word in pipelines, --dump-after and goldens */
    const char *summary; /* one line for `qg list passes` */
    uint32_t needs;      /* analyses that must hold before it runs */
    uint32_t breaks;     /* analyses that no longer hold afterwards */
    bool once;           /* what it has rewritten it would rewrite further */
    qg_status (*run)(qg_pass_env *env);
    const qg_pass_param *param; /* ends with a NULL name; NULL: none */
    const qg_quirk_row *quirk;  /* its behaviours that quirks replace; NULL: none */

    /* Of a pass added by a host (QG_ADDED_PASS): the pass before or after which it runs
     * in every pipeline, and the data of its run function.  NULL in others. */
    const char *before, *after;
    const void *host;
} qg_pass;

/* When the driver runs the verifier.  After the last pass only: walking a graph of
 * 100,000 nodes after every pass took half of the time of all of them; then a broken
 * rule is known to be broken by some pass up to the last. */
typedef enum qg_pass_verify {
    QG_VERIFY_BUILD, /* after each pass in a build with assertions, else once */
    QG_VERIFY_EACH,  /* after each pass: the error names the pass that broke the rule */
    QG_VERIFY_LAST   /* once, after the last pass */
} qg_pass_verify;

/* Options of the caller of the pipeline; zeros are the defaults. */
typedef struct qg_pass_options {
    const char *dispatcher; /* NULL: the backend's */
    /* Replaces the observer of every activation: "minmax", "ppq-kl,bins=2048"
     * (qg_observer_parse); NULL: none. */
    const char *observer;
    size_t samples; /* calibration samples, at most; 0: all of the feed */
    unsigned jobs;  /* workers; 0: one per core */
    bool reference; /* reference kernels only */
    bool rewritten; /* the graph is of a run of this pipeline: no passes with `once` */
    qg_pass_verify verify;
    /* [n_setting] parameters of passes, the last setting applies; borrowed. */
    const qg_pass_setting *setting;
    size_t n_setting;
} qg_pass_options;

/* Everything a pass sees. */
struct qg_pass_env {
    qg_ctx *ctx;
    qg_graph *graph;              /* changed in place */
    const qg_backend *backend;    /* with overrides applied */
    qg_quant *quant;              /* NULL before `rules` */
    const struct qg_feed *feed;   /* exec/drive.h: calibration data; NULL: none */
    const struct qg_stats *stats; /* calib/stats.h, instead of a feed; NULL: none */
    qg_pass_options options;

    /* Called after every pass; NULL: none. */
    qg_status (*dump)(void *ud, const qg_pass_env *env, const char *pass);
    void *ud;
    const qg_progress *progress; /* called while samples run; NULL: none */
    const char *stage;           /* stage name passed to progress */

    /* Written by the driver and the functions below. */
    uint32_t valid;   /* qg_analysis */
    uint32_t changed; /* by the pass at work */
    const qg_pass *at_work;
    QG_VEC(qg_coverage) coverage;  /* by first use */
    qg_calibrated calibrated;      /* the result of the last calibration */
    QG_VEC(const qg_tqc *) masked; /* left in float for a mask of -inf */
    QG_VEC(const qg_tqc *) empty;  /* left in float: no sample has an element there */
    QG_VEC(size_t) far;            /* samples with numbers far from all others */
    QG_VEC(const qg_tqc *) small;  /* min-scale is all that gives their scale */
    QG_VEC(qg_pass_result) result; /* one per pass that ran */

    /* Written by fuse-batchnorm: nodes that passes which visit nodes in order visit
     * after all others (qg_pass_listed_last). */
    QG_VEC(const qg_node *) listed_last;
};

/* Runs the named passes in order.  Names are resolved in `all` (ends with NULL):
 * QG_ECONFIG with the nearest name.  A failing pass stops the pipeline; its message
 * begins with "pass <name>: " when the pass broke a rule of the verifier; a release
 * build verifies once after the last pass, and the message then begins with "passes up
 * to <name>: ".  All names, of passes and of their parameters, are resolved before the
 * first pass runs: a typing error must not cost a calibration.  A pass that is set to
 * `run: no` is left out.  On failure the graph is as the failing pass left it. */
QG_NODISCARD qg_status qg_pass_run_all(qg_pass_env *env, const qg_pass *const *all,
                                       const char *const *name, size_t n);

const qg_pass *qg_pass_find(const qg_pass *const *all, const char *name); /* or NULL */

/* A parameter of the running pass (asserted: it has one of that name): as set for this
 * run, else its default. */
double qg_pass_value(const qg_pass_env *env, const char *param);

/* Replaces the behaviours of the running pass that the quirks of the run replace
 * (asserted: it has a table of them).  `behaviours` holds the ordinary ones and is of
 * the type that the table names. */
void qg_pass_quirks(const qg_pass_env *env, void *behaviours);

/* *last: [nodes] 1 for those of env->listed_last, in arena a; ids must be dense. */
QG_NODISCARD qg_status qg_pass_listed_last(const qg_pass_env *env, qg_arena *a,
                                           const uint8_t **last);

/* The coverage row of a pattern of the running pass, made on first use.
 * pattern makes the row of one that may never match, with nearest as in qg_coverage.
 * near_miss names a node and, printf-like, the condition that failed; kept in the
 * graph's arena. */
QG_NODISCARD qg_status qg_pass_pattern(qg_pass_env *env, const char *pattern,
                                       const char *nearest);
QG_NODISCARD qg_status qg_pass_matched(qg_pass_env *env, const char *pattern);
QG_NODISCARD qg_status qg_pass_near_miss(qg_pass_env *env, const char *pattern,
                                         const qg_node *n, const char *fmt, ...)
    QG_PRINTF(4, 5);

/* From here on TQC changes are journalled as "<pass>/<detail>"; detail NULL:
 * "<pass>". */
QG_NODISCARD qg_status qg_pass_author(qg_pass_env *env, const char *detail);

#endif

/* sink.h -- values of a run, sample by sample, as files of a folder: the outputs of `qg
 * run`, its --dump, and `qg trace`.
 *
 *     QG_TRY(qg_sink_make(&k, &exe, samples));
 *     QG_TRY(qg_sink_outputs(&k, folder));              // or, and
 *     QG_TRY(qg_sink_dumps(&k, "*", folder));
 *     QG_TRY(qg_sink_spare(&k, data));
 *     QG_TRY(qg_sink_plan(&k, work, feed, &plan));
 *     QG_TRY(qg_sink_run(&k, plan, feed, &o->work));
 *     QG_TRY(qg_sink_commit(&k));
 *     qg_sink_close(&k);                                // also after a failure
 *
 * Files    data/column.h; their names are those of the values, made safe
 * Folder   of dumps: also trace.json (docs/trace.md), so that it is a trace
 * Order    that of the samples, whatever the number of workers
 * Memory   one sample per worker, and samples that wait for their turn */
#ifndef QG_ENGINE_SESSION_SINK_H
#define QG_ENGINE_SESSION_SINK_H

#include <pthread.h>

#include "engine/data/column.h"
#include "engine/session/session.h"

/* The description of a trace beside its arrays: docs/trace.md. */
#define QG_TRACE_JSON   "trace.json"
#define QG_TRACE_FORMAT "quantgraph-trace"
enum { QG_TRACE_VERSION = 1 };

/* Outputs of a sample that finished before its turn. */
typedef struct qg_waiting {
    qg_arena *arena;
    qg_tensor *value; /* [columns] */
} qg_waiting;

typedef struct qg_sink {
    qg_ctx *ctx;
    qg_arena *arena;
    pthread_mutex_t lock;
    qg_column *column;
    const char **name;         /* [columns] of the values */
    const qg_value **value;    /* [columns] of the model; NULL: an output */
    size_t n_column, n_output; /* outputs first, then dumped values */
    qg_waiting *slot;          /* [samples] */
    size_t n, next;            /* samples, and the one whose turn it is */
    const qg_executable *exe;
    qg_names *taken;      /* paths of columns */
    uint32_t *dumped;     /* [values that are executed] column index plus one, 0: not
                           * dumped */
    size_t strange;       /* the first sample with an output that is not finite; or n */
    const char *made[2];  /* folders that were not there before; NULL: none */
    const char *dumps_in; /* folder of the dumps; NULL: none */
} qg_sink;

/* *out begins as zeros, and stays where it is; e must outlive it. */
QG_NODISCARD qg_status qg_sink_make(qg_sink *out, const qg_executable *e,
                                    size_t samples);
void qg_sink_close(qg_sink *k); /* files that were not committed never appear */

/* Every output of the graph; before the dumps. */
QG_NODISCARD qg_status qg_sink_outputs(qg_sink *k, const char *folder);
/* Computed values of the model whose name matches.  QG_ECONFIG: none does. */
QG_NODISCARD qg_status qg_sink_dumps(qg_sink *k, const char *glob, const char *folder);

/* QG_ECONFIG: a file that would be replaced is read as a sample; d may be NULL. */
QG_NODISCARD qg_status qg_sink_spare(const qg_sink *k, const struct qg_data *d);

/* A plan in which the dumped values are watched. */
QG_NODISCARD qg_status qg_sink_plan(const qg_sink *k, const qg_workload *work,
                                    const qg_feed *feed, qg_plan **out);
QG_NODISCARD qg_status qg_sink_run(qg_sink *k, const qg_plan *p, const qg_feed *feed,
                                   const qg_workload *work);
/* All files, trace.json last. */
QG_NODISCARD qg_status qg_sink_commit(qg_sink *k);

/* Warns of the endpoint where a NaN or an infinity begins: when an output of the run
 * has one, when quantizing found one, or when searching for a hidden one is quick. */
QG_NODISCARD qg_status qg_sink_warn(const qg_sink *k, const qg_plan *p,
                                    const qg_feed *feed, const qg_workload *work);

/* The file of column i, in a; NULL: no memory. */
const char *qg_sink_file(const qg_sink *k, size_t i, qg_arena *a);

#endif

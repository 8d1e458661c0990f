/* collect.h -- statistics of values while samples run.
 *
 * Workers examine a tensor without a lock and add the result under the value's lock:
 * statistics are in memory once, regardless of the number of workers, and since
 * addition is exactly associative the result does not depend on the order of workers.
 *
 *     qg_collector c;
 *     QG_TRY(qg_collector_open(ctx, stats, &c));
 *     in a hook:  QG_TRY(qg_collector_see(&c, ctx, i, sample, value, scratch));
 *     qg_collector_close(&c);
 *
 * A lock is held only while counts are added, some microseconds per value and sample;
 * the expensive part, examining the tensor, runs outside of it.
 *
 * A sample's global index determines the part it counts for (calib/stats.h): shards of
 * one data set use its indices, not local ones.
 *
 * Values: every non-constant float32 value of the graph, but not of bodies of control
 * flow, whose values have no name outside.  A value is observed at its producer's
 * output, a graph input at its first reader.  A value that no sample reaches (a branch
 * never taken) has count 0.
 *
 * In pieces, with the caller's own work between them:
 *
 *     QG_TRY(qg_collect_open(ctx, &c, &run));
 *     for (first = 0; first < n; first = end)
 *         s = qg_collect_samples(ctx, run, first, end = piece_after(first));
 *     qg_collect_close(run);
 *
 * qg_collect_open and _samples do all of it for every value of the statistics. */
#ifndef QG_ENGINE_CALIB_COLLECT_H
#define QG_ENGINE_CALIB_COLLECT_H

#include <pthread.h>

#include "engine/exec/drive.h"
#include "engine/calib/stats.h"

/* Opaque except for `finite`, which may be set after opening. */
typedef struct qg_collector {
    qg_stats *stats;
    pthread_mutex_t *lock; /* [values] */
    uint64_t *nan;         /* [values] the first sample with a NaN; UINT64_MAX: none */
    size_t n;
    bool finite; /* NaN and infinities are QG_ENUMERIC, and nothing was added */
} qg_collector;

/* All values must be there already. */
QG_NODISCARD qg_status qg_collector_open(qg_ctx *ctx, qg_stats *s, qg_collector *out);
void qg_collector_close(qg_collector *c); /* also of a zeroed one */

/* Adds a tensor to stats->value.at[i]; an empty one is nothing.  scratch is reset. */
QG_NODISCARD qg_status qg_collector_see(const qg_collector *c, qg_ctx *ctx, size_t i,
                                        uint64_t sample, const qg_tensor *x,
                                        qg_arena *scratch);

/* Every float32 value of the graph that is not a constant gets an empty record: moments
 * and histogram, and histograms of channels for values that match `by_channel` (a glob
 * over names; NULL: none). */
QG_NODISCARD qg_status qg_collect_values(const qg_graph *g, const char *by_channel,
                                         qg_stats *out);

/* The statistics to collect and their samples; borrowed by the run. */
typedef struct qg_collect {
    const qg_graph *graph;
    const qg_feed *feed;
    qg_stats *stats; /* values are found by name; samples are marked as seen */
    unsigned jobs;   /* 0: one per core */
    bool reference;
    const qg_progress *progress; /* over all pieces, out of the feed's samples */
    const char *stage;
} qg_collect;

/* The network in float, compiled; samples may come in any number of pieces. */
typedef struct qg_collect_run qg_collect_run;
QG_NODISCARD qg_status qg_collect_open(qg_ctx *ctx, const qg_collect *c,
                                       qg_collect_run **out);
void qg_collect_close(qg_collect_run *r); /* NULL is fine */

/* Samples first .. end - 1 of the feed.  On failure the statistics may include more
 * samples than they record. */
QG_NODISCARD qg_status qg_collect_samples(qg_ctx *ctx, qg_collect_run *r,
                                          uint64_t first, uint64_t end);

/* The first sample so far in which a value has a NaN; UINT64_MAX: none has. */
uint64_t qg_collect_nan(const qg_collect_run *r);

/* Bytes that each worker needs: activations, scratch memory and inputs. */
size_t qg_collect_bytes(const qg_collect_run *r);

#endif

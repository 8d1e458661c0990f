/* collect.h -- statistics of values while samples run.
 *
 * Workers look at a tensor on their own and add what they saw under the value's lock:
 * statistics are in memory once, whatever the number of workers, and since adding is
 * exactly associative the result does not depend on who came first.
 *
 *     qg_collector c;
 *     QG_TRY(qg_collector_open(ctx, stats, &c));
 *     in a hook:  QG_TRY(qg_collector_see(&c, ctx, i, sample, value, scratch));
 *     qg_collector_close(&c);
 *
 * A lock is held while counts are added, some microseconds per value and sample; what
 * takes time, looking at the tensor, happens outside of it.
 *
 * Samples are told apart by their index, which decides the part they count for
 * (calib/stats.h): shards of one data set use its indices, not their own.
 *
 * Which values: every float32 one that is no constant, in the graph and not in bodies
 * of control flow, whose values have no name outside.  A value is seen at its
 * producer's output; a graph input at its first reader.  What no sample reaches (a
 * branch that is never taken) has count 0.
 *
 * In pieces, with whatever the caller does between them:
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

/* Opaque but for `finite`, which may be set after opening. */
typedef struct qg_collector {
    qg_stats *stats;
    pthread_mutex_t *lock; /* [values] */
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

/* Every float32 value of the graph that is no constant gets an empty record: moments
 * and histogram, and histograms of channels where `by_channel` (a glob over names;
 * NULL: nowhere) says so. */
QG_NODISCARD qg_status qg_collect_values(const qg_graph *g, const char *by_channel,
                                         qg_stats *out);

/* What is collected, and from where; borrowed by the run. */
typedef struct qg_collect {
    const qg_graph *graph;
    const qg_feed *feed;
    qg_stats *stats; /* values are found by name; samples are marked as seen */
    unsigned jobs;   /* 0: one per core */
    bool reference;
    const qg_progress *progress; /* over all pieces, out of the feed's samples */
    const char *stage;
} qg_collect;

/* The network in float, compiled; samples in as many pieces as one likes. */
typedef struct qg_collect_run qg_collect_run;
QG_NODISCARD qg_status qg_collect_open(qg_ctx *ctx, const qg_collect *c,
                                       qg_collect_run **out);
void qg_collect_close(qg_collect_run *r); /* NULL is fine */

/* Samples first .. end - 1 of the feed.  On failure the statistics may have seen more
 * than they say. */
QG_NODISCARD qg_status qg_collect_samples(qg_ctx *ctx, qg_collect_run *r,
                                          uint64_t first, uint64_t end);

/* Bytes that each worker needs: activations, room to look at them, and inputs. */
size_t qg_collect_bytes(const qg_collect_run *r);

#endif

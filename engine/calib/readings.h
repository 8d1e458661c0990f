/* readings.h -- the statistics that observers read: collected while the samples run,
 * or given by a file.
 *
 *     begin -> want (per endpoint) -> open -> ... samples, with collector -> stats
 *
 * Endpoints of one value share the collected statistics; the first endpoint that needs
 * a kind of them adds it.
 *
 * Given statistics are checked against the graph's fingerprint (ir/text.h): the same
 * nodes, attributes, names and constants, regardless of later dispatch and rules.
 *
 * Owner    the caller, which also provides the arena; end frees the collected
 *          statistics */
#ifndef QG_ENGINE_CALIB_READINGS_H
#define QG_ENGINE_CALIB_READINGS_H

#include "engine/calib/collect.h"
#include "engine/calib/observer.h"

/* The statistics read by all observers of one value along one axis. */
typedef struct qg_reading {
    const qg_value *value;
    int32_t axis; /* of channels; -1: per tensor */
    unsigned holds;
    const qg_stats_value *stats; /* set by open */
} qg_reading;

typedef struct qg_readings {
    qg_ctx *ctx;
    qg_arena *arena; /* of the list */
    QG_VEC(qg_reading) wanted;
    const qg_stats *given;  /* NULL: collected */
    qg_stats *own;          /* collected statistics; NULL before open, and when given */
    qg_collector collector; /* of own: entry i is wanted.at[i] */
} qg_readings;

/* Of the graph of q.  given NULL: the statistics will be collected.  QG_EDATA when
 * those given are of another graph. */
QG_NODISCARD qg_status qg_readings_begin(qg_ctx *ctx, qg_arena *a, const qg_quant *q,
                                         const qg_stats *given, qg_readings *out);

/* The entry for an observer with `pick`; *first: this entry is new. */
QG_NODISCARD qg_status qg_readings_want(qg_readings *s, const qg_observe *o,
                                        const qg_value *v, uint32_t *entry,
                                        bool *first);

/* Makes empty records, or finds the given ones; QG_EDATA when one is missing. */
QG_NODISCARD qg_status qg_readings_open(qg_readings *s);
void qg_readings_end(qg_readings *s); /* also of a zeroed one */

#endif

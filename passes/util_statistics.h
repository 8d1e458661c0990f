/* util_statistics.h -- the statistics that observers of activations read: collected
 * while the samples run, or given (env->stats) by a file.
 *
 *     begin -> want (per endpoint) -> open -> ... samples, with collector -> value
 *
 * Endpoints of one value share what is collected; the first one to want it adds to it.
 *
 * Given statistics are checked against the graph's fingerprint (ir/text.h): the same
 * nodes, attributes, names and constants, whatever dispatch and rules said since.
 *
 * Owner    the pass; end frees what was collected */
#ifndef QG_PASSES_UTIL_STATISTICS_H
#define QG_PASSES_UTIL_STATISTICS_H

#include "engine/calib/collect.h"
#include "engine/pass/pass.h"
#include "engine/calib/derive.h"

/* What all observers of one value along one axis read. */
typedef struct qg_wanted {
    const qg_value *value;
    int32_t axis; /* of channels; -1: not told apart */
    unsigned holds;
    const qg_stats_value *stats; /* set by open */
} qg_wanted;

typedef struct qg_pass_stats {
    qg_pass_env *env;
    QG_VEC(qg_wanted) wanted;
    qg_stats *own;          /* collected here; NULL: given */
    qg_collector collector; /* of own: entry i is wanted.at[i] */
} qg_pass_stats;

/* QG_EDATA when statistics are given and are of another graph. */
QG_NODISCARD qg_status qg_pass_stats_begin(qg_pass_env *env, qg_pass_stats *out);

/* The entry for an observer with `pick`; *first: nobody wanted this one before. */
QG_NODISCARD qg_status qg_pass_stats_want(qg_pass_stats *s, const qg_observe *o,
                                          const qg_value *v, uint32_t *entry,
                                          bool *first);

/* Makes empty records, or looks the given ones up; QG_EDATA when one is missing. */
QG_NODISCARD qg_status qg_pass_stats_open(qg_pass_stats *s);
/* How sure the scale is that t was just given: a row of env->settled. */
QG_NODISCARD qg_status qg_pass_stats_settled(const qg_pass_stats *s, const qg_tqc *t,
                                             const qg_confidence *c);
void qg_pass_stats_end(qg_pass_stats *s); /* also of a zeroed one */

#endif

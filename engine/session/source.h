/* source.h -- samples provided by a host (qg_source) as a feed.
 *
 * The source is read completely, before the work, when it can be read only once (the
 * samples are then spooled), when its number of samples is unknown, or when the graph
 * has dynamic dims of inputs.  Otherwise each sample is fetched when it is needed.
 *
 * Messages begin "data: source: sample 3". */
#ifndef QG_ENGINE_SESSION_SOURCE_H
#define QG_ENGINE_SESSION_SOURCE_H

#include "engine/api/qg.h"
#include "engine/exec/ahead.h"
#include "engine/ir/graph.h"

typedef struct qg_hosted qg_hosted;

typedef struct qg_hosted_request {
    const qg_graph *graph; /* the samples are for its inputs; must outlive the feed */
    const qg_workload *work;
    bool nan; /* NaN is accepted, not refused */
} qg_hosted_request;

/* work->source is set.  QG_EDATA when it has no sample, QG_ECANCELED when work's
 * progress ends the count. */
QG_NODISCARD qg_status qg_hosted_open(qg_ctx *ctx, const qg_hosted_request *request,
                                      qg_hosted **out);
void qg_hosted_close(qg_hosted *h); /* NULL is fine */

/* Points to h; shape is set when dims are dynamic and equal in all samples. */
qg_feed qg_hosted_feed(qg_hosted *h);

/* The same samples as a source that can be read again, for nested workloads; points to
 * h. */
const qg_source *qg_hosted_again(const qg_hosted *h);

/* Some samples of a feed. */
typedef struct qg_subset {
    const qg_feed *whole; /* borrowed */
    size_t n_input, n;
    const size_t *index; /* [n] in `whole`; borrowed */
    qg_feed feed;        /* points to this struct */
    qg_source source;    /* the same samples for nested workloads; likewise */
} qg_subset;

/* Fills feed and source from the fields before them. */
void qg_subset_open(qg_subset *s);

/* Position of the input with this name; NULL: of the only one.  QG_EDATA with `what`
 * and the nearest name. */
QG_NODISCARD qg_status qg_input_named(qg_ctx *ctx, const qg_graph *g, const char *what,
                                      const char *name, size_t *out);

#endif

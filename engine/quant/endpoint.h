/* endpoint.h -- the TQC of an endpoint, the endpoint of a TQC, and iteration over the
 * TQCs of a node or a group.
 *
 * A node has no TQCs before attach, and none at slots that are absent: functions return
 * NULL there. */
#ifndef QG_ENGINE_QUANT_ENDPOINT_H
#define QG_ENGINE_QUANT_ENDPOINT_H

#include "engine/ir/endpoint.h"

/* Where t is. */
qg_endpoint qg_tqc_endpoint(const qg_tqc *t);
/* The value there (NULL: absent slot). */
qg_value *qg_tqc_value(const qg_tqc *t);
/* Whether the value is a constant: such endpoints are baked, not calibrated. */
bool qg_tqc_is_constant(const qg_tqc *t);
/* The letter of its slot, as qg_endpoint_role gives it. */
char qg_tqc_role(const qg_tqc *t);
/* A constant bound (Clip's limits, the value of Pad) that has the grid of input 0, its
 * bits included, whatever a rule gives it (derive-passive). */
bool qg_tqc_is_bound(const qg_tqc *t);
/* "Conv_3.in1", as qg_endpoint_text gives it. */
const char *qg_tqc_text(const qg_tqc *t, char text[QG_ENDPOINT_TEXT]);
/* The TQC that such a text names; NULL: none of g. */
qg_tqc *qg_tqc_named(const qg_graph *g, const char *text);

/* The TQC of an endpoint; NULL: none, or no such slot. */
qg_tqc *qg_endpoint_tqc(qg_endpoint at);
qg_tqc *qg_input_tqc(const qg_node *n, uint32_t slot);
qg_tqc *qg_output_tqc(const qg_node *n, uint32_t slot);
/* Of the operator's first input slot with this letter. */
qg_tqc *qg_role_tqc(const qg_node *n, char role);
/* Of the output that makes v; NULL also for inputs of the network and constants. */
qg_tqc *qg_producer_tqc(const qg_value *v);
/* Of endpoint k of the node, k < qg_node_endpoints(n). */
qg_tqc *qg_node_tqc(const qg_node *n, uint32_t k);

/* The member of the group after t; NULL after the last one.  Every member, `first`
 * before all others:
 *
 *     for (const qg_tqc *t = first; t; t = qg_group_next(t, first))
 *
 * The loop must not change the group. */
qg_tqc *qg_group_next(const qg_tqc *t, const qg_tqc *first);

#endif

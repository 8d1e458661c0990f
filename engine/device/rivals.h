/* rivals.h -- endpoints at which backends decide otherwise that explain a trace equally
 * well: the trace does not tell which of them the device follows there.
 *
 *     qg_rivals list = { 0 };
 *     QG_TRY(qg_rivals_add(&nearest, &other, "trt-int8", arena, &list));
 *     QG_TRY(qg_report_undecided(&nearest, &list, report)); */
#ifndef QG_ENGINE_DEVICE_RIVALS_H
#define QG_ENGINE_DEVICE_RIVALS_H

#include "engine/device/attempt.h"

/* who: the first rival that decides otherwise; texts are in the arena of the list.
 * ties: it rounds half-way values otherwise, and nothing else.  whole: every result is
 * the device's with it, and it contradicts nothing. */
typedef struct qg_rival {
    const char *node, *who;
    uint32_t slot;
    bool is_output, ties, whole;
} qg_rival;
typedef QG_VEC(qg_rival) qg_rivals;

/* Whether results rule an attempt out: at some value it has more than twice as many
 * elements that are not the device's; where the other has none, one.  Both are of
 * qg_attempt_make. */
bool qg_rivals_is_ruled_out(const qg_attempt *t, const qg_attempt *by);

/* Appends the endpoints that only one of two attempts has a record of, that only one
 * rounds, or whose group or codes are others, unless they are listed.  The scales are
 * not compared: a visible one is that of the trace in both. */
QG_NODISCARD qg_status qg_rivals_add(const qg_attempt *a, const qg_attempt *other,
                                     const char *who, qg_arena *arena, qg_rivals *list);

/* Appends the endpoints of another attempt that have no place in the network as a's
 * passes leave it: what the device does there is not in a's words. */
QG_NODISCARD qg_status qg_rivals_add_lost(const qg_attempt *a, const qg_attempt *other,
                                          const char *who, qg_arena *arena,
                                          qg_rivals *list);

/* The rival that decides otherwise at an endpoint; NULL: none does. */
const qg_rival *qg_rivals_at(const qg_rivals *list, qg_endpoint at);

/* Whether the endpoint of a rival has a place in a graph. */
bool qg_rival_is_in(const qg_rival *r, const qg_graph *g);

#endif

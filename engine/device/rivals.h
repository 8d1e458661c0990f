/* rivals.h -- endpoints at which backends decide otherwise that explain a trace equally
 * well: the trace does not tell which of them the device follows there.
 *
 *     qg_rivals list = { 0 };
 *     QG_TRY(qg_rivals_add(&nearest, &other, arena, &list));
 *     QG_TRY(qg_report_undecided(&nearest, &list, report)); */
#ifndef QG_ENGINE_DEVICE_RIVALS_H
#define QG_ENGINE_DEVICE_RIVALS_H

#include "engine/device/attempt.h"

/* backend: the first rival that decides otherwise; texts are in the arena of the
 * list. */
typedef struct qg_rival {
    const char *node, *backend;
    uint32_t slot;
    bool is_output;
} qg_rival;
typedef QG_VEC(qg_rival) qg_rivals;

/* Appends the endpoints that only one of two attempts has a record of, that only one
 * rounds, or whose group or codes are others, unless they are listed.  The scales are
 * not compared: a visible one is that of the trace in both. */
QG_NODISCARD qg_status qg_rivals_add(const qg_attempt *a, const qg_attempt *other,
                                     qg_arena *arena, qg_rivals *list);

/* The rival that decides otherwise at an endpoint; NULL: none does. */
const char *qg_rivals_at(const qg_rivals *list, qg_endpoint at);

#endif

/* assign.h -- arrays without a known name and the values that they are, all at once:
 * the best pairs first.
 *
 *     order     correlation in steps of 0.001, then real values that are the value's,
 *               then the correlation, then dims in the model's order, then the order of
 *               the arrays and of the producers
 *
 * A value and a monotone function of it correlate, so the first come would take the
 * wrong one.  An array that is nearest to a value that has one by name shows it a
 * second time, and is of no other. */
#ifndef QG_ENGINE_DEVICE_ASSIGN_H
#define QG_ENGINE_DEVICE_ASSIGN_H

#include "engine/device/correlate.h"

typedef struct qg_assignment {
    const qg_trace_array *array; /* given */
    const qg_value *value;       /* NULL: none */
    qg_pair pair;                /* confidence: the correlation, over the number of
                                  * values that are as good */
} qg_assignment;

/* to: [n].  Candidates of c with a pair are taken; stored: [values of the model] how
 * the values in c's graph are stored. */
QG_NODISCARD qg_status qg_assign(qg_ctx *ctx, const qg_trace *t,
                                 const qg_correlation *c, const qg_stored *stored,
                                 qg_assignment *to, size_t n);

#endif

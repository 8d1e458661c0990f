/* observed.h -- results of observers of constants, kept between the quantizations of
 * one network: tools that try many backends calibrate the same weights again and again.
 *
 *     qg_kept_constants kept = { .arena = arena };
 *     qg_kept_constants *at = &kept;
 *     qg_added added = { ctx->added[QG_ADDED_OBSERVED], "constants", &at };
 *     ctx->added[QG_ADDED_OBSERVED] = &added;
 *     ... quantize, as often as needed ...
 *     ctx->added[QG_ADDED_OBSERVED] = added.next;
 *
 * Key      observer with its parameters, scheme, quirks, dims and elements (SHA-256),
 *          so a result never belongs to other data
 * Threads  one, as the context */
#ifndef QG_ENGINE_CALIB_OBSERVED_H
#define QG_ENGINE_CALIB_OBSERVED_H

#include "engine/calib/observe.h"
#include "engine/core/hash.h"
#include "engine/core/vec.h"

typedef struct qg_kept_constant {
    char key[QG_HASH_TEXT];
    qg_qparam param;
    const qg_observer *observer; /* afterwards: minmax where elements were too few */
    bool floored;                /* qg_observe.floored */
} qg_kept_constant;

typedef struct qg_kept_constants {
    qg_arena *arena; /* of the results; outlives the list */
    QG_VEC(qg_kept_constant) constant;
} qg_kept_constants;

/* qg_observe_tensor of a constant, or its result from the context's list where it was
 * observed before.  Nothing is kept without a list, of tensors that are not plain
 * float32, and of minmax, which costs less than the key. */
QG_NODISCARD qg_status qg_observe_constant(qg_ctx *ctx, qg_observe *o,
                                           const qg_tensor *x, unsigned quirks,
                                           qg_arena *a, qg_qparam *out);

#endif

/* apply.h -- one scheme on one tensor: parameters, values, and what it cost.  What
 * `qg quantize-tensor` does.
 *
 * The shortest way from a float array to a rounded one and the price of it:
 *
 *     qg_apply how = { .scheme = s };                 // parameters from x itself
 *     QG_TRY(qg_scheme_apply(ctx, arena, &how, &x, &y, &done));
 *     printf("snr %g\n", qg_error_snr(&done.error)); */
#ifndef QG_ENGINE_QUANT_APPLY_H
#define QG_ENGINE_QUANT_APPLY_H

#include "engine/quant/metric.h"

/* What was done: enough to do the same again, and how well it went. */
typedef struct qg_applied {
    qg_scheme scheme;   /* as given, without DYNAMIC: for qg_quantize with param */
    qg_qparam param;    /* those used; in the arena unless they were given */
    qg_error error;     /* of y against x, in memory order */
    uint64_t saturated; /* elements outside of the grid */
} qg_applied;

/* How: a scheme, and its parameters or none. */
typedef struct qg_apply {
    qg_scheme scheme;       /* checked */
    const qg_qparam *param; /* NULL, and always for a DYNAMIC scheme: scale and offset
                             * from the range of the values under each parameter */
    unsigned quirks;        /* of qg_range_quirk */
} qg_apply;

/* y = fake quantized x: float32, one layout without gaps, not the same array.
 * QG_ECONFIG for a scheme that breaks a rule (policy.h), QG_ESTATE when axis, block or
 * number of parameters do not fit x or the arrays do not fit together, QG_ENUMERIC for
 * a scale that is not finite and above 0.  Source: fake.h, metric.h. */
QG_NODISCARD qg_status qg_scheme_apply(qg_ctx *ctx, qg_arena *arena,
                                       const qg_apply *how, const qg_tensor *x,
                                       qg_tensor *y, qg_applied *out);

#endif

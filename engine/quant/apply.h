/* apply.h -- one scheme on one tensor: parameters, values and error.  Implements `qg
 * quantize-tensor`.
 *
 * Quantizing a float array and measuring the error:
 *
 *     qg_qparam p = { 1, &scale, NULL };
 *     qg_apply how = { .scheme = s, .param = &p };
 *     QG_TRY(qg_scheme_apply(ctx, &how, &x, &y, &done));
 *     printf("nsr %g\n", qg_error_nsr(&done.error)); */
#ifndef QG_ENGINE_QUANT_APPLY_H
#define QG_ENGINE_QUANT_APPLY_H

#include "engine/quant/metric.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The result: the parameters used, enough to repeat it, and the error. */
typedef struct qg_applied {
    qg_scheme scheme;   /* as given, without DYNAMIC: for qg_quantize with param */
    qg_qparam param;    /* those used: as given, or in the room of qg_apply */
    qg_error error;     /* of y against x, in memory order */
    uint64_t saturated; /* elements outside of the grid */
} qg_applied;

/* Memory of the caller for parameters found in the data: qg_scheme_param_count of
 * each. */
typedef struct qg_apply_room {
    float *low, *high,
        *scale; /* range of the values under a parameter, and its scale */
    int32_t *offset;
} qg_apply_room;

/* How: a scheme, and its parameters or room for them. */
typedef struct qg_apply {
    qg_scheme scheme;       /* checked */
    const qg_qparam *param; /* NULL, and always for a DYNAMIC scheme: scale and offset
                             * from the range of the values under each parameter */
    unsigned quirks;        /* of qg_range_quirk */
    qg_apply_room room;     /* written when param is NULL or not used */
} qg_apply;

/* y = fake quantized x: float32, one layout without gaps, not the same array.
 * QG_ECONFIG for a scheme that breaks a rule (policy.h), QG_ESTATE when axis, block or
 * number of parameters do not fit x, when the arrays do not fit together or when there
 * is neither a parameter nor room for one, QG_ENUMERIC for a scale that is not finite
 * and above 0.  Source: fake.h, metric.h. */
QG_NODISCARD QG_API qg_status qg_scheme_apply(qg_ctx *ctx, const qg_apply *how,
                                              const qg_tensor *x, qg_tensor *y,
                                              qg_applied *out);

#ifdef __cplusplus
}
#endif

#endif

/* spans.h -- the elements of a tensor in memory order, with the parameter of each.
 *
 * A tensor without gaps is one array; the walk cuts it into spans over which the
 * parameter either stays (each == false) or goes up by one per element (each == true).
 * Any layout, any granularity.  Private to engine/quant.
 *
 *     qg_spans w;
 *     qg_span s;
 *     if (!qg_spans_start(&w, &scheme, x)) ...
 *     while (qg_spans_next(&w, &s))
 *         ... x->f32[s.at .. s.at + s.n) with parameter s.param ... */
#ifndef QG_ENGINE_QUANT_SPANS_H
#define QG_ENGINE_QUANT_SPANS_H

#include "engine/ir/tensor.h"
#include "engine/quant/policy.h"

/* The walk's state; a value, so two walks may run at the same time. */
typedef struct qg_spans {
    int n; /* dimensions of memory, innermost first; >= 1 */
    int64_t extent[QG_MAX_RANK];
    int64_t stride[QG_MAX_RANK]; /* of the parameter index */
    int64_t block[QG_MAX_RANK];  /* steps before it moves, >= 1 */
    int64_t index[QG_MAX_RANK];
    size_t at; /* position in memory */
} qg_spans;

/* A run of memory. */
typedef struct qg_span {
    size_t at, n; /* elements at .. at + n - 1 of memory */
    size_t param; /* of the first element */
    bool each;
} qg_span;

/* False when x is not fully known or its strides leave gaps or overlap.  The axis of s
 * fits x (qg_scheme_param_count >= 0). */
bool qg_spans_start(qg_spans *w, const qg_scheme *s, const qg_tensor *x);

/* False after the last element. */
bool qg_spans_next(qg_spans *w, qg_span *span);

/* Same dims, and element for element the same place in memory. */
bool qg_same_layout(const qg_tensor *x, const qg_tensor *y);

#endif

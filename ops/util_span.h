/* util_span.h -- the functions of util_math.h over arrays, compiled once per
 * instruction set.  Every row gives the same bits: the operations are the same and none
 * is fused. */
#ifndef QG_OPS_UTIL_SPAN_H
#define QG_OPS_UTIL_SPAN_H

#include <stdbool.h>
#include <stddef.h>

/* y[i] = f(x[i]), i < n; x and y are the same array or do not overlap. */
typedef void (*qg_span_f32)(const float *x, float *y, size_t n);

typedef struct qg_span_row {
    const char *isa;
    bool (*supported)(void); /* by this CPU */
    qg_span_f32 exp_f32, sigmoid_f32, tanh_f32, erf_f32;
} qg_span_row;

/* All rows compiled in, plain first (always supported), the widest last. */
const qg_span_row *const *qg_span_rows(size_t *n);
const qg_span_row *qg_span_best(void);

#endif

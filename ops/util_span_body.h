/* util_span_body.h -- the loops of one row of util_span.h.  The includer defines
 * TARGET, the attribute that names the instruction set, and gets the static functions
 * named in ROW_FUNCTIONS. */
#ifndef QG_OPS_UTIL_SPAN_BODY_H
#define QG_OPS_UTIL_SPAN_BODY_H

#include "ops/util_broadcast.h"
#include "ops/util_math.h"
#include "ops/util_span.h"

#define SPAN(name, f)                                                                  \
    TARGET static void name(const float *x, float *y, size_t n)                        \
    {                                                                                  \
        QG_IVDEP for (size_t i = 0; i < n; i++) y[i] = f(x[i]);                        \
    }
SPAN(exp_span, qg_expf)
SPAN(sigmoid_span, qg_sigmoidf)
SPAN(tanh_span, qg_tanhf)
SPAN(erf_span, qg_erff)
#undef SPAN

#define ROW_FUNCTIONS exp_span, sigmoid_span, tanh_span, erf_span

#endif

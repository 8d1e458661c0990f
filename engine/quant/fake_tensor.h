/* fake_tensor.h -- checks of tensors and parameters that fake.c, code.c and dynamic.c
 * share.  Private to engine/quant. */
#ifndef QG_ENGINE_QUANT_FAKE_TENSOR_H
#define QG_ENGINE_QUANT_FAKE_TENSOR_H

#include "engine/quant/fake.h"
#include "engine/quant/spans.h"

/* QG_ESTATE when axis or block do not fit x.
 * `what` begins the message in all of these; nothing is written but the message. */
QG_NODISCARD qg_status qg_fake_check_axis(qg_ctx *ctx, const char *what,
                                          const qg_scheme *s, const qg_tensor *x);

/* QG_ESTATE: their number does not fit; QG_ENUMERIC: a scale is not finite and > 0. */
QG_NODISCARD qg_status qg_fake_check_params(qg_ctx *ctx, const char *what,
                                            const qg_scheme *s, const qg_qparam *p,
                                            const qg_tensor *x);
/* Both are float32 with equal dims, fully known; QG_ESTATE otherwise. */
QG_NODISCARD qg_status qg_fake_check_floats(qg_ctx *ctx, const char *what,
                                            const qg_tensor *x, const qg_tensor *y);

/* The same, and QG_ESTATE for a DYNAMIC scheme. */
QG_NODISCARD qg_status qg_fake_check_static(qg_ctx *ctx, const char *what,
                                            const qg_scheme *s, const qg_qparam *p,
                                            const qg_tensor *x);

/* qg_spans_start; QG_ESTATE when the strides of x leave gaps. */
QG_NODISCARD qg_status qg_fake_check_dense(qg_ctx *ctx, const char *what,
                                           const qg_scheme *s, const qg_tensor *x,
                                           qg_spans *spans);

/* A DYNAMIC scheme; x and y have one layout without gaps. */
QG_NODISCARD qg_status qg_fake_dynamic(qg_ctx *ctx, const char *what,
                                       const qg_scheme *s, const qg_tensor *x,
                                       qg_tensor *y);

#endif

/* quantizer.h -- the quantizer of an endpoint: the library's (fake.h), or a
 * quantization function of the host.  Only this module decides; plans and baking call
 * it. */
#ifndef QG_ENGINE_QUANT_QUANTIZER_H
#define QG_ENGINE_QUANT_QUANTIZER_H

#include "engine/quant/record.h"

/* A row of QG_ADDED_QUANTIZER. */
typedef struct qg_quantizer {
    const char *name, *summary;
    /* x and y: float32, same dims and strides, maybe the same memory. */
    qg_status (*run)(void *ud, qg_ctx *ctx, const qg_scheme *scheme, const qg_qparam *p,
                     const qg_tensor *x, qg_tensor *y);
    void *ud;
} qg_quantizer;

/* *out: the row of that name.  QG_EUNSUPPORTED, beginning with `what`, when the context
 * has none, with the names it has. */
QG_NODISCARD qg_status qg_quantizer_named(qg_ctx *ctx, const char *what,
                                          const char *name, const qg_quantizer **out);

/* Rounds x into y as endpoint t does, with the parameters in force.  Errors are those
 * of qg_fake_quantize, and those returned by the host's function. */
QG_NODISCARD qg_status qg_tqc_round(qg_ctx *ctx, const qg_tqc *t, const qg_tensor *x,
                                    qg_tensor *y);

/* The same with other parameters than those in force. */
QG_NODISCARD qg_status qg_tqc_round_by(qg_ctx *ctx, const qg_tqc *t, const qg_qparam *p,
                                       const qg_tensor *x, qg_tensor *y);

/* Makes the row (NULL: the library) the quantizer of t; journalled. */
QG_NODISCARD qg_status qg_tqc_set_quantizer(qg_quant *q, qg_tqc *t,
                                            const qg_quantizer *row);

/* Its name; NULL: the library's own. */
const char *qg_tqc_quantizer(const qg_tqc *t);

#endif

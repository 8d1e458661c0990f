/* tqc_check.h -- rules of the verifier over the TQCs of a graph: what every pass must
 * leave true.  Rows like those of ir/check.h; the subject is a qg_quant.  Linear. */
#ifndef QG_ENGINE_QUANT_TQC_CHECK_H
#define QG_ENGINE_QUANT_TQC_CHECK_H

#include "engine/ir/check.h"
#include "engine/quant/tqc.h"

extern const qg_check_rule qg_tqc_rules[];
extern const size_t qg_n_tqc_rules;

/* QG_ESTATE: "verify: rule <id>: Conv_1.in0: <what is wrong>, expected <what>". */
QG_NODISCARD qg_status qg_check_tqcs(qg_ctx *ctx, const qg_quant *q, uint32_t which);

#endif

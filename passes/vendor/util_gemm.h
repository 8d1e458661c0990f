/* util_gemm.h -- fully connected nodes y = alpha * A * B + beta * C for passes that
 * backends enable; shared by ncnn-format-gemm and metax-gemm-split. */
#ifndef QG_PASSES_VENDOR_UTIL_GEMM_H
#define QG_PASSES_VENDOR_UTIL_GEMM_H

#include "engine/pass/pass.h"

/* Attributes of such a node. */
typedef struct qg_gemm {
    float alpha, beta;
    bool transposed_a, transposed_b;
} qg_gemm;

/* A quantized compute node with a weight of two axes, a slot for a bias, and all
 * attributes of qg_gemm at most: whatever its operator is called. */
bool qg_is_gemm(const qg_node *n);
QG_NODISCARD qg_status qg_gemm_read(qg_ctx *ctx, const qg_node *n, qg_gemm *out);

/* in[slot], a float32 constant, times `factor`, and transposed if requested; a new
 * constant, since others may read the old one.  An absent slot is left alone.
 * QG_EUNSUPPORTED when the slot has no float32 constant; transposing requires two
 * axes (asserted). */
QG_NODISCARD qg_status qg_gemm_rewrite(qg_graph *g, qg_node *n, uint32_t slot,
                                       float factor, bool transpose);

#endif

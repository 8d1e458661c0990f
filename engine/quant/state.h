/* state.h -- the enumerations of a TensorQuantizationConfig: its eleven states, its
 * export, the derivation of a borrowed scale. */
#ifndef QG_ENGINE_QUANT_STATE_H
#define QG_ENGINE_QUANT_STATE_H

#include "engine/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
/* rounds: at run time.  own: scale belongs to this endpoint (PASSIVE: borrowed unless
 * derived).  out: exported (OVERLAPPED only on request).  Append only.  (ORDER
 * STATE) */
#define QG_TQC_STATE_MAP(X)                                                    \
    /* id            text             rounds own out meaning */                \
    X(INITIAL,       "initial",       0, 0, 0, "created by a rule, not calibrated") \
    X(ACTIVATED,     "activated",     1, 1, 1, "calibrated, quantizes on every run") \
    X(BAKED,         "baked",         0, 1, 1, "constant already on the grid") \
    X(OVERLAPPED,    "overlapped",    0, 0, 0, "its group's quantizer acts elsewhere") \
    X(PASSIVE_INIT,  "passive-init",  0, 0, 0, "waits for the scale of its source") \
    X(PASSIVE,       "passive",       1, 0, 1, "quantizes, shared or derived scale") \
    X(PASSIVE_BAKED, "passive-baked", 0, 0, 1, "constant already on a shared grid") \
    X(FP32,          "fp32",          0, 0, 0, "never quantized") \
    X(SOI,           "soi",           0, 0, 0, "shape or index data, stays exact") \
    X(DEACTIVATED,   "deactivated",   0, 1, 0, "disabled by the user, scale is kept") \
    X(DEQUANTIZED,   "dequantized",   0, 1, 0, "disabled temporarily, keeps its state")
/* clang-format on */

typedef enum qg_tqc_state {
#define X(id, text, rounds, own, out, meaning) QG_TQC_##id,
    QG_TQC_STATE_MAP(X)
#undef X
        QG_NTQC_STATE
} qg_tqc_state;

/* "PASSIVE_INIT", as in quant.json and reports; s is a state (asserted). */
QG_API const char *qg_tqc_state_name(qg_tqc_state s);

/* Whether exporters write the endpoint's scale: when its state exports, always,
 * never. */
typedef enum qg_visibility {
    QG_EXPORT_WHEN_ACTIVE,
    QG_EXPORT_FORCED,
    QG_EXPORT_INTERNAL
} qg_visibility;

/* How a PASSIVE endpoint with its own root gets its scale. */
typedef enum qg_derive {
    QG_DERIVE_NONE,
    QG_DERIVE_BIAS, /* scale[c] = lender0 scale * lender1 scale[c], offset 0 */
} qg_derive;

#ifdef __cplusplus
}
#endif

#endif

/* quirk.h -- named deviations from correct behaviour, kept for parity with another
 * tool.
 *
 * Each is off by default.  A backend file, or --quirks on the command line, switches
 * one on; `ppq` stands for all whose name begins so.  Numbers are those of the register
 * in spec/ppq.md 12.1.
 *
 * Where a quirk acts: the pass or function that its name begins to describe asks for
 * its bit at the one place where the deviation is, and nowhere else; with no bit set
 * no code of this file runs. */
#ifndef QG_ENGINE_QUANT_QUIRK_H
#define QG_ENGINE_QUANT_QUIRK_H

#include "engine/core/ctx.h"

/* clang-format off */
#define QG_QUIRK_MAP(X)                                                        \
    X(PPQ_OFFSET,             "ppq-offset-without-qmin",                       \
      "D01: asymmetric offset lacks qmin and is not clamped")                  \
    X(PPQ_POW2_OFFSET,        "ppq-pow2-offset",                               \
      "D02: offset computed from the scale before it became a power of two")   \
    X(PPQ_ALIGN_256_OVER_255, "ppq-align-256-over-255",                        \
      "D03: align-to-large recomputes the scale from the range: x 256/255")    \
    X(PPQ_BIAS_ADD_SQUEEZE,   "ppq-bias-add-squeeze",                          \
      "D05: a second bias is squeezed to [C] and the Add is kept")             \
    X(PPQ_REDUCTION_AXIS,     "ppq-per-channel-axis-0",                        \
      "D20: Gemm and MatMul weights per channel along axis 0, whatever it is") \
    X(PPQ_FIRST_SLOT_ONLY,    "ppq-simplify-first-slot",                       \
      "D21: of two slots that read one value only the first is simplified")    \
    X(PPQ_SILENT_OUTPUTS,     "ppq-silence-graph-outputs",                     \
      "D22: fusion silences a value that is a graph output too")               \
    X(PPQ_PASSIVE_PRODUCER,   "ppq-passive-needs-producer",                    \
      "a passive node whose input no quantized node produces gets two scales") \
    X(PPQ_SPLIT_GROUPS,       "ppq-split-groups",                              \
      "D23: lending moves one endpoint out of its group")                      \
    X(PPQ_ALIGN_UPSTREAM_IN,  "ppq-align-upstream-inputs",                     \
      "D24: spreading a scale upstream also reaches inputs of the upstream node") \
    X(PPQ_LAST_CONV_FLOAT,    "ppq-last-compute-float",                        \
      "D26: a compute node that no other one reaches and nothing follows stays float") \
    X(PPQ_EQUALIZE,           "ppq-equalize",                                  \
      "D06, D07: graph outputs, inputs and constants beside the equalized path " \
      "are not looked at; activations are measured once and never scaled")     \
    X(PPQ_QUANTIZED_WEIGHTS,  "ppq-calibrate-on-quantized-weights",            \
      "activations are observed while weights are rounded already")            \
    X(PPQ_UNFOLDED,           "ppq-no-constant-folding",                       \
      "what depends on constants alone is computed, and quantized, like the rest") \
    X(PPQ_BIAS_ADD_RANK,      "ppq-bias-add-rank",                             \
      "D05: a convolution takes a constant sum as bias only in its weight's rank") \
    X(PPQ_BATCHNORM_BETA,     "ppq-batchnorm-ignores-beta",                    \
      "D34: folding BatchNormalization into Gemm does not look at beta; a "    \
      "node that takes one in comes last")                                     \
    X(PPQ_ALIGN_FLOATING,     "ppq-align-floating",                            \
      "D04: align-to-large gives floating inputs the least scale there is")    \
    X(PPQ_PERSEUS_BOTH_WAYS,  "ppq-perseus-both-ways",                         \
      "D28: perseus follows data up and down until nothing is left to quantize") \
    X(PPQ_SLICE_NOT_PASSIVE,  "ppq-slice-not-passive",                         \
      "D18: Slice and Dropout are rounded again")                              \
    X(PPQ_SOFTPLUS_FLOAT,     "ppq-softplus-float",                            \
      "D19: Softplus and Tanh stay float, so Mish is never fused")             \
    X(PPQ_BIAS_RANGE,         "ppq-bias-range-inclusive",                      \
      "the range of a 30-bit bias ends one step late")                         \
    X(PPQ_GEMM_BIAS,          "ppq-gemm-bias-8-bits",                          \
      "D59: the bias of Gemm has 8 bits and a scale of its own")               \
    X(PPQ_ROUND_CONSTANTS,    "ppq-nxp-rounds-constants",                      \
      "D57: the rounding of inputs also reaches weights and biases")           \
    X(PPQ_FLOAT_TIES,         "ppq-float-ties",                                \
      "D38: ties of floating grids go toward zero")                            \
    X(PPQ_FEW_FUSIONS,        "ppq-few-fusions",                               \
      "only activations behind compute nodes, Swish and Mish are fused")       \
    X(PPQ_OLD_SLOTS,          "ppq-limits-as-inputs",                          \
      "limits of Clip that an old opset has as attributes become inputs")      \
    X(PPQ_NAMES,              "ppq-generated-names",                           \
      "new nodes are called PPQ_Operation_k")                                  \
    X(PPQ_HALF_EVEN,          "ppq-openvino-half-even",                        \
      "grids for OpenVINO divide by the scale and round steps, not levels")    \
    X(PPQ_OBSERVERS,          "ppq-observers",                                 \
      "minmax, percentile, kl, mse, ... are PPQ's: see `qg list observers`")
/* clang-format on */

typedef enum qg_quirk {
#define X(id, text, meaning) QG_QUIRK_##id,
    QG_QUIRK_MAP(X)
#undef X
        QG_NQUIRK
} qg_quirk;

/* The bit of a quirk in the masks of qg_backend and qg_quant:
 *
 *     if (q->quirks & QG_QUIRK(PPQ_OFFSET)) ... */
#define QG_QUIRK(id) (UINT64_C(1) << QG_QUIRK_##id)

const char *qg_quirk_name(qg_quirk q);    /* "ppq-align-256-over-255" */
const char *qg_quirk_meaning(qg_quirk q); /* "D03: ..." */

/* The mask of one name, or of a family ("ppq"); QG_ECONFIG with the nearest name. */
QG_NODISCARD qg_status qg_quirk_named(qg_ctx *ctx, const char *text, uint64_t *mask);

/* The same for several, with commas between. */
QG_NODISCARD qg_status qg_quirks_named(qg_ctx *ctx, const char *list, uint64_t *mask);

#endif

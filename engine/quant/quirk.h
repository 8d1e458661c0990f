/* quirk.h -- named deviations from correct behaviour, kept for parity with another
 * tool.
 *
 * Each is off by default.  A backend file, or --quirks on the command line, switches
 * one on; `ppq` stands for all quirks whose names begin with it.
 *
 * The effect of a quirk is a row next to the code that it changes.  A module affected
 * by quirks has a struct of its ordinary behaviours and a table of rows, each of which
 * replaces one of them:
 *
 *     typedef struct behaviours {
 *         bool (*takes)(const qg_node *n);
 *     } behaviours;
 *     static const behaviours ordinary = { .takes = takes };
 *     static const qg_quirk_row quirk[] = {
 *         QG_SWAP(PPQ_X, "D21: takes nodes without inputs only", "OpenPPL/ppq ...",
 *                 behaviours, takes, ppq_takes),
 *         { 0 },
 *     };
 *     ...
 *     behaviours how = ordinary;
 *     qg_quirk_swap(quirk, mask, &how);
 *
 * and calls how.takes(n).  No other code tests the bit of a quirk. */
#ifndef QG_ENGINE_QUANT_QUIRK_H
#define QG_ENGINE_QUANT_QUIRK_H

#include <stddef.h>

#include "engine/core/ctx.h"

/* clang-format off */
#define QG_QUIRK_MAP(X)                                                        \
    X(PPQ_OFFSET,             "ppq-offset-without-qmin")                       \
    X(PPQ_POW2_OFFSET,        "ppq-pow2-offset")                               \
    X(PPQ_ALIGN_256_OVER_255, "ppq-align-256-over-255")                        \
    X(PPQ_BIAS_ADD_SQUEEZE,   "ppq-bias-add-squeeze")                          \
    X(PPQ_REDUCTION_AXIS,     "ppq-per-channel-axis-0")                        \
    X(PPQ_FIRST_SLOT_ONLY,    "ppq-simplify-first-slot")                       \
    X(PPQ_SILENT_OUTPUTS,     "ppq-silence-graph-outputs")                     \
    X(PPQ_PASSIVE_PRODUCER,   "ppq-passive-needs-producer")                    \
    X(PPQ_SPLIT_GROUPS,       "ppq-split-groups")                              \
    X(PPQ_ALIGN_UPSTREAM_IN,  "ppq-align-upstream-inputs")                     \
    X(PPQ_LAST_CONV_FLOAT,    "ppq-last-compute-float")                        \
    X(PPQ_EQUALIZE,           "ppq-equalize")                                  \
    X(PPQ_QUANTIZED_WEIGHTS,  "ppq-calibrate-on-quantized-weights")            \
    X(PPQ_UNFOLDED,           "ppq-no-constant-folding")                       \
    X(PPQ_BIAS_ADD_RANK,      "ppq-bias-add-rank")                             \
    X(PPQ_BATCHNORM_BETA,     "ppq-batchnorm-ignores-beta")                    \
    X(PPQ_ALIGN_FLOATING,     "ppq-align-floating")                            \
    X(PPQ_PERSEUS_BOTH_WAYS,  "ppq-perseus-both-ways")                         \
    X(PPQ_SLICE_NOT_PASSIVE,  "ppq-slice-not-passive")                         \
    X(PPQ_SOFTPLUS_FLOAT,     "ppq-softplus-float")                            \
    X(PPQ_BIAS_RANGE,         "ppq-bias-range-inclusive")                      \
    X(PPQ_GEMM_BIAS,          "ppq-gemm-bias-8-bits")                          \
    X(PPQ_ROUND_CONSTANTS,    "ppq-nxp-rounds-constants")                      \
    X(PPQ_FLOAT_TIES,         "ppq-float-ties")                                \
    X(PPQ_FEW_FUSIONS,        "ppq-few-fusions")                               \
    X(PPQ_OLD_SLOTS,          "ppq-limits-as-inputs")                          \
    X(PPQ_NAMES,              "ppq-generated-names")                           \
    X(PPQ_HALF_EVEN,          "ppq-openvino-half-even")                        \
    X(PPQ_NCNN_6_BITS,        "ppq-ncnn-6-bits-any-rank")                      \
    X(PPQ_NCNN_OUTPUTS,       "ppq-ncnn-forced-outputs")                       \
    X(PPQ_PAD_ATTRIBUTES,     "ppq-pad-loses-attributes")                      \
    X(PPQ_BATCHNORM_FLOAT32,  "ppq-batchnorm-in-float32")                      \
    X(PPQ_IDENTITY_LATE,      "ppq-identity-goes-late")                        \
    X(PPQ_EXPORTS,            "ppq-exports")                                   \
    X(PPQ_OBSERVERS,          "ppq-observers")
/* clang-format on */

typedef enum qg_quirk {
#define X(id, text) QG_QUIRK_##id,
    QG_QUIRK_MAP(X)
#undef X
        QG_NQUIRK
} qg_quirk;

/* The bit of a quirk in the masks of qg_backend and qg_quant. */
#define QG_QUIRK(id) (UINT64_C(1) << QG_QUIRK_##id)

/* Where the sources of PPQ's quirks begin: PPQ 0.6.6. */
#define QG_PPQ "OpenPPL/ppq@e39eecb ppq/"

/* One behaviour that a quirk replaces.  Numbers D01, ... in meanings are those of the
 * register in docs/evidence/ppq-defects.md. */
typedef struct qg_quirk_row {
    qg_quirk quirk;
    const char *meaning; /* "D18: Slice is rounded again"; NULL ends a table */
    const char *source;  /* public, of the other tool: repository, file, class */
    const char *swaps;   /* the member of the module's behaviours, or the data */
    size_t at, size;     /* of that member */
    const void *with;    /* behaviours of which that member is set; NULL: data */
} qg_quirk_row;

/* Rows.  QG_SWAP: `member` of struct `type` becomes the rest; a group of behaviours, a
 * struct within the struct, is written in braces.  QG_SWAP_ALL: all behaviours become
 * those of `object`.  QG_SWAP_DATA: readers of the data test the bit. */
/* clang-format off */
#define QG_SWAP(id, meaning, source, type, member, ...)                        \
    { QG_QUIRK_##id, meaning, source, #member, offsetof(type, member),         \
      sizeof(((type *)NULL)->member), &(const type){ .member = __VA_ARGS__ } }
#define QG_SWAP_ALL(id, meaning, source, object)                               \
    { QG_QUIRK_##id, meaning, source, "all", 0, sizeof(object), &(object) }
#define QG_SWAP_DATA(id, meaning, source, what)                                \
    { QG_QUIRK_##id, meaning, source, what, 0, 0, NULL }
/* clang-format on */

/* Replaces the behaviours of all rows whose quirk is in the mask, in order.
 * `behaviours` is of the type that the rows name. */
void qg_quirk_swap(const qg_quirk_row *row, uint64_t mask, void *behaviours);

const char *qg_quirk_name(qg_quirk q); /* "ppq-align-256-over-255" */

/* The mask of one name, or of a family ("ppq"); QG_ECONFIG with the nearest name. */
QG_NODISCARD qg_status qg_quirk_named(qg_ctx *ctx, const char *text, uint64_t *mask);

/* The same for several, with commas between. */
QG_NODISCARD qg_status qg_quirks_named(qg_ctx *ctx, const char *list, uint64_t *mask);

#endif

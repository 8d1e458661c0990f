/* lint.h -- a quantized network against one target: where its tensors are codes in the
 * file that the target reads, how the target computes each node, and which rules it
 * breaks.
 * Private to engine/lint.
 *
 * Grid      the file has Q and DQ where a record rounds (as the format onnx-qdq writes
 *           them); a value is on a grid when Q stands directly behind its producer, or
 *           when a node that moves codes lies between
 * Clamps    a Relu or Clip that the target fuses is part of the kernel before it: the
 *           output of that kernel is the value behind the clamp
 * Shapes    those of the snapshot; with an open batch a runtime keeps operators on
 *           shapes, which read values too
 * Order     rules in the order of the file, nodes and endpoints by id
 * Owner     everything is in l->arena; graph and records are read, never changed
 *
 * Steps, each of which reads the results of those before it:
 *
 *     qg_lint_place     grids of values, from the records alone
 *     qg_lint_decide    fates of nodes: conditions of kernel rows read the grids
 *     rules             conditions of rules read grids and fates (lint.c)
 *     files             SARIF and the patch are written from the findings
 *
 * Example  Conv1 -> Relu -> Conv2, quantizers at the weights, at the input of Conv1 and
 *          behind Relu, none behind Conv2; a target that fuses Relu:
 *
 *     value   Conv1.out   Relu.out   Conv2.out        node    Conv1     Relu    Conv2
 *     grid    none        Relu's     none             fate    integer   fused   blocked
 *
 *          Conv1 stores its codes on the grid of Relu.out, the value behind the clamp.
 *          Conv2 lacks a grid for its output: the row of Conv exists, its condition
 *          'output-codes' does not hold.  A row without that condition fits, where the
 *          kernel of a target can store floats
 *
 * The parts: placement.c (grids), predicates.c, predicate_attributes.c,
 * predicate_types.c, predicate_ranges.c (the vocabulary of configs/lint), fates.c
 * (kernel rows), lint.c (findings, the report), lint_files.c (SARIF, the policy
 * patch), places.c (lines of quant.json). */
#ifndef QG_ENGINE_LINT_LINT_H
#define QG_ENGINE_LINT_LINT_H

#include "engine/config/lint_yaml.h"

/* How the target computes one node. */
typedef struct qg_lint_node {
    qg_fate fate;
    const qg_lint_kernel *row; /* that fits; BLOCKED: the first one that does not */
    const qg_condition
        *failed;     /* BLOCKED: its condition that does not hold; else NULL */
    const char *why; /* BLOCKED: that condition as text; else "" */
} qg_lint_node;

/* A rule that a node or an endpoint breaks. */
typedef struct qg_lint_finding {
    const qg_lint_rule *rule;
    const qg_node *node; /* NULL: the network, of rules with refused-by */
    const qg_tqc *at;    /* rules at: endpoint; else NULL */
    const char *detail;  /* of the conditions that measure something; "" for none */
} qg_lint_finding;

/* Boundaries between codes and floats that remain in the target's graph, in values: a
 * value counts once per field, whatever the number of its readers.
 *
 *     to_codes        read on a grid, and not made as codes by an integer kernel
 *     to_floats       codes read by a float node, or codes at an output of the network
 *     between_grids   codes of a kernel that a reader needs on another grid */
typedef struct qg_lint_conversions {
    size_t to_codes, to_floats, between_grids; /* values */
} qg_lint_conversions;

typedef struct qg_lint {
    qg_ctx *ctx;
    qg_arena *arena;
    const char *path;       /* of the snapshot or file, as it was opened; NULL: none */
    struct qg_model *model; /* as it was opened */
    bool is_snapshot;       /* else a file with quantizers of its own */
    const qg_graph *graph;  /* with records as its file has them, normalized */
    const qg_quant *quant;
    const qg_lint_target *target;
    const qg_tqc **grid; /* [values] the record whose grid a value is on; NULL: float */
    int64_t opset; /* of a file with Q and DQ: the model's, or what its types need */
    uint8_t *nonnegative;   /* [values] quant/nonnegative.h */
    qg_lint_node *node;     /* [nodes] */
    size_t count[QG_NFATE]; /* nodes that compute on tensors of floats, by fate */
    qg_lint_conversions conversions;
    QG_VEC(qg_lint_finding) found;
} qg_lint;

/* Where conditions are tested: a node, and for rules at: endpoint one of its endpoints.
 * The predicates that measure write what they found, with its unit, for the table of
 * findings and the message in SARIF. */
enum { QG_LINT_DETAIL = 1200 };
typedef struct qg_lint_site {
    const qg_node *node;
    const qg_tqc *at; /* NULL: the node itself */
    char detail[QG_LINT_DETAIL];
} qg_lint_site;

/* --- placement.c --- */

/* Fills grid and nonnegative; node is allocated, every fate is NONE. */
QG_NODISCARD qg_status qg_lint_place(qg_lint *l);

/* Whether the record rounds its endpoint or has put its constant on the grid, in codes
 * of a kind that the target has. */
bool qg_lint_rounds(const qg_lint *l, const qg_tqc *t);
/* The record on whose grid input `slot` arrives; NULL: floats, or no such slot. */
const qg_tqc *qg_lint_input_grid(const qg_lint *l, const qg_node *n, uint32_t slot);
/* The record on whose grid output 0 is stored, behind the clamps that the kernel takes;
 * NULL: floats. */
const qg_tqc *qg_lint_output_grid(const qg_lint *l, const qg_node *n);
/* That value: of output 0, or of the last of those clamps; NULL: no output. */
const qg_value *qg_lint_stored(const qg_lint *l, const qg_node *n);
/* Equal schemes and equal parameters; false when one is NULL. */
bool qg_lint_same_grid(const qg_tqc *a, const qg_tqc *b);
/* Float data that the node computes with: neither a constant nor a shape. */
bool qg_lint_is_data(const qg_node *n, uint32_t slot);

/* --- predicates.c, predicate_{attributes,types,ranges}.c --- */

/* One word of the vocabulary.  Must neither fail nor allocate: what cannot be
 * determined does not hold, so that a rule never reports a guess.  {not: p} then holds,
 * which a rule must exclude by a condition before it. */
typedef bool qg_predicate_test(const qg_lint *l, qg_lint_site *s,
                               const qg_condition *c);
extern qg_predicate_test *const qg_predicate_table[QG_NPREDICATE];

/* Whether all conditions hold; *failed (may be NULL) is the first that does not.
 * s->detail is then the last one that a condition wrote, "" when none measured
 * anything.  Conditions are tested in the order of the file, and none after a failure,
 * so that cheap ones belong before those that read weights. */
bool qg_lint_holds(const qg_lint *l, qg_lint_site *s, const qg_conditions *c,
                   const qg_condition **failed);

/* --- predicate_attributes.c: what a node is told, without grids --- */

/* The slot of the weight; QG_NONE: the operator has none, or it is absent. */
uint32_t qg_lint_weight_slot(const qg_node *n);
/* `group` of a convolution; 1: absent. */
int64_t qg_lint_groups(const qg_node *n);
/* What the node pads with, as an input; NULL: none. */
const qg_value *qg_lint_pad_value(const qg_node *n);

qg_predicate_test qg_test_clamp, qg_test_scaled_bias, qg_test_pads, qg_test_pads_apart,
    qg_test_pads_with_zero, qg_test_pads_into, qg_test_same_dims, qg_test_steps,
    qg_test_equal_parts, qg_test_depthwise, qg_test_grouped,
    qg_test_stride_beyond_kernel, qg_test_flattened, qg_test_network_input,
    qg_test_network_output;

/* --- predicate_chains.c: what is around a node --- */

/* The one data input that is no constant; NULL: there are none or several. */
const qg_value *qg_lint_varying(const qg_node *n);

qg_predicate_test qg_test_after, qg_test_after_clamp, qg_test_read_once, qg_test_behind,
    qg_test_after_fused, qg_test_becomes_gemm, qg_test_carried_floats,
    qg_test_constant_operand, qg_test_constant_along, qg_test_gates, qg_test_gated,
    qg_test_sums_kernel;

/* Those of predicate_types.c. */
qg_predicate_test qg_test_mixed_types, qg_test_signed_input, qg_test_bytes,
    qg_test_odd_levels, qg_test_weight_centered, qg_test_centered,
    qg_test_input_zero_point, qg_test_narrow, qg_test_types_clash,
    qg_test_signed_constant;
/* Whether the type of its codes in a file of ONNX has codes beyond its limits. */
bool qg_lint_is_narrow(const qg_tqc *t);
/* Whether that type has fewer than 8 bits. */
bool qg_lint_is_nibble(const qg_tqc *t);

/* Those of predicate_plugin.c. */
qg_predicate_test qg_test_turns_apart, qg_test_pads_one_axis, qg_test_fractional_extent,
    qg_test_joins_constant, qg_test_batched_column, qg_test_groups_apart,
    qg_test_rounded_sum, qg_test_sums_product, qg_test_averages_apart,
    qg_test_shrinks_cubic, qg_test_as_written, qg_test_read_apart, qg_test_derived_pads,
    qg_test_counts_codes;

/* Those of predicate_ranges.c. */
qg_predicate_test qg_test_exact_softmax, qg_test_row_of_one, qg_test_ratio_above,
    qg_test_ratio_below, qg_test_bias_above, qg_test_sum_above, qg_test_sum_calibrated,
    qg_test_pairs, qg_test_pairs_calibrated, qg_test_input_below, qg_test_input_above,
    qg_test_beyond_float, qg_test_pairs_within, qg_test_uses_below;

/* --- fates.c --- */

/* Fills node, count and conversions; rows in the order fused, moves, integer.  Once,
 * after qg_lint_place: count is added to.  QG_ENOMEM only. */
QG_NODISCARD qg_status qg_lint_decide(qg_lint *l);

/* --- places.c: where findings are in files --- */

/* uri      of quant.json of a snapshot folder, else of the file that was opened; NULL:
 *          neither is there
 * lines    from 1, of each node and of each record, by id; NULL: the file has none, or
 *          it is not the one that was opened */
typedef struct qg_lint_places {
    const char *uri;
    const uint32_t *node_line; /* [nodes] */
    const uint32_t *tqc_line;  /* [records] */
} qg_lint_places;

/* In l->arena.  QG_ENOMEM, or QG_EIO: quant.json is there and cannot be read. */
QG_NODISCARD qg_status qg_lint_find_places(const qg_lint *l, qg_lint_places *out);

/* --- lint_files.c: findings for other programs --- */

/* SARIF 2.1.0, to `path`, with or without findings.  QG_EIO, QG_ENOMEM: an existing
 * file is unchanged. */
QG_NODISCARD qg_status qg_lint_write_sarif(const qg_lint *l, const char *path);
/* The policy patch of the rules that have a `fix`; *n: findings that it mends.  With
 * *n 0 its list of rules is empty, so that `qg quantize --policy` takes it. */
QG_NODISCARD qg_status qg_lint_write_patch(const qg_lint *l, const char *path,
                                           size_t *n);

#endif

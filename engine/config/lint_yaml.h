/* lint_yaml.h -- lint targets: what one runtime computes in integers, and rules that a
 * quantized network should obey there.  Read from configs/lint into qg_lint_target.
 *
 * One file may extend one parent (`extends: common`); parents are read first.
 *     name, title  required
 *     floating-codes  true: kernels take floating-point codes (FP8), too; else records
 *                  of such codes count as float; default: the parent's, else false
 *     kernels      in order: the first row that fits a node decides how the target
 *                  computes it; a node that no row fits is float.  Rows of the file
 *                  stand before the parent's
 *     rules        findings; by id: an existing id is replaced in place, a new one is
 *                  appended; `-rules: [id]` and `-kernels: [id]` remove those of
 *                  the parent
 *
 *     kernels:
 *       - id: conv
 *         match: {op: Conv}          # as in backend files, config/rules.h
 *         as: integer                # integer, moves, fused, other; default: integer
 *         when: [input-codes, weight-codes, {not: pads}]
 *         carries: no                # yes where no quantizer is needed on the other
 *                                    # side; to-readers: not in front of a reader
 *                                    # that quantizes; forward: not from the readers
 *                                    # to the producer; yes is not for fused nodes;
 *                                    # default: no
 *         why: QLinearConv takes codes only
 *         source: https://...
 *     rules:
 *       - id: bias-overflow
 *         match: {trait: compute}
 *         at: node                   # node, endpoint; default: node
 *         when: [{bias-above: 2147483647}]
 *         level: error               # error, warning, note; default: warning
 *         why: ...                   # the effect on the target
 *         source: ...
 *         remedy: raise min-scale of the weight
 *         fix: {slot: weight, set: {bits: 7}}  # of a policy patch; optional.  Without
 *                                    # slot at an endpoint: its value is patched
 *
 *       - id: refused              # instead of match, at, when: `qg export --format`
 *         refused-by: tflite       # refuses the network; the finding has its message
 *         why: ...
 *
 * A condition is a predicate, {predicate: argument} or {not: condition}; all conditions
 * of a list must hold.  The vocabulary is closed: QG_PREDICATE_MAP.
 *
 * To add a predicate: a line in QG_PREDICATE_MAP, a function of that name in
 * engine/lint/predicates.c or a predicate_*.c, its row in
 * qg_predicate_table.
 *
 * Every message gives file, line, key, the fault and the expected form. */
#ifndef QG_ENGINE_CONFIG_LINT_YAML_H
#define QG_ENGINE_CONFIG_LINT_YAML_H

#include "engine/config/search.h"
#include "engine/quant/backend.h"

/* Arguments of predicates. */
enum qg_argument { QG_ARG_NONE, QG_ARG_NUMBER, QG_ARG_WORDS };

/* id, word, argument, meaning.  The last part, from ROUNDS on, is about endpoints and
 * only for rules `at: endpoint`. */
/* clang-format off */
#define QG_PREDICATE_MAP(X)                                                            \
    X(QUANTIZED, "quantized", NONE, "the backend quantizes the node")                  \
    X(FATE, "fate", WORDS, "the kernel rows make it one of: integer, moves, fused, "   \
      "other, blocked (float: a row for its operator does not fit), none (float: no "  \
      "row)")                                                                          \
    X(OPERATOR, "operator", WORDS, "it is one of these operators")                     \
    X(DATA, "data", NONE, "it is used, and reads floats that are neither constants "   \
      "nor shapes")                                                                    \
    X(AFTER, "after", WORDS, "input 0 is made for it alone by one of these operators") \
    X(AFTER_CLAMP, "after-clamp", WORDS, "input 0 is made for it alone by a clamp of " \
      "what one of these operators makes for that alone")                              \
    X(AFTER_FUSED, "after-fused", NONE, "input 0 is made for it alone by a fused node")\
    X(AFTER_KERNEL, "after-kernel", WORDS, "the one data input that is no constant "   \
      "is made for it alone by one of these operators, which an integer row fits")     \
    X(BEHIND, "behind", WORDS, "a data input in float is made by one of these "        \
      "operators, or by a fused node")                                                 \
    X(NETWORK_INPUT, "network-input", NONE, "input 0 is an input of the network")      \
    X(NETWORK_OUTPUT, "network-output", NONE, "output 0 is an output of the network")  \
    X(INPUT_CODES, "input-codes", NONE, "every data input is on a grid")               \
    X(SOME_CODES, "some-codes", NONE, "a data input is on a grid")                     \
    X(WEIGHT_CODES, "weight-codes", NONE, "the weight is on a grid")                   \
    X(WEIGHT_CONSTANT, "weight-constant", NONE, "the weight is a constant")            \
    X(WEIGHT_SYMMETRIC, "weight-symmetric", NONE, "the weight is on a grid whose "     \
      "zero points are 0")                                                             \
    X(WEIGHT_CENTERED, "weight-centered", NONE, "the weight is on a grid whose real 0 "\
      "is the middle code of its type, signed or unsigned")                            \
    X(BIAS_ABSENT, "bias-absent", NONE, "there is no bias")                            \
    X(BIAS_CODES, "bias-codes", NONE, "the bias has more than 16 bits in steps of "    \
      "input x weight, which the export writes as int32, or is absent")                \
    X(BIAS_VECTOR, "bias-vector", NONE, "the bias has one element per channel of the " \
      "output")                                                                        \
    X(OUTPUT_CODES, "output-codes", NONE, "output 0 is rounded on a grid, behind a "   \
      "clamp that the kernel takes")                                                   \
    X(OUTPUT_ROUNDED, "output-rounded", NONE, "a quantizer stands directly behind "    \
      "output 0")                                                                      \
    X(OUTPUT_FLOAT, "output-float", NONE, "output 0 is kept in float: neither it nor " \
      "a reader is rounded or in the group of a grid")                                 \
    X(SAME_INPUTS, "same-inputs", NONE, "all data inputs are on one grid")             \
    X(SAME_GRID, "same-grid", NONE, "data inputs and output 0 are on one grid")        \
    X(MIXED_TYPES, "mixed-types", NUMBER, "data inputs and output 0 are stored in "    \
      "different types; signed codes become unsigned where one node reads them, and "  \
      "all of them from this opset on")                                                \
    X(SIGNED_CONSTANT, "signed-constant", NUMBER, "constants are the only signed ones "\
      "of them")                                                                       \
    X(SIGNED_INPUT, "signed-input", NUMBER, "input 0 stays signed by the same rule")   \
    X(BECOMES_GEMM, "becomes-gemm", WORDS, "a product by a matrix whose only reader, " \
      "one of these operators, adds a row to it, or, to one of two axes, a column or " \
      "a matrix as large")                                                             \
    X(INTO_CLAMP, "into-clamp", NONE, "a clamp stays behind output 0: its only "       \
      "reader, which no kernel takes, the Clip before QuantizeLinear where the limits "\
      "of the grid are narrower than its type, or the Max where that has fewer than 8 "\
      "bits")                                                                          \
    X(FLATTENED, "flattened", NONE, "opset 12 or older counts every axis from `axis` " \
      "on as one, and these are more than the last")                                   \
    X(READ_BY, "read-by", WORDS, "the first reader of output 0 is one of these "       \
      "operators")                                                                     \
    X(READER_CODES, "reader-codes", NONE, "every data input of that reader is on a "   \
      "grid")                                                                          \
    X(RESIDUAL_FLOAT, "residual-float", NONE, "one operand is a product without a "    \
      "quantizer, another one no product, and in float")                               \
    X(CENTERS, "centers", NONE, "every reader of output 0 combines it with input 0, "  \
      "as a normalization subtracts the mean")                                         \
    X(READ_ONCE, "read-once", NONE, "output 0 has one reader and is no output of the " \
      "network")                                                                       \
    X(CLAMP, "clamp", NONE, "it only clamps input 0 between constants")                \
    X(CLAMP_IN_GRID, "clamp-in-grid", NONE, "no code of the output is beyond the "     \
      "codes of the clamp's bounds, and no Max is behind it (codes of fewer than 8 "   \
      "bits)")                                                                         \
    X(CLAMP_APART, "clamp-apart", NONE, "its limits are, in codes of its output, "     \
      "neither all codes nor those of 0 and more, 0 to 6 or -1 to 1")                  \
    X(BYTES, "bytes", NONE, "data inputs, weight and output 0 are stored in integers " \
      "of 8 bits, where on a grid")                                                    \
    X(SCALED_BIAS, "scaled-bias", NONE, "it has a bias, and alpha or beta is not 1")   \
    X(ODD_LEVELS, "odd-levels", NONE, "the endpoint, or a data input that is no "      \
      "constant, has other codes than 16, 256, or 255 around 0")                      \
    X(EXACT_SOFTMAX, "exact-softmax", NUMBER, "output 0 is on a grid of a scale 1/n, " \
      "n whole, that is this one or larger, and rows have several elements")           \
    X(ROW_OF_ONE, "row-of-one", NONE, "the axis of a softmax has one element")         \
    X(INPUT_OFFSET, "input-offset", NONE, "the real 0 is not the lowest code of "      \
      "input 0")                                                                       \
    X(INPUT_ZERO_POINT, "input-zero-point", WORDS, "the real 0 is neither the lowest " \
      "nor the middle code of input 0, or it is the middle one and another reader, "   \
      "one of these operators with a weight in codes, makes them unsigned")            \
    X(TYPES_CLASH, "types-clash", WORDS, "codes of a data input are read by one of "   \
      "these operators, which want them unsigned, and as second operand of a product " \
      "of two activations, which wants them signed; perhaps moved")                    \
    X(CONSTANT_ALONG, "constant-along", NUMBER, "one of two operands is a constant of "\
      "one element, or of several along this axis of the output, counted from the "    \
      "last one where negative")                                                       \
    X(CONSTANT_OPERAND, "constant-operand", NONE, "a data input is a constant")        \
    X(CARRIED_FLOATS, "carried-floats", NONE, "a data input is on a grid only since "  \
      "its producer carries it, and that computes in float")                           \
    X(GATES, "gates", WORDS, "it is one of the functions f of a value x in x * f(x), " \
      "where the product is one of these operators")                                   \
    X(GATED, "gated", NONE, "one of two operands is made of the other one by "         \
      "functions of it alone")                                                         \
    X(SUMS_KERNEL, "sums-kernel", WORDS, "one operand is made for it alone by one of " \
      "these operators, and nodes fused into it, that does not read the other one; "   \
      "and that operand is rounded, or the other one is made so, too")                 \
    X(DEPTHWISE, "depthwise", NUMBER, "a convolution of an input of this rank, each "  \
      "channel by itself, without a multiplier")                                       \
    X(GROUPED, "grouped", NONE, "a convolution with more than one group")              \
    X(STRIDE_BEYOND_KERNEL, "stride-beyond-kernel", NONE, "a stride is larger than "   \
      "the kernel along its axis")                                                     \
    X(TURNS_APART, "turns-apart", NONE, "a transposed convolution with dilations, a "  \
      "stride above 2, a kernel above 4 or beyond its data or below its stride, or "   \
      "pads other than one element on either side of 3 or 4")                          \
    X(GROUPS_APART, "groups-apart", NONE, "a convolution over two axes with groups "   \
      "of one channel and several outputs, strided along the width, of which one "     \
      "element is left")                                                               \
    X(BATCHED_COLUMN, "batched-column", NONE, "a product with a constant of several "  \
      "matrices of one column")                                                        \
    X(ROUNDED_SUM, "rounded-sum", NONE, "a sum or difference of what a convolution "   \
      "makes for it alone, perhaps with functions behind it, that is rounded in "      \
      "between; of an endpoint: that value")                                           \
    X(SUMS_PRODUCT, "sums-product", NONE, "a sum of three dims, the first not 1, "     \
      "behind a product")                                                              \
    X(PADS_ONE_AXIS, "pads-one-axis", NONE, "it pads values that are codes, or made "  \
      "of codes without a product, along one axis, with a constant other than 0 or "   \
      "where the axis has one element or is open")                                     \
    X(FRACTIONAL_EXTENT, "fractional-extent", NONE, "a linear or cubic Resize from "   \
      "the first to the last element, whose scales give no whole extents")             \
    X(DERIVED_PADS, "derived-pads", NONE, "a pool or ConvTranspose with open dims "    \
      "whose padding runtimes derive otherwise than ONNX: auto_pad SAME with "         \
      "dilations or a stride beyond the window, VALID with ceil_mode, auto_pad or "    \
      "output_shape of a ConvTranspose")                                               \
    X(READ_APART, "read-apart", NONE, "the runtime reads it otherwise than ONNX "      \
      "defines it, or refuses it: by the attributes of a recurrent layer, Resize, "    \
      "RoiAlign, LRN or Pad, no axes of ReduceL1, ReduceL2 or ReduceLogSum, or "       \
      "ceil_mode with open dims; or it is Det or MaxUnpool")                           \
    X(COUNTS_CODES, "counts-codes", NONE, "an AveragePool of codes, of which the "     \
      "lowest is not 0, that pads and counts the padding")                             \
    X(AVERAGES_APART, "averages-apart", NONE, "an AveragePool with dilations, or that "\
      "counts the padding and has, by ceil_mode, a window that ends behind it")        \
    X(SHRINKS_CUBIC, "shrinks-cubic", NONE, "a cubic Resize of images along whose "    \
      "axes an extent shrinks or is open, without antialias")                          \
    X(AS_WRITTEN, "as-written", NONE, "the network is a file that has quantizers, no " \
      "snapshot")                                                                      \
    X(JOINS_CONSTANT, "joins-constant", NONE, "input 0 is a Concat with a constant "   \
      "operand, perhaps moved")                                                        \
    X(PADS, "pads", NONE, "it pads its input")                                         \
    X(PADS_APART, "pads-apart", NONE, "it pads its input, not as SAME_UPPER would, "   \
      "or counts the padding")                                                         \
    X(PADS_WITH_ZERO, "pads-with-zero", NONE, "what it pads with is the constant 0")   \
    X(PADS_INTO, "pads-into", WORDS, "it pads axes behind batch and channels, and its "\
      "only reader is one of these operators, which pads by numbers or not at all")    \
    X(PAD_OFF_GRID, "pad-off-grid", NONE, "a constant that it pads with is no value "  \
      "of the grid of its output")                                                     \
    X(RANK, "rank", NUMBER, "input 0 has this rank")                                   \
    X(FLOAT16, "float16", NONE, "the node computes in float16, which files keep: "     \
      "Casts are between it and its quantizers")                                       \
    X(OPSET_ABOVE, "opset-above", NUMBER, "the model needs a newer opset of ONNX")     \
    X(SAME_DIMS, "same-dims", NONE, "output 0 has the dims of input 0")                \
    X(STEPS, "steps", NONE, "a slice whose steps are not all 1")                       \
    X(EQUAL_PARTS, "equal-parts", NUMBER, "all outputs have the same dims, and there " \
      "are at most so many")                                                           \
    X(INPUT_BELOW, "input-below", NUMBER, "s_x / s_y of a data input is below")        \
    X(INPUT_ABOVE, "input-above", NUMBER, "s_x / s_y of a data input is above")        \
    X(BEYOND_FLOAT, "beyond-float", NUMBER, "2^n times s_y, or twice s_x of a data "   \
      "input, is infinite in float32")                                                 \
    X(RATIO_ABOVE, "ratio-above", NUMBER, "s_x s_w / s_y of a channel is above")       \
    X(RATIO_BELOW, "ratio-below", NUMBER, "s_x s_w / s_y of a channel is below")       \
    X(BIAS_ABOVE, "bias-above", NUMBER, "|bias / (s_x s_w)| of a channel is above")    \
    X(SUM_ABOVE, "sum-above", NUMBER, "the worst sum of products of a channel is "     \
      "above, for any codes of the input")                                             \
    X(SUM_CALIBRATED, "sum-calibrated", NUMBER, "the same, for codes of the "          \
      "calibrated range")                                                              \
    X(PAIRS, "pairs", NUMBER, "two neighbouring products are above in absolute value, "\
      "for any codes of the input, unsigned in the kernel")                            \
    X(PAIRS_CALIBRATED, "pairs-calibrated", NUMBER, "the same, for codes of the "      \
      "calibrated range")                                                              \
    X(PAIRS_WITHIN, "pairs-within", NUMBER, "the same, of one kernel position: the "   \
      "kernel pads an odd number of channels")                                         \
    X(ROUNDS, "rounds", NONE, "the quantizer is active")                               \
    X(CONSTANT, "constant", NONE, "the value is a constant")                           \
    X(PER_CHANNEL, "per-channel", NONE, "it has more than one scale")                  \
    X(ONE_SCALE, "one-scale", NONE, "it is a weight of several output channels, with " \
      "one scale")                                                                     \
    X(ZERO_POINT, "zero-point", NONE, "a zero point is not 0")                         \
    X(CENTERED, "centered", NONE, "the real 0 is the middle code of the type, signed "\
      "or unsigned")                                                                   \
    X(BITS_ABOVE, "bits-above", NUMBER, "codes have more bits")                        \
    X(EXPORT_REFUSES, "export-refuses", WORDS, "`qg export` with one of these "        \
      "placements refuses the activation")                                             \
    X(CODES_BELOW, "codes-below", NUMBER, "the lowest code is below")                  \
    X(CODES_ABOVE, "codes-above", NUMBER, "the highest code is above")                 \
    X(USES_BELOW, "uses-below", NUMBER, "a code is below: of a constant one that it "  \
      "has, else the lowest one")                                                      \
    X(NARROW, "narrow", NONE, "a node's result whose limits are narrower than the "    \
      "type of its codes")                                                             \
    X(SCALE_NOT, "scale-not", NUMBER, "the scale is another one")                      \
    X(LOWEST_IS_NOT_ZERO, "lowest-is-not-zero", NONE, "the lowest code is not that of "\
      "0, although the value is never negative")                                       \
    X(FLOATING, "floating", NONE, "the quantizer is active, and its codes are "        \
      "floating-point numbers")                                                        \
    X(DYNAMIC, "dynamic", NONE, "the scale is computed at run time")                   \
    X(REQUANTIZES, "requantizes", NONE, "its producer rounds the value on another "    \
      "grid")                                                                          \
    X(REPEATS, "repeats", NONE, "its producer rounds the value on the same grid")      \
    X(BETWEEN_FLOATS, "between-floats", NONE, "the target has no integer kernel for "  \
      "the node that makes the value, nor for any that reads it")                      \
    X(FUSED_INSIDE, "fused-inside", NONE, "it rounds between a node and the "          \
      "activation that would be its only reader")
/* clang-format on */
typedef enum qg_predicate {
#define X(id, ...) QG_PREDICATE_##id,
    QG_PREDICATE_MAP(X)
#undef X
        QG_NPREDICATE
} qg_predicate;

/* Words of a predicate: "input-codes", and its meaning; p < QG_NPREDICATE. */
const char *qg_predicate_name(qg_predicate p);
const char *qg_predicate_meaning(qg_predicate p);

/* One condition; `not` turns it round. */
typedef struct qg_condition {
    qg_predicate predicate;
    bool is_not;
    double number;           /* ARG_NUMBER */
    const char *const *word; /* [n_word] ARG_WORDS */
    size_t n_word;
} qg_condition;

/* All of them must hold. */
typedef struct qg_conditions {
    const qg_condition *at; /* [n] */
    size_t n;
} qg_conditions;

/* How the target computes a node.  BLOCKED and NONE are no words of a file. */
/* clang-format off */
#define QG_FATE_MAP(X)                                                                 \
    X(INTEGER, "integer", "a kernel on codes")                                         \
    X(MOVES,   "moves",   "moves codes without a change of grid")                      \
    X(FUSED,   "fused",   "part of the kernel before it")                              \
    X(OTHER,   "other",   "codes, by a kernel of the runtime beside the target's")     \
    X(BLOCKED, "blocked", "float: the integer kernel of the target does not fit")      \
    X(NONE,    "none",    "float: the target has no integer kernel")
/* clang-format on */
typedef enum qg_fate {
#define X(id, ...) QG_FATE_##id,
    QG_FATE_MAP(X)
#undef X
        QG_NFATE
} qg_fate;
const char *qg_fate_name(qg_fate f); /* "integer" */

/* Whether the grid of input 0 becomes that of output 0, and the reverse, without a
 * quantizer between them.  TO_READERS: it becomes that of an output that no reader
 * quantizes by itself; a fused node may do so, not the reverse. */
typedef enum qg_carry {
    QG_CARRY_NO,
    QG_CARRY_YES,
    QG_CARRY_TO_READERS,
    QG_CARRY_FORWARD
} qg_carry;
const char *qg_carry_name(qg_carry c); /* "to-readers" */

/* A row of `kernels`. */
typedef struct qg_lint_kernel {
    qg_origin origin;
    qg_node_match node;
    qg_fate as; /* INTEGER, MOVES, FUSED or OTHER */
    qg_carry carries;
    qg_conditions when;
} qg_lint_kernel;

/* Levels of findings; the words are those of SARIF 2.1.0, section 3.27.10. */
enum qg_level { QG_LEVEL_ERROR, QG_LEVEL_WARNING, QG_LEVEL_NOTE, QG_NLEVEL };
const char *qg_level_name(enum qg_level l);

/* A row of `rules`. */
typedef struct qg_lint_rule {
    qg_origin origin;
    qg_node_match node;
    qg_endpoint_match at;
    bool at_endpoint;
    enum qg_level level;
    qg_conditions when;
    const char *remedy;
    const char *refused_by; /* a format: the rule is about the whole network, and has no
                             * conditions; NULL: about nodes or endpoints */
    const char *fix_slot;   /* "weight"; NULL: the value of the finding's endpoint */
    const char *fix;  /* `set:` of the patch as flow YAML: "{bits: 7}"; NULL: none */
    bool fix_floats;  /* it makes the node float */
    bool fix_removes; /* it takes the quantizer away, and changes no grid */
} qg_lint_rule;

/* Immutable once read. */
typedef struct qg_lint_target {
    const char *name, *title, *file;
    bool floating_codes; /* kernels compute on them */
    QG_VEC(qg_lint_kernel) kernel;
    QG_VEC(qg_lint_rule) rule;
} qg_lint_target;

/* name: a path (it holds '/' or ends in .yaml), or the name of a file in the folders
 * ("lint" of the configuration, qg_config_search).  QG_EIO, QG_EPARSE (not YAML),
 * QG_ECONFIG (invalid content).  Cost: the files, once each; the result is in a. */
QG_NODISCARD qg_status qg_lint_load(qg_ctx *ctx, qg_arena *a, const char *name,
                                    qg_search search, const qg_lint_target **out);

/* Conditions as a file has them, "input-codes, not pads, rank 4", in a; NULL: no
 * memory. */
const char *qg_conditions_text(qg_arena *a, const qg_conditions *c);

#endif

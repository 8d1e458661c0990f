/* op.h -- the description of an operator.  ops/ fills these in; the engine, the passes
 * and the exporters never compare an operator's name.
 *
 * Passes ask for TRAITS ("is this a compute operator?") and slot ROLES ("which input is
 * the weight?"), never for identities, so a new operator takes part in fusion and
 * alignment without touching any pass.
 *
 * Life of a node   prepare (attributes, once) -> infer (shapes; at compile time, and
 *                  again at run time when shapes depend on data) -> run.
 *
 * To add an operator: see "How to add an operator" in DESIGN.md.
 *
 * Effects of the traits:
 *
 *     COMPUTE       dispatch quantizes around it; weights are folded and calibrated
 *     NORMALIZE     fuse-batchnorm multiplies it into the COMPUTE node before it
 *     JOIN          fuse-bias uses a constant operand; patterns accept any order
 *     SHAPE         neither it nor nodes that feed only it are quantized
 *     ELEMENTWISE   the executor may run it in any layout
 *     PURE          inference and fold-constants may run it ahead of time
 *     DIMS_ONLY     inference folds it without data
 *     HOMOGENEOUS   equalize may move a factor per channel through it
 *     COPY          drop-identity removes it
 *     GAIN          smooth-quant moves a factor per channel into its constants
 *     CONTROL       runs its bodies; never folded
 *     UNDEFINED     kernels keep a NaN that comes from it; DIVIDES unless by constants
 *     others        backends name them in `match: {trait: ...}`
 *
 * A table row in full:
 *
 *     { .name = "Relu", .since = 1, .min_in = 1, .max_in = 1, .min_out = 1,
 *       .max_out = 1, .in_roles = "d", .traits = ACT | MONO, .infer = relu_infer,
 *       .run = relu_run, .in_place = 1, .clamp = relu_clamp } */
#ifndef QG_ENGINE_IR_OP_H
#define QG_ENGINE_IR_OP_H

#include "engine/ir/attr.h"

/* clang-format off */
#define QG_TRAIT_MAP(X)                                                        \
    X(COMPUTE,     "compute",     "accumulates products: Conv, Gemm, MatMul")  \
    X(ACTIVATION,  "activation",  "element-wise with one data input, fused after "     \
                                  "compute")                                   \
    X(ELEMENTWISE, "elementwise", "output element i depends on element i of each "     \
                                  "(broadcast) input")                         \
    X(PASSIVE,     "passive",     "moves values without changing them: "              \
                                  "Reshape, MaxPool")                          \
    X(JOIN,        "join",        "several equivalent data inputs: Add, Concat") \
    X(POOLING,     "pooling",     "windowed reduction: MaxPool, AveragePool")  \
    X(SHAPE,       "shape",       "its output is a shape or an index, never "  \
                                  "quantized")                                 \
    X(MONOTONE,    "monotone",    "x <= y implies f(x) <= f(y); order and zero are "   \
                                  "preserved")                                 \
    X(NORMALIZE,   "normalize",   "per-channel affine map, given by "                  \
                                  "affine(): BatchNormalization")              \
    X(PURE,        "pure",        "outputs depend on inputs only: may be folded")  \
    X(CONTROL,     "control",     "contains sub-graphs: If, Loop, Scan")               \
    X(QUANTIZER,   "quantizer",   "quantizes by itself: QuantizeLinear, FakeQuantize") \
    X(BATCH_FIRST, "batch-first", "dim 0 of the first input is dim 0 of the output") \
    X(DIMS_ONLY,   "dims-only",   "reads only the dims of its inputs: Shape, Size") \
    X(HOMOGENEOUS, "homogeneous", "scaling channel c of every data input by s > 0 "    \
                                  "scales channel c of the output by s") \
    X(COPY,        "copy",        "output 0 is input 0: Identity")           \
    X(NONNEGATIVE, "nonnegative", "inputs >= 0 give outputs >= 0: Add, Concat") \
    X(SHARES,      "shares",      "outputs are shares of 1 along an axis, or their " \
                                  "logarithms: Softmax")                       \
    X(GAIN,        "gain",        "scaling its second input, and a third one, scales " \
                                  "the output: Mul, LayerNormalization")       \
    X(DIVIDES,     "divides",     "its last input divides, or the root of it: " \
                                  "Div, BatchNormalization")                   \
    X(UNDEFINED,   "undefined",   "NaN, or more than a float holds, for some "  \
                                  "numbers: Log, Exp, Pow")
/* clang-format on */

enum {
#define X(id, text, meaning) QG_TRAIT_BIT_##id,
    QG_TRAIT_MAP(X)
#undef X
        QG_NTRAIT
};
#define X(id, text, meaning) QG_OP_##id = 1u << QG_TRAIT_BIT_##id,
enum qg_op_trait { QG_TRAIT_MAP(X) };
#undef X

/* One letter per slot; the last letter repeats for variadic slots.
 *   d data     w weight     b bias (passive: scale is input x weight)
 *   p bound (passive: borrows the scale of input 0: Clip limits, Pad value)
 *   g gain, slope and other small parameters that backends treat as data (PRelu slope)
 *   f float that is never quantized (normalization statistics, scales, thresholds)
 *   s shape or index (never quantized)
 * Conv "dwb", Clip "dpp", Reshape "ds", Pad "dsps", Concat "d", TopK "ds" -> "ds". */
typedef struct qg_call qg_call;
typedef struct qg_compile qg_compile; /* ir/kernel.h */
typedef struct qg_kernel qg_kernel;
typedef struct qg_element qg_element; /* ops/util_elements.h */
typedef struct qg_lower qg_lower;     /* ir/lower.h */
typedef struct qg_backward qg_backward;

/* For an operator on codes: the float operator that it computes between
 * dequantizations of its inputs and a quantization of output 0 (QLinearConv: "Conv").
 *
 *     slots   one letter per input; in a longer list the last three repeat
 *             x codes, s their scale, z their zero point; S, Z those of the output
 *             b int32 in steps of the first two scales; v the float operator's own
 *
 * The x, b and v are the float operator's inputs, in that order, and the attributes
 * are its own.  Without S (absent) output 0 is float32. */
typedef struct qg_op_codes {
    const char *op; /* in the default domain */
    int16_t opset;  /* whose row; an attribute `opset` of a node replaces it */
    const char *slots;
} qg_op_codes;

/* One row per operator and opset range, in the tables of ops/.  Rows are static (those
 * that a host added live as long as its context), immutable and shared by threads. */
typedef struct qg_op {
    const char *name;   /* ONNX op_type, exact case */
    const char *domain; /* NULL: the default domain "ai.onnx" */
    int16_t since;      /* first opset this entry implements */
    int16_t until;      /* last opset, 0: still current.  Gone operators only. */
    uint8_t min_in, max_in, min_out, max_out; /* 255: any number */
    const char *in_roles, *out_roles;         /* out_roles NULL: all "d" */
    uint32_t traits;                          /* QG_OP_* bits */
    size_t param_size; /* size of the data prepare writes; 0: none */

    /* Reads attributes into param (zeroed, param_size bytes).  NULL: none to read. */
    qg_status (*prepare)(qg_ctx *ctx, const qg_node *node, void *param);

    /* Sets type and dims of every non-NULL call->out from the inputs.  An input's data
     * is there when it is constant (compile time) or always (run time).  May leave dims
     * -1 (rank -1) when they depend on data that is not there; at run time it must
     * not. */
    qg_status (*infer)(const qg_call *call);

    /* Computes.  Inputs and outputs are plain, known, with data; outputs never overlap
     * inputs unless `in_place` allows it. */
    qg_status (*run)(const qg_call *call);

    /* Output 0 may use the memory of input k, k < 8, for each set bit k (same type and
     * dims; run reads element i of that input before it writes element i). */
    uint8_t in_place;

    /* Optional.  Bit a: along axis a of output 0, a slice depends on the same slice of
     * the inputs alone (inputs without the axis are whole, axes count from the last),
     * and run computes it from slices, with the same bits.  Types and dims are known.
     * NULL: every axis if ELEMENTWISE, else none. */
    uint32_t (*free_axes)(const qg_call *call);

    /* Optional.  A faster kernel for fixed shapes: ir/kernel.h explains when the plan
     * asks.  QG_OK with *out == NULL: none for this case, use run. */
    qg_status (*compile)(qg_compile *c, qg_kernel **out);

    /* Optional.  y = scale[c] * x + shift[c] per channel of axis 1, from constants; for
     * NORMALIZE operators.  n is the number of channels. */
    qg_status (*affine)(qg_ctx *ctx, const qg_node *node, size_t n, double *scale,
                        double *shift);

    /* Optional, COMPUTE operators.  The axis of input `weight` that counts output
     * channels, and whether a BatchNormalization can be multiplied in. */
    int (*weight_axis)(const qg_node *node); /* axis, >= 0; -1: has none */

    /* Optional, ACTIVATION operators.  True when the node is y = min(max(x, low), high)
     * with constant limits (Relu: 0, +infinity).  constant[i]: the value of input i,
     * NULL when it is not constant or absent; [n_in]. */
    bool (*clamp)(const qg_node *node, const qg_tensor *const *constant, float *low,
                  float *high);

    /* Optional.  True when the node is a loop over float32 elements, with the same bits
     * as run: ops/util_elements.h.  constant as above. */
    bool (*element)(const qg_node *node, const qg_tensor *const *constant,
                    qg_element *out);

    /* Optional, operators that resize.  [n_nearest] attributes that make a node take
     * the nearest element with half-pixel centres (the lower one on a tie), as far as
     * this row allows.  Static, like the row. */
    const qg_attr *nearest;
    uint8_t n_nearest;

    /* Optional.  Translates the node to an integer kernel: ir/lower.h. */
    qg_status (*lower)(qg_lower *l);

    /* Optional, operators with `lower`.  The node that alone reads output 0 and whose
     * result the integer kernel computes as well, without rounding between: the square
     * of a difference.  NULL: none. */
    const qg_node *(*takes)(const qg_node *n);

    /* Optional.  The gradient of a scalar with respect to the inputs, from that with
     * respect to the outputs.  float32 only.  NULL: none is known. */
    qg_status (*backward)(const qg_backward *b);

    const qg_op_codes *codes; /* optional, operators on codes */

    bool opaque; /* of an unknown domain: kept, never executed; see ir/opaque.h */

    const void *host; /* for an operator added by a host: the data of its functions */
} qg_op;

/* One invocation; all pointers borrowed.
 *
 * CONTROL operators find the shapes of their outputs while they run: infer is not
 * called again at run time.  Where out[i]->data is NULL, run sets type and dims of
 * out[i] and takes its memory from `results`; else it must meet the type and dims that
 * are there. */
struct qg_call {
    qg_ctx *ctx;
    const qg_node *node;
    const void *param; /* written by prepare; NULL if param_size == 0 */
    size_t n_in, n_out;
    const qg_tensor *const *in; /* NULL: absent optional input */
    qg_tensor *const *out;      /* NULL: absent optional output */
    qg_arena *scratch;          /* reset after the node; keeps its blocks */
    void *run_ctx;              /* executor's, for CONTROL operators; else ignore */
    qg_arena *results;          /* CONTROL operators at run time; see above */
    void *local;                /* kernels only: see ir/kernel.h */
};

/* One invocation of op->backward, after op->run; all pointers borrowed.  Gradients are
 * plain, float32, and have the dims of the tensor they belong to. */
struct qg_backward {
    const qg_call *call;         /* inputs and outputs as run left them, float32 */
    const qg_tensor *const *out; /* [n_out] with respect to output k; NULL: zero */
    qg_tensor *const *in; /* [n_in] to be written (not added to); NULL: not wanted.
                                  * Overlaps nothing else */
};

/* How a node of ai.onnx moves from the row of this name and `since` to the next row,
 * with the same meaning.  See ir/upgrade.h. */
typedef struct qg_upgrade {
    const char *name;
    int16_t since;
    const char *becomes; /* the operator of the next row; NULL: the same name */
    /* Rewrites attributes and inputs, may put nodes of `opset` around n.  NULL: nothing
     * to rewrite.  QG_EUNSUPPORTED when the newer row cannot express it. */
    qg_status (*run)(qg_graph *g, qg_node *n, int64_t opset);
} qg_upgrade;

/* Operators that rewrites put into graphs.  Whoever makes a node needs a name: the
 * registry has it, so that passes name none. */
typedef enum qg_made_op {
    QG_MADE_SUM,         /* a + b, broadcast */
    QG_MADE_PRODUCT,     /* of matrices */
    QG_MADE_CONVOLUTION, /* inputs "dwb", attribute `group` */
    QG_MADE_DENSE,       /* a b + c of matrices: inputs "dwb" */
    QG_MADE_CAST,        /* to the type of attribute `to` */
    QG_NMADE
} qg_made_op;

/* A registry: the operators that exist.  ops/families.c has the library's; tests make
 * their own. */
typedef struct qg_registry {
    const qg_op *const *family; /* each ends with a row whose name is NULL */
    size_t n_family;
    const qg_upgrade *upgrade;  /* ends with a row whose name is NULL; NULL: none */
    const char *made[QG_NMADE]; /* names in the default domain; NULL: has none */
} qg_registry;

/* The entry with the highest since <= opset (and opset <= until); NULL when there is
 * none.  domain NULL, "" and "ai.onnx" are the same.
 * Linear in the rows: asked once per node, at import. */
const qg_op *qg_op_find(const qg_registry *r, const char *domain, const char *name,
                        int64_t opset);

/* The operators of `base` and one family more, in a; rows as in qg_registry.  For files
 * whose operators no other graph may hold.  NULL: no memory. */
const qg_registry *qg_registry_with(const qg_registry *base, const qg_op *family,
                                    qg_arena *a);

/* The row of the default domain with the lowest since above `since`; NULL: none. */
const qg_op *qg_op_next(const qg_registry *r, const char *name, int64_t since);

/* The conversion of a node from this row to the next; NULL: unknown. */
const qg_upgrade *qg_op_upgrade(const qg_registry *r, const qg_op *op);

/* ", known for opset 1 to 9, 11 and later": every entry of the operator, for messages;
 * "" when there is none. */
enum { QG_OP_VERSIONS = 256 };
const char *qg_op_versions(const qg_registry *r, const char *domain, const char *name,
                           char text[QG_OP_VERSIONS]);

/* Whether both are of one name, domain and version. */
bool qg_op_alike(const qg_op *a, const qg_op *b);

/* Whether its name is in the list.  For patterns and rules of backends, which name
 * operators; code asks for traits and roles.
 * Domains are not compared. */
bool qg_op_is_named(const qg_op *op, const char *const *names, size_t n);

/* The row with the highest since of that name in any domain, for readers of names from
 * configuration; NULL when there is none. */
const qg_op *qg_op_newest(const qg_registry *r, const char *name);

/* The role letter of an input (output) slot.
 * Slots past the end of the string have its last letter. */
char qg_op_in_role(const qg_op *op, size_t slot);
char qg_op_out_role(const qg_op *op, size_t slot);

/* The letter of an input slot in codes->slots. */
char qg_op_code_slot(const qg_op_codes *c, size_t slot);

/* The first input slot with this role letter; -1 when the operator has none. */
int qg_op_slot_of(const qg_op *op, char role);

/* Words of the trait map, as in backend files; bit < QG_NTRAIT (asserted). */
const char *qg_trait_name(unsigned bit);   /* "compute" */
uint32_t qg_trait_named(const char *text); /* its mask; 0 when unknown */

#endif

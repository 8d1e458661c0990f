/* program.h -- an integer program: a quantized graph as a second graph whose values are
 * int8, uint8, int16 and int32 tensors, with the arithmetic of one profile.
 *
 *     QG_TRY(qg_lower_program(m->graph, profile, &(qg_lower_options){ 0 }, &p));
 *     QG_TRY(qg_plan_new(ctx, p->graph, &(qg_plan_options){ 0 }, &plan));
 *     ...
 *     qg_program_free(p);
 *
 * The program runs as any float graph does.  Its inputs and outputs have the names,
 * order and types of the float graph's: a float32 input is quantized and a float32
 * output dequantized inside, integer ones are codes.
 *
 * Who stores codes  storage.c
 * Who computes      an operator's `lower` (ir/lower.h) emits the kernel of a node when
 *                   its inputs and output are stored as codes, a clamp behind it
 *                   included; where it refuses, or has none, the float node runs
 *                   between a dequantization and a quantization
 * Owner             the program's graph has an arena of its own, but borrows constants
 *                   and attributes of the float graph, which must outlive it unchanged
 *
 * A program is a function of graph, records, profile and options alone. */
#ifndef QG_ENGINE_LOWER_PROGRAM_H
#define QG_ENGINE_LOWER_PROGRAM_H

#include "engine/ir/lower.h"

/* What became of a node of the float graph. */
/* clang-format off */
#define QG_LOWERED_MAP(X)                                                              \
    X(INTEGER, "integer", "a kernel on codes, or a clamp fused into one")              \
    X(TAIL,    "tail",    "float32, behind a kernel that stores floats (tail: float)") \
    X(ISLAND,  "island",  "float32: nothing makes it an integer kernel")               \
    X(REFUSED, "refused", "float32: its kernel on codes is excluded by the profile")   \
    X(PLAIN,   "plain",   "works on shapes or indices, or is a Q or DQ of a file")
/* clang-format on */
typedef enum qg_lowered {
#define X(id, ...) QG_LOWERED_##id,
    QG_LOWERED_MAP(X)
#undef X
        QG_NLOWERED
} qg_lowered;
const char *qg_lowered_name(qg_lowered how); /* "integer" */

/* The fate of one node. */
typedef struct qg_program_node {
    qg_lowered how;
    const char *row; /* INTEGER: id of the profile's row; "" for a fused clamp */
    const char *why; /* ISLAND, REFUSED: the reason; fused: the kernel; else "" */
} qg_program_node;

typedef struct qg_lower_options {
    bool require_integer; /* an island or a refusal is an error that names the first */
    bool codes;           /* float32 outputs of the graph are given as codes */
    bool float_inputs;    /* integer inputs that the graph dequantizes are given as
                           * float32 and quantized on that grid */
    bool file; /* the records are those of quantizers in a file, which runs as
                           * it is; others are a snapshot's, which qg export writes */
} qg_lower_options;

typedef struct qg_program {
    const qg_graph *from; /* the float graph */
    const qg_profile *profile;
    qg_lower_options options;
    qg_graph *graph; /* owned; normalized and inferred */
    const qg_value *const
        *value;                  /* [values of from] its codes, or its floats, in graph;
                                   * NULL: fused away, or nobody needs it */
    const qg_stored *stored;     /* [values of from] */
    const qg_program_node *node; /* [nodes of from] */
    size_t count[QG_NLOWERED];
    size_t
        rounding; /* records whose rounding is not that of the profile's quantize row:
                      * the profile's is used */
} qg_program;

/* Translates g, which is normalized and inferred.  QG_EUNSUPPORTED names the endpoint
 * whose record no integer type of the profile can hold (floating, block or dynamic
 * schemes, more than 16 bits, one scale per channel of an activation), the node that
 * require_integer or a profile without islands does not allow, or a missing row of
 * quantize. */
QG_NODISCARD qg_status qg_lower_program(const qg_graph *g, const qg_profile *profile,
                                        const qg_lower_options *o, qg_program **out);
void qg_program_free(qg_program *p); /* NULL is fine */

/* An int32 bias in steps of f32(s_x s_w), half away from zero, within the limits of its
 * record t where that rounds (NULL: it has none); a weight of zeros has any step. */
int32_t qg_lower_bias_code(const qg_tqc *t, float bias, float step);

#endif

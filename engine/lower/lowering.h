/* lowering.h -- the work of qg_lower_program in parts.  Private to engine/lower. */
#ifndef QG_ENGINE_LOWER_LOWERING_H
#define QG_ENGINE_LOWER_LOWERING_H

#include "engine/lower/program.h"
#include "engine/quant/tqc.h"

/* A value as codes on one grid, for one or more readers, and the floats of these. */
typedef struct qg_variant qg_variant;
struct qg_variant {
    qg_variant *next; /* of the same value */
    qg_stored grid;
    qg_value *codes, *floats; /* in the program; NULL until needed */
};

/* State of one translation; arrays are by id of the float graph. */
typedef struct qg_lowering {
    qg_ctx *ctx;
    const qg_graph *from;
    qg_graph *to;
    qg_arena *arena; /* of `to` */
    const qg_profile *profile;
    qg_lower_options options;
    qg_stored *stored; /* [values] how each is stored; codes false: as in the graph */
    qg_value **codes;  /* [values] in the program; NULL: not made yet */
    qg_value **floats; /* [values] the same of floats, shapes and indices */
    bool *is_tail;     /* [values] floats that a kernel stored, or made of such */
    qg_variant **variant; /* [values] the first of each; NULL: none */
    qg_program *program;
    qg_program_node *node; /* [nodes] */
} qg_lowering;

/* --- grid.c: records as stored grids --- */

/* The grid of a record as codes of one of `types` (QG_DT bits).  *why is NULL when *out
 * was filled, else the reason.  QG_ENOMEM is the only failure. */
QG_NODISCARD qg_status qg_lower_grid(qg_lowering *w, const qg_tqc *t, uint64_t types,
                                     qg_stored *out, const char **why);

/* The grid on which a slot of an activation rounds; *out has codes false when it does
 * not.  QG_EUNSUPPORTED, naming the endpoint, when codes cannot hold it. */
QG_NODISCARD qg_status qg_lower_slot_grid(qg_lowering *w, const qg_node *n,
                                          uint32_t slot, qg_stored *out);

/* The grid of an output that rounds, or on which its root rounds. */
QG_NODISCARD qg_status qg_lower_output_grid(qg_lowering *w, const qg_tqc *t,
                                            qg_stored *out);

/* A node of a file between floats and codes with constant scale and zero point
 * (QuantizeLinear, DequantizeLinear); *out has codes false when it is none. */
enum qg_linear_kind { QG_LINEAR_NONE, QG_LINEAR_QUANTIZE, QG_LINEAR_DEQUANTIZE };
QG_NODISCARD qg_status qg_lower_linear(qg_lowering *w, const qg_node *n, qg_stored *out,
                                       enum qg_linear_kind *kind);

/* --- storage.c: which values are stored as codes --- */

QG_NODISCARD qg_status qg_lower_storage(qg_lowering *w);

/* --- convert.c: values of the program, made when they are first needed --- */

/* Float32 values that are stored as codes and are inputs or outputs keep their name for
 * the floats. */
const char *qg_lower_codes_name(qg_lowering *w, const qg_value *v);

/* The row by which floats become codes of this type; NULL: none. */
const qg_profile_row *qg_lower_quantize_row(const qg_profile *p, qg_dtype codes);

/* A constant that stands for v, with its name unless another one has it. */
QG_NODISCARD qg_status qg_lower_add_constant(qg_lowering *w, const qg_value *v,
                                             const qg_tensor *t, qg_value **out);

/* v as it is stored. */
QG_NODISCARD qg_status qg_lower_as_stored(qg_lowering *w, const qg_value *v,
                                          qg_value **out);
/* v as floats, after the rounding of its storage; constants and other types as they
 * are. */
QG_NODISCARD qg_status qg_lower_as_floats(qg_lowering *w, const qg_value *v,
                                          qg_value **out);
/* v, no constant, as codes on a grid. */
QG_NODISCARD qg_status qg_lower_as_codes(qg_lowering *w, const qg_value *v,
                                         const qg_stored *grid, qg_value **out);
/* The floats that input `slot` of n reads, after the rounding of slot and storage. */
QG_NODISCARD qg_status qg_lower_float_input(qg_lowering *w, const qg_node *n,
                                            uint32_t slot, qg_value **out);
/* The codes of v, an input, on a grid: from its floats. */
QG_NODISCARD qg_status qg_lower_quantize(qg_lowering *w, const qg_value *v,
                                         const qg_stored *grid, qg_value *floats,
                                         qg_value **out);
/* The codes of v from floats that were computed for it. */
QG_NODISCARD qg_status qg_lower_store(qg_lowering *w, const qg_value *v,
                                      qg_value *floats);

/* --- slot.c: inputs of an integer kernel --- */

/* Input `slot` of n for an operator's `lower`; in [slot]s before it are filled.  *why
 * is NULL, or the reason why the node is no integer kernel. */
QG_NODISCARD qg_status qg_lower_input(qg_lowering *w, const qg_node *n, uint32_t slot,
                                      qg_lower_in *in, const char **why);

#endif

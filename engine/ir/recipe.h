/* recipe.h -- the arithmetic of a node of an integer program, as its attributes.
 *
 * Operators of domain "quantgraph" (ops/integer_*.c) compute on codes.  Everything that
 * determines their result is an attribute, so that a printed program is complete and the
 * operator needs no profile:
 *
 *     row                        id of the profile's row, for people
 *     form, products, scheme, factor, zero, rounding, symmetric, accumulator, left
 *                                of the row (number/profile.h), where the operator reads
 *                                them
 *     in<k>_scale, in<k>_zero    grid of input k: one value, or one per channel
 *     out0_scale, out0_zero      grid of output 0
 *     out0_type                  its type, a number of ONNX (3 int8, 1 float32, ...)
 *     out0_low, out0_high        lowest and highest code that may be stored
 *
 * Attributes of the float operator (kernel_shape, axis, ...) are kept beside these.
 * qg_recipe_write and qg_recipe_read are the only code that knows the names. */
#ifndef QG_ENGINE_IR_RECIPE_H
#define QG_ENGINE_IR_RECIPE_H

#include "engine/ir/graph.h"
#include "engine/number/integer_array.h"
#include "engine/number/profile.h"

/* How a tensor is stored: as codes on a grid, or (codes false) as floats. */
typedef struct qg_stored {
    bool codes;
    qg_dtype dtype;      /* of the codes */
    uint32_t n;          /* 1, or the channels */
    const float *scale;  /* [n] */
    const int32_t *zero; /* [n] */
    int32_t axis;        /* of the channels when n > 1 */
    int32_t low, high;   /* limits of the record: within the type's */
} qg_stored;

enum { QG_RECIPE_INPUTS = 8 }; /* grids of inputs kept by slot; IntConcat keeps lists */

/* A recipe in memory. */
typedef struct qg_recipe {
    qg_profile_row row;
    qg_stored in[QG_RECIPE_INPUTS]; /* dtype of the input; codes false: no grid given */
    const qg_stored *all;           /* [n_all] variadic operators: every input */
    uint32_t n_all;
    qg_stored out; /* of output 0; low and high include a fused clamp */
} qg_recipe;

/* The attributes of `r`, after `own` [n_own] (attributes of the float operator to keep),
 * in the arena of g. */
QG_NODISCARD qg_status qg_recipe_write(qg_graph *g, const qg_recipe *r,
                                       const qg_attr *own, size_t n_own,
                                       const qg_attr **out, size_t *n_out);

/* For op->prepare.  QG_EMODEL for a missing or malformed attribute: programs can come
 * from files.  Arrays are borrowed from the attributes or lie in the graph's arena. */
QG_NODISCARD qg_status qg_recipe_read(qg_ctx *ctx, const qg_node *n, qg_recipe *out);

#endif

/* recipe.h -- the arithmetic of a node of an integer program, as its attributes.
 *
 * Operators of domain "quantgraph" (ops/integer_*.c) compute on codes.  Everything that
 * determines their result is an attribute, so that a printed program is complete and
 * the operator needs no profile:
 *
 *     row                        id of the profile's row, for people
 *     form, products, rounding   of the row (number/profile.h); absent: plain, exact,
 *                                half-even
 *     scheme, factor, zero       its requantization; absent where the row has none
 *     symmetric, accumulator     absent: 0, 32
 *     left                       headroom of form fixed; absent: 0
 *     in<k>_type                 type of the codes of input k, "int8"; absent: the
 *                                input has no grid of its own
 *     in<k>_scale, in<k>_zero    its grid: FLOAT and INT; one per channel: FLOATS, and
 *                                TENSOR of int32; then in<k>_axis is the channels' axis
 *     inputs_type, inputs_scale, inputs_zero
 *                                lists, one entry per input of a variadic operator
 *     out0_type                  type of output 0 ("float32" has no grid)
 *     out0_scale, out0_zero      grid of output 0
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

/* A recipe in memory.  One that was read must stay where it is: in and out point into
 * zero_of. */
typedef struct qg_recipe {
    qg_profile_row row;
    qg_stored in[QG_RECIPE_INPUTS]; /* dtype of the input; codes false: no grid given */
    const qg_stored *all;           /* [n_all] variadic operators: every input */
    uint32_t n_all;
    qg_stored out; /* of output 0; low and high include a fused clamp */
    int32_t zero_of[QG_RECIPE_INPUTS + 1]; /* of qg_recipe_read; writers leave it 0 */
} qg_recipe;

/* The attributes of `r`, after `own` [n_own] (attributes of the float operator to
 * keep), in the arena of g. */
QG_NODISCARD qg_status qg_recipe_write(qg_graph *g, const qg_recipe *r,
                                       const qg_attr *own, size_t n_own,
                                       const qg_attr **out, size_t *n_out);

/* For op->prepare.  QG_EMODEL for a missing or malformed attribute: programs can come
 * from files.  Types hold 8 or 16 bits, scales are finite and >= 0 (that of the output:
 * above 0), zero points and limits are codes.  Arrays are borrowed from the attributes.
 * Sets n_all, not `all`: see qg_recipe_read_all. */
QG_NODISCARD qg_status qg_recipe_read(qg_ctx *ctx, const qg_node *n, qg_recipe *out);

/* The grids of a variadic operator, [*n_all] in a, with the same checks. */
QG_NODISCARD qg_status qg_recipe_read_all(qg_ctx *ctx, const qg_node *n, qg_arena *a,
                                          const qg_stored **all, uint32_t *n_all);

enum { QG_RECIPE_MOST_LEFT = 22 }; /* the largest headroom */

/* What qg_recipe_change replaces; NULL and 0: unchanged.  Words are those of the
 * attributes. */
typedef struct qg_recipe_edit {
    const char *form, *products, *rounding, *scheme, *factor, *zero;
    int left;                     /* > 0; only where the node has one */
    const qg_stored *in[2], *out; /* out: with its limits */
} qg_recipe_edit;

/* Another arithmetic for a node that has a recipe.  QG_EMODEL when its operator has no
 * such attribute. */
QG_NODISCARD qg_status qg_recipe_change(qg_graph *g, qg_node *n,
                                        const qg_recipe_edit *e);

#endif

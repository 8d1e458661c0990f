/* util_lower.h -- what the `lower` callbacks of operators share (ir/lower.h).
 *
 * A refusal is no failure: functions that return bool record it and return false, and
 * the callback returns QG_OK. */
#ifndef QG_OPS_UTIL_LOWER_H
#define QG_OPS_UTIL_LOWER_H

#include "engine/ir/lower.h"
#include "engine/number/integer_unary.h"

/* Inputs 0 .. n - 1 are stored as codes, each on one grid; else refuses. */
bool qg_lower_wants_codes(qg_lower *l, uint32_t n);

/* The grids of input `slot` and of output 0 are equal; else refuses. */
bool qg_lower_wants_same(qg_lower *l, uint32_t slot);

/* Sets an attribute of the kernel, in place of one of that name. */
QG_NODISCARD qg_status qg_lower_set_ints(qg_lower *l, const char *name, qg_attr_type t,
                                         const int64_t *value, size_t n);
QG_NODISCARD qg_status qg_lower_set_int(qg_lower *l, const char *name, int64_t value);
QG_NODISCARD qg_status qg_lower_set_text(qg_lower *l, const char *name,
                                         const char *value);

/* `op` with every input of the node, of codes in the first n_codes, by the row of
 * `use`. */
QG_NODISCARD qg_status qg_lower_all(qg_lower *l, const char *op, qg_kernel_use use,
                                    uint32_t n_codes);

/* A product: weights in input 1 have one scale, or one per channel of `axis`, which
 * each of `groups` has again; a bias in input 2 is a vector. */
QG_NODISCARD qg_status qg_lower_product(qg_lower *l, const char *op, qg_kernel_use use,
                                        int32_t axis, uint32_t groups);

/* IntBinary; the attributes of the node must not ask for broadcasting as before opset
 * 7. */
QG_NODISCARD qg_status qg_lower_binary(qg_lower *l, qg_kernel_use use);

/* IntTable: one of the functions with forms of their own; or, by the row of use
 * `table`, the node's own operator on the 256 values. */
QG_NODISCARD qg_status qg_lower_function(qg_lower *l, qg_kernel_use use,
                                         qg_int_unary_function f, float alpha);
qg_status qg_lower_table(qg_lower *l);

/* A constant tensor with memory for it, in the arena of the program; NULL: no
 * memory. */
qg_tensor *qg_lower_tensor(qg_lower *l, qg_dtype d, int32_t rank, const int64_t *dim);

/* The operator itself on codes, by the row of MOVE (or of another use). */
qg_status qg_lower_move(qg_lower *l);
QG_NODISCARD qg_status qg_lower_on_codes(qg_lower *l, qg_kernel_use use);

#endif

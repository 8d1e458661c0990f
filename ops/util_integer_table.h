/* util_integer_table.h -- kernels of operators on 8-bit codes as tables of the
 * definition: every result of a code, or of a pair of codes, is computed once by
 * op->run when the plan is made.
 *
 * Cost     256 results per node, or 65536 (1 ms) where a pair is worth it: for outputs
 *          of at least QG_INTEGER_TABLE elements.  A look-up takes one or two ns. */
#ifndef QG_OPS_UTIL_INTEGER_TABLE_H
#define QG_OPS_UTIL_INTEGER_TABLE_H

#include "engine/accel/finish.h"
#include "engine/ir/kernel.h"

enum { QG_INTEGER_TABLE = 32 };

/* Element-wise operators with one operand of 8-bit codes, input 0; inputs behind it are
 * constants.  *out NULL: other types. */
QG_NODISCARD qg_status qg_integer_compile_codes(qg_compile *c, qg_kernel **out);

/* Element-wise operators with two operands of 8-bit codes, broadcast.  pair: a sum or a
 * product that the results come near to, or NULL. */
QG_NODISCARD qg_status qg_integer_compile_pairs(qg_compile *c, const qg_near_pair *pair,
                                                bool product, qg_kernel **out);

/* A concatenation of 8-bit codes of one type along this axis, in 0 .. rank - 1.
 * Channels-last where every input is. */
QG_NODISCARD qg_status qg_integer_compile_concat(qg_compile *c, int32_t axis,
                                                 qg_kernel **out);

#endif

/* tensor_memory.h -- tensors with data in an arena, and a look at data. */
#ifndef QG_ENGINE_IR_TENSOR_MEMORY_H
#define QG_ENGINE_IR_TENSOR_MEMORY_H

#include "engine/core/ctx.h"
#include "engine/ir/tensor.h"

/* Gives a known tensor zeroed plain memory from the arena. */
QG_NODISCARD qg_status qg_tensor_alloc(qg_ctx *ctx, qg_arena *a, qg_tensor *t);

/* A new tensor in the arena with the contents of t, plain. */
QG_NODISCARD qg_status qg_tensor_clone(qg_ctx *ctx, qg_arena *a, const qg_tensor *t,
                                       qg_tensor **out);

/* Whether there is a NaN and, only where there is none, whether there is an infinity:
 * NaN is the stronger finding.  plain: with data; other types than float32 count as
 * finite. */
void qg_tensor_look(const qg_tensor *plain, bool *nan, bool *infinity);
bool qg_tensor_is_finite(const qg_tensor *plain); /* neither is there */

#endif

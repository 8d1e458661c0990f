/* slice.h -- a tensor's elements between two indices of one axis.
 *
 *     y  [1, 8, 20, 20], channels-last      axis 2, from 0 to 10: the upper half
 *     b  [8, 1, 1]                          has no such axis: whole
 *
 * A slice is one piece of memory when the axis is the outermost one there. */
#ifndef QG_ENGINE_EXEC_SLICE_H
#define QG_ENGINE_EXEC_SLICE_H

#include "engine/ir/tensor.h"

/* The axis with the largest steps in memory, of those with more than one element; -1:
 * none. */
int32_t qg_slice_axis(const qg_tensor *t);

/* Whether t can be sliced along an axis of a tensor of `rank` and `extent` there, axes
 * counted from the last: as one piece, or whole because it lacks the axis. */
bool qg_slice_fits(const qg_tensor *t, int32_t rank, int32_t axis, int64_t extent);

/* The slice, or all of a tensor that lacks the axis.  No packed types. */
qg_tensor qg_slice_of(const qg_tensor *t, int32_t rank, int32_t axis, int64_t from,
                      int64_t to);

#endif

#include "engine/exec/slice.h"

#include <assert.h>

int32_t qg_slice_axis(const qg_tensor *t)
{
    int32_t best = -1;
    for (int32_t k = 0; k < t->rank; k++)
        if (t->dim[k] > 1 && (best < 0 || t->stride[k] > t->stride[best]))
            best = k;
    return best;
}

/* The same axis of t, counted from the last; below 0 or of extent 1: t lacks it. */
static int32_t own_axis(const qg_tensor *t, int32_t rank, int32_t axis)
{
    const int32_t own = axis - (rank - t->rank);
    return own >= 0 && t->dim[own] != 1 ? own : -1;
}

bool qg_slice_fits(const qg_tensor *t, int32_t rank, int32_t axis, int64_t extent)
{
    const int32_t own = own_axis(t, rank, axis);
    return t->rank <= rank &&
           (own < 0 || (t->dim[own] == extent && qg_slice_axis(t) == own));
}

qg_tensor qg_slice_of(const qg_tensor *t, int32_t rank, int32_t axis, int64_t from,
                      int64_t to)
{
    const int32_t own = own_axis(t, rank, axis);
    const int64_t size = qg_dtype_bits(t->dtype) / 8;
    qg_tensor slice = *t;
    if (own < 0)
        return slice;
    assert(from >= 0 && from <= to && to <= t->dim[own] && size > 0);
    slice.dim[own] = to - from;
    if (t->data)
        slice.data = (char *)t->data + from * t->stride[own] * size;
    return slice;
}

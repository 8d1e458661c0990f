/* util_cast.h -- elements of one type as elements of another; kernels in one type.
 *
 * Conversion   ONNX Cast: floats to integers truncate; NaN gives 0.  ONNX does not
 *              define out-of-range results; here they saturate in 32 and 64-bit types
 *              and wrap in narrower ones, as in numpy and ONNX's own tests.  Integers
 *              wrap; to bool is x != 0; between floats round half to even; to float8
 *              `saturate` selects between the largest finite value and NaN / infinity
 *              on overflow.
 * Kernels      An operator computes in float32.  qg_run_as converts float16, bfloat16
 *              and so on at the edge, in scratch, so that no kernel exists twice.
 * Source       ONNX Cast-25 (tables of the operator page). */
#ifndef QG_OPS_UTIL_CAST_H
#define QG_OPS_UTIL_CAST_H

#include "engine/ir/op.h"

/* Elements [at, at + n) of a plain array.  Packed types count elements, not bytes.
 * data is borrowed; a whole array is { dtype, data, 0 }. */
typedef struct qg_cast_side {
    qg_dtype dtype;
    void *data;
    int64_t at; /* first element */
} qg_cast_side;

/* from.data is only read.  The arrays do not overlap.
 * Cost: a loop per pair of types; equal types are one copy. */
void qg_cast(qg_cast_side from, qg_cast_side to, int64_t n, bool saturate);

/* Converts all of `from` into `to`: plain, same number of elements. */
void qg_cast_tensor(const qg_tensor *from, qg_tensor *to, bool saturate);

/* *out is t itself when it already has the type, else a converted plain copy in the
 * arena.  t NULL gives NULL. */
QG_NODISCARD qg_status qg_cast_view(qg_ctx *ctx, qg_arena *a, const qg_tensor *t,
                                    qg_dtype as, const qg_tensor **out);

/* Calls run with every input and output whose type is in `mask` replaced by a scratch
 * tensor of type `as`, and converts the outputs back (saturating).  With nothing to
 * convert it is run(k).  Scratch is the call's, and is released after the node. */
QG_NODISCARD qg_status qg_run_as(const qg_call *k, uint64_t mask, qg_dtype as,
                                 qg_status (*run)(const qg_call *));

/* qg_run_as for float types other than float32: the usual wrapper.  float64 loses
 * precision here; operators with double arithmetic handle it before. */
QG_NODISCARD qg_status qg_run_f32(const qg_call *k, qg_status (*run)(const qg_call *));

#endif

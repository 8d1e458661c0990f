/* tensor.h -- an n-dimensional array: type, logical dims, strides, borrowed data.
 *
 * dims     in ONNX order (N, C, H, W, ...), whatever the layout of memory
 * strides  in elements; dense row-major ("plain") unless the executor chose
 *          channels-last.  Packed types (below 8 bits) are always plain.
 * unknown  rank -1: nothing known; dim -1: this extent is not known yet
 * data     NULL when only the shape is known.  Never owned: it lies in an arena, in a
 *          mapped file or with the caller.
 *
 * A qg_tensor is a small value: copy it, point its data elsewhere, pass it by
 * pointer.  Element (i0, i1, ...) of an array lies at the sum of i[k] * stride[k]. */
#ifndef QG_ENGINE_IR_TENSOR_H
#define QG_ENGINE_IR_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/core/status.h"
#include "engine/number/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ONNX sets no limit; a file that goes beyond this is refused at import. */
enum { QG_MAX_RANK = 8 };

/* The union's member must fit dtype; bool elements are bytes 0 or 1 (a file's other
 * values are kept as they are). */
typedef struct qg_tensor {
    qg_dtype dtype;
    int32_t rank;
    int64_t dim[QG_MAX_RANK];
    int64_t stride[QG_MAX_RANK];
    union {
        void *data;
        float *f32;
        double *f64;
        int64_t *i64;
        int32_t *i32;
        int8_t *i8;
        uint8_t *u8;
        uint16_t *u16; /* also float16 and bfloat16 */
        int16_t *i16;
        uint32_t *u32;
        uint64_t *u64;
        bool *b;
    };
} qg_tensor;

/* Type and dims with plain strides, no data.  rank <= QG_MAX_RANK (asserted); dims may
 * hold -1, then the strides left of it are 0.
 * A scalar is rank 0 with one element. */
QG_API void qg_tensor_init(qg_tensor *t, qg_dtype dtype, int32_t rank,
                           const int64_t *dim);
QG_API void qg_tensor_scalar(qg_tensor *t, qg_dtype dtype);
QG_API void qg_tensor_unknown(qg_tensor *t, qg_dtype dtype); /* rank -1 */

/* Makes the strides those of plain (or N,H,W,C for rank >= 3) memory.
 * From the dims, which must be set. */
QG_API void qg_tensor_set_plain(qg_tensor *t);
QG_API void qg_tensor_set_channels_last(qg_tensor *t);
/* Strides of axes with extent 1 do not count. */
QG_API bool qg_tensor_is_plain(const qg_tensor *t);

QG_API bool qg_tensor_known(const qg_tensor *t); /* rank and every dim are known */

/* Number of elements of a known tensor; -1 when it overflows int64 or is not known.
 * A scalar has 1, an array with an extent of 0 has 0. */
QG_API int64_t qg_tensor_count(const qg_tensor *t);

/* Product of dim[from..to).
 * Of known dims whose product fits, as checked when the tensor was inferred. */
QG_API int64_t qg_dims_product(const qg_tensor *t, int32_t from, int32_t to);

/* Bytes of plain storage; QG_EMODEL with `what` in the message when it overflows.
 * Packed types round up to whole bytes. */
QG_NODISCARD QG_API qg_status qg_tensor_bytes(qg_ctx *ctx, const char *what,
                                              const qg_tensor *t, size_t *bytes);

/* Copies elements between tensors of equal type and dims and any strides.
 * Memory of `to` is there (asserted); overlapping memory is not allowed. */
QG_API void qg_tensor_copy(const qg_tensor *from, qg_tensor *to);

/* Rank and every dim; types are not compared. */
QG_API bool qg_same_dims(const qg_tensor *a, const qg_tensor *b);

/* Element i in plain order, converted.  For shapes, axes and tests, not for kernels.
 * Asserts an integer (or bool) type for _i64 and a numeric type for _f64. */
QG_API int64_t qg_tensor_i64(const qg_tensor *t, int64_t i);
QG_API double qg_tensor_f64(const qg_tensor *t, int64_t i);

/* "float32[1,3,240,320]", "?" for unknown parts; at most `room` bytes including the
 * terminator. */
enum { QG_SHAPE_TEXT = 208 };
QG_API const char *qg_tensor_text(const qg_tensor *t, char text[QG_SHAPE_TEXT]);

#ifdef __cplusplus
}
#endif

#endif

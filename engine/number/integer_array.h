/* integer_array.h -- operands of the integer operators: plain arrays of stored
 * integers.
 *
 * Grid      real = scale * (q - zero), q of an integer type of 8 or 16 bits.  scale is
 *           finite and > 0, zero is a code of the type: qg_grid_check().
 * Storage   dense, row-major, of the grid's type.  Operators load spans of it into
 *           int32, compute, and store: one definition for every type.
 * Broadcast right-aligned, as in numpy and ONNX.  It is visited span by span; in a
 *           span each operand either advances with the output or stands still, because
 *           some runtimes compute differently when it stands still.
 * Source    ONNX Broadcasting.md; the spans are those of onnxruntime's
 *           BroadcastIterator (docs/evidence/integers.md#onnx-runtime).
 *
 *     QG_TRY(qg_int_broadcast_make(ctx, "add", &a, &b, &w));
 *     for (size_t i = 0; i < w.spans; i++) {
 *         qg_int_span s = qg_int_broadcast_span(&w, i);
 *         ... s.n codes from s.a in steps of s.a_step, from s.b likewise, to s.y ...
 *     } */
#ifndef QG_ENGINE_NUMBER_INTEGER_ARRAY_H
#define QG_ENGINE_NUMBER_INTEGER_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/core/status.h"
#include "engine/number/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The grid of the codes of an array. */
typedef struct qg_grid {
    qg_dtype dtype; /* of the stored codes: 8 or 16 bits */
    float scale;    /* real units per step */
    int32_t zero;   /* the code of 0.0 */
} qg_grid;

/* QG_EUNSUPPORTED for another type, QG_ENUMERIC for a bad scale or zero point; the
 * message is "<doing>: <which> ...".
 * Asked once, when an operator is prepared: the loops rely on it. */
QG_NODISCARD QG_API qg_status qg_grid_check(qg_ctx *ctx, const char *doing,
                                            const char *which, qg_grid g);
/* All three fields equal: then codes may be copied. */
QG_API bool qg_grid_same(qg_grid a, qg_grid b);

/* Elements [first, first + n) of an 8 or 16-bit array, widened.
 * For bulk work: a span at a time, not an element. */
QG_API void qg_codes_load(qg_dtype d, const void *data, size_t first, int32_t *codes,
                          size_t n);

/* The reverse; codes must fit the type (asserted). */
QG_API void qg_codes_store(qg_dtype d, const int32_t *codes, void *data, size_t first,
                           size_t n);

/* As QG_MAX_RANK of ir/tensor.h, which this layer cannot include. */
enum { QG_INTEGER_RANK = 8 };

/* Dims of a plain array; rank <= QG_INTEGER_RANK, dims >= 0. */
typedef struct qg_int_dims {
    int32_t rank;
    int64_t dim[QG_INTEGER_RANK];
} qg_int_dims;

/* One inner span: elements start at a, b, y; a_step, b_step are 0 or 1. */
typedef struct qg_int_span {
    size_t a, b, y, n; /* first elements, and how many */
    size_t a_step, b_step;
} qg_int_span;

/* A walk over the output; made once per call, then spans in any order. */
typedef struct qg_int_broadcast {
    qg_int_dims y;   /* dims of the output */
    size_t spans, n; /* number of spans, and length of each */
    size_t a_step, b_step;
    int32_t outer; /* leading dims that are walked span by span */
    size_t a_stride[QG_INTEGER_RANK], b_stride[QG_INTEGER_RANK];
} qg_int_broadcast;

/* QG_EMODEL when the dims do not broadcast, a rank is out of range or the number of
 * elements overflows. */
QG_NODISCARD QG_API qg_status qg_int_broadcast_make(qg_ctx *ctx, const char *doing,
                                                    const qg_int_dims *a,
                                                    const qg_int_dims *b,
                                                    qg_int_broadcast *out);

/* Span number i < spans.
 * O(rank); a span is as long as the operands' strides allow. */
QG_API qg_int_span qg_int_broadcast_span(const qg_int_broadcast *b, size_t i);

#ifdef __cplusplus
}
#endif

#endif

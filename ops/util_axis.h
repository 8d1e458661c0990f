/* util_axis.h -- axes, and the short integer lists that operators take as attributes or
 * as inputs (axes, shapes, pads, steps).  Axes count from 0; negative ones from the
 * end.
 *
 *     qg_ints axes;
 *     if (qg_ints_pending(k, 1))
 *         return ...;                              // rank of the output is unknown
 *     QG_TRY(qg_ints_input(k, 1, &axes));
 *     QG_TRY(qg_axes_mask(k, &axes, x->rank, &mask)); */
#ifndef QG_OPS_UTIL_AXIS_H
#define QG_OPS_UTIL_AXIS_H

#include "ops/util_check.h"

enum { QG_MAX_INTS = 2 * QG_MAX_RANK }; /* pads have two values per axis */

/* A list by value: nothing to own. */
typedef struct qg_ints {
    bool given; /* false: the attribute or input is absent (then n == 0) */
    size_t n;
    int64_t at[QG_MAX_INTS]; /* [n] */
} qg_ints;

/* The INTS attribute, for prepare.  QG_EMODEL when it has more than QG_MAX_INTS
 * values. */
QG_NODISCARD qg_status qg_ints_attr(qg_ctx *ctx, const qg_node *n, const char *name,
                                    qg_ints *out);

/* The integers of input `slot`, rank 0 or 1.  The input must have data or be absent
 * (asserted): see qg_ints_pending.
 * int32 and int64; QG_EMODEL for other ranks and for more than
 * QG_MAX_INTS. */
QG_NODISCARD qg_status qg_ints_input(const qg_call *k, size_t slot, qg_ints *out);

/* Index i of the indices in input 1 (int32 or int64) as a position in [0, dim), for
 * run.  Indices are data: outside of [-dim, dim) is QG_EDATA, and the message gives the
 * position. */
QG_NODISCARD qg_status qg_index_input(const qg_call *k, int64_t i, int64_t dim,
                                      int64_t *out);

/* True when the input is present but its data is not known before run time. */
static inline bool qg_ints_pending(const qg_call *k, size_t slot)
{
    const qg_tensor *t = qg_in(k, slot);
    return t && !t->data;
}

/* A list used as a shape: at most QG_MAX_RANK dims (QG_EUNSUPPORTED), none negative
 * (QG_EMODEL), number of elements within int64 (QG_EMODEL). */
QG_NODISCARD qg_status qg_check_shape(const qg_call *k, const qg_ints *shape);

/* Bit a of *mask for every listed axis; a repeated axis is QG_EMODEL.
 * Axes outside of [-rank, rank) are QG_EMODEL. */
QG_NODISCARD qg_status qg_axes_mask(const qg_call *k, const qg_ints *axes, int32_t rank,
                                    uint32_t *mask);

/* A tensor seen as [outer, middle, inner] around an axis.
 * Element (o, m, i) lies at (o * middle + m) * inner + i of a plain tensor. */
typedef struct qg_around {
    int64_t outer, middle, inner;
} qg_around;
qg_around qg_around_axis(const qg_tensor *t, int32_t axis);

/* Number of elements of a tensor allocated by the executor: known, so not negative. */
size_t qg_elements(const qg_tensor *t);

/* Bytes per element of a type with at least 8 bits (asserted). */
size_t qg_element_size(qg_dtype d);

/* Copies the elements of input 0 to output 0: same type, same number, any dims.
 * Nothing to do when they share memory. */
qg_status qg_run_copy(const qg_call *k);

#endif

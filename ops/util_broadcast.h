/* util_broadcast.h -- one loop nest over several tensors at once, and the broadcasting
 * rule of ONNX (numpy's: dims aligned at the right, 1 broadcasts).
 *
 *     qg_walk w;
 *     qg_walk_init(&w, y->rank, y->dim);
 *     qg_walk_add(&w, y->stride);               operand 0
 *     qg_walk_add_broadcast(&w, x);             operand 1
 *     qg_walk_collapse(&w);                     fewer, longer loops
 *     qg_walk_at at = { 0 };
 *     if (!qg_walk_empty(&w))
 *         do row(y + at.offset[0], x + at.offset[1], w.dim[w.rank - 1], ...);
 *         while (qg_walk_next(&w, &at));
 *
 * A row is the last dim of the walk; w.stride[k][w.rank - 1] is operand k's step in it.
 * Strides and offsets count elements. */
#ifndef QG_OPS_UTIL_BROADCAST_H
#define QG_OPS_UTIL_BROADCAST_H

#include "engine/ir/kernel.h"
#include "ops/util_axis.h"

enum { QG_WALK_RANK = 2 * QG_MAX_RANK, QG_WALK_OPERANDS = 4 };

/* The loop nest; on the stack. */
typedef struct qg_walk {
    int32_t rank, n; /* loops, at least 1 once collapsed; operands */
    int64_t dim[QG_WALK_RANK];
    int64_t stride[QG_WALK_OPERANDS][QG_WALK_RANK]; /* 0 repeats, < 0 walks back */
} qg_walk;

/* Position of a walk; starts as { 0 }. */
typedef struct qg_walk_at {
    int64_t index[QG_WALK_RANK];
    int64_t offset[QG_WALK_OPERANDS]; /* of each operand at the start of the row */
} qg_walk_at;

/* Rank 0 is one row of one element once collapsed. */
void qg_walk_init(qg_walk *w, int32_t rank, const int64_t *dim);
void qg_walk_add(qg_walk *w, const int64_t *stride); /* [rank] */

/* Adds operand t, plain, broadcast to the dims of the walk, with which it must be
 * compatible. */
void qg_walk_add_broadcast(qg_walk *w, const qg_tensor *t);

/* Drops loops with one iteration and merges loops where every operand allows it.  Call
 * it last: earlier strides refer to the unmerged loops. */
void qg_walk_collapse(qg_walk *w);

bool qg_walk_empty(const qg_walk *w);                /* some dim is 0 */
bool qg_walk_next(const qg_walk *w, qg_walk_at *at); /* false after the last row */

/* n items of `bytes` bytes each, to_step and from_step bytes apart. */
void qg_copy_items(void *to, int64_t to_step, const void *from, int64_t from_step,
                   size_t bytes, int64_t n);

/* Both operands' loops over dim, collapsed: one that is written, one that is read. */
void qg_walk_pair(qg_walk *w, int32_t rank, const int64_t *dim, const int64_t *to,
                  const int64_t *from);

/* Copies `from`, broadcast, into all of `to`; the types are equal. */
void qg_stretch(const qg_tensor *from, qg_tensor *to);

/* Moves elements of `size` bytes from `from` (operand 1) to `to` (operand 0).
 * size is 1, 2, 4 or 8.  Rows that are dense on both sides are one memcpy. */
void qg_walk_copy(const qg_walk *w, size_t size, void *to, const void *from);

/* The extent that a and b broadcast to; -1: unknown, -2: not compatible. */
int64_t qg_broadcast_dim(int64_t a, int64_t b);

/* dims of out[0] = broadcast of inputs [first, first + n), type `dtype`.  Unknown dims
 * stay unknown unless the other tensor determines them; QG_EMODEL when two dims
 * disagree. */
QG_NODISCARD qg_status qg_infer_broadcast(const qg_call *k, size_t first, size_t n,
                                          qg_dtype dtype);

/* y[i] = f(a[i], b[i]) for i < n; sa and sb are 0 (one value for all) or 1. */
typedef void (*qg_row2)(const void *a, int64_t sa, const void *b, int64_t sb, void *y,
                        size_t n);

/* out = f(a, b) with a and b broadcast to the dims of out. Element sizes are those of
 * the tensors' types. */
void qg_run_row2(qg_row2 f, const qg_tensor *a, const qg_tensor *b, qg_tensor *out);

/* Operators with two inputs.  Until opset 6 broadcasting was requested by `broadcast`,
 * and `axis` gave the position of input 1 in the dims of input 0 (default: the last
 * ones).
 * Source: ONNX Add-6 (axis, broadcast) and Add-7 (numpy's rule). */
typedef struct qg_binary_param {
    bool legacy;  /* opsets 1 to 6: the other fields apply */
    bool stretch; /* attribute broadcast; else the dims must be equal */
    bool has_axis;
    int64_t axis;
} qg_binary_param;

/* For .prepare, .infer and .run of an operator with two inputs and qg_binary_param;
 * infer gives the output `dtype`, run requires all three shapes to be known. */
qg_status qg_binary_prepare(qg_ctx *ctx, const qg_node *n, void *param);
QG_NODISCARD qg_status qg_binary_infer(const qg_call *k, qg_dtype dtype);
/* For .free_axes: none where axes are not counted from the last. */
uint32_t qg_binary_free_axes(const qg_call *k);
void qg_binary_run(const qg_call *k, qg_row2 f);
/* Input 1 with the dims that the modern rule aligns as the node does; the call has been
 * inferred. */
qg_tensor qg_binary_view(const qg_call *k);
/* With the row function of the inputs' type (rows[QG_NDTYPE]); 16-bit floats as
 * float32. */
QG_NODISCARD qg_status qg_binary_run_rows(const qg_call *k, const qg_row2 *rows);

/* Before a loop over arrays that are the same or do not overlap: gcc may vectorise
 * without a check (clang checks at run time, at little cost). */
#if defined(__GNUC__) && !defined(__clang__)
#define QG_IVDEP _Pragma("GCC ivdep")
#else
#define QG_IVDEP
#endif

/* The body of a qg_row2: y[i] = (R)(expr) with T x = a[i] and T z = b[i]. */
#define QG_ROW2_BODY(T, U, R, expr)                                                    \
    const T *pa = a;                                                                   \
    const U *pb = b;                                                                   \
    R *py = y;                                                                         \
    if (sa && sb) {                                                                    \
        QG_IVDEP for (size_t i = 0; i < n; i++)                                        \
        {                                                                              \
            const T x = pa[i];                                                         \
            const U z = pb[i];                                                         \
            (void)x, (void)z, py[i] = (R)(expr);                                       \
        }                                                                              \
    } else if (sa) {                                                                   \
        const U z = pb[0];                                                             \
        QG_IVDEP for (size_t i = 0; i < n; i++)                                        \
        {                                                                              \
            const T x = pa[i];                                                         \
            (void)x, (void)z, py[i] = (R)(expr);                                       \
        }                                                                              \
    } else if (sb) {                                                                   \
        const T x = pa[0];                                                             \
        QG_IVDEP for (size_t i = 0; i < n; i++)                                        \
        {                                                                              \
            const U z = pb[i];                                                         \
            (void)x, (void)z, py[i] = (R)(expr);                                       \
        }                                                                              \
    } else {                                                                           \
        const T x = pa[0];                                                             \
        const U z = pb[0];                                                             \
        const R v = ((void)x, (void)z, (R)(expr));                                     \
        for (size_t i = 0; i < n; i++)                                                 \
            py[i] = v;                                                                 \
    }

#endif

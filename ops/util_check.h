/* util_check.h -- checks of operators, with uniform messages.
 *
 * All checks work on a call: at compile time (shapes may be unknown, rank -1 or dim -1,
 * which passes) and at run time.  An unsupported type is QG_EUNSUPPORTED, a shape that
 * contradicts ONNX is QG_EMODEL; both messages name node, opset and the accepted
 * values.  Absent inputs pass.
 *
 * In an operator's infer:
 *
 *     QG_TRY(qg_check_type(k, 0, QG_DT_FLOATS));
 *     QG_TRY(qg_check_same_type(k, 1, 2));
 *     QG_TRY(qg_check_rank(k, 0, 2, 2));
 *     QG_TRY(qg_check_dim(k, 1, 0, qg_in_dim(k, 0, 1))); */
#ifndef QG_OPS_UTIL_CHECK_H
#define QG_OPS_UTIL_CHECK_H

#include "engine/ir/graph.h"

/* Sets of types for the checks below. */
#define QG_DT_FLOATS (QG_DT(F32) | QG_DT(F16) | QG_DT(BF16) | QG_DT(F64))
#define QG_DT_UINTS  (QG_DT(U8) | QG_DT(U16) | QG_DT(U32) | QG_DT(U64))
#define QG_DT_SINTS  (QG_DT(I8) | QG_DT(I16) | QG_DT(I32) | QG_DT(I64))
#define QG_DT_BYTES  (QG_DT(U8) | QG_DT(I8))
#define QG_DT_INDEX  (QG_DT(I32) | QG_DT(I64))
#define QG_DT_PLAIN  (QG_DT_FLOATS | QG_DT_UINTS | QG_DT_SINTS | QG_DT(BOOL))

#define QG_DT_HALVES  (QG_DT(F16) | QG_DT(BF16))
#define QG_DT_INTS    (QG_DT_UINTS | QG_DT_SINTS)
#define QG_DT_NUMBERS (QG_DT_FLOATS | QG_DT_INTS)
#define QG_DT_FLOAT8                                                                   \
    (QG_DT(F8E4M3FN) | QG_DT(F8E4M3FNUZ) | QG_DT(F8E5M2) | QG_DT(F8E5M2FNUZ) |         \
     QG_DT(F8E8M0))
#define QG_DT_PACKED    (QG_DT(U4) | QG_DT(I4) | QG_DT(F4E2M1) | QG_DT(U2) | QG_DT(I2))
#define QG_DT_ADDRESSED (QG_DT_PLAIN | QG_DT_FLOAT8) /* elements of whole bytes */
#define QG_DT_ANY       (QG_DT_ADDRESSED | QG_DT_PACKED)

/* clang-format off */
/* X(id, suffix, C type, ...) for every type of a kind, and the entries of a table
 * [QG_NDTYPE] whose functions are called id_suffix. */
#define QG_EACH_FLOAT(X, id, ...)                                                      \
    X(id, f32, float, __VA_ARGS__)    X(id, f64, double, __VA_ARGS__)
#define QG_EACH_SIGNED(X, id, ...)                                                     \
    X(id, i8, int8_t, __VA_ARGS__)    X(id, i16, int16_t, __VA_ARGS__)                 \
    X(id, i32, int32_t, __VA_ARGS__)  X(id, i64, int64_t, __VA_ARGS__)
#define QG_EACH_UNSIGNED(X, id, ...)                                                   \
    X(id, u8, uint8_t, __VA_ARGS__)   X(id, u16, uint16_t, __VA_ARGS__)                \
    X(id, u32, uint32_t, __VA_ARGS__) X(id, u64, uint64_t, __VA_ARGS__)
#define QG_EACH_INT(X, id, ...)                                                        \
    QG_EACH_SIGNED(X, id, __VA_ARGS__) QG_EACH_UNSIGNED(X, id, __VA_ARGS__)
#define QG_ENTRIES_FLOAT(id) [QG_F32] = id##_f32, [QG_F64] = id##_f64
#define QG_ENTRIES_SIGNED(id)                                                          \
    [QG_I8] = id##_i8, [QG_I16] = id##_i16, [QG_I32] = id##_i32, [QG_I64] = id##_i64
#define QG_ENTRIES_UNSIGNED(id)                                                        \
    [QG_U8] = id##_u8, [QG_U16] = id##_u16, [QG_U32] = id##_u32, [QG_U64] = id##_u64
#define QG_ENTRIES_INT(id) QG_ENTRIES_SIGNED(id), QG_ENTRIES_UNSIGNED(id)
#define QG_ENTRIES_NUMBER(id) QG_ENTRIES_FLOAT(id), QG_ENTRIES_INT(id)
/* clang-format on */

/* True when the type is in the mask. */
#define QG_DT_HAS(mask, dtype) ((mask) >> (dtype)&1)

/* Heads of an attention: limits loops that shapes alone do not limit. */
enum { QG_MAX_HEADS = 1 << 16 };

/* return qg_infer_fail(k, QG_EMODEL, "rank %d, expected 4", rank); names the node. */
#define qg_infer_fail(k, status, ...)                                                  \
    qg_node_fail((k)->ctx, (status), "infer", (k)->node, __VA_ARGS__)
#define qg_run_fail(k, status, ...)                                                    \
    qg_node_fail((k)->ctx, (status), "run", (k)->node, __VA_ARGS__)

/* The largest extent in shape arithmetic; sums and products of two such numbers with
 * 16-bit factors fit int64_t. */
#define QG_MAX_EXTENT (INT64_C(1) << 46)

/* Input `slot` (when present) has a type of the mask. */
QG_NODISCARD qg_status qg_check_type(const qg_call *k, size_t slot, uint64_t mask);

/* Inputs first..last (those present) have a type of the mask. */
QG_NODISCARD qg_status qg_check_types(const qg_call *k, size_t first, size_t last,
                                      uint64_t mask);

/* Inputs first..last (those present) have the type of input 0.
 * last may exceed the node's last input. */
QG_NODISCARD qg_status qg_check_same_type(const qg_call *k, size_t first, size_t last);

/* Input `slot` has low <= rank <= high and every known dim within QG_MAX_EXTENT. */
QG_NODISCARD qg_status qg_check_rank(const qg_call *k, size_t slot, int32_t low,
                                     int32_t high);

/* Input `slot` has an axis `axis`, of extent `expected`; what is unknown on either side
 * passes. */
QG_NODISCARD qg_status qg_check_dim(const qg_call *k, size_t slot, int32_t axis,
                                    int64_t expected);

/* Input `slot` has rank `rank` and the dims of `dim`, as qg_check_dim. */
QG_NODISCARD qg_status qg_check_dims(const qg_call *k, size_t slot, int32_t rank,
                                     const int64_t *dim);

/* Input `slot` (when present) has one element, as far as its dims are known. */
QG_NODISCARD qg_status qg_check_one(const qg_call *k, size_t slot);

/* Input `slot` is a vector of `n` elements (n -1: of any number). */
QG_NODISCARD qg_status qg_check_vector(const qg_call *k, size_t slot, int64_t n);

/* The default of an INT attribute and its minimum. */
typedef struct qg_preset {
    int64_t value, least;
} qg_preset;

/* An INT within [least, 2^31 - 1]. */
QG_NODISCARD qg_status qg_attr_count(qg_ctx *ctx, const qg_node *n, const char *name,
                                     qg_preset preset, int64_t *out);

/* The input, or NULL when the slot is absent or beyond the last one given. */
static inline const qg_tensor *qg_in(const qg_call *k, size_t slot)
{
    return slot < k->n_in ? k->in[slot] : NULL;
}

/* The output, or NULL when it is unused. */
static inline qg_tensor *qg_out(const qg_call *k, size_t slot)
{
    return slot < k->n_out ? k->out[slot] : NULL;
}

/* The rank of an input, -1 when it is absent or not known. */
static inline int32_t qg_in_rank(const qg_call *k, size_t slot)
{
    const qg_tensor *t = qg_in(k, slot);
    return t ? t->rank : -1;
}

/* Dim of an input whose rank may be unknown: -1 then. */
static inline int64_t qg_in_dim(const qg_call *k, size_t slot, int32_t axis)
{
    return axis < qg_in_rank(k, slot) ? k->in[slot]->dim[axis] : -1;
}

/* Sets an output's type and dims when that output is used; rank -1: unknown. dim has
 * rank entries; -1 entries stay unknown. */
void qg_set_out(const qg_call *k, size_t slot, qg_dtype d, int32_t rank,
                const int64_t *dim);

/* qg_set_out of output 0; always QG_OK, so that infer functions end with it. */
QG_NODISCARD qg_status qg_infer_dims(const qg_call *k, qg_dtype d, int32_t rank,
                                     const int64_t *dim);

/* Output 0 has the type and dims of input 0: the infer of many operators. */
QG_NODISCARD qg_status qg_infer_same(const qg_call *k);

/* An axis of `rank` dims, counted from the end when negative, made non-negative.
 * QG_EMODEL outside of [-rank, rank).  rank is known. */
QG_NODISCARD qg_status qg_check_axis(const qg_call *k, int64_t axis, int32_t rank,
                                     int32_t *out);

#endif

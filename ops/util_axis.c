#include "ops/util_axis.h"

#include <assert.h>

#include "engine/core/num.h"

/* QG_MAX_INTS is twice the largest rank: pads are the longest lists. */
qg_status qg_ints_attr(qg_ctx *ctx, const qg_node *n, const char *name, qg_ints *out)
{
    const int64_t *at;
    size_t count;
    QG_TRY(qg_attr_ints(ctx, n, name, &at, &count));
    if (count > QG_MAX_INTS)
        return qg_node_fail(ctx, QG_EMODEL, "prepare", n,
                            "%s has %zu values, expected at most %d", name, count,
                            QG_MAX_INTS);
    *out = (qg_ints){ .given = qg_attr_has(n, name), .n = count };
    for (size_t i = 0; i < count; i++)
        out->at[i] = at[i];
    return QG_OK;
}

/* A scalar is a list with one element. */
qg_status qg_ints_input(const qg_call *k, size_t slot, qg_ints *out)
{
    const qg_tensor *t = qg_in(k, slot);
    if (!t) {
        *out = (qg_ints){ 0 };
        return QG_OK;
    }
    assert(t->data && qg_tensor_known(t));
    QG_TRY(qg_check_type(k, slot, QG_DT_INDEX));
    int64_t n = qg_tensor_count(t);
    if (t->rank > 1 || n > QG_MAX_INTS)
        return qg_infer_fail(k, QG_EMODEL,
                             "input %zu has rank %d and %lld values, expected a vector "
                             "of at most %d",
                             slot, (int)t->rank, (long long)n, QG_MAX_INTS);
    *out = (qg_ints){ .given = true, .n = (size_t)n };
    for (int64_t i = 0; i < n; i++)
        out->at[i] = qg_tensor_i64(t, i);
    return QG_OK;
}

/* Hostile shapes must not overflow the element count used for allocation. */
qg_status qg_check_shape(const qg_call *k, const qg_ints *shape)
{
    int64_t count = 1;
    if (shape->n > QG_MAX_RANK)
        return qg_infer_fail(k, QG_EUNSUPPORTED,
                             "output of rank %zu, supported up to %d", shape->n,
                             QG_MAX_RANK);
    for (size_t i = 0; i < shape->n; i++) {
        if (shape->at[i] < 0)
            return qg_infer_fail(k, QG_EMODEL, "dim %zu is %lld, expected 0 or more", i,
                                 (long long)shape->at[i]);
        if (!qg_mul_i64(count, shape->at[i], &count))
            return qg_infer_fail(k, QG_EMODEL, "more elements than int64 can count");
    }
    return QG_OK;
}

qg_status qg_axes_mask(const qg_call *k, const qg_ints *axes, int32_t rank,
                       uint32_t *mask)
{
    uint32_t seen = 0;
    for (size_t i = 0; i < axes->n; i++) {
        int32_t axis;
        QG_TRY(qg_check_axis(k, axes->at[i], rank, &axis));
        if (seen >> axis & 1u)
            return qg_infer_fail(k, QG_EMODEL, "axis %d is listed twice", (int)axis);
        seen |= 1u << axis;
    }
    *mask = seen;
    return QG_OK;
}

qg_around qg_around_axis(const qg_tensor *t, int32_t axis)
{
    assert(axis >= 0 && axis < t->rank);
    return (qg_around){ qg_dims_product(t, 0, axis), t->dim[axis],
                        qg_dims_product(t, axis + 1, t->rank) };
}

size_t qg_elements(const qg_tensor *t)
{
    int64_t n = qg_tensor_count(t);
    assert(n >= 0);
    return (size_t)n;
}

size_t qg_element_size(qg_dtype d)
{
    assert(qg_dtype_bits(d) >= 8);
    return qg_dtype_bits(d) / 8;
}

qg_status qg_run_copy(const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    qg_tensor *y = k->out[0];
    size_t bytes;
    assert(x->dtype == y->dtype && qg_elements(x) == qg_elements(y));
    QG_TRY(qg_tensor_bytes(k->ctx, "run", x, &bytes));
    if (bytes && y->data != x->data)
        memcpy(y->data, x->data, bytes);
    return QG_OK;
}

qg_status qg_index_input(const qg_call *k, int64_t i, int64_t dim, int64_t *out)
{
    const qg_tensor *t = k->in[1];
    const int64_t index = t->dtype == QG_I64 ? t->i64[i] : t->i32[i];
    if (index < -dim || index >= dim)
        return qg_run_fail(
            k, QG_EDATA, "index %lld at %lld, expected within [%lld, %lld]",
            (long long)index, (long long)i, -(long long)dim, (long long)dim - 1);
    *out = index < 0 ? index + dim : index;
    return QG_OK;
}

#include "ops/util_check.h"

#include <assert.h>

enum { TYPE_LIST = 256 };

/* "float16, float32" in `text`, truncated when it does not fit. */
static const char *type_list(uint64_t mask, char text[TYPE_LIST])
{
    size_t at = 0;
    text[0] = '\0';
    for (int d = 1; d < QG_NDTYPE; d++) {
        const char *name = qg_dtype_name((qg_dtype)d);
        size_t n = strlen(name);
        if (!(mask >> d & 1) || at + n + 3 > TYPE_LIST)
            continue;
        if (at)
            memcpy(text + at, ", ", 2), at += 2;
        memcpy(text + at, name, n + 1);
        at += n;
    }
    return text;
}

/* Lists every accepted type in the message. */
qg_status qg_check_type(const qg_call *k, size_t slot, uint64_t mask)
{
    const qg_tensor *t = qg_in(k, slot);
    char text[TYPE_LIST];
    if (!t || mask >> t->dtype & 1)
        return QG_OK;
    return qg_infer_fail(
        k, QG_EUNSUPPORTED, "input %zu has type %s at opset %d, expected one of %s",
        slot, qg_dtype_name(t->dtype), (int)k->node->opset, type_list(mask, text));
}

qg_status qg_check_types(const qg_call *k, size_t first, size_t last, uint64_t mask)
{
    for (size_t i = first; i <= last; i++)
        QG_TRY(qg_check_type(k, i, mask));
    return QG_OK;
}

qg_status qg_check_same_type(const qg_call *k, size_t first, size_t last)
{
    for (size_t i = first; i <= last && i < k->n_in; i++)
        if (k->in[i] && k->in[i]->dtype != k->in[0]->dtype)
            return qg_infer_fail(
                k, QG_EMODEL, "input %zu has type %s, expected %s as input 0", i,
                qg_dtype_name(k->in[i]->dtype), qg_dtype_name(k->in[0]->dtype));
    return QG_OK;
}

/* Unknown passes here and is checked again at run time. */
qg_status qg_check_rank(const qg_call *k, size_t slot, int32_t low, int32_t high)
{
    const qg_tensor *t = qg_in(k, slot);
    if (!t || t->rank < 0)
        return QG_OK;
    if (t->rank < low || t->rank > high)
        return low == high
                   ? qg_infer_fail(k, QG_EMODEL, "input %zu has rank %d, expected %d",
                                   slot, (int)t->rank, (int)low)
                   : qg_infer_fail(k, QG_EMODEL,
                                   "input %zu has rank %d, expected %d to %d", slot,
                                   (int)t->rank, (int)low, (int)high);
    for (int32_t i = 0; i < t->rank; i++)
        if (t->dim[i] > QG_MAX_EXTENT)
            return qg_infer_fail(
                k, QG_EMODEL, "input %zu: dimension %d is %lld, expected at most %lld",
                slot, (int)i, (long long)t->dim[i], (long long)QG_MAX_EXTENT);
    return QG_OK;
}

qg_status qg_check_dim(const qg_call *k, size_t slot, int32_t axis, int64_t expected)
{
    const int32_t rank = qg_in_rank(k, slot);
    if (rank >= 0 && axis >= rank)
        return qg_infer_fail(k, QG_EMODEL, "input %zu has rank %d, expected %d or more",
                             slot, (int)rank, (int)axis + 1);
    int64_t got = qg_in_dim(k, slot, axis);
    if (got < 0 || expected < 0 || got == expected)
        return QG_OK;
    return qg_infer_fail(k, QG_EMODEL, "input %zu: dimension %d is %lld, expected %lld",
                         slot, (int)axis, (long long)got, (long long)expected);
}

qg_status qg_check_dims(const qg_call *k, size_t slot, int32_t rank, const int64_t *dim)
{
    QG_TRY(qg_check_rank(k, slot, rank, rank));
    for (int32_t i = 0; i < rank; i++)
        QG_TRY(qg_check_dim(k, slot, i, dim[i]));
    return QG_OK;
}

qg_status qg_check_one(const qg_call *k, size_t slot)
{
    const qg_tensor *t = qg_in(k, slot);
    if (!t || !qg_tensor_known(t) || qg_tensor_count(t) == 1)
        return QG_OK;
    return qg_infer_fail(k, QG_EMODEL, "input %zu has %lld values, expected 1", slot,
                         (long long)qg_tensor_count(t));
}

qg_status qg_check_vector(const qg_call *k, size_t slot, int64_t n)
{
    QG_TRY(qg_check_rank(k, slot, 1, 1));
    return qg_check_dim(k, slot, 0, n);
}

qg_status qg_attr_count(qg_ctx *ctx, const qg_node *n, const char *name,
                        qg_preset preset, int64_t *out)
{
    QG_TRY(qg_attr_int(ctx, n, name, preset.value, out));
    if (*out >= preset.least && *out <= INT32_MAX)
        return QG_OK;
    return qg_node_fail(ctx, QG_EMODEL, "import", n,
                        "%s is %lld, expected %lld to 2147483647", name,
                        (long long)*out, (long long)preset.least);
}

void qg_set_out(const qg_call *k, size_t slot, qg_dtype d, int32_t rank,
                const int64_t *dim)
{
    qg_tensor *t = qg_out(k, slot);
    assert(rank <= QG_MAX_RANK);
    if (t && rank < 0)
        qg_tensor_unknown(t, d);
    else if (t)
        qg_tensor_init(t, d, rank, dim);
}

qg_status qg_infer_dims(const qg_call *k, qg_dtype d, int32_t rank, const int64_t *dim)
{
    qg_set_out(k, 0, d, rank, dim);
    return QG_OK;
}

qg_status qg_infer_same(const qg_call *k)
{
    return qg_infer_dims(k, k->in[0]->dtype, k->in[0]->rank, k->in[0]->dim);
}

/* ONNX counts negative axes from the end. */
qg_status qg_check_axis(const qg_call *k, int64_t axis, int32_t rank, int32_t *out)
{
    assert(rank >= 0 && rank <= QG_MAX_RANK);
    if (axis < -rank || axis >= rank)
        return qg_infer_fail(k, QG_EMODEL, "axis %lld, expected within [%d, %d]",
                             (long long)axis, -(int)rank, (int)rank - 1);
    *out = (int32_t)(axis < 0 ? axis + rank : axis);
    return QG_OK;
}

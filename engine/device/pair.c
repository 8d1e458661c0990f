#include "engine/device/pair.h"

#include <string.h>

#include "engine/ir/endpoint.h"

/* Strides with which a sample in file order is read as the value: order[k] is the
 * axis of the value that axis k of a sample is, the batch axis included.  An extent of
 * the type that is not known is that of the sample.  False: the extents do not fit;
 * then *out is undefined. */
static bool view_by(const qg_trace_array *a, const qg_tensor *type,
                    const int32_t *order, qg_tensor *out)
{
    int32_t rank = a->type.rank - 1, skip = type->rank - rank;
    int64_t stride = 1;
    qg_tensor_init(out, QG_F64, type->rank, type->dim);
    if (skip < 0 || skip > 1 || (skip == 1 && type->dim[0] != 1))
        return false; /* a sample has all axes, or all but a batch of 1 */
    for (int32_t k = rank; k-- > 0;) {
        int32_t axis = order[k + skip];
        if (type->dim[axis] >= 0 && type->dim[axis] != a->type.dim[k + 1])
            return false;
        out->dim[axis] = a->type.dim[k + 1];
        out->stride[axis] = stride;
        stride *= a->type.dim[k + 1];
    }
    if (skip)
        out->stride[0] = stride;
    return !skip || order[0] == 0;
}

static void identity(int32_t order[QG_MAX_RANK])
{
    for (int32_t k = 0; k < QG_MAX_RANK; k++)
        order[k] = k;
}

/* N, C, H, W stored as N, H, W, C. */
static void channels_last(int32_t rank, int32_t order[QG_MAX_RANK])
{
    identity(order);
    for (int32_t k = 1; k + 1 < rank; k++)
        order[k] = k + 1;
    if (rank > 1)
        order[rank - 1] = 1;
}

/* The given permutation; one that leaves the batch out counts from the next axis. */
static bool given(const qg_trace_array *a, int32_t rank, int32_t order[QG_MAX_RANK])
{
    int32_t skip = rank - a->n_axis;
    if (skip < 0 || skip > 1)
        return false;
    identity(order);
    for (int32_t k = 0; k < a->n_axis; k++)
        order[k + skip] = a->axis[k] + skip;
    return true;
}

/* A value of which not even the rank is known has the dims of the sample. */
static bool view_sample(const qg_trace_array *a, qg_tensor *out)
{
    qg_tensor_init(out, QG_F64, a->type.rank - 1, a->type.dim + 1);
    return !a->n_axis && !a->channels_last;
}

bool qg_pair_fits(const qg_trace_array *a, const qg_tensor *type, qg_pair *out)
{
    int32_t order[QG_MAX_RANK];
    out->moved = false;
    if (type->rank < 0)
        return view_sample(a, &out->view);
    if (a->n_axis)
        return given(a, type->rank, order) && view_by(a, type, order, &out->view);
    if (!a->channels_last) {
        identity(order);
        if (out->order == QG_ORDER_FOUND && view_by(a, type, order, &out->view))
            return true;
        out->moved = true;
    }
    channels_last(type->rank, order);
    return type->rank > 2 && view_by(a, type, order, &out->view);
}

bool qg_pair_has_dims(const qg_pair *p, const qg_tensor *t)
{
    return (uint64_t)qg_tensor_count(t) == p->array->count &&
           (t->rank != p->view.rank || qg_same_dims(t, &p->view));
}

qg_status qg_pair_unfit(const qg_graph *g, const qg_trace *t, const qg_trace_array *a,
                        const qg_tensor *type)
{
    char text[2][QG_SHAPE_TEXT];
    const char *order = a->n_axis          ? " in the order of its permutation"
                        : a->channels_last ? " in its layout nhwc"
                                           : "";
    return qg_fail(g->ctx, QG_EDATA,
                   "read %.200s: array '%.1000s' is %s, expected samples in its first "
                   "axis, then the dims of %s%s%s",
                   t->path, a->value, qg_tensor_text(&a->type, text[0]),
                   qg_tensor_text(type, text[1]), order,
                   qg_tensor_known(type) || qg_graph_inputs_are_known(g)
                       ? ""
                       : "; the network leaves dims open: samples of one shape "
                         "are compared, and --shape gives it");
}

bool qg_pair_is_ambiguous(const qg_trace_array *a, const qg_tensor *type)
{
    qg_pair found = { 0 }, last = { .order = QG_ORDER_CHANNELS_LAST };
    return !a->layout && !a->n_axis && qg_pair_fits(a, type, &found) && !found.moved &&
           qg_pair_fits(a, type, &last);
}

/* A name goes before an endpoint.  Constants are no pair: they are no results. */
const qg_value *qg_pair_named(const qg_graph *g, const qg_trace_array *a,
                              const char **how)
{
    qg_endpoint at;
    const qg_value *v = qg_graph_value(g, a->value);
    *how = "name";
    if (!v && a->endpoint && qg_endpoint_named(g, a->endpoint, &at)) {
        *how = "endpoint";
        v = qg_endpoint_value(at);
    }
    return v && !v->constant ? v : NULL;
}

/* The elements are read in the order of the file into a tensor whose strides are
 * those of the view, and copied only when that order is not the value's. */
qg_status qg_pair_read(qg_ctx *ctx, const qg_pair *p, const qg_trace_data *d,
                       size_t sample, qg_arena *a, double **out)
{
    qg_tensor from = p->view, to = p->view;
    QG_TRY(qg_tensor_alloc(ctx, a, &from));
    memcpy(from.stride, p->view.stride, sizeof from.stride);
    QG_TRY(qg_trace_sample(ctx, d, sample, from.f64));
    *out = from.f64;
    if (qg_tensor_is_plain(&from))
        return QG_OK;
    qg_tensor_set_plain(&to);
    QG_TRY(qg_tensor_alloc(ctx, a, &to));
    qg_tensor_copy(&from, &to);
    *out = to.f64;
    return QG_OK;
}

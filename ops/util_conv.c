#include "ops/util_conv.h"

#include "ops/util_check.h"

qg_status qg_conv_read(qg_ctx *ctx, const qg_node *n, void *param)
{
    qg_conv_param *p = param;
    QG_TRY(qg_window_read(ctx, n, &p->window));
    return qg_attr_count(ctx, n, "group", (qg_preset){ 1, 1 }, &p->group);
}

int qg_conv_axis(const qg_node *node)
{
    (void)node;
    return 0;
}

/* Output channels; -1 when the weight's shape is not known. */
static int64_t channels_of(const qg_conv_param *p, const qg_tensor *w, bool transposed)
{
    if (w->rank < 2)
        return -1;
    int64_t dim = w->dim[transposed ? 1 : 0];
    return transposed && dim >= 0 ? dim * p->group : dim;
}

/* ConvTranspose has its input channels first in the weight. */
static qg_status check_channels(const qg_call *k, const qg_conv_param *p,
                                qg_conv_slots s)
{
    int64_t c = qg_in_dim(k, s.x, 1), c_per_group = c < 0 ? -1 : c / p->group;
    int64_t m = channels_of(p, k->in[s.weight], s.transposed);
    if ((c >= 0 && c % p->group) || (m >= 0 && m % p->group))
        return qg_infer_fail(
            k, QG_EMODEL,
            "%lld input and %lld output channels, expected multiples of "
            "group %lld",
            (long long)c, (long long)m, (long long)p->group);
    if (s.transposed)
        QG_TRY(qg_check_dim(k, s.weight, 0, c));
    else
        QG_TRY(qg_check_dim(k, s.weight, 1, c_per_group));
    return qg_check_vector(k, s.bias, m);
}

/* Output extents in either direction. */
static qg_status resolve(const qg_call *k, const qg_conv_param *p, qg_conv_slots s,
                         qg_space *space)
{
    return (s.transposed ? qg_window_resolve_transpose : qg_window_resolve)(
        k, &p->window, k->in[s.x], k->in[s.weight], space);
}

/* Inference without data; weights are often constant, and their shape is always
 * known. */
qg_status qg_conv_infer(const qg_call *k, const qg_conv_param *p, qg_conv_slots s,
                        qg_dtype d)
{
    const qg_tensor *x = k->in[s.x], *w = k->in[s.weight];
    QG_TRY(qg_check_rank(k, s.x, 3, QG_SPACE + 2));
    if (x->rank < 0)
        return qg_infer_dims(k, d, -1, NULL);
    QG_TRY(qg_check_rank(k, s.weight, x->rank, x->rank));
    QG_TRY(check_channels(k, p, s));
    qg_space space;
    int64_t dim[QG_MAX_RANK] = { x->dim[0], channels_of(p, w, s.transposed) };
    QG_TRY(resolve(k, p, s, &space));
    qg_space_dims(&space, dim);
    return qg_infer_dims(k, d, x->rank, dim);
}

qg_status qg_conv_problem_of(const qg_call *k, const qg_conv_param *p, qg_conv_slots s,
                             qg_conv_problem *out)
{
    const qg_tensor *x = k->in[s.x];
    qg_space space;
    QG_TRY(resolve(k, p, s, &space));
    *out = (qg_conv_problem){
        .axes = x->rank - 2,
        .batch = x->dim[0],
        .groups = p->group,
        .in_channels = x->dim[1],
        .out_channels = channels_of(p, k->in[s.weight], s.transposed),
    };
    for (int a = 0; a < QG_SPACE; a++) {
        out->in[a] = space.in[a];
        out->out[a] = space.out[a];
        out->kernel[a] = space.kernel[a];
        out->stride[a] = space.stride[a];
        out->dilation[a] = space.dilation[a];
        out->pad_begin[a] = space.pad_begin[a];
        out->pad_end[a] = space.pad_end[a];
    }
    return QG_OK;
}

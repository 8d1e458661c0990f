#include "ops/util_conv.h"

#include "ops/util_check.h"

qg_status qg_conv_read(qg_ctx *ctx, const qg_node *n, qg_conv_param *out)
{
    QG_TRY(qg_window_read(ctx, n, &out->window));
    QG_TRY(qg_attr_int(ctx, n, "group", 1, &out->group));
    if (out->group < 1 || out->group > INT32_MAX)
        return qg_node_fail(ctx, QG_EMODEL, "import", n,
                            "group is %lld, expected 1 to 2147483647",
                            (long long)out->group);
    return QG_OK;
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
        return qg_node_fail(
            k->ctx, QG_EMODEL, "infer", k->node,
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

/* Everything that can be said without data; weights are often constant, their shape
 * always known. */
qg_status qg_conv_infer(const qg_call *k, const qg_conv_param *p, qg_conv_slots s,
                        qg_dtype d)
{
    const qg_tensor *x = k->in[s.x], *w = k->in[s.weight];
    QG_TRY(qg_check_rank(k, s.x, 3, QG_SPACE + 2));
    if (x->rank < 0) {
        qg_set_out(k, 0, d, -1, NULL);
        return QG_OK;
    }
    QG_TRY(qg_check_rank(k, s.weight, x->rank, x->rank));
    QG_TRY(check_channels(k, p, s));
    qg_space space;
    int64_t dim[QG_MAX_RANK] = { x->dim[0], channels_of(p, w, s.transposed) };
    QG_TRY(resolve(k, p, s, &space));
    qg_space_dims(&space, dim);
    qg_set_out(k, 0, d, x->rank, dim);
    return QG_OK;
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

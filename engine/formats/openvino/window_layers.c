#include "engine/formats/openvino/window_layers.h"

#include <assert.h>
#include <string.h>

#include "engine/formats/explicit_pads.h"

enum { SPATIAL = QG_MAX_RANK - 2 };

typedef struct window {
    int64_t stride[SPATIAL], dilation[SPATIAL], pad[2 * SPATIAL];
    int64_t more[SPATIAL]; /* output_padding, of transposed convolutions */
    int automatic;         /* index of `onnx` */
} window;

enum { NOTSET, SAME_UPPER, SAME_LOWER, VALID };
static const char *const onnx[] = { "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID",
                                    NULL };

static qg_status read_window(qg_ir *ir, const qg_node *n, size_t count, window *w)
{
    qg_int_bounds one = { 1, 1, INT32_MAX }, zero = { 0, INT32_MIN, INT32_MAX };
    QG_TRY(qg_attr_ints_n(ir->ctx, n, "strides", count, one, w->stride));
    QG_TRY(qg_attr_ints_n(ir->ctx, n, "dilations", count, one, w->dilation));
    QG_TRY(qg_attr_ints_n(ir->ctx, n, "pads", 2 * count, zero, w->pad));
    QG_TRY(qg_attr_ints_n(ir->ctx, n, "output_padding", count, zero, w->more));
    return qg_attr_choice(ir->ctx, n, "auto_pad", onnx, NOTSET, &w->automatic);
}

static const char *window_text(qg_ir *ir, const window *w, size_t count, bool dilates)
{
    static const char *const words[] = { "explicit", "same_upper", "same_lower",
                                         "valid" };
    const char *d =
        qg_ir_text(ir, "dilations=\"%s\" ", qg_ir_list(ir, count, w->dilation));
    return qg_ir_text(
        ir, "strides=\"%s\" %spads_begin=\"%s\" pads_end=\"%s\" auto_pad=\"%s\"",
        qg_ir_list(ir, count, w->stride), dilates ? d : "",
        qg_ir_list(ir, count, w->pad), qg_ir_list(ir, count, w->pad + count),
        words[w->automatic]);
}

/* Weights with the groups as an axis of their own: [G, M/G, ...]. */
static qg_status grouped(qg_ir *ir, const qg_node *n, int64_t groups, qg_ir_source *w)
{
    const qg_tensor *t = &n->in[1]->type;
    int64_t dim[QG_MAX_RANK + 1] = { groups, t->dim[0] / groups };
    qg_tensor shape;
    assert(groups > 1 && t->rank >= 3);
    if (t->rank >= QG_MAX_RANK)
        return qg_ir_refuse(ir, n, "weights of rank %d", (int)t->rank);
    for (int32_t i = 1; i < t->rank; i++)
        dim[i + 1] = t->dim[i];
    qg_tensor_init(&shape, t->dtype, t->rank + 1, dim);
    return qg_ir_reshaped(ir, n, "weights", *w, &shape, w);
}

/* y = x + bias along axis 1; without bias x is y. */
static qg_status finish_biased(qg_ir *ir, const qg_node *n, qg_ir_layer l)
{
    const qg_tensor *y = &n->out[0]->type;
    int64_t dim[QG_MAX_RANK] = { 1, y->dim[1], 1, 1, 1, 1, 1, 1 };
    qg_ir_source in[2], bias;
    qg_tensor t;
    if (n->n_in < 3 || !n->in[2])
        return qg_ir_finish(ir, n, l);
    l.out = y;
    l.n_out = 1;
    QG_TRY(qg_ir_inner(ir, n, "without_bias", l, &in[0]));
    QG_TRY(qg_ir_value(ir, n->in[2], &bias));
    qg_tensor_init(&t, QG_F32, y->rank, dim);
    QG_TRY(qg_ir_reshaped(ir, n, "bias", bias, &t, &in[1]));
    return qg_ir_finish(ir, n, qg_ir_layer_of(&qg_ir_add_row, QG_IR_NUMPY, in, 2));
}

/* Groups are an axis of the weights there, and the layer has another name. */
static qg_status put_convolution(qg_ir *ir, const qg_node *n, const qg_ir_row *r,
                                 const char *data)
{
    qg_ir_source in[2];
    int64_t groups;
    QG_TRY(qg_ir_inputs(ir, n, 2, in));
    QG_TRY(qg_attr_int(ir->ctx, n, "group", 1, &groups));
    if (groups > 1)
        QG_TRY(grouped(ir, n, groups, &in[1]));
    const char *type = groups > 1 ? qg_ir_text(ir, "Group%s", r->type) : r->type;
    qg_ir_layer l = {
        .type = type, .opset = r->opset, .data = data, .in = in, .n_in = 2
    };
    return finish_biased(ir, n, l);
}

qg_status qg_ir_convolution(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    window w;
    size_t spatial = (size_t)n->in[1]->type.rank - 2;
    QG_TRY(read_window(ir, n, spatial, &w));
    return put_convolution(ir, n, r, window_text(ir, &w, spatial, true));
}

/* Weights are [in, out / group, ...] in both; the grouped form has [group, ...] in
 * front. */
qg_status qg_ir_deconvolution(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    static const qg_ir_row transposed = { .type = "ConvolutionBackpropData",
                                          .opset = "opset1" };
    window w;
    size_t spatial = (size_t)n->in[1]->type.rank - 2;
    (void)r;
    QG_TRY(read_window(ir, n, spatial, &w));
    if (qg_has_open_pads(n))
        return qg_ir_refuse(ir, n,
                            "auto_pad or output_shape with open dims, expected pads, "
                            "or dims that are known, as with --shape");
    const char *text = window_text(ir, &w, spatial, true);
    return put_convolution(ir, n, &transposed,
                           qg_ir_text(ir, "%s output_padding=\"%s\"", text,
                                      qg_ir_list(ir, spatial, w.more)));
}

/* Extents are rounded down: pads that ceil_mode needs are explicit by now
 * (explicit_pads.h, openvino_plugin.h).  Means leave padding out unless
 * count_include_pad is set; the row's data marks means. */
qg_status qg_ir_pool(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    qg_ir_source in[1];
    int64_t count_pad, kernel[2 * QG_MAX_RANK], dilation[2 * QG_MAX_RANK];
    size_t spatial = (size_t)n->in[0]->type.rank - 2, count;
    window w;
    QG_TRY(qg_ir_inputs(ir, n, 1, in));
    QG_TRY(qg_ir_ints(ir, n, "dilations", UINT32_MAX, &count, dilation));
    for (size_t i = 0; i < count; i++)
        if (dilation[i] != 1)
            return qg_ir_refuse(ir, n, "dilations, expected none");
    QG_TRY(qg_ir_ints(ir, n, "kernel_shape", UINT32_MAX, &count, kernel));
    QG_TRY(qg_attr_int(ir->ctx, n, "count_include_pad", 0, &count_pad));
    QG_TRY(read_window(ir, n, spatial, &w));
    if (w.automatic == VALID) {
        memset(w.pad, 0, sizeof w.pad);
        w.automatic = NOTSET;
    }
    const char *text = window_text(ir, &w, spatial, false);
    const char *exclude = count_pad ? "exclude-pad=\"false\"" : "exclude-pad=\"true\"";
    const char *data =
        qg_ir_text(ir, "%s kernel=\"%s\" rounding_type=\"floor\" %s", text,
                   qg_ir_list(ir, spatial, kernel), r->data ? exclude : "");
    return qg_ir_finish(ir, n, qg_ir_layer_of(r, data, in, 1));
}

/* util_upgrade.c -- converts a node from one version of its operator to the next
 * (engine/ir/upgrade.h walks).
 *
 * A row without `run` means that every older form is valid and unchanged in the newer
 * version (new types, new optional attributes with the old behaviour as default).
 * Source: the "Version" sections of the ONNX operator pages. */
#include <string.h>

#include "engine/ir/edit.h"
#include "ops/families.h"

/* --- attributes --- */

static qg_status drop(qg_graph *g, qg_node *n, const char *name)
{
    qg_attr *kept = QG_NEWN(g->arena, n->n_attr, qg_attr);
    size_t count = 0;
    if (!kept)
        return qg_nomem(g->ctx);
    for (size_t i = 0; i < n->n_attr; i++)
        if (strcmp(n->attr[i].name, name) != 0)
            kept[count++] = n->attr[i];
    n->attr = kept;
    n->n_attr = count;
    return QG_OK;
}

/* Appends one more; a->name need not be interned. */
static qg_status append(qg_graph *g, qg_node *n, const qg_attr *a)
{
    qg_attr *all = QG_NEWN(g->arena, n->n_attr + 1, qg_attr);
    if (!all)
        return qg_nomem(g->ctx);
    if (n->n_attr)
        memcpy(all, n->attr, n->n_attr * sizeof *all);
    all[n->n_attr] = *a;
    all[n->n_attr].name = qg_intern(g->ctx, a->name);
    n->attr = all;
    n->n_attr++;
    return all[n->n_attr - 1].name ? QG_OK : qg_nomem(g->ctx);
}

/* Sets a scalar attribute: its one element, of `size` bytes, is copied. */
static qg_status set_scalar(qg_graph *g, qg_node *n, qg_attr a, size_t size)
{
    void *copy = qg_arena_raw(g->arena, 1, size);
    if (!copy)
        return qg_nomem(g->ctx);
    memcpy(copy, a.ints, size);
    a.ints = copy;
    a.count = 1;
    QG_TRY(drop(g, n, a.name));
    return append(g, n, &a);
}

static qg_status set_int(qg_graph *g, qg_node *n, const char *name, int64_t x)
{
    qg_attr a = { .name = name, .type = QG_ATTR_INT, .ints = &x };
    return set_scalar(g, n, a, sizeof x);
}

static qg_status set_float(qg_graph *g, qg_node *n, const char *name, float x)
{
    qg_attr a = { .name = name, .type = QG_ATTR_FLOAT, .floats = &x };
    return set_scalar(g, n, a, sizeof x);
}

static qg_status set_word(qg_graph *g, qg_node *n, const char *name, const char *word)
{
    qg_attr a = { .name = name, .type = QG_ATTR_STRING, .strings = &word };
    return set_scalar(g, n, a, sizeof word);
}

/* --- inputs --- */

static qg_status set_input(qg_graph *g, qg_node *n, uint32_t slot, qg_value *v)
{
    QG_TRY(qg_edit_grow_inputs(g, n, slot + 1));
    return qg_edit_set_input(g, n, slot, v);
}

/* A constant named after the node, as its input. */
static qg_status set_constant(qg_graph *g, qg_node *n, uint32_t slot, const char *what,
                              const qg_tensor *t)
{
    qg_tensor *copy;
    qg_value *v;
    const char *name = qg_arena_printf(g->arena, "%s_%s", n->name, what);
    if (!name)
        return qg_nomem(g->ctx);
    QG_TRY(qg_tensor_clone(g->ctx, g->arena, t, &copy));
    QG_TRY(qg_edit_add_constant(g, name, copy, &v));
    return set_input(g, n, slot, v);
}

static qg_status set_ints(qg_graph *g, qg_node *n, uint32_t slot, const char *what,
                          const int64_t *x, size_t count)
{
    qg_tensor t;
    int64_t dim = (int64_t)count;
    qg_tensor_init(&t, QG_I64, 1, &dim);
    t.data = (void *)(uintptr_t)x;
    return set_constant(g, n, slot, what, &t);
}

/* Attribute of INTS `name` becomes input `slot`; absent stays absent. */
static qg_status ints_to_input(qg_graph *g, qg_node *n, const char *name, uint32_t slot)
{
    const int64_t *x;
    size_t count;
    if (!qg_attr_has(n, name))
        return QG_OK;
    QG_TRY(qg_attr_ints(g->ctx, n, name, &x, &count));
    QG_TRY(set_ints(g, n, slot, name, x, count));
    return drop(g, n, name);
}

/* A scalar of the type that input 0 has (float32 when that is not known). */
static qg_status scalar_to_input(qg_graph *g, qg_node *n, const char *name, float x,
                                 uint32_t slot)
{
    qg_tensor t;
    qg_dtype d = n->in[0] ? n->in[0]->type.dtype : QG_F32;
    double wide = x;
    if (d != QG_F32 && d != QG_F64 && d != QG_NODTYPE)
        return qg_node_fail(g->ctx, QG_EUNSUPPORTED, "export", n,
                            "%s of %s cannot become an input, expected float32", name,
                            qg_dtype_name(d));
    qg_tensor_scalar(&t, d == QG_F64 ? QG_F64 : QG_F32);
    t.data = d == QG_F64 ? (void *)&wide : (void *)&x;
    QG_TRY(set_constant(g, n, slot, name, &t));
    return drop(g, n, name);
}

/* --- additional nodes --- */

/* A node at the target opset of the graph. */
static qg_status add_node(qg_graph *g, const char *op, int64_t opset,
                          const qg_node_spec *like)
{
    qg_node *made;
    qg_node_spec spec = *like;
    spec.op = qg_op_find(g->ctx->registry, NULL, op, opset);
    spec.opset = opset;
    if (!spec.op)
        return qg_fail(g->ctx, QG_EUNSUPPORTED, "export: opset %lld has no %s",
                       (long long)opset, op);
    return qg_graph_add_node(g, &spec, &made);
}

/* in[0 .. n) -> op -> a new value named after in[0]. */
static qg_status add_before(qg_graph *g, const char *op, int64_t opset,
                            const qg_node_spec *like, qg_value **out)
{
    qg_node_spec spec = *like;
    QG_TRY(qg_graph_add_prefixed(g, like->in[0]->name, out));
    spec.out = out;
    spec.n_out = 1;
    return add_node(g, op, opset, &spec);
}

/* The rank of an input; QG_EUNSUPPORTED when it is not known. */
static qg_status rank_of(qg_graph *g, const qg_node *n, uint32_t slot, int64_t *rank)
{
    *rank = n->in[slot] ? n->in[slot]->type.rank : -1;
    if (*rank >= 0)
        return QG_OK;
    return qg_node_fail(g->ctx, QG_EUNSUPPORTED, "export", n,
                        "the rank of input %u is unknown, expected a known rank", slot);
}

/* --- operators --- */

/* Appends `trailing` dims of extent 1 to input 1. */
static qg_status widen(qg_graph *g, qg_node *n, int64_t trailing, int64_t opset)
{
    int64_t rank, axis[QG_MAX_RANK];
    qg_value *axes, *wide;
    qg_tensor t, *copy;
    QG_TRY(rank_of(g, n, 1, &rank));
    if (trailing <= 0 || trailing + rank > QG_MAX_RANK)
        return QG_OK;
    for (int64_t i = 0; i < trailing; i++)
        axis[i] = rank + i;
    qg_tensor_init(&t, QG_I64, 1, &trailing);
    t.data = axis;
    QG_TRY(qg_tensor_clone(g->ctx, g->arena, &t, &copy));
    QG_TRY(qg_edit_add_constant(g, n->name, copy, &axes));
    qg_value *in[] = { n->in[1], axes };
    QG_TRY(add_before(g, "Unsqueeze", opset, &(qg_node_spec){ .in = in, .n_in = 2 },
                      &wide));
    return qg_edit_set_input(g, n, 1, wide);
}

/* Until 6, `axis` was the first dim of input 0 to which input 1 is aligned. */
static qg_status broadcast(qg_graph *g, qg_node *n, int64_t opset)
{
    int64_t axis, first, second;
    QG_TRY(qg_attr_int(g->ctx, n, "axis", INT64_MIN, &axis));
    if (axis != INT64_MIN) {
        QG_TRY(rank_of(g, n, 0, &first));
        QG_TRY(rank_of(g, n, 1, &second));
        QG_TRY(widen(g, n, first - second - (axis < 0 ? axis + first : axis), opset));
    }
    QG_TRY(drop(g, n, "axis"));
    return drop(g, n, "broadcast");
}

/* Until 6 a slope per channel was a vector. */
static qg_status slope(qg_graph *g, qg_node *n, int64_t opset)
{
    int64_t rank, own;
    QG_TRY(rank_of(g, n, 0, &rank));
    QG_TRY(rank_of(g, n, 1, &own));
    bool shared = own == 1 && n->in[1]->type.dim[0] == 1;
    return own == 1 && !shared ? widen(g, n, rank - 2, opset) : QG_OK;
}

static qg_status batchnorm_test(qg_graph *g, qg_node *n, int64_t opset)
{
    (void)opset;
    return drop(g, n, "is_test");
}

/* Its value is 1: prepare rejects others. */
static qg_status batchnorm_spatial(qg_graph *g, qg_node *n, int64_t opset)
{
    (void)opset;
    return drop(g, n, "spatial");
}

static qg_status clip(qg_graph *g, qg_node *n, int64_t opset)
{
    static const char *const name[] = { "min", "max" };
    (void)opset;
    for (uint32_t i = 0; i < 2; i++) {
        float x;
        if (!qg_attr_has(n, name[i]))
            continue;
        QG_TRY(qg_attr_float(g->ctx, n, name[i], 0, &x));
        QG_TRY(scalar_to_input(g, n, name[i], x, i + 1));
    }
    return QG_OK;
}

static qg_status concat(qg_graph *g, qg_node *n, int64_t opset)
{
    (void)opset;
    return qg_attr_has(n, "axis") ? QG_OK : set_int(g, n, "axis", 1);
}

/* In inference the ratio has no effect. */
static qg_status dropout(qg_graph *g, qg_node *n, int64_t opset)
{
    (void)opset;
    if (n->n_out > 1 && n->out[1] && qg_value_watchers(n->out[1]))
        return qg_node_fail(g->ctx, QG_EUNSUPPORTED, "export", n,
                            "its mask is read, expected only the values: the mask has "
                            "another type from opset 12 on");
    QG_TRY(drop(g, n, "ratio"));
    return drop(g, n, "is_test");
}

static qg_status gemm(qg_graph *g, qg_node *n, int64_t opset)
{
    (void)opset;
    return drop(g, n, "broadcast");
}

static qg_status pad(qg_graph *g, qg_node *n, int64_t opset)
{
    float value = 0;
    const char *mode;
    (void)opset;
    QG_TRY(ints_to_input(g, n, "pads", 1));
    QG_TRY(qg_attr_float(g->ctx, n, "value", 0, &value));
    QG_TRY(qg_attr_string(g->ctx, n, "mode", "constant", &mode));
    if (value != 0 && strcmp(mode, "constant") == 0)
        return scalar_to_input(g, n, "value", value, 2);
    return drop(g, n, "value");
}

static qg_status pad_name(qg_graph *g, qg_node *n, int64_t opset)
{
    const int64_t *x;
    size_t count;
    (void)opset;
    if (!qg_attr_has(n, "paddings"))
        return QG_OK;
    QG_TRY(qg_attr_ints(g->ctx, n, "paddings", &x, &count));
    QG_TRY(append(
        g, n,
        &(qg_attr){ .name = "pads", .type = QG_ATTR_INTS, .count = count, .ints = x }));
    return drop(g, n, "paddings");
}

static qg_status axes(qg_graph *g, qg_node *n, int64_t opset)
{
    (void)opset;
    return ints_to_input(g, n, "axes", 1);
}

static qg_status reshape(qg_graph *g, qg_node *n, int64_t opset)
{
    (void)opset;
    return ints_to_input(g, n, "shape", 1);
}

static qg_status split_sizes(qg_graph *g, qg_node *n, int64_t opset)
{
    (void)opset;
    return ints_to_input(g, n, "split", 1);
}

static qg_status split_number(qg_graph *g, qg_node *n, int64_t opset)
{
    (void)opset;
    return n->n_in > 1 && n->in[1] ? QG_OK
                                   : set_int(g, n, "num_outputs", (int64_t)n->n_out);
}

static qg_status upsample(qg_graph *g, qg_node *n, int64_t opset)
{
    const float *x;
    size_t count;
    qg_tensor t;
    (void)opset;
    QG_TRY(qg_attr_floats(g->ctx, n, "scales", &x, &count));
    int64_t dim = (int64_t)count;
    qg_tensor_init(&t, QG_F32, 1, &dim);
    t.data = (void *)(uintptr_t)x;
    QG_TRY(set_constant(g, n, 1, "scales", &t));
    return drop(g, n, "scales");
}

/* Until 10 element i was read at floor(i / scale); scales are input 2 since 11. */
static qg_status resize(qg_graph *g, qg_node *n, int64_t opset)
{
    (void)opset;
    QG_TRY(set_input(g, n, 2, n->in[1]));
    QG_TRY(qg_edit_set_input(g, n, 1, NULL));
    QG_TRY(set_word(g, n, "coordinate_transformation_mode", "asymmetric"));
    return set_word(g, n, "nearest_mode", "floor");
}

/* 20 has shorter words. */
static qg_status grid_mode(qg_graph *g, qg_node *n, int64_t opset)
{
    const char *mode;
    (void)opset;
    QG_TRY(qg_attr_string(g->ctx, n, "mode", "bilinear", &mode));
    return set_word(g, n, "mode",
                    strcmp(mode, "bilinear") == 0  ? "linear"
                    : strcmp(mode, "bicubic") == 0 ? "cubic"
                                                   : mode);
}

static qg_status roi_align(qg_graph *g, qg_node *n, int64_t opset)
{
    (void)opset;
    return set_word(g, n, "coordinate_transformation_mode", "output_half_pixel");
}

/* Selu-1's own constants; 6 has them with more digits. */
static qg_status selu(qg_graph *g, qg_node *n, int64_t opset)
{
    (void)opset;
    if (!qg_attr_has(n, "alpha"))
        QG_TRY(set_float(g, n, "alpha", 1.6732f));
    return qg_attr_has(n, "gamma") ? QG_OK : set_float(g, n, "gamma", 1.0507f);
}

static qg_status slice(qg_graph *g, qg_node *n, int64_t opset)
{
    (void)opset;
    QG_TRY(ints_to_input(g, n, "starts", 1));
    QG_TRY(ints_to_input(g, n, "ends", 2));
    return ints_to_input(g, n, "axes", 3);
}

static qg_status topk(qg_graph *g, qg_node *n, int64_t opset)
{
    int64_t k;
    (void)opset;
    QG_TRY(qg_attr_int(g->ctx, n, "k", 0, &k));
    QG_TRY(set_ints(g, n, 1, "k", &k, 1));
    return drop(g, n, "k");
}

/* The output of n gets another name; its readers and its place in the interface go to a
 * new value, *out, which has the name. */
static qg_status take_output(qg_graph *g, qg_node *n, qg_value **out)
{
    qg_value *y = n->out[0];
    bool is_output = y->is_output;
    QG_TRY(qg_graph_add_prefixed(g, y->name, out));
    (*out)->type = y->type;
    QG_TRY(qg_edit_replace_value(g, y, *out));
    if (!is_output)
        qg_value_swap_names(g, y, *out);
    qg_tensor_unknown(&y->type, y->type.dtype);
    return QG_OK;
}

/* Flatten, the operator along the last axis, Reshape to the old dims. */
static qg_status softmax_rows(qg_graph *g, qg_node *n, int64_t axis, int64_t opset)
{
    qg_value *x = n->in[0], *flat, *shape, *y;
    int64_t *at = QG_NEW(g->arena, int64_t);
    qg_attr *a = QG_NEW(g->arena, qg_attr);
    const char *name = qg_intern(g->ctx, "axis");
    if (!at || !a || !name)
        return qg_nomem(g->ctx);
    *at = axis;
    *a = (qg_attr){ .name = name, .type = QG_ATTR_INT, .count = 1, .ints = at };
    qg_node_spec one = { .in = &x, .n_in = 1 };
    QG_TRY(add_before(g, "Shape", opset, &one, &shape));
    one.attr = a;
    one.n_attr = 1;
    QG_TRY(add_before(g, "Flatten", opset, &one, &flat));
    QG_TRY(qg_edit_set_input(g, n, 0, flat));
    QG_TRY(take_output(g, n, &y));
    qg_value *in[] = { n->out[0], shape };
    return add_node(g, "Reshape", opset,
                    &(qg_node_spec){ .in = in, .n_in = 2, .out = &y, .n_out = 1 });
}

/* Until 12 the dims from axis on were one row; since 13 only the axis counts. */
static qg_status softmax(qg_graph *g, qg_node *n, int64_t opset)
{
    int64_t axis, rank;
    QG_TRY(qg_attr_int(g->ctx, n, "axis", 1, &axis));
    QG_TRY(rank_of(g, n, 0, &rank));
    axis += axis < 0 ? rank : 0;
    if (axis != rank - 1)
        QG_TRY(softmax_rows(g, n, axis, opset));
    return set_int(g, n, "axis", -1);
}

/* --- the table --- */

#define SAME(op, row)                                                                  \
    {                                                                                  \
        .name = op, .since = row                                                       \
    }
#define REDUCE(op)                                                                     \
    {                                                                                  \
        .name = op, .since = 1, .run = axes                                            \
    }

/* clang-format off */
const qg_upgrade qg_ops_upgrades[] = {
    { "Add", 1, NULL, broadcast },   { "Sub", 1, NULL, broadcast },
    { "Mul", 1, NULL, broadcast },   { "Div", 1, NULL, broadcast },
    { "Pow", 1, NULL, broadcast },   { "And", 1, NULL, broadcast },
    { "Or", 1, NULL, broadcast },    { "Xor", 1, NULL, broadcast },
    { "Equal", 1, NULL, broadcast }, { "Less", 1, NULL, broadcast },
    { "Greater", 1, NULL, broadcast }, { "PRelu", 1, NULL, slope },
    SAME("AveragePool", 1), SAME("AveragePool", 7), SAME("AveragePool", 10),
    SAME("AveragePool", 11), SAME("AveragePool", 19),
    { "BatchNormalization", 1, NULL, NULL },
    { "BatchNormalization", 6, NULL, batchnorm_test },
    { "BatchNormalization", 7, NULL, batchnorm_spatial },
    SAME("BatchNormalization", 9), SAME("BatchNormalization", 14),
    { "Clip", 1, NULL, clip },
    { "Concat", 1, NULL, concat },
    SAME("Conv", 1), SAME("Conv", 11),
    SAME("ConvTranspose", 1), SAME("ConvTranspose", 11),
    SAME("DeformConv", 19),
    { "Dropout", 1, NULL, dropout }, { "Dropout", 7, NULL, dropout },
    { "Dropout", 10, NULL, dropout },
    SAME("DequantizeLinear", 10), SAME("DequantizeLinear", 13),
    SAME("DequantizeLinear", 19), SAME("DequantizeLinear", 21),
    SAME("DequantizeLinear", 23), SAME("DequantizeLinear", 24),
    SAME("QuantizeLinear", 10), SAME("QuantizeLinear", 13),
    SAME("QuantizeLinear", 19), SAME("QuantizeLinear", 21),
    SAME("QuantizeLinear", 23), SAME("QuantizeLinear", 24),
    SAME("QLinearMatMul", 10),
    SAME("GRU", 7), SAME("GRU", 14), SAME("LSTM", 7), SAME("LSTM", 14),
    SAME("RNN", 7), SAME("RNN", 14),
    { "Gemm", 1, NULL, gemm }, SAME("Gemm", 7), SAME("Gemm", 9), SAME("Gemm", 11),
    SAME("GlobalAveragePool", 1), SAME("GlobalMaxPool", 1),
    SAME("GlobalLpPool", 2),
    { "GridSample", 16, NULL, grid_mode }, SAME("GridSample", 20),
    SAME("InstanceNormalization", 1), SAME("InstanceNormalization", 6),
    SAME("LRN", 1), SAME("LpNormalization", 1),
    SAME("LpPool", 2), SAME("LpPool", 11), SAME("LpPool", 18),
    SAME("MatMul", 1), SAME("MatMul", 9),
    SAME("MaxPool", 1), SAME("MaxPool", 8), SAME("MaxPool", 10), SAME("MaxPool", 11),
    SAME("MaxPool", 12),
    SAME("MaxRoiPool", 1), SAME("MaxUnpool", 9), SAME("MaxUnpool", 11),
    SAME("MeanVarianceNormalization", 9), SAME("NonMaxSuppression", 10),
    { "Pad", 1, NULL, pad_name }, { "Pad", 2, NULL, pad }, SAME("Pad", 11),
    REDUCE("ReduceL1"), REDUCE("ReduceL2"), REDUCE("ReduceLogSum"),
    REDUCE("ReduceLogSumExp"), REDUCE("ReduceMax"), REDUCE("ReduceMean"),
    REDUCE("ReduceMin"), REDUCE("ReduceProd"), REDUCE("ReduceSum"),
    REDUCE("ReduceSumSquare"),
    { "Reshape", 1, NULL, reshape },
    { "Resize", 10, NULL, resize }, SAME("Resize", 11), SAME("Resize", 13),
    SAME("Resize", 18),
    { "Upsample", 7, NULL, upsample }, { "Upsample", 9, "Resize", NULL },
    { "RoiAlign", 10, NULL, roi_align }, SAME("RoiAlign", 16),
    { "Scatter", 9, "ScatterElements", NULL },
    { "Selu", 1, NULL, selu },
    { "Slice", 1, NULL, slice },
    { "Softmax", 1, NULL, softmax }, { "LogSoftmax", 1, NULL, softmax },
    { "Hardmax", 1, NULL, softmax },
    { "Split", 2, NULL, split_sizes }, { "Split", 13, NULL, split_number },
    { "Squeeze", 1, NULL, axes }, { "Unsqueeze", 1, NULL, axes },
    { "TopK", 1, NULL, topk },
    { 0 },
};
/* clang-format on */

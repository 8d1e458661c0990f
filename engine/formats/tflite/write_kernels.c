/* write_kernels.c -- nodes of domain quantgraph: convolutions, products, functions. */
#include <assert.h>
#include <string.h>

#include "engine/formats/tflite/operators.h"
#include "engine/formats/tflite/writer.h"

/* Upstream's numbers of BuiltinOperator. */
enum {
    ADD = 0,
    AVERAGE_POOL_2D = 1,
    CONCATENATION = 2,
    CONV_2D = 3,
    DEPTHWISE_CONV_2D = 4,
    DEQUANTIZE = 6,
    FULLY_CONNECTED = 9,
    LOGISTIC = 14,
    MUL = 18,
    RELU = 19,
    RELU_N1_TO_1 = 20,
    RELU6 = 21,
    RESIZE_BILINEAR = 23,
    SOFTMAX = 25,
    TANH = 28,
    MEAN = 40,
    SUB = 41,
    PRELU = 54,
    TRANSPOSE_CONV = 67,
    LEAKY_RELU = 98,
    SQUARED_DIFFERENCE = 99,
    QUANTIZE = 114,
    HARD_SWISH = 117,
    BATCH_MATMUL = 126
};

/* Input k in this form, on the grid that the recipe has for it. */
static qg_status input(qg_tflite_writer *w, uint32_t k, enum qg_tflite_form form,
                       int32_t *out)
{
    const qg_stored *grid =
        k < QG_RECIPE_INPUTS && w->recipe->in[k].codes ? &w->recipe->in[k] : NULL;
    return qg_tflite_want(w, w->node->in[k], form, grid, out);
}

/* The row of the profile whose arithmetic the node has. */
static qg_status row_of(qg_tflite_writer *w, uint64_t *uses)
{
    const char *id;
    const qg_profile *p = w->program->profile;
    *uses = 0;
    QG_TRY(qg_attr_string(w->ctx, w->node, "row", "", &id));
    for (size_t i = 0; i < p->n_row; i++)
        if (strcmp(p->row[i].id, id) == 0)
            *uses = p->row[i].uses;
    return QG_OK;
}

/* --- convolutions --- */

/* Steps of input x weight. */
static qg_status bias_grid(qg_tflite_writer *w, qg_stored *out)
{
    const qg_stored *x = &w->recipe->in[0], *k = &w->recipe->in[1];
    qg_stored grid = { .codes = true, .dtype = QG_I32, .n = k->n, .axis = 0 };
    float *scale = QG_NEWN(w->arena, k->n, float);
    grid.zero = QG_NEWN(w->arena, k->n, int32_t);
    if (!scale || !grid.zero)
        return qg_nomem(w->ctx);
    for (uint32_t i = 0; i < k->n; i++)
        scale[i] = x->scale[0] * k->scale[i];
    grid.scale = scale;
    *out = grid;
    return QG_OK;
}

static qg_status bias(qg_tflite_writer *w, int32_t *out)
{
    const qg_value *v = w->node->in[2];
    if (!v->constant || v->constant->dtype != QG_I32 || v->constant->rank != 1)
        return qg_tflite_refuse(w, "a bias that is no vector of int32");
    QG_TRY(bias_grid(w, &w->grid[v->id]));
    w->form[QG_TFLITE_AS_IS][v->id] = -1; /* a shared one has other steps elsewhere */
    return qg_tflite_want(w, v, QG_TFLITE_AS_IS, NULL, out);
}

/* Zeros: upstream's convolutions refuse int8 codes without a bias. */
static qg_status no_bias(qg_tflite_writer *w, int64_t outputs, int32_t *out)
{
    qg_stored grid;
    const int32_t dim = (int32_t)outputs;
    int32_t *none = QG_NEWN(w->arena, (size_t)outputs + 1, int32_t);
    if (!none)
        return qg_nomem(w->ctx);
    QG_TRY(bias_grid(w, &grid));
    QG_TRY(qg_tflite_put_ints(w, "bias", 1, &dim, none, out));
    qg_tflite_tensor *t = &w->tensor.at[*out];
    t->zero = (const unsigned char *)QG_NEWN(w->arena, grid.n, int64_t);
    t->scale = grid.scale;
    t->n_scale = t->n_zero = grid.n;
    return t->zero ? QG_OK : qg_nomem(w->ctx);
}

/* Kernels on int8 data take int8 weights without zero points; those on uint8 any. */
static qg_status check_weight(qg_tflite_writer *w)
{
    const qg_stored *x = &w->recipe->in[0], *k = &w->recipe->in[1];
    bool fits = k->dtype == x->dtype;
    for (uint32_t i = 0; fits && x->dtype == QG_I8 && i < k->n; i++)
        fits = k->zero[i] == 0;
    return fits ? QG_OK
                : qg_tflite_refuse(w,
                                   "weights in %s with zero point %d and data in %s, "
                                   "expected symmetric int8 weights and int8 data",
                                   qg_dtype_name(k->dtype), (int)k->zero[0],
                                   qg_dtype_name(x->dtype));
}

/* Depthwise weights O,1,H,W as 1,H,W,O. */
static qg_status depthwise_weight(qg_tflite_writer *w, int32_t *out)
{
    const qg_tensor *k = w->node->in[1]->constant;
    int64_t channels = k->dim[0], area = k->dim[2] * k->dim[3];
    QG_TRY(input(w, 1, QG_TFLITE_NHWC, out));
    qg_tflite_tensor t = w->tensor.at[*out];
    int32_t *dim = QG_NEWN(w->arena, 4, int32_t);
    unsigned char *data = QG_NEWN(w->arena, t.size, unsigned char);
    if (!dim || !data)
        return qg_nomem(w->ctx);
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < area; i++)
            data[i * channels + c] = t.data[c * area + i];
    memcpy(dim, (int32_t[]){ 1, t.dim[1], t.dim[2], (int32_t)channels }, 16);
    t.dim = dim;
    t.data = data;
    t.axis = 3;
    w->tensor.at[*out] = t;
    w->form[QG_TFLITE_NHWC][w->node->in[1]->id] = -1; /* others read them as they are */
    return QG_OK;
}

static qg_status conv(qg_tflite_writer *w)
{
    const qg_node *n = w->node;
    const qg_tensor *k = n->in[1]->constant;
    int64_t group, kernel[2], pad[4];
    int32_t in[3];
    qg_tflite_options o = { .kind = QG_TFLITE_OPTIONS_CONV };
    if (!k || k->rank != 4 || qg_dtype_bits(k->dtype) != 8)
        return qg_tflite_refuse(w, "expected constant 8-bit weights of 4 axes");
    QG_TRY(check_weight(w));
    kernel[0] = k->dim[2];
    kernel[1] = k->dim[3];
    QG_TRY(qg_attr_int(w->ctx, n, "group", 1, &group));
    QG_TRY(qg_tflite_window(w, kernel, pad, &o));
    QG_TRY(input(w, 0, QG_TFLITE_NHWC, &in[0]));
    QG_TRY(qg_tflite_put_pad(w, pad, w->recipe->in[0].zero[0], &in[0]));
    bool depthwise = group > 1 && k->dim[1] == 1;
    QG_TRY(depthwise ? depthwise_weight(w, &in[1])
                     : input(w, 1, QG_TFLITE_NHWC, &in[1]));
    QG_TRY(n->n_in > 2 && n->in[2] ? bias(w, &in[2]) : no_bias(w, k->dim[0], &in[2]));
    if (depthwise) {
        o.kind = QG_TFLITE_OPTIONS_DEPTHWISE;
        o.multiplier = (int32_t)(k->dim[0] / group);
    }
    return qg_tflite_put_kernel(w, depthwise ? DEPTHWISE_CONV_2D : CONV_2D,
                                (qg_tflite_slots){ in, NULL, 3, 0 }, QG_TFLITE_NHWC, &o,
                                true);
}

/* Weights I,O,H,W as O,H,W,I. */
static qg_status deconv_weight(qg_tflite_writer *w, int32_t *out)
{
    const qg_tensor *k = w->node->in[1]->constant;
    int64_t inputs = k->dim[0], each = qg_dims_product(k, 1, 4),
            area = k->dim[2] * k->dim[3];
    QG_TRY(input(w, 1, QG_TFLITE_AS_IS, out));
    qg_tflite_tensor t = w->tensor.at[*out];
    int32_t *dim = QG_NEWN(w->arena, 4, int32_t);
    unsigned char *data = QG_NEWN(w->arena, t.size, unsigned char);
    if (!dim || !data)
        return qg_nomem(w->ctx);
    for (int64_t i = 0; i < inputs; i++)
        for (int64_t at = 0; at < each; at++) /* at = o area + place */
            data[at * inputs + i] = t.data[i * each + at];
    memcpy(dim, (int32_t[]){ t.dim[1], t.dim[2], t.dim[3], t.dim[0] }, 16);
    t.dim = dim;
    t.data = data;
    t.axis = 0;
    w->tensor.at[*out] = t;
    w->form[QG_TFLITE_AS_IS][w->node->in[1]->id] = -1;
    return area > 0 ? QG_OK : qg_tflite_refuse(w, "an empty window");
}

/* Upstream derives the pads from the dims of input and output. */
static qg_status deconv_padding(qg_tflite_writer *w, const int64_t kernel[2],
                                qg_tflite_options *o)
{
    const int64_t *x = w->node->in[0]->type.dim + 2, *y = w->node->out[0]->type.dim + 2;
    const int64_t stride[2] = { o->stride_h, o->stride_w }, *pads;
    size_t count;
    const char *how;
    bool same = true, none = true;
    QG_TRY(qg_attr_ints(w->ctx, w->node, "pads", &pads, &count));
    QG_TRY(qg_attr_string(w->ctx, w->node, "auto_pad", "NOTSET", &how));
    bool shape = qg_attr_has(w->node, "output_shape");
    bool lower =
        strcmp(how, "SAME_LOWER") == 0 || (shape && strcmp(how, "NOTSET") == 0);
    for (int i = 0; i < 2; i++) {
        int64_t before = count == 4 ? pads[i] : 0,
                behind = count == 4 ? pads[i + 2] : 0;
        int64_t total = (x[i] - 1) * stride[i] + kernel[i] - y[i];
        if (lower || strcmp(how, "SAME_UPPER") == 0) {
            before = total > 0 ? (total + lower) / 2 : 0;
            behind = total > 0 ? total - before : 0;
        }
        none &= before == 0 && behind == 0 && total == 0;
        same &= total >= 0 && x[i] == (y[i] + stride[i] - 1) / stride[i] &&
                before == total / 2;
    }
    o->padding = none ? QG_TFLITE_VALID : QG_TFLITE_SAME;
    return none || same ? QG_OK
                        : qg_tflite_refuse(w, "pads, expected those of SAME or VALID");
}

static qg_status deconv(qg_tflite_writer *w)
{
    const qg_node *n = w->node;
    const qg_tensor *k = n->in[1]->constant, *y = &n->out[0]->type;
    const int32_t four = 4;
    int64_t group, kernel[2], pad[4];
    int32_t in[4];
    uint32_t n_in = n->n_in > 2 && n->in[2] ? 4 : 3;
    qg_tflite_options o = { .kind = QG_TFLITE_OPTIONS_TRANSPOSE_CONV };
    QG_TRY(qg_attr_int(w->ctx, n, "group", 1, &group));
    if (!k || k->rank != 4 || qg_dtype_bits(k->dtype) != 8 || group != 1)
        return qg_tflite_refuse(w, "expected constant 8-bit weights, one group");
    QG_TRY(check_weight(w));
    kernel[0] = k->dim[2];
    kernel[1] = k->dim[3];
    QG_TRY(qg_tflite_window(w, kernel, pad, &o));
    if (o.dilation_h != 1 || o.dilation_w != 1)
        return qg_tflite_refuse(w, "dilations, expected 1");
    QG_TRY(deconv_padding(w, kernel, &o));
    const int32_t dim[4] = { (int32_t)y->dim[0], (int32_t)y->dim[2], (int32_t)y->dim[3],
                             (int32_t)y->dim[1] };
    QG_TRY(qg_tflite_put_ints(w, "output_shape", 1, &four, dim, &in[0]));
    QG_TRY(deconv_weight(w, &in[1]));
    QG_TRY(input(w, 0, QG_TFLITE_NHWC, &in[2]));
    if (n_in == 4)
        QG_TRY(bias(w, &in[3]));
    return qg_tflite_put_kernel(w, TRANSPOSE_CONV,
                                (qg_tflite_slots){ in, NULL, n_in, 0 }, QG_TFLITE_NHWC,
                                &o, true);
}

/* --- products --- */

/* Weights I,O as O,I. */
static qg_status dense_weight(qg_tflite_writer *w, bool transposed, int32_t *out)
{
    const qg_tensor *k = w->node->in[1]->constant;
    QG_TRY(input(w, 1, QG_TFLITE_AS_IS, out));
    if (transposed)
        return QG_OK;
    qg_tflite_tensor t = w->tensor.at[*out];
    int32_t *dim = QG_NEWN(w->arena, 2, int32_t);
    unsigned char *data = QG_NEWN(w->arena, t.size, unsigned char);
    if (!dim || !data)
        return qg_nomem(w->ctx);
    for (int64_t i = 0; i < k->dim[0]; i++)
        for (int64_t c = 0; c < k->dim[1]; c++)
            data[c * k->dim[0] + i] = t.data[i * k->dim[1] + c];
    dim[0] = t.dim[1];
    dim[1] = t.dim[0];
    t.dim = dim;
    t.data = data;
    t.axis = 0;
    w->tensor.at[*out] = t;
    w->form[QG_TFLITE_AS_IS][w->node->in[1]->id] = -1;
    return QG_OK;
}

static qg_status dense(qg_tflite_writer *w, bool b_transposed)
{
    const qg_node *n = w->node;
    int32_t in[3];
    uint32_t n_in = n->n_in > 2 && n->in[2] ? 3 : 2;
    qg_tflite_options o = { .kind = QG_TFLITE_OPTIONS_DENSE,
                            .keep_dims = n->out[0]->type.rank != 2 };
    QG_TRY(check_weight(w));
    QG_TRY(input(w, 0, QG_TFLITE_AS_IS, &in[0]));
    QG_TRY(dense_weight(w, b_transposed, &in[1]));
    if (n_in == 3)
        QG_TRY(bias(w, &in[2]));
    return qg_tflite_put_kernel(w, FULLY_CONNECTED,
                                (qg_tflite_slots){ in, NULL, n_in, 0 }, QG_TFLITE_AS_IS,
                                &o, true);
}

static qg_status matmul(qg_tflite_writer *w)
{
    const qg_node *n = w->node;
    const qg_tensor *k = n->in[1]->constant;
    bool a, b;
    uint64_t uses;
    int32_t in[2];
    QG_TRY(qg_attr_flag(w->ctx, n, "transA", false, &a));
    QG_TRY(qg_attr_flag(w->ctx, n, "transB", false, &b));
    QG_TRY(row_of(w, &uses));
    bool product = uses & QG_USE_BIT(MATMUL);
    if (!product && k && k->rank == 2 && !a && qg_dtype_bits(k->dtype) == 8)
        return dense(w, b);
    if (!product || (n->n_in > 2 && n->in[2]))
        return qg_tflite_refuse(w, "expected a constant 8-bit matrix, or no bias");
    if (w->recipe->in[1].dtype != w->recipe->in[0].dtype)
        return qg_tflite_refuse(w, "%s times %s, expected one type",
                                qg_dtype_name(w->recipe->in[0].dtype),
                                qg_dtype_name(w->recipe->in[1].dtype));
    if (w->recipe->in[0].dtype == QG_U8)
        return qg_tflite_refuse(w, "codes in uint8, expected int8 or int16, which "
                                   "BATCH_MATMUL takes");
    if (w->recipe->in[1].n > 1)
        return qg_tflite_refuse(w, "%u scales for in1, expected one",
                                (unsigned)w->recipe->in[1].n);
    for (uint32_t i = 0; i < 2; i++)
        if ((n->in[i]->constant ? n->in[i]->constant : &n->in[i]->type)->rank < 2)
            return qg_tflite_refuse(w, "input %u has 1 axis, expected 2 or more", i);
    QG_TRY(input(w, 0, QG_TFLITE_AS_IS, &in[0]));
    QG_TRY(input(w, 1, QG_TFLITE_AS_IS, &in[1]));
    return qg_tflite_put_kernel(
        w, BATCH_MATMUL, (qg_tflite_slots){ in, NULL, 2, 0 }, QG_TFLITE_AS_IS,
        &(qg_tflite_options){
            .kind = QG_TFLITE_OPTIONS_BATCH_MATMUL, .adj_x = a, .adj_y = b },
        false);
}

/* --- functions --- */

/* Inputs of an element-wise operator, in the form of its output where they have 4
 * axes. */
static qg_status operands(qg_tflite_writer *w, enum qg_tflite_form form, int32_t *in)
{
    for (uint32_t i = 0; i < w->node->n_in; i++) {
        const qg_value *v = w->node->in[i];
        int32_t rank = v->constant ? v->constant->rank : v->type.rank;
        QG_TRY(input(w, i, rank == 4 ? form : QG_TFLITE_AS_IS, &in[i]));
    }
    return QG_OK;
}

static qg_status binary(qg_tflite_writer *w)
{
    static const struct {
        const char *word;
        int32_t code, options;
    } known[] = {
        {"add",                 ADD,                QG_TFLITE_OPTIONS_ADD },
        { "sub",                SUB,                QG_TFLITE_OPTIONS_SUB },
        { "multiply",           MUL,                QG_TFLITE_OPTIONS_MUL },
        { "squared-difference", SQUARED_DIFFERENCE, QG_TFLITE_OPTIONS_NONE},
        { "prelu",              PRELU,              QG_TFLITE_OPTIONS_NONE},
    };
    enum qg_tflite_form form = qg_tflite_pick_form(w);
    const char *word;
    int32_t in[2];
    QG_TRY(qg_attr_string(w->ctx, w->node, "function", "add", &word));
    QG_TRY(operands(w, form, in));
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(word, known[i].word) == 0)
            return qg_tflite_put_kernel(
                w, known[i].code, (qg_tflite_slots){ in, NULL, 2, 0 }, form,
                &(qg_tflite_options){ .kind = known[i].options },
                known[i].options != QG_TFLITE_OPTIONS_NONE);
    return qg_tflite_refuse(w, "function %s", word);
}

/* The node of the float graph that computes what w->node computes. */
static const qg_node *float_node(const qg_tflite_writer *w)
{
    const qg_value *v = w->from[w->node->out[0]->id];
    const qg_node *n = v ? v->def : NULL;
    while (n && qg_tflite_is_behind(w, n))
        n = n->in[0]->def;
    return n;
}

/* A table of codes: the operator whose table it is. */
static qg_status table(qg_tflite_writer *w)
{
    static const char *const names[] = { "Sigmoid", "Tanh", "HardSwish", "LeakyRelu" };
    static const int32_t codes[] = { LOGISTIC, TANH, HARD_SWISH, LEAKY_RELU };
    const qg_node *n = float_node(w);
    enum qg_tflite_form form =
        qg_tflite_is_picture(w, w->node->in[0]) ? QG_TFLITE_NHWC : QG_TFLITE_AS_IS;
    qg_tflite_options o = { 0 };
    int32_t in;
    size_t i = 0;
    while (i < 4 && !(n && qg_op_is_named(n->op, &names[i], 1)))
        i++;
    if (i == 4)
        return qg_tflite_refuse(w,
                                "the function %s, expected Sigmoid, Tanh, HardSwish "
                                "or LeakyRelu",
                                n ? n->op->name : "of a table");
    if (codes[i] == LEAKY_RELU) {
        o.kind = QG_TFLITE_OPTIONS_LEAKY_RELU;
        QG_TRY(qg_attr_float(w->ctx, n, "alpha", 0.01f, &o.factor));
    }
    QG_TRY(input(w, 0, form, &in));
    return qg_tflite_put_kernel(w, codes[i], (qg_tflite_slots){ &in, NULL, 1, 0 }, form,
                                &o, false);
}

/* From one grid to another: a clamp that upstream has as an operator, or QUANTIZE,
 * which other limits follow. */
static qg_status rescale(qg_tflite_writer *w)
{
    enum qg_tflite_form form =
        qg_tflite_is_picture(w, w->node->in[0]) ? QG_TFLITE_NHWC : QG_TFLITE_AS_IS;
    static const int32_t codes[QG_NACTIVATION] = {
        [QG_ACTIVATION_RELU] = RELU,
        [QG_ACTIVATION_RELU6] = RELU6,
        [QG_ACTIVATION_RELU_N1_TO_1] = RELU_N1_TO_1,
    };
    uint64_t uses;
    int32_t in, out;
    QG_TRY(row_of(w, &uses));
    QG_TRY(input(w, 0, form, &in));
    uint32_t set = qg_stored_activations(&w->recipe->out) & ~(1u << QG_ACTIVATION_NONE);
    if (!(uses & QG_USE_BIT(RELU)) || !set)
        return qg_tflite_put_kernel(w, QUANTIZE, (qg_tflite_slots){ &in, NULL, 1, 0 },
                                    form, &(qg_tflite_options){ 0 }, false);
    QG_TRY(qg_tflite_make(w, w->node->out[0], form, &out));
    return qg_tflite_put(w, codes[qg_tflite_activation(w, set)],
                         (qg_tflite_slots){ &in, &out, 1, 1 },
                         &(qg_tflite_options){ 0 });
}

static qg_status softmax(qg_tflite_writer *w)
{
    qg_tflite_options o = { .kind = QG_TFLITE_OPTIONS_SOFTMAX };
    enum qg_tflite_form form;
    int64_t axis;
    int32_t in;
    QG_TRY(qg_attr_int(w->ctx, w->node, "axis", -1, &axis));
    QG_TRY(qg_attr_float(w->ctx, w->node, "beta", 1, &o.factor));
    QG_TRY(qg_tflite_form_of_rows(w, axis, &form));
    QG_TRY(input(w, 0, form, &in));
    return qg_tflite_put_kernel(w, SOFTMAX, (qg_tflite_slots){ &in, NULL, 1, 0 }, form,
                                &o, false);
}

/* --- sums over places --- */

/* The form of a mean that keeps its axes.  Upstream's optimized kernels have one of
 * their own for axes 1 and 2 of 4: those are height and width of pictures, and no other
 * two axes become them. */
static enum qg_tflite_form form_of_mean(const qg_tflite_writer *w, const int64_t *axes,
                                        size_t count)
{
    const qg_value *x = w->node->in[0];
    uint32_t set = 0;
    for (size_t i = 0; i < count; i++)
        set |= 1u << qg_tflite_axis_in(QG_TFLITE_AS_IS, x->type.rank, axes[i]);
    bool pair = x->type.rank == 4 && (set == 0xc || set == 0x6);
    return pair || qg_tflite_is_picture(w, x) ? QG_TFLITE_NHWC : QG_TFLITE_AS_IS;
}

static qg_status mean(qg_tflite_writer *w)
{
    const qg_node *n = w->node;
    const int64_t *axes;
    size_t count;
    int32_t in[2], axis[QG_MAX_RANK], rank = n->in[0]->type.rank;
    qg_tflite_options o = { .kind = QG_TFLITE_OPTIONS_REDUCER };
    QG_TRY(qg_attr_flag(w->ctx, n, "keepdims", true, &o.keep_dims));
    QG_TRY(qg_attr_ints(w->ctx, n, "axes", &axes, &count));
    assert(count <= QG_MAX_RANK);
    enum qg_tflite_form form =
        o.keep_dims ? form_of_mean(w, axes, count) : QG_TFLITE_AS_IS;
    for (size_t i = 0; i < count; i++)
        axis[i] = qg_tflite_axis_in(form, rank, axes[i]);
    QG_TRY(input(w, 0, form, &in[0]));
    QG_TRY(
        qg_tflite_put_ints(w, "axes", 1, (int32_t[]){ (int32_t)count }, axis, &in[1]));
    return qg_tflite_put_kernel(w, MEAN, (qg_tflite_slots){ in, NULL, 2, 0 }, form, &o,
                                false);
}

/* Only places inside of the picture count. */
static qg_status average(qg_tflite_writer *w)
{
    const int64_t *kernel;
    int64_t pad[4];
    size_t count;
    int32_t in;
    qg_tflite_options o = { .kind = QG_TFLITE_OPTIONS_POOL };
    QG_TRY(qg_attr_ints(w->ctx, w->node, "kernel_shape", &kernel, &count));
    if (count != 2)
        return qg_tflite_refuse(w, "a window over %zu axes, expected 2", count);
    QG_TRY(qg_tflite_window(w, kernel, pad, &o));
    if (pad[0] | pad[1] | pad[2] | pad[3])
        return qg_tflite_refuse(w,
                                "pads %lld, %lld, %lld, %lld, expected none, those "
                                "of SAME_UPPER that are not counted, or a Pad before "
                                "the pool",
                                (long long)pad[0], (long long)pad[1], (long long)pad[2],
                                (long long)pad[3]);
    QG_TRY(input(w, 0, QG_TFLITE_NHWC, &in));
    return qg_tflite_put_kernel(w, AVERAGE_POOL_2D,
                                (qg_tflite_slots){ &in, NULL, 1, 0 }, QG_TFLITE_NHWC,
                                &o, true);
}

static qg_status concat(qg_tflite_writer *w)
{
    const qg_node *n = w->node;
    const qg_stored *all;
    uint32_t n_all;
    int64_t axis;
    enum qg_tflite_form form = qg_tflite_pick_form(w);
    int32_t *in = QG_NEWN(w->arena, n->n_in, int32_t);
    qg_tflite_options o = { .kind = QG_TFLITE_OPTIONS_CONCAT };
    if (!in)
        return qg_nomem(w->ctx);
    QG_TRY(qg_attr_int(w->ctx, n, "axis", 0, &axis));
    QG_TRY(qg_recipe_read_all(w->ctx, n, w->arena, &all, &n_all));
    for (uint32_t i = 0; i < n->n_in; i++)
        QG_TRY(qg_tflite_want(w, n->in[i], form, &all[i], &in[i]));
    o.axis = qg_tflite_axis_in(form, n->out[0]->type.rank, axis);
    return qg_tflite_put_kernel(
        w, CONCATENATION, (qg_tflite_slots){ in, NULL, n->n_in, 0 }, form, &o, true);
}

static qg_status bilinear(qg_tflite_writer *w)
{
    const int64_t *dim = w->node->out[0]->type.dim;
    const int32_t two = 2, size[2] = { (int32_t)dim[2], (int32_t)dim[3] };
    const char *where;
    int32_t in[2];
    qg_tflite_options o = { .kind = QG_TFLITE_OPTIONS_RESIZE_BILINEAR };
    if (!qg_tflite_is_of_pictures(&w->node->in[0]->type, &w->node->out[0]->type))
        return qg_tflite_refuse(w, "expected 4 axes, of which height and width change");
    QG_TRY(qg_attr_string(w->ctx, w->node, "coordinate_transformation_mode",
                          "half_pixel", &where));
    o.align_corners = strcmp(where, "align_corners") == 0;
    o.half_pixel = strstr(where, "half_pixel") != NULL;
    QG_TRY(input(w, 0, QG_TFLITE_NHWC, &in[0]));
    QG_TRY(qg_tflite_put_ints(w, "size", 1, &two, size, &in[1]));
    return qg_tflite_put_kernel(w, RESIZE_BILINEAR, (qg_tflite_slots){ in, NULL, 2, 0 },
                                QG_TFLITE_NHWC, &o, false);
}

/* --- edges --- */

static qg_status quantize(qg_tflite_writer *w)
{
    int32_t in;
    QG_TRY(input(w, 0, QG_TFLITE_AS_IS, &in));
    return qg_tflite_put_kernel(w, QUANTIZE, (qg_tflite_slots){ &in, NULL, 1, 0 },
                                QG_TFLITE_AS_IS, &(qg_tflite_options){ 0 }, false);
}

static qg_status dequantize(qg_tflite_writer *w)
{
    int32_t in, out;
    QG_TRY(input(w, 0, QG_TFLITE_AS_IS, &in));
    QG_TRY(qg_tflite_make(w, w->node->out[0], QG_TFLITE_AS_IS, &out));
    return qg_tflite_put(w, DEQUANTIZE, (qg_tflite_slots){ &in, &out, 1, 1 },
                         &(qg_tflite_options){ 0 });
}

static const struct {
    const char *op;
    qg_status (*write)(qg_tflite_writer *w);
} rows[] = {
    {"IntConv",           conv      },
    { "IntConvTranspose", deconv    },
    { "IntMatMul",        matmul    },
    { "IntBinary",        binary    },
    { "IntTable",         table     },
    { "IntRescale",       rescale   },
    { "IntSoftmax",       softmax   },
    { "IntMean",          mean      },
    { "IntAveragePool",   average   },
    { "IntConcat",        concat    },
    { "IntResize",        bilinear  },
    { "IntQuantize",      quantize  },
    { "IntDequantize",    dequantize},
};

qg_status qg_tflite_write_kernel(qg_tflite_writer *w)
{
    const qg_node *n = w->node;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!qg_op_is_named(n->op, &rows[i].op, 1))
            continue;
        w->recipe = QG_NEW(w->arena, qg_recipe);
        if (!w->recipe)
            return qg_nomem(w->ctx);
        QG_TRY(qg_recipe_read(w->ctx, n, w->recipe));
        if (w->recipe->out.codes)
            w->grid[n->out[0]->id] = w->recipe->out;
        return rows[i].write(w);
    }
    return qg_tflite_refuse(w, "expected an operator of TensorFlow Lite");
}

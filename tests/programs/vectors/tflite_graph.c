/* One function per kind of operator: tfl_build. */
#include <math.h>
#include <string.h>

#include "engine/number/integer_unary.h"
#include "tests/programs/vectors/tflite_program.h"

static void must(const tfl_case *t, qg_status s)
{
    if (s != QG_OK)
        vec_malformed("case '%s': %s", t->v->name, qg_ctx_message(t->v->ctx));
}

/* -- attributes of the operator and of the next node ------------------------------ */

static const json *find(const tfl_case *t, const char *name)
{
    return js_find(js_get(t->op, "attributes"), name);
}

static int64_t whole(const tfl_case *t, const char *name, int64_t otherwise)
{
    const json *j = find(t, name);
    return !j ? otherwise : js_is_text(j) ? otherwise : js_int(j);
}

static bool truth(const tfl_case *t, const char *name)
{
    const json *j = find(t, name);
    return j && js_true(j);
}

static bool is(const tfl_case *t, const char *name, const char *word)
{
    const json *j = find(t, name);
    return j && strcmp(js_text(j), word) == 0;
}

static void put(tfl_case *t, const char *name, qg_attr_type type, size_t n,
                const void *data)
{
    t->attr[t->n_attr++] = (qg_attr){
        .name = qg_intern(t->v->ctx, name), .type = type, .count = n, .ints = data
    };
}

static void put_ints(tfl_case *t, const char *name, size_t n, const int64_t *value)
{
    int64_t *kept = VEC_NEW(t->v, n, int64_t);
    memcpy(kept, value, n * sizeof *kept);
    put(t, name, QG_ATTR_INTS, n, kept);
}

static void put_int(tfl_case *t, const char *name, int64_t value)
{
    put_ints(t, name, 1, &value);
    t->attr[t->n_attr - 1].type = QG_ATTR_INT;
}

static void put_text(tfl_case *t, const char *name, const char *value)
{
    const char **kept = VEC_NEW(t->v, 1, const char *);
    *kept = value;
    put(t, name, QG_ATTR_STRING, 1, kept);
}

/* -- values and nodes -------------------------------------------------------------- */

static qg_value *constant(tfl_case *t, const qg_tensor *data)
{
    qg_value *v;
    must(t, qg_graph_add_prefixed(t->g, "c", &v));
    v->type = *data;
    v->type.data = NULL;
    v->constant = data;
    return v;
}

static qg_value *ints(tfl_case *t, size_t n, const int64_t *value)
{
    qg_tensor *data = VEC_NEW(t->v, 1, qg_tensor);
    qg_tensor_init(data, QG_I64, 1, (int64_t[]){ (int64_t)n });
    data->i64 = VEC_NEW(t->v, n, int64_t);
    memcpy(data->i64, value, n * sizeof *value);
    return constant(t, data);
}

/* Codes of the output's type, one of them. */
static qg_value *code(tfl_case *t, qg_dtype type, int32_t value)
{
    qg_tensor *data = VEC_NEW(t->v, 1, qg_tensor);
    qg_tensor_scalar(data, type);
    data->data = vec_get(t->v, 1, 8);
    qg_codes_store(type, &value, data->data, 0, 1);
    return constant(t, data);
}

static qg_value *operand(tfl_case *t, size_t i)
{
    const json *tensor = tfl_operand(t, "inputs", i);
    const qg_tensor *data = tfl_array(t, tensor);
    qg_value *v;
    if (js_true(js_get(tensor, "constant")))
        return constant(t, data);
    must(t, qg_graph_add_prefixed(t->g, "x", &v));
    v->type = *data;
    v->type.data = NULL;
    must(t, qg_graph_mark_input(t->g, v));
    t->in[t->n_in++] = data;
    return v;
}

/* A node with the attributes collected; they start anew. */
static qg_value *node(tfl_case *t, const char *domain, const char *op, size_t n,
                      qg_value *const *in)
{
    qg_value *out;
    int64_t opset = domain ? 1 : 18;
    must(t, qg_graph_add_prefixed(t->g, "y", &out));
    qg_node *made;
    qg_attr *kept = VEC_NEW(t->v, t->n_attr + 1, qg_attr);
    memcpy(kept, t->attr, t->n_attr * sizeof *kept);
    must(t, qg_graph_add_node(t->g,
                              &(qg_node_spec){ .op = qg_op_find(t->v->ctx->registry,
                                                                domain, op, opset),
                                               .opset = opset,
                                               .in = in,
                                               .n_in = (uint32_t)n,
                                               .out = &out,
                                               .n_out = 1,
                                               .attr = kept,
                                               .n_attr = t->n_attr },
                              &made));
    t->n_attr = 0;
    return out;
}

static qg_value *transpose(tfl_case *t, qg_value *x, size_t n, const int64_t *perm)
{
    qg_attr kept[16];
    size_t n_kept = t->n_attr;
    memcpy(kept, t->attr, sizeof kept);
    t->n_attr = 0;
    put_ints(t, "perm", n, perm);
    qg_value *y = node(t, NULL, "Transpose", 1, &x);
    memcpy(t->attr, kept, sizeof kept);
    t->n_attr = n_kept;
    return y;
}

static qg_value *to_nchw(tfl_case *t, qg_value *x)
{
    return transpose(t, x, 4, (int64_t[]){ 0, 3, 1, 2 });
}

static qg_value *to_nhwc(tfl_case *t, qg_value *x)
{
    return transpose(t, x, 4, (int64_t[]){ 0, 2, 3, 1 });
}

static qg_fused activation(const tfl_case *t)
{
    const char *type = js_str(t->op, "type");
    const json *a = find(t, "activation");
    const char *word = a ? js_text(a) : type;
    return strcmp(word, "RELU") == 0           ? QG_FUSED_RELU
           : strcmp(word, "RELU6") == 0        ? QG_FUSED_RELU6
           : strcmp(word, "RELU_N1_TO_1") == 0 ? QG_FUSED_RELU_N1_TO_1
                                               : QG_FUSED_NONE;
}

/* The limits of output 0 with its activation. */
static qg_stored output(const tfl_case *t)
{
    const json *tensor = tfl_operand(t, "outputs", 0);
    qg_stored s = tfl_stored(t, tensor);
    if (!s.codes)
        return s;
    qg_code_range r = qg_code_range_of(s.dtype, s.zero[0]);
    r = qg_fused_range(activation(t), s.scale[0], r);
    s.low = r.lo;
    s.high = r.hi;
    return s;
}

/* An operator on codes by t->row; slot[k] is the TFLite input whose grid input k
 * has. */
static qg_value *integer(tfl_case *t, const char *op, size_t n, qg_value *const *in,
                         const int *slot)
{
    qg_recipe r = { .row = *t->row, .out = output(t) };
    qg_stored all[8];
    bool variadic = strcmp(op, "IntConcat") == 0;
    for (size_t k = 0; k < n; k++) {
        all[k] = (qg_stored){ 0 };
        if (slot[k] >= 0)
            all[k] = tfl_stored(t, tfl_operand(t, "inputs", (size_t)slot[k]));
        if (all[k].codes && qg_dtype_bits(all[k].dtype) > 16)
            all[k].codes = false;
        if (!variadic)
            r.in[k] = all[k];
    }
    r.all = all;
    r.n_all = variadic ? (uint32_t)n : 0;
    const qg_attr *attr;
    size_t n_attr;
    must(t, qg_recipe_write(t->g, &r, t->attr, t->n_attr, &attr, &n_attr));
    qg_value *out;
    qg_node *made;
    must(t, qg_graph_add_prefixed(t->g, "y", &out));
    must(t, qg_graph_add_node(t->g,
                              &(qg_node_spec){ .op = qg_op_find(t->v->ctx->registry,
                                                                "quantgraph", op, 1),
                                               .opset = 1,
                                               .in = in,
                                               .n_in = (uint32_t)n,
                                               .out = &out,
                                               .n_out = 1,
                                               .attr = attr,
                                               .n_attr = n_attr },
                              &made));
    t->n_attr = 0;
    return out;
}

/* -- operators --------------------------------------------------------------------- */

static void put_window(tfl_case *t, bool pool)
{
    put_ints(t, "strides", 2,
             (int64_t[]){ whole(t, "stride_h", 1), whole(t, "stride_w", 1) });
    if (pool)
        put_ints(t, "kernel_shape", 2,
                 (int64_t[]){ whole(t, "filter_h", 1), whole(t, "filter_w", 1) });
    else
        put_ints(t, "dilations", 2,
                 (int64_t[]){ whole(t, "dilation_h", 1), whole(t, "dilation_w", 1) });
    put_text(t, "auto_pad", is(t, "padding", "SAME") ? "SAME_UPPER" : "VALID");
}

static qg_value *conv(tfl_case *t)
{
    bool depthwise = strcmp(js_str(t->op, "type"), "DEPTHWISE_CONV_2D") == 0;
    const qg_tensor *x = tfl_array(t, tfl_operand(t, "inputs", 0));
    const qg_tensor *w = tfl_array(t, tfl_operand(t, "inputs", 1));
    int64_t groups = depthwise ? x->dim[3] : x->dim[3] / w->dim[3];
    qg_stored ws = tfl_stored(t, tfl_operand(t, "inputs", 1));
    qg_kernel_use use = groups > 1 ? QG_USE_DEPTHWISE /* groups run as the reference */
                        : ws.n > 1 ? QG_USE_CONV
                                   : QG_USE_CONV_ONE;
    if (!tfl_find_row(t, use, 2))
        return NULL;
    qg_value *in[3] = { to_nchw(t, operand(t, 0)), operand(t, 1),
                        tfl_has_operand(t, 2) ? operand(t, 2) : NULL };
    in[1] = depthwise ? transpose(t, in[1], 4, (int64_t[]){ 3, 0, 1, 2 })
                      : to_nchw(t, in[1]);
    put_window(t, false);
    put_int(t, "group", groups);
    return to_nhwc(t, integer(t, "IntConv", in[2] ? 3 : 2, in, (int[]){ 0, 1, -1 }));
}

/* pads: those of the convolution from the output back to the input. */
static qg_value *transpose_conv(tfl_case *t)
{
    const qg_tensor *w = tfl_array(t, tfl_operand(t, "inputs", 1));
    const qg_tensor *x = tfl_array(t, tfl_operand(t, "inputs", 2));
    const qg_tensor *y = tfl_array(t, tfl_operand(t, "outputs", 0));
    int64_t stride[2] = { whole(t, "stride_h", 1), whole(t, "stride_w", 1) };
    int64_t pads[4], more[2];
    for (int a = 0; a < 2; a++) {
        int64_t reach = (x->dim[1 + a] - 1) * stride[a] + w->dim[1 + a];
        int64_t total = reach - y->dim[1 + a];
        pads[a] = total > 0 ? total / 2 : 0;
        pads[2 + a] = total > 0 ? total - pads[a] : 0;
        more[a] = total < 0 ? -total : 0;
    }
    if (!tfl_find_row(t, QG_USE_DECONV, 3))
        return NULL;
    qg_value *in[3] = { to_nchw(t, operand(t, 2)),
                        transpose(t, operand(t, 1), 4, (int64_t[]){ 3, 0, 1, 2 }),
                        tfl_has_operand(t, 3) ? operand(t, 3) : NULL };
    put_ints(t, "strides", 2, stride);
    put_ints(t, "pads", 4, pads);
    put_ints(t, "output_padding", 2, more);
    return to_nhwc(
        t, integer(t, "IntConvTranspose", in[2] ? 3 : 2, in, (int[]){ 2, 1, -1 }));
}

static qg_value *dense(tfl_case *t)
{
    qg_stored w = tfl_stored(t, tfl_operand(t, "inputs", 1));
    if (!tfl_find_row(t, w.n > 1 ? QG_USE_DENSE_CHANNEL : QG_USE_DENSE, 2))
        return NULL;
    qg_value *in[3] = { operand(t, 0), operand(t, 1),
                        tfl_has_operand(t, 2) ? operand(t, 2) : NULL };
    put_int(t, "transB", 1);
    return integer(t, "IntMatMul", in[2] ? 3 : 2, in, (int[]){ 0, 1, -1 });
}

static qg_value *batch_matmul(tfl_case *t)
{
    if (!tfl_find_row(t, QG_USE_MATMUL, 2))
        return NULL;
    qg_value *in[2] = { operand(t, 0), operand(t, 1) };
    put_int(t, "transA", truth(t, "adj_x"));
    put_int(t, "transB", truth(t, "adj_y"));
    return integer(t, "IntMatMul", 2, in, (int[]){ 0, 1 });
}

static qg_value *binary(tfl_case *t, qg_kernel_use use)
{
    if (!tfl_find_row(t, use, 2))
        return NULL;
    qg_value *in[2] = { operand(t, 0), operand(t, 1) };
    put_text(t, "function", qg_kernel_use_name(use));
    return integer(t, "IntBinary", 2, in, (int[]){ 0, 1 });
}

static qg_value *add(tfl_case *t) { return binary(t, QG_USE_ADD); }
static qg_value *sub(tfl_case *t) { return binary(t, QG_USE_SUB); }
static qg_value *mul(tfl_case *t) { return binary(t, QG_USE_MULTIPLY); }
static qg_value *square(tfl_case *t) { return binary(t, QG_USE_SQUARED_DIFFERENCE); }
static qg_value *prelu(tfl_case *t) { return binary(t, QG_USE_PRELU); }

/* Operators of ONNX on codes. */
static qg_value *extreme(tfl_case *t)
{
    bool maximum = strcmp(js_str(t->op, "type"), "MAXIMUM") == 0;
    if (!tfl_find_row(t, maximum ? QG_USE_MAXIMUM : QG_USE_MINIMUM, 2))
        return NULL;
    qg_value *in[2] = { operand(t, 0), operand(t, 1) };
    return node(t, NULL, maximum ? "Max" : "Min", 2, in);
}

static qg_value *permute(tfl_case *t)
{
    const qg_tensor *perm = tfl_array(t, tfl_operand(t, "inputs", 1));
    int64_t order[8];
    for (int64_t i = 0; i < perm->dim[0]; i++)
        order[i] = perm->i32[i];
    if (!tfl_find_row(t, QG_USE_MOVE, 1))
        return NULL;
    return transpose(t, operand(t, 0), (size_t)perm->dim[0], order);
}

static qg_value *pad(tfl_case *t)
{
    const qg_tensor *p = tfl_array(t, tfl_operand(t, "inputs", 1));
    qg_stored y = tfl_stored(t, tfl_operand(t, "outputs", 0));
    int64_t pads[16], rank = p->dim[0];
    int32_t value = y.zero[0];
    for (int64_t i = 0; i < rank; i++) {
        pads[i] = p->i32[2 * i];
        pads[rank + i] = p->i32[2 * i + 1];
    }
    if (tfl_has_operand(t, 2))
        qg_codes_load(y.dtype, tfl_array(t, tfl_operand(t, "inputs", 2))->data, 0,
                      &value, 1);
    if (!tfl_find_row(t, QG_USE_PAD, 1))
        return NULL;
    qg_value *in[3] = { operand(t, 0), ints(t, 2 * (size_t)rank, pads),
                        code(t, y.dtype, value) };
    return node(t, NULL, "Pad", 3, in);
}

static qg_value *relu(tfl_case *t)
{
    if (!tfl_find_row(t, QG_USE_RELU, 1))
        return NULL;
    qg_value *x = operand(t, 0);
    return integer(t, "IntRescale", 1, &x, (int[]){ 0 });
}

static qg_value *unary(tfl_case *t, qg_kernel_use use, qg_int_unary_function f)
{
    qg_stored x = tfl_stored(t, tfl_operand(t, "inputs", 0)), y = output(t);
    int32_t code_of[256];
    if (!tfl_find_row(t, use, 1))
        return NULL;
    const json *alpha = find(t, "alpha");
    qg_int_unary_spec spec = {
        f,
        t->row,
        {x.dtype,  x.scale[0], x.zero[0]},
        { y.dtype, y.scale[0], y.zero[0]},
        alpha ? (float)js_number(alpha) : 0
    };
    must(t, qg_int_unary_table(t->v->ctx, &spec, code_of));
    qg_tensor *table = VEC_NEW(t->v, 1, qg_tensor);
    qg_tensor_init(table, y.dtype, 1, (int64_t[]){ 256 });
    table->data = vec_get(t->v, 256, 2);
    qg_codes_store(y.dtype, code_of, table->data, 0, 256);
    qg_value *in[2] = { operand(t, 0), constant(t, table) };
    return integer(t, "IntTable", 2, in, (int[]){ 0, -1 });
}

static qg_value *logistic(tfl_case *t)
{
    return unary(t, QG_USE_SIGMOID, QG_INT_UNARY_LOGISTIC);
}

static qg_value *hyperbolic(tfl_case *t)
{
    return unary(t, QG_USE_TANH, QG_INT_UNARY_TANH);
}

static qg_value *hard_swish(tfl_case *t)
{
    return unary(t, QG_USE_HARD_SWISH, QG_INT_UNARY_HARD_SWISH);
}

static qg_value *leaky_relu(tfl_case *t)
{
    return unary(t, QG_USE_LEAKY_RELU, QG_INT_UNARY_LEAKY_RELU);
}

static qg_value *average_pool(tfl_case *t)
{
    if (!tfl_find_row(t, QG_USE_AVERAGE_POOL, 1))
        return NULL;
    qg_value *x = to_nchw(t, operand(t, 0));
    put_window(t, true);
    return to_nhwc(t, integer(t, "IntAveragePool", 1, &x, (int[]){ 0 }));
}

/* The activation is a Clip of codes. */
static qg_value *max_pool(tfl_case *t)
{
    qg_stored y = output(t);
    if (!tfl_find_row(t, QG_USE_MAX_POOL, 1))
        return NULL;
    qg_value *x = to_nchw(t, operand(t, 0));
    put_window(t, true);
    qg_value *in[3] = { node(t, NULL, "MaxPool", 1, &x), code(t, y.dtype, y.low),
                        code(t, y.dtype, y.high) };
    return to_nhwc(t, node(t, NULL, "Clip", 3, in));
}

/* Over height and width with the axes kept, a MEAN is what GlobalAveragePool becomes. */
static qg_value *mean(tfl_case *t)
{
    const qg_tensor *axes = tfl_array(t, tfl_operand(t, "inputs", 1));
    int64_t axis[8];
    for (int64_t i = 0; i < axes->dim[0]; i++)
        axis[i] = axes->i32[i];
    bool pool = axes->dim[0] == 2 && axis[0] == 1 && axis[1] == 2 &&
                tfl_array(t, tfl_operand(t, "inputs", 0))->rank == 4 &&
                truth(t, "keep_dims");
    if (!tfl_find_row(t, pool ? QG_USE_GLOBAL_POOL : QG_USE_MEAN, 1))
        return NULL;
    qg_value *x = operand(t, 0);
    put_int(t, "keepdims", truth(t, "keep_dims"));
    if (pool) {
        x = to_nchw(t, x);
        put_ints(t, "axes", 2, (int64_t[]){ 2, 3 });
        return to_nhwc(t, integer(t, "IntMean", 1, &x, (int[]){ 0 }));
    }
    put_ints(t, "axes", (size_t)axes->dim[0], axis);
    return integer(t, "IntMean", 1, &x, (int[]){ 0 });
}

static qg_value *softmax(tfl_case *t)
{
    float *beta = VEC_NEW(t->v, 1, float);
    if (!tfl_find_row(t, QG_USE_SOFTMAX, 1))
        return NULL;
    qg_value *x = operand(t, 0);
    *beta = (float)js_num_or(js_get(t->op, "attributes"), "beta", 1);
    put(t, "beta", QG_ATTR_FLOAT, 1, beta);
    return integer(t, "IntSoftmax", 1, &x, (int[]){ 0 });
}

static qg_value *concatenate(tfl_case *t)
{
    size_t n = js_count(js_get(t->op, "inputs"));
    qg_value *in[8];
    int slot[8];
    if (!tfl_find_row(t, QG_USE_CONCAT, n))
        return NULL;
    for (size_t i = 0; i < n && i < 8; i++) {
        in[i] = operand(t, i);
        slot[i] = (int)i;
    }
    put_int(t, "axis", whole(t, "axis", 0));
    return integer(t, "IntConcat", n, in, slot);
}

static qg_value *sizes_of_output(tfl_case *t)
{
    const qg_tensor *y = tfl_array(t, tfl_operand(t, "outputs", 0));
    return ints(t, 4, (int64_t[]){ y->dim[0], y->dim[3], y->dim[1], y->dim[2] });
}

static const char *centre(const tfl_case *t)
{
    return truth(t, "align_corners")        ? "align_corners"
           : truth(t, "half_pixel_centers") ? "half_pixel"
                                            : "asymmetric";
}

static qg_value *bilinear(tfl_case *t)
{
    if (!tfl_find_row(t, QG_USE_RESIZE_LINEAR, 1))
        return NULL;
    qg_value *in[2] = { to_nchw(t, operand(t, 0)), sizes_of_output(t) };
    put_text(t, "coordinate_transformation_mode", centre(t));
    return to_nhwc(t, integer(t, "IntResize", 2, in, (int[]){ 0, -1 }));
}

/* floor(i k) without centres; else the upper of two equally near elements. */
static qg_value *nearest(tfl_case *t)
{
    bool plain = !truth(t, "align_corners") && !truth(t, "half_pixel_centers");
    if (!tfl_find_row(t, QG_USE_RESIZE_NEAREST, 1))
        return NULL;
    qg_value *in[4] = { to_nchw(t, operand(t, 0)), NULL, NULL, sizes_of_output(t) };
    put_text(t, "mode", "nearest");
    put_text(t, "coordinate_transformation_mode", centre(t));
    put_text(t, "nearest_mode", plain ? "floor" : "round_prefer_ceil");
    return to_nhwc(t, node(t, NULL, "Resize", 4, in));
}

static qg_value *quantize(tfl_case *t)
{
    bool real = tfl_array(t, tfl_operand(t, "inputs", 0))->dtype == QG_F32;
    if (!tfl_find_row(t, real ? QG_USE_QUANTIZE : QG_USE_RESCALE, 1))
        return NULL;
    qg_value *x = operand(t, 0);
    return integer(t, real ? "IntQuantize" : "IntRescale", 1, &x,
                   (int[]){ real ? -1 : 0 });
}

static qg_value *dequantize(tfl_case *t)
{
    if (!tfl_find_row(t, QG_USE_DEQUANTIZE, 1))
        return NULL;
    qg_value *x = operand(t, 0);
    return integer(t, "IntDequantize", 1, &x, (int[]){ 0 });
}

static const struct {
    const char *type;
    qg_value *(*build)(tfl_case *t);
} builders[] = {
    {"CONV_2D",                  conv          },
    { "DEPTHWISE_CONV_2D",       conv          },
    { "TRANSPOSE_CONV",          transpose_conv},
    { "FULLY_CONNECTED",         dense         },
    { "BATCH_MATMUL",            batch_matmul  },
    { "ADD",                     add           },
    { "SUB",                     sub           },
    { "MUL",                     mul           },
    { "SQUARED_DIFFERENCE",      square        },
    { "PRELU",                   prelu         },
    { "MAXIMUM",                 extreme       },
    { "MINIMUM",                 extreme       },
    { "TRANSPOSE",               permute       },
    { "PAD",                     pad           },
    { "PADV2",                   pad           },
    { "RELU",                    relu          },
    { "RELU6",                   relu          },
    { "RELU_N1_TO_1",            relu          },
    { "LOGISTIC",                logistic      },
    { "TANH",                    hyperbolic    },
    { "HARD_SWISH",              hard_swish    },
    { "LEAKY_RELU",              leaky_relu    },
    { "AVERAGE_POOL_2D",         average_pool  },
    { "MAX_POOL_2D",             max_pool      },
    { "MEAN",                    mean          },
    { "SOFTMAX",                 softmax       },
    { "CONCATENATION",           concatenate   },
    { "RESIZE_BILINEAR",         bilinear      },
    { "RESIZE_NEAREST_NEIGHBOR", nearest       },
    { "QUANTIZE",                quantize      },
    { "DEQUANTIZE",              dequantize    },
};

bool tfl_build(tfl_case *t)
{
    for (size_t i = 0; i < sizeof builders / sizeof builders[0]; i++) {
        if (strcmp(builders[i].type, js_str(t->op, "type")) != 0)
            continue;
        qg_value *y = builders[i].build(t);
        if (y)
            must(t, qg_graph_mark_output(t->g, y));
        return true;
    }
    return false;
}

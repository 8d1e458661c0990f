#include "engine/formats/openvino/operators.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "engine/core/num.h"
#include "engine/formats/fake_quantize.h"
#include "engine/formats/openvino/normalization_layers.h"
#include "engine/formats/openvino/quantizer_layers.h"
#include "engine/formats/openvino/recurrent_layers.h"
#include "engine/formats/openvino/window_layers.h"

enum { INPUTS = 8, SECTIONS = 64 };

/* --- one layer --- */

/* The same inputs, the same meaning. */
static qg_status same(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    qg_ir_source in[INPUTS];
    if (n->n_in > INPUTS)
        return qg_ir_refuse(ir, n, "%u inputs, expected at most %d", n->n_in, INPUTS);
    QG_TRY(qg_ir_inputs(ir, n, n->n_in, in));
    return qg_ir_finish(ir, n, qg_ir_layer_of(r, r->data, in, n->n_in));
}

/* The source of the shape does not matter: it is known. */
static qg_status reshape(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    qg_ir_source in[2];
    const qg_tensor *t = &n->out[0]->type;
    QG_TRY(qg_ir_inputs(ir, n, 1, in));
    QG_TRY(qg_ir_vector(ir, n, "shape", (size_t)t->rank, t->dim, &in[1]));
    return qg_ir_finish(ir, n, qg_ir_layer_of(r, r->data, in, 2));
}

/* What returns its input. */
static const qg_ir_row identity = { .type = "Reshape",
                                    .opset = "opset1",
                                    .data = "special_zero=\"false\"" };

/* Of two operands; more are folded from the left, one is the result. */
static qg_status binary(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    qg_ir_source in[2], next;
    if (n->n_in < 2)
        return reshape(ir, n, &identity);
    QG_TRY(qg_ir_inputs(ir, n, 2, in));
    for (uint32_t i = 2; i < n->n_in; i++) {
        qg_ir_layer l = { .type = r->type,
                          .opset = r->opset,
                          .data = r->data,
                          .in = in,
                          .n_in = 2,
                          .out = &n->out[0]->type,
                          .n_out = 1 };
        if (!qg_same_dims(&n->in[i - 2]->type, &n->out[0]->type))
            return qg_ir_refuse(ir, n, "more than two operands that broadcast");
        QG_TRY(qg_ir_inner(ir, n, "partial", l, &next));
        in[0] = next;
        QG_TRY(qg_ir_value(ir, n->in[i], &in[1]));
    }
    return qg_ir_finish(ir, n, qg_ir_layer_of(r, r->data, in, 2));
}

/* Without perm the axes are reversed. */
static qg_status transpose(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    qg_ir_source in[2];
    int64_t perm[QG_MAX_RANK * 2];
    size_t count, rank = (size_t)n->out[0]->type.rank;
    QG_TRY(qg_ir_inputs(ir, n, 1, in));
    QG_TRY(qg_ir_ints(ir, n, "perm", UINT32_MAX, &count, perm));
    for (size_t i = 0; count == 0 && i < rank; i++)
        perm[i] = (int64_t)(rank - 1 - i);
    QG_TRY(qg_ir_vector(ir, n, "order", rank, perm, &in[1]));
    return qg_ir_finish(ir, n, qg_ir_layer_of(r, NULL, in, 2));
}

/* The attribute `axis`, counted from the front. */
static qg_status axis_of(qg_ir *ir, const qg_node *n, int64_t preset, int64_t *axis)
{
    int32_t rank = n->in[0]->type.rank;
    QG_TRY(qg_attr_int(ir->ctx, n, "axis", preset, axis));
    *axis += *axis < 0 ? rank : 0;
    return *axis >= 0 && *axis < rank ? QG_OK
                                      : qg_ir_refuse(ir, n, "its axis is not known");
}

/* Any number of parts, so their list is not an array of fixed length. */
static qg_status concat(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    int64_t axis;
    qg_ir_source *in = QG_NEWN(ir->arena, n->n_in, qg_ir_source);
    if (!in)
        return qg_nomem(ir->ctx);
    QG_TRY(axis_of(ir, n, 0, &axis));
    QG_TRY(qg_ir_inputs(ir, n, n->n_in, in));
    const char *data = qg_ir_text(ir, "axis=\"%" PRId64 "\"", axis);
    return qg_ir_finish(ir, n, qg_ir_layer_of(r, data, in, n->n_in));
}

/* Before opset 13 the dims from the axis on are one: the same where all but the first
 * of them are 1. */
static qg_status softmax(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    qg_ir_source in[1];
    int64_t axis;
    const qg_tensor *t = &n->out[0]->type;
    QG_TRY(qg_ir_inputs(ir, n, 1, in));
    QG_TRY(axis_of(ir, n, n->opset < 13 ? 1 : -1, &axis));
    if (n->opset < 13 && qg_dims_product(t, (int32_t)axis + 1, t->rank) != 1)
        return qg_ir_refuse(ir, n,
                            "it flattens dims after its axis, expected a single axis");
    const char *data = qg_ir_text(ir, "axis=\"%" PRId64 "\"", axis);
    return qg_ir_finish(ir, n, qg_ir_layer_of(r, data, in, 1));
}

/* Limits as the operator defines them; infinite ones are the largest float. */
static qg_status clamp(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    const qg_tensor *constant[INPUTS] = { NULL };
    char low_text[QG_NUM_TEXT], high_text[QG_NUM_TEXT];
    qg_ir_source in[1];
    float low, high;
    for (uint32_t i = 0; i < n->n_in && i < INPUTS; i++)
        constant[i] = n->in[i] ? qg_ir_known(ir, n->in[i]) : NULL;
    if (!n->op->clamp || !n->op->clamp(n, constant, &low, &high))
        return qg_ir_refuse(ir, n, "its limits are computed, expected constants");
    QG_TRY(qg_ir_inputs(ir, n, 1, in));
    qg_num_f32(low_text, fmaxf(low, -FLT_MAX));
    qg_num_f32(high_text, fminf(high, FLT_MAX));
    const char *data = qg_ir_text(ir, "min=\"%s\" max=\"%s\"", low_text, high_text);
    return qg_ir_finish(ir, n, qg_ir_layer_of(r, data, in, 1));
}

/* Functions with alpha and beta as inputs. */
static qg_status hard_sigmoid(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    qg_ir_source in[3];
    float alpha, beta;
    QG_TRY(qg_ir_inputs(ir, n, 1, in));
    QG_TRY(qg_attr_float(ir->ctx, n, "alpha", 0.2f, &alpha));
    QG_TRY(qg_attr_float(ir->ctx, n, "beta", 0.5f, &beta));
    QG_TRY(qg_ir_number(ir, n, "alpha", alpha, &in[1]));
    QG_TRY(qg_ir_number(ir, n, "beta", beta, &in[2]));
    return qg_ir_finish(ir, n, qg_ir_layer_of(r, NULL, in, 3));
}

/* One slope for all is a PReLU whose slope has one element. */
static qg_status leaky_relu(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    qg_ir_source in[2];
    float alpha;
    QG_TRY(qg_ir_inputs(ir, n, 1, in));
    QG_TRY(qg_attr_float(ir->ctx, n, "alpha", 0.01f, &alpha));
    QG_TRY(qg_ir_f32(ir, qg_ir_inner_name(ir, n, "alpha"), 1, &alpha, &in[1]));
    return qg_ir_finish(ir, n, qg_ir_layer_of(r, NULL, in, 2));
}

/* A slope per channel is a vector there. */
static qg_status prelu(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    qg_ir_source in[2], slope;
    const qg_tensor *x = &n->in[0]->type;
    qg_tensor t;
    QG_TRY(qg_ir_inputs(ir, n, 2, in));
    int64_t count = qg_tensor_count(&n->in[1]->type);
    if (count != 1 && (x->rank < 2 || count != x->dim[1]))
        return qg_ir_refuse(
            ir, n, "%" PRId64 " slopes, expected one or one per channel", count);
    qg_tensor_init(&t, QG_F32, 1, &count);
    QG_TRY(qg_ir_reshaped(ir, n, "slope", in[1], &t, &slope));
    in[1] = slope;
    return qg_ir_finish(ir, n, qg_ir_layer_of(r, NULL, in, 2));
}

static qg_status gelu(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    qg_ir_source in[1];
    const char *how;
    QG_TRY(qg_ir_inputs(ir, n, 1, in));
    QG_TRY(qg_attr_string(ir->ctx, n, "approximate", "none", &how));
    return qg_ir_finish(ir, n,
                        qg_ir_layer_of(r,
                                       strcmp(how, "tanh") == 0
                                           ? "approximation_mode=\"TANH\""
                                           : "approximation_mode=\"ERF\"",
                                       in, 1));
}

/* x sigmoid(alpha x). */
static qg_status swish(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    qg_ir_source in[2];
    float alpha;
    QG_TRY(qg_ir_inputs(ir, n, 1, in));
    QG_TRY(qg_attr_float(ir->ctx, n, "alpha", 1, &alpha));
    QG_TRY(qg_ir_number(ir, n, "alpha", alpha, &in[1]));
    return qg_ir_finish(ir, n, qg_ir_layer_of(r, NULL, in, 2));
}

static qg_status elu(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    char text[QG_NUM_TEXT];
    qg_ir_source in[1];
    float alpha;
    QG_TRY(qg_ir_inputs(ir, n, 1, in));
    QG_TRY(qg_attr_float(ir->ctx, n, "alpha", 1, &alpha));
    qg_num_f32(text, alpha);
    const char *data = qg_ir_text(ir, "alpha=\"%s\"", text);
    return qg_ir_finish(ir, n, qg_ir_layer_of(r, data, in, 1));
}

/* To the type of the output. */
static qg_status convert(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    qg_ir_source in[1];
    const char *type = qg_ir_type_name(n->out[0]->type.dtype);
    QG_TRY(qg_ir_inputs(ir, n, 1, in));
    if (!type)
        return qg_ir_refuse(ir, n, "to %s, expected a type of OpenVINO IR",
                            qg_dtype_name(n->out[0]->type.dtype));
    const char *data = qg_ir_text(ir, "destination_type=\"%s\"", type);
    return qg_ir_finish(ir, n, qg_ir_layer_of(r, data, in, 1));
}

/* To the dims of the output, which are known. */
static qg_status expand(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    qg_ir_source in[2];
    const qg_tensor *t = &n->out[0]->type;
    QG_TRY(qg_ir_inputs(ir, n, 1, in));
    QG_TRY(qg_ir_vector(ir, n, "shape", (size_t)t->rank, t->dim, &in[1]));
    return qg_ir_finish(ir, n, qg_ir_layer_of(r, r->data, in, 2));
}

/* --- reductions --- */

/* The axes are an input there. */
static qg_status reduce_over(qg_ir *ir, const qg_node *n, const qg_ir_row *r,
                             size_t count, const int64_t *axes, bool keep)
{
    qg_ir_source in[2];
    QG_TRY(qg_ir_inputs(ir, n, 1, in));
    QG_TRY(qg_ir_vector(ir, n, "axes", count, axes, &in[1]));
    return qg_ir_finish(
        ir, n,
        qg_ir_layer_of(r, keep ? "keep_dims=\"true\"" : "keep_dims=\"false\"", in, 2));
}

/* Over all axes after the channels. */
static qg_status global_pool(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    int64_t axes[QG_MAX_RANK];
    size_t count = (size_t)n->in[0]->type.rank - 2;
    for (size_t i = 0; i < count; i++)
        axes[i] = (int64_t)i + 2;
    return reduce_over(ir, n, r, count, axes, true);
}

/* No axes: all of them, or none with noop_with_empty_axes. */
static qg_status reduce(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    int64_t axes[2 * QG_MAX_RANK], keep;
    size_t count;
    bool noop;
    QG_TRY(qg_ir_ints(ir, n, "axes", 1, &count, axes));
    QG_TRY(qg_attr_int(ir->ctx, n, "keepdims", 1, &keep));
    QG_TRY(qg_attr_flag(ir->ctx, n, "noop_with_empty_axes", false, &noop));
    if (count == 0 && noop)
        return strncmp(r->type, "ReduceL", 7) == 0
                   ? qg_ir_refuse(ir, n,
                                  "noop_with_empty_axes and no axes, expected axes")
                   : reshape(ir, n, &identity);
    if (count == 0)
        for (; count < (size_t)n->in[0]->type.rank; count++)
            axes[count] = (int64_t)count;
    return reduce_over(ir, n, r, count, axes, keep != 0);
}

/* --- products --- */

/* s times a factor; s itself when that is 1. */
static qg_status scaled(qg_ir *ir, const qg_node *n, const char *suffix, float factor,
                        const qg_tensor *t, qg_ir_source *s)
{
    qg_ir_source in[2] = { *s };
    if (factor == 1)
        return QG_OK;
    QG_TRY(qg_ir_number(ir, n, suffix, factor, &in[1]));
    qg_ir_layer l = { .type = "Multiply",
                      .opset = "opset1",
                      .data = QG_IR_NUMPY,
                      .in = in,
                      .n_in = 2,
                      .out = t,
                      .n_out = 1 };
    return qg_ir_inner(ir, n, qg_ir_text(ir, "%s/product", suffix), l, s);
}

/* alpha and beta are products of their own where they are not 1. */
static qg_status gemm(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    qg_ir_source in[2], sum[2];
    int64_t ta, tb;
    float alpha, beta;
    const qg_tensor *y = &n->out[0]->type;
    QG_TRY(qg_ir_inputs(ir, n, 2, in));
    QG_TRY(qg_attr_int(ir->ctx, n, "transA", 0, &ta));
    QG_TRY(qg_attr_int(ir->ctx, n, "transB", 0, &tb));
    QG_TRY(qg_attr_float(ir->ctx, n, "alpha", 1, &alpha));
    QG_TRY(qg_attr_float(ir->ctx, n, "beta", 1, &beta));
    const char *data = qg_ir_text(ir, "transpose_a=\"%s\" transpose_b=\"%s\"",
                                  ta ? "true" : "false", tb ? "true" : "false");
    qg_ir_layer l = { .type = r->type,
                      .opset = r->opset,
                      .data = data,
                      .in = in,
                      .n_in = 2,
                      .out = y,
                      .n_out = 1 };
    bool biased = n->n_in > 2 && n->in[2];
    if (!biased && alpha == 1)
        return qg_ir_finish(ir, n, l);
    QG_TRY(qg_ir_inner(ir, n, "without_bias", l, &sum[0]));
    QG_TRY(scaled(ir, n, "alpha", alpha, y, &sum[0]));
    if (biased) {
        QG_TRY(qg_ir_value(ir, n->in[2], &sum[1]));
        QG_TRY(scaled(ir, n, "beta", beta, &n->in[2]->type, &sum[1]));
    } else {
        QG_TRY(qg_ir_number(ir, n, "zero", 0, &sum[1]));
    }
    return qg_ir_finish(ir, n, qg_ir_layer_of(&qg_ir_add_row, QG_IR_NUMPY, sum, 2));
}

/* --- moving data --- */

/* Lists that ONNX leaves out are 1, 1, ... and 0, 1, ... */
static qg_status slice(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    static const char *const suffix[] = { "start", "stop", "step", "axes" };
    int64_t x[4][2 * QG_MAX_RANK];
    size_t count[4];
    qg_ir_source in[5];
    QG_TRY(qg_ir_inputs(ir, n, 1, in));
    QG_TRY(qg_ir_ints(ir, n, "starts", 1, &count[0], x[0]));
    QG_TRY(qg_ir_ints(ir, n, "ends", 2, &count[1], x[1]));
    QG_TRY(qg_ir_ints(ir, n, "axes", 3, &count[3], x[3]));
    QG_TRY(qg_ir_ints(ir, n, NULL, 4, &count[2], x[2]));
    for (size_t i = count[2]; i < count[0]; i++)
        x[2][i] = 1;
    for (size_t i = count[3]; i < count[0]; i++)
        x[3][i] = (int64_t)i;
    for (uint32_t i = 0; i < 4; i++)
        QG_TRY(qg_ir_vector(ir, n, suffix[i], count[0], x[i], &in[i + 1]));
    return qg_ir_finish(ir, n, qg_ir_layer_of(r, NULL, in, 5));
}

/* The lengths are those of the outputs, in any form of the node. */
static qg_status split(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    assert(n->n_out > 0);
    qg_tensor out[SECTIONS];
    const char *name[SECTIONS];
    int64_t length[SECTIONS], axis;
    qg_ir_source in[3], s;
    QG_TRY(axis_of(ir, n, 0, &axis));
    if (n->n_out > SECTIONS)
        return qg_ir_refuse(ir, n, "%u parts, expected at most %d", n->n_out, SECTIONS);
    for (uint32_t i = 0; i < n->n_out; i++) {
        if (!n->out[i])
            return qg_ir_refuse(ir, n, "an unnamed part, expected names for all");
        out[i] = n->out[i]->type;
        name[i] = n->out[i]->name;
        length[i] = out[i].dim[axis];
    }
    QG_TRY(qg_ir_inputs(ir, n, 1, in));
    QG_TRY(qg_ir_vector(ir, n, "axis", 0, &axis, &in[1]));
    QG_TRY(qg_ir_vector(ir, n, "lengths", n->n_out, length, &in[2]));
    qg_ir_layer l = { .name = n->name,
                      .type = r->type,
                      .opset = r->opset,
                      .in = in,
                      .n_in = 3,
                      .out = out,
                      .n_out = n->n_out,
                      .named = name };
    QG_TRY(qg_ir_add(ir, &l, &s));
    for (uint32_t i = 0; i < n->n_out; i++)
        qg_ir_bind(ir, n->out[i], (qg_ir_source){ s.layer, i });
    return QG_OK;
}

/* The axis is an input there, a scalar. */
static qg_status gather(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    qg_ir_source in[3];
    int64_t axis;
    QG_TRY(qg_ir_inputs(ir, n, 2, in));
    QG_TRY(axis_of(ir, n, 0, &axis));
    QG_TRY(qg_ir_vector(ir, n, "axis", 0, &axis, &in[2]));
    return qg_ir_finish(ir, n, qg_ir_layer_of(r, "batch_dims=\"0\"", in, 3));
}

/* Blocks of pixels to channels and back. */
static qg_status space(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    qg_ir_source in[1];
    int64_t size;
    const char *mode;
    QG_TRY(qg_ir_inputs(ir, n, 1, in));
    QG_TRY(qg_attr_int(ir->ctx, n, "blocksize", 1, &size));
    QG_TRY(qg_attr_string(ir->ctx, n, "mode", "DCR", &mode));
    const char *data =
        qg_ir_text(ir, "mode=\"%s\" block_size=\"%" PRId64 "\"",
                   strcmp(mode, "CRD") == 0 ? "depth_first" : "blocks_first", size);
    return qg_ir_finish(ir, n, qg_ir_layer_of(r, data, in, 1));
}

/* The layer drops boxes that overlap as much as the limit, ONNX those that overlap
 * more: its limit is the next float, and not 0. */
static qg_status overlap_limit(qg_ir *ir, const qg_node *n, qg_ir_source *out)
{
    const qg_value *v = n->n_in > 3 ? n->in[3] : NULL;
    const qg_tensor *t = v ? qg_ir_known(ir, v) : NULL;
    if (v && !t)
        return qg_ir_refuse(ir, n,
                            "its limit of overlap is computed, expected a "
                            "constant");
    return qg_ir_number(ir, n, "overlap",
                        fmaxf(nextafterf(t ? t->f32[0] : 0, FLT_MAX), FLT_MIN), out);
}

/* Limits that are absent: no box, any overlap, any score.  The layer has two more
 * outputs, scores and a count. */
static qg_status suppress(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    qg_ir_source in[5], s;
    qg_tensor out[3] = { n->out[0]->type };
    const char *named[3] = { n->out[0]->name };
    int64_t centre;
    QG_TRY(qg_ir_inputs(ir, n, 2, in));
    QG_TRY(qg_attr_int(ir->ctx, n, "center_point_box", 0, &centre));
    if (n->n_in > 2 && n->in[2])
        QG_TRY(qg_ir_value(ir, n->in[2], &in[2]));
    else
        QG_TRY(qg_ir_vector(ir, n, "most", 0, &(int64_t){ 0 }, &in[2]));
    QG_TRY(overlap_limit(ir, n, &in[3]));
    if (n->n_in > 4 && n->in[4])
        QG_TRY(qg_ir_value(ir, n->in[4], &in[4]));
    else
        QG_TRY(qg_ir_number(ir, n, "score", -FLT_MAX, &in[4]));
    qg_tensor_init(&out[1], QG_F32, 2, (int64_t[]){ -1, 3 });
    qg_tensor_init(&out[2], QG_I64, 1, (int64_t[]){ 1 });
    qg_ir_layer l =
        qg_ir_layer_of(r,
                       centre ? "box_encoding=\"center\" output_type=\"i64\" "
                                "sort_result_descending=\"false\""
                              : "box_encoding=\"corner\" output_type=\"i64\" "
                                "sort_result_descending=\"false\"",
                       in, 5);
    l.name = n->name;
    l.out = out;
    l.n_out = 3;
    l.named = named;
    QG_TRY(qg_ir_add(ir, &l, &s));
    qg_ir_bind(ir, n->out[0], s);
    return QG_OK;
}

/* Indices have the dims of the data but along the axis: ONNX allows fewer. */
static qg_status gather_elements(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    qg_ir_source in[2];
    int64_t axis;
    QG_TRY(qg_ir_inputs(ir, n, 2, in));
    QG_TRY(axis_of(ir, n, 0, &axis));
    for (int32_t i = 0; i < n->in[0]->type.rank; i++)
        if (i != axis && n->in[0]->type.dim[i] != n->in[1]->type.dim[i])
            return qg_ir_refuse(ir, n, "fewer indices than elements along axis %d", i);
    const char *data = qg_ir_text(ir, "axis=\"%" PRId64 "\"", axis);
    return qg_ir_finish(ir, n, qg_ir_layer_of(r, data, in, 2));
}

/* 1 / x. */
static qg_status reciprocal(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    qg_ir_source in[2];
    QG_TRY(qg_ir_inputs(ir, n, 1, &in[1]));
    QG_TRY(qg_ir_number(ir, n, "one", 1, &in[0]));
    return qg_ir_finish(ir, n, qg_ir_layer_of(r, r->data, in, 2));
}

/* Pads must be known: the first half is before, the second after. */
static qg_status pad(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    int64_t x[2 * QG_MAX_RANK];
    qg_ir_source in[4];
    const char *mode;
    size_t count, rank = (size_t)n->in[0]->type.rank;
    float value;
    QG_TRY(qg_attr_string(ir->ctx, n, "mode", "constant", &mode));
    QG_TRY(qg_ir_ints(ir, n, "pads", 1, &count, x));
    if (count != 2 * rank || (n->n_in > 3 && n->in[3]) || strcmp(mode, "wrap") == 0)
        return qg_ir_refuse(ir, n, "mode %s with axes or %zu pads", mode, count);
    QG_TRY(qg_ir_inputs(ir, n, 1, in));
    QG_TRY(qg_ir_vector(ir, n, "before", rank, x, &in[1]));
    QG_TRY(qg_ir_vector(ir, n, "behind", rank, x + rank, &in[2]));
    QG_TRY(qg_attr_float(ir->ctx, n, "value", 0, &value));
    if (n->n_in > 2 && n->in[2])
        QG_TRY(qg_ir_value(ir, n->in[2], &in[3]));
    else
        QG_TRY(qg_ir_number(ir, n, "value", value, &in[3]));
    const char *data = qg_ir_text(ir, "pad_mode=\"%s\"", mode);
    return qg_ir_finish(ir, n, qg_ir_layer_of(r, data, in, 4));
}

/* Scales where the node has some, else the size of the output. */
static qg_status resize(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    const qg_tensor *y = &n->out[0]->type, *scale = NULL;
    uint32_t slot = n->opset > 10 ? 2 : 1;
    const char *mode, *place, *nearest;
    int64_t axes[QG_MAX_RANK], antialias;
    qg_ir_source in[3];
    if (slot < n->n_in && n->in[slot])
        scale = qg_ir_known(ir, n->in[slot]);
    bool scales = scale && qg_tensor_count(scale) == y->rank;
    for (int32_t i = 0; i < y->rank; i++)
        axes[i] = i;
    QG_TRY(qg_attr_string(ir->ctx, n, "mode", "nearest", &mode));
    QG_TRY(qg_attr_string(ir->ctx, n, "coordinate_transformation_mode",
                          n->opset > 10 ? "half_pixel" : "asymmetric", &place));
    QG_TRY(qg_attr_string(ir->ctx, n, "nearest_mode",
                          n->opset > 10 ? "round_prefer_floor" : "floor", &nearest));
    if (strcmp(place, "tf_crop_and_resize") == 0 ||
        strcmp(place, "half_pixel_symmetric") == 0 || qg_attr_has(n, "axes"))
        return qg_ir_refuse(ir, n, "%s or axes, expected neither", place);
    QG_TRY(qg_attr_int(ir->ctx, n, "antialias", 0, &antialias));
    if (antialias && strcmp(mode, "nearest") != 0)
        return qg_ir_refuse(ir, n, "antialias of mode %s, expected 0", mode);
    QG_TRY(qg_ir_inputs(ir, n, 1, in));
    QG_TRY(scales ? qg_ir_value(ir, n->in[slot], &in[1])
                  : qg_ir_vector(ir, n, "sizes", (size_t)y->rank, y->dim, &in[1]));
    QG_TRY(qg_ir_vector(ir, n, "axes", (size_t)y->rank, axes, &in[2]));
    const char *data = qg_ir_text(
        ir,
        "mode=\"%s\" shape_calculation_mode=\"%s\" coordinate_transformation_mode="
        "\"%s\" nearest_mode=\"%s\" antialias=\"false\" pads_begin=\"0\" "
        "pads_end=\"0\" cube_coeff=\"-0.75\"",
        strcmp(mode, "linear") == 0 ? "linear_onnx" : mode, scales ? "scales" : "sizes",
        place, nearest);
    return qg_ir_finish(ir, n, qg_ir_layer_of(r, data, in, 3));
}

/* --- the table --- */

/* clang-format off */
#define SAME(onnx, type, set)   { onnx, type, set, NULL, same },
#define BINARY(onnx, type)      { onnx, type, "opset1", QG_IR_NUMPY, binary },
#define RESHAPE(onnx) \
    { onnx, "Reshape", "opset1", "special_zero=\"false\"", reshape },
#define REDUCE(onnx)            { onnx, onnx, "opset1", NULL, reduce },
static const qg_ir_row rows[] = {
    SAME("Relu", "ReLU", "opset1") SAME("Sigmoid", "Sigmoid", "opset1")
    SAME("Tanh", "Tanh", "opset1") SAME("Exp", "Exp", "opset1")
    SAME("Log", "Log", "opset1") SAME("Sqrt", "Sqrt", "opset1")
    SAME("Erf", "Erf", "opset1") SAME("Abs", "Abs", "opset1")
    SAME("Neg", "Negative", "opset1") SAME("Floor", "Floor", "opset1")
    SAME("Ceil", "Ceiling", "opset1") SAME("HardSwish", "HSwish", "opset4")
    SAME("Softplus", "SoftPlus", "opset4") SAME("Mish", "Mish", "opset4")
    { "MatMul", "MatMul", "opset1", "transpose_a=\"false\" transpose_b=\"false\"",
      same },
    BINARY("Add", "Add") BINARY("Sub", "Subtract") BINARY("Mul", "Multiply")
    BINARY("Div", "Divide") BINARY("Pow", "Power") BINARY("Max", "Maximum")
    BINARY("Min", "Minimum") BINARY("Sum", "Add")
    RESHAPE("Reshape") RESHAPE("Flatten") RESHAPE("Squeeze") RESHAPE("Unsqueeze")
    RESHAPE("Identity") RESHAPE("Dropout")
    REDUCE("ReduceMean") REDUCE("ReduceMax") REDUCE("ReduceMin") REDUCE("ReduceSum")
    REDUCE("ReduceProd")
    { "ReduceL1", "ReduceL1", "opset4", NULL, reduce },
    { "ReduceL2", "ReduceL2", "opset4", NULL, reduce },
    SAME("Sign", "Sign", "opset1") SAME("Sin", "Sin", "opset1")
    SAME("Cos", "Cos", "opset1") SAME("Softsign", "SoftSign", "opset9")
    SAME("Not", "LogicalNot", "opset1")
    BINARY("Equal", "Equal") BINARY("Greater", "Greater") BINARY("Less", "Less")
    BINARY("GreaterOrEqual", "GreaterEqual") BINARY("LessOrEqual", "LessEqual")
    BINARY("And", "LogicalAnd") BINARY("Or", "LogicalOr") BINARY("Xor", "LogicalXor")
    { "Where", "Select", "opset1", QG_IR_NUMPY, same },
    { "Cast", "Convert", "opset1", NULL, convert },
    { "CastLike", "Convert", "opset1", NULL, convert },
    { "Expand", "Broadcast", "opset3", "mode=\"bidirectional\"", expand },
    { "Elu", "Elu", "opset1", NULL, elu },
    { "Gelu", "Gelu", "opset7", NULL, gelu },
    { "Swish", "Swish", "opset4", NULL, swish },
    { "LogSoftmax", "LogSoftmax", "opset5", NULL, softmax },
    { "LayerNormalization", NULL, NULL, NULL, qg_ir_layer_norm },
    { "RMSNormalization", NULL, NULL, NULL, qg_ir_rms_norm },
    { "SimplifiedLayerNormalization", NULL, NULL, NULL, qg_ir_rms_norm },
    { "InstanceNormalization", NULL, NULL, NULL, qg_ir_instance_norm },
    { "GroupNormalization", NULL, NULL, NULL, qg_ir_group_norm },
    { "Attention", "ScaledDotProductAttention", "opset13", NULL, qg_ir_attention },
    { "Transpose", "Transpose", "opset1", NULL, transpose },
    { "Concat", "Concat", "opset1", NULL, concat },
    { "Softmax", "SoftMax", "opset8", NULL, softmax },
    { "Clip", "Clamp", "opset1", NULL, clamp },
    { "HardSigmoid", "HardSigmoid", "opset1", NULL, hard_sigmoid },
    { "LeakyRelu", "PReLU", "opset1", NULL, leaky_relu },
    { "PRelu", "PReLU", "opset1", NULL, prelu },
    { "Conv", "Convolution", "opset1", NULL, qg_ir_convolution },
    { "ConvTranspose", NULL, NULL, NULL, qg_ir_deconvolution },
    { "MaxPool", "MaxPool", "opset1", NULL, qg_ir_pool },
    { "AveragePool", "AvgPool", "opset1", "exclude-pad", qg_ir_pool },
    { "GlobalAveragePool", "ReduceMean", "opset1", NULL, global_pool },
    { "GlobalMaxPool", "ReduceMax", "opset1", NULL, global_pool },
    { "Gemm", "MatMul", "opset1", NULL, gemm },
    { "Slice", "Slice", "opset8", NULL, slice },
    { "Split", "VariadicSplit", "opset1", NULL, split },
    { "Gather", "Gather", "opset8", NULL, gather },
    { "Round", "Round", "opset5", "mode=\"half_to_even\"", same },
    { "Reciprocal", "Divide", "opset1", QG_IR_NUMPY, reciprocal },
    SAME("Tan", "Tan", "opset1") SAME("Asin", "Asin", "opset1")
    SAME("Acos", "Acos", "opset1") SAME("Atan", "Atan", "opset1")
    SAME("Sinh", "Sinh", "opset1") SAME("Cosh", "Cosh", "opset1")
    SAME("Asinh", "Asinh", "opset4") SAME("Acosh", "Acosh", "opset4")
    SAME("Atanh", "Atanh", "opset4") SAME("Tile", "Tile", "opset1")
    { "GatherElements", "GatherElements", "opset6", NULL, gather_elements },
    { "NonMaxSuppression", "NonMaxSuppression", "opset9", NULL, suppress },
    { "DepthToSpace", "DepthToSpace", "opset1", NULL, space },
    { "SpaceToDepth", "SpaceToDepth", "opset1", NULL, space },
    { "Pad", "Pad", "opset1", NULL, pad },
    { "Resize", "Interpolate", "opset11", NULL, resize },
    { "RNN", "RNNSequence", "opset5", NULL, qg_ir_rnn },
    { "GRU", "GRUSequence", "opset5", NULL, qg_ir_gru },
    { "LSTM", "LSTMSequence", "opset5", NULL, qg_ir_lstm },
    { "DequantizeLinear", "Multiply", "opset1", QG_IR_NUMPY, qg_ir_dequantize },
};
/* clang-format on */

/* Dims behind NonMaxSuppression depend on the data: operators that write dims into
 * their layers are refused there; a Reshape may leave one open. */
static qg_status expect_dims(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    qg_status (*const takes[])(qg_ir *, const qg_node *, const qg_ir_row *) = {
        same,         binary, reshape, transpose, concat,     softmax, clamp,
        hard_sigmoid, elu,    gelu,    swish,     leaky_relu, convert, reduce,
        global_pool,  slice,  gather,  suppress,  reciprocal
    };
    char text[QG_SHAPE_TEXT];
    const qg_tensor *open = NULL;
    for (uint32_t i = 0; i < n->n_in && !open; i++)
        open = n->in[i] && !qg_tensor_known(&n->in[i]->type) ? &n->in[i]->type : NULL;
    for (size_t i = 0; open && i < sizeof takes / sizeof takes[0]; i++)
        open = r->emit == takes[i] ? NULL : open;
    const qg_tensor *y = n->n_out && n->out[0] ? &n->out[0]->type : NULL;
    size_t unknown = 0;
    for (int32_t i = 0; y && i < y->rank; i++)
        unknown += y->dim[i] < 0;
    if (!open && r->emit == reshape && unknown > 1)
        open = y;
    return open ? qg_ir_refuse(ir, n, "%s has dims that depend on the data",
                               qg_tensor_text(open, text))
                : QG_OK;
}

/* OpenVINO 2026.4 leaves the outputs of such products as its memory was, or does not
 * compile the network. */
static qg_status expect_terms(qg_ir *ir, const qg_node *n)
{
    const qg_tensor *y = n->n_out && n->out[0] ? &n->out[0]->type : NULL;
    char text[QG_SHAPE_TEXT];
    if (!qg_node_has(n, QG_OP_COMPUTE) || (y && qg_dims_product(y, 0, y->rank) == 0))
        return QG_OK;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const qg_tensor *t = n->in[i] ? &n->in[i]->type : NULL;
        if (t && qg_tensor_known(t) && qg_dims_product(t, 0, t->rank) == 0)
            return qg_ir_refuse(ir, n, "a sum of no terms (%s), expected some",
                                qg_tensor_text(t, text));
    }
    return QG_OK;
}

/* The mask of Dropout, indices of maxima, mean and deviation of LayerNormalization,
 * caches and scores of Attention have no counterpart in the layers made here. */
static qg_status expect_sources(qg_ir *ir, const qg_node *n)
{
    for (uint32_t k = 0; k < n->n_out; k++)
        if (n->out[k] && qg_value_watchers(n->out[k]) > 0 &&
            ir->of_value[n->out[k]->id].layer == QG_NONE)
            return qg_ir_refuse(ir, n, "output %u is read, expected the first only", k);
    return QG_OK;
}

qg_status qg_ir_node(qg_ir *ir, const qg_node *n)
{
    static const qg_ir_row fake = { "FakeQuantize", "FakeQuantize", "opset1", NULL,
                                    NULL };
    if (qg_is_fake_quantize(n->op))
        return qg_ir_fake_quantize(ir, n, &fake);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!n->op->domain && qg_op_is_named(n->op, &rows[i].onnx, 1)) {
            QG_TRY(expect_dims(ir, n, &rows[i]));
            QG_TRY(expect_terms(ir, n));
            QG_TRY(rows[i].emit(ir, n, &rows[i]));
            return expect_sources(ir, n);
        }
    return qg_ir_refuse(ir, n,
                        "opset %" PRId64 " has no layer here, expected one of `qg list "
                        "layers`, or format openvino-fq or onnx-qdq (--placement "
                        "openvino), where OpenVINO reads the operator itself",
                        n->opset);
}

const char *qg_ir_layer_name(size_t i, const char **layer)
{
    if (i >= sizeof rows / sizeof rows[0])
        return NULL;
    *layer = rows[i].type;
    return rows[i].onnx;
}

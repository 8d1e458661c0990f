#include "engine/formats/openvino/normalization_layers.h"

#include <inttypes.h>

#include "engine/core/num.h"

static const qg_ir_row multiply = { .type = "Multiply",
                                    .opset = "opset1",
                                    .data = QG_IR_NUMPY };

/* A layer inside of the node's, with outputs like t. */
static qg_status inner(qg_ir *ir, const qg_node *n, const char *suffix, qg_ir_layer l,
                       const qg_tensor *t, qg_ir_source *out)
{
    l.out = t;
    l.n_out = 1;
    return qg_ir_inner(ir, n, suffix, l, out);
}

/* The axes from `first` on, as a constant. */
static qg_status axes_from(qg_ir *ir, const qg_node *n, int64_t first, int32_t rank,
                           qg_ir_source *out)
{
    int64_t axes[QG_MAX_RANK];
    size_t count = 0;
    for (int64_t i = first; i < rank; i++)
        axes[count++] = i;
    return qg_ir_vector(ir, n, "axes", count, axes, out);
}

/* x, of the type t, with mean 0 and variance 1 over the axes from `first` on:
 * (x - mean) / sqrt(variance + epsilon), as MVN-6 computes it with eps_mode
 * INSIDE_SQRT.  The default of epsilon is the same in all of ONNX's normalizations. */
static qg_status normalized(qg_ir *ir, const qg_node *n, qg_ir_source x,
                            const qg_tensor *t, int64_t first, qg_ir_source *out)
{
    qg_ir_source in[2] = { x };
    char text[QG_NUM_TEXT];
    float epsilon;
    QG_TRY(qg_attr_float(ir->ctx, n, "epsilon", 1e-5f, &epsilon));
    QG_TRY(axes_from(ir, n, first, t->rank, &in[1]));
    qg_num_f32(text, epsilon);
    const char *data = qg_ir_text(
        ir, "eps=\"%s\" normalize_variance=\"true\" eps_mode=\"INSIDE_SQRT\"", text);
    qg_ir_layer l = {
        .type = "MVN", .opset = "opset6", .data = data, .in = in, .n_in = 2
    };
    return inner(ir, n, "normalized", l, t, out);
}

/* The node's output: x * gain + shift, where there is a shift.  Gain and shift
 * broadcast to x by NumPy's rules: callers reshape what does not. */
static qg_status finish(qg_ir *ir, const qg_node *n, qg_ir_source x, qg_ir_source gain,
                        const qg_ir_source *shift)
{
    qg_ir_source product[2] = { x, gain }, sum[2];
    qg_ir_layer l = qg_ir_layer_of(&multiply, multiply.data, product, 2);
    if (!shift)
        return qg_ir_finish(ir, n, l);
    QG_TRY(inner(ir, n, "product", l, &n->out[0]->type, &sum[0]));
    sum[1] = *shift;
    return qg_ir_finish(ir, n, qg_ir_layer_of(&qg_ir_add_row, QG_IR_NUMPY, sum, 2));
}

/* The first axis that is normalized.  0 <= *axis < rank; refused where the rank is not
 * known.  The axes behind it are normalized, too. */
static qg_status first_axis(qg_ir *ir, const qg_node *n, int64_t *axis)
{
    int32_t rank = n->in[0]->type.rank;
    QG_TRY(qg_attr_int(ir->ctx, n, "axis", -1, axis));
    *axis += *axis < 0 ? rank : 0;
    return *axis >= 0 && *axis < rank ? QG_OK
                                      : qg_ir_refuse(ir, n, "its axis is not known");
}

/* Scale and bias have the dims of the normalized axes, which are the last ones: they
 * broadcast as they are. */
qg_status qg_ir_layer_norm(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    qg_ir_source in[2], x, shift;
    int64_t axis;
    bool shifted = n->n_in > 2 && n->in[2];
    (void)r;
    QG_TRY(first_axis(ir, n, &axis));
    QG_TRY(qg_ir_inputs(ir, n, 2, in));
    QG_TRY(normalized(ir, n, in[0], &n->in[0]->type, axis, &x));
    if (shifted)
        QG_TRY(qg_ir_value(ir, n->in[2], &shift));
    return finish(ir, n, x, in[1], shifted ? &shift : NULL);
}

/* x / sqrt(mean(x^2) + epsilon) * scale.  MVN cannot do without the mean, hence single
 * layers.  The mean keeps its axes with a dim of 1 and broadcasts in the division. */
qg_status qg_ir_rms_norm(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    qg_ir_source in[2], pair[2], x;
    qg_tensor mean = n->in[0]->type;
    float epsilon;
    int64_t axis;
    (void)r;
    QG_TRY(first_axis(ir, n, &axis));
    QG_TRY(qg_ir_inputs(ir, n, 2, in));
    QG_TRY(qg_attr_float(ir->ctx, n, "epsilon", 1e-5f, &epsilon));
    for (int32_t i = (int32_t)axis; i < mean.rank; i++)
        mean.dim[i] = 1;
    qg_tensor_set_plain(&mean);
    qg_ir_layer square =
        qg_ir_layer_of(&multiply, multiply.data, (qg_ir_source[]){ in[0], in[0] }, 2);
    QG_TRY(inner(ir, n, "square", square, &n->in[0]->type, &pair[0]));
    QG_TRY(axes_from(ir, n, axis, mean.rank, &pair[1]));
    qg_ir_layer reduce = { .type = "ReduceMean",
                           .opset = "opset1",
                           .data = "keep_dims=\"true\"",
                           .in = pair,
                           .n_in = 2 };
    QG_TRY(inner(ir, n, "mean", reduce, &mean, &pair[0]));
    QG_TRY(qg_ir_number(ir, n, "epsilon", epsilon, &pair[1]));
    QG_TRY(inner(ir, n, "sum", qg_ir_layer_of(&qg_ir_add_row, QG_IR_NUMPY, pair, 2),
                 &mean, &pair[0]));
    qg_ir_layer root = { .type = "Sqrt", .opset = "opset1", .in = pair, .n_in = 1 };
    QG_TRY(inner(ir, n, "root", root, &mean, &pair[1]));
    pair[0] = in[0];
    qg_ir_layer divide = {
        .type = "Divide", .opset = "opset1", .data = QG_IR_NUMPY, .in = pair, .n_in = 2
    };
    QG_TRY(inner(ir, n, "ratio", divide, &n->in[0]->type, &x));
    return finish(ir, n, x, in[1], NULL);
}

/* Slot `slot`, a number per channel, beside data of the type t: channels on axis 1.  It
 * becomes [1, channels, 1, ...] of the rank of t.  Channels of a grouped tensor are its
 * groups. */
static qg_status per_channel(qg_ir *ir, const qg_node *n, uint32_t slot,
                             const char *suffix, const qg_tensor *t, qg_ir_source *out)
{
    int64_t dim[QG_MAX_RANK];
    qg_ir_source s;
    qg_tensor shape;
    for (int32_t i = 0; i < t->rank; i++)
        dim[i] = i == 1 ? t->dim[1] : 1;
    qg_tensor_init(&shape, n->in[slot]->type.dtype, t->rank, dim);
    QG_TRY(qg_ir_value(ir, n->in[slot], &s));
    return qg_ir_reshaped(ir, n, suffix, s, &shape, out);
}

/* Each channel of each sample by itself: the axes behind the channels. */
qg_status qg_ir_instance_norm(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    qg_ir_source in[3], x, gain, shift;
    const qg_tensor *t = &n->in[0]->type;
    (void)r;
    QG_TRY(qg_ir_inputs(ir, n, 3, in));
    QG_TRY(normalized(ir, n, in[0], t, 2, &x));
    QG_TRY(per_channel(ir, n, 1, "gain", t, &gain));
    QG_TRY(per_channel(ir, n, 2, "shift", t, &shift));
    return finish(ir, n, x, gain, &shift);
}

/* Groups of channels as an axis of their own.  Before opset 21 gain and shift are per
 * group.  [N, groups, elements of a group] is normalized over its last axis.  Per
 * group, gain and shift apply in that shape, before the dims of the input are restored;
 * per channel, after. */
qg_status qg_ir_group_norm(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    qg_ir_source in[3], x, gain, shift, product[2];
    const qg_tensor *t = &n->in[0]->type;
    int64_t groups;
    qg_tensor grouped;
    (void)r;
    QG_TRY(qg_ir_inputs(ir, n, 3, in));
    QG_TRY(qg_attr_int(ir->ctx, n, "num_groups", 0, &groups));
    if (t->rank < 2 || groups < 1 || t->dim[1] % groups != 0)
        return qg_ir_refuse(ir, n, "%" PRId64 " groups do not divide its channels",
                            groups);
    int64_t dim[3] = { t->dim[0], groups, qg_dims_product(t, 1, t->rank) / groups };
    qg_tensor_init(&grouped, t->dtype, 3, dim);
    QG_TRY(qg_ir_reshaped(ir, n, "grouped", in[0], &grouped, &x));
    QG_TRY(normalized(ir, n, x, &grouped, 2, &x));
    if (n->opset >= 21) {
        QG_TRY(qg_ir_reshaped(ir, n, "ungrouped", x, t, &x));
        QG_TRY(per_channel(ir, n, 1, "gain", t, &gain));
        QG_TRY(per_channel(ir, n, 2, "shift", t, &shift));
        return finish(ir, n, x, gain, &shift);
    }
    product[0] = x;
    QG_TRY(per_channel(ir, n, 1, "gain", &grouped, &product[1]));
    QG_TRY(inner(ir, n, "product", qg_ir_layer_of(&multiply, multiply.data, product, 2),
                 &grouped, &x));
    product[0] = x;
    QG_TRY(per_channel(ir, n, 2, "shift", &grouped, &product[1]));
    QG_TRY(inner(ir, n, "sum", qg_ir_layer_of(&qg_ir_add_row, QG_IR_NUMPY, product, 2),
                 &grouped, &x));
    product[0] = x;
    QG_TRY(qg_ir_vector(ir, n, "shape", (size_t)t->rank, t->dim, &product[1]));
    qg_ir_layer back = { .type = "Reshape",
                         .opset = "opset1",
                         .data = "special_zero=\"false\"",
                         .in = product,
                         .n_in = 2 };
    return qg_ir_finish(ir, n, back);
}

/* --- attention --- */

/* Batch, heads, tokens, size.  An operand of ScaledDotProductAttention, of rank 4. */
typedef struct part {
    qg_ir_source at;
    qg_tensor type;
} part;

/* Exchanges axes 1 and 2 of p, whose type follows: tokens with heads before the
 * attention, heads with tokens behind it. */
static qg_status transposed(qg_ir *ir, const qg_node *n, const char *suffix, part *p)
{
    static const int64_t perm[4] = { 0, 2, 1, 3 };
    qg_ir_source in[2] = { p->at };
    int64_t dim[4] = { p->type.dim[0], p->type.dim[2], p->type.dim[1], p->type.dim[3] };
    const char *order = qg_ir_text(ir, "%s/order", suffix);
    qg_tensor_init(&p->type, p->type.dtype, 4, dim);
    QG_TRY(qg_ir_vector(ir, n, order, 4, perm, &in[1]));
    qg_ir_layer l = { .type = "Transpose", .opset = "opset1", .in = in, .n_in = 2 };
    return inner(ir, n, suffix, l, &p->type, &p->at);
}

/* Input `slot` with its heads on axis 1; of rank 3 they are within the last axis.  p of
 * rank 4 is left as it is.  Rank 3: [B, T, heads * size] becomes [B, T, heads, size],
 * then [B, heads, T, size].  Refused when the heads do not divide the last axis. */
static qg_status heads_of(qg_ir *ir, const qg_node *n, uint32_t slot, int64_t heads,
                          part *p)
{
    static const char *const name[] = { "query", "key", "value" };
    const qg_tensor *t = &n->in[slot]->type;
    QG_TRY(qg_ir_value(ir, n->in[slot], &p->at));
    p->type = *t;
    if (t->rank == 4)
        return QG_OK;
    if (heads < 1 || t->rank != 3 || t->dim[2] % heads != 0)
        return qg_ir_refuse(ir, n, "rank %d with %" PRId64 " heads", t->rank, heads);
    int64_t dim[4] = { t->dim[0], t->dim[1], heads, t->dim[2] / heads };
    qg_tensor_init(&p->type, t->dtype, 4, dim);
    QG_TRY(qg_ir_reshaped(ir, n, qg_ir_text(ir, "%s_heads", name[slot]), p->at,
                          &p->type, &p->at));
    return transposed(ir, n, name[slot], p);
}

/* Each head of keys or values stands for several heads of queries.  Grouped-query
 * attention: OpenVINO's layer requires as many heads in all operands.  Head h of the
 * queries gets head h * have / heads: each is repeated in place by a broadcast of a new
 * axis, [B, have, 1, T, size] to [B, have, heads / have, T, size], which is then merged
 * with the heads.  `heads` is a multiple of what p has, or the node is refused. */
static qg_status repeat_heads(qg_ir *ir, const qg_node *n, const char *suffix,
                              int64_t heads, part *p)
{
    int64_t have = p->type.dim[1];
    if (have == heads)
        return QG_OK;
    if (have < 1 || heads % have != 0)
        return qg_ir_refuse(ir, n, "%" PRId64 " heads share %" PRId64, heads, have);
    const qg_tensor *t = &p->type;
    int64_t one[5] = { t->dim[0], have, 1, t->dim[2], t->dim[3] };
    int64_t all[5] = { t->dim[0], have, heads / have, t->dim[2], t->dim[3] };
    int64_t back[4] = { t->dim[0], heads, t->dim[2], t->dim[3] };
    qg_tensor wide;
    qg_ir_source in[2];
    const char *name[3];
    for (size_t i = 0; i < 3; i++)
        name[i] = qg_ir_text(ir, "%s/repeated_%zu", suffix, i);
    qg_tensor_init(&wide, t->dtype, 5, one);
    QG_TRY(qg_ir_reshaped(ir, n, name[0], p->at, &wide, &in[0]));
    qg_tensor_init(&wide, t->dtype, 5, all);
    QG_TRY(qg_ir_vector(ir, n, name[1], 5, all, &in[1]));
    qg_ir_layer l = { .type = "Broadcast",
                      .opset = "opset3",
                      .data = "mode=\"bidirectional\"",
                      .in = in,
                      .n_in = 2 };
    QG_TRY(inner(ir, n, suffix, l, &wide, &in[0]));
    qg_tensor_init(&p->type, t->dtype, 4, back);
    return qg_ir_reshaped(ir, n, name[2], in[0], &p->type, &p->at);
}

/* Attributes of Attention-23, as far as they have a counterpart. */
typedef struct attention {
    int64_t heads[3]; /* of queries, keys, values */
    bool causal, masked;
    float scale; /* 0: 1 / sqrt(size) */
} attention;

/* The layer ignores its mask when it is causal, and it aligns the first query with the
 * first key: both matter only where they are refused here.  Inputs from slot 4 on are
 * caches of keys and values. */
static qg_status read_attention(qg_ir *ir, const qg_node *n, attention *a)
{
    float softcap;
    int64_t causal, queries, keys;
    QG_TRY(qg_attr_int(ir->ctx, n, "q_num_heads", 0, &a->heads[0]));
    QG_TRY(qg_attr_int(ir->ctx, n, "kv_num_heads", 0, &a->heads[1]));
    a->heads[2] = a->heads[1];
    QG_TRY(qg_attr_int(ir->ctx, n, "is_causal", 0, &causal));
    QG_TRY(qg_attr_float(ir->ctx, n, "scale", 0, &a->scale));
    QG_TRY(qg_attr_float(ir->ctx, n, "softcap", 0, &softcap));
    a->causal = causal != 0;
    a->masked = n->n_in > 3 && n->in[3];
    for (uint32_t i = 4; i < n->n_in; i++)
        if (n->in[i])
            return qg_ir_refuse(ir, n, "input %u, expected no cache", i);
    if (softcap != 0)
        return qg_ir_refuse(ir, n, "a softcap, expected none");
    const qg_tensor *q = &n->in[0]->type, *k = &n->in[1]->type;
    queries = q->dim[q->rank - 2];
    keys = k->dim[k->rank - 2];
    if (a->causal && (a->masked || queries != keys))
        return qg_ir_refuse(ir, n,
                            "causal with a mask, or %" PRId64 " queries and %" PRId64
                            " keys, expected no mask and equal numbers",
                            queries, keys);
    return QG_OK;
}

/* The head axis goes back to where the input has it.  An output of rank 4 is that of
 * the layer.  Rank 3: [B, heads, T, size] is transposed and its last two axes are
 * merged. */
static qg_status finish_attention(qg_ir *ir, const qg_node *n, qg_ir_layer l,
                                  const qg_tensor *query)
{
    const qg_tensor *y = &n->out[0]->type;
    part p;
    qg_ir_source in[2];
    if (y->rank == 4)
        return qg_ir_finish(ir, n, l);
    int64_t heads = query->dim[1];
    int64_t dim[4] = { y->dim[0], heads, y->dim[1], y->dim[2] / heads };
    qg_tensor_init(&p.type, y->dtype, 4, dim);
    QG_TRY(inner(ir, n, "attention", l, &p.type, &p.at));
    QG_TRY(transposed(ir, n, "joined", &p));
    in[0] = p.at;
    QG_TRY(qg_ir_vector(ir, n, "shape", 3, y->dim, &in[1]));
    qg_ir_layer back = { .type = "Reshape",
                         .opset = "opset1",
                         .data = "special_zero=\"false\"",
                         .in = in,
                         .n_in = 2 };
    return qg_ir_finish(ir, n, back);
}

qg_status qg_ir_attention(qg_ir *ir, const qg_node *n, const qg_ir_row *r)
{
    attention a;
    part p[3];
    qg_ir_source in[5];
    uint32_t count = 3;
    QG_TRY(qg_ir_inputs(ir, n, 3, in));
    QG_TRY(read_attention(ir, n, &a));
    for (uint32_t i = 0; i < 3; i++)
        QG_TRY(heads_of(ir, n, i, a.heads[i], &p[i]));
    QG_TRY(repeat_heads(ir, n, "keys", p[0].type.dim[1], &p[1]));
    QG_TRY(repeat_heads(ir, n, "values", p[0].type.dim[1], &p[2]));
    for (uint32_t i = 0; i < 3; i++)
        in[i] = p[i].at;
    if (a.masked)
        QG_TRY(qg_ir_value(ir, n->in[3], &in[count++]));
    else if (a.scale != 0) /* inputs are positions: a mask of nothing */
        QG_TRY(qg_ir_number(ir, n, "mask", 0, &in[count++]));
    if (a.scale != 0)
        QG_TRY(qg_ir_number(ir, n, "scale", a.scale, &in[count++]));
    const char *data = a.causal ? "causal=\"true\"" : "causal=\"false\"";
    return finish_attention(ir, n, qg_ir_layer_of(r, data, in, count), &p[0].type);
}

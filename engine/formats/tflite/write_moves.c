/* write_moves.c -- operators of ai.onnx on codes, which move or select them.
 *
 * Moved codes keep the grid of input 0, for constants among the inputs too (pad values,
 * limits).  A move stays in N,H,W,C where its input is in that form already and the
 * operator allows it, with axes translated, so that most chains of convolutions and
 * moves have no TRANSPOSE in between. */
#include <string.h>

#include "engine/formats/tflite/operators.h"
#include "engine/formats/tflite/writer.h"

/* Upstream's numbers of BuiltinOperator. */
enum {
    MAX_POOL_2D = 17,
    RESHAPE = 22,
    GATHER = 36,
    TRANSPOSE = 39,
    STRIDED_SLICE = 45,
    SPLIT = 49,
    MAXIMUM = 55,
    MINIMUM = 57,
    PAD = 34,
    PADV2 = 60,
    RESIZE_NEAREST_NEIGHBOR = 97,
    SPLIT_V = 102,
    BROADCAST_TO = 130
};

static const qg_tflite_options no_options;

/* The one grid of what a node moves: that of the first input that has one, since the
 * first operand of a maximum can be a constant. */
static const qg_stored *grid_of(const qg_tflite_writer *w)
{
    const qg_node *n = w->node;
    for (uint32_t k = 0; k < n->n_in; k++)
        if (n->in[k] && w->grid[n->in[k]->id].codes)
            return &w->grid[n->in[k]->id];
    return &w->grid[n->in[0]->id];
}

static qg_status input(qg_tflite_writer *w, uint32_t k, enum qg_tflite_form form,
                       int32_t *out)
{
    return qg_tflite_want(w, w->node->in[k], form, grid_of(w), out);
}

static enum qg_tflite_form form_of_input(const qg_tflite_writer *w)
{
    return qg_tflite_is_picture(w, w->node->in[0]) ? QG_TFLITE_NHWC : QG_TFLITE_AS_IS;
}

/* in -> the operator -> output 0. */
static qg_status put(qg_tflite_writer *w, int32_t code, const int32_t *in,
                     uint32_t n_in, enum qg_tflite_form form,
                     const qg_tflite_options *o)
{
    int32_t out;
    QG_TRY(qg_tflite_make(w, w->node->out[0], form, &out));
    return qg_tflite_put(w, code, (qg_tflite_slots){ in, &out, n_in, 1 }, o);
}

/* A vector of int32 as input k of the operator. */
static qg_status vector(qg_tflite_writer *w, const char *name, const int32_t *x,
                        size_t n, int32_t *out)
{
    const int32_t dim = (int32_t)n;
    return qg_tflite_put_ints(w, name, 1, &dim, x, out);
}

/* The integers of constant input k, at most QG_MAX_RANK; *n 0 when it is absent. */
static qg_status constant(qg_tflite_writer *w, uint32_t k, int64_t *out, size_t *n)
{
    const qg_value *v = k < w->node->n_in ? w->node->in[k] : NULL;
    const qg_tensor *t = v ? v->constant : NULL;
    *n = 0;
    if (!v)
        return QG_OK;
    if (!t || (t->dtype != QG_I64 && t->dtype != QG_I32) ||
        qg_tensor_count(t) > QG_MAX_RANK)
        return qg_tflite_refuse(w, "input %u is computed, expected constant integers",
                                (unsigned)k);
    for (int64_t i = 0; i < qg_tensor_count(t); i++)
        out[(*n)++] = qg_tensor_i64(t, i);
    return QG_OK;
}

/* The same, of an attribute in older opsets. */
static qg_status list(qg_tflite_writer *w, uint32_t k, const char *name, int64_t *out,
                      size_t *n)
{
    const int64_t *x;
    QG_TRY(qg_attr_ints(w->ctx, w->node, name, &x, n));
    if (*n > QG_MAX_RANK)
        return qg_tflite_refuse(w, "%zu %s, expected one per axis", *n, name);
    if (!*n)
        return constant(w, k, out, n);
    memcpy(out, x, *n * sizeof *x);
    return QG_OK;
}

/* --- moves --- */

/* To the dims of output 0. */
static qg_status put_shaped(qg_tflite_writer *w, int32_t code)
{
    const qg_tensor *y = &w->node->out[0]->type;
    int32_t in[2], dim[QG_MAX_RANK];
    for (int32_t i = 0; i < y->rank; i++)
        dim[i] = (int32_t)y->dim[i];
    QG_TRY(input(w, 0, QG_TFLITE_AS_IS, &in[0]));
    QG_TRY(vector(w, "shape", dim, y->rank > 0 ? (size_t)y->rank : 0, &in[1]));
    return put(w, code, in, 2, QG_TFLITE_AS_IS, &no_options);
}

static qg_status reshape(qg_tflite_writer *w) { return put_shaped(w, RESHAPE); }

static qg_status expand(qg_tflite_writer *w) { return put_shaped(w, BROADCAST_TO); }

static qg_status transpose(qg_tflite_writer *w)
{
    const int64_t *perm;
    size_t n;
    int32_t in[2], to[QG_MAX_RANK], rank = w->node->in[0]->type.rank;
    QG_TRY(qg_attr_ints(w->ctx, w->node, "perm", &perm, &n));
    for (int32_t i = 0; i < rank; i++)
        to[i] = (int32_t)(n ? perm[i] : rank - 1 - i);
    QG_TRY(input(w, 0, QG_TFLITE_AS_IS, &in[0]));
    QG_TRY(vector(w, "perm", to, (size_t)rank, &in[1]));
    return put(w, TRANSPOSE, in, 2, QG_TFLITE_AS_IS, &no_options);
}

/* The tensor of input 0 with other dims, and the operator that makes it. */
static qg_status put_dims(qg_tflite_writer *w, int32_t code, const int32_t in[2],
                          const char *suffix, const int32_t dim[5], int32_t *out)
{
    int32_t *copy = QG_NEWN(w->arena, 5, int32_t);
    if (!copy)
        return qg_nomem(w->ctx);
    memcpy(copy, dim, 5 * sizeof *dim);
    QG_TRY(qg_tflite_like(w, in[0], suffix, NULL, out));
    w->tensor.at[*out].rank = 5;
    w->tensor.at[*out].dim = copy;
    return qg_tflite_put(w, code, (qg_tflite_slots){ in, out, 2, 1 }, &no_options);
}

/* Blocks of places from or to channels: axes are split, exchanged and joined, as ONNX
 * describes both.  TFLite's DEPTH_TO_SPACE has one of the two orders only. */
static qg_status blocks(qg_tflite_writer *w)
{
    static const char *const modes[] = { "DCR", "CRD", NULL };
    static const int32_t order[3][5] = {
        {2,  3, 0, 4, 1},
        { 0, 3, 1, 4, 2},
        { 2, 4, 0, 1, 3}
    };
    static const char *const to_depth[] = { "SpaceToDepth" };
    const qg_tensor *x = &w->node->in[0]->type, *y = &w->node->out[0]->type;
    int32_t in[2], split, turned, from[5], to[5];
    int64_t size;
    int mode = 2;
    QG_TRY(qg_attr_int(w->ctx, w->node, "blocksize", 1, &size));
    if (!qg_op_is_named(w->node->op, to_depth, 1))
        QG_TRY(qg_attr_choice(w->ctx, w->node, "mode", modes, 0, &mode));
    if (x->rank != 4 || x->dim[0] != 1 || y->dim[0] != 1)
        return qg_tflite_refuse(w, "expected a batch of 1");
    const int32_t b = (int32_t)size, c = (int32_t)y->dim[1], h = (int32_t)x->dim[2],
                  v = (int32_t)x->dim[3], k = (int32_t)x->dim[1];
    const int32_t dim[3][5] = {
        {b,  b,     c, h,     v},
        { c, b,     b, h,     v},
        { k, h / b, b, v / b, b}
    };
    memcpy(from, dim[mode], sizeof from);
    for (int i = 0; i < 5; i++)
        to[i] = from[order[mode][i]];
    QG_TRY(input(w, 0, QG_TFLITE_AS_IS, &in[0]));
    QG_TRY(vector(w, "split", from, 5, &in[1]));
    QG_TRY(put_dims(w, RESHAPE, in, "split", from, &split));
    QG_TRY(vector(w, "order", order[mode], 5, &in[1]));
    QG_TRY(put_dims(w, TRANSPOSE, (int32_t[]){ split, in[1] }, "turned", to, &turned));
    const int32_t joined[4] = { 1, c, (int32_t)y->dim[2], (int32_t)y->dim[3] };
    QG_TRY(vector(w, "joined", joined, 4, &in[1]));
    return put(w, RESHAPE, (int32_t[]){ turned, in[1] }, 2, QG_TFLITE_AS_IS,
               &no_options);
}

static qg_status pad(qg_tflite_writer *w)
{
    const qg_node *n = w->node;
    enum qg_tflite_form form = form_of_input(w);
    int32_t rank = n->in[0]->type.rank, in[3], around[2 * QG_MAX_RANK] = { 0 };
    int64_t pads[2 * QG_MAX_RANK];
    const qg_tensor *t = n->n_in > 1 ? n->in[1]->constant : NULL; /* until opset 10 */
    const char *mode;
    QG_TRY(qg_attr_string(w->ctx, n, "mode", "constant", &mode));
    if (strcmp(mode, "constant") != 0 || !t || qg_tensor_count(t) != 2 * rank ||
        (n->n_in > 3 && n->in[3]) || n->n_in < 3 || !n->in[2] || !n->in[2]->constant)
        return qg_tflite_refuse(w, "mode %s, expected constant pads of every axis",
                                mode);
    for (int32_t i = 0; i < 2 * rank; i++) {
        pads[i] = qg_tensor_i64(t, i);
        if (pads[i] < 0 || pads[i] > INT32_MAX)
            return qg_tflite_refuse(w, "pads %lld, expected >= 0", (long long)pads[i]);
        around[2 * qg_tflite_axis_in(form, rank, i % rank) + i / rank] =
            (int32_t)pads[i];
    }
    const int32_t two[2] = { rank, 2 };
    QG_TRY(input(w, 0, form, &in[0]));
    QG_TRY(qg_tflite_put_ints(w, "pads", 2, two, around, &in[1]));
    int32_t code = (int32_t)qg_tensor_i64(n->in[2]->constant, 0);
    if (qg_tflite_is_zero(w, in[0], code))
        return put(w, PAD, in, 2, form, &no_options);
    QG_TRY(qg_tflite_put_code(w, in[0], code, &in[2]));
    return put(w, PADV2, in, 3, form, &no_options);
}

/* Begin and end of every axis as upstream's kernel has them; steps above 0. */
static qg_status slice(qg_tflite_writer *w)
{
    const qg_node *n = w->node;
    enum qg_tflite_form form = form_of_input(w);
    const qg_tensor *x = &n->in[0]->type, *y = &n->out[0]->type;
    int64_t start[QG_MAX_RANK], axis[QG_MAX_RANK], step[QG_MAX_RANK];
    int32_t at[3][QG_MAX_RANK], in[4];
    size_t count, axes, steps;
    QG_TRY(list(w, 1, "starts", start, &count));
    QG_TRY(list(w, 3, "axes", axis, &axes));
    QG_TRY(constant(w, 4, step, &steps));
    for (int32_t i = 0; i < x->rank; i++) {
        int32_t k = qg_tflite_axis_in(form, x->rank, i);
        at[0][k] = 0;
        at[1][k] = (int32_t)x->dim[i];
        at[2][k] = 1;
    }
    for (size_t i = 0; i < count; i++) {
        int64_t a = axes ? axis[i] : (int64_t)i, by = steps ? step[i] : 1;
        a += a < 0 ? x->rank : 0;
        int64_t from = start[i] < 0 ? start[i] + x->dim[a] : start[i];
        from = from < 0 ? 0 : from > x->dim[a] ? x->dim[a] : from;
        if (by < 1)
            return qg_tflite_refuse(w, "step %lld, expected >= 1", (long long)by);
        int32_t k = qg_tflite_axis_in(form, x->rank, a);
        at[0][k] = (int32_t)from;
        at[1][k] = (int32_t)(y->dim[a] ? from + (y->dim[a] - 1) * by + 1 : from);
        at[2][k] = (int32_t)(by > INT32_MAX ? INT32_MAX : by);
    }
    QG_TRY(input(w, 0, form, &in[0]));
    QG_TRY(vector(w, "begin", at[0], (size_t)x->rank, &in[1]));
    QG_TRY(vector(w, "end", at[1], (size_t)x->rank, &in[2]));
    QG_TRY(vector(w, "strides", at[2], (size_t)x->rank, &in[3]));
    return put(w, STRIDED_SLICE, in, 4, form,
               &(qg_tflite_options){ .kind = QG_TFLITE_OPTIONS_STRIDED_SLICE });
}

/* The parts are those of the outputs' dims. */
/* Equal parts are SPLIT, which more delegates take than SPLIT_V. */
static qg_status split(qg_tflite_writer *w)
{
    const qg_node *n = w->node;
    enum qg_tflite_form form = form_of_input(w);
    int32_t in[3], rank = n->in[0]->type.rank, to;
    int32_t *part = QG_NEWN(w->arena, n->n_out, int32_t),
            *out = QG_NEWN(w->arena, n->n_out, int32_t);
    int64_t axis;
    bool equal = true;
    if (!part || !out)
        return qg_nomem(w->ctx);
    QG_TRY(qg_attr_int(w->ctx, n, "axis", 0, &axis));
    to = qg_tflite_axis_in(form, rank, axis);
    for (uint32_t k = 0; k < n->n_out; k++) {
        w->grid[n->out[k]->id] = w->grid[n->in[0]->id];
        part[k] = (int32_t)n->out[k]->type.dim[axis < 0 ? axis + rank : axis];
        equal &= part[k] == part[0];
        QG_TRY(qg_tflite_make(w, n->out[k], form, &out[k]));
    }
    qg_tflite_options o = { .kind = QG_TFLITE_OPTIONS_SPLIT,
                            .parts = (int32_t)n->n_out };
    QG_TRY(input(w, 0, form, &in[0]));
    QG_TRY(qg_tflite_put_ints(w, "axis", 0, NULL, &to, &in[2]));
    if (equal)
        return qg_tflite_put(w, SPLIT,
                             (qg_tflite_slots){
                                 (int32_t[]){in[2], in[0]},
                                 out, 2, n->n_out
        },
                             &o);
    o.kind = QG_TFLITE_OPTIONS_SPLIT_V;
    QG_TRY(vector(w, "sizes", part, n->n_out, &in[1]));
    return qg_tflite_put(w, SPLIT_V, (qg_tflite_slots){ in, out, 3, n->n_out }, &o);
}

static qg_status gather(qg_tflite_writer *w)
{
    const qg_node *n = w->node;
    const qg_tensor *t = n->in[1]->constant;
    int64_t axis;
    int32_t in[2], rank = n->in[0]->type.rank;
    QG_TRY(qg_attr_int(w->ctx, n, "axis", 0, &axis));
    axis += axis < 0 ? rank : 0;
    if (!t || (t->dtype != QG_I64 && t->dtype != QG_I32))
        return qg_tflite_refuse(w, "its indices are computed, expected constants");
    int64_t count = qg_tensor_count(t), extent = n->in[0]->type.dim[axis];
    int32_t *index = QG_NEWN(w->arena, (size_t)count, int32_t), dim[QG_MAX_RANK];
    if (!index)
        return qg_nomem(w->ctx);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = qg_tensor_i64(t, i);
        index[i] = (int32_t)(at < 0 ? at + extent : at);
    }
    for (int32_t i = 0; i < t->rank; i++)
        dim[i] = (int32_t)t->dim[i];
    QG_TRY(input(w, 0, QG_TFLITE_AS_IS, &in[0]));
    QG_TRY(qg_tflite_put_ints(w, "indices", (uint32_t)t->rank, dim, index, &in[1]));
    return put(w, GATHER, in, 2, QG_TFLITE_AS_IS,
               &(qg_tflite_options){ .kind = QG_TFLITE_OPTIONS_GATHER,
                                     .axis = (int32_t)axis });
}

/* --- selections --- */

/* Padding never wins: it has the lowest code. */
static qg_status max_pool(qg_tflite_writer *w)
{
    const qg_node *n = w->node;
    const int64_t *kernel;
    int64_t pads[4];
    size_t count;
    int32_t in;
    qg_tflite_options o = { .kind = QG_TFLITE_OPTIONS_POOL };
    QG_TRY(qg_attr_ints(w->ctx, n, "kernel_shape", &kernel, &count));
    if (count != 2 || n->n_out > 1)
        return qg_tflite_refuse(w, "expected a window over 2 axes and one output");
    QG_TRY(qg_tflite_window(w, kernel, pads, &o));
    if (o.dilation_h != 1 || o.dilation_w != 1)
        return qg_tflite_refuse(w, "dilations, expected 1");
    QG_TRY(input(w, 0, QG_TFLITE_NHWC, &in));
    QG_TRY(
        qg_tflite_put_pad(w, pads, qg_code_range_of(n->in[0]->type.dtype, 0).lo, &in));
    return put(w, MAX_POOL_2D, &in, 1, QG_TFLITE_NHWC, &o);
}

/* Two inputs on one grid. */
static qg_status extremum(qg_tflite_writer *w)
{
    static const char *const max[] = { "Max" };
    const qg_node *n = w->node;
    enum qg_tflite_form form = qg_tflite_pick_form(w);
    int32_t in[2];
    if (n->n_in != 2)
        return qg_tflite_refuse(w, "%u inputs, expected 2", (unsigned)n->n_in);
    for (uint32_t i = 0; i < 2; i++) {
        const qg_value *v = n->in[i];
        int32_t rank = v->constant ? v->constant->rank : v->type.rank;
        QG_TRY(input(w, i, rank == 4 ? form : QG_TFLITE_AS_IS, &in[i]));
    }
    return put(w, qg_op_is_named(n->op, max, 1) ? MAXIMUM : MINIMUM, in, 2, form,
               &no_options);
}

/* Element floor((i + 1/2) k) of half_pixel is that of ONNX with halves rounded up. */
static qg_status nearest(qg_tflite_writer *w)
{
    const qg_tensor *x = &w->node->in[0]->type, *y = &w->node->out[0]->type;
    const int32_t size[2] = { (int32_t)y->dim[2], (int32_t)y->dim[3] };
    const char *where, *how;
    int32_t in[2];
    qg_tflite_options o = { .kind = QG_TFLITE_OPTIONS_RESIZE_NEAREST };
    QG_TRY(qg_attr_string(w->ctx, w->node, "coordinate_transformation_mode",
                          "half_pixel", &where));
    QG_TRY(qg_attr_string(w->ctx, w->node, "nearest_mode", "round_prefer_floor", &how));
    o.align_corners = strcmp(where, "align_corners") == 0;
    o.half_pixel = strcmp(where, "half_pixel") == 0;
    bool whole = x->rank == 4 && x->dim[2] && x->dim[3] && y->dim[2] % x->dim[2] == 0 &&
                 y->dim[3] % x->dim[3] == 0; /* no halves, whatever the rounding */
    bool fits = strcmp(where, "asymmetric") == 0 ? strcmp(how, "floor") == 0
                : o.half_pixel ? strcmp(how, "round_prefer_ceil") == 0 ||
                                     (whole && strcmp(how, "round_prefer_floor") == 0)
                               : strcmp(how, "round_prefer_ceil") == 0;
    if (!qg_tflite_is_of_pictures(x, y))
        return qg_tflite_refuse(w, "expected 4 axes, of which height and width change");
    if (!fits ||
        (!o.half_pixel && !o.align_corners && strcmp(where, "asymmetric") != 0))
        return qg_tflite_refuse(w,
                                "%s with %s, expected asymmetric with floor, or "
                                "align_corners or half_pixel with round_prefer_ceil",
                                where, how);
    QG_TRY(input(w, 0, QG_TFLITE_NHWC, &in[0]));
    QG_TRY(vector(w, "size", size, 2, &in[1]));
    return put(w, RESIZE_NEAREST_NEIGHBOR, in, 2, QG_TFLITE_NHWC, &o);
}

static const struct {
    const char *op;
    qg_status (*write)(qg_tflite_writer *w);
    bool floats; /* of any type */
} rows[] = {
    {"Reshape",       reshape,   true },
    { "Expand",       expand,    true },
    { "Flatten",      reshape,   true },
    { "Squeeze",      reshape,   true },
    { "Unsqueeze",    reshape,   true },
    { "Identity",     reshape,   true },
    { "Dropout",      reshape,   true },
    { "Transpose",    transpose, true },
    { "Pad",          pad,       false},
    { "Slice",        slice,     true },
    { "Split",        split,     true },
    { "Gather",       gather,    true },
    { "MaxPool",      max_pool,  false},
    { "Max",          extremum,  false},
    { "Min",          extremum,  false},
    { "Resize",       nearest,   false},
    { "DepthToSpace", blocks,    true },
    { "SpaceToDepth", blocks,    true },
};

qg_status qg_tflite_write_move(qg_tflite_writer *w)
{
    const qg_node *n = w->node;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!qg_op_is_named(n->op, &rows[i].op, 1))
            continue;
        if (!n->in[0] || (n->in[0]->type.dtype == QG_F32 && !rows[i].floats))
            break;
        w->grid[n->out[0]->id] = *grid_of(w);
        return rows[i].write(w);
    }
    return qg_tflite_write_float(w);
}

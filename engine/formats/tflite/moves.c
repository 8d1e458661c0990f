/* moves.c -- operators that move values or take values from between them. */
#include "engine/formats/tflite/operators.h"

/* A node with one data input whose result is the plain form of output 0. */
static qg_status finish_plain(qg_tflite_builder *b, const qg_tflite_node *n)
{
    qg_tflite_value *y;
    QG_TRY(qg_tflite_output(b, 0, &y));
    return qg_tflite_finish(b, n, y, QG_TFLITE_PLAIN, QG_TFLITE_NO_ACTIVATION);
}

/* --- shapes --- */

/* RESHAPE, SQUEEZE and EXPAND_DIMS: to the dims that the file has for the result. */
qg_status qg_tflite_build_reshape(qg_tflite_builder *b)
{
    qg_tflite_value *v, *y;
    qg_value *x, *to;
    if (qg_tflite_has_input(b, 1)) {
        QG_TRY(qg_tflite_input(b, 1, &v));
        if (!v->constant && qg_tensor_count(&v->type) != 0)
            return qg_tflite_fail(b, QG_EUNSUPPORTED,
                                  "input 1 is computed, expected a constant");
    }
    QG_TRY(qg_tflite_operand(b, 0, QG_TFLITE_PLAIN, &x));
    QG_TRY(qg_tflite_output(b, 0, &y));
    QG_TRY(qg_tflite_lead(b, y, QG_TFLITE_PLAIN, &to));
    return qg_tflite_reshape(b, x, &y->type, to);
}

qg_status qg_tflite_build_transpose(qg_tflite_builder *b)
{
    int64_t perm[QG_MAX_RANK];
    size_t count;
    qg_value *x;
    qg_tflite_node n = { .op = "Transpose", .in = &x, .n_in = 1 };
    QG_TRY(qg_tflite_operand(b, 0, QG_TFLITE_PLAIN, &x));
    QG_TRY(qg_tflite_integers(b, 1, QG_MAX_RANK, perm, &count));
    QG_TRY(qg_tflite_attr_ints(b, &n, "perm", count, perm));
    return finish_plain(b, &n);
}

/* BROADCAST_TO: the constant is the shape of the result, as upstream resizes it. */
qg_status qg_tflite_build_broadcast(qg_tflite_builder *b)
{
    int64_t dim[QG_MAX_RANK];
    size_t rank, same = 0;
    qg_tflite_value *y;
    qg_value *in[2];
    qg_tflite_node n = { .op = "Expand", .in = in, .n_in = 2 };
    QG_TRY(qg_tflite_output(b, 0, &y));
    QG_TRY(qg_tflite_integers(b, 1, QG_MAX_RANK, dim, &rank));
    while (same < rank && (int32_t)same < y->type.rank &&
           dim[same] == y->type.dim[same])
        same++;
    if (same != rank || (int32_t)rank != y->type.rank)
        return qg_tflite_fail(b, QG_EMODEL,
                              "input 1 is not the shape of output 0, expected it");
    QG_TRY(qg_tflite_operand(b, 0, QG_TFLITE_PLAIN, &in[0]));
    QG_TRY(qg_tflite_int_constant(b, "shape", rank, dim, &in[1]));
    return finish_plain(b, &n);
}

/* --- several inputs or outputs --- */

qg_status qg_tflite_build_concat(qg_tflite_builder *b)
{
    int64_t axis;
    qg_tflite_value *y;
    qg_value **in = QG_NEWN(b->g->arena, b->op->n_in, qg_value *);
    qg_tflite_node n = { .op = "Concat", .in = in, .n_in = b->op->n_in };
    if (!in)
        return qg_nomem(b->ctx);
    enum qg_tflite_layout layout = qg_tflite_pick(b, 0);
    for (uint32_t k = 0; k < b->op->n_in; k++) {
        qg_tflite_value *x;
        QG_TRY(qg_tflite_input(b, k, &x));
        layout = x->type.rank == 4 ? layout : QG_TFLITE_PLAIN;
    }
    for (uint32_t k = 0; k < b->op->n_in; k++) {
        qg_tflite_value *x;
        QG_TRY(qg_tflite_input(b, k, &x));
        QG_TRY(qg_tflite_form(b, x, layout, &in[k]));
    }
    QG_TRY(qg_tflite_output(b, 0, &y));
    QG_TRY(qg_tflite_check_axis(b, b->op->options.axis, y->type.rank, &axis));
    if (layout == QG_TFLITE_NCHW)
        axis = qg_tflite_axis(layout, axis);
    QG_TRY(qg_tflite_attr_int(b, &n, "axis", axis));
    return qg_tflite_finish(b, &n, y, layout, b->op->options.activation);
}

/* Dims of a part of PACK or UNPACK: 1 along the axis. */
static qg_tensor with_one(const qg_tensor *t, int64_t axis)
{
    qg_tensor one = *t;
    one.dim[axis] = 1;
    qg_tensor_set_plain(&one);
    return one;
}

qg_status qg_tflite_build_pack(qg_tflite_builder *b)
{
    int64_t axis;
    qg_tflite_value *y;
    qg_value **in = QG_NEWN(b->g->arena, b->op->n_in, qg_value *);
    qg_tflite_node n = { .op = "Concat", .in = in, .n_in = b->op->n_in };
    if (!in)
        return qg_nomem(b->ctx);
    QG_TRY(qg_tflite_output(b, 0, &y));
    QG_TRY(qg_tflite_check_axis(b, b->op->options.axis, y->type.rank, &axis));
    qg_tensor one = with_one(&y->type, axis);
    for (uint32_t k = 0; k < b->op->n_in; k++) {
        qg_value *x;
        qg_tflite_value *v;
        QG_TRY(qg_tflite_input(b, k, &v));
        QG_TRY(qg_tflite_form(b, v, QG_TFLITE_PLAIN, &x));
        QG_TRY(qg_tflite_silent(b, y, "part", &in[k]));
        QG_TRY(qg_tflite_reshape(b, x, &one, in[k]));
    }
    QG_TRY(qg_tflite_attr_int(b, &n, "axis", axis));
    return finish_plain(b, &n);
}

/* Split of the plain form of input `data` into parts of these sizes. */
static qg_status split(qg_tflite_builder *b, uint32_t data, int64_t axis,
                       const int64_t *size, qg_value *const *out)
{
    qg_value *in[2];
    qg_tflite_node n = { .op = "Split", .in = in, .n_in = 2 };
    QG_TRY(qg_tflite_operand(b, data, QG_TFLITE_PLAIN, &in[0]));
    QG_TRY(qg_tflite_int_constant(b, "sizes", b->op->n_out, size, &in[1]));
    QG_TRY(qg_tflite_attr_int(b, &n, "axis", axis));
    return qg_tflite_add(b, &n, out, b->op->n_out);
}

/* The leads of all outputs, and their extents along the axis of input `data`. */
static qg_status split_outputs(qg_tflite_builder *b, uint32_t data, int64_t axis)
{
    qg_tflite_value *x, *y;
    qg_value **out = QG_NEWN(b->g->arena, b->op->n_out, qg_value *);
    int64_t *size = QG_NEWN(b->g->arena, b->op->n_out, int64_t);
    if (!out || !size)
        return qg_nomem(b->ctx);
    QG_TRY(qg_tflite_input(b, data, &x));
    QG_TRY(qg_tflite_check_axis(b, axis, x->type.rank, &axis));
    for (uint32_t k = 0; k < b->op->n_out; k++) {
        QG_TRY(qg_tflite_output(b, k, &y));
        if (y->type.rank != x->type.rank)
            return qg_tflite_fail(b, QG_EMODEL, "output %u has rank %d, expected %d", k,
                                  y->type.rank, x->type.rank);
        size[k] = y->type.dim[axis];
        QG_TRY(qg_tflite_lead(b, y, QG_TFLITE_PLAIN, &out[k]));
    }
    return split(b, data, axis, size, out);
}

static qg_status one_integer(qg_tflite_builder *b, uint32_t k, int64_t *out)
{
    size_t n;
    QG_TRY(qg_tflite_integers(b, k, 1, out, &n));
    return n == 1 ? QG_OK
                  : qg_tflite_fail(b, QG_EMODEL,
                                   "input %u is empty, expected an "
                                   "integer",
                                   k);
}

qg_status qg_tflite_build_split(qg_tflite_builder *b)
{
    int64_t axis;
    QG_TRY(one_integer(b, 0, &axis));
    return split_outputs(b, 1, axis);
}

qg_status qg_tflite_build_split_v(qg_tflite_builder *b)
{
    int64_t axis;
    QG_TRY(one_integer(b, 2, &axis));
    return split_outputs(b, 0, axis);
}

qg_status qg_tflite_build_unpack(qg_tflite_builder *b)
{
    int64_t axis, *size = QG_NEWN(b->g->arena, b->op->n_out, int64_t);
    qg_tflite_value *x, *y;
    qg_value *to, **part = QG_NEWN(b->g->arena, b->op->n_out, qg_value *);
    if (!size || !part)
        return qg_nomem(b->ctx);
    QG_TRY(qg_tflite_input(b, 0, &x));
    QG_TRY(qg_tflite_check_axis(b, b->op->options.axis, x->type.rank, &axis));
    for (uint32_t k = 0; k < b->op->n_out; k++) {
        size[k] = 1;
        QG_TRY(qg_tflite_silent(b, x, "part", &part[k]));
    }
    QG_TRY(split(b, 0, axis, size, part));
    for (uint32_t k = 0; k < b->op->n_out; k++) {
        QG_TRY(qg_tflite_output(b, k, &y));
        QG_TRY(qg_tflite_lead(b, y, QG_TFLITE_PLAIN, &to));
        QG_TRY(qg_tflite_reshape(b, part[k], &y->type, to));
    }
    return QG_OK;
}

/* --- parts --- */

enum { FULL_SLICE = 4 }; /* starts, ends, axes, steps */

static qg_status add_slice(qg_tflite_builder *b, const int64_t *const x[FULL_SLICE - 1],
                           size_t n, qg_value *y)
{
    static const int64_t all[QG_MAX_RANK] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    qg_value *in[1 + FULL_SLICE];
    qg_tflite_node node = { .op = "Slice", .in = in, .n_in = 1 + FULL_SLICE };
    QG_TRY(qg_tflite_operand(b, 0, QG_TFLITE_PLAIN, &in[0]));
    QG_TRY(qg_tflite_int_constant(b, "starts", n, x[0], &in[1]));
    QG_TRY(qg_tflite_int_constant(b, "ends", n, x[1], &in[2]));
    QG_TRY(qg_tflite_int_constant(b, "axes", n, all, &in[3]));
    QG_TRY(qg_tflite_int_constant(b, "steps", n, x[2], &in[4]));
    return qg_tflite_add(b, &node, &y, 1);
}

static qg_status check_count(qg_tflite_builder *b, uint32_t k, size_t n, int32_t most)
{
    return n <= (size_t)most ? QG_OK
                             : qg_tflite_fail(b, QG_EMODEL,
                                              "input %u has %zu integers, expected at "
                                              "most %d",
                                              k, n, most);
}

/* size -1: to the end. */
qg_status qg_tflite_build_slice(qg_tflite_builder *b)
{
    int64_t begin[QG_MAX_RANK], end[QG_MAX_RANK], step[QG_MAX_RANK];
    size_t n, sizes;
    qg_tflite_value *x, *y;
    qg_value *to;
    QG_TRY(qg_tflite_input(b, 0, &x));
    QG_TRY(qg_tflite_output(b, 0, &y));
    QG_TRY(qg_tflite_integers(b, 1, QG_MAX_RANK, begin, &n));
    QG_TRY(qg_tflite_integers(b, 2, QG_MAX_RANK, end, &sizes));
    QG_TRY(check_count(b, 1, n, x->type.rank));
    if (n != sizes)
        return qg_tflite_fail(b, QG_EMODEL,
                              "%zu begins and %zu sizes, expected as many", n, sizes);
    for (size_t i = 0; i < n; i++) {
        step[i] = 1;
        if (begin[i] < 0 || begin[i] > INT32_MAX || end[i] < -1 || end[i] > INT32_MAX)
            return qg_tflite_fail(b, QG_EMODEL,
                                  "begin %lld and size %lld, expected >= 0 "
                                  "and >= -1",
                                  (long long)begin[i], (long long)end[i]);
        end[i] = end[i] == -1 ? INT64_MAX : begin[i] + end[i];
    }
    QG_TRY(qg_tflite_lead(b, y, QG_TFLITE_PLAIN, &to));
    return add_slice(b, (const int64_t *const[]){ begin, end, step }, n, to);
}

typedef struct strided {
    int64_t begin[QG_MAX_RANK], end[QG_MAX_RANK], step[QG_MAX_RANK];
    size_t n;
} strided;

static qg_status read_strided(qg_tflite_builder *b, const qg_tflite_value *x,
                              strided *s)
{
    const qg_tflite_options *o = &b->op->options;
    size_t ends, steps;
    if (o->ellipsis_mask || o->new_axis_mask || o->offset)
        return qg_tflite_fail(b, QG_EUNSUPPORTED,
                              "ellipsis_mask %d, new_axis_mask %d, offset %d, expected "
                              "0",
                              o->ellipsis_mask, o->new_axis_mask, o->offset);
    QG_TRY(qg_tflite_integers(b, 1, QG_MAX_RANK, s->begin, &s->n));
    QG_TRY(qg_tflite_integers(b, 2, QG_MAX_RANK, s->end, &ends));
    QG_TRY(qg_tflite_integers(b, 3, QG_MAX_RANK, s->step, &steps));
    QG_TRY(check_count(b, 1, s->n, x->type.rank));
    if (s->n != ends || s->n != steps)
        return qg_tflite_fail(b, QG_EMODEL,
                              "%zu begins, %zu ends and %zu strides, expected as many",
                              s->n, ends, steps);
    return QG_OK;
}

/* Masks: an axis without begin or end, or of which one index is taken. */
static void apply_masks(const qg_tflite_options *o, strided *s)
{
    for (size_t i = 0; i < s->n; i++) {
        bool back = s->step[i] < 0;
        if (o->begin_mask >> i & 1)
            s->begin[i] = back ? INT64_MAX : 0;
        if (o->end_mask >> i & 1)
            s->end[i] = back ? INT64_MIN : INT64_MAX;
        if (o->shrink_axis_mask >> i & 1) {
            s->end[i] = s->begin[i] == -1 || s->begin[i] == INT64_MAX ? INT64_MAX
                                                                      : s->begin[i] + 1;
            s->step[i] = 1;
        }
    }
}

qg_status qg_tflite_build_strided_slice(qg_tflite_builder *b)
{
    strided s;
    qg_tflite_value *x, *y;
    qg_value *to, *part;
    QG_TRY(qg_tflite_input(b, 0, &x));
    QG_TRY(qg_tflite_output(b, 0, &y));
    QG_TRY(read_strided(b, x, &s));
    apply_masks(&b->op->options, &s);
    const int64_t *const limits[] = { s.begin, s.end, s.step };
    QG_TRY(qg_tflite_lead(b, y, QG_TFLITE_PLAIN, &to));
    if (!b->op->options.shrink_axis_mask)
        return add_slice(b, limits, s.n, to);
    QG_TRY(qg_tflite_silent(b, x, "part", &part));
    QG_TRY(add_slice(b, limits, s.n, part));
    return qg_tflite_reshape(b, part, &y->type, to);
}

qg_status qg_tflite_build_gather(qg_tflite_builder *b)
{
    int64_t axis;
    qg_tflite_value *x;
    qg_value *in[2];
    qg_tflite_node n = { .op = "Gather", .in = in, .n_in = 2 };
    if (b->op->options.batch_dims != 0)
        return qg_tflite_fail(b, QG_EUNSUPPORTED, "batch_dims %d, expected 0",
                              b->op->options.batch_dims);
    QG_TRY(qg_tflite_input(b, 0, &x));
    QG_TRY(qg_tflite_check_axis(b, b->op->options.axis, x->type.rank, &axis));
    QG_TRY(qg_tflite_operand(b, 0, QG_TFLITE_PLAIN, &in[0]));
    QG_TRY(qg_tflite_operand(b, 1, QG_TFLITE_PLAIN, &in[1]));
    QG_TRY(qg_tflite_attr_int(b, &n, "axis", axis));
    return finish_plain(b, &n);
}

/* --- pictures --- */

/* The value of PADV2, one element on the grid of the data. */
static qg_status pad_value(qg_tflite_builder *b, qg_value **out)
{
    qg_tflite_value *v;
    QG_TRY(qg_tflite_input(b, 2, &v));
    if (!v->constant || qg_tensor_count(&v->type) != 1)
        return qg_tflite_fail(
            b, QG_EUNSUPPORTED,
            "the value is computed or no single element, expected a constant");
    return qg_tflite_form(b, v, QG_TFLITE_PLAIN, out);
}

/* Pairs by axis become all begins, then all ends. */
qg_status qg_tflite_build_pad(qg_tflite_builder *b)
{
    int64_t given[2 * QG_MAX_RANK], pads[2 * QG_MAX_RANK];
    size_t n;
    qg_tflite_value *x, *y;
    qg_value *in[3];
    bool has_value = b->op->n_in == 3;
    qg_tflite_node node = { .op = "Pad", .in = in, .n_in = has_value ? 3 : 2 };
    QG_TRY(qg_tflite_input(b, 0, &x));
    QG_TRY(qg_tflite_output(b, 0, &y));
    QG_TRY(qg_tflite_integers(b, 1, 2 * QG_MAX_RANK, given, &n));
    int64_t rank = x->type.rank;
    if ((int64_t)n != 2 * rank)
        return qg_tflite_fail(b, QG_EMODEL,
                              "%zu paddings for rank %lld, expected 2 of "
                              "each axis",
                              n, (long long)rank);
    bool first = rank == 4 && x->form[QG_TFLITE_NCHW] && !x->constant;
    enum qg_tflite_layout layout = first ? QG_TFLITE_NCHW : QG_TFLITE_PLAIN;
    for (int64_t i = 0; i < rank; i++) {
        int64_t at = first ? qg_tflite_axis(layout, i) : i;
        pads[at] = given[2 * i];
        pads[at + rank] = given[2 * i + 1];
    }
    QG_TRY(qg_tflite_form(b, x, layout, &in[0]));
    QG_TRY(qg_tflite_int_constant(b, "pads", n, pads, &in[1]));
    if (has_value)
        QG_TRY(pad_value(b, &in[2]));
    return qg_tflite_finish(b, &node, y, layout, QG_TFLITE_NO_ACTIVATION);
}

static qg_status resize(qg_tflite_builder *b, const char *mode, const char *nearest)
{
    const qg_tflite_options *o = &b->op->options;
    const char *where = o->align_corners ? "align_corners"
                        : o->half_pixel  ? "half_pixel"
                                         : "asymmetric";
    int64_t size[2], sizes[4];
    size_t n;
    qg_tflite_value *x, *y;
    qg_value *in[4] = { NULL };
    qg_tflite_node node = { .op = "Resize", .in = in, .n_in = 4 };
    if (o->align_corners && o->half_pixel)
        return qg_tflite_fail(b, QG_EMODEL,
                              "align_corners and half_pixel_centers, expected one");
    QG_TRY(qg_tflite_input(b, 0, &x));
    QG_TRY(qg_tflite_output(b, 0, &y));
    QG_TRY(qg_tflite_integers(b, 1, 2, size, &n));
    if (n != 2)
        return qg_tflite_fail(b, QG_EMODEL, "%zu sizes, expected 2", n);
    QG_TRY(qg_tflite_form(b, x, QG_TFLITE_NCHW, &in[0]));
    sizes[0] = x->type.dim[0];
    sizes[1] = x->type.dim[3];
    sizes[2] = size[0];
    sizes[3] = size[1];
    QG_TRY(qg_tflite_int_constant(b, "sizes", 4, sizes, &in[3]));
    QG_TRY(qg_tflite_attr_text(b, &node, "mode", mode));
    QG_TRY(qg_tflite_attr_text(b, &node, "coordinate_transformation_mode", where));
    if (nearest)
        QG_TRY(qg_tflite_attr_text(b, &node, "nearest_mode", nearest));
    return qg_tflite_finish(b, &node, y, QG_TFLITE_NCHW, QG_TFLITE_NO_ACTIVATION);
}

qg_status qg_tflite_build_bilinear(qg_tflite_builder *b)
{
    return resize(b, "linear", NULL);
}

/* floor((i + 1/2) k) of half_pixel is the coordinate of ONNX, (i + 1/2) k - 1/2, with
 * halves rounded up; with align_corners halves round up as well. */
qg_status qg_tflite_build_nearest(qg_tflite_builder *b)
{
    const qg_tflite_options *o = &b->op->options;
    return resize(b, "nearest",
                  o->align_corners || o->half_pixel ? "round_prefer_ceil" : "floor");
}

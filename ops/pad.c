/* pad.c -- Pad in all modes; negative pads crop.
 *
 * Each axis gets a table: the source index of each output index, or OUTSIDE for the
 * constant.  Source: ONNX Pad-1, 2, 11, 13, 18 (axes), 19 (wrap).
 *
 * 1: `paddings`; 2: attributes; 11: inputs; 13 types; 18: axes; 19: wrap.  The value is
 * a bound ('p'): it is quantized with the scale of the data. */
#include "ops/families.h"

#include "engine/core/num.h"
#include "ops/util_backward.h"
#include "ops/util_broadcast.h"
#include "ops/util_cast.h"
#include "ops/util_lower.h"

enum { OUTSIDE = -1 };
enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP };

typedef struct pad_param {
    int mode;
    bool as_inputs; /* since 11: pads, value and (18) axes are inputs 1 to 3 */
    qg_ints pads;   /* begins of all axes, then ends */
    float value;
} pad_param;

/* Opset 1 calls the attribute "paddings". */
static qg_status prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    static const char *const modes[] = { "constant", "reflect", "edge", "wrap", NULL };
    pad_param *p = param;
    QG_TRY(qg_attr_choice(ctx, n, "mode", modes, PAD_CONSTANT, &p->mode));
    p->as_inputs = n->op->since >= 11;
    if (p->as_inputs)
        return QG_OK;
    QG_TRY(qg_attr_float(ctx, n, "value", 0, &p->value));
    return qg_ints_attr(ctx, n, n->op->since < 2 ? "paddings" : "pads", &p->pads);
}

/* begin[i], end[i] for every axis of x; sets *pending when an input has no data yet. */
static qg_status read_pads(const qg_call *k, int64_t begin[QG_MAX_RANK],
                           int64_t end[QG_MAX_RANK], bool *pending)
{
    const pad_param *p = k->param;
    const int32_t rank = k->in[0]->rank;
    qg_ints pads = p->pads, axes = { 0 };
    uint32_t mask;
    *pending = p->as_inputs && (qg_ints_pending(k, 1) || qg_ints_pending(k, 3));
    if (*pending)
        return QG_OK;
    if (p->as_inputs) {
        QG_TRY(qg_ints_input(k, 1, &pads));
        QG_TRY(qg_ints_input(k, 3, &axes));
    }
    for (int32_t i = 0; i < rank && !axes.given; i++)
        axes.at[axes.n++] = i;
    if (pads.n != 2 * axes.n)
        return qg_infer_fail(k, QG_EMODEL, "pads has %zu values, expected %zu", pads.n,
                             2 * axes.n);
    QG_TRY(qg_axes_mask(k, &axes, rank, &mask));
    for (int32_t i = 0; i < rank; i++)
        begin[i] = end[i] = 0;
    for (size_t i = 0; i < axes.n; i++) {
        const int64_t axis = axes.at[i] < 0 ? axes.at[i] + rank : axes.at[i];
        begin[axis] = pads.at[i];
        end[axis] = pads.at[axes.n + i];
    }
    return QG_OK;
}

/* dim + begin + end, which must not be negative. */
static qg_status padded(const qg_call *k, int32_t axis, int64_t begin, int64_t end,
                        int64_t *out)
{
    const int64_t dim = k->in[0]->dim[axis];
    int64_t sum;
    *out = -1;
    if (dim < 0)
        return QG_OK;
    if (!qg_add_i64(begin, end, &sum) || !qg_add_i64(sum, dim, &sum) || sum < 0 ||
        sum > QG_MAX_EXTENT || begin < -dim || end < -dim)
        return qg_infer_fail(k, QG_EMODEL,
                             "axis %d of %lld elements padded by %lld, %lld", (int)axis,
                             (long long)dim, (long long)begin, (long long)end);
    *out = sum;
    return QG_OK;
}

/* Without the pads only the rank is known. */
static qg_status infer(const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    int64_t begin[QG_MAX_RANK], end[QG_MAX_RANK], dim[QG_MAX_RANK];
    bool pending = false;
    QG_TRY(qg_check_type(k, 0, QG_DT_PLAIN));
    if (((const pad_param *)k->param)->as_inputs)
        QG_TRY(qg_check_same_type(k, 2, 2));
    if (x->rank >= 0)
        QG_TRY(read_pads(k, begin, end, &pending));
    for (int32_t i = 0; i < x->rank; i++) {
        dim[i] = -1;
        if (!pending)
            QG_TRY(padded(k, i, begin[i], end[i], &dim[i]));
    }
    return qg_infer_dims(k, x->dtype, x->rank, dim);
}

/* Non-negative for n > 0. */
static int64_t modulo(int64_t x, int64_t n) { return (x % n + n) % n; }

/* The source index for position i of an axis of n > 0 elements, i < 0 before it. */
static int64_t source_index(int mode, int64_t i, int64_t n)
{
    if (i >= 0 && i < n)
        return i;
    if (mode == PAD_EDGE)
        return i < 0 ? 0 : n - 1;
    if (mode == PAD_WRAP)
        return modulo(i, n);
    if (mode == PAD_CONSTANT)
        return OUTSIDE;
    if (n == 1)
        return 0;
    i = modulo(i, 2 * (n - 1)); /* reflect: forward and back, the ends once */
    return i < n ? i : 2 * (n - 1) - i;
}

/* map[j] = source offset in elements of output index j, or OUTSIDE.  Elements of
 * negative pads are removed first, as by ONNX Runtime: wrap and reflect repeat what is
 * left. */
static qg_status map_axis(const qg_call *k, int32_t axis, int64_t begin, int64_t **map)
{
    const qg_tensor *x = k->in[0];
    const int64_t dim = x->dim[axis], count = k->out[0]->dim[axis];
    const int64_t end = count - dim - begin, first = begin < 0 ? -begin : 0;
    const int64_t n = dim - first + (end < 0 ? end : 0);
    const int mode = ((const pad_param *)k->param)->mode;
    int64_t *m = qg_arena_raw(k->scratch, (size_t)count, sizeof *m);
    if (!m)
        return qg_nomem(k->ctx);
    if (n <= 0 && count > 0 && mode != PAD_CONSTANT)
        return qg_run_fail(k, QG_EMODEL,
                           "axis %d is empty, expected elements to repeat", (int)axis);
    for (int64_t j = 0; j < count; j++) {
        const int64_t i = n <= 0 ? OUTSIDE : source_index(mode, j - begin - first, n);
        m[j] = i == OUTSIDE ? OUTSIDE : (first + i) * x->stride[axis];
    }
    *map = m;
    return QG_OK;
}

/* The constant as bytes of the element type. */
static qg_status read_value(const qg_call *k, char value[8])
{
    const pad_param *p = k->param;
    const qg_tensor *given = p->as_inputs ? qg_in(k, 2) : NULL;
    float value_f32 = p->value;
    memset(value, 0, 8);
    if (given && qg_tensor_count(given) != 1)
        return qg_run_fail(k, QG_EMODEL, "input 2 has %lld values, expected 1",
                           (long long)qg_tensor_count(given));
    if (given)
        memcpy(value, given->data, qg_element_size(given->dtype));
    else
        qg_cast((qg_cast_side){ QG_F32, &value_f32, 0 },
                (qg_cast_side){ k->in[0]->dtype, value, 0 }, 1, true);
    return QG_OK;
}

/* A row of output: elements of x at base + map[j], or the value.  Consecutive elements
 * are copied at once. */
static void pad_row(const char *x, const int64_t *map, int64_t n, size_t size,
                    const char *value, char *y)
{
    for (int64_t j = 0; j < n;) {
        int64_t run = 1;
        if (map[j] == OUTSIDE) {
            memcpy(y + (size_t)j * size, value, size);
        } else {
            while (j + run < n && map[j + run] == map[j] + run)
                run++;
            memcpy(y + (size_t)j * size, x + (size_t)map[j] * size, (size_t)run * size);
        }
        j += run;
    }
}

/* Elements of any size. */
static void fill_row(char *y, int64_t n, size_t size, const char *value)
{
    for (int64_t j = 0; j < n; j++)
        memcpy(y + (size_t)j * size, value, size);
}

/* Row by row; a row outside along another axis is constant. */
static qg_status run(const qg_call *k)
{
    const qg_tensor *x = k->in[0], *y = k->out[0];
    const size_t size = qg_element_size(x->dtype);
    int64_t begin[QG_MAX_RANK], end[QG_MAX_RANK], *map[QG_MAX_RANK];
    char value[8];
    bool pending;
    if (x->rank == 0)
        return qg_run_copy(k);
    QG_TRY(read_pads(k, begin, end, &pending));
    QG_TRY(read_value(k, value));
    for (int32_t i = 0; i < x->rank; i++)
        QG_TRY(map_axis(k, i, begin[i], &map[i]));
    qg_walk w;
    qg_walk_at at = { 0 };
    qg_walk_init(&w, y->rank, y->dim);
    qg_walk_add_broadcast(&w, y);
    if (qg_walk_empty(&w))
        return QG_OK;
    const int32_t last = y->rank - 1;
    do {
        int64_t base = 0;
        char *to = (char *)y->data + (size_t)at.offset[0] * size;
        for (int32_t i = 0; i < last && base != OUTSIDE; i++)
            base =
                map[i][at.index[i]] == OUTSIDE ? OUTSIDE : base + map[i][at.index[i]];
        if (base == OUTSIDE)
            fill_row(to, y->dim[last], size, value);
        else
            pad_row((const char *)x->data + (size_t)base * size, map[last],
                    y->dim[last], size, value, to);
    } while (qg_walk_next(&w, &at));
    return QG_OK;
}

/* The code of 0.0, in the type of the output, as a constant. */
static qg_status zero_code(qg_lower *l, qg_value **out)
{
    qg_tensor *t = qg_lower_tensor(l, l->out[0].dtype, 0, NULL);
    const char *name = qg_arena_printf(l->to->arena, "%s_zero", l->node->name);
    if (!t || !name)
        return qg_nomem(l->ctx);
    qg_codes_store(t->dtype, l->out[0].zero, t->data, 0, 1);
    return qg_lower_constant(l, name, t, out);
}

/* The padding of a node without a value is 0.0: the zero point, given explicitly. */
static qg_status lower_pad(qg_lower *l)
{
    const pad_param *p = l->node->param;
    if (!qg_lower_wants_codes(l, 1) || !qg_lower_wants_same(l, 0))
        return QG_OK;
    if (p->mode != PAD_CONSTANT || (l->node->n_in > 2 && l->node->in[2]))
        return qg_lower_on_codes(l, QG_USE_PAD);
    if (!p->as_inputs)
        return qg_lower_refuse(l, "opset %d, expected 11 or later",
                               (int)l->node->op->since);
    qg_node node = *l->node;
    qg_lower_in in[4] = { { 0 } };
    qg_value *slot[4] = { 0 };
    for (uint32_t k = 0; k < node.n_in; k++) {
        in[k] = l->in[k];
        slot[k] = node.in[k];
    }
    QG_TRY(zero_code(l, &in[2].value));
    in[2].stored = l->out[0];
    node.in = slot;
    node.n_in = node.n_in < 3 ? 3 : node.n_in;
    qg_lower with = *l;
    with.node = &node;
    with.in = in;
    QG_TRY(qg_lower_on_codes(&with, QG_USE_PAD));
    l->refusal = with.refusal;
    l->row = with.row;
    return QG_OK;
}

/* A value that is an attribute, until 10, would count as the position of an element. */
static qg_status backward(const qg_backward *b)
{
    pad_param p = *(const pad_param *)b->call->param;
    qg_call k = *b->call;
    p.value = 0;
    k.param = &p;
    return qg_backward_move(&(qg_backward){ &k, b->out, b->in });
}

#define ROW(first, last, least, most)                                                  \
    {                                                                                  \
        .name = "Pad", .since = first, .until = last, .min_in = least, .max_in = most, \
        .min_out = 1, .max_out = 1, .in_roles = "dsps",                                \
        .traits = QG_OP_PASSIVE | QG_OP_PURE, .param_size = sizeof(pad_param),         \
        .prepare = prepare, .infer = infer, .run = run, .lower = lower_pad,            \
        .backward = backward                                                           \
    }

const qg_op qg_ops_pad[] = {
    ROW(1, 1, 1, 1), ROW(2, 10, 1, 1), ROW(11, 17, 2, 3), ROW(18, 0, 2, 4), { 0 },
};

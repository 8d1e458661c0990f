#include "engine/formats/tflite/writer.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/formats/quantize_linear.h"
#include "engine/formats/tflite/operators.h"

/* Upstream's numbers of TensorType and BuiltinOperator. */
enum { FLOAT32 = 0, INT32 = 2, UINT8 = 3, INT64 = 4, BOOL = 6, INT16 = 7, INT8 = 9 };
enum { PAD = 34, TRANSPOSE = 39, MAXIMUM = 55, MINIMUM = 57, PADV2 = 60 };

static const int32_t to_nhwc[4] = { 0, 2, 3, 1 }, to_nchw[4] = { 0, 3, 1, 2 };

/* The node as the network has it, where the program has a kernel of that name. */
static const qg_node *named_node(const qg_tflite_writer *w)
{
    const qg_node *n = qg_graph_node(w->program->from, w->node->name);
    return n ? n : w->node;
}

qg_status qg_tflite_refuse(qg_tflite_writer *w, const char *fmt, ...)
{
    char text[2600];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return qg_fail(w->ctx, QG_EUNSUPPORTED, "export: node '%.1000s' (%s): %s",
                   w->node->name, named_node(w)->op->name, text);
}

/* --- tensors --- */

static qg_status type_of(qg_tflite_writer *w, qg_dtype d, const char *name,
                         int32_t *out)
{
    *out = d == QG_F32    ? FLOAT32
           : d == QG_I32  ? INT32
           : d == QG_U8   ? UINT8
           : d == QG_I64  ? INT64
           : d == QG_BOOL ? BOOL
           : d == QG_I16  ? INT16
           : d == QG_I8   ? INT8
                          : -1;
    return *out >= 0
               ? QG_OK
               : qg_fail(w->ctx, QG_EUNSUPPORTED,
                         "export: value '%.1000s' is %s, expected float32, bool or "
                         "an integer of TensorFlow Lite",
                         name, qg_dtype_name(d));
}

/* Scales and zero points, which a file has as int64. */
static qg_status set_grid(qg_tflite_writer *w, const qg_stored *grid, int32_t axis,
                          qg_tflite_tensor *t)
{
    int64_t *zero = QG_NEWN(w->arena, grid->n, int64_t);
    if (!zero)
        return qg_nomem(w->ctx);
    for (uint32_t i = 0; i < grid->n; i++)
        zero[i] = grid->zero[i];
    t->scale = grid->scale;
    t->zero = (const unsigned char *)zero;
    t->n_scale = t->n_zero = grid->n;
    t->axis = axis;
    return QG_OK;
}

static qg_status add_tensor(qg_tflite_writer *w, const qg_tflite_tensor *t,
                            int32_t *out)
{
    *out = (int32_t)w->tensor.n;
    return qg_vec_push(w->ctx, w->arena, &w->tensor, *t);
}

qg_status qg_tflite_put_ints(qg_tflite_writer *w, const char *name, uint32_t rank,
                             const int32_t *dim, const int32_t *x, int32_t *out)
{
    size_t n = 1;
    for (uint32_t i = 0; i < rank; i++)
        n *= (size_t)dim[i];
    int32_t *copy = QG_NEWN(w->arena, n + rank, int32_t);
    const char *own = qg_arena_printf(w->arena, "%s/%s", w->node->name, name);
    if (!copy || !own)
        return qg_nomem(w->ctx);
    memcpy(copy, x, n * sizeof *x);
    for (uint32_t i = 0; i < rank; i++) /* of a scalar, dim may be NULL */
        copy[n + i] = dim[i];
    return add_tensor(w,
                      &(qg_tflite_tensor){ .name = own,
                                           .type = INT32,
                                           .dim = copy + n,
                                           .rank = rank,
                                           .data = (const unsigned char *)copy,
                                           .size = n * sizeof *x },
                      out);
}

qg_status qg_tflite_put_number(qg_tflite_writer *w, const char *name, float x,
                               int32_t *out)
{
    float *copy = QG_NEW(w->arena, float);
    const char *own = qg_arena_printf(w->arena, "%s/%s", w->node->name, name);
    if (!copy || !own)
        return qg_nomem(w->ctx);
    *copy = x;
    return add_tensor(w,
                      &(qg_tflite_tensor){ .name = own,
                                           .type = FLOAT32,
                                           .data = (const unsigned char *)copy,
                                           .size = sizeof *copy },
                      out);
}

qg_status qg_tflite_like(qg_tflite_writer *w, int32_t like, const char *suffix,
                         const int32_t *dim, int32_t *out)
{
    qg_tflite_tensor t = w->tensor.at[like];
    t.data = NULL;
    t.name = qg_arena_printf(w->arena, "%s_%s", t.name, suffix);
    if (dim) {
        int32_t *copy = QG_NEWN(w->arena, t.rank, int32_t);
        if (!copy)
            return qg_nomem(w->ctx);
        memcpy(copy, dim, t.rank * sizeof *dim);
        t.dim = copy;
    }
    return t.name ? add_tensor(w, &t, out) : qg_nomem(w->ctx);
}

bool qg_tflite_is_zero(const qg_tflite_writer *w, int32_t tensor, int32_t code)
{
    const qg_tflite_tensor *t = &w->tensor.at[tensor];
    int64_t zero;
    if (t->n_zero != 1)
        return false;
    memcpy(&zero, t->zero, sizeof zero);
    return zero == code;
}

qg_status qg_tflite_put_code(qg_tflite_writer *w, int32_t like, int32_t code,
                             int32_t *out)
{
    qg_tflite_tensor t = w->tensor.at[like];
    unsigned char *data = QG_NEWN(w->arena, 2, unsigned char);
    t.name = qg_arena_printf(w->arena, "%s/code_%d", t.name, (int)code);
    if (!data || !t.name)
        return qg_nomem(w->ctx);
    data[0] = (unsigned char)((uint32_t)code & 255);
    data[1] = (unsigned char)((uint32_t)code >> 8 & 255);
    t.data = data;
    t.size = t.type == INT16 ? 2 : 1;
    t.rank = 0;
    t.dim = NULL;
    return add_tensor(w, &t, out);
}

/* --- forms of values --- */

int32_t qg_tflite_axis_in(enum qg_tflite_form form, int32_t rank, int64_t k)
{
    int32_t at = (int32_t)(k < 0 ? k + rank : k);
    return form == QG_TFLITE_NHWC && rank == 4 ? to_nchw[at] : at;
}

bool qg_tflite_is_picture(const qg_tflite_writer *w, const qg_value *v)
{
    return v->type.rank == 4 && w->form[QG_TFLITE_NHWC][v->id] >= 0;
}

/* N,H,W,C where an input has that form already and the others have 4 axes or are
 * single elements. */
enum qg_tflite_form qg_tflite_pick_form(const qg_tflite_writer *w)
{
    const qg_node *n = w->node;
    bool any = false, all = n->out[0]->type.rank == 4;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const qg_value *v = n->in[i];
        const qg_tensor *t = v->constant ? v->constant : &v->type;
        any |= qg_tflite_is_picture(w, v) && !v->constant;
        all &= t->rank == 4 || qg_tensor_count(t) == 1;
    }
    return any && all ? QG_TFLITE_NHWC : QG_TFLITE_AS_IS;
}

qg_status qg_tflite_form_of_rows(qg_tflite_writer *w, int64_t k,
                                 enum qg_tflite_form *out)
{
    int32_t rank = w->node->in[0]->type.rank;
    int64_t axis = k < 0 ? k + rank : k;
    bool channels = rank == 4 && axis == 1;
    *out = channels ? QG_TFLITE_NHWC : QG_TFLITE_AS_IS;
    return channels || axis == rank - 1
               ? QG_OK
               : qg_tflite_refuse(w, "axis %lld, expected the last one, or 1 of 4",
                                  (long long)k);
}

static qg_status dims_of(qg_tflite_writer *w, const qg_tensor *type,
                         enum qg_tflite_form form, const int32_t **out)
{
    int32_t *dim = QG_NEWN(w->arena, (size_t)type->rank + 1, int32_t);
    if (!dim)
        return qg_nomem(w->ctx);
    for (int32_t i = 0; i < type->rank; i++) {
        int64_t n = type->dim[form == QG_TFLITE_NHWC ? to_nhwc[i] : i];
        if (n < 0 || n > INT32_MAX)
            return qg_tflite_refuse(w,
                                    "%s, expected dims that are known, as with "
                                    "qg quantize --shape",
                                    qg_tensor_text(type, (char[QG_SHAPE_TEXT]){ 0 }));
        dim[i] = (int32_t)n;
    }
    *out = dim;
    return QG_OK;
}

static const char *name_of(qg_tflite_writer *w, const qg_value *v,
                           enum qg_tflite_form form)
{
    bool other = w->form[1 - form][v->id] >= 0, plain = form == QG_TFLITE_AS_IS;
    bool interface = v->is_input || v->is_output;
    if (interface ? plain : !other)
        return v->name;
    return qg_arena_printf(w->arena, "%s_%s", v->name, plain ? "nchw" : "nhwc");
}

/* A tensor for v without data. */
static qg_status describe(qg_tflite_writer *w, const qg_value *v,
                          enum qg_tflite_form form, qg_tflite_tensor *t)
{
    const qg_stored *grid = &w->grid[v->id];
    const qg_tensor *type = v->constant ? v->constant : &v->type;
    assert(form == QG_TFLITE_AS_IS || type->rank == 4);
    *t =
        (qg_tflite_tensor){ .name = name_of(w, v, form), .rank = (uint32_t)type->rank };
    if (type->rank < 0 || !t->name)
        return t->name ? qg_tflite_refuse(w, "%.1000s has no known rank", v->name)
                       : qg_nomem(w->ctx);
    QG_TRY(type_of(w, type->dtype, v->name, &t->type));
    QG_TRY(dims_of(w, type, form, &t->dim));
    return grid->codes
               ? set_grid(w, grid, qg_tflite_axis_in(form, type->rank, grid->axis), t)
               : QG_OK;
}

qg_status qg_tflite_make(qg_tflite_writer *w, const qg_value *v,
                         enum qg_tflite_form form, int32_t *out)
{
    qg_tflite_tensor t;
    QG_TRY(describe(w, v, form, &t));
    QG_TRY(add_tensor(w, &t, out));
    w->form[form][v->id] = *out;
    return QG_OK;
}

/* to [N][H][W][C] = from [N][C][H][W], elements of `size` bytes. */
static void turn(const qg_tensor *from, size_t size, unsigned char *to)
{
    int64_t c = from->dim[1], area = from->dim[2] * from->dim[3];
    const unsigned char *x = from->data;
    for (int64_t n = 0; n < from->dim[0]; n++)
        for (int64_t i = 0; i < area; i++)
            for (int64_t k = 0; k < c; k++, to += size)
                memcpy(to, x + (size_t)((n * c + k) * area + i) * size, size);
}

static qg_status put_constant(qg_tflite_writer *w, const qg_value *v,
                              enum qg_tflite_form form, int32_t *out)
{
    const qg_tensor *x = v->constant;
    qg_tflite_tensor t;
    size_t each = qg_dtype_bits(x->dtype) / 8;
    QG_TRY(describe(w, v, form, &t));
    t.size = (size_t)qg_tensor_count(x) * each;
    t.data = x->data;
    if (form == QG_TFLITE_NHWC) {
        unsigned char *to = QG_NEWN(w->arena, t.size, unsigned char);
        if (!to)
            return qg_nomem(w->ctx);
        turn(x, each, to);
        t.data = to;
    }
    QG_TRY(add_tensor(w, &t, out));
    w->form[form][v->id] = *out;
    return QG_OK;
}

qg_status qg_tflite_want(qg_tflite_writer *w, const qg_value *v,
                         enum qg_tflite_form form, const qg_stored *grid, int32_t *out)
{
    int32_t in[2], four = 4;
    *out = w->form[form][v->id];
    if (*out >= 0)
        return QG_OK;
    if (grid && !w->grid[v->id].codes)
        w->grid[v->id] = *grid;
    if (v->constant)
        return put_constant(w, v, form, out);
    in[0] = w->form[1 - form][v->id];
    if (in[0] < 0)
        return qg_tflite_refuse(w, "%.1000s is not computed before", v->name);
    QG_TRY(qg_tflite_put_ints(w, form == QG_TFLITE_NHWC ? "to_nhwc" : "to_nchw", 1,
                              &four, form == QG_TFLITE_NHWC ? to_nhwc : to_nchw,
                              &in[1]));
    QG_TRY(qg_tflite_make(w, v, form, out));
    return qg_tflite_put(w, TRANSPOSE, (qg_tflite_slots){ in, out, 2, 1 },
                         &(qg_tflite_options){ 0 });
}

/* --- operators --- */

qg_status qg_tflite_put(qg_tflite_writer *w, int32_t code, qg_tflite_slots slots,
                        const qg_tflite_options *o)
{
    uint32_t n_in = slots.n_in, n_out = slots.n_out;
    int32_t *copy = QG_NEWN(w->arena, (size_t)n_in + n_out, int32_t);
    if (!copy)
        return qg_nomem(w->ctx);
    memcpy(copy, slots.in, n_in * sizeof *copy);
    memcpy(copy + n_in, slots.out, n_out * sizeof *copy);
    qg_tflite_operator op = { .code = code,
                              .in = copy,
                              .n_in = n_in,
                              .out = copy + n_in,
                              .n_out = n_out,
                              .options = *o };
    return qg_vec_push(w->ctx, w->arena, &w->op, op);
}

/* Upstream's numbers of ActivationFunctionType. */
static const int32_t activations[QG_NACTIVATION] = {
    [QG_ACTIVATION_NONE] = QG_TFLITE_NO_ACTIVATION,
    [QG_ACTIVATION_RELU] = QG_TFLITE_RELU,
    [QG_ACTIVATION_RELU6] = QG_TFLITE_RELU6,
    [QG_ACTIVATION_RELU_N1_TO_1] = QG_TFLITE_RELU_N1_TO_1,
};

/* out = min(max(x, low), high), all on one grid. */
static qg_status put_clamp(qg_tflite_writer *w, int32_t x, int32_t out)
{
    const qg_tflite_options none = { 0 };
    int32_t low[2] = { x }, high[2];
    QG_TRY(qg_tflite_put_code(w, x, w->recipe->out.low, &low[1]));
    QG_TRY(qg_tflite_put_code(w, x, w->recipe->out.high, &high[1]));
    QG_TRY(qg_tflite_like(w, out, "not_below", NULL, &high[0]));
    QG_TRY(qg_tflite_put(w, MAXIMUM, (qg_tflite_slots){ low, &high[0], 2, 1 }, &none));
    return qg_tflite_put(w, MINIMUM, (qg_tflite_slots){ high, &out, 2, 1 }, &none);
}

bool qg_tflite_is_behind(const qg_tflite_writer *w, const qg_node *n)
{
    const qg_program_node *fate = &w->program->node[n->id];
    bool fused = n->op->clamp && fate->how == QG_LOWERED_INTEGER && !*fate->row;
    return (fused || qg_is_quantize_linear(n)) && n->in[0] && n->in[0]->def;
}

/* What the float graph leaves of the real numbers where w->node ends. */
static void float_limits(const qg_tflite_writer *w, float *low, float *high)
{
    const qg_value *v = w->from[w->node->out[0]->id];
    float from, to;
    *low = -INFINITY;
    *high = INFINITY;
    for (const qg_node *n = v ? v->def : NULL; n; n = n->in[0]->def) {
        if (qg_node_clamps(n, &from, &to)) {
            *low = fmaxf(*low, from);
            *high = fminf(*high, to);
        }
        if (!qg_tflite_is_behind(w, n))
            return;
    }
}

/* The codes clamp by themselves: with a zero point at the lowest code, NONE and RELU
 * have the same, and RELU6, too, where the scale ends there.  The tightest is chosen of
 * those that hold all that the clamps leave. */
qg_activation qg_tflite_activation(const qg_tflite_writer *w, uint32_t set)
{
    qg_activation best = qg_first_activation(set);
    float low, high, best_low = -INFINITY, best_high = INFINITY;
    float_limits(w, &low, &high);
    for (int a = 0; a < QG_NACTIVATION; a++) {
        float from, to;
        qg_activation_limits((qg_activation)a, &from, &to);
        if (!(set >> a & 1) || from > low || to < high || from < best_low ||
            to > best_high)
            continue;
        best = (qg_activation)a;
        best_low = from;
        best_high = to;
    }
    return best;
}

qg_status qg_tflite_put_kernel(qg_tflite_writer *w, int32_t code, qg_tflite_slots slots,
                               enum qg_tflite_form form, const qg_tflite_options *o,
                               bool activation)
{
    qg_tflite_options own = *o;
    int32_t out, inner;
    uint32_t set = qg_stored_activations(&w->recipe->out);
    if (!activation)
        set &= 1u << QG_ACTIVATION_NONE;
    QG_TRY(qg_tflite_make(w, w->node->out[0], form, &out));
    if (set)
        own.activation = activations[qg_tflite_activation(w, set)];
    if (set)
        return qg_tflite_put(w, code,
                             (qg_tflite_slots){ slots.in, &out, slots.n_in, 1 }, &own);
    own.activation = QG_TFLITE_NO_ACTIVATION;
    QG_TRY(qg_tflite_like(w, out, "unclamped", NULL, &inner));
    QG_TRY(qg_tflite_put(w, code, (qg_tflite_slots){ slots.in, &inner, slots.n_in, 1 },
                         &own));
    return put_clamp(w, inner, out);
}

qg_status qg_tflite_put_pad(qg_tflite_writer *w, const int64_t pad[4], int32_t code,
                            int32_t *x)
{
    int32_t two[2] = { 4, 2 }, dim[4], in[3] = { *x }, out;
    int32_t around[8] = {
        0, 0, (int32_t)pad[0], (int32_t)pad[2], (int32_t)pad[1], (int32_t)pad[3], 0, 0
    };
    if (!(pad[0] | pad[1] | pad[2] | pad[3]))
        return QG_OK;
    for (int i = 0; i < 4; i++)
        dim[i] = w->tensor.at[*x].dim[i] + around[2 * i] + around[2 * i + 1];
    QG_TRY(qg_tflite_put_ints(w, "pads", 2, two, around, &in[1]));
    uint32_t n_in = qg_tflite_is_zero(w, *x, code) ? 2 : 3;
    if (n_in == 3)
        QG_TRY(qg_tflite_put_code(w, *x, code, &in[2]));
    QG_TRY(qg_tflite_like(w, *x, "padded", dim, &out));
    *x = out;
    return qg_tflite_put(w, n_in == 2 ? PAD : PADV2,
                         (qg_tflite_slots){ in, &out, n_in, 1 },
                         &(qg_tflite_options){ 0 });
}

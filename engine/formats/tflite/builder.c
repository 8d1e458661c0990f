#include "engine/formats/tflite/builder.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/ir/edit.h"

/* Types by upstream's number; NODTYPE: not supported. */
static const struct {
    const char *name;
    qg_dtype type;
} types[] = {
    {"FLOAT32",     QG_F32    },
    { "FLOAT16",    QG_NODTYPE},
    { "INT32",      QG_I32    },
    { "UINT8",      QG_U8     },
    { "INT64",      QG_I64    },
    { "STRING",     QG_NODTYPE},
    { "BOOL",       QG_NODTYPE},
    { "INT16",      QG_I16    },
    { "COMPLEX64",  QG_NODTYPE},
    { "INT8",       QG_I8     },
    { "FLOAT64",    QG_NODTYPE},
    { "COMPLEX128", QG_NODTYPE},
    { "UINT64",     QG_NODTYPE},
    { "RESOURCE",   QG_NODTYPE},
    { "VARIANT",    QG_NODTYPE},
    { "UINT32",     QG_NODTYPE},
    { "UINT16",     QG_NODTYPE},
    { "INT4",       QG_NODTYPE},
    { "BFLOAT16",   QG_NODTYPE},
};

/* Axes of the file in the order of a form of rank 4. */
static const int32_t axes_of[QG_TFLITE_NLAYOUT][4] = {
    [QG_TFLITE_PLAIN] = {0,  1, 2, 3},
    [QG_TFLITE_NCHW] = { 0, 3, 1, 2},
    [QG_TFLITE_CNHW] = { 3, 0, 1, 2},
};

int64_t qg_tflite_axis(enum qg_tflite_layout layout, int64_t k)
{
    int64_t at = 0;
    while (axes_of[layout][at] != k)
        at++;
    return at;
}

/* The axes of the file in the order of this form, which has rank axes. */
static void axes_in(enum qg_tflite_layout layout, int32_t rank, int32_t *axis)
{
    for (int32_t i = 0; i < rank; i++)
        axis[i] = i;
    if (layout == QG_TFLITE_NCHW || layout == QG_TFLITE_CNHW)
        memcpy(axis, axes_of[layout], sizeof axes_of[layout]);
    if (layout == QG_TFLITE_SWAPPED) {
        axis[rank - 1] = rank - 2;
        axis[rank - 2] = rank - 1;
    }
}

qg_status qg_tflite_fail(qg_tflite_builder *b, qg_status s, const char *fmt, ...)
{
    char text[2600];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!b->op)
        return qg_fail(b->ctx, s, "import: %s: %s", b->op_name, text);
    return qg_fail(b->ctx, s, "import: operator %u (%s): %s", b->at, b->op_name, text);
}

static uint32_t index_of(const qg_tflite_builder *b, const qg_tflite_value *v)
{
    return (uint32_t)(v - b->value);
}

static const qg_tflite_tensor *source_of(const qg_tflite_builder *b,
                                         const qg_tflite_value *v)
{
    return &b->file->tensor[index_of(b, v)];
}

static qg_status tensor_fail(qg_tflite_builder *b, qg_status s,
                             const qg_tflite_value *v, const char *fmt, ...)
    QG_PRINTF(4, 5);
static qg_status tensor_fail(qg_tflite_builder *b, qg_status s,
                             const qg_tflite_value *v, const char *fmt, ...)
{
    char text[2600];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return qg_fail(b->ctx, s, "import: tensor %u '%.1000s': %s", index_of(b, v),
                   source_of(b, v)->name, text);
}

/* --- checks --- */

static qg_status check_type(qg_tflite_builder *b, qg_tflite_value *v)
{
    const qg_tflite_tensor *t = source_of(b, v);
    bool known = t->type >= 0 && (size_t)t->type < sizeof types / sizeof types[0];
    v->codes = known ? types[t->type].type : QG_NODTYPE;
    if (v->codes == QG_NODTYPE)
        return tensor_fail(b, QG_EUNSUPPORTED, v,
                           "type %d (%s), expected FLOAT32, INT8, UINT8, INT16, INT32 "
                           "or INT64",
                           t->type, known ? types[t->type].name : "unknown");
    if (t->variable)
        return tensor_fail(b, QG_EUNSUPPORTED, v, "it is a variable, expected none");
    if (t->sparse)
        return tensor_fail(b, QG_EUNSUPPORTED, v, "it is sparse, expected dense");
    if (t->details)
        return tensor_fail(b, QG_EUNSUPPORTED, v,
                           "it has a custom quantization, expected scale and zero "
                           "point");
    return QG_OK;
}

static qg_status check_dims(qg_tflite_builder *b, qg_tflite_value *v)
{
    const qg_tflite_tensor *t = source_of(b, v);
    int64_t dim[QG_MAX_RANK];
    if (t->rank > QG_MAX_RANK)
        return tensor_fail(b, QG_EUNSUPPORTED, v, "rank %u, expected at most %d",
                           t->rank, QG_MAX_RANK);
    for (uint32_t i = 0; i < t->rank; i++) {
        dim[i] = t->dim[i];
        if (dim[i] < 0)
            return tensor_fail(b, QG_EMODEL, v, "dimension %u is %d, expected >= 0", i,
                               t->dim[i]);
    }
    qg_tensor_init(&v->type, v->codes, (int32_t)t->rank, dim);
    if (qg_tensor_count(&v->type) < 0)
        return tensor_fail(b, QG_EMODEL, v, "too many elements, expected below 2^63");
    return QG_OK;
}

/* Constants, and the absence of data where there is none. */
static qg_status check_data(qg_tflite_builder *b, qg_tflite_value *v)
{
    const qg_tflite_tensor *t = source_of(b, v);
    size_t want;
    if (t->no_buffer)
        return tensor_fail(b, QG_EMODEL, v, "its buffer is none of the file's");
    if (t->outside)
        return tensor_fail(b, QG_EUNSUPPORTED, v,
                           "its buffer lies behind the flatbuffer, expected a file "
                           "below 2 GB");
    v->constant = t->data && !v->is_input;
    if (!v->constant)
        return QG_OK;
    QG_TRY(qg_tensor_bytes(b->ctx, t->name, &v->type, &want));
    if (want != t->size)
        return tensor_fail(b, QG_EMODEL, v, "%zu bytes of data, expected %zu", t->size,
                           want);
    return QG_OK;
}

static int64_t zero_at(const qg_tflite_tensor *t, size_t i)
{
    int64_t z;
    memcpy(&z, t->zero + i * sizeof z, sizeof z);
    return z;
}

/* int64 biases have codes that fit int32. */
static unsigned code_bits(const qg_tflite_value *v)
{
    return v->codes == QG_I64 ? 32 : qg_dtype_bits(v->codes);
}

static int64_t lowest_code(const qg_tflite_value *v)
{
    return v->codes == QG_U8 ? 0 : -(INT64_C(1) << (code_bits(v) - 1));
}

static qg_status check_grid(qg_tflite_builder *b, const qg_tflite_value *v)
{
    const qg_tflite_tensor *t = source_of(b, v);
    unsigned bits = code_bits(v);
    int64_t low = lowest_code(v), high = low + (INT64_C(1) << bits) - 1;
    if (t->n_zero != t->n_scale)
        return tensor_fail(b, QG_EMODEL, v,
                           "%u scales and %u zero points, expected as "
                           "many",
                           t->n_scale, t->n_zero);
    if (t->n_scale > 1 && !v->constant)
        return tensor_fail(b, QG_EUNSUPPORTED, v,
                           "%u scales, expected 1 for a tensor that is computed",
                           t->n_scale);
    if (t->n_scale > 1 && (t->axis < 0 || t->axis >= v->type.rank ||
                           v->type.dim[t->axis] != (int64_t)t->n_scale))
        return tensor_fail(b, QG_EMODEL, v,
                           "%u scales along axis %d, expected one per index",
                           t->n_scale, t->axis);
    for (uint32_t i = 0; i < t->n_scale; i++) {
        int64_t z = zero_at(t, i);
        if (!isfinite(t->scale[i]) || !(t->scale[i] > 0))
            return tensor_fail(b, QG_EMODEL, v, "scale %u is %g, expected > 0", i,
                               (double)t->scale[i]);
        if (z < low || z > high || (z != 0 && bits == 32))
            return tensor_fail(b, QG_EMODEL, v,
                               "zero point %u is %lld, expected a code of the type", i,
                               (long long)z);
    }
    return QG_OK;
}

static qg_status pay(qg_tflite_builder *b, const qg_tflite_value *v, uint64_t bytes)
{
    if (bytes > b->room)
        return tensor_fail(b, QG_EMODEL, v,
                           "the constants need more memory than a file of this size "
                           "can have");
    b->room -= bytes;
    return QG_OK;
}

/* TfLiteRound rounds half away from zero.  Source: tensorflow/lite/kernels/internal/
 * cppmath.h. */
static qg_status make_grid(qg_tflite_builder *b, qg_tflite_value *v)
{
    const qg_tflite_tensor *t = source_of(b, v);
    uint32_t n = t->n_scale, any = 0;
    QG_TRY(pay(b, v, (uint64_t)n * 8));
    qg_grid_record *r = QG_NEW(b->g->arena, qg_grid_record);
    float *scale = QG_NEWN(b->g->arena, n, float);
    int32_t *zero = QG_NEWN(b->g->arena, n, int32_t);
    if (!r || !scale || !zero)
        return qg_nomem(b->ctx);
    memcpy(scale, t->scale, n * sizeof *scale);
    for (uint32_t i = 0; i < n; i++) {
        zero[i] = (int32_t)zero_at(t, i);
        any |= zero[i] != 0;
    }
    r->scheme =
        (qg_scheme){ .policy =
                         (uint16_t)((n == 1 ? QG_PER_TENSOR : QG_PER_CHANNEL) |
                                    QG_LINEAR | (any ? QG_ASYMMETRIC : QG_SYMMETRIC)),
                     .rounding = QG_ROUND_HALF_AWAY,
                     .bits = (uint8_t)code_bits(v),
                     .axis = (int16_t)(n == 1 ? -1 : t->axis),
                     .nan = QG_NAN_WRAP, /* configs/backends/tflite-int8.yaml */
                     .qmin = lowest_code(v),
                     .qmax = lowest_code(v) + (INT64_C(1) << code_bits(v)) - 1 };
    r->param = (qg_qparam){ n, scale, zero };
    v->grid = r;
    v->type.dtype = QG_F32;
    return QG_OK;
}

static qg_status check_codes(qg_tflite_builder *b, qg_tflite_value *v)
{
    const qg_tflite_tensor *t = source_of(b, v);
    bool whole = v->codes == QG_I32 || v->codes == QG_I64;
    if (v->codes == QG_F32 || (whole && (!v->constant || !t->n_scale)))
        return QG_OK; /* floats; indices and shapes */
    if (!t->n_scale)
        return tensor_fail(b, QG_EUNSUPPORTED, v, "%s without a scale, expected one",
                           types[t->type].name);
    QG_TRY(check_grid(b, v));
    return make_grid(b, v);
}

qg_status qg_tflite_tensor_at(qg_tflite_builder *b, int32_t index,
                              qg_tflite_value **out)
{
    if (index < 0 || (uint32_t)index >= b->file->n_tensor)
        return qg_tflite_fail(b, QG_EMODEL, "tensor %d, expected one of %u", index,
                              b->file->n_tensor);
    qg_tflite_value *v = &b->value[index];
    if (!v->checked) {
        QG_TRY(check_type(b, v));
        QG_TRY(check_dims(b, v));
        QG_TRY(check_data(b, v));
        QG_TRY(check_codes(b, v));
        v->checked = true;
    }
    *out = v;
    return QG_OK;
}

static qg_status slot(qg_tflite_builder *b, const char *side, uint32_t n, uint32_t k,
                      const int32_t *index, qg_tflite_value **out)
{
    if (k >= n)
        return qg_tflite_fail(b, QG_EMODEL, "%u %s, expected more", n, side);
    return qg_tflite_tensor_at(b, index[k], out);
}

bool qg_tflite_has_input(const qg_tflite_builder *b, uint32_t k)
{
    return k < b->op->n_in && b->op->in[k] != -1;
}

qg_status qg_tflite_input(qg_tflite_builder *b, uint32_t k, qg_tflite_value **out)
{
    qg_tflite_value *v;
    QG_TRY(slot(b, "inputs", b->op->n_in, k, b->op->in, &v));
    if (!v->constant && !v->lead)
        return qg_tflite_fail(b, QG_EMODEL,
                              "input %u, tensor %d '%.1000s', is not computed yet", k,
                              b->op->in[k], source_of(b, v)->name);
    *out = v;
    return QG_OK;
}

qg_status qg_tflite_output(qg_tflite_builder *b, uint32_t k, qg_tflite_value **out)
{
    qg_tflite_value *v;
    QG_TRY(slot(b, "outputs", b->op->n_out, k, b->op->out, &v));
    if (v->constant || v->lead)
        return qg_tflite_fail(b, QG_EMODEL,
                              "output %u, tensor %d '%.1000s', has a value already", k,
                              b->op->out[k], source_of(b, v)->name);
    *out = v;
    return QG_OK;
}

qg_status qg_tflite_integers(qg_tflite_builder *b, uint32_t k, size_t most,
                             int64_t *out, size_t *n)
{
    qg_tflite_value *v;
    QG_TRY(qg_tflite_input(b, k, &v));
    const unsigned char *data = source_of(b, v)->data;
    size_t count = (size_t)qg_tensor_count(&v->type);
    if (!v->constant || (v->codes != QG_I32 && v->codes != QG_I64))
        return qg_tflite_fail(b, QG_EUNSUPPORTED,
                              "input %u is computed, expected constant integers", k);
    if (count > most)
        return qg_tflite_fail(b, QG_EMODEL,
                              "input %u has %zu integers, expected at most "
                              "%zu",
                              k, count, most);
    for (size_t i = 0; i < count; i++) {
        int32_t x;
        memcpy(&x, data + i * sizeof x, sizeof x);
        if (v->codes == QG_I32)
            out[i] = x;
        else
            memcpy(&out[i], data + i * sizeof out[i], sizeof out[i]);
    }
    *n = count;
    return QG_OK;
}

/* --- constants --- */

/* The dims of a constant in a form, and its axes from the plain ones; dims of 1 stand
 * before those of a lower rank. */
typedef struct shape {
    int32_t rank, axis[QG_MAX_RANK], ahead; /* ahead: dims of 1 */
    int64_t dim[QG_MAX_RANK];
} shape;

static shape shape_in(const qg_tensor *plain, enum qg_tflite_layout layout)
{
    shape s = { .rank = plain->rank };
    if (layout == QG_TFLITE_NCHW || layout == QG_TFLITE_CNHW) {
        s.ahead = 4 - plain->rank;
        s.rank = 4;
    }
    axes_in(layout, s.rank, s.axis);
    for (int32_t i = 0; i < s.rank; i++)
        s.dim[i] = s.axis[i] < s.ahead ? 1 : plain->dim[s.axis[i] - s.ahead];
    return s;
}

/* The elements of the file in the order of a form, typed as in the file. */
static qg_status order(qg_tflite_builder *b, const qg_tflite_value *v, const shape *s,
                       qg_arena *scratch, qg_tensor *out)
{
    const qg_tflite_tensor *t = source_of(b, v);
    qg_tensor from = v->type, to;
    from.dtype = v->codes;
    QG_TRY(qg_tensor_alloc(b->ctx, scratch, &from)); /* the file's are unaligned */
    memcpy(from.data, t->data, t->size);
    qg_tensor_init(&to, v->codes, s->rank, s->dim);
    qg_tensor view = to;
    view.data = from.data;
    for (int32_t i = 0; i < s->rank; i++)
        view.stride[i] = s->axis[i] < s->ahead ? 1 : from.stride[s->axis[i] - s->ahead];
    QG_TRY(qg_tensor_alloc(b->ctx, scratch, &to));
    qg_tensor_copy(&view, &to);
    *out = to;
    return QG_OK;
}

/* int64 codes as int32. */
static qg_status narrow(qg_tflite_builder *b, const qg_tflite_value *v,
                        qg_arena *scratch, qg_tensor *codes)
{
    qg_tensor out;
    qg_tensor_init(&out, QG_I32, codes->rank, codes->dim);
    QG_TRY(qg_tensor_alloc(b->ctx, scratch, &out));
    for (int64_t i = 0; i < qg_tensor_count(codes); i++) {
        if (codes->i64[i] < INT32_MIN || codes->i64[i] > INT32_MAX)
            return tensor_fail(b, QG_EUNSUPPORTED, v,
                               "code %lld, expected one of 32 bits",
                               (long long)codes->i64[i]);
        out.i32[i] = (int32_t)codes->i64[i];
    }
    *codes = out;
    return QG_OK;
}

static qg_status add_note(qg_tflite_builder *b, const qg_value *value,
                          const qg_tflite_value *v, const qg_grid_record *grid)
{
    if (!grid)
        return QG_OK;
    return qg_vec_push(b->ctx, b->g->arena, &b->note,
                       (qg_tflite_note){ value, index_of(b, v), grid });
}

/* Called `name` where no other value is. */
static qg_status add_constant(qg_tflite_builder *b, const char *name,
                              const qg_tensor *t, qg_value **out)
{
    qg_tensor *copy;
    QG_TRY(qg_tensor_clone(b->ctx, b->g->arena, t, &copy));
    if (!*name || qg_graph_value(b->g, name))
        return qg_edit_add_constant(b->g, *name ? name : "constant", copy, out);
    QG_TRY(qg_graph_add_value(b->g, name, out));
    return qg_edit_make_constant(b->g, *out, copy);
}

/* Codes that float32 does not keep: DequantizeLinear(codes, scales). */
static qg_status keep_codes(qg_tflite_builder *b, const qg_tflite_value *v,
                            const qg_tensor *codes, const qg_grid_record *grid,
                            qg_value **out)
{
    const char *name = source_of(b, v)->name;
    qg_value *in[2];
    qg_tensor scale;
    int64_t n = (int64_t)grid->param.n;
    qg_tflite_node node = { .op = "DequantizeLinear", .in = in, .n_in = 2 };
    qg_tensor_init(&scale, QG_F32, n == 1 ? 0 : 1, &n);
    scale.data = (void *)(uintptr_t)grid->param.scale;
    QG_TRY(add_constant(b, name, codes, &in[0]));
    QG_TRY(add_constant(b, name, &scale, &in[1]));
    if (n > 1)
        QG_TRY(qg_tflite_attr_int(b, &node, "axis", grid->scheme.axis));
    QG_TRY(qg_graph_add_prefixed(b->g, name, out));
    return qg_tflite_add(b, &node, out, 1);
}

/* The grid of a constant in a form: the axis of its channels moves. */
static const qg_grid_record *grid_in(qg_tflite_builder *b, const qg_grid_record *plain,
                                     const shape *s)
{
    qg_grid_record *r = QG_NEW(b->g->arena, qg_grid_record);
    if (!r)
        return NULL;
    *r = *plain;
    for (int32_t i = 0; i < s->rank && plain->scheme.axis >= 0; i++)
        if (s->axis[i] == plain->scheme.axis + s->ahead)
            r->scheme.axis = (int16_t)i;
    return r;
}

/* The floats of codes, as a constant with a record. */
static qg_status constant_of_codes(qg_tflite_builder *b, const qg_tflite_value *v,
                                   const shape *s, qg_tensor *codes, qg_value **out)
{
    const qg_tflite_tensor *t = source_of(b, v);
    const qg_grid_record *grid = grid_in(b, v->grid, s);
    qg_tensor y, again = *codes;
    if (!grid)
        return qg_nomem(b->ctx);
    qg_tensor_init(&y, QG_F32, codes->rank, codes->dim);
    QG_TRY(qg_tensor_alloc(b->ctx, b->g->arena, &y));
    QG_TRY(qg_tensor_alloc(b->ctx, b->g->arena, &again));
    size_t n = (size_t)qg_tensor_count(codes);
    if (n) {
        QG_TRY(qg_dequantize(b->ctx, t->name, &grid->scheme, &grid->param, codes, &y));
        QG_TRY(qg_quantize(b->ctx, t->name, &grid->scheme, &grid->param, &y, &again));
    }
    if (memcmp(again.data, codes->data, n * qg_dtype_bits(codes->dtype) / 8) != 0)
        return keep_codes(b, v, codes, grid, out);
    QG_TRY(add_constant(b, t->name, &y, out));
    return add_note(b, *out, v, grid);
}

static qg_status constant_form(qg_tflite_builder *b, const qg_tflite_value *v,
                               enum qg_tflite_layout layout, qg_arena *scratch,
                               qg_value **out)
{
    shape s = shape_in(&v->type, layout);
    qg_tensor data;
    QG_TRY(order(b, v, &s, scratch, &data));
    if (v->grid && v->codes == QG_I64)
        QG_TRY(narrow(b, v, scratch, &data));
    return v->grid ? constant_of_codes(b, v, &s, &data, out)
                   : add_constant(b, source_of(b, v)->name, &data, out);
}

static qg_status make_constant(qg_tflite_builder *b, qg_tflite_value *v,
                               enum qg_tflite_layout layout)
{
    /* The floats, their copy, and codes to compare. */
    QG_TRY(pay(b, v, (uint64_t)qg_tensor_count(&v->type) * 12 + 256));
    qg_arena *scratch = qg_arena_new(b->ctx->alloc);
    qg_status s = scratch ? constant_form(b, v, layout, scratch, &v->form[layout])
                          : qg_nomem(b->ctx);
    qg_arena_free(scratch);
    return s;
}

/* --- forms --- */

qg_status qg_tflite_silent(qg_tflite_builder *b, qg_tflite_value *v, const char *what,
                           qg_value **out)
{
    const char *name =
        qg_arena_printf(b->g->arena, "%s_%s", source_of(b, v)->name, what);
    if (!name)
        return qg_nomem(b->ctx);
    QG_TRY(qg_graph_add_prefixed(b->g, name, out));
    return add_note(b, *out, v, v->grid);
}

/* A network's output of floats has the name of the tensor in its plain form only. */
static qg_status form_value(qg_tflite_builder *b, qg_tflite_value *v,
                            enum qg_tflite_layout layout, qg_value **out)
{
    static const char *const suffix[QG_TFLITE_NLAYOUT] = { "plain", "nchw", "cnhw",
                                                           "swapped" };
    if (v->is_output && layout == QG_TFLITE_PLAIN && !v->grid)
        *out = v->named;
    else
        QG_TRY(qg_tflite_silent(b, v, v->is_output ? "float" : suffix[layout], out));
    return QG_OK;
}

qg_status qg_tflite_lead(qg_tflite_builder *b, qg_tflite_value *v,
                         enum qg_tflite_layout layout, qg_value **out)
{
    if (v->is_output) {
        QG_TRY(form_value(b, v, layout, out));
    } else {
        *out = v->named;
        QG_TRY(add_note(b, *out, v, v->grid));
    }
    v->form[layout] = *out;
    v->lead = *out;
    return QG_OK;
}

/* A form that exists and its place among the axes of another. */
static qg_status transpose(qg_tflite_builder *b, qg_tflite_value *v,
                           enum qg_tflite_layout from, enum qg_tflite_layout to)
{
    int32_t have[QG_MAX_RANK], want[QG_MAX_RANK], rank = v->type.rank;
    int64_t perm[QG_MAX_RANK];
    qg_value *y, *x = v->form[from];
    qg_tflite_node n = { .op = "Transpose", .in = &x, .n_in = 1 };
    axes_in(from, rank, have);
    axes_in(to, rank, want);
    for (int32_t i = 0; i < rank; i++)
        for (int32_t k = 0; k < rank; k++)
            if (have[k] == want[i])
                perm[i] = k;
    QG_TRY(qg_tflite_attr_ints(b, &n, "perm", (size_t)rank, perm));
    QG_TRY(form_value(b, v, to, &y));
    QG_TRY(qg_tflite_add(b, &n, &y, 1));
    v->form[to] = y;
    return QG_OK;
}

qg_status qg_tflite_form(qg_tflite_builder *b, qg_tflite_value *v,
                         enum qg_tflite_layout layout, qg_value **out)
{
    bool rank4 = layout == QG_TFLITE_NCHW || layout == QG_TFLITE_CNHW;
    if (rank4 && (v->constant ? v->type.rank > 4 : v->type.rank != 4))
        return qg_tflite_fail(b, QG_EMODEL, "tensor %u has rank %d, expected 4",
                              index_of(b, v), v->type.rank);
    if (layout == QG_TFLITE_SWAPPED && v->type.rank < 2)
        return qg_tflite_fail(b, QG_EMODEL, "tensor %u has rank %d, expected 2 or more",
                              index_of(b, v), v->type.rank);
    if (!v->form[layout] && v->constant) {
        QG_TRY(make_constant(b, v, layout));
    } else if (!v->form[layout]) {
        int from = 0;
        while (!v->form[from])
            from++;
        QG_TRY(transpose(b, v, (enum qg_tflite_layout)from, layout));
    }
    *out = v->form[layout];
    return QG_OK;
}

static qg_status check_form(qg_tflite_builder *b, const qg_tflite_value *v,
                            enum qg_tflite_layout layout)
{
    char have[QG_SHAPE_TEXT], want[QG_SHAPE_TEXT];
    const qg_value *value = v->form[layout];
    if (!v->lead || !value || !qg_value_is_in(b->g, value))
        return QG_OK;
    shape s = shape_in(&v->type, layout);
    qg_tensor expected;
    qg_tensor_init(&expected, v->type.dtype, s.rank, s.dim);
    if (qg_same_dims(&value->type, &expected) && value->type.dtype == expected.dtype)
        return QG_OK;
    return tensor_fail(b, QG_EMODEL, v, "the operator gives %s, expected %s",
                       qg_tensor_text(&value->type, have),
                       qg_tensor_text(&expected, want));
}

qg_status qg_tflite_check_forms(qg_tflite_builder *b)
{
    for (uint32_t i = 0; i < b->file->n_tensor; i++)
        for (int k = 0; k < QG_TFLITE_NLAYOUT; k++)
            QG_TRY(check_form(b, &b->value[i], (enum qg_tflite_layout)k));
    return QG_OK;
}

/* --- nodes --- */

qg_status qg_tflite_int_constant(qg_tflite_builder *b, const char *name, size_t n,
                                 const int64_t *x, qg_value **out)
{
    qg_tensor t;
    qg_tensor_init(&t, QG_I64, 1, &(int64_t){ (int64_t)n });
    t.data = (void *)(uintptr_t)x;
    return add_constant(b, name, &t, out);
}

qg_status qg_tflite_float_constant(qg_tflite_builder *b, const char *name, float x,
                                   qg_value **out)
{
    qg_tensor t;
    qg_tensor_scalar(&t, QG_F32);
    t.data = &x;
    return add_constant(b, name, &t, out);
}

/* The next attribute, whose values take `bytes`. */
static qg_status new_attr(qg_tflite_builder *b, qg_tflite_node *n, const char *name,
                          qg_attr like)
{
    assert(n->n_attr < QG_TFLITE_ATTRS);
    like.name = qg_intern(b->ctx, name);
    if (!like.name || !like.ints)
        return qg_nomem(b->ctx);
    n->attr[n->n_attr++] = like;
    return QG_OK;
}

static void *copy(qg_tflite_builder *b, const void *x, size_t bytes)
{
    void *to = qg_arena_get(b->g->arena, bytes ? bytes : 1, 1);
    return to ? memcpy(to, x, bytes) : NULL;
}

qg_status qg_tflite_attr_ints(qg_tflite_builder *b, qg_tflite_node *n, const char *name,
                              size_t count, const int64_t *x)
{
    return new_attr(b, n, name,
                    (qg_attr){ .type = QG_ATTR_INTS,
                               .count = count,
                               .ints = copy(b, x, count * sizeof *x) });
}

qg_status qg_tflite_attr_int(qg_tflite_builder *b, qg_tflite_node *n, const char *name,
                             int64_t x)
{
    return new_attr(
        b, n, name,
        (qg_attr){ .type = QG_ATTR_INT, .count = 1, .ints = copy(b, &x, sizeof x) });
}

qg_status qg_tflite_attr_float(qg_tflite_builder *b, qg_tflite_node *n,
                               const char *name, float x)
{
    return new_attr(b, n, name,
                    (qg_attr){ .type = QG_ATTR_FLOAT,
                               .count = 1,
                               .floats = copy(b, &x, sizeof x) });
}

qg_status qg_tflite_attr_text(qg_tflite_builder *b, qg_tflite_node *n, const char *name,
                              const char *x)
{
    return new_attr(b, n, name,
                    (qg_attr){ .type = QG_ATTR_STRING,
                               .count = 1,
                               .strings = copy(b, &x, sizeof x) });
}

qg_status qg_tflite_add(qg_tflite_builder *b, const qg_tflite_node *n,
                        qg_value *const *out, uint32_t n_out)
{
    qg_node *made;
    const qg_op *op = qg_op_find(b->ctx->registry, NULL, n->op, QG_TFLITE_OPSET);
    const qg_attr *attr = copy(b, n->attr, n->n_attr * sizeof n->attr[0]);
    if (!attr)
        return qg_nomem(b->ctx);
    if (!op)
        return qg_tflite_fail(b, QG_EUNSUPPORTED, "there is no operator %s", n->op);
    return qg_graph_add_node(b->g,
                             &(qg_node_spec){ .op = op,
                                              .opset = QG_TFLITE_OPSET,
                                              .in = n->in,
                                              .n_in = n->n_in,
                                              .out = out,
                                              .n_out = n_out,
                                              .attr = attr,
                                              .n_attr = n->n_attr },
                             &made);
}

qg_status qg_tflite_reshape(qg_tflite_builder *b, qg_value *x, const qg_tensor *like,
                            qg_value *out)
{
    qg_value *in[2] = { x };
    qg_tflite_node n = { .op = "Reshape", .in = in, .n_in = 2 };
    QG_TRY(qg_tflite_int_constant(b, "shape", (size_t)like->rank, like->dim, &in[1]));
    QG_TRY(qg_tflite_attr_int(b, &n, "allowzero", 1));
    return qg_tflite_add(b, &n, &out, 1);
}

/* util_lower.c -- from a float operator on rounded data to a kernel on codes.
 *
 * Each function checks how its inputs are stored, looks up the row of the profile that
 * specifies the arithmetic of the backend, and emits a kernel with this row.  A missing
 * row or an unsuitable grid is a refusal: the node stays in float, with the reason in
 * the report.
 *
 * A function of one 8-bit tensor is a table of 256 codes, computed here once:
 * table[code - lowest code of the type] = code of the result. */
#include "ops/util_lower.h"

#include <assert.h>
#include <string.h>

#include "engine/number/integer_rescale.h"
#include "ops/util_axis.h"
#include "ops/util_integer.h"

bool qg_lower_wants_codes(qg_lower *l, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        const qg_stored *s = &l->in[k].stored;
        if (l->in[k].value && s->codes && s->n == 1)
            continue;
        (void)qg_lower_refuse(l, "in%u is %s, expected codes on one grid", (unsigned)k,
                              !l->in[k].value ? "absent"
                              : s->codes      ? "stored with a scale per channel"
                                              : "not stored as codes");
        return false;
    }
    return true;
}

bool qg_lower_wants_same(qg_lower *l, uint32_t slot)
{
    char a[QG_STORED_TEXT], b[QG_STORED_TEXT];
    if (qg_stored_same(&l->in[slot].stored, &l->out[0]))
        return true;
    (void)qg_lower_refuse(l, "in%u is stored as %s and out0 as %s, expected one grid",
                          (unsigned)slot, qg_stored_text(&l->in[slot].stored, a),
                          qg_stored_text(&l->out[0], b));
    return false;
}

/* -- attributes ------------------------------------------------------------------- */

/* The list without `name`, then the new one. */
static qg_status set_attr(qg_lower *l, qg_attr a)
{
    qg_attr *all = QG_NEWN(l->to->arena, l->n_attr + 1, qg_attr);
    size_t n = 0;
    a.name = qg_intern(l->ctx, a.name);
    if (!all || !a.name || !a.ints)
        return qg_nomem(l->ctx);
    for (size_t i = 0; i < l->n_attr; i++)
        if (strcmp(l->attr[i].name, a.name) != 0)
            all[n++] = l->attr[i];
    all[n++] = a;
    l->attr = all;
    l->n_attr = n;
    return QG_OK;
}

qg_status qg_lower_set_ints(qg_lower *l, const char *name, qg_attr_type t,
                            const int64_t *value, size_t n)
{
    int64_t *kept = QG_NEWN(l->to->arena, n, int64_t);
    if (kept && n)
        memcpy(kept, value, n * sizeof *value);
    return set_attr(l, (qg_attr){ .name = name, .type = t, .count = n, .ints = kept });
}

qg_status qg_lower_set_int(qg_lower *l, const char *name, int64_t value)
{
    return qg_lower_set_ints(l, name, QG_ATTR_INT, &value, 1);
}

qg_status qg_lower_set_text(qg_lower *l, const char *name, const char *value)
{
    const char **kept = QG_NEW(l->to->arena, const char *);
    if (kept)
        *kept = value;
    return set_attr(
        l,
        (qg_attr){ .name = name, .type = QG_ATTR_STRING, .count = 1, .strings = kept });
}

/* -- kernels ---------------------------------------------------------------------- */

/* Emits `op` with the inputs of the node. */
static qg_status emit(qg_lower *l, const char *op, const qg_profile_row *row)
{
    uint32_t n = l->node->n_in;
    qg_value **in = QG_NEWN(l->to->arena, n, qg_value *);
    if (!in)
        return qg_nomem(l->ctx);
    for (uint32_t k = 0; k < n; k++)
        in[k] = l->in[k].value;
    return qg_lower_emit(l, op, row, in, n);
}

qg_status qg_lower_all(qg_lower *l, const char *op, qg_kernel_use use, uint32_t n_codes)
{
    if (!qg_lower_wants_codes(l, n_codes))
        return QG_OK;
    const qg_profile_row *row = qg_lower_row(l, use);
    return row ? emit(l, op, row) : QG_OK;
}

/* The scales of the weight again and again, one for each of n channels. */
static qg_status spread(qg_lower *l, uint32_t n, int32_t axis)
{
    qg_arena *arena = l->to->arena;
    qg_lower_in *in = QG_NEWN(arena, l->node->n_in, qg_lower_in);
    float *scale = QG_NEWN(arena, n, float);
    int32_t *zero = QG_NEWN(arena, n, int32_t);
    if (!in || !scale || !zero)
        return qg_nomem(l->ctx);
    for (uint32_t i = 0; i < l->node->n_in; i++)
        in[i] = l->in[i];
    qg_stored *w = &in[1].stored;
    for (uint32_t c = 0; c < n; c++) {
        scale[c] = w->scale[c % w->n];
        zero[c] = w->zero[c % w->n];
    }
    w->n = n;
    w->scale = scale;
    w->zero = zero;
    w->axis = axis;
    l->in = in;
    return QG_OK;
}

qg_status qg_lower_product(qg_lower *l, const char *op, qg_kernel_use use, int32_t axis,
                           uint32_t groups)
{
    const qg_stored *w = &l->in[1].stored;
    const qg_tensor *bias =
        l->node->n_in > 2 && l->node->in[2] ? &l->node->in[2]->type : NULL;
    if (!qg_lower_wants_codes(l, 1))
        return QG_OK;
    if (!w->codes)
        return qg_lower_refuse(l, "in1 is not stored as codes, expected codes");
    if (w->n > 1 && w->axis != axis)
        return qg_lower_refuse(
            l, "in1 has a scale per channel of axis %d, expected axis %d", (int)w->axis,
            (int)axis);
    if (bias && bias->rank != 1)
        return qg_lower_refuse(l, "in2 has rank %d, expected a vector",
                               (int)bias->rank);
    const qg_profile_row *row = qg_lower_row(l, use);
    if (row && w->n > 1 && groups > 1)
        QG_TRY(spread(l, w->n * groups, axis));
    if (row && row->form == QG_FORM_VECTOR8 && w->n == 1) /* not treated alike */
        QG_TRY(spread(l, (uint32_t)l->node->in[1]->type.dim[0], 0));
    return row ? emit(l, op, row) : QG_OK;
}

qg_status qg_lower_binary(qg_lower *l, qg_kernel_use use)
{
    if (l->node->op->since < 7)
        return qg_lower_refuse(l, "opset %d, expected 7 or later",
                               (int)l->node->op->since);
    const qg_stored *a = &l->in[0].stored, *b = &l->in[1].stored, *y = &l->out[0];
    if (a->codes && b->codes && y->codes &&
        (a->dtype != y->dtype || b->dtype != y->dtype))
        return qg_lower_refuse(l, "types %s, %s to %s, expected one type for all",
                               qg_dtype_name(a->dtype), qg_dtype_name(b->dtype),
                               qg_dtype_name(y->dtype));
    QG_TRY(qg_lower_set_text(l, "function", qg_kernel_use_name(use)));
    return qg_lower_all(l, "IntBinary", use, 2);
}

qg_status qg_lower_on_codes(qg_lower *l, qg_kernel_use use)
{
    const qg_profile_row *row = qg_lower_row(l, use);
    return row ? qg_lower_same(l, row) : QG_OK;
}

qg_status qg_lower_move(qg_lower *l) { return qg_lower_on_codes(l, QG_USE_MOVE); }

qg_tensor *qg_lower_tensor(qg_lower *l, qg_dtype d, int32_t rank, const int64_t *dim)
{
    qg_tensor *t = QG_NEW(l->to->arena, qg_tensor);
    if (!t)
        return NULL;
    qg_tensor_init(t, d, rank, dim);
    return qg_tensor_alloc(l->ctx, l->to->arena, t) == QG_OK ? t : NULL;
}

/* -- tables ----------------------------------------------------------------------- */

/* The table as a constant of the output's type, and the kernel. */
static qg_status emit_table(qg_lower *l, const qg_profile_row *row,
                            const int32_t table[256])
{
    qg_tensor *t = qg_lower_tensor(l, l->out[0].dtype, 1, (int64_t[]){ 256 });
    qg_value *in[2] = { l->in[0].value, NULL };
    const char *name = qg_arena_printf(l->to->arena, "%s_table", l->node->name);
    if (!t || !name)
        return qg_nomem(l->ctx);
    qg_codes_store(t->dtype, table, t->data, 0, 256);
    QG_TRY(qg_lower_constant(l, name, t, &in[1]));
    return qg_lower_emit(l, "IntTable", row, in, 2);
}

/* One 8-bit tensor to codes; else refuses. */
static bool fits_table(qg_lower *l)
{
    if (!qg_lower_wants_codes(l, 1))
        return false;
    if (l->out[0].codes && qg_dtype_bits(l->in[0].stored.dtype) == 8)
        return true;
    (void)qg_lower_refuse(l, "in0 is %s, expected codes of 8 bits to codes",
                          qg_dtype_name(l->in[0].stored.dtype));
    return false;
}

/* A status of the formula, as a refusal with its message. */
static qg_status refused(qg_lower *l, qg_status s)
{
    return s == QG_OK || qg_is_nomem(s) ? s : qg_lower_refuse(l, "%s", l->ctx->message);
}

qg_status qg_lower_function(qg_lower *l, qg_kernel_use use, qg_int_unary_function f,
                            float alpha)
{
    int32_t table[256];
    if (!fits_table(l))
        return QG_OK;
    const qg_profile_row *row = qg_lower_row(l, use);
    if (!row)
        return QG_OK;
    qg_int_unary_spec spec = { f, row, qg_integer_grid(&l->in[0].stored),
                               qg_integer_grid(&l->out[0]), alpha };
    qg_status s = qg_int_unary_table(l->ctx, &spec, table);
    return s == QG_OK ? emit_table(l, row, table) : refused(l, s);
}

/* y = the operator of the 256 dequantized codes of x. */
static qg_status evaluate(qg_lower *l, float x[256], float y[256])
{
    const qg_stored *s = &l->in[0].stored;
    int32_t lowest = qg_code_range_of(s->dtype, 0).lo;
    qg_tensor in, out;
    const qg_tensor *ins[1] = { &in };
    qg_tensor *outs[1] = { &out };
    for (int i = 0; i < 256; i++)
        x[i] = s->scale[0] * (float)(lowest + i - s->zero[0]);
    qg_tensor_init(&in, QG_F32, 1, (int64_t[]){ 256 });
    out = in;
    in.f32 = x;
    out.f32 = y;
    qg_call k = { .ctx = l->ctx,
                  .node = l->node,
                  .param = l->node->param,
                  .n_in = 1,
                  .n_out = 1,
                  .in = ins,
                  .out = outs,
                  .scratch = l->to->arena };
    return l->node->op->run(&k);
}

qg_status qg_lower_table(qg_lower *l)
{
    float x[256], y[256];
    int32_t table[256];
    qg_affine_quantizer q;
    if (!fits_table(l))
        return QG_OK;
    const qg_profile_row *row = qg_lower_row(l, QG_USE_TABLE);
    if (!row)
        return QG_OK;
    if (row->form != QG_FORM_FLOAT_TABLE)
        return qg_lower_refuse(l,
                               "row %s has no form for this function, expected "
                               "float-table",
                               row->id);
    QG_TRY(evaluate(l, x, y));
    qg_profile_row divide = *row;
    divide.form = QG_FORM_DIVIDE;
    const qg_stored *out = &l->out[0];
    qg_code_range range = { out->zero[0], out->low, out->high };
    qg_status s =
        qg_affine_quantizer_prepare(l->ctx, &divide, qg_integer_grid(out), range, &q);
    if (s != QG_OK)
        return refused(l, s);
    qg_affine_quantizer_codes(&q, y, table, 256);
    return emit_table(l, row, table);
}

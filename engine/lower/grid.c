#include <math.h>

#include "engine/lower/lowering.h"

/* Offsets that a quirk leaves outside of the grid. */
static bool has_foreign_offset(const qg_scheme *s, const qg_qparam *p)
{
    for (size_t i = 0; p->offset && i < p->n; i++)
        if (p->offset[i] < s->qmin || p->offset[i] > s->qmax)
            return true;
    return false;
}

/* The narrowest type that holds the codes, of the sign of the lowest one first. */
static qg_dtype type_of(const qg_scheme *s, uint64_t types)
{
    static const struct {
        qg_dtype type;
        int64_t low, high;
    } known[] = {
        {QG_U8,   0,         UINT8_MAX },
        { QG_I8,  INT8_MIN,  INT8_MAX  },
        { QG_U16, 0,         UINT16_MAX},
        { QG_I16, INT16_MIN, INT16_MAX }
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if ((types >> known[i].type & 1) && s->qmin >= known[i].low &&
            s->qmax <= known[i].high)
            return known[i].type;
    return QG_NODTYPE;
}

/* Why no codes of a profile can hold the values; NULL: they might. */
static const char *objection(const qg_tqc *t, const qg_qparam *p)
{
    if (t->quantizer)
        return "a function of the host quantizes it";
    if (t->scheme.policy & QG_FLOATING)
        return "its scheme is floating";
    if (t->scheme.policy & QG_DYNAMIC)
        return "its scheme is dynamic";
    if (t->scheme.policy & QG_BLOCK)
        return "its scheme has blocks";
    if (has_foreign_offset(&t->scheme, p))
        return "its offset is no code";
    return p->n == 0 ? "it has no scale" : NULL;
}

static const char *types_text(qg_arena *a, uint64_t types)
{
    const char *text = "";
    for (int d = 0; text && d < QG_NDTYPE; d++)
        if (types >> d & 1)
            text = qg_arena_printf(a, "%s%s%s", text, *text ? ", " : "",
                                   qg_dtype_name((qg_dtype)d));
    return text;
}

qg_status qg_lower_grid(qg_lowering *w, const qg_tqc *t, uint64_t types, qg_stored *out,
                        const char **why)
{
    qg_qparam p = qg_tqc_param(t);
    *why = objection(t, &p);
    if (*why)
        return QG_OK;
    qg_dtype type = type_of(&t->scheme, types);
    if (type == QG_NODTYPE) {
        const char *text = types_text(w->arena, types);
        *why = text ? qg_arena_printf(
                          w->arena, "its codes are %lld to %lld, and profile %s has %s",
                          (long long)t->scheme.qmin, (long long)t->scheme.qmax,
                          w->profile->name, text)
                    : NULL;
        return *why ? QG_OK : qg_nomem(w->ctx);
    }
    const int32_t *zero = p.offset ? p.offset : QG_NEWN(w->arena, p.n, int32_t);
    *out = (qg_stored){ .codes = true,
                        .dtype = type,
                        .n = (uint32_t)p.n,
                        .scale = p.scale,
                        .zero = zero,
                        .axis = p.n > 1 ? t->scheme.axis : 0,
                        .low = (int32_t)t->scheme.qmin,
                        .high = (int32_t)t->scheme.qmax };
    return zero ? QG_OK : qg_nomem(w->ctx);
}

/* The grid of an activation, which must have one. */
static qg_status activation_grid(qg_lowering *w, const qg_tqc *at, const qg_tqc *t,
                                 qg_stored *out)
{
    const char *why;
    char name[QG_ENDPOINT_TEXT];
    QG_TRY(qg_lower_grid(w, t, w->profile->activation, out, &why));
    if (!why && out->n > 1)
        why = "it has one scale per channel";
    return why ? qg_fail(w->ctx, QG_EUNSUPPORTED,
                         "lower: %s: %s, expected codes of profile %s",
                         qg_tqc_text(at, name), why, w->profile->name)
               : QG_OK;
}

qg_status qg_lower_slot_grid(qg_lowering *w, const qg_node *n, uint32_t slot,
                             qg_stored *out)
{
    enum qg_linear_kind kind;
    const qg_tqc *t = qg_input_tqc(n, slot);
    *out = (qg_stored){ 0 };
    if (t && qg_tqc_rounds(t))
        return activation_grid(w, t, t, out);
    if (slot > 0)
        return QG_OK;
    QG_TRY(qg_lower_linear(w, n, out, &kind));
    if (kind != QG_LINEAR_QUANTIZE)
        *out = (qg_stored){ 0 };
    return QG_OK;
}

qg_status qg_lower_output_grid(qg_lowering *w, const qg_tqc *at, qg_stored *out)
{
    return activation_grid(
        w, at, qg_tqc_root(at) == at || qg_tqc_rounds(at) ? at : qg_tqc_root(at), out);
}

/* --- operators of files --- */

static bool holds_codes(qg_dtype d, bool sums)
{
    return d == QG_I8 || d == QG_U8 || d == QG_I16 || d == QG_U16 ||
           (sums && d == QG_I32);
}

/* One scale, or one per channel of a constant. */
static qg_status linear_grid(qg_lowering *w, const qg_node *n, const qg_tensor *codes,
                             qg_stored *out)
{
    const qg_tensor *scale = n->in[1]->constant;
    const qg_tensor *zero = n->n_in > 2 && n->in[2] ? n->in[2]->constant : NULL;
    int64_t count = qg_tensor_count(scale), axis;
    int32_t *points = QG_NEWN(w->arena, (size_t)count, int32_t);
    if (!points)
        return qg_nomem(w->ctx);
    QG_TRY(qg_attr_int(w->ctx, n, "axis", 1, &axis));
    for (int64_t i = 0; zero && i < count; i++)
        points[i] = (int32_t)qg_tensor_i64(zero, qg_tensor_count(zero) > 1 ? i : 0);
    bool is_signed = qg_dtype_kind_of(codes->dtype) == QG_KIND_INT;
    unsigned bits = qg_dtype_bits(codes->dtype);
    int64_t span = INT64_C(1) << bits, low = is_signed ? -span / 2 : 0;
    *out = (qg_stored){ .codes = true,
                        .dtype = codes->dtype,
                        .n = (uint32_t)count,
                        .scale = scale->f32,
                        .zero = points,
                        .axis = (int32_t)(axis < 0 ? axis + codes->rank : axis),
                        .low = (int32_t)low,
                        .high = (int32_t)(low + span - 1) };
    return QG_OK;
}

static bool has_linear_form(const qg_node *n)
{
    if (!qg_node_has(n, QG_OP_QUANTIZER) || n->op->domain || n->n_in < 2 ||
        n->n_out != 1 || !n->in[0] || !n->in[1] || !n->out[0])
        return false;
    const qg_tensor *scale = n->in[1]->constant;
    const qg_value *zero = n->n_in > 2 ? n->in[2] : NULL;
    if (!scale || scale->dtype != QG_F32 || qg_tensor_count(scale) < 1 ||
        (zero && !zero->constant))
        return false;
    for (int64_t i = 0; i < qg_tensor_count(scale); i++)
        if (!isfinite(scale->f32[i]) || !(scale->f32[i] > 0))
            return false;
    if (zero && !holds_codes(zero->constant->dtype, true))
        return false;
    int64_t zeros = zero ? qg_tensor_count(zero->constant) : 1;
    return zeros == 1 || zeros == qg_tensor_count(scale);
}

qg_status qg_lower_linear(qg_lowering *w, const qg_node *n, qg_stored *out,
                          enum qg_linear_kind *kind)
{
    *kind = QG_LINEAR_NONE;
    if (!has_linear_form(n))
        return QG_OK;
    const qg_tensor *from = &n->in[0]->type, *to = &n->out[0]->type;
    int64_t scales = qg_tensor_count(n->in[1]->constant);
    if (to->dtype == QG_F32 && holds_codes(from->dtype, n->in[0]->constant != NULL) &&
        (scales == 1 || n->in[0]->constant))
        *kind = QG_LINEAR_DEQUANTIZE;
    else if (from->dtype == QG_F32 && holds_codes(to->dtype, false) && scales == 1)
        *kind = QG_LINEAR_QUANTIZE;
    else
        return QG_OK;
    return linear_grid(w, n, *kind == QG_LINEAR_QUANTIZE ? to : from, out);
}

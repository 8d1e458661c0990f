/* slot.c -- inputs of an integer kernel: activations as codes, constants as integers, a
 * bias in steps of input x weight. */
#include <math.h>

#include "engine/ir/edit.h"
#include "engine/ir/tensor_memory.h"
#include "engine/lower/lowering.h"
#include "engine/number/fixed.h"
#include "engine/quant/quantizer.h"

static qg_status new_tensor(qg_lowering *w, const qg_tensor *like, qg_dtype type,
                            qg_tensor **out)
{
    qg_tensor *t = QG_NEW(w->arena, qg_tensor);
    if (!t)
        return qg_nomem(w->ctx);
    qg_tensor_init(t, type, like->rank, like->dim);
    QG_TRY(qg_tensor_alloc(w->ctx, w->arena, t));
    *out = t;
    return QG_OK;
}

/* Codes of a constant by its record. */
static qg_status constant_codes(qg_lowering *w, const qg_tqc *t, const qg_value *v,
                                uint64_t types, qg_lower_in *in, const char **why)
{
    qg_tensor *codes;
    QG_TRY(qg_lower_grid(w, t, types, &in->stored, why));
    if (*why)
        return QG_OK;
    qg_qparam p = { in->stored.n, in->stored.scale, in->stored.zero };
    QG_TRY(new_tensor(w, v->constant, in->stored.dtype, &codes));
    QG_TRY(qg_quantize(w->ctx, t->name, &t->scheme, &p, v->constant, codes));
    return qg_lower_add_constant(w, v, codes, &in->value);
}

/* A limit or padding value on the grid of the input, which lends it. */
static qg_status bound(qg_lowering *w, const qg_value *v, const qg_stored *grid,
                       qg_lower_in *in)
{
    qg_tensor *codes;
    QG_TRY(new_tensor(w, v->constant, grid->dtype, &codes));
    for (int64_t i = 0; i < qg_tensor_count(codes); i++) {
        double q = grid->zero[0] +
                   round(qg_tensor_f64(v->constant, i) / (double)grid->scale[0]);
        int32_t code = q >= grid->high  ? grid->high
                       : q >= grid->low ? (int32_t)q
                                        : grid->low;
        switch (grid->dtype) {
        case QG_I8:
            codes->i8[i] = (int8_t)code;
            break;
        case QG_U8:
            codes->u8[i] = (uint8_t)code;
            break;
        case QG_I16:
            codes->i16[i] = (int16_t)code;
            break;
        default:
            codes->u16[i] = (uint16_t)code;
            break;
        }
    }
    in->stored = *grid;
    return qg_lower_add_constant(w, v, codes, &in->value);
}

/* --- bias --- */

/* The step of each bias: f32(s_x s_w[c]). */
static qg_status product_steps(qg_lowering *w, const qg_stored *x, const qg_stored *k,
                               qg_stored *out)
{
    float *scale = QG_NEWN(w->arena, k->n, float);
    int32_t *zero = QG_NEWN(w->arena, k->n, int32_t);
    if (!scale || !zero)
        return qg_nomem(w->ctx);
    for (uint32_t c = 0; c < k->n; c++)
        scale[c] = x->scale[0] * k->scale[c];
    *out = (qg_stored){ .codes = true,
                        .dtype = QG_I32,
                        .n = k->n,
                        .scale = scale,
                        .zero = zero,
                        .low = INT32_MIN,
                        .high = INT32_MAX };
    return QG_OK;
}

/* The step of bias c by its own record; that of the products where it has none. */
static float own_step(const qg_tqc *t, const qg_stored *product, int64_t c)
{
    qg_qparam p = qg_tqc_is_on_grid(t) ? qg_tqc_param(t) : (qg_qparam){ 0 };
    return p.n > 0 ? p.scale[p.n > 1 ? c % (int64_t)p.n : 0]
                   : product->scale[c % product->n];
}

/* Steps that are one but for their last bits, as other tools round the product. */
static bool is_product(float own, float step)
{
    return fabsf(own - step) < 0x1p-16f * step;
}

int32_t qg_lower_bias_code(const qg_tqc *t, float bias, float step)
{
    double q = step > 0 ? round((double)bias / (double)step) : 0;
    bool limited = qg_tqc_is_on_grid(t);
    double low = limited ? t->scheme.qmin : INT32_MIN;
    double high = limited ? t->scheme.qmax : INT32_MAX;
    return (int32_t)fmin(fmax(q, low), high);
}

/* Bias c, and as its record rounds it: a record in steps of the products gives the
 * code within its limits, any other one a value that is rounded again. */
static int32_t code_of(const qg_tqc *t, const qg_stored *product, int64_t c, float bias,
                       float rounded)
{
    const float step = product->scale[c % product->n], own = own_step(t, product, c);
    return is_product(own, step) ? qg_lower_bias_code(t, bias, own)
                                 : qg_lower_bias_code(NULL, rounded, step);
}

/* in->stored: the steps. */
static qg_status int_bias(qg_lowering *w, const qg_value *v, const qg_tqc *t,
                          qg_lower_in *in)
{
    const qg_tensor *b = v->constant;
    qg_tensor *codes, *rounded;
    QG_TRY(new_tensor(w, b, QG_I32, &codes));
    QG_TRY(qg_tensor_clone(w->ctx, w->arena, b, &rounded));
    if (qg_tqc_is_on_grid(t))
        QG_TRY(qg_tqc_round(w->ctx, t, b, rounded));
    for (int64_t i = 0; i < qg_tensor_count(b); i++)
        codes->i32[i] = code_of(t, &in->stored, i, b->f32[i], rounded->f32[i]);
    return qg_lower_add_constant(w, v, codes, &in->value);
}

/* Whether the last axis counts the channels of the weight; the groups of a transposed
 * convolution have the same n scales. */
static bool counts_channels(const qg_tensor *b, uint32_t n)
{
    return n == 1 || (b->rank > 0 && b->dim[b->rank - 1] % (int64_t)n == 0);
}

/* A bias that stays float in the simulation has an int32 code for every element; one in
 * int32 codes has the limits of its record. */
static bool has_codes(const qg_tqc *t, const qg_tensor *b, const qg_stored *product)
{
    bool all = true;
    for (int64_t i = 0; !qg_tqc_is_on_grid(t) && all && i < qg_tensor_count(b); i++) {
        double code = (double)b->f32[i] / (double)product->scale[i % product->n];
        all = b->f32[i] == 0 || fabs(code) < 0x1p31;
    }
    return all;
}

/* in: the inputs from slot 0 on. */
static qg_status bias(qg_lowering *w, const qg_node *n, uint32_t slot, qg_lower_in *in,
                      const char **why)
{
    const qg_value *v = n->in[slot];
    int x = qg_op_slot_of(n->op, 'd'), k = qg_op_slot_of(n->op, 'w');
    bool products = x >= 0 && k >= 0 && (uint32_t)x < slot && (uint32_t)k < slot &&
                    in[x].stored.codes && in[k].stored.codes;
    in[slot].constant = v->constant;
    if (w->stored[v->id].codes && w->stored[v->id].dtype == QG_I32) {
        in[slot].stored = w->stored[v->id];
        return qg_lower_as_stored(w, v, &in[slot].value);
    }
    if (!products)
        *why = "its weight or input is float";
    else if (!v->constant)
        *why = "its bias is computed";
    else if (w->profile->bias == QG_F32)
        return qg_lower_float_input(w, n, slot, &in[slot].value);
    else if (!counts_channels(v->constant, in[k].stored.n))
        *why = "its bias does not count the channels of the weight";
    else {
        const qg_tqc *t = qg_input_tqc(n, slot);
        QG_TRY(product_steps(w, &in[x].stored, &in[k].stored, &in[slot].stored));
        if (has_codes(t, v->constant, &in[slot].stored))
            return int_bias(w, v, t, &in[slot]);
        *why = "its float bias has no int32 code";
    }
    return QG_OK;
}

/* --- all --- */

static qg_status constant_input(qg_lowering *w, const qg_node *n, uint32_t slot,
                                qg_lower_in *in, const char **why)
{
    const qg_value *v = n->in[slot];
    char role = qg_op_in_role(n->op, slot);
    const qg_tqc *t = qg_input_tqc(n, slot);
    in[slot].constant = v->constant;
    if (v->constant->dtype != QG_F32 || role == 's' || role == 'f')
        return qg_lower_as_floats(w, v, &in[slot].value);
    if (role == 'p')
        return in[0].stored.codes ? bound(w, v, &in[0].stored, &in[slot])
                                  : qg_lower_as_floats(w, v, &in[slot].value);
    if (!qg_tqc_is_on_grid(t)) {
        *why = qg_arena_printf(w->arena, "constant in%u is float", (unsigned)slot);
        return *why ? QG_OK : qg_nomem(w->ctx);
    }
    uint64_t types = role == 'w' ? w->profile->weight : w->profile->activation;
    return constant_codes(w, t, v, types, &in[slot], why);
}

static qg_status activation(qg_lowering *w, const qg_node *n, uint32_t slot,
                            qg_lower_in *in, const char **why)
{
    const qg_value *v = n->in[slot];
    qg_stored grid;
    QG_TRY(qg_lower_slot_grid(w, n, slot, &grid));
    if (!grid.codes)
        grid = w->stored[v->id];
    if (!grid.codes) {
        *why = qg_arena_printf(w->arena, "in%u is float", (unsigned)slot);
        return *why ? QG_OK : qg_nomem(w->ctx);
    }
    in->stored = grid;
    return qg_lower_as_codes(w, v, &grid, &in->value);
}

qg_status qg_lower_input(qg_lowering *w, const qg_node *n, uint32_t slot,
                         qg_lower_in *in, const char **why)
{
    const qg_value *v = n->in[slot];
    char role = qg_op_in_role(n->op, slot);
    in[slot] = (qg_lower_in){ 0 };
    *why = NULL;
    if (!v)
        return QG_OK;
    if (role == 'b' && v->type.dtype == QG_F32)
        return bias(w, n, slot, in, why);
    if (v->constant)
        return constant_input(w, n, slot, in, why);
    if (v->type.dtype != QG_F32 || role == 's' || role == 'f')
        return qg_lower_as_floats(w, v, &in[slot].value);
    return activation(w, n, slot, &in[slot], why);
}

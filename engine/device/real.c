/* real.c -- the value of a step in real numbers: what its codes stand for before they
 * are rounded. */
#include <math.h>

#include "engine/device/step.h"
#include "engine/number/round.h"

#include "engine/ir/endpoint.h"
#include "engine/quant/endpoint.h"
#include "engine/quant/quantizer.h"
#include "engine/quant/tqc.h"

/* The constants of one cut, for qg_cut.constant. */
typedef struct rounded {
    const qg_device *d;
    qg_dtype real;
} rounded;

/* Scales of input and weight of a product whose bias is int32; false: it has none.
 * c: the element of the bias, which is the channel of the weight's scale.  s_x is
 * the record of the input, else the grid on which the program stores it. */
static bool bias_scales(const rounded *r, const qg_node *n, int64_t c, float *s_x,
                        float *s_w)
{
    int x = qg_op_slot_of(n->op, 'd'), w = qg_op_slot_of(n->op, 'w');
    const qg_tqc *tw = w >= 0 ? qg_input_tqc(n, (uint32_t)w) : NULL;
    const qg_value *v = x >= 0 ? n->in[x] : NULL;
    if (r->d->exe.program->profile->bias != QG_I32 || !qg_tqc_is_on_grid(tw) || !v)
        return false;
    const qg_tqc *tx = qg_input_tqc(n, (uint32_t)x);
    const qg_stored *g = &r->d->exe.program->stored[v->id];
    qg_qparam p = qg_tqc_param(tw);
    bool own = tx && qg_tqc_rounds(tx) && qg_tqc_param(tx).n;
    if ((!own && !g->codes) || !p.n)
        return false;
    *s_x = own ? qg_tqc_param(tx).scale[0] : g->scale[0];
    *s_w = p.scale[(size_t)c % p.n];
    return true;
}

/* f32(s_x s_w), as the program computes it: it decides the code.  0: no int32 bias. */
static float bias_step(const rounded *r, const qg_node *n, int64_t c)
{
    float s_x, s_w;
    return bias_scales(r, n, c, &s_x, &s_w) ? s_x * s_w : 0;
}

/* s_x s_w without rounding: what one step of the accumulator stands for.  0: as
 * above. */
static double exact_step(const rounded *r, const qg_node *n, int64_t c)
{
    float s_x, s_w;
    return bias_scales(r, n, c, &s_x, &s_w) ? (double)s_x * (double)s_w : 0;
}

/* Multiples of exact steps: float32 products of code and scale are off by parts of the
 * last place, which would hide ties. */
static void sharpen_bias(const rounded *r, const qg_node *n, const qg_tensor *from,
                         double *out)
{
    for (int64_t i = 0; i < qg_tensor_count(from); i++) {
        float step = bias_step(r, n, i);
        if (step > 0)
            out[i] = qg_lower_bias_code(NULL, from->f32[i], step) * exact_step(r, n, i);
    }
}

/* x: rounded values, near multiples of the scale of their channel; they become the
 * nearest multiples in float64.  Offsets need no care: (code - zero) scale is a
 * multiple, too.  Blocks and schemes that are not linear are left as they are. */
static void sharpen(const qg_tqc *t, const qg_tensor *from, double *x)
{
    qg_qparam p = qg_tqc_param(t);
    int32_t axis = t->scheme.axis;
    bool channels = p.n > 1;
    if (!(t->scheme.policy & QG_LINEAR) || (t->scheme.policy & QG_BLOCK) || !p.n ||
        (channels &&
         (axis < 0 || axis >= from->rank || from->dim[axis] != (int64_t)p.n)))
        return;
    int64_t inner = channels ? qg_dims_product(from, axis + 1, from->rank) : 1;
    for (int64_t i = 0; i < qg_tensor_count(from); i++) {
        double scale = (double)p.scale[channels ? (size_t)(i / inner) % p.n : 0];
        x[i] = qg_round_f64(QG_ROUND_HALF_EVEN, x[i] / scale) * scale;
    }
}

/* The constant on the grid of its record, or in steps of the product (bias); other
 * floats are widened.  In float64, or in float32 for operators that have no other
 * kernel; then ties are exact only as far as float32 holds the products.  Integers
 * are borrowed. */
static qg_status constant(void *ud, qg_graph *g, const qg_node *n, uint32_t slot,
                          const qg_tensor **out)
{
    const rounded *r = ud;
    const qg_tensor *from = n->in[slot]->constant;
    const qg_tqc *t = qg_input_tqc(n, slot);
    qg_tensor *f32 = QG_NEW(g->arena, qg_tensor), *f64 = QG_NEW(g->arena, qg_tensor);
    *out = from;
    if (from->dtype != QG_F32)
        return QG_OK;
    if (!f32 || !f64)
        return qg_nomem(g->ctx);
    *f32 = *f64 = *from;
    f32->data = f64->data = NULL;
    f64->dtype = QG_F64;
    QG_TRY(qg_tensor_alloc(g->ctx, g->arena, f32));
    QG_TRY(qg_tensor_alloc(g->ctx, g->arena, f64));
    qg_tensor_copy(from, f32);
    if (qg_tqc_is_on_grid(t))
        QG_TRY(qg_tqc_round(g->ctx, t, from, f32));
    for (int64_t i = 0; i < qg_tensor_count(f32); i++)
        f64->f64[i] = (double)f32->f32[i];
    if (qg_tqc_is_on_grid(t))
        sharpen(t, from, f64->f64);
    else if (qg_op_in_role(n->op, slot) == 'b')
        sharpen_bias(r, n, from, f64->f64);
    *out = f64;
    if (r->real == QG_F64)
        return QG_OK;
    for (int64_t i = 0; i < qg_tensor_count(f32); i++)
        f32->f32[i] = (float)f64->f64[i];
    *out = f32;
    return QG_OK;
}

qg_status qg_step_real(const qg_device *d, const qg_device_step *s, bool fused,
                       qg_cut *out)
{
    static const qg_dtype reals[] = { QG_F64, QG_F32 };
    qg_status status = QG_OK;
    *out = (qg_cut){ 0 };
    for (size_t i = 0; s->value->def && i < 2; i++) {
        rounded r = { d, reals[i] };
        *out = (qg_cut){ .from = d->m->graph,
                         .target = s->value,
                         .stop = fused ? d->known : d->stored,
                         .dims = d->model_dims,
                         .real = reals[i],
                         .constant = constant,
                         .ud = &r };
        status = qg_cut_make(d->ctx, out);
        out->ud = NULL;
        if (status == QG_OK || qg_refusal(status) != QG_OK)
            return status;
    }
    return QG_OK; /* no operator for these types: no real values */
}

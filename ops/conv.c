/* conv.c -- Conv and ConvTranspose: x [N, C, space], w, optional b.
 *
 * Conv           w [M, C / group, kernel]   y [N, M, out]
 * ConvTranspose  w [C, M / group, kernel]   y [N, M, out]
 * float16 and bfloat16 are computed in float32, float64 in float64.
 * Source: ONNX Conv-1, 11, 22; ConvTranspose-1, 11, 22 (they differ in types only).
 *
 * Slots   data, weight, bias; the bias is passive: its scale is input scale x weight
 * scale. */
#include "ops/families.h"

#include "engine/accel/kernels.h"
#include "ops/util_cast.h"
#include "ops/util_check.h"
#include "ops/util_conv.h"
#include "ops/util_lower.h"

static qg_conv_slots slots_of(bool transposed)
{
    return (qg_conv_slots){ 0, 1, 2, transposed };
}

/* All operands have the same float type. */
static qg_status infer_as(const qg_call *k, bool transposed)
{
    QG_TRY(qg_check_types(k, 0, 2, QG_DT_FLOATS));
    QG_TRY(qg_check_same_type(k, 1, 2));
    return qg_conv_infer(k, k->param, slots_of(transposed), k->in[0]->dtype);
}

static qg_status infer_conv(const qg_call *k) { return infer_as(k, false); }
static qg_status infer_deconv(const qg_call *k) { return infer_as(k, true); }

/* The definition in plain loops; kernels of libraries are compiled below. */
static qg_status run_plain(const qg_call *k, bool transposed)
{
    const qg_tensor *x = k->in[0], *w = k->in[1], *b = qg_in(k, 2);
    qg_tensor *y = k->out[0];
    qg_conv_problem p;
    QG_TRY(qg_conv_problem_of(k, k->param, slots_of(transposed), &p));
    if (x->dtype == QG_F64)
        (transposed ? qg_ref_deconv_f64 : qg_ref_conv_f64)(&p, x->f64, w->f64,
                                                           b ? b->f64 : NULL, y->f64);
    else
        (transposed ? qg_ref_deconv_f32 : qg_ref_conv_f32)(&p, x->f32, w->f32,
                                                           b ? b->f32 : NULL, y->f32);
    return QG_OK;
}

static qg_status conv(const qg_call *k) { return run_plain(k, false); }
static qg_status deconv(const qg_call *k) { return run_plain(k, true); }

static qg_status run_conv(const qg_call *k)
{
    return qg_run_as(k, QG_DT_HALVES, QG_F32, conv);
}

static qg_status run_deconv(const qg_call *k)
{
    return qg_run_as(k, QG_DT_HALVES, QG_F32, deconv);
}

/* Offers the problem to the kernel library, which may decline. */
static qg_status compile_as(qg_compile *c, bool transposed, qg_kernel **out)
{
    qg_conv_problem p;
    qg_call k = qg_compile_call(c);
    QG_TRY(qg_conv_problem_of(&k, k.param, slots_of(transposed), &p));
    const qg_tensor *in[3] = { c->in[0], c->in[1], qg_in(&k, 2) };
    qg_compile all = *c; /* with a slot for the bias */
    all.in = in;
    return qg_accel_conv(&all, &p, transposed, out);
}

static qg_status compile_conv(qg_compile *c, qg_kernel **out)
{
    return compile_as(c, false, out);
}

static qg_status compile_deconv(qg_compile *c, qg_kernel **out)
{
    return compile_as(c, true, out);
}

static int deconv_axis(const qg_node *node)
{
    (void)node;
    return 1;
}

/* One input channel per group is a use of its own.  Several have none: they are lowered
 * where the profile computes both kinds alike. */
static qg_status lower_conv(qg_lower *l)
{
    const qg_conv_param *p = l->node->param;
    const qg_tensor *x = &l->node->in[0]->type;
    qg_kernel_use whole = l->in[1].stored.n <= 1 ? QG_USE_CONV_ONE : QG_USE_CONV;
    if (p->group == 1)
        return qg_lower_product(l, "IntConv", whole, 0);
    bool several = x->rank < 2 || x->dim[1] != p->group;
    if (several && qg_profile_uses(l->profile, QG_USE_CONV_GROUP))
        return qg_lower_product(l, "IntConv", QG_USE_CONV_GROUP, 0);
    if (several) {
        const qg_profile_row *one = qg_lower_row(l, QG_USE_DEPTHWISE);
        const qg_profile_row *all = qg_lower_row(l, whole);
        if (one && all && one != all)
            return qg_lower_refuse(l,
                                   "%lld groups of several channels: rows %s and %s "
                                   "differ, expected one row for both",
                                   (long long)p->group, all->id, one->id);
    }
    return qg_lower_product(l, "IntConv", QG_USE_DEPTHWISE, 0);
}

static qg_status lower_deconv(qg_lower *l)
{
    return qg_lower_product(l, "IntConvTranspose", QG_USE_DECONV, 1);
}

#define ROW(onnx, opset, kind, axis)                                                   \
    {                                                                                  \
        .name = onnx, .since = (opset), .min_in = 2, .max_in = 3, .min_out = 1,        \
        .max_out = 1, .in_roles = "dwb",                                               \
        .traits = QG_OP_COMPUTE | QG_OP_PURE | QG_OP_BATCH_FIRST,                      \
        .param_size = sizeof(qg_conv_param), .prepare = qg_conv_read,                  \
        .infer = infer_##kind, .run = run_##kind, .compile = compile_##kind,           \
        .weight_axis = axis, .lower = lower_##kind                                     \
    }
const qg_op qg_ops_conv[] = {
    ROW("Conv", 1, conv, qg_conv_axis),
    ROW("Conv", 11, conv, qg_conv_axis),
    ROW("Conv", 22, conv, qg_conv_axis),
    ROW("ConvTranspose", 1, deconv, deconv_axis),
    ROW("ConvTranspose", 11, deconv, deconv_axis),
    ROW("ConvTranspose", 22, deconv, deconv_axis),
    { 0 },
};

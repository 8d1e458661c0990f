/* integer_conv.c -- IntConv and IntConvTranspose of domain "quantgraph": x, w, optional
 * bias; attributes and dims as Conv and ConvTranspose have them.
 *
 *     acc = bias[c] + sum (x - z_x) (w - z_w[c])
 *     y   = acc through the row's requantization with s_x, s_w[c], s_y
 *     or, out0_type float32: f32(acc k[c]) + bias[c]; form fma: fma(acc, k[c], bias[c])
 *
 * Padding has the zero point of x.  The accumulator is modulo 2^32, or of 64 bits.
 * bias: int32 (64-bit accumulators: also int64) for codes, int32 or float32 for floats.
 * products pairs: number/integer_sum.h.
 * Source: docs/evidence/integers.md#runtimes. */
#include "ops/families.h"

#include "engine/number/integer_sum.h"
#include "ops/util_axis.h"
#include "ops/util_cast.h"
#include "ops/util_conv.h"
#include "ops/util_integer.h"
#include "ops/util_integer_kernel.h"

typedef struct int_conv_param {
    qg_recipe recipe;
    qg_conv_param conv;
} int_conv_param;

static qg_status prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    int_conv_param *p = param;
    QG_TRY(qg_recipe_read(ctx, n, &p->recipe));
    return qg_conv_read(ctx, n, &p->conv);
}

static qg_conv_slots slots_of(bool transposed)
{
    return (qg_conv_slots){ 0, 1, 2, transposed };
}

/* The axis of output channels in the weight of a plain convolution; a transposed one
 * has them in axis 1, group after group. */
static int64_t channels_of(const qg_call *k, const int_conv_param *p, bool transposed)
{
    int64_t m = qg_in_dim(k, 1, transposed);
    return m < 0 || !transposed ? m : m * p->conv.group;
}

/* A float bias is for a float output. */
static qg_status check_bias(const qg_call *k, const qg_recipe *r)
{
    uint64_t wide = r->row.requant.accumulator == 64 ? QG_DT(I64) : 0;
    return qg_check_type(k, 2, QG_DT(I32) | wide | (r->out.codes ? 0 : QG_DT(F32)));
}

static qg_status check_products(const qg_call *k, const int_conv_param *p,
                                bool transposed)
{
    const qg_recipe *r = &p->recipe;
    const qg_tensor *w = k->in[1];
    if (r->row.products == QG_PRODUCTS_PAIRS &&
        (transposed || qg_in_rank(k, 0) > 4 || r->row.requant.accumulator == 64))
        return qg_infer_fail(k, QG_EUNSUPPORTED,
                             "products pairs, expected exact ones for more than two "
                             "axes, a transposed convolution or 64-bit sums");
    if (!qg_tensor_known(w))
        return QG_OK;
    return qg_integer_check_exact(k, &r->in[0], &r->in[1],
                                  qg_dims_product(w, transposed ? 2 : 1, w->rank) *
                                      (transposed ? w->dim[0] : 1));
}

static qg_status infer_as(const qg_call *k, bool transposed)
{
    const int_conv_param *p = k->param;
    const qg_recipe *r = &p->recipe;
    qg_requant one;
    QG_TRY(qg_integer_check_in(k, r, 0, 1));
    QG_TRY(qg_integer_check_in(k, r, 1, channels_of(k, p, transposed)));
    QG_TRY(qg_integer_check_form(
        k, r, 1 << QG_FORM_PLAIN | 1 << QG_FORM_FMA | 1 << QG_FORM_VECTOR8));
    QG_TRY(check_bias(k, r));
    for (uint32_t c = 0; c < r->in[1].n; c++)
        QG_TRY(qg_integer_requant(k, r, &r->in[1], c, &one));
    QG_TRY(qg_conv_infer(k, &p->conv, slots_of(transposed), r->out.dtype));
    return check_products(k, p, transposed);
}

static qg_status infer_conv(const qg_call *k) { return infer_as(k, false); }
static qg_status infer_deconv(const qg_call *k) { return infer_as(k, true); }

/* Weights without their zero points: those of a transposed convolution are given per
 * output channel, and its axis 1 repeats in every group. */
static qg_status centred_weight(const qg_call *k, const int_conv_param *p,
                                bool transposed, double **out)
{
    qg_stored s = p->recipe.in[1];
    const qg_tensor *w = k->in[1];
    if (!transposed || p->conv.group == 1 || s.n == 1) {
        s.axis = transposed;
        return qg_integer_centred(k, w, &s, out);
    }
    int64_t inner = qg_dims_product(w, 2, w->rank), m = w->dim[1];
    int64_t first = w->dim[0] / p->conv.group; /* input channels of a group */
    const int32_t zero = 0;
    qg_stored none = { .dtype = s.dtype, .n = 1, .zero = &zero };
    QG_TRY(qg_integer_centred(k, w, &none, out));
    for (int64_t i = 0; i < qg_tensor_count(w); i++)
        (*out)[i] -= s.zero[i / (inner * m) / first * m + i / inner % m];
    return QG_OK;
}

/* Exact sums: every product and partial sum is an integer below 2^53. */
static qg_status sum_exact(const qg_call *k, const qg_conv_problem *c, bool transposed,
                           double *acc)
{
    const int_conv_param *p = k->param;
    const qg_tensor *bias = qg_in(k, 2);
    double *x, *w;
    if (bias && bias->dtype == QG_F32)
        bias = NULL;
    QG_TRY(qg_cast_view(k->ctx, k->scratch, bias, QG_F64, &bias));
    QG_TRY(qg_integer_centred(k, k->in[0], &p->recipe.in[0], &x));
    QG_TRY(centred_weight(k, p, transposed, &w));
    (transposed ? qg_ref_deconv_f64 : qg_ref_conv_f64)(c, x, w, bias ? bias->f64 : NULL,
                                                       acc);
    return QG_OK;
}

/* Strides of a dense [a][b][height][width]. */
static qg_int_picture picture(const int32_t *data, int64_t channels, int64_t height,
                              int64_t width)
{
    return (qg_int_picture){ data, (size_t)(channels * height * width),
                             (size_t)(height * width), (size_t)width, 1 };
}

static qg_status sum_pairs(const qg_call *k, const qg_conv_problem *c, double *acc)
{
    const qg_recipe *r = &((const int_conv_param *)k->param)->recipe;
    const qg_tensor *x, *w, *b = qg_in(k, 2);
    size_t n = qg_elements(k->out[0]), m = (size_t)c->out_channels;
    int32_t *sum = QG_NEWN(k->scratch, n, int32_t);
    int32_t *zero = QG_NEWN(k->scratch, m, int32_t);
    if (!sum || !zero)
        return qg_nomem(k->ctx);
    QG_TRY(qg_cast_view(k->ctx, k->scratch, k->in[0], QG_I32, &x));
    QG_TRY(qg_cast_view(k->ctx, k->scratch, k->in[1], QG_I32, &w));
    for (size_t i = 0; i < m; i++)
        zero[i] = r->in[1].zero[r->in[1].n > 1 ? i : 0];
    int64_t per = c->in_channels / c->groups;
    qg_int_sum s = {
        .batches = c->batch,
        .groups = c->groups,
        .in_channels = per,
        .out_channels = c->out_channels / c->groups,
        .height = c->in[1],
        .width = c->in[2],
        .out_height = c->out[1],
        .out_width = c->out[2],
        .kernel_height = c->kernel[1],
        .kernel_width = c->kernel[2],
        .stride = {c->stride[1],     c->stride[2]   },
        .dilation = { c->dilation[1],  c->dilation[2] },
        .pad = { c->pad_begin[1], c->pad_begin[2]},
        .x = picture(x->i32, c->in_channels, c->in[1], c->in[2]),
        .w = picture(w->i32, per, c->kernel[1], c->kernel[2]),
        .zero_x = r->in[0].zero[0],
        .zero_w = zero,
        .bias = b && b->dtype == QG_I32 ? b->i32 : NULL,
        .pairs = true
    };
    qg_int_sum_run(&s, sum);
    for (size_t i = 0; i < n; i++)
        acc[i] = sum[i];
    return QG_OK;
}

static qg_status run_as(const qg_call *k, bool transposed)
{
    const int_conv_param *p = k->param;
    const qg_recipe *r = &p->recipe;
    const qg_tensor *bias = qg_in(k, 2);
    qg_conv_problem c;
    double *acc;
    QG_TRY(qg_conv_problem_of(k, &p->conv, slots_of(transposed), &c));
    QG_TRY(qg_integer_sums(k, k->out[0], &acc));
    if (qg_elements(k->out[0]) == 0)
        return QG_OK;
    bool pairs = r->row.products == QG_PRODUCTS_PAIRS && c.in_channels > 0;
    QG_TRY(pairs ? sum_pairs(k, &c, acc) : sum_exact(k, &c, transposed, acc));
    qg_integer_tail t = { .bias = bias && bias->dtype == QG_F32 ? bias->f32 : NULL,
                          .per_channel = r->in[1].n > 1,
                          .fma = r->row.form == QG_FORM_FMA };
    QG_TRY(qg_integer_requants(k, r, &r->in[1], &t.r));
    qg_integer_finish(k, &t, c.out_channels, c.out[0] * c.out[1] * c.out[2], acc);
    return QG_OK;
}

static qg_status run_conv(const qg_call *k) { return run_as(k, false); }
static qg_status run_deconv(const qg_call *k) { return run_as(k, true); }

static qg_status compile_as(qg_compile *c, bool transposed, qg_kernel **out)
{
    const int_conv_param *p = c->node->param;
    qg_conv_problem problem;
    qg_call k = qg_compile_call(c);
    const qg_tensor *w = c->in[1];
    QG_TRY(qg_conv_problem_of(&k, &p->conv, slots_of(transposed), &problem));
    int64_t taps = qg_dims_product(w, 2, w->rank);
    qg_integer_product product = {
        .recipe = &p->recipe,
        .conv = &problem,
        .transposed = transposed,
        .channels = problem.out_channels,
        .inner = transposed ? taps : taps * w->dim[1],
        .period = w->dim[transposed],
        .group = transposed ? w->dim[0] / p->conv.group * w->dim[1] * taps : 0,
    };
    return qg_integer_compile(c, &product, out);
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

#define ROW(onnx, kind, axis)                                                          \
    {                                                                                  \
        .name = onnx, .domain = "quantgraph", .since = 1, .min_in = 2, .max_in = 3,    \
        .min_out = 1, .max_out = 1, .in_roles = "dwb",                                 \
        .traits = QG_OP_COMPUTE | QG_OP_QUANTIZER | QG_OP_PURE | QG_OP_BATCH_FIRST,    \
        .param_size = sizeof(int_conv_param), .prepare = prepare,                      \
        .infer = infer_##kind, .run = run_##kind, .compile = compile_##kind,           \
        .weight_axis = axis                                                            \
    }
const qg_op qg_ops_integer_conv[] = {
    ROW("IntConv", conv, qg_conv_axis),
    ROW("IntConvTranspose", deconv, deconv_axis),
    { 0 },
};

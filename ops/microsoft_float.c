/* microsoft_float.c -- operators on floats of domain com.microsoft, as ONNX Runtime's
 * optimizers write them into transformers and convolutional networks.
 *
 * Gelu       x / 2 (1 + erf(x / sqrt 2)); BiasGelu: of A + B
 * FastGelu   x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), of X + bias
 * QuickGelu  x sigmoid(alpha x)
 * Fused*     MatMul of transposed operands times alpha; Gemm, or Conv and Z, followed
 *            by an activation
 * Skip       (Skip)(Simplified)LayerNormalization of input + skip + bias over the last
 *            axis; output 3 is that sum; simplified: by the root mean square
 * Embed      LayerNormalization of the sum of rows of three tables
 * Computed in float32; sums of normalizations are kept in double.
 * Source: onnxruntime 1.31, page Contrib Operators, whose formulas these are.
 *
 * Slots   as the operators of ONNX that they stand for; gains are never quantized */
#include "ops/families.h"

#include <assert.h>
#include <math.h>

#include "engine/number/vecmath.h"
#include "ops/util_activation.h"
#include "ops/util_axis.h"
#include "ops/util_broadcast.h"
#include "ops/util_cast.h"

/* Room for the parameters of Conv, Gemm or MatMul, in words of 8 bytes for their
 * alignment; checked by prepare_inner. */
enum { INNER_WORDS = 64 };

typedef struct fused_param {
    const qg_op *op; /* Conv, Gemm, MatMul of ai.onnx; NULL: none */
    float alpha, epsilon;
    bool trans_a, trans_b, simplified, activated;
    qg_activation activation;
    uint64_t inner[INNER_WORDS]; /* parameters of op */
} fused_param;

/* --- Gelu ---------------------------------------------------------------------- */

/* 1.702 x makes the sigmoid closest to the normal distribution in Gelu (Hendrycks and
 * Gimpel, Gaussian Error Linear Units). */
static qg_status prepare_quick(qg_ctx *ctx, const qg_node *node, void *param)
{
    return qg_attr_float(ctx, node, "alpha", 1.702f, &((fused_param *)param)->alpha);
}

/* Input 1, where there is one, is a vector along the last axis. */
static qg_status infer_gelu(const qg_call *k)
{
    const qg_tensor *x = k->in[0], *bias = qg_in(k, 1);
    QG_TRY(qg_check_type(k, 0, QG_DT_FLOATS));
    QG_TRY(qg_check_same_type(k, 1, 1));
    if (bias && x->rank == 0)
        return qg_infer_fail(k, QG_EMODEL, "a bias for a scalar");
    if (bias)
        QG_TRY(qg_check_vector(k, 1, x->rank > 0 ? x->dim[x->rank - 1] : -1));
    return qg_infer_same(k);
}

/* The number is 1 / sqrt(2). */
static float by_erf(float x, float alpha)
{
    (void)alpha;
    return 0.5f * x * (1 + qg_erf_f32(x * 0.70710678118654752f));
}

/* The numbers are 0.044715 sqrt(2 / pi) and sqrt(2 / pi). */
static float by_tanh(float x, float alpha)
{
    (void)alpha;
    return 0.5f * x *
           (1 + qg_tanh_f32(x * (0.035677408136300125f * x * x + 0.7978845608028654f)));
}

static float by_sigmoid(float x, float alpha) { return x * qg_sigmoid_f32(alpha * x); }

/* f of every element plus its bias, which repeats along the last axis. */
static void each(const qg_call *k, float (*f)(float x, float alpha), float alpha)
{
    const qg_tensor *x = k->in[0], *bias = qg_in(k, 1);
    int64_t n = qg_tensor_count(x), row = bias ? qg_tensor_count(bias) : 1;
    for (int64_t i = 0; i < n; i++)
        k->out[0]->f32[i] = f(x->f32[i] + (bias ? bias->f32[i % row] : 0), alpha);
}

static qg_status gelu(const qg_call *k) { return each(k, by_erf, 0), QG_OK; }
static qg_status fast_gelu(const qg_call *k) { return each(k, by_tanh, 0), QG_OK; }
static qg_status quick_gelu(const qg_call *k)
{
    return each(k, by_sigmoid, ((const fused_param *)k->param)->alpha), QG_OK;
}
static qg_status run_gelu(const qg_call *k) { return qg_run_f32(k, gelu); }
static qg_status run_fast(const qg_call *k) { return qg_run_f32(k, fast_gelu); }
static qg_status run_quick(const qg_call *k) { return qg_run_f32(k, quick_gelu); }

/* --- the operator of ONNX inside ------------------------------------------------ */

/* The node as the inner operator sees it: attributes of the fused node, whose names are
 * those of ONNX, and parameters of its own.  A copy to read from; it is in no graph. */
static qg_node inner_node(const qg_node *n, const fused_param *p)
{
    qg_node f = *n;
    f.op = p->op;
    f.param = (void *)(uintptr_t)p->inner;
    return f;
}

/* The version of the operator is fixed, since com.microsoft has versions of its own.
 * QG_EUNSUPPORTED where the registry lacks it. */
static qg_status prepare_inner(qg_ctx *ctx, const qg_node *node, const char *op,
                               int64_t opset, fused_param *p)
{
    p->op = qg_op_find(ctx->registry, NULL, op, opset);
    if (!p->op || p->op->param_size > sizeof p->inner)
        return qg_node_fail(ctx, QG_EUNSUPPORTED, "import", node,
                            "%s of opset %lld is not known", op, (long long)opset);
    qg_node f = inner_node(node, p);
    return p->op->prepare ? p->op->prepare(ctx, &f, p->inner) : QG_OK;
}

/* Parameters of the activation are one list or three numbers.  No name, or an empty
 * one: no activation.  A list takes precedence over the numbers. */
static qg_status prepare_activation(qg_ctx *ctx, const qg_node *node, fused_param *p)
{
    const char *name;
    const qg_attr *list = qg_attr_find(node, "activation_params");
    QG_TRY(qg_attr_string(ctx, node, "activation", "", &name));
    p->activated = *name != '\0';
    if (!p->activated)
        return QG_OK;
    const qg_activation_list one = { .preset = &name, .n_preset = 1, .count = 1 };
    qg_node plain = *node;
    plain.n_attr = 0; /* the name is the preset */
    QG_TRY(qg_activations_read(ctx, &plain, &one, &p->activation));
    QG_TRY(qg_attr_float(ctx, node, "activation_alpha", p->activation.alpha,
                         &p->activation.alpha));
    QG_TRY(qg_attr_float(ctx, node, "activation_beta", p->activation.beta,
                         &p->activation.beta));
    if (list && list->type == QG_ATTR_FLOATS && list->count > 0)
        p->activation.alpha = list->floats[0];
    if (list && list->type == QG_ATTR_FLOATS && list->count > 1)
        p->activation.beta = list->floats[1];
    return QG_OK;
}

static qg_status prepare_conv(qg_ctx *ctx, const qg_node *node, void *param)
{
    QG_TRY(prepare_inner(ctx, node, "Conv", 11, param));
    return prepare_activation(ctx, node, param);
}

/* alpha and beta are those of Gemm; the activation's have a prefix. */
static qg_status prepare_gemm(qg_ctx *ctx, const qg_node *node, void *param)
{
    QG_TRY(prepare_inner(ctx, node, "Gemm", 13, param));
    return prepare_activation(ctx, node, param);
}

/* Operands whose batch axis is not the first are refused. */
static qg_status prepare_matmul(qg_ctx *ctx, const qg_node *node, void *param)
{
    fused_param *p = param;
    bool batch_a, batch_b;
    QG_TRY(prepare_inner(ctx, node, "MatMul", 13, p));
    QG_TRY(qg_attr_float(ctx, node, "alpha", 1, &p->alpha));
    QG_TRY(qg_attr_flag(ctx, node, "transA", false, &p->trans_a));
    QG_TRY(qg_attr_flag(ctx, node, "transB", false, &p->trans_b));
    QG_TRY(qg_attr_flag(ctx, node, "transBatchA", false, &batch_a));
    QG_TRY(qg_attr_flag(ctx, node, "transBatchB", false, &batch_b));
    if (batch_a || batch_b)
        return qg_node_fail(ctx, QG_EUNSUPPORTED, "import", node,
                            "transBatchA or transBatchB is 1, expected 0");
    return QG_OK;
}

/* The call of the inner operator on the first `inputs` inputs. */
static qg_status call_inner(const qg_call *k, size_t inputs,
                            qg_status (*act)(const qg_call *))
{
    qg_node f = inner_node(k->node, k->param);
    qg_call call = *k;
    f.n_in = (uint32_t)(k->n_in < inputs ? k->n_in : inputs);
    call.node = &f;
    call.param = f.param;
    call.n_in = f.n_in;
    return act(&call);
}

/* Z, the fourth input of FusedConv, is added before the activation: it has the type and
 * dims of the result. */
static qg_status infer_fused(const qg_call *k)
{
    const fused_param *p = k->param;
    const qg_tensor *z = qg_in(k, 3);
    QG_TRY(call_inner(k, 3, p->op->infer));
    QG_TRY(qg_check_same_type(k, 3, 3));
    if (!z || k->out[0]->rank < 0)
        return QG_OK;
    return qg_check_dims(k, 3, k->out[0]->rank, k->out[0]->dim);
}

/* Z has the dims of the output.  In place on the output of the inner operator. */
static qg_status fused(const qg_call *k)
{
    const fused_param *p = k->param;
    const qg_tensor *z = qg_in(k, 3);
    float *y = k->out[0]->f32;
    QG_TRY(call_inner(k, 3, p->op->run));
    for (int64_t i = 0, n = qg_tensor_count(k->out[0]); i < n; i++) {
        float x = z ? y[i] + z->f32[i] : y[i];
        y[i] = p->activated ? qg_activate(&p->activation, x) : x;
    }
    return QG_OK;
}

static qg_status run_fused(const qg_call *k) { return qg_run_f32(k, fused); }

/* t with its last two axes exchanged, and its data when there are some.  The copy is in
 * scratch.  While shapes are inferred there may be no data, or data of another float
 * type: then *out has none.  A tensor of unknown rank is passed on as it is. */
static qg_status exchanged(const qg_call *k, const qg_tensor *t, qg_tensor *out)
{
    *out = *t;
    out->data = NULL;
    if (t->rank < 2)
        return t->rank < 0 ? QG_OK
                           : qg_infer_fail(k, QG_EMODEL,
                                           "a transposed operand of rank %d, expected "
                                           "2 or more",
                                           t->rank);
    int64_t rows = t->dim[t->rank - 2], columns = t->dim[t->rank - 1];
    out->dim[t->rank - 2] = columns;
    out->dim[t->rank - 1] = rows;
    qg_tensor_set_plain(out);
    if (!t->data || t->dtype != QG_F32)
        return QG_OK;
    QG_TRY(qg_tensor_alloc(k->ctx, k->scratch, out));
    for (int64_t i = 0, n = qg_tensor_count(t); i < n; i++) {
        int64_t matrix = i / (rows * columns), r = i / columns % rows, c = i % columns;
        out->f32[(matrix * columns + c) * rows + r] = t->f32[i];
    }
    return QG_OK;
}

/* infer or run of MatMul on the operands, each exchanged where its attribute is set. */
static qg_status product(const qg_call *k, qg_status (*act)(const qg_call *))
{
    const fused_param *p = k->param;
    qg_tensor a, b;
    const qg_tensor *in[2] = { k->in[0], k->in[1] };
    qg_call call = *k;
    if (p->trans_a)
        QG_TRY(exchanged(k, in[0], &a));
    if (p->trans_b)
        QG_TRY(exchanged(k, in[1], &b));
    in[0] = p->trans_a ? &a : in[0];
    in[1] = p->trans_b ? &b : in[1];
    call.in = in;
    return call_inner(&call, 2, act);
}

static qg_status infer_matmul(const qg_call *k)
{
    QG_TRY(qg_check_type(k, 0, QG_DT_FLOATS));
    return product(k, ((const fused_param *)k->param)->op->infer);
}

/* alpha multiplies the rounded product, as one more operation. */
static qg_status matmul(const qg_call *k)
{
    const fused_param *p = k->param;
    QG_TRY(product(k, p->op->run));
    for (int64_t i = 0, n = qg_tensor_count(k->out[0]); p->alpha != 1 && i < n; i++)
        k->out[0]->f32[i] *= p->alpha;
    return QG_OK;
}

static qg_status run_matmul(const qg_call *k) { return qg_run_f32(k, matmul); }

/* Output channels, columns of B or its rows. */
static int conv_axis(const qg_node *n) { return (void)n, 0; }
/* B is [K, N], or [N, K] with transB. */
static int gemm_axis(const qg_node *n)
{
    const qg_attr *a = qg_attr_find(n, "transB");
    return a && a->type == QG_ATTR_INT && a->ints[0] ? 0 : 1;
}
/* -1: a vector, or the rank is not known. */
static int matmul_axis(const qg_node *n)
{
    int32_t rank = n->in[1] ? n->in[1]->type.rank : -1;
    return rank < 2 ? -1 : rank - 1 - ((const fused_param *)n->param)->trans_b;
}

/* --- normalizations -------------------------------------------------------------- */

/* The default of ONNX Runtime's schema; ONNX has 1e-5. */
static qg_status prepare_skip(qg_ctx *ctx, const qg_node *node, void *param)
{
    return qg_attr_float(ctx, node, "epsilon", 1e-12f,
                         &((fused_param *)param)->epsilon);
}

static qg_status prepare_simple(qg_ctx *ctx, const qg_node *node, void *param)
{
    ((fused_param *)param)->simplified = true;
    return prepare_skip(ctx, node, param);
}

/* One row of n elements to y; gain is there, shift may be NULL.  (x - mean) /
 * sqrt(variance + epsilon) * gain + shift; simplified: the mean counts as 0.  The
 * variance is that of the population, from differences to the mean, so that a large
 * mean costs little precision.  The quotient is rounded to float32 before gain and
 * shift. */
static void normalize_row(const fused_param *p, const float *x, int64_t n,
                          const float *const gain_shift[2], float *y)
{
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < n && !p->simplified; i++)
        mean += (double)x[i] / (double)n;
    for (int64_t i = 0; i < n; i++)
        squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    double scale = 1 / sqrt(squares / (double)(n ? n : 1) + (double)p->epsilon);
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)(((double)x[i] - mean) * scale) * gain_shift[0][i] +
               (gain_shift[1] ? gain_shift[1][i] : 0);
}

/* Inputs x, skip, gain, then shift unless simplified, and bias.  skip has the dims of
 * x, or those of one sample, with or without a first axis of 1, and repeats over the
 * batch. */
static qg_status infer_skip(const qg_call *k)
{
    const fused_param *p = k->param;
    const qg_tensor *x = k->in[0];
    QG_TRY(qg_check_type(k, 0, QG_DT_FLOATS));
    QG_TRY(qg_check_same_type(k, 1, 4));
    QG_TRY(qg_check_rank(k, 0, 2, 3));
    QG_TRY(qg_check_rank(k, 1, 2, 3));
    int64_t n = x->rank > 0 ? x->dim[x->rank - 1] : -1;
    if (qg_in_rank(k, 1) > 0)
        QG_TRY(qg_check_dim(k, 1, k->in[1]->rank - 1, n));
    for (size_t i = 2; i < (p->simplified ? 4 : 5); i++)
        if (qg_in(k, i))
            QG_TRY(qg_check_vector(k, i, n));
    int64_t size = qg_tensor_count(x), skip = qg_tensor_count(k->in[1]);
    if (size >= 0 && skip >= 0 && size != skip && (skip <= 0 || size % skip != 0))
        return qg_infer_fail(k, QG_EMODEL, "skip does not stretch to input 0");
    for (size_t i = 1; i < k->n_out; i++) /* mean and deviation are not computed */
        if (k->out[i] && i != 3)
            return qg_infer_fail(k, QG_EUNSUPPORTED,
                                 "output %zu is read, expected 0 "
                                 "and 3 only",
                                 i);
    qg_set_out(k, 3, x->dtype, x->rank, x->dim);
    return qg_infer_same(k);
}

/* The sum goes straight to output 3 when that is read, else to scratch. */
static qg_status skip(const qg_call *k)
{
    const fused_param *p = k->param;
    const qg_tensor *x = k->in[0], *s = k->in[1],
                    *bias = qg_in(k, p->simplified ? 3 : 4);
    const qg_tensor *shift = p->simplified ? NULL : qg_in(k, 3);
    int64_t n = x->dim[x->rank - 1], count = qg_tensor_count(x);
    int64_t repeat = qg_tensor_count(s);
    const float *const scale[2] = { k->in[2]->f32, shift ? shift->f32 : NULL };
    float *sum = qg_out(k, 3) ? k->out[3]->f32 : QG_NEWN(k->scratch, count, float);
    if (!sum)
        return qg_nomem(k->ctx);
    for (int64_t i = 0; i < count; i++)
        sum[i] = x->f32[i] + s->f32[i % repeat] + (bias ? bias->f32[i % n] : 0);
    for (int64_t i = 0; i + n <= count && n > 0; i += n)
        normalize_row(p, sum + i, n, scale, k->out[0]->f32 + i);
    return QG_OK;
}

static qg_status run_skip(const qg_call *k) { return qg_run_f32(k, skip); }

/* --- EmbedLayerNormalization ----------------------------------------------------- */

/* Slots of inputs.  Segments and their table, mask and positions may be absent. */
enum { IDS, SEGMENTS, WORD, POSITION, SEGMENT, GAMMA, BETA, MASK, POSITIONS };

/* y [batch, time, hidden], the lengths of the mask [batch], the sums of the rows.  The
 * tables are [rows, hidden] with any number of rows. */
static qg_status infer_embed(const qg_call *k)
{
    static const size_t required[] = { WORD, POSITION, GAMMA, BETA };
    int64_t hidden = qg_in_dim(k, WORD, 1);
    for (size_t i = 0; i < sizeof required / sizeof *required; i++)
        if (!qg_in(k, required[i]))
            return qg_infer_fail(k, QG_EMODEL, "input %zu is absent, expected a value",
                                 required[i]);
    QG_TRY(qg_check_type(k, IDS, QG_DT(I32)));
    QG_TRY(qg_check_type(k, SEGMENTS, QG_DT(I32)));
    QG_TRY(qg_check_types(k, MASK, POSITIONS, QG_DT(I32)));
    QG_TRY(qg_check_type(k, WORD, QG_DT_FLOATS));
    QG_TRY(qg_check_types(k, POSITION, BETA, UINT64_C(1) << k->in[WORD]->dtype));
    QG_TRY(qg_check_rank(k, IDS, 2, 2));
    for (size_t i = WORD; i <= SEGMENT; i++) {
        QG_TRY(qg_check_rank(k, i, 2, 2));
        if (qg_in_rank(k, i) == 2)
            QG_TRY(qg_check_dim(k, i, 1, hidden));
    }
    QG_TRY(qg_check_vector(k, GAMMA, hidden));
    QG_TRY(qg_check_vector(k, BETA, hidden));
    int64_t ids[2] = { qg_in_dim(k, IDS, 0), qg_in_dim(k, IDS, 1) };
    for (size_t i = 0; i < 3; i++) {
        static const size_t like[] = { SEGMENTS, MASK, POSITIONS };
        if (qg_in_rank(k, like[i]) >= 0)
            QG_TRY(qg_check_dims(k, like[i], 2, ids));
    }
    int64_t dim[3] = { ids[0], ids[1], hidden };
    qg_set_out(k, 1, QG_I32, 1, dim);
    qg_set_out(k, 2, k->in[WORD]->dtype, 3, dim);
    return qg_infer_dims(k, k->in[WORD]->dtype, 3, dim);
}

/* Adds row `at` of a table to y.  QG_EDATA when the table has no such row: indices are
 * data of the user. */
static qg_status add_row(const qg_call *k, size_t table, int64_t at, float *y)
{
    const qg_tensor *t = k->in[table];
    int64_t n = t->dim[1];
    if (at < 0 || at >= t->dim[0])
        return qg_run_fail(k, QG_EDATA, "row %lld of input %zu, expected 0 to %lld",
                           (long long)at, table, (long long)t->dim[0] - 1);
    for (int64_t i = 0; i < n; i++)
        y[i] += t->f32[at * n + i];
    return QG_OK;
}

/* The number of tokens that the mask keeps, per sample.  A token is kept where the mask
 * is 1.  Without a mask ONNX Runtime's output is 0, too. */
static void count_mask(const qg_call *k)
{
    const qg_tensor *mask = qg_in(k, MASK);
    int64_t time = k->in[IDS]->dim[1];
    for (int64_t b = 0; qg_out(k, 1) && b < k->in[IDS]->dim[0]; b++) {
        k->out[1]->i32[b] = 0;
        for (int64_t i = 0; mask && i < time; i++)
            k->out[1]->i32[b] += mask->i32[b * time + i] == 1;
    }
}

/* A token without a position of its own has its index in the sample.  Segments count
 * only together with their table. */
static qg_status embed(const qg_call *k)
{
    const qg_tensor *ids = k->in[IDS], *position = qg_in(k, POSITIONS);
    int64_t n = k->in[WORD]->dim[1], time = ids->dim[1], count = qg_tensor_count(ids);
    const float *const scale[2] = { k->in[GAMMA]->f32, k->in[BETA]->f32 };
    float *sum = QG_NEWN(k->scratch, n, float);
    if (!sum)
        return qg_nomem(k->ctx);
    count_mask(k);
    for (int64_t i = 0; i < count; i++) {
        memset(sum, 0, (size_t)n * sizeof *sum);
        QG_TRY(add_row(k, WORD, ids->i32[i], sum));
        QG_TRY(add_row(k, POSITION, position ? position->i32[i] : i % time, sum));
        if (qg_in(k, SEGMENTS) && qg_in(k, SEGMENT))
            QG_TRY(add_row(k, SEGMENT, k->in[SEGMENTS]->i32[i], sum));
        if (qg_out(k, 2))
            memcpy(k->out[2]->f32 + i * n, sum, (size_t)n * sizeof *sum);
        normalize_row(k->param, sum, n, scale, k->out[0]->f32 + i * n);
    }
    return QG_OK;
}

static qg_status run_embed(const qg_call *k) { return qg_run_f32(k, embed); }

/* --- the operators ------------------------------------------------------------- */

#define PLAIN (QG_OP_PURE | QG_OP_BATCH_FIRST)
#define ROW(microsoft, least, most, outputs, roles, bits, ...)                         \
    {                                                                                  \
        .name = (microsoft), .domain = "com.microsoft", .since = 1, .min_in = (least), \
        .max_in = (most), .min_out = 1, .max_out = (outputs), .in_roles = (roles),     \
        .traits = (bits), .param_size = sizeof(fused_param), __VA_ARGS__               \
    }

/* clang-format off */
const qg_op qg_ops_microsoft_float[] = {
    ROW("BiasGelu", 2, 2, 1, "db", PLAIN, .infer = infer_gelu, .run = run_gelu),
    ROW("FastGelu", 1, 2, 1, "db", PLAIN, .infer = infer_gelu, .run = run_fast),
    ROW("Gelu", 1, 1, 1, "d", PLAIN | QG_OP_ELEMENTWISE | QG_OP_ACTIVATION,
        .infer = infer_gelu, .run = run_gelu),
    ROW("QuickGelu", 1, 1, 1, "d", PLAIN | QG_OP_ELEMENTWISE | QG_OP_ACTIVATION,
        .prepare = prepare_quick, .infer = infer_gelu, .run = run_quick),
    ROW("FusedConv", 2, 4, 1, "dwbd", PLAIN | QG_OP_COMPUTE, .prepare = prepare_conv,
        .infer = infer_fused, .run = run_fused, .weight_axis = conv_axis),
    ROW("FusedGemm", 2, 3, 1, "dwb", PLAIN | QG_OP_COMPUTE, .prepare = prepare_gemm,
        .infer = infer_fused, .run = run_fused, .weight_axis = gemm_axis),
    ROW("FusedMatMul", 2, 2, 1, "dw", QG_OP_PURE | QG_OP_COMPUTE,
        .prepare = prepare_matmul, .infer = infer_matmul, .run = run_matmul,
        .weight_axis = matmul_axis),
    ROW("SkipLayerNormalization", 3, 5, 4, "ddfff", PLAIN, .prepare = prepare_skip,
        .infer = infer_skip, .run = run_skip),
    ROW("SkipSimplifiedLayerNormalization", 3, 4, 4, "ddff", PLAIN,
        .prepare = prepare_simple, .infer = infer_skip, .run = run_skip),
    ROW("EmbedLayerNormalization", 1, 9, 3, "ssdddffss", PLAIN,
        .prepare = prepare_skip, .infer = infer_embed, .run = run_embed),
    { 0 },
};
/* clang-format on */

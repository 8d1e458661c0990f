/* microsoft.c -- operators on codes of domain com.microsoft, as ONNX Runtime's
 * quantizer and optimizer write them: QLinearAdd, QGemm and others.
 *
 * Here each computes what ONNX Runtime's documentation defines: the inputs are
 * dequantized, the float operator of the row computes, the result is quantized.  ONNX
 * Runtime's kernels round some of them otherwise; their arithmetic is that of integer
 * programs (number/profile.h), to which import converts these operators.
 *
 * Slots    see qg_op_codes; one scale and zero point for each tensor, and for B of
 *          QGemm one per column
 * Types    int8 and uint8, each tensor its own
 * Refused  channels_last 1, in which ONNX Runtime's optimizer writes convolutions and
 *          pools at level ALL; other operators on NHWC tensors are not known
 * Source   onnxruntime 1.31, contributed operators */
#include "ops/families.h"

#include <assert.h>
#include <string.h>

#include "engine/number/qdq.h"
#include "ops/util_axis.h"

/* The float operator, prepared with the node's attributes. */
typedef struct codes_param {
    const qg_op *op;
    float alpha;        /* of QGemm; scale of its bias */
    uint64_t inner[64]; /* its parameters */
} codes_param;

static qg_node float_node(const qg_node *n, codes_param *p)
{
    qg_node f = *n;
    f.op = p->op;
    f.param = p->inner;
    return f;
}

static qg_status prepare(qg_ctx *ctx, const qg_node *node, void *param)
{
    codes_param *p = param;
    const qg_op_codes *codes = node->op->codes;
    int64_t opset;
    bool last;
    QG_TRY(qg_attr_int(ctx, node, "opset", codes->opset, &opset));
    QG_TRY(qg_attr_flag(ctx, node, "channels_last", false, &last));
    QG_TRY(qg_attr_float(ctx, node, "alpha", 1, &p->alpha));
    if (last)
        return qg_node_fail(ctx, QG_EUNSUPPORTED, "import", node,
                            "channels_last 1, expected 0: a file as ONNX Runtime "
                            "writes it at level EXTENDED, not ALL");
    p->op = qg_op_find(ctx->registry, NULL, codes->op, opset);
    if (!p->op || p->op->param_size > sizeof p->inner)
        return qg_node_fail(ctx, QG_EUNSUPPORTED, "import", node,
                            "%s of opset %lld is not known", codes->op,
                            (long long)opset);
    qg_node f = float_node(node, p);
    return p->op->prepare ? p->op->prepare(ctx, &f, p->inner) : QG_OK;
}

/* --- the call of the float operator -------------------------------------------- */

/* [n_in] float inputs; output 0, or where its floats are to go. */
typedef struct inner {
    qg_node node;
    qg_call call;
    const qg_tensor **in;
    qg_tensor *out;
} inner;

static char letter(const qg_call *k, size_t slot)
{
    return qg_op_code_slot(k->node->op->codes, slot);
}

static size_t slot_of(const qg_call *k, char which)
{
    const char *at = strchr(k->node->op->codes->slots, which);
    assert(at);
    return (size_t)(at - k->node->op->codes->slots);
}

static qg_status float_input(const qg_call *k, size_t slot, const qg_tensor **out)
{
    const qg_tensor *t = k->in[slot];
    qg_tensor *f = QG_NEW(k->scratch, qg_tensor);
    *out = t;
    if (!t || letter(k, slot) == 'v')
        return QG_OK;
    if (!f)
        return qg_nomem(k->ctx);
    if (t->rank < 0)
        qg_tensor_unknown(f, QG_F32);
    else
        qg_tensor_init(f, QG_F32, t->rank, t->dim);
    *out = f;
    return QG_OK;
}

/* Types and dims, no data except of inputs that pass unchanged. */
static qg_status begin_inner(const qg_call *k, inner *f)
{
    size_t n = 0;
    f->in = QG_NEWN(k->scratch, k->n_in, const qg_tensor *);
    f->out = QG_NEW(k->scratch, qg_tensor);
    if (!f->in || !f->out)
        return qg_nomem(k->ctx);
    for (size_t i = 0; i < k->n_in; i++)
        if (strchr("xbv", letter(k, i)))
            QG_TRY(float_input(k, i, &f->in[n++]));
    f->node = float_node(k->node, (codes_param *)(uintptr_t)k->param);
    f->call = *k;
    f->call.node = &f->node;
    f->call.param = f->node.param;
    f->call.in = f->in;
    f->call.n_in = n;
    f->call.out = &f->out;
    return QG_OK;
}

/* --- types --------------------------------------------------------------------- */

/* A scale or zero point: one, or one per output channel of a weight. */
static qg_status check_parameter(const qg_call *k, size_t slot, size_t of)
{
    const qg_op *op = k->node->op;
    bool weight = qg_op_in_role(op, of) == 'w';
    int axis = weight && op->weight_axis ? op->weight_axis(k->node) : -1;
    const qg_tensor *t = qg_in(k, slot);
    int64_t n = t ? qg_tensor_count(t) : 1;
    if (n == 1 || n < 0 || (axis >= 0 && qg_in_dim(k, of, axis) == n))
        return QG_OK;
    return qg_infer_fail(k, QG_EMODEL, "input %zu has %lld values, expected 1", slot,
                         (long long)n);
}

static qg_status check_slot(const qg_call *k, size_t slot)
{
    switch (letter(k, slot)) {
    case 'x':
        return qg_check_type(k, slot, QG_DT_BYTES);
    case 's':
        QG_TRY(check_parameter(k, slot, slot - 1));
        return qg_check_type(k, slot, QG_DT(F32));
    case 'S':
        QG_TRY(qg_check_one(k, slot));
        return qg_check_type(k, slot, QG_DT(F32));
    case 'z':
        QG_TRY(check_parameter(k, slot, slot - 2));
        if (k->in[slot] && k->in[slot]->dtype != k->in[slot - 2]->dtype)
            return qg_infer_fail(k, QG_EMODEL, "zero point %zu is %s, expected %s",
                                 slot, qg_dtype_name(k->in[slot]->dtype),
                                 qg_dtype_name(k->in[slot - 2]->dtype));
        return QG_OK;
    case 'Z':
        QG_TRY(qg_check_one(k, slot));
        return qg_check_type(k, slot, QG_DT_BYTES);
    case 'b':
        return qg_check_type(k, slot, QG_DT(I32));
    default:
        return QG_OK;
    }
}

/* That of the zero point, else of the first input. */
static qg_dtype type_of_output(const qg_call *k)
{
    const qg_tensor *zero = qg_in(k, slot_of(k, 'Z'));
    if (!qg_in(k, slot_of(k, 'S')))
        return QG_F32;
    return zero ? zero->dtype : k->in[slot_of(k, 'x')]->dtype;
}

/* Codes, their scales, and the output's scale where the type of codes is known by it
 * are required, also where the slots of a list are optional by number. */
static qg_status check_present(const qg_call *k)
{
    for (size_t i = 0; i < k->n_in; i++)
        if (strchr("xs", letter(k, i)) && !k->in[i])
            return qg_infer_fail(k, QG_EMODEL, "input %zu is absent, expected one", i);
    if (letter(k, k->n_in) != 'x' && k->n_in > strlen(k->node->op->codes->slots))
        return qg_infer_fail(
            k, QG_EMODEL, "%zu inputs, expected scale and zero point of each", k->n_in);
    return QG_OK;
}

static qg_status infer(const qg_call *k)
{
    inner f;
    QG_TRY(check_present(k));
    for (size_t i = 0; i < k->n_in; i++)
        QG_TRY(check_slot(k, i));
    QG_TRY(begin_inner(k, &f));
    QG_TRY(f.node.op->infer(&f.call));
    return qg_infer_dims(k, type_of_output(k), f.out->rank, f.out->dim);
}

/* --- values -------------------------------------------------------------------- */

/* The array of t, with its parameters along the weight's axis if there are many. */
static qg_qdq array_of(const qg_call *k, const qg_tensor *t, size_t scale)
{
    const qg_tensor *s = k->in[scale], *zero = qg_in(k, scale + 1);
    qg_around a = { 1, 1, qg_tensor_count(t) };
    if (qg_tensor_count(s) > 1)
        a = qg_around_axis(t, k->node->op->weight_axis(k->node));
    return (qg_qdq){ .type = t->dtype,
                     .outer = (size_t)a.outer,
                     .dim = (size_t)a.middle,
                     .inner = (size_t)a.inner,
                     .scale = s->f32,
                     .zero_point = zero ? zero->data : NULL,
                     .onnx = true };
}

static qg_status fill_codes(const qg_call *k, size_t slot, qg_tensor *f)
{
    const qg_tensor *x = k->in[slot], *s = k->in[slot + 1], *z = qg_in(k, slot + 2);
    if (z && qg_tensor_count(s) != qg_tensor_count(z))
        return qg_run_fail(k, QG_EUNSUPPORTED,
                           "input %zu has %lld scales and %lld zero points, expected "
                           "as many",
                           slot, (long long)qg_tensor_count(s),
                           (long long)qg_tensor_count(z));
    qg_qdq q = array_of(k, x, slot + 1);
    if (qg_elements(x))
        qg_dequantize_linear(&q, x->data, f->f32);
    return QG_OK;
}

/* In steps of alpha x the product of the scales; columns are last. */
static void fill_bias(const qg_call *k, size_t slot, qg_tensor *f)
{
    const codes_param *p = k->param;
    const qg_tensor *b = k->in[slot], *w = k->in[4];
    int64_t n = qg_tensor_count(w), columns = b->rank ? b->dim[b->rank - 1] : 1;
    for (int64_t i = 0; i < qg_tensor_count(b); i++) {
        int64_t c = n == 1 || columns != n ? 0 : i % columns;
        f->f32[i] = (float)b->i32[i] * (p->alpha * k->in[1]->f32[0] * w->f32[c]);
    }
}

static qg_status fill_inputs(const qg_call *k, inner *f)
{
    size_t n = 0;
    for (size_t i = 0; i < k->n_in; i++) {
        char what = letter(k, i);
        qg_tensor *t = strchr("xbv", what) ? (qg_tensor *)(uintptr_t)f->in[n++] : NULL;
        if (!t || what == 'v')
            continue;
        QG_TRY(qg_tensor_alloc(k->ctx, k->scratch, t));
        if (what == 'b')
            fill_bias(k, i, t);
        else
            QG_TRY(fill_codes(k, i, t));
    }
    return QG_OK;
}

static qg_status run(const qg_call *k)
{
    inner f;
    qg_tensor *y = k->out[0];
    QG_TRY(begin_inner(k, &f));
    QG_TRY(fill_inputs(k, &f));
    QG_TRY(f.node.op->infer(&f.call));
    if (y->dtype == QG_F32) {
        f.out = y;
        return f.node.op->run(&f.call);
    }
    QG_TRY(qg_tensor_alloc(k->ctx, k->scratch, f.out));
    QG_TRY(f.node.op->run(&f.call));
    qg_qdq q = array_of(k, y, slot_of(k, 'S'));
    if (qg_elements(y))
        qg_quantize_linear(&q, f.out->f32, y->data);
    return QG_OK;
}

/* Columns of B. */
static int qgemm_axis(const qg_node *node)
{
    const qg_attr *a = qg_attr_find(node, "transB");
    return a && a->type == QG_ATTR_INT && a->ints[0] ? 0 : 1;
}

/* Output channels. */
static int conv_axis(const qg_node *node)
{
    (void)node;
    return 0;
}

/* --- the operators ------------------------------------------------------------- */

/* clang-format off */
static const qg_op_codes add = { "Add", 13, "xszxszSZ" };
static const qg_op_codes average_pool = { "AveragePool", 11, "xszSZ" };
static const qg_op_codes concat = { "Concat", 13, "SZxsz" };
static const qg_op_codes conv = { "Conv", 11, "xszxszSZb" };
static const qg_op_codes gemm = { "Gemm", 13, "xszxszbSZ" };
static const qg_op_codes global_pool = { "GlobalAveragePool", 1, "xszSZ" };
static const qg_op_codes leaky_relu = { "LeakyRelu", 6, "xszSZ" };
static const qg_op_codes mul = { "Mul", 13, "xszxszSZ" };
static const qg_op_codes reduce_mean = { "ReduceMean", 13, "xszSZ" };
static const qg_op_codes sigmoid = { "Sigmoid", 13, "xszSZ" };
static const qg_op_codes softmax = { "Softmax", 13, "xszSZ" };
static const qg_op_codes where = { "Where", 16, "vxszxszSZ" };

#define ROW(microsoft, least, most, roles, of, ...)                                    \
    { .name = (microsoft), .domain = "com.microsoft", .since = 1, .min_in = (least),   \
      .max_in = (most), .min_out = 1, .max_out = 1, .in_roles = (roles),               \
      .traits = QG_OP_QUANTIZER | QG_OP_PURE, .param_size = sizeof(codes_param),       \
      .prepare = prepare, .infer = infer, .run = run, .codes = &(of), __VA_ARGS__ }

const qg_op qg_ops_microsoft[] = {
    ROW("QGemm", 6, 9, "dfswfsbfs", gemm, .weight_axis = qgemm_axis),
    ROW("QLinearAdd", 7, 8, "dfsdfsfs", add),
    ROW("QLinearAveragePool", 4, 5, "dfsfs", average_pool),
    ROW("QLinearConcat", 5, 255, "fsd", concat),
    ROW("QLinearConv", 8, 9, "dfswfsfsb", conv, .weight_axis = conv_axis),
    ROW("QLinearGlobalAveragePool", 5, 5, "dfsfs", global_pool),
    ROW("QLinearLeakyRelu", 4, 5, "dfsfs", leaky_relu),
    ROW("QLinearMul", 7, 8, "dfsdfsfs", mul),
    ROW("QLinearReduceMean", 4, 5, "dfsfs", reduce_mean),
    ROW("QLinearSigmoid", 4, 5, "dfsfs", sigmoid),
    ROW("QLinearSoftmax", 5, 5, "dfsfs", softmax),
    ROW("QLinearWhere", 9, 9, "sdfsdfsfs", where),
    { 0 },
};
/* clang-format on */

/* cast.c -- Cast, CastLike, BitCast.  Source: the ONNX operator page of the same name.
 * The conversions themselves are util_cast.h.
 *
 * Cast-1      the type by name; 6 and later by number; 19 adds float8 and `saturate`
 * CastLike    the type of input 1, whose data is not read BitCast     the same
 * bytes, types of equal width */
#include "ops/families.h"

#include "ops/util_axis.h"
#include "ops/util_cast.h"

typedef struct cast_param {
    qg_dtype to;
    int64_t saturate; /* float8 targets only */
} cast_param;

/* TensorProto.DataType of strings and complex numbers, for messages. */
static const char *refused_name(int64_t code)
{
    return code == 8    ? "string"
           : code == 14 ? "complex64"
           : code == 15 ? "complex128"
                        : NULL;
}

/* Types of ONNX that quantgraph lacks are unsupported; other numbers are invalid. */
static qg_status read_target(qg_ctx *ctx, const qg_node *n, qg_dtype *to)
{
    int64_t code;
    if (!qg_attr_has(n, "to"))
        return qg_node_fail(ctx, QG_EMODEL, "prepare", n, "attribute to is missing");
    QG_TRY(qg_attr_int(ctx, n, "to", 0, &code));
    *to = qg_dtype_of_onnx(code);
    if (*to != QG_NODTYPE)
        return QG_OK;
    if (refused_name(code))
        return qg_node_fail(ctx, QG_EUNSUPPORTED, "prepare", n,
                            "to is %s, supported: numbers and bool",
                            refused_name(code));
    return qg_node_fail(ctx, QG_EMODEL, "prepare", n,
                        "to is %lld, expected a data type", (long long)code);
}

/* Until opset 5 the type was given by name. */
static qg_status cast_1_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    static const struct {
        const char *name;
        qg_dtype dtype;
    } names[] = {
        {"FLOAT",    QG_F32 },
        { "DOUBLE",  QG_F64 },
        { "FLOAT16", QG_F16 },
        { "INT8",    QG_I8  },
        { "INT16",   QG_I16 },
        { "INT32",   QG_I32 },
        { "INT64",   QG_I64 },
        { "UINT8",   QG_U8  },
        { "UINT16",  QG_U16 },
        { "UINT32",  QG_U32 },
        { "UINT64",  QG_U64 },
        { "BOOL",    QG_BOOL},
    };
    const char *text;
    QG_TRY(qg_attr_string(ctx, n, "to", "", &text));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i].name, text) == 0) {
            *(cast_param *)param = (cast_param){ .to = names[i].dtype, .saturate = 1 };
            return QG_OK;
        }
    return qg_node_fail(
        ctx, QG_EUNSUPPORTED, "prepare", n,
        "to is '%s', supported: FLOAT, DOUBLE, FLOAT16, INTn, UINTn, BOOL", text);
}

/* round_mode concerns E8M0 only; "up" is the default and the only value supported. */
static qg_status like_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    cast_param *p = param;
    const char *mode;
    QG_TRY(qg_attr_int(ctx, n, "saturate", 1, &p->saturate));
    QG_TRY(qg_attr_string(ctx, n, "round_mode", "up", &mode));
    if (strcmp(mode, "up") != 0)
        return qg_node_fail(ctx, QG_EUNSUPPORTED, "prepare", n,
                            "round_mode is '%s', supported: 'up'", mode);
    return QG_OK;
}

static qg_status cast_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    QG_TRY(like_prepare(ctx, n, param));
    return read_target(ctx, n, &((cast_param *)param)->to);
}

static qg_status cast_infer(const qg_call *k)
{
    QG_TRY(qg_check_type(k, 0, QG_DT_ANY));
    return qg_infer_dims(k, ((const cast_param *)k->param)->to, k->in[0]->rank,
                         k->in[0]->dim);
}

static qg_status like_infer(const qg_call *k)
{
    QG_TRY(qg_check_types(k, 0, 1, QG_DT_ANY));
    return qg_infer_dims(k, k->in[1]->dtype, k->in[0]->rank, k->in[0]->dim);
}

/* Equal types are copied, or nothing at all when in place. */
static qg_status cast_run(const qg_call *k)
{
    if (k->in[0]->dtype == k->out[0]->dtype)
        return qg_run_copy(k);
    qg_cast_tensor(k->in[0], k->out[0], ((const cast_param *)k->param)->saturate != 0);
    return QG_OK;
}

/* BitCast: the same bytes read as another type of the same width. */
static qg_status bitcast_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    return read_target(ctx, n, &((cast_param *)param)->to);
}

static qg_status bitcast_infer(const qg_call *k)
{
    const qg_dtype from = k->in[0]->dtype, to = ((const cast_param *)k->param)->to;
    QG_TRY(qg_check_type(k, 0, QG_DT_ANY));
    if (qg_dtype_bits(from) != qg_dtype_bits(to))
        return qg_infer_fail(k, QG_EMODEL, "%s has %u bits, expected %u as %s",
                             qg_dtype_name(from), qg_dtype_bits(from),
                             qg_dtype_bits(to), qg_dtype_name(to));
    return qg_infer_dims(k, to, k->in[0]->rank, k->in[0]->dim);
}

static qg_status bitcast_run(const qg_call *k)
{
    size_t bytes;
    QG_TRY(qg_tensor_bytes(k->ctx, "run", k->in[0], &bytes));
    if (bytes)
        memcpy(k->out[0]->data, k->in[0]->data, bytes);
    return QG_OK;
}

#define CASTS (QG_OP_ELEMENTWISE | QG_OP_PURE | QG_OP_BATCH_FIRST)
#define ROW(onnx, first, last, inputs, id, prep, bits)                                 \
    {                                                                                  \
        .name = onnx, .since = first, .until = last, .min_in = inputs,                 \
        .max_in = inputs, .min_out = 1, .max_out = 1, .in_roles = "ds",                \
        .traits = (bits), .param_size = sizeof(cast_param), .prepare = prep##_prepare, \
        .infer = id##_infer, .run = id##_run                                           \
    }
#define like_run cast_run

/* clang-format off */
const qg_op qg_ops_cast[] = {
    ROW("Cast",      1, 5, 1, cast,    cast_1, CASTS),
    ROW("Cast",      6, 0, 1, cast,    cast,   CASTS),
    ROW("CastLike", 15, 0, 2, like,    like,   CASTS),
    ROW("BitCast",  26, 0, 1, bitcast, bitcast, CASTS | QG_OP_UNDEFINED),
    { 0 },
};
/* clang-format on */

/* constant.c -- Constant and ConstantOfShape.  Source: the ONNX operator pages.
 *
 * Constant is folded on import, so its run serves conformance tests and bodies. */
#include "ops/families.h"

#include "ops/util_broadcast.h"

/* One of the attributes holds the value; `value` is any tensor. */
typedef struct constant_param {
    qg_tensor value; /* data borrowed from the attribute */
} constant_param;

/* The node's only attribute as a tensor. */
static qg_status read_value(qg_ctx *ctx, const qg_node *n, const qg_attr *a,
                            qg_tensor *out)
{
    const int64_t count = (int64_t)a->count;
    switch (a->type) {
    case QG_ATTR_TENSOR:
        *out = *a->tensor;
        return QG_OK;
    case QG_ATTR_FLOAT:
    case QG_ATTR_FLOATS:
        qg_tensor_init(out, QG_F32, a->type == QG_ATTR_FLOATS, &count);
        out->data = (void *)(uintptr_t)a->floats; /* only read */
        return QG_OK;
    case QG_ATTR_INT:
    case QG_ATTR_INTS:
        qg_tensor_init(out, QG_I64, a->type == QG_ATTR_INTS, &count);
        out->data = (void *)(uintptr_t)a->ints;
        return QG_OK;
    default:
        return qg_node_fail(ctx, QG_EUNSUPPORTED, "prepare", n,
                            "attribute %s has type %s, supported: tensor, floats, ints",
                            a->name, qg_attr_type_name(a->type));
    }
}

/* Exactly one of the attributes that can hold a value. */
static qg_status constant_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    static const char *const names[] = { "value",         "value_float", "value_floats",
                                         "value_int",     "value_ints",  "value_string",
                                         "value_strings", "sparse_value" };
    const qg_attr *found = NULL;
    size_t count = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const qg_attr *a = qg_attr_find(n, names[i]);
        count += a != NULL;
        found = a ? a : found;
    }
    if (count != 1)
        return qg_node_fail(ctx, QG_EMODEL, "prepare", n,
                            "%zu attributes hold a value, expected 1", count);
    return read_value(ctx, n, found, &((constant_param *)param)->value);
}

/* The type and dims of the attribute. */
static qg_status constant_infer(const qg_call *k)
{
    const constant_param *p = k->param;
    return qg_infer_dims(k, p->value.dtype, p->value.rank, p->value.dim);
}

static qg_status constant_run(const qg_call *k)
{
    const constant_param *p = k->param;
    qg_call as_copy = *k;
    as_copy.in = (const qg_tensor *const[]){ &p->value };
    as_copy.n_in = 1;
    return qg_run_copy(&as_copy);
}

/* ConstantOfShape: input 0 is the shape, the attribute one element (default 0.0f). */
static const float zero_f32 = 0;

/* Without `value` the element is 0.0f. */
static qg_status fill_prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    constant_param *p = param;
    const qg_tensor *value;
    QG_TRY(qg_attr_tensor(ctx, n, "value", &value));
    qg_tensor_scalar(&p->value, QG_F32);
    p->value.data = (void *)(uintptr_t)&zero_f32; /* only read */
    if (!value)
        return QG_OK;
    if (qg_tensor_count(value) != 1 || qg_dtype_bits(value->dtype) < 8)
        return qg_node_fail(
            ctx, QG_EMODEL, "prepare", n,
            "value has %lld elements of %s, expected one of a type of at "
            "least 8 bits",
            (long long)qg_tensor_count(value), qg_dtype_name(value->dtype));
    p->value = *value;
    return QG_OK;
}

/* The length of the shape gives the rank before its data is known. */
static qg_status fill_infer(const qg_call *k)
{
    const constant_param *p = k->param;
    qg_ints shape;
    if (qg_ints_pending(k, 0)) {
        const int64_t unknown[QG_MAX_RANK] = { -1, -1, -1, -1, -1, -1, -1, -1 };
        const int64_t rank = qg_in_dim(k, 0, 0);
        return qg_infer_dims(k, p->value.dtype, rank > QG_MAX_RANK ? -1 : (int32_t)rank,
                             unknown);
    }
    QG_TRY(qg_ints_input(k, 0, &shape));
    QG_TRY(qg_check_shape(k, &shape));
    return qg_infer_dims(k, p->value.dtype, (int32_t)shape.n, shape.at);
}

/* A walk with steps of 0 through the one element. */
static qg_status fill_run(const qg_call *k)
{
    const constant_param *p = k->param;
    const size_t size = qg_element_size(p->value.dtype);
    qg_walk w;
    qg_walk_init(&w, k->out[0]->rank, k->out[0]->dim);
    qg_walk_add_broadcast(&w, k->out[0]);
    qg_walk_add(&w, (const int64_t[QG_MAX_RANK]){ 0 });
    qg_walk_collapse(&w);
    qg_walk_copy(&w, size, k->out[0]->data, p->value.data);
    return QG_OK;
}

/* clang-format off */
const qg_op qg_ops_constant[] = {
    { .name = "Constant", .since = 1, .min_in = 0, .max_in = 0, .min_out = 1,
      .max_out = 1, .in_roles = "d", .traits = QG_OP_PURE,
      .param_size = sizeof(constant_param), .prepare = constant_prepare,
      .infer = constant_infer, .run = constant_run },
    { .name = "ConstantOfShape", .since = 9, .min_in = 1, .max_in = 1, .min_out = 1,
      .max_out = 1, .in_roles = "s", .traits = QG_OP_PURE,
      .param_size = sizeof(constant_param), .prepare = fill_prepare,
      .infer = fill_infer, .run = fill_run },
    { 0 },
};
/* clang-format on */

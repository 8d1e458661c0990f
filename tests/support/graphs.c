#include "tests/support/graphs.h"

#include "tests/support/test.h"

typedef struct conv_param {
    int64_t group;
} conv_param;

static qg_status prepare_conv(qg_ctx *ctx, const qg_node *n, void *param)
{
    conv_param *p = param;
    QG_TRY(qg_attr_int(ctx, n, "group", 1, &p->group));
    if (p->group < 1)
        return qg_node_fail(ctx, QG_EMODEL, "attributes", n,
                            "group is %lld, expected at least 1", (long long)p->group);
    return QG_OK;
}

static qg_status infer_same(const qg_call *c)
{
    for (size_t i = 0; i < c->n_out; i++)
        if (c->out[i])
            *c->out[i] = *c->in[0];
    return QG_OK;
}

static qg_status infer_shape(const qg_call *c)
{
    if (c->in[0]->rank < 0)
        qg_tensor_unknown(c->out[0], QG_I64);
    else
        qg_tensor_init(c->out[0], QG_I64, 1, &(int64_t){ c->in[0]->rank });
    return QG_OK;
}

static qg_status run_shape(const qg_call *c)
{
    for (int32_t k = 0; k < c->in[0]->rank; k++)
        c->out[0]->i64[k] = c->in[0]->dim[k];
    return QG_OK;
}

static qg_status run_add(const qg_call *c)
{
    int64_t n = qg_tensor_count(c->out[0]);
    for (int64_t i = 0; i < n; i++)
        if (c->out[0]->dtype == QG_I64)
            c->out[0]->i64[i] = c->in[0]->i64[i] + c->in[1]->i64[i];
        else
            c->out[0]->f32[i] = c->in[0]->f32[i] + c->in[1]->f32[i];
    return QG_OK;
}

static qg_status infer_add(const qg_call *c)
{
    if (c->in[0]->rank >= 0 && c->in[1]->rank >= 0 && !qg_same_dims(c->in[0], c->in[1]))
        return qg_node_fail(c->ctx, QG_EMODEL, "infer", c->node,
                            "shapes differ, expected equal ones");
    return infer_same(c);
}

/* Reshape: output dims are the values of input 1, if known. */
static qg_status infer_reshape(const qg_call *c)
{
    const qg_tensor *dims = c->in[1];
    int64_t dim[QG_MAX_RANK];
    if (!dims->data || dims->dim[0] > QG_MAX_RANK) {
        qg_tensor_unknown(c->out[0], c->in[0]->dtype);
        return QG_OK;
    }
    for (int64_t k = 0; k < dims->dim[0]; k++)
        dim[k] = qg_tensor_i64(dims, k);
    qg_tensor_init(c->out[0], c->in[0]->dtype, (int32_t)dims->dim[0], dim);
    return QG_OK;
}

static qg_status infer_unknown(const qg_call *c)
{
    for (size_t i = 0; i < c->n_out; i++)
        if (c->out[i])
            qg_tensor_unknown(c->out[i], QG_F32);
    return QG_OK;
}

#define SIMPLE .min_in = 1, .max_in = 1, .min_out = 1, .max_out = 1, .infer = infer_same
#define BINARY                                                                         \
    .min_in = 2, .max_in = 2, .min_out = 1, .max_out = 1, .infer = infer_add,          \
    .traits = QG_OP_JOIN | QG_OP_ELEMENTWISE | QG_OP_PURE

/* clang-format off */
static const qg_op toys[] = {
    { .name = "Conv", .since = 1, .until = 10, .min_in = 2, .max_in = 2, .min_out = 1,
      .max_out = 1, .infer = infer_unknown, .traits = QG_OP_COMPUTE },
    { .name = "Conv", .since = 11, .min_in = 2, .max_in = 3, .min_out = 1, .max_out = 1,
      .in_roles = "dwb", .traits = QG_OP_COMPUTE | QG_OP_PURE, .infer = infer_unknown,
      .param_size = sizeof(conv_param), .prepare = prepare_conv },
    { .name = "Relu", .since = 6, SIMPLE,
      .traits = QG_OP_ACTIVATION | QG_OP_ELEMENTWISE },
    { .name = "Sigmoid", .since = 6, SIMPLE,
      .traits = QG_OP_ACTIVATION | QG_OP_ELEMENTWISE },
    { .name = "Identity", .since = 1, SIMPLE, .traits = QG_OP_PASSIVE },
    { .name = "Add", .since = 7, BINARY, .run = run_add },
    { .name = "Mul", .since = 7, BINARY },
    { .name = "Concat", .since = 4, .min_in = 1, .max_in = 255, .min_out = 1,
      .max_out = 1, .traits = QG_OP_JOIN, .infer = infer_unknown },
    { .name = "Gather", .since = 1, .min_in = 2, .max_in = 2, .min_out = 1,
      .max_out = 1, .in_roles = "ds", .infer = infer_unknown },
    { .name = "Reshape", .since = 5, .min_in = 2, .max_in = 2, .min_out = 1,
      .max_out = 1, .in_roles = "ds", .infer = infer_reshape, .traits = QG_OP_PASSIVE },
    { .name = "Shape", .since = 1, .min_in = 1, .max_in = 1, .min_out = 1, .max_out = 1,
      .traits = QG_OP_SHAPE | QG_OP_PURE | QG_OP_DIMS_ONLY, .infer = infer_shape,
      .run = run_shape },
    { .name = "Split", .since = 2, .min_in = 1, .max_in = 2, .min_out = 1,
      .max_out = 255, .in_roles = "ds", .traits = QG_OP_PASSIVE,
      .infer = infer_unknown },
    { .name = "If", .since = 1, .min_in = 1, .max_in = 1, .min_out = 1, .max_out = 255,
      .traits = QG_OP_CONTROL, .infer = infer_unknown },
    { .name = "Loop", .since = 1, .min_in = 2, .max_in = 255, .min_out = 1,
      .max_out = 255, .traits = QG_OP_CONTROL, .infer = infer_unknown },
    { .name = "Custom", .domain = "test", .since = 1, .min_in = 0, .max_in = 255,
      .min_out = 0, .max_out = 255, .infer = infer_unknown },
    { 0 },
};
/* clang-format on */

static const qg_op *const families[] = { toys };
const qg_registry toy_registry = { .family = families, .n_family = 1 };

toy toy_new(void)
{
    toy t = { .ctx = qg_ctx_new(qg_alloc_libc) };
    assert_non_null(t.ctx);
    t.ctx->registry = &toy_registry;
    assert_ok(t.ctx, qg_graph_new(t.ctx, "g", &t.g));
    assert_ok(t.ctx,
              qg_vec_push(t.ctx, t.g->arena, &t.g->opset, (qg_opset_import){ "", 13 }));
    assert_ok(t.ctx, qg_vec_push(t.ctx, t.g->arena, &t.g->opset,
                                 (qg_opset_import){ "test", 1 }));
    return t;
}

void toy_free(toy *t)
{
    qg_graph_free(t->g);
    qg_ctx_free(t->ctx);
}

qg_value *toy_value(toy *t, const char *name)
{
    qg_value *v = NULL;
    assert_ok(t->ctx, qg_graph_need_value(t->g, name, &v));
    return v;
}

qg_value *toy_input(toy *t, const char *name, qg_dtype dtype, int32_t rank,
                    const int64_t *dim)
{
    qg_value *v = toy_value(t, name);
    qg_tensor_init(&v->type, dtype, rank, dim);
    assert_ok(t->ctx, qg_graph_mark_input(t->g, v));
    return v;
}

qg_value *toy_constant(toy *t, const char *name, qg_dtype dtype, int32_t rank,
                       const int64_t *dim, const void *data)
{
    qg_value *v = toy_value(t, name);
    qg_tensor *copy = NULL;
    qg_tensor_init(&v->type, dtype, rank, dim);
    qg_tensor whole = v->type;
    whole.data = (void *)(uintptr_t)data;
    assert_ok(t->ctx, qg_tensor_clone(t->ctx, t->g->arena, &whole, &copy));
    v->constant = copy;
    return v;
}

/* Splits "a, b" into values. */
static uint32_t values_of(toy *t, const char *list, qg_value *out[16])
{
    uint32_t n = 0;
    while (*(list += strspn(list, ", "))) {
        char name[64];
        size_t length = strcspn(list, ", ");
        assert_cmp_int(length, <, sizeof name);
        assert_cmp_int(n, <, 16);
        memcpy(name, list, length);
        name[length] = '\0';
        out[n++] = strcmp(name, "_") == 0 ? NULL : toy_value(t, name);
        list += length;
    }
    return n;
}

qg_status toy_try_node(toy *t, const char *op, const char *name, const char *in,
                       const char *out, qg_node **node)
{
    qg_value *ins[16], *outs[16];
    const char *domain = strcmp(op, "Custom") == 0 ? "test" : NULL;
    qg_node_spec spec = { .name = name, .in = ins, .out = outs };
    spec.opset = qg_graph_opset(t->g, domain);
    spec.op = qg_op_find(t->ctx->registry, domain, op, spec.opset);
    assert_non_null(spec.op);
    spec.n_in = values_of(t, in, ins);
    spec.n_out = values_of(t, out, outs);
    return qg_graph_add_node(t->g, &spec, node);
}

qg_node *toy_node(toy *t, const char *op, const char *name, const char *in,
                  const char *out)
{
    qg_node *n = NULL;
    assert_ok(t->ctx, toy_try_node(t, op, name, in, out, &n));
    return n;
}

void toy_output(toy *t, const char *name)
{
    assert_ok(t->ctx, qg_graph_mark_output(t->g, toy_value(t, name)));
}

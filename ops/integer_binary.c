/* integer_binary.c -- IntBinary and IntConcat of domain "quantgraph": operators with
 * several inputs on grids of their own.
 *
 *     IntBinary(a, b)        attribute function: add, sub, multiply, prelu (b holds
 *                            the slopes), squared-difference; broadcast as numpy does
 *     IntConcat(x0, x1, ..)  attribute axis; grids inputs_scale, inputs_zero
 *
 * Arithmetic: number/integer_binary.h, number/integer_rescale.h. */
#include "ops/families.h"

#include <math.h>

#include "engine/number/integer_binary.h"
#include "engine/number/integer_rescale.h"
#include "ops/util_broadcast.h"
#include "ops/util_integer.h"
#include "ops/util_integer_table.h"

static qg_int_dims dims_of(const qg_tensor *t)
{
    qg_int_dims d = { .rank = t->rank };
    for (int32_t i = 0; i < t->rank; i++)
        d.dim[i] = t->dim[i];
    return d;
}

/* -- IntBinary -------------------------------------------------------------------- */

typedef struct int_binary_param {
    qg_recipe recipe;
    int function; /* qg_int_binary_op */
} int_binary_param;

static qg_status prepare_binary(qg_ctx *ctx, const qg_node *n, void *param)
{
    static const char *const functions[] = { "add",      "sub",
                                             "multiply", "squared-difference",
                                             "prelu",    NULL };
    int_binary_param *p = param;
    QG_TRY(qg_recipe_read(ctx, n, &p->recipe));
    return qg_attr_choice(ctx, n, "function", functions, QG_INT_BINARY_ADD,
                          &p->function);
}

static qg_status make(const qg_call *k, qg_int_binary *out)
{
    const int_binary_param *p = k->param;
    const qg_recipe *r = &p->recipe;
    qg_int_binary_spec spec = { .op = (qg_int_binary_op)p->function,
                                .row = &r->row,
                                .a = qg_integer_grid(&r->in[0]),
                                .b = qg_integer_grid(&r->in[1]),
                                .y = qg_integer_grid(&r->out),
                                .range = qg_integer_range(r) };
    return qg_int_binary_prepare(k->ctx, &spec, out);
}

static qg_status infer_binary(const qg_call *k)
{
    const qg_recipe *r = &((const int_binary_param *)k->param)->recipe;
    qg_int_binary b;
    QG_TRY(qg_integer_check_in(k, r, 0, 1));
    QG_TRY(qg_integer_check_in(k, r, 1, 1));
    QG_TRY(qg_integer_check_codes(k, r));
    QG_TRY(make(k, &b));
    return qg_infer_broadcast(k, 0, 2, r->out.dtype);
}

static qg_status run_binary(const qg_call *k)
{
    qg_int_binary b;
    if (qg_elements(k->out[0]) == 0)
        return QG_OK;
    QG_TRY(make(k, &b));
    qg_int_argument x = { dims_of(k->in[0]), k->in[0]->data };
    qg_int_argument y = { dims_of(k->in[1]), k->in[1]->data };
    return qg_int_binary_run(k->ctx, &b, &x, &y, k->out[0]->data);
}

static qg_status compile_binary(qg_compile *c, qg_kernel **out)
{
    const int_binary_param *p = c->node->param;
    const qg_recipe *r = &p->recipe;
    qg_code_range range = qg_integer_range(r);
    float fa = r->in[0].scale[0] / r->out.scale[0];
    float fb = r->in[1].scale[0] / r->out.scale[0];
    bool product = p->function == QG_INT_BINARY_MUL;
    qg_near_pair pair = {
        r->in[0].zero[0],
        r->in[1].zero[0],
        product ? fa * r->in[1].scale[0] : fa,
        p->function == QG_INT_BINARY_SUB ? -fb : fb,
        range.zero,
        range.lo - range.zero,
        range.hi - range.zero,
    };
    bool near =
        product || p->function == QG_INT_BINARY_ADD || p->function == QG_INT_BINARY_SUB;
    near = near && isfinite(pair.fa) && isfinite(pair.fb);
    return qg_integer_compile_pairs(c, near ? &pair : NULL, product, out);
}

/* -- IntConcat -------------------------------------------------------------------- */

typedef struct int_concat_param {
    qg_recipe recipe;
    int64_t axis;
} int_concat_param;

static qg_status prepare_concat(qg_ctx *ctx, const qg_node *n, void *param)
{
    int_concat_param *p = param;
    QG_TRY(qg_recipe_read(ctx, n, &p->recipe));
    return qg_attr_int(ctx, n, "axis", 0, &p->axis);
}

/* Every input and how it comes onto the output's grid; data may be NULL. */
static qg_status inputs_of(const qg_call *k, qg_int_concat_input **out)
{
    const qg_recipe *r = &((const int_concat_param *)k->param)->recipe;
    const qg_stored *all;
    uint32_t n;
    QG_TRY(qg_recipe_read_all(k->ctx, k->node, k->scratch, &all, &n));
    *out = QG_NEWN(k->scratch, n, qg_int_concat_input);
    if (!*out)
        return qg_nomem(k->ctx);
    for (uint32_t i = 0; i < n; i++) {
        const qg_tensor *t = k->in[i];
        qg_rescale_spec spec = { &r->row, qg_integer_grid(&all[i]),
                                 qg_integer_grid(&r->out), qg_integer_range(r) };
        qg_rescale one;
        if (!t || t->dtype != all[i].dtype)
            return qg_infer_fail(k, QG_EMODEL,
                                 "input %u has type %s, expected %s as inputs_type",
                                 (unsigned)i, t ? qg_dtype_name(t->dtype) : "none",
                                 qg_dtype_name(all[i].dtype));
        QG_TRY(qg_rescale_prepare(k->ctx, &spec, &one));
        (*out)[i].grid = spec.x;
        (*out)[i].data = t->data;
        if (t->rank >= 0)
            (*out)[i].dims = dims_of(t);
    }
    return QG_OK;
}

/* Extents along the axis add up; the others agree, as far as they are known. */
static qg_status concat_dims(const qg_call *k, int32_t axis, int64_t dim[QG_MAX_RANK])
{
    int32_t rank = k->in[0]->rank;
    for (int32_t d = 0; d < rank; d++) {
        dim[d] = k->in[0]->dim[d];
        for (size_t i = 1; i < k->n_in; i++) {
            int64_t more = qg_in_dim(k, i, d);
            if (d == axis)
                dim[d] = dim[d] < 0 || more < 0 ? -1 : dim[d] + more;
            else
                QG_TRY(qg_check_dim(k, i, d, dim[d]));
            if (d != axis && dim[d] < 0)
                dim[d] = more;
        }
    }
    return QG_OK;
}

static qg_status infer_concat(const qg_call *k)
{
    const int_concat_param *p = k->param;
    const qg_recipe *r = &p->recipe;
    qg_int_concat_input *in;
    int64_t dim[QG_MAX_RANK];
    int32_t axis, rank = k->in[0] ? k->in[0]->rank : -1;
    QG_TRY(qg_integer_check_codes(k, r));
    QG_TRY(inputs_of(k, &in));
    for (size_t i = 0; i < k->n_in; i++)
        if (k->in[i]->rank < 0)
            return qg_infer_dims(k, r->out.dtype, -1, NULL);
    QG_TRY(qg_check_axis(k, p->axis, rank, &axis));
    for (size_t i = 1; i < k->n_in; i++)
        QG_TRY(qg_check_rank(k, i, rank, rank));
    QG_TRY(concat_dims(k, axis, dim));
    return qg_infer_dims(k, r->out.dtype, rank, dim);
}

static qg_status run_concat(const qg_call *k)
{
    const int_concat_param *p = k->param;
    qg_int_concat_spec spec = { &p->recipe.row, (int32_t)p->axis,
                                qg_integer_grid(&p->recipe.out) };
    qg_int_concat_input *in;
    qg_tensor *y = k->out[0];
    if (qg_elements(y) == 0)
        return QG_OK;
    QG_TRY(inputs_of(k, &in));
    return qg_int_concat_run(k->ctx, &spec, in, k->n_in, y->data);
}

static qg_status compile_concat(qg_compile *c, qg_kernel **out)
{
    const int_concat_param *p = c->node->param;
    qg_call k = qg_compile_call(c);
    int32_t axis;
    QG_TRY(qg_check_axis(&k, p->axis, c->out[0]->rank, &axis));
    return qg_integer_compile_concat(c, axis, out);
}

/* clang-format off */
const qg_op qg_ops_integer_binary[] = {
    { .name = "IntBinary", .domain = "quantgraph", .since = 1, .min_in = 2, .max_in = 2,
      .min_out = 1, .max_out = 1, .in_roles = "d",
      .traits = QG_OP_QUANTIZER | QG_OP_PURE | QG_OP_ELEMENTWISE,
      .param_size = sizeof(int_binary_param), .prepare = prepare_binary,
      .infer = infer_binary, .run = run_binary, .compile = compile_binary },
    { .name = "IntConcat", .domain = "quantgraph", .since = 1, .min_in = 1,
      .max_in = 255, .min_out = 1, .max_out = 1, .in_roles = "d",
      .traits = QG_OP_QUANTIZER | QG_OP_PURE, .param_size = sizeof(int_concat_param),
      .prepare = prepare_concat, .infer = infer_concat, .run = run_concat,
      .compile = compile_concat },
    { 0 },
};
/* clang-format on */

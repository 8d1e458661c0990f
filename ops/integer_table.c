/* integer_table.c -- IntTable and IntSoftmax of domain "quantgraph": functions of
 * codes.
 *
 *     IntTable(x, table)  x of 8 bits; table: 256 codes of the output's type, entry i
 *                         for code lowest + i of x's type
 *     IntSoftmax(x)       attributes axis (-1), beta (1.0).  Form gemmlowp: int8 to the
 *                         grid 1/256, -128.  Form float-table: 8 bits, beta 1
 *
 * Arithmetic: number/integer_exp.h. */
#include "ops/families.h"

#include "engine/number/integer_exp.h"
#include "ops/util_axis.h"
#include "ops/util_cast.h"
#include "ops/util_integer.h"
#include "ops/util_integer_table.h"

/* -- IntTable --------------------------------------------------------------------- */

static qg_status infer_table(const qg_call *k)
{
    const qg_recipe *r = k->param;
    QG_TRY(qg_check_type(k, 0, QG_DT_BYTES));
    QG_TRY(qg_integer_check_codes(k, r));
    QG_TRY(qg_check_vector(k, 1, 256));
    if (k->in[1]->dtype != r->out.dtype)
        return qg_infer_fail(
            k, QG_EMODEL, "input 1 has type %s, expected %s as out0_type",
            qg_dtype_name(k->in[1]->dtype), qg_dtype_name(r->out.dtype));
    return qg_infer_dims(k, r->out.dtype, k->in[0]->rank, k->in[0]->dim);
}

/* The table widened, limits applied. */
typedef struct table {
    int32_t lowest;
    int32_t code[256];
} table;

static void look_up(const void *state, const int32_t *x, int32_t *y, size_t n)
{
    const table *t = state;
    for (size_t i = 0; i < n; i++)
        y[i] = t->code[x[i] - t->lowest];
}

static qg_status run_table(const qg_call *k)
{
    const qg_recipe *r = k->param;
    table t = { .lowest = qg_code_range_of(k->in[0]->dtype, 0).lo };
    qg_codes_load(k->in[1]->dtype, k->in[1]->data, 0, t.code, 256);
    for (int i = 0; i < 256; i++)
        t.code[i] = (int32_t)qg_clamp_i64(t.code[i], r->out.low, r->out.high);
    qg_integer_map(k, look_up, &t);
    return QG_OK;
}

/* -- IntSoftmax ------------------------------------------------------------------- */

typedef struct int_softmax_param {
    qg_recipe recipe;
    int64_t axis;
    float beta;
} int_softmax_param;

static qg_status prepare_softmax(qg_ctx *ctx, const qg_node *n, void *param)
{
    int_softmax_param *p = param;
    QG_TRY(qg_recipe_read(ctx, n, &p->recipe));
    QG_TRY(qg_attr_int(ctx, n, "axis", -1, &p->axis));
    return qg_attr_float(ctx, n, "beta", 1, &p->beta);
}

/* The output grid of the fixed-point form is part of its arithmetic. */
static qg_status check_fixed(const qg_call *k, const qg_recipe *r)
{
    qg_dtype type = r->out.dtype;
    int32_t zero = type == QG_I8 ? -128 : 0;
    if ((type == QG_I8 || type == QG_U8) && r->in[0].dtype == type &&
        r->out.scale[0] == 0x1p-8f && r->out.zero[0] == zero)
        return QG_OK;
    return qg_infer_fail(k, QG_EUNSUPPORTED,
                         "%s to %s %g, %d, expected int8 to int8 0.00390625, -128 or "
                         "uint8 to uint8 0.00390625, 0",
                         qg_dtype_name(r->in[0].dtype), qg_dtype_name(r->out.dtype),
                         (double)r->out.scale[0], (int)r->out.zero[0]);
}

/* Either form, for rows of `length` codes. */
typedef struct softmax {
    bool fixed;
    int32_t exp[256]; /* kept by by_shift */
    qg_int_softmax by_shift;
    qg_int_softmax_table by_table;
} softmax;

static qg_status softmax_of(const qg_call *k, int64_t length, softmax *s)
{
    const int_softmax_param *p = k->param;
    const qg_recipe *r = &p->recipe;
    s->fixed = r->row.form == QG_FORM_GEMMLOWP;
    if (!s->fixed)
        return qg_int_softmax_table_make(k->ctx, qg_integer_grid(&r->in[0]),
                                         qg_integer_grid(&r->out), (size_t)length,
                                         &s->by_table);
    return qg_int_softmax_prepare(k->ctx, (qg_requant_scheme)r->row.requant.scheme,
                                  r->in[0].scale[0], p->beta, 8, &s->by_shift);
}

static qg_status infer_softmax(const qg_call *k)
{
    const int_softmax_param *p = k->param;
    const qg_recipe *r = &p->recipe;
    int32_t axis;
    softmax s;
    QG_TRY(qg_integer_check_in(k, r, 0, 1));
    QG_TRY(qg_integer_check_codes(k, r));
    QG_TRY(qg_check_type(k, 0, QG_DT_BYTES));
    QG_TRY(
        qg_integer_check_form(k, r, 1 << QG_FORM_GEMMLOWP | 1 << QG_FORM_FLOAT_TABLE));
    if (r->row.form == QG_FORM_GEMMLOWP)
        QG_TRY(check_fixed(k, r));
    else if (p->beta != 1)
        return qg_infer_fail(k, QG_EUNSUPPORTED,
                             "beta %g with form float-table, "
                             "expected 1",
                             (double)p->beta);
    if (k->in[0]->rank >= 0)
        QG_TRY(qg_check_axis(k, p->axis, k->in[0]->rank, &axis));
    QG_TRY(softmax_of(k, 1, &s));
    return qg_infer_dims(k, r->out.dtype, k->in[0]->rank, k->in[0]->dim);
}

/* The fixed-point form gives int8; uint8 codes are 128 higher. */
static qg_status softmax_row(const qg_call *k, const softmax *s, qg_dtype type,
                             int32_t *row, size_t n)
{
    if (!s->fixed) {
        qg_int_softmax_table_row(&s->by_table, row, row, n);
        return QG_OK;
    }
    QG_TRY(qg_int_softmax_row(k->ctx, &s->by_shift, row, row, n));
    for (size_t i = 0; i < n && type == QG_U8; i++)
        row[i] += 128;
    return QG_OK;
}

static qg_status axis_of(const qg_call *k, int32_t *out)
{
    const int_softmax_param *p = k->param;
    return qg_check_axis(k, p->axis, k->in[0]->rank, out);
}

/* Rows along the axis are gathered, computed and put back. */
static qg_status run_rows(const softmax *s, const qg_call *k)
{
    const qg_recipe *r = &((const int_softmax_param *)k->param)->recipe;
    const qg_tensor *x = k->in[0], *y = k->out[0];
    int32_t axis;
    QG_TRY(axis_of(k, &axis));
    qg_around a = qg_around_axis(x, axis);
    size_t length = (size_t)a.middle, step = (size_t)a.inner, n = qg_elements(x);
    size_t piece = step == 1 ? length : 1; /* codes that lie side by side */
    int32_t *row = QG_NEWN(k->scratch, length, int32_t);
    if (!row)
        return qg_nomem(k->ctx);
    for (size_t o = 0; o < n / length; o++) {
        size_t first = o / step * length * step + o % step;
        for (size_t i = 0; i < length; i += piece)
            qg_codes_load(x->dtype, x->data, first + i * step, row + i, piece);
        QG_TRY(softmax_row(k, s, r->out.dtype, row, length));
        qg_integer_limit(r, row, length);
        for (size_t i = 0; i < length; i += piece)
            qg_codes_store(y->dtype, row + i, y->data, first + i * step, piece);
    }
    return QG_OK;
}

static qg_status run_softmax(const qg_call *k)
{
    softmax s;
    int32_t axis;
    if (qg_elements(k->in[0]) == 0)
        return QG_OK;
    QG_TRY(axis_of(k, &axis));
    QG_TRY(softmax_of(k, k->in[0]->dim[axis], &s));
    return run_rows(&s, k);
}

static qg_status run_kept(const qg_kernel *kernel, const qg_call *k)
{
    return run_rows(kernel->state, k);
}

/* Rows of two codes: results depend on their difference alone. */
enum { DIFFERENCES = 511 };
typedef struct two_codes {
    uint8_t first[DIFFERENCES]; /* the result for the first code, by first - second */
} two_codes;

static qg_status run_two(const qg_kernel *kernel, const qg_call *k)
{
    const two_codes *s = kernel->state;
    const uint8_t *x = k->in[0]->u8, flip = k->in[0]->dtype == QG_I8 ? 0x80 : 0;
    uint8_t *y = k->out[0]->u8;
    for (size_t i = 0, n = qg_elements(k->in[0]); i < n; i += 2) {
        int d = (x[i] ^ flip) - (x[i + 1] ^ flip);
        y[i] = s->first[DIFFERENCES / 2 + d];
        y[i + 1] = s->first[DIFFERENCES / 2 - d];
    }
    return QG_OK;
}

static qg_status fill_two(const softmax *s, const qg_call *k, two_codes *out)
{
    const qg_recipe *r = &((const int_softmax_param *)k->param)->recipe;
    const int32_t lowest = qg_code_range_of(r->in[0].dtype, 0).lo;
    for (int d = -(DIFFERENCES / 2); d <= DIFFERENCES / 2; d++) {
        int32_t row[2] = { lowest + (d > 0 ? d : 0), lowest - (d < 0 ? d : 0) };
        QG_TRY(softmax_row(k, s, r->out.dtype, row, 2));
        qg_integer_limit(r, row, 1);
        out->first[DIFFERENCES / 2 + d] = (uint8_t)row[0];
    }
    return QG_OK;
}

/* The definition with its exponentials, or with all results of two codes along the last
 * axis, computed once, when the plan is made. */
static qg_status compile_softmax(qg_compile *c, qg_kernel **out)
{
    qg_call call = qg_compile_call(c);
    const qg_tensor *x = c->in[0];
    int32_t axis;
    *out = NULL;
    if (qg_elements(x) == 0)
        return QG_OK;
    qg_kernel *k = QG_NEW(c->arena, qg_kernel);
    softmax *s = QG_NEW(c->arena, softmax);
    two_codes *two = QG_NEW(c->arena, two_codes);
    if (!k || !s || !two)
        return qg_nomem(c->ctx);
    QG_TRY(axis_of(&call, &axis));
    QG_TRY(softmax_of(&call, x->dim[axis], s));
    if (s->fixed)
        qg_int_softmax_keep(&s->by_shift, s->exp);
    *k = (qg_kernel){ .run = run_kept, .state = s, .name = "kept exponentials" };
    if (x->dim[axis] == 2 && axis == x->rank - 1 && qg_elements(x) > DIFFERENCES &&
        QG_DT_HAS(QG_DT_BYTES, c->out[0]->dtype)) {
        *k =
            (qg_kernel){ .run = run_two, .state = two, .name = "table of differences" };
    }
    *out = k;
    return k->state == two ? fill_two(s, &call, two) : QG_OK;
}

/* clang-format off */
const qg_op qg_ops_integer_table[] = {
    { .name = "IntTable", .domain = "quantgraph", .since = 1, .min_in = 2, .max_in = 2,
      .min_out = 1, .max_out = 1, .in_roles = "ds",
      .traits = QG_OP_QUANTIZER | QG_OP_PURE | QG_OP_BATCH_FIRST,
      .param_size = sizeof(qg_recipe), .prepare = qg_integer_prepare,
      .infer = infer_table, .run = run_table, .compile = qg_integer_compile_codes },
    { .name = "IntSoftmax", .domain = "quantgraph", .since = 1, .min_in = 1,
      .max_in = 1, .min_out = 1, .max_out = 1, .in_roles = "d",
      .traits = QG_OP_QUANTIZER | QG_OP_PURE,
      .param_size = sizeof(int_softmax_param), .prepare = prepare_softmax,
      .infer = infer_softmax, .run = run_softmax, .compile = compile_softmax },
    { 0 },
};
/* clang-format on */

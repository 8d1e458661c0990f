/* softmax.c -- Softmax, LogSoftmax, Hardmax.
 *
 * Until opset 12 the input is viewed as a matrix [dims before axis, dims from axis on]
 * (default axis 1) and whole rows are normalized; since 13 only along axis (default
 * -1).  Source: the ONNX operator page of the same name. */
#include "ops/families.h"

#include <math.h>

#include "engine/number/integer_exp.h"
#include "ops/util_axis.h"
#include "ops/util_backward.h"
#include "ops/util_cast.h"
#include "ops/util_lower.h"
#include "ops/util_vector.h"

typedef struct softmax_param {
    int64_t axis;
} softmax_param;

/* One run of n elements, `step` apart, in x and y. */
typedef void (*softmax_row)(const void *x, void *y, int64_t n, int64_t step);

/* The default axis changed with the semantics. */
static qg_status prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    return qg_attr_int(ctx, n, "axis", n->op->since < 13 ? 1 : -1,
                       &((softmax_param *)param)->axis);
}

/* The runs: [outer, middle, inner], each run along the middle. */
static qg_status runs_of(const qg_call *k, qg_around *a)
{
    const qg_tensor *x = k->in[0];
    const int64_t axis = ((const softmax_param *)k->param)->axis;
    const bool matrix = k->node->op->since < 13;
    int32_t at;
    *a = (qg_around){ 1, 1, 1 };
    if (x->rank == 0 && (axis == 0 || axis == -1)) /* accepted by other runtimes */
        return QG_OK;
    if (matrix && axis == x->rank) /* rows of one element */
        a->outer = qg_dims_product(x, 0, x->rank);
    if (matrix && axis == x->rank)
        return QG_OK;
    QG_TRY(qg_check_axis(k, axis, x->rank, &at));
    *a = qg_around_axis(x, at);
    if (matrix) {
        a->middle = qg_dims_product(x, at, x->rank);
        a->inner = 1;
    }
    return QG_OK;
}

/* Those before the axis: rows of one slice. */
static uint32_t free_axes(const qg_call *k)
{
    const int64_t axis = ((const softmax_param *)k->param)->axis;
    const int32_t rank = k->out[0]->rank;
    return ((uint32_t)1 << (axis < 0 ? axis + rank : axis)) - 1;
}

/* Shape and type of the input. */
static qg_status infer(const qg_call *k)
{
    qg_around a;
    QG_TRY(qg_check_type(k, 0, QG_DT_FLOATS));
    if (qg_tensor_known(k->in[0]))
        QG_TRY(runs_of(k, &a));
    return qg_infer_same(k);
}

/* float64 and Hardmax; float32 has vector loops.  The maximum is subtracted first to
 * avoid overflow. */
static double largest(const double *x, int64_t n, int64_t step)
{
    double m = x[0];
    for (int64_t i = 1; i < n; i++)
        m = x[i * step] > m || x[i * step] != x[i * step] ? x[i * step] : m;
    return m;
}

static double exp_sum(const double *x, double m, int64_t n, int64_t step)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += exp(x[i * step] - m);
    return sum;
}

static void softmax_f64(const void *px, void *py, int64_t n, int64_t step)
{
    const double *x = px, m = largest(x, n, step), by = 1 / exp_sum(x, m, n, step);
    for (int64_t i = 0; i < n; i++)
        ((double *)py)[i * step] = exp(x[i * step] - m) * by;
}

static void log_softmax_f64(const void *px, void *py, int64_t n, int64_t step)
{
    const double *x = px, m = largest(x, n, step), by = log(exp_sum(x, m, n, step));
    for (int64_t i = 0; i < n; i++)
        ((double *)py)[i * step] = x[i * step] - m - by;
}

/* 1 at the first of the largest, else 0. */
#define HARDMAX(suffix, T)                                                             \
    static void hardmax_##suffix(const void *px, void *py, int64_t n, int64_t step)    \
    {                                                                                  \
        const T *x = px;                                                               \
        T *y = py;                                                                     \
        int64_t best = 0;                                                              \
        for (int64_t i = 1; i < n; i++)                                                \
            best = x[i * step] > x[best * step] ? i : best;                            \
        for (int64_t i = 0; i < n; i++)                                                \
            y[i * step] = i == best;                                                   \
    }
HARDMAX(f32, float)
HARDMAX(f64, double)

static qg_status run_rows(const qg_call *k, softmax_row on_f32, softmax_row on_f64)
{
    const qg_tensor *x = k->in[0];
    const size_t size = qg_element_size(x->dtype);
    qg_around a;
    if (QG_DT_HAS(QG_DT_HALVES, x->dtype))
        return qg_run_as(k, QG_DT_HALVES, QG_F32, k->node->op->run);
    QG_TRY(runs_of(k, &a));
    for (int64_t o = 0; o < a.outer && a.middle > 0; o++)
        for (int64_t i = 0; i < a.inner; i++) {
            const size_t at = (size_t)(o * a.middle * a.inner + i) * size;
            (x->dtype == QG_F32 ? on_f32 : on_f64)((const char *)x->data + at,
                                                   (char *)k->out[0]->data + at,
                                                   a.middle, a.inner);
        }
    return QG_OK;
}

/* float32 uses the vector loops, other types run row by row. */
static qg_status run_exp(const qg_call *k, bool log, softmax_row on_f64)
{
    qg_around a;
    if (k->in[0]->dtype != QG_F32)
        return run_rows(k, NULL, on_f64);
    QG_TRY(runs_of(k, &a));
    const qg_softmax_shape shape = { a.outer, a.middle, a.inner, log };
    if (a.middle > 0)
        qg_vector_best()->softmax(&shape, k->in[0]->f32, k->out[0]->f32);
    return QG_OK;
}

static qg_status softmax_run(const qg_call *k)
{
    return run_exp(k, false, softmax_f64);
}

static qg_status log_softmax_run(const qg_call *k)
{
    return run_exp(k, true, log_softmax_f64);
}

static qg_status hardmax_run(const qg_call *k)
{
    return run_rows(k, hardmax_f32, hardmax_f64);
}

/* Before opset 13 a row goes on behind its axis, but for the last one.  Fixed point is
 * that of a runtime which has the last axis alone. */
static qg_status lower_softmax(qg_lower *l)
{
    const softmax_param *p = l->node->param;
    int32_t rank = l->node->in[0]->type.rank;
    bool last = p->axis == -1 || p->axis == rank - 1;
    const qg_profile_row *row = qg_lower_row(l, QG_USE_SOFTMAX);
    if (!row)
        return QG_OK;
    int64_t n = l->node->in[0]->type.dim[p->axis < 0 ? p->axis + rank : p->axis];
    if (row->snapshot_scale > 0 && l->snapshot && l->out[0].codes &&
        !qg_int_softmax_table_is_exact(l->out[0].scale[0], row->snapshot_scale, n))
        return qg_lower_refuse(l,
                               "row %s is for output scales 1/n, n whole and up to %g, "
                               "and rows of several elements, and it is %g, of %lld: "
                               "qg export keeps the operator in float",
                               row->id, 1 / (double)row->snapshot_scale,
                               (double)l->out[0].scale[0], (long long)n);
    if (!last && (l->node->op->since < 13 || row->form != QG_FORM_FLOAT_TABLE))
        return qg_lower_refuse(l, "axis %lld, expected the last one",
                               (long long)p->axis);
    QG_TRY(qg_lower_set_int(l, "axis", last ? -1 : p->axis));
    return qg_lower_all(l, "IntSoftmax", QG_USE_SOFTMAX, 1);
}
#define lower_log_softmax NULL
#define lower_hardmax     NULL

/* With s the sum of y g along a run (of g, for the logarithm): y (g - s), g - e^y s. */
static qg_status backward(const qg_backward *b, bool log)
{
    const float *y = b->call->out[0]->f32, *g = b->out[0]->f32;
    qg_around a;
    QG_TRY(runs_of(b->call, &a));
    for (int64_t r = 0; r < a.outer * a.inner; r++) {
        const int64_t first = r / a.inner * a.middle * a.inner + r % a.inner;
        double sum = 0;
        for (int64_t i = first, n = 0; n < a.middle; n++, i += a.inner)
            sum += (double)g[i] * (log ? 1 : (double)y[i]);
        for (int64_t i = first, n = 0; n < a.middle; n++, i += a.inner)
            b->in[0]->f32[i] = (float)(log ? (double)g[i] - exp((double)y[i]) * sum
                                           : (double)y[i] * ((double)g[i] - sum));
    }
    return QG_OK;
}

static qg_status softmax_backward(const qg_backward *b) { return backward(b, false); }
static qg_status log_softmax_backward(const qg_backward *b)
{
    return backward(b, true);
}
#define hardmax_backward NULL

#define ROW(onnx, first, last, id)                                                     \
    {                                                                                  \
        .name = onnx, .since = first, .until = last, .min_in = 1, .max_in = 1,         \
        .min_out = 1, .max_out = 1, .in_roles = "d",                                   \
        .traits = QG_OP_PURE | QG_OP_BATCH_FIRST | QG_OP_SHARES,                       \
        .param_size = sizeof(softmax_param), .prepare = prepare, .infer = infer,       \
        .run = id##_run, .free_axes = free_axes, .in_place = 1, .lower = lower_##id,   \
        .backward = id##_backward                                                      \
    }

/* clang-format off */
const qg_op qg_ops_softmax[] = {
    ROW("Softmax",    1, 12, softmax),     ROW("Softmax",    13, 0, softmax),
    ROW("LogSoftmax", 1, 12, log_softmax), ROW("LogSoftmax", 13, 0, log_softmax),
    ROW("Hardmax",    1, 12, hardmax),     ROW("Hardmax",    13, 0, hardmax),
    { 0 },
};
/* clang-format on */

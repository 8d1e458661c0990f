/* softmax.c -- Softmax, LogSoftmax, Hardmax.
 *
 * Until opset 12 the input is seen as a matrix [dims before axis, dims from axis on]
 * (default axis 1) and whole rows are normalized; since 13 only along axis (default
 * -1).  Source: the ONNX operator page of the same name. */
#include "ops/families.h"

#include <tgmath.h>

#include "ops/util_axis.h"
#include "ops/util_cast.h"
#include "ops/util_math.h"
#include "ops/util_span.h"

typedef struct softmax_param {
    int64_t axis;
} softmax_param;

/* Rows of n elements, one after the other. */
typedef void (*softmax_rows)(const void *x, void *y, size_t n, size_t rows);

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
    if (x->rank == 0 && (axis == 0 || axis == -1)) /* what other runtimes accept */
        return QG_OK;
    if (matrix && axis == x->rank) /* rows of one element */
        a->outer = qg_dims_product(x, 0, x->rank);
    if (matrix && axis == x->rank)
        return QG_OK;
    QG_TRY(qg_check_axis(k, axis, x->rank, &at));
    *a = qg_around_axis(x, at);
    if (matrix) {
        a->middle *= a->inner;
        a->inner = 1;
    }
    return QG_OK;
}

static qg_status infer(const qg_call *k)
{
    qg_around a;
    QG_TRY(qg_check_type(k, 0, QG_DT_FLOATS));
    if (qg_tensor_known(k->in[0]))
        QG_TRY(runs_of(k, &a));
    return qg_infer_same(k);
}

enum {
    LANES = 8,    /* independent partial results: lets the loops vectorise */
    GROUP = 2048, /* elements that stay in the first cache between two loops */
};

static void exp_all_f32(float *y, size_t n) { qg_span_best()->exp_f32(y, y, n); }

static void exp_all_f64(double *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = exp(y[i]);
}

/* Rows of n > 0 elements; x and y may be the same.  The maximum is taken away first, so
 * that nothing overflows; sums in double, in an order that only depends on n.  A NaN
 * may be passed over by the maximum; it comes back in the sum. */
#define KERNELS(suffix, T)                                                             \
    static T largest_##suffix(const T *x, size_t n)                                    \
    {                                                                                  \
        T m[LANES];                                                                    \
        for (size_t j = 0; j < LANES; j++)                                             \
            m[j] = x[j < n ? j : 0];                                                   \
        for (size_t i = 0; i + LANES <= n; i += LANES)                                 \
            for (size_t j = 0; j < LANES; j++)                                         \
                m[j] = x[i + j] > m[j] ? x[i + j] : m[j];                              \
        for (size_t i = n - n % LANES; i < n; i++)                                     \
            m[0] = x[i] > m[0] ? x[i] : m[0];                                          \
        for (size_t j = 1; j < LANES; j++)                                             \
            m[0] = m[j] > m[0] ? m[j] : m[0];                                          \
        return m[0];                                                                   \
    }                                                                                  \
    static double sum_##suffix(const T *x, size_t n)                                   \
    {                                                                                  \
        double s[LANES] = { 0 };                                                       \
        for (size_t i = 0; i + LANES <= n; i += LANES)                                 \
            for (size_t j = 0; j < LANES; j++)                                         \
                s[j] += (double)x[i + j];                                              \
        for (size_t i = n - n % LANES; i < n; i++)                                     \
            s[0] += (double)x[i];                                                      \
        for (size_t j = 1; j < LANES; j++)                                             \
            s[0] += s[j];                                                              \
        return s[0];                                                                   \
    }                                                                                  \
    /* exp runs over many short rows at once */                                        \
    static void softmax_##suffix(const void *px, void *py, size_t n, size_t rows)      \
    {                                                                                  \
        const size_t group = n < GROUP ? GROUP / n : 1;                                \
        for (size_t first = 0; first < rows; first += group) {                         \
            const size_t count = rows - first < group ? rows - first : group;          \
            const T *x = (const T *)px + first * n;                                    \
            T *y = (T *)py + first * n;                                                \
            for (size_t r = 0; r < count; r++) {                                       \
                const T m = largest_##suffix(x + r * n, n);                            \
                for (size_t i = 0; i < n; i++)                                         \
                    y[r * n + i] = x[r * n + i] - m;                                   \
            }                                                                          \
            exp_all_##suffix(y, count *n);                                             \
            for (size_t r = 0; r < count; r++) {                                       \
                const T by = (T)(1 / sum_##suffix(y + r * n, n));                      \
                for (size_t i = 0; i < n; i++)                                         \
                    y[r * n + i] *= by;                                                \
            }                                                                          \
        }                                                                              \
    }                                                                                  \
    static void log_softmax_##suffix(const void *px, void *py, size_t n, size_t rows)  \
    {                                                                                  \
        const T *x = px;                                                               \
        T *y = py;                                                                     \
        for (; rows > 0; rows--, x += n, y += n) {                                     \
            const T m = largest_##suffix(x, n);                                        \
            double sum = 0;                                                            \
            for (size_t i = 0; i < n; i++)                                             \
                sum += (double)QG_EXP(x[i] - m);                                       \
            const T shift = (T)log(sum);                                               \
            for (size_t i = 0; i < n; i++)                                             \
                y[i] = x[i] - m - shift;                                               \
        }                                                                              \
    }                                                                                  \
    /* 1 at the first of the largest, else 0 */                                        \
    static void hardmax_##suffix(const void *px, void *py, size_t n, size_t rows)      \
    {                                                                                  \
        const T *x = px;                                                               \
        T *y = py;                                                                     \
        for (; rows > 0; rows--, x += n, y += n) {                                     \
            size_t best = 0;                                                           \
            for (size_t i = 1; i < n; i++)                                             \
                best = x[i] > x[best] ? i : best;                                      \
            for (size_t i = 0; i < n; i++)                                             \
                y[i] = i == best;                                                      \
        }                                                                              \
    }
KERNELS(f32, float)
KERNELS(f64, double)

/* Elements of `size` bytes, from_step and to_step elements apart. */
static void copy_line(const char *from, int64_t from_step, char *to, int64_t to_step,
                      const int64_t n_size[2])
{
    const int64_t n = n_size[0], size = n_size[1];
    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * to_step * size, from + i * from_step * size, (size_t)size);
}

static qg_status run_rows(const qg_call *k, softmax_rows on_f32, softmax_rows on_f64)
{
    const qg_tensor *x = k->in[0];
    const size_t size = qg_element_size(x->dtype);
    const softmax_rows rows = x->dtype == QG_F32 ? on_f32 : on_f64;
    const char *from = x->data;
    char *to = k->out[0]->data;
    qg_around a;
    if (QG_DT_HAS(QG_DT_HALVES, x->dtype))
        return qg_run_as(k, QG_DT_HALVES, QG_F32, k->node->op->run);
    QG_TRY(runs_of(k, &a));
    if (qg_elements(x) == 0)
        return QG_OK;
    if (a.inner == 1) {
        rows(from, to, (size_t)a.middle, (size_t)a.outer);
        return QG_OK;
    }
    char *line = qg_arena_raw(k->scratch, (size_t)a.middle, size);
    if (!line)
        return qg_nomem(k->ctx);
    const int64_t n_size[2] = { a.middle, (int64_t)size };
    for (int64_t i = 0; i < a.outer * a.inner; i++) {
        const int64_t first = i / a.inner * a.middle * a.inner + i % a.inner;
        copy_line(from + first * n_size[1], a.inner, line, 1, n_size);
        rows(line, line, (size_t)a.middle, 1);
        copy_line(line, 1, to + first * n_size[1], a.inner, n_size);
    }
    return QG_OK;
}

static qg_status softmax_run(const qg_call *k)
{
    return run_rows(k, softmax_f32, softmax_f64);
}

static qg_status log_softmax_run(const qg_call *k)
{
    return run_rows(k, log_softmax_f32, log_softmax_f64);
}

static qg_status hardmax_run(const qg_call *k)
{
    return run_rows(k, hardmax_f32, hardmax_f64);
}

#define ROW(onnx, first, last, id)                                                     \
    {                                                                                  \
        .name = onnx, .since = first, .until = last, .min_in = 1, .max_in = 1,         \
        .min_out = 1, .max_out = 1, .in_roles = "d",                                   \
        .traits = QG_OP_PURE | QG_OP_BATCH_FIRST, .param_size = sizeof(softmax_param), \
        .prepare = prepare, .infer = infer, .run = id##_run                            \
    }

/* clang-format off */
const qg_op qg_ops_softmax[] = {
    ROW("Softmax",    1, 12, softmax),     ROW("Softmax",    13, 0, softmax),
    ROW("LogSoftmax", 1, 12, log_softmax), ROW("LogSoftmax", 13, 0, log_softmax),
    ROW("Hardmax",    1, 12, hardmax),     ROW("Hardmax",    13, 0, hardmax),
    { 0 },
};
/* clang-format on */

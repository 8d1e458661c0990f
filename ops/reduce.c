/* reduce.c -- ReduceSum, Mean, Max, Min, Prod, L1, L2, SumSquare, LogSum, LogSumExp.
 *
 * The input is walked once in memory order; an accumulator array of the output's size
 * collects.  Floats accumulate in double and in a fixed order, so results are
 * reproducible.  Integers wrap.  Source: the ONNX operator page of the same name.
 *
 * Mean of float32 rows or columns adds as ONNX Runtime does, bit for bit: means of
 * values on a grid are often ties, where the order of the sum decides the following
 * rounding.  Source: Eigen 3.4 Redux.h, 4 lanes; verified against onnxruntime 1.31.
 * The compiled kernel adds rows as OpenVINO's CPU plugin does with AVX-512, for the
 * same reason: determined by experiments with 2026.4.1.
 *
 * Opsets  axes are an attribute until 12 (ReduceSum) or 17 (the others), then input
 * 1; noop_with_empty_axes since then; 20: booleans for Max and Min. */
#include "ops/families.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "ops/util_backward.h"
#include "ops/util_broadcast.h"
#include "ops/util_cast.h"
#include "ops/util_lower.h"
#include "ops/util_vector.h"

enum { LANES = 8 }; /* independent sums within a row: lets it vectorise */

/* One reduction over one element type; acc holds accumulators of acc_size bytes. */
typedef struct reducer {
    size_t acc_size;
    void (*start)(void *acc, size_t n);
    void (*step)(void *acc, bool one, const void *x, int64_t n); /* one: into acc[0] */
    void (*finish)(const void *acc, void *y, size_t n, double count);
} reducer;

/* s = COMBINE(s, MAP(x)) from `identity`; y = FINISH(s, count). */
#define REDUCER(id, suffix, T, A, identity, COMBINE, MAP, FINISH)                      \
    static void id##_##suffix##_start(void *acc, size_t n)                             \
    {                                                                                  \
        for (size_t i = 0; i < n; i++)                                                 \
            ((A *)acc)[i] = identity;                                                  \
    }                                                                                  \
    static void id##_##suffix##_step(void *acc, bool one, const void *px, int64_t n)   \
    {                                                                                  \
        const T *x = px;                                                               \
        A *s = acc, lane[LANES];                                                       \
        int64_t i = 0;                                                                 \
        if (!one) {                                                                    \
            for (; i < n; i++)                                                         \
                s[i] = COMBINE(s[i], MAP(x[i]));                                       \
            return;                                                                    \
        }                                                                              \
        for (int j = 0; j < LANES; j++)                                                \
            lane[j] = identity;                                                        \
        for (; i + LANES <= n; i += LANES)                                             \
            for (int j = 0; j < LANES; j++)                                            \
                lane[j] = COMBINE(lane[j], MAP(x[i + j]));                             \
        for (int j = 0; i < n; i++, j++)                                               \
            lane[j] = COMBINE(lane[j], MAP(x[i]));                                     \
        for (int j = 0; j < LANES; j++)                                                \
            s[0] = COMBINE(s[0], lane[j]);                                             \
    }                                                                                  \
    static void id##_##suffix##_finish(const void *acc, void *y, size_t n,             \
                                       double count)                                   \
    {                                                                                  \
        const A *s = acc;                                                              \
        (void)count;                                                                   \
        for (size_t i = 0; i < n; i++)                                                 \
            ((T *)y)[i] = (T)FINISH(s[i], count);                                      \
    }                                                                                  \
    static const reducer id##_##suffix = { sizeof(A), id##_##suffix##_start,           \
                                           id##_##suffix##_step,                       \
                                           id##_##suffix##_finish };

/* clang-format off */
#define PLUS(a, b)  ((a) + (b))
#define TIMES(a, b) ((a) * (b))
/* a NaN on either side wins; | makes no branch */
#define MAX(a, b)   ((((a) > (b)) | ((a) != (a))) ? (a) : (b))
#define MIN(a, b)   ((((a) < (b)) | ((a) != (a))) ? (a) : (b))
#define REAL(x)     ((double)(x))
#define WHOLE(x)    ((uint64_t)(x))
#define SAME(x)     (x)
#define SQUARE_R(x) (REAL(x) * REAL(x))
#define SQUARE_W(x) (WHOLE(x) * WHOLE(x))
#define ABS_R(x)    fabs(REAL(x))
#define ABS_W(x)    ((x) < 1 ? 0 - WHOLE(x) : WHOLE(x))
#define AS_IS(s, count)   (s)
#define AVERAGE(s, count) ((s) / (count))
#define ROOT(s, count)    sqrt(s)
#define LOG(s, count)     log(s)

#define ON_REALS(id, identity, combine, map, finish)                                   \
    REDUCER(id, f32, float, double, identity, combine, map, finish)                    \
    REDUCER(id, f64, double, double, identity, combine, map, finish)
#define ON_INTS(id, identity, combine, map)                                            \
    QG_EACH_INT(REDUCER, id, uint64_t, identity, combine, map, AS_IS)

ON_REALS(sum, 0, PLUS, REAL, AS_IS)          ON_INTS(sum, 0, PLUS, WHOLE)
ON_REALS(square, 0, PLUS, SQUARE_R, AS_IS)   ON_INTS(square, 0, PLUS, SQUARE_W)
ON_REALS(l1, 0, PLUS, ABS_R, AS_IS)          ON_INTS(l1, 0, PLUS, ABS_W)
ON_REALS(prod, 1, TIMES, REAL, AS_IS)        ON_INTS(prod, 1, TIMES, WHOLE)
ON_REALS(mean, 0, PLUS, REAL, AVERAGE)
ON_REALS(l2, 0, PLUS, SQUARE_R, ROOT)
ON_REALS(logsum, 0, PLUS, REAL, LOG)

#define EXTREME(id, combine, float_identity, END)                                      \
    REDUCER(id, f32, float, float, float_identity, combine, SAME, AS_IS)               \
    REDUCER(id, f64, double, double, float_identity, combine, SAME, AS_IS)             \
    REDUCER(id, i8, int8_t, int8_t, INT8_##END, combine, SAME, AS_IS)                  \
    REDUCER(id, u8, uint8_t, uint8_t, UINT8_##END, combine, SAME, AS_IS)               \
    REDUCER(id, i16, int16_t, int16_t, INT16_##END, combine, SAME, AS_IS)              \
    REDUCER(id, u16, uint16_t, uint16_t, UINT16_##END, combine, SAME, AS_IS)           \
    REDUCER(id, i32, int32_t, int32_t, INT32_##END, combine, SAME, AS_IS)              \
    REDUCER(id, u32, uint32_t, uint32_t, UINT32_##END, combine, SAME, AS_IS)           \
    REDUCER(id, i64, int64_t, int64_t, INT64_##END, combine, SAME, AS_IS)              \
    REDUCER(id, u64, uint64_t, uint64_t, UINT64_##END, combine, SAME, AS_IS)
#define UINT8_MIN 0
#define UINT16_MIN 0
#define UINT32_MIN 0
#define UINT64_MIN 0
EXTREME(max, MAX, -INFINITY, MIN)
EXTREME(min, MIN, INFINITY, MAX)
/* of booleans: or, and */
#define TRUTH(x) ((uint8_t)((x) != 0))
REDUCER(max, bool, uint8_t, uint8_t, 0, MAX, TRUTH, AS_IS)
REDUCER(min, bool, uint8_t, uint8_t, 1, MIN, TRUTH, AS_IS)
    /* clang-format on */

    typedef struct reduce_param {
    int64_t keep, noop; /* noop: empty axes mean none, not all */
    bool axes_input;
    qg_ints axes;
} reduce_param;

/* Operators with two inputs read their axes at run time. */
static qg_status prepare(qg_ctx *ctx, const qg_node *n, void *param)
{
    reduce_param *p = param;
    QG_TRY(qg_attr_int(ctx, n, "keepdims", 1, &p->keep));
    QG_TRY(qg_attr_int(ctx, n, "noop_with_empty_axes", 0, &p->noop));
    p->axes_input = n->op->max_in == 2;
    return p->axes_input ? QG_OK : qg_ints_attr(ctx, n, "axes", &p->axes);
}

/* Bit a of *mask: axis a is reduced.  Input 1 has data when it is there. */
static qg_status reduced_axes(const qg_call *k, uint32_t *mask)
{
    const reduce_param *p = k->param;
    const int32_t rank = k->in[0]->rank;
    qg_ints axes = p->axes;
    if (p->axes_input)
        QG_TRY(qg_ints_input(k, 1, &axes));
    if (axes.n == 0) {
        *mask = p->noop ? 0 : (1u << rank) - 1;
        return QG_OK;
    }
    return qg_axes_mask(k, &axes, rank, mask);
}

/* keepdims keeps the rank even while the axes are not known. */
static qg_status infer(const qg_call *k, uint64_t types)
{
    const reduce_param *p = k->param;
    const qg_tensor *x = k->in[0];
    int64_t dim[QG_MAX_RANK];
    uint32_t mask = 0;
    int32_t rank = 0;
    QG_TRY(qg_check_type(k, 0, types));
    const bool pending = p->axes_input && qg_ints_pending(k, 1);
    if (x->rank < 0 || (pending && !p->keep))
        return qg_infer_dims(k, x->dtype, -1, NULL);
    if (!pending)
        QG_TRY(reduced_axes(k, &mask));
    for (int32_t i = 0; i < x->rank; i++) {
        const bool reduced = mask >> i & 1u;
        if (!reduced || p->keep)
            dim[rank++] = pending ? -1 : reduced ? 1 : x->dim[i];
    }
    return qg_infer_dims(k, x->dtype, rank, dim);
}

/* Strides into the accumulators: plain over the kept axes, 0 along the reduced ones. */
static void acc_strides(const qg_tensor *x, uint32_t mask, int64_t *stride)
{
    int64_t step = 1;
    for (int32_t i = x->rank - 1; i >= 0; i--) {
        const bool reduced = mask >> i & 1u;
        stride[i] = reduced ? 0 : step;
        step *= reduced ? 1 : x->dim[i];
    }
}

/* Collects x into acc. */
static void collect(const reducer *r, const qg_tensor *x, const int64_t *stride,
                    char *acc)
{
    const int64_t size = (int64_t)qg_element_size(x->dtype);
    qg_walk w;
    qg_walk_at at = { 0 };
    qg_walk_pair(&w, x->rank, x->dim, stride, x->stride);
    if (qg_walk_empty(&w))
        return;
    const int32_t last = w.rank - 1;
    assert(w.stride[1][last] == 1); /* x is plain and walked in its own order */
    do {
        r->step(acc + at.offset[0] * (int64_t)r->acc_size, w.stride[0][last] == 0,
                (const char *)x->data + at.offset[1] * size, w.dim[last]);
    } while (qg_walk_next(&w, &at));
}

/* Two groups of four lanes from x[start] on, the lanes added as (0 + 2) + (1 + 3), then
 * the elements before and after. */
static float row_sum(const float *x, int64_t n, int64_t start)
{
    float s[2][4] = { { 0 } }, sum;
    const int64_t groups = n < start ? 0 : (n - start) / 4;
    if (groups == 0) {
        sum = x[0];
        for (int64_t i = 1; i < n; i++)
            sum += x[i];
        return sum;
    }
    const int64_t pairs = groups / 2 * 2;
    for (int64_t g = 0; g < pairs; g++)
        for (int j = 0; j < 4; j++)
            s[g % 2][j] += x[start + 4 * g + j];
    for (int j = 0; j < 4; j++) {
        s[0][j] += s[1][j];
        s[0][j] += groups > pairs ? x[start + 4 * pairs + j] : 0;
    }
    sum = (s[0][0] + s[0][2]) + (s[0][1] + s[0][3]);
    for (int64_t i = 0; i < start; i++)
        sum += x[i];
    for (int64_t i = start + 4 * groups; i < n; i++)
        sum += x[i];
    return sum;
}

/* An array seen as [before][reduced][after]; false: the reduced axes are apart. */
static bool reduced_block(const qg_tensor *x, uint32_t mask, int64_t size[3])
{
    int part = 0;
    size[0] = size[1] = size[2] = 1;
    for (int32_t i = 0; i < x->rank; i++) {
        const bool reduced = mask >> i & 1u;
        if (x->dim[i] == 1)
            continue;
        if (reduced && part == 2)
            return false;
        part = reduced ? 1 : part == 1 ? 2 : part;
        size[part] *= x->dim[i];
    }
    return true;
}

/* Means of rows (groups of lanes begin at multiples of four elements) or of columns
 * (added one row after the other); false: neither, or nothing to add. */
static bool mean_of_block(const qg_tensor *x, uint32_t mask, float *y)
{
    int64_t size[3];
    if (x->dtype != QG_F32 || !reduced_block(x, mask, size) || size[1] == 0)
        return false;
    const int64_t n = size[1];
    if (size[2] == 1) {
        for (int64_t i = 0; i < size[0]; i++)
            y[i] = row_sum(x->f32 + i * n, n, (4 - i * n % 4) % 4) / (float)n;
        return true;
    }
    if (size[0] != 1)
        return false;
    memcpy(y, x->f32, (size_t)size[2] * sizeof *y);
    for (int64_t i = 1; i < n; i++)
        for (int64_t j = 0; j < size[2]; j++)
            y[j] += x->f32[i * size[2] + j];
    for (int64_t j = 0; j < size[2]; j++)
        y[j] /= (float)n;
    return true;
}

/* Sixteen lanes; quarters of four as (0 + 1) + (2 + 3), then the four lanes likewise;
 * the remaining elements one by one. */
static float row_sum_compiled(const float *x, int64_t n)
{
    float s[16] = { 0 }, sum;
    const int64_t whole = n / 16 * 16;
    for (int64_t i = 0; i < whole; i += 16)
        for (int j = 0; j < 16; j++)
            s[j] += x[i + j];
    for (int j = 0; j < 4; j++)
        s[j] = (s[j] + s[4 + j]) + (s[8 + j] + s[12 + j]);
    sum = (s[0] + s[1]) + (s[2] + s[3]);
    for (int64_t i = whole; i < n; i++)
        sum += x[i];
    return sum;
}

static qg_status run_mean_rows(const qg_kernel *kernel, const qg_call *k)
{
    int64_t size[3];
    uint32_t mask;
    (void)kernel;
    QG_TRY(reduced_axes(k, &mask));
    if (!reduced_block(k->in[0], mask, size) || size[1] == 0 || size[2] != 1)
        return k->node->op->run(k);
    for (int64_t i = 0; i < size[0]; i++)
        k->out[0]->f32[i] =
            row_sum_compiled(k->in[0]->f32 + i * size[1], size[1]) / (float)size[1];
    return QG_OK;
}

/* Means of float32 whose axes are known; those of columns use the reference
 * definition. */
static qg_status compile_mean(qg_compile *c, qg_kernel **out)
{
    bool known = c->node->n_in < 2 || !c->in[1] || c->in[1]->data;
    *out = NULL;
    if (c->in[0]->dtype != QG_F32 || !known)
        return QG_OK;
    *out = QG_NEW(c->arena, qg_kernel);
    if (!*out)
        return qg_nomem(c->ctx);
    **out = (qg_kernel){ .run = run_mean_rows, .name = "mean of rows" };
    return QG_OK;
}

/* --- extremes over space of channels-last memory --- */

/* As the reducer adds up a row, lane by lane, but all channels at once: the order, and
 * so the sign of a zero, is the same. */
static qg_status run_extreme_last(const qg_kernel *kernel, const qg_call *k)
{
    const bool max = kernel->state != NULL;
    const float *x = k->in[0]->f32;
    const int64_t c = k->in[0]->dim[1],
                  n = qg_dims_product(k->in[0], 2, k->in[0]->rank);
    qg_pair_fn *pair = qg_vector_best()->pair[max ? QG_PAIR_MAX : QG_PAIR_MIN];
    float *lane = qg_arena_raw(k->scratch, (size_t)(LANES * c), sizeof *lane);
    if (!lane)
        return qg_nomem(k->ctx);
    for (int64_t b = 0; b < k->in[0]->dim[0]; b++, x += n * c) {
        float *y = k->out[0]->f32 + b * c;
        for (int64_t i = 0; i < LANES * c; i++)
            lane[i] = max ? -INFINITY : INFINITY;
        memcpy(y, lane, (size_t)c * sizeof *y);
        for (int64_t i = 0; i < n; i++)
            pair(lane + i % LANES * c, 1, x + i * c, 1, lane + i % LANES * c,
                 (size_t)c);
        for (int j = 0; j < LANES; j++)
            pair(y, 1, lane + j * c, 1, y, (size_t)c);
    }
    return QG_OK;
}

/* float32 that is channels-last already, all axes of space and no other. */
static qg_status compile_extreme(qg_compile *c, bool max, qg_kernel **out)
{
    const qg_tensor *x = c->in[0];
    qg_call k = qg_compile_call(c);
    uint32_t mask;
    *out = NULL;
    if (c->in_layout[0] != QG_LAYOUT_CHANNELS_LAST || x->dtype != QG_F32 ||
        (c->node->n_in > 1 && c->in[1] && !c->in[1]->data))
        return QG_OK;
    QG_TRY(reduced_axes(&k, &mask));
    if (mask != (1u << x->rank) - 4u || qg_tensor_count(x) == 0)
        return QG_OK;
    qg_kernel *kernel = QG_NEW(c->arena, qg_kernel);
    if (!kernel)
        return qg_nomem(c->ctx);
    *kernel = (qg_kernel){ .run = run_extreme_last,
                           .state = max ? kernel : NULL,
                           .in_layout = { QG_LAYOUT_CHANNELS_LAST },
                           .name = "extremes channels-last" };
    *out = kernel;
    return QG_OK;
}

static qg_status compile_max(qg_compile *c, qg_kernel **out)
{
    return compile_extreme(c, true, out);
}

static qg_status compile_min(qg_compile *c, qg_kernel **out)
{
    return compile_extreme(c, false, out);
}

/* count is the number of elements per accumulator. */
static qg_status run_reducer(const qg_call *k, const reducer *r)
{
    const qg_tensor *x = k->in[0];
    int64_t stride[QG_MAX_RANK];
    uint32_t mask;
    QG_TRY(reduced_axes(k, &mask));
    const size_t n = qg_elements(k->out[0]);
    if (n == 0 || (r == &mean_f32 && mean_of_block(x, mask, k->out[0]->f32)))
        return QG_OK;
    acc_strides(x, mask, stride);
    char *acc = qg_arena_raw(k->scratch, n, r->acc_size);
    if (!acc)
        return qg_nomem(k->ctx);
    r->start(acc, n);
    collect(r, x, stride, acc);
    r->finish(acc, k->out[0]->data, n, (double)qg_elements(x) / (double)n);
    return QG_OK;
}

/* The operator on input 0 and output 0 as another type; the axes are unchanged. */
static qg_status run_data_as(const qg_call *k, qg_dtype as)
{
    const qg_tensor *in[2] = { NULL, qg_in(k, 1) };
    qg_tensor y;
    qg_call wide = *k;
    QG_TRY(qg_cast_view(k->ctx, k->scratch, k->in[0], as, &in[0]));
    qg_tensor_init(&y, as, k->out[0]->rank, k->out[0]->dim);
    QG_TRY(qg_tensor_alloc(k->ctx, k->scratch, &y));
    wide.in = in;
    wide.out = (qg_tensor *const[]){ &y };
    QG_TRY(k->node->op->run(&wide));
    qg_cast_tensor(&y, k->out[0], true);
    return QG_OK;
}

/* Means and roots of integers are computed in double. */
static qg_status run(const qg_call *k, const reducer *const *reducers)
{
    const qg_dtype d = k->in[0]->dtype;
    if (reducers[d])
        return run_reducer(k, reducers[d]);
    return run_data_as(k, QG_DT_HAS(QG_DT_HALVES, d) ? QG_F32 : QG_F64);
}

/* LogSumExp: log(sum exp(x - m)) + m with m the maximum, so that nothing overflows. */
static void exp_row(double *sum, const double *m, bool one, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t j = one ? 0 : i;
        sum[j] += exp(x[i] - m[j]);
    }
}

static void exp_sums(const qg_tensor *x, const int64_t *stride, const double *m,
                     double *sum)
{
    qg_walk w;
    qg_walk_at at = { 0 };
    qg_walk_pair(&w, x->rank, x->dim, stride, x->stride);
    if (qg_walk_empty(&w))
        return;
    const int32_t last = w.rank - 1;
    do {
        exp_row(sum + at.offset[0], m + at.offset[0], w.stride[0][last] == 0,
                x->f64 + at.offset[1], w.dim[last]);
    } while (qg_walk_next(&w, &at));
}

/* Two passes, both in memory order.  A maximum of infinity stays infinity. */
static qg_status logsumexp_run(const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    int64_t stride[QG_MAX_RANK];
    uint32_t mask;
    if (x->dtype != QG_F64)
        return run_data_as(k, QG_F64);
    QG_TRY(reduced_axes(k, &mask));
    const size_t n = qg_elements(k->out[0]);
    acc_strides(x, mask, stride);
    double *m = qg_arena_raw(k->scratch, n, sizeof *m);
    double *sum = qg_arena_get(k->scratch, n, sizeof *sum);
    if (!m || !sum)
        return qg_nomem(k->ctx);
    max_f64.start(m, n);
    collect(&max_f64, x, stride, (char *)m);
    for (size_t i = 0; i < n; i++)
        m[i] = isinf(m[i]) ? 0 : m[i]; /* inf - inf has no value */
    exp_sums(x, stride, m, sum);
    for (size_t i = 0; i < n; i++)
        k->out[0]->f64[i] = log(sum[i]) + m[i];
    return QG_OK;
}

/* A table of reducers has their addresses: QG_ENTRIES_FLOAT(&mean). */
#define OP(id, entries, types)                                                         \
    static qg_status id##_infer(const qg_call *k) { return infer(k, types); }          \
    static qg_status id##_run(const qg_call *k)                                        \
    {                                                                                  \
        static const reducer *const reducers[QG_NDTYPE] = { entries };                 \
        return run(k, reducers);                                                       \
    }
/* clang-format off */
#define WITH_BOOL(id) QG_ENTRIES_NUMBER(&id), [QG_BOOL] = &id##_bool
OP(sum,    QG_ENTRIES_NUMBER(&sum),    QG_DT_NUMBERS)
OP(square, QG_ENTRIES_NUMBER(&square), QG_DT_NUMBERS)
OP(l1,     QG_ENTRIES_NUMBER(&l1),     QG_DT_NUMBERS)
OP(prod,   QG_ENTRIES_NUMBER(&prod),   QG_DT_NUMBERS)
OP(mean,   QG_ENTRIES_FLOAT(&mean),  QG_DT_NUMBERS)
OP(l2,     QG_ENTRIES_FLOAT(&l2),    QG_DT_NUMBERS)
OP(logsum, QG_ENTRIES_FLOAT(&logsum), QG_DT_NUMBERS)
OP(max,    WITH_BOOL(max),      QG_DT_PLAIN)
OP(min,    WITH_BOOL(min),      QG_DT_PLAIN)
static qg_status logsumexp_infer(const qg_call *k) { return infer(k, QG_DT_NUMBERS); }

/* --- gradients ------------------------------------------------------------------- */

/* dy/dx of one element: x, the result y, and how many elements share it (extremes: how
 * many of them equal y). */
typedef double slope(double x, double y, double count);

/* Elements in memory order, with y and g at the element they were reduced into. */
typedef struct reduction {
    qg_walk walk; /* of the output, of x */
    double *count;
} reduction;

static qg_status reduction_of(const qg_backward *b, bool extreme, reduction *r)
{
    const qg_tensor *x = b->call->in[0], *y = b->call->out[0];
    const size_t n = qg_elements(y);
    int64_t stride[QG_MAX_RANK];
    uint32_t mask;
    qg_walk_at at = { 0 };
    QG_TRY(reduced_axes(b->call, &mask));
    acc_strides(x, mask, stride);
    qg_walk_pair(&r->walk, x->rank, x->dim, stride, x->stride);
    r->count = qg_arena_get(b->call->scratch, n, sizeof *r->count);
    if (!r->count)
        return qg_nomem(b->call->ctx);
    const int32_t last = r->walk.rank - 1;
    if (!qg_walk_empty(&r->walk))
        do
            for (int64_t i = 0; i < r->walk.dim[last]; i++) {
                const int64_t to = at.offset[0] + i * r->walk.stride[0][last];
                r->count[to] += !extreme || x->f32[at.offset[1] + i] == y->f32[to];
            }
        while (qg_walk_next(&r->walk, &at));
    return QG_OK;
}

static qg_status backward(const qg_backward *b, slope *f, bool extreme)
{
    const float *x = b->call->in[0]->f32, *y = b->call->out[0]->f32;
    reduction r;
    qg_walk_at at = { 0 };
    QG_TRY(reduction_of(b, extreme, &r));
    const int32_t last = r.walk.rank - 1;
    if (!qg_walk_empty(&r.walk))
        do
            for (int64_t i = 0; i < r.walk.dim[last]; i++) {
                const int64_t from = at.offset[0] + i * r.walk.stride[0][last];
                const int64_t to = at.offset[1] + i;
                b->in[0]->f32[to] =
                    (float)((double)b->out[0]->f32[from] *
                            f((double)x[to], (double)y[from], r.count[from]));
            }
        while (qg_walk_next(&r.walk, &at));
    return QG_OK;
}

#define SLOPE(id, extreme, expr)                                                       \
    static double id##_slope(double x, double y, double n)                             \
    {                                                                                  \
        (void)x, (void)y, (void)n;                                                     \
        return expr;                                                                   \
    }                                                                                  \
    static qg_status id##_backward(const qg_backward *b)                               \
    {                                                                                  \
        return backward(b, id##_slope, extreme);                                       \
    }
SLOPE(sum, false, 1)
SLOPE(mean, false, 1 / n)
SLOPE(max, true, x == y ? 1 / n : 0)
SLOPE(min, true, x == y ? 1 / n : 0)
SLOPE(l1, false, (x > 0) - (x < 0))
SLOPE(l2, false, y > 0 ? x / y : 0)
SLOPE(square, false, 2 * x)
SLOPE(logsum, false, exp(-y))
SLOPE(logsumexp, false, exp(x - y))
#define prod_backward NULL

/* All axes behind the channels: runtimes that have a mean may take it for a pooling. */
static bool is_global(const qg_lower *l, const qg_ints *axes)
{
    int32_t rank = l->node->in[0]->type.rank;
    uint32_t mask = 0;
    for (size_t i = 0; i < axes->n; i++)
        mask |= 1u << ((axes->at[i] + rank) % rank);
    return rank == 4 && mask == 0xc;
}

/* The axes as an attribute, wherever the node has them. */
static qg_status lower_mean(qg_lower *l)
{
    const reduce_param *p = l->node->param;
    bool input = p->axes_input && l->node->n_in > 1 && l->node->in[1];
    const qg_tensor *given = input ? l->in[1].constant : NULL;
    qg_ints axes = p->axes;
    if (input && !given)
        return qg_lower_refuse(l, "in1 is computed, expected constant axes");
    for (int64_t i = 0; given && i < qg_tensor_count(given) && i < QG_MAX_INTS; i++)
        axes.at[axes.n++] = qg_tensor_i64(given, i);
    if (axes.n == 0 && p->noop)
        return qg_lower_move(l);
    for (int32_t i = 0; axes.n == 0 && i < l->node->in[0]->type.rank; i++)
        axes.at[i] = i;
    if (axes.n == 0)
        axes.n = (size_t)l->node->in[0]->type.rank;
    QG_TRY(qg_lower_set_ints(l, "axes", QG_ATTR_INTS, axes.at, axes.n));
    QG_TRY(qg_lower_set_int(l, "keepdims", p->keep));
    if (!qg_lower_wants_codes(l, 1))
        return QG_OK;
    const qg_profile_row *row = qg_lower_row(l, QG_USE_MEAN);
    if (row && p->keep && is_global(l, &axes))
        row = qg_lower_row(l, QG_USE_GLOBAL_POOL);
    return row ? qg_lower_emit(l, "IntMean", row, &l->in[0].value, 1) : QG_OK;
}

/* `input` is the opset at which axes became an input. */
#define ROW(onnx, first, last, inputs, id, bits, compiled, lowered)                    \
    { .name = onnx, .since = first, .until = last, .min_in = 1, .max_in = inputs,      \
      .min_out = 1, .max_out = 1, .in_roles = "ds", .traits = QG_OP_PURE | (bits),     \
      .param_size = sizeof(reduce_param), .prepare = prepare, .infer = id##_infer,     \
      .run = id##_run, .compile = compiled, .lower = lowered,                          \
      .backward = id##_backward }
#define SIGNED(onnx, input, id, bits) \
    ROW(onnx, 1, input - 1, 1, id, bits, NULL, NULL),                                  \
    ROW(onnx, input, 0, 2, id, bits, NULL, NULL)
#define ROWS(onnx, input, id) SIGNED(onnx, input, id, QG_OP_NONNEGATIVE)
#define EXTREMES(onnx, id)                                                             \
    ROW(onnx, 1, 17, 1, id, QG_OP_NONNEGATIVE, compile_##id, NULL),                    \
    ROW(onnx, 18, 0, 2, id, QG_OP_NONNEGATIVE, compile_##id, NULL)
const qg_op qg_ops_reduce[] = {
    ROWS("ReduceSum",       13, sum),
    ROW("ReduceMean",  1, 17, 1, mean, QG_OP_NONNEGATIVE, compile_mean, lower_mean),
    ROW("ReduceMean", 18,  0, 2, mean, QG_OP_NONNEGATIVE, compile_mean, lower_mean),
    EXTREMES("ReduceMax", max),
    EXTREMES("ReduceMin", min),
    SIGNED("ReduceProd",      18, prod, QG_OP_NONNEGATIVE | QG_OP_UNDEFINED),
    ROWS("ReduceL1",        18, l1),
    ROWS("ReduceL2",        18, l2),
    ROWS("ReduceSumSquare", 18, square),
    SIGNED("ReduceLogSum",    18, logsum, QG_OP_UNDEFINED),
    SIGNED("ReduceLogSumExp", 18, logsumexp, 0),
    { 0 },
};
/* clang-format on */

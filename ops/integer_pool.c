/* integer_pool.c -- IntAveragePool and IntMean of domain "quantgraph".
 *
 *     IntAveragePool(x)  attributes of ONNX AveragePool, one or two spatial axes.
 *                        Form integer: sum / n over the places inside, rounded; grids
 *                        are not read.  Form float-rows: float32
 *     IntMean(x)         attributes axes (absent: all), keepdims (1); the sum of
 *                        q - z_x through a requantization that divides by n.  Form
 *                        floor-multiplier or plain; raw-float and raw-q31 (channels on
 *                        axis 1) sum q
 *
 * Arithmetic: number/integer_pool.h, number/integer_mean.h. */
#include "ops/families.h"

#include "engine/number/integer_mean.h"
#include "engine/number/integer_pool.h"
#include "ops/util_broadcast.h"
#include "ops/util_cast.h"
#include "ops/util_integer.h"
#include "ops/util_window.h"

/* -- IntAveragePool --------------------------------------------------------------- */

typedef struct int_pool_param {
    qg_recipe recipe;
    qg_window window;
    bool count_pad;
} int_pool_param;

static qg_status prepare_pool(qg_ctx *ctx, const qg_node *n, void *param)
{
    int_pool_param *p = param;
    QG_TRY(qg_recipe_read(ctx, n, &p->recipe));
    QG_TRY(qg_attr_flag(ctx, n, "count_include_pad", false, &p->count_pad));
    return qg_window_read(ctx, n, &p->window);
}

/* Windows that the primitives take: not dilated, each with a place inside. */
static qg_status check_window(const qg_call *k, const qg_space *s)
{
    for (int a = 0; a < QG_SPACE; a++) {
        int64_t last = (s->out[a] - 1) * s->stride[a] - s->pad_begin[a];
        if (s->dilation[a] != 1)
            return qg_infer_fail(k, QG_EUNSUPPORTED, "dilations, expected 1");
        if (s->in[a] >= 0 && s->out[a] > 0 &&
            (s->in[a] == 0 || s->pad_begin[a] >= s->kernel[a] || last >= s->in[a]))
            return qg_infer_fail(k, QG_EUNSUPPORTED,
                                 "a window lies in the padding, expected pads smaller "
                                 "than the kernel, and data");
    }
    return QG_OK;
}

static qg_status infer_pool(const qg_call *k)
{
    const int_pool_param *p = k->param;
    const qg_recipe *r = &p->recipe;
    const qg_tensor *x = k->in[0];
    int64_t dim[QG_MAX_RANK];
    qg_space s;
    QG_TRY(qg_integer_check_in(k, r, 0, 1));
    QG_TRY(qg_integer_check_codes(k, r));
    QG_TRY(qg_integer_check_form(k, r, 1 << QG_FORM_INTEGER | 1 << QG_FORM_FLOAT_ROWS));
    QG_TRY(qg_check_rank(k, 0, 3, 4));
    if (p->count_pad && r->row.form == QG_FORM_INTEGER)
        return qg_infer_fail(k, QG_EUNSUPPORTED,
                             "count_include_pad with form integer, expected 0");
    if (x->rank < 0)
        return qg_infer_dims(k, r->out.dtype, -1, NULL);
    QG_TRY(qg_window_resolve(k, &p->window, x, NULL, &s));
    QG_TRY(check_window(k, &s));
    dim[0] = x->dim[0];
    dim[1] = x->dim[1];
    qg_space_dims(&s, dim);
    return qg_infer_dims(k, r->out.dtype, x->rank, dim);
}

static qg_status run_pool(const qg_call *k)
{
    const int_pool_param *p = k->param;
    const qg_recipe *r = &p->recipe;
    const qg_tensor *x;
    size_t n = qg_elements(k->out[0]);
    qg_space s;
    QG_TRY(qg_window_resolve(k, &p->window, k->in[0], NULL, &s));
    QG_TRY(qg_cast_view(k->ctx, k->scratch, k->in[0], QG_I32, &x));
    int32_t *y = QG_NEWN(k->scratch, n, int32_t);
    if (!y)
        return qg_nomem(k->ctx);
    qg_int_window w = {
        x->dim[0] * x->dim[1],
        s.in[1],
        s.in[2],
        s.out[1],
        s.out[2],
        {s.kernel[1],     s.kernel[2]   },
        { s.stride[1],    s.stride[2]   },
        { s.pad_begin[1], s.pad_begin[2]}
    };
    qg_float_pool f = {
        qg_integer_grid(&r->in[0]),
        qg_integer_grid(&r->out),
        p->count_pad,
    };
    if (n && r->row.form == QG_FORM_INTEGER)
        qg_int_average_pool(&w, r->row.rounding, qg_integer_range(r), x->i32, y);
    else if (n)
        qg_int_average_pool_float(&w, &f, x->i32, y);
    qg_integer_limit(r, y, n);
    qg_codes_store(r->out.dtype, y, k->out[0]->data, 0, n);
    return QG_OK;
}

/* -- IntMean ---------------------------------------------------------------------- */

typedef struct int_mean_param {
    qg_recipe recipe;
    qg_ints axes;
    bool keep;
} int_mean_param;

static qg_status prepare_mean(qg_ctx *ctx, const qg_node *n, void *param)
{
    int_mean_param *p = param;
    QG_TRY(qg_recipe_read(ctx, n, &p->recipe));
    QG_TRY(qg_ints_attr(ctx, n, "axes", &p->axes));
    return qg_attr_flag(ctx, n, "keepdims", true, &p->keep);
}

/* Bit a: axis a is summed over. */
static qg_status axes_of(const qg_call *k, uint32_t *mask)
{
    const int_mean_param *p = k->param;
    *mask = (1u << k->in[0]->rank) - 1;
    return p->axes.given ? qg_axes_mask(k, &p->axes, k->in[0]->rank, mask) : QG_OK;
}

/* The arithmetic for n values. */
typedef struct mean {
    bool raw;           /* codes are summed as they are */
    qg_mean_float real; /* raw-float */
    qg_requant one;     /* other forms */
    qg_requant vector;  /* raw-q31: of the channels below `vectors` */
    int64_t vectors, channels;
} mean;

enum { VECTOR = 16 }; /* int8 channels that the SIMD loop takes at a time */

static qg_status mean_by_q31(const qg_call *k, const qg_recipe *r, const qg_mean *m,
                             mean *out)
{
    qg_requant_rule rule = r->row.requant;
    qg_code_range range = qg_integer_range(r);
    range.zero = qg_mean_zero(m, r->in[0].zero[0], range.zero);
    QG_TRY(qg_mean_prepare(k->ctx, k->node->name, &rule, m, range, &out->one));
    rule.scheme = QG_SCHEME_FIX_DOUBLE_UP;
    QG_TRY(qg_mean_prepare(k->ctx, k->node->name, &rule, m, range, &out->vector));
    out->channels = k->in[0]->rank > 1 ? k->in[0]->dim[1] : 1;
    out->vectors = out->channels / VECTOR * VECTOR;
    if (r->in[0].dtype != QG_I8)
        out->vectors = 0;
    return QG_OK;
}

/* Sums fit 32 bits below 2^15 codes of 16 bits or 2^23 of 8. */
static qg_status mean_of(const qg_call *k, int64_t n, mean *out)
{
    const qg_recipe *r = &((const int_mean_param *)k->param)->recipe;
    qg_form form = r->row.form;
    int64_t most = qg_dtype_bits(r->in[0].dtype) == 8 ? 1 << 23 : 1 << 15;
    if (form != QG_FORM_RAW_FLOAT && !r->row.requant.accumulator)
        return qg_infer_fail(k, QG_EMODEL, "scheme is missing, expected it");
    if (n < 1 || n >= most)
        return qg_infer_fail(k, QG_EUNSUPPORTED,
                             "a mean of %lld values, expected 1 to %lld", (long long)n,
                             (long long)(most - 1));
    qg_mean m = { r->in[0].scale[0], r->out.scale[0], n,
                  form == QG_FORM_FLOOR_MULTIPLIER };
    *out = (mean){ .raw = form == QG_FORM_RAW_FLOAT || form == QG_FORM_RAW_Q31 };
    if (form == QG_FORM_RAW_Q31)
        return mean_by_q31(k, r, &m, out);
    if (form == QG_FORM_RAW_FLOAT) {
        out->real = qg_mean_float_of(&m, r->in[0].zero[0], qg_integer_range(r));
        return QG_OK;
    }
    return qg_mean_prepare(k->ctx, k->node->name, &r->row.requant, &m,
                           qg_integer_range(r), &out->one);
}

static qg_status infer_mean(const qg_call *k)
{
    const int_mean_param *p = k->param;
    const qg_recipe *r = &p->recipe;
    const qg_tensor *x = k->in[0];
    int64_t dim[QG_MAX_RANK], n = 1;
    int32_t rank = 0;
    uint32_t mask;
    mean one;
    QG_TRY(qg_integer_check_in(k, r, 0, 1));
    QG_TRY(qg_integer_check_codes(k, r));
    QG_TRY(qg_integer_check_form(k, r,
                                 1 << QG_FORM_PLAIN | 1 << QG_FORM_FLOOR_MULTIPLIER |
                                     1 << QG_FORM_RAW_FLOAT | 1 << QG_FORM_RAW_Q31));
    QG_TRY(qg_check_rank(k, 0, 0, QG_MAX_RANK));
    if (x->rank < 0)
        return qg_infer_dims(k, r->out.dtype, -1, NULL);
    QG_TRY(axes_of(k, &mask));
    for (int32_t i = 0; i < x->rank; i++) {
        bool summed = mask >> i & 1;
        n = summed ? (n < 0 || x->dim[i] < 0 ? -1 : n * x->dim[i]) : n;
        if (!summed || p->keep)
            dim[rank++] = summed ? 1 : x->dim[i];
        if (n > 1 << 24)
            n = 1 << 24; /* refused below */
    }
    if (n >= 0 && (!qg_tensor_known(x) || qg_tensor_count(x) != 0))
        QG_TRY(mean_of(k, n, &one));
    return qg_infer_dims(k, r->out.dtype, rank, dim);
}

/* sum[output element] += x - zero, in the order of memory. */
static void add_up(const qg_tensor *x, uint32_t mask, int32_t zero, int64_t *sum)
{
    int64_t step[QG_MAX_RANK] = { 0 }, size = 1;
    qg_walk w;
    qg_walk_at at = { 0 };
    for (int32_t i = x->rank - 1; i >= 0; i--)
        if (!(mask >> i & 1)) {
            step[i] = size;
            size *= x->dim[i];
        }
    qg_walk_init(&w, x->rank, x->dim);
    qg_walk_add(&w, step);
    qg_walk_add_broadcast(&w, x);
    qg_walk_collapse(&w);
    do {
        for (int64_t i = 0; i < w.dim[w.rank - 1]; i++)
            sum[at.offset[0] + i * w.stride[0][w.rank - 1]] +=
                x->i32[at.offset[1] + i * w.stride[1][w.rank - 1]] - zero;
    } while (qg_walk_next(&w, &at));
}

/* Element i of the output; channels lie on axis 1 and all axes behind it are summed. */
static int32_t mean_one(const mean *m, const qg_recipe *r, int64_t i, int64_t sum)
{
    if (r->row.form == QG_FORM_RAW_FLOAT)
        return qg_mean_float_one(&m->real, sum);
    return qg_requant_one(
        m->vectors > 0 && i % m->channels < m->vectors ? &m->vector : &m->one, sum);
}

static qg_status run_mean(const qg_call *k)
{
    const qg_recipe *r = &((const int_mean_param *)k->param)->recipe;
    const qg_tensor *x;
    size_t n = qg_elements(k->out[0]);
    uint32_t mask;
    mean one;
    if (n == 0)
        return QG_OK;
    QG_TRY(axes_of(k, &mask));
    QG_TRY(mean_of(k, qg_tensor_count(k->in[0]) / (int64_t)n, &one));
    QG_TRY(qg_cast_view(k->ctx, k->scratch, k->in[0], QG_I32, &x));
    int64_t *sum = QG_NEWN(k->scratch, n, int64_t);
    int32_t *y = QG_NEWN(k->scratch, n, int32_t);
    if (!sum || !y)
        return qg_nomem(k->ctx);
    add_up(x, mask, one.raw ? 0 : r->in[0].zero[0], sum);
    for (size_t i = 0; i < n; i++)
        y[i] = mean_one(&one, r, (int64_t)i, sum[i]);
    qg_codes_store(r->out.dtype, y, k->out[0]->data, 0, n);
    return QG_OK;
}

/* Codes of 8 bits that lie as [outer][middle][inner], with the mean over the middle:
 * plain memory with neighbouring axes, or all spatial axes of channels-last memory. */
typedef struct mean_kernel {
    mean one;
    qg_around around;
} mean_kernel;

/* sum[i] of a piece of at most PIECE inner elements; 32 bits hold it (mean_of). */
enum { PIECE = 256 };
#define ADD_UP(T)                                                                      \
    do {                                                                               \
        const T *from = x;                                                             \
        int32_t row = 0;                                                               \
        if (pitch == 1) {                                                              \
            for (int64_t j = 0; j < middle; j++)                                       \
                row += from[j];                                                        \
            sum[0] = row;                                                              \
            return;                                                                    \
        }                                                                              \
        memset(sum, 0, (size_t)n * sizeof *sum);                                       \
        for (int64_t j = 0; j < middle; j++)                                           \
            for (int64_t i = 0; i < n; i++)                                            \
                sum[i] += from[j * pitch + i];                                         \
    } while (0)

static void add_up_i8(const void *x, int64_t middle, int64_t pitch, int64_t n,
                      int32_t *restrict sum)
{
    ADD_UP(int8_t);
}

static void add_up_u8(const void *x, int64_t middle, int64_t pitch, int64_t n,
                      int32_t *restrict sum)
{
    ADD_UP(uint8_t);
}

static qg_status run_mean_bytes(const qg_kernel *kernel, const qg_call *k)
{
    const mean_kernel *s = kernel->state;
    const qg_recipe *r = &((const int_mean_param *)k->param)->recipe;
    const qg_around a = s->around;
    const bool is_signed = k->in[0]->dtype == QG_I8;
    int64_t zero = s->one.raw ? 0 : r->in[0].zero[0] * a.middle;
    int32_t y[PIECE];
    for (int64_t o = 0; o < a.outer; o++)
        for (int64_t at = 0, n; at < a.inner; at += n) {
            const uint8_t *x = k->in[0]->u8 + o * a.middle * a.inner + at;
            n = a.inner - at < PIECE ? a.inner - at : PIECE;
            (is_signed ? add_up_i8 : add_up_u8)(x, a.middle, a.inner, n, y);
            for (int64_t i = 0; i < n; i++)
                y[i] = mean_one(&s->one, r, o * a.inner + at + i, y[i] - zero);
            qg_codes_store(r->out.dtype, y, k->out[0]->data, (size_t)(o * a.inner + at),
                           (size_t)n);
        }
    return QG_OK;
}

/* false: the axes are not neighbours. */
static bool around(const qg_tensor *x, uint32_t mask, bool last, qg_around *out)
{
    int32_t first = 0, end = x->rank;
    if (last) {
        *out = (qg_around){ x->dim[0], qg_dims_product(x, 2, end), x->dim[1] };
        return mask == (1u << end) - 4;
    }
    while (first < end && !(mask >> first & 1))
        first++;
    while (end > first && !(mask >> (end - 1) & 1))
        end--;
    *out = (qg_around){ qg_dims_product(x, 0, first), qg_dims_product(x, first, end),
                        qg_dims_product(x, end, x->rank) };
    return mask == (1u << end) - (1u << first);
}

static qg_status compile_mean(qg_compile *c, qg_kernel **out)
{
    const qg_tensor *x = c->in[0];
    bool last = c->in_layout[0] == QG_LAYOUT_CHANNELS_LAST && !x->data;
    qg_call call = qg_compile_call(c);
    qg_around a;
    uint32_t mask;
    *out = NULL;
    QG_TRY(axes_of(&call, &mask));
    if (!QG_DT_HAS(QG_DT_BYTES, x->dtype) || qg_elements(x) == 0)
        return QG_OK;
    last = last && around(x, mask, true, &a);
    if (!last && !around(x, mask, false, &a))
        return QG_OK;
    qg_kernel *k = QG_NEW(c->arena, qg_kernel);
    mean_kernel *s = QG_NEW(c->arena, mean_kernel);
    if (!k || !s)
        return qg_nomem(c->ctx);
    s->around = a;
    *k = (qg_kernel){ .run = run_mean_bytes, .state = s, .name = "sums of bytes" };
    k->in_layout[0] = last ? QG_LAYOUT_CHANNELS_LAST : QG_LAYOUT_PLAIN;
    *out = k;
    return mean_of(&call, a.middle, &s->one);
}

#define ROW(onnx, kind, type, more, compiled)                                          \
    {                                                                                  \
        .name = onnx, .domain = "quantgraph", .since = 1, .min_in = 1, .max_in = 1,    \
        .min_out = 1, .max_out = 1, .in_roles = "d",                                   \
        .traits = QG_OP_QUANTIZER | QG_OP_PURE | (more), .param_size = sizeof(type),   \
        .prepare = prepare_##kind, .infer = infer_##kind, .run = run_##kind,           \
        .compile = compiled                                                            \
    }
const qg_op qg_ops_integer_pool[] = {
    ROW("IntAveragePool", pool, int_pool_param, QG_OP_POOLING | QG_OP_BATCH_FIRST,
        NULL),
    ROW("IntMean", mean, int_mean_param, 0, compile_mean),
    { 0 },
};

/* layernorm.c -- statistics along axes: LayerNormalization, RMSNormalization,
 * SimplifiedLayerNormalization, LpNormalization, LRN, MeanVarianceNormalization.
 *
 * Layer  y = (x - mean) / sqrt(variance + epsilon) * scale + bias over dims axis..last
 * RMS    y = x / sqrt(mean(x^2) + epsilon) * scale
 * Lp     y = x / (sum |x|^p)^(1/p) along one axis, 0 where the norm is 0
 * LRN    y = x / (bias + alpha / size * sum x^2)^beta, the sum over `size` channels
 * MVN    y = (x - mean) / (deviation + 1e-9) over `axes`
 * Sums are kept in double, the rest in float32 (float64 too, see util_cast.h).
 * Source: ONNX LayerNormalization-17, RMSNormalization-23, LpNormalization-1, 22,
 * LRN-1, 13, MeanVarianceNormalization-9, 13 (epsilon: its function body).  ONNX
 * Runtime also has LayerNormalization-1 and SimplifiedLayerNormalization-1 (RMS, output
 * 1 is InvStdDev) in the domain of ONNX, which its optimizer writes into files of any
 * opset: onnxruntime/core/graph/contrib_ops/contrib_defs.cc.
 *
 * Slots  scale and bias are parameters that are never quantized ('f'). */
#include "ops/families.h"

#include <math.h>

#include "ops/util_backward.h"
#include "ops/util_broadcast.h"
#include "ops/util_cast.h"
#include "ops/util_vector.h"

typedef struct layer_param {
    int64_t axis, p, size;
    float epsilon, alpha, beta, bias;
    qg_ints axes;
    qg_dtype stash; /* of Mean and InvStdDev */
} layer_param;

/* --- LayerNormalization, RMSNormalization, SimplifiedLayerNormalization --------- */

/* stash_type concerns the type of the optional outputs only: sums are kept in
 * double. */
static qg_status prepare_layer(qg_ctx *ctx, const qg_node *node, void *param)
{
    layer_param *p = param;
    int64_t stash;
    QG_TRY(qg_attr_int(ctx, node, "axis", -1, &p->axis));
    QG_TRY(qg_attr_float(ctx, node, "epsilon", 1e-5f, &p->epsilon));
    QG_TRY(qg_attr_int(ctx, node, "stash_type", 1, &stash));
    if (stash != 1 && stash != 11 && stash != 10 && stash != 16)
        return qg_node_fail(ctx, QG_EMODEL, "import", node,
                            "stash_type is %lld, expected a float type",
                            (long long)stash);
    p->stash = stash == 16 ? QG_BF16 : QG_F32;
    return QG_OK;
}

/* Scale or bias broadcasts to the dims of x. */
static qg_status check_stretch(const qg_call *k, size_t slot)
{
    const qg_tensor *x = k->in[0], *t = qg_in(k, slot);
    QG_TRY(qg_check_rank(k, slot, 0, x->rank));
    for (int32_t i = 1; t && i <= t->rank; i++)
        if (t->dim[t->rank - i] != 1)
            QG_TRY(qg_check_dim(k, slot, t->rank - i, x->dim[x->rank - i]));
    return QG_OK;
}

/* Mean and InvStdDev keep the leading dims and have 1 for the rest. */
static qg_status infer_layer(const qg_call *k)
{
    const layer_param *p = k->param;
    const qg_tensor *x = k->in[0];
    int64_t dim[QG_MAX_RANK];
    int32_t axis;
    QG_TRY(qg_check_types(k, 0, 2, QG_DT_FLOATS));
    QG_TRY(qg_check_same_type(k, 1, 2)); /* of RMSNormalization, too: its V is T here */
    QG_TRY(qg_check_rank(k, 0, 1, QG_MAX_RANK));
    qg_set_out(k, 0, x->dtype, x->rank, x->dim);
    qg_set_out(k, 1, p->stash, -1, NULL);
    qg_set_out(k, 2, p->stash, -1, NULL);
    if (x->rank < 0)
        return QG_OK;
    QG_TRY(qg_check_axis(k, p->axis, x->rank, &axis));
    QG_TRY(check_stretch(k, 1));
    QG_TRY(check_stretch(k, 2));
    for (int32_t i = 0; i < x->rank; i++)
        dim[i] = i < axis ? x->dim[i] : 1;
    qg_set_out(k, 1, p->stash, x->rank, dim);
    qg_set_out(k, 2, p->stash, x->rank, dim);
    return QG_OK;
}

/* A factor or addend in the layout of the rows of x: row r begins at r * step. */
typedef struct spread {
    const float *at; /* NULL: absent */
    int64_t step;
} spread;

/* The common case is one row for all; any other shape is expanded in scratch. */
static qg_status spread_of(const qg_call *k, const qg_tensor *t, int32_t axis,
                           spread *out)
{
    const qg_tensor *x = k->in[0];
    int64_t row = qg_dims_product(x, axis, x->rank);
    if (!t || (t->rank == x->rank - axis && qg_tensor_count(t) == row)) {
        *out = (spread){ t ? t->f32 : NULL, 0 };
        return QG_OK;
    }
    qg_tensor full;
    qg_tensor_init(&full, QG_F32, x->rank, x->dim);
    QG_TRY(qg_tensor_alloc(k->ctx, k->scratch, &full));
    qg_stretch(t, &full);
    *out = (spread){ full.f32, row };
    return QG_OK;
}

/* One row of n elements; mean is 0 for RMS. */
static double inverse_deviation(const float *x, double mean, int64_t n, float epsilon)
{
    const double squares = qg_vector_best()->squares(x, n, mean);
    return 1 / sqrt((n > 0 ? squares / (double)n : 0) + (double)epsilon);
}

/* Those before the rows; an axis that is negative counts from the end. */
static uint32_t layer_free_axes(const qg_call *k)
{
    const int64_t axis = ((const layer_param *)k->param)->axis;
    const int32_t rank = k->out[0]->rank;
    return ((uint32_t)1 << (axis < 0 ? axis + rank : axis)) - 1;
}

/* 0 for an empty row. */
static double mean_of(const float *x, int64_t n)
{
    return n > 0 ? qg_vector_best()->sum(x, n) / (double)n : 0;
}

/* Rows from the axis on; statistics are written when their outputs are used. */
static qg_status normalize_rows(const qg_call *k, bool centred)
{
    const layer_param *p = k->param;
    const qg_tensor *x = k->in[0], *mean = centred ? qg_out(k, 1) : NULL;
    const qg_tensor *inverse = qg_out(k, centred ? 2 : 1);
    spread scale, bias;
    int32_t axis;
    QG_TRY(qg_check_axis(k, p->axis, x->rank, &axis));
    QG_TRY(spread_of(k, k->in[1], axis, &scale));
    QG_TRY(spread_of(k, qg_in(k, 2), axis, &bias));
    int64_t rows = qg_dims_product(x, 0, axis);
    int64_t n = qg_dims_product(x, axis, x->rank);
    for (int64_t r = 0; r < rows; r++) {
        const float *row = x->f32 + r * n;
        double m = centred ? mean_of(row, n) : 0;
        double f = inverse_deviation(row, m, n, p->epsilon);
        const qg_standard to = { (float)m, (float)f, scale.at + r * scale.step,
                                 bias.at ? bias.at + r * bias.step : NULL };
        qg_vector_best()->standardize(&to, row, k->out[0]->f32 + r * n, n);
        if (mean)
            mean->f32[r] = (float)m;
        if (inverse)
            inverse->f32[r] = (float)f;
    }
    return QG_OK;
}

static qg_status layer(const qg_call *k) { return normalize_rows(k, true); }
static qg_status root(const qg_call *k) { return normalize_rows(k, false); }
static qg_status run_layer(const qg_call *k) { return qg_run_f32(k, layer); }
static qg_status run_root(const qg_call *k) { return qg_run_f32(k, root); }

/* Gradients of scale and bias for every element, to be summed over what they are
 * broadcast to. */
static qg_status layer_backward(const qg_backward *b, bool centred)
{
    const qg_call *k = b->call;
    const layer_param *p = k->param;
    const qg_tensor *x = k->in[0];
    spread scale;
    qg_tensor along;
    int32_t axis;
    QG_TRY(qg_check_axis(k, p->axis, x->rank, &axis));
    QG_TRY(spread_of(k, k->in[1], axis, &scale));
    QG_TRY(qg_backward_like(b, x, &along));
    const int64_t rows = qg_dims_product(x, 0, axis);
    const int64_t n = qg_dims_product(x, axis, x->rank);
    double *h = qg_arena_raw(k->scratch, (size_t)n, sizeof *h);
    if (!h)
        return qg_nomem(k->ctx);
    for (int64_t r = 0; r < rows; r++) {
        const float *row = x->f32 + r * n, *g = b->out[0]->f32 + r * n;
        const double m = centred ? mean_of(row, n) : 0;
        const qg_normal_row normal = { row, h, m,
                                       inverse_deviation(row, m, n, p->epsilon),
                                       centred };
        for (int64_t i = 0; i < n; i++) {
            h[i] = (double)g[i] * (double)scale.at[r * scale.step + i];
            along.f32[r * n + i] =
                (float)((double)g[i] * ((double)row[i] - m) * normal.inverse);
        }
        if (b->in[0])
            qg_backward_normal(&normal, n, b->in[0]->f32 + r * n);
    }
    if (b->in[1])
        QG_TRY(qg_backward_sum(b, &along, 1, b->in[1]));
    return qg_in(k, 2) && b->in[2] ? qg_backward_sum(b, b->out[0], 1, b->in[2]) : QG_OK;
}

static qg_status backward_layer(const qg_backward *b)
{
    return layer_backward(b, true);
}
static qg_status backward_root(const qg_backward *b)
{
    return layer_backward(b, false);
}
#define backward_lp  NULL
#define backward_lrn NULL
#define backward_mvn NULL

/* --- LpNormalization ----------------------------------------------------------- */

static qg_status prepare_lp(qg_ctx *ctx, const qg_node *node, void *param)
{
    layer_param *p = param;
    QG_TRY(qg_attr_int(ctx, node, "axis", -1, &p->axis));
    QG_TRY(qg_attr_int(ctx, node, "p", 2, &p->p));
    if (p->p != 1 && p->p != 2)
        return qg_node_fail(ctx, QG_EMODEL, "import", node,
                            "p is %lld, expected 1 or 2", (long long)p->p);
    return QG_OK;
}

/* The axis is checked as soon as the rank is known. */
static qg_status infer_lp(const qg_call *k)
{
    const layer_param *p = k->param;
    int32_t axis;
    QG_TRY(qg_check_type(k, 0, QG_DT_FLOATS));
    QG_TRY(qg_check_rank(k, 0, 1, QG_MAX_RANK));
    if (k->in[0]->rank >= 0)
        QG_TRY(qg_check_axis(k, p->axis, k->in[0]->rank, &axis));
    return qg_infer_same(k);
}

/* A norm of 0 leaves zeros, as ONNX's reference does. */
static void lp_line(const float *x, int64_t n, int64_t step, int64_t p, float *y)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double v = (double)x[i * step];
        sum += p == 1 ? fabs(v) : v * v;
    }
    double norm = p == 1 ? sum : sqrt(sum);
    for (int64_t i = 0; i < n; i++)
        y[i * step] = norm == 0 ? 0 : (float)((double)x[i * step] / norm);
}

static qg_status lp(const qg_call *k)
{
    const layer_param *p = k->param;
    int32_t axis;
    QG_TRY(qg_check_axis(k, p->axis, k->in[0]->rank, &axis));
    qg_around a = qg_around_axis(k->in[0], axis);
    for (int64_t o = 0; o < a.outer; o++)
        for (int64_t i = 0; i < a.inner; i++) {
            int64_t at = o * a.middle * a.inner + i;
            lp_line(k->in[0]->f32 + at, a.middle, a.inner, p->p, k->out[0]->f32 + at);
        }
    return QG_OK;
}

static qg_status run_lp(const qg_call *k) { return qg_run_f32(k, lp); }

/* --- LRN ----------------------------------------------------------------------- */

static qg_status prepare_lrn(qg_ctx *ctx, const qg_node *node, void *param)
{
    layer_param *p = param;
    QG_TRY(qg_attr_float(ctx, node, "alpha", 1e-4f, &p->alpha));
    QG_TRY(qg_attr_float(ctx, node, "beta", 0.75f, &p->beta));
    QG_TRY(qg_attr_float(ctx, node, "bias", 1, &p->bias));
    return qg_attr_count(ctx, node, "size", (qg_preset){ 0, 1 }, &p->size);
}

static qg_status infer_lrn(const qg_call *k)
{
    QG_TRY(qg_check_type(k, 0, QG_DT_FLOATS));
    QG_TRY(qg_check_rank(k, 0, 2, QG_MAX_RANK));
    return qg_infer_same(k);
}

/* Channel c of one sample: the window of channels is [c - floor((size - 1) / 2),
 * c + ceil((size - 1) / 2)]. */
static void lrn_channel(const layer_param *p, const float *x, float *y, int64_t c,
                        int64_t channels, int64_t space)
{
    int64_t first = c - (p->size - 1) / 2, last = c + p->size / 2;
    first = first < 0 ? 0 : first;
    last = last < channels ? last : channels - 1;
    for (int64_t i = 0; i < space; i++) {
        double sum = 0;
        for (int64_t j = first; j <= last; j++)
            sum += (double)x[j * space + i] * (double)x[j * space + i];
        double base = (double)p->bias + (double)p->alpha / (double)p->size * sum;
        y[c * space + i] =
            (float)((double)x[c * space + i] / pow(base, (double)p->beta));
    }
}

/* Channel by channel, over the planes of one sample. */
static qg_status lrn(const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    int64_t channels = x->dim[1], space = qg_dims_product(x, 2, x->rank);
    for (int64_t n = 0; n < x->dim[0]; n++)
        for (int64_t c = 0; c < channels; c++)
            lrn_channel(k->param, x->f32 + n * channels * space,
                        k->out[0]->f32 + n * channels * space, c, channels, space);
    return QG_OK;
}

static qg_status run_lrn(const qg_call *k) { return qg_run_f32(k, lrn); }

/* --- MeanVarianceNormalization ------------------------------------------------- */

/* The default axes are those of images, [0, 2, 3]. */
static qg_status prepare_mvn(qg_ctx *ctx, const qg_node *node, void *param)
{
    layer_param *p = param;
    QG_TRY(qg_ints_attr(ctx, node, "axes", &p->axes));
    if (!p->axes.given)
        p->axes = (qg_ints){
            true, 3, {0, 2, 3}
        };
    return QG_OK;
}

static qg_status infer_mvn(const qg_call *k)
{
    const layer_param *p = k->param;
    uint32_t mask;
    QG_TRY(qg_check_type(k, 0, QG_DT_FLOATS));
    if (k->in[0]->rank >= 0)
        QG_TRY(qg_axes_mask(k, &p->axes, k->in[0]->rank, &mask));
    return qg_infer_same(k);
}

/* A walk over those dims of t whose bit in `mask` is `bit`. */
static void walk_dims(const qg_tensor *t, uint32_t mask, uint32_t bit, qg_walk *w)
{
    int64_t dim[QG_MAX_RANK], stride[QG_MAX_RANK];
    int32_t n = 0;
    for (int32_t i = 0; i < t->rank; i++)
        if ((mask >> i & 1) == bit) {
            dim[n] = t->dim[i];
            stride[n++] = t->stride[i];
        }
    qg_walk_init(w, n, dim);
    qg_walk_add(w, stride);
    qg_walk_collapse(w);
}

/* Standardizes the elements that one walk visits from x and y. */
static void standardize(const qg_walk *w, const float *x, float *y)
{
    int64_t n = w->dim[w->rank - 1], step = w->stride[0][w->rank - 1];
    double sum = 0, squares = 0, count = 0, mean = 0, inverse = 0;
    for (int pass = 0; pass < 3; pass++) {
        qg_walk_at at = { 0 };
        do
            for (int64_t i = 0; i < n; i++) {
                int64_t j = at.offset[0] + i * step;
                double d = (double)x[j] - mean;
                if (pass == 0)
                    sum += d, count++;
                else if (pass == 1)
                    squares += d * d;
                else
                    y[j] = (float)(d * inverse);
            }
        while (qg_walk_next(w, &at));
        mean = sum / count;
        inverse = 1 / (sqrt(squares / count) + 1e-9);
    }
}

/* The kept axes select groups, the reduced ones are walked inside each. */
static qg_status mvn(const qg_call *k)
{
    const layer_param *p = k->param;
    const qg_tensor *x = k->in[0];
    uint32_t mask;
    qg_walk kept, reduced;
    QG_TRY(qg_axes_mask(k, &p->axes, x->rank, &mask));
    walk_dims(x, mask, 0, &kept);
    walk_dims(x, mask, 1, &reduced);
    if (qg_tensor_count(x) == 0)
        return QG_OK;
    int64_t n = kept.dim[kept.rank - 1], step = kept.stride[0][kept.rank - 1];
    qg_walk_at at = { 0 };
    do
        for (int64_t i = 0; i < n; i++)
            standardize(&reduced, x->f32 + at.offset[0] + i * step,
                        k->out[0]->f32 + at.offset[0] + i * step);
    while (qg_walk_next(&kept, &at));
    return QG_OK;
}

static qg_status run_mvn(const qg_call *k) { return qg_run_f32(k, mvn); }

#define MORE_layer QG_OP_GAIN
#define MORE_root  QG_OP_GAIN
#define MORE_lp    QG_OP_UNDEFINED
#define MORE_lrn   0
#define MORE_mvn   0
#define ROW(onnx, opset, inputs, roles, outputs, kind, size, free)                     \
    {                                                                                  \
        .name = onnx, .since = (opset), .min_in = (inputs) > 1 ? 2 : 1,                \
        .max_in = (inputs), .min_out = 1, .max_out = (outputs), .in_roles = roles,     \
        .out_roles = "dff", .traits = QG_OP_PURE | QG_OP_BATCH_FIRST | MORE_##kind,    \
        .param_size = sizeof(layer_param), .prepare = prepare_##size,                  \
        .infer = infer_##size, .run = run_##kind, .free_axes = (free),                 \
        .backward = backward_##kind                                                    \
    }
/* clang-format off */
const qg_op qg_ops_layernorm[] = {
    ROW("LayerNormalization", 1, 3, "dff", 3, layer, layer, layer_free_axes),
    ROW("SimplifiedLayerNormalization", 1, 2, "df", 2, root, layer, layer_free_axes),
    ROW("RMSNormalization", 23, 2, "df", 1, root, layer, layer_free_axes),
    ROW("LpNormalization", 1, 1, "d", 1, lp, lp, NULL),
    ROW("LpNormalization", 22, 1, "d", 1, lp, lp, NULL),
    ROW("LRN", 1, 1, "d", 1, lrn, lrn, NULL),
    ROW("LRN", 13, 1, "d", 1, lrn, lrn, NULL),
    ROW("MeanVarianceNormalization", 9, 1, "d", 1, mvn, mvn, NULL),
    ROW("MeanVarianceNormalization", 13, 1, "d", 1, mvn, mvn, NULL),
    { 0 },
};
/* clang-format on */

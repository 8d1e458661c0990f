/* resize.c -- Resize and Upsample: every dim by its own factor.
 *
 * nearest takes any type; linear and cubic compute in float32 and round integers half
 * to even, saturating.  Output dims are floor(in * scale) in float32, as in ONNX shape
 * inference, or `sizes`.
 * Source: ONNX Resize-10, 11, 13, 18 (antialias, axes, keep_aspect_ratio_policy), 19
 * (half_pixel_symmetric); Upsample-7, 9.
 *
 * Slots   region, scales and sizes are 's'.  Resize changes values unless nearest:
 * it is not PASSIVE; backends list it where its output shares the input's scale. */
#include "ops/families.h"

#include <math.h>

#include "engine/ir/kernel.h"
#include "ops/util_axis.h"
#include "ops/util_cast.h"
#include "ops/util_lower.h"
#include "ops/util_resample.h"

enum policy { STRETCH, NOT_LARGER, NOT_SMALLER };

typedef struct resize_param {
    qg_resample how;
    int policy;
    float extrapolation;
    qg_ints axes;
    const float *scales; /* Upsample-7: an attribute; else NULL */
    size_t n_scales;
    int roi, scale, size; /* input slots; -1: has none */
} resize_param;

/* The parameters resolved for one input. */
typedef struct resize_shape {
    qg_resample_axis axis[QG_MAX_RANK];
    bool moves[QG_MAX_RANK]; /* false: the axis is copied */
} resize_shape;

static const char *const modes[] = { "nearest", "linear", "cubic", NULL };
/* clang-format off */
static const char *const coordinates[] = { /* ORDER enum qg_resize_coordinate */
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
    "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize", NULL,
};
/* clang-format on */
static const char *const nearests[] = { "round_prefer_floor", "round_prefer_ceil",
                                        "floor", "ceil", NULL };
static const char *const policies[] = { "stretch", "not_larger", "not_smaller", NULL };

/* Slots are those of 11 and later; lists that are empty count as absent. */
static qg_status prepare_resize(qg_ctx *ctx, const qg_node *node, void *param)
{
    resize_param *p = param;
    float a;
    *p = (resize_param){ .roi = 1, .scale = 2, .size = 3 };
    QG_TRY(qg_attr_choice(ctx, node, "mode", modes, QG_RESIZE_NEAREST, &p->how.mode));
    QG_TRY(qg_attr_choice(ctx, node, "coordinate_transformation_mode", coordinates,
                          QG_RESIZE_HALF_PIXEL, &p->how.coordinate));
    QG_TRY(qg_attr_choice(ctx, node, "nearest_mode", nearests, QG_NEAREST_PREFER_FLOOR,
                          &p->how.nearest));
    QG_TRY(qg_attr_choice(ctx, node, "keep_aspect_ratio_policy", policies, STRETCH,
                          &p->policy));
    QG_TRY(qg_attr_float(ctx, node, "cubic_coeff_a", -0.75f, &a));
    QG_TRY(qg_attr_float(ctx, node, "extrapolation_value", 0, &p->extrapolation));
    QG_TRY(qg_attr_flag(ctx, node, "antialias", false, &p->how.antialias));
    QG_TRY(qg_attr_flag(ctx, node, "exclude_outside", false, &p->how.exclude_outside));
    QG_TRY(qg_ints_attr(ctx, node, "axes", &p->axes));
    p->how.cubic_a = (double)a;

    if (p->how.antialias && p->how.mode == QG_RESIZE_NEAREST)
        return qg_node_fail(ctx, QG_EMODEL, "import", node,
                            "antialias with mode nearest, expected linear or cubic");
    return QG_OK;
}

/* Upsample, and Resize before 11: asymmetric coordinates. */
static qg_status prepare_upsample(qg_ctx *ctx, const qg_node *node, void *param)
{
    resize_param *p = param;
    *p = (resize_param){
        .how = {.coordinate = QG_RESIZE_ASYMMETRIC, .nearest = QG_NEAREST_SIMPLE},
        .roi = -1,
        .scale = 1,
        .size = -1
    };
    QG_TRY(qg_attr_floats(ctx, node, "scales", &p->scales, &p->n_scales));
    return qg_attr_choice(ctx, node, "mode", modes, QG_RESIZE_NEAREST, &p->how.mode);
}

/* An optional list input: NULL when absent or empty. */
static const qg_tensor *list(const qg_call *k, int slot)
{
    const qg_tensor *t = slot < 0 ? NULL : qg_in(k, (size_t)slot);
    return t && !(t->rank == 1 && t->dim[0] == 0) ? t : NULL;
}

/* A list with one value per resized axis. */
static qg_status check_length(const qg_call *k, const char *what, const qg_tensor *t,
                              size_t expected)
{
    if (!t || (t->rank == 1 && t->dim[0] == (int64_t)expected))
        return QG_OK;
    char text[QG_SHAPE_TEXT];
    return qg_infer_fail(k, QG_EMODEL, "%s is %s, expected %zu values", what,
                         qg_tensor_text(t, text), expected);
}

/* floor in float32: 3 * 1.3333334f must match ONNX's shape inference. */
static qg_status scaled_axis(const qg_call *k, double scale, qg_resample_axis *x)
{
    double out = (double)floorf((float)x->in * (float)scale);
    if (!(scale > 0) || !(out <= (double)QG_MAX_EXTENT))
        return qg_infer_fail(
            k, QG_EMODEL, "scale %g of %lld, expected more than 0 and a size that fits",
            scale, (long long)x->in);
    x->scale = scale;
    x->out = (int64_t)out;
    return QG_OK;
}

/* The factor is exact here; an empty axis can only stay empty. */
static qg_status sized_axis(const qg_call *k, int64_t size, qg_resample_axis *x)
{
    if (size < 0 || size > QG_MAX_EXTENT || (x->in == 0 && size > 0))
        return qg_infer_fail(k, QG_EMODEL, "size %lld of %lld, expected 0 to %lld",
                             (long long)size, (long long)x->in,
                             (long long)(x->in ? QG_MAX_EXTENT : 0));
    x->out = size;
    x->scale = x->in > 0 ? (double)size / (double)x->in : 1;
    return QG_OK;
}

/* One common factor instead of one per axis: the smallest or the largest. */
static qg_status keep_ratio(const qg_call *k, const int32_t *axis, size_t n,
                            resize_shape *s)
{
    const resize_param *p = k->param;
    if (p->policy == STRETCH || n == 0)
        return QG_OK;
    double factor = s->axis[axis[0]].scale;
    for (size_t i = 1; i < n; i++) {
        double f = s->axis[axis[i]].scale;
        factor = p->policy == NOT_LARGER ? fmin(factor, f) : fmax(factor, f);
    }
    for (size_t i = 0; i < n; i++) {
        qg_resample_axis *x = &s->axis[axis[i]];
        double out = floor(factor * (double)x->in + 0.5);
        if (!(out <= (double)QG_MAX_EXTENT) || !(factor > 0))
            return qg_infer_fail(k, QG_EMODEL, "factor %g, expected more than 0",
                                 factor);
        x->scale = factor;
        x->out = (int64_t)out;
    }
    return QG_OK;
}

/* The listed axes, or all. */
static qg_status axes_of(const qg_call *k, int32_t axis[QG_MAX_RANK], size_t *n)
{
    const resize_param *p = k->param;
    int32_t rank = k->in[0]->rank;
    uint32_t mask;
    *n = p->axes.given ? p->axes.n : (size_t)rank;
    if (p->axes.given)
        QG_TRY(qg_axes_mask(k, &p->axes, rank, &mask));
    for (size_t i = 0; i < *n; i++)
        if (p->axes.given)
            QG_TRY(qg_check_axis(k, p->axes.at[i], rank, &axis[i]));
        else
            axis[i] = (int32_t)i;
    return QG_OK;
}

/* Checks that the lists have one entry per axis, and that exactly one of scales and
 * sizes is given. */
static qg_status check_lists(const qg_call *k, size_t n)
{
    const resize_param *p = k->param;
    const qg_tensor *scales = list(k, p->scale), *sizes = list(k, p->size);
    if ((scales || p->n_scales) == (sizes != NULL))
        return qg_infer_fail(k, QG_EMODEL, "%s scales %s sizes, expected one of them",
                             sizes ? "both" : "neither", sizes ? "and" : "nor");
    if (p->n_scales && p->n_scales != n)
        return qg_infer_fail(k, QG_EMODEL, "scales has %zu values, expected %zu",
                             p->n_scales, n);
    QG_TRY(check_length(k, "scales", scales, n));
    QG_TRY(check_length(k, "sizes", sizes, n));
    if (p->how.coordinate == QG_RESIZE_CROP)
        QG_TRY(check_length(k, "roi", list(k, p->roi), 2 * n));
    if (p->how.coordinate == QG_RESIZE_CROP && !list(k, p->roi))
        return qg_infer_fail(k, QG_EMODEL, "roi is absent, expected %zu values", 2 * n);
    return QG_OK;
}

/* Sizes are used if given; check_lists rejects scales and sizes together. */
static qg_status set_axis(const qg_call *k, size_t i, size_t n, qg_resample_axis *x)
{
    const resize_param *p = k->param;
    const qg_tensor *scales = list(k, p->scale), *sizes = list(k, p->size);
    const qg_tensor *roi = list(k, p->roi);
    if (p->how.coordinate == QG_RESIZE_CROP) {
        x->start = qg_tensor_f64(roi, (int64_t)i);
        x->end = qg_tensor_f64(roi, (int64_t)(n + i));
    }
    if (sizes)
        return sized_axis(k, qg_tensor_i64(sizes, (int64_t)i), x);
    return scaled_axis(
        k, p->n_scales ? (double)p->scales[i] : qg_tensor_f64(scales, (int64_t)i), x);
}

/* Requires known rank, dims and list data. */
static qg_status shape_of(const qg_call *k, resize_shape *s)
{
    const resize_param *p = k->param;
    int32_t axis[QG_MAX_RANK];
    size_t n;
    *s = (resize_shape){ 0 };
    for (int32_t i = 0; i < k->in[0]->rank; i++)
        s->axis[i] = (qg_resample_axis){
            .in = k->in[0]->dim[i], .out = k->in[0]->dim[i], .scale = 1, .end = 1
        };
    QG_TRY(axes_of(k, axis, &n));
    QG_TRY(check_lists(k, n));
    for (size_t i = 0; i < n; i++)
        QG_TRY(set_axis(k, i, n, &s->axis[axis[i]]));
    if (list(k, p->size))
        QG_TRY(keep_ratio(k, axis, n, s));
    for (size_t i = 0; i < n; i++) {
        qg_resample_axis *x = &s->axis[axis[i]];
        s->moves[axis[i]] =
            x->scale != 1 || x->in != x->out ||
            (p->how.coordinate == QG_RESIZE_CROP && (x->start != 0 || x->end != 1));
    }
    return QG_OK;
}

/* Whether an input that decides the shape has no data yet. */
static bool pending(const qg_call *k)
{
    const resize_param *p = k->param;
    const int slot[] = { p->roi, p->scale, p->size };
    for (int i = 0; i < 3; i++) {
        const qg_tensor *t = list(k, slot[i]);
        if (t && !t->data && (i > 0 || p->how.coordinate == QG_RESIZE_CROP))
            return true;
    }
    return !qg_tensor_known(k->in[0]);
}

/* Inference without data: the rank, and the dims not in `axes`. */
static qg_status infer_partly(const qg_call *k)
{
    const resize_param *p = k->param;
    const qg_tensor *x = k->in[0];
    int64_t dim[QG_MAX_RANK];
    uint32_t mask = UINT32_MAX;
    if (x->rank >= 0 && p->axes.given)
        QG_TRY(qg_axes_mask(k, &p->axes, x->rank, &mask));
    for (int32_t i = 0; i < x->rank; i++)
        dim[i] = mask >> i & 1 ? -1 : x->dim[i];
    return qg_infer_dims(k, x->dtype, x->rank, dim);
}

/* float32 scales, int64 sizes, the region in any float type. */
static qg_status infer_resize(const qg_call *k)
{
    const resize_param *p = k->param;
    resize_shape s;
    int64_t dim[QG_MAX_RANK];
    QG_TRY(qg_check_type(k, 0, QG_DT_ADDRESSED));
    if (p->roi >= 0)
        QG_TRY(qg_check_type(k, (size_t)p->roi, QG_DT_FLOATS));
    if (p->scale >= 0)
        QG_TRY(qg_check_type(k, (size_t)p->scale, QG_DT(F32)));
    if (p->size >= 0)
        QG_TRY(qg_check_type(k, (size_t)p->size, QG_DT(I64)));
    QG_TRY(qg_check_rank(k, 0, 1, QG_MAX_RANK));
    if (pending(k))
        return infer_partly(k);
    QG_TRY(shape_of(k, &s));
    for (int32_t i = 0; i < k->in[0]->rank; i++)
        dim[i] = s.axis[i].out;
    return qg_infer_dims(k, k->in[0]->dtype, k->in[0]->rank, dim);
}

/* --- one axis ------------------------------------------------------------------ */

/* A pass along one axis: [outer][in][inner] becomes [outer][out][inner]. */
typedef struct pass {
    const qg_resample_table *table;
    int64_t outer, in, out, inner;
    float extrapolation;
} pass;

#define GATHER(type)                                                                   \
    for (int64_t i = 0; i < p->out; i++)                                               \
    ((type *)y)[i] = ((const type *)x)[p->table->index[i]]

/* One line of the innermost axis, by element size. */
static void gather_line(const pass *p, size_t size, const void *x, void *y)
{
    if (size == 1)
        GATHER(uint8_t);
    else if (size == 2)
        GATHER(uint16_t);
    else if (size == 4)
        GATHER(uint32_t);
    else
        GATHER(uint64_t);
}
#undef GATHER

/* nearest: every element is a copy, of any size. */
static void gather(const pass *p, size_t size, const char *x, char *y)
{
    size_t row = (size_t)p->inner * size;
    for (int64_t o = 0; o < p->outer; o++) {
        const char *from = x + (size_t)(o * p->in) * row;
        char *to = y + (size_t)(o * p->out) * row;
        if (p->inner == 1)
            gather_line(p, size, from, to);
        else
            for (int64_t i = 0; i < p->out; i++)
                memcpy(to + (size_t)i * row, from + (size_t)p->table->index[i] * row,
                       row);
    }
}

/* Tap by tap over whole rows, so that the inner loop is contiguous. */
static void blend_row(const pass *p, int64_t i, const float *x, float *y)
{
    const qg_resample_table *t = p->table;
    const int64_t *index = t->index + i * t->taps;
    const float *weight = t->weight + i * t->taps;
    for (int64_t j = 0; j < p->inner; j++)
        y[j] = weight[0] * x[index[0] * p->inner + j];
    for (int64_t n = 1; n < t->taps; n++)
        for (int64_t j = 0; j < p->inner; j++)
            y[j] += weight[n] * x[index[n] * p->inner + j];
}

/* linear and cubic, along one axis. */
static void blend(const pass *p, const float *x, float *y)
{
    for (int64_t o = 0; o < p->outer; o++)
        for (int64_t i = 0; i < p->out; i++)
            blend_row(p, i, x + o * p->in * p->inner, y + (o * p->out + i) * p->inner);
}

/* Rows outside the region of interest get the extrapolation value. */
static void extrapolate(const pass *p, qg_dtype d, void *y)
{
    double value = (double)p->extrapolation;
    for (int64_t o = 0; o < p->outer; o++)
        for (int64_t i = 0; i < p->out; i++)
            for (int64_t j = 0; p->table->outside[i] && j < p->inner; j++)
                qg_cast((qg_cast_side){ QG_F64, &value, 0 },
                        (qg_cast_side){ d, y, (o * p->out + i) * p->inner + j }, 1,
                        true);
}

/* y = x resampled along axis a; y->data NULL: in new scratch memory. */
static qg_status resample(const qg_call *k, const qg_resample_axis *axis, int32_t a,
                          const qg_tensor *x, qg_tensor *y)
{
    const resize_param *p = k->param;
    qg_resample_table table;
    int64_t dim[QG_MAX_RANK];
    void *data = y->data;
    memcpy(dim, x->dim, sizeof dim);
    dim[a] = axis->out;
    qg_tensor_init(y, x->dtype, x->rank, dim);
    y->data = data;
    if (!data)
        QG_TRY(qg_tensor_alloc(k->ctx, k->scratch, y));
    if (qg_tensor_count(y) == 0)
        return QG_OK;
    QG_TRY(qg_resample_new(k->ctx, k->scratch, &p->how, axis, &table));
    pass s = { .table = &table,
               .outer = qg_dims_product(x, 0, a),
               .in = axis->in,
               .out = axis->out,
               .inner = qg_dims_product(x, a + 1, x->rank),
               .extrapolation = p->extrapolation };
    if (table.weight)
        blend(&s, x->f32, y->f32);
    else
        gather(&s, qg_element_size(x->dtype), x->data, y->data);
    if (table.outside)
        extrapolate(&s, x->dtype, y->data);
    return QG_OK;
}

/* Floats are converted as they are, integers rounded half to even first. */
static void store(qg_tensor *from, qg_tensor *to)
{
    bool whole = qg_dtype_kind_of(to->dtype) != QG_KIND_FLOAT;
    if (whole && from->dtype == QG_F32)
        for (int64_t i = 0; i < qg_tensor_count(from); i++)
            from->f32[i] = nearbyintf(from->f32[i]);
    qg_cast_tensor(from, to, true);
}

/* The axes from the last one to the first, without those that keep their extent; the
 * last pass writes to `to`, unless that is NULL.  *step: x before, the result after.
 * last: memory has the order N, space, C, and so have the dims of *step. */
static qg_status resample_all(const qg_call *k, const resize_shape *s, bool last,
                              void *to, qg_tensor *step)
{
    int32_t left = 0;
    for (int32_t a = 0; a < step->rank; a++)
        left += s->moves[a];
    for (int32_t a = step->rank - 1; a >= 0; a--)
        if (s->moves[a]) {
            const qg_tensor from = *step;
            step->data = --left == 0 ? to : NULL;
            QG_TRY(resample(k, &s->axis[a], last ? a - 1 : a, &from, step));
        }
    return QG_OK;
}

static qg_status run_resize(const qg_call *k)
{
    const resize_param *p = k->param;
    bool blends = p->how.mode != QG_RESIZE_NEAREST;
    const qg_tensor *x = k->in[0];
    qg_tensor *y = k->out[0];
    resize_shape s;
    QG_TRY(shape_of(k, &s));
    if (blends)
        QG_TRY(qg_cast_view(k->ctx, k->scratch, x, QG_F32, &x));
    qg_tensor step = *x;
    QG_TRY(resample_all(k, &s, false, x->dtype == y->dtype ? y->data : NULL, &step));
    if (step.data == k->in[0]->data)
        qg_cast_tensor(k->in[0], y, true);
    else if (step.data != y->data)
        store(&step, y);
    return QG_OK;
}

/* On channels-last memory: the same passes, the axes counted in memory. */
static qg_status run_resize_last(const qg_kernel *kernel, const qg_call *k)
{
    const qg_tensor *x = k->in[0];
    qg_tensor step;
    resize_shape s;
    int64_t dim[QG_MAX_RANK];
    (void)kernel;
    QG_TRY(shape_of(k, &s));
    for (int32_t i = 0; i < x->rank; i++)
        dim[i] = x->dim[i == 0 ? 0 : i + 1 < x->rank ? i + 1 : 1];
    qg_tensor_init(&step, QG_F32, x->rank, dim);
    step.data = x->data;
    return resample_all(k, &s, true, k->out[0]->data, &step);
}

/* float32 that is channels-last already, where the shape is known and only axes of
 * space move. */
static qg_status compile_resize(qg_compile *c, qg_kernel **out)
{
    const qg_tensor *x = c->in[0];
    qg_call k = qg_compile_call(c);
    resize_shape s;
    bool some = false;
    *out = NULL;
    if (c->in_layout[0] != QG_LAYOUT_CHANNELS_LAST || x->dtype != QG_F32 || x->data ||
        pending(&k) || qg_tensor_count(c->out[0]) == 0)
        return QG_OK;
    QG_TRY(shape_of(&k, &s));
    for (int32_t i = 2; i < x->rank; i++)
        some = some || s.moves[i];
    if (!some || s.moves[0] || s.moves[1])
        return QG_OK;
    *out = QG_NEW(c->arena, qg_kernel);
    if (!*out)
        return qg_nomem(c->ctx);
    **out = (qg_kernel){ .run = run_resize_last,
                         .in_layout = { QG_LAYOUT_CHANNELS_LAST },
                         .out_layout = QG_LAYOUT_CHANNELS_LAST,
                         .name = "resize channels-last" };
    return QG_OK;
}

/* --- gradient -------------------------------------------------------------------- */

/* The transpose of gather and blend along one axis: x, zeroed, gets y. */
static void spread(const pass *p, const float *y, float *x)
{
    const qg_resample_table *t = p->table;
    for (int64_t o = 0; o < p->outer; o++, x += p->in * p->inner)
        for (int64_t i = 0; i < p->out; i++, y += p->inner)
            for (int64_t n = 0; n < t->taps; n++) {
                const float w = t->weight ? t->weight[i * t->taps + n] : 1;
                float *to = x + t->index[i * t->taps + n] * p->inner;
                for (int64_t j = 0; !(t->outside && t->outside[i]) && j < p->inner; j++)
                    to[j] += w * y[j];
            }
}

/* The passes in the opposite order. */
static qg_status backward_resize(const qg_backward *b)
{
    const qg_call *k = b->call;
    const resize_param *p = k->param;
    const qg_tensor *x = k->in[0];
    qg_tensor step = *b->out[0];
    resize_shape s;
    QG_TRY(shape_of(k, &s));
    for (int32_t a = 0; a < x->rank; a++) {
        const qg_tensor from = step;
        qg_resample_table table;
        if (!s.moves[a] || qg_tensor_count(x) == 0)
            continue;
        QG_TRY(qg_resample_new(k->ctx, k->scratch, &p->how, &s.axis[a], &table));
        step.dim[a] = x->dim[a];
        qg_tensor_set_plain(&step);
        QG_TRY(qg_tensor_alloc(k->ctx, k->scratch, &step));
        memset(step.data, 0, qg_elements(&step) * sizeof *step.f32);
        const pass back = { .table = &table,
                            .outer = qg_dims_product(x, 0, a),
                            .in = s.axis[a].in,
                            .out = s.axis[a].out,
                            .inner = qg_dims_product(&from, a + 1, x->rank) };
        spread(&back, from.f32, step.f32);
    }
    memcpy(b->in[0]->data, step.data, qg_elements(x) * sizeof *step.f32);
    return QG_OK;
}

/* Coordinates that IntResize has, by enum qg_resize_coordinate. */
static const char *const linear_coordinates[] = {
    [QG_RESIZE_HALF_PIXEL] = "half_pixel",
    [QG_RESIZE_PYTORCH_HALF_PIXEL] = "pytorch_half_pixel",
    [QG_RESIZE_ALIGN_CORNERS] = "align_corners",
    [QG_RESIZE_ASYMMETRIC] = "asymmetric",
    [QG_RESIZE_CROP] = NULL,
};

/* Whether the factors are those of the sizes, which the integer formulas read alone. */
static bool exact_factors(const qg_lower *l)
{
    const resize_param *p = l->node->param;
    const qg_tensor *x = &l->node->in[0]->type, *y = &l->node->out[0]->type;
    const qg_tensor *s = p->scale >= 0 && (uint32_t)p->scale < l->node->n_in
                             ? l->in[p->scale].constant
                             : NULL;
    for (int32_t i = 0; i < x->rank; i++) {
        double factor = p->n_scales ? (double)p->scales[i]
                        : s && qg_tensor_count(s) == x->rank
                            ? qg_tensor_f64(s, i)
                            : (double)y->dim[i] / (double)x->dim[i];
        if (factor * (double)x->dim[i] != (double)y->dim[i] || (i < 2 && factor != 1))
            return p->size >= 0 && !s && !p->n_scales && i >= 2;
    }
    return true;
}

/* IntResize(x, sizes) of the two last axes. */
static qg_status lower_linear(qg_lower *l)
{
    const resize_param *p = l->node->param;
    const qg_tensor *x = &l->node->in[0]->type, *y = &l->node->out[0]->type;
    const char *mode = linear_coordinates[p->how.coordinate];
    qg_value *in[2] = { l->in[0].value, NULL };
    if (!mode || p->how.antialias || p->how.exclude_outside || p->axes.given ||
        p->policy != STRETCH)
        return qg_lower_refuse(l, "expected plain bilinear resizing of all axes");
    if (x->rank != 4 || !qg_tensor_known(x) || !qg_tensor_known(y) || !exact_factors(l))
        return qg_lower_refuse(l, "expected four known dims, of which the last two are "
                                  "resized by exactly the ratio of their sizes");
    if (!qg_lower_wants_codes(l, 1) || !qg_lower_wants_same(l, 0))
        return QG_OK;
    const qg_profile_row *row = qg_lower_row(l, QG_USE_RESIZE_LINEAR);
    const char *name = qg_arena_printf(l->to->arena, "%s_sizes", l->node->name);
    if (!row)
        return QG_OK;
    qg_tensor *sizes = qg_lower_tensor(l, QG_I64, 1, (int64_t[]){ 4 });
    if (!name || !sizes)
        return qg_nomem(l->ctx);
    memcpy(sizes->i64, y->dim, 4 * sizeof *sizes->i64);
    QG_TRY(qg_lower_constant(l, name, sizes, &in[1]));
    QG_TRY(qg_lower_set_text(l, "coordinate_transformation_mode", mode));
    return qg_lower_emit(l, "IntResize", row, in, 2);
}

static qg_status lower_resize(qg_lower *l)
{
    const resize_param *p = l->node->param;
    if (p->how.mode == QG_RESIZE_NEAREST)
        return qg_lower_on_codes(l, QG_USE_RESIZE_NEAREST);
    if (p->how.mode == QG_RESIZE_LINEAR)
        return lower_linear(l);
    return qg_lower_refuse(l, "mode cubic, expected nearest or linear");
}

/* Before 11 a node has only the mode attribute. */
static const char *const how[] = { "nearest", "half_pixel", "round_prefer_floor" };
/* clang-format off */
static const qg_attr nearest[] = {
    { "mode", QG_ATTR_STRING, 1, .strings = &how[0] },
    { "coordinate_transformation_mode", QG_ATTR_STRING, 1, .strings = &how[1] },
    { "nearest_mode", QG_ATTR_STRING, 1, .strings = &how[2] },
};
/* clang-format on */

/* Upsample is deprecated and has no backend-specific form: `choices` 0. */
#define ROW(onnx, opset, least, most, roles, last, kind, choices)                      \
    {                                                                                  \
        .name = onnx, .since = (opset), .until = (last), .min_in = (least),            \
        .max_in = (most), .min_out = 1, .max_out = 1, .in_roles = roles,               \
        .traits = QG_OP_PURE | QG_OP_BATCH_FIRST | QG_OP_NONNEGATIVE,                  \
        .param_size = sizeof(resize_param), .prepare = prepare_##kind,                 \
        .infer = infer_resize, .run = run_resize, .compile = compile_resize,           \
        .lower = lower_resize, .nearest = (choices) ? nearest : NULL,                  \
        .n_nearest = (choices), .backward = backward_resize                            \
    }
/* clang-format off */
const qg_op qg_ops_resize[] = {
    ROW("Upsample", 7, 1, 1, "d", 8, upsample, 0),
    ROW("Upsample", 9, 2, 2, "ds", 9, upsample, 0),
    ROW("Resize", 10, 2, 2, "ds", 0, upsample, 1),
    ROW("Resize", 11, 3, 4, "dsss", 0, resize, 3),
    ROW("Resize", 13, 1, 4, "dsss", 0, resize, 3),
    ROW("Resize", 18, 1, 4, "dsss", 0, resize, 3),
    ROW("Resize", 19, 1, 4, "dsss", 0, resize, 3),
    { 0 },
};
/* clang-format on */

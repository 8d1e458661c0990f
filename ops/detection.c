/* detection.c -- boxes: NonMaxSuppression, RoiAlign, MaxRoiPool.
 *
 * NonMaxSuppression   boxes [batch, n, 4], scores [batch, classes, n]; output [m, 3] of
 *                     (batch, class, box); m depends on data, so infer counts the boxes
 *                     at run time.  Among equal scores the lower index is taken first.
 * RoiAlign            x [N, C, H, W], rois [r, 4] (x1 y1 x2 y2), batch index [r]
 * MaxRoiPool          the same with the batch index in front of each roi, rounded bins
 * Source: ONNX NonMaxSuppression-10, 11; RoiAlign-10, 16 (half_pixel), 22;
 * MaxRoiPool-1, 22; ties and degenerate boxes as in ONNX Runtime; max mode of RoiAlign
 * as in ONNX's reference, which takes the maximum of the weighted corners.
 *
 * Slots   boxes and scores are data; limits and thresholds are never quantized; index
 * outputs are 's'.  RoiAlign's rois are coordinates: floats that are never
 * quantized. */
#include "ops/families.h"

#include <math.h>

#include "ops/util_axis.h"
#include "ops/util_cast.h"

/* --- NonMaxSuppression --------------------------------------------------------- */

typedef struct nms_param {
    bool centre; /* boxes are (x, y, width, height) instead of two corners */
} nms_param;

static qg_status prepare_nms(qg_ctx *ctx, const qg_node *node, void *param)
{
    int64_t centre;
    QG_TRY(qg_attr_int(ctx, node, "center_point_box", 0, &centre));
    if (centre != 0 && centre != 1)
        return qg_node_fail(ctx, QG_EMODEL, "import", node,
                            "center_point_box is %lld, expected 0 or 1",
                            (long long)centre);
    ((nms_param *)param)->centre = centre != 0;
    return QG_OK;
}

typedef struct box {
    float top, left, bottom, right;
} box;

/* Corners may come in any order. */
static box box_of(const float *b, bool centre)
{
    if (centre)
        return (box){ b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2,
                      b[0] + b[2] / 2 };
    return (box){ fminf(b[0], b[2]), fminf(b[1], b[3]), fmaxf(b[0], b[2]),
                  fmaxf(b[1], b[3]) };
}

static float area(const box *b) { return (b->bottom - b->top) * (b->right - b->left); }

/* Intersection over union above the threshold; boxes without area overlap nothing. */
static bool overlaps(const box *a, const box *b, float threshold)
{
    float height = fminf(a->bottom, b->bottom) - fmaxf(a->top, b->top);
    float width = fminf(a->right, b->right) - fmaxf(a->left, b->left);
    if (!(height > 0) || !(width > 0))
        return false;
    float shared = height * width, all = area(a) + area(b) - shared;
    return area(a) > 0 && area(b) > 0 && all > 0 && shared / all > threshold;
}

/* A heap of box indices, best score on top. */
typedef struct heap {
    const float *score;
    int64_t *at, n;
} heap;

static bool better(const heap *h, int64_t a, int64_t b)
{
    float x = h->score[a], y = h->score[b];
    return x > y || (x == y && a < b);
}

/* Restores the heap below i; O(log n). */
static void sift(heap *h, int64_t i)
{
    for (int64_t child; (child = 2 * i + 1) < h->n; i = child) {
        if (child + 1 < h->n && better(h, h->at[child + 1], h->at[child]))
            child++;
        if (!better(h, h->at[child], h->at[i]))
            return;
        int64_t t = h->at[i];
        h->at[i] = h->at[child];
        h->at[child] = t;
    }
}

/* The best of the remaining boxes. */
static int64_t pop(heap *h)
{
    int64_t top = h->at[0];
    h->at[0] = h->at[--h->n];
    sift(h, 0);
    return top;
}

/* Boxes that were chosen, by corner: most pairs lie apart, which is seen for many boxes
 * at a time. */
typedef struct chosen {
    float *top, *left, *bottom, *right; /* [boxes] */
    int64_t n;
    bool nan; /* a corner is NaN: fminf and fmaxf ignore it, comparisons do not */
} chosen;

enum { TOGETHER = 64 };

/* Whether one of the chosen first .. end-1 may overlap b. */
static bool may_overlap(const chosen *c, const box *b, int64_t first, int64_t end)
{
    int near = c->nan || isnan(b->top + b->left + b->bottom + b->right);
    for (int64_t j = first; j < end; j++) {
        float low = b->bottom < c->bottom[j] ? b->bottom : c->bottom[j];
        float high = b->top > c->top[j] ? b->top : c->top[j];
        float right = b->right < c->right[j] ? b->right : c->right[j];
        float left = b->left > c->left[j] ? b->left : c->left[j];
        near |= (low > high) & (right > left);
    }
    return near;
}

static bool overlaps_any(const chosen *c, const box *b, float threshold)
{
    for (int64_t first = 0; first < c->n; first += TOGETHER) {
        int64_t end = first + TOGETHER < c->n ? first + TOGETHER : c->n;
        if (!may_overlap(c, b, first, end))
            continue;
        for (int64_t j = first; j < end; j++) {
            box o = { c->top[j], c->left[j], c->bottom[j], c->right[j] };
            if (overlaps(b, &o, threshold))
                return true;
        }
    }
    return false;
}

static void add_chosen(chosen *c, const box *b)
{
    c->top[c->n] = b->top;
    c->left[c->n] = b->left;
    c->bottom[c->n] = b->bottom;
    c->right[c->n] = b->right;
    c->nan |= isnan(b->top + b->left + b->bottom + b->right);
    c->n++;
}

typedef struct nms {
    int64_t boxes, most; /* per class */
    float overlap, least;
    bool has_least, centre;
    int64_t *work; /* [boxes] */
    float *corner; /* [4][boxes] */
} nms;

/* One class of one sample: how many boxes stay; triples go to `out` unless NULL. */
static int64_t select_boxes(const nms *s, const float *boxes, const float *score,
                            const int64_t tag[2], int64_t *out)
{
    heap h = { score, s->work, 0 };
    chosen c = { s->corner,
                 s->corner + s->boxes,
                 s->corner + 2 * s->boxes,
                 s->corner + 3 * s->boxes,
                 0,
                 false };
    for (int64_t i = 0; i < s->boxes; i++)
        if (!s->has_least || score[i] > s->least)
            h.at[h.n++] = i;
    for (int64_t i = h.n / 2 - 1; i >= 0; i--)
        sift(&h, i);
    while (h.n > 0 && c.n < s->most) {
        int64_t i = pop(&h);
        box b = box_of(boxes + 4 * i, s->centre);
        if (overlaps_any(&c, &b, s->overlap))
            continue;
        if (out)
            memcpy(out + 3 * c.n, (int64_t[]){ tag[0], tag[1], i }, 3 * sizeof *out);
        add_chosen(&c, &b);
    }
    return c.n;
}

/* Absent thresholds are 0. */
static float threshold(const qg_tensor *t)
{
    return t ? (float)qg_tensor_f64(t, 0) : 0;
}

/* Counts, and writes the triples when `out` is given: infer and run share it. */
static qg_status select_all(const qg_call *k, int64_t *out, int64_t *count)
{
    const qg_tensor *boxes, *scores, *most = qg_in(k, 2), *least = qg_in(k, 4);
    QG_TRY(qg_cast_view(k->ctx, k->scratch, k->in[0], QG_F32, &boxes));
    QG_TRY(qg_cast_view(k->ctx, k->scratch, k->in[1], QG_F32, &scores));
    int64_t n = boxes->dim[1], classes = scores->dim[1], total = 0;
    nms s = { .boxes = n,
              .most = most ? qg_tensor_i64(most, 0) : 0,
              .overlap = threshold(qg_in(k, 3)),
              .least = threshold(least),
              .has_least = least != NULL,
              .centre = ((const nms_param *)k->param)->centre,
              .work = QG_NEWN(k->scratch, (size_t)n, int64_t),
              .corner = QG_NEWN(k->scratch, (size_t)n * 4, float) };
    if (!s.work || !s.corner)
        return qg_nomem(k->ctx);
    for (int64_t i = 0; i < scores->dim[0] * classes; i++) {
        int64_t tag[] = { i / classes, i % classes };
        total += select_boxes(&s, boxes->f32 + tag[0] * n * 4, scores->f32 + i * n, tag,
                              out ? out + 3 * total : NULL);
    }
    *count = total;
    return QG_OK;
}

/* When all data is known, as at run time, counts the boxes. */
static qg_status infer_nms(const qg_call *k)
{
    int64_t dim[] = { -1, 3 };
    bool ready = true;
    QG_TRY(qg_check_types(k, 0, 1, QG_DT(F32)));
    QG_TRY(qg_check_type(k, 2, QG_DT(I64)));
    QG_TRY(qg_check_types(k, 3, 4, QG_DT(F32)));
    QG_TRY(qg_check_rank(k, 0, 3, 3));
    QG_TRY(qg_check_rank(k, 1, 3, 3));
    QG_TRY(qg_check_dim(k, 0, 2, 4));
    QG_TRY(qg_check_dim(k, 1, 0, qg_in_dim(k, 0, 0)));
    QG_TRY(qg_check_dim(k, 1, 2, qg_in_dim(k, 0, 1)));
    for (size_t i = 2; i < 5; i++)
        QG_TRY(qg_check_one(k, i));
    for (size_t i = 0; i < k->n_in; i++)
        ready = ready && (!k->in[i] || k->in[i]->data);
    if (ready)
        QG_TRY(select_all(k, NULL, &dim[0]));
    return qg_infer_dims(k, QG_I64, 2, dim);
}

static qg_status run_nms(const qg_call *k)
{
    int64_t count;
    return select_all(k, k->out[0]->i64, &count);
}

/* --- RoiAlign ------------------------------------------------------------------ */

/* Samples per bin: above any useful resolution, low enough to bound the run time. */
enum { MAX_SAMPLES = 1 << 20 };

typedef struct roi_param {
    bool maximum, half_pixel;
    int64_t height, width, samples;
    float scale;
} roi_param;

/* Before 16 there was no half-pixel shift. */
static qg_status prepare_align(qg_ctx *ctx, const qg_node *node, void *param)
{
    static const char *const modes[] = { "avg", "max", NULL };
    static const char *const coordinates[] = { "half_pixel", "output_half_pixel",
                                               NULL };
    roi_param *p = param;
    int mode, coordinate;
    QG_TRY(qg_attr_choice(ctx, node, "mode", modes, 0, &mode));
    QG_TRY(qg_attr_choice(ctx, node, "coordinate_transformation_mode", coordinates,
                          node->opset < 16 ? 1 : 0, &coordinate));
    QG_TRY(qg_attr_count(ctx, node, "output_height", (qg_preset){ 1, 1 }, &p->height));
    QG_TRY(qg_attr_count(ctx, node, "output_width", (qg_preset){ 1, 1 }, &p->width));
    QG_TRY(
        qg_attr_count(ctx, node, "sampling_ratio", (qg_preset){ 0, 0 }, &p->samples));
    QG_TRY(qg_attr_float(ctx, node, "spatial_scale", 1, &p->scale));

    p->maximum = mode == 1;
    p->half_pixel = coordinate == 0;
    return QG_OK;
}

/* One output region per roi. */
static qg_status infer_align(const qg_call *k)
{
    const roi_param *p = k->param;
    QG_TRY(qg_check_type(k, 0, QG_DT_FLOATS));
    QG_TRY(qg_check_same_type(k, 1, 1));
    QG_TRY(qg_check_type(k, 2, QG_DT(I64)));
    QG_TRY(qg_check_rank(k, 0, 4, 4));
    QG_TRY(qg_check_rank(k, 1, 2, 2));
    QG_TRY(qg_check_dim(k, 1, 1, 4));
    QG_TRY(qg_check_vector(k, 2, qg_in_dim(k, 1, 0)));
    int64_t dim[] = { qg_in_dim(k, 1, 0), qg_in_dim(k, 0, 1), p->height, p->width };
    if (dim[0] < 0)
        dim[0] = qg_in_dim(k, 2, 0);
    return qg_infer_dims(k, k->in[0]->dtype, 4, dim);
}

/* Neighbours of a coordinate along one axis and the weight of the upper one, which is
 * below 0 outside. */
typedef struct neighbours {
    int64_t low, high;
    float weight;
} neighbours;

/* Samples up to one pixel outside count as the border, further samples as 0. */
static neighbours neighbours_of(float at, int64_t extent)
{
    if (extent < 1 || !(at >= -1) || !(at <= (float)extent))
        return (neighbours){ 0, 0, -1 };
    at = at > 0 ? at : 0;
    int64_t low = (int64_t)at;
    if (low >= extent - 1)
        return (neighbours){ extent - 1, extent - 1, 0 };
    return (neighbours){ low, low + 1, at - (float)low };
}

/* One region: where it begins and how its bins are sampled. */
typedef struct region {
    float y, x, bin_height, bin_width;
    int64_t rows, columns; /* samples per bin */
} region;

/* Old coordinates force regions of at least one pixel. */
static region region_of(const roi_param *p, const float *roi)
{
    float shift = p->half_pixel ? 0.5f : 0;
    float x1 = roi[0] * p->scale - shift, y1 = roi[1] * p->scale - shift;
    float width = roi[2] * p->scale - shift - x1,
          height = roi[3] * p->scale - shift - y1;
    if (!p->half_pixel) {
        width = fmaxf(width, 1);
        height = fmaxf(height, 1);
    }
    region r = {
        y1,         x1,        height / (float)p->height, width / (float)p->width,
        p->samples, p->samples
    };
    if (!p->samples) {
        r.rows = (int64_t)fminf(fmaxf(ceilf(r.bin_height), 0), 0x1p24f);
        r.columns = (int64_t)fminf(fmaxf(ceilf(r.bin_width), 0), 0x1p24f);
    }
    return r;
}

/* One output element: bin `at` of one channel. */
static float pooled(const roi_param *p, const region *r, const float *x, int64_t height,
                    int64_t width, int64_t at)
{
    int64_t ph = at / p->width, pw = at % p->width;
    double sum = 0;
    float most = 0;
    for (int64_t i = 0; i < r->rows; i++) {
        float at_y =
            r->y + ((float)ph + ((float)i + 0.5f) / (float)r->rows) * r->bin_height;
        neighbours v = neighbours_of(at_y, height);
        for (int64_t j = 0; j < r->columns; j++) {
            float at_x = r->x + ((float)pw + ((float)j + 0.5f) / (float)r->columns) *
                                    r->bin_width;
            neighbours h = neighbours_of(at_x, width);
            float a = 0, b = 0, c = 0, d = 0;
            if (v.weight >= 0 && h.weight >= 0) {
                a = (1 - v.weight) * (1 - h.weight) * x[v.low * width + h.low];
                b = (1 - v.weight) * h.weight * x[v.low * width + h.high];
                c = v.weight * (1 - h.weight) * x[v.high * width + h.low];
                d = v.weight * h.weight * x[v.high * width + h.high];
            }
            float top = fmaxf(fmaxf(a, b), fmaxf(c, d));
            most = i + j == 0 ? top : fmaxf(most, top);
            sum += (double)(a + b + c + d);
        }
    }
    int64_t count = r->rows * r->columns;
    return p->maximum ? most : (float)(sum / (double)(count > 1 ? count : 1));
}

/* The batch index is data: it is checked before use. */
static qg_status align(const qg_call *k)
{
    const roi_param *p = k->param;
    const qg_tensor *x = k->in[0], *batch = k->in[2];
    int64_t channels = x->dim[1], height = x->dim[2], width = x->dim[3];
    float *y = k->out[0]->f32;
    for (int64_t r = 0; r < batch->dim[0]; r++) {
        int64_t n = batch->i64[r];
        if (n < 0 || n >= x->dim[0])
            return qg_run_fail(k, QG_EDATA,
                               "batch index %lld, expected within [0, %lld)",
                               (long long)n, (long long)x->dim[0]);
        region where = region_of(p, k->in[1]->f32 + 4 * r);
        if (where.rows * where.columns > MAX_SAMPLES)
            return qg_run_fail(
                k, QG_EDATA,
                "region %lld needs %lld x %lld samples per bin, expected "
                "at most %lld in all",
                (long long)r, (long long)where.rows, (long long)where.columns,
                (long long)MAX_SAMPLES);
        for (int64_t c = 0; c < channels; c++)
            for (int64_t i = 0; i < p->height * p->width; i++)
                *y++ = pooled(p, &where, x->f32 + (n * channels + c) * height * width,
                              height, width, i);
    }
    return QG_OK;
}

static qg_status run_align(const qg_call *k)
{
    return qg_tensor_count(k->out[0]) ? qg_run_f32(k, align) : QG_OK;
}

/* --- MaxRoiPool ---------------------------------------------------------------- */

static qg_status prepare_pool(qg_ctx *ctx, const qg_node *node, void *param)
{
    roi_param *p = param;
    int64_t shape[2];
    QG_TRY(qg_attr_ints_n(ctx, node, "pooled_shape", 2,
                          (qg_int_bounds){ .low = 1, .high = INT32_MAX }, shape));
    QG_TRY(qg_attr_float(ctx, node, "spatial_scale", 1, &p->scale));
    p->height = shape[0];
    p->width = shape[1];
    if (shape[0] >= 1)
        return QG_OK;
    return qg_node_fail(ctx, QG_EMODEL, "import", node,
                        "pooled_shape is 0, expected 1 to 2147483647");
}

/* rois carry their batch index in front. */
static qg_status infer_pool(const qg_call *k)
{
    const roi_param *p = k->param;
    QG_TRY(qg_check_type(k, 0, QG_DT_FLOATS));
    QG_TRY(qg_check_same_type(k, 1, 1));
    QG_TRY(qg_check_rank(k, 0, 4, 4));
    QG_TRY(qg_check_rank(k, 1, 2, 2));
    QG_TRY(qg_check_dim(k, 1, 1, 5));
    int64_t dim[] = { qg_in_dim(k, 1, 0), qg_in_dim(k, 0, 1), p->height, p->width };
    return qg_infer_dims(k, k->in[0]->dtype, 4, dim);
}

typedef struct range {
    int64_t begin, end;
} range;

/* Bin i of `bins` over [first, last], both whole, inside the image. */
static range bin_of(float first, float last, int64_t i, int64_t bins, int64_t extent)
{
    float size = fmaxf(last - first + 1, 1) / (float)bins;
    float low = floorf((float)i * size) + first;
    float high = ceilf((float)(i + 1) * size) + first;
    return (range){ (int64_t)fminf(fmaxf(low, 0), (float)extent),
                    (int64_t)fminf(fmaxf(high, 0), (float)extent) };
}

/* An empty bin gives 0. */
static float largest(const roi_param *p, const float *roi, const float *x,
                     const qg_tensor *shape, int64_t at)
{
    float y1 = roundf(roi[2] * p->scale), y2 = roundf(roi[4] * p->scale);
    float x1 = roundf(roi[1] * p->scale), x2 = roundf(roi[3] * p->scale), most = 0;
    range y = bin_of(y1, y2, at / p->width, p->height, shape->dim[2]);
    range c = bin_of(x1, x2, at % p->width, p->width, shape->dim[3]);
    for (int64_t i = y.begin; i < y.end; i++)
        for (int64_t j = c.begin; j < c.end; j++) {
            float v = x[i * shape->dim[3] + j];
            most = (i == y.begin && j == c.begin) || v > most ? v : most;
        }
    return most;
}

/* Batch indices are floats here, as MaxRoiPool has them. */
static qg_status pool(const qg_call *k)
{
    const roi_param *p = k->param;
    const qg_tensor *x = k->in[0];
    int64_t plane = x->dim[2] * x->dim[3], bins = p->height * p->width;
    float *y = k->out[0]->f32;
    for (int64_t r = 0; r < k->in[1]->dim[0]; r++) {
        const float *roi = k->in[1]->f32 + 5 * r;
        if (!(roi[0] >= 0 && roi[0] < (float)x->dim[0]))
            return qg_run_fail(k, QG_EDATA, "batch index %g, expected within [0, %lld)",
                               (double)roi[0], (long long)x->dim[0]);
        const float *image = x->f32 + (int64_t)roi[0] * x->dim[1] * plane;
        for (int64_t c = 0; c < x->dim[1]; c++)
            for (int64_t i = 0; i < bins; i++)
                *y++ = largest(p, roi, image + c * plane, x, i);
    }
    return QG_OK;
}

static qg_status run_pool(const qg_call *k) { return qg_run_f32(k, pool); }

#define ROW(onnx, opset, least, most, roles, outs, bits, kind, size)                   \
    {                                                                                  \
        .name = onnx, .since = (opset), .min_in = (least), .max_in = (most),           \
        .min_out = 1, .max_out = 1, .in_roles = roles, .out_roles = outs,              \
        .traits = QG_OP_PURE | (bits), .param_size = sizeof(size),                     \
        .prepare = prepare_##kind, .infer = infer_##kind, .run = run_##kind            \
    }
/* clang-format off */
const qg_op qg_ops_detection[] = {
    ROW("NonMaxSuppression", 10, 2, 5, "ddsff", "s", QG_OP_SHAPE, nms, nms_param),
    ROW("NonMaxSuppression", 11, 2, 5, "ddsff", "s", QG_OP_SHAPE, nms, nms_param),
    ROW("RoiAlign", 10, 3, 3, "dfs", "d", 0, align, roi_param),
    ROW("RoiAlign", 16, 3, 3, "dfs", "d", 0, align, roi_param),
    ROW("RoiAlign", 22, 3, 3, "dfs", "d", 0, align, roi_param),
    ROW("MaxRoiPool", 1, 2, 2, "df", "d", QG_OP_PASSIVE, pool, roi_param),
    ROW("MaxRoiPool", 22, 2, 2, "df", "d", QG_OP_PASSIVE, pool, roi_param),
    { 0 },
};
/* clang-format on */

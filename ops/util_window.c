#include "ops/util_window.h"

#include <assert.h>

#include "ops/util_check.h"

static const char *const auto_pads[] = { "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID",
                                         NULL };

/* An attribute list of at most `room` numbers within [low, 2^31), and where it goes. */
typedef struct list {
    const char *name;
    size_t room;
    int64_t low, *out;
    uint32_t *count;
} list;

static qg_status read_list(qg_ctx *ctx, const qg_node *n, const list *l)
{
    const char *name = l->name;
    const int64_t *at;
    size_t got;
    QG_TRY(qg_attr_ints(ctx, n, name, &at, &got));
    if (got > l->room)
        return qg_node_fail(ctx, QG_EUNSUPPORTED, "import", n,
                            "%s has %zu values, expected at most %zu", name, got,
                            l->room);
    for (size_t i = 0; i < got; i++) {
        if (at[i] < l->low || at[i] > INT32_MAX)
            return qg_node_fail(ctx, QG_EMODEL, "import", n,
                                "%s[%zu] is %lld, expected within [%lld, %lld]", name,
                                i, (long long)at[i], (long long)l->low,
                                (long long)INT32_MAX);
        l->out[i] = at[i];
    }
    *l->count = (uint32_t)got;
    return QG_OK;
}

qg_status qg_window_read(qg_ctx *ctx, const qg_node *n, void *window)
{
    qg_window w = { 0 };

    QG_TRY(qg_attr_choice(ctx, n, "auto_pad", auto_pads, QG_PAD_NOTSET, &w.auto_pad));
    QG_TRY(qg_attr_flag(ctx, n, "ceil_mode", false, &w.ceil_mode));

    const list lists[] = {
        {"kernel_shape",    QG_SPACE,     1, w.kernel,       &w.n_kernel      },
        { "strides",        QG_SPACE,     1, w.stride,       &w.n_stride      },
        { "dilations",      QG_SPACE,     1, w.dilation,     &w.n_dilation    },
        { "pads",           2 * QG_SPACE, 0, w.pad,          &w.n_pad         },
        { "output_padding", QG_SPACE,     0, w.output_pad,   &w.n_output_pad  },
        { "output_shape",   QG_SPACE,     0, w.output_shape, &w.n_output_shape},
    };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        QG_TRY(read_list(ctx, n, &lists[i]));
    *(qg_window *)window = w;
    return QG_OK;
}

/* A list is absent or has one value per spatial axis. */
static qg_status check_count(const qg_call *k, const char *name, uint32_t got,
                             int32_t expected)
{
    if (got == 0 || got == (uint32_t)expected)
        return QG_OK;
    return qg_infer_fail(k, QG_EMODEL, "%s has %u values, expected %d", name, got,
                         (int)expected);
}

/* Kernel of one axis: from the weight's shape (which kernel_shape must agree with). */
static qg_status kernel_of(const qg_call *k, const qg_window *w,
                           const qg_tensor *weight, int32_t axis, int64_t *out)
{
    int64_t given = w->n_kernel ? w->kernel[axis] : -1;
    int64_t real = weight && weight->rank > axis + 2 ? weight->dim[axis + 2] : given;
    if (given >= 0 && real >= 0 && given != real)
        return qg_infer_fail(k, QG_EMODEL,
                             "kernel_shape[%d] is %lld, expected %lld as in the weight",
                             (int)axis, (long long)given, (long long)real);
    if (real == 0 || real > INT32_MAX)
        return qg_infer_fail(k, QG_EMODEL,
                             "kernel extent %lld, expected 1 to 2147483647",
                             (long long)real);
    *out = real >= 0 ? real : given;
    return QG_OK;
}

/* Everything but sizes and pads, on three axes. */
static qg_status begin(const qg_call *k, const qg_window *w, const qg_tensor *x,
                       const qg_tensor *weight, qg_space *s)
{
    int32_t n = x->rank - 2, skip = QG_SPACE - n;
    assert(n >= 1 && n <= QG_SPACE);
    QG_TRY(check_count(k, "kernel_shape", w->n_kernel, n));
    QG_TRY(check_count(k, "strides", w->n_stride, n));
    QG_TRY(check_count(k, "dilations", w->n_dilation, n));
    QG_TRY(check_count(k, "pads", w->n_pad, 2 * n));
    QG_TRY(check_count(k, "output_padding", w->n_output_pad, n));
    if (!weight && !w->n_kernel)
        return qg_infer_fail(k, QG_EMODEL, "kernel_shape is absent, expected %d values",
                             (int)n);
    *s = (qg_space){
        .axes = n,
        .in = {1,  1, 1},
        .out = { 1, 1, 1},
        .kernel = { 1, 1, 1},
        .stride = { 1, 1, 1},
        .dilation = { 1, 1, 1}
    };
    for (int32_t i = 0; i < n; i++) {
        int32_t at = skip + i;
        s->in[at] = x->dim[i + 2];
        if (s->in[at] > INT32_MAX) /* so that no formula below can overflow */
            return qg_infer_fail(k, QG_EMODEL,
                                 "spatial extent %lld, expected at most %lld",
                                 (long long)s->in[at], (long long)INT32_MAX);
        QG_TRY(kernel_of(k, w, weight, i, &s->kernel[at]));
        s->stride[at] = w->n_stride ? w->stride[i] : 1;
        s->dilation[at] = w->n_dilation ? w->dilation[i] : 1;
        s->pad_begin[at] = w->n_pad ? w->pad[i] : 0;
        s->pad_end[at] = w->n_pad ? w->pad[n + i] : 0;
    }
    return QG_OK;
}

/* The extent that a dilated kernel covers. */
static int64_t reach_of(const qg_space *s, int a)
{
    return (s->kernel[a] - 1) * s->dilation[a] + 1;
}

/* total padding divided over both ends; auto_pad decides on which side the odd element
 * is. */
static void share_pads(int auto_pad, int64_t total, int64_t *begin_pad,
                       int64_t *end_pad)
{
    int64_t half = total / 2, rest = total - half;
    *begin_pad = auto_pad == QG_PAD_SAME_LOWER ? rest : half;
    *end_pad = auto_pad == QG_PAD_SAME_LOWER ? half : rest;
}

/* Source of the formula: auto_pad of Conv in the ONNX operator page. */
static void resolve_same(int auto_pad, qg_space *s, int a)
{
    s->out[a] = (s->in[a] + s->stride[a] - 1) / s->stride[a];
    int64_t total = (s->out[a] - 1) * s->stride[a] + reach_of(s, a) - s->in[a];
    share_pads(auto_pad, total > 0 ? total : 0, &s->pad_begin[a], &s->pad_end[a]);
}

/* An unknown extent leaves the output unknown. */
static qg_status resolve_axis(const qg_call *k, const qg_window *w, qg_space *s, int a)
{
    if (w->auto_pad == QG_PAD_VALID)
        s->pad_begin[a] = s->pad_end[a] = 0;
    if (s->in[a] < 0 || s->kernel[a] < 0) {
        s->out[a] = -1;
        return QG_OK;
    }
    if (w->auto_pad == QG_PAD_SAME_UPPER || w->auto_pad == QG_PAD_SAME_LOWER) {
        resolve_same(w->auto_pad, s, a);
        return QG_OK;
    }
    int64_t room = s->in[a] + s->pad_begin[a] + s->pad_end[a] - reach_of(s, a);
    bool up = w->ceil_mode && w->auto_pad == QG_PAD_NOTSET;
    if (room < 0 && !(up && room > -s->stride[a])) /* rounded up: one window, cut off */
        return qg_infer_fail(k, QG_EMODEL,
                             "a window of %lld on a padded extent of %lld, expected it "
                             "to fit",
                             (long long)reach_of(s, a),
                             (long long)(room + reach_of(s, a)));
    s->out[a] = (room + (up ? s->stride[a] - 1 : 0)) / s->stride[a] + 1;
    if (up && (s->out[a] - 1) * s->stride[a] >= s->in[a] + s->pad_begin[a])
        s->out[a]--;
    return QG_OK;
}

qg_status qg_window_resolve(const qg_call *k, const qg_window *w, const qg_tensor *x,
                            const qg_tensor *weight, qg_space *out)
{
    qg_space s;
    QG_TRY(begin(k, w, x, weight, &s));
    for (int a = QG_SPACE - s.axes; a < QG_SPACE; a++)
        QG_TRY(resolve_axis(k, w, &s, a));
    *out = s;
    return QG_OK;
}

/* Where output_shape is given the pads follow from it, else the output from the
 * pads. */
static qg_status transpose_axis(const qg_call *k, const qg_window *w, qg_space *s,
                                int a)
{
    int i = a - (QG_SPACE - s->axes);
    int64_t extra = w->n_output_pad ? w->output_pad[i] : 0;
    if (s->in[a] < 0 || s->kernel[a] < 0) {
        s->out[a] = w->n_output_shape ? w->output_shape[i] : -1;
        return QG_OK;
    }
    int64_t full = (s->in[a] - 1) * s->stride[a] + reach_of(s, a) + extra;
    bool same = w->auto_pad == QG_PAD_SAME_UPPER || w->auto_pad == QG_PAD_SAME_LOWER;
    if (w->n_output_shape)
        s->out[a] = w->output_shape[i];
    else if (same)
        s->out[a] = s->in[a] * s->stride[a];
    else if (w->auto_pad == QG_PAD_VALID)
        s->out[a] = full;
    else
        s->out[a] = full - s->pad_begin[a] - s->pad_end[a];
    if (w->n_output_shape || same || w->auto_pad == QG_PAD_VALID) {
        int64_t total = full - s->out[a];
        /* ConvTranspose counts the other way round: UPPER puts the odd one at the end,
         * everything else (NOTSET too) at the beginning. */
        share_pads(w->auto_pad == QG_PAD_SAME_UPPER ? QG_PAD_SAME_UPPER
                                                    : QG_PAD_SAME_LOWER,
                   total > 0 ? total : 0, &s->pad_begin[a], &s->pad_end[a]);
    }
    if (s->out[a] < 0)
        return qg_infer_fail(k, QG_EMODEL, "output extent %lld, expected at least 0",
                             (long long)s->out[a]);
    return QG_OK;
}

qg_status qg_window_resolve_transpose(const qg_call *k, const qg_window *w,
                                      const qg_tensor *x, const qg_tensor *weight,
                                      qg_space *out)
{
    qg_space s;
    QG_TRY(begin(k, w, x, weight, &s));
    QG_TRY(check_count(k, "output_shape", w->n_output_shape, s.axes));
    for (int a = QG_SPACE - s.axes; a < QG_SPACE; a++)
        QG_TRY(transpose_axis(k, w, &s, a));
    *out = s;
    return QG_OK;
}

void qg_space_dims(const qg_space *s, int64_t dim[])
{
    for (int32_t i = 0; i < s->axes; i++)
        dim[2 + i] = s->out[QG_SPACE - s->axes + i];
}

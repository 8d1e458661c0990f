#include "engine/session/labels.h"

#include <inttypes.h>
#include <math.h>

#include "engine/data/npy.h"

/* --- rows --- */

/* An extent that is not known counts as above 1. */
static size_t rows_of(const qg_tensor *y)
{
    bool more = false;
    for (int32_t d = 1; d < y->rank; d++)
        more = more || y->dim[d] != 1;
    return more && y->dim[0] > 1 ? (size_t)y->dim[0] : 1;
}

qg_status qg_labels_check_scores(qg_ctx *ctx, const char *doing, const qg_tensor *y,
                                 const qg_labels *l)
{
    char shape[QG_SHAPE_TEXT];
    int32_t axes = 0;
    bool rows = l->each == 1 || (y->rank > 1 && y->dim[0] == (int64_t)l->each);
    for (int32_t d = l->each > 1; d < y->rank; d++)
        axes += y->dim[d] > 1;
    return rows && axes <= 1
               ? QG_OK
               : qg_fail(ctx, QG_EDATA,
                         "%s: labels: the first output is %s, expected the scores "
                         "of classes, along one axis",
                         doing, qg_tensor_text(y, shape));
}

/* Scores of a row. */
static int64_t classes_of(const qg_tensor *y, const qg_labels *l)
{
    return qg_tensor_count(y) / (int64_t)l->each;
}

qg_status qg_labels_check(qg_ctx *ctx, const char *doing, const qg_tensor *y,
                          const qg_labels *l, size_t sample)
{
    int64_t n = classes_of(y, l);
    if (n < 2)
        return qg_fail(ctx, QG_EDATA,
                       "%s: the first output has %lld elements per sample, "
                       "expected one score per class",
                       doing, (long long)n);
    for (size_t r = 0; r < l->each; r++) {
        int64_t label = l->label[sample * l->each + r];
        if (label < 0 || label >= n)
            return qg_fail(ctx, QG_EDATA,
                           "%s: labels: %s: %lld (number %zu), expected a class from "
                           "0 to %lld",
                           doing, l->origin, (long long)label, sample * l->each + r + 1,
                           (long long)(n - 1));
    }
    return QG_OK;
}

qg_status qg_labels_vote(qg_ctx *ctx, const char *doing, const qg_tensor *y,
                         const qg_labels *l, size_t sample, int32_t *vote)
{
    QG_TRY(qg_labels_check_scores(ctx, doing, y, l));
    QG_TRY(qg_labels_check(ctx, doing, y, l, sample));
    int64_t n = classes_of(y, l);
    for (size_t r = 0; r < l->each; r++) {
        int64_t first = (int64_t)r * n;
        int32_t best = 0;
        for (int64_t i = 0; i < n && best >= 0; i++) {
            const double score = qg_tensor_f64(y, first + i);
            if (isnan(score))
                best = QG_NO_CLASS;
            else if (score > qg_tensor_f64(y, first + best))
                best = (int32_t)i;
        }
        vote[sample * l->each + r] = best;
    }
    return QG_OK;
}

double qg_labels_top1(const qg_labels *l, const int32_t *vote, size_t n)
{
    size_t right = 0, all = n * l->each;
    for (size_t i = 0; i < all; i++)
        right += vote[i] == l->label[i];
    return all ? (double)right / (double)all : 0;
}

size_t qg_labels_first_without(const qg_labels *l, const int32_t *vote, size_t n)
{
    size_t i = 0;
    while (i < n * l->each && vote[i] != QG_NO_CLASS)
        i++;
    return i / l->each;
}

/* --- files and arrays --- */

/* The labels of `of` from `origin`, for messages, each of a sample. */
typedef struct wanted {
    const char *origin;
    const qg_labelled *of;
    size_t each;
} wanted;

static wanted want(const char *origin, const qg_labelled *of)
{
    return (wanted){ origin, of, rows_of(&of->graph->output.at[0]->type) };
}

static bool fits(const wanted *w, uint64_t given, size_t unit)
{
    uint64_t n = (uint64_t)w->of->n * unit;
    return w->of->cut ? given >= n : given == n;
}

static qg_status unfit(qg_ctx *ctx, const wanted *w, const qg_tensor *t)
{
    char text[QG_SHAPE_TEXT];
    const size_t n = w->of->n;
    if (w->each == 1)
        return qg_fail(ctx, QG_EDATA,
                       "labels: %s: is %s, expected one integer for each of %zu "
                       "samples",
                       w->origin, qg_tensor_text(t, text), n);
    return qg_fail(ctx, QG_EDATA,
                   "labels: %s: is %s, expected [%zu,%zu] or [%zu] integers: a sample "
                   "has %zu rows in the first output",
                   w->origin, qg_tensor_text(t, text), n, w->each, n * w->each,
                   w->each);
}

static bool has_dims(const wanted *w, const qg_tensor *t)
{
    return t->rank == 1 ? fits(w, (uint64_t)t->dim[0], w->each)
                        : t->rank == 2 && t->dim[1] == (int64_t)w->each &&
                              fits(w, (uint64_t)t->dim[0], 1);
}

qg_status qg_labels_load(qg_ctx *ctx, const char *path, qg_arena *a,
                         const qg_labelled *of, qg_labels *out)
{
    const wanted w = want(path, of);
    const size_t n = of->n * w.each;
    const qg_tensor *t;
    QG_TRY(qg_npy_load(ctx, a, path, &t));
    enum qg_dtype_kind kind = qg_dtype_kind_of(t->dtype);
    if ((kind != QG_KIND_INT && kind != QG_KIND_UINT) || !has_dims(&w, t))
        return unfit(ctx, &w, t);
    int64_t *label = QG_NEWN(a, n, int64_t);
    if (!label)
        return qg_nomem(ctx);
    for (size_t i = 0; i < n; i++) {
        label[i] = qg_tensor_i64(t, (int64_t)i);
        if (t->dtype == QG_U64 && label[i] < 0)
            return qg_fail(ctx, QG_EDATA,
                           "labels: %s: sample %zu: is %" PRIu64
                           ", expected a class of the first output",
                           path, i / w.each, (uint64_t)label[i]);
    }
    *out = (qg_labels){ label, w.each, w.origin };
    return QG_OK;
}

qg_status qg_labels_take(qg_ctx *ctx, const int64_t *label, size_t given,
                         const qg_labelled *of, qg_labels *out)
{
    const wanted w = want("the array", of);
    qg_tensor t;
    qg_tensor_init(&t, QG_I64, 1, (const int64_t[]){ (int64_t)given });
    *out = (qg_labels){ label, w.each, w.origin };
    return fits(&w, given, w.each) ? QG_OK : unfit(ctx, &w, &t);
}

#include "engine/ir/affine.h"

#include <assert.h>
#include <math.h>

qg_status qg_affine_identity(qg_ctx *ctx, qg_arena *a, size_t channels, qg_affine *out)
{
    assert(channels > 0);
    qg_affine f = { .channels = channels, .scale = QG_NEWN(a, 2 * channels, double) };
    if (!f.scale)
        return qg_nomem(ctx);
    f.shift = f.scale + channels;
    for (size_t c = 0; c < channels; c++)
        f.scale[c] = 1;
    *out = f;
    return QG_OK;
}

qg_status qg_affine_then(qg_ctx *ctx, qg_arena *a, const qg_node *node, qg_affine *f)
{
    qg_affine next;
    assert(node->op->affine);
    QG_TRY(qg_affine_identity(ctx, a, f->channels, &next));
    QG_TRY(node->op->affine(ctx, node, f->channels, next.scale, next.shift));
    for (size_t c = 0; c < f->channels; c++) {
        if (!isfinite(next.scale[c]) || !isfinite(next.shift[c]))
            return qg_node_fail(ctx, QG_EUNSUPPORTED, "affine", node,
                                "factor or shift of channel %zu is not finite, "
                                "expected numbers",
                                c);
        next.scales = next.scales || next.scale[c] != 1;
    }
    for (size_t c = 0; c < f->channels; c++) {
        f->shift[c] = f->shift[c] * next.scale[c] + next.shift[c];
        f->scale[c] *= next.scale[c];
    }
    f->scales = f->scales || next.scales;
    return QG_OK;
}

bool qg_affine_fits(const qg_affine *f, const qg_tensor *w, int axis)
{
    return !f->scales ||
           (axis >= 0 && axis < w->rank && w->dim[axis] == (int64_t)f->channels);
}

qg_status qg_affine_weight(qg_ctx *ctx, qg_arena *a, const qg_affine *f,
                           const qg_tensor *w, int axis, qg_tensor **out)
{
    qg_tensor *t;
    assert(w->dtype == QG_F32 && axis >= 0 && qg_affine_fits(f, w, axis));
    QG_TRY(qg_tensor_clone(ctx, a, w, &t));
    int64_t inner = qg_dims_product(t, axis + 1, t->rank), n = qg_tensor_count(t);
    assert(n == 0 || inner > 0);
    for (int64_t i = 0; i < n; i++)
        t->f32[i] =
            (float)((double)t->f32[i] * f->scale[i / inner % (int64_t)f->channels]);
    *out = t;
    return QG_OK;
}

qg_status qg_affine_bias(qg_ctx *ctx, qg_arena *a, const qg_affine *f,
                         const qg_tensor *b, float beta, qg_tensor **out)
{
    int64_t n = (int64_t)f->channels;
    qg_tensor *t = QG_NEW(a, qg_tensor);
    bool one = b && qg_tensor_count(b) == 1;
    assert(beta != 0 && (!b || one || qg_tensor_count(b) == n));
    if (!t)
        return qg_nomem(ctx);
    qg_tensor_init(t, QG_F32, 1, &n);
    QG_TRY(qg_tensor_alloc(ctx, a, t));
    for (int64_t c = 0; c < n; c++) {
        double old = b ? (double)b->f32[one ? 0 : c] : 0;
        t->f32[c] = (float)(old * f->scale[c] + f->shift[c] / (double)beta);
    }
    *out = t;
    return QG_OK;
}

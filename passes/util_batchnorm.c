#include "passes/util_batchnorm.h"

#include <assert.h>
#include <math.h>

/* Slots of the parameters. */
enum { SCALE = 1, SHIFT, MEAN, VARIANCE };

static float at(const qg_node *n, int slot, int64_t c)
{
    return n->in[slot]->constant->f32[c];
}

qg_status qg_batchnorm_float32(qg_graph *g, const qg_node *n, const qg_tensor *weight,
                               int axis, const qg_tensor *bias, qg_tensor *out[2])
{
    float epsilon;
    assert(n->n_in > VARIANCE && n->in[SCALE]->constant && n->in[VARIANCE]->constant);
    int64_t channels = qg_tensor_count(n->in[SCALE]->constant);
    QG_TRY(qg_attr_float(g->ctx, n, "epsilon", 1e-5f, &epsilon));
    QG_TRY(qg_tensor_clone(g->ctx, g->arena, weight, &out[0]));
    out[1] = QG_NEW(g->arena, qg_tensor);
    if (!out[1])
        return qg_nomem(g->ctx);
    qg_tensor_init(out[1], QG_F32, 1, &channels);
    QG_TRY(qg_tensor_alloc(g->ctx, g->arena, out[1]));
    int64_t inner = qg_dims_product(weight, axis + 1, weight->rank);
    for (int64_t i = 0; i < qg_tensor_count(weight); i++) {
        int64_t c = i / inner % channels;
        out[0]->f32[i] *= at(n, SCALE, c) / sqrtf(at(n, VARIANCE, c) + epsilon);
    }
    bool one = bias && qg_tensor_count(bias) == 1;
    for (int64_t c = 0; c < channels; c++) {
        float old = bias ? bias->f32[one ? 0 : c] : 0;
        float moved = at(n, SCALE, c) * (old - at(n, MEAN, c));
        out[1]->f32[c] = moved / sqrtf(at(n, VARIANCE, c) + epsilon) + at(n, SHIFT, c);
    }
    return QG_OK;
}

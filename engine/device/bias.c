#include "engine/device/bias.h"

#include <math.h>

#include "engine/ir/edit.h"
#include "engine/number/round.h"

/* Elements from which a channel tells its bias. */
enum { ENOUGH = 12 };
/* Half a code, and what a factor in fixed point is off. */
#define HALF 0.51

qg_status qg_bias_begin(qg_ctx *ctx, qg_arena *a, int64_t n, qg_bias *b)
{
    *b = (qg_bias){ .n = n, .channel = QG_NEWN(a, (size_t)n, qg_bias_channel) };
    if (!b->channel)
        return qg_nomem(ctx);
    for (int64_t i = 0; i < n; i++) {
        b->channel[i].least = (double)INFINITY;
        b->channel[i].most = (double)-INFINITY;
    }
    return QG_OK;
}

bool qg_bias_is_other(const qg_bias *b, size_t channel, double *shift)
{
    const qg_bias_channel *c = &b->channel[channel];
    double low = c->most - HALF, high = c->least + HALF;
    *shift = (low + high) / 2 / c->f;
    return c->f > 0 && c->seen >= ENOUGH && low <= high && (low > 0 || high < 0);
}

size_t qg_bias_others(const qg_bias *b)
{
    double shift;
    size_t n = 0;
    for (int64_t i = 0; i < b->n; i++)
        n += qg_bias_is_other(b, (size_t)i, &shift);
    return n;
}

/* Element i of the bias, changed; *same stays true where it is as it was. */
static qg_status give(qg_ctx *ctx, qg_tensor *to, int64_t i, double own, double x,
                      bool *same)
{
    if (to->dtype == QG_F32) {
        to->f32[i] = (float)x;
    } else {
        x = qg_round_f64(QG_ROUND_HALF_EVEN, x);
        if (fabs(x) > INT32_MAX)
            return qg_fail(ctx, QG_EUNSUPPORTED, "bias: %g does not fit in int32", x);
        to->i32[i] = (int32_t)x;
    }
    *same &= x == own;
    return QG_OK;
}

qg_status qg_bias_change(qg_graph *g, qg_node *n, const qg_recipe *r, int factor,
                         const qg_bias *b)
{
    const qg_value *v = n->n_in > 2 ? n->in[2] : NULL;
    const qg_tensor *own = v ? v->constant : NULL;
    int64_t channels = b ? b->n : own ? qg_tensor_count(own) : 0;
    bool same = true;
    qg_tensor *to = QG_NEW(g->arena, qg_tensor);
    if (!to)
        return qg_nomem(g->ctx);
    if ((v && !own) || !channels || (own && qg_tensor_count(own) != channels) ||
        (own && own->dtype != QG_I32 && own->dtype != QG_F32) ||
        (r->in[1].n > 1 && r->in[1].n != channels))
        return QG_EUNSUPPORTED;
    qg_tensor_init(to, own ? own->dtype : QG_I32, own ? own->rank : 1,
                   own ? own->dim : &channels);
    QG_TRY(qg_tensor_alloc(g->ctx, g->arena, to));
    for (int64_t i = 0; i < channels; i++) {
        double x = own ? qg_tensor_f64(own, i) : 0, shift = 0;
        double step = (double)r->in[0].scale[0] *
                      (double)r->in[1].scale[r->in[1].n > 1 ? (size_t)i : 0];
        if (b && !qg_bias_is_other(b, (size_t)i, &shift))
            shift = 0;
        if (to->dtype == QG_F32)
            shift *= step;
        QG_TRY(give(g->ctx, to, i, x, x * factor + shift, &same));
    }
    if (same)
        return QG_EUNSUPPORTED;
    if (n->n_in < 3)
        QG_TRY(qg_edit_grow_inputs(g, n, 3));
    return qg_edit_give_constant(g, n, 2, "other_bias", to);
}

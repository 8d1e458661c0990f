#include "engine/calib/mask.h"

#include <math.h>

/* Nodes between a value and the Softmax that it is for. */
enum { NEAR = 5 };

static bool feeds_softmax(const qg_value *v, unsigned steps)
{
    for (size_t k = 0; k < v->use.n; k++) {
        const qg_node *n = v->use.at[k].node;
        if (qg_node_has(n, QG_OP_SHARES))
            return true;
        for (uint32_t i = 0; steps > 1 && i < n->n_out; i++)
            if (!qg_node_has(n, QG_OP_COMPUTE) && n->out[i] &&
                feeds_softmax(n->out[i], steps - 1))
                return true;
    }
    return false;
}

bool qg_feeds_softmax(const qg_value *v) { return feeds_softmax(v, NEAR); }

bool qg_may_hold_mask(const qg_value *v)
{
    return !v->is_input || v->constant || qg_feeds_softmax(v);
}

bool qg_holds_mask(const qg_value *v, const qg_tensor *x)
{
    int64_t n = qg_tensor_count(x);
    bool mask = false;
    if (x->dtype != QG_F32 || !qg_may_hold_mask(v))
        return false;
    for (int64_t i = 0; i < n; i++) {
        double e = qg_tensor_f64(x, i);
        if (isnan(e) || e == HUGE_VAL)
            return false;
        mask |= e == -HUGE_VAL;
    }
    return mask;
}

bool qg_stats_hold_mask(const qg_value *v, const qg_stats_value *s)
{
    bool mask = false;
    if (!qg_may_hold_mask(v))
        return false;
    for (uint32_t c = 0; c < s->channels; c++) {
        if (s->channel[c].nans || s->channel[c].above)
            return false;
        mask |= s->channel[c].infinities > 0;
    }
    return mask;
}

#include "engine/learn/mixup.h"

#include "engine/ir/tensor_memory.h"

enum { STEPS_EACH = 12, MOST_BYTES = 1 << 26, PART = 8 /* of all memory */ };

size_t qg_mixup_count(size_t n, size_t steps, size_t bytes, size_t limit)
{
    const size_t most = limit / PART < MOST_BYTES ? limit / PART : MOST_BYTES;
    size_t count = n < QG_MIXUP_ENOUGH ? QG_MIXUP_ENOUGH - n : 0;
    if (count > steps / STEPS_EACH)
        count = steps / STEPS_EACH;
    return bytes && count > most / bytes ? most / bytes : count;
}

size_t qg_mixup_bytes(const qg_tensor *const *x, size_t n)
{
    size_t bytes = 0;
    for (size_t k = 0; k < n; k++)
        bytes +=
            x[k]->dtype == QG_F32 ? (size_t)qg_tensor_count(x[k]) * sizeof(float) : 0;
    return bytes;
}

float qg_mixup_part(float drawn) { return 0.7f + 0.3f * drawn; }

static bool are_equal(const qg_tensor *x, const qg_tensor *y)
{
    if (x->dtype != y->dtype || !qg_same_dims(x, y))
        return false;
    for (int64_t i = 0; i < qg_tensor_count(x); i++)
        if (qg_tensor_f64(x, i) != qg_tensor_f64(y, i))
            return false;
    return true;
}

bool qg_mixup_agree(const qg_tensor *const *x, const qg_tensor *const *y, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (x[k]->dtype != QG_F32 && !are_equal(x[k], y[k]))
            return false;
    return true;
}

bool qg_mixup_can(const qg_tensor *const *x, const qg_tensor *const *y, size_t n)
{
    bool mixes = false;
    for (size_t k = 0; k < n; k++) {
        if (!qg_same_dims(x[k], y[k]))
            return false;
        mixes = mixes || x[k]->dtype == QG_F32;
    }
    return mixes;
}

qg_status qg_mixup_input(qg_ctx *ctx, float part, const qg_tensor *x,
                         const qg_tensor *y, qg_arena *a, const qg_tensor **out)
{
    qg_tensor *mixed;
    *out = x;
    if (x->dtype != QG_F32)
        return QG_OK;
    QG_TRY(qg_tensor_clone(ctx, a, x, &mixed));
    const size_t n = (size_t)qg_tensor_count(x);
    float *restrict to = mixed->f32;
    const float *restrict from = y->f32;
    const float other = 1 - part;
    for (size_t i = 0; i < n; i++)
        to[i] = part * to[i] + other * from[i];
    *out = mixed;
    return QG_OK;
}

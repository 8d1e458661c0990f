#include "engine/ir/tensor_memory.h"

#include <string.h>

/* Memory of `get`, which clears it or does not. */
static qg_status take(qg_ctx *ctx, qg_arena *a, qg_tensor *t,
                      void *(*get)(qg_arena *a, size_t count, size_t size))
{
    size_t bytes;
    QG_TRY(qg_tensor_bytes(ctx, "allocate", t, &bytes));
    void *data = get(a, bytes, 1);
    if (!data)
        return qg_nomem(ctx);
    qg_tensor_set_plain(t);
    t->data = data;
    return QG_OK;
}

qg_status qg_tensor_alloc(qg_ctx *ctx, qg_arena *a, qg_tensor *t)
{
    return take(ctx, a, t, qg_arena_get);
}

/* Plain, whatever the strides of the original. */
qg_status qg_tensor_clone(qg_ctx *ctx, qg_arena *a, const qg_tensor *t, qg_tensor **out)
{
    qg_tensor *copy = QG_NEW(a, qg_tensor);
    if (!copy)
        return qg_nomem(ctx);
    *copy = *t;
    QG_TRY(take(ctx, a, copy, qg_arena_raw));
    qg_tensor_copy(t, copy);
    *out = copy;
    return QG_OK;
}

/* The exponent of NaN and infinities has only ones, their fraction differs (IEEE 754
 * binary32: 1 sign, 8 exponent, 23 fraction bits).  Works on bits without branches,
 * since every value of a network passes through here. */
void qg_tensor_look(const qg_tensor *plain, bool *nan, bool *infinity)
{
    const size_t n = plain->dtype == QG_F32 ? (size_t)qg_tensor_count(plain) : 0;
    bool strange = false, fraction = false;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &plain->f32[i], sizeof bits);
        strange |= (bits & 0x7fffffff) >= 0x7f800000;
        fraction |= (bits & 0x7fffffff) > 0x7f800000;
    }
    *nan = fraction;
    *infinity = strange && !fraction;
}

bool qg_tensor_is_finite(const qg_tensor *plain)
{
    bool nan, infinity;
    qg_tensor_look(plain, &nan, &infinity);
    return !nan && !infinity;
}

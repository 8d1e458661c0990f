#include "engine/core/vec.h"

#include <assert.h>

/* Doubling: n pushes copy at most 2n elements.  The old array stays in the arena,
 * where pointers into it keep reading valid, if stale, memory. */
qg_status qg_vec_grow(qg_ctx *ctx, qg_arena *a, qg_vec_view v, size_t need)
{
    assert(v.n <= *v.room && need > *v.room);
    size_t more = *v.room ? *v.room : 8;
    while (more < need)
        more *= 2;
    void *grown = qg_arena_raw(a, more, v.size);
    if (!grown)
        return qg_nomem(ctx);
    if (v.n)
        memcpy(grown, *v.at, v.n * v.size);
    *v.at = grown;
    *v.room = more;
    return QG_OK;
}

#include "engine/core/vec.h"

#include <assert.h>

/* Doubling: n pushes copy at most 2n elements.  The old array stays in the arena,
 * where pointers into it keep reading valid, if stale, memory. */
qg_status qg_vec_grow(qg_ctx *ctx, qg_arena *a, void **at, size_t n, size_t *room,
                      size_t need, size_t size)
{
    assert(n <= *room && need > *room);
    size_t more = *room ? *room : 8;
    while (more < need)
        more *= 2;
    more = *room && more == *room ? 2 * more : more;
    void *grown = qg_arena_raw(a, more, size);
    if (!grown)
        return qg_nomem(ctx);
    if (n)
        memcpy(grown, *at, n * size);
    *at = grown;
    *room = more;
    return QG_OK;
}

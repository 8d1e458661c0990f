/* vec.h -- a growable array on an arena.
 *
 *     QG_VEC(uint32_t) ids = { 0 };
 *     QG_TRY(qg_vec_push(ctx, arena, &ids, 7));       // ids.at[0] == 7, ids.n == 1
 *
 * Growing leaves the old storage in the arena, at most as much again in all. */
#ifndef QG_ENGINE_CORE_VEC_H
#define QG_ENGINE_CORE_VEC_H

#include <string.h>

#include "engine/core/ctx.h"

#define QG_VEC(type)                                                                   \
    struct {                                                                           \
        type *at;                                                                      \
        size_t n, room;                                                                \
    }

/* Doubles *room until it holds `need`; *at keeps its n elements. */
QG_NODISCARD qg_status qg_vec_grow(qg_ctx *ctx, qg_arena *a, void **at, size_t n,
                                   size_t *room, size_t need, size_t size);

/* Makes place for one more element; afterwards v->at[v->n++] = x is legal. */
#define qg_vec_reserve(ctx, arena, v)                                                  \
    ((v)->n < (v)->room ? QG_OK                                                        \
                        : qg_vec_grow((ctx), (arena), (void **)&(v)->at, (v)->n,       \
                                      &(v)->room, (v)->n + 1, sizeof *(v)->at))

#define qg_vec_push(ctx, arena, v, ...)                                                \
    (qg_vec_reserve(ctx, arena, v) == QG_OK                                            \
         ? ((v)->at[(v)->n++] = (__VA_ARGS__), QG_OK)                                  \
         : QG_ENOMEM)

#endif

/* vec.h -- a growable array on an arena.
 *
 *     QG_VEC(uint32_t) ids = { 0 };
 *     QG_TRY(qg_vec_push(ctx, arena, &ids, 7));       // ids.at[0] == 7, ids.n == 1
 *
 * Growing leaves the old storage in the arena: at most the size of the vector again.
 *
 * Owns nothing: the arena does.  A NULL-filled vector is a valid empty one.
 * Pointers into `at` are current until the next push; the old contents stay
 * readable. */
#ifndef QG_ENGINE_CORE_VEC_H
#define QG_ENGINE_CORE_VEC_H

#include <string.h>

#include "engine/core/ctx.h"

#define QG_VEC(type)                                                                   \
    struct {                                                                           \
        type *at;                                                                      \
        size_t n, room;                                                                \
    }

/* A vector seen without its type. */
typedef struct qg_vec_view {
    void **at;    /* address of the vector's `at` */
    size_t *room; /* and of its `room` */
    size_t n;     /* elements to keep */
    size_t size;  /* bytes per element */
} qg_vec_view;

/* Doubles *v.room until it is at least `need`, which exceeds it (asserted).  Called
 * through qg_vec_room. */
QG_NODISCARD qg_status qg_vec_grow(qg_ctx *ctx, qg_arena *a, qg_vec_view v,
                                   size_t need);

/* Makes room for `need` elements in all; n is unchanged. */
#define qg_vec_room(ctx, arena, v, need)                                               \
    ((need) <= (v)->room ? QG_OK                                                       \
                         : qg_vec_grow((ctx), (arena),                                 \
                                       (qg_vec_view){ (void **)&(v)->at, &(v)->room,   \
                                                      (v)->n, sizeof *(v)->at },       \
                                       (need)))

/* Makes room for one more element; afterwards v->at[v->n++] = x is legal.
 * QG_ENOMEM otherwise, with the message on ctx; the vector is then unchanged. */
#define qg_vec_reserve(ctx, arena, v) qg_vec_room(ctx, arena, v, (v)->n + 1)

/* Appends one element; amortized O(1).  v is evaluated several times.  The element
 * may be a compound literal with commas. */
#define qg_vec_push(ctx, arena, v, ...)                                                \
    (qg_vec_reserve(ctx, arena, v) == QG_OK                                            \
         ? ((v)->at[(v)->n++] = (__VA_ARGS__), QG_OK)                                  \
         : QG_ENOMEM)

#endif

/* alloc.h -- the allocator: functions of the host, or malloc and free; and a context
 * that needs nothing else. */
#ifndef QG_ENGINE_CORE_ALLOC_H
#define QG_ENGINE_CORE_ALLOC_H

#include <stddef.h>

#include "engine/core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `get` returns memory aligned for any type, or NULL; `drop` frees memory from `get`.
 * Both are called from the threads of the library, too: they must be safe for that. */
typedef struct qg_alloc {
    void *(*get)(void *ud, size_t size);
    void (*drop)(void *ud, void *p);
    void *ud; /* passed to both; borrowed, must outlive every user */
} qg_alloc;

/* malloc and free.  A host's `get` must guarantee only the alignment of malloc: arenas
 * align further themselves.  Its memory need not be zeroed. */
QG_API extern const qg_alloc qg_alloc_libc;

/* A context for arithmetic on arrays alone, which keeps the message of a failure;
 * models need one of qg_open.  NULL when out of memory. */
QG_API qg_ctx *qg_ctx_new(qg_alloc alloc);
QG_API void qg_ctx_free(qg_ctx *ctx); /* of qg_ctx_new; NULL is fine */

#ifdef __cplusplus
}
#endif

#endif

/* arena.h -- memory that is given back all at once.
 *
 * Three arenas exist: the context's (names, registry, backends), a graph's (nodes,
 * values, TQCs, constants) and a run's (activations, scratch).  Nothing is freed
 * singly, so no pass or operator has clean-up code.
 *
 * Backing memory comes from a qg_alloc, which a test may make fail. */
#ifndef QG_ENGINE_CORE_ARENA_H
#define QG_ENGINE_CORE_ARENA_H

#include <stdarg.h>
#include <stddef.h>

#include "engine/core/status.h"

/* `get` returns memory aligned for any type, or NULL; `drop` takes what `get` gave. */
typedef struct qg_alloc {
    void *(*get)(void *ud, size_t size);
    void (*drop)(void *ud, void *p);
    void *ud;
} qg_alloc;

extern const qg_alloc qg_alloc_libc; /* malloc and free */

typedef struct qg_arena qg_arena;

/* Blocks are aligned to 64 bytes so that tensors can live in them. */
enum { QG_ARENA_ALIGN = 64 };

qg_arena *qg_arena_new(qg_alloc alloc); /* NULL when out of memory */
void qg_arena_free(qg_arena *a);        /* a may be NULL */

/* Gives everything back for reuse and keeps the blocks: a second round of the same
 * requests allocates nothing. */
void qg_arena_reset(qg_arena *a);

/* Zeroed memory for count objects of `size` bytes, or NULL (also when count * size
 * overflows).  Alignment is 16, or 64 for requests of 64 bytes and more.  A request of
 * zero bytes gives a valid pointer. */
void *qg_arena_get(qg_arena *a, size_t count, size_t size);

/* The same without the zeros, for memory that is written at once. */
void *qg_arena_raw(qg_arena *a, size_t count, size_t size);

/* A copy of s, or of its first n bytes; NULL when out of memory. */
char *qg_arena_strdup(qg_arena *a, const char *s);
char *qg_arena_strndup(qg_arena *a, const char *s, size_t n);
char *qg_arena_printf(qg_arena *a, const char *fmt, ...) QG_PRINTF(2, 3);

/* Bytes asked from the backing so far (not reduced by reset). */
size_t qg_arena_bytes(const qg_arena *a);

#define QG_NEW(arena, type)     ((type *)qg_arena_get((arena), 1, sizeof(type)))
#define QG_NEWN(arena, n, type) ((type *)qg_arena_get((arena), (n), sizeof(type)))

#endif

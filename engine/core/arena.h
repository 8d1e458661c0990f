/* arena.h -- memory that is given back all at once.
 *
 * Three arenas exist: the context's (names, registry, backends), a graph's (nodes,
 * values, TQCs, constants) and a run's (activations, scratch).  Nothing is freed
 * singly, so no pass or operator has clean-up code.
 *
 * Backing memory comes from a qg_alloc, which a test may make fail.
 *
 * Use:
 *
 *     qg_arena *a = qg_arena_new(qg_alloc_libc);
 *     float *x = QG_NEWN(a, 256, float);      // zeroed; NULL: out of memory
 *     qg_arena_free(a);                       // x is gone with it
 *
 * Not thread-safe: every worker has its own.  Memory never moves, so pointers into
 * an arena hold until its reset or end.  Cost: a request is O(1) amortized; blocks
 * double from 4 kB to 1 MB, so n bytes take O(log n) calls of the backing. */
#ifndef QG_ENGINE_CORE_ARENA_H
#define QG_ENGINE_CORE_ARENA_H

#include <stdarg.h>
#include <stddef.h>

#include "engine/core/alloc.h"
#include "engine/core/status.h"

/* Opaque.  Frees nothing until qg_arena_free. */
typedef struct qg_arena qg_arena;

/* Blocks are aligned to 64 bytes so that tensors can live in them.
 * 64 is a cache line, and the width of the widest vector register in use. */
enum { QG_ARENA_ALIGN = 64 };

qg_arena *qg_arena_new(qg_alloc alloc); /* NULL when out of memory */
void qg_arena_free(qg_arena *a);        /* a may be NULL */

/* Gives everything back for reuse and keeps the blocks: a second round of the same
 * requests allocates nothing.
 * Every pointer got so far is dead.  The second run of a plan relies on it: same
 * requests, same places, no call of the backing. */
void qg_arena_reset(qg_arena *a);

/* Zeroed memory for count objects of `size` bytes, or NULL (also when count * size
 * overflows).  Alignment is 16, or 64 for requests of 64 bytes and more.  A request of
 * zero bytes gives a valid pointer.
 * No message is recorded on failure: the caller returns qg_nomem(ctx). */
void *qg_arena_get(qg_arena *a, size_t count, size_t size);

/* The same without the zeros, for memory that is written at once.
 * Reading before writing is a fault that valgrind and MSan report. */
void *qg_arena_raw(qg_arena *a, size_t count, size_t size);

/* A copy of s, or of its first n bytes; NULL when out of memory.
 * Embedded zeros are copied by strndup; a zero byte is always appended. */
char *qg_arena_strdup(qg_arena *a, const char *s);
char *qg_arena_strndup(qg_arena *a, const char *s, size_t n);
/* snprintf into memory of exactly the needed size; NULL when out of memory or when
 * fmt fails.  Numbers that must be the same in every locale go through num.h first. */
char *qg_arena_printf(qg_arena *a, const char *fmt, ...) QG_PRINTF(2, 3);

/* Bytes requested from the backing so far (not reduced by reset).
 * Equal before and after a second run: that is how "allocates nothing" is tested. */
size_t qg_arena_bytes(const qg_arena *a);

/* Typed requests: QG_NEW one zeroed object, QG_NEWN an array of n; NULL as above. */
#define QG_NEW(arena, type)     ((type *)qg_arena_get((arena), 1, sizeof(type)))
#define QG_NEWN(arena, n, type) ((type *)qg_arena_get((arena), (n), sizeof(type)))

#endif

/* budget.h -- an allocator with a limit, so that a few bytes of input cannot take the
 * memory of the machine.
 *
 * Counts what arenas, names and scratch of a context and its forks hold: everything but
 * mapped files and the buffers of third-party libraries (cJSON, libyaml, zlib, oneDNN),
 * which are bounded by the files that they read.
 *
 *     QG_TRY(qg_budget_new(alloc, limit, &b));
 *     qg_ctx *ctx = qg_ctx_new(qg_budget_alloc(b));
 *     ctx->budget = b;                       // qg_nomem(ctx) explains refusals
 *     ...
 *     qg_ctx_free(ctx);
 *     qg_budget_free(b); */
#ifndef QG_ENGINE_CORE_BUDGET_H
#define QG_ENGINE_CORE_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/core/alloc.h"

typedef struct qg_budget qg_budget;

/* What is left under the limits that a file or an option may exceed knowingly. */
typedef struct qg_limits {
    size_t nodes; /* that functions may expand to */
    size_t ratio; /* of the memory of a packed file to its bytes */
} qg_limits;

/* Of a context that was given none. */
enum { QG_MOST_NODES = 1000000, QG_MOST_RATIO = 100 };

/* Packed files may take this much memory whatever their size, bytes. */
enum { QG_ALWAYS_UNPACKED = 64 << 20 };

/* Memory comes from `from`, at most `limit` bytes at a time.  NULL: out of memory. */
qg_budget *qg_budget_new(qg_alloc from, size_t limit);
void qg_budget_free(qg_budget *b); /* all of its memory was given back; b may be NULL */

/* Safe in threads, as `from` is. */
qg_alloc qg_budget_alloc(qg_budget *b);

/* The bytes of the request that the limit refused last, and of what was held then;
 * false: none was refused. */
bool qg_budget_refused(const qg_budget *b, size_t *request, size_t *held);
/* Whether so many bytes more are below the limit. */
bool qg_budget_fits(const qg_budget *b, size_t bytes);
size_t qg_budget_limit(const qg_budget *b);

/* 80 % of the memory of the machine or of the control group of this process, the
 * smaller; SIZE_MAX when neither is known. */
size_t qg_memory_default(void);

#endif

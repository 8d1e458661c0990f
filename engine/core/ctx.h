/* ctx.h -- the context: allocator, arena, names, last message, log sink.
 *
 * One context per user thread.  A worker thread gets its own by qg_ctx_fork(): it has
 * its own arena and message and shares the allocator and the names, which a worker
 * only reads.  The library keeps no other state: no globals, no environment. */
#ifndef QG_ENGINE_CORE_CTX_H
#define QG_ENGINE_CORE_CTX_H

#include "engine/core/arena.h"
#include "engine/core/names.h"
#include "engine/core/status.h"

enum qg_log_level { QG_LOG_WARNING, QG_LOG_INFO, QG_LOG_DEBUG };

/* Called for every message at or below the chosen level; text ends without newline. */
typedef struct qg_log {
    void (*write)(void *ud, enum qg_log_level level, const char *text);
    void *ud;
    enum qg_log_level level;
} qg_log;

struct qg_ctx {
    qg_alloc alloc;
    qg_arena *arena; /* lives as long as the context */
    qg_names *names; /* interned strings; owned unless `parent` is set */
    qg_log log;      /* log.write NULL: silent */
    qg_ctx *parent;  /* NULL, or the context this one was forked from */
    const struct qg_registry *registry; /* operators, set by api; see ir/op.h */
    const char *config_dir; /* backends/, pipelines/ ...; NULL below api */
    char message[1024];
};

qg_ctx *qg_ctx_new(qg_alloc alloc); /* NULL when out of memory */
qg_ctx *qg_ctx_fork(qg_ctx *parent);
void qg_ctx_free(qg_ctx *ctx);

/* The one copy of s that this context keeps: equal strings give equal pointers, so
 * names are compared with ==.  NULL when out of memory.  Not for workers. */
const char *qg_intern(qg_ctx *ctx, const char *s);
const char *qg_internn(qg_ctx *ctx, const char *s, size_t n);

void qg_log_to(qg_ctx *ctx, enum qg_log_level level, const char *fmt, ...)
    QG_PRINTF(3, 4);
#define qg_warn(ctx, ...) qg_log_to((ctx), QG_LOG_WARNING, __VA_ARGS__)

/* Shorthand for the fault that has only one message. */
QG_NODISCARD qg_status qg_nomem(qg_ctx *ctx);

#endif

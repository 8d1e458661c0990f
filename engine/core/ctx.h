/* ctx.h -- the context: allocator, arena, names, last message, log sink.
 *
 * One context per user thread.  A worker thread gets its own by qg_ctx_fork(): it has
 * its own arena and message and shares the allocator and the names, which a worker
 * only reads.  The library keeps no other state: no globals, no environment.
 *
 * Use:
 *
 *     qg_ctx *ctx = qg_ctx_new(qg_alloc_libc);
 *     if (qg_model_open(ctx, path, NULL, &m) != QG_OK)
 *         fprintf(stderr, "%s\n", qg_ctx_message(ctx));
 *     qg_ctx_free(ctx);                        // after everything made with it
 *
 * Two threads may use two contexts at the same time, one context never. */
#ifndef QG_ENGINE_CORE_CTX_H
#define QG_ENGINE_CORE_CTX_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/core/alloc.h"
#include "engine/core/arena.h"
#include "engine/core/budget.h"
#include "engine/core/names.h"
#include "engine/core/progress.h"
#include "engine/core/status.h"

/* Ascending: a sink at level L sees every message whose level is at most L.  Errors are
 * not logged, they are returned. */
enum qg_log_level { QG_LOG_WARNING, QG_LOG_INFO, QG_LOG_DEBUG };

/* Called for every message at or below the chosen level; text ends without newline.
 * `text` is valid during the call only, at most 4095 bytes.  The sink runs on the
 * thread that logs and must not call back into the context. */
typedef struct qg_log {
    void (*write)(void *ud, enum qg_log_level level, const char *text);
    void *ud;
    enum qg_log_level level; /* messages above it are not even formatted */
} qg_log;

/* Extensions that a host added to a context (engine/embed), by kind.  Each room defines
 * the struct of its own kind; operators have the registry instead. */
enum qg_added_kind {
    QG_ADDED_PASS,      /* pass/pass.h, qg_added_pass */
    QG_ADDED_OBSERVER,  /* calib/observer.h, qg_observer */
    QG_ADDED_QUANTIZER, /* quant/round.h, qg_quantizer */
    QG_ADDED_CONFIG,    /* config/search.h, qg_config_text */
    QG_ADDED_OPAQUE,    /* ir/opaque.h, qg_op: not by the host, by files */
    QG_ADDED_OBSERVED,  /* calib/observed.h, qg_kept_constants *: not by the host */
    QG_NADDED
};
typedef struct qg_added qg_added;
struct qg_added {
    qg_added *next;   /* the one that was added after it */
    const char *name; /* unique in its kind */
    const void *what;
};

typedef struct qg_read qg_read; /* core/reads.h */

struct qg_ctx {
    qg_alloc alloc;    /* where arena, names and graphs get their memory */
    qg_arena *arena;   /* lives as long as the context */
    qg_names *names;   /* interned strings; owned unless `parent` is set */
    qg_log log;        /* log.write NULL: no logging */
    qg_ctx *parent;    /* NULL, or the context from which this was forked */
    qg_budget *budget; /* of alloc; NULL: no limit.  Borrowed */
    qg_limits limits;
    const struct qg_registry *registry; /* operators, set by api; see ir/op.h */
    qg_added *added[QG_NADDED];         /* the first of each kind; NULL: none */
    qg_read *reads;                     /* configuration files; NULL: none */
    const char *config_dir;             /* backends/, pipelines/ ...; NULL below api */
    qg_cancel_watch watch; /* asked by qg_ctx_go_on; workers have their caller's */
    double asked;       /* when qg_ctx_go_on asked it last, seconds of core/clock.h */
    char message[4096]; /* of the last qg_fail, cut to fit; "" before the first */
};

/* A context for one worker thread: own arena and message; allocator, names, registry
 * and log sink are the parent's.  NULL when out of memory.  To be freed before its
 * parent.  qg_ctx_free (alloc.h) gives back the arena and, unless forked, the names:
 * it frees interned strings, so models and graphs made with ctx must be freed
 * before. */
qg_ctx *qg_ctx_fork(qg_ctx *parent);

/* Appends to the list of a kind; `name` and `what` are borrowed as long as the context.
 * Contexts that were forked before do not see it.  The caller has checked that the name
 * is new; of opaque operators, several domains and opsets may have the same one. */
QG_NODISCARD qg_status qg_ctx_add(qg_ctx *ctx, enum qg_added_kind kind,
                                  const char *name, const void *what);
const void *qg_ctx_added(const qg_ctx *ctx, enum qg_added_kind kind,
                         const char *name); /* NULL: no such */

/* QG_EMEMORY when `bytes` of memory are more than a packed file of `size` bytes may
 * take: QG_ALWAYS_UNPACKED, or limits.ratio times its size.  "<doing> <path>: ..." */
QG_NODISCARD qg_status qg_check_ratio(qg_ctx *ctx, const char *doing, const char *path,
                                      uint64_t bytes, size_t size);

/* Around a call of a function of the host: a failure without a message, or with a
 * number that is no status, gets "<what> <name>: ..."; else qg_host_end returns s. */
void qg_host_begin(qg_ctx *ctx);
qg_status qg_host_end(qg_ctx *ctx, qg_status s, const char *what, const char *name);

/* The one copy of s that this context keeps: equal strings give equal pointers, so
 * names are compared with ==.  NULL when out of memory.  Not for workers.
 * O(length) expected.  The text lives as long as the root context. */
const char *qg_intern(qg_ctx *ctx, const char *s);
const char *qg_internn(qg_ctx *ctx, const char *s, size_t n);

/* A message for the sink, formatted only when the sink's level includes it.  Warnings
 * are for conditions the user should notice although the call succeeds, e.g. a rule
 * that matched nothing. */
void qg_log_to(qg_ctx *ctx, enum qg_log_level level, const char *fmt, ...)
    QG_PRINTF(3, 4);
#define qg_warn(ctx, ...) qg_log_to((ctx), QG_LOG_WARNING, __VA_ARGS__)

/* Failure of an allocation: QG_ENOMEM, which has only one message, or QG_EMEMORY when
 * the limit of the context refused it, with the numbers.
 * Needs no memory itself: the message buffer is part of the context. */
QG_NODISCARD qg_status qg_nomem(qg_ctx *ctx);
/* Either of the two: callers that try something else after a failure pass these up. */
static inline bool qg_is_nomem(qg_status s)
{
    return s == QG_ENOMEM || s == QG_EMEMORY;
}
/* The outcome of an attempt that may be refused, as by an operator that does not take
 * the types or shapes of a hypothesis, or a format without the operator: QG_OK then,
 * too.  Memory, files and the caller are no part of it: their failures are returned. */
qg_status qg_refusal(qg_status s);
/* Whether s is QG_EMEMORY with the message of qg_nomem alone: no place is named yet. */
bool qg_memory_unplaced(const qg_ctx *ctx, qg_status s);

/* Reports the progress of `stage` to p; nothing happens when p or its step is NULL.
 * QG_ECANCELED when the callback requests a stop. */
QG_NODISCARD qg_status qg_ctx_step(qg_ctx *ctx, const qg_progress *p, const char *stage,
                                   size_t done, size_t total);
/* Whether work within one sample is to go on: asks the watch of ctx, at most 50 times a
 * second.  QG_ECANCELED when the caller has ended it. */
QG_NODISCARD qg_status qg_ctx_go_on(qg_ctx *ctx);
/* QG_ECANCELED with the message for it: "<stage>: the caller ended it". */
QG_NODISCARD qg_status qg_ctx_canceled(qg_ctx *ctx, const char *stage);

#endif

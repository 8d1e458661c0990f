/* ctx.c -- contexts, and the one place where messages are written.
 *
 * A message is a fixed buffer: reporting that memory ran out must not need memory.
 * Longer texts are cut. */
#include "engine/core/ctx.h"

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/core/clock.h"
#include "engine/core/num.h"

enum { MESSAGE = sizeof(((qg_ctx *)0)->message), FORMAT = 512 };

/* A fork borrows the parent's names, so only the parent frees the table.  On failure
 * qg_ctx_free gets the partly made context: it accepts NULL members. */
static qg_ctx *ctx_make(qg_alloc alloc, qg_ctx *parent)
{
    qg_ctx *ctx = alloc.get(alloc.ud, sizeof *ctx);
    if (!ctx)
        return NULL;
    *ctx = (qg_ctx){
        .alloc = alloc,
        .parent = parent,
        .limits = {.nodes = QG_MOST_NODES, .ratio = QG_MOST_RATIO}
    };
    ctx->arena = qg_arena_new(alloc);
    ctx->names = parent ? parent->names : ctx->arena ? qg_names_new(alloc) : NULL;
    if (ctx->arena && ctx->names)
        return ctx;
    qg_ctx_free(ctx);
    return NULL;
}

qg_ctx *qg_ctx_new(qg_alloc alloc) { return ctx_make(alloc, NULL); }

qg_ctx *qg_ctx_fork(qg_ctx *parent)
{
    assert(parent->names);
    qg_ctx *ctx = ctx_make(parent->alloc, parent);
    if (ctx) {
        ctx->log = parent->log;
        ctx->budget = parent->budget;
        ctx->limits = parent->limits;
        ctx->registry = parent->registry;
        memcpy(ctx->added, parent->added, sizeof ctx->added);
    }
    return ctx;
}

void qg_ctx_free(qg_ctx *ctx)
{
    if (!ctx)
        return;
    if (!ctx->parent)
        qg_names_free(ctx->names);
    qg_arena_free(ctx->arena);
    ctx->alloc.drop(ctx->alloc.ud, ctx);
}

/* At the end, so that lists are in the order in which the host added. */
qg_status qg_ctx_add(qg_ctx *ctx, enum qg_added_kind kind, const char *name,
                     const void *what)
{
    assert(!ctx->parent);
    assert(kind == QG_ADDED_OPAQUE || !qg_ctx_added(ctx, kind, name));
    qg_added *row = QG_NEW(ctx->arena, qg_added);
    if (!row)
        return qg_nomem(ctx);
    *row = (qg_added){ .name = name, .what = what };
    qg_added **end = &ctx->added[kind];
    while (*end)
        end = &(*end)->next;
    *end = row;
    return QG_OK;
}

const void *qg_ctx_added(const qg_ctx *ctx, enum qg_added_kind kind, const char *name)
{
    for (const qg_added *a = ctx->added[kind]; a; a = a->next)
        if (strcmp(a->name, name) == 0)
            return a->what;
    return NULL;
}

/* fmt with at most `most` bytes of each text: "%s" and "%.1000s", which is for names,
 * become "%.100s". */
static void limit_texts(char out[FORMAT], const char *fmt, int most)
{
    size_t n = 0;
    for (; *fmt && n + 8 < FORMAT; fmt++) {
        out[n++] = *fmt;
        if (fmt[0] != '%')
            continue;
        if (strncmp(fmt + 1, ".1000s", 6) == 0)
            fmt += 5;
        if (fmt[1] == 's')
            n += (size_t)snprintf(out + n, FORMAT - n, ".%d", most);
        else if (fmt[1] == '%')
            out[n++] = *++fmt;
    }
    out[n] = '\0';
}

/* Names may have any length: where one would cut off the end of the message, which is
 * the reason, names are cut instead. */
static void write_message(char text[MESSAGE], const char *fmt, va_list args)
{
    char limited[FORMAT];
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(text, MESSAGE, fmt, args);
    if (n >= MESSAGE) {
        limit_texts(limited, fmt, MESSAGE / 8);
        (void)vsnprintf(text, MESSAGE, limited, again);
    }
    va_end(again);
    qg_num_unsign_nan(text);
}

qg_status qg_fail(qg_ctx *ctx, qg_status s, const char *fmt, ...)
{
    assert(s != QG_OK);
    if (!ctx)
        return s;
    char text[MESSAGE]; /* the last message may be among the arguments */
    va_list args;
    va_start(args, fmt);
    write_message(text, fmt, args);
    va_end(args);
    memcpy(ctx->message, text, MESSAGE);
    return s;
}

void qg_host_begin(qg_ctx *ctx) { ctx->message[0] = '\0'; }

qg_status qg_host_end(qg_ctx *ctx, qg_status s, const char *what, const char *name)
{
    bool known = (unsigned)s < QG_NSTATUS;
    if (s == QG_OK || (known && *ctx->message))
        return s;
    return qg_fail(ctx, known ? s : QG_ECONFIG,
                   "%s %s: the host's function failed with status %d and no message",
                   what, name, (int)s);
}

static const char too_much[] = "memory: ";

qg_status qg_nomem(qg_ctx *ctx)
{
    size_t request, held;
    if (!ctx || !ctx->budget || !qg_budget_refused(ctx->budget, &request, &held))
        return qg_fail(ctx, QG_ENOMEM, "out of memory");
    return qg_fail(ctx, QG_EMEMORY,
                   "%s%.1f MB more than the %.1f MB in use, expected at most %.1f MB "
                   "in all (--max-mem)",
                   too_much, (double)request * 1e-6, (double)held * 1e-6,
                   (double)qg_budget_limit(ctx->budget) * 1e-6);
}

qg_status qg_refusal(qg_status s)
{
    switch (s) {
    case QG_ENOMEM:
    case QG_EMEMORY:
    case QG_EIO:
    case QG_ECANCELED:
        return s;
    default:
        return QG_OK;
    }
}

bool qg_memory_unplaced(const qg_ctx *ctx, qg_status s)
{
    return s == QG_EMEMORY && ctx &&
           strncmp(ctx->message, too_much, sizeof too_much - 1) == 0;
}

qg_status qg_check_ratio(qg_ctx *ctx, const char *doing, const char *path,
                         uint64_t bytes, size_t size)
{
    size_t ratio = ctx->limits.ratio;
    if (bytes <= QG_ALWAYS_UNPACKED || (size && (bytes - 1) / size < ratio))
        return QG_OK;
    return qg_fail(ctx, QG_EMEMORY,
                   "%s %.200s: %.1f MB from a file of %zu bytes, expected at most "
                   "%zu x its size (--max-ratio)",
                   doing, path, (double)bytes * 1e-6, size, ratio);
}

const char *qg_ctx_message(const qg_ctx *ctx) { return ctx ? ctx->message : ""; }

/* Names are entered while a graph is built, always by one thread. */
const char *qg_internn(qg_ctx *ctx, const char *s, size_t n)
{
    assert(!ctx->parent); /* workers share the table and must not grow it */
    uint32_t id;
    return qg_names_add(ctx->names, s, n, &id) == QG_OK ? qg_names_text(ctx->names, id)
                                                        : NULL;
}

const char *qg_intern(qg_ctx *ctx, const char *s)
{
    return qg_internn(ctx, s, strlen(s));
}

void qg_log_to(qg_ctx *ctx, enum qg_log_level level, const char *fmt, ...)
{
    char text[MESSAGE];
    if (!ctx->log.write || level > ctx->log.level)
        return;
    va_list args;
    va_start(args, fmt);
    write_message(text, fmt, args);
    va_end(args);
    ctx->log.write(ctx->log.ud, level, text);
}

qg_status qg_ctx_step(qg_ctx *ctx, const qg_progress *p, const char *stage, size_t done,
                      size_t total)
{
    if (!p || !p->step || p->step(p->ud, stage, done, total) == 0)
        return QG_OK;
    return qg_ctx_canceled(ctx, stage);
}

qg_status qg_ctx_go_on(qg_ctx *ctx)
{
    if (!ctx->watch.ask)
        return QG_OK;
    const double now = qg_clock_seconds();
    if (now - ctx->asked < 0.02)
        return QG_OK;
    ctx->asked = now;
    return ctx->watch.ask(ctx->watch.ud, ctx);
}

qg_status qg_ctx_canceled(qg_ctx *ctx, const char *stage)
{
    return qg_fail(ctx, QG_ECANCELED, "%s: cancelled by the caller", stage);
}

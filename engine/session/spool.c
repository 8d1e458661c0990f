#include "engine/session/spool.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/core/vec.h"

struct qg_spool {
    const qg_graph *graph;
    qg_arena *arena;
    int fd;
    off_t end;
    QG_VEC(off_t) begin; /* of every sample */
};

static qg_status fail(qg_ctx *ctx, const char *doing)
{
    return qg_fail(ctx, QG_EIO,
                   "data: source: its temporary file in %s cannot be %s: %s", P_tmpdir,
                   doing, errno ? strerror(errno) : "it is too short");
}

qg_status qg_spool_open(qg_ctx *ctx, const qg_graph *g, qg_spool **out)
{
    char path[] = P_tmpdir "/qg-samples-XXXXXX";
    qg_arena *a = qg_arena_new(ctx->alloc);
    qg_spool *s = a ? QG_NEW(a, qg_spool) : NULL;
    if (!s) {
        qg_arena_free(a);
        return qg_nomem(ctx);
    }
    *s = (qg_spool){ .graph = g, .arena = a, .fd = mkstemp(path) };
    if (s->fd < 0) {
        qg_arena_free(a);
        return fail(ctx, "made");
    }
    (void)unlink(path);
    *out = s;
    return QG_OK;
}

void qg_spool_close(qg_spool *s)
{
    if (!s)
        return;
    (void)close(s->fd);
    qg_arena_free(s->arena);
}

static qg_status put(qg_ctx *ctx, qg_spool *s, const void *bytes, size_t n)
{
    const char *at = bytes;
    while (n > 0) {
        ssize_t done = pwrite(s->fd, at, n, s->end);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return fail(ctx, "written");
        at += done;
        n -= (size_t)done;
        s->end += done;
    }
    return QG_OK;
}

qg_status qg_spool_put(qg_ctx *ctx, qg_spool *s, const qg_tensor *const *in)
{
    size_t bytes;
    QG_TRY(qg_vec_push(ctx, s->arena, &s->begin, s->end));
    for (size_t k = 0; k < s->graph->input.n; k++) {
        const qg_tensor *t = in[k];
        assert(t->rank == s->graph->input.at[k]->type.rank);
        QG_TRY(qg_tensor_bytes(ctx, "data: source", t, &bytes));
        QG_TRY(put(ctx, s, t->dim, (size_t)t->rank * sizeof *t->dim));
        QG_TRY(put(ctx, s, t->data, bytes));
    }
    return QG_OK;
}

static qg_status get(qg_ctx *ctx, const qg_spool *s, off_t *at, void *bytes, size_t n)
{
    char *to = bytes;
    errno = 0;
    while (n > 0) {
        ssize_t done = pread(s->fd, to, n, *at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return fail(ctx, "read");
        to += done;
        n -= (size_t)done;
        *at += done;
    }
    return QG_OK;
}

qg_status qg_spool_get(qg_ctx *ctx, const qg_spool *s, qg_arena *a, size_t i,
                       const qg_tensor **in)
{
    assert(i < s->begin.n);
    off_t at = s->begin.at[i];
    size_t n = s->graph->input.n, bytes;
    qg_tensor *x = QG_NEWN(a, n, qg_tensor);
    if (!x)
        return qg_nomem(ctx);
    for (size_t k = 0; k < n; k++) {
        const qg_tensor *type = &s->graph->input.at[k]->type;
        int64_t dim[QG_MAX_RANK] = { 0 };
        QG_TRY(get(ctx, s, &at, dim, (size_t)type->rank * sizeof *dim));
        qg_tensor_init(&x[k], type->dtype, type->rank, dim);
        QG_TRY(qg_tensor_alloc(ctx, a, &x[k]));
        QG_TRY(qg_tensor_bytes(ctx, "data: source", &x[k], &bytes));
        QG_TRY(get(ctx, s, &at, x[k].data, bytes));
        in[k] = &x[k];
    }
    return QG_OK;
}

#include "engine/data/column.h"

#include <assert.h>

static const char *file_of(qg_arena *a, const qg_column *c)
{
    return qg_arena_printf(a, "%s.%s", c->path, c->apart ? "npz" : "npy");
}

static qg_status add_apart(qg_column *c, size_t k, const qg_tensor *t)
{
    char name[32];
    (void)snprintf(name, sizeof name, "sample_%zu", k);
    return qg_npz_add(&c->npz, name, t);
}

/* The samples stacked so far move into the archive; the stack's file was never
 * visible. */
static qg_status move_apart(qg_ctx *ctx, qg_arena *a, qg_column *c)
{
    assert(c->stacked && !c->apart);
    qg_tensor sample = c->npy.sample;
    QG_TRY(qg_tensor_alloc(ctx, a, &sample));
    c->apart = true;
    const char *path = file_of(a, c);
    qg_status s = path ? qg_npz_create(ctx, path, false, &c->npz) : qg_nomem(ctx);
    if (s != QG_OK) {
        c->apart = false;
        return s;
    }
    for (size_t k = 0; k < c->count; k++) {
        QG_TRY(qg_npy_read_back(&c->npy, k, &sample));
        QG_TRY(add_apart(c, k, &sample));
    }
    c->stacked = false;
    qg_npy_abandon(&c->npy);
    return QG_OK;
}

static qg_status begin(qg_ctx *ctx, qg_arena *a, qg_column *c, const qg_tensor *t)
{
    const char *path = file_of(a, c);
    qg_tensor type = *t;
    type.data = NULL;
    if (!path)
        return qg_nomem(ctx);
    QG_TRY(qg_npy_create(ctx, path, &type, &c->npy));
    c->stacked = true;
    return QG_OK;
}

static qg_writer *writer_of(qg_column *c)
{
    return c->apart ? &c->npz.file : &c->npy.file;
}

void qg_column_pause(qg_column *c)
{
    if (!c->stacked && !c->apart)
        return;
    qg_writer_pause(writer_of(c));
    c->npz.stream = NULL;
    c->paused = true;
}

static qg_status resume(qg_column *c)
{
    if (!c->paused)
        return QG_OK;
    QG_TRY(qg_writer_resume(writer_of(c)));
    c->npz.stream = c->npz.file.stream;
    c->paused = false;
    return QG_OK;
}

qg_status qg_column_put(qg_ctx *ctx, qg_arena *a, qg_column *c, const qg_tensor *t)
{
    assert(t->data && qg_tensor_is_plain(t));
    const qg_tensor *first = &c->npy.sample;
    QG_TRY(resume(c));
    if (!c->stacked && !c->apart)
        QG_TRY(begin(ctx, a, c, t));
    if (t->dtype != first->dtype)
        return qg_fail(ctx, QG_EDATA, "run: %.200s: sample %zu is %s, expected %s",
                       c->path, c->count, qg_dtype_name(t->dtype),
                       qg_dtype_name(first->dtype));
    if (c->stacked && !qg_same_dims(t, first))
        QG_TRY(move_apart(ctx, a, c));
    if (c->apart)
        QG_TRY(add_apart(c, c->count, t));
    else
        qg_npy_append(&c->npy, t);
    c->count++;
    return QG_OK;
}

qg_status qg_columns_commit(qg_ctx *ctx, qg_arena *a, qg_column *c, size_t n,
                            qg_writer *beside)
{
    qg_writer **all = QG_NEWN(a, n + 1, qg_writer *);
    size_t used = 0;
    if (!all)
        return qg_nomem(ctx);
    for (size_t i = 0; i < n; i++) {
        if (!c[i].stacked && !c[i].apart)
            continue;
        QG_TRY(resume(&c[i]));
        QG_TRY(c[i].apart ? qg_npz_end(&c[i].npz) : qg_npy_finish(&c[i].npy));
        qg_column_pause(&c[i]);
        all[used++] = writer_of(&c[i]);
    }
    if (beside)
        all[used++] = beside;
    return qg_writers_commit(all, used);
}

void qg_column_abandon(qg_column *c)
{
    if (c->apart)
        qg_npz_abandon(&c->npz);
    if (c->stacked)
        qg_npy_abandon(&c->npy);
}

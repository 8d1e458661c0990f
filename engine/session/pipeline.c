/* pipeline.c -- a pipeline file, and the places of passes that a host added. */
#include <string.h>

#include "engine/pass/pass.h"
#include "engine/session/session.h"

/* Position of the pass with this name; p->n: none. */
static size_t place_of(const qg_pipeline *p, const char *name, bool last)
{
    size_t found = p->n;
    for (size_t i = 0; i < p->n && (last || found == p->n); i++)
        if (strcmp(p->pass[i], name) == 0)
            found = i;
    return found;
}

/* It has the line of the pass next to it. */
static qg_status insert(qg_ctx *ctx, qg_arena *a, const qg_pass *pass, qg_pipeline *p)
{
    const char *beside = pass->before ? pass->before : pass->after;
    size_t at = beside ? place_of(p, beside, !pass->before) : p->n;
    if (at == p->n || place_of(p, pass->name, false) < p->n)
        return QG_OK;
    const char **name = QG_NEWN(a, p->n + 1, const char *);
    uint32_t *line = QG_NEWN(a, p->n + 1, uint32_t);
    if (!name || !line)
        return qg_nomem(ctx);
    size_t to = pass->before ? at : at + 1;
    for (size_t i = 0; i <= p->n; i++) {
        size_t from = i < to ? i : i == to ? at : i - 1;
        name[i] = i == to ? pass->name : p->pass[from];
        line[i] = p->line[from];
    }
    p->pass = name;
    p->line = line;
    p->n++;
    return QG_OK;
}

qg_status qg_session_pipeline(qg_ctx *ctx, qg_arena *a, const char *name,
                              qg_pipeline *out)
{
    qg_search search;
    qg_pipeline p;
    QG_TRY(qg_config_search(ctx, a, "pipelines", &search));
    QG_TRY(qg_pipeline_load(ctx, a, name, search, &p));
    for (const qg_added *i = ctx->added[QG_ADDED_PASS]; i; i = i->next)
        QG_TRY(insert(ctx, a, i->what, &p));
    *out = p;
    return QG_OK;
}

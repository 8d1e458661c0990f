#include "passes/passes.h"

#include <string.h>

const qg_pass *const qg_passes[] = {
#define PASS(p) &qg_pass_##p,
#include "passes/passes.def"
#undef PASS
    NULL
};

qg_status qg_passes_of(qg_ctx *ctx, qg_arena *a, const qg_pass *const **out)
{
    const size_t own = sizeof qg_passes / sizeof qg_passes[0] - 1;
    size_t n = own;
    for (const qg_added *p = ctx->added[QG_ADDED_PASS]; p; p = p->next)
        n++;
    const qg_pass **all = QG_NEWN(a, n + 1, const qg_pass *);
    if (!all)
        return qg_nomem(ctx);
    memcpy(all, qg_passes, own * sizeof *all);
    n = own;
    for (const qg_added *p = ctx->added[QG_ADDED_PASS]; p; p = p->next)
        all[n++] = p->what;
    *out = all;
    return QG_OK;
}

/* hooks.h -- hooks of a host (qg_session.h) in the form used by plans and runs: the
 * watched nodes, the written endpoints, and the hooks to call at an endpoint.
 *
 *     qg_host_hooks *h;
 *     QG_TRY(qg_host_hooks_find(ctx, arena, graph, list, &h));
 *     plan_options.watch = h->watch;
 *     plan_options.write = h->write;
 *     qg_hook hook = { qg_host_hooks_see, h };     // the one hook of every run
 *
 * Owner    the arena; read-only once made, hence shared by threads */
#ifndef QG_ENGINE_EMBED_HOOKS_H
#define QG_ENGINE_EMBED_HOOKS_H

#include "engine/api/qg_session.h"
#include "engine/exec/hook.h"

/* The hooks of the host; [n] borrowed for the call. */
typedef struct qg_host_hook_list {
    const qg_session_hook *hook;
    size_t n;
    bool simulate; /* events name the TQC */
} qg_host_hook_list;

typedef struct qg_host_hooks {
    const qg_session_hook *hook; /* [n] copied */
    size_t n;
    bool simulate;
    uint8_t *watch;        /* [nodes] as plans take it */
    const uint8_t **write; /* [nodes] as plans take it; NULL: no hook writes */
    uint32_t *endpoint;    /* [nodes] number of the first endpoint of each */
    uint32_t *first;       /* [endpoints + 1] into call */
    QG_VEC(uint32_t) call; /* indices into hook, by endpoint, in order of the list */
} qg_host_hooks;

/* The endpoints of g that the hooks select.  QG_ECONFIG names a hook that has no
 * function or matches nothing. */
QG_NODISCARD qg_status qg_host_hooks_find(qg_ctx *ctx, qg_arena *a, const qg_graph *g,
                                          qg_host_hook_list list, qg_host_hooks **out);

/* qg_hook.see; ud is a qg_host_hooks.  The functions of the host are called on the
 * caller's thread. */
QG_NODISCARD qg_status qg_host_hooks_see(void *ud, qg_ctx *ctx, size_t sample,
                                         const qg_hook_point *at, qg_tensor *value);

#endif

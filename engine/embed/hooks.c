#include "engine/embed/hooks.h"

#include "engine/quant/backend.h"

static qg_status copy_hooks(qg_ctx *ctx, qg_arena *a, qg_host_hook_list list,
                            qg_host_hooks *h)
{
    qg_session_hook *hook = QG_NEWN(a, list.n, qg_session_hook);
    if (!hook)
        return qg_nomem(ctx);
    for (size_t i = 0; i < list.n; i++) {
        if (!list.hook[i].select || !list.hook[i].see)
            return qg_fail(ctx, QG_ECONFIG,
                           "session: hook %zu: has no %s, expected a glob over "
                           "endpoints and a function",
                           i, list.hook[i].select ? "function" : "endpoints");
        hook[i] = list.hook[i];
        hook[i].select = qg_arena_strdup(a, list.hook[i].select);
        if (!hook[i].select)
            return qg_nomem(ctx);
    }
    h->hook = hook;
    h->n = list.n;
    h->simulate = list.simulate;
    return QG_OK;
}

typedef struct finder {
    qg_ctx *ctx;
    qg_arena *arena, *scratch; /* scratch: for one node */
    const qg_graph *graph;
    qg_host_hooks *h;
    uint8_t *found; /* [hooks] 1: it matched something */
} finder;

static qg_status make_arrays(finder *f)
{
    const qg_graph *g = f->graph;
    qg_host_hooks *h = f->h;
    uint32_t endpoints = 0;
    f->found = QG_NEWN(f->arena, h->n, uint8_t);
    h->watch = QG_NEWN(f->arena, g->node.n, uint8_t);
    h->endpoint = QG_NEWN(f->arena, g->node.n, uint32_t);
    for (size_t i = 0; h->endpoint && i < g->node.n; i++) {
        h->endpoint[i] = endpoints;
        endpoints += qg_node_endpoints(g->node.at[i]);
    }
    h->first = QG_NEWN(f->arena, (size_t)endpoints + 1, uint32_t);
    return f->found && h->watch && h->endpoint && h->first ? QG_OK : qg_nomem(f->ctx);
}

/* A hook writes at endpoint k of n; write: [endpoints of n], NULL before the first. */
static qg_status note_write(finder *f, const qg_node *n, uint32_t k, uint8_t **write)
{
    qg_host_hooks *h = f->h;
    if (!h->write)
        h->write = QG_NEWN(f->arena, f->graph->node.n, const uint8_t *);
    if (!*write)
        *write = QG_NEWN(f->arena, qg_node_endpoints(n), uint8_t);
    if (!h->write || !*write)
        return qg_nomem(f->ctx);
    (*write)[k] = 1;
    h->write[n->id] = *write;
    return QG_OK;
}

static qg_status match_endpoint(finder *f, const qg_node *n, uint32_t k,
                                uint8_t **write)
{
    qg_host_hooks *h = f->h;
    qg_endpoint at = qg_node_endpoint(n, k);
    char slot[QG_SLOT_TEXT];
    const char *name = qg_arena_printf(f->scratch, "%s.%s", n->name,
                                       qg_slot_text(at.is_output, at.slot, slot));
    if (!name)
        return qg_nomem(f->ctx);
    for (size_t i = 0; i < h->n; i++) {
        if (!qg_glob(h->hook[i].select, name))
            continue;
        f->found[i] = 1;
        h->watch[n->id] = 1;
        QG_TRY(qg_vec_push(f->ctx, f->arena, &h->call, (uint32_t)i));
        if (h->hook[i].writes)
            QG_TRY(note_write(f, n, k, write));
    }
    return QG_OK;
}

static qg_status match_nodes(finder *f)
{
    qg_host_hooks *h = f->h;
    size_t endpoints = 0;
    for (size_t i = 0; i < f->graph->node.n; i++) {
        const qg_node *n = f->graph->node.at[i];
        uint8_t *write = NULL;
        qg_arena_reset(f->scratch);
        for (uint32_t k = 0; k < qg_node_endpoints(n); k++) {
            if (qg_endpoint_value(qg_node_endpoint(n, k)))
                QG_TRY(match_endpoint(f, n, k, &write));
            h->first[++endpoints] = (uint32_t)h->call.n;
        }
    }
    for (size_t i = 0; i < h->n; i++)
        if (!f->found[i])
            return qg_fail(f->ctx, QG_ECONFIG,
                           "session: hook '%s': matches no endpoint, expected names "
                           "like Conv_3.in0 or Conv_3.out0",
                           h->hook[i].select);
    return QG_OK;
}

qg_status qg_host_hooks_find(qg_ctx *ctx, qg_arena *a, const qg_graph *g,
                             qg_host_hook_list list, qg_host_hooks **out)
{
    finder f = { .ctx = ctx, .arena = a, .graph = g, .h = QG_NEW(a, qg_host_hooks) };
    if (!f.h)
        return qg_nomem(ctx);
    QG_TRY(copy_hooks(ctx, a, list, f.h));
    QG_TRY(make_arrays(&f));
    f.scratch = qg_arena_new(ctx->alloc);
    qg_status s = f.scratch ? match_nodes(&f) : qg_nomem(ctx);
    qg_arena_free(f.scratch);
    if (s == QG_OK)
        *out = f.h;
    return s;
}

/* The host gets a copy of the tensor: it may change the contents, not the address, type
 * or shape. */
static qg_status call(const qg_session_hook *h, qg_ctx *ctx, const qg_hook_event *event,
                      qg_tensor shown)
{
    char slot[QG_SLOT_TEXT];
    ctx->message[0] = '\0';
    qg_status s = h->see(h->ud, ctx, event, &shown);
    if (s == QG_OK || ctx->message[0])
        return s;
    return qg_node_fail(ctx, s, "run", event->node,
                        "hook '%s' at %s failed without a message, expected qg_fail",
                        h->select, qg_slot_text(event->is_output, event->slot, slot));
}

qg_status qg_host_hooks_see(void *ud, qg_ctx *ctx, size_t sample,
                            const qg_hook_point *at, qg_tensor *value)
{
    const qg_host_hooks *h = ud;
    const qg_node *n = at->endpoint.node;
    uint32_t k = at->endpoint.slot + (at->endpoint.is_output ? n->n_in : 0);
    const uint32_t *first = h->first + h->endpoint[n->id] + k;
    qg_hook_event event = { .size = sizeof event,
                            .node = n,
                            .slot = at->endpoint.slot,
                            .is_output = at->endpoint.is_output,
                            .rounded = at->rounded,
                            .value = qg_endpoint_value(at->endpoint),
                            .tqc = h->simulate ? at->tqc : NULL,
                            .sample = sample };
    for (uint32_t i = first[0]; i < first[1]; i++)
        QG_TRY(call(&h->hook[h->call.at[i]], ctx, &event, *value));
    return QG_OK;
}

#include "engine/ir/opaque.h"

#include <string.h>

#include "engine/ir/lower.h"

bool qg_domain_is_closed(const char *domain)
{
    return !domain || !*domain || strcmp(domain, "ai.onnx") == 0 ||
           strcmp(domain, QG_LOWER_DOMAIN) == 0;
}

/* What the file declares, which an earlier inference has kept; see the header. */
static qg_status infer(const qg_call *call)
{
    for (size_t i = 0; i < call->n_out; i++) {
        if (!call->out[i])
            continue;
        *call->out[i] = call->node->out[i]->type;
        call->out[i]->data = NULL;
        if (call->out[i]->dtype == QG_NODTYPE && call->n_in > 0 && call->in[0])
            call->out[i]->dtype = call->in[0]->dtype;
    }
    return QG_OK;
}

/* NULL: no such row yet. */
static const qg_op *made_before(const qg_ctx *ctx, const qg_op *like)
{
    for (const qg_added *i = ctx->added[QG_ADDED_OPAQUE]; i; i = i->next) {
        const qg_op *op = i->what;
        if (qg_op_alike(op, like))
            return op;
    }
    return NULL;
}

qg_status qg_opaque_op(qg_ctx *ctx, const char *domain, const char *name, int64_t opset,
                       const qg_op **out)
{
    qg_op like = { .name = qg_intern(ctx, name),
                   .domain = qg_intern(ctx, domain),
                   .since = (int16_t)(opset < INT16_MAX ? opset : INT16_MAX),
                   .max_in = 255,
                   .max_out = 255,
                   .in_roles = "f",
                   .out_roles = "f",
                   .infer = infer,
                   .opaque = true };
    if (!like.name || !like.domain)
        return qg_nomem(ctx);
    *out = made_before(ctx, &like);
    if (*out)
        return QG_OK;
    qg_op *row = QG_NEW(ctx->arena, qg_op);
    if (!row)
        return qg_nomem(ctx);
    *row = like;
    *out = row;
    return qg_ctx_add(ctx, QG_ADDED_OPAQUE, row->name, row);
}

/* In the bodies of n; *count NULL: not counted. */
static const qg_node *in_bodies(const qg_node *n, size_t *count)
{
    const qg_node *first = NULL;
    for (size_t i = 0; i < n->n_attr; i++) {
        const qg_attr *a = &n->attr[i];
        if (a->type != QG_ATTR_GRAPH && a->type != QG_ATTR_GRAPHS)
            continue;
        for (size_t k = 0; k < a->count; k++) {
            const qg_node *found = qg_opaque_first(a->graphs[k], count);
            first = first ? first : found;
        }
    }
    return first;
}

static const qg_node *of_node(const qg_node *n, size_t *count)
{
    const qg_node *inner = in_bodies(n, count);
    if (n->op->opaque && count)
        ++*count;
    return n->op->opaque ? n : inner;
}

/* As deep as bodies are nested, which the importer limits. */
const qg_node *qg_opaque_first(const qg_graph *g, size_t *n)
{
    const qg_node *first = NULL;
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *found = of_node(g->node.at[i], n);
        first = first ? first : found;
    }
    return first;
}

void qg_opaque_spread(const qg_graph *g, const qg_node **from)
{
    for (size_t i = 0; i < g->node.n; i++) {
        const qg_node *n = g->node.at[i];
        from[n->id] = of_node(n, NULL);
        for (uint32_t k = 0; !from[n->id] && k < n->n_in; k++)
            if (n->in[k] && n->in[k]->def)
                from[n->id] = from[n->in[k]->def->id];
    }
}

qg_status qg_opaque_fail(qg_ctx *ctx, const char *doing, const qg_node *n)
{
    return qg_fail(
        ctx, QG_EUNSUPPORTED,
        "%s: node '%.1000s' (%.100s.%.100s): its operator is unknown, so it cannot be "
        "executed, expected an operator of `qg list ops`",
        doing, n->name, n->op->domain, n->op->name);
}

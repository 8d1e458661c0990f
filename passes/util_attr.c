#include "passes/util_attr.h"

#include <assert.h>

/* The value goes into the arena, since lists point to theirs. */
static qg_status make(qg_graph *g, const qg_new_attr *a, qg_attr *out)
{
    qg_new_attr *kept = QG_NEW(g->arena, qg_new_attr);
    if (!kept)
        return qg_nomem(g->ctx);
    *kept = *a;
    *out = (qg_attr){ .name = a->name, .type = a->type, .count = 1 };
    if (a->type == QG_ATTR_INT)
        out->ints = &kept->i;
    else if (a->type == QG_ATTR_FLOAT)
        out->floats = &kept->f;
    else
        out->strings = &kept->s;
    assert(a->type == QG_ATTR_INT || a->type == QG_ATTR_FLOAT ||
           a->type == QG_ATTR_STRING);
    return QG_OK;
}

qg_status qg_node_set_attrs(qg_graph *g, qg_node *n, const qg_new_attr *a, size_t count)
{
    assert(!n->dead);
    size_t total = n->n_attr;
    qg_attr *list = QG_NEWN(g->arena, n->n_attr + count, qg_attr);
    if (!list)
        return qg_nomem(g->ctx);
    for (size_t i = 0; i < n->n_attr; i++)
        list[i] = n->attr[i];
    for (size_t k = 0; k < count; k++) {
        size_t at = 0;
        while (at < total && strcmp(list[at].name, a[k].name) != 0)
            at++;
        total += at == total;
        QG_TRY(make(g, &a[k], &list[at]));
    }
    n->attr = list;
    n->n_attr = total;
    return qg_node_prepare(g, n);
}

qg_status qg_op_like(qg_graph *g, const qg_node *n, const char *name, const qg_op **out)
{
    const qg_op *op = qg_op_find(g->ctx->registry, NULL, name, n->opset);
    if (!op)
        return qg_node_fail(g->ctx, QG_EUNSUPPORTED, "rewrite", n,
                            "there is no %s of its opset", name);
    *out = op;
    return QG_OK;
}
